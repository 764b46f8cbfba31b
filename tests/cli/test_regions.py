"""Regions of a model that oneDNN runs, as `mblob-pack run --profile` and `inspect` show them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.loader.dnnl import dnnl_graphs as ref

pytestmark = [pytest.mark.own_process, pytest.mark.usefixtures("onednn")]
MODEL = Path(__file__).resolve().parents[2].parent / "shared/golden/dnnl_llvm_factory.so"


@pytest.fixture
def inputs(tmp_path: Path) -> list[str]:
    if not MODEL.is_file():
        pytest.skip("no golden libraries beside this project")
    data = np.load(MODEL.with_name("dnnl_llvm.npz"))
    names = ("d1", "w1", "b1")
    for name in names:
        np.save(tmp_path / f"{name}.npy", data[name])
    return [f"{name}={name}.npy" for name in names]


def test_a_profile_shows_the_primitives_of_each_region(pack: Any, inputs: list[str]) -> None:
    done = pack("run", MODEL, *inputs, "--profile", "--repeat", "2")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    at = next(i for i, line in enumerate(lines) if "tvmgen_default_dnnl_main_0" in line)
    below = []
    for line in lines[at + 1 :]:
        if not line.startswith("        "):
            break
        below.append(line)
    assert any(
        re.fullmatch(r" {8}convolution \S+ +[0-9.e-]+ [mn]s +[0-9.]+ %  nn\.conv2d \(node 2\)", s)
        for s in below
    ), below
    report = json.loads(pack("run", MODEL, *inputs, "--profile", "--json").stdout)
    nodes = {node["function"]: node for node in report["nodes"]}
    region = nodes["tvmgen_default_dnnl_main_0"]
    assert sum(p["seconds"] for p in region["primitives"]) > 0
    assert {"node", "operator", "primitive", "implementation", "threads"} < {
        *region["primitives"][0]
    }
    assert all("primitives" not in node for name, node in nodes.items() if "dnnl" not in name)


def test_an_entry_lists_calls_and_constants_of_a_region(pack: Any, tmp_path: Path) -> None:
    ref.export([ref.small_convolution("listed").module()], tmp_path)
    done = pack("inspect", "dnnl.so", "--entry", "dnnl_json")
    assert (done.returncode, done.stderr) == (0, "")
    text = done.stdout
    assert "  inputs     1\n    listed_i1  float32[1, 4, 6, 6]\n" in text
    assert "  constants  2\n    listed_const_0  float32[8, 4, 3, 3]\n" in text
    assert (
        "  calls      1\n    3  dnnl.conv2d_bias_relu(float32[1, 4, 6, 6], float32[8, 4, 3, 3], float32[8])"
        " -> float32[1, 8, 6, 6]\n"
    ) in text
