"""Relocations of shared libraries, as the psABI of each machine numbers them: read, moved,
written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import DT_JMPREL
from mblob.binary.relocation_types import TABLE
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


def _types(meanings: Mapping[str, Mapping[str, int]]) -> Types:
    """The numbers of a machine's types, by what they mean; -1 for what it has not."""
    first = {meaning: next(iter(numbers.values())) for meaning, numbers in meanings.items()}
    slots = list(meanings["SLOT"].values())  # the last is for calls
    return Types(
        relative=first["RELATIVE"],
        symbol=slots[0] if len(slots) > 1 else first["ADDRESS"],
        word=first["ADDRESS"],
        call=slots[-1],
        module=first["MODULE"],
        fixed=first["TLS_PLACE"],
        offset=first.get("OFFSET", -1),
        descriptor=first.get("DESCRIPTOR", -1),
    )


_TYPES = {machine: _types(found.types) for machine, found in TABLE.items()}
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
