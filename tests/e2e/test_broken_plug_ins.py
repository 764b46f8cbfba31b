"""A plug-in that is there and cannot be used is named with its cause; it is not told to be
missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob

# Opens a library with the runtime at argv[1] and prints the error.
OPEN = """
import ctypes, sys
runtime = ctypes.CDLL(sys.argv[1])
runtime.mblob_last_error.restype = ctypes.c_char_p
out = ctypes.c_void_p()
print(runtime.mblob_open(sys.argv[2].encode(), None, ctypes.byref(out)), runtime.mblob_last_error().decode())
"""


@pytest.fixture(scope="module")
def ffi(tmp_path_factory: pytest.TempPathFactory, cc: Callable[..., Path]) -> Path:
    """A library of the ffi dialect."""
    source = "int __tvm_ffi_f(void *self, void *args, int count, void *out) { return 0; }"
    return cc(source, tmp_path_factory.mktemp("ffi") / "f.so")


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with an entry of a key that only a plug-in has."""
    path = tmp_path_factory.mktemp("keyed") / "k.so"
    mblob.json_module("dnnl_json", "f", '{"nodes": []}').export_library(path)
    return path


@pytest.fixture
def runtime(installed: Path, tmp_path: Path) -> Path:
    """libmblob alone in a folder."""
    folder = tmp_path / "lib"
    folder.mkdir()
    return Path(shutil.copy(installed / "lib" / "libmblob.so.0", folder))


def error_of(runtime: Path, library: Path, **environment: str) -> str:
    command = [sys.executable, "-c", OPEN, runtime, library]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
        env={**os.environ, **environment},
    )
    return done.stdout.strip()


def other_machine(good: bytes) -> bytes:
    return good[:18] + (8).to_bytes(2, sys.byteorder) + good[20:]  # e_machine: MIPS


CONTENT: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "truncated": (lambda good: good[:20000], "file"),
    "text": (lambda good: b"hello\n", "not an ELF file"),
    "empty": (lambda good: b"", "an empty file"),
    "other machine": (other_machine, "built for"),
}


@pytest.mark.parametrize("how", CONTENT)
def test_a_file_that_cannot_be_read_as_a_plug_in_is_named_with_its_cause(
    installed: Path, runtime: Path, ffi: Path, keyed: Path, how: str
) -> None:
    change, cause = CONTENT[how]
    for name, library in (("ffi", ffi), ("dnnl", keyed)):
        broken = runtime.with_name(f"libmblob-{name}.so")
        broken.write_bytes(change((installed / "lib" / broken.name).read_bytes()))
        said = error_of(runtime, library)
        assert f"; {broken} is there but cannot be used: " in said and cause in said, said
        assert "which is not there" not in said and said.count(str(broken)) == 1, said


def test_what_is_no_file_and_what_is_no_plug_in_is_named_too(
    runtime: Path, ffi: Path, keyed: Path
) -> None:
    for name, library in (("ffi", ffi), ("dnnl", keyed)):
        broken = runtime.with_name(f"libmblob-{name}.so")
        words = f"; {broken} is there but cannot be used: "
        broken.mkdir()
        assert f"{words}a library is a regular file" in error_of(runtime, library)
        broken.rmdir()
        os.mkfifo(broken)
        assert f"{words}a library is a regular file" in error_of(runtime, library)
        broken.unlink()
        broken.symlink_to(broken.name)
        assert f"{words}cannot be opened: Too many levels of symbolic links" in error_of(
            runtime, library
        )
        broken.unlink()
        shutil.copy(ffi, broken)
        assert f"{words}it is no plug-in" in error_of(runtime, library)
        broken.unlink()


def test_a_plug_in_that_is_not_there_is_said_to_be_missing(
    runtime: Path, ffi: Path, tmp_path: Path
) -> None:
    runtime.with_name("libmblob-zz.so").write_text("another one that is broken")
    said = error_of(runtime, ffi, MBLOB_PLUGIN_PATH=str(tmp_path / "none"))
    assert "need libmblob-ffi.so, which is not there; put it beside libmblob" in said
    assert f"MBLOB_PLUGIN_PATH (now {tmp_path / 'none'})" in said and "libmblob-zz" not in said
    assert "libmblob.a: beside the program" in said


def test_a_broken_plug_in_hides_none_that_works(installed: Path, runtime: Path, ffi: Path) -> None:
    runtime.with_name("libmblob-ffi.so").write_text("hello")
    assert error_of(
        runtime, ffi, MBLOB_PLUGIN_PATH=str(installed / "lib" / "libmblob-ffi.so")
    ).startswith("0")
