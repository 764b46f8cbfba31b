"""Programs in the style of TVM's and tvm_ffi's public deployment programs, built with nothing but other
lines for headers and libraries, and run on libraries of mblob's and of TVM's packing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.e2e.programs import ROOT, run
from tests.loader.executors.test_graph_executor import FUNCTIONS, KERNELS, B, W, graph

HOSTS = Path(__file__).parent / "hosts"
Y = np.arange(6, dtype="f").reshape(2, 3) * W + B
MODEL = " ".join(f"{value:g}" for value in Y.flat)
ADD_ONE = (
    "void add_one(const float *x, float *y) { for (int i = 0; i < 5; ++i) y[i] = x[i] + 1; }\n"
)


@dataclass(frozen=True)
class Host:
    """A program.

    Attributes:
        of: the public program, and the releases that it was written for.
        build: how it is built (`Builder`), "" for Python.
        args: files that it gets.
        says: what it prints; "" for the numbers of a model that TVM exported.
        linked: files that are linked into it, of `files`.
    """

    of: str
    build: str
    args: tuple[str, ...]
    says: str
    linked: tuple[str, ...] = ()


FFI_SAYS = "[2.0, 3.0, 4.0, 5.0, 6.0]\n(5,) float32 cpu:0\n"
TABLE = {
    "cpp_deploy": Host("apps/howto_deploy/cpp_deploy.cc, 0.8 to 0.19", "prefix", ("addone.so", "model.so"), MODEL),
    "tvm_runtime_pack": Host("apps/howto_deploy/tvm_runtime_pack.cc", "static", ("addone.so", "model.so"), MODEL),
    "cpp_deploy_graph_runtime": Host(
        "docs/deploy/cpp_deploy, 0.5 to 0.7", "prefix", ("kernels.so", "graph.json", "params.bin"),
        "The maximum is 25.5 at 5",
    ),
    "cpp_deploy_system_lib": Host(
        "apps/howto_deploy/cpp_deploy.cc, TestWithSystemLib", "prefix", (), "1 11 21 31", ("addone.o",)
    ),
    "bundle_demo": Host(
        "apps/bundle_deploy/demo.cc and bundle.cc", "bundle", ("bundle.so", "graph.json", "params.bin"), MODEL
    ),
    "bundle_static": Host(
        "apps/bundle_deploy/demo_static.c", "c", ("graph.json", "params.bin"), MODEL, ("kernels.o",)
    ),
    "bundle_test": Host(
        "apps/bundle_deploy/test.cc", "cmake", ("model.so",), "2 outputs, all rounds are right"
    ),
    "tvm_runner": Host(
        "apps/cpp_rtvm/tvm_runner.cc, 0.12 to 0.19", "pkg-config", ("model.so",), f"x:float32[2 3 ] 24\n{MODEL}"
    ),
    "plugin_module": Host("apps/dso_plugin_module, 0.7 to 0.19", "plugin", ("plugin.so",), "9\n8 15 MyModule"),
    "vm_host": Host("hosts of tvm::runtime::vm::VirtualMachine", "pkg-config", ("vm_mlp.so", "mlp.bin"), ""),
    "aot_host": Host("hosts of the AOT executor", "prefix", ("aot_mlp.so", "mlp.bin"), ""),
    "relax_host": Host(
        "hosts of tvm::runtime::relax_vm, 0.12 to 0.19", "prefix", ("relax/cnn_bound.so", "cnn.bin"), ""
    ),
    "dlpack_host": Host("hosts that pass memory by DLPack", "prefix", ("addone.so",), "2 3 4 5 2 2 0"),
    "threads_host": Host("servers with an executor in each thread", "prefix", ("model.so",), "200"),
    "gotvm": Host("golang/src/gotvm.cc", "c", ("addone.so",), "103 error listed 2 3 4 1"),
    "jvm_native": Host(
        "jvm/native/.../org_apache_tvm_native_c_api.cc", "prefix", ("addone.so", "model.so"),
        "1 25.5 2 arguments 1",
    ),
    "rust_tvm_rt": Host("rust/tvm-rt", "c", ("addone.so", "model.so"), "2 GraphExecutorFactory 1 2"),
    "python_deploy": Host(
        "apps/howto_deploy/python_deploy.py", "", ("addone.so", "model.so"), f"addone is right\n{Y.tolist()}"
    ),
    "ffi_load_cpp": Host(
        "tvm-ffi: examples/quickstart/load/load_cpp.cc", "ffi", ("add_one.so",), "2 3 4 5 6 ValueError 1 42 0"
    ),
    "ffi_load": Host(
        "tvm-ffi: examples/stable_c_abi/src/load.c", "ffi-c", ("add_one.so",), "2 3 4 5 6 TypeError"
    ),
    "ffi_run_example": Host(
        "tvm-ffi: examples/quickstart/load/load_numpy.py", "", ("add_one.so",), f"{FFI_SAYS}KernelError True"
    ),
}  # fmt: skip
QUICK = {"", "c"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The libraries, objects and inputs that the hosts use."""
    folder = tmp_path_factory.mktemp("hosts")
    addone = ROOT / "examples" / "tvm_deploy" / "addone.c"
    mblob.csource_module(addone).export_library(folder / "addone.so")
    mblob.csource_module(addone).export_library(folder / "addone.o", system_lib=True)
    kernels = mblob.csource_module(KERNELS, functions=FUNCTIONS)
    kernels.export_library(folder / "kernels.so")
    kernels.export_library(folder / "kernels.o", system_lib=True)
    factory = mblob.graph_executor_factory(graph(), {"w": W, "b": B})
    factory.import_module(mblob.csource_module(KERNELS, functions=FUNCTIONS))
    factory.export_library(folder / "model.so")
    (folder / "graph.json").write_text(json.dumps(graph()))
    (folder / "params.bin").write_bytes(mblob.save_param_dict({"w": W, "b": B}))
    prototype = "void add_one(const float x[5], float y[5])"
    mblob.csource_module(ADD_ONE, functions=[prototype]).export_library(
        folder / "add_one.so", dialect="ffi"
    )
    return folder


@dataclass(frozen=True)
class Builder:
    """Builds a host as the documentation says."""

    require: Callable[[str], str]
    package_of: Callable[[str], Path]
    installed: Path
    compat: Path
    files: Path

    def cxx(self, *words: object) -> None:
        run(self.require("c++"), "-std=c++17", "-O1", "-Wall", "-Werror", *words)

    def libraries(self, prefix: Path, *names: str) -> list[str]:
        return [f"-L{prefix}/lib", f"-Wl,-rpath,{prefix}/lib", *names, "-pthread"]

    def prefix(self, name: str, out: Path, *linked: Path) -> None:
        """`make install COMPAT=1`: the words are those for TVM."""
        self.cxx(HOSTS / f"{name}.cpp", *linked, "-o", out, f"-I{self.compat}/include",
                 *self.libraries(self.compat, "-ltvm_runtime"), "-ldl")  # fmt: skip

    def c(self, name: str, out: Path, *linked: Path) -> None:
        run(self.require("cc"), "-std=gnu11", "-O1", "-Wall", "-Werror", HOSTS / f"{name}.c", *linked, "-o", out,
            f"-I{self.compat}/include", *self.libraries(self.compat, "-ltvm_runtime"))  # fmt: skip

    def static(self, _: str, out: Path, *linked: Path) -> None:
        """One program that has the runtime in it."""
        self.cxx(HOSTS / "cpp_deploy.cpp", *linked, "-o", out, f"-I{self.compat}/include",
                 self.compat / "lib" / "libmblob.a", "-ldl", "-lm", "-pthread")  # fmt: skip

    def pkg_config(self, name: str, out: Path, *linked: Path) -> None:
        environment = {
            **os.environ,
            "PKG_CONFIG_PATH": str(self.installed / "lib" / "pkgconfig"),
        }
        words = run(
            self.require("pkg-config"), "--cflags", "--libs", "mblob-tvm", env=environment
        ).stdout.split()
        self.cxx(HOSTS / f"{name}.cpp", *linked, "-o", out, *words,
                 f"-Wl,-rpath,{self.installed}/lib", "-pthread")  # fmt: skip

    def cmake(self, name: str, out: Path, *linked: Path) -> None:
        folder = out.with_suffix(".cmake")
        folder.mkdir()
        (folder / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.15)\nproject(host CXX)\n"
            "find_package(mblob CONFIG REQUIRED)\n"
            f"add_executable(host {HOSTS / name}.cpp {' '.join(map(str, linked))})\n"
            "target_link_libraries(host mblob::tvm_classes)\n"
        )
        cmake = self.require("cmake")
        run(cmake, "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={self.installed}")
        run(cmake, "--build", folder / "build")
        out.symlink_to(folder / "build" / "host")

    def bundle(self, name: str, out: Path, *linked: Path) -> None:
        """The library of the graph's functions and its kernels, and the program that opens it."""
        self.cxx("-shared", "-fPIC", "-fvisibility=hidden", HOSTS / "bundle.cpp", self.files / "kernels.o",
                 "-o", self.files / "bundle.so", f"-I{self.compat}/include",
                 *self.libraries(self.compat, "-ltvm_runtime"))  # fmt: skip
        self.cxx(HOSTS / f"{name}.cpp", *linked, "-o", out, f"-I{self.compat}/include", "-ldl")

    def plugin(self, name: str, out: Path, *linked: Path) -> None:
        """A library of modules, which a program of Python opens."""
        self.cxx("-shared", "-fPIC", HOSTS / f"{name}.cpp", *linked, "-o", self.files / "plugin.so",
                 f"-I{self.compat}/include", *self.libraries(self.compat, "-ltvm_runtime"))  # fmt: skip
        out.write_text(
            f"#!/bin/sh\nexec {sys.executable} {HOSTS / name}.py {self.files / 'plugin.so'}\n"
        )
        out.chmod(0o755)

    def ffi(self, name: str, out: Path, *linked: Path) -> None:
        headers = self.package_of("tvm_ffi") / "include"
        self.cxx("-include", "mblob/ffi_module.h", HOSTS / f"{name}.cpp", *linked, "-o", out,
                 f"-I{self.installed}/include", f"-I{headers}",
                 *self.libraries(self.installed, "-lmblob-ffi", "-lmblob"))  # fmt: skip

    def ffi_c(self, name: str, out: Path, *linked: Path) -> None:
        headers = self.package_of("tvm_ffi") / "include"
        run(self.require("cc"), "-std=gnu11", "-O1", "-Wall", "-Werror", HOSTS / f"{name}.c", *linked, "-o", out,
            f"-I{headers}", *self.libraries(self.installed, "-lmblob-ffi", "-lmblob"), "-ldl")  # fmt: skip


@pytest.fixture(scope="module")
def builder(
    require: Callable[[str], str],
    package_of: Callable[[str], Path],
    installed: Path,
    compat: Path,
    files: Path,
) -> Builder:
    return Builder(require, package_of, installed, compat, files)


def recorded(golden: Path, files: Path, library: str) -> np.ndarray[Any, Any]:
    """What TVM gave for a recorded input, which is written for the host."""
    if library.startswith("relax"):
        known = np.load((golden / library).with_suffix(".npz"))
        (files / "cnn.bin").write_bytes(known["c0_a0"].tobytes())
        return np.asarray(known["c0_r"]).ravel()
    known = np.load(golden / "mlp_llvm.npz")
    (files / "mlp.bin").write_bytes(known["data"].tobytes())
    return np.asarray(known["out"]).ravel()


def program_of(name: str, builder: Builder, folder: Path) -> list[object]:
    host = TABLE[name]
    if not host.build:
        return [sys.executable, HOSTS / f"{name}.py"]
    out = folder / name
    build: Callable[..., None] = getattr(builder, host.build.replace("-", "_"))
    build(name, out, *(builder.files / linked for linked in host.linked))
    return [out]


def test_there_are_as_many_as_public_programs() -> None:
    assert len(TABLE) == 21
    sources = {path.stem for path in HOSTS.iterdir()} - {"bundle"}
    assert sources | {"tvm_runtime_pack"} == set(TABLE)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if host.build in QUICK else [pytest.mark.slow])
        for name, host in TABLE.items()
    ],
)
def test_a_host_runs_with_other_lines_for_headers_and_libraries_only(
    name: str, builder: Builder, files: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    host = TABLE[name]
    program = program_of(name, builder, tmp_path)
    folder = files if host.says else request.getfixturevalue("golden")
    expected = None if host.says else recorded(folder, files, host.args[0])
    args = [files / arg if (files / arg).exists() else folder / arg for arg in host.args]
    done = subprocess.run(
        [*map(str, program), *map(str, args)], capture_output=True, text=True, timeout=60, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout + done.stderr
    if expected is None:
        assert done.stdout.strip() == host.says
    else:
        found = np.array(done.stdout.split(), "f")
        np.testing.assert_allclose(found, expected, rtol=1e-4)
