"""The dialect of an object: how its functions are called, or which runtime it asks for functions."""

from __future__ import annotations

import re
from typing import Any

from mblob.binary.elf import ElfFile
from mblob.format import classic, ffi_dialect
from mblob.format.exported import ffi_name
from mblob.packager.functions.adapters import MARK
from mblob.packager.objects.object_files import objects_of

# Names in an object that is called as one dialect does, or that asks its runtime for functions.
_CLASSIC = {classic.CONTEXT, classic.ENTRY, "TVMFuncCall", "TVMAPISetLastError"}
_CLASSIC |= {f"__{name}" for name in _CLASSIC if name.startswith("TVM")}
_FFI = {ffi_dialect.CONTEXT, ffi_dialect.CONTEXT_OF_0_21}
_FFI_RUNTIME = ("TVMFFI", "__TVMFFI")
# All of these names have one of these texts. Few objects have one: the others are not parsed.
_TEXTS = (rb"__tvm_", rb"TVM")


def object_dialect(data: Any, label: str) -> str | None:
    """What the names in an object or archive tell: "classic" or "ffi"; None if they tell nothing, or
    both.

    Args:
        data: its bytes.
        label: of errors.

    Raises:
        FormatError: it is damaged.
    """
    if not any(re.search(text, data) for text in _TEXTS):
        return None
    found = set()
    for name_of_part, part in objects_of(memoryview(data), label):
        symbols = ElfFile(part, name_of_part).symtab
        names = {s.name for s in symbols}
        if any(name.startswith(MARK) for name in names):
            continue  # mblob's adapters know both dialects
        if (
            any(s.is_defined and ffi_name(s.name) for s in symbols)
            or any(name.startswith(_FFI_RUNTIME) for name in names)
            or not names.isdisjoint(_FFI)
        ):
            found.add("ffi")
        if not names.isdisjoint(_CLASSIC):
            found.add("classic")
    return found.pop() if len(found) == 1 else None
