"""Payloads of a program's own keys that are aligned in the file and in memory."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.errors import PortabilityWarning
from mblob.packager.errors import BuildError

pytestmark = pytest.mark.own_process  # libraries of the ffi dialect start its runtime

DATA = {"small": b"TFL3" * 3, "odd": b"GGUF" * 33 + b"x", "large": bytes(range(256)) * 4099}


def packed(path: Path, alignment: int, **how: Any) -> Path:
    root = mblob.csource_module("int one(void) { return 1; }", functions=["int one(void)"])
    root.import_module(mblob.blob_module("first", b"x"))
    root.import_module(mblob.safetensors_module({"w": np.arange(3, dtype="float32")}))
    for key, data in DATA.items():
        root.import_module(mblob.blob_module(key, data, alignment=alignment))
    with pytest.warns(PortabilityWarning, match="TVM finds empty payloads of large, odd, small"):
        root.export_library(path, **how)
    return path


def check(path: Path, alignment: int, changed: dict[str, bytes] | None = None) -> None:
    library = mblob.load_module(path)
    for key, data in {**DATA, **(changed or {})}.items():
        view = library.payloads[key]
        assert bytes(view) == data
        assert np.frombuffer(view, "u1").ctypes.data % alignment == 0, key
    assert library["one"]() == 1
    with mblob.open(path, verify="full") as found:
        told = {e["type_key"]: e["alignment"] for e in found.to_json()["entries"]}
        assert {told[key] for key in DATA} == {alignment}
        for e in found.entries:
            if e.type_key in DATA:
                assert e.alignment == alignment
                assert (found.blob_offset + e.offset) % alignment == 0


@pytest.mark.parametrize("alignment", [64, 4096])
@pytest.mark.parametrize("dialect", ["classic", "ffi"])
@pytest.mark.parametrize("embed", ["grow", "object", "append"])
def test_a_payload_is_aligned_in_file_and_memory(
    tmp_path: Path, alignment: int, dialect: str, embed: str
) -> None:
    check(packed(tmp_path / "m.so", alignment, dialect=dialect, embed=embed), alignment)


def test_what_changes_a_library_keeps_the_alignment(tmp_path: Path) -> None:
    path = packed(tmp_path / "m.so", 256)
    new = {"odd": b"changed" * 1001}
    mblob.swap(path, new, tmp_path / "swapped.so")
    check(tmp_path / "swapped.so", 256, new)
    with pytest.warns(PortabilityWarning, match="TVM finds empty payloads"):
        mblob.convert(tmp_path / "swapped.so", tmp_path / "ffi.so", dialect="ffi")
    check(tmp_path / "ffi.so", 256, new)
    with pytest.raises(BuildError, match="only the index says where its payload is"):
        mblob.strip_index(path, tmp_path / "bare.so")
    mblob.extract(tmp_path / "ffi.so", tmp_path / "out")
    assert new["odd"] in [p.read_bytes() for p in (tmp_path / "out").rglob("*") if p.is_file()]


@pytest.mark.parametrize("wrong", [0, -1, 3, 8192, 1 << 70, 64.0, "64", True, None])
def test_only_powers_of_two_up_to_a_page_are_alignments(wrong: Any) -> None:
    with pytest.raises(BuildError, match="alignment: expected a power of two from 1 to 4096"):
        mblob.blob_module("key", b"x", alignment=wrong)


def test_what_cannot_be_aligned_is_refused(tmp_path: Path) -> None:
    root = mblob.csource_module("")
    root.import_module(mblob.blob_module("model", b"x", alignment=64))
    for how, reason in (
        ({"index": False}, "the index says where"),
        ({"embed": "c"}, "cannot be aligned"),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PortabilityWarning)
            with pytest.raises(BuildError, match=reason):
                root.export_library(tmp_path / "m.so", **how)  # type: ignore[arg-type]
    with pytest.raises(BuildError, match="safetensors_module aligns"):
        mblob.blob_module("safetensors", b"", alignment=64)
