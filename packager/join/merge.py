"""Symbols and relocations of two libraries as one: the finished library (`host`), and the small one
that joins it (`part`).

Names are looked up here: what one of the two needs and the other has is bound by address. Addresses
of the part are those that it was linked for; `mblob.packager.join.merged_file` moves them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Union

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import (
    DT_FINI,
    DT_FINI_ARRAY,
    DT_INIT,
    DT_INIT_ARRAY,
    PF_W,
    PT_LOAD,
    PT_TLS,
    SHF_ALLOC,
    SIZE_TAGS,
    STB_WEAK,
    STT_FUNC,
    STT_GNU_IFUNC,
    STT_NOTYPE,
    STT_OBJECT,
    STT_SECTION,
    STT_TLS,
    Symbol,
)
from mblob.binary.elf_versions import NeededVersion
from mblob.binary.function_names import shown_name
from mblob.errors import FormatError, ToolchainError
from mblob.packager.errors import CannotJoinError, NameTakenError
from mblob.packager.join import relocations
from mblob.packager.join.c_libraries import check_one_c_library
from mblob.packager.join.dynamic_symbols import VER_GLOBAL, Entry, entry_of
from mblob.packager.join.part_front import Front, front_of, is_own
from mblob.packager.join.relocations import Relocation
from mblob.packager.join.symbol_versions import merge_versions
from mblob.packager.write.dialects import DIALECTS

Names = Callable[[str], bool]


CONTENTS = (STT_FUNC, STT_GNU_IFUNC, STT_OBJECT)
_OURS = "__mblob_"  # begins names of which the part's stand for the result


# A new table by its name, or a note that made room by its old offset.
Name = Union[str, int]


@dataclass(frozen=True)
class MergedRelocation:
    """A relocation of the result.

    Attributes:
        record: its place is an address of the library that it comes from.
        entry: its symbol, None without one; the record's number says nothing any more.
        of_part: its place, and an address that it adds, move with the part.
    """

    record: Relocation
    entry: Entry | None
    of_part: bool = False


@dataclass(frozen=True)
class MergeInput:
    """The contents of the result, before the part has its addresses.

    Attributes:
        host, part: the two libraries.
        entries: of the new symbol table.
        versions: that these need, by their index.
        early, late: relocations; the late ones are those of the host's calls.
        thread: where the part's memory of a thread starts in that of the result.
        bound_again: places of the host that get another value than its own relocations gave them.
    """

    host: ElfFile
    part: ElfFile
    entries: list[Entry]
    versions: dict[int, NeededVersion]
    early: list[MergedRelocation]
    late: list[MergedRelocation]
    thread: int
    bound_again: Collection[int] = ()


@dataclass(frozen=True)
class MergedLayout:
    """The layout of the result.

    Attributes:
        offset: of the new tables in the file; their address is `offset + shift`.
        shift: addresses of the tables less offsets.
        headers: offset of the program headers, in front or at `offset`.
        headers_size: their bytes.
        head: where the first segment ends, which may be longer to have room for them.
        tables: offsets of the new tables from `offset`, by name, and their sizes. Notes that had to
            make room have their old offsets for names.
        tables_size: bytes of all of them.
        dynamic, part: offsets in the file of the dynamic section, and of the part.
        dynamic_address: of the dynamic section.
        moved: bytes that are added to addresses of the part.
        first_global: number of the first symbol that is not local.
        unused: numbers of the host's segments that the result does not have.
        front: the front of the part, which the result does not have.
    """

    offset: int
    shift: int
    headers: int
    headers_size: int
    head: int
    tables: dict[Name, tuple[int, int]]
    tables_size: int
    dynamic: int
    dynamic_size: int
    dynamic_address: int
    part: int
    moved: int
    first_global: int
    unused: frozenset[int]
    front: Front

    def of_note(self, offset: int) -> int:
        """The new offset of a byte of the host's notes."""
        for old, (start, size) in self.tables.items():
            if isinstance(old, int) and old <= offset < old + size:
                return self.offset + start + offset - old
        return offset

    def address(self, name: str) -> int:
        return self.offset + self.shift + self.tables[name][0]

    def of_part(self, offset: int) -> int:
        """The offset of a byte of the part in the result."""
        return self.part + self.front.place_of(offset)


def mapped(host: ElfFile, part: ElfFile) -> dict[int, int]:
    """Numbers of the part's sections in the result."""
    end = front_of(part).end
    wanted = [
        i
        for i, s in enumerate(part.sections)
        if s.sh_flags & SHF_ALLOC and s.sh_size and not (end and is_own(s))
    ]
    return {old: len(host.sections) + new for new, old in enumerate(wanted)}


def merge(host: ElfFile, part: ElfFile, hidden: Names, replaced: Collection[str]) -> MergeInput:
    """Join symbols and relocations.

    Args:
        hidden, replaced: as of `mblob.packager.join.join.join`.

    Raises:
        CannotJoinError: the two cannot be joined; the text says why.
        IncompatibleError: they need two C libraries.
        FormatError: a table is damaged.
    """
    types = relocations.types_of(host)
    check_one_c_library(host, part)
    _check_part(part)
    symbols = _MergedSymbols(host, part, hidden, replaced)
    early, late = relocations.read(host)
    ours, calls = relocations.read(part)
    ours += relocations.packed(part, types)
    # done at once in the result; descriptors of memory of threads are among them, too
    for r in calls:
        addend = None if r.addend is None else 0
        ours.append(replace(r, type=types.symbol, addend=addend) if r.type == types.call else r)
    made = [symbols.of_part(r, types) for r in ours]
    bound = {b.record.place for b in made if not b.of_part}
    kept = [
        b
        for b in map(symbols.of_host, early)
        if b.entry not in symbols.left_out and b.record.place not in bound
    ]
    calls_of_host = [symbols.of_host(r) for r in late]
    needed = {b.entry for b in calls_of_host}
    entries = [e for e in symbols.entries if e not in symbols.left_out or e in needed]
    return MergeInput(
        host=host,
        part=part,
        entries=entries,
        versions=symbols.versions,
        early=kept + made,
        late=calls_of_host,
        thread=_thread(host, part),
        bound_again=bound.intersection(r.place for r in early),
    )


def merge_data(host: ElfFile, part: ElfFile, symbol: Entry) -> MergeInput:
    """Join data that has no relocations: `part` has one segment, and `symbol` in it.

    Raises:
        As of `merge`.
    """
    relocations.types_of(host)
    of_host = [entry_of(host, s) for s in host.dynsym]
    for e, version in zip(of_host, host.versym[1:]):
        e.version = version
    symbol.shndx = mapped(host, part).get(symbol.shndx, symbol.shndx)
    early, late = (
        [MergedRelocation(r, _numbered(of_host, r.symbol, host)) for r in table]
        for table in relocations.read(host)
    )
    return MergeInput(host, part, [*of_host, symbol], versions={}, early=early, late=late, thread=0)


def _check_part(part: ElfFile) -> None:
    chosen = [s.name for s in part.symtab if s.type == STT_GNU_IFUNC and s.is_defined]
    if chosen:
        raise CannotJoinError(
            f"the new code has a function that is chosen when the library is loaded ({shown_name(chosen[0])}: IFUNC, as"
            f" target_clones makes; if it has a resolver of yours, calls need its prototype, too,"
            f" functions=['void {shown_name(chosen[0])}(...)'])"
        )
    for tag, what in (
        (DT_INIT_ARRAY, "constructors"),
        (DT_FINI_ARRAY, "destructors"),
        (DT_INIT, "a start-up function"),
        (DT_FINI, "a function for its end"),
    ):
        if tag in part.dynamic:
            named = _called_by(part, tag)
            raise CannotJoinError(
                f"the new code has {what}{f' ({named})' if named else ', which an option of the link may have brought'}"
            )


def _called_by(part: ElfFile, tag: int) -> str:
    """The functions in a table of constructors or destructors, "" if none has a name."""
    start, size = part.dynamic[tag][0], part.dynamic.get(SIZE_TAGS.get(tag, -1), [0])[0]
    early, _ = relocations.read(part)
    rows = [r for r in early if start <= r.place < start + size]
    names = {part.dynsym[r.symbol - 1].name for r in rows if 0 < r.symbol <= len(part.dynsym)}
    values = {relocations.value_of(part, r) for r in rows if not r.symbol}
    functions = (s for s in part.symtab if s.is_defined and s.type == STT_FUNC)
    names.update(s.name for s in functions if s.st_value in values)
    return ", ".join(sorted(names))


def _thread(host: ElfFile, part: ElfFile) -> int:
    """The place of the part's thread-local variables: behind those of the host."""
    ours, theirs = part.first_segment(PT_TLS), host.first_segment(PT_TLS)
    if ours is None or theirs is None:
        return 0
    if ours.p_filesz:
        variables = (s for s in part.symtab if s.type == STT_TLS and s.is_defined)
        named = ", ".join(s.name for s in variables if s.st_value < ours.p_filesz)
        raise CannotJoinError(
            f"the new code has variables of threads with initial values{f' ({named})' if named else ''}"
        )
    # the block of a thread has its address, modulo the alignment
    end = theirs.p_vaddr + theirs.p_memsz
    return theirs.p_memsz + -end % max(ours.p_align, 1)


class _MergedSymbols:
    """Both symbol tables as one."""

    def __init__(
        self, host: ElfFile, part: ElfFile, hidden: Names, replaced: Collection[str]
    ) -> None:
        self._host, self._part, self._hidden = host, part, hidden
        self._of_host = [entry_of(host, s) for s in host.dynsym]
        self._of_part = [entry_of(part, s, joined=True) for s in part.dynsym]
        numbers = mapped(host, part)
        for e in self._of_part:
            e.shndx = numbers.get(e.shndx, e.shndx)
        self.entries = list(self._of_host)
        self._versions()
        exported = [(s, e) for s, e in zip(host.dynsym, self._of_host) if s.is_exported]
        exported.sort(key=lambda row: row[0].offset not in host.hidden)  # the default version last
        theirs = {s.name: (s, e) for s, e in exported}
        wanted = {
            s.name: e for s, e in zip(host.dynsym, self._of_host) if not s.is_defined and s.binding
        }
        ours = {s.name for s in part.dynsym if s.is_exported and s.name.startswith(_OURS)}
        for e, s in zip(self._of_host, host.dynsym):
            if s.is_exported and (hidden(s.name) or s.name in ours or s.name in replaced):
                e.hide()
        # variables of the part by address, and those of the host in their place
        self._shared: dict[int, Symbol] = {}
        self._bound: dict[int, Entry] = {}  # by the entry that others find
        for i, s in enumerate(part.dynsym):
            self._of_part[i] = self._join(s, self._of_part[i], theirs, wanted)
        # Optional functions of a runtime that is not that of the result: their places stay zero.
        self.left_out = {
            e
            for s, e in zip(host.dynsym, self._of_host)
            if not e.shndx and s.binding == STB_WEAK and hidden(s.name)
        }

    def _versions(self) -> None:
        self.versions, of_part = merge_versions(self._host, self._part)
        for e, version in zip(self._of_host, self._host.versym[1:]):
            e.version = version
        for e, version in zip(self._of_part, of_part):
            e.version = version

    def _join(
        self,
        s: Symbol,
        own: Entry,
        theirs: dict[str, tuple[Symbol, Entry]],
        wanted: dict[str, Entry],
    ) -> Entry:
        """The entry that a symbol of the part has in the result."""
        if not s.binding:
            if s.type != STT_SECTION:
                self.entries.append(own)
            return own
        found = theirs.get(s.name)
        if not s.is_defined:
            if found is not None:
                return self._by_address(found[1])
            same = wanted.get(s.name)
            if same is not None and own.version in (same.version, VER_GLOBAL):
                return same
            return self._added(own)
        if found is not None and is_shared(s.name) and s.type in (STT_OBJECT, STT_NOTYPE):
            self._shared[s.st_value] = found[0]
            return self._by_address(found[1]) if found[1].is_local else found[1]
        if (
            found is not None
            and found[1].is_found
            and s.type in CONTENTS
            and not self._hidden(s.name)
        ):
            raise NameTakenError(
                f"{self._host.name}: exports {s.name}, a name that the new code needs"
            )
        if s.name in wanted:  # which the host calls, and nobody else has
            self._bind(wanted[s.name], own)
            if self._hidden(s.name):
                return wanted[s.name]
        if self._hidden(s.name):
            own.hide()
        return self._added(own)

    def _added(self, e: Entry) -> Entry:
        self.entries.append(e)
        return e

    def _bind(self, undefined: Entry, own: Entry) -> None:
        undefined.value, undefined.size, undefined.shndx = own.value, own.size, own.shndx
        undefined.info, undefined.other, undefined.joined = own.info, own.other, True
        undefined.hide()

    def _by_address(self, e: Entry) -> Entry:
        """An entry that is what the host has, whatever else the process has of that name."""
        if e.is_local:
            return e
        copy = replace(e)
        copy.hide()
        return self._added(copy)

    def _own(self, e: Entry | None) -> Entry | None:
        """The symbol that code of the part refers to. Its own functions and variables are that by their address, as
        in a library that is linked, whatever else the process has of the name."""
        if e is None or not (e.joined and e.is_found) or e.info & 15 not in CONTENTS:
            return e
        if is_shared(e.name.decode(errors="replace")):
            return e
        if id(e) not in self._bound:
            self._bound[id(e)] = self._by_address(e)
        return self._bound[id(e)]

    def of_host(self, r: Relocation) -> MergedRelocation:
        """A relocation of the host."""
        return MergedRelocation(r, _numbered(self._of_host, r.symbol, self._host))

    def of_part(self, r: Relocation, types: relocations.Types) -> MergedRelocation:
        """A relocation of the part. What it stores into its own copy of a shared variable goes into
        the host's."""
        entry = self._own(_numbered(self._of_part, r.symbol, self._part))
        variable = self._shared.get(r.place)
        if variable is None:
            return MergedRelocation(r, entry, of_part=True)
        if entry is None and r.type == types.relative:
            value = relocations.value_of(self._part, r)
            section = self._section_of(value, variable.st_shndx)
            entry = self._added(Entry(b"", value, 0, STT_NOTYPE, 0, section, joined=True))
            entry.hide()
        elif entry is None or r.type != types.symbol:
            raise ToolchainError(
                f"{self._part.name}: a relocation of type {r.type} for {variable.name}"
            )
        self._check_writable(variable)
        place = Relocation(variable.st_value, types.word, 0, None if r.addend is None else 0)
        return MergedRelocation(place, entry)

    def _section_of(self, value: int, otherwise: int) -> int:
        """Number of the section, in the result, of an address of the part."""
        numbers = mapped(self._host, self._part)
        own = self._part.sections
        return next(
            (new for i, new in numbers.items() if 0 <= value - own[i].sh_addr < own[i].sh_size),
            otherwise,
        )

    def _check_writable(self, variable: Symbol) -> None:
        for s in self._host.segments:
            if (
                s.p_type == PT_LOAD
                and s.p_vaddr <= variable.st_value < s.p_vaddr + s.p_memsz
                and s.p_flags & PF_W
            ):
                return
        raise CannotJoinError(
            f"{self._host.name}: {variable.name} lies in memory that cannot be written"
        )


def is_shared(name: str) -> bool:
    """True if there is one variable of this name, which runtimes fill: that of the host, with the
    value that the part gives it."""
    return name.startswith("__TVM") or name in {d.context for d in DIALECTS.values()}


def _numbered(table: list[Entry], number: int, elf: ElfFile) -> Entry | None:
    if number > len(table):
        raise FormatError(
            f"{elf.name}: a relocation names symbol {number} of {len(table)}", code="elf_dynamic"
        )
    return table[number - 1] if number else None
