"""The providers of the undefined symbols of a library, told from files, before a dynamic linker is
asked."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import (
    STB_WEAK,
    STT_FUNC,
    STT_GNU_IFUNC,
    STT_NOTYPE,
    STT_OBJECT,
    STT_TLS,
)
from mblob.binary.elf_versions import Definitions, NeededVersion, Versions
from mblob.binary.file_kind import ELF_MAGIC
from mblob.errors import FormatError, IncompatibleError
from mblob.inspect import runtime_names
from mblob.inspect.library_search import Search, SharedObject, is_for, open_shared
from mblob.named_tuple import NamedTuple

LOADED_LIMIT = 1024  # libraries that one needs, directly or not
LISTED = 12  # names that an error gives


class Reference(NamedTuple):
    """An undefined symbol.

    Attributes:
        name: of the symbol.
        version: required version, None for any.
        provider: path of the library (or plug-in of mblob) that defines it, or None.
    """

    name: str
    version: str | None
    provider: str | None

    def __str__(self) -> str:
        return f"{self.name}@{self.version}" if self.version else self.name

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "version": self.version, "provider": self.provider}


class MissingLibrary(NamedTuple):
    """A needed library that was not found: its name, and the file that needs it."""

    name: str
    needed_by: str


class MissingVersion(NamedTuple):
    """A version that a needed library does not have."""

    version: str
    library: str


class Linkage(NamedTuple):
    """The symbols and libraries that the dynamic linker would find for a library.

    Attributes:
        references: its undefined symbols, weak ones left out, by name.
        libraries: paths of the libraries that would be loaded with it, in search order.
        missing_libraries, missing_versions: what would make loading fail.
    """

    references: tuple[Reference, ...]
    libraries: tuple[str, ...]
    missing_libraries: tuple[MissingLibrary, ...]
    missing_versions: tuple[MissingVersion, ...]

    @property
    def unresolved(self) -> list[Reference]:
        """The symbols that no library defines."""
        return [r for r in self.references if r.provider is None]

    @property
    def problem(self) -> str:
        """The errors of the dynamic linker, in one line; "" if there are none."""
        parts = []
        if self.unresolved:
            parts.append(f"nobody provides {_listed(map(str, self.unresolved))}")
        if self.missing_libraries:
            wanted = (f"{m.name} (for {m.needed_by})" for m in self.missing_libraries)
            parts.append(f"not found: {_listed(wanted)}")
        if self.missing_versions:
            parts.append(
                f"no version {_listed(f'{m.version} in {m.library}' for m in self.missing_versions)}"
            )
        return "; ".join(parts)

    def to_json(self) -> dict[str, Any]:
        return {
            "symbols": [r.to_json() for r in self.references],
            "libraries": list(self.libraries),
            "missing_libraries": [
                {"name": m.name, "needed_by": m.needed_by} for m in self.missing_libraries
            ],
            "missing_versions": [
                {"version": m.version, "library": m.library} for m in self.missing_versions
            ],
        }


def _listed(names: Iterable[str]) -> str:
    given = list(names)
    more = f" and {len(given) - LISTED} more" if len(given) > LISTED else ""
    return ", ".join(given[:LISTED]) + more


def resolve(
    elf: ElfFile, path: str, against: Sequence[str | os.PathLike[str]] = (), root: str = "/"
) -> Linkage:
    """Look for each undefined symbol of a library, in the order of glibc's dynamic linker.

    Args:
        elf, path: the library, and the name that `$ORIGIN` in its search path comes from.
        against: libraries that are in the process before it is opened, in this order: paths, or
            names without a slash which no file here has, found as a needed library is. A libmblob
            brings what it binds without exporting it, and what the plug-ins beside it do.
        root: the folder that is `/` on the machine that the library is for.

    Raises:
        OSError: a library of `against` cannot be read.
        FormatError: one is damaged, or no shared library.
        IncompatibleError: one is for another machine.
    """
    search = Search(elf, root)
    start = SharedObject(path, elf, [])
    given = [_given(os.fspath(name), start, search) for name in against]
    loaded, missing = _load([start, *given], search)
    scope = [(o, Definitions(o.elf)) for o in loaded[1:]]
    versions = Versions(elf)
    bound: dict[str, str] = {}  # by mblob's loader, where its runtime is among the given
    brings = any(Path(o.path).name.startswith("libtvm_ffi.") for o in loaded[1:])
    for o in given:
        bound = {**runtime_names.bound_by(o.path, o.elf, elf, brings), **bound}
    references = {}
    for position, symbol in enumerate(elf.dynsym):
        if symbol.is_defined or symbol.binding == STB_WEAK or not symbol.name:
            continue
        if symbol.type not in (STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_TLS, STT_GNU_IFUNC):
            continue
        wanted = versions.wanted_by(position)
        version = wanted.name if wanted else None
        provider = _provider(symbol.name, wanted, scope)
        if provider is None and symbol.type != STT_TLS:
            provider = bound.get(symbol.name)
        references[symbol.name, version or ""] = Reference(symbol.name, version, provider)
    return Linkage(
        tuple(references[key] for key in sorted(references)),
        tuple(o.path for o in loaded[1:]),
        tuple(missing),
        tuple(_missing_versions(versions, scope)),
    )


Scope = Sequence["tuple[SharedObject, Definitions]"]


def _provider(name: str, wanted: NeededVersion | None, scope: Scope) -> str | None:
    """Path of the first library that has a symbol in the version that is wanted."""
    for library, offers in scope:
        if wanted is None:
            found = offers.find(name, None)
        else:
            found = offers.find(name, wanted.name, here=wanted.file in library.names)
        if found:
            return library.path
    return None


def _given(name: str, importer: SharedObject, search: Search) -> SharedObject:
    """A library of the caller's."""
    if "/" not in name and not os.path.exists(name):  # noqa: PTH110 - false, where Path raises, for what no path can be
        found = search.find(name, importer)
        if found is not None:
            return found
    try:
        elf = open_shared(name)
    except FormatError as error:
        if error.code == "not_elf":  # the library that is looked at is one
            raise FormatError.about(
                name,
                "to resolve symbols against, expected a shared library (it does not start with"
                f" {ELF_MAGIC!r})",
                code="",
            ) from None
        raise
    target = importer.elf
    if not is_for(elf, target):
        raise IncompatibleError.about(
            name,
            f"for {elf.machine}, {elf.bits} bits, {elf.endian} endian; {importer.path} is for"
            f" {target.machine}, {target.bits} bits, {target.endian} endian",
        )
    return SharedObject(name, elf, [name, Path(name).name])


def _load(
    start: Sequence[SharedObject], search: Search
) -> tuple[list[SharedObject], list[MissingLibrary]]:
    """All that is loaded: breadth first, each name once; and what is not found."""
    loaded, missing = list(start), []
    known = {name for o in start for name in o.names}
    queue = deque(start)
    while queue:
        importer = queue.popleft()
        for name in importer.elf.needed:
            if name in known:
                continue
            known.add(name)
            if len(known) > 4 * LOADED_LIMIT:
                raise FormatError(
                    f"{start[0].path}: needs more than {LOADED_LIMIT} libraries", code="elf_dynamic"
                )
            found = search.find(name, importer)
            if found is None:
                missing.append(MissingLibrary(name, importer.path))
                continue
            if len(loaded) >= LOADED_LIMIT:
                raise FormatError(
                    f"{start[0].path}: needs more than {LOADED_LIMIT} libraries", code="elf_dynamic"
                )
            known |= found.names
            loaded.append(found)
            queue.append(found)
    return loaded, missing


def _missing_versions(versions: Versions, scope: Scope) -> list[MissingVersion]:
    """Versions that the library asks for by file, and that file does not have."""
    found = []
    for wanted in versions.needed.values():
        owner = next(((o, d) for o, d in scope if wanted.file in o.names), None)
        if owner is None or wanted.weak:
            continue
        has = owner[1].versions
        if has.is_plain or (has.has_definitions and wanted.name not in has.defined.values()):
            found.append(MissingVersion(wanted.name, owner[0].path))
    return found
