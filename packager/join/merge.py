"""A small library that joins a finished one: the result has the code and data of both, and one
table of each kind.

    finished library | tables, read-only | dynamic section | small library

The finished one keeps its bytes, offsets and addresses. The small one is moved behind it as a
dynamic linker would move it, so that nothing in its code changes. Names are looked up when they are
joined: what one of them needs and the other has is bound by address.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import (
    DT_FINI,
    DT_FINI_ARRAY,
    DT_INIT,
    DT_INIT_ARRAY,
    PF_W,
    PT_LOAD,
    PT_TLS,
    STB_WEAK,
    STT_FUNC,
    STT_GNU_IFUNC,
    STT_NOTYPE,
    STT_OBJECT,
    STT_SECTION,
    Symbol,
)
from mblob.bytes.mapping import map_file
from mblob.errors import FormatError, ToolchainError
from mblob.packager.errors import BuildError
from mblob.packager.join import relocations
from mblob.packager.join.dynamic_symbols import Entry, entry_of
from mblob.packager.join.relocations import Relocation
from mblob.packager.join.section_headers import mapped

Names = Callable[[str], bool]


_CONTENTS = (STT_FUNC, STT_GNU_IFUNC, STT_OBJECT)
_OURS = "__mblob_"  # begins names of which the part's stand for the result


@dataclass(frozen=True)
class Bound:
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
class Joined:
    """What the result has, before the part has its addresses.

    Attributes:
        host, part: the two libraries.
        entries: of the new symbol table.
        early, late: relocations; the late ones are those of the host's calls.
        thread: where the part's memory of a thread starts in that of the result.
    """

    host: ElfFile
    part: ElfFile
    entries: list[Entry]
    early: list[Bound]
    late: list[Bound]
    thread: int


def graft(
    host_path: Path, part_path: Path, output: Path, hidden: Names, shared: Names, replaced: Collection[str] = (),
    unused: tuple[int, int] = (0, 0),
) -> None:  # fmt: skip
    """Write `output`: the library `host_path` with the library `part_path` joined to it.

    Args:
        hidden: names that nobody outside finds in the result.
        shared: variables that are one where both have one: that of the finished library, with the
            value that the other gives it.
        replaced: functions of the finished library that others find by other means in the result.
        unused: offset and bytes of what it has no use for any more: a hole in the result.

    Raises:
        BuildError: the two cannot be joined; the text says why.
        IncompatibleError: there are no addresses for the part.
        FormatError, OSError: a file is damaged, or cannot be read or written.
    """
    from mblob.packager.join.merged_file import write

    joined = join(_read(host_path), _read(part_path), hidden, shared, replaced)
    write(joined, host_path, output, unused)


def _read(path: Path) -> ElfFile:
    elf = ElfFile(map_file(path), str(path))
    elf.check_tables()
    return elf


def join(
    host: ElfFile, part: ElfFile, hidden: Names, shared: Names, replaced: Collection[str] = ()
) -> Joined:
    """Join symbols and relocations.

    Raises:
        As of `graft`.
    """
    types = relocations.types_of(host)
    _check_part(part)
    symbols = _Symbols(host, part, hidden, shared, replaced)
    early, late = relocations.read(host)
    ours, calls = relocations.read(part)
    ours += relocations.packed(part, types)
    # done at once in the result; descriptors of memory of threads are among them, too
    for r in calls:
        addend = None if r.addend is None else 0
        ours.append(replace(r, type=types.symbol, addend=addend) if r.type == types.call else r)
    made = [symbols.of_part(r, types) for r in ours]
    kept = [b for b in map(symbols.of_host, early) if b.entry not in symbols.left_out]
    calls_of_host = [symbols.of_host(r) for r in late]
    needed = {b.entry for b in calls_of_host}
    entries = [e for e in symbols.entries if e not in symbols.left_out or e in needed]
    return Joined(host, part, entries, kept + made, calls_of_host, _thread(host, part))


def _check_part(part: ElfFile) -> None:
    for tag, what in ((DT_INIT_ARRAY, "constructors"), (DT_FINI_ARRAY, "destructors"), (DT_INIT, "a start-up function"),
                      (DT_FINI, "a function for its end")):  # fmt: skip
        if tag in part.dynamic:
            raise BuildError(
                f"the adapters have {what}, which an option of the link brings; convert without it, or from objects"
            )


def _thread(host: ElfFile, part: ElfFile) -> int:
    """Where the part's variables of a thread go: behind those of the host."""
    ours = next((s for s in part.segments if s.p_type == PT_TLS), None)
    theirs = next((s for s in host.segments if s.p_type == PT_TLS), None)
    if ours is None or theirs is None:
        return 0
    if ours.p_filesz:
        raise BuildError(
            "the adapters have variables of threads with initial values; convert from objects"
        )
    # the block of a thread has its address, modulo the alignment
    end = theirs.p_vaddr + theirs.p_memsz
    return theirs.p_memsz + -end % max(ours.p_align, 1)


class _Symbols:
    """Both symbol tables as one."""

    def __init__(
        self, host: ElfFile, part: ElfFile, hidden: Names, shared: Names, replaced: Collection[str]
    ) -> None:
        self._host, self._part, self._hidden = host, part, hidden
        self._of_host = [entry_of(host, s) for s in host.dynsym]
        self._of_part = [entry_of(part, s, joined=True) for s in part.dynsym]
        numbers = mapped(host, part)
        for e in self._of_part:
            e.shndx = numbers.get(e.shndx, e.shndx)
        self.entries = list(self._of_host)
        self._versions()
        theirs = {s.name: (s, e) for s, e in zip(host.dynsym, self._of_host) if s.is_exported}
        wanted = {
            s.name: e for s, e in zip(host.dynsym, self._of_host) if not s.is_defined and s.binding
        }
        ours = {s.name for s in part.dynsym if s.is_exported and s.name.startswith(_OURS)}
        for e, s in zip(self._of_host, host.dynsym):
            if s.is_exported and (hidden(s.name) or s.name in ours or s.name in replaced):
                e.hide()
        # variables of the part by address, and those of the host in their place
        self._shared: dict[int, Symbol] = {}
        for i, s in enumerate(part.dynsym):
            self._of_part[i] = self._join(s, self._of_part[i], theirs, wanted, shared)
        # Optional functions of a runtime that is not that of the result: their places stay zero.
        self.left_out = {
            e for s, e in zip(host.dynsym, self._of_host)
            if not e.shndx and s.binding == STB_WEAK and hidden(s.name)
        }  # fmt: skip

    def _versions(self) -> None:
        for e, version in zip(self._of_host, self._host.versym[1:]):
            e.version = version

    def _join(
        self,
        s: Symbol,
        own: Entry,
        theirs: dict[str, tuple[Symbol, Entry]],
        wanted: dict[str, Entry],
        shared: Names,
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
            return wanted[s.name] if s.name in wanted else self._added(own)
        if found is not None and shared(s.name) and s.type in (STT_OBJECT, STT_NOTYPE):
            self._shared[s.st_value] = found[0]
            return self._by_address(found[1]) if found[1].is_local else found[1]
        if (
            found is not None
            and found[1].is_found
            and s.type in _CONTENTS
            and not self._hidden(s.name)
        ):
            raise BuildError(
                f"{self._host.name}: exports {s.name}, a name that the adapters need; convert the objects that it was"
                " linked from"
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

    def of_host(self, r: Relocation) -> Bound:
        """A relocation of the host."""
        return Bound(r, _numbered(self._of_host, r.symbol, self._host))

    def of_part(self, r: Relocation, types: relocations.Types) -> Bound:
        """A relocation of the part. What it stores into its own copy of a shared variable goes into
        the host's."""
        entry = _numbered(self._of_part, r.symbol, self._part)
        variable = self._shared.get(r.place)
        if variable is None:
            return Bound(r, entry, of_part=True)
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
        return Bound(place, entry)

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
        raise BuildError(
            f"{self._host.name}: {variable.name} lies in memory that cannot be written"
        )


def _numbered(table: list[Entry], number: int, elf: ElfFile) -> Entry | None:
    if number > len(table):
        raise FormatError(
            f"{elf.name}: a relocation names symbol {number} of {len(table)}", code="elf_dynamic"
        )
    return table[number - 1] if number else None
