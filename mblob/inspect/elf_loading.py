"""What the dynamic linker follows in a library without asking: where damage would make it read,
write or call anywhere.

For every machine. The C runtime checks the same rules before it opens a library (csrc/src/elf/*.c):
what `verify` calls sound is what a loader takes. `mblob.binary.elf_symbols` and
`mblob.inspect.elf_relocations` have the larger tables.
"""

from __future__ import annotations

from mblob.binary.elf import ElfFile
from mblob.binary.elf_facts import is_program
from mblob.binary.elf_records import (
    DF_1_NOOPEN,
    DT_AUDIT,
    DT_AUXILIARY,
    DT_DEPAUDIT,
    DT_FILTER,
    DT_FINI,
    DT_FLAGS_1,
    DT_INIT,
    DT_JMPREL,
    DT_NEEDED,
    DT_PLTGOT,
    DT_PLTREL,
    DT_REL,
    DT_RELA,
    DT_RELACOUNT,
    DT_RELAENT,
    DT_RELASZ,
    DT_RELCOUNT,
    DT_RELENT,
    DT_RELR,
    DT_RELRENT,
    DT_RELRSZ,
    DT_RPATH,
    DT_RUNPATH,
    DT_SONAME,
    DT_STRTAB,
    DT_SYMENT,
    DT_SYMTAB,
    DT_TLSDESC_GOT,
    DT_TLSDESC_PLT,
    DT_VERDEF,
    DT_VERDEFNUM,
    DT_VERNEED,
    DT_VERNEEDNUM,
    DT_VERSYM,
    ET_DYN,
    ET_EXEC,
    FUNCTION_TABLES,
    HIDDEN,
    MAX_PAGE,
    NT_GNU_PROPERTY_TYPE_0,
    PF_W,
    PF_X,
    PT_DYNAMIC,
    PT_GNU_EH_FRAME,
    PT_GNU_PROPERTY,
    PT_GNU_RELRO,
    PT_LOAD,
    PT_NOTE,
    PT_PHDR,
    PT_TLS,
    SHT_NOBITS,
    SIZE_TAGS,
    Segment,
)
from mblob.binary.elf_symbols import KNOWN_MACHINES, Symbols, bad, is_loaded
from mblob.binary.elf_tables import NAME_LIMIT, PAGE
from mblob.errors import FormatError, IncompatibleError
from mblob.inspect.elf_relocations import check_relocations

# Machines whose functions have their code's address; those of others (ppc64, parisc) may have a
# descriptor's.
_CODE_ADDRESSES = (
    "x86_64",
    "i386",
    "aarch64",
    "arm",
    "riscv",
    "s390x",
    "loongarch",
    "m68k",
    "sparc",
    "sparc64",
    "ppc",
)
_TLS_LIMIT, _TLS_ALIGN_LIMIT = 1 << 28, 1 << 20  # bytes of one thread
_TAG_LIMIT = 1 << 12  # the largest libraries have some 40, and one for each library that they need
# The dynamic linker copies them onto the stack: libraries have some ten segments; bytes of all
# names and search paths.
_SEGMENT_LIMIT, _NAMES_LIMIT = 1 << 10, 1 << 18
# A tag that is there needs others, which the linker reads unasked.
_PAIRS = (
    *SIZE_TAGS.items(), *((size, tag) for tag, size in SIZE_TAGS.items()),
    (DT_JMPREL, DT_PLTREL), (DT_PLTREL, DT_JMPREL),
    (DT_RELA, DT_RELAENT), (DT_RELAENT, DT_RELASZ), (DT_REL, DT_RELENT), (DT_VERNEED, DT_VERNEEDNUM),
    (DT_VERNEED, DT_VERSYM), (DT_VERNEEDNUM, DT_VERNEED), (DT_VERDEF, DT_VERDEFNUM), (DT_VERDEF, DT_VERSYM),
    (DT_VERDEFNUM, DT_VERDEF), (DT_RELR, DT_RELRENT), (DT_SYMTAB, DT_SYMENT), (DT_RELACOUNT, DT_RELA),
    (DT_RELCOUNT, DT_REL),
)  # fmt: skip
_STRINGS = (DT_NEEDED, DT_SONAME, DT_RPATH, DT_RUNPATH, DT_AUDIT, DT_DEPAUDIT)
_ONCE = (PT_DYNAMIC, PT_TLS, PT_PHDR)


def check_linking(elf: ElfFile) -> None:
    """Check the headers and tables of a shared library that the dynamic linker reads.

    Raises:
        FormatError: "elf_header", "elf_dynamic", "elf_truncated".
        IncompatibleError: it is sound, and says that nobody may open it.
    """
    if elf.e_type == ET_EXEC or (elf.e_type == ET_DYN and is_program(elf)):
        raise _fail(elf, "an executable; link it with -shared")
    if elf.e_type != ET_DYN:
        raise _fail(
            elf, f"ELF type {elf.e_type}, a shared library has {ET_DYN}: link it with -shared"
        )
    if elf.e_version != 1:
        raise _fail(elf, f"version {elf.e_version} is not known")
    if any(elf.padding):  # glibc refuses the file
        raise _fail(elf, f"the padding of e_ident is {max(elf.padding)}, expected 0")
    if not 0 < elf.e_phnum <= _SEGMENT_LIMIT:
        raise _fail(
            elf, f"{elf.e_phnum} program headers, a shared library has 1 to {_SEGMENT_LIMIT}"
        )
    if not any(s.p_type == PT_LOAD for s in elf.segments):
        raise _fail(elf, "no segment is loaded")
    _check_shared_bytes(elf)
    for i, s in enumerate(elf.segments):
        if s.p_type in _ONCE and any(other.p_type == s.p_type for other in elf.segments[:i]):
            raise _fail(elf, f"segment {i} is there twice")
        wrong = _problem_of(elf, s)
        if wrong:
            raise _fail(elf, f"segment {i} {wrong}")
    _check_dynamic(elf)
    symbols = Symbols(elf)
    symbols.check()
    _check_tags(elf, symbols)
    symbols.highest_version = _check_versions(elf, symbols)
    check_relocations(elf, symbols)
    if elf.dynamic.get(DT_FLAGS_1, [0])[0] & DF_1_NOOPEN:
        text = "it says that dlopen may not open it (DF_1_NOOPEN); link it without -z nodlopen"
        raise IncompatibleError.about(elf.name, text)


def _fail(elf: ElfFile, text: str) -> FormatError:
    return FormatError.about(elf.name, text, code="elf_header")


# -- segments --------------------------------------------------------------------------------------


def _check_shared_bytes(elf: ElfFile) -> None:
    loads = sorted(
        (s.p_offset, s.p_filesz) for s in elf.segments if s.p_type == PT_LOAD and s.p_filesz
    )
    for (start, size), (other, _) in zip(loads, loads[1:]):
        if other < start + size:
            raise _fail(elf, f"two segments share bytes of the file at {other}")


def _is_mapped(elf: ElfFile, s: Segment, size: int) -> bool:
    """Whether memory at the segment's address holds its bytes of the file."""
    return any(
        t.p_type == PT_LOAD and 0 <= s.p_vaddr - t.p_vaddr <= t.p_filesz
        and size <= t.p_filesz - (s.p_vaddr - t.p_vaddr) and t.p_offset + s.p_vaddr - t.p_vaddr == s.p_offset
        for t in elf.segments
    )  # fmt: skip


def _problem_of(elf: ElfFile, s: Segment) -> str:
    """What is wrong with a segment that is a part of loaded ones, "" for nothing."""
    if s.p_type == PT_TLS:
        align = s.p_align
        if (
            not s.p_filesz <= s.p_memsz <= _TLS_LIMIT
            or not 0 < align <= _TLS_ALIGN_LIMIT
            or align & (align - 1)
        ):
            return "has impossible thread storage"
        # glibc takes address 0 for no data.
        return (
            ""
            if not s.p_filesz or (s.p_vaddr and _is_mapped(elf, s, s.p_filesz))
            else "lies outside the library"
        )
    # glibc 2.35 and later write there only if PT_DYNAMIC says that they may.
    if s.p_type == PT_DYNAMIC and not is_loaded(
        elf, s.p_vaddr, s.p_memsz, s.p_flags & PF_W if _is_known(elf) else 0
    ):
        return "is not writable, and dynamic linkers write into it; link without -z rodynamic"
    if s.p_type == PT_GNU_RELRO and not _is_in_data_pages(elf, s):
        return "makes other things read-only than data"
    if s.p_type == PT_PHDR:
        size = elf.e_phnum * elf.e_phentsize
        headers = s.p_offset == elf.e_phoff and _is_mapped(elf, s, size)
        return "" if headers else "(PT_PHDR) does not point to the program headers"
    if s.p_type in (PT_NOTE, PT_GNU_PROPERTY):
        if s.p_filesz != s.p_memsz or not _is_mapped(elf, s, s.p_memsz):
            return "has notes that are not loaded"
        return "" if _notes_fit(elf, s) else "has notes that end outside of it"
    if s.p_type == PT_GNU_EH_FRAME and not _is_mapped(elf, s, s.p_memsz):
        return "has no tables for exceptions"
    return ""


def _is_known(elf: ElfFile) -> bool:
    return (elf.machine, elf.bits) in KNOWN_MACHINES


def _is_in_data_pages(elf: ElfFile, relro: Segment) -> bool:
    """Whether what becomes read-only is in the pages of one writable segment. Linkers round its end
    up to a page, and mold counts bytes of the page in front. Zeros that are not in the file lie
    behind it, unless it is all of the segment."""
    for s in elf.segments:
        end = s.p_vaddr + s.p_memsz
        if (
            s.p_type != PT_LOAD
            or not s.p_flags & PF_W
            or not s.p_vaddr & -PAGE <= relro.p_vaddr < end
        ):
            continue
        largest = (
            PAGE
            if _is_known(elf) and elf.machine in ("x86_64", "i386", "s390x", "riscv")
            else MAX_PAGE
        )
        last, in_file = relro.p_vaddr + relro.p_memsz, s.p_vaddr + s.p_filesz
        later = [t.p_vaddr for t in elf.segments if t.p_type == PT_LOAD and t.p_vaddr >= end]
        if last & -largest <= max(end + -end % largest, min(later, default=0) & -largest):
            return last & -largest <= in_file + -in_file % largest or last >= end
    return False


def _notes_fit(elf: ElfFile, s: Segment) -> bool:
    """Of notes that are aligned to words, which are those that the linker reads."""
    head, align = elf.layout.nhdr, elf.layout.word.size
    at, end = s.p_offset, s.p_offset + s.p_memsz
    while s.p_align == align and end - at > head.size:
        namesz, descsz, kind = elf.unpack(head, at, "note")
        owner = at + head.size
        desc = owner + namesz
        desc += (s.p_offset - desc) % align
        if desc > end or descsz > end - desc:
            return False
        properties = (
            kind == NT_GNU_PROPERTY_TYPE_0 and bytes(elf.data[owner : owner + namesz]) == b"GNU\0"
        )
        if properties and not _properties_fit(elf, desc, desc + descsz):
            return False
        at = desc + descsz
        at += (s.p_offset - at) % align
    return True


def _properties_fit(elf: ElfFile, at: int, end: int) -> bool:
    """Properties are read one behind the other, by sizes that the linker holds against the note
    alone."""
    head, word = elf.layout.property, elf.layout.word.size
    while end - at >= head.size:
        _, size = elf.unpack(head, at, "property")
        step = head.size + size + -size % word
        if step > end - at:
            return False
        at += step
    return True


# -- the dynamic section ---------------------------------------------------------------------------


def _check_dynamic(elf: ElfFile) -> None:
    segment = next((s for s in elf.segments if s.p_type == PT_DYNAMIC), None)
    if segment is None:
        raise bad(elf, "there is none")
    if elf.offset_of(segment.p_vaddr, segment.p_filesz, "dynamic section") != segment.p_offset:
        raise bad(elf, "its address and its place in the file disagree")
    count = sum(map(len, elf.dynamic.values()))
    if count == segment.p_filesz // elf.layout.dyn.size:
        raise bad(elf, "it has no end")
    if count > _TAG_LIMIT:
        raise bad(elf, f"it has {count} tags, the limit is {_TAG_LIMIT}")


def _check_tags(elf: ElfFile, symbols: Symbols) -> None:
    tags = elf.dynamic
    for tag, needs in _PAIRS:
        if tag in tags and needs not in tags:
            raise bad(elf, f"it has the tag {tag:#x} without {needs:#x}, which that needs")
    for tag, values in tags.items():
        if tag != DT_NEEDED and len(values) > 1:
            raise bad(elf, f"the tag {tag:#x} is there twice")
        if tag in _STRINGS and any(v >= symbols.strings_size for v in values):
            raise bad(elf, f"the name of the tag {tag:#x} lies outside the strings")
    _check_ends(elf)
    _check_followed(elf)
    for tag, name, option in (
        (DT_AUXILIARY, "DT_AUXILIARY", "--auxiliary"),
        (DT_FILTER, "DT_FILTER", "--filter"),
    ):
        if tag in tags:  # for a library that dlopen opens, glibc ends the process
            raise bad(elf, f"it is a filter for another library ({name}); link it without {option}")
    _check_called(elf, symbols)
    _check_slots(elf, symbols)


def _check_ends(elf: ElfFile) -> None:
    """Where sound section headers are left, a table ends where a section does, or where the
    relocations of calls start; a size that became smaller hides relocations. One table may have
    several sections."""
    tags = elf.dynamic
    if not _is_known(elf) or not elf.e_shoff or elf.e_shentsize != elf.layout.shdr.size:
        return
    heads = elf.section_headers(elf.e_shnum, "section headers")
    loaded = [(h.sh_addr, h.sh_offset, h.sh_size) for h in heads if h.sh_type != SHT_NOBITS]
    for tag, size_tag in SIZE_TAGS.items():
        vaddr, size = tags.get(tag, [0])[0], tags.get(size_tag, [0])[0]
        if (
            tag not in tags
            or not elf.is_in_file(vaddr, size)
            or (size and [vaddr + size] == tags.get(DT_JMPREL))
        ):
            continue
        start = elf.offset_of(vaddr, size, "a table")
        for place, first, length in loaded:
            missing = first + length - start - size
            if (
                missing > 0
                and (start <= first < start + size or first == start)
                and elf.maps(place, length, first)
            ):
                text = f"has {size} bytes and ends inside a section, {missing} bytes before its end"
                raise bad(elf, f"the table of the tag {tag:#x} {text}")


def _check_followed(elf: ElfFile) -> None:
    """The names of libraries, and the folders, which the dynamic linker copies onto the stack with
    each "$ORIGIN" and the like written out."""
    used, strings = 0, elf.offset_of(elf.dynamic[DT_STRTAB][0], 1, "dynamic strings")
    for tag in _STRINGS:
        for at in elf.dynamic.get(tag, ()):
            text, end, _ = bytes(elf.data[strings + at : strings + at + NAME_LIMIT]).partition(
                b"\0"
            )
            if not end:
                raise bad(elf, f"the name of the tag {tag:#x} has no end within {NAME_LIMIT} bytes")
            used += len(text) + 256 * text.count(b"$")
    if used > _NAMES_LIMIT:
        raise bad(elf, f"its names and search paths have more than {_NAMES_LIMIT} bytes")


def _check_called(elf: ElfFile, symbols: Symbols) -> None:
    code = PF_X if elf.machine in _CODE_ADDRESSES else 0
    for tag in (DT_INIT, DT_FINI):
        for at in elf.dynamic.get(tag, ()):
            if not symbols.is_code(at, code):
                raise bad(elf, f"a constructor at {at:#x} lies outside the code")
    for tag, size_tag, what in FUNCTION_TABLES:
        for at in elf.dynamic.get(tag, ()):
            size = elf.dynamic.get(size_tag, [0])[0]
            if size % elf.layout.word.size or not is_loaded(elf, at, size):
                raise bad(elf, f"{size} bytes of {what} at {at:#x} lie outside the library")


def _check_slots(elf: ElfFile, symbols: Symbols) -> None:
    tags, word = elf.dynamic, elf.layout.word.size
    for at in tags.get(DT_PLTGOT, ()) if _is_known(elf) else ():
        if at % word or not is_loaded(elf, at, 3 * word, PF_W):
            raise bad(elf, f"the table of call slots at {at:#x} lies outside the data")
    if DT_JMPREL in tags and DT_PLTGOT not in tags and _is_known(elf):
        raise bad(
            elf, "it has relocations of calls (DT_JMPREL), and no table of their slots (DT_PLTGOT)"
        )
    for at in tags.get(DT_TLSDESC_GOT, ()):
        if not is_loaded(elf, at, word, PF_W):
            raise bad(elf, f"the slot of thread descriptors at {at:#x} lies outside the data")
    for at in tags.get(DT_TLSDESC_PLT, ()):
        if not symbols.is_code(at):
            raise bad(elf, f"the code of thread descriptors at {at:#x} lies outside the code")
    for at in tags.get(DT_RELR, ()):
        size = tags[DT_RELRSZ][0]
        if tags[DT_RELRENT][0] != word or size % word:
            raise bad(elf, f"{size} bytes of packed relocations, each has {word}")
        elf.offset_of(at, size, "packed relocations")


# -- symbol versions -------------------------------------------------------------------------------


def _check_versions(elf: ElfFile, symbols: Symbols) -> int:
    """The highest version index that a table names."""
    tags = elf.dynamic
    highest = symbols.versions.check(symbols.strings_size)
    if DT_VERSYM not in tags:
        return highest
    if DT_VERNEED not in tags and DT_VERDEF not in tags:
        raise bad(elf, "symbols have versions, and no table names these")
    size = symbols.count * elf.layout.versym.size
    at = elf.offset_of(tags[DT_VERSYM][0], size, "symbol versions")
    for i, version in enumerate(elf.numbers("H", at, symbols.count)):
        if version & ~HIDDEN > highest:
            name = elf.dynsym[i - 1].name if i else "number 0"
            raise bad(
                elf, f"the symbol {name!r} has version {version & ~HIDDEN}, which it does not name"
            )
    return highest
