"""Inputs, outputs and parameters of models are shown without being asked for, and without running
them."""

from __future__ import annotations

import json
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mblob
from mblob.cli import inspect_text
from mblob.inspect.library import open_library
from tests.loader import payloads

GRAPH = {
    "nodes": [
        {"op": "null", "name": "x", "inputs": []},
        {"op": "null", "name": "w", "inputs": []},
        {
            "op": "tvm_op", "name": "sum", "inputs": [[0, 0, 0], [1, 0, 0]],
            "attrs": {"func_name": "add", "num_inputs": "2", "num_outputs": "1", "flatten_data": "0"},
        },
    ],
    "arg_nodes": [0, 1], "heads": [[2, 0, 0]], "node_row_ptr": [0, 1, 2, 3],
    "attrs": {
        "dltype": ["list_str", ["float32"] * 3], "storage_id": ["list_int", [0, 1, 2]],
        "shape": ["list_shape", [[2, 3]] * 3],
    },
}  # fmt: skip
ADD = "void add(const float a[6], const float b[6], float c[6])"


@pytest.fixture
def library(tmp_path: Path) -> Path:
    root = mblob.graph_executor_factory(json.dumps(GRAPH), {"w": np.ones((2, 3), "f4")}, "small")
    body = " { for (int i = 0; i < 6; i++) c[i] = a[i] + b[i]; }"
    root.import_module(mblob.csource_module(ADD + body, functions=[ADD], packed="name"))
    root.export_library(tmp_path / "m.so")
    return tmp_path / "m.so"


def shown(path: Path) -> list[str]:
    with mblob.open(path) as opened:
        return [line.strip() for line in inspect_text.lines(opened)]


def model(path: Path) -> dict[str, object]:
    with mblob.open(path) as opened:
        (found,) = opened.to_json()["models"]
    return dict(found)


def test_a_graph_tells_its_inputs_outputs_and_parameters(library: Path) -> None:
    value = {"shape": [2, 3], "dtype": "float32"}
    assert model(library) == {
        "entry": 0,
        "kind": "graph",
        "name": "small",
        "inputs": [{"name": "x", **value}],
        "outputs": [{"name": "sum", **value}],
        "parameters": [{"name": "w", **value}],
    }
    lines = shown(library)
    at = lines.index("[0] graph 'small'")
    assert lines[at + 1 : at + 4] == [
        "input      x  float32[2, 3]",
        "output     sum  float32[2, 3]",
        "parameter  w  float32[2, 3]",
    ]


def test_functions_are_shown_with_names_and_extents_of_parameters(library: Path) -> None:
    assert ADD in "\n".join(shown(library))


def test_metadata_of_a_model_compiled_ahead_of_time_is_found_in_the_file(golden: Path) -> None:
    found = model(golden / "aot_mlp.so")
    assert found["inputs"] == [{"name": "data", "shape": [1, 1, 8, 8], "dtype": "float32"}]
    assert found["outputs"] == [{"name": "output0", "shape": [1, 10], "dtype": "float32"}]


def test_metadata_that_lies_is_left_out(golden: Path, tmp_path: Path) -> None:
    path = tmp_path / "lies.so"
    data = bytearray((golden / "aot_mlp.so").read_bytes())
    with mblob.open(golden / "aot_mlp.so") as opened:
        symbol = next(s for s in opened.elf.symtab if s.name == "__unnamed_1")
        at = opened.elf.offset_of(symbol.st_value, 80, "metadata")
    data[at + 16 : at + 24] = (1 << 62).to_bytes(8, "little")  # the number of inputs
    path.write_bytes(data)
    found = model(path)
    assert (found["inputs"], found["outputs"]) == (None, None)


def test_programs_tell_the_names_of_their_inputs(golden: Path) -> None:
    found = model(golden / "vm_mlp.so")
    assert (found["kind"], found["name"]) == ("relay", "main")
    assert found["inputs"] == [{"name": "data", "shape": None, "dtype": None}]
    assert found["outputs"] is None


def test_programs_of_the_ffi_dialect_tell_them_too(golden: Path) -> None:
    found = model(golden / "ffi" / "relax_c.so")
    assert (found["kind"], found["name"]) == ("relax", "main")
    assert found["inputs"] == [{"name": "x", "shape": [2, 3], "dtype": "float32"}]


def test_a_remark_without_an_action_is_in_json_alone(golden: Path) -> None:
    with mblob.open(golden / "mlp_llvm.so") as opened:
        remarks = {d["code"]: d["severity"] for d in opened.diagnostics}
    assert remarks == {"interposable_blob": "info"}
    assert not [line for line in shown(golden / "mlp_llvm.so") if "interposable" in line]


def test_code_that_may_find_another_blob_is_still_warned_of(tmp_path: Path) -> None:
    source = tmp_path / "u.c"
    blob = "18,0,0,0,0,0,0,0, " + "0,0,0,0,0,0,0,0, 0,0,0,0,0,0,0,0, 0,0"
    source.write_text(
        f"const unsigned char __tvm_dev_mblob[] = {{{blob}}}; void *__tvm_module_ctx;\n"
        "const void *f(void) { return __tvm_dev_mblob; }\n"
    )
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", tmp_path / "u.so"], check=True)
    with open_library(tmp_path / "u.so", partial=True) as opened:
        remarks = {d["code"]: d["severity"] for d in opened.diagnostics}
    assert remarks["interposable_blob"] == "warning"


AHEAD = """
#include <stdint.h>
struct type { uint8_t code, bits; uint16_t lanes; };
struct tensor { const char *name; const int64_t *shape; int64_t ndim; struct type dtype; };
struct metadata {
  int64_t version;
  const struct tensor *inputs; int64_t input_count;
  const struct tensor *outputs; int64_t output_count;
  const void *pools; int64_t pool_count;
  const void *constants; int64_t constant_count;
  const char *name;
};
static const int64_t one = 1, shape[] = {1, 10};
static const struct tensor inputs[] = {{"x", shape, 2, {2, 32, 1}}, {"v", shape + 1, 1, {0, 8, 4}}};
static const struct tensor outputs[] = {{"y", 0, 0, {2, 64, 1}}};
static const struct metadata meta = {1, inputs, 2, outputs, 1, 0, 0, 0, 0, "tvmgen_m"};
/* like the structure as far as the version and the first pointer go, with no text at its end */
const struct metadata looks_alike = {1, inputs, 2, 0, 0, 0, 0, 0, 0, (const char *)&one};
int64_t in_memory_alone[2];
void *at_its_end = (char *)in_memory_alone + 8;
const void *get_c_metadata(void) { return &meta; }
int tvmgen_m___tvm_main__(void) { return 0; }
"""


@pytest.mark.parametrize(
    ("cc", "options"),
    [
        ("cc", []),
        ("cc", ["-Wl,-z,pack-relative-relocs"]),
        ("i686-linux-gnu-gcc", []),
        ("arm-linux-gnueabihf-gcc", []),
        ("powerpc64-linux-gnu-gcc", []),
        ("s390x-linux-gnu-gcc", []),
    ],
    ids=lambda value: value if isinstance(value, str) else "relr" if value else "",
)
def test_metadata_is_found_for_any_machine(
    cc: str, options: list[str], require: Callable[[str], str], tmp_path: Path
) -> None:
    """With pointers of 32 and 64 bits, in relocations with and without an addend, and packed."""
    for tool in (cc, "ld.lld" if options else cc):
        require(tool)
    root = mblob.blob_module("AotExecutorFactory", payloads.aot_factory({}, "m"))
    root.import_module(mblob.csource_module(AHEAD))
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # TVM's executor wants packed functions, which are not called here
        root.export_library(tmp_path / "m.so", cc=cc, options=options)
    found = model(tmp_path / "m.so")
    assert found["inputs"] == [
        {"name": "x", "shape": [1, 10], "dtype": "float32"},
        {"name": "v", "shape": [10], "dtype": "int8x4"},
    ]
    assert found["outputs"] == [{"name": "y", "shape": [], "dtype": "float64"}]
