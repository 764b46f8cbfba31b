"""Relocations: where the dynamic linker writes while it loads a library, and what.

`verify` checks them. The C runtime checks the same before it opens a library
(csrc/src/elf/relocations.c).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mblob.binary.elf import ElfFile
from mblob.binary.elf_facts import becomes_read_only, has_text_relocations
from mblob.binary.elf_records import (
    DF_1_NOW,
    DF_BIND_NOW,
    DT_ANDROID_REL,
    DT_ANDROID_RELA,
    DT_ANDROID_RELR,
    DT_BIND_NOW,
    DT_FLAGS,
    DT_FLAGS_1,
    DT_JMPREL,
    DT_PLTREL,
    DT_REL,
    DT_RELA,
    DT_RELACOUNT,
    DT_RELAENT,
    DT_RELCOUNT,
    DT_RELENT,
    DT_RELR,
    DT_RELRSZ,
    EM_MIPS,
    FUNCTION_TABLES,
    PF_W,
    PT_LOAD,
    PT_TLS,
    SHN_ABS,
    SIZE_TAGS,
    STB_GLOBAL,
    STB_WEAK,
    STT_COMMON,
    STT_NOTYPE,
    STT_OBJECT,
    STT_SECTION,
    STT_TLS,
    Symbol,
)
from mblob.binary.elf_symbols import Symbols, bad, is_loaded
from mblob.binary.relocation_types import (
    ADDRESS,
    COPY,
    DESCRIPTOR,
    MEANINGS,
    MODULE,
    NONE,
    OFFSET,
    PART_1,
    PART_2,
    PART_4,
    PART_8,
    RELATIVE,
    RESOLVER,
    SIZE,
    SIZE_4,
    SLOT,
    TLS_PLACE,
    UNKNOWN,
)
from mblob.bytes.record import Record
from mblob.errors import FormatError
from mblob.format.prefixes import CONTEXTS, SLOTS

# bionic relocates by tables of its own, which are not read here.
_ANDROID_TABLES = (DT_ANDROID_REL, DT_ANDROID_RELA, DT_ANDROID_RELR)
_SIZES = {PART_1: 1, PART_2: 2, PART_4: 4, PART_8: 8, SIZE_4: 4}
_ONES = b"\1" * 16
_EMPTY = Symbol("", 0, 0, 0, 0, 0, 0)


class _Places:
    """Words that get an address each; `given`: bytes that have theirs."""

    def __init__(self, what: str, start: int, end: int) -> None:
        self.what, self.start, self.end, self.given = what, start, end, 0

    def see(self, at: int, size: int, word: int) -> bool:
        """Whether the bytes are among them; notes that they get an address."""
        if at >= self.end or at + size <= self.start:
            return False
        if at < self.start or (at - self.start) % word:
            raise ValueError(f"it lies between two {self.what}s")
        self.given += min(size, self.end - at)
        return True


class _Table(NamedTuple):
    """Relocations one behind the other; `relative`: how many at the start are RELATIVE."""

    name: str
    start: int
    size: int
    record: Record
    relative: int = 0
    calls: bool = False

    def without(self, other: _Table) -> _Table:
        """Some linkers count the relocations of calls, which lie behind the others, among these.
        glibc does not take them twice."""
        at_end = self.start + self.size == other.start + other.size and self.record is other.record
        counted = other.calls and not self.calls and at_end and other.size <= self.size
        return self._replace(size=self.size - other.size) if counted else self


def check_relocations(elf: ElfFile, symbols: Symbols) -> None:
    """Check that relocations change only data, to addresses in the library, and give each
    constructor an address.

    Raises:
        FormatError: "elf_dynamic".
    """
    _Relocations(elf, symbols).check()


class _Relocations:
    """What each relocation is held against, read once."""

    def __init__(self, elf: ElfFile, symbols: Symbols) -> None:
        self.elf, self.symbols = elf, symbols
        self.word = elf.layout.word.size
        self.shift, self.mask = elf.layout.symbol_shift, elf.layout.type_mask
        self.types = MEANINGS.get((elf.machine, elf.bits))
        flags = 0 if has_text_relocations(elf) else PF_W
        loaded = [s for s in elf.segments if s.p_type == PT_LOAD]
        self.writable = [
            (s.p_vaddr, s.p_vaddr + s.p_memsz) for s in loaded if s.p_flags & flags == flags
        ]
        self.loaded = [(s.p_vaddr, s.p_vaddr + s.p_memsz) for s in loaded]
        self.tls = next((s.p_memsz for s in elf.segments if s.p_type == PT_TLS), 0)
        self.tables = self._tables()
        # What no relocation may change: tables that lie in writable segments.
        self.kept = [
            (start, end) for start, end in symbols.tables if _inside(self.writable, start, 1)
        ]
        # A byte for each of the file's that relocations may write: whether one does.
        self.written = [
            (*segment, bytearray(segment[1] - segment[0])) for segment in self._in_file(flags)
        ]
        self.functions = self._functions()
        self.calls = self._calls()
        self.slots = self._slots()
        self.around_slots = (
            min(self.slots, default=0),
            max(self.slots, default=-1) + self.word - 1,
        )
        self.binds_at_once = DT_BIND_NOW in elf.dynamic or bool(
            self._tag(DT_FLAGS) & DF_BIND_NOW or self._tag(DT_FLAGS_1) & DF_1_NOW
        )

    def _in_file(self, flags: int) -> list[tuple[int, int]]:
        loaded = (
            s for s in self.elf.segments if s.p_type == PT_LOAD and s.p_flags & flags == flags
        )
        return [(s.p_vaddr, s.p_vaddr + s.p_filesz) for s in loaded]

    def _bad(self, text: str) -> Exception:
        return bad(self.elf, text)

    def _tag(self, tag: int) -> int:
        return self.elf.dynamic.get(tag, (0,))[0]

    def _tables(self) -> list[_Table]:
        tags, rela, rel = self.elf.dynamic, self.elf.layout.rela, self.elf.layout.rel
        for tag, record in ((DT_RELAENT, rela), (DT_RELENT, rel)):
            if tags.get(tag, [record.size])[0] != record.size:
                raise self._bad("relocations have another size")
        calls = self._tag(DT_PLTREL)
        known = (
            (DT_RELA,)
            if self.types and self.elf.machine not in ("i386", "arm")
            else (DT_RELA, DT_REL)
        )
        if DT_JMPREL in tags and calls not in known:
            raise self._bad(f"relocations of calls are of kind {calls:#x}")
        found = []
        for name, tag, record, count in (
            ("DT_RELA", DT_RELA, rela, self._tag(DT_RELACOUNT)),
            ("DT_REL", DT_REL, rel, self._tag(DT_RELCOUNT)),
            ("DT_JMPREL", DT_JMPREL, rel if calls == DT_REL else rela, 0),
        ):
            size, each = self._tag(SIZE_TAGS[tag]), record.size
            if tag not in tags:
                if size:
                    raise self._bad("relocations have no table")
                continue
            if size % each:
                raise self._bad(f"{size} bytes of relocations, each has {each}")
            self.elf.offset_of(tags[tag][0], size, "relocations")
            found.append(_Table(name, tags[tag][0], size, record, count, tag == DT_JMPREL))
        found = [t.without(found[-1]) for t in found]
        for t in found:
            if t.relative > (count := t.size // t.record.size):
                raise self._bad(f"{t.relative} relocations are relative, there are {count}")
        return found

    def _functions(self) -> list[_Places]:
        """The tables of constructors and destructors."""
        found = []
        most = sum(t.size // self.word for t in self.tables) + 8 * self._tag(DT_RELRSZ)
        for tag, size_tag, _ in FUNCTION_TABLES:
            start, size = self._tag(tag), self._tag(size_tag)
            if tag not in self.elf.dynamic or not size:
                continue
            if size % self.word or start % self.word:
                raise self._bad("the table of constructors has an impossible size")
            if size // self.word > most and not self._is_android:
                raise self._bad("a constructor has no address")
            if not self.elf.is_in_file(start, size):
                raise self._bad("the table of constructors is not in the file")
            found.append(_Places("constructor", start, start + size))
        return found

    def _slots(self) -> dict[int, str]:
        """The variables that a loader fills, by address: each of its own, writable, and nothing
        that the linker reads. Contexts of several dialects may be one."""
        elf, word, found = self.elf, self.word, dict[int, str]()
        tables = [*self.symbols.tables, *((f.start, f.end) for f in self.functions)]
        for name in (*SLOTS, *CONTEXTS):
            slot = elf.find(name)
            if (
                slot is None
                or slot.type not in (STT_NOTYPE, STT_OBJECT, STT_COMMON)
                or slot.st_shndx == SHN_ABS
            ):
                continue
            at = slot.st_value
            if not is_loaded(elf, at, word, PF_W):
                continue
            if becomes_read_only(elf, at) or becomes_read_only(elf, at + word - 1):
                raise FormatError.about(
                    elf.name,
                    f"{name} becomes read-only, so nobody can fill it",
                    code="elf_header",
                )
            if _touches(tables, at, word):
                raise self._bad(f"{name} lies in a table that the dynamic linker reads")
            for other, first in found.items():
                if abs(other - at) < word and (other != at or first not in CONTEXTS):
                    raise self._bad(f"{first} and {name} lie in one place")
            found.setdefault(at, name)
        return found

    @property
    def _is_android(self) -> bool:
        return any(tag in self.elf.dynamic for tag in _ANDROID_TABLES)

    def check(self) -> None:
        self._check_packed()
        for table in self.tables:
            self._check_table(table)
        for places in [*([] if self._is_android else self.functions), self.calls]:
            if places.given != places.end - places.start:
                raise self._bad(f"a {places.what} has no address")

    def _check_table(self, t: _Table) -> None:
        shift, mask, types = self.shift, self.mask, self.types
        # the symbol comes first
        swapped = (self.elf.e_machine, self.elf.bits, self.elf.byte_order) == (EM_MIPS, 64, "<")
        for i, (at, info, addend) in enumerate(self._records(t)):
            number, symbol = (
                (info >> shift, info & mask) if swapped else (info & mask, info >> shift)
            )
            meaning = types.get(number, UNKNOWN) if types else UNKNOWN if number else NONE
            try:
                named = self._symbol(symbol)
                if meaning == NONE and i >= t.relative and not (t.calls and types):
                    continue  # in place of a call it would leave a slot without an address
                self._check_place(at, self._size(meaning))
                if types:
                    self._check_meaning(t, i, (at, addend), meaning, (symbol, named))
                elif self._see_function(at, self.word):
                    self._note(at, self.word)
            except FormatError:
                raise
            except ValueError as error:
                raise self._bad(
                    f"relocation {i} of {t.name}, type {number}, at {at:#x}: {error}"
                ) from None

    def _records(self, t: _Table) -> Iterator[tuple[int, ...]]:
        offset = self.elf.offset_of(t.start, t.size, "relocations")
        records = self.elf.records(t.record, offset, t.size // t.record.size, "relocations")
        if "r_addend" in t.record.fields:
            return records
        return ((at, info, self._word_at(at)) for at, info in records)

    def _word_at(self, vaddr: int) -> int:
        """An addend that is in the data."""
        for s in self.elf.segments:
            if (
                s.p_type == PT_LOAD
                and s.p_vaddr <= vaddr
                and vaddr - s.p_vaddr + self.word <= s.p_filesz
            ):
                at = s.p_offset + vaddr - s.p_vaddr
                order = "little" if self.elf.byte_order == "<" else "big"
                return int.from_bytes(self.elf.data[at : at + self.word], order)  # type: ignore[arg-type]
        return 0

    def _symbol(self, i: int) -> Symbol:
        return self.symbols.named(i) if i else _EMPTY

    def _size(self, meaning: int) -> int:
        """Bytes that belong to it: with the number of a module the offset, which has a relocation
        of its own or is there."""
        if meaning in (DESCRIPTOR, MODULE):
            return 2 * self.word
        return _SIZES.get(meaning, self.word)

    def _check_place(self, at: int, size: int) -> None:
        if not _inside(self.writable, at, size):
            raise ValueError("it lies outside the data")
        if _touches(self.kept, at, size):
            raise ValueError("it lies in a table that the dynamic linker reads")

    def _note(self, at: int, size: int) -> None:
        """Note what is written. Where two relocations write, one is missing elsewhere. Zeros behind
        the file's data are not noted: nothing tells what they are for."""
        for start, end, written in self.written:
            if start <= at < end:
                first, last = at - start, min(at + size, end) - start
                if 1 in written[first:last]:
                    raise ValueError("another relocation writes the same bytes")
                written[first:last] = _ONES[: last - first]
                return

    def _check_slots(self, at: int, size: int, is_data: bool) -> None:
        """A variable that a loader fills may have had an address before; but it is no word of the
        linker's."""
        first, last = self.around_slots
        if at > last or at + size <= first or (is_data and at in self.slots):
            return
        for slot, name in self.slots.items():
            if slot < at + size and at < slot + self.word:
                raise ValueError(f"it writes {name}, which a loader fills")

    def _see_function(self, at: int, size: int) -> bool:
        """Whether the bytes are among the constructors and destructors."""
        for places in self.functions:  # noqa: SIM110
            if places.see(at, size, self.word):
                return True
        return False

    def _calls(self) -> _Places:
        """The slots of calls, which linkers put one behind the other: as many words as the
        relocations of calls change, from the lowest one on."""
        start, size, types = 1 << 64, 0, self.types or {}
        for t in self.tables if types else ():
            for at, info, _ in self._records(t) if t.calls else ():
                meaning = types.get(info & self.mask, UNKNOWN)
                start, size = min(start, at), size + self._size(meaning)
        return _Places("call slot", start, start + size)

    def _check_target(self, target: int, code: bool) -> None:
        if code and not self.symbols.is_code(target):
            raise ValueError("a constructor lies outside the code")
        if not _inside(self.loaded, target, 0):
            at = target % (1 << self.elf.bits)  # addends have a sign
            raise ValueError(f"it points outside the library, to {at:#x}")

    def _check_meaning(
        self, t: _Table, i: int, place: tuple[int, int], meaning: int, symbol: tuple[int, Symbol]
    ) -> None:
        (at, addend), (number, named) = place, symbol
        if meaning == UNKNOWN:
            raise ValueError("it is of no known type")
        # glibc binds these late, and no others
        if t.calls and meaning not in (SLOT, RESOLVER, DESCRIPTOR):
            raise ValueError("the relocations of calls are of no known kind")
        if t.relative and (i < t.relative) != (meaning == RELATIVE):
            raise ValueError(
                f"{t.relative} relocations are counted as relative, and it is not as counted"
            )
        size = self._size(meaning)
        function = self._see_function(at, size)
        if function and meaning not in (RELATIVE, ADDRESS, RESOLVER):
            raise ValueError("a constructor is no address")
        if t.calls:
            self.calls.see(at, size, self.word)
        self._check_slots(at, size, not t.calls and meaning in (RELATIVE, ADDRESS, RESOLVER, SIZE))
        if meaning != OFFSET:
            self._note(at, size)
        # symbol 0 is the base
        if meaning in (RELATIVE, RESOLVER) or (meaning == ADDRESS and not number):
            if number:
                raise ValueError("it is relative and names a symbol")
            self._check_target(addend, meaning == RESOLVER or function)
            return
        if function and named.is_defined:
            self._check_target((named.st_value + addend) % (1 << self.elf.bits), True)
        elif function and (addend or named.binding != STB_GLOBAL):
            raise ValueError("the address of a constructor may stay 0")
        self._check_named(
            t, i, (at, addend if "r_addend" in t.record.fields else 0), meaning, symbol
        )

    def _check_named(
        self, t: _Table, i: int, place: tuple[int, int], meaning: int, symbol: tuple[int, Symbol]
    ) -> None:
        (at, addend), (number, named) = place, symbol
        if meaning in (SLOT, MODULE, OFFSET, DESCRIPTOR) and at % self.word:
            raise ValueError("the word that it writes is not aligned")
        if meaning == MODULE:
            self._check_thread(
                number, named, 0 if self._is_pair(t, i) else self._offset_behind(at, number, named)
            )
            return
        if meaning in (OFFSET, TLS_PLACE, DESCRIPTOR):
            if meaning == OFFSET and not (i and self._is_pair(t, i - 1)):
                raise ValueError(
                    "no relocation in front of it gives the module of a thread-local offset"
                )
            self._check_thread(number, named, (named.st_value + addend) % (1 << self.elf.bits))
            return
        # glibc reads the symbol that it has found, which for a weak one may be none
        if meaning in (SIZE, SIZE_4):
            if named.binding == STB_WEAK and not named.is_defined:
                raise ValueError(f"it takes the size of the weak symbol {named.name!r}")
            return
        if meaning == COPY:
            raise ValueError("it copies data of another library, which only executables do")
        if meaning == SLOT and (not number or addend):
            raise ValueError("the slot of a symbol has no symbol, or an addend")
        if named.type == STT_TLS:
            raise ValueError("it takes the address of a thread-local symbol")
        if t.calls and meaning == SLOT:
            self._check_call(at, named)

    def _is_pair(self, t: _Table, i: int) -> bool:
        """Whether number `i` is that of a module, and the next one the offset behind it."""
        types, mask, shift, each = self.types or {}, self.mask, self.shift, t.record.size
        if (i + 2) * each > t.size:
            return False
        at = self.elf.offset_of(t.start + i * each, 2 * each, "relocations")
        pair = self.elf.records(t.record, at, 2, "relocations")
        (place, info, *_), (next_place, next_info, *_) = pair
        kinds = types.get(info & mask), types.get(next_info & mask)
        return (
            kinds == (MODULE, OFFSET)
            and info >> shift == next_info >> shift
            and next_place - place == self.word
        )

    def _offset_behind(self, at: int, number: int, named: Symbol) -> int:
        """Of the library's own variables the linker may have written the offset."""
        if number and not named.is_defined:
            raise ValueError(f"no relocation behind it gives the offset of {named.name!r}")
        taken_off = 0x800 if self.elf.machine == "riscv" else 0  # by linkers of that machine
        return (self._word_at(at + self.word) + taken_off) % (1 << self.elf.bits)

    def _check_thread(self, number: int, named: Symbol, offset: int) -> None:
        if number and named.type not in (STT_TLS, STT_SECTION):
            raise ValueError(f"it is thread-local, the symbol {named.name!r} is not")
        if number and not named.is_defined:
            return
        if not self.tls:
            raise ValueError("it is thread-local, and there is no thread storage (PT_TLS)")
        if offset > self.tls:
            raise ValueError("it lies outside the thread storage")

    def _check_call(self, at: int, named: Symbol) -> None:
        """A call goes through its slot into the linkage table until it is bound, which writes the
        slot."""
        if (
            named.is_defined
            and named.st_shndx != SHN_ABS
            and not self.symbols.is_code(named.st_value)
        ):
            raise ValueError(f"it calls the symbol {named.name!r}, which is no code")
        if not self.binds_at_once and becomes_read_only(self.elf, at):
            raise ValueError("the slot of a call becomes read-only")
        self.elf.offset_of(at, self.word, "the slot of a call")
        target = self._word_at(at)
        if target and not self.symbols.is_code(target):
            raise ValueError("the slot of a call points to no code")

    def _check_packed(self) -> None:
        """DT_RELR: an even entry is an address, an odd one a bitmap of the words behind it."""
        if DT_RELR not in self.elf.dynamic:
            return
        start, size, word = self.elf.dynamic[DT_RELR][0], self._tag(DT_RELRSZ), self.word
        offset, following, done = self.elf.offset_of(start, size, "packed relocations"), 0, 0
        for i, entry in enumerate(self.elf.numbers("N", offset, size // word)):
            if entry & 1 and not i:
                raise self._bad("the packed relocations start with a bitmap")
            if not entry & 1 and (entry % word or entry < done):
                raise self._bad("the packed relocations are not in order")
            place, bits = (following, entry >> 1) if entry & 1 else (entry, 1)
            following = following + (8 * word - 1) * word if entry & 1 else entry + word
            while bits:
                if bits & 1:
                    self._check_packed_word(place)
                    done = place + word
                bits, place = bits >> 1, place + word

    def _check_packed_word(self, place: int) -> None:
        try:
            self._check_place(place, self.word)
            self.elf.offset_of(place, self.word, "a packed relocation")
            self._check_slots(place, self.word, True)
            self._note(place, self.word)
            self._check_target(self._word_at(place), self._see_function(place, self.word))
        except FormatError:
            raise
        except ValueError as error:
            raise self._bad(f"packed relocation at {place:#x}: {error}") from None


def _touches(ranges: list[tuple[int, int]], at: int, size: int) -> bool:
    for start, end in ranges:  # noqa: SIM110 - any() takes twice as long, and there may be a million
        if at < end and at + size > start:
            return True
    return False


def _inside(ranges: list[tuple[int, int]], at: int, size: int) -> bool:
    for start, end in ranges:  # noqa: SIM110
        if start <= at and at + size <= end:
            return True
    return False
