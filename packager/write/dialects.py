"""The two dialects as the packager needs them: names of symbols, and what reads a blob."""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

from mblob.format import classic, ffi_dialect
from mblob.format.exported import FFI_PREFIX


class Dialect(NamedTuple):
    """One dialect.

    Attributes:
        name: "classic" or "ffi".
        format: the module that reads its blobs.
        context: the variable in which a loader leaves the handle of the library.
        register: the runtime's function that takes the symbols of a system library.
        function_prefix: of the symbols of functions.
        entry: the symbol of the entry; in the ffi dialect a function like all others.
    """

    name: str
    format: ModuleType
    context: str
    register: str
    function_prefix: str
    entry: str

    @property
    def symbol(self) -> str:
        """The symbol of the blob."""
        return str(self.format.SYMBOL)

    @property
    def is_ffi(self) -> bool:
        return self.name == "ffi"

    def packed_symbol(self, name: str) -> str:
        """The symbol of the packed function of a plain C function, which keeps its own."""
        return self.function_prefix + name if self.is_ffi else f"{name}__packed"


CLASSIC = Dialect(
    "classic", classic, classic.CONTEXT, "TVMBackendRegisterSystemLibSymbol", "", classic.ENTRY
)  # fmt: skip
FFI = Dialect(
    "ffi", ffi_dialect, ffi_dialect.CONTEXT, "TVMFFIEnvModRegisterSystemLibSymbol", FFI_PREFIX, FFI_PREFIX + "main"
)  # fmt: skip
DIALECTS = {d.name: d for d in (CLASSIC, FFI)}
