"""`mblob.verify`: whether a library is whole, and whether what it needs is there. Nothing of it
runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mblob.arguments import items
from mblob.arguments import path as checked_path
from mblob.binary import container
from mblob.bytes.digest import ALGORITHM_NAMES
from mblob.bytes.mapping import map_file
from mblob.errors import (
    ArgumentValueError,
    DigestError,
    FormatError,
    IncompatibleError,
    one_of,
)
from mblob.format.classic import LEVELS
from mblob.format.grammar import Grammars
from mblob.format.index import is_small
from mblob.inspect import contents, plugin_needs
from mblob.inspect.diagnostics import (
    damaged_sections,
    executable_stack,
    headers_behind,
    missing_functions,
    static_threads,
    two_blobs,
    unreadable_graphs,
    wrong_rows,
)
from mblob.inspect.elf_judge import check_loading
from mblob.inspect.library import Library
from mblob.inspect.library_search import shared_elf
from mblob.inspect.linkage import Linkage, resolve
from mblob.named_tuple import NamedTuple

if TYPE_CHECKING:
    from mblob.format.blob_model import Blob
    from mblob.inspect.library import EntryView
    from mblob.typed import Level

SCHEMA = "mblob/verify/1"


class CheckedEntry(NamedTuple):
    """The checks of an entry's payload.

    Attributes:
        index, type_key, size: as of the entry.
        digest: "crc32", "sha256", or None if no digest is recorded.
        compared: its bytes were compared with the digest, and match.
        walked: its bytes follow the grammar of its key, as does the graph or executable in it.
            False for unknown keys, and at level "header".
    """

    index: int  # type: ignore[assignment]  # a tuple has a method of that name
    type_key: str
    size: int
    digest: str | None
    compared: bool
    walked: bool

    def to_json(self) -> dict[str, Any]:
        return self._asdict()


class Verification(NamedTuple):
    """Result of `verify` for a sound library.

    Attributes:
        path: of the file.
        level: "header" or "full".
        dialect: "classic", "ffi", or None if unknown.
        has_index: the blob has an index. Without one, damaged bytes in payloads cannot be found.
        entries: the checks of each entry.
        linkage: the libraries that define its undefined symbols; None without `against`.
        warnings: code and text of problems that do not prevent loading: damage, an executable
            stack, wrong rows of the table of functions, and at level "full" graphs that TVM's executor does not run.
        has_blob: the library has a blob.
        info: code and text of what was not checked, or is no part of the library: "not_judged" for a library of
            another machine, "plugin_needs" and "plugin_lacks" for the files that plug-ins of its modules open.
    """

    path: str
    level: str
    dialect: str | None
    has_index: bool
    entries: tuple[CheckedEntry, ...]
    linkage: Linkage | None
    warnings: tuple[tuple[str, str], ...]
    has_blob: bool
    info: tuple[tuple[str, str], ...] = ()

    def check(self) -> None:
        """Raise an error if symbols or libraries are missing.

        Raises:
            IncompatibleError: naming them.
        """
        if self.linkage and self.linkage.problem:
            raise IncompatibleError.about(self.path, f"{self.linkage.problem}")

    def to_json(self) -> dict[str, Any]:
        """The JSON object that `mblob-pack verify --json` prints for a sound file."""
        return {
            "schema": SCHEMA,
            "file": self.path,
            "level": self.level,
            "ok": not (self.linkage and self.linkage.problem),
            "error": None,
            "dialect": self.dialect,
            "blob": self.has_blob,
            "index": self.has_index,
            "entries": [e.to_json() for e in self.entries],
            "linkage": self.linkage.to_json() if self.linkage else None,
            "warnings": [{"code": code, "message": message} for code, message in self.warnings],
            "info": [{"code": code, "message": message} for code, message in self.info],
        }


def verify(
    path: str | os.PathLike[str],
    level: Level = "full",
    against: Sequence[str | os.PathLike[str]] | None = None,
    root: str | os.PathLike[str] = "/",
) -> Verification:
    """Check a library without running it.

    Args:
        path: of the file.
        level: "header": structure, index and its checksums, and the whole of a blob with up to 256
            KiB of payloads. "full": also every byte of the blob against its digest, and every
            payload against the grammar of its key.
        against: also look up each undefined symbol like the dynamic linker: in these libraries
            (paths, or names such as "libm.so.6"), then in those that the library needs. (): only in
            the needed ones. None: no lookup.
        root: root folder of the machine that the library is for.

    Returns:
        The result. `linkage` has the missing symbols, and `check()` raises an error about them.

    Raises:
        OSError: a file cannot be read.
        FormatError: the library is damaged, or it is no model library ("not_elf", "no_blob").
        DigestError: bytes differ from their digest.
        IncompatibleError: a library of `against` is for another machine, or dlopen may not open the
            library.
        ValueError: no file can have one of the paths.
    """
    if level not in LEVELS:
        raise ArgumentValueError(f"verify: level: {one_of(LEVELS, level)}")
    if against is not None:
        against = items("verify", "against", against, "a list of libraries")
    for argument, given in (
        ("path", path),
        ("root", root),
        *(("against", other) for other in against or ()),
    ):
        checked_path(given, f"verify: {argument}")

    try:
        with Library(path, verify=level) as library:
            return describe(library, level, against, root)
    except (FormatError, DigestError) as error:
        raise _damage_of_tables(path) or error from None


def _damage_of_tables(path: str | os.PathLike[str]) -> FormatError | IncompatibleError | None:
    """The damage to the tables that loaders read first, or None. It may hide the blob, or change
    what is read of it."""
    try:
        opened = container.open_file(map_file(Path(path)), os.fspath(path))
        check_loading(opened.image)
    except (FormatError, IncompatibleError) as error:
        return error
    return None


def describe(
    library: Library,
    level: str,
    against: Sequence[str | os.PathLike[str]] | None,
    root: str | os.PathLike[str],
) -> Verification:
    """The result of `verify`, for a library whose blob was just read at `level`."""
    library.require_model()
    not_judged = check_loading(library.image)
    blob = library.blob
    compared = blob is not None and digests_compared(blob, level)
    stored = [e for e in library.entries if e.offset is not None]
    entries = (
        tuple(_checked(e, blob, level, compared, library.grammars) for e in stored)
        if blob is not None
        else ()
    )
    linkage = None if against is None else _linkage(library, against, os.fspath(root))
    has_blob = blob is not None
    has_index = blob is not None and blob.index_offset is not None
    warnings = (
        *executable_stack(library.image),
        *damaged_sections(library.image),
        *headers_behind(library.image),
        *static_threads(library.image),
        *two_blobs(library),
        *wrong_rows(library),
        *((*unreadable_graphs(library), *missing_functions(library)) if level == "full" else ()),
    )
    info = (
        *(() if not_judged is None else (not_judged,)),
        *plugin_needs.remarks(library, os.fspath(root)),
    )
    return Verification(
        path=str(library.path),
        level=level,
        dialect=library.dialect,
        has_index=has_index,
        entries=entries,
        linkage=linkage,
        warnings=warnings,
        has_blob=has_blob,
        info=info,
    )


def _linkage(library: Library, against: Sequence[str | os.PathLike[str]], root: str) -> Linkage:
    elf = shared_elf(library)
    if elf is None:
        raise FormatError.about(
            library.path,
            "no ELF shared library, so no dynamic linker looks for its symbols",
            code="",
        )
    return resolve(elf, str(library.path), against, root)


def digests_compared(blob: Blob, level: str) -> bool:
    """True if reading a blob at `level` holds each payload against its digest."""
    return level == "full" or (level == "header" and is_small(blob))


def _checked(
    entry: EntryView, blob: Blob, level: str, compared: bool, grammars: Grammars
) -> CheckedEntry:
    """An entry of a blob that was read at `level`, its payload walked too at "full".

    Raises:
        FormatError: the payload breaks the grammar of its key.
    """
    walked = False
    if level == "full":
        try:
            walked = contents.check_stored(entry.place, entry.type_key, entry.view(), grammars)
        except FormatError as error:
            error.entry = entry.index
            raise
    algorithm = ALGORITHM_NAMES.get(blob.algorithm) if entry.digest else None
    return CheckedEntry(
        index=entry.index,
        type_key=entry.type_key,
        size=entry.size,
        digest=algorithm,
        compared=compared and algorithm is not None,
        walked=walked,
    )
