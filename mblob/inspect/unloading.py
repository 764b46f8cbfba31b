"""The state of a library after its last reference is gone, mapped or not, as far as its file tells.
The table of functions that keep no library is `mblob.unload_safe_functions`; the runtime judges by the same
table, and by the libraries that came along, which a file only names
(csrc/src/core/link/unload.c)."""

from __future__ import annotations

from typing import Any

from mblob import unload_safe_functions
from mblob.binary import elf_facts
from mblob.binary.elf import ElfFile
from mblob.inspect import runtime_names
from mblob.inspect.providers import Undefined
from mblob.named_tuple import NamedTuple

LISTED = 12  # symbols that a line names
_FLAGS = {"nodelete": "linked with -z nodelete", "unique": "an STB_GNU_UNIQUE symbol"}


class Unloading(NamedTuple):
    """The state of a library after its last reference is gone.

    Attributes:
        stays: it stays mapped; None: that is known only when it is loaded.
        symbols: undefined symbols that keep it mapped, or that may.
        libraries: needed libraries whose own undefined symbols count too.
        flags: what keeps every library, whatever it calls: "nodelete" (`-z nodelete`), "unique"
            (it exports an STB_GNU_UNIQUE symbol; glibc).
    """

    stays: bool | None
    symbols: tuple[str, ...]
    libraries: tuple[str, ...]
    flags: tuple[str, ...]

    def __str__(self) -> str:
        names = ", ".join(self.symbols[:LISTED])
        if len(self.symbols) > LISTED:
            names += f" and {len(self.symbols) - LISTED} more"
        if self.stays:
            return "stays mapped: " + ", ".join(
                [*(_FLAGS[f] for f in self.flags), *([names] * bool(names))]
            )
        if self.libraries:
            state = f"known when loaded: depends on {', '.join(self.libraries)}"
            return f"{state} ({names})" if names else state
        if names:
            return f"stays mapped if something defines {names} (weak)"
        return "unmapped after the last reference"

    def to_json(self) -> dict[str, Any]:
        return {k: list(v) if isinstance(v, tuple) else v for k, v in self._asdict().items()}


def unloading_of(elf: ElfFile, undefined: list[Undefined]) -> Unloading:
    """The state of a library after its last reference is gone, as far as its file tells.

    Args:
        elf: a shared library.
        undefined: its undefined symbols.
    """
    libraries = tuple(
        name
        for name in elf.needed
        if not unload_safe_functions.is_of_language(name.rpartition("/")[2])
    )
    found = [u for u in undefined if not unload_safe_functions.keeps_no_address(u.name)]
    ours = runtime_names.bound_here(elf) if found else {}
    flags = elf_facts.stays_by(elf)
    # What a library that came along defines does not keep it, nor does a weak one without a
    # definition. Versions tell where a symbol comes from.
    sure = [
        u.name
        for u in found
        if u.name in ours
        or (not u.weak and (not libraries or unload_safe_functions.is_of_language(u.library or "")))
    ]
    stays = True if sure or flags else None if found or libraries else False
    symbols = sure if sure else [u.name for u in found]
    return Unloading(stays, tuple(symbols), libraries, flags)
