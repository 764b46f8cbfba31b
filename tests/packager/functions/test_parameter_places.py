"""The places of parameters of a packed graph: aligned in the library, for use without a copy."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.format.grammar import decode_payload
from tests.loader.executors.test_graph_executor import FUNCTIONS, KERNELS, B, W, graph

# Their operators are plain C functions, which mblob's executor can call.
pytestmark = pytest.mark.filterwarnings("ignore::mblob.errors.PortabilityWarning")

# The address of its second argument, in the bytes of its third.
WHERE = """#include <string.h>
void scale(const float *x, const float *w, float *y) { (void)x; memcpy(y, &w, sizeof w); }
"""
TEXT = json.dumps(graph())


CALLED = TEXT.replace('"scale"', '"scale__packed"').replace('"plus"', '"plus__packed"')


def packed(
    path: Path, params: dict[str, Any], text: str = TEXT, kernels: str = KERNELS, **options: Any
) -> Path:
    factory = mblob.graph_executor_factory(text, params)
    functions = FUNCTIONS if kernels == KERNELS else FUNCTIONS[:1]
    factory.import_module(mblob.csource_module(kernels, functions=functions))
    factory.export_library(path, **options)
    return path


def places(path: Path) -> dict[str, int]:
    """Offset of each parameter's data in the blob, modulo 64."""
    with mblob.open(path) as library:
        entry = next(e for e in library.entries if e.type_key == "GraphExecutorFactory")
        found = decode_payload("GraphExecutorFactory", entry.view())["params"]
        return {name: (entry.offset + array.offset) % 64 for name, array in found.items()}


@pytest.mark.sample(3)
@pytest.mark.parametrize("blanks", range(0, 64, 7))
@pytest.mark.parametrize("name", ["w", "a name of another length"])
def test_a_parameter_is_aligned_whatever_stands_before_it(
    tmp_path: Path, blanks: int, name: str
) -> None:
    text = TEXT[:1] + " " * blanks + TEXT[1:]
    assert places(packed(tmp_path / "m.so", {name: np.zeros(5)}, text)) == {name: 0}


@pytest.mark.parametrize(
    "options", [{"embed": "object"}, {"embed": "append"}, {"index": False}, {"digest": "none"}]
)
def test_it_is_used_where_it_is(tmp_path: Path, options: dict[str, Any]) -> None:
    text = graph()
    text["nodes"][4]["attrs"]["func_name"] = "__nop"
    text["nodes"][4]["inputs"] = [[3, 0, 0]]
    text["nodes"][4]["attrs"]["num_inputs"] = "1"
    text["attrs"]["storage_id"][1] = [0, 1, 2, 3, 3, 3]
    path = packed(tmp_path / "m.so", {"w": W}, json.dumps(text), WHERE, **options)
    model = mblob.graph_executor.GraphModule(mblob.load_module(path)["default"](mblob.cpu(0)))
    model.run(x=W)
    (address,) = struct.unpack("P", model.get_output(0).numpy().tobytes()[: struct.calcsize("P")])
    rows = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    (found,) = [
        row for row in rows if address in range(*(int(end, 16) for end in row[0].split("-")))
    ]
    assert found[5:] == [str(path)]


def test_the_most_bytes_are_aligned_where_not_all_can_be(tmp_path: Path) -> None:
    large, small = np.zeros((64, 16), "f"), np.zeros(16, "f")
    for params in ({"w": large, "b": small}, {"b": small, "w": large}):
        found = places(packed(tmp_path / "m.so", params))
        assert found["w"] == 0
        assert found["b"] != 0
    # Records of three dimensions are multiples of 64 long.
    cubes = {name: np.zeros((4, 4, 4), "f") for name in "abcd"}
    assert set(places(packed(tmp_path / "m.so", {"small": small, **cubes})).values()) == {0}


def test_the_graph_comes_back_as_it_was(tmp_path: Path) -> None:
    for blanks in range(5):
        lib = mblob.load_module(
            packed(tmp_path / f"{blanks}.so", {"w": W, "b": B}, TEXT[:-1] + "\n" * blanks + "}")
        )
        expected = CALLED[:-1] + "\n" * blanks + "}"
        assert lib["get_graph_json"]() == lib.get_source("json") == expected
        np.testing.assert_array_equal(lib["get_graph_params"]("w").numpy(), W)


def test_without_parameters_nothing_is_added(tmp_path: Path) -> None:
    with mblob.open(packed(tmp_path / "m.so", {})) as library:
        payload = bytes(library.entries[0].view())
    assert (
        bytes(decode_payload("GraphExecutorFactory", memoryview(payload))["graph_json"]).decode()
        == CALLED
    )


def test_a_factory_packed_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    factory = mblob.graph_executor_factory(TEXT, {"w": W, "b": B})
    factory.import_module(mblob.csource_module(KERNELS, functions=FUNCTIONS))
    for name in ("one.so", "two.so"):
        factory.export_library(tmp_path / name)
    with mblob.open(tmp_path / "one.so") as one, mblob.open(tmp_path / "two.so") as two:
        assert [bytes(e.view()) for e in one.entries[:1]] == [
            bytes(e.view()) for e in two.entries[:1]
        ]
