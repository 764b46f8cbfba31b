"""docs/tvm_hosts.md opens with the lines to change in a program: a program of each kind runs so."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mblob

ROOT = Path(__file__).resolve().parents[2]


def rows(kind: str) -> dict[str, str]:
    """The lines for TVM of one kind of program, and what stands for each."""
    opening = (ROOT / "docs" / "tvm_hosts.md").read_text().partition("\n## ")[0]
    found = re.findall(rf"^\| {kind}[^|]*\| `([^`]+)` \| `([^`]+)` \|$", opening, re.MULTILINE)
    assert found, kind
    return dict(found)


def run(*command: Any, **more: Any) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, **more)
    assert done.returncode == 0, done.stderr
    return done.stdout


PROGRAM = """
import sys
import numpy as np
import tvm
from tvm.contrib import graph_executor
import tvm_ffi

lib = tvm.runtime.load_module(sys.argv[1])
dev = tvm.cpu(0)
module = graph_executor.GraphModule(lib["default"](dev))
module.set_input("x", tvm.nd.array(np.arange(4, dtype="float32"), dev))
module.run()
print(module.get_output(0).numpy().tolist(), lib.kind, dev)

@tvm.register_func("hosts.double")
def double(value):
    return 2 * value

print(tvm.get_global_func("hosts.double")(21), tvm_ffi.load_module(sys.argv[1]).imports[0].kind)
try:
    lib["none"]
except AttributeError as error:
    print("none" in str(error))
"""
GRAPH = {
    "nodes": [
        {"op": "null", "name": "x", "inputs": []},
        {
            "op": "tvm_op", "name": "y", "inputs": [[0, 0, 0]],
            "attrs": {"func_name": "add", "num_inputs": "1", "num_outputs": "1", "flatten_data": "0"},
        },
    ],
    "arg_nodes": [0], "heads": [[1, 0, 0]], "node_row_ptr": [0, 1, 2],
    "attrs": {
        "dltype": ["list_str", ["float32"] * 2], "storage_id": ["list_int", [0, 1]], "shape": ["list_shape", [[4]] * 2],
    },
}  # fmt: skip


def test_a_program_in_python_runs_with_other_import_lines(tmp_path: Path) -> None:
    source = "void add(const float *x, float *y) { for (int i = 0; i < 4; i++) y[i] = x[i] + 1; }"
    prototype = "void add(const float x[4], float y[4])"
    model = mblob.graph_executor_factory(GRAPH)
    model.import_module(mblob.csource_module(source, functions=[prototype], packed="name"))
    model.export_library(tmp_path / "model.so")
    text = PROGRAM
    for line, other in rows("Python").items():
        assert f"\n{line}\n" in text
        text = text.replace(f"\n{line}\n", f"\n{other}\n")
    (tmp_path / "host.py").write_text(text)
    out = run(sys.executable, tmp_path / "host.py", tmp_path / "model.so")
    assert out == "[1.0, 2.0, 3.0, 4.0] GraphExecutorFactory cpu:0\n42 library\nTrue\n"


@pytest.fixture
def addone(tmp_path: Path) -> Path:
    """What the host of TVM's deployment guides opens."""
    mblob.csource_module(ROOT / "examples/tvm_deploy/addone.c").export_library(tmp_path / "lib.so")
    return tmp_path / "lib.so"


HOST = ROOT / "examples" / "tvm_deploy" / "main.cpp"


@pytest.mark.slow
def test_a_program_in_cxx_builds_by_pkg_config(
    installed: Path, addone: Path, tmp_path: Path, require: Callable[[str], str]
) -> None:
    require("pkg-config"), require("c++")
    (words,) = rows("a shell").values()
    paths = {"PKG_CONFIG_PATH": f"{installed}/lib/pkgconfig", "LD_LIBRARY_PATH": f"{installed}/lib"}
    environment = {**os.environ, **paths}
    run("sh", "-c", f"c++ -std=c++17 {HOST} -o {tmp_path}/host {words}", env=environment)
    assert run(tmp_path / "host", addone, env=environment) == "10\n"


@pytest.mark.slow
def test_a_program_in_cxx_builds_by_cmake(
    installed: Path, addone: Path, tmp_path: Path, require: Callable[[str], str]
) -> None:
    require("cmake"), require("c++")
    find, link = rows("CMake").values()
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(host CXX)\nset(CMAKE_CXX_STANDARD 17)\n"
        f"{find}\nadd_executable(host {HOST})\n{link}\n"
    )
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={installed}")
    run("cmake", "--build", tmp_path / "build")
    assert run(tmp_path / "build" / "host", addone) == "10\n"


# -- hosts in the style of each era -----------------------------------------------------------------

HOSTS = sorted((Path(__file__).parent / "hosts").glob("*.py"))


def moved(text: str) -> str:
    """A program with its import lines changed, and nothing else."""
    text = re.sub(r"(?m)^import (tvm|tvm_ffi)$", r"import mblob.compat.\1 as \1", text)
    return re.sub(r"(?m)^(import|from) (tvm(?:_ffi)?[. ])", r"\1 mblob.compat.\2", text)


@pytest.mark.sample(3)
@pytest.mark.parametrize("host", HOSTS, ids=lambda path: path.stem)
def test_a_host_of_each_era_runs_with_other_import_lines(
    host: Path, golden: Path, tmp_path: Path
) -> None:
    text = host.read_text()
    (tmp_path / host.name).write_text(moved(text))
    lines = [line for line, new in zip(text.splitlines(), moved(text).splitlines()) if line != new]
    assert lines and all(line.startswith(("import tvm", "from tvm")) for line in lines)
    run(sys.executable, tmp_path / host.name, golden)
