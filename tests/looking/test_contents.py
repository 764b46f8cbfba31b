"""The contents of payloads that are shown: graphs, executables of both virtual machines, constants,
weights, code; and damaged ones."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.errors import FormatError
from mblob.format import grammar
from mblob.inspect import graph_summary
from mblob.inspect.contents import DecodedPayload, read_content
from tests.loader.executors import vm_programs
from tests.loader.executors.relax_programs import TAGS
from tests.loader.payloads import unread_module
from tests.looking.conftest import CUDA, string, u64


def content(key: str, payload: bytes, ffi: bool = False, of_0_21: bool = False) -> DecodedPayload:
    grammars = (
        grammar.FFI_GRAMMARS_OF_0_21
        if of_0_21
        else grammar.FFI_GRAMMARS
        if ffi
        else grammar.GRAMMARS
    )
    return read_content(key, memoryview(payload), grammars)


def array(values: Any) -> bytes:
    a = np.asarray(values)
    code = {"f": 2, "i": 0}[a.dtype.kind]
    head = (
        u64(0xDD5E40F096B4A13F, 0)
        + struct.pack("<iii", 1, 0, a.ndim)
        + bytes([code, a.dtype.itemsize * 8, 1, 0])
    )
    return head + struct.pack(f"<{a.ndim}q", *a.shape) + u64(a.nbytes) + a.tobytes()


def strings(*values: str) -> bytes:
    return u64(len(values)) + b"".join(map(string, values))


W, B = np.arange(6, dtype="float32").reshape(2, 3), np.int64(7)


def check_tensor(found: DecodedPayload, payload: bytes, name: str, value: Any) -> None:
    t = next(t for t in found.tensors if t.name == name)
    expected = np.asarray(value)
    assert (t.dtype, t.shape, t.size) == (str(expected.dtype), expected.shape, expected.nbytes)
    assert payload[t.offset : t.offset + t.size] == expected.tobytes()


@pytest.mark.parametrize("key", ["const_loader", "metadata"])
def test_constants_and_who_gets_them(key: str) -> None:
    payload = (
        strings("w", "b")
        + u64(2)
        + array(W)
        + array(B)
        + strings("f", "g")
        + u64(2)
        + strings("w")
        + strings()
    )
    found = content(key, payload)
    assert found.facts == {"symbols": {"f": ["w"], "g": []}}
    check_tensor(found, payload, "w", W)
    check_tensor(found, payload, "b", B)


GRAPH: dict[str, Any] = {
    "nodes": [
        {"op": "null", "name": "x", "inputs": []},
        {"op": "null", "name": "w", "inputs": []},
        {"op": "tvm_op", "name": "a", "inputs": [[0, 0, 0], [1, 0, 0]],
         "attrs": {"func_name": "add", "num_inputs": "2", "num_outputs": "1", "flatten_data": "0"}},
        {"op": "tvm_op", "name": "b", "inputs": [[2, 0, 0], [1, 0, 0]],
         "attrs": {"func_name": "add", "num_inputs": "2", "num_outputs": "2", "flatten_data": "0"}},
    ],
    "arg_nodes": [0, 1], "heads": [[3, 1, 0]], "node_row_ptr": [0, 1, 2, 3, 5],
    "attrs": {"dltype": ["list_str", ["float32", "int8", "float32", "bool", "float16x4"]],
              "storage_id": ["list_int", [0, 1, 0, 2, 2]], "shape": ["list_shape", [[2, 3], [5], [9], [7], [3]]],
              "device_index": ["list_int", [1, 1, 1, 2, 2]]},
}  # fmt: skip


@pytest.mark.parametrize("key", ["GraphExecutorFactory", "GraphRuntimeFactory"])
def test_a_factory_has_a_graph_and_parameters(key: str) -> None:
    payload = string(json.dumps(GRAPH)) + u64(1) + strings("w") + array(W) + string("default")
    found = content(key, payload)
    assert found.facts["module_name"] == "default"
    assert found.facts["graph"] == {
        "nodes": 4,
        "inputs": [
            {"name": "x", "shape": [2, 3], "dtype": "float32"},
            {"name": "w", "shape": [5], "dtype": "int8"},
        ],
        "outputs": [{"name": "b", "shape": [3], "dtype": "float16x4"}],
        "operators": {"add": 2},
        "storage": {"buffers": 3, "bytes": 36 + 5 + 24},
        "devices": [1, 2],
    }
    check_tensor(found, payload, "w", W)


def test_a_json_runtime_keeps_shapes_at_its_nodes() -> None:
    shapes = {"shape": [[[1, 3], [4]]], "dtype": [["float32", "int8"]]}
    nodes = [{"op": "input", "name": "x", "attrs": shapes}, {"op": "const", "name": "c"}]
    nodes += [{"op": "kernel", "name": "nn.conv2d", "inputs": [[0, 0, 0]], "attrs": shapes}]
    graph = json.dumps(
        {"nodes": nodes, "arg_nodes": [0, 1], "heads": [[2, 1, 0]], "node_row_ptr": [0, 2, 3, 5]}
    )
    found = content("dnnl_json", string("sub") + string(graph) + strings("c0")).facts
    assert (found["symbol"], found["const_names"]) == ("sub", ["c0"])
    assert found["graph"]["operators"] == {"nn.conv2d": 1}
    assert found["graph"]["inputs"][0] == {"name": "x", "shape": [1, 3], "dtype": "float32"}
    assert found["graph"]["outputs"] == [{"name": "nn.conv2d", "shape": [4], "dtype": "int8"}]
    assert found["graph"]["storage"] is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"nodes": 3}',
        '{"nodes": [1]}',
        "[" * 100_000,
        '{"nodes": [' + "1" * 5000 + "]}",
        "\xff",
    ],
)
def test_a_graph_that_is_none_is_a_problem_and_no_error(text: str) -> None:
    found = content("dnnl_json", string("sub") + string(text.encode("latin-1")) + strings())
    assert found.problem is not None
    assert "\n" not in str(found.problem)
    assert found.facts["symbol"] == "sub"


ODD = [
    None,
    3,
    -1,
    1 << 70,
    1.5,
    True,
    "x",
    [],
    [1],
    [[1, 2]],
    [[-1, 5]],
    {},
    {"shape": 3},
    [["list_int", [1]]],
]


@pytest.mark.parametrize("field", ["arg_nodes", "heads", "node_row_ptr", "attrs"])
@pytest.mark.parametrize("value", ODD, ids=str)
def test_odd_values_in_a_graph_tell_less(field: str, value: Any) -> None:
    raw = json.dumps({**GRAPH, field: value}).encode()
    assert graph_summary.summarize(memoryview(raw))["nodes"] == 4


@pytest.mark.parametrize("name", ["dltype", "storage_id", "shape", "device_index"])
@pytest.mark.parametrize("value", ODD, ids=str)
def test_odd_attributes_of_a_graph_tell_less(name: str, value: Any) -> None:
    for stored in (value, ["list", value], ["list", [value] * 5]):
        raw = json.dumps({**GRAPH, "attrs": {**GRAPH["attrs"], name: stored}}).encode()
        assert graph_summary.summarize(memoryview(raw))["operators"] == {"add": 2}


@pytest.mark.parametrize("release", vm_programs.RELEASES)
def test_relay_executables_of_each_release_are_read(release: str) -> None:
    for program in (
        vm_programs.arithmetic(),
        vm_programs.choice(),
        vm_programs.calls(),
        vm_programs.shapes(),
    ):
        payload = program.of(release).payload(release)
        found = content("VMExecutable", payload)
        assert found.problem is None
        machine = found.facts["executable"]
        assert (machine["machine"], machine["version"]) == ("relay", release)
        assert machine["primitives"] == list(program.primitives)
        assert [
            (f["name"], f["params"], f["registers"], f["instructions"])
            for f in machine["functions"]
        ] == [
            (name, list(f.params), f.registers, len(f.code))
            for name, f in program.of(release).functions.items()
        ]
        for i, value in enumerate(program.constants):
            check_tensor(found, payload, f"constant {i}", value)


def test_functions_of_relay_have_the_numbers_of_their_names() -> None:
    """Instructions count the globals; the table of functions may have another order."""
    functions = {name: vm_programs.Function([], 1, [("Ret", 0)]) for name in ("a", "b")}
    payload = vm_programs.Program(functions).payload("0.14.0")
    machine = content(
        "VMExecutable", payload.replace(strings("a", "b"), strings("b", "a"), 1)
    ).facts["executable"]
    assert [f["name"] for f in machine["functions"]] == machine["globals"] == ["b", "a"]


def relax(tags: dict[str, int], magic: int) -> bytes:
    """An executable with a constant of each kind."""
    functions = (
        u64(2)
        + struct.pack("<i", 1)
        + string("main")
        + struct.pack("<4q", 0, 2, 1, 5)
        + strings("x")
    )
    functions += (
        struct.pack("<i", 0) + string("vm.builtin.f") + struct.pack("<4q", 0, 0, -2, 0) + strings()
    )
    scopes = u64(1) + struct.pack("<q", 0) + string("global") if magic & 1 == 0 else b""
    values = {
        "tensor": array(W),
        "shape": u64(2, 3, 4),
        "string": string("text"),
        "int": u64(5),
        "float": struct.pack("<d", 0.5),
        "dtype": bytes([2, 32, 1, 0]),
    }
    constants = u64(len(values)) + b"".join(
        struct.pack("<i", tags[k]) + v for k, v in values.items()
    )
    return (
        u64(magic)
        + string("0.14")
        + functions
        + scopes
        + constants
        + u64(2, 0, 4)
        + u64(6, 1, 1 << 54, 1, 0, 2, 0)
    )


KINDS = ("tensor", "dtype", "shape", "string", "int", "float")
CLASSIC, OF_0_21, FFI = (dict(zip(KINDS, TAGS[dialect])) for dialect in ("classic", "0.21", "ffi"))


@pytest.mark.parametrize(
    ("key", "tags", "magic", "ffi"),
    [
        ("relax.Executable", CLASSIC, 0xD225DE2F4214151D, False),
        ("relax.VMExecutable", CLASSIC, 0xD225DE2F4214151D, False),
        ("relax.VMExecutable", OF_0_21, 0xD225DE2F4214151D, False),
        ("relax.VMExecutable", FFI, 0xD225DE2F4214151D, True),
        ("relax.VMExecutable", FFI, 0xD225DE2F4214151E, True),
    ],
)
def test_relax_executables_of_each_dialect_are_read(
    key: str, tags: dict[str, int], magic: int, ffi: bool
) -> None:
    code = relax(tags, magic)
    payload = code if ffi else string(code)
    found = content(key, payload, ffi, tags is OF_0_21)
    assert found.problem is None
    machine = found.facts["executable"]
    assert [
        (f["name"], f["kind"], f["num_args"], f["instructions"]) for f in machine["functions"]
    ] == [
        ("main", "vm", 1, 2),
        ("vm.builtin.f", "packed", -1, 0),
    ]
    assert machine["constant_kinds"] == dict.fromkeys(tags, 1)
    assert (machine["layout"], machine["instructions"]) == (2 if magic & 1 == 0 else 1, 2)
    assert machine["scopes"] == ([{"constant": 0, "scope": "global"}] if magic & 1 == 0 else [])
    check_tensor(found, payload, "constant 0", W)
    for size in range(len(payload)):  # each cut is a problem, and no error
        assert content(key, payload[:size], ffi, tags is OF_0_21).problem is not None


def test_device_code_is_told_by_its_bytes_not_its_label() -> None:
    facts = content("cuda", CUDA).facts
    assert facts["code"] == {
        "size": len("//PTX\n.target sm_80\n"),
        "kind": "ptx",
        "target": "sm_80",
    }
    head = CUDA[: CUDA.index(b"//PTX") - 8]
    assert content("cuda", head + string(b"\x50\xed\x55\xba1234")).facts["code"] == {
        "size": 8,
        "kind": "fatbin",
    }
    cubin = bytearray(64)
    cubin[:4], cubin[18], cubin[48] = b"\x7fELF", 190, 86
    assert content("cuda", head + string(bytes(cubin))).facts["code"]["target"] == "sm_86"


def test_modules_that_are_merged_into_the_library_elsewhere() -> None:
    found = content("c", string("int f;") + string("c") + strings("f", "g") + strings("w")).facts
    assert found == {
        "code": {"size": 6, "kind": "text"},
        "fmt": "c",
        "func_names": ["f", "g"],
        "const_names": ["w"],
    }
    found = content("static_library", string(b"\x7fELF" + bytes(60)) + strings("f")).facts
    assert found == {"code": {"size": 64, "kind": "elf"}, "func_names": ["f"]}


def test_parameters_under_any_key_are_known_by_their_magic() -> None:
    payload = mblob.save_param_dict({"w": W})
    check_tensor(content("my_weights", payload), payload, "w", W)
    assert content("my_weights", payload[:-1]).problem is not None
    assert content("my_key", b"anything") == DecodedPayload()


def test_weights_are_listed_without_being_read() -> None:
    head = json.dumps({"w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}).encode()
    payload = u64(len(head)) + head + W.tobytes()
    check_tensor(content("safetensors", payload), payload, "w", W)
    assert isinstance(content("safetensors", payload[:-1]).problem, FormatError)


def test_a_payload_that_an_index_bounds_may_be_damaged(tmp_path: Path, validate: Any) -> None:
    """The file opens, the entry says what is wrong, and so do the remarks."""
    host = mblob.csource_module("int f(int x) { return x; }\n", fmt="c", functions=["int f(int x)"])
    host.import_module(unread_module("cuda", CUDA[:-5]))
    host.export_library(tmp_path / "x.so")
    with mblob.open(tmp_path / "x.so", verify="off") as lib:
        entry = lib.entries[1]
        assert entry.tensors == []
        assert entry.content.problem is not None
        report = lib.to_json()
        assert "cuda" in report["entries"][1]["problem"]
        assert [d["code"] for d in report["diagnostics"]] == ["truncated"]
        validate(report)


@pytest.mark.skipif(
    not hasattr(sys, "set_int_max_str_digits"), reason="Python 3.9.13 or before reads any number"
)
def test_a_number_in_a_graph_with_more_digits_than_python_reads_is_said_in_words_of_ours() -> None:
    from mblob.format.graph_json import GraphError
    from mblob.inspect.graph_summary import summarize

    with pytest.raises(GraphError, match=r"no JSON: a number has too many digits, over 512$"):
        summarize(memoryview(b'{"nodes": [], "x": ' + b"1" * 5000 + b"}"))
