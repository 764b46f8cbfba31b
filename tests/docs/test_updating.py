"""An update of a library moves what changed in it: benchmarks/updating.py, with a small library."""

from __future__ import annotations

from pathlib import Path

import pytest

import mblob
from benchmarks import updating

SIZE, TENSOR = 8 << 20, 1 << 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("updating")
    updating.make(made, SIZE, TENSOR)
    return made


def test_a_changed_tensor_changes_its_own_bytes(folder: Path) -> None:
    """And at most a page of the index and the headers, wherever the code is."""
    with mblob.open(folder / "old.so") as library:
        (tensor,) = [t for t in library.entries[-1].content.tensors if t.name == updating.CHANGED]
        start = (library.entries[-1].offset or 0) + tensor.offset
    for old, new in (("old", "tensor"), ("kernel", "both")):
        before, after = ((folder / f"{name}.so").read_bytes() for name in (old, new))
        assert len(before) == len(after)
        outside = [
            i
            for i in range(0, len(before), 64)
            if before[i : i + 64] != after[i : i + 64] and not start <= i < start + TENSOR
        ]
        assert len(outside) * 64 <= 4096


def test_a_changed_kernel_leaves_the_weights_at_the_same_offset(folder: Path) -> None:
    """Or moves them by whole pages, which file systems and chunks of fixed sizes need."""
    offsets = []
    for name in ("old", "kernel"):
        with mblob.open(folder / f"{name}.so") as library:
            offsets.append(library.entries[-1].offset or 0)
    assert (offsets[1] - offsets[0]) % 4096 == 0


@pytest.mark.parametrize("way", updating.WAYS)
def test_a_way_moves_little_more_than_what_changed(
    require, folder: Path, tmp_path: Path, way: str
) -> None:
    program, moved = updating.WAYS[way]
    require(program)
    code = updating.code_size(folder)
    for name, changed in (("kernel", code), ("tensor", TENSOR), ("both", code + TENSOR)):
        found = moved(folder / "old.so", folder / f"{name}.so", tmp_path)
        if program == "tar":
            assert found > SIZE  # the whole file
        elif program == "zstd":
            assert found <= 1.02 * changed
        else:  # their pieces, of up to 256 KiB, at each edge
            assert found <= changed + (1 << 20)
