"""A dynamic symbol table that is written anew: entries in the order that hash tables need, and
these tables.

System V gABI, chapter 5 (`DT_HASH`); `DT_GNU_HASH` as every dynamic linker reads it: undefined
symbols first, the others by bucket.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import DT_STRSZ, DT_STRTAB, STB_LOCAL, STT_TLS, STV_HIDDEN, Symbol
from mblob.packager.write.elf_patch import fitting

_BLOOM_SHIFT = 6
# version indices: nobody looks it up; any version, of whoever has the symbol
VER_LOCAL, VER_GLOBAL = 0, 1


@dataclass(eq=False)
class Entry:
    """One symbol of the new table.

    Attributes:
        name: as bytes: a name is what stands in the file.
        value, size, info, other, shndx: the fields of its entry.
        version: its index in the table of versions.
        joined: of the part that joins: its address moves with the part.
        name_at: where its name stands in the old strings; None if it is not there.
        index: its place in the new table.
    """

    name: bytes
    value: int
    size: int
    info: int
    other: int
    shndx: int
    version: int = VER_GLOBAL
    joined: bool = False
    name_at: int | None = None
    index: int = 0

    @property
    def is_local(self) -> bool:
        return self.info >> 4 == STB_LOCAL

    @property
    def is_found(self) -> bool:
        """True if lookups by name find the symbol."""
        return bool(self.shndx) and not self.is_local and self.other & 3 in (0, 3)

    def hide(self) -> None:
        """Keep it for those that refer to it by its number, and from all others. Both marks are
        looked at: the binding where relocations are done at once, the visibility where they are
        done late. Loaders tell dialects by names, whatever has them, so it has none any more."""
        self.name, self.name_at = b"", None
        self.info &= 15
        self.version = VER_LOCAL
        self.other = self.other & ~3 | STV_HIDDEN


def entry_of(elf: ElfFile, symbol: Symbol, *, joined: bool = False) -> Entry:
    """The entry of a symbol of `elf`."""
    at = elf.layout.sym.field_at(elf.data[symbol.offset :], "st_name")
    size = elf.dynamic[DT_STRSZ][0]
    start = elf.offset_of(elf.dynamic[DT_STRTAB][0], size, "dynamic strings")
    strings = elf.data[start : start + size]
    end = at
    while end < len(strings) and strings[end]:
        end += 1
    return Entry(
        bytes(strings[at:end]),
        symbol.st_value,
        symbol.st_size,
        symbol.st_info,
        symbol.st_other,
        symbol.st_shndx,
        joined=joined,
        name_at=None if joined else at,
    )


def in_order(entries: Sequence[Entry]) -> tuple[list[Entry], int, int]:
    """Number the entries; the order, the index of the first that is not local, and of the first
    that is found."""
    local = [e for e in entries if e.is_local]
    unfound = [e for e in entries if not e.is_local and not e.is_found]
    found = [e for e in entries if e.is_found]
    count = _buckets(len(found))
    found.sort(key=lambda e: _gnu_hash(e.name) % count)
    order = [*local, *unfound, *found]
    for i, e in enumerate(order, 1):
        e.index = i
    return order, 1 + len(local), 1 + len(local) + len(unfound)


def _buckets(count: int) -> int:
    return max(1, count // 2)


def _gnu_hash(name: bytes) -> int:
    h = 5381
    for c in name:
        h = (h * 33 + c) & 0xFFFFFFFF
    return h


def elf_hash(name: bytes) -> int:
    """The hash of a name in `DT_HASH` and in tables of versions."""
    h = 0
    for c in name:
        h = (h << 4) + c
        high = h & 0xF0000000
        h = (h ^ high >> 24) & 0x0FFFFFFF
    return h


def encode(
    elf: ElfFile, order: Sequence[Entry], names: Sequence[int], moved: int, thread: int
) -> bytes:
    """The table.

    Args:
        elf: whose class and byte order it has.
        names: where each name stands in the new strings.
        moved: what is added to addresses of the part.
        thread: what is added to its places in the memory of a thread.
    """
    pack = elf.layout.sym.packer("st_name", *Symbol._fields[1:-1])
    out = [bytes(elf.layout.sym.size)]
    with fitting(elf):
        for e, name in zip(order, names):
            by = thread if e.info & 15 == STT_TLS else moved
            value = e.value + (by if e.joined and e.shndx else 0)
            out.append(pack((name, value, e.size, e.info, e.other, e.shndx)))
    return b"".join(out)


def gnu_hash(elf: ElfFile, order: Sequence[Entry], first: int) -> bytes:
    """`DT_GNU_HASH` of a table whose entries from number `first` on are found."""
    found = order[first - 1 :]
    hashes = [_gnu_hash(e.name) for e in found]
    count, bits = _buckets(len(found)), elf.bits
    words = 1
    while words * bits < 12 * len(found):
        words *= 2
    bloom, buckets, chain = [0] * words, [0] * count, []
    for i, h in enumerate(hashes):
        bloom[h // bits % words] |= 1 << h % bits | 1 << (h >> _BLOOM_SHIFT) % bits
        buckets[h % count] = buckets[h % count] or first + i
        last = i + 1 == len(hashes) or hashes[i + 1] % count != h % count
        chain.append(h & ~1 | last)
    layout = elf.layout
    head = layout.gnu_hash.pack(count, first, words, _BLOOM_SHIFT)
    return head + layout.numbers("N", bloom) + layout.numbers("I", [*buckets, *chain])


def sysv_hash(elf: ElfFile, order: Sequence[Entry]) -> bytes:
    """`DT_HASH` of a table."""
    count = _buckets(len(order))
    buckets, chain = [0] * count, [0] * (len(order) + 1)
    for e in reversed(order):
        if e.is_found:
            slot = elf_hash(e.name) % count
            chain[e.index] = buckets[slot]
            buckets[slot] = e.index
    record = elf.sysv_hash
    numbers = elf.layout.numbers(record.fields["nchain"].code, [*buckets, *chain])
    return record.pack(count, len(chain)) + numbers
