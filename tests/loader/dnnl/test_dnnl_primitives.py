"""Primitives of a dnnl_json module: oneDNN's names for what computes them, and their times."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.loader.dnnl import dnnl_graphs as ref
from tests.loader.dnnl.dnnl_graphs import small_convolution as conv

pytestmark = [pytest.mark.own_process, pytest.mark.usefixtures("onednn")]


def region(lib: mblob.Module) -> mblob.Module:
    return next(module for module in lib.walk() if module.type_key == "dnnl_json")


def rows(module: mblob.Module) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(module.get_function("get_primitives")())
    return found


def test_primitives_have_names_of_onednn_and_times_while_they_are_profiled(tmp_path: Path) -> None:
    graph = conv("timed")
    lib = ref.export([graph.module()], tmp_path)
    module = region(lib)
    profile = module.get_function("profile_primitives")
    assert rows(module) == []  # nothing is made before the first call
    graph.check(lib)
    before = rows(module)
    (convolution,) = [row for row in before if row["primitive"] == "convolution"]
    assert {row["primitive"] for row in before} <= {"convolution", "reorder"}
    assert (convolution["node"], convolution["operator"]) == (3, "dnnl.conv2d_bias_relu")
    assert re.search(r"[a-z]", convolution["implementation"]) and convolution["threads"] >= 1
    assert all((row["calls"], row["seconds"]) == (0, 0) for row in before)
    profile(True)
    for _ in range(3):
        graph.check(lib)
    assert all(row["calls"] == 3 and row["seconds"] > 0 for row in rows(module))
    profile(False)
    graph.check(lib)
    assert all(row["calls"] == 0 for row in rows(module))


@pytest.mark.parametrize(
    ("operator", "kind"),
    [("add", "binary"), ("tanh", "eltwise"), ("nn.softmax", "softmax"), ("concatenate", "concat")],
)
def test_kinds_have_the_names_of_onednn(operator: str, kind: str, tmp_path: Path) -> None:
    graph = ref.Graph("kind")
    x = ref.floats(2, 8)
    entry = graph.input(x)
    inputs = [entry, entry] if kind in ("binary", "concat") else [entry]
    shape = (4, 8) if kind == "concat" else (2, 8)
    axis = 0 if kind == "concat" else 1  # rows of softmax lie side by side
    graph.result(graph.kernel(operator, inputs, shape, axis=axis), np.zeros(shape, "float32"))
    lib = ref.export([graph.module()], tmp_path)
    graph.run(lib)
    kinds = [row["primitive"] for row in rows(region(lib))]
    assert [k for k in kinds if k != "reorder"] == [kind]


@pytest.mark.parametrize("given", [(), (1, 2), ("yes",)])
def test_what_else_is_given_in_place_of_a_flag_is_refused(
    given: tuple[Any, ...], tmp_path: Path
) -> None:
    module = region(ref.export([conv("flag").module()], tmp_path))
    with pytest.raises(TypeError, match="profile_primitives of dnnl_json flag: expected true or"):
        module.get_function("profile_primitives")(*given)


def test_profiles_begin_and_end_while_calls_run_and_constants_change(tmp_path: Path) -> None:
    graph = conv("busy")
    lib = ref.export([graph.module()], tmp_path)
    graph.check(lib)
    module = region(lib)
    init = module.get_function("__init_busy")
    done, wrong = threading.Event(), []

    def call() -> None:
        try:
            while not done.is_set():
                graph.check(lib)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=call) for _ in range(2)]
    for thread in threads:
        thread.start()
    for i in range(40):
        module.get_function("profile_primitives")(i % 2 == 0)
        init(*graph.constants.values())
        assert rows(module)
    done.set()
    for thread in threads:
        thread.join()
    assert wrong == []
