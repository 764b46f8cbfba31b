"""`mblob.open`: look into a library without running it. Nothing here maps a file for execution.

What a file is tells `mblob.binary.container`; what is in its blob, the dialects; what that means,
`mblob.inspect.contents`, `mblob.inspect.tvm_releases` and `mblob.inspect.diagnostics`; how it is written
down, `mblob.inspect.inspect_json`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from mblob.arguments import name as checked_name
from mblob.binary import container
from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import Symbol
from mblob.binary.function_names import function_names
from mblob.binary.image import Image
from mblob.bytes.mapping import advise_random, map_known_file, prefetch
from mblob.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    FormatError,
    MblobError,
    did_you_mean,
    one_line,
    one_of,
)
from mblob.format import (
    classic,
    exported_functions,
    ffi_dialect,
    note,
    plugin_table,
    system_library_prefixes,
)
from mblob.format.blob_model import Blob, Entry
from mblob.format.exported_functions import FFI_PREFIX, NO_MODEL, HostFunction
from mblob.format.grammar import GRAMMARS, Grammars
from mblob.format.index import place_of
from mblob.format.plugin_table import Plugin
from mblob.format.type_keys import LIBRARY
from mblob.inspect.contents import DecodedPayload, read_content
from mblob.inspect.entry_view import EntryView as EntryView
from mblob.inspect.payload_layouts import size_of
from mblob.inspect.providers import undefined_symbols
from mblob.module import ENTRY_NAME

if TYPE_CHECKING:
    from mblob.inspect.models import Model
    from mblob.inspect.providers import Undefined
    from mblob.inspect.tvm_releases import Releases
    from mblob.inspect.unloading import Unloading
    from mblob.inspect.verification import Verification
    from mblob.typed import Level

_OPEN = ("image", "members", "entries")  # what holds the mapping
_ENTRY_LIMIT = 4096  # bytes of the name of the entry function


class Library:
    """A library file, opened for inspection. Use it as a context manager, or `close()` it.

    Attributes:
        path: of the file.
        stat: of the file that was mapped.
        kind: "shared", "object", "archive", "tar", "universal", ...: what the file is.
        members: `mblob.binary.container.Member` of an archive, a tar, a universal file; else empty.
        compressed: the file is a `.tar.gz` or C text; offsets count in the unpacked bytes, or in
            the bytes that the text defines.
        image: its machine code.
        prefixes: prefixes of the names of its system libraries, those with a blob first; "" for a
            library without a prefix.
        prefix: the selected one.
        blob: content of the blob, or None; `blob_offset` is its offset in the file.
        blob_symbol: the symbol of the blob.
        function_table: rows of mblob's table of functions.
        problem: the error that prevented reading a part (with `partial`), else None.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        verify: Level = "header",
        partial: bool = False,
        prefix: str | None = None,
        machine: str | None = None,
    ) -> None:
        """Map the file and read its blob.

        Args:
            path: a shared library, an object, an archive of objects, or a `.tar` as TVM exports it;
                ELF, Mach-O or PE.
            verify: "off", "header" (index and its checksums; all of a small blob), or "full" (every
                payload).
            partial: without an index, mblob cannot read behind a payload of an unknown type key.
                True: open the library nevertheless. `entries` has the modules before that key,
                there is no tree, and `diagnostics` has the error.
            prefix: prefix of the system library to select if there are several; by default one with
                a blob.
            machine: selects a slice of a universal file, by any of the usual names: "arm64",
                "amd64", "ppc64le", ... By default that of this machine, or else the first. A file
                without slices must be for the machine that you name.

        Raises:
            OSError: the file cannot be read.
            FormatError: it is no library ("not_elf"), a damaged one, or has nothing for `machine`
                ("no_machine"). One without a blob opens, as in `load_module`: `is_model_library`
                tells, and `require_model` refuses it.
            DigestError: bytes differ from their digest.
        """
        if not isinstance(path, (str, os.PathLike)):
            raise ArgumentTypeError(
                f"mblob.open: expected a path, found {type(path).__name__} (load_module takes more)"
            )
        self.problem: FormatError | None = None
        self._contents: dict[tuple[str, int | None, int], DecodedPayload] = {}
        if machine is not None:
            checked_name("mblob.open", "machine", machine)
        if not os.fspath(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        self.path = Path(path)
        self._data: memoryview | None
        self._data, self.stat = map_known_file(self.path)
        self._blob_data: memoryview | None = None
        try:
            if verify != "full":
                advise_random(self._data, begin=True)
            opened = container.open_file(self._data, str(self.path), machine)
            self.kind, self.members, self.compressed = (
                opened.kind,
                opened.members,
                opened.compressed,
            )
            self.image: Image = opened.image
            self._check_segments(partial)
            self.prefixes = system_library_prefixes.prefixes_of(s.name for s in self.image.exports)
            self.prefix = self._choose(prefix)
            self.blob_symbol: Symbol | None = None
            self.blob_offset, self.blob = self._read(verify, partial)
            self.function_table = exported_functions.read_table(self.image, self.prefix)
            advise_random(self._data, begin=False)  # payloads are read from one end to the other
        except BaseException as error:
            self.close()
            if isinstance(error, MblobError) and not error.culprit:
                error.prefix(str(self.path))
            raise

    def _check_segments(self, partial: bool) -> None:
        try:
            if self.kind == "shared" and isinstance(self.image, ElfFile):
                self.image.check_segments()
        except FormatError as error:
            if not partial:
                raise
            self.problem = error

    def _choose(self, prefix: str | None) -> str:
        """The prefix that was asked for, or that of the first library with a blob.

        Raises:
            FormatError: "no_prefix": it is not in the file.
        """
        if prefix is None:
            return self.prefixes[0] if self.prefixes else ""
        if prefix not in self.prefixes:
            known = ", ".join(map(repr, self.prefixes[:20])) or "none at all"
            raise FormatError.about(
                self.path, f"no library of prefix {prefix!r}; there is {known}", code="no_prefix"
            )
        return prefix

    def _read(self, level: str, partial: bool = False) -> tuple[int, Blob | None]:
        if level not in classic.LEVELS:
            raise ArgumentValueError(f"verify: {one_of(classic.LEVELS, level)}")
        expected = bool(note.announced(self.image).flags & note.HAS_INDEX)
        for name in system_library_prefixes.BLOBS:
            symbol = self.image.find(self.prefix + name)
            if symbol is not None:
                self.blob_symbol = symbol
                offset, self._blob_data = self.image.bytes_of(symbol)
                if self.kind == "shared" and level != "full" and self._data is not None:
                    at, size = place_of(self._blob_data)
                    # page by page, a cold one takes a wait for each
                    prefetch(self._data, offset + at, size)
                self.compressed = self.compressed or self.image.owner(symbol).format == "c"
                return offset, self._read_blob(self._blob_data, name, level, partial, expected)
        if expected:
            raise FormatError.about(
                self.path,
                f"its note announces a blob, but {classic.SYMBOL} is missing",
                code="index_footer",
            )
        return 0, None

    def _read_blob(
        self, data: memoryview, name: str, level: str, partial: bool, expected: bool
    ) -> Blob:
        def measures(key: str, view: memoryview) -> int | None:
            return size_of(key, view, self.plugins)

        try:
            if name == classic.SYMBOL:
                blob = classic.read(data, level=level, index_expected=expected, measures=measures)
            else:
                blob = ffi_dialect.read(
                    data, name, level=level, index_expected=expected, measures=measures
                )
        except FormatError as error:
            if not partial or not isinstance(error.partial, Blob):
                raise
            self.problem = error
            blob = error.partial
            if name != classic.SYMBOL:
                blob = blob._replace(dialect="ffi", symbol=name)
        return blob._replace(symbol=self.prefix + blob.symbol) if self.prefix else blob

    @cached_property
    def _blob_name(self) -> str:
        """The symbol of the blob without its prefix, which tells the dialect's variant."""
        return self.blob.symbol[len(self.prefix) :] if self.blob else ""

    @cached_property
    def grammars(self) -> Grammars:
        """The grammars of the payloads, by type key."""
        if self.blob is None or self.blob.dialect != "ffi":
            return GRAMMARS
        return ffi_dialect.grammars_of(self.blob._replace(symbol=self._blob_name))

    def blob_bytes(self) -> memoryview:
        """The bytes of the blob's symbol, a view.

        Raises:
            ValueError: the library is closed.
        """
        if self._data is None:
            raise ArgumentValueError(one_line(f"{self.path}: the library is closed"))
        return self._blob_data if self._blob_data is not None else memoryview(b"")

    @property
    def elf(self) -> ElfFile:
        """The image of an ELF library.

        Raises:
            FormatError: "no_elf": it is not a single ELF file. ValueError: it is closed.
        """
        if not isinstance(self.image, ElfFile):
            raise FormatError.about(
                self.path,
                f"{self.image.format} of kind {self.kind}, not one ELF file",
                code="no_elf",
            )
        return self.image

    # -- what is in it -----------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Size of the file in bytes. For a `.tar.gz`: size of the unpacked archive up to the end of
        its members, since offsets count there."""
        if self._data is None:
            raise ArgumentValueError(one_line(f"{self.path}: the library is closed"))
        ends = (m.offset + m.size for m in self.members)
        return max(ends, default=len(self._data)) if self.compressed else len(self._data)

    @property
    def dialect(self) -> str | None:
        """ "classic" or "ffi": the dialect of the blob, else that of the symbols, else None."""
        return self.blob.dialect if self.blob else self.era.dialect

    @property
    def target(self) -> dict[str, Any]:
        """Machine, bits and byte order, from the header."""
        return {"machine": self.image.machine, "bits": self.image.bits, "endian": self.image.endian}

    @cached_property
    def entries(self) -> list[EntryView]:
        """The modules in stored order; a library without a blob is one entry, `library`."""
        found: Sequence[Entry] = (
            self.blob.entries if self.blob else (Entry(0, LIBRARY, None, 0, ()),)
        )
        return [EntryView(self, entry) for entry in found]

    def content_of(self, entry: EntryView) -> DecodedPayload:
        """Content of an entry's payload, which is read once."""
        place = entry.type_key, entry.offset, entry.size  # an index may name one payload many times
        if place not in self._contents:
            self._contents[place] = (
                DecodedPayload()
                if entry.offset is None
                else read_content(entry.type_key, entry.view(), self.grammars)
            )
        return self._contents[place]

    def tree(self) -> dict[str, Any]:
        """The import tree as {"type_key", "index", "imports": [...]}; a shared module is the same
        dict each time."""
        nodes = [{"type_key": e.type_key, "index": e.index, "imports": []} for e in self.entries]
        for e, node in zip(self.entries, nodes):
            node["imports"] = [nodes[i] for i in e.imports]
        return nodes[0]

    @cached_property
    def importers(self) -> list[list[int]]:
        """For each entry, the indices of the entries that import it."""
        found: list[list[int]] = [[] for _ in self.entries]
        for e in self.entries:
            for i in e.imports:
                found[i].append(e.index)
        return found

    @cached_property
    def functions(self) -> list[str]:
        """Names of all host functions, packed and plain, sorted; helpers of compilers and of TVM
        are left out."""
        return sorted({f.name for f in self.host_functions})

    @cached_property
    def host_functions(self) -> list[HostFunction]:
        """The functions with their symbols, calling conventions and, if the file has them, argument
        types."""
        return exported_functions.host_functions(
            self.image, self.function_table, self.prefix, self.prefixes
        )

    @cached_property
    def _function_names(self) -> set[str]:
        return function_names(self.image)

    @cached_property
    def packed_functions(self) -> list[str]:
        """Names of the packed functions, sorted."""
        return sorted({f.name for f in self.host_functions if f.abi != "plain"})

    @cached_property
    def plain_functions(self) -> list[str]:
        """Names of plain C functions that the table lists and the library has, sorted."""
        return sorted({f.name for f in self.host_functions if f.abi == "plain"})

    @cached_property
    def entry_function(self) -> str | None:
        """The function that `Module.entry_func` calls, None without one."""
        if any(self.image.find(FFI_PREFIX + p + "main") for p in (self.prefix, "")):
            return "main"
        symbol = self.image.find(self.prefix + ENTRY_NAME) or self.image.find(ENTRY_NAME)
        if symbol is None:
            return None
        if symbol.name in self._function_names:
            return ENTRY_NAME
        try:
            text, nul, _ = bytes(self.image.bytes_of(symbol)[1][:_ENTRY_LIMIT]).partition(b"\0")
        except FormatError:
            return None
        return text.decode("utf-8", "backslashreplace") if nul else None

    @cached_property
    def undefined(self) -> list[str]:
        """Symbols that something else must provide (weak ones left out), sorted, without
        versions."""
        return sorted({u.name for u in self.undefined_symbols if not u.weak})

    @cached_property
    def undefined_symbols(self) -> list[Undefined]:
        """Undefined symbols (weak ones included), sorted by name, with their versions and a library
        known to define each."""
        return undefined_symbols(self.image)

    @cached_property
    def unloading(self) -> Unloading | None:
        """The state of the library after its last reference is gone: mapped or not, and the
        reasons; None if it is no shared ELF library."""
        if self.kind != "shared" or not isinstance(self.image, ElfFile):
            return None
        from mblob.inspect.unloading import unloading_of

        return unloading_of(self.image, self.undefined_symbols)

    @cached_property
    def models(self) -> list[Model]:
        """The models in the library, with the inputs, outputs and parameters that it names."""
        from mblob.inspect.models import models_of

        return models_of(self)

    @property
    def plugins(self) -> list[Plugin]:
        """The plug-ins that the library carries, by symbol name. `diagnostics` lists those that
        cannot be read."""
        return self.plugin_tables[0]

    @cached_property
    def plugin_tables(self) -> tuple[list[Plugin], list[FormatError]]:
        """The plug-ins, and what is wrong with tables that cannot be read."""
        return plugin_table.read(self.image)

    @property
    def is_model_library(self) -> bool:
        """True if the file has a blob, or any name of TVM's or mblob's."""
        if self.blob is not None or self.prefixes or self.image.format == "c":
            return True
        if any(s.name.startswith(exported_functions.OUR_PREFIXES) for s in self.image.exports):
            return True
        return self.image.kind == "object" and any(
            s.name in system_library_prefixes.REGISTER for s in self.image.imports
        )

    @property
    def is_of_tvm(self) -> bool:
        """True if TVM wrote the library, also if mblob added code to it."""
        return self.is_model_library and note.is_of_tvm(self.image)

    def require_model(self) -> None:
        """Raise an error if `is_model_library` is false.

        Raises:
            FormatError: "no_blob" (exit code 3).
        """
        if not self.is_model_library:
            raise FormatError.about(self.path, f"{NO_MODEL}", code="no_blob")

    @cached_property
    def era(self) -> Releases:
        """The releases of TVM that can have written the library, and the reasons."""
        from mblob.inspect.tvm_releases import releases_of

        blob = self.blob._replace(symbol=self._blob_name) if self.blob else None
        contents = [(e.type_key, e.content) for e in self.entries]
        functions = self._function_names
        names = {s.name.removeprefix(self.prefix): s.name in functions for s in self.image.exports}
        return releases_of(
            blob, contents, names, {s.name for s in self.image.imports}, self.prefixes
        )

    @cached_property
    def diagnostics(self) -> list[dict[str, Any]]:
        """Remarks on the file: {"code", "severity", "message"}; docs/inspect.md has the codes."""
        from mblob.inspect.diagnostics import diagnose

        return diagnose(self)

    def verify(
        self,
        level: Level = "full",
        against: Sequence[str | os.PathLike[str]] | None = None,
        root: str | os.PathLike[str] = "/",
    ) -> Verification:
        """Check the file again: `level`, `against`, `root`, result and errors as of `mblob.verify`."""
        from mblob.inspect import verification

        self._read(level)
        return verification.describe(self, level, against, root)

    def to_json(self) -> dict[str, Any]:
        """The object that `mblob-pack inspect --json` prints; `mblob/inspect/inspect-1.schema.json`
        is its schema."""
        from mblob.inspect.inspect_json import library_json

        return library_json(self)

    def to_html(self) -> str:
        """One self-contained HTML page about the library; see `mblob.inspect.html`. It contains no
        payloads, and its size is limited: 10,000 entries make about 1 MB."""
        from mblob.inspect.html import page  # 4 ms, and few ask for pages

        return page(self)

    # -- lifetime ----------------------------------------------------------------------------------

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in _OPEN:
                raise ArgumentValueError(one_line(f"{self.path}: the library is closed"))
            close = "" if name.startswith("_") else did_you_mean(name, dir(type(self)))
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{close}")

    def close(self) -> None:
        """Close the file. Existing views keep the mapping."""
        self._data = self._blob_data = None
        for name in _OPEN:
            self.__dict__.pop(name, None)

    def __enter__(self) -> Library:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise ArgumentTypeError(
            one_line(
                f"{self.path}: what mblob.open gives is a view of the file, and cannot be pickled or copied; pass"
                " the path, and open it there"
            )
        )

    def __repr__(self) -> str:
        return (
            f"<mblob.Library {str(self.path)!r}, {self.blob.dialect if self.blob else 'no blob'}>"
        )


def open_library(
    path: str | os.PathLike[str],
    *,
    verify: Level = "header",
    partial: bool = False,
    prefix: str | None = None,
    machine: str | None = None,
) -> Library:
    """Open a library for looking: no code of it runs. See `Library`.

    Args:
        path, verify, partial, prefix, machine: as of `Library`.

    Returns:
        The library. It keeps the file mapped until `close`, or the end of a `with`.

    Raises:
        OSError: the file cannot be read.
        FormatError: it is no library, a damaged one, or has nothing for `machine`.
        DigestError: bytes differ from their digest.
    """
    return Library(path, verify=verify, partial=partial, prefix=prefix, machine=machine)
