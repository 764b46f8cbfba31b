"""`mblob.strip_index` and `add_index`: what remains is what TVM would have written, and back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mblob
from mblob.binary.elf import ElfFile
from mblob.bytes.mapping import map_file
from mblob.format import note
from mblob.inspect.payload_layouts import temporary_layouts
from tests.loader.streams import LIB, item, library, string, tree

GRAPH = '{"nodes": [], "arg_nodes": [], "heads": [], "node_row_ptr": [0], "attrs": {}}'
KERNEL = "void k(float *x) { *x = 2; }"


def model(path: Path, **options: object) -> Path:
    """A library of modules that TVM has loaders for."""
    root = mblob.graph_executor_factory(GRAPH, {"w": np.arange(5, dtype="float32")})
    host = mblob.csource_module(KERNEL, functions=["void k(float x[1])"])
    host.import_module(
        mblob.device_module("opencl", "__kernel void f() {}", functions=[("f", ["handle"])])
    )
    root.import_module(host)
    root.export_library(path, **options)
    return path


def blob_of(path: Path) -> bytes:
    with mblob.open(path) as library:
        assert library.blob is not None
        return bytes(
            library.elf.data[library.blob_offset : library.blob_offset + library.blob.size]
        )


@pytest.mark.sample(1)
@pytest.mark.parametrize("embed", ["grow", "append", "object"])
def test_the_blob_is_the_one_that_is_written_without_an_index(tmp_path: Path, embed: str) -> None:
    with_index = model(tmp_path / "a.so", embed=embed)
    without = model(tmp_path / "b.so", embed=embed, index=False)
    mblob.strip_index(with_index, tmp_path / "c.so")
    assert blob_of(tmp_path / "c.so") == blob_of(without)
    assert not note.announced(ElfFile(map_file(tmp_path / "c.so"))).flags & note.HAS_INDEX
    assert note.announced(ElfFile(map_file(tmp_path / "c.so"))).flags & note.HAS_TABLE
    mblob.verify(tmp_path / "c.so")
    x = np.zeros(1, "float32")
    mblob.load_module(tmp_path / "c.so", missing="stub").imported_modules[0]["k"](x)
    assert x[0] == 2
    mblob.add_index(tmp_path / "c.so", tmp_path / "d.so")
    mblob.verify(tmp_path / "d.so")
    with mblob.open(tmp_path / "d.so") as library, mblob.open(with_index) as first:
        assert [e.digest for e in library.entries] == [e.digest for e in first.entries]
        assert [bytes(e.view()) for e in library.entries] == [
            bytes(e.view()) for e in first.entries
        ]


def test_a_library_alone_keeps_an_empty_blob(tmp_path: Path) -> None:
    mblob.csource_module(KERNEL, functions=["void k(float x[1])"]).export_library(tmp_path / "a.so")
    mblob.strip_index(tmp_path / "a.so")
    assert blob_of(tmp_path / "a.so") == (8).to_bytes(8, "little") + bytes(8)
    x = np.zeros(1, "float32")
    mblob.load_module(tmp_path / "a.so")["k"](x)
    assert x[0] == 2


def test_every_library_of_tvm_gets_an_index_and_loses_it_again(
    golden: Path, tmp_path: Path
) -> None:
    count = 0
    for source in sorted(golden.glob("*.so")):
        with mblob.open(source) as library:
            if library.blob is None:
                continue
            tree = library.tree()
        mblob.add_index(source, tmp_path / "i.so")
        found = mblob.verify(tmp_path / "i.so")
        assert found.has_index and all(e.compared for e in found.entries)
        with mblob.open(tmp_path / "i.so") as library:
            assert library.tree() == tree
        mblob.strip_index(tmp_path / "i.so", tmp_path / "s.so")
        assert blob_of(tmp_path / "s.so") == blob_of(source)
        changes = mblob.diff(source, tmp_path / "s.so")
        assert changes.same, changes
        count += 1
    assert count >= 8


def test_what_only_the_index_can_tell_is_not_stripped(tmp_path: Path) -> None:
    mblob.blob_module("mine", b"bytes").export_library(tmp_path / "m.so")
    before = (tmp_path / "m.so").read_bytes()
    with pytest.raises(
        mblob.MblobError, match=r"entry 0 \(mine\): only the index says where its payload ends"
    ):
        mblob.strip_index(tmp_path / "m.so")
    assert (tmp_path / "m.so").read_bytes() == before
    mblob.strip_index(tmp_path / "m.so", tmp_path / "f.so", force=True)
    with pytest.raises(mblob.FormatError) as caught:
        mblob.open(tmp_path / "f.so")
    assert caught.value.code == "unknown_key"
    (tmp_path / "w").write_bytes((2).to_bytes(8, "little") + b"{}")
    mblob.safetensors_module(tmp_path / "w").export_library(tmp_path / "w.so")
    for force in (False, True):
        with pytest.raises(mblob.MblobError, match="only the index says where its payload is"):
            mblob.strip_index(tmp_path / "w.so", tmp_path / "x.so", force=force)
    with pytest.raises(mblob.MblobError, match="has an index already"):
        mblob.add_index(tmp_path / "w.so")
    model(tmp_path / "b.so", index=False)
    with pytest.raises(mblob.MblobError, match="has no index"):
        mblob.strip_index(tmp_path / "b.so")
    assert not (tmp_path / "x.so").exists()


def test_damage_is_found_before_its_trace_is_lost(tmp_path: Path) -> None:
    path = model(tmp_path / "a.so")
    data = bytearray(path.read_bytes())
    data[data.index(b"__kernel void f")] ^= 1
    path.write_bytes(data)
    with pytest.raises(mblob.DigestError):
        mblob.strip_index(path)
    assert path.read_bytes() == data


def damaged(source: Path, path: Path) -> bytes:
    """A copy of a library whose graph is no JSON any more, and its bytes."""
    data = source.read_bytes()
    assert GRAPH.encode() in data
    path.write_bytes(data.replace(GRAPH.encode(), GRAPH.replace("[]", "[}", 1).encode()))
    return path.read_bytes()


@pytest.mark.parametrize("verb", ["add_index", "add", "add code", "swap", "convert", "export"])
def test_damage_gets_no_first_digest(tmp_path: Path, verb: str) -> None:
    """A digest says that a payload is whole."""
    path, labels = tmp_path / "a.so", {"labels": b"[]"}
    with_index = {"index": True, "digest": "none"} if verb == "swap" else {"index": False}
    before = damaged(model(tmp_path / "whole.so", **with_index), path)
    calls: dict[str, Callable[[], object]] = {
        "add_index": lambda: mblob.add_index(path),
        "add": lambda: mblob.add(path, blobs=labels),
        "add code": lambda: mblob.add(path, blobs=labels, kernels=tmp_path / "one.c"),
        "swap": lambda: mblob.swap(path, digest="crc32"),
        "convert": lambda: mblob.convert(path, path.with_name("b.so"), dialect="ffi"),
        "export": lambda: mblob.load_module(path, missing="stub").export_library(
            path.with_name("b.so"), index=True
        ),
    }
    (tmp_path / "one.c").write_text("int one(void) { return 1; }")
    with pytest.raises(mblob.FormatError, match=r"entry 0 \(GraphExecutorFactory\) breaks the"):
        calls[verb]()
    assert path.read_bytes() == before and not path.with_name("b.so").exists()


@pytest.mark.parametrize("how", ["build", "add", "convert"])
@pytest.mark.parametrize("index", [False, True])
def test_damage_in_a_tar_gets_no_digest(tmp_path: Path, how: str, index: bool) -> None:
    from mblob.packager.link.build import BuildPlan, build

    tar, out = tmp_path / "a.tar", tmp_path / "out.so"
    before = damaged(model(tmp_path / "whole.tar", index=index), tar)
    calls: dict[str, Callable[[], object]] = {
        "build": lambda: build(BuildPlan(out, objects=[tar])),
        "add": lambda: mblob.add(tar, blobs={"labels": b"[]"}, output=out),
        "convert": lambda: mblob.convert(tar, out, dialect="ffi"),
    }
    error = mblob.DigestError if index else mblob.FormatError
    with pytest.raises(error, match=r"a\.tar.*(GraphExecutorFactory)"):
        calls[how]()
    assert tar.read_bytes() == before and not out.exists()


def test_verbs(tmp_path: Path) -> None:
    from mblob.cli.main import main

    model(tmp_path / "a.so")
    assert main(["strip-index", str(tmp_path / "a.so"), "-o", str(tmp_path / "b.so")]) == 0
    assert main(["strip-index", str(tmp_path / "b.so"), "-o", str(tmp_path / "c.so")]) == 2
    assert main(["add-index", str(tmp_path / "b.so"), "-o", str(tmp_path / "c.so")]) == 0
    assert main(["verify", str(tmp_path / "c.so")]) == 0
    assert main(["strip-index", str(tmp_path / "gone.so"), "-o", str(tmp_path / "c.so")]) == 5


@pytest.mark.own_process
def test_a_tree_that_has_its_library_twice_gets_no_index(
    cc: Callable[..., Path], tmp_path: Path
) -> None:
    """As TVM 0.7 wrote it. An index lists one library (docs/format.md, section 4)."""

    def keys(path: Path) -> list[str]:
        with mblob.open(path) as library:
            seen = [e.type_key for e in library.entries]
        loaded = mblob.load_module(path, missing="stub")
        assert sorted(m.type_key for m in loaded.walk()) == sorted(seen)
        return seen

    beta = item(b"beta", string(b"hello"))
    path = library(cc, tmp_path / "s.so", LIB, beta, LIB, tree([1, 2], [], []))
    before = path.read_bytes()
    with temporary_layouts({"beta": "string"}):
        with pytest.raises(mblob.BuildError, match="entries 0 and 2 are both the library itself"):
            mblob.add_index(path)
        assert path.read_bytes() == before
        mblob.swap(path, {"beta": string(b"other")}, tmp_path / "n.so")
        assert mblob.diff(path, tmp_path / "n.so").entries[0].path == "library/beta"
        mblob.convert(path, tmp_path / "f.so", dialect="ffi")
    assert keys(tmp_path / "f.so") == ["library", "beta"]
    none = library(cc, tmp_path / "o.so", beta, LIB)  # of TVM up to 0.6
    with temporary_layouts({"beta": "string"}):
        mblob.add_index(none)
    assert keys(none) == ["library", "beta", "library"]


@pytest.mark.parametrize("dialect", ["classic", "ffi"])
@pytest.mark.parametrize("kind", ["weights", "file"])
def test_what_only_an_index_opens_is_refused(tmp_path: Path, dialect: str, kind: str) -> None:
    root = mblob.csource_module(KERNEL)
    weights = mblob.safetensors_module({"w": np.ones(3, "float32")})
    root.import_module(weights if kind == "weights" else mblob.blob_module("config", b"{}"))
    root.export_library(tmp_path / "a.so", dialect=dialect)  # type: ignore[arg-type]
    with pytest.raises(mblob.BuildError, match=r"entry 1 \(\w+\): .*index"):
        mblob.strip_index(tmp_path / "a.so", tmp_path / "b.so")
    assert not (tmp_path / "b.so").exists()
    if dialect == "ffi":  # whose stream says where each payload is
        mblob.strip_index(tmp_path / "a.so", tmp_path / "b.so", force=True)
        assert mblob.verify(tmp_path / "b.so").entries[0].size > 1
