"""Dynamic symbols and their hash tables, as the dynamic linker follows them.

`verify` checks them. The C runtime checks the same before it opens a library
(csrc/src/elf/dynamic.c, hash.c).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import (
    DT_GNU_HASH,
    DT_HASH,
    DT_JMPREL,
    DT_PLTGOT,
    DT_REL,
    DT_RELA,
    DT_RELR,
    DT_STRSZ,
    DT_STRTAB,
    DT_SYMENT,
    DT_SYMTAB,
    DT_TLSDESC_GOT,
    DT_VERDEF,
    DT_VERNEED,
    DT_VERSYM,
    EM_MIPS,
    PF_X,
    PT_DYNAMIC,
    PT_GNU_EH_FRAME,
    PT_INTERP,
    PT_LOAD,
    PT_NOTE,
    PT_TLS,
    SHN_ABS,
    SHN_COMMON,
    SHN_LORESERVE,
    SHT_DYNSYM,
    SIZE_TAGS,
    STB_GLOBAL,
    STB_GNU_UNIQUE,
    STB_LOCAL,
    STB_WEAK,
    STT_COMMON,
    STT_FILE,
    STT_FUNC,
    STT_GNU_IFUNC,
    STT_NOTYPE,
    STT_OBJECT,
    STT_SECTION,
    STT_TLS,
    Symbol,
    SymbolTable,
)
from mblob.binary.elf_versions import Versions
from mblob.binary.relocation_types import MEANINGS
from mblob.errors import FormatError

# Machines whose functions have the address of their code (others: of a descriptor), and whose
# relocations are known.
KNOWN_MACHINES = tuple(MEANINGS)

# Words at DT_PLTGOT in front of the slots of calls, which are the dynamic linker's own.
_RESERVED_SLOTS = {"x86_64": 3, "i386": 3, "aarch64": 3, "arm": 3, "s390x": 3, "riscv": 2}
_BINDINGS = (STB_LOCAL, STB_GLOBAL, STB_WEAK, STB_GNU_UNIQUE)

# Symbols of one bucket, which the dynamic linker goes through for each relocation. Linkers make
# buckets for 2 to 100.
_CHAIN_LIMIT = 1 << 12

# Types that glibc finds by name.
_LOOKED_UP = (STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_COMMON, STT_TLS, STT_GNU_IFUNC)


def bad(elf: ElfFile, text: str) -> FormatError:
    return FormatError.about(elf.name, f"dynamic section: {text}", code="elf_dynamic")


def is_loaded(elf: ElfFile, vaddr: int, size: int, flags: int = 0) -> bool:
    """Whether `size` bytes at an address lie in one loaded segment that has all of the flags."""
    return any(
        s.p_type == PT_LOAD and s.p_flags & flags == flags and 0 <= vaddr - s.p_vaddr <= s.p_memsz
        and size <= s.p_memsz - (vaddr - s.p_vaddr)
        for s in elf.segments
    )  # fmt: skip


class Symbols:
    """The dynamic symbols of a library, each of which the dynamic linker can take for what it says.

    Attributes:
        count: how many the hash tables tell, the empty first one included.
        limit: how many relocations may name: all that the segment could hold, where the hash tables
            do not count undefined ones.
        each: bytes of one. strings_size: of their names.
        hash_sizes: bytes of the hash tables, by tag.
        tables: addresses of the headers and of what else the dynamic linker reads as tables, each
            with its end.

    Raises:
        FormatError: "elf_dynamic".
    """

    def __init__(self, elf: ElfFile) -> None:
        self.elf = elf
        self.each = elf.layout.sym.size
        tags = elf.dynamic
        if not {DT_STRTAB, DT_SYMTAB, DT_STRSZ} <= tags.keys():
            raise bad(elf, "it names no strings or no symbols")
        self.strings_size = tags[DT_STRSZ][0]
        strings = elf.offset_of(tags[DT_STRTAB][0], self.strings_size, "dynamic strings")
        if not self.strings_size or elf.data[strings + self.strings_size - 1]:
            raise bad(elf, "the strings have no end")
        if tags.get(DT_SYMENT, [self.each])[0] not in (0, self.each):
            raise bad(elf, "symbols have another size")
        self.count = len(elf.dynsym) + 1
        self._at = elf.offset_of(tags[DT_SYMTAB][0], self.each, "dynamic symbols")
        self._strings = strings
        held = next(
            s.p_vaddr + s.p_filesz for s in elf.segments
            if s.p_type == PT_LOAD and 0 <= tags[DT_SYMTAB][0] - s.p_vaddr < s.p_filesz
        )  # fmt: skip
        self.room = (held - tags[DT_SYMTAB][0]) // self.each
        self.limit = self.count if self.count > 1 else self.room
        self.hash_sizes = dict(self._hash_sizes())
        self.tables = [*self._headers(), *self._tagged_tables()]
        self._code_tables = [
            (start, end) for start, end in self.tables if is_loaded(elf, start, 1, PF_X)
        ]
        self.versions = Versions(elf)
        self.highest_version = 1
        self._known: dict[int, Symbol] = {}

    def _hash_sizes(self) -> Iterator[tuple[int, int]]:
        elf, tags = self.elf, self.elf.dynamic
        if DT_GNU_HASH in tags:
            yield DT_GNU_HASH, elf.gnu_hash_size(self.count)
        if DT_HASH in tags:
            yield DT_HASH, elf.sysv_hash_size()

    def _headers(self) -> Iterator[tuple[int, int]]:
        elf = self.elf
        for offset, size in (
            (0, elf.layout.ehdr.size),
            (elf.e_phoff, elf.e_phnum * elf.e_phentsize),
        ):
            for s in elf.segments:
                if s.p_type == PT_LOAD and 0 <= offset - s.p_offset < s.p_filesz:
                    yield s.p_vaddr + offset - s.p_offset, s.p_vaddr + offset - s.p_offset + size
        for s in elf.segments:
            if s.p_type in (PT_DYNAMIC, PT_INTERP, PT_GNU_EH_FRAME, PT_NOTE) and s.p_memsz:
                yield s.p_vaddr, s.p_vaddr + s.p_memsz

    def _tagged_tables(self) -> Iterator[tuple[int, int]]:
        """Those that lie in the file. One-segment libraries have code, data and tables side by
        side."""
        tags, layout = self.elf.dynamic, self.elf.layout
        word = layout.word.size
        count = self.count if self.count > 1 else min(self._named(), self.room)
        sizes = [
            (DT_SYMTAB, count * self.each),
            (DT_STRTAB, self.strings_size),
            (DT_VERSYM, count * layout.versym.size),
            *self.hash_sizes.items(),
            (DT_VERNEED, layout.verneed.size),
            (DT_VERDEF, layout.verdef.size),
        ]
        for tag in (DT_RELA, DT_REL, DT_JMPREL, DT_RELR):
            sizes.append((tag, tags.get(SIZE_TAGS[tag], [0])[0]))
        known = (self.elf.machine, self.elf.bits) in KNOWN_MACHINES
        sizes += [(DT_PLTGOT, word * _RESERVED_SLOTS[self.elf.machine])] if known else []
        sizes += [(DT_TLSDESC_GOT, word)]
        for tag, size in sizes:
            if tag in tags and size and self.elf.is_in_file(tags[tag][0], size):
                yield tags[tag][0], tags[tag][0] + size

    def _named(self) -> int:
        """One more than the highest symbol that a relocation names: no hash table counts undefined
        symbols."""
        elf, end, shift = self.elf, self.count, self.elf.layout.symbol_shift
        for table, size, record in elf.relocation_tables():
            if elf.is_in_file(table, size):
                at = elf.offset_of(table, size, "relocations")
                rows = elf.records(record, at, size // record.size, "relocations")
                end = max(end, max((row[1] >> shift for row in rows), default=0) + 1)
        return end

    def is_code(self, vaddr: int, flags: int = PF_X) -> bool:
        """Whether code may start there: in a loaded segment, and not in a header or a table."""
        tables = self._code_tables
        return is_loaded(self.elf, vaddr, 1, flags) and not any(
            start <= vaddr < end for start, end in tables
        )

    def check(self) -> None:
        """Check the symbols, and that the hash tables lead to each that is exported."""
        if any(self.elf.data[self._at : self._at + self.each]):
            raise bad(self.elf, "symbol 0 is not empty")
        for s in self.elf.dynsym:
            self._check_one(s)
        found = False
        if DT_GNU_HASH in self.elf.dynamic:
            found = True
            self._check_gnu_hash(self.elf.dynamic[DT_GNU_HASH][0])
        if DT_HASH in self.elf.dynamic:
            found = True
            self._check_hash(self.elf.dynamic[DT_HASH][0])
        if not found and self.elf.e_machine != EM_MIPS:
            raise bad(self.elf, "it has no hash table")

    def named(self, i: int) -> Symbol:
        """The symbol that a relocation names by its number, which is not 0.

        Raises:
            ValueError: there is none.
        """
        if i < self.count:
            return self.elf.dynsym[i - 1]
        if i >= self.limit:
            raise ValueError(f"it names symbol {i} of {self.count}")
        if i not in self._known:
            table = SymbolTable(self._at + (i - 1) * self.each, 2, self._strings, self.strings_size)
            symbol = next(self.elf.symbols_of(table))
            self._check_one(symbol)
            version = self.versions.at(i)
            if version is not None and version & 0x7FFF > self.highest_version:
                raise ValueError(
                    f"it names the symbol {symbol.name!r} of version {version & 0x7FFF}, which is none"
                )
            self._known[i] = symbol
        return self._known[i]

    def _check_one(self, s: Symbol) -> None:
        known = (self.elf.machine, self.elf.bits) in KNOWN_MACHINES
        if s.is_defined:
            self._check_defined(s, known)
        elif s.binding not in (STB_GLOBAL, STB_WEAK) or s.st_other & 3:
            raise bad(self.elf, f"the undefined symbol {s.name!r} is not looked for elsewhere")
        elif s.st_value and known:
            raise bad(self.elf, f"the undefined symbol {s.name!r} has an address")

    @cached_property
    def _tls(self) -> int:
        return next((s.p_memsz for s in self.elf.segments if s.p_type == PT_TLS), 0)

    def _check_defined(self, s: Symbol, known: bool) -> None:
        if known and s.binding not in _BINDINGS:
            raise bad(self.elf, f"the symbol {s.name!r} is of no known binding, {s.binding}")
        if known and s.st_shndx >= SHN_LORESERVE and s.st_shndx not in (SHN_ABS, SHN_COMMON):
            raise bad(
                self.elf,
                f"the symbol {s.name!r} lies in the section {s.st_shndx:#x}, which is none",
            )
        if s.type == STT_TLS:
            if not self._tls or s.st_value + s.st_size > self._tls:
                raise bad(self.elf, f"the symbol {s.name!r} lies outside the thread storage")
            return
        function = s.type in (STT_FUNC, STT_GNU_IFUNC)
        if known and s.binding != STB_LOCAL and s.type not in _LOOKED_UP:
            raise bad(self.elf, f"the exported symbol {s.name!r} is of no known type, {s.type}")
        if s.type == STT_GNU_IFUNC and s.st_shndx == SHN_ABS:
            raise bad(self.elf, f"the symbol {s.name!r} lies outside the library")
        if s.st_shndx == SHN_ABS or s.type in (STT_NOTYPE, STT_SECTION, STT_FILE):
            return
        if not is_loaded(self.elf, s.st_value, 1 if s.type == STT_GNU_IFUNC else s.st_size):
            raise bad(self.elf, f"the symbol {s.name!r} lies outside the library")
        # an empty function may be a mark where the code ends
        starts = s.type == STT_GNU_IFUNC or s.st_size
        is_code = self.is_code(s.st_value) if starts else is_loaded(self.elf, s.st_value, 0, PF_X)
        if function and known and not is_code:
            raise bad(self.elf, f"the function {s.name!r} lies outside the code")

    # -- hash tables -------------------------------------------------------------------------------

    @cached_property
    def _exported(self) -> list[int]:
        """Numbers of the exported symbols; of those too that only the section header of the table
        counts."""
        found = [i for i, s in enumerate(self.elf.dynsym, 1) if s.is_exported]
        more = self._symbols_of_section()
        if more > self.count:
            record = self.elf.layout.sym
            at = self._at + self.count * self.each
            rows = self.elf.records(record, at, more - self.count, "symbols")
            fields = record.pick("st_info", "st_other", "st_shndx")
            for i, (info, other, shndx) in enumerate(map(fields, rows), self.count):
                if Symbol("", 0, 0, info, other, shndx, 0).is_exported:
                    found.append(i)
        return found

    def _symbols_of_section(self) -> int:
        elf = self.elf
        if not elf.e_shoff or elf.e_shentsize != elf.layout.shdr.size:
            return 0
        for h in elf.section_headers(elf.e_shnum, "section headers"):
            count = h.sh_size // self.each
            if h.sh_type == SHT_DYNSYM and h.sh_offset == self._at and count <= self.room:
                return count
        return 0

    def _unreached(self, i: int) -> FormatError:
        name = self.elf.dynsym[i - 1].name if i < self.count else f"number {i}"
        return bad(self.elf, f"the hash table does not lead to the symbol {name!r}")

    def _too_long(self) -> FormatError:
        return bad(self.elf, f"a hash chain has more than {_CHAIN_LIMIT} symbols")

    def _check_gnu_hash(self, vaddr: int) -> None:
        """The symbols from the first hashed one on lie in the order of their buckets; a chain word
        is the hash, its lowest bit the end of the chain."""
        elf, record = self.elf, self.elf.layout.gnu_hash
        at = elf.offset_of(vaddr, record.size, "hash table")
        buckets, first, bloom, shift = record.unpack_from(elf.data, at)
        if not buckets or not bloom or bloom & (bloom - 1):
            raise bad(elf, "the hash table has an impossible shape")
        hashed = max(0, self.count - first)
        elf.offset_of(vaddr, self.hash_sizes[DT_GNU_HASH], "hash table")
        filters = elf.numbers("N", at + record.size, bloom)
        at += record.size + filters.itemsize * bloom
        starts = elf.numbers("I", at, buckets)
        if any(0 < start < first for start in starts):
            raise bad(elf, "the hash table names no symbol")
        last = max(starts)
        for i in self._exported:
            if i < first or i >= self.count or last < first:
                raise self._unreached(i)
        if last < first:
            return
        chains = elf.numbers("I", at + starts.itemsize * buckets, hashed)
        going_on, length = -1, 0
        for i, link in enumerate(chains, first):
            value = _gnu_hash(elf.dynsym[i - 1])
            bucket, bits = value % buckets, filters[value // elf.bits & (bloom - 1)]
            passes = (
                shift < 32 and bits >> value % elf.bits & bits >> (value >> shift) % elf.bits & 1
            )
            belongs = going_on == bucket if going_on >= 0 else starts[bucket] == i
            if (link ^ value) >> 1 or not belongs or not passes:
                raise self._unreached(i)
            going_on = -1 if link & 1 else bucket
            length = 0 if link & 1 else length + 1
            if length >= _CHAIN_LIMIT:
                raise self._too_long()
        if going_on >= 0:
            raise bad(elf, "a hash chain has no end")

    def _check_hash(self, vaddr: int) -> None:
        """The hash table of the standard: all chains together are as long as there are symbols;
        more are a circle."""
        elf, record = self.elf, self.elf.sysv_hash
        count, length = elf.unpack_at(record, vaddr, "hash table")
        at = elf.offset_of(vaddr, self.hash_sizes[DT_HASH], "hash table")
        if not count or length < self.count - (length == 0):
            raise bad(
                elf,
                "the hash tables count different symbols"
                if count
                else "the hash table has no buckets",
            )
        code = record.fields["nchain"].code
        words = elf.numbers(code, at + record.size, count + length)
        if any(w >= max(length, 1) for w in words):
            raise bad(elf, f"the hash table leads to symbol {max(words)} of {length}")
        steps, found = 0, set()
        for bucket in range(count):
            i, end = words[bucket], steps + _CHAIN_LIMIT
            while i:
                steps += 1
                if steps > length:
                    raise bad(elf, "a hash chain has no end")
                if steps > end:
                    raise self._too_long()
                symbol = elf.dynsym[i - 1]
                if symbol.is_exported and _hash(symbol) % count != bucket:
                    raise self._unreached(i)
                found.add(i)
                i = words[count + i]
        for i in self._exported:
            if i not in found:
                raise self._unreached(i)


def _gnu_hash(symbol: Symbol) -> int:
    value = 5381
    for c in _name(symbol):
        value = (value * 33 + c) & 0xFFFFFFFF
    return value


def _hash(symbol: Symbol) -> int:
    value = 0
    for c in _name(symbol):
        value = ((value << 4) + c) & 0xFFFFFFFF
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high
    return value


def _name(symbol: Symbol) -> bytes:
    """As in the file, where what is no UTF-8 was read as escapes."""
    if "\\x" not in symbol.name:
        return symbol.name.encode()
    return re.sub(
        rb"\\x([89a-f][0-9a-f])", lambda m: bytes.fromhex(m[1].decode()), symbol.name.encode()
    )
