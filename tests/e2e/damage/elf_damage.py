"""Lies in the headers and tables of an ELF file (64 bits, little endian), in every field that the
dynamic linker reads.

A change is a list of (offset, bytes); `text` writes it as damage_library.c reads it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import (
    DT_GNU_HASH,
    DT_HASH,
    DT_JMPREL,
    DT_PLTRELSZ,
    DT_RELA,
    DT_RELASZ,
    DT_RELR,
    DT_RELRSZ,
    DT_SYMTAB,
    DT_VERDEF,
    DT_VERDEFNUM,
    DT_VERNEED,
    DT_VERNEEDNUM,
    DT_VERSYM,
    PT_DYNAMIC,
    PT_GNU_PROPERTY,
    PT_NOTE,
)

Change = list[tuple[int, bytes]]
_HEADER = (("e_ident", 0, 16), ("e_type", 16, 2), ("e_machine", 18, 2), ("e_version", 20, 4), ("e_entry", 24, 8),
           ("e_phoff", 32, 8), ("e_shoff", 40, 8), ("e_flags", 48, 4), ("e_ehsize", 52, 2), ("e_phentsize", 54, 2),
           ("e_phnum", 56, 2), ("e_shentsize", 58, 2), ("e_shnum", 60, 2), ("e_shstrndx", 62, 2))  # fmt: skip
_SEGMENT = (("p_type", 0, 4), ("p_flags", 4, 4), ("p_offset", 8, 8), ("p_vaddr", 16, 8), ("p_filesz", 32, 8),
            ("p_memsz", 40, 8), ("p_align", 48, 8))  # fmt: skip
_SYMBOL = (("st_name", 0, 4), ("st_info", 4, 1), ("st_other", 5, 1), ("st_shndx", 6, 2), ("st_value", 8, 8),
           ("st_size", 16, 8))  # fmt: skip
_RELOCATION = (("r_offset", 0, 8), ("r_type", 8, 4), ("r_sym", 12, 4), ("r_addend", 16, 8))
_NEEDED = (
    ("vn_version", 0, 2),
    ("vn_cnt", 2, 2),
    ("vn_file", 4, 4),
    ("vn_aux", 8, 4),
    ("vn_next", 12, 4),
)
_NEEDED_PART = (
    ("vna_hash", 0, 4),
    ("vna_flags", 4, 2),
    ("vna_other", 6, 2),
    ("vna_name", 8, 4),
    ("vna_next", 12, 4),
)
_DEFINED = (("vd_version", 0, 2), ("vd_flags", 2, 2), ("vd_ndx", 4, 2), ("vd_cnt", 6, 2), ("vd_hash", 8, 4),
            ("vd_aux", 12, 4), ("vd_next", 16, 4))  # fmt: skip
# Numbers that mean something to some field: types, tags, flags, sizes, limits.
_TYPES = (*range(40), 257, 1024, *range(1025, 1033))
_SEGMENT_TYPES = (*range(9), 0x6474E550, 0x6474E551, 0x6474E552, 0x6474E553, 0x70000001)
_TAGS = (*range(40), *range(0x6FFFFEF4, 0x6FFFFF00), *range(0x6FFFFDF4, 0x6FFFFE00), 0x6FFFFFF0,
         *range(0x6FFFFFF9, 0x70000000), 0x7FFFFFFD, 0x7FFFFFFF)  # fmt: skip
_SHNDX = (0, 1, 0xFFF1, 0xFFF2, 0xFF00, 0xFFFF)


class Field(NamedTuple):
    name: str
    offset: int
    size: int


def fields(elf: ElfFile) -> Iterator[Field]:
    """Every field, table by table."""
    yield from (Field(name, at, size) for name, at, size in _HEADER)
    for i in range(elf.e_phnum):
        yield from _record(f"segment {i}", elf.e_phoff + 56 * i, _SEGMENT)
    dynamic = next(s for s in elf.segments if s.p_type == PT_DYNAMIC)
    for at in range(
        dynamic.p_offset, dynamic.p_offset + 16 * (sum(map(len, elf.dynamic.values())) + 1), 16
    ):
        tag = int.from_bytes(elf.data[at : at + 8], "little")
        yield from _record(f"tag {tag:#x}", at, (("d_tag", 0, 8), ("d_val", 8, 8)))
    count = len(elf.dynsym) + 1
    for i, at in enumerate(_places(elf, DT_SYMTAB, 24 * count, 24)):
        yield from _record(f"symbol {i}", at, _SYMBOL)
    for tag, size in ((DT_RELA, DT_RELASZ), (DT_JMPREL, DT_PLTRELSZ)):
        for i, at in enumerate(_places(elf, tag, elf.dynamic.get(size, [0])[0], 24)):
            yield from _record(f"{'RELA' if tag == DT_RELA else 'JMPREL'}[{i}]", at, _RELOCATION)
    words = [
        ("RELR", DT_RELR, elf.dynamic.get(DT_RELRSZ, [0])[0], 8),
        ("versym", DT_VERSYM, 2 * count, 2),
    ]
    words += [
        ("hash", DT_HASH, 4 * (2 + count), 4),
        ("gnu_hash", DT_GNU_HASH, 16 + 8 + 4 * count, 4),
    ]
    for name, tag, size, each in words:
        yield from (
            Field(f"{name}[{i}]", at, each) for i, at in enumerate(_places(elf, tag, size, each))
        )
    yield from _versions(elf)
    for s in elf.segments:
        if s.p_type in (PT_NOTE, PT_GNU_PROPERTY):
            yield from (
                Field("note", at, 4)
                for at in range(s.p_offset, s.p_offset + min(s.p_filesz, 64), 4)
            )


def _record(name: str, at: int, parts: tuple[tuple[str, int, int], ...]) -> Iterator[Field]:
    return (Field(f"{name} {part}", at + start, size) for part, start, size in parts)


def _places(elf: ElfFile, tag: int, size: int, each: int) -> range:
    if tag not in elf.dynamic:
        return range(0)
    start = elf.offset_of(elf.dynamic[tag][0], 0, "a table")
    return range(start, start + size, each)


def _versions(elf: ElfFile) -> Iterator[Field]:
    for tag, count, layout in (
        (DT_VERNEED, DT_VERNEEDNUM, _NEEDED),
        (DT_VERDEF, DT_VERDEFNUM, _DEFINED),
    ):
        at = elf.offset_of(elf.dynamic[tag][0], 0, "versions") if tag in elf.dynamic else 0
        for _ in range(elf.dynamic.get(count, [0])[0]):
            yield from _record("version", at, layout)
            aux, following = (
                int.from_bytes(elf.data[i : i + 4], "little")
                for i in (at + layout[-2][1], at + layout[-1][1])
            )
            yield from _record(
                "part", at + aux, _NEEDED_PART if tag == DT_VERNEED else _NEEDED_PART[:1]
            )
            at += following


def values(
    elf: ElfFile, field: Field, chance: random.Random, addresses: list[int]
) -> Iterator[bytes]:
    """What to write into a field: limits, neighbours, numbers with a meaning, addresses of the
    file, single bits."""
    old = int.from_bytes(elf.data[field.offset : field.offset + field.size], "little")
    top = 1 << (8 * field.size)
    found = {0, 1, 2, 3, 7, 8, 16, 24, old + 1, old - 1, old + 8, old - 8, old + 24, old + 4096, old - 4096, old * 2,
             top - 1, top - 8, top >> 1, (top >> 1) - 1, top - 4096, 0xFFFFFFFF, 1 << 31, 1 << 46}  # fmt: skip
    found |= {
        old ^ 1 << bit for bit in chance.sample(range(8 * field.size), min(8, 8 * field.size))
    }
    last = field.name.rpartition(" ")[2]
    special = {"p_type": _SEGMENT_TYPES, "d_tag": _TAGS, "r_type": _TYPES, "st_shndx": _SHNDX, "p_flags": range(8),
               "st_info": range(256), "st_other": range(4), "r_sym": range(24), "versym": range(9)}  # fmt: skip
    found |= set(special.get(last.partition("[")[0], ()))
    if field.size == 8:
        found |= set(chance.sample(addresses, min(12, len(addresses))))
    for value in sorted({v % top for v in found} - {old}):
        yield value.to_bytes(field.size, "little")


def addresses_of(elf: ElfFile) -> list[int]:
    """Where things lie: starts and ends of segments, values of tags and symbols."""
    found = {
        n
        for s in elf.segments
        for n in (s.p_vaddr, s.p_vaddr + s.p_memsz, s.p_vaddr + s.p_filesz, s.p_offset)
    }
    found |= {v for tag in elf.dynamic.values() for v in tag} | {s.st_value for s in elf.dynsym}
    return sorted(found)


def single(elf: ElfFile, seed: int = 1) -> Iterator[tuple[str, Change]]:
    """Each field with each value."""
    chance, addresses = random.Random(seed), addresses_of(elf)
    for field in fields(elf):
        for value in values(elf, field, chance, addresses):
            yield f"{field.name} = {int.from_bytes(value, 'little'):#x}", [(field.offset, value)]


def several(elf: ElfFile, count: int, seed: int = 1) -> Iterator[tuple[str, Change]]:
    """`count` times two to four lies at once."""
    chance, known = random.Random(seed), list(single(elf, seed))
    for _ in range(count):
        chosen = chance.sample(known, chance.choice((2, 2, 3, 4)))
        yield (
            "; ".join(name for name, _ in chosen),
            [part for _, change in chosen for part in change],
        )


def text(change: Change) -> str:
    return " ".join(f"{at}:{data.hex()}" for at, data in change)
