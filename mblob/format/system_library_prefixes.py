"""Libraries for static linking have prefixes before their names; these are read off the names that
each must have."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mblob.format import classic, ffi_dialect, functions_table
from mblob.format.exported_functions import SYSTEM_LIB

BLOBS = (classic.SYMBOL, *ffi_dialect.SYMBOLS)
CONTEXTS = (classic.CONTEXT, ffi_dialect.CONTEXT, ffi_dialect.CONTEXT_OF_0_21)
# with the contexts: variables that a loader fills once the library is loaded (csrc/src/elf/slots.c)
SLOTS = (
    "__TVMFuncCall", "__TVMAPISetLastError", "__TVMBackendGetFuncFromEnv", "__TVMBackendAllocWorkspace",
    "__TVMBackendFreeWorkspace", "__TVMBackendParallelLaunch", "__TVMBackendParallelBarrier", "__TVMFFIFunctionCall",
    "__TVMFFIErrorSetRaisedFromCStr", "__TVMFFIErrorSetRaisedFromCStrParts", "__TVMFFIEnvModLookupFromImports",
    "__TVMFFIHandleInitOnce",
)  # fmt: skip
# what such libraries call
REGISTER = ("TVMBackendRegisterSystemLibSymbol", "TVMFFIEnvModRegisterSystemLibSymbol")
_MARKS = (*BLOBS, *CONTEXTS, functions_table.SYMBOL, SYSTEM_LIB)
_PREFIX = re.compile("(?:[A-Za-z_][A-Za-z0-9_]*)?", re.ASCII)


def prefixes_of(names: Iterable[str]) -> list[str]:
    """The prefixes among exported names, those with a blob first, "" before others."""
    found: dict[str, bool] = {}
    for name in names:
        if not name.endswith(_MARKS):
            continue
        mark = next(m for m in _MARKS if name.endswith(m))
        if _PREFIX.fullmatch(prefix := name[: -len(mark)]):
            found[prefix] = found.get(prefix, False) or mark in BLOBS
    return sorted(found, key=lambda p: (not found[p], p))
