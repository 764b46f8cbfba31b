"""CMake finds a tree of `make install` that was moved, and packs libraries by mblob_add_library."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from tests.e2e.programs import ROOT, run

HOST = r"""
#include <mblob.h>
#include <stdio.h>
int main(int argc, char **argv) {
  for (int i = 1; i < argc; ++i) {
    float x[1] = {1};
    mblob_module *m;
    if (mblob_open(argv[i], NULL, &m) || mblob_call(m, "scale", "float32[1]", x)) return puts(mblob_last_error()), 1;
    printf("%g ", (double)x[0]);
    mblob_module_release(m);
  }
  return 0;
}
"""
KERNEL = '#include "factor.h"\nvoid scale(float *x) { x[0] *= FACTOR; }\n'
PROJECT = """
cmake_minimum_required(VERSION 3.20)
project(example LANGUAGES C)
find_package(mblob CONFIG REQUIRED)
foreach(kind mblob static core static_ffi)
  add_executable(host_${kind} host.c)
  target_link_libraries(host_${kind} PRIVATE mblob::${kind})
endforeach()
set(prototype "void scale(float x[1])")
set(include "-I${PROJECT_SOURCE_DIR}/headers")
add_library(objects OBJECT "sub/a kernel.c")
target_include_directories(objects PRIVATE headers)
mblob_add_library(objects_packed OBJECTS $<TARGET_OBJECTS:objects> FUNCTIONS ${prototype} OUTPUT new/objects.so)
mblob_add_library(expressions KERNELS "$<1:${PROJECT_SOURCE_DIR}/sub/a kernel.c>" FUNCTIONS ${prototype}
  BLOBS "header=$<1:${PROJECT_SOURCE_DIR}/headers/factor.h>" COMPILE_OPTIONS "$<1:${include}>")
add_subdirectory(sub)
"""
SUB = """
mblob_add_library(relative KERNELS "a kernel.c" FUNCTIONS ${prototype} BLOBS "header=../headers/factor.h"
  COMPILE_OPTIONS ${include} -O3)
mblob_add_library(manifest MANIFEST "a model.toml" COMPILE_OPTIONS ${include})
"""
MANIFEST = """
kernels = ["a kernel.c"]
functions = ["void scale(float x[1])"]
blobs = { header = "../headers/factor.h" }
"""
PACKED = ("new/objects.so", "expressions.so", "sub/relative.so", "sub/manifest.so")


@pytest.fixture
def moved(installed: Path, tmp_path: Path) -> Path:
    """A copy of an installation, in a folder whose name has a space."""
    return Path(shutil.copytree(installed, tmp_path / "moved tree", symlinks=True))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose folders and files have spaces in their names."""
    folder = tmp_path / "a project"
    for name, text in {
        "host.c": HOST,
        "CMakeLists.txt": PROJECT,
        "headers/factor.h": "#define FACTOR 2\n",
        "sub/a kernel.c": KERNEL,
        "sub/CMakeLists.txt": SUB,
        "sub/a model.toml": MANIFEST,
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.sample(1)
@pytest.mark.slow
@pytest.mark.parametrize("generator", ["Ninja", "Unix Makefiles"])
def test_a_moved_installation_serves_programs_and_packs_what_changed(
    moved: Path, project: Path, require: Callable[[str], str], generator: str
) -> None:
    cmake = require("cmake")
    if generator == "Ninja":
        require("ninja")
    pack = Path(sys.executable).with_name("mblob-pack")
    run(cmake, "-G", generator, "-S", project, "-B", project / "build", f"-DMBLOB_PACK={pack}",
        f"-DCMAKE_PREFIX_PATH={moved}")  # fmt: skip

    def build() -> str:
        return run(cmake, "--build", project / "build", "-j2").stdout

    def packed(kind: str = "mblob") -> str:
        return run(project / "build" / f"host_{kind}", *PACKED, cwd=project / "build").stdout

    assert build().count("Packing") == len(PACKED)
    assert {packed(kind) for kind in ("mblob", "static", "core", "static_ffi")} == {"2 2 2 2 "}
    assert "Packing" not in build()

    def change(path: Path, old: str, new: str) -> None:
        path.write_text(path.read_text().replace(old, new))
        later = max(p.stat().st_mtime for p in (project / "build").rglob("*")) + 2
        os.utime(path, (later, later))

    change(project / "headers" / "factor.h", "2", "10")
    assert build().count("Packing") == len(PACKED)
    assert packed() == "10 10 10 10 "

    change(project / "sub" / "a model.toml", "header =", "another_key =")
    assert "Packing manifest.so" in build()
    assert set(mblob.load_module(project / "build" / "sub" / "manifest.so").payloads) == {
        "another_key"
    }

    shutil.rmtree(project / "build" / "new")
    assert "Packing new/objects.so" in build()
    assert packed() == "10 10 10 10 "


def test_objects_are_built_before_they_are_packed(
    moved: Path, project: Path, require: Callable[[str], str]
) -> None:
    cmake = require("cmake")
    pack = Path(sys.executable).with_name("mblob-pack")
    run(cmake, "-G", "Unix Makefiles", "-S", project, "-B", project / "build", f"-DMBLOB_PACK={pack}",
        f"-DCMAKE_PREFIX_PATH={moved}")  # fmt: skip
    run(cmake, "--build", project / "build", "--target", "objects_packed_pack")
    assert (project / "build" / "new" / "objects.so").is_file()


TOOLCHAIN = """
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
"""
WITH_SOURCES = """
cmake_minimum_required(VERSION 3.20)
project(example LANGUAGES C)
add_subdirectory("../sources of mblob" mblob)
foreach(kind mblob static_ffi)
  add_executable(host_${kind} host.c)
  target_link_libraries(host_${kind} PRIVATE mblob::${kind})
endforeach()
mblob_add_library(model KERNELS "sub/a kernel.c" FUNCTIONS "void scale(float x[1])"
  COMPILE_OPTIONS "-I${PROJECT_SOURCE_DIR}/headers")
"""


@pytest.mark.slow
def test_sources_in_a_folder_with_spaces_are_built_and_pack_for_another_machine(
    project: Path, require: Callable[[str], str], tmp_path: Path
) -> None:
    cmake, emulator = require("cmake"), require("qemu-aarch64")
    require("aarch64-linux-gnu-gcc")
    sources = tmp_path / "sources of mblob"
    shutil.copytree(ROOT / "csrc", sources / "csrc", ignore=shutil.ignore_patterns("build"))
    shutil.copy(ROOT / "CMakeLists.txt", sources)
    (project / "CMakeLists.txt").write_text(WITH_SOURCES)
    (tmp_path / "toolchain.cmake").write_text(TOOLCHAIN)
    pack = Path(sys.executable).with_name("mblob-pack")
    run(cmake, "-S", project, "-B", project / "build", f"-DMBLOB_PACK={pack}",
        f"-DCMAKE_TOOLCHAIN_FILE={tmp_path / 'toolchain.cmake'}")  # fmt: skip
    run(cmake, "--build", project / "build", "-j2")
    for kind in ("mblob", "static_ffi"):
        command = [emulator, "-L", "/usr/aarch64-linux-gnu", f"build/host_{kind}", "build/model.so"]
        assert run(*command, cwd=project).stdout == "2 "
