"""Names of the functions that a library file exports, for error messages. Nothing here raises."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing `typing` takes longer than everything else here
if TYPE_CHECKING:
    from collections.abc import Sequence


def functions_of_file(path: str, identity: tuple[int, int]) -> Sequence[str]:
    """Names in the library at `path`, () if it is not the file (device, inode) it was when it was opened."""
    from mblob.errors import MblobError
    from mblob.library import Library

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
    from mblob import functions_table
    from mblob.elf import ElfFile
    from mblob.elf_records import STT_FUNC, STT_GNU_IFUNC
    from mblob.errors import MblobError
    from mblob.library import is_helper

    try:
        elf = ElfFile(data)
        table = elf.find(functions_table.SYMBOL)
        rows = functions_table.decode(bytes(elf.bytes_of(table)[1])) if table else []
        listed = {row.symbol for row in rows}
        exported = {
            s.name
            for s in elf.dynsym
            if s.is_exported and s.type in (STT_FUNC, STT_GNU_IFUNC) and not is_helper(s.name)
        }
        return sorted({row.name for row in rows if row.abi == "packed"} | (exported - listed))
    except (MblobError, ValueError):
        return ()
