"""What `make install` puts there: found by pkg-config, its names, headers that compile without
warnings."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.programs import ROOT, run

HOST = r"""
#include <mblob.h>
#include <stdio.h>
int main(int argc, char **argv) {
  float a[3] = {1, 2, 3}, b[3] = {4, 5, 6}, c[3];
  mblob_module *m;
  if (argc != 2 || mblob_open(argv[1], NULL, &m)) return puts(mblob_last_error()), 1;
  if (mblob_call(m, "vadd", "float32[3],float32[3],float32[3]", a, b, c)) return puts(mblob_last_error()), 2;
  mblob_module_release(m);
  return printf("%g\n", (double)(c[0] + c[1] + c[2])) < 0;
}
"""


@pytest.mark.parametrize("language", ["c", "c++"])
@pytest.mark.parametrize("static", [False, True])
def test_an_installed_runtime_is_found_by_pkg_config(
    built: Path,
    installed: Path,
    tmp_path: Path,
    require: Callable[[str], str],
    language: str,
    static: bool,
) -> None:
    pkg_config = require("pkg-config")
    environment = {**os.environ, "PKG_CONFIG_PATH": str(installed / "lib" / "pkgconfig")}
    flags = run(
        pkg_config,
        "--cflags",
        "--libs",
        *(["--static"] if static else []),
        "mblob",
        env=environment,
    )
    words = flags.stdout.split()
    if static:
        words = [str(installed / "lib" / "libmblob.a") if w == "-lmblob" else w for w in words]
    source = tmp_path / "host.c"
    source.write_text(HOST)
    standard = "-std=c11" if language == "c" else "-std=c++17"
    compiler = require("cc" if language == "c" else "c++")
    program = tmp_path / "host"
    run(
        compiler,
        "-x",
        language,
        standard,
        "-Wall",
        "-Wextra",
        "-Werror",
        source,
        "-x",
        "none",
        "-o",
        program,
        *words,
    )
    environment["LD_LIBRARY_PATH"] = str(installed / "lib")
    assert run(program, built / "lib" / "plain.so", env=environment).stdout == "21\n"


def test_the_library_exports_its_api_and_nothing_else(installed: Path) -> None:
    symbols = run(
        "nm", "-D", "--defined-only", installed / "lib" / "libmblob.so"
    ).stdout.splitlines()
    names = {line.split()[-1] for line in symbols}
    # as TVM's
    helpers = {"__gnu_f2h_ieee", "__gnu_h2f_ieee", "__truncsfhf2", "__truncdfhf2", "__extendhfsf2"}
    # gcc's, the last two where there is x87
    helpers |= {"__extendhfdf2", "__extendhfxf2", "__truncxfhf2"} & names
    assert {n for n in names if not n.startswith(("mblob_", "TVM"))} == helpers
    assert {"mblob_open", "TVMModLoadFromFile", "TVMBackendParallelLaunch"} <= names


@pytest.mark.slow
def test_no_text_of_a_table_lacks_room_for_its_end(require: Callable[[str], str]) -> None:
    """C drops the NUL of a text that fills its array, without a word; gcc tells what C++ thinks of
    it."""
    own = [ROOT / "csrc" / name for name in ("include", "src", "plugins/common")]
    sources = [p for name in ("src", "plugins") for p in (ROOT / "csrc" / name).rglob("*.c")]
    words = [
        "-std=gnu11",
        "-DMBLOB_HOST",
        "-D_FILE_OFFSET_BITS=64",
        *(f"-I{p}" for p in own),
        "-fsyntax-only",
    ]
    done = subprocess.run(
        [require("gcc"), *words, "-Wc++-compat", *map(str, sources)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if "too long" in line] == []


# -- headers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", ["mblob.h", "tvm/runtime/c_backend_api.h", "dlpack/dlpack.h"])
@pytest.mark.parametrize("mode", ["-fPIC", "-fPIE", "-DMBLOB_HOST"])
@pytest.mark.parametrize("standard", ["c99", "c11", "gnu17", "c++11", "c++17"])
def test_headers_compile_without_warnings(
    tmp_path: Path, require: Callable[[str], str], header: str, mode: str, standard: str
) -> None:
    compiler = require("c++" if standard.startswith("c++") else "cc")
    language = "c++" if standard.startswith("c++") else "c"
    source = tmp_path / "header.c"
    source.write_text(f"#include <{header}>\nint nothing;\n")
    run(
        compiler, "-x", language, f"-std={standard}", mode, "-Wall", "-Wextra", "-Wconversion", "-Werror",
        "-I", ROOT / "csrc" / "include", "-c", source, "-o", tmp_path / "header.o",
    )  # fmt: skip


def undefined_of_tvm(library: Path) -> list[str]:
    lines = run("nm", "-D", "--undefined-only", library).stdout.splitlines()
    return [line.split()[-1] for line in lines if " U " in line and "TVM" in line]


def test_a_kernel_that_uses_nothing_exports_no_slots(
    tmp_path: Path, cc: Callable[..., Path]
) -> None:
    source = "#include <tvm/runtime/c_runtime_api.h>\nint f(void) { return 0; }\n"
    library = cc(source, tmp_path / "f.so", f"-I{ROOT}/csrc/include")
    names = run("nm", "-D", "--defined-only", library).stdout
    assert "__TVM" not in names
    assert "mblob" not in names


def test_a_kernel_leaves_no_slot_function_undefined(built: Path) -> None:
    library = built / "lib" / "plain.so"
    assert undefined_of_tvm(library) == []
    names = run("nm", "-D", "--defined-only", library).stdout
    for slot in ("FuncCall", "APISetLastError", "BackendGetFuncFromEnv", "BackendAllocWorkspace",
                 "BackendFreeWorkspace", "BackendParallelLaunch", "BackendParallelBarrier"):  # fmt: skip
        assert f"__TVM{slot}" in names


@pytest.mark.parametrize("kind", ["obj/core/library.o", "plugin/opencl/cl_memory.o"])
def test_a_changed_header_makes_its_objects_stale_however_the_folder_is_spelled(
    tmp_path: Path, kind: str
) -> None:
    csrc = ROOT / "csrc"

    def make(build: str, *words: str) -> str:
        return run("make", *words, f"BUILD={build}", f"{build}/{kind}", cwd=csrc).stdout

    make(os.path.relpath(tmp_path, csrc))
    for build in (os.path.relpath(tmp_path, csrc), str(tmp_path)):
        assert "-c " not in make(build, "-n")
        assert f"-c {'src' if kind[0] == 'o' else 'plugins'}/" in make(
            build, "-n", "-W", "include/mblob/plugin.h"
        )
