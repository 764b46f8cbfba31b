"""A bounded reader of ELF files: dynamic section, symbols and notes, over the tables of
`mblob.binary.elf_tables`."""

from __future__ import annotations

import itertools
import sys
from array import array
from collections.abc import Iterator
from functools import cached_property

from mblob.binary.elf_records import (
    DF_1_PIE,
    DF_TEXTREL,
    DT_ANDROID_RELR,
    DT_ANDROID_RELRSZ,
    DT_FLAGS,
    DT_FLAGS_1,
    DT_GNU_HASH,
    DT_HASH,
    DT_JMPREL,
    DT_NEEDED,
    DT_PLTREL,
    DT_REL,
    DT_RELA,
    DT_RELR,
    DT_RELRSZ,
    DT_STRSZ,
    DT_STRTAB,
    DT_SYMTAB,
    DT_TEXTREL,
    DT_VERSYM,
    EM_S390,
    ET_REL,
    HIDDEN,
    PT_DYNAMIC,
    PT_NOTE,
    SHT_DYNSYM,
    SHT_NOTE,
    SHT_SYMTAB,
    SIZE_TAGS,
    Symbol,
    SymbolTable,
)
from mblob.binary.elf_tables import NAME_LIMIT, ElfTables, name_budget
from mblob.binary.image import OneImage
from mblob.bytes.record import Record

SYMBOL_LIMIT = 1 << 22  # dynamic symbols; the largest real libraries have some 10^5
CHAIN_STEP = 1 << 16  # bytes of a hash chain read at a time
NEEDED_LIMIT = 1 << 12  # libraries
STRINGS_LIMIT = 1 << 26  # bytes of names that are copied into memory; those of libLLVM have 2^22


class ElfFile(ElfTables, OneImage):
    """An ELF file in memory (usually a mapping); an `mblob.binary.image.Image`. Arguments and
    errors as of `ElfTables`."""

    # -- dynamic section ---------------------------------------------------------------------------

    @cached_property
    def dynamic(self) -> dict[int, list[int]]:
        """Values per tag of the dynamic section."""
        tags: dict[int, list[int]] = {}
        segment = self.first_segment(PT_DYNAMIC)
        if segment is None:
            return tags
        record = self.layout.dyn
        count = segment.p_filesz // record.size
        for tag, value in self.records(record, segment.p_offset, count, "dynamic section"):
            if tag == 0:
                break
            tags.setdefault(tag, []).append(value)
        return tags

    def dynamic_strings(self, tag: int) -> list[str]:
        """The texts that a tag of the dynamic section names."""
        if tag not in self.dynamic:
            return []
        return [self.dynamic_string(at) for at in self.dynamic[tag][:NEEDED_LIMIT]]

    def dynamic_string(self, at: int, what: str = "name") -> str:
        """The text at an offset of the dynamic strings."""
        table = self._dynamic_table
        return self._string(table.strings, table.strings_size, at, what)

    @property
    def has_text_relocations(self) -> bool:
        """True if code is changed when it is loaded, so that it must be writable for a while."""
        return DT_TEXTREL in self.dynamic or bool(self.dt_flags & DF_TEXTREL)

    @property
    def dt_flags(self) -> int:
        """DT_FLAGS, 0 without them."""
        return next(iter(self.dynamic.get(DT_FLAGS, [0])))

    @property
    def is_program(self) -> bool:
        """True if a file of the type of shared libraries is an executable (`-pie`), which glibc
        does not load as one."""
        return any(flags & DF_1_PIE for flags in self.dynamic.get(DT_FLAGS_1, ()))

    @property
    def needed(self) -> list[str]:
        """Libraries this one is linked against (DT_NEEDED)."""
        return self.dynamic_strings(DT_NEEDED)

    def unpack_at(self, record: Record, vaddr: int, what: str) -> tuple[int, ...]:
        """The fields of a record at an address.

        Raises:
            FormatError: "elf_dynamic": no loaded segment has all of them in the file.
        """
        return record.unpack_from(self.data, self.offset_of(vaddr, record.size, what))

    def word_at(self, vaddr: int) -> int:
        """The word at an address that a relocation changes. Errors as of `unpack_at`."""
        return self.unpack_at(self.layout.word, vaddr, "a relocated word")[0]

    def relocation_tables(self) -> Iterator[tuple[int, int, Record]]:
        """Address, bytes and record of each table of relocations, packed ones left out."""
        tags, layout = self.dynamic, self.layout
        calls = layout.rela if DT_RELA in tags.get(DT_PLTREL, ()) else layout.rel
        for table, record in ((DT_RELA, layout.rela), (DT_REL, layout.rel), (DT_JMPREL, calls)):
            if table in tags and SIZE_TAGS[table] in tags:
                yield tags[table][0], tags[SIZE_TAGS[table]][0], record

    def relative_places(self) -> Iterator[int]:
        """Addresses of the words in packed tables (DT_RELR): an address, then bit maps of the words
        behind it."""
        width = self.layout.word.size
        for table, size in ((DT_RELR, DT_RELRSZ), (DT_ANDROID_RELR, DT_ANDROID_RELRSZ)):
            if table not in self.dynamic:
                continue
            length = self.dynamic.get(size, [0])[0]
            start, at = self.offset_of(self.dynamic[table][0], length, "relocations"), 0
            for entry in self.numbers("N", start, length // width):
                if not entry & 1:
                    yield entry
                    at = entry + width
                    continue
                for bit in range(1, 8 * width):
                    if entry >> bit & 1:
                        yield at + (bit - 1) * width
                at += (8 * width - 1) * width

    @cached_property
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
        size = count * self.layout.sym.size
        return SymbolTable(
            self.offset_of(tags[DT_SYMTAB][0], size, f"{count} dynamic symbols"),
            count,
            strings,
            strings_size,
        )

    def _dynsym_count(self) -> int:
        tags = self.dynamic
        if DT_HASH in tags:
            return self.unpack_at(self.sysv_hash, tags[DT_HASH][0], "hash table")[1]
        if DT_GNU_HASH in tags:
            return self._gnu_hash_count(tags[DT_GNU_HASH][0])
        table = next((s for s in self.sections if s.sh_type == SHT_DYNSYM), None)
        return table.sh_size // self.layout.sym.size if table else 0

    @property
    def sysv_hash(self) -> Record:
        """The record that starts a table of DT_HASH: two words that are as large as those behind.
        They have 64 bits on s390x (and alpha) alone."""
        wide = self.e_machine == EM_S390 and self.bits == 64
        return self.layout.hash_64 if wide else self.layout.hash_32

    def sysv_hash_size(self) -> int:
        """Bytes of the table of DT_HASH."""
        record = self.sysv_hash
        counts = self.unpack_at(record, self.dynamic[DT_HASH][0], "hash table")
        return record.size + record.size // len(counts) * sum(counts)

    def gnu_hash_size(self, symbols: int) -> int:
        """Bytes of the table of DT_GNU_HASH, whose chains end with the symbols."""
        record = self.layout.gnu_hash
        at = self.dynamic[DT_GNU_HASH][0]
        buckets, first, bloom, _ = self.unpack_at(record, at, "hash table")
        words = self.layout.word.size * bloom
        return record.size + words + 4 * (buckets + max(0, symbols - first))

    def _gnu_hash_count(self, vaddr: int) -> int:
        """Highest bucket, then its chain to the end, all inside the segment that holds the
        table."""
        record = self.layout.gnu_hash
        at = self.offset_of(vaddr, record.size, "hash table")
        buckets, first, bloom, _ = record.unpack_from(self.data, at)
        if buckets > SYMBOL_LIMIT:
            raise self._fail(
                f"a hash table of {buckets} buckets, the limit is {SYMBOL_LIMIT}", "elf_dynamic", at
            )
        head = record.size + bloom * self.layout.word.size
        at = self.offset_of(vaddr, head + 4 * buckets, f"a hash table of {buckets} buckets")
        last = max(self.numbers("I", at + head, buckets), default=0)
        if last < first:
            return int(first)
        chain = head + 4 * buckets + 4 * (last - first)
        end = at + chain
        while end - at - chain <= 4 * SYMBOL_LIMIT:
            self.offset_of(vaddr, end - at + 4, "a hash chain")
            room = min(CHAIN_STEP, len(self.data) - end)
            words = self.numbers("I", end, room // 4)
            stop = next((i for i, word in enumerate(words) if word & 1), None)
            if stop is not None:
                return int(last + (end - at - chain) // 4 + stop + 1)
            end += 4 * len(words)
        raise self._fail(f"a hash chain of more than {SYMBOL_LIMIT} symbols", "elf_dynamic", at)

    def numbers(self, code: str, offset: int, count: int) -> array[int]:
        """`count` numbers of a `struct` code (`N`: words), which the caller has checked to be in the
        file."""
        numbers: array[int] = array(self.layout.word_code if code == "N" else code)
        numbers.frombytes(self.data[offset : offset + numbers.itemsize * count])
        if (self.byte_order == "<") != (sys.byteorder == "little"):
            numbers.byteswap()
        return numbers

    # -- symbols -----------------------------------------------------------------------------------

    def symbols_of(self, table: SymbolTable) -> Iterator[Symbol]:
        """The symbols of a table behind its first one."""
        record = self.layout.sym
        fields = record.pick("st_name", *Symbol._fields[1:-1])
        start, size = table.strings, table.strings_size
        budget = name_budget(size)
        # A copy, in which names are found five times as fast.
        whole = size <= STRINGS_LIMIT and start + size <= len(self.data)
        strings = bytes(self.data[start : start + size]) if whole else b""
        at = table.offset
        rows = self.records(record, at, table.count, f"{table.count} symbols")
        for name, value, st_size, info, other, shndx in map(
            fields, itertools.islice(rows, 1, None)
        ):
            at += record.size
            end = strings.find(b"\0", name, name + NAME_LIMIT)
            if end > name:
                text = strings[name:end].decode("utf-8", "backslashreplace")
            else:
                text = self._string(start, size, name, "symbol name") if name else ""
            budget -= len(text)
            if budget < 0:
                raise self._fail(
                    "the names of its symbols add up to more than 8 times their table",
                    "elf_dynamic",
                )
            yield Symbol(text, value, st_size, info, other, shndx, at)

    @cached_property
    def dynsym(self) -> list[Symbol]:
        """Dynamic symbols, without the empty first one; [] for a static file."""
        if DT_SYMTAB not in self.dynamic:
            return []
        return list(self.symbols_of(self._dynamic_table))

    @cached_property
    def symtab(self) -> list[Symbol]:
        """Symbols of `.symtab`; [] for a stripped file."""
        for s in self.sections:
            if s.sh_type == SHT_SYMTAB and s.sh_link < len(self.sections):
                strings = self.sections[s.sh_link]
                count = s.sh_size // self.layout.sym.size
                return list(
                    self.symbols_of(
                        SymbolTable(s.sh_offset, count, strings.sh_offset, strings.sh_size)
                    )
                )
        return []

    @cached_property
    def exports(self) -> list[Symbol]:
        """Symbols that others can refer to."""
        return [s for s in self.dynsym if s.is_exported]

    @cached_property
    def imports(self) -> list[Symbol]:
        """Symbols that others must, or (weak ones) may, provide."""
        return [s for s in self.dynsym if not s.is_defined]

    def find(self, name: str) -> Symbol | None:
        """The exported symbol of that name, or None. By name alone the dynamic linker finds no
        hidden version."""
        return self._exported.get(name)

    @cached_property
    def _exported(self) -> dict[str, Symbol]:
        return {s.name: s for s in reversed(self.exports) if s.offset not in self.hidden}

    @cached_property
    def versym(self) -> tuple[int, ...]:
        """The version index of each dynamic symbol, the empty first one included; () without
        versions."""
        if DT_VERSYM not in self.dynamic:
            return ()
        count = len(self.dynsym) + 1
        size = count * self.layout.versym.size
        at = self.offset_of(self.dynamic[DT_VERSYM][0], size, "symbol versions")
        return tuple(self.numbers("H", at, count))

    @cached_property
    def hidden(self) -> set[int]:
        """Offsets of the dynamic symbols whose version is not the default one of its name."""
        return {s.offset for s, version in zip(self.dynsym, self.versym[1:]) if version & HIDDEN}

    def bytes_of(self, symbol: Symbol) -> tuple[int, memoryview]:
        """File offset and bytes of an exported symbol, `st_size` of them.

        Raises:
            FormatError: "elf_dynamic": they are not all in the file.
        """
        offset = self.offset_of(symbol.st_value, symbol.st_size, f"symbol {symbol.name!r}")
        return self.base + offset, self.data[offset : offset + symbol.st_size]

    # -- notes -------------------------------------------------------------------------------------

    def notes(self) -> Iterator[tuple[bytes, int, bytes, int]]:
        """(owner without NUL, type, descriptor, file offset of the descriptor) of each note."""
        if self.e_type == ET_REL:
            areas = [(s.sh_offset, s.sh_size) for s in self.sections if s.sh_type == SHT_NOTE]
        else:
            areas = [(s.p_offset, s.p_filesz) for s in self.segments if s.p_type == PT_NOTE]
        head = self.layout.nhdr
        left = len(self.data)  # areas that overlap would be read without end
        for start, size in dict.fromkeys(areas):
            self._check(start, size, "notes")
            left -= size
            if left < 0:
                return
            at, end = start, start + size
            while end - at >= head.size:
                namesz, descsz, n_type = head.unpack_from(self.data, at)
                at += head.size
                name_room = namesz + -namesz % 4
                desc_room = descsz + -descsz % 4
                if name_room > end - at or descsz > end - at - name_room:
                    break  # padding or damage; whoever needs a note finds it missing
                desc = at + name_room
                owner = bytes(self.data[at : at + min(namesz, 256)]).rstrip(b"\0")
                yield owner, n_type, bytes(self.data[desc : desc + min(descsz, 1 << 16)]), desc
                at = desc + min(desc_room, end - desc)
