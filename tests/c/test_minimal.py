"""MBLOB_PROFILE_MINIMAL of mblob.c: what it does, what it refuses, what it weighs."""

from __future__ import annotations

import json
import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mblob
from mblob.binary.elf import ElfFile
from tests.built_once import built_once
from tests.c.test_amalgamation import HOST, KERNEL
from tests.c.test_profiles import model  # noqa: F401 (a fixture)
from tests.c.test_rooms import SRC
from tests.e2e.conftest import built  # noqa: F401 (a fixture)
from tests.e2e.damage.elf_damage import Change, several, single, text
from tests.e2e.damage.test_c_elf import SAYS as SAYS_TO_DAMAGE
from tests.e2e.programs import ROOT, make_amalgamation, make_c_tests, run, size_bound
from tests.e2e.test_other_machines import CONVERTED, Machine

MINIMAL = "-DMBLOB_PROFILE_MINIMAL"
LIBRARIES = ("-pthread", "-ldl")
MOST = 130_000  # bytes of text and data on x86-64


@pytest.fixture(scope="module")
def minimal() -> Path:
    """The folder with mblob.c, mblob.h and mblob.o, which is compiled for size."""
    return built_once("minimal", lambda folder: make_amalgamation(folder, "-Os", MINIMAL))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kernel, a payload and a tensor."""
    return pack(tmp_path_factory.mktemp("all") / "all.so")


def pack(path: Path, **options: object) -> Path:
    host = mblob.csource_module(KERNEL, functions=["vadd"])
    host.import_module(mblob.blob_module("demo", b"payload"))
    host.import_module(mblob.safetensors_module({"weight": np.zeros(3, "f")}))
    host.export_library(path, **options)
    return path


def program(folder: Path, source: str, path: Path, compiler: str = "cc") -> Path:
    """A program of a source and mblob.o."""
    path.with_suffix(".c").write_text(source)
    words = (compiler, f"-I{folder}", path.with_suffix(".c"), folder / "mblob.o", "-o", path)
    run(*words, *LIBRARIES)
    return path


SAYS = ["vadd", "21 payload 3", ""]


# -- what it does ----------------------------------------------------------------------------------


def test_it_lists_calls_and_reads_payloads_and_tensors(
    minimal: Path, library: Path, tmp_path: Path
) -> None:
    host = program(minimal, HOST, tmp_path / "host")
    assert run(host, library).stdout.split("\n") == SAYS


@pytest.mark.parametrize("compiler", ["clang", "tcc"])
def test_other_compilers_make_it_without_a_warning(
    require: Callable[[str], str], library: Path, tmp_path: Path, compiler: str
) -> None:
    make_amalgamation(tmp_path, "-Os", MINIMAL, compiler=require(compiler))
    host = program(tmp_path, HOST, tmp_path / "host", compiler)
    assert run(host, library).stdout.split("\n") == SAYS


def test_it_is_small_and_starts_no_thread(minimal: Path) -> None:
    text, data = map(int, run("size", minimal / "mblob.o").stdout.splitlines()[1].split()[:2])
    assert text + data <= size_bound(minimal / "mblob.o", MOST, "readelf")
    assert "pthread_create" not in run("nm", "--undefined-only", minimal / "mblob.o").stdout


def test_each_file_that_it_leaves_out_is_there_and_has_a_file_that_stands_for_it() -> None:
    text = (ROOT / "csrc" / "amalgamation.py").read_text().partition("NOT_MINIMAL = (")[2]
    for name in re.findall(r'^    "([\w/.]+)",$', text.partition("\n)\n")[0], re.MULTILINE):
        assert (SRC / name).exists(), name


ALLOCATOR = r"""
#include "mblob.h"
#include <stdio.h>
#include <stdlib.h>
static int given, taken;
static void *allocate(void *context, size_t size, size_t alignment) {
  (void)context;
  given++;
  return aligned_alloc(alignment, size);
}
static void release(void *context, void *memory) {
  (void)context;
  taken++;
  free(memory);
}
int main(int argc, char **argv) {
  const mblob_allocator own = {sizeof(own), NULL, allocate, release};
  mblob_module *m = NULL;
  double sum = 0;
  int status = argc != 2 || mblob_set_allocator(&own) || mblob_open(argv[1], NULL, &m) ||
               mblob_call(m, "spread", "float64[1]", &sum);
  puts(status ? mblob_last_error() : "fine");
  printf("%g %d %d\n", sum, given, taken);
  mblob_module_release(m);
  return status;
}
"""
# A parallel loop whose tasks write into a workspace, as TVM compiles them.
SPREAD = r"""
#include <stdint.h>
#include <tvm/runtime/c_backend_api.h>
static int task(int id, TVMParallelGroupEnv *env, void *data) {
  double *parts = data;
  for (int i = id; i < 8; i += env->num_task) parts[i] = i;
  return TVMBackendParallelBarrier(id, env);
}
int spread(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code, void *own) {
  double *sum = ((DLTensor *)args[0].v_handle)->data;
  double *parts = TVMBackendAllocWorkspace(1, 0, 64, 2, 64);
  if (!parts || TVMBackendParallelLaunch(task, parts, TASKS)) return -1;
  for (int i = 0; i < 8; i++) *sum += parts[i];
  return TVMBackendFreeWorkspace(1, 0, parts);
}
"""


@pytest.mark.parametrize(("tasks", "fine"), [(0, True), (1, True), (3, False)])
def test_loops_run_on_the_calling_thread_and_memory_is_of_the_program(
    minimal: Path, tmp_path: Path, tasks: int, fine: bool
) -> None:
    (tmp_path / "spread.c").write_text(f"#define TASKS {tasks}\n{SPREAD}")
    mblob.csource_module(tmp_path / "spread.c", functions=[]).export_library(tmp_path / "spread.so")
    host = program(minimal, ALLOCATOR, tmp_path / "host")
    done = subprocess.run([host, tmp_path / "spread.so"], capture_output=True, text=True)
    said = done.stdout.splitlines()
    if fine:
        assert said == ["fine", "28 1 0"]  # the thread keeps the block for the next call
    else:
        assert said[0].startswith(
            "3 tasks wait for each other, and there are no threads; this build of mblob.c has"
        )


# -- what it refuses -------------------------------------------------------------------------------

OPENS = r"""
#include "mblob.h"
#include <stdio.h>
int main(int argc, char **argv) {
  mblob_module *m = NULL;
  for (int i = 1; i < argc; i++)
    printf("%s\n", mblob_open(argv[i], NULL, &m) ? mblob_last_error() : mblob_module_type_key(m));
  return 0;
}
"""
MORE = "; this build of mblob.c has MBLOB_PROFILE_MINIMAL: compile it without this macro"


def test_what_it_lacks_is_told_with_a_choice_that_has_all_of_it(
    minimal: Path,
    model: Path,  # noqa: F811
    built: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    ffi = pack(tmp_path / "ffi.so", dialect="ffi")
    host = program(minimal, OPENS, tmp_path / "host")
    libraries = (model, ffi, built / "lib" / "c_target.so", built / "lib" / "keyed.so")
    said = run(host, *libraries).stdout.splitlines()
    for line, words in zip(
        said, ("no loader for type key '", "of TVM 0.2", "by its name: build it"), strict=False
    ):
        assert words in line
        assert line.endswith(MORE)
    assert len(said) == 4


@pytest.mark.parametrize("macro", ["MBLOB_WITH_FFI", "MBLOB_WITH_GRAPH", "MBLOB_WITH_RELAX"])
def test_it_has_no_executors(tmp_path: Path, macro: str) -> None:
    with pytest.raises(
        AssertionError,
        match="MBLOB_PROFILE_MINIMAL has no executors and no ffi dialect: leave it out",
    ):
        make_amalgamation(tmp_path, MINIMAL, f"-D{macro}")


# -- damaged files ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tools(built: Path) -> Path:  # noqa: F811
    """The folder of damage_library and blob_dump with MBLOB_PROFILE_MINIMAL."""

    def make(folder: Path) -> None:
        make_amalgamation(folder, "-Os", MINIMAL, "-DMB_INTERNAL=")
        run("ar", "qcs", folder / "libmblob.a", folder / "mblob.o")
        programs = (folder / "plain" / "damage_library", folder / "plain" / "blob_dump")
        make_c_tests(*programs, f"BUILD={folder}", f"ARCHIVE={folder / 'libmblob.a'}")

    return built_once("minimal-tools", make)


def said(folder: Path, library: Path, words: list[str], changes: list[Change]) -> list[str]:
    """What damage_library.c says to each change."""
    lines = "".join(f"{text(c)}\n" for c in changes)
    command = [folder / "plain" / "damage_library", library, *words]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, errors="replace")
    found = [line for line in done.stdout.splitlines() if line.split(" ")[0] in SAYS_TO_DAMAGE]
    assert (done.returncode, len(found)) == (0, len(changes)), done
    return found


def test_damaged_libraries_are_refused_as_libmblob_does(
    built: Path,  # noqa: F811
    tools: Path,
    library: Path,
) -> None:
    elf = ElfFile(memoryview(library.read_bytes()))
    changes = [change for _, change in [*single(elf), *several(elf, 100)]]
    chosen = [[], *random.Random(5).sample(changes, 400)]
    for words in (["check"], ["load", "errors"]):
        found = [said(folder, library, words, chosen) for folder in (tools, built)]
        assert found[0] == found[1]
        assert sum(line.startswith("refused") for line in found[0]) > 100


def test_vectors_are_read_as_libmblob_does(built: Path, tools: Path) -> None:  # noqa: F811
    vectors = sorted((ROOT / "tests" / "vectors").glob("*/*.bin"))
    for words in (["--level", "full"], ["--level", "header", "--index-expected"]):
        found = [
            run(folder / "plain" / "blob_dump", *words, *vectors).stdout
            for folder in (tools, built)
        ]
        assert found[0] == found[1]
        assert len(found[0].splitlines()) == len(vectors)
        assert sum("entries" in json.loads(line) for line in found[0].splitlines()) > 3


# -- other machines --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("machine", CONVERTED, ids=lambda machine: machine.name)
def test_it_runs_on_other_machines(
    require: Callable[[str], str], tmp_path: Path, machine: Machine
) -> None:
    emulator, compiler = require(f"qemu-{machine.name}"), require(f"{machine.triplet}-gcc")
    make_amalgamation(tmp_path, "-Os", MINIMAL, compiler=compiler)
    host = program(tmp_path, HOST, tmp_path / "host", compiler)
    library = pack(tmp_path / "all.so", target=machine.triplet)
    command = (emulator, "-L", f"/usr/{machine.triplet}", host)
    assert run(*command, library).stdout.split("\n") == SAYS
    data = library.read_bytes()
    (tmp_path / "cut.so").write_bytes(data[: len(data) // 2])
    done = subprocess.run([*command, tmp_path / "cut.so"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "is it an incomplete copy?" in done.stdout
