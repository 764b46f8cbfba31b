"""Relocations of shared libraries, as the psABI of each machine numbers them: read, moved,
written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import DT_JMPREL
from mblob.binary.relocation_types import number
from mblob.packager.errors import CannotJoin
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


def _types(machine: tuple[str, int], **names: str) -> Types:
    return Types(**{field: number(machine, name) for field, name in names.items()})


_X86_64, _AARCH64, _I386 = ("x86_64", 64), ("aarch64", 64), ("i386", 32)
_ARM, _S390X, _RISCV = ("arm", 32), ("s390x", 64), ("riscv", 64)
_TYPES = {
    _X86_64: _types(
        _X86_64, relative="RELATIVE", symbol="GLOB_DAT", word="64", call="JUMP_SLOT", module="DTPMOD64",
        fixed="TPOFF64", offset="DTPOFF64", descriptor="TLSDESC",
    ),
    _AARCH64: _types(
        _AARCH64, relative="RELATIVE", symbol="GLOB_DAT", word="ABS64", call="JUMP_SLOT", module="TLS_DTPMOD",
        fixed="TLS_TPREL", offset="TLS_DTPREL", descriptor="TLSDESC",
    ),
    _I386: _types(
        _I386, relative="RELATIVE", symbol="GLOB_DAT", word="32", call="JMP_SLOT", module="TLS_DTPMOD32",
        fixed="TLS_TPOFF", offset="TLS_DTPOFF32", descriptor="TLS_DESC",
    ),
    _ARM: _types(
        _ARM, relative="RELATIVE", symbol="GLOB_DAT", word="ABS32", call="JUMP_SLOT", module="TLS_DTPMOD32",
        fixed="TLS_TPOFF32", offset="TLS_DTPOFF32", descriptor="TLS_DESC",
    ),
    _S390X: _types(
        _S390X, relative="RELATIVE", symbol="GLOB_DAT", word="64", call="JMP_SLOT", module="TLS_DTPMOD",
        fixed="TLS_TPOFF", offset="TLS_DTPOFF",
    ),
    _RISCV: _types(
        _RISCV, relative="RELATIVE", symbol="64", word="64", call="JUMP_SLOT", module="TLS_DTPMOD64",
        fixed="TLS_TPREL64", offset="TLS_DTPREL64",
    ),
}  # fmt: skip
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
        CannotJoin: they are not known here.
    """
    found = _TYPES.get((elf.machine, elf.bits))
    if found is None:
        known = ", ".join(f"{name} ({bits}-bit)" for name, bits in _TYPES)
        raise CannotJoin(
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
    """What a relocation adds, wherever it stands."""
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
