"""The C library of a finished library, and that of the code that joins it: a process has one."""

from __future__ import annotations

import re

from mblob.binary.elf import ElfFile
from mblob.errors import IncompatibleError

# glibc's dynamic linker, which musl cannot open. Each process of glibc has it, and glibc's libc.so needs it: what
# joined code takes from it (__tls_get_addr, __stack_chk_guard) is found. musl has these in its C library.
_LINKER = re.compile(r"ld(-linux[\w-]*|64)?\.so\.\d+")
_GLIBC = re.compile(r"lib(c|m|dl|rt|pthread)\.so\.\d+")
_OTHERS = re.compile(r"libc\.so|(libc\.musl|ld-musl)-.*")  # musl's under all its names; Android's


def is_linker(file: str) -> bool:
    """True if joined code does not have to need this library."""
    return _LINKER.fullmatch(file) is not None


def check_one_c_library(host: ElfFile, part: ElfFile) -> None:
    """Refuse code that was compiled for another C library.

    Raises:
        IncompatibleError: naming both.
    """
    for ours, theirs in ((_GLIBC, _OTHERS), (_OTHERS, _GLIBC)):
        old = next(filter(ours.fullmatch, host.needed), None)
        new = next(filter(theirs.fullmatch, part.needed), None)
        if old and new:
            is_glibc = ours is _GLIBC
            raise IncompatibleError(
                f"{host.name} needs {old}, the new code {new}: no process has both C libraries; pass cc= of a compiler"
                f" for {'glibc' if is_glibc else 'that of the library, such as musl-gcc'}"
            )
