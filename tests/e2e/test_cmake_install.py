"""CMake finds a tree of `make install` that was moved, and packs libraries by mblob_add_library."""

from __future__ import annotations

import os
import shutil
import subprocess
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


@pytest.mark.slow
def test_objects_are_built_before_they_are_packed(
    moved: Path, project: Path, require: Callable[[str], str]
) -> None:
    cmake = require("cmake")
    pack = Path(sys.executable).with_name("mblob-pack")
    run(cmake, "-G", "Unix Makefiles", "-S", project, "-B", project / "build", f"-DMBLOB_PACK={pack}",
        f"-DCMAKE_PREFIX_PATH={moved}")  # fmt: skip
    run(cmake, "--build", project / "build", "--target", "objects_packed_pack")
    assert (project / "build" / "new" / "objects.so").is_file()


# -- projects without a language, which CMake reads at once ------------------------------------------


@pytest.fixture
def configure(tmp_path: Path, require: Callable[[str], str]) -> Callable[..., str]:
    """`configure(lines)`: what CMake prints about such a project; it is built in tmp_path / "build"."""
    cmake, pack = require("cmake"), Path(sys.executable).with_name("mblob-pack")

    def configured(lines: str, *words: str) -> str:
        text = f"cmake_minimum_required(VERSION 3.20)\nproject(example LANGUAGES NONE)\n{lines}\n"
        (tmp_path / "CMakeLists.txt").write_text(text)
        command = [cmake, "-S", tmp_path, "-B", tmp_path / "build", f"-DMBLOB_PACK={pack}", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    return configured


ADD_LIBRARY = f"include({ROOT}/csrc/package/mblobAddLibrary.cmake)\n"


@pytest.mark.slow
def test_a_compiler_in_a_folder_with_a_space_packs_a_file_called_like_its_target(
    tmp_path: Path, configure: Callable[..., str], require: Callable[[str], str]
) -> None:
    compiler = tmp_path / "c c" / "gcc"
    compiler.parent.mkdir()
    compiler.symlink_to(require("gcc"))
    line = f'mblob_add_library(model BLOBS "k={ROOT}/setup.py" OUTPUT plug/model)'
    configure(ADD_LIBRARY + line, f"-DCMAKE_C_COMPILER={compiler}")
    run("cmake", "--build", tmp_path / "build")
    assert set(mblob.load_module(tmp_path / "build" / "plug" / "model").payloads) == {"k"}


def test_a_keyword_without_a_value_is_an_error(configure: Callable[..., str]) -> None:
    for keyword in ("GRAPH", "WEIGHTS"):
        said = configure(f"{ADD_LIBRARY}mblob_add_library(m BLOBS k=f {keyword} ${{unset}})")
        assert f"mblob_add_library(m): {keyword} has no value: is the variable behind it" in said
    said = configure(f"{ADD_LIBRARY}mblob_add_library(m BLOBS k=f COMPILE_OPTIONS ${{unset}})")
    assert "CMake Error" not in said


def test_a_range_of_versions_is_met_by_each_release_inside(
    installed: Path, tmp_path: Path, configure: Callable[..., str]
) -> None:
    package = tmp_path / "package" / "mblobConfig.cmake"
    package.parent.mkdir()
    package.write_text("")
    version = "mblobConfigVersion.cmake"
    shutil.copy(installed / "lib" / "cmake" / "mblob" / version, package.with_name(version))
    met = ["0.0...1.0", "0.0.9...0.1.5", "0...1", "0.1...<0.2", f"0.0...{mblob.__version__}"]
    others = ["0.0...0.0.9", f"0.0...<{mblob.__version__}", "0.1.1...2", "0.0", "1"]
    said = configure(
        f"foreach(wanted {' '.join(met + others)})\n"
        f'find_package(mblob ${{wanted}} CONFIG QUIET PATHS "{package.parent}" NO_DEFAULT_PATH)\n'
        'message(STATUS "found: ${wanted} ${mblob_FOUND}")\nendforeach()'
    )
    found = [line.split()[2:] for line in said.splitlines() if "found:" in line]
    assert found == [[range_, "1"] for range_ in met] + [[range_, "0"] for range_ in others]


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
