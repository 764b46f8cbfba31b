"""Weights that are stored in the formats of oneDNN: used where nothing differs, right numbers where something
does, errors where they are damaged."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest

import mblob
from tests.loader.dnnl import dnnl_graphs as ref
from tests.loader.dnnl.dnnl_graphs import CONVOLUTION, Graph, floats, python

pytestmark = [
    pytest.mark.own_process,
    pytest.mark.usefixtures("onednn"),
    pytest.mark.filterwarnings(
        "ignore::mblob.PortabilityWarning"
    ),  # of keys that TVM does not know
]
DATA = 16  # where the position of the data is, in a payload
MASK = 2**64 - 1


def layers(symbol: str = "packed") -> Graph:
    """Two convolutions, whose weights oneDNN reorders."""
    g = Graph(symbol)
    x = floats(1, 16, 9, 9)
    value, entry = x.astype("float64"), g.input(x)
    for _ in range(2):
        w, b = floats(16, 16, 3, 3), floats(16)
        operands = [entry, g.const(w), g.const(b)]
        entry = g.kernel("dnnl.conv2d_bias_relu", operands, x.shape, **CONVOLUTION)
        summed = ref.convolve(value, w, [1, 1], [1] * 4, [1, 1]) + b.reshape(-1, 1, 1)
        value = np.maximum(summed, 0)
    g.atol = 1e-5
    return g.result(entry, value.astype("float32"))


def region(lib: mblob.Module) -> mblob.Module:
    return next(module for module in lib.walk() if module.type_key == "dnnl_json")


def payload_of(graph: Graph, folder: Path) -> bytes:
    folder.mkdir()
    prepack = region(ref.export([graph.module()], folder)).get_function("prepack")
    return bytes(prepack(*graph.constants.values()))


def with_payload(graph: Graph, payload: bytes, folder: Path, alignment: int = 64) -> mblob.Module:
    module = graph.module()
    packed = mblob.blob_module("dnnl_packed", payload, alignment=alignment)
    module.imported_modules[0].import_module(packed)
    return ref.export([module], folder)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return layers()


@pytest.fixture(scope="module")
def payload(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return payload_of(graph, tmp_path_factory.mktemp("packed") / "plain")


def reorders(folder: Path, graph: Graph, **environment: str) -> int:
    """Run dnnl.so of a folder in a process of its own, compare, and count the reorders of weights."""
    np.savez(folder / "io.npz", x=graph.inputs[0], y=graph.expected[0])
    code = f"""
import mblob, numpy as np
io = np.load({str(folder / "io.npz")!r})
y = np.empty_like(io["y"])
mblob.load_module({str(folder / "dnnl.so")!r})[{graph.symbol!r}](io["x"], y)
np.testing.assert_allclose(y, io["y"], rtol=1e-4, atol=1e-4)
"""
    done = python(code, ONEDNN_VERBOSE="1", **environment)
    assert not done.returncode, done.stderr
    lines = [line for line in done.stdout.splitlines() if ",exec,cpu,reorder," in line]
    return sum("16x16x3x3" in line for line in lines)


def test_packed_weights_are_used_where_they_lie(
    graph: Graph, payload: bytes, tmp_path: Path
) -> None:
    assert struct.unpack_from("<Q", payload, DATA)[0] % 64 == 0
    lib = with_payload(graph, payload, tmp_path)
    graph.check(lib)
    assert reorders(tmp_path, graph) == 0
    ref.export([graph.module()], tmp_path)
    assert reorders(tmp_path, graph) == 2


def test_a_processor_without_the_instructions_reorders_anew(
    graph: Graph, payload: bytes, tmp_path: Path
) -> None:
    with_payload(graph, payload, tmp_path)
    assert reorders(tmp_path, graph, ONEDNN_MAX_CPU_ISA="SSE41") > 0  # and has the right numbers


def test_payloads_in_memory_that_is_not_aligned_are_copied(
    graph: Graph, payload: bytes, tmp_path: Path
) -> None:
    with_payload(graph, payload, tmp_path, alignment=1)
    assert reorders(tmp_path, graph) == 0


def test_other_constants_have_the_numbers_of_their_own(
    graph: Graph, payload: bytes, tmp_path: Path
) -> None:
    lib = with_payload(graph, payload, tmp_path)
    graph.check(lib)
    init = region(lib).get_function(f"__init_{graph.symbol}")
    init(*(np.zeros_like(c) for c in graph.constants.values()))
    (found,) = graph.run(lib)
    assert not found.any()
    init(*graph.constants.values())
    graph.check(lib)


def test_packing_changes_nothing_of_the_module(graph: Graph, tmp_path: Path) -> None:
    lib = ref.export([graph.module()], tmp_path)
    module = region(lib)
    module.get_function("prepack")(*(np.zeros_like(c) for c in graph.constants.values()))
    assert json.loads(module.get_function("get_primitives")()) == []
    graph.check(lib)
    with pytest.raises(ValueError, match="expected 4 constants, found 1"):
        module.get_function("prepack")(np.zeros(3, "float32"))


# -- damaged ---------------------------------------------------------------------------------------


def digest(data: bytes) -> int:
    """As packed.c has it."""
    odd = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F)

    def turn(x: int, by: int) -> int:
        return (x << by | x >> (64 - by)) & MASK

    lanes = [1, 2, 3, 4]
    whole = len(data) // 32 * 32
    for at in range(0, whole, 32):
        for i, word in enumerate(struct.unpack_from("<4Q", data, at)):
            lanes[i] = turn((lanes[i] + word * odd[1]) & MASK, 31) * odd[0] & MASK
    found = len(data)
    for lane in lanes:
        found = (turn((found ^ lane) * odd[0] & MASK, 27) + odd[1]) & MASK
    for byte in data[whole:]:
        found = turn((found ^ byte) * odd[0] & MASK, 11)
    found = (found ^ found >> 33) * odd[1] & MASK
    found = (found ^ found >> 29) * odd[0] & MASK
    return found ^ found >> 32


def signed(payload: bytes, head: bytes) -> bytes:
    """Another head, of the same size, with its digest."""
    return payload[:8] + struct.pack("<Q", digest(head)) + head + payload[16 + len(head) :]


class Swapped:
    """The library, with one payload after the other."""

    def __init__(self, graph: Graph, payload: bytes, folder: Path) -> None:
        self.graph, self.folder = graph, folder
        with_payload(graph, payload, folder)

    def opened(self, payload: bytes) -> mblob.Module:
        path = self.folder / "changed.so"
        mblob.swap(self.folder / "dnnl.so", {"dnnl_packed": payload}, path)
        return mblob.load_module(path)


@pytest.fixture
def swapped(graph: Graph, payload: bytes, tmp_path: Path) -> Swapped:
    return Swapped(graph, payload, tmp_path)


def test_each_byte_of_the_head_that_is_flipped_is_told(swapped: Swapped, payload: bytes) -> None:
    (data,) = struct.unpack_from("<Q", payload, DATA)
    for at in range(0, data, 3):
        changed = bytearray(payload)
        changed[at] ^= 1 << at % 8
        with pytest.raises(
            mblob.FormatError, match=r"dnnl_packed|the place of the data|the digest"
        ):
            swapped.graph.run(swapped.opened(bytes(changed)))


@pytest.mark.parametrize("size", [0, 1, 8, 23, 24, 64, -64, -1])
def test_a_payload_that_ends_early_is_told(swapped: Swapped, payload: bytes, size: int) -> None:
    with pytest.raises(mblob.FormatError):
        swapped.graph.run(swapped.opened(payload[:size]))


def rows_at(payload: bytes) -> tuple[int, int]:
    """Where the first row is, and how many there are."""
    at = 24
    for _ in range(2):
        at += 8 + struct.unpack_from("<Q", payload, at)[0]
    return at + 8, struct.unpack_from("<Q", payload, at)[0]


@pytest.mark.parametrize("field", range(6))
@pytest.mark.parametrize("value", [0, 1, 2, 64, 2**20, 2**63, MASK, MASK - 63])
def test_rows_that_lie_give_an_error_or_the_right_numbers(
    swapped: Swapped, payload: bytes, field: int, value: int
) -> None:
    (data,) = struct.unpack_from("<Q", payload, DATA)
    at, count = rows_at(payload)
    assert count == 2
    head = bytearray(payload[16:data])
    struct.pack_into("<Q", head, at - 16 + 8 * field, value)  # the last field: another digest
    lib = swapped.opened(signed(payload, bytes(head)))
    try:
        swapped.graph.check(lib)
    except mblob.FormatError as error:
        assert field >= 3 and "a constant outside of it" in str(error)


def test_weights_with_a_bit_that_differs_are_reordered_anew(
    swapped: Swapped, payload: bytes
) -> None:
    (data,) = struct.unpack_from("<Q", payload, DATA)
    changed = bytearray(payload)
    for at in range(data + 3, len(changed), 64):
        changed[at] ^= 0x40
    swapped.graph.check(swapped.opened(bytes(changed)))


@pytest.mark.parametrize("name", ["oneDNN 9.9.9", "", "0xffffff"])
def test_what_another_library_packed_is_reordered_anew(
    swapped: Swapped, payload: bytes, name: str
) -> None:
    (data,) = struct.unpack_from("<Q", payload, DATA)
    at = 24
    if name.startswith("0x"):
        at += 8 + struct.unpack_from("<Q", payload, at)[0]
    size = struct.unpack_from("<Q", payload, at)[0]
    head = bytearray(payload[16:data])
    head[at - 8 : at - 8 + size] = name.encode().ljust(size, b"?")[:size]
    changed = bytearray(signed(payload, bytes(head)))
    changed[data:] = bytes(len(changed) - data)  # other numbers, if they were used
    swapped.graph.check(swapped.opened(bytes(changed)))


def test_graphs_with_open_sizes_have_nothing_to_pack(tmp_path: Path) -> None:
    graph = layers("open")
    text = json.loads(graph.text())
    for node in text["nodes"]:
        if node["op"] != "const":
            node["attrs"]["shape"][0][0][0] = "n"
    module = region(ref.export([graph.module(json.dumps(text))], tmp_path))
    assert bytes(module.get_function("prepack")(*graph.constants.values())) == b""
