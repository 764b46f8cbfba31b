"""Libraries that were loaded, whose modules changed, and that are exported again."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import mblob
from mblob.loader import loaders
from mblob.native import ffi, lib
from tests.loader.streams import counter, u64

pytestmark = pytest.mark.own_process
DIALECTS: Any = ("classic", "ffi")
Write = Callable[..., Path]


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    mblob.register_loader("acme", layout="u64")(counter)
    yield
    loaders._registered.pop("acme")
    record = {"struct_size": ffi.sizeof("mblob_loader"), "type_key": ffi.new("char[]", b"acme")}
    assert not lib.mblob_register_loader(ffi.new("mblob_loader *", record))


@pytest.fixture
def packed(tmp_path: Path) -> Write:
    """`packed(name, **options)`: a library with a function `one`, and a module that counts from 5."""

    def write(name: str = "first.so", **options: Any) -> Path:
        host = mblob.csource_module("int one(void) { return 1; }", functions=["int one(void)"])
        host.import_module(mblob.blob_module("acme", u64(5), data=False))
        host.export_library(tmp_path / name, **options)
        return tmp_path / name

    return write


def changed(source: Any) -> mblob.Module:
    loaded = mblob.load_module(source)
    assert loaded["count"](2) == 7
    return loaded


def form_of(path: Path) -> tuple[str | None, bool, str | None]:
    """Dialect, whether there is an index, and its digest, of a library with the count 7."""
    loaded = mblob.load_module(path, verify="full")
    assert (loaded["count"](0), loaded["one"]()) == (7, 1)
    with mblob.open(path) as looked:
        assert looked.blob is not None
        has_index = looked.blob.index_offset is not None
        return looked.dialect, has_index, looked.entries[1].digest_algorithm


@pytest.mark.sample(8)
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("had", "asked", "expected"),
    [
        ({}, {}, ("same", True, "crc32")),
        ({"digest": "sha256"}, {}, ("same", True, "sha256")),
        ({"index": False}, {}, ("same", False, None)),
        ({}, {"dialect": "same"}, ("same", True, "crc32")),
        ({}, {"digest": "sha256"}, ("same", True, "sha256")),
        ({"digest": "sha256"}, {"digest": "none"}, ("same", True, None)),
        ({}, {"index": False}, ("same", False, None)),
        ({"index": False}, {"index": True, "digest": "sha256"}, ("same", True, "sha256")),
        ({}, {"dialect": "other"}, ("other", True, "crc32")),
        ({"digest": "sha256"}, {"dialect": "other"}, ("other", True, "sha256")),
        ({"index": False}, {"dialect": "other"}, ("other", False, None)),
        ({}, {"dialect": "other", "index": False}, ("other", False, None)),
    ],
)
def test_options_that_are_asked_for_change_and_all_others_stay(
    packed: Write,
    tmp_path: Path,
    dialect: str,
    had: dict[str, Any],
    asked: dict[str, Any],
    expected: tuple[Any, ...],
) -> None:
    names = {"same": dialect, "other": DIALECTS[dialect == "classic"]}
    asked = {k: names.get(v, v) for k, v in asked.items()}
    loaded = changed(packed(dialect=dialect, **had))
    loaded.export_library(tmp_path / "second.so", **asked)
    assert form_of(tmp_path / "second.so") == (names[expected[0]], *expected[1:])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["first.so", "second.so"]


@pytest.mark.parametrize("options", [{}, {"dialect": "ffi", "digest": "sha256"}])
def test_a_library_from_memory_is_exported(
    packed: Write, tmp_path: Path, options: dict[str, Any]
) -> None:
    changed(packed().read_bytes()).export_library(tmp_path / "m.so", **options)
    expected = (options.get("dialect", "classic"), True, options.get("digest", "crc32"))
    assert form_of(tmp_path / "m.so") == expected
    assert stat.S_IMODE((tmp_path / "m.so").stat().st_mode) == 0o755


@pytest.mark.parametrize("from_memory", [False, True])
def test_a_tar_is_exported_as_the_library_that_it_was_linked_to(
    packed: Write, tmp_path: Path, from_memory: bool
) -> None:
    tar = packed("first.tar")
    changed(tar.read_bytes() if from_memory else tar).export_library(tmp_path / "m.so")
    assert form_of(tmp_path / "m.so") == ("classic", True, "crc32")


@pytest.mark.parametrize("options", [{}, {"dialect": "ffi"}])
@pytest.mark.parametrize("there", ["nothing", "junk", "another library"])
def test_what_was_loaded_is_exported_whatever_took_the_place_of_its_file(
    packed: Write, tmp_path: Path, there: str, options: dict[str, Any]
) -> None:
    first = packed()
    loaded = changed(first)
    first.unlink()
    if there == "junk":
        first.write_bytes(b"junk")
    elif there != "nothing":
        other = mblob.csource_module("int one(void) { return 9; }", functions=["int one(void)"])
        other.import_module(mblob.blob_module("acme", u64(1), data=False))
        other.export_library(first)
    loaded.export_library(tmp_path / "second.so", **options)
    assert form_of(tmp_path / "second.so")[0] == options.get("dialect", "classic")


def test_a_library_is_exported_to_its_own_file_again_and_again(packed: Write) -> None:
    first = packed()
    loaded = changed(first)
    for dialect in (None, "ffi"):
        loaded.export_library(first, dialect=dialect)
        assert form_of(first)[0] == (dialect or "classic")
    loaded["count"](1)
    loaded.export_library(first)
    assert mblob.load_module(first)["count"](0) == 8


def test_a_file_that_was_overwritten_is_an_error(packed: Write, tmp_path: Path) -> None:
    first = packed()
    loaded = changed(first)
    os.utime(first, (1, 1))
    with pytest.raises(mblob.MblobError, match=r"first\.so: .* overwritten after it was loaded"):
        loaded.export_library(tmp_path / "second.so")
    assert not (tmp_path / "second.so").exists()


def test_the_function_exports_as_the_method_does(packed: Write, tmp_path: Path) -> None:
    mblob.export_library(changed(packed()), tmp_path / "second.so", digest="sha256")
    assert form_of(tmp_path / "second.so") == ("classic", True, "sha256")


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("x.so", {"embed": "object"}, "embed= has no meaning for a loaded library"),
        ("x.so", {"fcompile": lambda *_: None}, "fcompile= has no meaning for a loaded library"),
        ("x.so", {"addons": ["x.o"]}, "addons= has no meaning for a loaded library"),
        ("x.so", {"dialect": "other"}, "dialect: expected one of"),
        ("x.so", {"digest": "md5"}, "digest: expected one of"),
        ("x.a", {"system_lib": True}, "system_lib= has no meaning for a loaded library"),
        ("x.tar", {}, "has no objects"),
        ("x.o", {}, r"expected a name that ends in \.so"),
        ("x.dll", {}, r"is an ELF file; name the output x\.so"),
    ],
)
def test_what_needs_the_objects_is_one_error_with_the_remedy(
    packed: Write, tmp_path: Path, name: str, options: dict[str, Any], words: str
) -> None:
    for loaded in (changed(packed()), changed(packed().read_bytes())):
        with pytest.raises(mblob.BuildError, match=words) as caught:
            loaded.export_library(tmp_path / name, **options)
        text = str(caught.value)
        assert "\n" not in text and "/proc/" not in text
        assert "meaning" not in text or "static_library" in text
        assert [p.name for p in tmp_path.iterdir()] == ["first.so"]


def test_a_digest_needs_an_index(packed: Write, tmp_path: Path) -> None:
    loaded = changed(packed(index=False))
    with pytest.raises(mblob.BuildError, match="no index, which has the digests; add index=True"):
        loaded.export_library(tmp_path / "x.so", digest="sha256")
    loaded.import_module(mblob.blob_module("labels", b"cat"))  # what is added has an index
    loaded.export_library(tmp_path / "x.so", digest="sha256")
    assert form_of(tmp_path / "x.so") == ("classic", True, "sha256")
    assert bytes(mblob.load_module(tmp_path / "x.so").payloads["labels"]) == b"cat"


@pytest.mark.parametrize(
    "options", [{}, {"digest": "sha256"}, {"dialect": "ffi"}, {"index": False}]
)
@pytest.mark.parametrize("from_memory", [False, True])
def test_what_changed_and_what_was_imported_are_exported_together(
    packed: Write, tmp_path: Path, from_memory: bool, options: dict[str, Any]
) -> None:
    first = packed()
    loaded = changed(first.read_bytes() if from_memory else first)
    saves = mblob.Module("acme", functions={}, save=lambda: u64(9))
    loaded.import_module(
        mblob.csource_module("int two(void) { return 2; }", functions=["int two(void)"])
    )
    loaded.imported_modules[0].import_module(saves)
    loaded.export_library(tmp_path / "x.so", **options)
    again = mblob.load_module(tmp_path / "x.so")
    assert (again["one"](), again["two"](), again["count"](0)) == (1, 2, 7)
    assert again.imported_modules[0].imported_modules[0]["count"](0) == 9


@pytest.mark.parametrize("asked", [{"index": True}, {"digest": "sha256"}])
def test_code_without_a_blob_gets_no_index(tmp_path: Path, asked: dict[str, Any]) -> None:
    host = mblob.csource_module("int one(void) { return 1; }", functions=["int one(void)"])
    host.export_library(tmp_path / "code.so", index=False)
    loaded = mblob.load_module(tmp_path / "code.so")
    with pytest.raises(
        mblob.BuildError, match=r"no modules but its code.*leave index= and digest="
    ):
        loaded.export_library(tmp_path / "x.so", **asked)
    loaded.export_library(tmp_path / "x.so", index=False)
    assert mblob.load_module(tmp_path / "x.so")["one"]() == 1


def test_other_modules_than_those_of_the_library_are_one_error(
    packed: Write, tmp_path: Path
) -> None:
    host = mblob.csource_module("int two(void) { return 2; }", functions=["int two(void)"])
    host.import_module(changed(packed()))
    with pytest.raises(mblob.BuildError, match="neither linked again nor serialized; pack its"):
        host.export_library(tmp_path / "x.so")


def test_a_module_of_the_library_is_packed_alone(packed: Write, tmp_path: Path) -> None:
    loaded = changed(packed(digest="sha256"))
    loaded.imported_modules[0].export_library(tmp_path / "x.so")
    assert mblob.load_module(tmp_path / "x.so")["count"](0) == 7
