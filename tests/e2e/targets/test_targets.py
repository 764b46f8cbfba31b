"""Kernels, graphs and Relax programs that are packed here with `target=` run on the other machine, in qemu,
with mblob.c as their runtime; those of the ffi dialect with libmblob-ffi.a, too."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.built_once import built_once
from tests.e2e.programs import ROOT, make_amalgamation, run
from tests.e2e.test_other_machines import CONVERTED, MUSL, Machine
from tests.loader.executors import relax_programs as programs
from tests.loader.payloads import u64
from tests.packager.edit.test_add_params import TEN
from tests.packager.graphs import KERNELS_C, PROTOTYPES

pytestmark = pytest.mark.slow  # each machine compiles the runtime

SCALE = "void scale(float x[3], float by) { for (int i = 0; i < 3; ++i) x[i] *= by; }\n"
HOST = Path(__file__).with_name("target_host.c")
TWICE = "void twice(const float x[2][3], float y[2][3]) { for (int i = 0; i < 6; ++i) y[0][i] = 2 * x[0][i]; }"
PRINTS = {
    "kernels": '2 4 6, 9, {"labels": []}\n',
    "graph": "111 112 113 114\n",
    "relax": "2 4 12\n",
}


def kernels() -> mblob.Module:
    made = mblob.csource_module(SCALE)
    made.import_module(mblob.safetensors_module({"b": np.arange(7, 10, dtype="int8")}))
    made.import_module(mblob.blob_module("config", b'{"labels": []}'))
    return made


def graph() -> mblob.Module:
    g = mblob.GraphBuilder()
    x, w, v = (g.input(n, 4, "int32") for n in "xwv")
    g.output(g.call("add", [g.call("add", [x, w], (4,), "int32"), v], (4,), "int32"))
    factory = mblob.graph_executor_factory(g.graph_json(), {"w": TEN}, "model")
    factory.import_module(mblob.csource_module(KERNELS_C, functions=PROTOTYPES, packed="name"))
    return factory


def relax(dialect: str) -> mblob.Module:
    """main(x): 2 x."""
    constants = [programs.F32, (2, 3), (24,), "global", "ErrorContext(fn=main) "]
    c, i, r, call = programs.c, programs.i, programs.r, programs.call
    code = [
        call(programs.CHECK, [r(0), i(2), c(0), c(4)]),
        call(programs.STORAGE, [programs.VM, c(2), i(0), c(0), c(3)], 1),
        call(programs.TENSOR, [r(1), i(0), c(1), c(0)], 2),
        call(len(programs.BUILTINS), [r(0), r(2)]),
        programs.ret(2),
    ]
    functions = [programs.Function(f"vm.builtin.{name}") for name in programs.BUILTINS]
    functions += [programs.Function("twice"), programs.Function("main", code, ["x"])]
    classic = dialect == "classic"
    magic = programs.MAGIC if classic else programs.MAGIC + 1
    payload = programs.Program(functions, constants, dialect, magic).payload()
    made = mblob.blob_module("relax.VMExecutable", u64(len(payload)) * classic + payload)
    made.import_module(mblob.csource_module(TWICE, packed="name" if classic else None))
    return made


KINDS: dict[tuple[str, str], Callable[[], Any]] = {
    ("kernels", "classic"): kernels,
    ("kernels", "ffi"): kernels,
    ("graph", "classic"): graph,
    ("relax", "classic"): partial(relax, "classic"),
    ("relax", "ffi"): partial(relax, "ffi"),
}


def _build(folder: Path, machine: Machine) -> None:
    compiler = f"{machine.triplet}-gcc"
    words = ("-std=c11", "-Wall", "-Wextra", "-Werror", HOST, "-pthread")
    make_amalgamation(folder, "-O1", compiler=compiler)
    run(compiler, *words, f"-I{folder}", folder / "mblob.o", "-o", folder / "host", "-ldl", "-lm")


@pytest.fixture(scope="module", params=[*CONVERTED, MUSL], ids=lambda m: m.triplet)
def machine(request: pytest.FixtureRequest) -> Machine:
    return request.param


@pytest.fixture(scope="module")
def host(machine: Machine, require: Callable[[str], str]) -> Path:
    """The program."""
    require(f"qemu-{machine.name}")
    compiler = require(f"{machine.triplet}-gcc")

    def build(folder: Path) -> None:
        _build(folder, machine)

    sources = (ROOT / "csrc",)
    source = HOST.read_text() + Path(__file__).read_text()
    return (
        built_once(f"target-{machine.triplet}", build, compiler, source, sources=sources) / "host"
    )


def run_there(machine: Machine, host: Path, *words: object) -> str:
    emulator = (f"qemu-{machine.name}", "-L", f"/usr/{machine.triplet}")
    return run(*emulator, host, *words, timeout=120).stdout


@pytest.mark.parametrize(("kind", "dialect"), KINDS)
def test_what_is_packed_for_a_machine_runs_there(
    machine: Machine, host: Path, tmp_path: Path, kind: str, dialect: str
) -> None:
    path = tmp_path / f"{kind}.so"
    KINDS[kind, dialect]().export_library(path, target=machine.triplet, dialect=dialect)
    assert run_there(machine, host, kind, path) == PRINTS[kind]


def test_a_library_that_was_changed_here_runs_there(
    machine: Machine, host: Path, tmp_path: Path
) -> None:
    """Weights and a file are replaced, and code is joined, without the machine."""
    path = tmp_path / "k.so"
    mblob.csource_module("int one(void) { return 1; }").export_library(path, target=machine.triplet)
    (tmp_path / "scale.c").write_text(SCALE)
    added: dict[str, Any] = {
        "kernels": tmp_path / "scale.c",
        "weights": {"b": np.zeros(3, "int8")},
        "blobs": {"config": b"?"},
        "target": machine.triplet,
    }
    if machine.name == "arm":
        with pytest.raises(mblob.BuildError, match="nothing here reads code of arm"):
            mblob.add(path, **added)
        return
    mblob.add(path, **added)
    new = {"b": np.arange(7, 10, dtype="int8")}
    mblob.swap(path, weights=new, blobs={"config": b'{"labels": []}'})
    assert run_there(machine, host, "kernels", path) == PRINTS["kernels"]


def test_a_library_of_another_machine_is_refused_by_name(
    machine: Machine, host: Path, tmp_path: Path
) -> None:
    """There, one of this machine; here, one of that machine. musl is told by a function that it lacks."""
    there = r"built for x86_64, 64-bit, little endian; this machine is"
    here = r"built for .*; this machine is x86_64"
    if machine == MUSL:
        there, here = (f"built for {libc}, and this process runs" for libc in ("glibc", "musl"))
    of_glibc = "char *gnu_get_libc_version(void); char *f(void) { return gnu_get_libc_version(); }"
    source = SCALE + of_glibc * (machine == MUSL)
    mblob.csource_module(source).export_library(tmp_path / "here.so")
    with pytest.raises(AssertionError, match=f"here.so: .*{there}"):
        run_there(machine, host, "kernels", tmp_path / "here.so")
    mblob.csource_module(SCALE).export_library(tmp_path / "there.so", target=machine.triplet)
    with pytest.raises(mblob.IncompatibleError, match=here):
        mblob.load_module(tmp_path / "there.so")
