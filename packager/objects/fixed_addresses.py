"""Code that depends on its address: which object of a failed link it is, where the linker names none."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import SHF_ALLOC, SHF_WRITE, SHT_REL, SHT_RELA
from mblob.binary.relocation_types import TABLE
from mblob.errors import MblobError
from mblob.packager.objects.object_files import objects_in


def has_fixed_addresses(path: Path) -> bool:
    """True if code or read-only data of an object, or of one in an archive, holds addresses, which the
    dynamic linker would have to write there. False for files that cannot be read."""
    with suppress(MblobError, OSError):
        return any(_has_any(ElfFile(data, name)) for name, data in objects_in(path, str(path)))
    return False


def _has_any(elf: ElfFile) -> bool:
    known = TABLE.get((elf.machine, elf.bits))
    addresses = known.types["ADDRESS"].values() if known else ()
    number = (1 << elf.layout.symbol_shift) - 1
    for section in elf.sections:
        if section.sh_type not in (SHT_REL, SHT_RELA) or section.sh_info >= len(elf.sections):
            continue
        if elf.sections[section.sh_info].sh_flags & (SHF_ALLOC | SHF_WRITE) == SHF_ALLOC:
            record = elf.layout.rela if section.sh_type == SHT_RELA else elf.layout.rel
            raw = elf.contents(section)
            rows = record.iter_unpack(raw[: len(raw) - len(raw) % record.size])
            if any(row[1] & number in addresses for row in rows):
                return True
    return False
