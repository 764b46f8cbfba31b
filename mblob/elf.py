"""A bounded reader of ELF files: headers, segments, sections, dynamic symbols, notes. Nothing is executed.

Names are the standard's (System V gABI, chapters 4 and 5). Both classes and both byte orders. Every table is
checked against the file before it is read, so a hostile file costs one error.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterator
from functools import cached_property

from mblob.elf_records import (
    DT_GNU_HASH,
    DT_HASH,
    DT_NEEDED,
    DT_STRSZ,
    DT_STRTAB,
    DT_SYMTAB,
    EM_S390,
    ET_REL,
    MACHINES,
    PN_XNUM,
    PT_DYNAMIC,
    PT_LOAD,
    PT_NOTE,
    SHN_XINDEX,
    SHT_DYNSYM,
    SHT_NOBITS,
    SHT_NOTE,
    SHT_SYMTAB,
    Section,
    Segment,
    Symbol,
    SymbolTable,
)
from mblob.errors import FormatError
from mblob.file_kind import ELF_MAGIC

SYMBOL_LIMIT = 1 << 22  # dynamic symbols; the largest real libraries have some 10^5
CHAIN_STEP = 1 << 16  # bytes of a hash chain read at a time
NAME_LIMIT = 1 << 16  # bytes of one name; mangled C++ names have some thousand


class ElfFile:
    """An ELF file in memory (usually a mapping).

    Args:
        data: the whole file.
        name: how errors call it.

    Raises:
        FormatError: "not_elf", "elf_header", "elf_truncated"; later reads also "elf_dynamic".
    """

    def __init__(self, data: memoryview, name: str = "file") -> None:
        self.data = data
        self.name = name
        if data[:4] != ELF_MAGIC:
            raise self._fail("not an ELF file", "not_elf", 0)
        if len(data) < 16:
            raise self._fail(f"{len(data)} bytes, an ELF identification has 16", "elf_truncated", len(data))
        if data[4] not in (1, 2) or data[5] not in (1, 2) or data[6] != 1:
            raise self._fail(
                f"class {data[4]}, data encoding {data[5]}, version {data[6]} are not known", "elf_header", 4
            )
        self.bits = 32 * data[4]
        self.byte_order = "<" if data[5] == 1 else ">"
        w = "Q" if self.bits == 64 else "I"
        head = self._unpack(f"HHI{w}{w}{w}IHHHHHH", 16, "header")
        (self.e_type, self.e_machine, _, self.e_entry, self.e_phoff, self.e_shoff, self.e_flags, _, self.e_phentsize,
         self.e_phnum, self.e_shentsize, self.e_shnum, self.e_shstrndx) = head  # fmt: skip

    def _fail(self, message: str, code: str, at: int | None = None) -> FormatError:
        return FormatError(f"{self.name}: {message}", code=code, offset=at)

    def _check(self, offset: int, size: int, what: str) -> None:
        length = len(self.data)
        if size > length or offset > length - size:
            raise self._fail(f"{what} needs {size} bytes, the file ends at {length}", "elf_truncated", offset)

    def _unpack(self, fmt: str, offset: int, what: str) -> tuple[int, ...]:
        fmt = self.byte_order + fmt
        self._check(offset, struct.calcsize(fmt), what)
        return struct.unpack_from(fmt, self.data, offset)

    @property
    def machine(self) -> str:
        """Name of `e_machine`: "x86_64", "aarch64", ..."""
        return MACHINES.get(self.e_machine, f"machine {self.e_machine}")

    @property
    def endian(self) -> str:
        return "little" if self.byte_order == "<" else "big"

    # -- tables -----------------------------------------------------------------------------------------

    @cached_property
    def segments(self) -> list[Segment]:
        """Program headers. Those that are loaded lie inside the file, or this raises."""
        size = 56 if self.bits == 64 else 32
        count = self.e_phnum
        if count == PN_XNUM and self.e_shoff:
            count = self._section_header(0)[7]
        if not count:
            return []
        if self.e_phentsize != size:
            raise self._fail(f"program headers of {self.e_phentsize} bytes, expected {size}", "elf_header", 54)
        self._check(self.e_phoff, count * size, f"a table of {count} program headers")
        found = []
        for i in range(count):
            at = self.e_phoff + i * size
            if self.bits == 64:
                t, flags, offset, vaddr, _, filesz, memsz, align = self._unpack("IIQQQQQQ", at, "program header")
            else:
                t, offset, vaddr, _, filesz, memsz, flags, align = self._unpack("8I", at, "program header")
            if t in (PT_LOAD, PT_DYNAMIC, PT_NOTE):
                self._check(offset, filesz, f"segment {i}")
            found.append(Segment(t, flags, offset, vaddr, filesz, memsz, align))
        return found

    def _section_header(self, i: int) -> tuple[int, ...]:
        size = 64 if self.bits == 64 else 40
        if self.e_shentsize != size:
            raise self._fail(f"section headers of {self.e_shentsize} bytes, expected {size}", "elf_header", 58)
        w = "Q" if self.bits == 64 else "I"
        return self._unpack(f"II{w}{w}{w}{w}II{w}{w}", self.e_shoff + i * size, f"section header {i}")

    @cached_property
    def sections(self) -> list[Section]:
        """Section headers with their names; [] for a file without."""
        if not self.e_shoff:
            return []
        first = self._section_header(0)
        count = self.e_shnum or first[5]
        names = self.e_shstrndx if self.e_shstrndx != SHN_XINDEX else first[6]
        self._check(self.e_shoff, count * self.e_shentsize, f"a table of {count} section headers")
        heads = [self._section_header(i) for i in range(count)]
        strings = heads[names][4:6] if names < count else (0, 0)
        found = []
        for h in heads:
            name = self._string(strings[0], strings[1], h[0], "section name") if strings[1] else ""
            found.append(Section(name, h[1], h[2], h[3], h[4], h[5], h[6], h[7], h[9]))
        return found

    def check_tables(self) -> None:
        """Check that what the header announces lies in the file: segments, and the section headers at its end.

        Raises:
            FormatError: "elf_truncated", "elf_header".
        """
        _ = self.segments
        if self.e_shoff:
            count = self.e_shnum or self._section_header(0)[5]
            self._check(self.e_shoff, count * self.e_shentsize, f"a table of {count} section headers")

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
        for s in self.segments:
            if s.p_type == PT_LOAD and vaddr >= s.p_vaddr:
                start = vaddr - s.p_vaddr
                if start <= s.p_filesz and size <= s.p_filesz - start:
                    return s.p_offset + start
        raise self._fail(f"{what}: no segment holds {size} bytes at address {vaddr:#x}", "elf_dynamic")

    def _string(self, table: int, table_size: int, at: int, what: str) -> str:
        self._check(table, table_size, f"the strings of a {what}")
        if at >= table_size:
            raise self._fail(f"{what} at {at} lies outside {table_size} bytes of strings", "elf_dynamic", table)
        for window in (64, 1024, NAME_LIMIT):  # most names are short, and each look copies
            raw = bytes(self.data[table + at : table + min(at + window, table_size)])
            end = raw.find(b"\0")
            if end >= 0:
                return raw[:end].decode("utf-8", "backslashreplace")
        raise self._fail(f"{what} at {at} has no end within {NAME_LIMIT} bytes", "elf_dynamic", table)

    # -- dynamic section ----------------------------------------------------------------------------------

    @cached_property
    def dynamic(self) -> dict[int, list[int]]:
        """Values per tag of the dynamic section."""
        tags: dict[int, list[int]] = {}
        segment = next((s for s in self.segments if s.p_type == PT_DYNAMIC), None)
        if segment is None:
            return tags
        size = self.bits // 4
        for at in range(segment.p_offset, segment.p_offset + segment.p_filesz - size + 1, size):
            tag, value = self._unpack("QQ" if self.bits == 64 else "II", at, "dynamic section")
            if tag == 0:
                break
            tags.setdefault(tag, []).append(value)
        return tags

    def _dynamic_strings(self, tag: int) -> list[str]:
        if tag not in self.dynamic:
            return []
        table = self._dynamic_table()
        return [self._string(table.strings, table.strings_size, at, "name") for at in self.dynamic[tag]]

    @property
    def needed(self) -> list[str]:
        """Libraries this one is linked against (DT_NEEDED)."""
        return self._dynamic_strings(DT_NEEDED)

    def _dynamic_table(self) -> SymbolTable:
        """The dynamic symbol table; its length comes from the hash table, as the loader's does."""
        tags = self.dynamic
        for tag in (DT_STRTAB, DT_STRSZ, DT_SYMTAB):
            if tag not in tags:
                raise self._fail(f"the dynamic section has no tag {tag}", "elf_dynamic")
        strings_size = tags[DT_STRSZ][0]
        strings = self.offset_of(tags[DT_STRTAB][0], strings_size, "dynamic strings")
        count = self._dynsym_count()
        if count > SYMBOL_LIMIT:
            raise self._fail(f"{count} dynamic symbols, the limit is {SYMBOL_LIMIT}", "elf_dynamic")
        size = 24 if self.bits == 64 else 16
        return SymbolTable(
            self.offset_of(tags[DT_SYMTAB][0], count * size, f"{count} dynamic symbols"), count, strings, strings_size
        )

    def _dynsym_count(self) -> int:
        tags = self.dynamic
        if DT_HASH in tags:
            # 64-bit entries on s390x (and alpha) alone; everywhere else 32-bit ones.
            wide = self.e_machine == EM_S390 and self.bits == 64
            at = self.offset_of(tags[DT_HASH][0], 16 if wide else 8, "hash table")
            return self._unpack("QQ" if wide else "II", at, "hash table")[1]
        if DT_GNU_HASH in tags:
            return self._gnu_hash_count(tags[DT_GNU_HASH][0])
        table = next((s for s in self.sections if s.sh_type == SHT_DYNSYM), None)
        return table.sh_size // (24 if self.bits == 64 else 16) if table else 0

    def _gnu_hash_count(self, vaddr: int) -> int:
        """Highest bucket, then its chain to the end, all inside the segment that holds the table."""
        at = self.offset_of(vaddr, 16, "hash table")
        buckets, first, bloom, _ = self._unpack("4I", at, "hash table")
        if buckets > SYMBOL_LIMIT:
            raise self._fail(f"a hash table of {buckets} buckets, the limit is {SYMBOL_LIMIT}", "elf_dynamic", at)
        head = 16 + bloom * (self.bits // 8)
        at = self.offset_of(vaddr, head + 4 * buckets, f"a hash table of {buckets} buckets")
        last = max(self._words(at + head, buckets), default=0)
        if last < first:
            return first
        chain = head + 4 * buckets + 4 * (last - first)
        end = at + chain
        while end - at - chain <= 4 * SYMBOL_LIMIT:
            self.offset_of(vaddr, end - at + 4, "a hash chain")
            room = min(CHAIN_STEP, len(self.data) - end)
            words = self._words(end, room // 4)
            stop = next((i for i, word in enumerate(words) if word & 1), None)
            if stop is not None:
                return last + (end - at - chain) // 4 + stop + 1
            end += 4 * len(words)
        raise self._fail(f"a hash chain of more than {SYMBOL_LIMIT} symbols", "elf_dynamic", at)

    def _words(self, offset: int, count: int) -> array[int]:
        """`count` 32-bit words, which the caller has checked to be in the file."""
        words = array("I", bytes(self.data[offset : offset + 4 * count]))
        if (self.byte_order == "<") != (sys.byteorder == "little"):
            words.byteswap()
        return words

    # -- symbols ------------------------------------------------------------------------------------------

    def _symbols(self, table: SymbolTable) -> Iterator[Symbol]:
        size = 24 if self.bits == 64 else 16
        fmt = "IBBHQQ" if self.bits == 64 else "IIIBBH"
        self._check(table.offset, table.count * size, f"{table.count} symbols")
        # Names may share tails, but many symbols with one long name are an attack on memory.
        budget = 8 * table.strings_size + (1 << 16)
        for at in range(table.offset + size, table.offset + table.count * size, size):
            fields = self._unpack(fmt, at, "symbol")
            if self.bits == 64:
                name, info, other, shndx, value, length = fields
            else:
                name, value, length, info, other, shndx = fields
            text = self._string(table.strings, table.strings_size, name, "symbol name") if name else ""
            budget -= len(text)
            if budget < 0:
                raise self._fail("the names of its symbols add up to more than 8 times their table", "elf_dynamic")
            yield Symbol(text, value, length, info, other, shndx, at)

    @cached_property
    def dynsym(self) -> list[Symbol]:
        """Dynamic symbols, without the empty first one; [] for a static file."""
        if DT_SYMTAB not in self.dynamic:
            return []
        return list(self._symbols(self._dynamic_table()))

    @cached_property
    def symtab(self) -> list[Symbol]:
        """Symbols of `.symtab`; [] for a stripped file."""
        for s in self.sections:
            if s.sh_type == SHT_SYMTAB and s.sh_link < len(self.sections):
                strings = self.sections[s.sh_link]
                count = s.sh_size // (24 if self.bits == 64 else 16)
                return list(self._symbols(SymbolTable(s.sh_offset, count, strings.sh_offset, strings.sh_size)))
        return []

    def find(self, name: str) -> Symbol | None:
        """The exported dynamic symbol of that name, or None."""
        return self._exported.get(name)

    @cached_property
    def _exported(self) -> dict[str, Symbol]:
        return {s.name: s for s in reversed(self.dynsym) if s.is_exported}

    def bytes_of(self, symbol: Symbol) -> tuple[int, memoryview]:
        """File offset and bytes of a dynamic symbol, `st_size` of them.

        Raises:
            FormatError: "elf_dynamic": they are not all in the file.
        """
        offset = self.offset_of(symbol.st_value, symbol.st_size, f"symbol {symbol.name!r}")
        return offset, self.data[offset : offset + symbol.st_size]

    # -- notes --------------------------------------------------------------------------------------------

    def notes(self) -> Iterator[tuple[bytes, int, bytes, int]]:
        """(owner without NUL, type, descriptor, file offset of the descriptor) of each note."""
        if self.e_type == ET_REL:
            areas = [(s.sh_offset, s.sh_size) for s in self.sections if s.sh_type == SHT_NOTE]
        else:
            areas = [(s.p_offset, s.p_filesz) for s in self.segments if s.p_type == PT_NOTE]
        for start, size in areas:
            self._check(start, size, "notes")
            at, end = start, start + size
            while end - at >= 12:
                namesz, descsz, n_type = self._unpack("3I", at, "note")
                name_room = namesz + -namesz % 4
                desc_room = descsz + -descsz % 4
                if name_room > end - at - 12 or descsz > end - at - 12 - name_room:
                    break  # padding or damage; whoever needs a note finds it missing
                desc = at + 12 + name_room
                owner = bytes(self.data[at + 12 : at + 12 + min(namesz, 256)]).rstrip(b"\0")
                yield owner, n_type, bytes(self.data[desc : desc + min(descsz, 1 << 16)]), desc
                at = desc + min(desc_room, end - desc)
