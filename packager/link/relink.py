"""The inputs that a library was linked of, as a module tree to link again: the objects and packed
modules of a `.tar`, of object files and archives, or the packed modules of a finished library.

`static_library` gives such trees to programs; `convert` writes them in the other dialect.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mblob.binary import tar
from mblob.binary.container import refuse_archive
from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import ET_REL, STT_FUNC
from mblob.binary.file_kind import AR_MAGIC, ELF_MAGIC, SNIFF_SIZE, elf_header, linkable_kind
from mblob.bytes.mapping import map_file
from mblob.bytes.payload_source import BytesPayload
from mblob.errors import FormatError, MblobError, listed
from mblob.format import classic, ffi_dialect, functions_table, note
from mblob.format.blob_model import Blob
from mblob.format.functions_table import Row
from mblob.format.grammar import GRAMMARS
from mblob.format.system_library_prefixes import BLOBS
from mblob.format.type_keys import GRAPHS, SAFETENSORS
from mblob.inspect.contents import check_stored
from mblob.inspect.library import Library
from mblob.inspect.payload_layouts import size_of
from mblob.inspect.tensors import tensors_of
from mblob.module import Module
from mblob.packager.compile.processes import Job, run_all
from mblob.packager.compile.toolchain import find
from mblob.packager.errors import BuildError, unknown_to_tvm
from mblob.packager.functions import adapters
from mblob.packager.functions.adapters import OF_0_21, forms_of
from mblob.packager.link.request import both_dialects
from mblob.packager.modules.host_modules import FINISHED, csource_module, object_module
from mblob.packager.modules.nodes import (
    DeclaredFunctions,
    HostNode,
    ObjectNode,
    PayloadNode,
    SourceNode,
    node_of,
    suggesting,
)
from mblob.packager.modules.weights import safetensors_module
from mblob.packager.objects import object_files
from mblob.packager.objects.rename import expose_symbols
from mblob.packager.path_arguments import existing_file, workspace
from mblob.packager.write.dialects import DIALECTS
from mblob.source_suffixes import FORMAT_OF, LANGUAGE_OF, OF_C, SHOWN

_MEMBERS = tar.MEMBER_LIMIT  # of an archive


@suggesting()
def static_library(
    library: Any,
    functions: Sequence[str] | str | None = None,
    packed: str | Sequence[str] | None = None,
) -> Module:
    """Host code as objects, which are linked; with the packed modules among them, if there are any.

    Args:
        library: a path to a `.o` or `.a`, or the bytes of one; all of an archive is linked. Or the
            objects of a whole library, as TVM and mblob export it: the path of a `.tar` or of a
            folder with its members, or a list of their paths. The root of its packed modules
            (`devc.o`) is then the root of the result.
        functions, packed: as of `csource_module`. Types come from debug information (`cc -g`). A
            function without a prototype and without debug information is taken for a packed
            function, as TVM's compilers write them, if the object has a mark of TVM, or if its name
            is given. Functions of a `.tar` are callable as they were, and those that are given.

    Raises:
        OSError: no file at the path.
        BuildError: a wrong prototype, or one that mblob cannot call; a finished library; or packed
            modules in two of the files.
        FormatError: a file that is none of these, or a damaged one.
    """
    declared = DeclaredFunctions(functions, packed, "static_library")
    paths = parts_of(library)
    made = object_module(library, declared) if paths is None else tree_of(paths, declared)
    _ = declared.functions  # errors of prototypes are those of this call
    return made


def parts_of(given: Any) -> list[Path] | None:
    """The files of a whole library, if that was given; None of a single object or archive."""
    if isinstance(given, (list, tuple)) and given and isinstance(given[0], (str, os.PathLike)):
        return [existing_file(Path(p), "static_library") for p in given]
    if not isinstance(given, (str, os.PathLike)):
        return None
    path = Path(given)
    if path.is_dir():
        return parts_in(path)
    return [path] if is_tar(existing_file(path, "static_library")) else None


def parts_in(path: Path) -> list[Path]:
    """The objects and sources in a folder; `path` itself if it is none.

    Raises:
        BuildError: a folder without any.
    """
    if not path.is_dir():
        return [path]
    there = sorted(path.iterdir())
    found = [p for p in there if p.suffix in _PARTS]
    if not found:
        has = f"only {listed((p.name for p in there), 6)}" if there else "no files"
        raise BuildError(f"{path}: a folder without objects or sources; it has {has}")
    return found


_PARTS = (".o", ".a", *FORMAT_OF)


def is_tar(path: Path) -> bool:
    """True if a file is a `.tar` of objects."""
    with path.open("rb") as file:
        return linkable_kind(file.read(SNIFF_SIZE)) == "tar"


def has_blob(path: Path) -> bool:
    """True if a file is the object with packed modules, or its source, `devc.c`."""
    if path.suffix in FORMAT_OF:
        return _is_blob(path.read_text("utf-8", "surrogateescape"))
    with path.open("rb") as file:
        head = file.read(SNIFF_SIZE)
    if not head.startswith(ELF_MAGIC) or elf_header(head)("e_type") != ET_REL:
        return False
    elf = ElfFile(map_file(path), str(path))
    return any(s.name in BLOBS and s.is_defined for s in elf.symtab)


def _is_blob(text: str) -> bool:
    """True for C text with the packed modules as a table of bytes."""
    return any(f"{symbol}[" in text for symbol in BLOBS)


def tree_of(paths: Iterable[Path], declared: DeclaredFunctions) -> Module:
    """The module tree of the objects of a library.

    Args:
        declared: of its functions; without a list of them, of all but those of sources in a `.tar` with packed
            modules, which a compiler of models wrote.

    Raises:
        BuildError, FormatError, OSError: as of `static_library`.
    """
    with workspace(None) as work:
        contents = Contents()
        of_tars: set[int] = set()  # numbers of objects
        for i, path in enumerate(paths):
            folder = work / str(i)
            folder.mkdir()
            first = len(contents.host)
            if path.suffix in FORMAT_OF:
                contents.add_file(path, str(path), folder)
            else:
                read_into(contents, path, folder)
            of_tars.update(range(first, len(contents.host)) if is_tar(path) else ())
        contents.check_linkable()
        contents.expose_forms(work)
        given = declared
        for i, node in enumerate(contents.host if declared.is_open else ()):
            if i not in of_tars or contents.blob is None or not isinstance(node, SourceNode):
                node.declared, given = given, declared.without_prototypes()
        root = contents.tree()
        for node in contents.host:
            if not isinstance(node, ObjectNode) or not isinstance(node.content, Path):
                continue
            if work in node.content.parents:  # a folder that is gone when the tree is used
                node.content = node.content.read_bytes()
        if not declared.is_open:
            node = next(n for n in map(node_of, root.walk()) if isinstance(n, HostNode))
            node.declared = declared
        if contents.dialect is not None:
            is_of_mblob = (
                contents.rows and not of_tars
            )  # with adapters for objects of another dialect
            its_own = set(contents.host if is_of_mblob else (contents.host[i] for i in of_tars))
            for found in map(node_of, root.walk()):
                if not isinstance(found, HostNode) or found in its_own:  # others tell their own
                    found.home = contents.dialect, contents.label
    return root


def read(path: Path, work: Path) -> Contents:
    """The contents of a file."""
    found = Contents()
    read_into(found, path, work)
    return found


def read_into(found: Contents, path: Path, work: Path) -> None:
    """Add what a file holds."""
    with path.open("rb") as file:
        head = file.read(SNIFF_SIZE)
    if head.startswith(ELF_MAGIC) and elf_header(head)("e_type") != ET_REL:
        found.add_library(path)
    elif head.startswith((ELF_MAGIC, AR_MAGIC)):
        found.add_file(path, str(path), work)
    elif linkable_kind(head) == "tar":
        _read_tar(found, path, work)
    else:
        raise FormatError(
            f"{path}: neither a shared library nor objects of one (.tar, .o, .a); it starts with {head[:8]!r}",
            code="not_elf",
            offset=0,
        )


def _read_tar(found: Contents, path: Path, work: Path) -> None:
    """Members are read for what they hold; their names lead nowhere."""
    data = tar.content(map_file(path), str(path))
    has_code, others = False, []
    for i, (member, start, size) in enumerate(tar.files(data, str(path))):
        name = Path(member).name
        refuse_archive(data[start : start + size], f"{path}({member})")
        if not _is_code(Path(name), bytes(data[start : start + len(AR_MAGIC)])):
            others.append(name)  # left out, as of a folder
            continue
        has_code = True
        copy = work / f"member{i}" / (name[-50:] or "object")  # of at most 255 bytes
        copy.parent.mkdir()
        copy.write_bytes(data[start : start + size])
        found.add_file(copy, f"{path}({name})", work)
    if not has_code:
        has = f"only {listed(others, 6)}" if others else "no files"
        raise BuildError(f"{path}: a tar archive without objects or sources; it has {has}")


def _is_code(path: Path, start: bytes) -> bool:
    """True if a member of a `.tar` is an object, an archive or a source, by its suffix or its first bytes."""
    return path.suffix in (*_PARTS, ".tar") or start.startswith((ELF_MAGIC, AR_MAGIC))


@dataclass
class Contents:
    """The contents of the input, as far as it is read.

    Attributes:
        host: objects and sources of the host code, without what mblob generated for one dialect
            alone.
        rows: of the table of functions.
        functions: of a finished library, which cannot be linked again.
        calls: the dialect that all of these are called in; None if there are none, or some of each.
        blob, data, label: the packed modules, their bytes, and the file that they are in.
        opens_in_tvm: TVM wrote the packed modules, and knows all their keys.
        machine: what a finished library is for.
    """

    host: list[HostNode] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    calls: str | None = None
    blob: Blob | None = None
    data: memoryview = field(default_factory=lambda: memoryview(b""))
    label: str = ""
    opens_in_tvm: bool = False
    machine: object_files.ElfTarget | None = None

    # -- reading -----------------------------------------------------------------------------------

    def add_library(self, path: Path) -> None:
        """A finished library. Views of it outlive its closing: they keep the mapping."""
        with Library(path, verify="full") as library:  # new digests would hide damage
            if not library.is_model_library:
                raise FormatError(
                    f"{path}: no model library: it has no blob and no name of TVM's", code="no_blob"
                )
            self.functions = library.functions
            abis = {f.abi for f in library.host_functions} - {"plain"}
            self.calls = {"ffi": "ffi", "packed": "classic"}[abis.pop()] if len(abis) == 1 else None
            self.machine = object_files.machine_of(library.elf)
            if library.blob is not None:
                symbol = library.elf.find(library.blob.symbol)
                assert symbol is not None
                data = library.elf.bytes_of(symbol)[1]
                self._set_blob(library.blob, data, str(path), library.is_of_tvm)

    def add_file(self, path: Path, label: str, work: Path) -> None:
        """An object, an archive, or a source."""
        fmt = FORMAT_OF.get(path.suffix)
        if fmt is not None and LANGUAGE_OF[fmt] not in OF_C:
            raise BuildError(
                f"{label}: {SHOWN[LANGUAGE_OF[fmt]]}, expected C, C++ or objects; compile it, and pack it anew"
            )
        if fmt is not None:
            self._add_source(path, fmt, label, work)
            return
        for i, (name, data) in enumerate(object_files.objects_in(path, label)):
            if i >= _MEMBERS:
                raise FormatError(
                    f"{label}: more than {_MEMBERS} members, expected objects", code="archive"
                )
            self._add_object(path, name, data, name == label, work)

    def _add_source(self, path: Path, fmt: str, label: str, work: Path) -> None:
        text = path.read_text("utf-8", "surrogateescape")
        if _is_blob(text):
            made = work / f"{path.stem}.packed.o"
            _compile(path, made, work)
            self.add_file(made, label, work)
            return
        is_copy = label != str(path)  # in a folder that is gone when it is compiled
        self.host.append(SourceNode(text if is_copy else path, fmt))

    def _add_object(
        self, path: Path, label: str, data: memoryview, alone: bool, work: Path
    ) -> None:
        elf = ElfFile(data, label)
        names = {s.name: s for s in elf.symtab if s.is_defined}
        undefined = {s.name for s in elf.symtab if not s.is_defined}
        for registrar in (d.register for d in DIALECTS.values()):
            if registrar in undefined:
                raise BuildError(
                    f"{label}: an object of a system library, which announces itself to one runtime ({registrar});"
                    " convert a shared library, or its objects"
                )
        symbol = next((name for name in BLOBS if name in names), None)
        if symbol is not None:
            code = next((s.name for s in names.values() if s.binding and s.type == STT_FUNC), None)
            if code is not None:
                raise BuildError(
                    f"{label} defines {symbol}, the packed modules of another library, and code beside them ({code})"
                )
            self._add_blob(elf, symbol, label)
            return
        if functions_table.SYMBOL in names:
            self._add_table(elf, label)
            return
        if any(name.startswith(adapters.MARK) for name in names) or path.name == "mblob_defaults.o":
            return  # they are made anew, for the other dialect
        if not alone:  # a member of an archive
            path = work / f"archived{len(self.host)}_{len(self.rows)}.o"
            path.write_bytes(data)
        self.host.append(ObjectNode(path, label=label))

    def _add_blob(self, elf: ElfFile, name: str, label: str) -> None:
        data = _contents(elf, name, label)
        try:
            blob = (
                classic.read(data, level="full", measures=size_of)
                if name == classic.SYMBOL
                else ffi_dialect.read(data, name, level="full", measures=size_of)
            )
        except MblobError as error:
            error.prefix(label)
            raise
        is_of_tvm = blob.index_offset is None or bool(note.announced(elf).flags & note.OF_TVM)
        self._set_blob(blob, data, label, is_of_tvm)

    def _set_blob(self, blob: Blob, data: memoryview, label: str, is_of_tvm: bool) -> None:
        if self.blob is not None:
            files = {self.blob.dialect: self.label, blob.dialect: label}
            who = f"{self.label} and {label}" if len(files) < 2 else both_dialects(files)
            raise BuildError(
                f"{who}: packed modules of two libraries, and a library has one tree; give those of one of them"
            )
        self.blob, self.data, self.label = blob, data, label
        self.opens_in_tvm = is_of_tvm and not unknown_to_tvm(blob.entries)

    def _add_table(self, elf: ElfFile, label: str) -> None:
        others = [
            s.name
            for s in elf.symtab
            if s.is_defined and s.binding and s.name != functions_table.SYMBOL
        ]
        if others:
            raise BuildError(
                f"{label}: a table of functions, and {others[0]} beside it, as fcompile= links them; pack its sources"
                " again"
            )
        table = bytes(_contents(elf, functions_table.SYMBOL, label))
        self.rows += functions_table.decode(table, unseen=True)

    # -- what becomes of it ------------------------------------------------------------------------

    @property
    def dialect(self) -> str | None:
        """Of the packed modules; 0.21 wrote payloads of its own. None without any."""
        if self.blob is None:
            return None
        return "ffi 0.21" if self.blob.symbol == ffi_dialect.SYMBOL_OF_0_21 else self.blob.dialect

    def check(self, target: str, label: str) -> None:
        """Refuse what cannot be written in the dialect `target`.

        Raises:
            BuildError: saying why, and what to do.
        """
        if self.dialect == "ffi 0.21" and self.calls == "ffi":
            raise BuildError(f"{label}: {OF_0_21}")
        if target in (self.dialect, self.calls):
            raise BuildError(f"{label}: of the {target} dialect already")

    def check_linkable(self) -> None:
        """Refuse what cannot be linked again.

        Raises:
            BuildError: a finished library, or one of TVM 0.21.
        """
        if self.machine is not None:
            raise BuildError(f"{self.label or 'a file'}: {FINISHED}")
        if self.dialect == "ffi 0.21":
            raise BuildError(f"{self.label}: {OF_0_21}")

    def expose_forms(self, work: Path) -> None:
        """Show the packed functions again that an earlier conversion hid behind adapters."""
        forms = {form for row in self.rows for form in forms_of(row.name)}
        for i, node in enumerate(self.host):
            if (
                not isinstance(node, ObjectNode)
                or node.elsewhere
                or not isinstance(node.content, Path)
            ):
                continue
            if forms & object_files.read(node.content, node.label).hidden:
                copy = work / f"exposed{i}.o"
                copy.write_bytes(node.content.read_bytes())
                expose_symbols(copy, forms, node.label)
                self.host[i] = ObjectNode(copy, label=node.label)

    def tree(self) -> Module:
        """The module tree.

        Raises:
            FormatError: a payload without a digest is damaged.
        """
        host = self._host()
        if self.blob is None:
            return host
        grammars = GRAMMARS if self.dialect == "classic" else ffi_dialect.grammars_of(self.blob)
        made: list[Module] = []
        for e in self.blob.entries:
            if e.offset is None:
                made.append(host)
                continue
            payload = self.data[e.offset : e.offset + e.size]
            if not e.digest:
                check_stored(
                    f"{self.label}: entry {e.index} ({e.type_key})", e.type_key, payload, grammars
                )
            if e.type_key == SAFETENSORS and e.data:
                made.append(safetensors_module(payload))
                continue
            written = None if e.data else self.dialect
            node = PayloadNode(
                e.type_key,
                BytesPayload(payload),
                data=e.data,
                dialect=written,
                alignment=e.alignment if e.bulk else 1,
            )
            node.is_found_by_key = e.data
            if e.type_key in GRAPHS:
                node.tensor_names = [t.name for t in tensors_of(e.type_key, payload)]
            made.append(Module(node=node))
        for e, module in zip(self.blob.entries, made):
            # The last import is numbered first (docs/format.md, section 5), so that modules keep
            # their numbers.
            for child in reversed(e.imports):
                if made[child] is not module:  # TVM 0.7 wrote `_lib` for each host module
                    module.import_module(made[child])
        root = made[0]
        if all(module is not host for module in root.walk()):
            root.import_module(host)  # a tree without a library, which the ffi dialect has to have
        for module in root.walk():
            node_of(module).opens_in_tvm = self.opens_in_tvm
        return root

    def tree_with(self, finished: HostNode) -> Module:
        """The module tree of a finished library, whose code `finished` stands for."""
        self.rows += finished.rows
        self.host.append(finished)
        return self.tree()

    def _host(self) -> Module:
        """The host modules, the first of which imports the others; an empty one if there is no host
        code."""
        if not self.host:
            return csource_module("")
        for node in self.host:
            node.rows = tuple(self.rows)
        made = [Module(node=node) for node in self.host]
        for module in made[1:]:
            made[0].import_module(module)
        return made[0]


def _contents(elf: ElfFile, name: str, label: str) -> memoryview:
    """The bytes of an object that an object file defines."""
    symbol = next(s for s in elf.symtab if s.name == name and s.is_defined)
    if not 0 < symbol.st_shndx < len(elf.sections):
        raise FormatError(
            f"{label}: {name} lies in section {symbol.st_shndx}, which it has not",
            code="elf_header",
        )
    data = elf.contents(elf.sections[symbol.st_shndx])
    if symbol.st_value > len(data) or symbol.st_size > len(data) - symbol.st_value:
        raise FormatError(
            f"{label}: {name} of {symbol.st_size} bytes ends behind its section",
            code="elf_truncated",
        )
    return (
        data[symbol.st_value : symbol.st_value + symbol.st_size]
        if symbol.st_size
        else data[symbol.st_value :]
    )


def _compile(source: Path, made: Path, work: Path) -> None:
    tools = find(None, None)
    run_all(
        [
            Job(
                source.name,
                (*tools.cc, "-fPIC", "-x", "c", "-c", str(source.absolute()), "-o", str(made)),
            )
        ],
        work,
    )
