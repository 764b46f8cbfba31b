"""Exceptions pass through adapters that joined a finished library: one table of unwind information
names all code."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import PT_GNU_EH_FRAME
from mblob.bytes.mapping import map_file
from mblob.packager.join import unwind_table

LIBRARY = r"""#include <cstdint>
#include <stdexcept>
#include <string>
union value { int64_t i; double f; };
static void deep(int64_t k) {
  std::string room(k + 1, 'x');
  if (!k) throw std::runtime_error("from the bottom of " + room);
  deep(k - 1);
}
extern "C" int throws(value *args, int *, int, value *, int *, void *) { deep(args[0].i); return 0; }
extern "C" int catches(value *args, int *, int, value *ret, int *code, void *) {
  try { deep(args[0].i); } catch (const std::exception &e) { ret->i = 7; *code = 0; }
  return 0;
}
extern "C" const char __tvm_main__[] = "throws";
"""
PROGRAM = r"""#include <cstdint>
#include <cstdio>
#include <exception>
#include <dlfcn.h>
struct any { int32_t type; uint32_t zero; int64_t i; };
union value { int64_t i; double f; };
int main(int, char **argv) {
  void *library = dlopen(argv[1], RTLD_NOW);
  if (!library) return 1;
  auto ffi = (int (*)(void *, const any *, int32_t, any *))dlsym(library, "__tvm_ffi_throws");
  auto classic = (int (*)(value *, int *, int, value *, int *, void *))dlsym(library, "throws");
  try {
    any a = {1, 0, 3}, r = {0, 0, 0};
    value v = {3}, ret = {0};
    int type = 0, code = 0;
    ffi ? ffi(nullptr, &a, 1, &r) : classic(&v, &type, 1, &ret, &code, nullptr);
  } catch (const std::exception &e) {
    std::printf("%s: %s\n", ffi ? "ffi" : "classic", e.what());
  }
}
"""


def elf_of(path: Path) -> ElfFile:
    return ElfFile(map_file(path), str(path))


@pytest.fixture
def program(require: Callable[[str], str], tmp_path: Path) -> Path:
    (tmp_path / "p.cc").write_text(PROGRAM)
    subprocess.run(
        [require("c++"), "-O1", tmp_path / "p.cc", "-o", tmp_path / "p", "-ldl"], check=True
    )
    return tmp_path / "p"


@pytest.mark.slow
@pytest.mark.parametrize("linker", ["bfd", "gold", "lld", "mold"])
def test_exceptions_pass_through(
    require: Callable[[str], str], program: Path, tmp_path: Path, linker: str
) -> None:
    require({"lld": "ld.lld"}.get(linker, "mold" if linker == "mold" else f"ld.{linker}"))
    (tmp_path / "k.cc").write_text(LIBRARY)
    command = [
        "c++",
        "-O1",
        "-shared",
        "-fPIC",
        f"-fuse-ld={linker}",
        tmp_path / "k.cc",
        "-o",
        tmp_path / "0.so",
    ]
    subprocess.run(command, check=True)
    for i, dialect in enumerate(("ffi", "classic")):
        made, stripped = tmp_path / f"{i + 1}.so", tmp_path / "stripped.so"
        mblob.convert(tmp_path / f"{i}.so", made, dialect=dialect)
        if not i:  # lld leaves no room in front for the headers of a second conversion
            subprocess.run(["strip", "-o", stripped, made], check=True)
        for path in (made,) if i else (made, stripped):
            done = subprocess.run([program, path], capture_output=True, text=True, check=True)
            assert done.stdout == f"{dialect}: from the bottom of x\n"
            with mblob.open(path, verify="full") as lib:
                assert {"throws", "catches"} <= set(lib.functions)


def test_the_table_is_sorted_and_has_both(tmp_path: Path) -> None:
    (tmp_path / "k.cc").write_text(LIBRARY)
    subprocess.run(
        ["c++", "-shared", "-fPIC", tmp_path / "k.cc", "-o", tmp_path / "a.so"], check=True
    )
    mblob.convert(tmp_path / "a.so", tmp_path / "b.so", dialect="ffi")
    old, new = (unwind_table._read(elf_of(tmp_path / name)) for name in ("a.so", "b.so"))
    assert old is not None and new is not None
    assert new[1] == sorted(new[1]) and set(old[1]) < set(new[1])
    (adapter,) = (s for s in elf_of(tmp_path / "b.so").dynsym if s.name == "__tvm_ffi_throws")
    assert adapter.st_value in [start for start, _ in new[1]]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "form", [b"\x02\x1b\x03\x3b", b"\x01\x1b\x03\x3b" + b"\0" * 4 + b"\xff" * 4]
)
def test_a_table_of_another_form_stays(tmp_path: Path, form: bytes) -> None:
    (tmp_path / "k.cc").write_text(LIBRARY)
    subprocess.run(
        ["c++", "-shared", "-fPIC", tmp_path / "k.cc", "-o", tmp_path / "a.so"], check=True
    )
    (table,) = (s for s in elf_of(tmp_path / "a.so").segments if s.p_type == PT_GNU_EH_FRAME)
    data = bytearray((tmp_path / "a.so").read_bytes())
    data[table.p_offset : table.p_offset + len(form)] = form
    (tmp_path / "odd.so").write_bytes(data)
    mblob.convert(tmp_path / "odd.so", tmp_path / "b.so", dialect="ffi")
    assert table in elf_of(tmp_path / "b.so").segments


def test_what_is_too_far_away_stays(tmp_path: Path) -> None:
    (tmp_path / "k.cc").write_text(LIBRARY)
    subprocess.run(
        ["c++", "-shared", "-fPIC", tmp_path / "k.cc", "-o", tmp_path / "a.so"], check=True
    )
    elf = elf_of(tmp_path / "a.so")
    near, far = (unwind_table.joined(elf, elf, at, at) for at in (1 << 20, 1 << 31))
    rows = len(unwind_table._read(elf)[1])  # type: ignore[index]
    assert struct.unpack_from("=I", near, 8) == (2 * rows,) and not far
