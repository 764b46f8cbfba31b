"""A search for references by address from a finished library to its blob, which then cannot move.

References by the symbol's name are none: the dynamic linker looks it up. What counts are addresses
that the linker has put into data (relocations that add the load address, other symbols) and
distances that it has put into code.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterator

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import (
    DT_PLTGOT,
    PF_X,
    PT_LOAD,
    SHF_EXECINSTR,
    SHT_NOBITS,
    STT_SECTION,
    Symbol,
)
from mblob.errors import FormatError
from mblob.packager.join import android_relocations

# Places in the blob that code would refer to: its start, what follows the length prefix, and the
# count.
_TARGETS = (0, 8, 16)
# Opcodes of x86-64 with an immediate operand behind the distance, of 8 bits or of 32.
_IMMEDIATE_8 = (0x80, 0x83, 0xC0, 0xC1, 0xC6, 0xF6, 0x6B)
_IMMEDIATE_32 = (0x81, 0xC7, 0xF7, 0x69)
_NEAR = 8  # instructions within which the low half of an address follows the high one


def find_reference(elf: ElfFile, symbol: Symbol) -> str | None:
    """The reference to the blob, in words; None if there is none.

    Args:
        symbol: the blob's.

    Raises:
        FormatError: tables are damaged.
    """
    start, end = symbol.st_value, symbol.st_value + symbol.st_size
    for other in elf.dynsym:
        inside = start <= other.st_value < end and other.is_defined and other.type != STT_SECTION
        if inside and other.name != symbol.name:
            return f"the symbol {other.name} lies in it"
    for place, address in _addresses(elf):
        if start <= address < end:
            return f"data at {place:#x} has its address"
    scan = _SCANS.get((elf.machine, elf.bits))
    if scan is None:
        return f"nothing here reads code of {elf.machine}, which may have its address"
    targets = {start + at for at in _TARGETS if start + at < end}
    for vaddr, code in _code(elf, start, end) if targets else ():
        at = scan(elf, vaddr, code, targets)
        if at is not None:
            return f"code at {at:#x} has its address"
    return None


# -- data ------------------------------------------------------------------------------------------


def _addresses(elf: ElfFile) -> Iterator[tuple[int, int]]:
    """Place and value of each word that the dynamic linker moves by the load address."""
    shift = elf.layout.symbol_shift
    for table, size, record in elf.relocation_tables():
        start = elf.offset_of(table, size, "relocations")
        for place, info, *addends in elf.records(record, start, size // record.size, "relocations"):
            if not info >> shift:  # those of a symbol are looked up by name
                yield place, addends[0] if addends else word_of(elf, place)
    for place, info, addend in android_relocations.records(elf):
        if not info >> shift:
            yield place, word_of(elf, place) if addend is None else addend
    for place in elf.relative_places():
        yield place, word_of(elf, place)


def word_of(elf: ElfFile, place: int) -> int:
    """The word at an address that a relocation changes."""
    try:
        return elf.word_at(place)
    except FormatError:  # in memory that the file does not fill: zero
        return 0


# -- code ------------------------------------------------------------------------------------------


def _code(elf: ElfFile, start: int, end: int) -> Iterator[tuple[int, memoryview]]:
    """Address and bytes of the code, without the blob."""
    sections = [s for s in elf.sections if s.sh_flags & SHF_EXECINSTR and s.sh_type != SHT_NOBITS]
    if sections:
        areas = [(s.sh_addr, s.sh_offset, s.sh_size) for s in sections]
    else:
        loaded = (s for s in elf.segments if s.p_type == PT_LOAD and s.p_flags & PF_X)
        areas = [(s.p_vaddr, s.p_offset, s.p_filesz) for s in loaded]
    for vaddr, offset, size in areas:
        data = elf.data[offset : offset + size]
        if vaddr < end and start < vaddr + size:
            yield vaddr, data[: max(start - vaddr, 0)]
            yield end, data[end - vaddr :]
        else:
            yield vaddr, data


Scan = Callable[[ElfFile, int, memoryview, "set[int]"], "int | None"]


def _words(data: memoryview, letter: str) -> array[int]:
    step = struct.calcsize(letter)
    return array(letter, bytes(data[: len(data) // step * step]))


def _scan_x86_64(elf: ElfFile, vaddr: int, code: memoryview, targets: set[int]) -> int | None:
    """Distances of 32 bits, at any place, from the end of their instruction; in front of each is a
    ModR/M byte, and an opcode that tells whether an immediate operand follows."""
    wanted = frozenset(t - 4 - behind for t in targets for behind in (0, 1, 2, 4))
    low, high = min(wanted), max(wanted)
    for first in range(4):
        at = vaddr + first
        for i, distance in enumerate(_words(code[first:], "i")):
            if low <= distance + at + 4 * i <= high and distance + at + 4 * i in wanted:
                place = first + 4 * i
                modrm, opcode = (code[place - 1], code[place - 2]) if place >= 2 else (0, 0)
                behind = 1 if opcode in _IMMEDIATE_8 else 4 if opcode in _IMMEDIATE_32 else 0
                ends = {behind, 2} if behind == 4 else {behind}  # 16 bits with a prefix
                if modrm & 0xC7 == 5 and any(
                    vaddr + place + 4 + distance + end in targets for end in ends
                ):
                    return vaddr + place
    return None


def _scan_i386(elf: ElfFile, vaddr: int, code: memoryview, targets: set[int]) -> int | None:
    """Distances from the global offset table, at any place."""
    table = elf.section(".got.plt") or elf.section(".got")
    bases = elf.dynamic.get(DT_PLTGOT, [table.sh_addr] if table else [])
    if not bases:
        return None if elf.sections else vaddr  # no table, or nothing tells where it is
    base, whole = bases[0], bytes(code)
    for target in targets:
        at = whole.find(((target - base) & 0xFFFFFFFF).to_bytes(4, "little"))
        if at >= 0:
            return vaddr + at
    return None


def _scan_aarch64(elf: ElfFile, vaddr: int, code: memoryview, targets: set[int]) -> int | None:
    """`adr`; `adrp`, and within a few instructions an `add` or a load with the low twelve bits."""
    words = _words(code, "I")
    pages = {t >> 12 for t in targets}
    for i, word in enumerate(words):
        if word & 0x1F000000 != 0x10000000:
            continue
        distance = ((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3) ^ 0x100000
        distance -= 0x100000
        here = vaddr + 4 * i
        if not word >> 31:
            if here + distance in targets:
                return here
        elif (here >> 12) + distance in pages and _has_low_half(
            words[i + 1 : i + 1 + _NEAR], word & 31, targets
        ):
            return here
    return None


def _has_low_half(words: array[int], register: int, targets: set[int]) -> bool:
    lows = {t & 0xFFF for t in targets}
    for word in words:
        if word >> 5 & 31 != register:
            continue
        immediate = word >> 10 & 0xFFF
        if word & 0xFF800000 == 0x91000000 and immediate in lows:  # add, 64 bits
            return True
        # loads and stores
        if word & 0x3B000000 == 0x39000000 and immediate << (word >> 30) in lows:
            return True
    return False


def _scan_riscv(elf: ElfFile, vaddr: int, code: memoryview, targets: set[int]) -> int | None:
    """`auipc`, and within a few instructions an `addi` or a load with the low twelve bits; at every
    half word."""
    halves = _words(code, "H")
    for i in range(len(halves) - 1):
        word = halves[i] | halves[i + 1] << 16
        if word & 0x7F != 0x17:
            continue
        high = vaddr + 2 * i + ((word & 0xFFFFF000) ^ 0x80000000) - 0x80000000
        if not any(-2048 <= t - high < 2048 for t in targets):
            continue
        for j in range(i + 2, min(i + 2 + 2 * _NEAR, len(halves) - 1)):
            next_word = halves[j] | halves[j + 1] << 16
            low = (next_word >> 20 ^ 0x800) - 0x800
            if (
                next_word & 0x7F in (0x13, 0x03)
                and next_word >> 15 & 31 == word >> 7 & 31
                and high + low in targets
            ):
                return vaddr + 2 * i
    return None


def _scan_s390x(elf: ElfFile, vaddr: int, code: memoryview, targets: set[int]) -> int | None:
    """`larl` and its like: an opcode, and a distance of 32 bits in half words."""
    for at in range(0, len(code) - 5, 2):
        if (
            code[at] in (0xC0, 0xC4)
            and vaddr + at + 2 * struct.unpack_from(">i", code, at + 2)[0] in targets
        ):
            return vaddr + at
    return None


_SCANS: dict[tuple[str, int], Scan] = {
    ("x86_64", 64): _scan_x86_64,
    ("i386", 32): _scan_i386,
    ("aarch64", 64): _scan_aarch64,
    ("riscv", 64): _scan_riscv,
    ("riscv", 32): _scan_riscv,
    ("s390x", 64): _scan_s390x,
}
