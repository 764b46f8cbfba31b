"""Results of `swap` and `add_index` go through `strip`, `objcopy` and `patchelf`, and still load."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mblob
from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import PF_X, PT_LOAD, PT_NOTE, SHT_NOBITS
from mblob.bytes.mapping import map_file
from mblob.cli.main import main
from mblob.packager.errors import BuildError
from mblob.packager.join import new_segment, program_header_room

SOURCE = """#include <stdio.h>
static int table[4] = {1, 2, 3, 4}; int *where = table; __thread int own = 5; static int made;
__attribute__((constructor)) static void start(void) { made = 7; }
int add(int x) { char text[9]; return x + *where + own - 5 + made - 8 + snprintf(text, 9, "%%d", 3); }
__attribute__((aligned(64))) const unsigned char __tvm_dev_mblob[] = {%s};
"""
RUNNER = """#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **paths) {
  void *library = dlopen(paths[1], RTLD_NOW);
  if (!library) return puts(dlerror()), 1;
  int (*add)(int) = (int (*)(int))dlsym(library, "add");
  unsigned char *blob = dlsym(library, "__tvm_dev_mblob");
  return !(add && add(4) == 5 && blob && blob[8]);
}
"""
TOOLS = {
    "strip": ["strip"],
    "strip-all": ["strip", "--strip-all"],
    "objcopy-debug": ["objcopy", "--strip-debug"],
    "objcopy-all": ["objcopy", "--strip-all"],
    "patchelf": ["patchelf", "--set-rpath", "/" + "a/long/path" * 9],
    "llvm-strip": ["llvm-strip"],
}


def blob_text(folder: Path) -> str:
    """A small blob without an index, as an initializer."""
    path = folder / "blob.so"
    mblob.const_loader_module({"w": np.arange(4, dtype="float32")}, {}).export_library(
        path, index=False
    )
    with mblob.open(path) as library:
        return ", ".join(map(str, library.blob_bytes()))


def linked(folder: Path, *command: str) -> Path:
    """A library with a function and a blob, as others link them."""
    source, output = folder / "k.c", folder / "first.so"
    source.write_text(SOURCE % blob_text(folder))
    subprocess.run([*command, "-shared", "-fPIC", "-O1", source, "-o", output], check=True)
    return output


def change(path: Path, output: Path, size: int | None) -> None:
    """A blob that is larger: by an index, or by a tensor of that many bytes."""
    if size is None:
        mblob.add_index(path, output)
        return
    (key,) = (e.type_key for e in mblob.open(path).entries if e.offset is not None)
    mblob.swap(
        path, {key: mblob.const_loader_module({"w": np.zeros(size // 4, "float32")}, {})}, output
    )


def elf_of(path: Path) -> ElfFile:
    return ElfFile(map_file(path), str(path))


def loaded(path: Path) -> list[tuple[int, int, int, int]]:
    elf = elf_of(path)
    elf.check_segments()
    return [
        (s.p_vaddr, s.p_filesz, s.p_memsz, s.p_flags) for s in elf.segments if s.p_type == PT_LOAD
    ]


def code_of(path: Path) -> list[bytes]:
    elf = elf_of(path)
    if (text := elf.section(".text")) is not None:
        return [bytes(elf.contents(text))]
    found = [s for s in elf.segments if s.p_type == PT_LOAD and s.p_flags & PF_X]
    return [bytes(elf.data[s.p_offset : s.p_offset + s.p_filesz]) for s in found]


def contents(path: Path) -> tuple[object, ...]:
    with mblob.open(path, verify="full") as lib:
        entries = [(e.type_key, bytes(e.view())) for e in lib.entries if e.offset is not None]
        return entries, sorted(lib.functions), sorted(s.name for s in lib.elf.exports)


def load(path: Path, *runner: object) -> None:
    """In a process of its own."""
    script = "import ctypes, os, sys; ctypes.CDLL(sys.argv[1], mode=os.RTLD_LAZY)"
    command = runner or (sys.executable, "-c", script)
    done = subprocess.run([*map(str, command), str(path)], capture_output=True, text=True)
    assert done.returncode == 0, (path, done.stdout, done.stderr)


def check_tools(path: Path, tools: dict[str, list[str]], *runner: object) -> None:
    """Each tool, once and twice."""
    load(path, *runner)
    wanted, places, code = contents(path), loaded(path), code_of(path)
    edited = path.with_name("edited.so")
    for name, command in tools.items():
        shutil.copy(path, edited)
        for _ in range(2):
            subprocess.run([*command, edited], check=True, capture_output=True)
            load(edited, *runner)
            assert contents(edited) == wanted, name
            now = loaded(edited)
            assert now == places or name == "patchelf", name
            assert code_of(edited) == code, name
    with mblob.open(edited) as lib:
        entry = next(e for e in lib.entries if e.offset is not None)
        payload = bytes(entry.view())
    again = path.with_name("again.so")
    mblob.swap(edited, {entry.index: payload}, again)
    load(again, *runner)
    assert contents(again) == wanted


def installed(require: Callable[[str], str], prefix: str = "") -> dict[str, list[str]]:
    """The tools, with the names that they have for another machine."""
    binutils = ("strip", "objcopy")
    tools = {
        name: [prefix + c[0] if c[0] in binutils else c[0], *c[1:]] for name, c in TOOLS.items()
    }
    for command in tools.values():
        require(command[0])
    return tools


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "name",
    ["aot_mlp", "dag", "dnnl_c_lib", "dnnl_llvm_factory", "mlp_c", "mlp_llvm", "opencl_llvm", "vm_mlp", "ffi/relax_c",
     "ffi/metal", "ffi/webgpu"],
)  # fmt: skip
def test_libraries_of_tvm(golden: Path, tmp_path: Path, require, name: str) -> None:
    mblob.add_index(golden / f"{name}.so", tmp_path / "a.so")
    check_tools(tmp_path / "a.so", installed(require))


@pytest.mark.sample(1)
@pytest.mark.parametrize("size", [5000, 1 << 20])
def test_a_payload_of_tvm_grew(golden: Path, tmp_path: Path, require, size: int) -> None:
    with mblob.open(golden / "dnnl_c_lib.so") as lib:
        entry = next(e for e in lib.entries if e.type_key == "dnnl_json")
        old = bytes(entry.view())
    at = 8 + struct.unpack_from("<Q", old)[0]
    end = at + 8 + struct.unpack_from("<Q", old, at)[0]
    new = (
        old[:at]
        + struct.pack("<Q", end - at - 8 + size)
        + old[at + 8 : end]
        + b" " * size
        + old[end:]
    )
    mblob.swap(golden / "dnnl_c_lib.so", {entry.index: new}, tmp_path / "a.so")
    check_tools(tmp_path / "a.so", installed(require))


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "size",
    [None, 5000, 1 << 20, pytest.param(70 << 20, marks=pytest.mark.slow)],
    ids=["index", "5k", "1m", "70m"],
)
@pytest.mark.parametrize("linker", ["bfd", "gold", "lld", "mold"])
def test_libraries_of_each_linker(tmp_path: Path, require, linker: str, size: int | None) -> None:
    require(f"ld.{linker}")
    change(linked(tmp_path, "cc", f"-fuse-ld={linker}"), tmp_path / "a.so", size)
    tools = installed(require)
    if size == 70 << 20:
        tools = {name: tools[name] for name in ("strip", "objcopy-all", "patchelf")}
    check_tools(tmp_path / "a.so", tools)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "option", ["-Wl,--build-id=none", "-Wl,--hash-style=sysv", "-Wl,--hash-style=both", "-s"]
)
@pytest.mark.parametrize("linker", ["bfd", "gold", "lld", "mold"])
def test_other_things_in_front(tmp_path: Path, require, linker: str, option: str) -> None:
    require(f"ld.{linker}")
    first = linked(tmp_path, "cc", f"-fuse-ld={linker}", option, "-fcf-protection=none")
    change(first, tmp_path / "a.so", 5000)
    noted = subprocess.run(
        ["readelf", "-aW", tmp_path / "a.so"], capture_output=True, text=True, check=True
    )
    assert not noted.stderr
    assert code_of(tmp_path / "a.so") == code_of(first)
    check_tools(tmp_path / "a.so", installed(require))


@pytest.mark.parametrize(
    "machine, triplet", [("aarch64", "aarch64-linux-gnu"), ("s390x", "s390x-linux-gnu")]
)
@pytest.mark.parametrize("size", [None, 5000])
def test_other_machines(
    tmp_path: Path, require, machine: str, triplet: str, size: int | None
) -> None:
    compiler = require(f"{triplet}-gcc")
    runner = [require(f"qemu-{machine}"), "-L", f"/usr/{triplet}", tmp_path / "run"]
    (tmp_path / "run.c").write_text(RUNNER)
    subprocess.run([compiler, tmp_path / "run.c", "-o", tmp_path / "run", "-ldl"], check=True)
    change(linked(tmp_path, compiler), tmp_path / "a.so", size)
    tools = installed(require, f"{triplet}-")
    if machine == "s390x":
        del tools["llvm-strip"]
    check_tools(tmp_path / "a.so", tools, *runner)


@pytest.mark.slow
def test_32_bits(tmp_path: Path, require) -> None:
    """Code of arm is not read, so that only what ends the last segment grows there; headers are as
    anywhere."""
    compiler = require("arm-linux-gnueabihf-gcc")
    runner = [require("qemu-arm"), "-L", "/usr/arm-linux-gnueabihf", tmp_path / "run"]
    (tmp_path / "run.c").write_text(RUNNER)
    subprocess.run([compiler, tmp_path / "run.c", "-o", tmp_path / "run", "-ldl"], check=True)
    first = linked(tmp_path, compiler)
    data = bytearray(first.read_bytes())
    elf = elf_of(first)
    new = new_segment.new_segment(elf, 5000)
    assert new.headers == elf.e_phoff and new.moved
    with pytest.raises(BuildError, match="nothing here reads code of arm"):
        change(first, tmp_path / "a.so", None)
    assert first.read_bytes() == data
    host = mblob.csource_module("int add(int x) { return x + 1; }", functions=["int add(int x)"])
    host.import_module(mblob.const_loader_module({"w": np.arange(4, dtype="float32")}, {}))
    host.export_library(tmp_path / "own.so", cc=compiler)
    change(tmp_path / "own.so", tmp_path / "a.so", 5000)
    check_tools(tmp_path / "a.so", installed(require, "arm-linux-gnueabihf-"), *runner)


@pytest.mark.parametrize("linker", ["bfd", "gold", "lld", "mold"])
def test_without_section_headers(tmp_path: Path, require, linker: str) -> None:
    """No such tool takes the file; it loads."""
    require(f"ld.{linker}")
    path = linked(tmp_path, "cc", f"-fuse-ld={linker}")
    data = bytearray(path.read_bytes())
    data[40:48], data[60:64] = bytes(8), bytes(4)  # e_shoff; e_shnum, e_shstrndx
    path.write_bytes(data)
    change(path, tmp_path / "a.so", 5000)
    load(tmp_path / "a.so")
    assert elf_of(tmp_path / "a.so").e_phoff == 64
    loaded(tmp_path / "a.so")


def test_a_layout_without_room(tmp_path: Path, require) -> None:
    """Something that cannot move follows the program headers: these go behind, and the library
    loads."""
    require("ld.bfd")
    first = linked(tmp_path, "cc", "-fuse-ld=bfd", "-Wl,--build-id", "-fcf-protection=none")
    data = bytearray(first.read_bytes())
    elf = elf_of(first)
    for i, s in enumerate(elf.segments):
        if s.p_type == PT_NOTE:  # now nothing says that these bytes are one
            struct.pack_into("<I", data, elf.e_phoff + 56 * i, 0)
    first.write_bytes(data)
    change(first, tmp_path / "a.so", 5000)
    load(tmp_path / "a.so")
    loaded(tmp_path / "a.so")
    assert elf_of(tmp_path / "a.so").e_phoff > 4096


def test_numbers_of_sections_that_objcopy_left_old(tmp_path: Path) -> None:
    """It numbers sections anew, but for the dynamic symbols; the blob's is found by its address."""
    change(linked(tmp_path, "cc", "-g"), tmp_path / "a.so", None)
    subprocess.run(["objcopy", "--strip-debug", tmp_path / "a.so"], check=True)
    wanted = contents(tmp_path / "a.so")
    mblob.strip_index(tmp_path / "a.so", tmp_path / "b.so")
    assert contents(tmp_path / "b.so") == wanted
    elf = elf_of(tmp_path / "b.so")
    section = elf.section(".tvm_mblob")
    symbol = elf.find("__tvm_dev_mblob")
    assert section is not None and symbol is not None
    assert section.sh_addr + section.sh_size == symbol.st_value + symbol.st_size


# -- damage ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "field, value, culprit, words",
    [
        (16, 0x1000, 2, "starts before the end of the pages of the one in front of it"),
        (40, 0x1800, 1, "is read-only, but not all in the file"),
        (48, 3, 1, "has an alignment that is no power of two"),
        (16, 0x1008, 1, "has an address unlike its offset"),
        (40, 5, 1, "has more bytes in the file than in memory"),
    ],
)
def test_segments_that_cannot_be_loaded(
    golden: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    field: int,
    value: int,
    culprit: int,
    words: str,
) -> None:
    path = tmp_path / "a.so"
    mblob.add_index(golden / "dag.so", path)
    data = bytearray(path.read_bytes())
    elf = elf_of(path)
    assert [s.p_type for s in elf.segments[:3]] == [PT_LOAD] * 3
    struct.pack_into("<Q", data, elf.e_phoff + 56 * culprit + field, value)
    path.write_bytes(data)
    with pytest.raises(mblob.FormatError, match=f"segment {culprit} {words}") as caught:
        mblob.verify(path)
    assert caught.value.code == "elf_header"
    with pytest.raises(mblob.FormatError, match=f"segment {culprit} {words}"):
        mblob.load_module(path)
    for command in ("verify", "inspect"):
        assert main([command, str(path)]) == 1
        said = capsys.readouterr()
        assert f"segment {culprit} {words}" in said.out + said.err
    with mblob.Library(path, partial=True) as lib:
        assert [d["code"] for d in lib.diagnostics if d["severity"] == "error"] == ["elf_header"]
        assert lib.blob is not None


def test_what_moves_is_known_before_anything_is_written(golden: Path) -> None:
    elf = elf_of(golden / "dag.so")
    pieces = program_header_room.in_the_way(elf, 56 * (len(elf.segments) + 1))
    assert pieces is not None and [p.is_note for p in pieces] == [True, False]
    assert program_header_room.in_the_way(elf, 1 << 20) is None


def test_numbers_that_nothing_can_follow(tmp_path: Path) -> None:
    """A section that is not loaded, behind the blob by its header, and so far that it cannot be
    further."""
    root = mblob.csource_module("int f(void) { return 1; }")
    root.import_module(mblob.blob_module("my.kind", b"hello"))
    root.export_library(tmp_path / "a.so")
    elf = elf_of(tmp_path / "a.so")
    number = next(i for i, s in enumerate(elf.sections) if s.name == ".comment")
    data = bytearray((tmp_path / "a.so").read_bytes())
    row = elf.e_shoff + number * elf.e_shentsize
    # sh_type, _flags, _addr, _offset
    struct.pack_into("<IQQQ", data, row + 4, SHT_NOBITS, 0, 0, (1 << 64) - 8)
    (tmp_path / "bad.so").write_bytes(data)
    with pytest.raises(
        mblob.FormatError, match="header value out of range while rewriting"
    ) as error:
        mblob.swap(tmp_path / "bad.so", {"my.kind": b"x" * 1000})
    assert error.value.code == "elf_header" and (tmp_path / "bad.so").read_bytes() == data
