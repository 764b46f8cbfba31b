"""System libraries of the ffi dialect: in C programs, with both forms of the runtime, and in
extension modules."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.compilers import include_flags
from tests.e2e.programs import ROOT, run

HOST = ROOT / "tests" / "c" / "hosts" / "ffi_system_host.c"
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Werror")
SOURCE = "float half(float x) { return x / 2; }\nint odd(int x) { return x & 1; }\n"


def library(path: Path, prefix: str, dialect: str) -> Path:
    root = mblob.csource_module(SOURCE, functions=["float half(float x)", "int odd(int x)"])
    root.import_module(mblob.blob_module("my.kind", b"hello"))
    root.export_library(path, system_lib=True, prefix=prefix, dialect=dialect)
    return path


def libraries(folder: Path) -> list[Path]:
    return [
        library(folder / "own.o", "own_", "ffi"),
        library(folder / "classic.o", "classic_", "classic"),
    ]


def program(
    folder: Path, prefix: Path, static: bool, inputs: list[Any], *flags: str, host: Path = HOST
) -> Path:
    lib = prefix / "lib"
    runtime = [lib / "libmblob.a"] if static else ["-lmblob"]
    words = [*runtime, "-lmblob-ffi"] if static else ["-lmblob-ffi", *runtime]
    run("cc", "-std=c11", "-O1", "-g", *WARNINGS, "-DMBLOB_HOST", *include_flags(), *flags, host, *inputs,
        f"-L{lib}", *words, f"-Wl,-rpath,{lib}", "-o", folder / "program", "-pthread", "-ldl", "-lm")  # fmt: skip
    if static:  # which looks for the plug-in beside the program
        shutil.copy2(lib / "libmblob-ffi.so", folder)
    return folder / "program"


@pytest.fixture(scope="module")
def of_tvm(package_of: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The object that TVM makes with `system_lib_prefix`."""
    for package in ("tvm", "tvm_ffi"):
        package_of(package)
    folder = tmp_path_factory.mktemp("of_tvm")
    run(
        sys.executable,
        "-m",
        "tests.e2e.ffi.ffi_hosts",
        "tvm",
        "make_system_lib",
        folder,
        cwd=ROOT,
        timeout=300,
    )
    run("tar", "xf", folder / "lib.tar", "-C", folder)
    return folder / "lib0.o"


@pytest.mark.sample(1)
@pytest.mark.parametrize("static", [False, True], ids=["shared", "static"])
def test_both_dialects_in_one_program(installed: Path, tmp_path: Path, static: bool) -> None:
    assert run(program(tmp_path, installed, static, libraries(tmp_path))).stdout == "fine\n"


@pytest.mark.parametrize("static", [False, True], ids=["shared", "static"])
def test_a_library_of_tvm_in_a_program(
    installed: Path, of_tvm: Path, tmp_path: Path, static: bool
) -> None:
    made = program(tmp_path, installed, static, [*libraries(tmp_path), of_tvm], "-DTVM_LIBRARY")
    assert run(made).stdout == "fine\n"


@pytest.mark.parametrize("static", [False, True], ids=["shared", "static"])
def test_a_relax_program_of_tvm_in_a_program(
    installed: Path, golden: Path, tmp_path: Path, static: bool
) -> None:
    archive = golden / "relax" / "syslib.a"
    if not archive.exists():
        pytest.skip("no golden libraries of Relax")
    whole = ["-Wl,--whole-archive", archive, "-Wl,--no-whole-archive"]
    host = ROOT / "tests" / "c" / "hosts" / "relax_system_host.c"
    made = program(tmp_path, installed, static, whole, host=host)
    with np.load(golden / "relax" / "syslib.npz") as known:
        known["x"].tofile(tmp_path / "x")
        expected = known["y"]
    run(made, tmp_path / "x", tmp_path / "y")
    found = np.fromfile(tmp_path / "y", "float32").reshape(3, 4)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_without_the_plug_in_calls_say_what_is_missing(installed: Path, tmp_path: Path) -> None:
    made = program(tmp_path, installed, True, libraries(tmp_path))
    (tmp_path / "libmblob-ffi.so").unlink()
    done = subprocess.run([made], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "half" in done.stderr + done.stdout


SCRIPT = """
import ctypes, sys
import numpy as np
import mblob
mblob.system_lib
ctypes.CDLL(sys.argv[1])
for prefix in "own_", "classic_":
    lib = mblob.system_lib(prefix)
    print(prefix, [m.type_key for m in lib.walk()], lib["half"](5), lib["odd"](True), lib["half"].signature)
    try:
        lib["odd"]("x")
    except Exception as error:
        print(type(error).__name__, error.kind, "odd" in str(error))
"""


@pytest.mark.parametrize("opened", ["by the program", "beside tvm_ffi"])
def test_python_finds_what_an_extension_holds(
    package_of: Callable[[str], Path], tmp_path: Path, opened: str
) -> None:
    (native,) = (ROOT / "loader" / "_lib").glob("libmblob.so.0")
    plugin = native.with_name("libmblob-ffi.so")
    path = f"-Wl,-rpath,{native.parent}"
    run(
        "cc", "-shared", "-o", tmp_path / "extension.so", *libraries(tmp_path), plugin, native, path
    )
    script = SCRIPT
    if opened == "beside tvm_ffi":
        package_of("tvm_ffi")
        script += "import tvm_ffi\nprint(lib['half'](7))\n"
    lines = run(
        sys.executable, "-c", script, tmp_path / "extension.so", cwd=ROOT
    ).stdout.splitlines()
    told = "['library', 'my.kind'] 2.5 1 float"
    assert lines[0:4:2] == [f"own_ {told}", f"classic_ {told}"]
    assert lines[1:4:2] == ["KernelError TypeError True", "KernelError  True"]
    assert lines[4:] == (["3.5"] if opened == "beside tvm_ffi" else [])


# -- linkers that drop what nothing refers to ------------------------------------------------------

LINKERS = ["bfd", "gold", "lld", "mold"]
CALLS = """#include <mblob.h>
#include <stdio.h>
int main(void) {
  static const char *const prefixes[] = {"own_", "classic_"};
  for (int i = 0; i < 2; i++) {
    mblob_module *module;
    if (mblob_system_lib(prefixes[i], &module) || mblob_call(module, "odd", "int", 3))
      return puts(mblob_last_error()), 1;
    mblob_module_release(module);
  }
  return puts("fine") < 0;
}
"""


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return libraries(tmp_path_factory.mktemp("packed"))


def tool_of(linker: str) -> str:
    return linker if linker == "mold" else f"ld.{linker}"


@pytest.mark.parametrize("static", [False, True], ids=["shared", "static"])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("linker", LINKERS)
def test_the_documented_line_links_with_as_needed(
    installed: Path,
    packed: list[Path],
    require: Callable[[str], str],
    tmp_path: Path,
    linker: str,
    compiler: str,
    static: bool,
) -> None:
    require(tool_of(linker))
    (tmp_path / "main.c").write_text(CALLS)
    lib = installed / "lib"
    words = ["-lmblob-ffi", lib / "libmblob.a" if static else "-lmblob"]
    run(require(compiler), f"-fuse-ld={linker}", "-DMBLOB_HOST", *include_flags(), "-Wl,--as-needed",
        tmp_path / "main.c", *packed, f"-L{lib}", *words, f"-Wl,-rpath,{lib}",
        "-o", tmp_path / "main", "-pthread", "-ldl", "-lm")  # fmt: skip
    shutil.copy2(lib / "libmblob-ffi.so", tmp_path)  # where libmblob.a looks for it
    assert run(tmp_path / "main").stdout == "fine\n"


@pytest.mark.parametrize("order", ["mblob first", "mblob last"])
@pytest.mark.parametrize("linker", LINKERS)
def test_an_extension_that_lost_libmblob_is_found_all_the_same(
    packed: list[Path], require: Callable[[str], str], tmp_path: Path, linker: str, order: str
) -> None:
    require(tool_of(linker))
    (native,) = (ROOT / "loader" / "_lib").glob("libmblob.so.0")
    plugin = native.with_name("libmblob-ffi.so")
    out = tmp_path / "extension.so"
    run(
        "cc",
        "-shared",
        f"-fuse-ld={linker}",
        "-Wl,--as-needed",
        "-o",
        out,
        packed[0],
        plugin,
        native,
        f"-Wl,-rpath,{plugin.parent}",
    )
    assert native.name not in run("readelf", "-d", out).stdout
    opens = f"import ctypes; ctypes.CDLL({str(out)!r})"
    lines = ["import mblob", opens] if order == "mblob first" else [opens, "import mblob"]
    script = "\n".join([*lines, "print(mblob.system_lib('own_')['half'](5))"])
    assert run(sys.executable, "-c", script, cwd=ROOT).stdout == "2.5\n"


def test_what_is_not_linked_in_is_told_how_to_link_it() -> None:
    told = r"prefix 'nobody_' .* with -lmblob \(ffi dialect: -lmblob-ffi -lmblob\)"
    with pytest.raises(mblob.MblobError, match=told):
        mblob.system_lib("nobody_")


def test_an_extension_without_the_runtime_does_not_open(packed: list[Path], tmp_path: Path) -> None:
    run("cc", "-shared", "-o", tmp_path / "extension.so", packed[0])
    script = f"import mblob, ctypes; ctypes.CDLL({str(tmp_path / 'extension.so')!r})"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode and "undefined symbol: TVMFFI" in done.stderr
    (native,) = (ROOT / "loader" / "_lib").glob("libmblob-ffi.so")
    first = f"import ctypes; ctypes.CDLL({str(native)!r}, ctypes.RTLD_GLOBAL)\n"
    found = first + script + "\nprint(mblob.system_lib('own_')['half'](5))"
    assert run(sys.executable, "-c", found, cwd=ROOT).stdout == "2.5\n"


# -- names that are announced where no runtime is --------------------------------------------------


def test_names_wait_for_a_runtime_in_order_and_none_is_lost(
    installed: Path, tmp_path: Path
) -> None:
    alone = shutil.copy2(installed / "lib" / "libmblob-ffi.so", tmp_path)
    source = ROOT / "tests" / "c" / "plugins" / "ffi_announcements.c"
    run(
        "cc",
        "-std=c11",
        "-O1",
        *WARNINGS,
        source,
        "-rdynamic",
        "-o",
        tmp_path / "program",
        "-pthread",
        "-ldl",
    )
    assert run(tmp_path / "program", alone, timeout=30).stdout == "fine\n"


def test_a_name_that_the_runtime_cannot_take_is_the_error(tmp_path: Path) -> None:
    source = tmp_path / "announces_null.c"
    source.write_text(
        "int mblob_ffi_take_announced(int (*take)(const char *, void *));\n"
        "int mblob_ffi_take_announced(int (*take)(const char *, void *)) { return take(0, 0); }\n"
    )
    run("cc", "-shared", "-fPIC", *WARNINGS, source, "-o", tmp_path / "libmblob-ffi.so")
    script = f"import ctypes, mblob; ctypes.CDLL({str(tmp_path / 'libmblob-ffi.so')!r}); mblob.system_lib('own_')"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode
    assert "TVMBackendRegisterSystemLibSymbol" in done.stderr.splitlines()[-1]
