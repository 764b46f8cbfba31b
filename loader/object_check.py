"""Object files and archives, checked before a linker sees them: are they sound, and for this machine?"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

from mblob.elf import ElfFile
from mblob.errors import FormatError, IncompatibleError

_AR_MAGIC = b"!<arch>\n"
_AR_HEADER = 60  # bytes of a member's header: ar(5), System V and GNU; the size is at 48, the end mark at 58
_HEADERS = 64  # bytes that hold the header of any ELF file


def check_object(path: Path, name: str) -> None:
    """Check one object file, or the object files in an archive.

    Args:
        name: how errors call the file.

    Raises:
        FormatError: it is damaged.
        IncompatibleError: it is for another machine.
    """
    with path.open("rb") as file:
        size = file.seek(0, 2)
        if size == 0:
            raise FormatError(f"{name}: an empty file, expected an object file", code="not_elf", offset=0)
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    if data[:8] != _AR_MAGIC:
        _check_one(data, name)
        return
    for member in _members(data, name):
        if bytes(data[member][:4]) == b"\x7fELF":  # the index of symbols and the table of names are no objects
            _check_one(data[member], name)


def _check_one(data: memoryview, name: str) -> None:
    elf = ElfFile(data, name)
    with Path("/proc/self/exe").open("rb") as file:
        own = ElfFile(memoryview(file.read(_HEADERS)), "/proc/self/exe")
    if (elf.e_machine, elf.bits, elf.byte_order) != (own.e_machine, own.bits, own.byte_order):
        raise IncompatibleError(
            f"{name}: an object file for {_machine(elf)}, this machine is {_machine(own)}; compile it for this one"
        )
    for section in elf.sections:
        elf.contents(section)


def _machine(elf: ElfFile) -> str:
    return f"{elf.machine} ({elf.bits}-bit{', big endian' if elf.endian == 'big' else ''})"


def _members(data: memoryview, name: str) -> Iterator[slice]:
    """Where the members of an archive are.

    Raises:
        FormatError: "archive": a header or a member does not fit.
    """
    at = len(_AR_MAGIC)
    while len(data) - at >= 2:  # one byte of padding may follow the last member
        head = bytes(data[at : at + _AR_HEADER])
        text = head[48:58].strip()
        if len(head) < _AR_HEADER or head[58:] != b"`\n" or not text.isdigit():
            raise FormatError(f"{name}: no header of an archive member here", code="archive", offset=at)
        start, size = at + _AR_HEADER, int(text)
        if size > len(data) - start:
            raise FormatError(
                f"{name}: a member of {size} bytes, {len(data) - start} are left", code="archive", offset=at
            )
        yield slice(start, start + size)
        at = start + size + size % 2
