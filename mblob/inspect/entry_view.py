"""An entry of an open library, as users see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mblob.bytes.digest import ALGORITHM_NAMES
from mblob.errors import one_line
from mblob.format.grammar import FunctionInfo, decode_payload
from mblob.format.type_keys import DEVICE_KEYS
from mblob.inspect.contents import GRAPH_FIELDS, DecodedPayload
from mblob.inspect.graph_summary import nodes_of
from mblob.inspect.source_text import source_of, text_beginning
from mblob.inspect.tensors import StoredTensor, dtype_decoder, relax_program, tensors_of

if TYPE_CHECKING:
    from mblob.format.blob_model import Entry
    from mblob.inspect.graph_summary import GraphNode
    from mblob.inspect.library import Library
    from mblob.inspect.relax_graph import FunctionGraph


class EntryView:
    """An entry of an open library.

    Attributes:
        index, type_key, size, imports, data, alignment, digest: as `mblob.format.blob_model.Entry`.
        offset: of the payload in the file, in bytes; None for the library.
    """

    __slots__ = (
        "_library", "_start", "alignment", "data", "digest", "imports", "index", "offset", "size", "type_key",
    )  # fmt: skip

    def __init__(self, library: Library, entry: Entry) -> None:
        self.index, self.type_key = entry.index, entry.type_key
        self.offset = None if entry.offset is None else library.blob_offset + entry.offset
        self.size, self.imports, self.data = entry.size, entry.imports, entry.data
        self.alignment, self.digest = entry.alignment, entry.digest
        self._library = library
        self._start = entry.offset or 0  # in the bytes of the blob

    def __repr__(self) -> str:
        tail = "" if self.offset is None else f", {self.size} bytes at {self.offset:#x}"
        return one_line(f"<mblob.EntryView {self.index} {self.type_key!r}{tail}>")

    def view(self) -> memoryview:
        """The payload: a read-only view without a copy. Take it while the library is open; it stays
        valid."""
        if self.offset is None:
            return memoryview(b"")
        return self._library.blob_bytes()[self._start : self._start + self.size]

    @property
    def place(self) -> str:
        """The name of the entry in messages: file, index and key."""
        return f"{self._library.path}: entry {self.index} ({self.type_key})"

    def fields(self) -> dict[str, Any]:
        """The fields of the payload, by the names of docs/format.md, sections 3 and 11; {} if its
        key has no grammar. Strings are views.

        Raises:
            FormatError: the payload breaks the grammar of its key.
        """
        return decode_payload(self.type_key, self.view(), self._library.grammars)

    @property
    def content(self) -> DecodedPayload:
        """A description of the payload: facts, kernels, tensors, or the problem that prevents
        reading it."""
        return self._library.content_of(self)

    def graph_json(self) -> memoryview | None:
        """The text of the graph in the payload, None if it has none, or a damaged one."""
        if "graph" not in self.content.facts:
            return None
        fields = self.fields()
        return next((fields[name] for name in GRAPH_FIELDS if name in fields), None)

    def graph(self) -> tuple[list[GraphNode], list[tuple[int, int]]] | None:
        """The nodes of the graph in the payload, and its outputs (`graph_summary.nodes_of`); None
        as of `graph_json`."""
        raw = self.graph_json()
        return None if raw is None else nodes_of(raw)

    def program_graphs(self) -> tuple[list[FunctionGraph], dict[str, str]]:
        """The calls of each function of a Relax program (`relax_graph.graphs_of`); ([], {}) for other
        modules, for a damaged program, and for one that is too long to be drawn."""
        facts = self.content.facts.get("executable", {})
        if facts.get("machine") != "relax":
            return [], {}
        from mblob.inspect import relax_graph

        if facts["instructions"] > relax_graph.INSTRUCTIONS:
            return [], {}
        grammars = self._library.grammars
        program = relax_program(self.fields()["code"], grammars)
        return relax_graph.graphs_of(program, facts["functions"], dtype_decoder(grammars))

    @property
    def kernels(self) -> list[FunctionInfo]:
        """The kernels that a device module lists, in stored order; [] for other modules.

        Raises:
            FormatError: the payload breaks the grammar of its key.
        """
        return (
            list(self.fields().get("functions", {}).values())
            if self.type_key in DEVICE_KEYS
            else []
        )

    @property
    def tensors(self) -> list[StoredTensor]:
        """The tensors that the payload holds (weights, parameters, constants), in stored order, as
        views; [] if none. A name may occur twice. `offset` counts from the payload's first byte.

        Raises:
            FormatError: the payload breaks the grammar of its key.
        """
        return tensors_of(self.type_key, self.view(), self._library.grammars)

    @property
    def digest_algorithm(self) -> str | None:
        """ "crc32", "sha256", or None without a digest."""
        blob = self._library.blob
        return ALGORITHM_NAMES.get(blob.algorithm) if blob is not None and self.digest else None

    def source(self, fmt: str = "") -> str:
        """Text of the payload, as `Module.get_source`: device code or graph JSON; "" if there is
        none."""
        return source_of(self.type_key, self.view(), fmt, self._library.grammars) or ""

    def text_beginning(self, limit: int) -> tuple[str, int] | None:
        """The text that people read in the payload, of at most `limit` bytes, and how many bytes
        more there are; None if it is no text."""
        if self.offset is None:
            return None
        return text_beginning(self.type_key, self.view(), limit, self._library.grammars)
