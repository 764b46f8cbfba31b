"""The ffi dialect of TVM 0.21 and later, read for looking: TVM's own libraries, and blobs that
break its rules."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

import mblob
from mblob.errors import FormatError
from mblob.format import exported_functions, ffi_dialect
from mblob.format.grammar import FFI_GRAMMARS, decode_payload


def u64(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


def string(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return u64(len(raw)) + raw


def blob(
    *modules: bytes, indptr: tuple[int, ...] = (0, 1, 1), child: tuple[int, ...] = (1,)
) -> memoryview:
    body = u64(len(indptr), *indptr) + u64(len(child), *child) + b"".join(modules)
    return memoryview(u64(len(body)) + body)


LIB = string("_lib")
KERNEL = (
    string("k")
    + string("k")
    + u64(2)
    + bytes.fromhex("03400100 00200100")
    + u64(1)
    + string("threadIdx.x")
)
CUDA = string("ptx") + u64(1) + KERNEL + u64(2) + struct.pack("<2i", 0, 1) + string("//PTX")


@pytest.mark.parametrize(
    ("name", "tree", "kernels", "text"),
    [
        (
            "metal",
            [("library", (1,)), ("metal", ())],
            ["vadd_kernel(handle, handle)"],
            "kernel void vadd_kernel(",
        ),
        (
            "webgpu",
            [("library", (1,)), ("webgpu", ())],
            ["vadd_kernel(handle, handle)"],
            "fn vadd_kernel(",
        ),
        ("relax_c", [("relax.VMExecutable", (1,)), ("library", ())], [], ""),
    ],
)
def test_libraries_of_tvm_are_decoded(
    golden: Path, name: str, tree: Any, kernels: list[str], text: str
) -> None:
    with mblob.open(golden / f"ffi/{name}.so", verify="full") as lib:
        assert lib.dialect == "ffi"
        assert [(e.type_key, e.imports) for e in lib.entries] == tree
        assert [
            f"{k.name}({', '.join(map(str, k.arg_types))})" for e in lib.entries for k in e.kernels
        ] == kernels
        sources = [e.source() for e in lib.entries]
        assert text in "".join(sources)
        assert lib.to_json()["blob"]["symbol"] == "__tvm_ffi__library_bin"
        assert "main" in lib.functions
        assert not [f for f in lib.functions if f.startswith("__tvm")]
        lib.verify("full")


def test_a_library_without_a_blob_has_its_functions(golden: Path) -> None:
    with mblob.open(golden / "ffi/ctx_llvm.so") as lib:
        assert (lib.blob, lib.dialect, lib.functions) == (None, "ffi", ["par", "usepacked"])


def test_a_cuda_module_has_its_kernels_and_code() -> None:
    found = ffi_dialect.read(blob(LIB, string("cuda") + string(CUDA)), level="full")
    assert [(e.type_key, e.imports) for e in found.entries] == [("library", (1,)), ("cuda", ())]
    fields = decode_payload("cuda", memoryview(CUDA), FFI_GRAMMARS)
    kernel = fields["functions"]["k"]
    assert (kernel.launch_param_tags, kernel.arg_extra_tags) == (("threadIdx.x",), (0, 1))
    assert [str(t) for t in kernel.arg_types] == ["handle", "int32"]
    assert bytes(fields["data"]) == b"//PTX"


def test_unknown_kinds_are_passed_over_by_their_length() -> None:
    found = ffi_dialect.read(blob(LIB, string("demo.kind") + string(b"\1\2\3")), level="full")
    assert (found.entries[1].type_key, found.entries[1].size) == ("demo.kind", 3)
    assert found.stream_size == found.size


def test_tvm_0_21_wrote_the_classic_stream() -> None:
    tree = string("_import_tree") + u64(3, 0, 1, 1) + u64(1, 1)
    body = u64(3) + LIB + string("cuda") + CUDA + tree
    found = ffi_dialect.read(memoryview(u64(len(body)) + body), ffi_dialect.SYMBOL_OF_0_21)
    assert (found.dialect, found.symbol) == ("ffi", "__tvm_ffi_library_bin")
    assert [(e.type_key, e.size) for e in found.entries] == [("library", 0), ("cuda", len(CUDA))]


GOOD = (LIB, string("k") + string(b"x"))


BROKEN = [
    (blob(*GOOD, indptr=(), child=()), "tree_empty"),
    (blob(*GOOD, indptr=(0,), child=()), "tree_empty"),
    (blob(*GOOD, indptr=(1, 1, 1)), "tree_rows"),
    (blob(*GOOD, indptr=(0, 2, 1)), "tree_rows"),
    (blob(*GOOD, indptr=(0, 1, 2)), "tree_rows"),
    (blob(*GOOD, child=(2,)), "tree_child"),
    (blob(*GOOD, child=(0,)), "tree_cycle"),
    (blob(*GOOD, indptr=(0, 1, 2), child=(1, 0)), "tree_cycle"),
    (blob(LIB, LIB), "two_libraries"),
    (blob(LIB, string("") + string(b"x")), "key"),
    (blob(LIB, string(b"\xff") + string(b"x")), "key"),
    (blob(LIB), "truncated"),
    (blob(LIB, string("k") + u64(5) + b"1234"), "truncated"),
    (blob(*GOOD, indptr=tuple([0] * 99)), "truncated"),
    (memoryview(u64(9) + u64(2**60)), "size"),
    (memoryview(u64(8) + u64(2**60)), "truncated"),
    (memoryview(b"12345678"), "truncated"),
    (blob(LIB, string("cuda") + string(CUDA + b"x")), "payload"),
    (blob(LIB, string("cuda") + string(CUDA[:-1])), "truncated"),
]


@pytest.mark.parametrize(("data", "code"), BROKEN)
def test_broken_rules_are_told(data: memoryview, code: str) -> None:
    with pytest.raises(FormatError) as caught:
        ffi_dialect.read(data, level="full")
    assert caught.value.code == code


def test_every_cut_and_every_changed_byte_is_read_or_refused() -> None:
    whole = bytes(blob(LIB, string("cuda") + string(CUDA)))
    for size in range(len(whole)):
        with pytest.raises(FormatError):
            ffi_dialect.read(memoryview(u64(max(size - 8, 0)) + whole[8:size]), level="full")
    for at in range(len(whole)):
        for value in (0, 1, 0x7F, 0xFF):
            try:
                ffi_dialect.read(
                    memoryview(whole[:at] + bytes([value]) + whole[at + 1 :]), level="full"
                )
            except FormatError as error:
                assert error.code
            except Exception as error:
                pytest.fail(f"byte {at} = {value}: {error!r}")


def test_inspect_lists_kernels(golden: Path) -> None:
    with mblob.open(golden / "ffi/metal.so") as lib:
        report = json.loads(json.dumps(lib.to_json()))
    assert report["entries"][1]["kernels"] == [
        {
            "name": "vadd_kernel",
            "arg_types": ["handle", "handle"],
            "launch_param_tags": ["blockIdx.x", "threadIdx.x"],
        }
    ]
    assert [d["code"] for d in report["diagnostics"]] == ["interposable_blob", "no_runtime"]


def test_reserved_names_are_those_that_mean_something() -> None:
    names = {"add": "add", "__vmtir__main": "__vmtir__main", "_x": "_x", "": None}
    names.update(
        {
            name: None
            for name in (
                "_library_bin",
                "_library_ctx",
                "_metadata_add",
                "_doc_add",
                "_cubin_k_end",
            )
        }
    )
    assert {name: exported_functions.ffi_name("__tvm_ffi_" + name) for name in names} == names
