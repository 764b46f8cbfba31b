"""Relocations of shared libraries, as the psABI of each machine numbers them: read, moved,
written."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import DT_JMPREL
from mblob.packager.edit import android_relocations
from mblob.packager.edit.blob_references import relative_words, relocation_tables
from mblob.packager.errors import BuildError
from mblob.packager.write.elf_patch import pack


@dataclass(frozen=True)
class Types:
    """Numbers of the relocations that joined code can have.

    Attributes:
        relative: the load address is added.
        symbol: the address of a symbol, and nothing else; in a word that linkers made for it.
        word: the same in any word, whose value is added where the record has no addend.
        call: the same for a call through a table, which may be done late.
        module, offset: the number of a library among those with memory of threads; a place in that
        memory.
        fixed: a place relative to the thread's pointer.
        descriptor: both in one.
    """

    relative: int
    symbol: int
    word: int
    call: int
    module: int
    fixed: int
    offset: int = -1
    descriptor: int = -1


_TYPES = {
    ("x86_64", 64): Types(8, 6, 1, 7, 16, 18, 17, 36),
    ("aarch64", 64): Types(1027, 1025, 257, 1026, 1028, 1030, 1029, 1031),
    ("i386", 32): Types(8, 6, 1, 7, 35, 14, 36, 41),
    ("arm", 32): Types(23, 21, 2, 22, 17, 19, 18, 13),
    ("s390x", 64): Types(12, 10, 22, 11, 54, 56, 55),
    ("riscv", 64): Types(3, 2, 2, 5, 7, 11, 9),
}


_NONE = 0  # on every machine


@dataclass(frozen=True)
class Relocation:
    """One record. `addend` is None where it stands in the word itself."""

    place: int
    type: int
    symbol: int
    addend: int | None


def types_of(elf: ElfFile) -> Types:
    """The numbers of a file's machine.

    Raises:
        BuildError: they are not known here.
    """
    found = _TYPES.get((elf.machine, elf.bits))
    if found is None:
        known = ", ".join(f"{name} ({bits}-bit)" for name, bits in _TYPES)
        raise BuildError(
            f"{elf.name}: for {elf.machine} ({elf.bits}-bit), whose relocations are not known here; known are {known};"
            " convert the objects that it was linked from"
        )
    return found


def read(elf: ElfFile) -> tuple[list[Relocation], list[Relocation]]:
    """The relocations of a library, and those of calls that may be done late. Packed ones
    (`DT_RELR`) stay apart.

    Empty records, which bfd leaves on riscv64, are left out; not those of calls, which code knows
    by their number.
    """
    early: list[Relocation] = []
    late: list[Relocation] = []
    late_table = elf.dynamic.get(DT_JMPREL, [0])[0]
    for table, size, has_addend in relocation_tables(elf):
        is_late = table == late_table
        # some linkers count the calls among the others, too
        if not is_late and table < late_table < table + size:
            size = late_table - table
        records = _records(elf, table, size, has_addend)
        (late if is_late else early).extend(records)
    for place, info, addend in android_relocations.records(elf):
        early.append(_record(elf, place, info, addend))
    return [r for r in early if r.type != _NONE], late


def _records(elf: ElfFile, table: int, size: int, has_addend: bool) -> Iterator[Relocation]:
    wide = elf.bits == 64
    fmt = ("QQq" if wide else "IIi")[: 3 if has_addend else 2]
    step = struct.calcsize("=" + fmt)
    start = elf.offset_of(table, size, "relocations")
    for i in range(size // step):
        place, info, *rest = elf.unpack(fmt, start + i * step, "a relocation")
        yield _record(elf, place, info, rest[0] if has_addend else None)


def _record(elf: ElfFile, place: int, info: int, addend: int | None) -> Relocation:
    kind, symbol = (info & 0xFFFFFFFF, info >> 32) if elf.bits == 64 else (info & 0xFF, info >> 8)
    return Relocation(place, kind, symbol, addend)


def packed(elf: ElfFile, types: Types) -> list[Relocation]:
    """Those of the packed table (`DT_RELR`), one by one."""
    return [Relocation(place, types.relative, 0, value) for place, value in relative_words(elf)]


def value_of(elf: ElfFile, r: Relocation) -> int:
    """What a relocation adds, wherever it stands."""
    if r.addend is not None:
        return r.addend
    return elf.unpack_at("Q" if elf.bits == 64 else "I", r.place, "a relocated word")[0]


def encode(elf: ElfFile, relocations: Sequence[Relocation]) -> bytes:
    """The table; all with addends, or none."""
    wide = elf.bits == 64
    out = []
    for r in relocations:
        info = r.symbol << 32 | r.type if wide else r.symbol << 8 | r.type
        fmt = ("QQq" if wide else "IIi")[: 2 if r.addend is None else 3]
        out.append(pack(elf, fmt, r.place, info, *(() if r.addend is None else (r.addend,))))
    return b"".join(out)
