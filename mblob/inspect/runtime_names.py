"""The names that mblob's runtime gives to libraries that leave them undefined. It binds them by
itself, without exporting each. They are read from a copy of it, whatever its version:
`csrc/src/base/runtime_names.h`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from mblob.binary.elf import ElfFile
from mblob.errors import FormatError
from mblob.format.exported_functions import FFI_PREFIX
from mblob.inspect.library_search import open_shared
from mblob.installed import SONAME, library_dir

SYMBOL = "mblob_runtime_names"
ALL, FFI, FFI_OF_0_21 = "all", "ffi", "ffi-0.21"  # the libraries that names are for
PLUGINS = "libmblob-*.so"  # files beside libmblob whose names it binds too
# what `mblob.load_module` uses
INSTALLED = library_dir() / SONAME

Names = Mapping[str, frozenset[str]]


def read(elf: ElfFile) -> Names:
    """Names by kind of library (ALL, FFI, FFI_OF_0_21); {} of a file that is no part of mblob's
    runtime.

    Raises:
        FormatError: "elf_dynamic": the list is not in the file.
    """
    symbol = elf.find(SYMBOL)
    if symbol is None:
        return {}
    found: dict[str, set[str]] = {}
    kind = ""
    for text in bytes(elf.bytes_of(symbol)[1]).decode("utf-8", "backslashreplace").split("\0"):
        if text.startswith("="):
            kind = text[1:]
        elif text:
            found.setdefault(kind, set()).add(text)
    return {kind: frozenset(names) for kind, names in found.items()}


def kind_of(elf: ElfFile) -> str:
    """The kind of a library for the loader: ALL (the classic dialect), FFI or FFI_OF_0_21."""
    if any(_names_a_function(s.name) for s in elf.exports):
        return FFI
    names = {s.name for s in elf.dynsym}
    uses = not _needs_tvm_ffi(elf) and any(
        name.startswith(("__TVMFFI", "TVMFFI")) for name in names
    )
    return FFI_OF_0_21 if uses or any(s.name.startswith(FFI_PREFIX) for s in elf.exports) else ALL


def _names_a_function(symbol: str) -> bool:
    """True if an exported symbol is one that only TVM 0.22 and later write."""
    return symbol.startswith(FFI_PREFIX) and symbol[len(FFI_PREFIX) :] not in (
        "library_bin",
        "library_ctx",
    )


def _needs_tvm_ffi(elf: ElfFile) -> bool:
    return any(name.startswith("libtvm_ffi.") for name in elf.needed)


def bound_by(
    runtime: str, elf: ElfFile, library: ElfFile, with_tvm_ffi: bool = False
) -> dict[str, str]:
    """The names that a file of mblob's runtime, and the plug-ins beside it, give to a library: path
    by name; {} for other files.

    Args:
        runtime, elf: path of the file, and a reader over it.
        library: that is to be opened.
        with_tvm_ffi: the library brings libtvm_ffi along, whose functions it then uses.

    Raises:
        FormatError: its list is damaged.
    """
    files = [(runtime, read(elf))]
    if ALL in files[0][1]:
        files += [(path, names) for path in _beside(runtime) if (names := _of_plugin(path))]
    kind = kind_of(library)
    found: dict[str, str] = {}
    for path, names in files:
        for name in names.get(kind, frozenset()) | names.get(ALL, frozenset()):
            if not (with_tvm_ffi and name.startswith("TVMFFI")):
                found.setdefault(name, path)
    return found


def _beside(runtime: str) -> list[str]:
    folder = Path(os.path.realpath(runtime)).parent
    return sorted(str(path) for path in folder.glob(PLUGINS))


def _of_plugin(path: str) -> Names:
    try:
        return read(open_shared(path))
    except (OSError, FormatError):  # what is wrong with it, the loader tells when it needs it
        return {}


@lru_cache(maxsize=1)
def installed() -> ElfFile | None:
    """The runtime of this installation, None if it cannot be read."""
    try:
        return open_shared(str(INSTALLED))
    except (OSError, FormatError):
        return None


def bound_here(library: ElfFile) -> dict[str, str]:
    """The names that the runtime of this installation gives to a library, of whatever machine: path
    by name."""
    elf = installed()
    return bound_by(str(INSTALLED), elf, library) if elf is not None else {}
