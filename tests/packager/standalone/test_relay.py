"""Standalone libraries of programs of Relay's virtual machine, whose inputs only the caller knows."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.binary.elf import ElfFile
from mblob.bytes.mapping import map_file
from tests.e2e.programs import exported, run
from tests.e2e.test_other_machines import CONVERTED, Machine
from tests.loader.conftest import KERNELS as PACKED
from tests.loader.executors import vm_programs
from tests.loader.executors.vm_programs import Late, Program
from tests.packager.standalone.test_standalone import Interface

pytestmark = pytest.mark.filterwarnings("ignore::mblob.errors.PortabilityWarning")


def relay_program(program: vm_programs.Program) -> mblob.Module:
    root = mblob.blob_module("VMExecutable", program.payload())
    root.import_module(mblob.csource_module(PACKED + vm_programs.PRIMITIVES, functions=[]))
    return root


SHAPES = {"x": "float32[4]", "y": "float32[4]"}
ARITHMETIC = r"""
#include "m.h"
#include <stdio.h>
int main(void) {
  float x[4] = {1, 1, 1, 1}, y[4] = {1, 2, 3, 4}, out[4];
  m_model *model;
  if (m_open(&model) || m_run(model, &(m_inputs){x, y}, &(m_outputs){out}))
    return fprintf(stderr, "%s\n", m_error()), 1;
  m_close(model);
  return printf("%g %g %g %g\n", out[0], out[1], out[2], out[3]) < 0;
}
"""


def pack_arithmetic(folder: Path, **how: Any) -> Path:
    """The program host, which runs (x + w) * y in m.so."""
    root = relay_program(vm_programs.arithmetic())
    root.export_library(folder / "plain.so", dialect="classic", **how)
    how["header"] = folder / "m.h"
    root.export_library(folder / "m.so", standalone=True, dialect="classic", shapes=SHAPES, **how)
    (folder / "host.c").write_text(ARITHMETIC)
    words = ("-std=c11", "-Wall", "-Wextra", "-Werror", "host.c", "m.so", "-Wl,-rpath,$ORIGIN")
    run(how.get("cc") or "cc", *words, "-o", "host", cwd=folder)
    return folder / "host"


def test_a_program_of_relay_runs_with_the_c_library_alone(tmp_path: Path) -> None:
    assert run(pack_arithmetic(tmp_path)).stdout == "1 4 9 16\n"
    library = ElfFile(map_file(tmp_path / "m.so"), "m.so")
    assert {*library.needed} <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}
    new = {*exported(tmp_path / "m.so")} - {*exported(tmp_path / "plain.so")}
    assert new == {f"m_{name}" for name in ("open", "run", "close", "error")}
    grown = (tmp_path / "m.so").stat().st_size - (tmp_path / "plain.so").stat().st_size
    print(grown)
    assert grown <= 150_000
    text = (tmp_path / "m.h").read_text()
    assert re.findall(r"  .*\*(\w+); /\* (.*) \*/", text) == [
        (name, "float32[4]") for name in ("x", "y", "output")
    ]
    x, y, out = np.arange(4, dtype="f"), np.ones(4, "f"), np.zeros(4, "f")
    model = Interface(tmp_path / "m.so", "m")
    for _ in range(2):
        assert model.run([x, y], [out]) == 0, model.error()
        np.testing.assert_array_equal(out, 2 * x)
    assert model.run([x, -y], [out]) != 0 and "vm_mul: negative" in model.error()
    model.close()
    machine = mblob.vm.VirtualMachine(mblob.load_module(tmp_path / "m.so"), mblob.cpu(0))
    np.testing.assert_array_equal(machine.run(x, y).numpy(), 2 * x)


@pytest.mark.slow
@pytest.mark.parametrize("machine", CONVERTED, ids=lambda machine: machine.name)
def test_a_program_of_relay_is_packed_for_another_machine(
    tmp_path: Path, require: Callable[[str], str], machine: Machine
) -> None:
    cc, qemu = require(f"{machine.triplet}-gcc"), require(f"qemu-{machine.name}")
    program = pack_arithmetic(tmp_path, cc=cc)
    assert run(qemu, "-L", f"/usr/{machine.triplet}", program).stdout == "1 4 9 16\n"


def test_outputs_that_only_a_run_of_relay_tells_are_given_by_the_caller(tmp_path: Path) -> None:
    root = relay_program(vm_programs.shapes())  # (x in shape s, shape of x, -x in shape s)
    shapes = {"x": "float32[2,3]", "s": "int64[1]", "output0": "float32[6]"}
    with pytest.raises(mblob.BuildError, match="'output2': the file tells no type and shape"):
        root.export_library(tmp_path / "m.so", standalone=True, shapes=shapes)
    x, s = np.arange(6, dtype="f").reshape(2, 3), np.array([6])
    outputs = [np.zeros(6, "f"), np.zeros(2, "int64"), np.zeros(6, "f")]
    for name, told in (("wrong", "float32[5]"), ("right", "float32[6]")):
        shapes["output2"] = told
        root.export_library(tmp_path / f"{name}.so", standalone=True, shapes=shapes)
        model = Interface(tmp_path / f"{name}.so", name)
        failed, text = model.run([x, s], outputs), model.error()
        model.close()
        assert bool(failed) == (name == "wrong"), text
        assert name == "right" or ("[5]" in text and "[6]" in text)
    for found, expected in zip(outputs, (x.ravel(), [2, 3], -x.ravel())):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("shapes", "text"),
    [
        (None, r"input 'x': the file tells no .*shapes=\{'x': 'float32\[1,3\]'\}"),
        ({**SHAPES, "z": "float32[4]"}, "no input or output 'z'; there are x, y, output"),
        (
            {**SHAPES, "output": "int8[4]"},
            r"output 'output' is float32\[4\] in the file, found int8",
        ),
        ({"x": "float32"}, "expected a type and a shape, such as .*found 'float32'"),
    ],
)
def test_shapes_that_do_not_fit_a_program_of_relay_are_told(
    tmp_path: Path, shapes: Any, text: str
) -> None:
    root = relay_program(vm_programs.arithmetic())
    with pytest.raises(mblob.BuildError, match=text):
        root.export_library(tmp_path / "m.so", standalone=True, shapes=shapes)


def test_a_program_of_relay_whose_constants_are_elsewhere_is_refused(tmp_path: Path) -> None:
    program = vm_programs.arithmetic()
    late = Program(program.functions, [Late("w"), *program.constants[1:]], program.primitives)
    with pytest.raises(mblob.BuildError, match="no value of its constant 'w'"):
        relay_program(late).export_library(tmp_path / "m.so", standalone=True, shapes=SHAPES)
