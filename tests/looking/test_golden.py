"""TVM's own libraries: what `mblob.open` says agrees with readelf, with nm, and with a second
reading of the bytes."""

from __future__ import annotations

import json
import re
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mblob

CLASSIC = (
    "aot_mlp", "dag", "dnnl_c_lib", "dnnl_llvm_factory", "host_c", "host_llvm", "host_parallel", "mlp_c", "mlp_llvm",
    "opencl_llvm", "vm_mlp",
)  # fmt: skip
FFI = ("ffi/ctx_llvm", "ffi/metal", "ffi/relax_c", "ffi/webgpu")
SYMBOLS = ("__tvm_dev_mblob", "__tvm_ffi__library_bin")
# By what was exported (README.md beside the files): TVM 0.14, and apache-tvm 0.27.
RELEASES = {
    "aot_mlp": "0.9 - 0.19", "dag": "0.7 - 0.20", "dnnl_c_lib": "0.9 - 0.20", "dnnl_llvm_factory": "0.9 - 0.19",
    "host_c": "0.8 - 0.21", "host_llvm": "0.5 - 0.20", "host_parallel": "0.5 - 0.20", "mlp_c": "0.8 - 0.19",
    "mlp_llvm": "0.8 - 0.19", "opencl_llvm": "0.7 - 0.20", "vm_mlp": "0.14", "ffi/ctx_llvm": "0.26 - 0.27",
    "ffi/metal": "0.26 - 0.27", "ffi/relax_c": "0.24 - 0.27", "ffi/webgpu": "0.26 - 0.27",
}  # fmt: skip


def tool(*command: object) -> str:
    return subprocess.run(
        list(map(str, command)), check=True, capture_output=True, text=True
    ).stdout


def symbols(path: Path) -> dict[str, tuple[int, int]]:
    """Address and size of each defined dynamic symbol, by readelf."""
    found = {}
    for line in tool("readelf", "--dyn-syms", "-W", path).splitlines():
        fields = line.split()
        if len(fields) >= 8 and fields[0].rstrip(":").isdigit() and fields[6] != "UND":
            found[fields[7].split("@")[0]] = int(fields[1], 16), int(fields[2], 0)
    return found


def offset_of(path: Path, address: int) -> int:
    """Place in the file of an address, by readelf's list of segments."""
    for line in tool("readelf", "-lW", path).splitlines():
        fields = line.split()
        if fields[:1] == ["LOAD"]:
            offset, start, size = (int(fields[i], 16) for i in (1, 2, 4))
            if start <= address < start + size:
                return offset + address - start
    raise AssertionError(f"no segment has {address:#x}")


class Bytes:
    """The second reading: numbers and strings one after the other."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def u64(self) -> int:
        (value,) = struct.unpack_from("<Q", self.data, self.at)
        self.at += 8
        return value

    def string(self) -> bytes:
        size = self.u64()
        self.at += size
        return self.data[self.at - size : self.at]

    def numbers(self) -> list[int]:
        return [self.u64() for _ in range(self.u64())]


def tree_of(row_ptr: list[int], child: list[int]) -> list[list[int]]:
    return [child[a:b] for a, b in zip(row_ptr, row_ptr[1:])]


def ffi_modules(data: bytes) -> list[tuple[str, list[int], bytes]]:
    b = Bytes(data)
    assert b.u64() == len(data) - 8
    rows = tree_of(b.numbers(), b.numbers())
    kinds = ((b.string().decode(), row) for row in rows)
    found = [(kind, row, b"" if kind == "_lib" else b.string()) for kind, row in kinds]
    assert b.at == len(data)
    return found


def classic_keys(data: bytes) -> list[tuple[str, list[int]]]:
    """Keys and imports: payloads are found by the keys that `mblob` says stand around them, then
    the tree is read."""
    at = data.index(struct.pack("<Q", 12) + b"_import_tree")
    b = Bytes(data)
    b.at = at
    assert b.string() == b"_import_tree"
    rows = tree_of(b.numbers(), b.numbers())
    assert b.at == len(data)
    assert struct.unpack_from("<2Q", data) == (len(data) - 8, len(rows) + 1)
    return [("", row) for row in rows]


@pytest.fixture(params=CLASSIC + FFI)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_the_file_is_described_as_readelf_describes_it(golden: Path, name: str) -> None:
    path = golden / f"{name}.so"
    header, dynamic, notes = (tool("readelf", option, path) for option in ("-hW", "-dW", "-nW"))
    with mblob.open(path, verify="full") as lib:
        report = lib.to_json()
    assert report["target"]["machine"] == "x86_64" and "X86-64" in header
    assert report["needed"] == re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    assert report["soname"] == next(iter(re.findall(r"\(SONAME\).*\[(.*)\]", dynamic)), None)
    assert report["build_id"] == re.findall(r"Build ID: ([0-9a-f]+)", notes)[0]
    symbolic = "SYMBOLIC" in dynamic
    interposable = "interposable_blob" in {d["code"] for d in report["diagnostics"]}
    assert interposable == (report["blob"] is not None and not symbolic)
    assert "executable_stack" not in {d["code"] for d in report["diagnostics"]}
    comment = tool("readelf", "-p", ".comment", path)
    assert report["compilers"] == sorted(re.findall(r"\]\s+(.*)", comment))


def test_functions_and_undefined_symbols_are_those_of_nm(golden: Path, name: str) -> None:
    path = golden / f"{name}.so"
    rows = [line.split() for line in tool("nm", "-D", path).splitlines()]
    code = {r[-1] for r in rows if r[-2] in "TW"} - {
        "__extendhfsf2",
        "__truncsfhf2",
        "__tvm_main__",
    }
    needed = {r[-1] for r in rows if r[-2] == "U"}
    weak = {r[-1].split("@")[0] for r in rows if r[-2] == "w"}
    with mblob.open(path) as lib:
        assert set(lib.functions) == {
            s.removeprefix("__tvm_ffi_") for s in code if not s.startswith("__tvm_ffi__")
        }
        assert {f.symbol for f in lib.host_functions} == code
        assert {f.abi for f in lib.host_functions} == {"ffi" if name in FFI else "packed"}
        found = {
            f"{u.name}@{u.version}" if u.version else u.name
            for u in lib.undefined_symbols
            if not u.weak
        }
        assert found == needed
        assert {u.name for u in lib.undefined_symbols if u.weak} == weak
        assert all(u.provider for u in lib.undefined_symbols)


def test_the_blob_is_where_readelf_says_and_reads_as_the_bytes_say(golden: Path, name: str) -> None:
    path = golden / f"{name}.so"
    found = symbols(path)
    present = [s for s in SYMBOLS if s in found]
    with mblob.open(path, verify="full") as lib:
        assert [lib.blob.symbol] * bool(lib.blob) == present if lib.blob else not present
        if lib.blob is None:
            return
        address, size = found[present[0]]
        assert (lib.blob_offset, lib.blob.size) == (offset_of(path, address), size)
        data = path.read_bytes()[lib.blob_offset :][:size]
        if present[0] == SYMBOLS[1]:
            modules = ffi_modules(data)
            assert [(e.type_key, list(e.imports), bytes(e.view())) for e in lib.entries] == [
                ("library" if kind == "_lib" else kind, row, payload)
                for kind, row, payload in modules
            ]
            return
        assert [list(e.imports) for e in lib.entries] == [row for _, row in classic_keys(data)]
        at = 16
        for e in lib.entries:  # key, payload, key, payload: without a gap up to the tree
            key = b"_lib" if e.offset is None else e.type_key.encode()
            assert data[at:][: 8 + len(key)] == struct.pack("<Q", len(key)) + key
            at += 8 + len(key) + e.size
            assert e.offset is None or e.offset == lib.blob_offset + at - e.size
        assert data[at:][:20] == struct.pack("<Q", 12) + b"_import_tree"


def test_the_report_is_what_the_schema_says(golden: Path, name: str, validate: Any) -> None:
    with mblob.open(golden / f"{name}.so") as lib:
        report = json.loads(json.dumps(lib.to_json()))
    validate(report)
    assert report["era"]["tvm"] == RELEASES[name]
    assert report["era"]["dialect"] == (
        "ffi" if name in FFI else "classic" if name != "host_c" else None
    )


def arrays(payload: bytes) -> Iterator[tuple[int, tuple[int, ...], int]]:
    """Place of the data, shape and size of each array: found by its magic, read by hand."""
    magic = struct.pack("<2Q", 0xDD5E40F096B4A13F, 0)
    at = payload.find(magic)
    while at >= 0:
        (ndim,) = struct.unpack_from("<i", payload, at + 24)
        shape = struct.unpack_from(f"<{ndim}q", payload, at + 32)
        (size,) = struct.unpack_from("<q", payload, at + 32 + 8 * ndim)
        yield at + 40 + 8 * ndim, shape, size
        at = payload.find(magic, at + 1)


@pytest.mark.parametrize("name", ["mlp_llvm", "mlp_c", "vm_mlp", "ffi/relax_c"])
def test_tensors_lie_where_their_records_are(golden: Path, name: str) -> None:
    with mblob.open(golden / f"{name}.so") as lib:
        entry = lib.entries[0]
        found = [(t.offset, t.shape, t.size) for t in entry.content.tensors]
        assert found == list(arrays(bytes(entry.view())))
        report = lib.to_json()["entries"][0]["tensors"]
        assert [t["offset"] for t in report] == [entry.offset + o for o, _, _ in found]


def test_graphs_say_their_inputs_outputs_and_operators(golden: Path) -> None:
    with mblob.open(golden / "mlp_llvm.so") as lib:
        graph = lib.entries[0].content.facts["graph"]
        stored = json.loads(lib.entries[0].source("json"))
    assert graph["nodes"] == len(stored["nodes"])
    assert graph["inputs"][0] == {"name": "data", "shape": [1, 1, 8, 8], "dtype": "float32"}
    assert [o["shape"] for o in graph["outputs"]] == [[1, 10]]
    assert sum(graph["operators"].values()) == sum(n["op"] == "tvm_op" for n in stored["nodes"])
    assert graph["storage"]["buffers"] == len(set(stored["attrs"]["storage_id"][1]))


def test_kernels_and_executables_are_listed(golden: Path) -> None:
    with mblob.open(golden / "opencl_llvm.so") as lib:
        facts = lib.entries[1].content.facts
        assert (facts["fmt"], facts["code"]["kind"]) == ("cl", "text")
        assert facts["kernels"] == [
            {
                "name": "vadd_kernel",
                "arg_types": ["handle"] * 3,
                "launch_param_tags": ["blockIdx.x", "threadIdx.x"],
            }
        ]
        assert lib.entry_function == "vadd"
    with mblob.open(golden / "vm_mlp.so") as lib:
        machine = lib.entries[0].content.facts["executable"]
        assert (machine["machine"], machine["version"], machine["globals"]) == (
            "relay",
            "0.14.0",
            ["main"],
        )
        # one only reshapes
        assert {p for p in machine["primitives"] if p.startswith("vm_mod")} < set(lib.functions)
    with mblob.open(golden / "ffi/relax_c.so") as lib:
        machine = lib.entries[0].content.facts["executable"]
        assert (machine["machine"], machine["version"], machine["layout"]) == ("relax", "0.14", 2)
        assert [f["name"] for f in machine["functions"]][:2] == [
            "main",
            "vm.builtin.check_tensor_info",
        ]
        assert lib.entry_function == "main"
