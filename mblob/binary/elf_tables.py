"""The tables of an ELF file that its header leads to: segments and sections. Nothing is executed.

Names are the standard's (System V gABI, chapters 4 and 5). Both classes and both byte orders. Every
table is checked against the file before it is read, so a hostile file costs one error.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from mblob import texts
from mblob.binary.elf_records import (
    ELF_KINDS,
    IDENT,
    MACHINES,
    PF_R,
    PF_W,
    PN_XNUM,
    PT_DYNAMIC,
    PT_LOAD,
    PT_NOTE,
    PT_TLS,
    SHN_XINDEX,
    SHT_NOBITS,
    SHT_NULL,
    Section,
    SectionHeader,
    Segment,
    layout_of,
)
from mblob.binary.file_kind import ELF_MAGIC
from mblob.bytes.record import Record
from mblob.errors import FormatError

_HEADER_FIELDS = tuple(layout_of(64, "<").ehdr.fields)[len(IDENT.fields) :]  # of both classes
PAGE = 4096  # bytes; the smallest of any machine here
NAME_LIMIT = 1 << 16  # bytes of one name; mangled C++ names have some thousand


def name_budget(strings_size: int, spare: int = 1 << 16) -> int:
    """Characters of all names. They may share tails, but many with one long name are an attack on
    memory."""
    return 8 * strings_size + spare


class ElfTables:
    """Header, segments and sections of an ELF file in memory.

    Args:
        data: the whole file.
        name: how errors call it.
        base: where `data` starts in the file that is shown, for a member of an archive.

    Raises:
        FormatError: "not_elf", "elf_header", "elf_truncated"; later reads also "elf_dynamic".
    """

    format = "elf"

    # of the ELF header
    e_type: int
    e_machine: int
    e_version: int
    e_entry: int
    e_phoff: int
    e_shoff: int
    e_flags: int
    e_phentsize: int
    e_phnum: int
    e_shentsize: int
    e_shnum: int
    e_shstrndx: int

    def __init__(self, data: memoryview, name: str = "file", base: int = 0) -> None:
        self.data = data
        self.name = name
        self.base = base
        if data[:4] != ELF_MAGIC:
            raise self._fail("not an ELF file", "not_elf", 0)
        if len(data) < IDENT.size:
            raise self._fail(
                f"an ELF identification needs {IDENT.size} bytes, the file ends at {len(data)}{texts.CUT_OFF}",
                "elf_truncated",
                len(data),
            )
        _, ei_class, ei_data, ei_version, self.os_abi, _, self.padding = IDENT.unpack_from(data)
        if ei_class not in (1, 2) or ei_data not in (1, 2) or ei_version != 1:
            raise self._fail(
                f"class {ei_class}, data encoding {ei_data}, version {ei_version} are not known",
                "elf_header",
                IDENT.offset_of("e_ident[EI_CLASS]"),
            )
        self.bits: int = 32 * ei_class
        self.byte_order = "<" if ei_data == 1 else ">"
        self.layout = layout_of(self.bits, self.byte_order)
        header = self.layout.ehdr
        values = self.unpack(header, 0, "header")
        vars(self).update(zip(_HEADER_FIELDS, values[len(IDENT.fields) :]))

    def _fail(self, message: str, code: str, at: int | None = None) -> FormatError:
        return FormatError.about(self.name, message, code=code, offset=at)

    def _check(self, offset: int, size: int, what: str) -> None:
        length = len(self.data)
        if size > length or offset > length - size:
            raise self._fail(
                f"{what} needs {size} bytes, the file ends at {length}{texts.CUT_OFF}",
                "elf_truncated",
                offset,
            )

    def unpack(self, record: Record, offset: int, what: str) -> tuple[int, ...]:
        """The fields of a record at an offset.

        Raises:
            FormatError: "elf_truncated".
        """
        self._check(offset, record.size, what)
        return record.unpack_from(self.data, offset)

    def records(
        self, record: Record, offset: int, count: int, what: str
    ) -> Iterator[tuple[int, ...]]:
        """The fields of `count` records, one after the other, all of which are in the file."""
        size = count * record.size
        self._check(offset, size, what)
        return record.iter_unpack(self.data[offset : offset + size])

    @property
    def machine(self) -> str:
        """Name of `e_machine`: "x86_64", "aarch64", ..."""
        return MACHINES.get(self.e_machine, f"machine {self.e_machine}")

    @property
    def endian(self) -> str:
        return "little" if self.byte_order == "<" else "big"

    @property
    def kind(self) -> str:
        """The name of `e_type`: "shared", "object", "executable", ..."""
        return ELF_KINDS.get(self.e_type, f"ELF type {self.e_type}")

    # -- tables ------------------------------------------------------------------------------------

    @cached_property
    def segments(self) -> list[Segment]:
        """Program headers. Those that are loaded lie inside the file, or this raises."""
        record = self.layout.phdr
        count = self.e_phnum
        if count == PN_XNUM and self.e_shoff:
            count = self._first_section_header().sh_info
        if not count:
            return []
        self._check_size("e_phentsize", record, "program headers")
        heads = self.records(record, self.e_phoff, count, f"a table of {count} program headers")
        found = [*map(Segment._make, map(record.pick(*Segment._fields), heads))]
        for i, s in enumerate(found):
            if s.p_type in (PT_LOAD, PT_DYNAMIC, PT_NOTE, PT_TLS):
                self._check(s.p_offset, s.p_filesz, f"segment {i}")
        return found

    def first_segment(self, kind: int) -> Segment | None:
        """The first program header of a type (p_type)."""
        return next((s for s in self.segments if s.p_type == kind), None)

    def _check_size(self, field: str, record: Record, what: str) -> None:
        """Check the field of the header that says how large the records of a table are."""
        size = getattr(self, field)
        if size != record.size:
            raise self._fail(
                f"{what} of {size} bytes, expected {record.size}",
                "elf_header",
                self.layout.ehdr.offset_of(field),
            )

    def section_headers(self, count: int, what: str) -> list[SectionHeader]:
        return [*map(SectionHeader._make, self._raw_section_headers(count, what))]

    def _raw_section_headers(self, count: int, what: str) -> Iterator[tuple[int, ...]]:
        record = self.layout.shdr
        self._check_size("e_shentsize", record, "section headers")
        return self.records(record, self.e_shoff, count, what)

    def _first_section_header(self) -> SectionHeader:
        """It has what does not fit the ELF header."""
        return self.section_headers(1, "section header 0")[0]

    @cached_property
    def sections(self) -> list[Section]:
        """Section headers with their names; [] for a file without."""
        if not self.e_shoff:
            return []
        first = self._first_section_header()
        count = self.e_shnum or first.sh_size
        names = self.e_shstrndx if self.e_shstrndx != SHN_XINDEX else first.sh_link
        heads = [*self._raw_section_headers(count, f"a table of {count} section headers")]
        strings = SectionHeader(*heads[names] if names < count else (0, SHT_NULL))
        start, size = strings.sh_offset, strings.sh_size
        found = []
        budget = name_budget(size, 1 << 20)  # thousands of sections may all be called .text
        for h in heads:
            name = self._string(start, size, h[0], "section name") if size else ""
            budget -= len(name)
            if budget < 0:
                raise self._fail(
                    "the names of its sections add up to more than 8 times their table",
                    "elf_header",
                )
            found.append(Section(name, *h[1:]))
        return found

    def check_tables(self) -> None:
        """Check that what the header announces lies in the file: segments, and the section headers
        at its end.

        Raises:
            FormatError: "elf_truncated", "elf_header".
        """
        _ = self.segments
        # another size is a `section_problem`
        if self.e_shoff and self.e_shentsize == self.layout.shdr.size:
            count = self.e_shnum or self._first_section_header().sh_size
            self._check(
                self.e_shoff, count * self.e_shentsize, f"a table of {count} section headers"
            )

    @cached_property
    def section_problem(self) -> FormatError | None:
        """The fault in the section headers or their names, or of the first section that does not
        lie in the file; None if there is none. No loader looks at them, so a shared library with
        damaged ones works."""
        try:
            for s in self.sections:
                if s.sh_type != SHT_NULL:
                    self.contents(s)
        except FormatError as error:
            return error
        return None

    @property
    def readable_sections(self) -> list[Section]:
        """`sections` for who can do without: [] where there is a `section_problem`."""
        return [] if self.section_problem is not None else self.sections

    def section_bytes(self, name: str) -> memoryview:
        """The bytes of the first section of that name; none without one, or where there is a
        `section_problem`."""
        found = next((s for s in self.readable_sections if s.name == name), None)
        return memoryview(b"") if found is None else self.contents(found)

    def check_segments(self) -> None:
        """Check that segments can be loaded: the dynamic linker maps them in order, each at an
        address like its offset.

        Raises:
            FormatError: "elf_header".
        """
        end, limit = 0, 1 << (46 if self.bits == 64 else 31)
        for i, s in enumerate(self.segments):
            if s.p_type != PT_LOAD:
                continue
            align = max(s.p_align, 1)
            wrong = ""
            if align & (align - 1):
                wrong = "has an alignment that is no power of two"
            elif align > limit:
                wrong = "has an impossible alignment"
            elif (s.p_vaddr - s.p_offset) % min(align, PAGE):  # more than a page is a wish
                wrong = "has an address unlike its offset"
            elif s.p_filesz > s.p_memsz:
                wrong = "has more bytes in the file than in memory"
            elif s.p_filesz < s.p_memsz and not s.p_flags & PF_W:
                wrong = "is read-only, but not all in the file"
            elif not s.p_flags & PF_R:
                wrong = "cannot be read"
            elif s.p_vaddr < end:
                wrong = "starts before the end of the pages of the one in front of it"
            elif s.p_vaddr + s.p_memsz > limit:
                wrong = "has impossible addresses"
            if wrong:
                raise self._fail(f"segment {i} {wrong}", "elf_header")
            end = s.p_vaddr + s.p_memsz
            if s.p_memsz and align >= PAGE:
                end += -end % PAGE

    def section(self, name: str) -> Section | None:
        """The first section of that name."""
        return next((s for s in self.sections if s.name == name), None)

    def contents(self, section: Section) -> memoryview:
        """The bytes of a section."""
        if section.sh_type == SHT_NOBITS:
            return memoryview(b"")
        self._check(section.sh_offset, section.sh_size, f"section {section.name!r}")
        return self.data[section.sh_offset : section.sh_offset + section.sh_size]

    def offset_of(self, vaddr: int, size: int, what: str) -> int:
        """File offset of `size` bytes at an address.

        Raises:
            FormatError: "elf_dynamic": no loaded segment has all of them in the file.
        """
        offset = self._offset(vaddr, size)
        if offset is None:
            raise self._fail(
                f"{what}: no segment holds {size} bytes at address {vaddr:#x}", "elf_dynamic"
            )
        return offset

    def maps(self, vaddr: int, size: int, offset: int) -> bool:
        """True if `size` bytes at an address are those at an offset."""
        return self._offset(vaddr, size) == offset

    def is_in_file(self, vaddr: int, size: int) -> bool:
        """True if `offset_of` has an answer."""
        return self._offset(vaddr, size) is not None

    def _offset(self, vaddr: int, size: int) -> int | None:
        for s in self.segments:
            if s.p_type == PT_LOAD and vaddr >= s.p_vaddr:
                start = vaddr - s.p_vaddr
                if start <= s.p_filesz and size <= s.p_filesz - start:
                    return s.p_offset + start
        return None

    def _string(self, table: int, table_size: int, at: int, what: str) -> str:
        self._check(table, table_size, f"the strings of a {what}")
        if at >= table_size:
            raise self._fail(
                f"{what} at {at} lies outside {table_size} bytes of strings", "elf_dynamic", table
            )
        for window in (64, 1024, NAME_LIMIT):  # most names are short, and each look copies
            raw = bytes(self.data[table + at : table + min(at + window, table_size)])
            end = raw.find(b"\0")
            if end >= 0:
                return raw[:end].decode("utf-8", "backslashreplace")
        raise self._fail(
            f"{what} at {at} has no end within {NAME_LIMIT} bytes", "elf_dynamic", table
        )
