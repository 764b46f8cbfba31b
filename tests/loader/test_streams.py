"""Modules of a user's own kind in streams without an index, as TVM up to 0.20 wrote them."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.inspect import payload_layouts
from mblob.loader import loaders
from mblob.native import ffi, lib
from tests.loader.streams import LIB, array, counter, item, library, string, strings, tree, u64

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
    with pytest.raises(mblob.FormatError) as caught:
        mblob.load_module(path, missing="stub")
    assert caught.value.code == "unknown_key"


# -- a loader tells it -----------------------------------------------------------------------------

FORM = "string,u64,strings,array,bytes"
ACME = string(b"name") + u64(7) + strings(b"a", b"bc") + array(1.0, 2.0) + string(b"\0\1\2")


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    """Loaders and layouts of one test are not those of the next."""
    with payload_layouts.temporary_layouts({}):
        yield
    for key in ("acme", "beta"):
        loaders._registered.pop(key, None)
        name = ffi.new("char[]", key.encode())
        record = {"struct_size": ffi.sizeof("mblob_loader"), "type_key": name}
        assert not lib.mblob_register_loader(ffi.new("mblob_loader *", record))


def size(payload: memoryview, ctx: Any) -> mblob.Module:
    """A loader whose modules tell the size of their payload."""
    return mblob.Module(ctx.type_key, functions={f"{ctx.type_key}_size": lambda: len(payload)})


def of_both(path: Path, **how: Any) -> list[tuple[str, int]]:
    """Type key and size of each module, on which the reader in C and the one in Python agree."""
    with mblob.open(path) as looked:
        seen = [(e.type_key, e.size) for e in looked.entries]
    loaded = [(m.type_key, len(m.payload)) for m in mblob.load_module(path, **how).walk()]
    assert sorted(seen) == sorted(loaded)
    return seen


def refused_by_both(path: Path) -> mblob.FormatError:
    """The error in which both readers agree."""
    with pytest.raises(mblob.FormatError) as loading:
        mblob.load_module(path)
    with pytest.raises(mblob.FormatError) as looking, mblob.open(path):
        pass
    error = looking.value
    assert (error.code, error.offset, error.entry) == (
        loading.value.code,
        loading.value.offset,
        loading.value.entry,
    )
    assert "\n" not in str(error) + str(loading.value)
    return error


ITEMS = (LIB, item(b"acme", ACME), CUDA, item(b"acme", ACME), tree([1, 2, 3], [], [], []))


@pytest.mark.parametrize("by", ["layout", "measure", "attribute", "given"])
def test_a_loader_tells_where_its_payloads_end(build: Build, by: str) -> None:
    seen = []

    def measure(view: memoryview) -> Any:
        seen.append(view[0])
        assert bytes(view[: len(ACME)]) == ACME
        return np.int64(len(ACME))

    def loader(payload: memoryview, ctx: Any) -> mblob.Module:
        return size(payload, ctx)

    how: dict[str, Any] = {}
    if by == "layout":
        mblob.register_loader("acme", layout=FORM)(loader)
    elif by == "measure":
        mblob.register_loader("acme", measure=measure)(loader)
    else:
        loader.layout = FORM  # type: ignore[attr-defined]
        if by == "given":
            how["loaders"] = {"acme": loader}
            mblob.register_loader("acme", layout=FORM)  # for mblob.open
        else:
            mblob.register_loader("acme", loader)
    path = build(*ITEMS)
    assert of_both(path, missing="stub", **how) == [
        ("library", 0),
        ("acme", len(ACME)),
        ("cuda", len(CUDA) - 12),
        ("acme", len(ACME)),
    ]
    loaded = mblob.load_module(path, missing="stub", **how)
    assert loaded["give"]() == 42
    assert loaded["acme_size"]() == len(ACME)
    assert bool(seen) == (by == "measure")


@pytest.mark.parametrize("told", [{"layout": FORM}, {"measure": lambda view: len(ACME)}])
def test_a_layout_without_a_loader_is_enough_for_stubs_and_leaves_a_loader_alone(
    build: Build, told: dict[str, Any]
) -> None:
    path = build(*ITEMS)
    with pytest.raises(mblob.FormatError, match="layout="):
        mblob.load_module(path, missing="stub")
    mblob.register_loader("acme", **told)
    sizes = [("library", 0), ("acme", len(ACME)), ("cuda", len(CUDA) - 12), ("acme", len(ACME))]
    assert of_both(path, missing="stub") == sizes
    with pytest.raises(mblob.LoaderMissingError, match="'acme'"):
        mblob.load_module(path)
    with pytest.raises(mblob.LoaderMissingError, match="'acme'"):
        mblob.load_module(path, missing="stub").imported_modules[0]["acme_size"]
    mblob.register_loader("acme", size)  # tells nothing: all that is left
    with pytest.raises(mblob.FormatError):
        mblob.load_module(path, missing="stub")
    mblob.register_loader("acme", **told)
    assert mblob.load_module(path, missing="stub")["acme_size"]() == len(ACME)


def test_an_opening_keeps_what_measures_for_it_no_longer_than_it_takes(build: Build) -> None:
    class Loader:
        def measure(self, view: memoryview) -> int:
            return len(ACME)

        def __call__(self, payload: memoryview, ctx: Any) -> mblob.Module:
            return size(payload, ctx)

    path, given, dead = build(*ITEMS), Loader(), []
    gc.collect()
    before = len(payload_layouts._numbered)
    numbers = set()
    for _ in range(5):
        for loader in (given, Loader()):
            lib = mblob.load_module(path, loaders={"acme": loader})
            assert lib["acme_size"]() == len(ACME)
            numbers.add(payload_layouts.numbered(loader.measure).number)
        dead.append(weakref.ref(loader))
    del lib, loader
    gc.collect()
    assert [ref() for ref in dead] == [None] * 5
    assert len(payload_layouts._numbered) == before
    assert len(numbers) == 6  # one of the loader that stays, none of another one again


def test_a_loader_in_c_compiled_before_there_were_layouts_gets_the_rest(build: Build) -> None:
    name = ffi.new("char[]", b"acme")
    old = {
        "struct_size": ffi.offsetof("mblob_loader", "layout"),
        "type_key": name,
        "open": lib.mblob_py_open,
        "function": lib.mblob_py_function,
        "layout": ffi.cast("char *", 1),  # behind its end
    }
    assert not lib.mblob_register_loader(ffi.new("mblob_loader *", old))
    loaded = mblob.load_module(build(LIB, item(b"acme", b"anything"), tree([1], [])))
    assert modules(loaded) == [("library", b""), ("acme", b"anything")]
    old["struct_size"] -= 1
    assert lib.mblob_register_loader(ffi.new("mblob_loader *", old)) == lib.MBLOB_E_ARGUMENT


def test_layouts_of_several_keys_and_the_form_of_json_runtimes(build: Build) -> None:
    mblob.register_loader("acme", layout="json")(size)
    mblob.register_loader("beta", layout="u8,i16s,f64")(size)
    beta = b"\7" + u64(2) + bytes(4) + bytes(8)
    items = (item(b"beta", beta), LIB, item(b"acme", JSON), tree([1, 2], [], []))
    assert of_both(build(*items)) == [("beta", len(beta)), ("library", 0), ("acme", len(JSON))]


def test_the_rest_may_end_a_layout(build: Build) -> None:
    mblob.register_loader("acme", layout="string,rest")(size)
    payload = string(b"x") + b"anything"
    assert of_both(build(LIB, item(b"acme", payload), tree([1], []))) == [
        ("library", 0),
        ("acme", len(payload)),
    ]


@pytest.mark.parametrize("end", [(), (tree([1], []),)], ids=["TVM 0.6", "TVM 0.7"])
def test_a_loader_with_neither_gets_the_rest_if_its_module_is_the_last(
    build: Build, end: tuple[bytes, ...]
) -> None:
    mblob.register_loader("acme")(size)
    first = (LIB,) if end else ()
    assert of_both(build(*first, item(b"acme", b"anything"), *end)) == [
        ("library", 0),
        ("acme", 8),
    ]
    path = build(*first, item(b"acme", b"anything"), CUDA, *(tree([1, 2], [], []) for _ in end))
    error = refused_by_both(path)
    assert (error.code, error.entry) == ("unknown_key", len(first))
    assert "not the last module" in str(error)


# -- files of older releases -----------------------------------------------------------------------


def test_a_file_of_0_6_has_neither_lib_nor_tree(build: Build) -> None:
    mblob.register_loader("acme", layout=FORM)(size)
    path = build(item(b"acme", ACME), CUDA)
    assert of_both(path, missing="stub") == [
        ("library", 0),
        ("acme", len(ACME)),
        ("cuda", len(CUDA) - 12),
    ]
    loaded = mblob.load_module(path, missing="stub")
    assert [m.type_key for m in loaded.imported_modules] == ["acme", "cuda"]
    assert loaded["give"]() == 42


def test_a_file_of_0_7_may_have_its_library_twice_and_no_library_at_all(build: Build) -> None:
    mblob.register_loader("acme", layout=FORM)(size)
    twice = build(LIB, item(b"acme", ACME), LIB, tree([1, 2], [], []))
    assert of_both(twice) == [("library", 0), ("acme", len(ACME)), ("library", 0)]
    loaded = mblob.load_module(twice)
    assert [m.type_key for m in loaded.imported_modules] == ["acme", "library"]
    assert loaded.imported_modules[1]["give"]() == 42
    none = build(item(b"acme", ACME), item(b"acme", ACME), tree([1], []))
    assert of_both(none) == [("acme", len(ACME)), ("acme", len(ACME))]


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2), (2, 3, 1)])
def test_several_dso_modules_each_with_an_order_of_its_own(
    build: Build, order: tuple[int, ...]
) -> None:
    """TVM 0.7 wrote one `_lib` for each; imports keep the order in which they were added."""
    mblob.register_loader("acme", layout=FORM)(size)
    mblob.register_loader("beta", layout="strings")(size)
    beta = strings(b"one", b"two")
    items = (LIB, item(b"acme", ACME), LIB, item(b"beta", beta))
    path = build(*items, tree(order, [], order[:1] if order[0] != 2 else order[1:2], []))
    assert [key for key, _ in of_both(path)] == ["library", "acme", "library", "beta"]
    keys = ["library", "acme", "library", "beta"]
    loaded = mblob.load_module(path)
    assert [m.type_key for m in loaded.imported_modules] == [keys[i] for i in order]
    assert loaded["acme_size"]() == len(ACME)


# -- it does not fit -------------------------------------------------------------------------------

SIMPLE = string(b"xy")
AT = 8 + 8 + len(LIB) + 8 + 4  # of the payload of the first `acme` behind `_lib`


@pytest.mark.parametrize(
    ("form", "payload", "offset"),
    [
        # past the stream
        ("string", u64(1 << 40) + b"xy", AT + 0),
        ("string,string,string,string,string,string,string", SIMPLE, None),
        # never ending
        ("strings", u64((1 << 64) - 1), AT + 0),
        ("arrays", u64(1 << 61) + array(1.0), AT + 0),
        ("f64s", u64(1 << 61), AT + 0),
        # ends too early, or inside the key of the next item
        ("u64", SIMPLE, AT + 8),
        ("u8", SIMPLE, AT + 1),
        # overlaps the import tree: its key, or all of it
        ("string,string", SIMPLE, AT + 10 + 8 + 12),
        ("string,string,u64s,u64s", SIMPLE, None),
    ],
)
def test_a_layout_that_does_not_fit_is_one_error_with_key_and_offset(
    build: Build, form: str, payload: bytes, offset: int | None
) -> None:
    mblob.register_loader("acme", layout=form)(size)
    error = refused_by_both(build(LIB, item(b"acme", payload), tree([1], [])))
    assert (error.code, error.entry) == ("layout", 1)
    assert "'acme'" in str(error)
    assert error.offset is not None
    assert offset in (None, error.offset)


@pytest.mark.parametrize(
    ("measure", "words"),
    [
        (lambda view: len(view) + 1, "measured"),
        (lambda view: 1 << 70, "measured"),
        (lambda view: -1, "measured"),
        (lambda view: "ten", "measured 'ten' bytes"),
        (lambda view: True, "measured True"),
        (lambda view: view[1 << 40], "IndexError"),
        (lambda view: len(view), "the layout or measure function"),
        (lambda view: 10 + 20, "the layout or measure function"),
    ],
    ids=["past", "huge", "negative", "text", "bool", "raises", "all", "into the tree"],
)
def test_a_measure_that_does_not_fit_is_one_error_with_key_and_offset(
    build: Build, measure: Callable[[memoryview], Any], words: str
) -> None:
    mblob.register_loader("acme", measure=measure)(size)
    error = refused_by_both(build(LIB, item(b"acme", SIMPLE), tree([1], [])))
    assert (error.code, error.entry) == ("layout", 1)
    assert "'acme'" in str(error)
    assert words in str(error)
    assert error.offset is not None
    assert error.offset >= AT


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_ctrl_c_while_a_payload_is_measured_ends_the_opening(
    build: Build, stop: type[BaseException]
) -> None:
    def measure(view: memoryview) -> int:
        raise stop

    mblob.register_loader("acme", measure=measure)(size)
    path = build(LIB, item(b"acme", SIMPLE), tree([1], []))
    for opening in (mblob.load_module, mblob.open, mblob.verify):
        with pytest.raises(stop):
            opening(path)
    mblob.register_loader("acme", layout="string")(size)
    assert of_both(path)[-1][0] == "acme"


def test_an_unknown_key_behind_a_measured_module_names_both(build: Build) -> None:
    mblob.register_loader("acme", measure=lambda view: 0)(size)
    error = refused_by_both(build(LIB, item(b"acme", SIMPLE), tree([1], [])))
    assert (error.code, error.entry, error.type_key) == ("unknown_key", 2, "xy")
    assert "'acme' before it" in str(error)


def test_bytes_behind_a_measured_last_module_are_an_error(build: Build) -> None:
    mblob.register_loader("acme", layout="string")(size)
    error = refused_by_both(build(item(b"acme", SIMPLE + b"more")))
    assert (error.code, error.offset) == ("layout", 8 + 8 + 8 + 4 + len(SIMPLE))


@pytest.mark.parametrize(
    "form",
    [
        "",
        "text",
        "string,",
        ",",
        "rest,string",
        "string;u64",
        "stringss",
        "u128",
        "json,u8",
        "rests",
    ],
)
def test_a_wrong_layout_is_refused_when_it_is_given(form: str) -> None:
    with pytest.raises(ValueError, match="layout"):
        mblob.register_loader("acme", layout=form)


def test_a_layout_that_is_too_long_says_so() -> None:
    with pytest.raises(ValueError, match="layout of 258 characters, expected at most 255"):
        mblob.register_loader("acme", layout=",".join(["u8"] * 86 + [""])[:258])


def test_layout_and_measure_exclude_each_other_and_have_types() -> None:
    with pytest.raises(ValueError, match="exclude"):
        mblob.register_loader("acme", layout="string", measure=len)
    with pytest.raises(TypeError, match="layout"):
        mblob.register_loader("acme", layout=3)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="measure"):
        mblob.register_loader("acme", measure=3)  # type: ignore[call-overload]


# -- entry points ----------------------------------------------------------------------------------


def test_an_installed_distribution_tells_the_layout_of_its_loader(
    build: Build, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    info = site / "acme-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[mblob.loaders]\nacme = acme_loader:load\n")
    (site / "acme_loader.py").write_text(
        "import mblob\n"
        "def load(payload, ctx):\n"
        "    return mblob.Module('acme', functions={'n': lambda: len(payload)})\n"
        f"load.layout = {FORM!r}\n"
    )
    program = (
        "import sys, mblob\n"
        "lib = mblob.load_module(sys.argv[1], missing='stub')\n"
        "print(lib['n'](), [m.type_key for m in lib.imported_modules])\n"
        "print([e.type_key for e in mblob.open(sys.argv[1]).entries])\n"
    )
    path = build(LIB, item(b"acme", ACME), item(b"acme", ACME), tree([1, 2], [], []))
    done = subprocess.run(
        [sys.executable, "-c", program, path],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(site)},
    )
    assert done.stdout.splitlines() == [
        f"{len(ACME)} ['acme', 'acme']",
        "['library', 'acme', 'acme']",
    ], done.stderr


# -- packing ---------------------------------------------------------------------------------------


def test_the_author_of_a_json_module_can_read_it_without_an_index(tmp_path: Path) -> None:
    mblob.register_loader("acme", layout="json")(size)
    host = mblob.csource_module("int one(void) { return 1; }", functions=["int one(void)"])
    for name in ("r0", "r1"):
        host.import_module(mblob.json_module("acme", name, "{}", ["w"]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        host.export_library(tmp_path / "j.so", index=False)
    assert [key for key, _ in of_both(tmp_path / "j.so")] == ["library", "acme", "acme"]


def test_a_payload_that_its_own_layout_does_not_fit_is_refused_at_export(tmp_path: Path) -> None:
    mblob.register_loader("acme", layout="u64")(size)
    host = mblob.csource_module("int one(void) { return 1; }", functions=["int one(void)"])
    host.import_module(mblob.blob_module("acme", b"payload"))
    with pytest.raises(mblob.FormatError, match="'acme'") as caught:
        host.export_library(tmp_path / "j.so", index=False)
    assert caught.value.code == "layout"
    assert not (tmp_path / "j.so").exists()


# -- modules save themselves -----------------------------------------------------------------------


TWO = tree([1, 2], [], [])


def test_swap_refuses_what_the_layout_of_the_key_would_read_otherwise(build: Build) -> None:
    path = build(LIB, item(b"acme", u64(41)), item(b"beta", string(b"hello")), TWO)
    before = path.read_bytes()
    mblob.register_loader("acme", layout="u64")(size)
    mblob.register_loader("beta", layout="string")(size)
    for payload in (u64(1)[:5], u64(1) + string(b"beta") + b"AB", u64(1, 2)):
        with pytest.raises(
            mblob.FormatError, match=r"new payload of .*\(acme\): the payload of 'acme'"
        ):
            mblob.swap(path, {"acme": payload})
        assert path.read_bytes() == before
    mblob.swap(path, {"acme": u64(7)})
    assert of_both(path) == [("library", 0), ("acme", 8), ("beta", 13)]


def test_an_index_is_stripped_if_layouts_say_where_payloads_end(build: Build) -> None:
    path = build(LIB, item(b"acme", u64(41)), item(b"beta", string(b"hello")), TWO)
    before = path.read_bytes()
    mblob.register_loader("acme", layout="u64")(size)
    mblob.register_loader("beta", layout="string")(size)
    mblob.add_index(path)
    mblob.strip_index(path)
    assert of_both(path) == [("library", 0), ("acme", 8), ("beta", 13)]
    assert len(path.read_bytes()) >= len(before)


@pytest.mark.own_process
@pytest.mark.parametrize(
    ("dialect", "index"), [("classic", True), ("classic", False), ("ffi", True)]
)
def test_a_module_that_was_loaded_changed_and_exported_saves_what_it_has_become(
    tmp_path: Path, dialect: Any, index: bool
) -> None:
    mblob.register_loader("acme", layout="u64")(counter)
    host = mblob.csource_module("int one(void) { return 1; }", functions=["int one(void)"])
    host.import_module(mblob.Module("acme", functions={}, save=lambda: u64(5)))
    host.export_library(tmp_path / "a.so", dialect=dialect, index=index)
    lib = mblob.load_module(tmp_path / "a.so")
    assert bytes(lib.imported_modules[0].payload) == u64(5)
    lib.export_library(tmp_path / "same.so")  # nothing was used: nothing to save
    assert lib["count"](2) == 7
    assert bytes(lib.imported_modules[0].payload) == u64(5)
    lib.export_library(tmp_path / "b.so")
    for name, expected in (("same.so", 5), ("b.so", 7)):
        assert mblob.load_module(tmp_path / name)["count"](0) == expected
    again = mblob.csource_module("int two(void) { return 2; }", functions=["int two(void)"])
    again.import_module(lib.imported_modules[0])
    again.export_library(tmp_path / "c.so", dialect=dialect)
    assert mblob.load_module(tmp_path / "c.so")["count"](0) == 7


@pytest.mark.parametrize(
    ("save", "error", "words"),
    [
        (lambda: 1 / 0, RuntimeError, "the save function of 'acme' failed: ZeroDivisionError"),
        (lambda: "text", TypeError, "'acme'.*bytes, found str"),
        (lambda: None, TypeError, "'acme'.*bytes, found NoneType"),
        (lambda: b"short", mblob.FormatError, "'acme'"),
    ],
    ids=["raises", "text", "nothing", "not what it reads"],
)
def test_a_save_that_fails_is_one_error(
    tmp_path: Path, save: Callable[[], Any], error: type[Exception], words: str
) -> None:
    mblob.register_loader("acme", layout="u64")(counter)
    host = mblob.csource_module("int one(void) { return 1; }", functions=["int one(void)"])
    host.import_module(mblob.Module("acme", functions={}, save=save))
    with pytest.raises(error, match=words) as caught:
        host.export_library(tmp_path / "a.so", index=False)
    assert isinstance(caught.value, mblob.MblobError)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.glob("a.so*"))


def test_save_must_be_callable() -> None:
    with pytest.raises(TypeError, match="save: expected a callable, found bytes"):
        mblob.Module("acme", save=b"bytes")  # type: ignore[arg-type]
