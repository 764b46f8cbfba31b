"""`mblob.swap` of blobs that have to move: what still runs, what tools say, and what keeps a blob
where it is."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mblob
from mblob.binary.elf import ElfFile
from mblob.bytes.mapping import map_file
from mblob.packager.join.blob_references import find_reference
from tests.packager.edit.test_swap import code_of, contents


def longer(payload: bytes, by: int) -> bytes:
    """A factory's payload, or one of oneDNN's, with blanks behind its graph."""
    at = 0
    if payload[8:9] != b"{":  # the symbol stands first
        at = 8 + struct.unpack_from("<Q", payload)[0]
    (size,) = struct.unpack_from("<Q", payload, at)
    text = payload[at + 8 : at + 8 + size]
    return payload[:at] + struct.pack("<Q", size + by) + text + b" " * by + payload[at + 8 + size :]


@pytest.mark.parametrize("name", ["mlp_llvm", "mlp_c"])
def test_models_that_tvm_exported_still_run_when_their_blob_has_moved(
    golden: Path, tmp_path: Path, name: str
) -> None:
    source, output = golden / f"{name}.so", tmp_path / "moved.so"
    (old,) = contents(source).values()
    mblob.swap(source, {0: longer(old, 100_000)}, output)
    assert code_of(output) == code_of(source)
    assert output.stat().st_size > source.stat().st_size + 100_000
    mblob.swap(output, {0: longer(old, 500_000)}, output)  # now it ends the last segment, and grows
    assert output.stat().st_size < source.stat().st_size + 800_000
    again = output.stat().st_size
    mblob.swap(output, {0: old}, output)
    assert output.stat().st_size < again - 400_000
    model = mblob.graph_executor.GraphModule(mblob.load_module(output)["default"](mblob.cpu(0)))
    wanted = np.load(golden / f"{name}.npz")
    model.set_input("data", wanted["data"])
    model.run()
    np.testing.assert_allclose(model.get_output(0).numpy(), wanted["out"], rtol=1e-5, atol=1e-6)
    elf = ElfFile(map_file(output))
    symbol = elf.find("__tvm_dev_mblob")
    assert symbol is not None and elf.sections[symbol.st_shndx].name == ".tvm_mblob"
    loads = [s.p_vaddr for s in elf.segments if s.p_type == 1]
    assert loads == sorted(loads)


def test_readelf_finds_nothing_wrong(golden: Path, tmp_path: Path, require) -> None:
    require("readelf")
    for name in ("mlp_llvm", "dag", "dnnl_c_lib"):
        with mblob.open(golden / f"{name}.so") as library:
            entry = next(
                e for e in library.entries if e.type_key in ("dnnl_json", "GraphExecutorFactory")
            )
            payload = bytes(entry.view())
        mblob.swap(golden / f"{name}.so", {entry.index: longer(payload, 99_999)}, tmp_path / "b.so")
        done = subprocess.run(
            ["readelf", "-aW", tmp_path / "b.so"], capture_output=True, text=True, check=True
        )
        assert done.stderr == ""
        assert ".tvm_mblob" in done.stdout
        mblob.verify(tmp_path / "b.so")


@pytest.mark.parametrize(
    "command", [["strip"], ["objcopy", "--strip-debug"], ["patchelf", "--set-rpath", "$ORIGIN/x"]]
)
def test_a_library_whose_blob_has_moved_may_be_edited(
    golden: Path, tmp_path: Path, command: list[str]
) -> None:
    with mblob.open(golden / "mlp_llvm.so") as library:
        old = bytes(library.entries[0].view())
    mblob.swap(golden / "mlp_llvm.so", {0: longer(old, 100_000)}, tmp_path / "b.so")
    subprocess.run([*command, tmp_path / "b.so"], check=True, capture_output=True)
    mblob.verify(tmp_path / "b.so")
    model = mblob.graph_executor.GraphModule(
        mblob.load_module(tmp_path / "b.so")["default"](mblob.cpu(0))
    )
    wanted = np.load(golden / "mlp_llvm.npz")
    model.set_input("data", wanted["data"])
    model.run()
    np.testing.assert_allclose(model.get_output(0).numpy(), wanted["out"], rtol=1e-5, atol=1e-6)
    mblob.swap(tmp_path / "b.so", {0: longer(old, 300_000)})
    mblob.verify(tmp_path / "b.so")


def test_unwinding_finds_its_tables_after_a_move(golden: Path, tmp_path: Path) -> None:
    """`dl_iterate_phdr` gives the moved program headers, which lead to the unwind tables."""
    (old,) = contents(golden / "mlp_llvm.so").values()
    mblob.swap(golden / "mlp_llvm.so", {0: longer(old, 100_000)}, tmp_path / "b.so")
    script = """
import ctypes, sys
class Info(ctypes.Structure):
    _fields_ = [("addr", ctypes.c_size_t), ("name", ctypes.c_char_p), ("phdr", ctypes.c_void_p)]
    _fields_ += [("phnum", ctypes.c_uint16)]
ctypes.CDLL(sys.argv[1])
found = []
def each(info, size, data):
    i = info.contents
    if i.name == sys.argv[1].encode():
        raw = ctypes.string_at(i.phdr, 56 * i.phnum)
        found.append([int.from_bytes(raw[at:at + 4], "little") for at in range(0, len(raw), 56)])
    return 0
call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Info), ctypes.c_size_t, ctypes.c_void_p)(each)
ctypes.CDLL(None).dl_iterate_phdr(call, None)
assert found and found[0].count(1) == 5 and 0x6474E550 in found[0], found
"""
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "b.so")], check=True)


def opencl_payload(code: bytes) -> bytes:
    """A payload without kernels."""
    return struct.pack("<Q", 2) + b"cl" + struct.pack("<QQ", 0, len(code)) + code


HIDDEN = """
extern const char hidden[SIZE] __attribute__((alias("__tvm_dev_mblob"), visibility("hidden")));
"""


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("source", "words"),
    [
        (HIDDEN + "const char *f(void) { return hidden + 8; }", "code at"),
        (HIDDEN + "const char *where = hidden;", "data at"),
        (
            'extern const char inside[SIZE] __attribute__((alias("__tvm_dev_mblob")));',
            "the symbol inside",
        ),
        (
            "const char *f(void) { return __tvm_dev_mblob; } const char *where = __tvm_dev_mblob;",
            "",
        ),
    ],
    ids=["code", "data", "alias", "by name"],
)
@pytest.mark.parametrize(
    "flags", [(), ("-O2",), ("-Wl,-z,pack-relative-relocs",)], ids=lambda f: "".join(f) or "plain"
)
def test_a_blob_that_something_refers_to_does_not_move(
    cc, tmp_path: Path, source: str, words: str, flags: tuple[str, ...]
) -> None:
    """By its address, that is: what asks the dynamic linker for the name gets the new place."""
    item = struct.pack("<Q", 6) + b"opencl" + opencl_payload(b"")
    stream = (
        struct.pack("<Q", 2)
        + item
        + struct.pack("<Q", 12)
        + b"_import_tree"
        + struct.pack("<4Q", 2, 0, 0, 0)
    )
    blob = struct.pack("<Q", len(stream)) + stream
    text = f"const char __tvm_dev_mblob[{len(blob)}] = {{{','.join(map(str, blob))}}};\n"
    library = cc(text + source.replace("SIZE", str(len(blob))), tmp_path / "r.so", *flags)
    before = library.read_bytes()
    if words:
        with pytest.raises(mblob.MblobError, match=f"cannot move: {words}"):
            mblob.swap(library, {0: opencl_payload(b"abc")}, library)
        assert library.read_bytes() == before
        mblob.swap(library, {0: opencl_payload(b"")}, library)  # of the same size it may change
        assert library.read_bytes() == before
        return
    mblob.swap(library, {0: opencl_payload(b"abc")}, library)
    script = "import ctypes, sys\nlib = ctypes.CDLL(sys.argv[1])\nlib.f.restype = ctypes.c_void_p\n"
    script += "assert lib.f() == ctypes.c_void_p.in_dll(lib, 'where').value\n"
    script += f"assert ctypes.string_at(lib.f(), 8) == ({len(stream)} + 3).to_bytes(8, 'little')\n"
    subprocess.run([sys.executable, "-c", script, str(library)], check=True)


@pytest.mark.parametrize(
    "command",
    [
        ["aarch64-linux-gnu-gcc"],
        ["s390x-linux-gnu-gcc"],
        ["clang", "--target=riscv64-linux-gnu", "-fuse-ld=lld"],
        ["clang", "--target=i686-linux-gnu", "-fuse-ld=lld"],
        ["clang", "--target=x86_64-linux-gnu", "-fuse-ld=lld"],
    ],
    ids=lambda command: command[-1] if len(command) == 1 else command[1],
)
def test_references_in_code_of_other_machines(tmp_path: Path, require, command: list[str]) -> None:
    require(command[0])
    if "-fuse-ld=lld" in command:
        require("ld.lld")
    for body, expected in (
        ("return blob;", True),
        ("return blob + 8;", True),
        ("return *(volatile long *)(blob + 16);", True),
        ("return 0;", False),
        ("return after;", False),
    ):
        source = tmp_path / "r.c"
        source.write_text(
            '#define HIDDEN __attribute__((visibility("hidden")))\n'
            "const char before[40] HIDDEN = {2}; const char blob[64] HIDDEN = {1}; const char after[64] HIDDEN = {3};\n"
            'extern const char mark[64] __attribute__((alias("blob")));\n'
            f"long f(void) {{ {body.replace('return ', 'return (long)')} }}\n"
        )
        for level in ("-O0", "-O2"):
            library = tmp_path / "r.so"
            flags = ["-shared", "-fPIC", level, "-nostdlib", "-fno-asynchronous-unwind-tables"]
            subprocess.run([*command, *flags, source, "-o", library], check=True)
            elf = ElfFile(map_file(library))
            symbol = elf.find("mark")
            assert symbol is not None
            assert (find_reference(elf, symbol) is not None) == expected, (body, level)
