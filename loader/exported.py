"""Names of the functions that a library file exports, for error messages. Nothing here raises."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing `typing` takes longer than everything else here
if TYPE_CHECKING:
    from collections.abc import Sequence


def functions_of_file(path: str, identity: tuple[int, int]) -> Sequence[str]:
    """Names in the library at `path`, () if it is not the file (device, inode) it was when it was
    opened."""
    from mblob.errors import MblobError
    from mblob.inspect.library import Library

    try:
        status = os.stat(path)  # noqa: PTH116
        if (status.st_dev, status.st_ino) != identity:
            return ()
        with Library(path, verify="off") as library:
            return library.packed_functions
    except (OSError, MblobError, ValueError):
        return ()


def functions_of_image(data: memoryview) -> Sequence[str]:
    """Names in a library in memory, () if it is damaged."""
    from mblob.binary.elf import ElfFile
    from mblob.errors import MblobError
    from mblob.format.exported import packed_functions, read_table

    try:
        elf = ElfFile(data)
        return packed_functions(elf, read_table(elf))
    except (MblobError, ValueError):
        return ()
