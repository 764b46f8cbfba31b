"""Constructors of serialized modules: JSON graphs, executor factories with their parameters, blobs.

Device code is made in `packager/device`, weights in `weights.py`.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import ref

from mblob import json_text, texts
from mblob.arguments import mapping, names, wrong_type
from mblob.bytes.payload_source import BytesPayload, as_bytes_view
from mblob.bytes.wire import encode_string, encode_strings, encode_u64
from mblob.errors import FormatError, PortabilityWarning
from mblob.format import graph_json
from mblob.format.blob_plan import PAYLOAD_ALIGN_LIMIT
from mblob.format.ndarray import ArrayRecord, encode_header, read_param_dict
from mblob.format.own_functions import GRAPH_FUNCTIONS
from mblob.format.type_keys import CONST_LOADER, GRAPH_FACTORY, ROWS, SAFETENSORS
from mblob.module import Module
from mblob.packager.errors import BuildError, BuildTypeError, refused, warn
from mblob.packager.modules.nodes import (
    PayloadNode,
    PiecesPayload,
    payload_of,
    record_of,
    suggesting,
)
from mblob.packager.path_arguments import as_json, check_key, payload_or_path

if TYPE_CHECKING:
    from mblob.typed import GraphJson


def json_module(
    kind: str, symbol: str, graph_json: str | Mapping[str, Any], const_names: Sequence[str] = ()
) -> Module:
    """A module of a JSON runtime (dnnl_json, tensorrt, clml, ...); docs/format.md,
    section 3.1, has its layout.

    Args:
        kind: its type key.
        symbol: the name of its one function.
        graph_json: the graph, as text or as what `json.dumps` takes.
        const_names: names of its constants, in the order of the graph's inputs.

    Raises:
        BuildError: a reserved key, what is not JSON, or an argument of a wrong type.
    """
    check_key(kind, "json_module")
    if not isinstance(symbol, str):
        raise wrong_type("json_module", "symbol", "str", symbol, BuildTypeError)
    text = _json_text(graph_json, "json_module")
    constants = names("json_module", "const_names", const_names, error=BuildTypeError)
    try:
        payload = encode_string(symbol) + encode_string(text) + encode_strings(constants)
    except ValueError as exc:
        raise BuildError(f"json_module: {exc}") from None
    return Module(
        node=PayloadNode(kind, BytesPayload(payload), text, only_function=symbol, dialect="classic")
    )


def graph_executor_factory(
    graph_json: GraphJson,
    params: Mapping[str, Any] | Any = None,
    name: str = "default",
) -> Module:
    """The factory of a graph executor (key GraphExecutorFactory); import the kernels' module into
    it.

    Args:
        graph_json: the graph: text, what `json.dumps` takes, or a `GraphBuilder`, which brings its
            parameters.
        params: name -> array (anything with the buffer protocol; kept, not copied, until it is
            written), or the bytes of `save_param_dict`. They are written in the order of `params`.
            Up to 63 spaces before them align as many bytes as possible.
        name: of the function that makes an executor, `mod["default"](device)`.

    Warns:
        PortabilityWarning: the text was changed, because TVM's executor could not read it: storage
            ids that skip numbers, escapes such as `\\u`, the key `metadata` before others.

    Raises:
        BuildError: text that is not JSON, a graph that no executor can run, or an invalid name:
            empty, with a NUL, or the name of a function that factories have.
        FormatError: bytes that are no parameter dictionary.
    """
    _check_model_name(name)
    graph, built = text_and_params(graph_json)
    text = _graph_text(graph)
    if params is None:
        params = built
    elif not isinstance(params, Mapping):
        try:
            params = read_param_dict(params)
        except FormatError as error:
            error.prefix("graph_executor_factory: params")
            raise
    records = [
        (key, record_of(params[key], f"graph_executor_factory: params[{key!r}]"))
        for key in names("graph_executor_factory", "params", params, error=BuildTypeError)
    ]
    try:
        payload = FactoryPayload(text, records, name)
    except (TypeError, ValueError) as exc:
        raise refused(exc, "graph_executor_factory") from None
    node = _FactoryNode(payload, text, name)
    node.tensor_names = tuple(params)
    made = Module(node=node)
    node.module = ref(made)
    return made


class _FactoryNode(PayloadNode):
    """A factory that can be asked before it is packed: its functions are those of a linked copy."""

    module: ref[Module]

    def __init__(self, payload: FactoryPayload, text: str, name: str) -> None:
        super().__init__(GRAPH_FACTORY, payload, text, dialect="classic")
        self._name = name

    @property
    def runs_linked(self) -> bool:
        return True

    def find(self, name: str) -> Callable[..., Any] | None:
        module = self.module() if name == "remove_params" else None
        return module and partial(self._without_params, module)

    def _without_params(self, module: Module) -> Module:
        bare = graph_executor_factory(self.text or "", None, self._name)
        for child in module.imported_modules:
            bare.import_module(child)
        return bare


def text_and_params(
    graph_json: GraphJson,
) -> tuple[str | Mapping[str, Any], Mapping[str, Any]]:
    """A graph as text or parsed, and the parameters that it brings."""
    if isinstance(graph_json, (str, Mapping)):
        return graph_json, {}
    if not hasattr(graph_json, "graph_json"):
        expected = "JSON as text, a dictionary, or a GraphBuilder"
        raise BuildTypeError(
            f"graph: {texts.say(texts.EXPECTED, expected, type(graph_json).__name__)}"
        )
    return graph_json.graph_json(), graph_json.params


_PARAM_ALIGNMENT = (
    64  # bytes, of parameters that are used in the mapping of the file (docs/runtime.md)
)


class FactoryPayload(PiecesPayload):
    """The payload of a factory, which places its parameters where kernels can use them: graph,
    parameters and name; arrays are kept without copying.

    Args:
        graph: JSON text.
        params: names and arrays, in the order in which they are written.
        name: of the function that makes an executor.

    Raises:
        ValueError: bytes of an array that do not fit its shape; the text names it.
    """

    def __init__(self, graph: str, params: Sequence[tuple[str, ArrayRecord]], name: str) -> None:
        self._graph = graph
        names = encode_u64(len(params)) + encode_strings([n for n, _ in params])
        behind: list[memoryview | bytes] = [names]
        at = len(names)
        # (offset from the end of the graph, bytes) of each array
        self._data: list[tuple[int, int]] = []
        for key, record in params:
            try:
                header = encode_header(record.dtype, record.shape, record.data.nbytes)
            except ValueError as exc:
                raise BuildError(f"params[{key!r}]: {exc}") from None
            at += len(header)
            self._data.append((at, record.data.nbytes))
            at += record.data.nbytes
            behind += [header, record.data]
        self._behind = [*behind, encode_string(name)]
        super().__init__([encode_string(graph), *self._behind])

    def with_graph(self, change: Callable[[str], str]) -> FactoryPayload:
        """The same parameters with another text of the graph."""
        made = copy.copy(self)
        made._graph = change(self._graph)
        made.pieces = [as_bytes_view(encode_string(made._graph)), *self.pieces[1:]]
        return made

    def at(self, position: int) -> PiecesPayload:
        """The payload for a place in the blob, with up to 63 blanks behind the graph.

        Nothing else between the arrays may vary, so arrays can be aligned together whose places
        differ by multiples of 64. The most bytes count.
        """
        start = position + len(encode_string(self._graph))
        gained = [0] * _PARAM_ALIGNMENT
        for offset, size in self._data:
            gained[-(start + offset) % _PARAM_ALIGNMENT] += size
        return PiecesPayload(
            [encode_string(self._graph + " " * gained.index(max(gained))), *self._behind]
        )


def const_loader_module(
    constants: Mapping[str, Any], symbols: Mapping[str, Sequence[str]]
) -> Module:
    """Constants for the functions of the modules that this module imports. The runtime passes them
    to `__init_<symbol>` of such a module. docs/format.md, section 3.1, has the layout.

    Args:
        constants: name -> array, as `params` of `graph_executor_factory`.
        symbols: name of a function -> names of its constants, in their order.

    Raises:
        BuildError: a value that is not an array, or a symbol with an unknown constant.
    """
    who = "const_loader_module"
    mapping(who, "constants", constants, error=BuildTypeError)
    mapping(who, "symbols", symbols, "a dict of names of constants by function", BuildTypeError)
    keys = names(who, "constants", constants, error=BuildTypeError)
    used = {
        symbol: names(who, f"symbols[{symbol!r}]", given, error=BuildTypeError)
        for symbol, given in symbols.items()
    }
    functions = names(who, "symbols", used, error=BuildTypeError)
    for symbol, needed in used.items():
        if missing := next((n for n in needed if n not in constants), None):
            raise BuildError(f"{who}: {symbol!r} needs {missing!r}, which is none of the constants")
    try:
        pieces: list[Any] = [encode_strings(keys) + encode_u64(len(keys))]
        lists = b"".join(map(encode_strings, used.values()))
        lists = encode_strings(functions) + encode_u64(len(functions)) + lists
    except ValueError as exc:
        raise BuildError(f"{who}: {exc}") from None
    for key, value in constants.items():
        pieces += _array(value, f"{who}: constants[{key!r}]")
    pieces.append(lists)
    return Module(node=PayloadNode(CONST_LOADER, PiecesPayload(pieces), dialect="classic"))


def _array(value: Any, what: str) -> list[Any]:
    """The record of an array in pieces; its elements are not copied."""
    record = record_of(value, what)
    try:
        return [encode_header(record.dtype, record.shape, record.data.nbytes), record.data]
    except ValueError as exc:
        raise BuildError(f"{what}: {exc}") from None


@suggesting()
def blob_module(key: str, payload: Any, *, data: bool = True, alignment: int = 1) -> Module:
    """A module with any bytes, under a type key of your own.

    Args:
        key: 1 to 4096 bytes; not one of the format's own (`library`, `_lib`, `_import_tree`). Under
            a key of TVM's or `safetensors`, `export_library` refuses a payload that readers of the
            key cannot read.
        payload: a bytes-like object, which is not copied; a path, whose file is read in pieces when
            the library is written; or an iterable of bytes-like objects. A list or tuple is kept;
            any other iterable serves one export.
        data: True: the module is useful without a loader. False: opening the library is an error
            without a loader or plug-in for the key.
        alignment: a power of two up to 4096. The address of the loaded payload, and its offset in
            the file, are multiples of it. Above 1, the payload is behind the part of the library
            that TVM reads, so TVM finds an empty one. With 1, the payload stays where TVM reads it.
            mblob then aligns only the largest such payload of a library, to 64
            (docs/format.md, "Alignment").

    Warns:
        PortabilityWarning: when a library with such a payload is written.

    Raises:
        OSError: the path is not a regular file.
        BuildError: a reserved or invalid key, a payload that is none of these, or another
            alignment. `export_library` refuses an alignment above 1 with `index=False`, and with
            `embed="c"`.
        TypeError: an item of a list that is not bytes-like.
    """
    check_key(key, "blob_module")
    check_alignment("blob_module: alignment", alignment)
    if key == SAFETENSORS and alignment > 1:
        raise BuildError("blob_module: alignment: safetensors_module aligns tensors itself")
    with payload_or_path(payload):
        node = PayloadNode(key, payload_of(payload, "blob_module"), data=data, alignment=alignment)
        node.is_found_by_key = data
        node.is_unread = key in ROWS or key == SAFETENSORS
        return Module(node=node)


def check_alignment(what: str, given: Any) -> int:
    """An alignment of a payload.

    Raises:
        BuildError: it is none; the text starts with `what`.
    """
    if type(given) is not int or not 1 <= given <= PAYLOAD_ALIGN_LIMIT or given & (given - 1):
        raise BuildError(
            f"{what}: expected a power of two from 1 to {PAYLOAD_ALIGN_LIMIT}, found {given!r:.40}"
        )
    return given


def _check_model_name(name: Any) -> None:
    who = "graph_executor_factory: name"
    if not isinstance(name, str):
        raise BuildTypeError(f"{who}: {texts.say(texts.EXPECTED, 'str', type(name).__name__)}")
    if not name or "\0" in name or any("\ud800" <= c <= "\udfff" for c in name):
        raise BuildError(
            f"{who}: {name!r} is no name of a function; expected text without NUL and surrogates"
        )
    if name in GRAPH_FUNCTIONS:
        raise BuildError(
            f"{who}: {name!r} is a function that the factory has itself, so the model could not be made; "
            f"other names than {', '.join(GRAPH_FUNCTIONS)} are free"
        )


def _graph_text(given: str | Mapping[str, Any]) -> str:
    """The text of a graph that TVM's executor can read, and ours, changed where it is certain how.

    Raises:
        BuildError: it cannot be read, and why.
    """
    who = "graph_executor_factory"
    text = given if isinstance(given, str) else as_json(given, f"{who}: graph_json")
    changed: list[str] = []
    try:
        graph = graph_json.parse(text)
        if (escape := graph_json.unknown_escape(text)) is not None:
            changed.append(f"the escape {escape} became the character")
        if isinstance(graph, dict) and "metadata" in graph and next(reversed(graph)) != "metadata":
            graph["metadata"] = graph.pop("metadata")
            changed.append("the key 'metadata' became the last")
        graph_json.check_graph(graph)
        graph_json.check_names(graph)
    except graph_json.GraphError as exc:
        raise BuildError(f"{who}: {exc}") from None
    if (skipped := graph_json.skipped_id(graph)) is not None:
        ids = graph["attrs"]["storage_id"]
        graph["attrs"]["storage_id"] = [ids[0], graph_json.dense_ids(ids[1])]
        changed.append(f"storage_id, which skipped {skipped}, was numbered anew")
    if changed:
        text = json.dumps(graph, ensure_ascii=False)
        warn(f"{who}: for TVM's executor {', and '.join(changed)}", PortabilityWarning)
    if graph_json.unknown_escape(text) is not None:
        raise BuildError(
            f"{who}: a text has a control character, which TVM's reader of JSON does not know"
        )
    if not _is_utf8(text):
        raise BuildError(f"{who}: a text has half of a surrogate pair, which is no character")
    return text


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _json_text(graph: str | Mapping[str, Any], who: str) -> str:
    if not isinstance(graph, (str, Mapping)):
        expected = "JSON as text or a dictionary"
        raise wrong_type(who, "graph_json", expected, graph, BuildTypeError)
    if not isinstance(graph, str):
        return as_json(graph, f"{who}: graph_json")
    try:
        json_text.parse(graph)
    except json_text.JsonError as exc:
        raise BuildError(f"{who}: the graph is no JSON: {exc}") from None
    return graph
