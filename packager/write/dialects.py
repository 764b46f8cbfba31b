"""The two dialects as the packager needs them: names of symbols, and what reads a blob. The values that options
of an export have."""

from __future__ import annotations

import re
from types import ModuleType

from mblob.bytes.digest import ALGORITHMS
from mblob.errors import one_of
from mblob.format import classic, ffi_dialect
from mblob.format.exported_functions import FFI_PREFIX
from mblob.named_tuple import NamedTuple
from mblob.packager.errors import BuildError


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
        """The symbol of the packed function of a plain function of C or C++, which keeps its own."""
        name = as_symbol(name)
        return self.function_prefix + name if self.is_ffi else f"{name}__packed"


def as_symbol(name: str) -> str:
    """The name of a function as assemblers take it: those of overloads and of templates have other characters, too."""
    return re.sub(r"[^\w.$]", lambda c: f"_{ord(c[0]):x}", name.replace("::", "__"))


CLASSIC = Dialect(
    name="classic",
    format=classic,
    context=classic.CONTEXT,
    register="TVMBackendRegisterSystemLibSymbol",
    function_prefix="",
    entry=classic.ENTRY,
)
FFI = Dialect(
    name="ffi",
    format=ffi_dialect,
    context=ffi_dialect.CONTEXT,
    register="TVMFFIEnvModRegisterSystemLibSymbol",
    function_prefix=FFI_PREFIX,
    entry=FFI_PREFIX + "main",
)
DIALECTS = {d.name: d for d in (CLASSIC, FFI)}

CHANGES_LINKED = ("grow", "append")  # ways of `embed=` that write the blob into a linked file
EMBEDDINGS = ("auto", *CHANGES_LINKED, "object", "c")
CHOICES = {"dialect": tuple(DIALECTS), "embed": EMBEDDINGS, "digest": tuple(ALGORITHMS)}


def check_choices(where: str = "", **given: str) -> None:
    """Refuse a value that an option of `CHOICES` does not have.

    Args:
        where: what the error begins with.
    """
    for name, value in given.items():
        if value not in CHOICES[name]:
            raise BuildError(f"{where}{name}: {one_of(CHOICES[name], value)}")
