"""A wheel, installed into an empty environment outside of the tree, serves Python, C and CMake."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import time
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from tests.e2e.programs import ROOT, run
from tests.wheel import built_wheel

pytestmark = pytest.mark.slow

HOST = r"""
#include <mblob.h>
#include <stdio.h>
int main(int argc, char **argv) {
  float x[3] = {1, 2, 3};
  mblob_module *m;
  DLTensor w;
  const void *labels;
  size_t size;
  if (argc != 2 || mblob_open(argv[1], NULL, &m) || mblob_module_tensor(m, "w", &w) ||
      mblob_module_payload_by_key(m, "labels", &labels, &size) ||
      mblob_call(m, "scale", "float32[3],tensor", x, &w))
    return puts(mblob_last_error()), 1;
  printf("%g %g %g %.*s\n", (double)x[0], (double)x[1], (double)x[2], (int)size, (const char *)labels);
  mblob_module_release(m);
  return 0;
}
"""
KERNEL = """
#include "factor.h"
void scale(float *x, const float *w) { for (int i = 0; i < 3; ++i) x[i] *= FACTOR * w[i]; }
"""
PROTOTYPE = "void scale(float x[3], const float w[3])"
PACK = f"""
import mblob, sys
kernel = mblob.csource_module("scale.c", functions=["{PROTOTYPE}"])
kernel.import_module(mblob.safetensors_module("w.npz"))
kernel.import_module(mblob.blob_module("labels", b"cat"))
kernel.export_library("model.so")
import numpy as np
x, lib = np.array([1, 2, 3], "float32"), mblob.load_module("model.so")
lib.scale(x, lib.tensors["w"])
print(*x, sys.prefix in mblob.__file__)
"""
TVM_HOST = r"""
#include <stdio.h>
#include <tvm/runtime/c_runtime_api.h>
int main(int argc, char **argv) {
  TVMModuleHandle module;
  return argc != 2 || TVMModLoadFromFile(argv[1], "so", &module) || TVMModFree(module);
}
"""
KINDS = ("mblob", "static", "core", "static_ffi")
PROJECT = f"""
cmake_minimum_required(VERSION 3.20)
project(example LANGUAGES C)
find_package(mblob {mblob.__version__} CONFIG REQUIRED)
foreach(kind {" ".join(KINDS)})
  add_executable(host_${{kind}} host.c)
  target_link_libraries(host_${{kind}} PRIVATE mblob::${{kind}})
  add_dependencies(host_${{kind}} model)
endforeach()
add_executable(tvm_host tvm_host.c)
target_link_libraries(tvm_host PRIVATE mblob::tvm_compat)
mblob_add_library(model KERNELS scale.c FUNCTIONS "{PROTOTYPE}" WEIGHTS w.npz BLOBS labels=labels.txt)
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment with the wheel; what mblob requires is seen from ours."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(folder, with_pip=True)
    mine = folder / "bin" / "python"
    run(
        mine,
        "-m",
        "pip",
        "-q",
        "--disable-pip-version-check",
        "install",
        "--no-index",
        "--no-deps",
        built_wheel(),
    )
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    return mine


@pytest.fixture
def project(python: Path, tmp_path: Path) -> Path:
    """A folder with the sources of the programs."""
    (tmp_path / "host.c").write_text(HOST)
    (tmp_path / "tvm_host.c").write_text(TVM_HOST)
    (tmp_path / "scale.c").write_text(KERNEL)
    (tmp_path / "factor.h").write_text("#define FACTOR 1\n")
    (tmp_path / "labels.txt").write_text("cat")
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    save = "import numpy as np, sys; np.savez('w.npz', w=np.full(3, 2, 'float32'))"
    run(python, "-c", save, cwd=tmp_path, env=environment(python))
    return tmp_path


def environment(python: Path, **more: str) -> dict[str, str]:
    """Nothing leads to the tree, or to another libmblob."""
    skipped = ("LD_LIBRARY_PATH", "PYTHONPATH", "PKG_CONFIG_PATH", "CMAKE_PREFIX_PATH")
    kept = {name: value for name, value in os.environ.items() if name not in skipped}
    return {**kept, "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}", **more}


def told(python: Path, option: str) -> list[str]:
    lines = run(python, "-m", "mblob", option, env=environment(python)).stdout.splitlines()
    assert len(lines) == 1
    return lines[0].split()


def test_nothing_else_is_installed(python: Path) -> None:
    (packages,) = python.parent.parent.glob("lib/python*/site-packages")
    info = next(packages.glob("mblob-*.dist-info"))
    files = [line.partition(",")[0] for line in (info / "RECORD").read_text().splitlines()]
    tops = {Path(name).parts[0] for name in files if not name.startswith("..")}
    assert tops == {"mblob", info.name}
    assert str(ROOT) not in "".join(p.read_text() for p in (packages / "mblob").rglob("*.cmake"))
    with zipfile.ZipFile(built_wheel()) as wheel:
        links = [i.filename for i in wheel.infolist() if i.external_attr >> 28 == 0xA]
    assert links == []


def test_a_python_program_and_a_c_program_by_the_options_that_it_prints(
    python: Path, project: Path
) -> None:
    own = environment(python)
    assert run(python, "-c", PACK, cwd=project, env=own).stdout == "2.0 4.0 6.0 True\n"
    words = [*told(python, "--cflags"), *told(python, "--libs")]
    run("cc", "-Wall", "-Werror", "host.c", "-o", "host", *words, cwd=project, env=own)
    assert run("./host", "model.so", cwd=project, env=own).stdout == "2 4 6 cat\n"
    code = "import mblob; print(mblob.get_include()); print(mblob.get_library_dir())"
    folders = run(python, "-c", code, env=own).stdout.splitlines()
    assert folders == [*told(python, "--includedir"), *told(python, "--libdir")]


@pytest.mark.parametrize("linker", ["bfd", "gold", "lld", "mold"])
def test_the_link_name_is_read_by_every_linker(
    python: Path, project: Path, require: Callable[[str], str], linker: str
) -> None:
    require(f"ld.{linker}")
    own = environment(python)
    words = [*told(python, "--cflags"), *told(python, "--libs"), f"-fuse-ld={linker}"]
    run("cc", "host.c", "-o", "host", *words, cwd=project, env=own)
    needed = run("readelf", "-d", project / "host").stdout
    assert "[libmblob.so.0]" in needed


@pytest.mark.parametrize("package", ["mblob", "mblob-tvm"])
def test_a_c_program_by_pkg_config(
    python: Path, project: Path, require: Callable[[str], str], package: str
) -> None:
    (folder,) = told(python, "--libdir")
    own = environment(python, PKG_CONFIG_PATH=f"{folder}/pkgconfig")
    words = run(require("pkg-config"), "--cflags", "--libs", package, env=own).stdout.split()
    source = "host.c" if package == "mblob" else "tvm_host.c"
    if package == "mblob-tvm":  # by the link name of TVM's runtime
        words = ["-ltvm_runtime" if word == "-lmblob" else word for word in words]
    run(python, "-c", PACK, cwd=project, env=own)
    run("cc", source, "-o", "host", *words, cwd=project, env=own)
    run("./host", "model.so", cwd=project, env=own)


def test_a_folder_of_pip_install_target_serves_all_of_them(
    project: Path, tmp_path: Path, require: Callable[[str], str]
) -> None:
    cmake, python = require("cmake"), Path(sys.executable)
    folder = tmp_path / "the packages"
    run(python, "-m", "pip", "-q", "--disable-pip-version-check", "install", "--no-index", "--no-deps",
        "--target", folder, built_wheel())  # fmt: skip
    paths = os.pathsep.join([str(folder), sysconfig.get_path("purelib")])
    own = {**environment(python), "PYTHONPATH": paths, "PATH": "/usr/local/bin:/usr/bin:/bin"}
    words = " ".join(f"$({python} -m mblob {option})" for option in ("--cflags", "--libs"))
    run("sh", "-c", f'eval "cc host.c -o host {words}"', cwd=project, env=own)
    where = run(python, "-m", "mblob", "--cmakedir", env=own, cwd=tmp_path).stdout.rstrip()
    run(cmake, "-S", ".", "-B", "build", f"-Dmblob_DIR={where}", cwd=project, env=own)
    run(cmake, "--build", "build", "--target", "host_mblob", cwd=project, env=own)
    for host in ("./host", "build/host_mblob"):
        assert run(host, "build/model.so", cwd=project, env=own).stdout == "2 4 6 cat\n"


SHARED = r"""
#include <mblob.h>
static int twice(TVMValue *args, int *codes, int count, TVMRetValueHandle ret, void *self) {
  (void)args, (void)codes, (void)count, (void)ret, (void)self;
  return 0;
}
int register_it(void);
int register_it(void) {
  mblob_function *f;
  return mblob_function_create(twice, NULL, NULL, &f) || mblob_register_global("of.c", f, 0);
}
"""


@pytest.mark.parametrize("first", ["mblob", "library"])
def test_a_library_that_links_libmblob_shares_its_registry_with_python(
    python: Path, project: Path, first: str
) -> None:
    own = environment(python)
    (project / "shared.c").write_text(SHARED)
    words = [*told(python, "--cflags"), *told(python, "--libs")]
    run("cc", "-shared", "-fPIC", "shared.c", "-o", "shared.so", *words, cwd=project, env=own)
    load = "import ctypes; library = ctypes.CDLL('./shared.so')"
    steps = ["import mblob; mblob.load_module", load]
    code = "\n".join(
        [*(steps if first == "mblob" else steps[::-1]), "assert library.register_it() == 0"]
    )
    code += "\nprint(mblob.get_global_func('of.c') is not None)\n"
    code += "print(len({l.split()[-1] for l in open('/proc/self/maps') if 'libmblob.so' in l}))"
    assert run(python, "-c", code, cwd=project, env=own).stdout == "True\n1\n"


@pytest.mark.parametrize("generator", ["Ninja", "Unix Makefiles"])
def test_cmake_finds_the_wheel_and_packs_again_when_an_input_changes(
    python: Path, project: Path, require: Callable[[str], str], generator: str
) -> None:
    cmake = require("cmake")
    if generator == "Ninja":
        require("ninja")
    own = environment(python)
    run(cmake, "-G", generator, "-S", ".", "-B", "build", f"-Dmblob_DIR={told(python, '--cmakedir')[0]}", cwd=project,
        env=own)  # fmt: skip

    def build() -> str:
        return run(cmake, "--build", "build", cwd=project, env=own).stdout

    def packed(kind: str = "mblob") -> str:
        return run(f"build/host_{kind}", "build/model.so", cwd=project, env=own).stdout

    build()
    assert {packed(kind) for kind in KINDS} == {"2 4 6 cat\n"}
    run("build/tvm_host", "build/model.so", cwd=project, env=own)
    assert "Packing" not in build()
    save = "import numpy as np; np.savez('w.npz', w=np.full(3, 3, 'float32'))"
    changes: list[tuple[Callable[[], object], str]] = [
        (lambda: (project / "factor.h").write_text("#define FACTOR 10\n"), "20 40 60 cat\n"),
        (lambda: (project / "labels.txt").write_text("dog"), "20 40 60 dog\n"),
        (lambda: run(python, "-c", save, cwd=project, env=own), "30 60 90 dog\n"),
        (lambda: (project / "scale.c").write_text(KERNEL.replace("*=", "+=")), "31 32 33 dog\n"),
    ]
    for change, expected in changes:
        time.sleep(1.1)  # make compares whole seconds in some file systems
        change()
        assert "Packing" in build()
        assert packed() == expected


def test_cmake_refuses_a_package_for_another_machine_and_a_later_version(
    python: Path, project: Path, require: Callable[[str], str]
) -> None:
    cmake, compiler = require("cmake"), require("aarch64-linux-gnu-gcc")
    (folder,) = told(python, "--cmakedir")
    wrong = {
        "other": [
            "-DCMAKE_SYSTEM_NAME=Linux",
            "-DCMAKE_SYSTEM_PROCESSOR=aarch64",
            f"-DCMAKE_C_COMPILER={compiler}",
        ],
        "later": [],
    }
    for name, words in wrong.items():
        if name == "later":
            text = PROJECT.replace(
                f"find_package(mblob {mblob.__version__}", "find_package(mblob 99.0"
            )
            (project / "CMakeLists.txt").write_text(text)
        done = subprocess.run(
            [cmake, "-S", ".", "-B", name, f"-Dmblob_DIR={folder}", *words],
            cwd=project,
            env=environment(python),
            capture_output=True,
            text=True,
        )
        assert done.returncode != 0
        assert f"version: {mblob.__version__}" in done.stderr
        assert ("for another machine than aarch64" in done.stderr) == (name == "other")


@pytest.mark.parametrize("way", ["add_subdirectory", "FetchContent"])
def test_a_project_that_has_the_sources_gets_the_same_targets(
    python: Path, project: Path, require: Callable[[str], str], way: str
) -> None:
    cmake = require("cmake")
    ways = {
        "add_subdirectory": f"add_subdirectory({ROOT} mblob)",
        "FetchContent": f"include(FetchContent)\nFetchContent_Declare(mblob SOURCE_DIR {ROOT})\n"
        "FetchContent_MakeAvailable(mblob)",
    }
    line = f"find_package(mblob {mblob.__version__} CONFIG REQUIRED)"
    (project / "CMakeLists.txt").write_text(PROJECT.replace(line, ways[way]))
    own = environment(python)
    run(cmake, "-S", ".", "-B", "build", cwd=project, env=own)
    run(cmake, "--build", "build", "-j2", cwd=project, env=own)
    for kind in KINDS:
        assert (
            run(f"build/host_{kind}", "build/model.so", cwd=project, env=own).stdout
            == "2 4 6 cat\n"
        )
    folder = "mblob" if way == "add_subdirectory" else "_deps/mblob-build"
    assert (project / "build" / folder / "csrc" / "libmblob-ffi.so").exists()
