"""Debug information whose numbers lead astray: it is read in bounded time and memory."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
import tracemalloc
import zlib
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from mblob.binary import dwarf_functions
from mblob.binary.dwarf_functions import Function, exported_function
from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import SHF_COMPRESSED

pytestmark = pytest.mark.compiles

# Entries with entries below them, that others follow: calls, blocks, arrays, functions.
SOURCE = """
int g(int);
int rows[2][3];
int f(int x, int (*y)[3]) {
  int s = g(x) + g(x + 1);
  { int a[2] = {x, s}; s += g(a[x & 1]); { int b[3] = {s, x, 1}; s += g(b[x & 1]); } s += g(s + 2); }
  return s + y[0][1];
}
static int __attribute__((noinline)) inner(int x) { return g(x) + g(x + 3); }
int last(int x) { { int c[2] = {x, 1}; x += g(c[x & 1]) + g(x + 4); } return inner(x); }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("dwarf")
    (folder / "k.c").write_text(SOURCE)
    flags = ["-g", "-O2", "-gno-column-info", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, "k.c", "-o", "k.so"], cwd=folder, check=True)
    return (folder / "k.so").read_bytes()


def exported(library: bytes) -> Function | None:
    return exported_function(ElfFile(memoryview(library)), "f")


def with_circles(library: bytes) -> list[bytes]:
    """The library with one DW_AT_sibling each that leads to its own entry."""
    elf = ELFFile(io.BytesIO(library))
    start = elf.get_section_by_name(".debug_info")["sh_offset"]
    made = []
    for unit in elf.get_dwarf_info().iter_CUs():
        for die in unit.iter_DIEs():
            if "DW_AT_sibling" in die.attributes:
                data = bytearray(library)
                found = die.attributes["DW_AT_sibling"]
                assert found.form == "DW_FORM_ref4"
                struct.pack_into("<I", data, start + found.offset, die.offset - unit.cu_offset)
                made.append(bytes(data))
    return made


READ = """
import sys
from pathlib import Path
from mblob.binary.dwarf_functions import exported_function
from mblob.binary.elf import ElfFile
for path in sys.argv[1:]:
    elf = ElfFile(memoryview(Path(path).read_bytes()))
    print(all(exported_function(elf, name) for name in ("f", "last")))
"""


def test_siblings_in_a_circle_are_no_endless_loop(library: bytes, tmp_path: Path) -> None:
    assert exported(library) is not None
    made = with_circles(library)
    assert len(made) > 5
    paths = [tmp_path / f"{i}.so" for i in range(len(made))]
    for path, data in zip(paths, made):
        path.write_bytes(data)
    command = [sys.executable, "-c", READ, *paths]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split().count("False") > 2  # other circles lie where nobody looks


BOMB = 1 << 26  # bytes that are decompressed; what is read is bounded by 1 << 20


def with_section(library: bytes, name: str, contents: bytes, flags: int = 0) -> bytes:
    """The library with other contents of a section, which lie behind everything else."""
    elf = ElfFile(memoryview(library))
    index = next(i for i, s in enumerate(elf.sections) if s.name == name)
    out = bytearray(library)
    elf.layout.shdr.put(
        out,
        elf.e_shoff + index * elf.e_shentsize,
        sh_offset=len(out),
        sh_size=len(contents),
        sh_flags=elf.sections[index].sh_flags | flags,
    )
    return bytes(out + contents)


def zdebug(library: bytes, folder: Path) -> bytes:
    """The library with its debug information as GNU's tools compressed it before SHF_COMPRESSED."""
    (folder / "k.so").write_bytes(library)
    elf = ElfFile(memoryview(library))
    names = [s.name for s in elf.sections if s.name.startswith(".debug_")]
    renamed = [f"--rename-section={name}=.z{name[1:]}" for name in names]
    subprocess.run(["objcopy", *renamed, "k.so", "z.so"], cwd=folder, check=True)
    made = (folder / "z.so").read_bytes()
    for name in names:
        contents = bytes(elf.contents(next(s for s in elf.sections if s.name == name)))
        made = with_section(made, f".z{name[1:]}", packed_by_gnu(contents))
    return made


def packed_by_gnu(contents: bytes) -> bytes:
    return b"ZLIB" + len(contents).to_bytes(8, "big") + zlib.compress(contents, 1)


def packed(contents: bytes, said: int) -> bytes:
    """What a section with SHF_COMPRESSED has: ELFCOMPRESS_ZLIB, a size, an alignment, the data."""
    return struct.pack("<IIQQ", 1, 0, said, 1) + zlib.compress(contents, 1)


def peak_of(data: bytes, monkeypatch: pytest.MonkeyPatch) -> int:
    """Memory for reading a library whose debug information is too large."""
    monkeypatch.setattr(dwarf_functions, "_LARGEST", 1 << 20)
    tracemalloc.start()
    try:
        assert exported(data) is None
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("said", [0, BOMB, 1 << 62], ids=["0", "true", "huge"])
@pytest.mark.parametrize("name", [".debug_str", ".debug_abbrev"])
def test_a_compressed_section_is_bounded(
    said: int, name: str, library: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = with_section(library, name, packed(bytes(BOMB), said), SHF_COMPRESSED)
    assert peak_of(bomb, monkeypatch) < BOMB // 4


def test_a_section_that_gnu_compressed_is_read_and_bounded(
    library: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = zdebug(library, tmp_path)
    plain = exported(library)
    assert plain is not None and exported(made) == plain
    bomb = with_section(made, ".zdebug_str", packed_by_gnu(bytes(BOMB)))
    assert peak_of(bomb, monkeypatch) < BOMB // 4
