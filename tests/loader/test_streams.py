"""Modules of a user's own kind in streams without an index, as TVM up to 0.20 wrote them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from tests.loader.streams import LIB, item, library, string, strings, tree, u64

CUDA = item(b"cuda", string(b"ptx") + u64(0) + string(b"//PTX"))
JSON = string(b"region_0") + string(b"{}") + strings(b"w0", b"w1")

Build = Callable[..., Path]


@pytest.fixture
def build(cc: Callable[..., Path], tmp_path: Path) -> Build:
    """`build(*items)`: a library with these items in its stream."""
    return lambda *items: library(cc, tmp_path / "s.so", *items)


def modules(lib: mblob.Module) -> list[tuple[str, bytes]]:
    return [(m.type_key, bytes(m.payload)) for m in lib.walk()]


# -- nobody knows the key --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        (
            (LIB, CUDA, item(b"foo", b"payload"), tree([1, 2], [], [])),
            ["library", "cuda", "foo"],
        ),
        ((LIB, item(b"foo", b"payload"), tree([1], [])), ["library", "foo"]),
        ((LIB, item(b"foo", b""), tree([1], [])), ["library", "foo"]),
        ((item(b"foo", b"payload"), LIB, tree([1], [])), None),
        ((item(b"foo", b"payload"), tree([])), ["foo"]),
        # TVM up to 0.6: no tree
        ((CUDA, item(b"foo", b"payload")), ["library", "cuda", "foo"]),
        ((item(b"foo", b"payload"),), ["library", "foo"]),
        ((item(b"foo", b"payload"), CUDA), None),
    ],
)
def test_a_stub_of_an_unknown_key_is_the_whole_payload_or_an_error_and_never_a_smaller_tree(
    build: Build, items: tuple[bytes, ...], expected: list[str] | None
) -> None:
    path = build(*items)
    if expected is None:
        with pytest.raises(mblob.FormatError, match="'foo'") as caught:
            mblob.load_module(path, missing="stub")
        assert caught.value.code == "unknown_key"
        return
    lib = mblob.load_module(path, missing="stub")
    found = modules(lib)
    assert [key for key, _ in found] == expected
    assert found[-1][1] == (b"payload" if b"payload" in b"".join(items) else b"")
    assert [m.type_key for m in lib.imported_modules] == expected[1:]


def test_a_payload_that_looks_like_a_tree_ends_before_the_real_one(build: Build) -> None:
    decoy = tree([1], []) * 2
    lib = mblob.load_module(build(LIB, item(b"foo", decoy), tree([1], [])), missing="stub")
    assert modules(lib) == [("library", b""), ("foo", decoy)]


@pytest.mark.parametrize(
    "end",
    [b"", tree([1], []) + b"\0", tree([1], [], []), tree([1]), tree([1], [])[:-1]],
    ids=["none", "longer", "three modules", "one module", "cut"],
)
def test_a_last_item_that_is_no_tree_of_the_modules_is_an_error(build: Build, end: bytes) -> None:
    path = build(LIB, item(b"foo", b"payload" + end), b"")
    with pytest.raises(mblob.FormatError, match="unknown_key"):
        mblob.load_module(path, missing="stub")
