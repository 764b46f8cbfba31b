"""`join`: new code and a new blob for a finished library, in its own dialect."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mblob
from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import DT_VERSYM
from mblob.binary.elf_versions import NeededVersion, Versions
from mblob.bytes.mapping import map_file
from mblob.packager.errors import CannotJoinError
from mblob.packager.join.join import finished_code, join
from mblob.packager.join.symbol_versions import merge_versions
from mblob.packager.write.dialects import DIALECTS
from tests.e2e.ffi.ffi_sources import plain_module

pytestmark = pytest.mark.own_process

NEW = """#include <stdint.h>
#include <string.h>
void vadd(float *a, float *b, float *c, int n);
static int calls;
int twice(const float *a, float *c, int n) {
  float copy[64];
  memcpy(copy, a, (size_t)n * sizeof *a);
  vadd(copy, copy, c, n);
  return ++calls;
}
"""
PROTOTYPE = "int twice(const float a[n], float c[n], int n)"


def finished(path: Path, dialect: str) -> Path:
    root = plain_module()
    root.import_module(mblob.blob_module("my.kind", b"hello"))
    root.export_library(path, dialect=dialect)
    return path


def add(
    path: Path, output: Path, dialect: str, work: Path, source: str = NEW, **how: object
) -> None:
    """Join a source and another payload to a library that has one, and keep both."""
    work.mkdir()
    root = mblob.Module(node=finished_code(path, work, how))
    root.import_module(mblob.csource_module(source, functions=[PROTOTYPE]))
    root.import_module(mblob.blob_module("my.other", b"world" * 100_000))
    with mblob.open(path) as library:
        for e in library.entries:
            if e.offset is not None:
                root.import_module(mblob.blob_module(e.type_key, bytes(e.view())))
    join(path, root, output, DIALECTS[dialect], work, how)


@pytest.mark.parametrize("dialect", ["classic", "ffi"])
def test_a_kernel_and_a_payload_are_added(tmp_path: Path, dialect: str) -> None:
    first, made = finished(tmp_path / "a.so", dialect), tmp_path / "b.so"
    before = first.read_bytes()
    add(first, made, dialect, tmp_path / "work")
    assert first.read_bytes() == before
    subprocess.run(["strip", "-o", tmp_path / "stripped.so", made], check=True)
    for path in (made, tmp_path / "stripped.so"):
        with mblob.open(path, verify="full") as lib:
            assert lib.dialect == dialect
            payloads = {e.type_key: bytes(e.view()) for e in lib.entries if e.offset is not None}
            assert payloads == {"my.kind": b"hello", "my.other": b"world" * 100_000}
            assert {"vadd", "greet", "twice"} <= set(lib.functions)
        mblob.verify(path)
        lib = mblob.load_module(path, missing="stub")
        x, y = np.ones(4, "float32"), np.zeros(4, "float32")
        assert lib["twice"](x, y, 4) == 1 and y.tolist() == [2, 2, 2, 2]
        lib["vadd"](x, y, y, 4)
        assert y.tolist() == [3, 3, 3, 3]
        with pytest.raises(mblob.KernelError, match=r"expected shape \(5,\)"):
            lib["twice"](x, y, 5)
    old, new = (ElfFile(map_file(path)) for path in (first, made))
    text = old.section(".text")
    assert text is not None
    assert new.data[text.sh_offset :][: text.sh_size] == old.contents(text)


def versions_of(path: Path) -> dict[str, NeededVersion | None]:
    elf = ElfFile(map_file(path), str(path))
    found = Versions(elf)
    return {s.name: found.wanted_by(i) for i, s in enumerate(elf.dynsym) if not s.is_defined}


@pytest.mark.parametrize("options", [[], ["-fuse-ld=lld", "-nostdlib", "-Wl,--hash-style=sysv"]])
def test_symbols_keep_the_versions_that_they_need(
    tmp_path: Path, require: Callable[[str], str], options: list[str]
) -> None:
    """Without its version, pthread_cond_wait is that of LinuxThreads on x86-64. A library without
    libc has no table of versions."""
    if "-fuse-ld=lld" in options:
        require("ld.lld")
    first, made = tmp_path / "a.so", tmp_path / "b.so"
    source = """
void vadd(float *a, float *b, float *c, int n) { for (int i = 0; i < n; i++) c[i] = a[i] + b[i]; }
""" + "".join(f"int room_for_headers_{i}(void) {{ return {i}; }}\n" for i in range(20))
    options = [*options, "-fno-stack-protector"]
    mblob.csource_module(source, functions=[]).export_library(first, options=options)
    more = """
#include <pthread.h>
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
int wake(void) { return pthread_cond_signal(&cond) + pthread_cond_broadcast(&cond); }
"""
    add(first, made, "classic", tmp_path / "work", NEW + more)
    wanted, found = versions_of(tmp_path / "work" / "joined.so"), versions_of(made)
    wanted["__tls_get_addr"] = None  # has no version of ld-linux.so, which other C libraries lack
    assert wanted["pthread_cond_signal"] is not None
    assert {name: found[name] for name in wanted if name in found} == {
        name: version for name, version in wanted.items() if name in found
    }
    noted = subprocess.run(["readelf", "-aW", made], capture_output=True, text=True, check=True)
    assert not noted.stderr
    subprocess.run(["strip", "-o", tmp_path / "stripped.so", made], check=True)
    for path in (made, tmp_path / "stripped.so"):
        mblob.verify(path)
        assert versions_of(path) == found
        x, y = np.ones(4, "float32"), np.zeros(4, "float32")
        assert mblob.load_module(path, missing="stub")["twice"](x, y, 4) == 1
        assert y.tolist() == [2, 2, 2, 2]
        assert ctypes.CDLL(str(path)).wake() == 0


def test_the_output_may_be_the_library_itself(tmp_path: Path) -> None:
    first = finished(tmp_path / "a.so", "classic")
    add(first, first, "classic", tmp_path / "work")
    x, y = np.ones(4, "float32"), np.zeros(4, "float32")
    assert mblob.load_module(first, missing="stub")["twice"](x, y, 4) == 1


@pytest.mark.parametrize(
    "more, culprit",
    [
        (
            "__attribute__((constructor)) static void start(void) { calls = 1; }",
            "the new code has constructors",
        ),
        ("__thread int own = 5;", "variables of threads with initial values"),
        ("void scale(double x, int64_t k) {}", "has a function 'scale' already"),
    ],
)
def test_what_cannot_join_is_refused_and_leaves_nothing(
    tmp_path: Path, more: str, culprit: str
) -> None:
    first = packed_with_thread(tmp_path / "a.so")
    before = sorted(tmp_path.iterdir()), first.read_bytes()
    work = tmp_path / "work"
    with pytest.raises((CannotJoinError, mblob.ToolchainError), match=culprit):
        add(first, first, "classic", work, NEW + more)
    assert (
        sorted(path for path in tmp_path.iterdir() if path != work),
        first.read_bytes(),
    ) == before


def packed_with_thread(path: Path) -> Path:
    """A library that has a variable of threads, too."""
    root = plain_module()
    root.import_module(
        mblob.csource_module("__thread int here; int *where(void) { return &here; }")
    )
    root.export_library(path)
    return path


def test_no_version_gets_an_index_that_means_hidden(
    cc: Callable[..., Path], tmp_path: Path
) -> None:
    first = finished(tmp_path / "a.so", "classic")
    part = cc(
        "#include <pthread.h>\nint f(void *c) { return pthread_cond_signal(c); }", tmp_path / "p.so"
    )
    data = bytearray(first.read_bytes())
    elf = ElfFile(memoryview(bytes(data)), "a.so")
    at = elf.offset_of(elf.dynamic[DT_VERSYM][0], 4, "versions")
    data[at + 2 : at + 4] = b"\xff\x7f"
    with pytest.raises(CannotJoinError, match="version indices up to 32767"):
        merge_versions(ElfFile(memoryview(data), "a.so"), ElfFile(map_file(part)))


@pytest.mark.parametrize(
    "option",
    ["", "-Wl,-z,noseparate-code", "-fuse-ld=gold", "-fuse-ld=lld", "-fuse-ld=mold"],
)
def test_strip_keeps_the_first_addition_to_a_library_that_calls_libc_and_has_versions(
    tmp_path: Path, option: str, require: Callable[[str], str]
) -> None:
    if "ld=" in option:
        require(option.partition("=")[2].replace("gold", "ld.gold").replace("lld", "ld.lld"))
    path, source, script = tmp_path / "a.so", tmp_path / "k.c", tmp_path / "script"
    script.write_text("V1 { global: first; local: *; };")
    source.write_text("#include <stdlib.h>\nint first(char *x) { return atoi(x); }")
    command = ["cc", "-shared", "-fPIC", "-g0", *filter(None, [option]), source, "-o", path]
    subprocess.run([*command, f"-Wl,--version-script={script}"], check=True)
    source.write_text("int second(int x) { static int n = 5; return x + n++; }")
    mblob.add(path, kernels=source)
    done = subprocess.run(["strip", path], check=True, capture_output=True)
    assert not done.stderr
    mblob.verify(path)
    assert mblob.load_module(path).second(1) == 6
    assert ctypes.CDLL(str(path)).first(b"12") == 12
