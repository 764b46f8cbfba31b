"""What the dynamic linker follows in a library without asking: where damage would make it read, write or call anywhere.

For every machine, so without the types of relocations; the C runtime, before it opens a library, looks at those too.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from mblob.elf import ElfFile
from mblob.elf_facts import has_text_relocations
from mblob.elf_records import (
    DT_FINI,
    DT_FINI_ARRAY,
    DT_FINI_ARRAYSZ,
    DT_GNU_HASH,
    DT_HASH,
    DT_INIT,
    DT_INIT_ARRAY,
    DT_INIT_ARRAYSZ,
    DT_JMPREL,
    DT_PLTREL,
    DT_PLTRELSZ,
    DT_PREINIT_ARRAY,
    DT_PREINIT_ARRAYSZ,
    DT_REL,
    DT_RELA,
    DT_RELAENT,
    DT_RELASZ,
    DT_RELENT,
    DT_RELSZ,
    DT_STRTAB,
    DT_SYMTAB,
    DT_VERDEF,
    DT_VERDEFNUM,
    DT_VERNEED,
    DT_VERNEEDNUM,
    DT_VERSYM,
    EM_MIPS,
    EM_S390,
    PF_W,
    PF_X,
    PT_DYNAMIC,
    PT_LOAD,
    SHN_ABS,
    STT_FUNC,
    STT_OBJECT,
    Symbol,
)
from mblob.elf_versions import FIRST_NAMED, Versions
from mblob.errors import FormatError

# Machines whose functions have their code's address; those of others (ppc64, parisc) may have a descriptor's.
_CODE_ADDRESSES = ("x86_64", "i386", "aarch64", "arm", "riscv", "s390x", "loongarch", "m68k", "sparc", "sparc64", "ppc")
_ARRAYS = (
    (DT_INIT_ARRAY, DT_INIT_ARRAYSZ, "constructors"), (DT_PREINIT_ARRAY, DT_PREINIT_ARRAYSZ, "constructors"),
    (DT_FINI_ARRAY, DT_FINI_ARRAYSZ, "destructors"),
)  # fmt: skip
_TOGETHER = (
    (DT_INIT_ARRAY, DT_INIT_ARRAYSZ), (DT_FINI_ARRAY, DT_FINI_ARRAYSZ), (DT_JMPREL, DT_PLTRELSZ),
    (DT_JMPREL, DT_PLTREL), (DT_RELA, DT_RELASZ), (DT_REL, DT_RELSZ), (DT_VERNEED, DT_VERNEEDNUM),
    (DT_VERDEF, DT_VERDEFNUM),
)  # fmt: skip


def check_linking(elf: ElfFile) -> None:
    """Check the tables of a shared library that the dynamic linker reads.

    Raises:
        FormatError: "elf_dynamic", "elf_truncated".
    """
    segment = next((s for s in elf.segments if s.p_type == PT_DYNAMIC), None)
    if segment is None:
        raise _bad(elf, "there is none")
    if elf.offset_of(segment.p_vaddr, segment.p_filesz, "dynamic section") != segment.p_offset:
        raise _bad(elf, "its address and its place in the file disagree")
    for one, other in _TOGETHER:
        if (one in elf.dynamic) != (other in elf.dynamic):
            raise _bad(elf, f"of the tags {one:#x} and {other:#x} it has only one")
    _check_called(elf)
    _check_symbols(elf)
    if DT_GNU_HASH not in elf.dynamic and DT_HASH not in elf.dynamic and elf.e_machine != EM_MIPS:
        raise _bad(elf, "it has no hash table")
    for tag, reachable in ((DT_GNU_HASH, _by_gnu_hash), (DT_HASH, _by_hash)):
        if tag in elf.dynamic:
            found = reachable(elf, elf.dynamic[tag][0])
            for i, s in enumerate(elf.dynsym, 1):
                if s.is_exported and i not in found:
                    raise _bad(elf, f"the hash table does not lead to the symbol {s.name!r}")
    _check_versions(elf)
    _check_relocations(elf)


def _bad(elf: ElfFile, text: str) -> FormatError:
    return FormatError(f"{elf.name}: dynamic section: {text}", code="elf_dynamic")


def _is_loaded(elf: ElfFile, vaddr: int, size: int, flags: int = 0) -> bool:
    return any(
        s.p_type == PT_LOAD and s.p_flags & flags == flags and 0 <= vaddr - s.p_vaddr <= s.p_memsz
        and size <= s.p_memsz - (vaddr - s.p_vaddr)
        for s in elf.segments
    )  # fmt: skip


def _check_called(elf: ElfFile) -> None:
    code = PF_X if elf.machine in _CODE_ADDRESSES else 0
    for tag in (DT_INIT, DT_FINI):
        for at in elf.dynamic.get(tag, ()):
            if not _is_loaded(elf, at, 1, code):
                raise _bad(elf, f"a constructor at {at:#x} lies outside the code")
    for tag, size_tag, what in _ARRAYS:
        for at, size in zip(elf.dynamic.get(tag, ()), elf.dynamic.get(size_tag, ())):
            if size % (elf.bits // 8) or not _is_loaded(elf, at, size):
                raise _bad(elf, f"{size} bytes of {what} at {at:#x} lie outside the library")


def _check_symbols(elf: ElfFile) -> None:
    if DT_STRTAB not in elf.dynamic or DT_SYMTAB not in elf.dynamic:
        raise _bad(elf, "it names no strings or no symbols")
    for s in elf.dynsym:
        placed = s.is_defined and s.st_shndx != SHN_ABS and s.type in (STT_FUNC, STT_OBJECT)
        if placed and not _is_loaded(elf, s.st_value, 0):
            raise _bad(elf, f"the symbol {s.name!r} lies outside the library")


def _by_gnu_hash(elf: ElfFile, vaddr: int) -> set[int]:
    """Numbers of the symbols that a lookup by their name comes to, through the filter, their bucket and its chain."""
    word = elf.bits
    buckets, first, bloom, shift = elf.unpack_at("4I", vaddr, "hash table")
    filters = elf.unpack_at(f"{bloom}{'Q' if word == 64 else 'I'}", vaddr + 16, "the filter of a hash table")
    at = vaddr + 16 + bloom * word // 8
    starts = elf.unpack_at(f"{buckets}I", at, "the buckets of a hash table")
    symbols = elf.dynsym
    chains = elf.unpack_at(f"{max(0, len(symbols) + 1 - first)}I", at + 4 * buckets, "hash chains")
    found: set[int] = set()
    seen: set[int] = set()  # a chain that another bucket leads to as well is damage, and could be walked without end
    for bucket, start in enumerate(starts):
        for i in range(start, len(symbols) + 1) if start >= max(first, 1) else ():
            if i in seen:
                break
            seen.add(i)
            wanted = _gnu_hash(symbols[i - 1])
            passes = bloom and all(
                filters[wanted // word % bloom] >> bit & 1 for bit in (wanted % word, (wanted >> shift) % word)
            )
            if passes and wanted % buckets == bucket and (chains[i - first] ^ wanted) < 2:
                found.add(i)
            if chains[i - first] & 1:
                break
    return found


def _gnu_hash(symbol: Symbol) -> int:
    value = 5381
    for c in _name(symbol):
        value = (value * 33 + c) & 0xFFFFFFFF
    return value


def _by_hash(elf: ElfFile, vaddr: int) -> set[int]:
    """The same for the hash table of the standard."""
    word = "Q" if elf.e_machine == EM_S390 and elf.bits == 64 else "I"
    step = 8 if word == "Q" else 4
    count, length = elf.unpack_at(2 * word, vaddr, "hash table")
    elf.offset_of(vaddr, step * (2 + count + length), "hash table")
    buckets = elf.unpack_at(f"{count}{word}", vaddr + 2 * step, "the buckets of a hash table")
    chains = elf.unpack_at(f"{length}{word}", vaddr + (2 + count) * step, "hash chains")
    symbols = elf.dynsym
    found: set[int] = set()
    seen: set[int] = set()
    for bucket, i in enumerate(buckets):
        while i and i not in seen:
            if i >= min(length, len(symbols) + 1):
                raise _bad(elf, f"the hash table leads to symbol {i} of {len(symbols) + 1}")
            seen.add(i)
            if _sysv_hash(symbols[i - 1]) % count == bucket:
                found.add(i)
            i = chains[i]
    return found


def _sysv_hash(symbol: Symbol) -> int:
    value = 0
    for c in _name(symbol):
        value = ((value << 4) + c) & 0xFFFFFFFF
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high
    return value


def _name(symbol: Symbol) -> bytes:
    """As in the file, where what is no UTF-8 was read as escapes."""
    return symbol.name.encode() if "\\x" not in symbol.name else _unescaped(symbol.name)


def _unescaped(name: str) -> bytes:
    import re

    return re.sub(rb"\\x([89a-f][0-9a-f])", lambda m: bytes.fromhex(m[1].decode()), name.encode())


def _check_versions(elf: ElfFile) -> None:
    tables = Versions(elf)
    if (DT_VERNEED in elf.dynamic or DT_VERDEF in elf.dynamic) and DT_VERSYM not in elf.dynamic:
        raise _bad(elf, "it has versions, and no table of which symbol has which")
    known = tables.needed.keys() | tables.defined.keys()
    for i, s in enumerate(elf.dynsym):
        version, _ = tables.of(i)
        if version >= FIRST_NAMED and version not in known:
            raise _bad(elf, f"the symbol {s.name!r} has version {version}, which it does not name")


def _check_relocations(elf: ElfFile) -> None:
    text_may_change = has_text_relocations(elf)
    for at, symbol in chain.from_iterable(_relocations(elf)):
        if symbol > len(elf.dynsym):
            raise _bad(elf, f"a relocation names symbol {symbol} of {len(elf.dynsym) + 1}")
        if not _is_loaded(elf, at, 1, 0 if text_may_change else PF_W):
            raise _bad(elf, f"a relocation at {at:#x} lies outside the data")


def _relocations(elf: ElfFile) -> Iterator[Iterator[tuple[int, int]]]:
    """Address and symbol of what the dynamic linker changes, table by table."""
    tags = elf.dynamic
    calls = tags.get(DT_PLTREL, [0])[0]
    if calls not in (0, DT_REL, DT_RELA):
        raise _bad(elf, f"relocations of calls are of kind {calls:#x}")
    tables = ((DT_RELA, DT_RELASZ, DT_RELAENT, 3), (DT_REL, DT_RELSZ, DT_RELENT, 2),
              (DT_JMPREL, DT_PLTRELSZ, None, 3 if calls == DT_RELA else 2))  # fmt: skip
    for table, size_tag, entry_tag, words in tables:
        if table not in tags:
            continue
        size, entry = tags[size_tag][0], words * elf.bits // 8
        if size % entry or (entry_tag in tags and tags[entry_tag][0] != entry):
            raise _bad(elf, f"{size} bytes of relocations, each has {entry}")
        yield _records(elf, tags[table][0], size, words)


def _records(elf: ElfFile, vaddr: int, size: int, words: int) -> Iterator[tuple[int, int]]:
    wide = elf.bits == 64
    numbers = elf.unpack_at(f"{size // (elf.bits // 8)}{'Q' if wide else 'I'}", vaddr, "relocations")
    own_form = elf.e_machine == EM_MIPS and wide and elf.byte_order == "<"  # the symbol comes first
    for at, info in zip(numbers[::words], numbers[1::words]):
        if info or at:  # an empty one is a place that the linker left free
            yield at, info & 0xFFFFFFFF if own_form else info >> (32 if wide else 8)
