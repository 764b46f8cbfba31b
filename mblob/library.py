"""`mblob.open`: look into a library without running it. Nothing here maps a file for execution."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from mblob import classic, exported, ffi_dialect, note, plugin_table
from mblob.elf import ElfFile
from mblob.elf_records import ET_DYN, PF_X, PT_GNU_STACK, STB_WEAK, STT_FUNC, STT_NOTYPE, STT_OBJECT, STT_TLS
from mblob.errors import FormatError, MblobError
from mblob.grammar import DEVICE_KEYS, GRAMMARS, FunctionInfo, Grammars, decode_payload
from mblob.mapping import hop, map_file
from mblob.model import Blob, Entry
from mblob.module import LIBRARY
from mblob.plugin_table import Plugin
from mblob.source_text import source_of

SCHEMA = "mblob/inspect/1"


@dataclass(frozen=True)
class EntryView:
    """An entry of an open library.

    Attributes:
        index, type_key, size, imports, data, alignment, digest: as `mblob.model.Entry`.
        offset: of the payload in the file, in bytes; None for the library.
    """

    index: int
    type_key: str
    offset: int | None
    size: int
    imports: tuple[int, ...]
    data: bool
    alignment: int
    digest: bytes
    _library: Library

    def view(self) -> memoryview:
        """The payload: read-only, no copy, valid while the library is open (and as long as the view lives)."""
        if self.offset is None:
            return memoryview(b"")
        return self._library._bytes()[self.offset : self.offset + self.size]

    def fields(self) -> dict[str, Any]:
        """What the payload says, by the names of docs/format.md, sections 3 and 11; {} where its key has no grammar.
        Strings are views.

        Raises:
            FormatError: it breaks the grammar of its key.
        """
        return decode_payload(self.type_key, self.view(), self._library._grammars)

    @property
    def kernels(self) -> list[FunctionInfo]:
        """The kernels that a device module lists, in stored order; [] for other modules.

        Raises:
            FormatError: the payload breaks the grammar of its key.
        """
        return list(self.fields().get("functions", {}).values()) if self.type_key in DEVICE_KEYS else []

    def source(self, fmt: str = "") -> str:
        """Text of the payload, as `Module.get_source`: device code, graph JSON; "" if it has none."""
        return source_of(self.type_key, self.view(), fmt, self._library._grammars) or ""


class Library:
    """A library file, opened for looking. Use it as a context manager, or `close()` it."""

    def __init__(self, path: str | os.PathLike[str], *, verify: str = "header", partial: bool = False) -> None:
        """Map the file and read its blob.

        Args:
            verify: "off", "header" (index and its checksums; all of a small blob), or "full" (every payload).
            partial: open a library without an index that has a type key nobody knows, too: what stands before it
                is listed, the tree is not known, and `diagnostics` has the error.

        Raises:
            OSError: the file cannot be read.
            FormatError: it is no library ("not_elf"), or a damaged one.
            DigestError: bytes differ from their digest.
        """
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"mblob.open: expected a path, found {type(path).__name__} (load_module takes more)")
        self._problem: FormatError | None = None
        if not os.fspath(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        self.path = Path(path)
        self._data: memoryview | None = map_file(self.path)
        try:
            if not self._data:
                raise FormatError(f"{self.path}: an empty file", code="not_elf", offset=0)
            if verify != "full":
                hop(self._data, begin=True)
            self.elf = ElfFile(self._data, str(self.path))
            self.elf.check_tables()
            self.blob_offset, self.blob = self._read(verify, partial)
            self.function_table = exported.read_table(self.elf)
            hop(self._data, begin=False)  # payloads are read from one end to the other
        except BaseException as error:
            self.close()
            if isinstance(error, MblobError) and str(self.path) not in str(error):
                error.prefix(str(self.path))
            raise

    def _read(self, level: str, partial: bool = False) -> tuple[int, Blob | None]:
        if level not in classic.LEVELS:
            raise ValueError(f"verify: expected one of {', '.join(classic.LEVELS)}, found {level!r}")
        expected = bool(note.announced(self.elf).flags & note.HAS_INDEX)
        symbol = self.elf.find(classic.SYMBOL)
        if symbol is None:
            for name in ffi_dialect.SYMBOLS:
                if (symbol := self.elf.find(name)) is not None:
                    return self._read_ffi(*self.elf.bytes_of(symbol), name, level, partial)
            if expected:
                raise FormatError(
                    f"{self.path}: its note announces a blob, but {classic.SYMBOL} is missing", code="index_footer"
                )
            return 0, None
        offset, data = self.elf.bytes_of(symbol)
        try:
            return offset, classic.read(data, level=level, index_expected=expected)
        except FormatError as error:
            return offset, self._what_was_read(error, partial)

    def _read_ffi(self, offset: int, data: memoryview, symbol: str, level: str, partial: bool) -> tuple[int, Blob]:
        try:
            return offset, ffi_dialect.read(data, symbol, level=level)
        except FormatError as error:
            return offset, replace(self._what_was_read(error, partial), dialect="ffi", symbol=symbol)

    def _what_was_read(self, error: FormatError, partial: bool) -> Blob:
        """What stands before an unknown key, if the caller wants a part."""
        if not partial or not isinstance(error.partial, Blob):
            raise error
        self._problem = error
        return error.partial

    @property
    def _grammars(self) -> Grammars:
        return ffi_dialect.grammars_of(self.blob) if self.blob and self.blob.dialect == "ffi" else GRAMMARS

    def _bytes(self) -> memoryview:
        if self._data is None:
            raise ValueError(f"{self.path}: the library is closed")
        return self._data

    # -- what is in it ----------------------------------------------------------------------------------

    @property
    def dialect(self) -> str | None:
        """ "classic", "ffi", or None for a library without a blob."""
        return self.blob.dialect if self.blob else None

    @property
    def target(self) -> dict[str, Any]:
        """Machine, bits and byte order, from the ELF header."""
        return {"machine": self.elf.machine, "bits": self.elf.bits, "endian": self.elf.endian}

    @cached_property
    def entries(self) -> list[EntryView]:
        """The modules in stored order; a library without a blob is one entry, `library`."""
        found: Sequence[Entry] = self.blob.entries if self.blob else (Entry(0, LIBRARY, None, 0, ()),)
        return [
            EntryView(
                e.index, e.type_key, None if e.offset is None else self.blob_offset + e.offset, e.size, e.imports,
                e.data, e.alignment, e.digest, self,
            )
            for e in found
        ]  # fmt: skip

    def tree(self) -> dict[str, Any]:
        """The import tree as {"type_key", "index", "imports": [...]}; a shared module is the same dict each time."""
        nodes = [{"type_key": e.type_key, "index": e.index, "imports": []} for e in self.entries]
        for e, node in zip(self.entries, nodes):
            node["imports"] = [nodes[i] for i in e.imports]
        return nodes[0]

    @cached_property
    def functions(self) -> list[str]:
        """Names of all host functions, packed and plain, sorted; helpers of compilers and of TVM are left out."""
        return sorted({*self.packed_functions, *self.plain_functions})

    @cached_property
    def packed_functions(self) -> list[str]:
        """Names that a module calls through the packed convention, sorted."""
        return exported.packed_functions(self.elf, self.function_table)

    @cached_property
    def plain_functions(self) -> list[str]:
        """Names of plain C functions that the table lists and the library has, sorted."""
        return sorted(r.name for r in self.function_table if r.abi == "plain" and self.elf.find(r.symbol))

    @cached_property
    def undefined(self) -> list[str]:
        """Symbols that something else must provide (weak ones left out), sorted, without versions."""
        return sorted(
            {
                s.name
                for s in self.elf.dynsym
                if not s.is_defined and s.binding != STB_WEAK and s.type in (STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_TLS)
            }
        )

    @cached_property
    def plugins(self) -> list[Plugin]:
        """The plug-ins that the library carries, by the names of their symbols. `diagnostics` tells those that cannot
        be read."""
        return self._plugin_tables[0]

    @cached_property
    def _plugin_tables(self) -> tuple[list[Plugin], list[FormatError]]:
        return plugin_table.read(self.elf)

    @property
    def is_model_library(self) -> bool:
        """Whether there is a blob, or any name of TVM's or ours."""
        ours = exported.OUR_PREFIXES
        return self.blob is not None or any(s.is_defined and s.name.startswith(ours) for s in self.elf.dynsym)

    @cached_property
    def diagnostics(self) -> list[dict[str, Any]]:
        """Remarks on the file: {"code", "severity", "message"}."""
        found = []
        stack = next((s for s in self.elf.segments if s.p_type == PT_GNU_STACK), None)
        if stack is not None and stack.p_flags & PF_X:
            found.append(("executable_stack", "asks for an executable stack; glibc 2.41 and later refuse to load it"))
        if self.elf.e_type != ET_DYN:
            found.append(("not_shared", f"ELF type {self.elf.e_type}, a shared library has {ET_DYN}"))
        if self.dialect == "ffi":
            found.append(("ffi_dialect", "of the ffi dialect (TVM 0.21 and later): it can be looked into, not loaded"))
        found.extend(self._odd_payloads())
        plugins, broken = self._plugin_tables
        found += [("plugin_table", f"a plug-in that cannot be used: {problem}") for problem in broken]
        for plugin in plugins:
            if plugin.abi != plugin_table.ABI:
                what = f"plug-in {plugin.name!r} is built for version {plugin.abi} of the plug-in interface"
                found.append(("plugin_abi", f"{what}, this is version {plugin_table.ABI}: it is not used"))
        remarks = [{"code": code, "severity": "warning", "message": text} for code, text in found]
        if self._problem is not None:
            remarks.insert(0, {"code": self._problem.code, "severity": "error", "message": str(self._problem)})
        return remarks

    def _odd_payloads(self) -> Iterator[tuple[str, str]]:
        """Device modules whose kernels cannot be listed."""
        for e in self.entries:
            try:
                _ = e.kernels
            except FormatError as error:
                yield error.code, f"entry {e.index} ({e.type_key}): {error}"

    def verify(self, level: str = "full") -> None:
        """Check the file again at `level`.

        Raises:
            FormatError, DigestError: what is wrong.
        """
        self._read(level)

    def to_json(self) -> dict[str, Any]:
        """The object that `mblob-pack inspect --json` prints."""
        blob = None
        if self.blob:
            blob = {
                "symbol": self.blob.symbol,
                "offset": self.blob_offset,
                "size": self.blob.size,
                "index": self.blob.index_offset is not None,
                "producer": self.blob.producer or None,
                "target": self.blob.target or None,
            }
        return {
            "schema": SCHEMA,
            "file": str(self.path),
            "dialect": self.dialect,
            "target": self.target,
            "blob": blob,
            "entries": [
                {
                    "index": e.index,
                    "type_key": e.type_key,
                    "offset": e.offset,
                    "size": e.size,
                    "imports": list(e.imports),
                    "data": e.data,
                    "alignment": e.alignment,
                    "digest": e.digest.hex() or None,
                    **_kernels_json(e),
                }
                for e in self.entries
            ],
            "functions": self.functions,
            "plain_functions": self.plain_functions,
            "undefined": self.undefined,
            "plugins": [plugin.to_json() for plugin in self.plugins],
            "diagnostics": self.diagnostics,
        }

    # -- lifetime -----------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of the file. Views that are still held keep the mapping."""
        self._data = None
        self.__dict__.pop("elf", None)
        self.__dict__.pop("entries", None)

    def __enter__(self) -> Library:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<mblob.Library {str(self.path)!r}, {self.dialect or 'no blob'}>"


def listed_kernels(entry: EntryView) -> list[FunctionInfo]:
    """Kernels of an entry; [] where they cannot be listed, which `Library.diagnostics` tells."""
    try:
        return entry.kernels
    except FormatError:
        return []


def _kernels_json(entry: EntryView) -> dict[str, Any]:
    kernels = listed_kernels(entry)
    if not kernels:
        return {}
    return {
        "kernels": [
            {"name": k.name, "arg_types": [str(t) for t in k.arg_types], "launch_param_tags": list(k.launch_param_tags)}
            for k in kernels
        ]
    }


def open_library(path: str | os.PathLike[str], *, verify: str = "header", partial: bool = False) -> Library:
    """Open a library for looking: no code of it runs. See `Library`."""
    return Library(path, verify=verify, partial=partial)
