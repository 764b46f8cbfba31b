"""The contents of modules made by constructors: host code to link, and payloads to serialize. Also
the checks of arguments that all constructors share."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mblob.bytes.mapping import map_file
from mblob.bytes.payload_source import (
    BytesPayload,
    FilePayload,
    IterPayload,
    Payload,
    as_bytes_view,
)
from mblob.dtype import DataType
from mblob.errors import ArgumentTypeError, did_you_mean
from mblob.format.functions_table import Row
from mblob.format.grammar import FunctionInfo
from mblob.format.ndarray import ArrayRecord, as_record
from mblob.format.type_keys import LIBRARY, STATIC_LIBRARY, C
from mblob.module import Module, Node
from mblob.node import EXPORTABLE, SERIALIZABLE
from mblob.packager.errors import BuildError, BuildTypeError, refused
from mblob.packager.modules.prototypes import Prototype
from mblob.packager.path_arguments import existing_file
from mblob.source_suffixes import LANGUAGE_OF

if TYPE_CHECKING:
    from mblob.binary.dwarf_functions import Function
    from mblob.packager.modules.source_comments import Comments

F = TypeVar("F", bound=Callable[..., Any])


ALL = "*"  # among functions: all that are callable without a list


class DeclaredFunctions:
    """Plain C functions that get a packed function.

    Args:
        functions: prototypes and names, as of `csource_module`; None: all whose types the source or
            debug information tells; "*" among them: those, too.
        packed: which packed functions take the bare name, as of `csource_module`.
        who: the function that they are arguments of.
    """

    def __init__(
        self,
        functions: Sequence[str] | str | None = (),
        packed: str | Sequence[str] | None = None,
        who: str = "",
    ):
        self.is_open = functions is None
        self._given: Any = () if functions is None else functions
        if isinstance(functions, Iterable):
            given = (functions,) if isinstance(functions, str) else tuple(functions)
            self.is_open = ALL in given
            self._given = tuple(text for text in given if text != ALL)
        self._packed = packed
        self.who = who
        self.has_code = (
            False  # a source or an object, which may know words that its prototypes have
        )

    def without_prototypes(self) -> DeclaredFunctions:
        """The same for further modules of a library, whose prototypes one module has."""
        return DeclaredFunctions(None if self.is_open else (), self._packed, self.who)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Functions that need debug information: plain ones without types, or with types of the source's
        own; and packed ones."""
        given = self._given if isinstance(self._given, tuple) else ()
        names = (name for name in given if isinstance(name, str) and _is_name(name))
        return (*names, *self.of_source)

    @property
    def of_source(self) -> dict[str, str]:
        """By name, texts of prototypes with words that only the source of their functions explains."""
        return self._read[1]

    @cached_property
    def _read(self) -> tuple[tuple[Prototype, ...], dict[str, str]]:
        """The prototypes, and those that cannot be read without the source."""
        given = self._given
        if isinstance(given, tuple):
            given = [text for text in given if not (isinstance(text, str) and _is_name(text))]
            if not given:
                return (), {}
        from mblob.packager.modules.prototype_parser import parse  # with pycparser

        try:
            return parse(given), {}
        except BuildError:
            if not self.has_code or not isinstance(given, list):
                raise
            from mblob.packager.modules.source_words import each_readable

            return each_readable(given)

    @property
    def is_given(self) -> bool:
        """True if there are prototypes that need no source."""
        return bool(self._read[0])

    @property
    def looks(self) -> bool:
        """True if prototypes are made from debug information."""
        return self.is_open or bool(self.names)

    @cached_property
    def functions(self) -> tuple[Prototype, ...]:
        """The prototypes.

        Raises:
            BuildError: one that is none or has no packed function, or a name in `packed` that none of
                them has.
        """
        found = self._read[0]
        self.packed_among([p.name for p in found], has_all=not self.looks)
        return found

    @property
    def packed(self) -> tuple[str, ...]:
        """Names among them whose packed function takes the bare name.

        Raises:
            BuildError: as of `functions`.
        """
        return self.packed_among([p.name for p in self.functions], has_all=not self.looks)

    def packed_among(self, known: Sequence[str], *, has_all: bool = True) -> tuple[str, ...]:
        """Names of functions whose packed function takes the bare name.

        Args:
            known: functions that get one.
            has_all: there are no others.

        Raises:
            BuildError: as of `functions`.
        """
        packed = self._packed
        if packed is None:
            return ()
        if packed == "name" and "name" not in known:
            if not known and has_all:
                what = "packed= needs functions="
                raise BuildError(f"{self.who}: {what}: prototypes of what shall be packed")
            return tuple(known)
        names = (packed,) if isinstance(packed, str) else packed
        if not isinstance(names, Iterable) or not all(isinstance(n, str) for n in names):
            raise BuildTypeError(
                f"{self.who}: packed: expected the name of a function or a list of names, found {packed!r}"
            )
        for name in names:
            if name not in known and has_all:
                raise BuildError(
                    f"{self.who}: packed= names {name!r}, and functions= has no prototype of it; it has:"
                    f" {', '.join(known) or 'none'}{did_you_mean(name, known)}"
                )
        return tuple(name for name in names if name in known)


OPERATOR = "operator"  # begins names of C++


def without_arguments(name: str) -> str:
    """A name without the arguments of a template."""
    return name if re.search(r"\boperator\W", name) else name.partition("<")[0]


def _is_name(text: str) -> bool:
    """True if a text is a name of C, or one of C++ with its namespaces. No function has that of an operator, or of a
    template with arguments (`scale<float>`), and the error shows one to write."""
    return _NAME.fullmatch(text) is not None


_NAME = re.compile(rf"(?:(?!\d)\w+::)*(?:{OPERATOR}[^\w\s]{{1,3}}|(?!\d)\w+(?:<.*>)?)")


NOTHING = DeclaredFunctions()


def comment_finder() -> Callable[..., str | None]:
    """The comment above a function of a host module, as of `Comments.of`, behind the module; each source is
    read once."""
    read = cache(lambda node: node.comments())

    def find(node: HostNode, name: str, line: int = 0) -> str | None:
        found = read(node)
        return None if found is None else found.of(name, line)

    return find


class HostNode(Node):
    """Host code: linked into the library, never serialized.

    Attributes:
        declared: plain C functions that get a packed function.
        rows: of the table of functions that came with it, if it was linked before.
    """

    rows: tuple[Row, ...] = ()

    def __init__(self, type_key: str, declared: DeclaredFunctions) -> None:
        self.type_key = type_key
        self.declared = declared

    @property
    def label(self) -> str:
        """The name of the host code in messages."""
        raise NotImplementedError

    @property
    def properties(self) -> int:
        return EXPORTABLE

    def declares(self, name: str) -> bool:
        prototypes = self.declared.functions
        return name in self.declared.names or any(p.name == name for p in prototypes)

    def comments(self) -> Comments | None:
        """The comments above functions that its source defines; None if it has no comment."""
        return None

    def explain(self, name: str) -> str | None:
        return "its code is not linked yet: call export_library, then load_module"


class SourceNode(HostNode):
    """C, C++, CUDA or Fortran source: a file, which stays where it is, or a text.

    Attributes:
        fmt: of `mblob.source_suffixes.LANGUAGE_OF`.
        options: compiler options of this module alone.
    """

    def __init__(
        self,
        code: Path | str,
        fmt: str,
        declared: DeclaredFunctions = NOTHING,
        options: Sequence[str] = (),
    ) -> None:
        super().__init__(C, declared)
        declared.has_code = declared is not NOTHING
        self.code = code
        self.fmt = fmt
        self.options = tuple(options)

    @property
    def label(self) -> str:
        return (
            str(self.code) if isinstance(self.code, Path) else f"csource_module text ({self.fmt})"
        )

    def text(self) -> str:
        return (
            self.code.read_text("utf-8", "surrogateescape")
            if isinstance(self.code, Path)
            else self.code
        )

    def source(self, fmt: str) -> str | None:
        return self.text() if fmt in ("", self.fmt) else None

    def comments(self) -> Comments | None:
        try:
            text = self.text()
        except OSError:
            return None  # which the compiler tells
        is_fortran = LANGUAGE_OF[self.fmt] == "fortran"
        has_some = any(mark in text for mark in (("!",) if is_fortran else ("//", "/*")))
        if not has_some:
            return None
        from mblob.packager.modules.source_comments import Comments

        return Comments(text, is_fortran=is_fortran)


class ObjectNode(HostNode):
    """An object file or an archive of them: a file, or its bytes.

    Attributes:
        elsewhere: it has names alone; what is linked here joins the library that has the code
        (`mblob.packager.join.join`).
        exports: of that library, symbols of functions.
        described: of that library, functions that the caller asks for and whose types it tells.
    """

    exports: tuple[str, ...] = ()
    described: tuple[Function, ...] = ()

    def __init__(
        self,
        content: Path | bytes,
        declared: DeclaredFunctions = NOTHING,
        *,
        label: str = "",
        elsewhere: bool = False,
    ) -> None:
        super().__init__(STATIC_LIBRARY, declared)
        declared.has_code = declared is not NOTHING
        self.content = content
        self.elsewhere = elsewhere
        self._label = label

    @property
    def label(self) -> str:
        if self._label:
            return self._label
        return str(self.content) if isinstance(self.content, Path) else "static_library bytes"


class PiecesPayload:
    """Buffers in a row, kept without copying; can be written any number of times."""

    def __init__(self, pieces: Iterable[Any]) -> None:
        self.pieces = [as_bytes_view(piece) for piece in pieces]

    @property
    def size(self) -> int:
        return sum(len(piece) for piece in self.pieces)

    def chunks(self) -> Iterator[memoryview]:
        return iter(self.pieces)


class PayloadNode(Node):
    """A module that is serialized.

    Attributes:
        type_key: its key in the blob.
        content: its bytes.
        text: what `get_source` answers, if it is text.
        data: opens without a loader.
        alignment, align_at: as of `mblob.format.blob_plan.OutEntry`.
        only_function: name of its one function, None if only its runtime knows its functions.
        kernels: of device code, with what the classic grammar cannot say of them.
        is_found_by_key: programs ask the library for the payload by its key.
        is_unread: its key says what its bytes hold, and nothing has read them.
        tensor_names: of weights, and of the parameters of a graph.
        weights: name, type and shape of each tensor of weights.
        parameters: the same, in their order, if these are the parameters of a program.
        is_order_of_names: that order is the alphabet, and comes from a file whose writers sort names.
        files: that it was read from when it was made.
    """

    files: Sequence[Path] = ()
    is_found_by_key = False
    is_unread = False
    tensor_names: Sequence[str] = ()
    weights: Sequence[tuple[str, DataType, Sequence[int]]] = ()
    parameters: Sequence[tuple[str, DataType, Sequence[int]]] | None = None
    is_order_of_names = False

    def __init__(
        self,
        type_key: str,
        content: Payload,
        text: str | None = None,
        *,
        data: bool = False,
        alignment: int = 1,
        align_at: int = 0,
        only_function: str | None = None,
        dialect: str | None = None,
        kernels: Sequence[FunctionInfo] = (),
    ) -> None:
        self.type_key = type_key
        self.content = content
        self.text = text
        self._data = data
        self.alignment = alignment
        self.align_at = align_at
        self.only_function = only_function
        self.kernels = tuple(kernels)
        self._dialect = dialect
        self._mapping: memoryview | None = None

    def __getstate__(self) -> dict[str, Any]:
        if not isinstance(self.content, FilePayload):
            raise ArgumentTypeError(
                f"a Module {self.type_key!r} that is not packed yet cannot be pickled or copied deeply; pickle what"
                " it is made of, or export it and pickle what load_module gives"
            )
        return {**self.__dict__, "_mapping": None}

    @property
    def data(self) -> bool:
        return self._data

    @property
    def dialect(self) -> str | None:
        return self._dialect

    @property
    def properties(self) -> int:
        return SERIALIZABLE

    def payload(self) -> memoryview:
        """The bytes: the caller's buffer or a mapping of the file, no copy. Pieces of an iterable
        are joined."""
        if isinstance(self.content, IterPayload):
            self.content = BytesPayload(b"".join(self.content.chunks()))
        if isinstance(self.content, BytesPayload):
            return self.content.data
        if isinstance(self.content, FilePayload):
            if self._mapping is None:
                self._mapping = map_file(self.content.path)
            return self._mapping
        return memoryview(b"".join(self.content.chunks()))

    def source(self, fmt: str) -> str | None:
        return self.text


def node_of(module: Module) -> Node:
    """The content of a module; the packager is the one place that tells contents apart."""
    return module._node


def is_host(module: Module) -> bool:
    """True if a module is host code, which is linked and not serialized."""
    return isinstance(node_of(module), HostNode)


def check_serializable(root: Module) -> None:
    """Refuse a tree with a module that can be neither linked nor serialized.

    Raises:
        BuildError: a library that was loaded from a file; the text says where it is in the tree.
    """
    # module -> who was seen to import it first, and at which place
    importers: dict[int, tuple[int, int]] = {}
    for module in root.walk():
        for i, child in enumerate(module.imported_modules):
            importers.setdefault(id(child), (id(module), i))
        if not is_host(module) and module.type_key == LIBRARY:
            raise BuildError(
                f"{_place(module, root, importers)} is a {LIBRARY!r}: linked code of an opened library, which can be"
                " neither linked again nor serialized; pack its objects (static_library) or sources (csource_module)"
            )


def _place(module: Module, root: Module, importers: dict[int, tuple[int, int]]) -> str:
    """The place of a module in the tree, as an expression; of a deep one the last steps."""
    steps: list[str] = []
    at = id(module)
    while at != id(root) and len(steps) < 8:
        at, i = importers[at]
        steps.append(f".imported_modules[{i}]")
    return ("root" if at == id(root) else "root...") + "".join(reversed(steps))


def file_of(module: Module) -> str:
    """The file that a module is made of, or that it is in; "" if there is none, or not one."""
    node = node_of(module)
    if isinstance(node, HostNode):
        return node.label
    if isinstance(node, PayloadNode):
        if isinstance(node.content, FilePayload):
            return str(node.content.path)
        return str(node.files[0]) if node.files else ""
    return node.path


def files_of(root: Module) -> Iterator[tuple[str, Path]]:
    """The kind and the path of each file of a tree."""
    return files_in(node_of(module) for module in root.walk())


def files_in(nodes: Iterable[Node]) -> Iterator[tuple[str, Path]]:
    """The kind and the path of each file of these contents of modules."""
    for node in nodes:
        if isinstance(node, SourceNode) and isinstance(node.code, Path):
            yield "a source", node.code
        elif isinstance(node, ObjectNode) and isinstance(node.content, Path):
            yield "an object", node.content
        elif isinstance(node, PayloadNode):
            what = f"the payload of {node.type_key!r}"
            if isinstance(node.content, FilePayload):
                yield what, node.content.path
            yield from ((what, path) for path in node.files)


def payload_of(given: Any, who: str) -> Payload:
    """The payload that a constructor was given: a path, a buffer, or an iterable of buffers.

    Raises:
        BuildError: something else.
        OSError: no file at the path.
    """
    if isinstance(given, (str, os.PathLike)):
        return FilePayload(existing_file(Path(given), who))
    try:
        return BytesPayload(bytes_of(given))
    except TypeError as exc:
        if isinstance(given, (list, tuple)):
            return PiecesPayload(_piece(item, i, who) for i, item in enumerate(given))
        is_rows = isinstance(given, Iterable) and not isinstance(given, Mapping)
        if is_rows and not _has_buffer(given) and not hasattr(given, "__dlpack__"):
            return IterPayload(given)
        found = str(exc).removeprefix("expected contiguous bytes-like data")
        raise BuildTypeError(
            f"{who}: expected bytes, a path or an iterable of buffers{found}"
        ) from None


def bytes_of(given: Any) -> memoryview:
    """The bytes of a buffer, or of an array that has only `__dlpack__`.

    Raises:
        TypeError: it is neither. ValueError: DLPack's description cannot be.
    """
    try:
        return as_bytes_view(given)
    except TypeError:
        if not hasattr(given, "__dlpack__") or _has_buffer(given):
            raise
        return as_record(given).data


def _has_buffer(given: Any) -> bool:
    try:
        memoryview(given)
    except TypeError:
        return False
    except ValueError:  # of numpy, of elements that have no format
        pass
    return True


def _piece(item: Any, index: int, who: str) -> memoryview:
    try:
        return bytes_of(item)
    except TypeError as exc:
        raise refused(exc, f"{who}: payload[{index}]") from None


def record_of(value: Any, what: str) -> ArrayRecord:
    """The record of an array, as it is written.

    Raises:
        BuildError: it is none; the text starts with `what`.
    """
    try:
        return as_record(value)
    except (TypeError, ValueError) as exc:
        raise refused(exc, what) from None


def suggesting(advice: str = "") -> Callable[[F], F]:
    """For a function: its error about an unknown keyword suggests the argument that was meant, or
    says `advice`."""

    def decorated(function: F) -> F:
        @wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            try:
                return function(*args, **named)
            except TypeError as error:
                if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                    raise  # of something that the function called
                code = function.__code__
                known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
                unknown = next((name for name in named if name not in known), None)
                if unknown is None:
                    raise
                close = did_you_mean(unknown, known) or advice
                raise ArgumentTypeError(
                    f"{function.__name__}: unknown argument {unknown!r}; expected {', '.join(known)}{close}"
                ) from None

        return call  # type: ignore[return-value]

    return decorated
