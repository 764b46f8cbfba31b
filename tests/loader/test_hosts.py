"""Loaders in C and C++ of a user's own kind, in a program beside mblob."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.loader.streams import LIB, item, library, string, tree, u64

CUDA = item(b"cuda", string(b"ptx") + u64(0) + string(b"//PTX"))

HOST = """
import ctypes, subprocess, sys
import mblob

source, host, *libraries = sys.argv[1:]
include, folder = mblob.get_include(), mblob.get_library_dir()
options = [f"-I{include}", f"-I{include}/mblob/compat", f"-L{folder}", "-lmblob", f"-Wl,-rpath,{folder}"]
compiler = ["c++", "-std=c++17"] if source.endswith("pp") else ["cc"]
subprocess.run([*compiler, "-shared", "-fPIC", source, "-o", host, *options], check=True)
ctypes.CDLL(host)
"""

C_SAVE = (
    HOST
    + """
from mblob.loader import opened

lib = mblob.load_module(libraries[0])
lib["c_count"](1)

def fails_once(data):
    del opened.bytes
    raise MemoryError("no room for a piece")

opened.bytes = fails_once
try:
    lib.imported_modules[0]._node.saved()
except MemoryError as error:
    print(error)
print(bytes(lib.imported_modules[0]._node.saved()))
"""
)


def test_a_piece_of_a_save_that_python_cannot_take_is_an_error_and_not_left_out(
    cc: Callable[..., Path], tmp_path: Path, root: Path
) -> None:
    path = library(
        cc, tmp_path / "a.so", LIB, item(b"counter_c", string(b"n") + u64(41)), tree([1], [])
    )
    source = root / "examples" / "own_kind" / "counter.c"
    done = subprocess.run(
        [sys.executable, "-c", C_SAVE, source, tmp_path / "host.so", path],
        capture_output=True,
        text=True,
        check=False,
    )
    saved = string(b"n") + u64(42)
    assert done.stdout.splitlines() == ["no room for a piece", repr(saved)], done.stderr
    assert not done.stderr


CXX_HOST = (
    HOST
    + """
for library in libraries:
    try:
        lib = mblob.load_module(library, missing="stub")
        print([(m.type_key, len(m.payload)) for m in lib.walk()], lib["cpp_count"](1))
    except mblob.MblobError as error:
        print(error.code, error.entry, error)
"""
)


@pytest.mark.slow
def test_load_from_binary_of_a_cxx_host_ends_where_it_ends_to_read(
    cc: Callable[..., Path], tmp_path: Path, root: Path, require: Callable[[str], str]
) -> None:
    require("c++")
    key, good = b"counter_cpp", string(b"name") + u64(41)
    files = {
        "good": (LIB, item(key, good), CUDA, item(key, good), tree([1, 2, 3], [], [], [])),
        "of 0.6": (item(key, good), CUDA),
        "past the stream": (LIB, item(key, u64(1 << 60) + b"xy"), tree([1], [])),
        "over the tree": (LIB, item(key, string(b"x")), tree([1], [])),
        "behind it": (item(key, good + b"more"),),
    }
    paths = [library(cc, tmp_path / f"{i}.so", *files[name]) for i, name in enumerate(files)]
    source = root / "examples" / "own_kind" / "counter.cpp"
    done = subprocess.run(
        [sys.executable, "-c", CXX_HOST, source, tmp_path / "host.so", *paths],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    cuda = len(CUDA) - 12
    assert lines[:2] == [
        f"[('library', 0), ('counter_cpp', 20), ('cuda', {cuda}), ('counter_cpp', 20)] 42",
        f"[('library', 0), ('counter_cpp', 20), ('cuda', {cuda})] 42",
    ], done.stderr
    assert len(lines) == len(files)
    for line, entry in zip(lines[2:], (1, 1, 0)):
        assert line.startswith(f"layout {entry} ")
        assert "'counter_cpp'" in line
        assert "(at byte " in line


@pytest.mark.slow
def test_what_a_cxx_loader_writes_to_its_stream_is_an_error(
    cc: Callable[..., Path], tmp_path: Path, root: Path, require: Callable[[str], str]
) -> None:
    require("c++")
    path = library(
        cc, tmp_path / "a.so", LIB, item(b"counter_cpp", string(b"n") + u64(41)), tree([1], [])
    )
    text = (root / "examples" / "own_kind" / "counter.cpp").read_text()
    reads = "    return Module(counter);\n"
    assert text.count(reads) == 1
    source = tmp_path / "writes.cpp"
    source.write_text(text.replace(reads, f"    stream->Write(counter->count_);\n{reads}"))
    done = subprocess.run(
        [sys.executable, "-c", CXX_HOST, source, tmp_path / "host.so", path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "LoadFromBinary: its stream is for reading" in done.stdout, done.stderr
    assert done.returncode == 0
