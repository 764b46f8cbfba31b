"""Whether a dynamic linker can take a file as a shared library: what libmblob checks before it opens
one."""

from __future__ import annotations

from mblob.native.runtime import ffi, last_error, lib, text


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
