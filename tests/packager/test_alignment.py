"""Payloads of a program's own keys that are aligned in the file and in memory."""

from __future__ import annotations

import subprocess
import tarfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import PF_R, PT_LOAD
from mblob.errors import PortabilityWarning, UnreadableWarning
from mblob.format.blob_plan import BLOB_ALIGN, LARGE_PAYLOAD
from mblob.packager.errors import BuildError
from mblob.packager.link import background_copy, request

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
                assert e.offset is not None and e.offset % alignment == 0


@pytest.mark.sample(2)
@pytest.mark.parametrize("alignment", [64, 4096])
@pytest.mark.parametrize("dialect", ["classic", "ffi"])
@pytest.mark.parametrize("embed", ["grow", "object", "append"])
def test_a_payload_is_aligned_in_file_and_memory(
    tmp_path: Path, alignment: int, dialect: str, embed: str
) -> None:
    check(packed(tmp_path / "m.so", alignment, dialect=dialect, embed=embed), alignment)


@pytest.mark.slow
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


# -- by default --------------------------------------------------------------------------------------

OWN = {"first": b"n" * 77, "largest": b"TFL3" * 251 + b"x", "last": b"s" * 5}
WEIGHTS = np.arange(7, dtype="float32")


def by_default(path: Path, own: Mapping[str, Any] = OWN, weights: bool = True, **how: Any) -> Path:
    root = mblob.csource_module("int one(void) { return 1; }", functions=["int one(void)"])
    for key, data in own.items():
        root.import_module(mblob.blob_module(key, data))
    if weights:
        root.import_module(mblob.safetensors_module({"w": WEIGHTS}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PortabilityWarning)
        warnings.simplefilter("ignore", UnreadableWarning)
        root.export_library(path, **how)
    return path


def check_default(path: Path, key: str = "largest") -> None:
    """The payload of `key` is at a multiple of 64 in memory and in the file, and so are weights."""
    library = mblob.load_module(path)
    assert np.frombuffer(library.payloads[key], "u1").ctypes.data % 64 == 0
    assert library["one"]() == 1
    if "w" in library.tensors:
        assert library.tensors["w"].address % 64 == 0
        assert (library.tensors["w"].numpy() == WEIGHTS).all()
    with mblob.open(path, verify="full") as found:
        (entry,) = (e for e in found.entries if e.type_key == key)
        assert entry.offset is not None and found.blob is not None
        assert entry.offset % 64 == 0
        assert entry.alignment == 1  # no promise, and in the stream, which TVM reads
        symbol = found.elf.find(found.blob.symbol)
        assert symbol is not None
        assert symbol.st_value % 64 == found.blob_offset % 64
        for e in found.entries:
            if e.type_key == "safetensors":
                assert (e.offset + e.tensors[0].offset) % 64 == 0


@pytest.mark.sample(1)
@pytest.mark.parametrize("dialect", ["classic", "ffi"])
@pytest.mark.parametrize("embed", ["grow", "object", "append"])
def test_the_largest_payload_of_an_own_key_is_aligned(
    tmp_path: Path, embed: str, dialect: str
) -> None:
    how = {"embed": embed, "dialect": dialect}
    check_default(by_default(tmp_path / "m.so", **how))
    check_default(by_default(tmp_path / "one.so", {"model": b"x" * 333}, **how), "model")
    check_default(by_default(tmp_path / "bare.so", weights=False, **how))
    grown = {
        "first": b"1",
        "second": b"2" * 99,
        "third": b"3" * 99,
    }  # the first of two is last here
    check_default(by_default(tmp_path / "two.so", grown, **how), "third")


@pytest.mark.parametrize("linker", ["gold", "lld", "mold"])
def test_other_linkers_place_it(tmp_path: Path, linker: str, require: Any) -> None:
    require(f"ld.{linker}")
    check_default(by_default(tmp_path / "m.so", options=[f"-fuse-ld={linker}"]))


@pytest.mark.sample(2)
@pytest.mark.parametrize("dialect", ["classic", "ffi"])
@pytest.mark.parametrize("embed", ["grow", "object", "append", "c"])
def test_swap_places_the_largest_payload_again(tmp_path: Path, embed: str, dialect: str) -> None:
    path = by_default(tmp_path / "m.so", embed=embed, dialect=dialect)
    for change, largest in (
        ({"last": b"s" * 30}, "largest"),
        ({"largest": b"TFL3" * 2000}, "largest"),
        ({"last": b"s" * 4, "first": b"n" * 9999}, "first"),  # "first" is behind the others
        ({"first": b"n"}, "largest"),
        ({"last": b"s" * 40, "first": b"n" * 10}, "largest"),
        ({"last": b"s" * 4, "first": b"n" * 46}, "largest"),  # a blob of the same size
    ):
        mblob.swap(path, change)
        if embed != "c" or dialect != "ffi" or largest == "first":
            check_default(path, largest)


def test_a_blob_that_swap_places_again_and_back_has_the_same_bytes(tmp_path: Path) -> None:
    path = by_default(tmp_path / "m.so")
    mblob.swap(path, {"last": b"s" * 30}, tmp_path / "other.so")
    mblob.swap(tmp_path / "other.so", {"last": OWN["last"]}, tmp_path / "back.so")
    assert blob_of(path) == blob_of(tmp_path / "back.so")
    check_default(tmp_path / "back.so")


def blob_of(path: Path) -> tuple[int, int, bytes]:
    with mblob.open(path) as found:
        return found.blob_offset, found.blob_offset % 64, bytes(found.blob_bytes())


def place_of(path: Path, data: bytes) -> tuple[int, int]:
    """Offset and address of bytes in a library."""
    elf = ElfFile(memoryview(path.read_bytes()))
    at = bytes(elf.data).find(data)
    loads = (s for s in elf.segments if s.p_type == PT_LOAD)
    segment = next(s for s in loads if s.p_offset <= at < s.p_offset + s.p_filesz)
    return at, at - segment.p_offset + segment.p_vaddr


@pytest.mark.slow
def test_add_index_strip_index_and_convert_place_it(tmp_path: Path) -> None:
    bare = by_default(tmp_path / "m.so", weights=False, index=False, embed="c", dialect="ffi")
    assert place_of(bare, OWN["largest"])[0] % 64
    mblob.add_index(bare, tmp_path / "indexed.so")
    mblob.strip_index(tmp_path / "indexed.so", tmp_path / "stripped.so", force=True)
    for path in (tmp_path / "indexed.so", tmp_path / "stripped.so"):
        assert [at % 64 for at in place_of(path, OWN["largest"])] == [0, 0]
    for dialect, other in (("classic", "ffi"), ("ffi", "classic")):
        path = by_default(tmp_path / f"{dialect}.so", dialect=dialect)
        mblob.convert(path, tmp_path / f"to_{other}.so", dialect=other)
        check_default(tmp_path / f"to_{other}.so")


def test_a_blob_without_an_index_is_placed(tmp_path: Path) -> None:
    """TVM reads it where the symbol is."""
    path = by_default(tmp_path / "m.so", weights=False, index=False)
    assert [at % 64 for at in place_of(path, OWN["largest"])] == [0, 0]


def test_a_blob_that_code_refers_to_stays_where_it_is(tmp_path: Path) -> None:
    root = mblob.csource_module(
        "extern const char __tvm_dev_mblob[];\n"
        "const char *where(void) { return __tvm_dev_mblob; }\nint one(void) { return 1; }",
        functions=["void *where(void)", "int one(void)"],
    )
    for key, data in OWN.items():
        root.import_module(mblob.blob_module(key, data))
    path = tmp_path / "m.so"
    root.export_library(path)
    check_default(path)
    with mblob.open(path) as found:
        start = found.blob_offset
    mblob.swap(path, {"last": b"s" * 30})
    with mblob.open(path, verify="full") as found:
        assert found.blob_offset == start
    assert mblob.load_module(path).payloads["last"] == b"s" * 30


def test_a_payload_of_unknown_size_leaves_the_blob_unplaced(tmp_path: Path) -> None:
    pieces = (b"y" * 50 for _ in range(3))
    path = by_default(tmp_path / "m.so", {"largest": b"x" * 99, "pieces": pieces})
    with mblob.open(path, verify="full") as found:
        assert found.blob_offset % 64 == 0
    assert bytes(mblob.load_module(path).payloads["pieces"]) == b"y" * 150


def test_parameters_of_a_graph_stay_aligned(tmp_path: Path) -> None:
    """In front of the payload they decide where it is, behind it they follow."""
    params = {"w": np.arange(33, dtype="float32")}
    for order in (0, 1):
        root = mblob.csource_module("int one(void) { return 1; }", functions=["int one(void)"])
        made = [
            mblob.graph_executor_factory('{"nodes": []}', params),
            mblob.blob_module("largest", OWN["largest"]),
        ]
        for module in made[:: 1 if order else -1]:
            root.import_module(module)
        path = tmp_path / f"{order}.so"
        root.export_library(path)
        with mblob.open(path, verify="full") as found:
            graph, own = (
                next(e for e in found.entries if e.type_key == key)
                for key in ("GraphExecutorFactory", "largest")
            )
            assert (graph.offset + graph.tensors[0].offset) % 64 == 0
            assert (graph.index < own.index) != order
            assert own.offset % 64 == 0 or graph.index < own.index


def test_a_blob_that_is_copied_early_is_placed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request, "EARLY_COPY_SIZE", 1)
    own = {**OWN, "largest": bytes(LARGE_PAYLOAD)}
    path = by_default(tmp_path / "m.so", own)
    check_default(path)
    with mblob.open(path) as found:
        assert found.blob_offset // 64 * 64 == background_copy.OFFSET
        load = [s for s in found.elf.segments if s.p_type == PT_LOAD][-1]
        assert (load.p_flags, load.p_offset) == (PF_R, background_copy.OFFSET)
    first = path.read_bytes()
    assert (
        by_default(path, own).read_bytes() == first
    )  # with blocks of the old file, where they can be


def test_large_weights_beside_it_are_where_they_copy_fast(tmp_path: Path) -> None:
    root = mblob.csource_module("int one(void) { return 1; }", functions=["int one(void)"])
    root.import_module(mblob.blob_module("page", bytes(LARGE_PAYLOAD), alignment=4096))
    root.import_module(mblob.blob_module("largest", b"x" * 4321))
    path = tmp_path / "m.so"
    with pytest.warns(PortabilityWarning):
        root.export_library(path)
    check_default(path)
    mblob.swap(path, {"largest": b"x" * 99999}, tmp_path / "s.so")
    for made in (path, tmp_path / "s.so"):
        with mblob.open(made) as found:
            assert next(e.offset for e in found.entries if e.type_key == "page") % BLOB_ALIGN == 0


@pytest.mark.sample(2)
@pytest.mark.parametrize("suffix", [".tar", ".o", ".a"])
@pytest.mark.parametrize("dialect", ["classic", "ffi"])
def test_objects_for_other_linkers_place_it(tmp_path: Path, suffix: str, dialect: str) -> None:
    system = suffix != ".tar"
    path = by_default(tmp_path / f"m{suffix}", dialect=dialect, system_lib=system)
    objects = [path]
    if suffix == ".tar":
        with tarfile.open(path) as tar:
            tar.extractall(tmp_path)
            objects = [tmp_path / name for name in tar.getnames()]
    undefined = ["-Wl,--unresolved-symbols=ignore-all", "-Wl,--no-gc-sections"]
    whole = ["-Wl,--whole-archive", *objects, "-Wl,--no-whole-archive"]
    made = tmp_path / "linked.so"
    subprocess.run(["cc", "-shared", *whole, "-o", made, *undefined], check=True)
    assert [at % 64 for at in place_of(made, OWN["largest"])] == [0, 0]


@pytest.mark.parametrize("embed", ["grow", "object", "append"])
@pytest.mark.parametrize("target", ["aarch64-linux-gnu", "arm-linux-gnueabihf", "s390x-linux-gnu"])
def test_libraries_for_other_machines_are_placed(
    tmp_path: Path, require: Any, target: str, embed: str
) -> None:
    require(f"{target}-gcc")
    path = by_default(tmp_path / "m.so", target=target, embed=embed)
    swapped = tmp_path / "s.so"
    made = [path]
    if target != "arm-linux-gnueabihf":  # whose code nothing here reads, so that the blob stays
        mblob.swap(path, {"last": b"s" * 30}, swapped)
        made.append(swapped)
    for library in made:
        with mblob.open(library, verify="full") as found:
            (entry,) = (e for e in found.entries if e.type_key == "largest")
            assert entry.offset % 64 == 0
            symbol = found.elf.find("__tvm_dev_mblob")
            assert (symbol.st_value - found.blob_offset) % 4096 == 0
