"""The functions of objects and archives, as far as their debug information tells them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mblob.elf import ElfFile
from packager.objects import objects_in

if TYPE_CHECKING:
    from packager.debug_info import Function

MANGLED = ("_Z", "_R")  # C++, Rust


def functions_of(path: Path, label: str) -> tuple[Function, ...]:
    """The functions that an object file, or all members of an archive, define; () without debug information.

    Args:
        label: what messages call it.

    Raises:
        OSError, BuildError, FormatError: as of `packager.objects.read`.
    """
    found: list[Function] = []
    for name, data in objects_in(path, label):
        if ElfFile(data, name).section(".debug_info") is not None:
            from packager.debug_info import functions  # pyelftools is loaded where there is something to read

            found += functions(data)
    return tuple(found)
