"""The cost of opening does not depend on the size of payloads: page faults, and pages of a cold
file that are read."""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from mblob import loader

pytestmark = pytest.mark.filterwarnings("ignore::mblob.HiddenNameWarning")  # one key for all
MIB = 1 << 20
HEAD = (64 * MIB).to_bytes(8, "little")  # of a payload that is one string
PROGRAM = r"""
#include <mblob.h>
#include <stdio.h>
#include <sys/resource.h>

static long faults(const char *path, size_t expected) {
  struct rusage before, after;
  mblob_module *lib;
  size_t size, total = 0;
  const void *data;
  getrusage(RUSAGE_SELF, &before);
  if (mblob_open(path, NULL, &lib)) return fprintf(stderr, "%s\n", mblob_last_error()), -1;
  for (size_t i = 0; i < mblob_module_import_count(lib); i++, total += size) {
    mblob_module *module = mblob_module_import_at(lib, i);
    if (mblob_module_payload(module, &data, &size) || !*mblob_module_type_key(module)) return -1;
  }
  getrusage(RUSAGE_SELF, &after);
  mblob_module_release(lib);
  return total == expected ? after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt : -1;
}

int main(int argc, char **argv) {
  size_t expected;
  if (argc != 4 || sscanf(argv[3], "%zu", &expected) != 1) return 1;
  faults(argv[1], 0);
  long empty = faults(argv[1], 0);
  printf("%ld\n", faults(argv[2], expected) - empty);
  return 0;
}
"""


def library(path: Path, entries: int, payload: Path, index: bool = True) -> Path:
    module = mblob.csource_module(
        "int nothing(void) { return 0; }", functions=["int nothing(void)"]
    )
    for _ in range(entries):
        module.import_module(mblob.blob_module("raw" if index else "examplejson", payload))
    mblob.export_library(module, path, index=index, digest="none")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Libraries with payloads of zeros that begin with their size."""
    folder = tmp_path_factory.mktemp("open")
    for name, size in (("small", 1), ("large", 64 * MIB), ("middle", 64 << 10)):
        with (folder / name).open("wb") as file:
            file.write(HEAD)
            file.truncate(8 + size)
    library(folder / "empty.so", 0, folder / "small")
    library(folder / "small.so", 1, folder / "small")
    library(folder / "large.so", 4, folder / "large")
    library(folder / "many.so", 1000, folder / "middle")
    library(folder / "bare.so", 4, folder / "large", index=False)
    return folder


def load(path: Path) -> list[int]:
    return [m.payload.nbytes for m in mblob.load_module(path, missing="stub").imported_modules]


def look(path: Path) -> list[int]:
    with mblob.open(path) as found:
        return [e.size for e in found.entries[1:]]


@pytest.fixture(scope="module")
def program(folder: Path) -> Path:
    source, target = folder / "faults.c", folder / "faults"
    source.write_text(PROGRAM)
    runtime = next((Path(loader.__file__).parent / "_lib").glob("libmblob.so.0"))
    include = Path(__file__).resolve().parents[2] / "csrc" / "include"
    subprocess.run(
        ["cc", "-I", include, source, "-o", target, runtime, f"-Wl,-rpath,{runtime.parent}"],
        check=True,
    )
    return target


@pytest.mark.parametrize(
    ("name", "total"), [("large.so", 4 * (64 * MIB + 8)), ("many.so", 1000 * ((64 << 10) + 8))]
)
def test_c_opens_and_lists_with_few_page_faults(
    folder: Path, program: Path, name: str, total: int
) -> None:
    command = [program, folder / "empty.so", folder / name, str(total)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert 0 <= int(done.stdout) < 30, done.stderr


@pytest.mark.parametrize("opening", [load, look])
def test_python_takes_as_many_page_faults_for_large_payloads(
    folder: Path, opening: Callable[[Path], list[int]]
) -> None:
    def faults(name: str) -> int:
        opening(folder / name)
        counts = []
        for _ in range(5):
            before = resource.getrusage(resource.RUSAGE_SELF)
            opening(folder / name)
            after = resource.getrusage(resource.RUSAGE_SELF)
            counts.append(after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt)
        return min(counts)

    assert opening(folder / "large.so") == [64 * MIB + 8] * 4
    assert faults("large.so") < faults("empty.so") + 30


def resident(path: Path) -> int:
    """Pages of a file that are in memory."""
    pages = -(-path.stat().st_size // mmap.PAGESIZE)
    states = (ctypes.c_ubyte * pages)()
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as mapping:
        start = (ctypes.c_char * len(mapping)).from_buffer(mapping)
        at, size = ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(len(mapping))
        failed = ctypes.CDLL(None).mincore(at, size, states)
        del start
    assert not failed
    return sum(state & 1 for state in states)


def drop(path: Path) -> None:
    """Take a file out of memory."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if resident(path):
        pytest.skip("this file system keeps files in memory")


def test_a_long_index_of_a_cold_file_is_fetched_at_once(tmp_path: Path) -> None:
    root = mblob.csource_module("int f;")
    for i in range(8000):
        root.import_module(mblob.blob_module(f"a_key_of_some_length_{i:06}", bytes(400)))
    path = tmp_path / "x.so"
    root.export_library(path)
    program = (
        "import resource, sys, mblob\n"
        "mblob.open(sys.argv[2]).close()\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_majflt\n"
        "with mblob.open(sys.argv[1]) as lib: assert len(lib.entries) == 8001\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_majflt - before)\n"
    )
    mblob.csource_module("int f;").export_library(tmp_path / "small.so")
    drop(path)
    command = [sys.executable, "-c", program, path, tmp_path / "small.so"]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(found.stdout) < 40  # of more than 200 pages


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["large.so", "bare.so"])
@pytest.mark.parametrize("opening", [look, load])
def test_a_cold_file_is_read_where_it_says_something(
    folder: Path, name: str, opening: Callable[[Path], list[int]]
) -> None:
    path = folder / name
    drop(path)
    assert opening(path) == [64 * MIB + 8] * 4
    assert resident(path) * mmap.PAGESIZE < MIB  # of 256 MiB
