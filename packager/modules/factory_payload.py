"""The payload of a graph executor's factory, which places its parameters where kernels can use
them."""

from __future__ import annotations

from collections.abc import Sequence

from mblob.bytes.wire import encode_string, encode_strings, encode_u64
from mblob.format.ndarray import ArrayRecord, encode_header
from mblob.packager.modules.nodes import PiecesPayload

ALIGNMENT = 64  # bytes, of parameters that are used in the mapping of the file (docs/runtime.md)


class FactoryPayload(PiecesPayload):
    """Graph, parameters and name; arrays are kept without copying.

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
                raise ValueError(f"params[{key!r}]: {exc}") from None
            at += len(header)
            self._data.append((at, record.data.nbytes))
            at += record.data.nbytes
            behind += [header, record.data]
        self._behind = [*behind, encode_string(name)]
        super().__init__([encode_string(graph), *self._behind])

    def at(self, position: int) -> PiecesPayload:
        """The payload for a place in the blob, with up to 63 blanks behind the graph.

        Nothing else between the arrays may vary, so arrays can be aligned together whose places
        differ by multiples of 64. The most bytes count.
        """
        start = position + len(encode_string(self._graph))
        gained = [0] * ALIGNMENT
        for offset, size in self._data:
            gained[-(start + offset) % ALIGNMENT] += size
        return PiecesPayload(
            [encode_string(self._graph + " " * gained.index(max(gained))), *self._behind]
        )
