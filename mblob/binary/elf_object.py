"""Object files of ELF (`ET_REL`): what is in them before a linker has seen them."""

from __future__ import annotations

from functools import cached_property

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import (
    SHN_COMMON,
    SHT_NOBITS,
    STB_GLOBAL,
    STB_GNU_UNIQUE,
    STB_WEAK,
    STT_FILE,
    STT_SECTION,
    Section,
    Symbol,
)

_BOUND = (STB_GLOBAL, STB_WEAK, STB_GNU_UNIQUE)


class ElfObject(ElfFile):
    """An object file. Its symbols are those of `.symtab`, hidden ones too: who links the object can
    use them."""

    @cached_property
    def exports(self) -> list[Symbol]:
        return [s for s in self._bound if s.is_defined]

    @cached_property
    def imports(self) -> list[Symbol]:
        return [s for s in self._bound if not s.is_defined]

    @cached_property
    def _bound(self) -> list[Symbol]:
        return [
            s
            for s in self.symtab
            if s.name and s.binding in _BOUND and s.type not in (STT_FILE, STT_SECTION)
        ]

    def section_of(self, symbol: Symbol) -> Section | None:
        """The section that a symbol is defined in; None for common and absolute ones."""
        index = symbol.st_shndx
        return self.sections[index] if 0 < index < min(len(self.sections), SHN_COMMON) else None

    def bytes_of(self, symbol: Symbol) -> tuple[int, memoryview]:
        """Offset and bytes of a symbol; up to the end of its section for one without a size, as
        assemblers write it.

        Raises:
            FormatError: "elf_dynamic": they are not in the file.
        """
        section = self.section_of(symbol)
        if section is None or section.sh_type == SHT_NOBITS:
            raise self._fail(
                f"symbol {symbol.name!r} has no bytes in the file", "elf_dynamic", symbol.offset
            )
        self._check(section.sh_offset, section.sh_size, f"section {section.name!r}")
        room = section.sh_size - symbol.st_value
        if room < 0 or symbol.st_size > room:
            raise self._fail(
                f"symbol {symbol.name!r}: {symbol.st_size} bytes at {symbol.st_value} of section {section.name!r},"
                f" which has {section.sh_size}",
                "elf_dynamic",
                symbol.offset,
            )
        start = section.sh_offset + symbol.st_value
        return self.base + start, self.data[start : start + (symbol.st_size or room)]
