"""ELF and index records are declared once: mblob/binary/elf_records.py, mblob/format/index.py. Numbers
are those of <elf.h>."""

from __future__ import annotations

import ast
import os
import re
import struct
import subprocess
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from mblob.binary import elf_records, relocation_types
from mblob.binary.elf_records import MACHINES, ElfLayout, layout_of
from mblob.bytes.record import Record
from mblob.format import index
from mblob.packager.join import relocations as edited
from tests.unit.test_layering import ROOT, SOURCES, parsed

DECLARING = ("mblob.binary.elf_records", "mblob.format.index", "mblob.bytes.record")
# Files with the records of another format, which happen to look alike: sections that GNU's tools compressed, Mach-O
# and PE, the cache of ld.so, attributes of cubins.
OTHERS = (
    "mblob.binary.debug_sections",
    "mblob.binary.mach_o",
    "mblob.binary.pe",
    "mblob.inspect.library_search",
    "mblob.packager.device.kernels",
    "mblob.binary.file_kind",  # on the way of each load, which would wait for their import
)
READS_ELF = re.compile(r"^\s*from mblob\.(binary(\.elf\w*)?|format\.index) import", re.MULTILINE)
WIDE, NARROW = layout_of(64, "<"), layout_of(32, "<")


def records(layout: ElfLayout) -> dict[str, Record]:
    return {name: r for name, r in vars(layout).items() if isinstance(r, Record)}


INDEX = {"FOOTER": index.FOOTER, "HEADER": index.HEADER, "RECORD": index.RECORD}
# Sizes of one record, and places of one field, in the two classes; words and counts are everybody's.
PAIRS = {(r.size, records(NARROW)[name].size) for name, r in records(WIDE).items()}
PAIRS |= {
    (f.offset, records(NARROW)[name].fields[f.name].offset)
    for name, r in records(WIDE).items()
    for f in r.fields.values()
    if f.name != "ch_reserved"
}
PAIRS = {(wide, narrow) for wide, narrow in PAIRS if wide != narrow} - {(8, 4)}
PLACES = {
    (f.place.start, f.place.stop)
    for layout in (WIDE, NARROW)
    for f in layout.ehdr.fields.values()
    if f.offset > 4
}


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


def second_declarations(source: str, tree: ast.Module) -> Iterator[str]:
    """What in a source says again how a record is laid out."""
    reads_elf = READS_ELF.search(source) is not None
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


def test_no_other_file_says_how_a_record_is_laid_out() -> None:
    others = SOURCES.keys() - {*DECLARING, *OTHERS}
    found = {m: [*second_declarations(SOURCES[m].read_text(), parsed(SOURCES[m]))] for m in others}
    assert {module: places for module, places in found.items() if places} == {}


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
    assert len([*second_declarations(source, ast.parse(source))]) == found


# Names of elf.h where ours is another; what it has no structure for.
IN_C = {"d_val": "d_un.d_val"}
NOT_IN_C = ("word", "versym", "property", "hash_32", "hash_64", "gnu_hash", "eh_frame_hdr", "eh_frame_row")  # fmt: skip


@pytest.mark.compiles
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
    statements = "".join(f'printf("%d\\n", {line});' for line in lines)
    printed = output_of(tmp_path, "#include <elf.h>\n#include <stddef.h>", statements)
    assert [(name, int(n)) for (name, _), n in zip(expected, printed)] == expected


def output_of(folder: Path, head: str, statements: str, *flags: str) -> list[str]:
    """Lines that a C program prints."""
    source = folder / "printing.c"
    source.write_text(f"{head}\n#include <stdio.h>\nint main(void) {{ {statements}\nreturn 0; }}\n")
    compiler = os.environ.get("CC") or "cc"
    subprocess.run([compiler, *flags, "-o", folder / "printing", source], check=True)
    done = subprocess.run([folder / "printing"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def numbers_of_elf_h(folder: Path, names: Collection[str]) -> dict[str, int]:
    """What <elf.h> has for each of the names; it lacks those that are newer."""
    lines = (
        f'\n#ifdef {n}\nprintf("{n} %llu\\n", (unsigned long long){n});\n#endif' for n in names
    )
    printed = output_of(folder, "#include <elf.h>", "".join(lines))
    return {name: int(number) for name, number in map(str.split, printed)}


NOT_IN_EACH_ELF_H = {
    "DT_RELR", "DT_RELRSZ", "DT_RELRENT", "DT_TLSDESC_PLT", "DT_TLSDESC_GOT", "PT_GNU_PROPERTY", "DF_1_PIE",
    "EM_LOONGARCH", "SHF_X86_64_LARGE", "R_RISCV_IRELATIVE", "R_RISCV_TLSDESC", "R_AARCH64_IRELATIVE",
    "R_390_IRELATIVE",
}  # fmt: skip
# Where MACHINES has another name than <elf.h>, without its EM_.
MACHINES_OF_ELF_H = {
    "i386": "386",
    "m68k": "68K",
    "s390x": "S390",
    "sparc64": "SPARCV9",
    "hexagon": "QDSP6",
}


@pytest.mark.compiles
def test_every_number_is_that_of_elf_h(tmp_path: Path) -> None:
    ours = {
        re.sub("(?<=SHT_GNU_)VER.*", lambda m: m[0].lower(), name): number
        for name, number in vars(elf_records).items()
        if re.match("(EM|ET|PT|PF|PN|SHT|SHF|SHN|STT|STB|STV|DT|DF|NT)_", name)
    }
    ours |= {f"EM_{MACHINES_OF_ELF_H.get(m, m.upper())}": number for number, m in MACHINES.items()}
    for start, meanings in relocation_types.TABLE.values():
        ours |= {start + name: n for types in meanings.values() for name, n in types.items()}
    found = numbers_of_elf_h(tmp_path, ours)
    assert {name: ours[name] for name in found} == found
    lacking = {n for n in ours.keys() - found.keys() if not n.startswith("DT_ANDROID_")}
    assert lacking <= NOT_IN_EACH_ELF_H
    assert len(found) > 150


@pytest.mark.compiles
def test_c_calls_machines_as_python_does(tmp_path: Path) -> None:
    text = (ROOT / "csrc/src/elf/elf.c").read_text().partition("machines[] =")[2].partition(";")[0]
    rows = re.findall(r'\{(\w+), "(\w+)"\}', text)
    numbers = numbers_of_elf_h(tmp_path, [n for n, _ in rows if not n.isdigit()])
    named = {numbers[n] if n in numbers else int(n): name for n, name in rows}
    assert named == {number: MACHINES[number] for number in named} and len(named) > 10


def test_c_reads_the_relocations_of_python() -> None:
    text = (ROOT / "csrc/src/elf/relocation_numbers.h").read_text()
    assert text == relocation_types.header()
    chosen = (ROOT / "csrc/src/elf/relocation_types.h").read_text()
    assert set(re.findall("MB_RELOCATIONS_\\w+", text)) == set(
        re.findall("MB_RELOCATIONS_\\w+", chosen)
    )


def test_joined_code_has_relocations_of_their_meaning() -> None:
    """Fields of `Types` by the first type of each meaning; of riscv64 no slot for symbols alone."""
    numbers = {machine: tuple(vars(types).values()) for machine, types in edited._TYPES.items()}
    assert numbers == {
        ("x86_64", 64): (8, 6, 1, 7, 16, 18, 17, 36),
        ("aarch64", 64): (1027, 1025, 257, 1026, 1028, 1030, 1029, 1031),
        ("i386", 32): (8, 6, 1, 7, 35, 14, 36, 41),
        ("arm", 32): (23, 21, 2, 22, 17, 19, 18, 13),
        ("riscv", 64): (3, 2, 2, 5, 7, 11, 9, 12),
        ("s390x", 64): (12, 10, 22, 11, 54, 56, 55, -1),
    }


def test_the_order_of_meanings_means_nothing() -> None:
    """A comparison takes a new meaning for one of the others; of a `switch` without `default`, compilers
    say that it lacks one."""
    for path in sorted((ROOT / "csrc/src/elf").glob("*.[ch]")):
        source = path.read_text()
        assert re.findall(r"\bmeaning\s*(?:[<>]=?|[-+])", source) == [], path
        for switch in source.split("switch (meaning) {")[1:]:
            assert "default:" not in switch.partition("\n  }")[0], path


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
