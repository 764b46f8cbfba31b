"""ELF and index records are declared once: mblob/binary/elf_records.py, mblob/format/index.py."""

from __future__ import annotations

import ast
import os
import re
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mblob.binary.elf_records import ElfLayout, layout_of
from mblob.bytes.record import Record
from mblob.format import index
from tests.unit.test_layering import ROOT, SOURCES

DECLARING = ("mblob.binary.elf_records", "mblob.format.index", "mblob.bytes.record")
# Files with the records of another format, which happen to look alike: Mach-O and PE, the cache of
# ld.so, attributes of cubins.
OTHERS = (
    "mblob.binary.mach_o", "mblob.binary.pe", "mblob.inspect.library_search", "mblob.packager.device.device_kernels",
    "mblob.binary.file_kind",  # on the way of each load, which would wait for their import
)  # fmt: skip
READS_ELF = re.compile(r"^\s*from mblob\.(binary(\.elf\w*)?|format\.index) import", re.MULTILINE)
WIDE, NARROW = layout_of(64, "<"), layout_of(32, "<")


def records(layout: ElfLayout) -> dict[str, Record]:
    return {name: r for name, r in vars(layout).items() if isinstance(r, Record)}


INDEX = {"FOOTER": index.FOOTER, "HEADER": index.HEADER, "RECORD": index.RECORD}
# Sizes of one record, and places of one field, in the two classes; words and counts are everybody's.
PAIRS = {(r.size, records(NARROW)[name].size) for name, r in records(WIDE).items()}
PAIRS |= {
    (f.offset, records(NARROW)[name].fields[f.name].offset)
    for name, r in records(WIDE).items() for f in r.fields.values() if f.name != "ch_reserved"
}  # fmt: skip
PAIRS = {(wide, narrow) for wide, narrow in PAIRS if wide != narrow} - {(8, 4)}
PLACES = {
    (f.place.start, f.place.stop) for layout in (WIDE, NARROW) for f in layout.ehdr.fields.values() if f.offset > 4
}  # fmt: skip


def spelled(fmt: str) -> str:
    """A struct format with each code written out, without the byte order."""
    return re.sub(
        r"(\d+)([^\ds])", lambda m: min(int(m[1]), 99) * m[2], fmt.lstrip("<>=!@").replace(" ", "")
    )


FORMATS = {
    spelled(r.format)
    for r in [*records(WIDE).values(), *records(NARROW).values(), *INDEX.values()]
    if len(r.fields) > 3
}
NAMES = {f for r in [*records(WIDE).values(), *INDEX.values()] for f in r.fields}
FORMAT = re.compile(r"[<>=!@]?(\d*[bBhHiIlLqQnNx]|\d*s)+")


def text_of(node: ast.AST) -> str | None:
    """A text in the source; what an f-string fills in is left out."""
    if isinstance(node, ast.JoinedStr):
        parts = [p.value for p in node.values if isinstance(p, ast.Constant)]
        return "".join(map(str, parts))
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def numbers_of(*nodes: ast.AST | None) -> tuple[Any, ...]:
    return tuple(n.value if isinstance(n, ast.Constant) else None for n in nodes)


def second_declarations(source: str) -> Iterator[str]:
    """What in a source says again how a record is laid out."""
    reads_elf = READS_ELF.search(source) is not None
    tree = ast.parse(source)
    pieces = {id(p) for s in ast.walk(tree) if isinstance(s, ast.JoinedStr) for p in s.values}
    for node in ast.walk(tree):
        text = None if id(node) in pieces else text_of(node)
        if text and FORMAT.fullmatch(text):
            codes = re.sub(r"\d+s", "s", spelled(text))
            if spelled(text) in FORMATS or (
                reads_elf and len(codes) > 1 and re.search("[HIQN]", codes)
            ):
                yield f"the format {text!r}"
        if isinstance(node, ast.Tuple) and len(node.elts) == 2:
            name, code = numbers_of(*node.elts)
            if name in NAMES and isinstance(code, str) and FORMAT.fullmatch(code):
                yield f"the field {name!r}"
        if not reads_elf:
            continue
        if isinstance(node, ast.IfExp):
            pair = numbers_of(node.body, node.orelse)
            if pair in PAIRS or pair[::-1] in PAIRS:
                yield f"sizes or places of two classes {pair}"
        if isinstance(node, ast.Slice) and numbers_of(node.lower, node.upper) in PLACES:
            yield f"bytes of the ELF header {numbers_of(node.lower, node.upper)}"


@pytest.mark.parametrize("module", sorted(SOURCES.keys() - {*DECLARING, *OTHERS}))
def test_no_other_file_says_how_a_record_is_laid_out(module: str) -> None:
    assert [*second_declarations(SOURCES[module].read_text())] == []


IMPORT = "from mblob.binary.elf import ElfFile\n"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('fmt = "IIQQQQIIQQ" if wide else "10I"', 2),
        ('fmt = f"{order}IBBHQQ"', 1),
        ('FOOTER = "<QQQIIIIII16s"', 1),
        ('layout = (("p_type", "I"), ("p_flags", "I"), ("type", "I"))', 2),
        (IMPORT + 'elf.unpack("4I", at, "")', 1),
        (IMPORT + 'struct.pack(f"{order}2Q", tag, value)', 1),
        (IMPORT + "size = 24 if wide else 16", 1),
        (IMPORT + "at = 4 if elf.bits == 64 else 12", 1),
        (IMPORT + "machine = head[18:20]", 1),
        # other formats, single numbers, arrays
        ('struct.unpack_from("<2I", data)', 0),
        (IMPORT + 'struct.pack(f"{order}{n}I", *values)', 0),
        (IMPORT + 'code = "Q" if wide else "I"', 0),
    ],
)
def test_a_second_declaration_is_found(source: str, found: int) -> None:
    assert len([*second_declarations(source)]) == found


# Names of elf.h where ours is another; what it has no structure for.
IN_C = {"d_val": "d_un.d_val"}
NOT_IN_C = ("word", "versym", "property", "hash_32", "hash_64", "gnu_hash", "eh_frame_hdr", "eh_frame_row")  # fmt: skip


def test_every_field_lies_where_elf_h_has_it(tmp_path: Path) -> None:
    lines, expected = [], []
    for bits, layout in ((64, WIDE), (32, NARROW)):
        for name, r in records(layout).items():
            if name in NOT_IN_C:
                continue
            kind = f"Elf{bits}_{name.capitalize()}"
            lines.append(f"(int)sizeof({kind})")
            expected.append((kind, r.size))
            for f in r.fields.values():
                if "[" not in f.name:
                    member = IN_C.get(f.name, f.name)
                    lines.append(f"(int)offsetof({kind}, {member})")
                    expected.append((f"{kind}.{f.name}", f.offset))
    table = ", ".join(lines)
    source = tmp_path / "fields.c"
    source.write_text(
        f"#include <elf.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {{ int all[] = {{{table}}};"
        ' for (unsigned i = 0; i < sizeof(all) / sizeof(*all); i++) printf("%d\\n", all[i]); return 0; }\n'
    )
    compiler = os.environ.get("CC") or "cc"
    subprocess.run([compiler, "-o", tmp_path / "fields", source], check=True)
    done = subprocess.run([tmp_path / "fields"], capture_output=True, text=True, check=True)
    assert [(name, int(n)) for (name, _), n in zip(expected, done.stdout.split())] == expected


def test_every_field_of_the_index_lies_where_the_document_has_it() -> None:
    section = (ROOT / "docs" / "format.md").read_text().split("\n## 4.")[1].split("\n## ")[0]
    tables = [
        [line.split(" | ") for line in table.splitlines()[2:]]
        for table in re.findall(r"((?:^\|.*\n)+)", section, re.MULTILINE)
        if "offset | type" in table
    ]
    sizes = {"u64": ["Q"], "u32": ["I"], "u32, u32": ["I", "I"], "16 bytes": ["16s"], "32 bytes": ["32s"]}  # fmt: skip
    for r, rows in zip((index.FOOTER, index.HEADER, index.RECORD), tables):
        places = {int(row[0].strip("| ")) for row in rows}
        assert places <= {f.offset for f in r.fields.values()}
        assert [f.code for f in r.fields.values()] == [c for row in rows for c in sizes[row[1]]]
    assert len(tables) == 3


def test_a_record_is_made_read_and_changed_by_names() -> None:
    r = Record("a H, b n, c 4s", ">", 32)
    raw = r.make(b=-2, a=1, c=b"text")
    assert raw == struct.pack(">Hi4s", 1, -2, b"text") and r.size == 10
    assert r.pick("c", "a")(r.unpack_from(raw)) == (b"text", 1)
    assert r.packer("c", "b", "a")((b"text", -2, 1)) == raw
    changed = bytearray(b"." + raw)
    r.put(changed, 1, a=7)
    assert r.field_at(bytes(changed[1:]), "a") == 7 and changed[3:] == raw[2:]
    assert r.field_at(b"", "a") == 0
    with pytest.raises(struct.error):
        r.encode("a", 1 << 16)
    with pytest.raises(AssertionError):
        r.make(d=1)
