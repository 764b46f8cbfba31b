"""The functions that a library file exports, by name, with how each is called. Nothing here
raises."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing `typing` takes longer than everything else here
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mblob.format.exported import HostFunction


def functions_of_file(path: str, identity: tuple[int, int]) -> Mapping[str, str]:
    """Functions in the library at `path`, none if it is not the file (device, inode) it was when it was
    opened."""
    from mblob.errors import MblobError
    from mblob.inspect.library import Library

    try:
        status = os.stat(path)  # noqa: PTH116
        if (status.st_dev, status.st_ino) != identity:
            return {}
        with Library(path, verify="off") as library:
            return signatures(library.host_functions)
    except (OSError, MblobError, ValueError):
        return {}


def functions_of_image(data: memoryview) -> Mapping[str, str]:
    """Functions in a library in memory, none if it is damaged."""
    from mblob.binary.elf import ElfFile
    from mblob.errors import MblobError
    from mblob.format.exported import host_functions, read_table

    try:
        elf = ElfFile(data)
        return signatures(host_functions(elf, read_table(elf)))
    except (MblobError, ValueError):
        return {}


def signatures(functions: Iterable[HostFunction]) -> dict[str, str]:
    """Of the packed ones, by name."""
    return {f.name: f.text for f in functions if f.abi != "plain"}
