"""Relocations of shared libraries, as the psABI of each machine numbers them: read, moved,
written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import DT_JMPREL
from mblob.packager.errors import CannotJoinError
from mblob.packager.join import android_relocations
from mblob.packager.join.blob_references import word_of
from mblob.packager.write.elf_patch import fitting


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


# By machine and bits: what the names of its psABI start with; then the type of each field, name and number.
# What a dynamic linker does for each is in csrc/src/elf/relocation_types.h.
TABLE: dict[tuple[str, int], tuple[str, dict[str, tuple[str, int]]]] = {
    ("x86_64", 64): ("R_X86_64_", {
        "relative": ("RELATIVE", 8), "symbol": ("GLOB_DAT", 6), "word": ("64", 1), "call": ("JUMP_SLOT", 7),
        "module": ("DTPMOD64", 16), "fixed": ("TPOFF64", 18), "offset": ("DTPOFF64", 17),
        "descriptor": ("TLSDESC", 36),
    }),
    ("aarch64", 64): ("R_AARCH64_", {
        "relative": ("RELATIVE", 1027), "symbol": ("GLOB_DAT", 1025), "word": ("ABS64", 257),
        "call": ("JUMP_SLOT", 1026), "module": ("TLS_DTPMOD", 1028), "fixed": ("TLS_TPREL", 1030),
        "offset": ("TLS_DTPREL", 1029), "descriptor": ("TLSDESC", 1031),
    }),
    ("i386", 32): ("R_386_", {
        "relative": ("RELATIVE", 8), "symbol": ("GLOB_DAT", 6), "word": ("32", 1), "call": ("JMP_SLOT", 7),
        "module": ("TLS_DTPMOD32", 35), "fixed": ("TLS_TPOFF", 14), "offset": ("TLS_DTPOFF32", 36),
        "descriptor": ("TLS_DESC", 41),
    }),
    ("arm", 32): ("R_ARM_", {
        "relative": ("RELATIVE", 23), "symbol": ("GLOB_DAT", 21), "word": ("ABS32", 2), "call": ("JUMP_SLOT", 22),
        "module": ("TLS_DTPMOD32", 17), "fixed": ("TLS_TPOFF32", 19), "offset": ("TLS_DTPOFF32", 18),
        "descriptor": ("TLS_DESC", 13),
    }),
    ("s390x", 64): ("R_390_", {
        "relative": ("RELATIVE", 12), "symbol": ("GLOB_DAT", 10), "word": ("64", 22), "call": ("JMP_SLOT", 11),
        "module": ("TLS_DTPMOD", 54), "fixed": ("TLS_TPOFF", 56), "offset": ("TLS_DTPOFF", 55),
    }),
    ("riscv", 64): ("R_RISCV_", {
        "relative": ("RELATIVE", 3), "symbol": ("64", 2), "word": ("64", 2), "call": ("JUMP_SLOT", 5),
        "module": ("TLS_DTPMOD64", 7), "fixed": ("TLS_TPREL64", 11), "offset": ("TLS_DTPREL64", 9),
    }),
}  # fmt: skip
_TYPES = {
    machine: Types(**{field: number for field, (_, number) in rows.items()})
    for machine, (_, rows) in TABLE.items()
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
        CannotJoinError: they are not known here.
    """
    found = _TYPES.get((elf.machine, elf.bits))
    if found is None:
        known = ", ".join(f"{name} ({bits}-bit)" for name, bits in _TYPES)
        raise CannotJoinError(
            f"{elf.name}: for {elf.machine} ({elf.bits}-bit), whose relocations are not known here; known are {known}"
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
    for table, size, record in elf.relocation_tables():
        is_late = table == late_table
        # some linkers count the calls among the others, too
        if not is_late and table < late_table < table + size:
            size = late_table - table
        start = elf.offset_of(table, size, "relocations")
        rows = elf.records(record, start, size // record.size, "relocations")
        (late if is_late else early).extend(_relocation(elf, *row) for row in rows)
    for row in android_relocations.records(elf):
        early.append(_relocation(elf, *row))
    return [r for r in early if r.type != _NONE], late


def _relocation(elf: ElfFile, place: int, info: int, addend: int | None = None) -> Relocation:
    layout = elf.layout
    return Relocation(place, info & layout.type_mask, info >> layout.symbol_shift, addend)


def packed(elf: ElfFile, types: Types) -> list[Relocation]:
    """Those of the packed table (`DT_RELR`), one by one."""
    return [
        Relocation(place, types.relative, 0, word_of(elf, place)) for place in elf.relative_places()
    ]


def value_of(elf: ElfFile, r: Relocation) -> int:
    """The addend of a relocation, wherever it stands."""
    return elf.word_at(r.place) if r.addend is None else r.addend


def encode(elf: ElfFile, relocations: Sequence[Relocation]) -> bytes:
    """The table; all with addends, or none."""
    rel, rela, shift = elf.layout.rel, elf.layout.rela, elf.layout.symbol_shift
    out = []
    with fitting(elf):
        for r in relocations:
            place, info = r.place, r.symbol << shift | r.type
            out.append(
                rel.pack(place, info) if r.addend is None else rela.pack(place, info, r.addend)
            )
    return b"".join(out)
