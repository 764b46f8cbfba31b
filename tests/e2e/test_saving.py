"""SaveToBinary of modules in Python, C and C++: what an export stores, and what it says when that fails."""

from __future__ import annotations

import copy
import ctypes
import pickle
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import mblob
from mblob.loader import loaders, opened
from mblob.native import ffi, lib
from tests.built_once import built_once
from tests.loader.streams import u64

pytestmark = pytest.mark.own_process
HERE = Path(__file__).parent
KINDS = ("ckind", "acme", *(f"kind{n}" for n in range(7)))
Load = Callable[[str, int], mblob.Module]


def compile_kinds(folder: Path) -> None:
    include, libraries = mblob.get_include(), mblob.get_library_dir()
    for source, command in (("kinds.c", ["cc"]), ("kinds.cpp", ["c++", "-std=c++17"])):
        flags = ["-Wall", "-Wextra", "-Werror", "-DMBLOB_HOST", f"-I{include}"]
        flags += [f"-I{include}/mblob/compat", f"-L{libraries}", f"-Wl,-rpath,{libraries}"]
        out = folder / f"lib{source}.so"
        command = [*command, "-shared", "-fPIC", str(HERE / source), "-o", str(out), *flags]
        subprocess.run([*command, "-lmblob", "-Wl,-z,nodelete"], check=True)


@pytest.fixture(scope="module")
def kinds() -> ctypes.CDLL:
    """The library with the kind in C; that with the kinds in C++ is loaded, too."""
    text = "".join((HERE / f"kinds.{suffix}").read_text() for suffix in ("c", "cpp"))
    folder = built_once("kinds", compile_kinds, "cc", "c++", text, str(mblob.get_library_dir()))
    ctypes.CDLL(str(folder / "libkinds.cpp.so"))
    return ctypes.CDLL(str(folder / "libkinds.c.so"))


@pytest.fixture(autouse=True)
def layouts(kinds: ctypes.CDLL) -> Iterator[None]:
    for key in KINDS:
        mblob.register_loader(key, layout="u64")
    yield
    for key in KINDS:
        loaders._registered.pop(key, None)


def library_with(module: mblob.Module, path: Path) -> None:
    host = mblob.csource_module("int one(void) { return 1; }", functions=["int one(void)"])
    host.import_module(module)
    host.export_library(path)


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """`load(key, number)`: a library with a module of that key and payload."""

    def loaded(key: str, number: int) -> mblob.Module:
        module = mblob.blob_module(key, u64(number), data=False)
        library_with(module, tmp_path / f"{key}{number}.so")
        return mblob.load_module(tmp_path / f"{key}{number}.so")

    return loaded


# -- C++ -------------------------------------------------------------------------------------------

SAID = {
    1: "boom",
    2: "bad_alloc|out of memory",
    3: "int|C\\+\\+ exception",
    4: "does not support SaveToBinary",
}


@pytest.mark.parametrize("number", [1, 2, 3, 4])
@pytest.mark.parametrize("made", [False, True])
def test_a_save_to_binary_that_throws_is_one_error_with_the_key(
    load: Load, tmp_path: Path, number: int, made: bool
) -> None:
    kind = f"kind{number}"
    loaded = load(kind, 5)
    module = mblob.get_global_func(f"make_{kind}")() if made else loaded
    module["count"](4)
    with pytest.raises((RuntimeError, MemoryError), match=SAID[number]) as caught:
        if made:
            library_with(module, tmp_path / "x.so")
        else:
            module.export_library(tmp_path / "x.so")
    text = str(caught.value)
    assert f"the save function of '{kind}'" in text and "\n" not in text
    assert isinstance(caught.value, MemoryError) or type(caught.value).__name__ == "StateError"
    assert not (tmp_path / "x.so").exists()


def test_a_node_of_cxx_that_was_not_loaded_saves_itself(tmp_path: Path) -> None:
    module = mblob.get_global_func("make_kind0")()
    assert module["count"](9) == 9
    library_with(module, tmp_path / "x.so")
    again = mblob.load_module(tmp_path / "x.so")
    assert again["count"](1) == 10
    again.export_library(tmp_path / "y.so", dialect="ffi")
    assert mblob.load_module(tmp_path / "y.so")["count"](0) == 10


@pytest.mark.parametrize(("number", "words"), [(5, "boom"), (6, "read 0 of 8 bytes")])
def test_a_load_from_binary_that_fails_is_one_error_with_the_key(
    load: Load, number: int, words: str
) -> None:
    loaded = load(f"kind{number}", 5)
    with pytest.raises(mblob.KernelError, match=f"'kind{number}'.*{words}"):
        loaded["count"]


# -- C ---------------------------------------------------------------------------------------------

BOOM = "the save function of 'ckind' failed: boom"
STATUSES = [
    (1010, lib.MBLOB_E_ARGUMENT, BOOM),
    (1011, lib.MBLOB_E_KERNEL, BOOM),
    (1020, lib.MBLOB_E_FORMAT, BOOM),
    (1040, lib.MBLOB_E_LOADER, BOOM),
    (1050, lib.MBLOB_E_KERNEL, BOOM),
    (1060, lib.MBLOB_E_IO, BOOM),
    (1070, lib.MBLOB_E_MEMORY, BOOM),
    (10, lib.MBLOB_E_ARGUMENT, "the save function of 'ckind' failed with status 10"),
    (11, lib.MBLOB_E_KERNEL, "the save function of 'ckind' failed with status 11"),
    (60, lib.MBLOB_E_IO, "the save function of 'ckind' failed with status 60"),
    (7, lib.MBLOB_E_KERNEL, "the save function of 'ckind' failed with status 7 and"),
]


def saved(module: mblob.Module, write: Callable[..., int]) -> int:
    node: Any = module.imported_modules[0]._node
    assert isinstance(node, opened.OpenedNode)
    callback = ffi.callback("int(void *, const void *, size_t)", write)
    return int(lib.mblob_module_save(node.handle, callback, ffi.NULL))


@pytest.mark.parametrize(("number", "status", "words"), STATUSES)
def test_each_cause_of_a_save_that_fails_has_its_status_in_c(
    load: Load, tmp_path: Path, number: int, status: int, words: str
) -> None:
    loaded = load("ckind", number)
    assert saved(loaded, lambda *_: 0) == lib.MBLOB_E_NOT_FOUND  # nothing was used
    assert loaded["add"](0) == number
    assert saved(loaded, lambda *_: 0) == status
    assert words in ffi.string(lib.mblob_last_error()).decode()
    kinds = {lib.MBLOB_E_IO: OSError, lib.MBLOB_E_MEMORY: MemoryError}
    with pytest.raises(kinds.get(status, mblob.MblobError), match=words) as caught:
        loaded.export_library(tmp_path / "x.so")
    assert status in kinds or isinstance(caught.value, RuntimeError)


def test_what_write_returns_is_what_a_save_fails_with(load: Load) -> None:
    loaded = load("ckind", 0)
    loaded["add"](0)
    assert saved(loaded, lambda *_: int(lib.MBLOB_E_IO)) == lib.MBLOB_E_IO
    assert saved(loaded, lambda *_: 5) == lib.MBLOB_E_KERNEL
    assert saved(loaded, lambda *_: 0) == lib.MBLOB_OK


def test_a_module_of_c_without_a_file_saves_itself_or_is_refused(
    kinds: ctypes.CDLL, tmp_path: Path
) -> None:
    kinds.make.restype = ctypes.c_void_p
    for saves in (True, False):
        module = opened.adopt(ffi.cast("mblob_module *", kinds.make(saves)))
        if saves:
            library_with(module, tmp_path / "x.so")
            assert mblob.load_module(tmp_path / "x.so")["add"](3) == 3
            continue
        with pytest.raises(mblob.BuildError, match=r"'ckind' cannot be exported.*mblob_loader"):
            library_with(module, tmp_path / "y.so")


@pytest.mark.parametrize("register", ["mblob_register_loader", "mblob_register_last_loader"])
def test_a_loader_in_c_has_a_layout_or_measures(register: str) -> None:
    key, layout = ffi.new("char[]", b"both"), ffi.new("char[]", b"u64")
    record = {
        "struct_size": ffi.sizeof("mblob_loader"),
        "type_key": key,
        "layout": layout,
        "measure": lib.mblob_py_measure,
        "function": lib.mblob_py_function,
    }
    assert getattr(lib, register)(ffi.new("mblob_loader *", record)) == lib.MBLOB_E_ARGUMENT
    text = ffi.string(lib.mblob_last_error()).decode()
    assert text == f"{register}: the loader of 'both' has a layout and measure, expected one"


def bytes_in_c(handle: Any) -> bytes:
    """What mblob_module_save gives."""
    pieces: list[bytes] = []

    def write(_: Any, data: Any, size: int) -> int:
        pieces.append(bytes(ffi.buffer(data, size)))
        return 0

    callback = ffi.callback("int(void *, const void *, size_t)", write)
    status = lib.mblob_module_save(handle, callback, ffi.NULL)
    assert not status, (status, ffi.string(lib.mblob_last_error()))
    return b"".join(pieces)


def use_in_c(handle: Any, name: bytes) -> None:
    out = ffi.new("mblob_function **")
    assert not lib.mblob_module_function(handle, name, 0, out)
    lib.mblob_function_release(out[0])


def test_c_code_saves_modules_of_loaders_in_python(load: Load) -> None:
    mblob.register_loader("acme", counting, layout="u64")
    module = load("acme", 5).imported_modules[0]
    node: Any = module._node
    use_in_c(node.handle, b"add")
    assert bytes_in_c(node.handle) == u64(5)
    module["add"](3)
    assert bytes_in_c(node.handle) == u64(8)
    silent = mblob.Module("acme", functions={"f": len})
    mblob.register_loader("acme", lambda p, ctx: silent)
    module = load("acme", 6).imported_modules[0]
    use_in_c(module._node.handle, b"f")  # type: ignore[attr-defined]
    assert bytes_in_c(module._node.handle) == u64(6)  # type: ignore[attr-defined]


@pytest.mark.parametrize("fails", [lambda: 1 / 0, lambda: "text"])
def test_a_save_in_python_that_fails_is_one_error_in_c_and_python(
    load: Load, tmp_path: Path, fails: Callable[[], Any]
) -> None:
    failing = mblob.Module("acme", functions={"f": len}, save=fails)
    mblob.register_loader("acme", lambda p, ctx: failing)
    loaded = load("acme", 5)
    node: Any = loaded.imported_modules[0]._node
    use_in_c(node.handle, b"f")
    assert saved(loaded, lambda *_: 0) == lib.MBLOB_E_KERNEL
    text = ffi.string(lib.mblob_last_error()).decode()
    assert text.startswith("the save function of 'acme'") and text.count("save function") == 1
    with pytest.raises(mblob.MblobError, match="the save function of 'acme'"):
        loaded.export_library(tmp_path / "x.so")


def test_c_code_saves_modules_that_were_made_in_python(load: Load) -> None:
    from mblob.loader.callbacks import made_module

    given = mblob.Module("acme", save=lambda: b"now")
    handle = made_module(given, lambda: given)
    assert bytes_in_c(handle) == b"now"
    lib.mblob_module_release(handle)
    bare = mblob.Module("acme", functions={"f": len})
    handle = made_module(bare, lambda: bare)
    never = ffi.callback("int(void *, const void *, size_t)", lambda *_: 0)
    assert lib.mblob_module_save(handle, never, ffi.NULL) == lib.MBLOB_E_KERNEL
    assert b"'acme' cannot be exported" in ffi.string(lib.mblob_last_error())
    lib.mblob_module_release(handle)


# -- Python ----------------------------------------------------------------------------------------


def test_a_module_of_python_without_bytes_is_refused_and_one_with_empty_bytes_is_not(
    tmp_path: Path,
) -> None:
    module = mblob.Module("acme", functions={"f": len})
    assert not module.is_binary_serializable()
    with pytest.raises(mblob.BuildError, match=r"'acme' cannot be exported.*payload=.*save="):
        library_with(module, tmp_path / "x.so")
    assert not (tmp_path / "x.so").exists()
    for how in ({"payload": b""}, {"save": lambda: b""}):
        given = mblob.Module("any", functions={"f": len}, **how)  # type: ignore[arg-type]
        assert given.is_binary_serializable()
        library_with(given, tmp_path / "x.so")
        with mblob.open(tmp_path / "x.so") as looked:
            assert [(e.type_key, e.size) for e in looked.entries] == [("library", 0), ("any", 0)]


@pytest.mark.parametrize("told", [{"layout": "u64"}, {"measure": lambda view: 8}])
@pytest.mark.parametrize("given", [b"short", u64(1, 2), b""])
def test_bytes_that_the_loader_of_the_key_would_not_read_are_refused_with_an_index_too(
    load: Load, tmp_path: Path, told: Any, given: bytes
) -> None:
    def loader(payload: memoryview, ctx: Any) -> mblob.Module:
        return mblob.Module("acme", functions={"f": len}, save=lambda: given)

    mblob.register_loader("acme", loader, **told)
    loaded = load("acme", 5)
    loaded["f"]("")
    for export in (loaded.export_library, lambda p: library_with(loaded.imported_modules[0], p)):
        with pytest.raises(mblob.FormatError, match="the payload of 'acme'") as caught:
            export(tmp_path / "x.so")
        assert caught.value.code == "layout"
        assert not (tmp_path / "x.so").exists()


def test_a_loaded_module_without_save_keeps_its_bytes(load: Load, tmp_path: Path) -> None:
    mblob.register_loader("acme", lambda p, ctx: mblob.Module("acme", functions={"f": len}))
    loaded = load("acme", 5)
    assert loaded["f"]("abc") == 3
    loaded.export_library(tmp_path / "x.so")
    assert bytes(mblob.load_module(tmp_path / "x.so").imported_modules[0].payload) == u64(5)


# -- pickles ---------------------------------------------------------------------------------------


LARGE = 1 << 20  # which the kind in C saves, too


def counting(payload: memoryview, ctx: Any) -> mblob.Module:
    state = [int.from_bytes(payload, "little")]

    def add(step: int) -> int:
        state[0] += step
        return state[0]

    return mblob.Module("acme", functions={"add": add}, save=lambda: u64(state[0]))


@pytest.mark.parametrize(
    ("key", "function"), [("acme", "add"), ("ckind", "add"), ("kind0", "count")]
)
def test_a_module_that_changed_is_not_pickled_as_what_it_was(
    load: Load, tmp_path: Path, key: str, function: str
) -> None:
    if key == "acme":
        mblob.register_loader(key, counting, layout="u64")
    loaded = load(key, 0)
    for change in (0, LARGE):
        assert loaded[function](change) == change
        packed = [] if key == "acme" else [loaded[function]]  # else it is Python's own function
        for value in (loaded, loaded.imported_modules[0], *packed):
            for copied in (pickle.dumps, copy.deepcopy, copy.copy):
                if not change or (value in packed and copied is not pickle.dumps):
                    copied(value)
                    continue
                with pytest.raises(TypeError, match=f"{key!r} changed since it was loaded.*export"):
                    copied(value)
    with pytest.raises(TypeError, match=f"{key!r} changed since it was loaded"):
        loaded.with_bytes()
    loaded.export_library(tmp_path / "x.so")
    again = pickle.loads(pickle.dumps(mblob.load_module(tmp_path / "x.so")))
    assert again[function](0) == LARGE


def test_a_module_of_python_functions_is_not_pickled() -> None:
    module = mblob.Module("acme", functions={"f": len}, payload=b"x")
    for copied in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="'acme' of Python functions cannot be pickled"):
            copied(module)
    assert copy.copy(module)["f"]("abc") == 3
