"""The life of a library: it stays loaded while something uses it, and no longer."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mblob

ENTRIES = [("library", None), ("test_life", b"payload of a module"), ("plain_data", b"data")]
IMPORTS = [[1, 2], [], []]


@pytest.fixture
def path(tree_library: Callable[..., Path], tmp_path: Path) -> Path:
    return tree_library(tmp_path / "life.so", ENTRIES, IMPORTS)


def load(path: Path) -> mblob.Module:
    def loader(payload: memoryview, ctx: Any) -> mblob.Module:
        # keeps as much as a loader can keep
        return mblob.Module(
            ctx.type_key,
            functions={"value": lambda: (bytes(payload), ctx.imports)[0]},
            payload=payload,
        )

    return mblob.load_module(path, loaders={"test_life": loader})


def test_the_library_goes_with_its_root(path: Path, mapped: Callable[[Path], bool]) -> None:
    lib = load(path)
    assert mapped(path)
    del lib
    assert not mapped(path)


# How to get something out of the library, and how to use it when the rest is gone.
KEEPERS: dict[str, tuple[Callable[[mblob.Module], Any], Callable[[Any], Any]]] = {
    "function": (lambda lib: lib["give_int"], lambda f: f()),
    "child": (lambda lib: lib.imported_modules[0], lambda m: m.get_function("value")()),
    "payload": (lambda lib: lib.imported_modules[1].payload, bytes),
    "slice of a payload": (lambda lib: lib.imported_modules[1].payload[1:3], bytes),
    "c function": (lambda lib: lib.symbol("plain_add", ctypes.c_int), lambda f: f(1, 2)),
    "function of a loader": (lambda lib: lib["value"], lambda f: f()),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", KEEPERS)
def test_everything_handed_out_keeps_the_library_and_lets_it_go(
    path: Path, mapped: Callable[[Path], bool], kind: str
) -> None:
    get, use = KEEPERS[kind]
    lib = load(path)
    kept = get(lib)
    del lib
    gc.collect()
    assert mapped(path)
    assert use(kept)
    del kept
    gc.collect()
    assert not mapped(path)


def test_functions_that_kernels_looked_up_do_not_keep_the_library(
    path: Path, mapped: Callable[[Path], bool]
) -> None:
    lib = load(path)
    assert lib["call_by_name"]("value") == b"payload of a module"
    assert lib["value"]() == b"payload of a module"
    del lib
    gc.collect()
    assert not mapped(path)


def test_a_cycle_through_a_callback_is_collected(
    path: Path, mapped: Callable[[Path], bool]
) -> None:
    lib = load(path)
    holder: list[Any] = [lib["give_int"]]
    holder.append(holder)
    del lib, holder
    gc.collect()
    assert not mapped(path)


def test_a_library_from_memory_needs_its_bytes_no_more(path: Path) -> None:
    data = bytearray(path.read_bytes())
    lib = mblob.load_module(data, missing="stub")
    data[:] = bytes(len(data))
    assert lib["give_int"]() == -7


def test_a_deleted_file_stays_usable(path: Path) -> None:
    lib = load(path)
    path.unlink()
    assert lib["give_int"]() == -7
    assert bytes(lib.imported_modules[1].payload) == b"data"
    with pytest.raises(AttributeError, match="no function 'gone'"):
        lib["gone"]


LEFTOVERS = """
import sys, threading, mblob
lib = mblob.load_module(sys.argv[1], loaders={"test_life": lambda payload, ctx: mblob.Module(
    ctx.type_key, functions={"value": lambda: 3})})
assert lib["call_by_name"]("value") == 3
give_int, tensor, view = lib["give_int"], mblob.empty(4), lib.imported_modules[0].payload
capsule = tensor.__dlpack__()
"""
# What runs while the interpreter takes modules apart is not specified; it may run, so it must not
# crash.
CALL_AT_THE_END = """
import atexit
class Late:
    def __del__(self, f=give_int):
        f()
late = Late()
atexit.register(lambda: print("late", give_int()))
"""
CALL_IN_A_THREAD = """
mblob.register_func("leftover.function", lambda: 1)
mblob.register_loader("leftover.key", lambda payload, ctx: None)
threading.Thread(target=lambda: [lib["snooze"]() for _ in range(20)], daemon=True).start()
"""


@pytest.mark.parametrize(
    ("more", "said"),
    [(CALL_AT_THE_END, "late -7\n"), (CALL_IN_A_THREAD, "")],
    ids=["end", "thread"],
)
def test_a_process_that_ends_with_everything_open_ends_quietly(
    path: Path, more: str, said: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", LEFTOVERS + more, str(path)],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, said, "")


def test_descriptors_are_closed_with_the_library(path: Path) -> None:
    def count() -> int:
        gc.collect()  # what earlier tests left in circles, too
        return len(list(Path("/proc/self/fd").iterdir()))

    before = count()
    for _ in range(5):
        load(path)
    assert count() == before


# One copy of libmblob opens and closes argv[1], a library that glibc keeps. Another copy opens argv[2],
# which gets the descriptor that argv[1] had.
TWO_COPIES = """
import ctypes, os, shutil, sys
def names():
    links = [f"/proc/self/fd/{n}" for n in os.listdir("/proc/self/fd")]
    return {os.readlink(link): os.path.basename(link) for link in links if os.path.islink(link)}
def load(copy, path):
    library = ctypes.CDLL(shutil.copyfile(sys.argv[3], os.path.join(sys.argv[4], copy)))
    library.mblob_last_error.restype = ctypes.c_char_p
    module = ctypes.c_void_p()
    if library.mblob_open(path.encode(), None, ctypes.byref(module)):
        sys.exit(library.mblob_last_error().decode())
    return library, module, names()[path]
library, module, first = load("1.so", sys.argv[1])
library.mblob_module_release(module)
assert sys.argv[1] not in names()
assert load("2.so", sys.argv[2])[2] == first
"""


def test_a_library_that_another_copy_of_libmblob_left_is_not_taken_for_a_new_one(
    installed: Path, cc: Callable[..., Path], tmp_path: Path
) -> None:
    """glibc knows libraries by name: each load of each copy has a name of its own."""
    stays = cc("int one(void) { return 1; }", tmp_path / "stays.so", "-Wl,-z,nodelete")
    other = cc("int two(void) { return 2; }", tmp_path / "other.so")
    libmblob = installed / "lib" / "libmblob.so"
    words = [sys.executable, "-c", TWO_COPIES, stays, other, libmblob, tmp_path]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
