"""The file of two libraries that `mblob.packager.join.merge` made one.

    finished library | tables, read-only | dynamic section | part

The finished library keeps its bytes, offsets and addresses. The part is moved behind it as a dynamic
linker would move it, so that nothing in its code changes. In the file all are close together; in memory each has
pages of its own, so addresses grow by a page where offsets do not.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import (
    DF_1_NODELETE,
    DT_FLAGS_1,
    DT_GNU_HASH,
    DT_HASH,
    DT_JMPREL,
    DT_NEEDED,
    DT_NULL,
    DT_REL,
    DT_RELA,
    DT_RELACOUNT,
    DT_RELAENT,
    DT_RELCOUNT,
    DT_RELENT,
    DT_STRSZ,
    DT_STRTAB,
    DT_SYMTAB,
    DT_VERDEF,
    DT_VERNEED,
    DT_VERNEEDNUM,
    DT_VERSYM,
    MAX_PAGE,
    NT_GNU_BUILD_ID,
    NT_GNU_PROPERTY_TYPE_0,
    PAGES,
    PF_R,
    PF_W,
    PF_X,
    PN_XNUM,
    PT_DYNAMIC,
    PT_GNU_EH_FRAME,
    PT_GNU_PROPERTY,
    PT_LOAD,
    PT_NOTE,
    PT_PHDR,
    PT_TLS,
    SIZE_TAGS,
)
from mblob.binary.elf_tables import PAGE
from mblob.binary.elf_versions import Versions
from mblob.errors import IncompatibleError
from mblob.format import note
from mblob.packager.errors import CannotJoinError
from mblob.packager.join import (
    android_relocations,
    dynamic_symbols,
    relocations,
    symbol_versions,
    unwind_table,
)
from mblob.packager.join.blob_references import word_of
from mblob.packager.join.c_libraries import is_linker
from mblob.packager.join.dynamic_symbols import Entry
from mblob.packager.join.merge import MergedLayout, MergedRelocation, MergeInput, Name
from mblob.packager.join.part_front import front_of
from mblob.packager.join.program_header_room import end_of_head, in_the_way
from mblob.packager.join.relocations import Relocation
from mblob.packager.join.section_headers import in_order_of_headers, put_sections
from mblob.packager.join.unused_segments import notes_in, unused_segments
from mblob.packager.write.elf_patch import Patch, fitting, new_library, segment_row

STEP = 256 << 10  # bytes of a copy; what is zero stays a hole
_ZEROS = bytes(STEP)
_ALIGN = 64  # bytes, of which tables and the dynamic section are at a multiple


def write(
    merged: MergeInput,
    host_path: Path,
    output: Path,
    unused: tuple[int, int] = (0, 0),
    *,
    keeps_blob: bool = False,
) -> None:
    """Write the file.

    Args:
        unused: offset and bytes of a blob that the host has no use for any more: a large one becomes zero, and the
            segment of one that has its own goes.
        keeps_blob: the blob is that of the host.

    Raises:
        CannotJoinError: there is no room for more program headers, or code of the part cannot be moved.
        IncompatibleError: there are no addresses for the part.
        FormatError, OSError: a file is damaged, or cannot be read or written.
    """
    host, part = merged.host, merged.part
    merged, dead = _without_blob(merged, unused)
    tables, dynamic, places = _layout(merged, dead)
    with new_library(output, host_path) as fd:
        start, size = unused if unused[1] >= MAX_PAGE else (0, 0)
        _copy(fd, host.data[:start], 0)
        _copy(fd, host.data[start + size :], start + size)
        for name, data in tables.items():
            os.pwrite(fd, data, places.offset + places.tables[name][0])
        os.pwrite(fd, dynamic, places.dynamic)
        end = max(s.p_offset + s.p_filesz for s in part.segments if s.p_type == PT_LOAD)
        first, (low, high) = places.front.end, places.front.notes
        _copy(fd, part.data[first:end], places.part + first)
        os.pwrite(fd, part.data[low:high], places.of_part(low))
        os.ftruncate(fd, places.part + end)
        patch = Patch(fd, host)
        _move_words(patch, merged, places)
        patch.program_headers(_program_headers(merged, places), places.headers)
        put_sections(patch, merged, places, places.part + end)
        new = bytes(part.data[-4096:]) + dynamic + b"".join(tables.values())
        _edit_notes(patch, merged, places, new, keeps_blob=keeps_blob)


def _without_blob(
    merged: MergeInput, unused: tuple[int, int]
) -> tuple[MergeInput, tuple[int, int]]:
    """The contents without the symbols of a blob that has no use and a segment of its own; offset and bytes of that
    segment, zeros where there is none that can go."""
    alone = next((s for s in merged.host.segments if (s.p_offset, s.p_filesz) == unused), None)
    if not any(unused) or alone is None:
        return merged, (0, 0)
    used = {b.entry for b in (*merged.early, *merged.late)}
    dead = {
        e
        for e in merged.entries
        if not e.joined and e.shndx and 0 <= e.value - alone.p_vaddr < alone.p_memsz
    }
    if not dead.isdisjoint(used):
        return merged, (0, 0)
    return replace(merged, entries=[e for e in merged.entries if e not in dead]), unused


def _copy(fd: int, data: memoryview, offset: int) -> None:
    """Write `data` at an offset of a file that has nothing there."""
    for at in range(0, len(data), STEP):
        piece = bytes(data[at : at + STEP])
        if piece != _ZEROS[: len(piece)]:
            os.pwrite(fd, piece, offset + at)


def _address(offset: int, end: int, align: int) -> int:
    """The first address on a page behind `end` that belongs to an offset in the file."""
    return end + -end % align + offset % align


def _layout(
    merged: MergeInput, unused_blob: tuple[int, int]
) -> tuple[dict[Name, bytes], bytes, MergedLayout]:
    """All tables, made twice: for their sizes, then with the addresses that follow from these."""
    host, part = merged.host, merged.part
    align = max(
        PAGES.get(host.e_machine, MAX_PAGE),
        *(s.p_align for s in part.segments if s.p_type == PT_LOAD),
    )
    top = max(s.p_vaddr + s.p_memsz for s in host.segments if s.p_type == PT_LOAD)
    offset = len(host.data) + -len(host.data) % _ALIGN
    vaddr = _address(offset, top, align)
    order, first_global, first_found = dynamic_symbols.in_order(merged.entries)
    strings = _Strings(merged, order)
    # Addresses of the part are not yet the right ones, but addresses.
    places = MergedLayout(
        offset=offset,
        shift=vaddr - offset,
        headers=offset,
        headers_size=0,
        head=0,
        tables={},
        tables_size=0,
        dynamic=0,
        dynamic_size=0,
        dynamic_address=vaddr,
        part=offset,
        moved=vaddr,
        first_global=first_global,
        unused=frozenset(),
        front=front_of(part),
    )
    made = _tables(merged, order, first_found, strings, places)
    unused = unused_segments(host, made, unused_blob)
    size = _headers_size(merged, unused)
    head = end_of_head(host, size)
    front = in_the_way(host, size, head)
    # Tables are written anew.
    notes: dict[Name, bytes] = {
        p.start: bytes(host.data[p.start : p.end]) for p in front or () if p.is_note
    }
    notes.update(notes_in(host, unused))
    tables = in_order_of_headers(host, {**notes, **made})
    starts: dict[Name, tuple[int, int]] = {}
    at = 0 if front is not None else size
    for name, data in tables.items():
        at += -at % 8
        starts[name] = (at, len(data))
        at += len(data)
    behind = offset + at
    places = replace(
        places,
        headers=offset if front is None else host.e_phoff,
        headers_size=size,
        head=0 if front is None else head,
        tables=starts,
        tables_size=at,
        dynamic=behind + -behind % _ALIGN,
        unused=unused,
    )
    dynamic = _dynamic(merged, places, strings)
    behind = places.dynamic + len(dynamic)
    end = places.offset + places.shift + places.tables_size
    address = _address(places.dynamic, end, align)
    places = replace(places, dynamic_size=len(dynamic), dynamic_address=address)
    behind, own = places.dynamic + len(dynamic), places.front.end
    unit = max(PAGE, *(s.sh_addralign for s in part.sections))  # code has the pages of addresses
    start = max(behind - own, 0)
    start += -start % unit
    moved = _address(start + own, address + len(dynamic), align) - own
    places = replace(places, part=start, moved=moved)
    tables.update(_tables(merged, order, first_found, strings, places))
    last = places.moved + max(s.p_vaddr + s.p_memsz for s in part.segments if s.p_type == PT_LOAD)
    if last >= (1 << 47 if host.bits == 64 else 0xFFFF0000):
        raise IncompatibleError(
            f"{host.name}: its last segment ends at {top:#x}, there are no addresses behind it"
        )
    return tables, dynamic, places


# -- tables ----------------------------------------------------------------------------------------


class _Strings:
    """The host's strings with what is new behind them.

    Attributes:
        data: all of them.
        names: where the name of each symbol stands.
        needed: libraries that the part needs and the host does not, and where their names stand.
        versions: the table of needed versions.
    """

    def __init__(self, merged: MergeInput, order: Sequence[Entry]) -> None:
        host = merged.host
        size = host.dynamic[DT_STRSZ][0]
        start = host.offset_of(host.dynamic[DT_STRTAB][0], size, "dynamic strings")
        self.data = bytearray(host.data[start : start + size])
        self._new: dict[bytes, int] = {}
        self.names = [self._place(e.name) if e.name_at is None else e.name_at for e in order]
        self.needed = [
            self._place(name.encode())
            for name in merged.part.needed
            if name not in host.needed and not is_linker(name)
        ]
        self.versions = symbol_versions.encode(host, merged.versions, self._place)

    def _place(self, name: bytes) -> int:
        if name not in self._new:
            self._new[name] = len(self.data)
            self.data += name + b"\0"
        return self._new[name]


def _tables(
    merged: MergeInput,
    order: list[Entry],
    first_found: int,
    strings: _Strings,
    places: MergedLayout,
) -> dict[Name, bytes]:
    """The new tables by name."""
    host, moved = merged.host, places.moved
    symbols = dynamic_symbols.encode(host, order, strings.names, moved, merged.thread)
    tables: dict[Name, bytes] = {"dynsym": symbols}
    if DT_GNU_HASH in host.dynamic or DT_HASH not in host.dynamic:
        tables["gnu_hash"] = dynamic_symbols.gnu_hash(host, order, first_found)
    if DT_HASH in host.dynamic:
        tables["hash"] = dynamic_symbols.sysv_hash(host, order)
    if strings.versions:
        tables["verneed"] = strings.versions
    if DT_VERDEF in host.dynamic:
        size = Versions(host).size_of_defined()
        start = host.offset_of(host.dynamic[DT_VERDEF][0], size, "version definitions")
        tables["verdef"] = bytes(host.data[start : start + size])
    if strings.versions or DT_VERSYM in host.dynamic:
        with fitting(host):
            tables["versym"] = host.layout.numbers("H", [0, *(e.version for e in order)])
    types = relocations.types_of(host)
    early = [_final(b, types, moved, merged.thread) for b in merged.early]
    tables["rel"] = relocations.encode(host, early)
    if merged.late:
        tables["jmprel"] = relocations.encode(
            host, [_final(b, types, moved, 0) for b in merged.late]
        )
    tables["dynstr"] = bytes(strings.data)
    address = (
        places.address("unwind") if "unwind" in places.tables else places.offset + places.shift
    )
    unwind = unwind_table.joined(host, merged.part, address, moved)
    return {**tables, "unwind": unwind} if unwind else tables


def _final(b: MergedRelocation, types: relocations.Types, moved: int, thread: int) -> Relocation:
    """A relocation as it stands in the table."""
    r = replace(b.record, symbol=b.entry.index if b.entry is not None else 0)
    if not b.of_part:
        return r
    r = replace(r, place=r.place + moved)
    if b.entry is None and r.addend is not None:
        if r.type == types.relative:
            return replace(r, addend=r.addend + moved)
        if r.type in (types.descriptor, types.fixed, types.offset):
            return replace(r, addend=r.addend + thread)
    if b.entry is None and r.type not in (types.relative, types.module):
        raise CannotJoinError(
            f"the new code has relocations of type {r.type}, which cannot be moved"
        )
    return r


def _move_words(patch: Patch, merged: MergeInput, places: MergedLayout) -> None:
    """Addresses in the part's own words, where the machine has them there; places in the memory of
    a thread behind the number of the library. What an earlier relocation added to is zero."""
    host, part = merged.host, merged.part
    types = relocations.types_of(part)
    record = part.layout.word
    mask = (1 << part.bits) - 1

    def add(vaddr: int, amount: int) -> None:
        at = part.offset_of(vaddr, record.size, "a relocated word")
        patch.put(record, places.part + at, word=(part.word_at(vaddr) + amount) & mask)

    for place in merged.bound_again:
        if word_of(host, place):
            patch.put(record, host.offset_of(place, record.size, "a relocated word"), word=0)
    for b in merged.early:
        if not b.of_part or b.entry is not None:
            continue
        if b.record.type == types.relative and b.record.addend is None:
            add(b.record.place, places.moved)
        elif b.record.type == types.module and merged.thread:
            add(b.record.place + record.size, merged.thread)


# -- dynamic section -------------------------------------------------------------------------------

# Counts of relocations that come first, which need not be told; packed ones, which are among the
# others now.
_LEFT_OUT = (DT_RELACOUNT, DT_RELCOUNT, *android_relocations.TAGS)


def _dynamic(merged: MergeInput, places: MergedLayout, strings: _Strings) -> bytes:
    """The host's entries with the new tables, and what the part needs behind what the host
    needs."""
    host, layout = merged.host, merged.host.layout
    table, entry, record = (
        (DT_RELA, DT_RELAENT, layout.rela) if host.bits == 64 else (DT_REL, DT_RELENT, layout.rel)
    )
    new = {
        DT_SYMTAB: places.address("dynsym"),
        DT_STRTAB: places.address("dynstr"),
        DT_STRSZ: places.tables["dynstr"][1],
        table: places.address("rel"),
        SIZE_TAGS[table]: places.tables["rel"][1],
        entry: record.size,
    }
    for tag, name in (
        (DT_GNU_HASH, "gnu_hash"),
        (DT_HASH, "hash"),
        (DT_VERSYM, "versym"),
        (DT_VERNEED, "verneed"),
        (DT_VERDEF, "verdef"),
        (DT_JMPREL, "jmprel"),
    ):
        if name in places.tables:
            new[tag] = places.address(name)
    if kept := _flags(merged.part) & DF_1_NODELETE:
        new[DT_FLAGS_1] = _flags(host) | kept
    if strings.versions:
        new[DT_VERNEEDNUM] = len(symbol_versions.files_of(merged.versions))
    rows = [
        (tag, value)
        for tag, values in host.dynamic.items()
        for value in values
        if tag not in _LEFT_OUT
    ]
    rows = [(tag, new.pop(tag, value)) for tag, value in rows]
    missing = [(DT_NEEDED, place) for place in strings.needed]
    needed = [row for row in rows if row[0] == DT_NEEDED]
    others = [row for row in rows if row[0] != DT_NEEDED]
    # spare ones are for tools that edit
    rows = [*needed, *missing, *others, *new.items(), *[(DT_NULL, 0)] * 4]
    with fitting(host):
        return b"".join(layout.dyn.pack(*row) for row in rows)


def _flags(elf: ElfFile) -> int:
    return next(iter(elf.dynamic.get(DT_FLAGS_1, [0])))


# -- headers ---------------------------------------------------------------------------------------


def _headers_size(merged: MergeInput, unused: Collection[int]) -> int:
    own = (PT_LOAD, PT_NOTE) if merged.host.first_segment(PT_TLS) else (PT_LOAD, PT_NOTE, PT_TLS)
    more = sum(s.p_type in own for s in merged.part.segments) + 2
    count = len(merged.host.segments) - len(unused) + more
    if count >= PN_XNUM:
        raise CannotJoinError(
            f"{merged.host.name}: {len(merged.host.segments)} program headers, there is no room for more"
        )
    return count * merged.host.e_phentsize


def _program_headers(merged: MergeInput, places: MergedLayout) -> list[bytes]:
    host, part = merged.host, merged.part
    start, shift = places.offset, places.shift
    has_code = any(s.p_flags & PF_X for s in part.segments)
    same = not has_code or _properties(host) == _properties(part)
    before: list[bytes] = []
    loads: list[bytes] = []
    rest: list[bytes] = []
    own_thread = part.first_segment(PT_TLS)
    for i, s in enumerate(host.segments):
        raw = bytes(host.data[host.e_phoff + i * host.e_phentsize :][: host.e_phentsize])
        if i in places.unused:
            continue
        if s.p_type == PT_PHDR:
            size = places.headers_size
            vaddr = s.p_vaddr if places.headers == s.p_offset else start + shift
            before.append(
                segment_row(host, PT_PHDR, s.p_flags, places.headers, vaddr, size, s.p_align)
            )
        elif s.p_type == PT_LOAD and not loads and places.head > s.p_filesz:
            at, vaddr, size = s.p_offset, s.p_vaddr, places.head
            loads.append(segment_row(host, PT_LOAD, s.p_flags, at, vaddr, size, s.p_align))
        elif s.p_type == PT_LOAD:
            loads.append(raw)
        elif s.p_type == PT_GNU_EH_FRAME and "unwind" in places.tables:
            start_of, size = places.tables["unwind"]
            at = places.offset + start_of
            rest.append(segment_row(host, s.p_type, s.p_flags, at, at + shift, size, s.p_align))
        elif s.p_type == PT_DYNAMIC:
            size, at, vaddr = places.dynamic_size, places.dynamic, places.dynamic_address
            rest.append(segment_row(host, PT_DYNAMIC, s.p_flags, at, vaddr, size, s.p_align))
        elif s.p_type == PT_TLS and own_thread is not None:
            align, size = max(s.p_align, own_thread.p_align), merged.thread + own_thread.p_memsz
            at, vaddr = s.p_offset, s.p_vaddr
            rest.append(
                segment_row(host, PT_TLS, s.p_flags, at, vaddr, s.p_filesz, align, memory=size)
            )
            own_thread = None
        elif (
            s.p_type == PT_GNU_PROPERTY and not same
        ):  # code without a protection takes it from all
            continue
        elif (
            s.p_type in (PT_NOTE, PT_GNU_PROPERTY)
            and (at := places.of_note(s.p_offset)) != s.p_offset
        ):
            rest.append(
                segment_row(host, s.p_type, s.p_flags, at, at + shift, s.p_filesz, s.p_align)
            )
        else:
            rest.append(raw)
    for offset, vaddr, size, flags in (
        (start, start + shift, places.tables_size, PF_R),
        (places.dynamic, places.dynamic_address, places.dynamic_size, PF_R | PF_W),
    ):
        align = PAGES.get(host.e_machine, MAX_PAGE)
        loads.append(segment_row(host, PT_LOAD, flags, offset, vaddr, size, align))
    for s in part.segments:
        if s.p_type in (PT_LOAD, PT_NOTE) or s is own_thread:
            cut = max(places.front.end - s.p_offset, 0) if s.p_type == PT_LOAD else 0
            at = places.of_part(s.p_offset) + cut
            row = segment_row(
                host,
                s.p_type,
                s.p_flags,
                at,
                s.p_vaddr + at - s.p_offset - places.part + places.moved,
                s.p_filesz - cut,
                s.p_align,
                memory=s.p_memsz - cut,
            )
            (loads if s.p_type == PT_LOAD else rest).append(row)
    return [*before, *loads, *rest]


def _properties(elf: ElfFile) -> list[bytes]:
    return [
        desc
        for owner, kind, desc, _ in elf.notes()
        if owner == b"GNU" and kind == NT_GNU_PROPERTY_TYPE_0
    ]


def _edit_notes(
    patch: Patch, merged: MergeInput, places: MergedLayout, new: bytes, *, keeps_blob: bool
) -> None:
    """Drop the notes in which the host announces its blob and table, which lack those that came
    with the part; those of the part announce a blob that stays. Change the build-id, which is that of another
    library."""
    host, part, record = merged.host, merged.part, merged.host.layout.nhdr
    for _, at in note.ours(host.notes()):
        head = places.of_note(at) - len(note.NAME) - -len(note.NAME) % 4 - record.size
        patch.put(record, head, n_type=0)
    if keeps_blob:
        of_blob = note.announced(host).flags & note.HAS_INDEX
        of_blob |= note.OF_TVM if note.is_of_tvm(host) else 0
        announced = note.descriptor(host.byte_order)
        for desc, at in note.ours(part.notes()):
            flags = announced.field_at(desc, "flags") | of_blob
            patch.put(announced, places.of_part(at), flags=flags)
    for owner, kind, desc, at in host.notes():
        if owner == b"GNU" and kind == NT_GNU_BUILD_ID and desc:
            digest = hashlib.sha512(desc + new).digest()
            patch.raw(places.of_note(at), (digest * (len(desc) // 64 + 1))[: len(desc)])
