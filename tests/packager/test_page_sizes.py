"""Libraries for machines with pages of 16 and 64 KiB: no two segments need one page, whatever links."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mblob
from mblob.binary.elf_records import PT_LOAD

LINKERS = ["-fuse-ld=bfd", "-fuse-ld=gold", "-fuse-ld=lld", "-fuse-ld=mold"]
W = np.arange(1 << 15, dtype="float32")  # 128 KiB: more than a page of each size


def check_segments(path: Path, page: int) -> None:
    """A machine with such pages, or smaller ones, can map each segment."""
    with mblob.open(path, verify="full") as library:
        loads = [s for s in library.elf.segments if s.p_type == PT_LOAD]
    assert len(loads) > 1
    for size in (1 << 12, page):
        assert [s for s in loads if (s.p_vaddr - s.p_offset) % size or s.p_align < size] == []
        pages = [(s.p_vaddr // size, (s.p_vaddr + s.p_memsz - 1) // size) for s in loads]
        assert all(last < first for (_, last), (first, _) in zip(pages, pages[1:])), pages


def check_runs(path: Path, values: np.ndarray) -> None:
    lib = mblob.load_module(path)
    assert (lib.f(1), lib.f(1)) == (2, 3)
    np.testing.assert_array_equal(lib.tensors["w"].numpy(), values)
    ctypes.CDLL(str(path))  # by the system's linker alone


@pytest.mark.filterwarnings("ignore:do not run strip:mblob.PortabilityWarning")  # mold
@pytest.mark.parametrize("page", [1 << 14, 1 << 16], ids=["16 KiB", "64 KiB"])
@pytest.mark.parametrize("linker", LINKERS)
def test_each_linker_makes_a_library_for_large_pages_that_stays_one(
    tmp_path: Path, require: Callable[[str], str], linker: str, page: int
) -> None:
    """Packed in each form, then with other weights, then with code joined to it."""
    require(f"ld.{linker.rpartition('=')[2]}")
    options = [linker, f"-Wl,-z,max-page-size={page},-z,common-page-size={page}"]
    forms = ["append", "object"] if linker.endswith("mold") else ["grow", "append", "object"]
    (tmp_path / "g.c").write_text("static int n = 7; int g(void) { return n++; }\n")
    for form in forms:
        path = tmp_path / f"{form}.so"
        module = mblob.csource_module("static int seen; int f(int x) { return x + ++seen; }")
        module.import_module(mblob.safetensors_module({"w": W}))
        module.export_library(path, options=options, embed=form)
        check_segments(path, page)
        check_runs(path, W)
        mblob.swap(path, weights={"w": -W}, output=tmp_path / "swapped.so")
        check_segments(tmp_path / "swapped.so", page)
        check_runs(tmp_path / "swapped.so", -W)
        mblob.add(path, kernels=tmp_path / "g.c", blobs={"k": b"1"}, output=tmp_path / "joined.so")
        check_segments(tmp_path / "joined.so", 1 << 12)  # machines of x86-64 have pages of 4 KiB
        check_runs(tmp_path / "joined.so", W)
        assert mblob.load_module(tmp_path / "joined.so").g() == 7
