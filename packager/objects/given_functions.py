"""The functions of objects and archives, as far as their debug information tells them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mblob.binary.elf import ElfFile
from mblob.packager.objects.objects import objects_in

if TYPE_CHECKING:
    from mblob.packager.objects.debug_info import Function

MANGLED = ("_Z", "_R")  # C++, Rust
LTO_DEBUG = ".gnu.debuglto_"  # stands before names of sections that gcc -flto writes


def functions_of(path: Path, label: str, whole: bool = False) -> tuple[Function, ...]:
    """The functions that an object file, or all members of an archive, define, as far as debug
    information tells.

    Args:
        label: what messages call it.
        whole: as of `mblob.packager.objects.debug_info.functions`.

    Raises:
        OSError, BuildError, FormatError: as of `mblob.packager.objects.objects.read`.
    """
    found: list[Function] = []
    for name, data in objects_in(path, label):
        if whole or has_debug_info(ElfFile(data, name)):
            from mblob.packager.objects.debug_info import (
                functions,  # pyelftools is loaded where there is something to read
            )

            found += functions(data, whole)
    return tuple(found)


def has_debug_info(elf: ElfFile) -> bool:
    """Whether an object tells types, in its own sections or in those that wait for link-time
    optimization."""
    return any(
        section.name in (".debug_info", LTO_DEBUG + ".debug_info") for section in elf.sections
    )
