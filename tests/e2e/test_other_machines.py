"""The C runtime on other machines: its test programs, cross-compiled and run by qemu-user."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import mblob
from tests.e2e.ffi.ffi_sources import PACKED
from tests.e2e.programs import ROOT, make_amalgamation, make_c_tests, run

# each machine compiles the runtime and all test programs, and emulates them
pytestmark = pytest.mark.slow

VECTORS = sorted((ROOT / "tests" / "vectors").glob("*/*.bin"))


@dataclass(frozen=True)
class Machine:
    """Args:
    name: as qemu calls it.
    triplet: of its cross compiler, and of the folder below /usr with its libraries.
    warnings: of the compiler; by default those of the tests.
    leaves_out: test programs whose data are laid out for another kind of machine.
    """

    name: str
    triplet: str
    warnings: str = ""
    leaves_out: tuple[str, ...] = ()


# Not tested there: fork in a process with threads, AOT models on s390x and ARM, oneDNN on s390x.
MACHINES = [
    Machine("aarch64", "aarch64-linux-gnu"),
    # Big endian. The model in kernels/aot.c is written down as a 64-bit little-endian machine has
    # it.
    Machine("s390x", "s390x-linux-gnu", leaves_out=("test_aot", "test_dnnl")),
    # 32-bit. Sizes from files are 64-bit numbers that were compared with what is there:
    # -Wconversion cannot know.
    Machine("arm", "arm-linux-gnueabihf", "-Wall -Wextra -Werror", ("test_aot",)),
]
# Compiled code there is not run by the programs in tests/c: qemu 7.2 cannot start a thread on i386.
CONVERTED = [*MACHINES, Machine("riscv64", "riscv64-linux-gnu"), Machine("i386", "i686-linux-gnu")]
# Another C library on this machine.
MUSL = Machine("x86_64", "x86_64-linux-musl")


@dataclass(frozen=True)
class Built:
    """Test programs for a machine: `plain/` and `lib/` in `folder`; whether their runtime has the
    plug-in ffi itself."""

    machine: Machine
    folder: Path
    plugin_within: bool = False

    def run(self, program: str, *arguments: object) -> str:
        """What a program prints there; it must succeed."""
        command = [
            f"qemu-{self.machine.name}",
            "-L",
            f"/usr/{self.machine.triplet}",
            self.folder / "plain" / program,
        ]
        environment = {**os.environ, "MBLOB_TEST_EMULATED": "1"}
        if self.plugin_within:
            environment["MBLOB_TEST_PLUGIN_WITHIN"] = "1"
        return run(*command, *arguments, env=environment, timeout=300).stdout


@pytest.fixture(scope="module", params=MACHINES, ids=lambda machine: machine.name)
def built(
    request: pytest.FixtureRequest,
    require: Callable[[str], str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Built:
    machine: Machine = request.param
    require(f"qemu-{machine.name}")
    compiler = require(f"{machine.triplet}-gcc")
    folder = tmp_path_factory.mktemp(machine.name)
    words = [f"WARNINGS={machine.warnings}"] if machine.warnings else []
    make_c_tests("programs", f"BUILD={folder}", f"CC={compiler}", "CXX=", *words)
    return Built(machine, folder)


def test_every_test_program_passes(built: Built) -> None:
    programs = {path.stem for path in (ROOT / "tests" / "c").glob("*/test_*.c")}
    assert len(programs) > 10
    assert programs.issuperset(built.machine.leaves_out)
    for program in sorted(programs.difference(built.machine.leaves_out)):
        built.run(program, built.folder / "lib")


def test_every_test_program_passes_with_one_c_file(built: Built, tmp_path: Path) -> None:
    """mblob.o in place of libmblob; with its functions external, which some programs call."""
    compiler = f"{built.machine.triplet}-gcc"
    make_amalgamation(tmp_path, "-O1", "-DMB_INTERNAL=", compiler=compiler)
    archive = tmp_path / "libmblob.a"
    run("ar", "qcs", archive, tmp_path / "mblob.o")
    one = Built(built.machine, tmp_path / "build", plugin_within=True)
    words = [f"WARNINGS={built.machine.warnings}"] if built.machine.warnings else []
    folders = (f"BUILD={one.folder}", f"ARCHIVE={archive}", f"CC={compiler}", "CXX=")
    # one program has a file of libmblob itself
    words.append("OWN_NAMES=-Wl,--exclude-libs,libmblob.a -Wl,-z,muldefs")
    make_c_tests("programs", *folders, *words)
    programs = {path.stem for path in (ROOT / "tests" / "c").glob("*/test_*.c")}
    for program in sorted(programs.difference(built.machine.leaves_out)):
        one.run(program, one.folder / "lib")


def test_the_reader_reads_each_vector_as_described(built: Built) -> None:
    for flags in ([], ["--index-expected"]):
        described = [(path, json.loads(path.with_suffix(".json").read_text())) for path in VECTORS]
        chosen = [
            (path, facts)
            for path, facts in described
            if facts.pop("index_expected", False) == bool(flags)
        ]
        output = built.run("blob_dump", "--level", "full", *flags, *(path for path, _ in chosen))
        assert len(output.splitlines()) == len(chosen)
        for (path, facts), line in zip(chosen, output.splitlines()):
            found = json.loads(line)
            for key, value in facts.items():
                assert value is None or found.get(key) == value, (path, found)


def test_damaged_blobs_end_in_errors(built: Built) -> None:
    built.run("fuzz_reader", 20, *sorted((ROOT / "tests" / "vectors" / "good").glob("*.bin")))


def test_a_library_of_this_machine_is_refused_by_name(
    built: Built, cc: Callable[..., Path], tmp_path: Path
) -> None:
    cc("int f(void) { return 1; }", tmp_path / "plain.so")
    with pytest.raises(AssertionError, match="this machine is"):
        built.run("test_runtime", tmp_path)


HOST = r"""#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
typedef struct { int32_t type; uint32_t zero; union { int64_t i; void *p; } v; } any;
typedef union { int64_t i; double f; } value;
int main(int argc, char **argv) {
  void *library = dlopen(argv[1], RTLD_NOW);
  if (argc != 2 || !library) return 1;
  int (*ffi)(void *, const any *, int32_t, any *) = dlsym(library, "__tvm_ffi_twice");
  int (*classic)(value *, int *, int, value *, int *, void *) = dlsym(library, "twice");
  const char *(*error)(void) = dlsym(library, "__mblob_last_error");
  for (int type = 0; type < 3; type += 2) { /* an int, then what is none */
    int64_t result = 0;
    int status = 0, code = 0;
    if (ffi) {
      any a = {type + 1, 0, {21}}, r;
      memset(&r, 0, sizeof r);
      status = ffi(0, &a, 1, &r);
      result = r.v.i;
    } else {
      value a = {21}, r = {0};
      status = classic(&a, &type, 1, &r, &code, 0);
      result = r.i;
    }
    printf("%s %d %s\n", ffi ? "ffi" : "classic", status ? status : (int)result, status ? error() : "");
  }
  return 0;
}
"""


@pytest.mark.parametrize("machine", CONVERTED, ids=lambda machine: machine.name)
def test_a_finished_library_is_converted_there_and_back(
    machine: Machine, require: Callable[[str], str], tmp_path: Path
) -> None:
    require(f"qemu-{machine.name}")
    compiler = require(f"{machine.triplet}-gcc")
    (tmp_path / "host.c").write_text(HOST)
    run(compiler, tmp_path / "host.c", "-o", tmp_path / "host", "-ldl")
    mblob.csource_module(PACKED).export_library(tmp_path / "0.so", target=machine.triplet)
    for i, dialect in enumerate(("ffi", "classic", "ffi")):
        mblob.convert(
            tmp_path / f"{i}.so", tmp_path / f"{i + 1}.so", dialect=dialect, target=machine.triplet
        )
        line = (
            "qemu-" + machine.name,
            "-L",
            f"/usr/{machine.triplet}",
            tmp_path / "host",
            tmp_path / f"{i + 1}.so",
        )
        good, bad = run(*line, timeout=100).stdout.splitlines()
        assert good.split() == [dialect, "42"]
        assert bad == f"{dialect} -1 RuntimeError: twice: wants one int"
