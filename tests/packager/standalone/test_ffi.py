"""Standalone libraries of the ffi dialect (TVM 0.22 and later)."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mblob
from tests.built_once import built_once
from tests.e2e.programs import exported, run
from tests.packager.standalone.test_standalone import Interface, relax_program
from tests.roots import in_root, into

HERE = Path(__file__).parent
HOST = r"""
#include "m.h"
#include <stdio.h>
int main(void) {
  float x[16], y[8];
  m_model *model;
  if (fread(x, sizeof(*x), 16, stdin) != 16) return 2;
  if (m_open(&model) || m_run(model, &(m_inputs){x}, &(m_outputs){y})) return fprintf(stderr, "%s\n", m_error()), 1;
  m_close(model);
  return fwrite(y, sizeof(*y), 8, stdout) != 8;
}
"""
TVM = """
import sys, numpy as np, tvm
machine = tvm.relax.VirtualMachine(tvm.runtime.load_module(sys.argv[1]), tvm.cpu())
io = np.load(sys.argv[2])
assert (machine["main"](tvm.runtime.tensor(io["x"])).numpy() == io["y"]).all()
"""
MBLOB = """
import sys, numpy as np, mblob
machine, io = mblob.relax.VirtualMachine(mblob.load_module(sys.argv[1]), mblob.cpu()), np.load(sys.argv[2])
np.testing.assert_allclose(machine["main"](io["x"]).numpy(), io["y"], rtol=1e-5)
"""


@pytest.fixture(scope="module")
def programs(package_of: Callable[[str], Path]) -> Path:
    release = next(package_of("tvm").parent.glob("apache_tvm-*.dist-info")).name
    script = HERE / "tvm_program.py"
    return built_once(
        "standalone-tvm", lambda folder: run(sys.executable, script, folder), script.read_text(), release
    )  # fmt: skip


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_a_program_of_tvm_needs_the_c_library_alone(
    programs: Path, target: str, tmp_path: Path
) -> None:
    tar, io = programs / f"{target}.bytecode.tar", np.load(programs / "io.npz")
    mblob.static_library(tar).export_library(tmp_path / "plain.so")
    module = mblob.static_library(tar)
    module.export_library(tmp_path / "m.so", standalone=True, header=tmp_path / "m.h")
    grown = (tmp_path / "m.so").stat().st_size - (tmp_path / "plain.so").stat().st_size
    assert grown <= 200_000
    new = {*exported(tmp_path / "m.so")} - {*exported(tmp_path / "plain.so")}
    assert new == {
        *(f"m_{name}" for name in ("open", "run", "close", "error")),
        "__mblob_functions",
    }

    (tmp_path / "host.c").write_text(HOST)
    run("cc", "host.c", tmp_path / "m.so", "-o", "host", cwd=tmp_path)
    root = tmp_path / "root"
    root.mkdir()
    into(root, tmp_path / "host")
    command = [*in_root(root), "/host"]
    done = subprocess.run(command, input=io["x"].tobytes(), capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    np.testing.assert_allclose(np.frombuffer(done.stdout, "f").reshape(2, 4), io["y"], rtol=1e-5)

    model, y = Interface(tmp_path / "m.so", "m"), np.zeros((2, 4), "f")
    assert model.run([io["x"]], [y]) == 0, model.error()
    np.testing.assert_allclose(y, io["y"], rtol=1e-5)
    model.close()
    for program in (TVM, MBLOB):
        run(sys.executable, "-c", program, tmp_path / "m.so", programs / "io.npz")


def test_a_compiled_program_is_refused_with_what_to_do(programs: Path, tmp_path: Path) -> None:
    module = mblob.static_library(programs / "llvm.compiled.tar")
    with pytest.raises(mblob.BuildError, match='build it with exec_mode="bytecode"'):
        module.export_library(tmp_path / "m.so", standalone=True)


FAILS = """
#include <tvm/ffi/c_api.h>
#define FAIL(name, text) \\
  int __tvm_ffi_##name(void *self, const TVMFFIAny *args, int32_t count, TVMFFIAny *result) { \\
    (void)self, (void)args, (void)count, (void)result; \\
    if (!text) return 0; \\
    TVMFFIErrorSetRaisedFromCStr("ValueError", text); \\
    return -1; \\
  }
FAIL(twice, 0)
FAIL(plus, "x is negative")
"""


def test_the_error_of_a_kernel_is_told(tmp_path: Path) -> None:
    root = relax_program("ffi")
    root.import_module(mblob.csource_module(FAILS, functions=[]))
    root.export_library(tmp_path / "m.so", standalone=True, dialect="ffi")
    model, y = Interface(tmp_path / "m.so", "m"), np.zeros((2, 3), "f")
    assert model.run([y, y], [y, y]) != 0
    assert re.fullmatch(r"ValueError: .*call plus.*: x is negative", model.error())
    model.close()


def test_code_that_needs_classes_of_tvm_ffi_is_refused(tmp_path: Path) -> None:
    module = mblob.csource_module(
        "int TVMFFIObjectDecRef(void *);\n"
        "void f(const float x[1], float y[1]) { y[0] = x[0]; (void)TVMFFIObjectDecRef(0); }\n",
        functions=["f"],
    )
    with pytest.raises(mblob.BuildError, match=r"calls TVMFFIObjectDecRef, .* of tvm_ffi; pack"):
        module.export_library(tmp_path / "m.so", standalone=True, dialect="ffi")
