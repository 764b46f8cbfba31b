"""Models of TVM and of our own from a C program and from a C++ program, over mblob.h alone."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mblob
from tests.e2e.programs import ROOT, run
from tests.loader.executors.test_graph_executor import FUNCTIONS, KERNELS, B, W, graph

# Their operators are plain C functions, which mblob's executor can call.
pytestmark = pytest.mark.filterwarnings("ignore::mblob.errors.PortabilityWarning")

SOURCE = ROOT / "tests" / "c" / "hosts" / "run_model.c"


@pytest.fixture(scope="module", params=["c", "c++", "mblob.c"])
def run_model(
    request: pytest.FixtureRequest,
    installed: Path,
    tmp_path_factory: pytest.TempPathFactory,
    require: Callable[[str], str],
) -> Path:
    program = tmp_path_factory.mktemp("run_model") / "run_model"
    if request.param == "mblob.c":
        folder = request.getfixturevalue("amalgamation")
        words = ["cc", "-std=c11", "-Wall", "-Werror", f"-I{folder}", SOURCE, folder / "mblob.o"]
        run(*words, "-o", program, "-pthread", "-ldl", "-lm")
        return program
    words = ["cc", "-std=c11"] if request.param == "c" else ["c++", "-std=c++17", "-x", "c++"]
    run(
        require(words[0]), *words[1:], "-O1", "-Wall", "-Wextra", "-Werror", "-I", installed / "include", SOURCE,
        "-x", "none", "-o", program, f"-L{installed}/lib", f"-Wl,-rpath,{installed}/lib", "-lmblob",
    )  # fmt: skip
    return program


def call(
    program: Path, library: Path, name: str, data: np.ndarray, output: str
) -> subprocess.CompletedProcess[bytes]:
    described = f"{data.dtype}[{','.join(map(str, data.shape))}]"
    return subprocess.run(
        [program, library, name, described, output],
        input=data.tobytes(),
        capture_output=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("model", "numbers"),
    [("mlp_llvm", "mlp_llvm"), ("mlp_c", "mlp_c"), ("aot_mlp", "mlp_llvm"), ("vm_mlp", "mlp_llvm")],
)
def test_models_that_tvm_exported_give_its_numbers(
    run_model: Path, golden: Path, model: str, numbers: str
) -> None:
    known = np.load(golden / f"{numbers}.npz")
    done = call(run_model, golden / f"{model}.so", "data", known["data"], "float32[1,10]")
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.frombuffer(done.stdout, "f4")[:10], known["out"][0], rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "shape", "output", "text"),
    [
        ("dta", (1, 1, 8, 8), "float32[1,10]", "no input 'dta'"),
        ("data", (8, 8), "float32[1,10]", "expected shape [1,1,8,8], found [8,8]"),
        ("data", (1, 1, 8, 8), "float32[10]", "expected shape [1,10], found [10]"),
        ("data", (1, 1, 8, 8), "float32[*]", "without *"),
        ("data", (1, 1, 8, 8), "int", "expected DTYPE[dimensions] or tensor"),
    ],
)
def test_wrong_use_is_one_line(
    run_model: Path, golden: Path, name: str, shape: tuple[int, ...], output: str, text: str
) -> None:
    done = call(run_model, golden / "mlp_c.so", name, np.zeros(shape, "f"), output)
    assert done.returncode == 1
    assert text in os.fsdecode(done.stderr)
    assert done.stderr.count(b"\n") == 1


def test_kernels_beside_other_modules_are_found(run_model: Path, tmp_path: Path) -> None:
    factory = mblob.graph_executor_factory(graph(), {"w": W, "b": B})
    factory.import_module(mblob.blob_module("note", b"hi"))
    factory.import_module(mblob.csource_module(KERNELS, functions=FUNCTIONS))
    factory.export_library(tmp_path / "m.so")
    x = np.arange(6, dtype="f").reshape(2, 3)
    done = call(run_model, tmp_path / "m.so", "x", x, "float32[2,3]")
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.frombuffer(done.stdout, "f4")[:6].reshape(2, 3), x * W + B)


def test_a_library_without_a_model_says_so(run_model: Path, tmp_path: Path) -> None:
    mblob.csource_module("int two(void) { return 2; }").export_library(tmp_path / "code.so")
    done = call(run_model, tmp_path / "code.so", "x", np.zeros(1, "f"), "float32[1]")
    assert (done.returncode, done.stderr) == (1, b"module 'library' has no model\n")
    root = mblob.csource_module("int two(void) { return 2; }")
    root.import_module(mblob.blob_module("note", b"hi"))
    root.import_module(mblob.graph_executor_factory(graph(), {"w": W, "b": B}))
    root.export_library(tmp_path / "below.so")
    done = call(run_model, tmp_path / "below.so", "x", np.zeros(1, "f"), "float32[1]")
    assert (
        b"is no model; its import " in done.stderr
        and b" ('GraphExecutorFactory') is" in done.stderr
    )
