"""Packed relocations of Android's linkers (`DT_ANDROID_RELA`, lld's `--pack-dyn-relocs=android`),
as bionic reads them.

"APS2", how many records, the first place; then groups, whose records have some of their fields in
common. All numbers are SLEB128.
"""

from __future__ import annotations

from collections.abc import Iterator

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import (
    DT_ANDROID_REL,
    DT_ANDROID_RELA,
    DT_ANDROID_RELASZ,
    DT_ANDROID_RELSZ,
)
from mblob.errors import FormatError

TAGS = (DT_ANDROID_REL, DT_ANDROID_RELSZ, DT_ANDROID_RELA, DT_ANDROID_RELASZ)

_SAME_INFO, _SAME_STEP, _SAME_ADDEND, _HAS_ADDEND = 1, 2, 4, 8


def records(elf: ElfFile) -> Iterator[tuple[int, int, int | None]]:
    """Place, info and addend (None where it stands in the word itself) of each.

    Raises:
        FormatError: "elf_dynamic": the table is damaged.
    """
    for table, size, has_addend in (
        (DT_ANDROID_REL, DT_ANDROID_RELSZ, False),
        (DT_ANDROID_RELA, DT_ANDROID_RELASZ, True),
    ):
        if table in elf.dynamic:
            length = elf.dynamic.get(size, [0])[0]
            start = elf.offset_of(elf.dynamic[table][0], length, "packed relocations")
            for place, info, addend in _unpacked(elf, elf.data[start : start + length]):
                yield place, info, addend if has_addend else None


def _unpacked(elf: ElfFile, data: memoryview) -> Iterator[tuple[int, int, int]]:
    if bytes(data[:4]) != b"APS2":
        raise _damage(elf, f"they start with {bytes(data[:4])!r}, expected b'APS2'")
    numbers = _numbers(elf, data[4:])
    count, place = next(numbers), next(numbers)
    if not 0 <= count <= len(elf.data):  # each is of a word of its own
        raise _damage(elf, f"{count} records")
    mask = (1 << elf.bits) - 1
    info = addend = 0
    while count:
        size, flags = next(numbers), next(numbers)
        if not 0 < size <= count:
            raise _damage(elf, f"a group of {size} records, of which {count} are left")
        step = next(numbers) if flags & _SAME_STEP else 0
        info = next(numbers) if flags & _SAME_INFO else info
        if not flags & _HAS_ADDEND:
            addend = 0
        elif flags & _SAME_ADDEND:
            addend += next(numbers)
        for _ in range(size):
            place += step if flags & _SAME_STEP else next(numbers)
            info = info if flags & _SAME_INFO else next(numbers)
            if flags & _HAS_ADDEND and not flags & _SAME_ADDEND:
                addend += next(numbers)
            yield place & mask, info & mask, addend
        count -= size


def _numbers(elf: ElfFile, data: memoryview) -> Iterator[int]:
    value = shift = 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if shift > 70:
            raise _damage(elf, "a number of more than 64 bits")
        if byte < 128:
            yield value - (1 << shift) if byte & 64 else value
            value = shift = 0
    raise _damage(elf, "they end early")


def _damage(elf: ElfFile, what: str) -> FormatError:
    return FormatError(f"{elf.name}: damaged packed relocations: {what}", code="elf_dynamic")
