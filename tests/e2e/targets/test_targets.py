"""Kernels and graphs that are packed here with `target=` run on the other machine, in qemu, with mblob.c
as their runtime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.built_once import built_once
from tests.e2e.programs import ROOT, make_amalgamation, run
from tests.e2e.test_other_machines import CONVERTED, Machine
from tests.packager.edit.test_add_params import TEN
from tests.packager.graphs import KERNELS_C, PROTOTYPES

pytestmark = pytest.mark.slow  # each machine compiles the runtime

SCALE = "void scale(float x[3], float by) { for (int i = 0; i < 3; ++i) x[i] *= by; }\n"
HOST = Path(__file__).with_name("target_host.c")
PRINTS = {
    "kernels": '2 4 6, 9, {"labels": []}\n',
    "graph": "111 112 113 114\n",
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


KINDS: dict[str, Callable[[], Any]] = {"kernels": kernels, "graph": graph}


def _build(folder: Path, machine: Machine) -> None:
    compiler = f"{machine.triplet}-gcc"
    make_amalgamation(folder, "-O1", compiler=compiler)
    run(compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{folder}", HOST, folder / "mblob.o",
        "-o", folder / "host", "-pthread", "-ldl", "-lm")  # fmt: skip


@pytest.fixture(scope="module", params=CONVERTED, ids=lambda machine: machine.name)
def machine(request: pytest.FixtureRequest) -> Machine:
    return request.param


@pytest.fixture(scope="module")
def host(machine: Machine, require: Callable[[str], str]) -> Path:
    require(f"qemu-{machine.name}")
    compiler = require(f"{machine.triplet}-gcc")

    def build(folder: Path) -> None:
        _build(folder, machine)

    sources = (ROOT / "csrc",)
    return (
        built_once(f"target-{machine.name}", build, compiler, HOST.read_text(), sources=sources)
        / "host"
    )


def run_there(machine: Machine, host: Path, *words: object) -> str:
    emulator = (f"qemu-{machine.name}", "-L", f"/usr/{machine.triplet}")
    return run(*emulator, host, *words, timeout=120).stdout


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_packed_for_a_machine_runs_there(
    machine: Machine, host: Path, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / f"{kind}.so"
    KINDS[kind]().export_library(path, target=machine.triplet)
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
    """There, one of this machine; here, one of that machine."""
    mblob.csource_module(SCALE).export_library(tmp_path / "here.so")
    with pytest.raises(
        AssertionError, match=r"here.so: .*built for x86_64, 64-bit, little endian; this machine is"
    ):
        run_there(machine, host, "kernels", tmp_path / "here.so")
    mblob.csource_module(SCALE).export_library(tmp_path / "there.so", target=machine.triplet)
    with pytest.raises(mblob.IncompatibleError, match=r"built for .*; this machine is x86_64"):
        mblob.load_module(tmp_path / "there.so")
