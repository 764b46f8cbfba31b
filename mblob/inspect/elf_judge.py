"""The check that a dynamic linker can load an ELF file. libmblob judges, by the rules of the
machine that it runs on; of files for another machine only the structure is read."""

from __future__ import annotations

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import (
    DT_ANDROID_REL,
    DT_ANDROID_RELA,
    DT_ANDROID_RELR,
    DT_DEBUG,
    ET_DYN,
    ET_EXEC,
    ET_REL,
    PT_LOAD,
    PT_TLS,
)
from mblob.binary.image import Image
from mblob.binary.relocation_types import TABLE
from mblob.errors import FormatError, IncompatibleError
from mblob.native.runtime import ffi, last_error, lib, text

NOT_JUDGED = "not_judged"  # code of the remark about what was not judged
_STATIC_ROOM = 1024  # what mblob's code has, 512, and as much of others
_ANDROID = (DT_ANDROID_REL, DT_ANDROID_RELA, DT_ANDROID_RELR)


def check_loading(image: Image) -> tuple[str, str] | None:
    """Check what a dynamic linker follows in a file without asking: headers, symbols, hash tables,
    versions, relocations. No code of it runs.

    Returns:
        A remark, as code and text, about what was not judged; None if all was, or if no dynamic
        linker opens such files.

    Raises:
        FormatError: "elf_header", "elf_dynamic", "elf_truncated".
        IncompatibleError: the file is sound, and the dynamic linker refuses it.
    """
    if not isinstance(image, ElfFile) or not _is_loaded(image):
        return None
    android = any(tag in image.dynamic for tag in _ANDROID)
    try:
        if not android and check_elf(image.data):
            return None
        _check_structure(image)
    except (FormatError, IncompatibleError) as error:
        if not error.culprit:
            error.prefix(image.name)
        raise
    target = "Android" if android else f"{image.machine}, {image.bits}-bit, {image.endian} endian"
    text = (
        f"it is for {target}: its headers are valid and its tables lie in the file; whether its dynamic linker takes"
        " what is in them was not judged"
    )
    return NOT_JUDGED, text


def _is_loaded(elf: ElfFile) -> bool:
    """True if the file is one that a dynamic linker opens: no object, which has no program headers,
    and no program. A program has an entry point, as libraries may, and what linkers write into
    programs alone, DT_DEBUG, or no dynamic section."""
    if elf.e_type == ET_REL and not elf.e_phnum:
        return False
    program = elf.e_type == ET_EXEC or elf.is_program
    return not (program and elf.e_entry != 0 and (not elf.dynamic or DT_DEBUG in elf.dynamic))


def _check_structure(elf: ElfFile) -> None:
    """Check that all tables lie in the file, and that what names others leads into them."""
    if elf.e_type == ET_EXEC or elf.is_program:
        raise _wrong("an executable; link it with -shared")
    if elf.e_type != ET_DYN:
        raise _wrong(f"ELF type {elf.e_type}, a shared library has {ET_DYN}: link it with -shared")
    if not any(s.p_type == PT_LOAD for s in elf.segments):
        raise _wrong("no segment is loaded")
    elf.check_segments()
    if not elf.dynamic:
        raise FormatError("dynamic section: there is none", code="elf_dynamic")
    _ = elf.dynsym, elf.versym, elf.needed
    for at, size, _record in elf.relocation_tables():
        elf.offset_of(at, size, "relocations")


def _wrong(text: str) -> FormatError:
    return FormatError(text, code="elf_header")


def check_elf(data: memoryview) -> bool:
    """Check the headers and tables of an ELF file that dynamic linkers follow. No code of it runs.

    Args:
        data: the whole file.

    Returns:
        False if it was not judged, because it is for another class, byte order or machine.

    Raises:
        FormatError: "not_elf", "elf_header", "elf_dynamic", "elf_truncated".
        IncompatibleError: it is sound, and the dynamic linker of this machine refuses it.
    """
    if not lib.mblob_elf_check(ffi.from_buffer(data), len(data)):
        return True
    if text(lib.mblob_last_error_info().code) == "elf_machine":
        return False
    raise last_error()


def static_tls(elf: ElfFile) -> str:
    """The remark on variables of threads whose places code takes from the dynamic linker, as
    `-ftls-model=initial-exec` does, if glibc may have no room for them; else ""."""
    part, known = elf.first_segment(PT_TLS), TABLE.get((elf.machine, elf.bits))
    if part is None or part.p_memsz <= _STATIC_ROOM or known is None:
        return ""
    places = known.types.get("TLS_PLACE", {}).values()
    for table, size, record in elf.relocation_tables():
        at = elf.offset_of(table, size, "relocations")
        rows = elf.records(record, at, size // record.size, "relocations")
        of_others = {i for i, s in enumerate(elf.dynsym, 1) if not s.is_defined}
        shift, mask = elf.layout.symbol_shift, elf.layout.type_mask
        if any(row[1] & mask in places and row[1] >> shift not in of_others for row in rows):
            return (
                f"code with -ftls-model=initial-exec needs {part.p_memsz} bytes of static TLS, of which glibc has 1664"
                " for all libraries that a program opens: opening this one may fail; compile it without the option"
            )
    return ""
