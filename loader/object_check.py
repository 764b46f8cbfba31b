"""Object files and archives, checked before a linker sees them: are they sound, and for this
machine?"""

from __future__ import annotations

from pathlib import Path

from mblob.binary.archive import members
from mblob.binary.elf import ElfFile
from mblob.binary.file_kind import AR_MAGIC
from mblob.bytes.mapping import map_file
from mblob.errors import FormatError, IncompatibleError

_HEADERS = 64  # bytes that hold the header of any ELF file


def check_object(path: Path, name: str) -> None:
    """Check one object file, or the object files in an archive.

    Args:
        name: how errors call the file.

    Raises:
        FormatError: it is damaged.
        IncompatibleError: it is for another machine.
    """
    data = map_file(path)
    if not data:
        raise FormatError(
            f"{name}: an empty file, expected an object file", code="not_elf", offset=0
        )
    if data[:8] != AR_MAGIC:
        _check_one(data, name)
        return
    for label, member in members(data, name):
        _check_one(member, label)


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
