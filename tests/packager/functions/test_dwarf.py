"""The reader of debug information beside pyelftools, and on what no compiler writes."""

from __future__ import annotations

import io
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from mblob.binary.elf import ElfFile
from mblob.packager.objects import debug_info
from mblob.packager.objects.debug_sections import debug_sections
from mblob.packager.objects.dwarf import DebugInfo, Entry, Sections, leb, signed_leb

C = """
#include <stdint.h>
struct s { int a; struct s *next; union { float f; uint8_t b[3][5]; } u; };
typedef enum { A, B = 70000 } kind;
int f(const struct s *s, kind k, int64_t n, double (*g)(char, ...)) { return s->a + k + (int)n; }
static inline int hidden(int x) { int y = x + 1; { int z = y; return z; } }
float v(const float *restrict a, volatile unsigned short *b) { return a[hidden(*b)]; }
"""
CXX = """
#include <string>
#include <vector>
namespace outer { namespace inner { template <class T> struct t { T x; virtual ~t() {} }; } }
extern "C" int g(outer::inner::t<int> &a, std::vector<std::string> &&b) { return a.x + (int)b.size(); }
"""


def entries(entry: Entry) -> Iterator[tuple[str, Any]]:
    yield entry.tag, entry.attributes.get("name")
    for child in entry.children():
        yield from entries(child)


def of_pyelftools(die: Any) -> Iterator[tuple[str, Any]]:
    from mblob.packager.objects.dwarf import TAGS

    tag = die.tag.removeprefix("DW_TAG_")
    name = die.attributes.get("DW_AT_name")
    yield tag if tag in TAGS.values() else "", name.value if name is not None else None
    for child in die.iter_children():
        yield from of_pyelftools(child)


@pytest.mark.parametrize("flags", ["-gdwarf-2", "-gdwarf-3", "-gdwarf-4", "-gdwarf-5", "-g -O2"])
@pytest.mark.parametrize("source", ["c", "c++"])
@pytest.mark.parametrize("compiler", ["cc", "clang"])
def test_entries_are_those_that_pyelftools_finds(
    tmp_path: Path, require: Any, compiler: str, source: str, flags: str
) -> None:
    require(compiler)
    (tmp_path / "x").write_text(C if source == "c" else CXX)
    subprocess.run(
        [compiler, *flags.split(), "-w", "-c", "-x", source, "x", "-o", "x.o"],
        cwd=tmp_path, check=True,
    )  # fmt: skip
    raw = (tmp_path / "x.o").read_bytes()
    ours = DebugInfo(debug_sections(ElfFile(memoryview(raw))))
    theirs = ELFFile(io.BytesIO(raw)).get_dwarf_info()
    found = [list(entries(unit.top)) for unit in ours.units()]
    assert found == [list(of_pyelftools(unit.get_top_DIE())) for unit in theirs.iter_CUs()]
    assert sum(map(len, found)) > 20


@pytest.mark.parametrize("number", [0, 1, 63, 64, 127, 128, 300, 2**32, 2**63])
def test_numbers_of_variable_length(number: int) -> None:
    raw, rest = b"", number
    while rest >= 128:
        raw, rest = raw + bytes([rest & 127 | 128]), rest >> 7
    raw += bytes([rest])
    assert leb(b"x" + raw, 1) == (number, 1 + len(raw))
    assert signed_leb(b"\x7f", 0) == (-1, 1)
    assert signed_leb(b"\x80\x7f", 0) == (-128, 2)
    with pytest.raises(ValueError, match="more than 64 bits"):
        leb(b"\x80" * 12, 0)
    with pytest.raises(IndexError):
        leb(b"\x80", 0)


def test_namespaces_in_namespaces_do_not_take_for_ever() -> None:
    """Each is read again for each one around it."""
    depth = 5_000
    abbrev = bytes([1, 0x11, 1, 0, 0, 2, 0x39, 1, 0, 0, 0])  # a unit and a namespace, with children
    body = b"\x04\x00\x00\x00\x00\x00\x08\x01" + b"\x02" * depth + b"\x00" * (depth + 1)
    info = len(body).to_bytes(4, "little") + body
    started = time.process_time()
    with pytest.raises(ValueError, match="take"):
        debug_info._read(DebugInfo(Sections("<", [info], [], abbrev, b"", b"", b"")))
    assert time.process_time() - started < 60
