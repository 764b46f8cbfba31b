"""A chain of imports as deep as there are modules: each tree is checked once."""

from __future__ import annotations

import struct

import pytest

import mblob
from mblob.format import classic, import_tree
from mblob.format.import_tree import check_tree, find_cycle, flat_tree

pytestmark = pytest.mark.filterwarnings("ignore::mblob.HiddenNameWarning")  # one key for all
DEPTH = 2000


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The blob of modules that import each other in a row, with an index."""
    module = mblob.blob_module("key", b"0")
    for _ in range(DEPTH - 1):
        outer = mblob.blob_module("key", b"1")
        outer.import_module(module)
        module = outer
    path = tmp_path_factory.mktemp("chain") / "chain.so"
    module.export_library(path)
    with mblob.open(path) as library:
        return bytes(library.blob_bytes())


@pytest.mark.compiles
def test_the_tree_of_the_stream_is_compared_and_not_searched_again(
    chain: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched = []
    monkeypatch.setattr(
        import_tree, "find_cycle", lambda rows: searched.append(len(rows)) or find_cycle(rows)
    )
    blob = classic.read(memoryview(chain), level="full")
    assert searched == [len(blob.entries)]
    assert len(blob.entries) >= DEPTH


@pytest.mark.compiles
def test_another_tree_in_the_stream_is_still_found(chain: bytes) -> None:
    raw = bytearray(chain)
    blob = classic.read(memoryview(chain), level="full")
    rows = [e.imports for e in blob.entries]
    _, child = flat_tree(rows)
    stored = struct.pack(f"<{len(child) + 1}Q", len(child), *child)
    at = raw.find(stored)
    assert 0 <= at <= blob.stream_size - len(stored)
    struct.pack_into("<Q", raw, at + 8 * 10, 0)  # a module in the middle imports the root
    with pytest.raises(mblob.FormatError) as caught:
        classic._compare(memoryview(raw), blob)  # behind the checksum of the structure
    assert caught.value.code == "tree_cycle"


@pytest.mark.parametrize("rows", [[(1, 2), (2,), ()], [()], [(2,), (), (1,)], [(1,), (), (1, 0)]])
def test_a_flat_tree_is_what_was_stored(rows: list[tuple[int, ...]]) -> None:
    row_ptr, child = flat_tree(rows)
    assert check_tree(row_ptr, child, len(rows)) == rows


CYCLES = [
    ([(1,), (2,), ()], []),
    ([(2,), (), (1,)], []),
    ([(0,)], [0, 0]),
    ([(1,), (0,)], [0, 1, 0]),
    ([(1,), (2,), (1,)], [1, 2, 1]),
]


@pytest.mark.parametrize(("rows", "cycle"), CYCLES)
def test_cycles_are_found_whatever_the_order(rows: list[tuple[int, ...]], cycle: list[int]) -> None:
    assert find_cycle(rows) == cycle
