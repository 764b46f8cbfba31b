"""Constructors of serialized modules: the bytes TVM reads, and what they refuse."""

from __future__ import annotations

import array
import ctypes
import json
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mblob
from mblob.bytes.sink import BytesSink
from mblob.errors import StateError
from mblob.format.grammar import decode_payload
from mblob.format.own_functions import GRAPH_FUNCTIONS
from mblob.format.type_keys import ROWS, TAKEN
from mblob.packager.errors import BuildError
from mblob.packager.modules.payload_modules import graph_executor_factory
from mblob.packager.write.blob_stream import plan_blob
from mblob.packager.write.devc_c import to_c

CL = "__kernel void k(__global float *a) {}"
GRAPH = '{"nodes": [], "arg_nodes": [], "heads": [], "node_row_ptr": [0]}'


def blob_of(root: mblob.Module, *, index: bool = False) -> bytes:
    sink = BytesSink()
    plan, _ = plan_blob(root, index=index, target="x86_64-linux-gnu")
    plan.write(sink)
    return bytes(sink.data)


def string(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def test_a_cuda_module_under_a_library_has_the_bytes_that_tvm_wrote() -> None:
    """docs/format.md, section 8: 218 bytes, written by TVM 0.14."""
    host = mblob.csource_module(";")
    tags = ["blockIdx.x", "threadIdx.x"]
    host.import_module(
        mblob.device_module("cuda", "//PTX", functions=[("k", ["handle", "int32"], tags)])
    )
    q = struct.Struct("<Q").pack
    want = (
        q(210)
        + q(3)
        + string("_lib")
        + string("cuda")
        + string("ptx")
        + q(1)
        + string("k")
        + string("")
    )
    want += (
        q(2)
        + bytes.fromhex("03400100 00200100")
        + q(2)
        + string(tags[0])
        + string(tags[1])
        + string("//PTX")
    )
    want += string("_import_tree") + q(3) + q(0) + q(1) + q(1) + q(1) + q(1)
    assert len(want) == 218
    assert blob_of(host) == want


def test_the_dag_of_tvm_is_written_as_tvm_wrote_it(golden: Path) -> None:
    def make(node: Any) -> mblob.Module:
        key, symbol, imports = node
        module = (
            mblob.csource_module(";") if key == "library" else mblob.json_module(key, symbol, GRAPH)
        )
        for child in imports:
            module.import_module(make(child))
        return module

    root = make(json.loads((golden / "dag.json").read_text()))
    assert to_c(blob_of(root)) == (golden / "dag_devc.c").read_text()


def test_an_opencl_module_of_tvm_is_rebuilt_byte_for_byte(golden: Path) -> None:
    with mblob.open(golden / "opencl_llvm.so") as lib:
        entry = next(e for e in lib.entries if e.type_key == "opencl")
        payload = bytes(entry.view())
    fields = decode_payload("opencl", memoryview(payload))
    source = bytes(fields["data"]).decode()
    module = mblob.device_module("opencl", source, functions=fields["functions"].values())
    assert bytes(module.payload) == payload
    assert module.get_source() == source


def test_a_graph_executor_factory_of_tvm_is_rebuilt_byte_for_byte(golden: Path) -> None:
    with mblob.open(golden / "mlp_llvm.so") as lib:
        entry = next(e for e in lib.entries if e.type_key == "GraphExecutorFactory")
        payload = bytes(entry.view())
    fields = decode_payload("GraphExecutorFactory", memoryview(payload))
    graph = bytes(fields["graph_json"]).decode()
    module = mblob.graph_executor_factory(
        graph, fields["params"], bytes(fields["module_name"]).decode()
    )
    assert bytes(module.payload) == payload
    assert module.get_source("json") == graph


def test_parameters_may_come_as_arrays_or_as_saved_bytes() -> None:
    params = {"w": array.array("f", [1, 2]), "b": (ctypes.c_int8 * 3)(1, 2, 3)}
    module = mblob.graph_executor_factory(GRAPH, params)
    found = decode_payload("GraphExecutorFactory", module.payload)
    assert {n: (str(r.dtype), r.shape, bytes(r.data)) for n, r in found["params"].items()} == {
        "w": ("float32", (2,), struct.pack("<2f", 1, 2)),
        "b": ("int8", (3,), b"\1\2\3"),
    }
    saved = mblob.graph_executor_factory(GRAPH, mblob.save_param_dict(params))
    again = decode_payload("GraphExecutorFactory", saved.payload)
    assert set(again["params"]) == {"w", "b"}


@pytest.mark.parametrize(
    ("kind", "source", "fmt"),
    [
        ("cuda", "//PTX", "ptx"),
        ("cuda", b"\x7fELF cubin", "cubin"),
        ("hip", b"\x7fELF hsaco", "hsaco"),
        ("hip", "source", "hip"),
        ("opencl", "// Function: k\n__kernel void k() {}\n", "cl"),
    ],
)
def test_the_format_of_device_code_is_seen_from_it(kind: str, source: Any, fmt: str) -> None:
    module = mblob.device_module(kind, source, functions=[("k", [])])
    fields = decode_payload(kind, module.payload)
    assert (bytes(fields["fmt"]).decode(), set(fields["functions"])) == (fmt, {"k"})


@pytest.mark.parametrize(
    ("kind", "fmt"),
    [(k, f) for k in ("opencl", "metal", "vulkan", "webgpu") for f in ROWS[k].formats],
)
def test_a_module_of_each_format_follows_its_grammar(kind: str, fmt: str) -> None:
    module = mblob.device_module(kind, b"1234", [("k", [])], fmt)  # type: ignore[arg-type]
    assert set(decode_payload(kind, module.payload)["functions"]) == {"k"}


@pytest.mark.parametrize("key", ["metadata", "c", "cuda", "opencl", "hexagon", "safetensors"])
@pytest.mark.parametrize("dialect", ["classic", "ffi"])
def test_bytes_that_readers_of_their_key_cannot_read_are_refused(
    tmp_path: Path, key: str, dialect: Any
) -> None:
    if key == "metadata" and dialect == "ffi":
        return  # which has no such key
    about = b'{"made by": "me"}'
    (tmp_path / "about.json").write_bytes(about)
    modules = [
        mblob.blob_module(key, tmp_path / "about.json"),
        mblob.blob_module(key, iter([about[:9], about[9:]])),
        mblob.Module(key, payload=about),
        mblob.Module(key, save=lambda: about),
    ]
    for module in modules:
        with pytest.raises(BuildError, match=f"the payload of '{key}' .* key, such as 'my_{key}'"):
            module.export_library(tmp_path / "x.so", dialect=dialect)


def test_bytes_that_readers_of_their_key_can_read_are_packed(tmp_path: Path) -> None:
    root = mblob.csource_module("")
    code = bytes(mblob.device_module("cuda", "//PTX", functions=["k"]).payload)
    weights = bytes(mblob.safetensors_module({"w": array.array("f", [1])}).payload)
    root.import_module(mblob.blob_module("cuda", [code[:9], code[9:]]))
    root.import_module(mblob.blob_module("safetensors", weights))
    root.export_library(tmp_path / "x.so")
    assert mblob.verify(tmp_path / "x.so").entries[1].walked
    assert list(mblob.load_module(tmp_path / "x.so").tensors) == ["w"]


@pytest.mark.parametrize(("symbol", "names"), [(5, ["a"]), ("k", [5]), (None, []), ("k", [-5])])
def test_a_name_of_a_graph_of_others_is_text(symbol: Any, names: Any) -> None:
    with pytest.raises(mblob.BuildError, match=r"json_module: .*: expected str, found") as caught:
        mblob.json_module("dnnl_json", symbol, {}, names)
    assert isinstance(caught.value, TypeError)


def test_opencl_source_gets_the_delimiters_that_tvm_needs() -> None:
    source = "__kernel void a() {}\n__kernel void b() {}\n"
    module = mblob.device_module("opencl", source, functions=["a", "b"])
    data = bytes(decode_payload("opencl", module.payload)["data"]).decode()
    assert [line for line in data.splitlines() if line.startswith("//")] == [
        "// Function: a",
        "// Function: b",
    ]
    assert module.get_source() == source


def test_opencl_source_with_too_few_delimiters_is_refused() -> None:
    with pytest.raises(BuildError, match="1 lines"):
        mblob.device_module("opencl", "// Function: a\n", functions=["a", "b"])


@pytest.mark.parametrize("source", ["kernel text", {"b": "B", "a": "A"}])
def test_metal_and_webgpu_keep_one_source_per_kernel(source: Any) -> None:
    for kind in ("metal", "webgpu"):
        fields = decode_payload(
            kind, mblob.device_module(kind, source, functions=["b", "a"]).payload
        )
        texts = {k: bytes(v).decode() for k, v in fields["sources"].items()}
        assert texts == (source if isinstance(source, dict) else {"a": source, "b": source})
        assert list(texts) == ["a", "b"]


def test_vulkan_shaders_keep_their_words() -> None:
    spirv = struct.pack("<3I", 0x07230203, 1, 2)
    fields = decode_payload(
        "vulkan", mblob.device_module("vulkan", {"k": (1, spirv)}, functions=["k"]).payload
    )
    assert bytes(fields["shaders"]["k"]) == spirv
    with pytest.raises(BuildError, match="multiple of 4"):
        mblob.device_module("vulkan", {"k": b"12345"}, functions=["k"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tpu", "x"), "kind: expected one of cuda"),
        (("cuda", "x", [("k", ["float33x"])]), "k: argument types"),
        (("cuda", "x", [("k", [], ["blockIdx.w"])]), "launch tag 'blockIdx.w'"),
        (("cuda", "x", [("k", [], ["tir.use_dyn_shared_memory", "blockIdx.x"])]), "launch tag"),
        (("cuda", "x", ["k", "k"]), "listed twice"),
        (("cuda", "x", [{"nam": "k"}]), "a function has name"),
        (("metal", {"a": "x"}, ["b"]), "no source for kernel 'b'"),
        (("webgpu", "x"), "expected functions="),
        (("cuda", 5), "expected source as text, bytes or a path"),
        (("opencl", CL, None, "zz"), "fmt: for opencl: expected one of cl, .*, spv, found 'zz'"),
        (("opencl", CL, None, "ptx"), "fmt: for opencl: expected one of cl"),
        (("opencl", CL, None, 5), "fmt: for opencl: expected one of cl, .*, found 5"),
        (("cuda", "//PTX", ["k"], "zz"), "fmt: for cuda: expected one of ptx, cubin, fatbin"),
        (("cuda", "//PTX", ["k"], "cl"), "fmt: for cuda: expected one of ptx, cubin, fatbin"),
        (("vulkan", b"1234", ["k"], "spv"), "fmt: for vulkan: expected one of vulkan"),
    ],
)
def test_impossible_device_modules_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(BuildError, match=message):
        mblob.device_module(*arguments)


def test_device_code_may_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text("//PTX")
    module = mblob.device_module("cuda", str(tmp_path / "k.ptx"), functions=["k"])
    assert module.get_source() == "//PTX"
    with pytest.raises(FileNotFoundError, match=r"nope\.ptx"):
        mblob.device_module("cuda", "nope.ptx")


def test_a_json_module_has_symbol_graph_and_names() -> None:
    module = mblob.json_module("dnnl_json", "f", {"nodes": []}, ["f_const_0"])
    fields = decode_payload("dnnl_json", module.payload)
    assert bytes(fields["symbol"]) == b"f"
    assert [bytes(n) for n in fields["const_names"]] == [b"f_const_0"]
    assert module.get_source() == '{"nodes": []}'
    with pytest.raises(BuildError, match="is no JSON"):
        mblob.json_module("dnnl_json", "f", "{nodes")


# -- blobs -----------------------------------------------------------------------------------------


def test_a_buffer_is_kept_without_copying() -> None:
    data = bytearray(b"abc")
    module = mblob.blob_module("my_key", data)
    data[0] = ord("X")
    assert bytes(module.payload) == b"Xbc"
    assert module.payload.readonly
    assert module.type_key == "my_key"


def test_a_file_is_mapped_and_pieces_are_joined(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"file")
    assert bytes(mblob.blob_module("k", tmp_path / "b").payload) == b"file"
    assert bytes(mblob.blob_module("k", str(tmp_path / "b")).payload) == b"file"
    (tmp_path / "empty").write_bytes(b"")
    assert bytes(mblob.blob_module("k", tmp_path / "empty").payload) == b""
    assert bytes(mblob.blob_module("k", (p for p in (b"a", bytearray(b"b")))).payload) == b"ab"


def test_an_iterable_can_be_exported_once(tmp_path: Path) -> None:
    host = mblob.csource_module(";")
    host.import_module(mblob.blob_module("k", iter([b"x"] * 3)))
    host.export_library(tmp_path / "a.so")
    with mblob.open(tmp_path / "a.so") as lib:
        assert bytes(lib.entries[1].view()) == b"xxx"
    with pytest.raises(StateError, match="used up"):
        host.export_library(tmp_path / "b.so")
    assert not (tmp_path / "b.so").exists()


@pytest.mark.parametrize(
    "key", ["_lib", "_import_tree", "library", "", "k" * 4097, "\ud800", "a\0b"]
)
def test_keys_of_the_format_itself_are_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(BuildError, match="type key"):
        mblob.blob_module(key, b"")
    if key and key != "library":  # which stands for linked code
        module = mblob.Module(key, payload=b"x")
        with pytest.raises(BuildError, match=r"export_library: .*type key"):
            module.export_library(tmp_path / "x.so", dialect="classic")


@pytest.mark.parametrize("payload", [5, None, {"a": 1}, memoryview(b"abcdef")[::2]])
def test_what_has_no_bytes_is_refused(payload: Any) -> None:
    with pytest.raises(BuildError, match="blob_module: expected bytes"):
        mblob.blob_module("k", payload)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nope"):
        mblob.blob_module("k", tmp_path / "nope")
    with pytest.raises(IsADirectoryError):
        mblob.blob_module("k", tmp_path)


# -- safetensors -----------------------------------------------------------------------------------


def safetensors(header: Any, data: bytes = b"", size: int | None = None) -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw) if size is None else size) + raw + data


def tensor(dtype: str = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


GOOD = safetensors(
    {"__metadata__": {"a": "b"}, "x": tensor(), "y": tensor("U8", (3,), (8, 11))}, bytes(range(11))
)


@pytest.mark.parametrize("as_file", [True, False])
def test_weights_are_unchanged_and_their_data_aligned(tmp_path: Path, as_file: bool) -> None:
    (tmp_path / "w.safetensors").write_bytes(GOOD)
    host = mblob.csource_module(";")
    host.import_module(mblob.safetensors_module(tmp_path / "w.safetensors" if as_file else GOOD))
    host.export_library(tmp_path / "x.so")
    with mblob.open(tmp_path / "x.so") as lib:
        entry = lib.entries[1]
        assert (entry.type_key, entry.data, bytes(entry.view())) == ("safetensors", True, GOOD)
        assert entry.offset is not None
        assert (entry.offset + len(GOOD) - 11) % 64 == 0


def test_weights_without_tensors_are_weights() -> None:
    assert bytes(mblob.safetensors_module(safetensors({})).payload) == safetensors({})


@pytest.mark.parametrize("key", ["c", "_lib"])
def test_the_error_about_a_taken_key_lists_all_as_the_guide_does(tmp_path: Path, key: str) -> None:
    with pytest.raises(BuildError, match=f"{key!r}.* mblob and TVM have _import_tree, ") as caught:
        mblob.blob_module(key, b"[]").export_library(tmp_path / "a.so")
    guide = (Path(__file__).parents[2] / "docs/howto/pack.md").read_text()
    (line,) = (part for part in guide.split("\n* ") if part.startswith("KEY is a name"))
    names = re.findall(r"`([^`]+)`", line)
    assert names == TAKEN and str(caught.value).endswith(", ".join(TAKEN))


@pytest.mark.parametrize("as_file", [True, False])
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty; expected .safetensors, .npz, .npy, or"),
        (safetensors({}, size=100), "safetensors: a header of 100 bytes, 2 are left"),
        (safetensors({"x": tensor("F33")}, bytes(8)), "safetensors: tensor 'x': dtype 'F33'"),
        (GOOD[:-1], "safetensors: tensor 'y': data_offsets .8, 11. lie outside 10 bytes of data"),
    ],
)
def test_damaged_weights_are_refused_before_anything_is_built(
    data: bytes, message: str, as_file: bool, tmp_path: Path
) -> None:
    (tmp_path / "w.safetensors").write_bytes(data)
    who = str(tmp_path / "w.safetensors") if as_file else "safetensors_module"
    with pytest.raises(mblob.FormatError, match=f"^{who}: {message}"):
        mblob.safetensors_module(tmp_path / "w.safetensors" if as_file else data)


def test_a_file_is_never_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "big").write_bytes(b"")
    with (tmp_path / "big").open("r+b") as file:
        file.truncate(1 << 40)  # a sparse TiB: reading it whole would be noticed
    module: Callable[..., Any] = mblob.blob_module
    assert len(module("k", tmp_path / "big").payload) == 1 << 40


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800", 7, *GRAPH_FUNCTIONS])
def test_a_model_has_a_name_that_can_be_asked_for(name: object) -> None:
    with pytest.raises(BuildError, match="graph_executor_factory: name: ") as caught:
        graph_executor_factory('{"nodes": []}', name=name)  # type: ignore[arg-type]
    assert repr(name) in str(caught.value) or "found int" in str(caught.value)


def test_the_names_that_factories_keep_are_those_of_the_runtime(tmp_path: Path) -> None:
    factory = graph_executor_factory('{"nodes": []}', name="é get_graph_json")
    factory.export_library(tmp_path / "m.so")
    opened = mblob.load_module(tmp_path / "m.so")
    for name in ("é get_graph_json", *GRAPH_FUNCTIONS):
        assert opened.get_function(name)
    with pytest.raises(AttributeError, match="it has: ") as caught:
        opened.get_function("no_such")
    listed = str(caught.value).split("it has: ")[1].split(", ")
    assert sorted(listed) == sorted(("é get_graph_json", *GRAPH_FUNCTIONS))
