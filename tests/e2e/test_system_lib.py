"""Programs and extension modules with packed modules linked into them."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from mblob.compilers import include_flags
from tests.e2e.programs import ROOT, run
from tests.loader.executors import test_graph_executor as models

KERNELS = ROOT / "tests" / "c" / "kernels" / "system.c"
HOST = ROOT / "tests" / "c" / "hosts" / "system_host.c"
SHIFT = "void shift(const float in[n], float out[n], int64_t n)"
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Werror")
LIBRARIES = {"one_": 0, "two_": 105}
SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def weights(bias: int) -> bytes:
    """A safetensors file with the tensor w = bias, bias + 1, bias + 2."""
    head = json.dumps({"w": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}}).encode()
    return struct.pack("<Q", len(head)) + head + struct.pack("<3f", bias, bias + 1, bias + 2)


def library(
    path: Path, prefix: str, bias: int, options: tuple[str, ...] = (), **more: object
) -> Path:
    """A system library of the test kernels, with weights and five bytes."""
    host = mblob.csource_module(KERNELS, functions=[SHIFT])
    host.import_module(mblob.blob_module("greeting", b"hello"))
    host.import_module(mblob.safetensors_module(weights(bias)))
    host.export_library(
        path, system_lib=True, prefix=prefix, options=[f"-DBIAS={bias}", *options], **more
    )
    return path


def libraries(
    folder: Path, suffix: str, options: tuple[str, ...] = (), **more: object
) -> list[str]:
    """Both libraries, as words of a link line."""
    words: list[str] = []
    for prefix, bias in LIBRARIES.items():
        path = library(folder / f"{prefix}{suffix}", prefix, bias, options, **more)
        if suffix == ".tar":
            (folder / prefix).mkdir()
            with tarfile.open(path) as tar:
                for member in tar:
                    (folder / prefix / member.name).write_bytes(tar.extractfile(member).read())
            words += sorted(map(str, (folder / prefix).iterdir()))
        else:
            words.append(str(path))
    return words


def program(
    folder: Path,
    inputs: list[str],
    runtime: Path,
    *flags: str,
    cc: tuple[str, ...] = ("cc", "-std=c11"),
) -> Path:
    out = folder / "program"
    run(*cc, "-O1", "-g", *WARNINGS, *include_flags(), HOST, "-x", "none", *inputs, runtime,
        "-o", out, "-pthread", "-ldl", *flags)  # fmt: skip
    return out


def prints_fine(path: Path, *before: object) -> None:
    done = run(*before, path)
    assert (done.stdout, done.stderr) == ("fine\n", "")


@pytest.fixture(scope="module")
def runtime(installed: Path) -> Path:
    return installed / "lib" / "libmblob.a"


@pytest.mark.sample(1)
@pytest.mark.parametrize("suffix", [".o", ".tar"])
def test_two_libraries_of_the_same_kernels_in_one_program(
    runtime: Path, tmp_path: Path, suffix: str
) -> None:
    prints_fine(program(tmp_path, libraries(tmp_path, suffix), runtime))


def test_archives_are_taken_when_the_program_says_so(runtime: Path, tmp_path: Path) -> None:
    prints_fine(program(tmp_path, libraries(tmp_path, ".a"), runtime, "-DARCHIVES"))


def test_archives_are_taken_whole(runtime: Path, tmp_path: Path) -> None:
    inputs = ["-Wl,--whole-archive", *libraries(tmp_path, ".a"), "-Wl,--no-whole-archive"]
    prints_fine(program(tmp_path, inputs, runtime))


def test_an_archive_that_nothing_refers_to_is_an_error_that_says_so(
    runtime: Path, tmp_path: Path
) -> None:
    path = program(tmp_path, libraries(tmp_path, ".a"), runtime)
    done = subprocess.run([path], capture_output=True, text=True)
    assert done.returncode == 1
    assert "no system library with the prefix 'one_'" in done.stderr
    assert "MBLOB_SYSTEM_LIB" in done.stderr


@pytest.mark.slow
def test_removing_unused_sections_leaves_what_is_announced(runtime: Path, tmp_path: Path) -> None:
    inputs = libraries(tmp_path, ".a", ("-ffunction-sections", "-fdata-sections"))
    prints_fine(program(tmp_path, inputs, runtime, "-DARCHIVES", "-Wl,--gc-sections"))


def test_a_static_program(runtime: Path, tmp_path: Path) -> None:
    prints_fine(program(tmp_path, libraries(tmp_path, ".o"), runtime, "-static"))


@pytest.mark.parametrize("linker", ["gold", "lld", "mold"])
def test_other_linkers(
    require: Callable[[str], str], runtime: Path, tmp_path: Path, linker: str
) -> None:
    require(f"ld.{linker}")
    flag = f"-fuse-ld={linker}"
    inputs = libraries(tmp_path, ".o", (flag,))
    prints_fine(program(tmp_path, inputs, runtime, flag, "-Wl,--gc-sections"))


@pytest.mark.slow
def test_clang(require: Callable[[str], str], runtime: Path, tmp_path: Path) -> None:
    require("clang")
    inputs = libraries(tmp_path, ".o", cc="clang")
    prints_fine(program(tmp_path, inputs, runtime, cc=("clang", "-std=c11")))


@pytest.mark.sample(1)
@pytest.mark.parametrize("embed", ["object", "c"])
def test_a_cxx_program(
    require: Callable[[str], str], runtime: Path, tmp_path: Path, embed: str
) -> None:
    cxx = (require("c++"), "-std=c++17", "-x", "c++")
    if embed == "c":  # which aligns nothing
        host = mblob.csource_module(KERNELS, functions=[SHIFT])
        host.export_library(
            tmp_path / "one.o", system_lib=True, prefix="one_", options="-DBIAS=0", embed="c"
        )
        library(tmp_path / "two.o", "two_", 105)
        out = tmp_path / "small"
        (tmp_path / "small.cpp").write_text(
            "#include <mblob.h>\nint main() { mblob_module *m;"
            ' return mblob_system_lib("one_", &m) || mblob_system_lib("two_", &m); }\n'
        )
        run(*cxx, *include_flags(), tmp_path / "small.cpp", "-x", "none", tmp_path / "one.o",
            tmp_path / "two.o", runtime, "-o", out, "-pthread", "-ldl")  # fmt: skip
        run(out)
    else:
        prints_fine(program(tmp_path, libraries(tmp_path, ".a"), runtime, "-DARCHIVES", cc=cxx))


def test_kernels_in_cxx_share_what_the_language_merges(
    require: Callable[[str], str], runtime: Path, tmp_path: Path
) -> None:
    cxx = require("c++")
    code = """#include <tvm/runtime/c_backend_api.h>
    #include <stdexcept>
    #include <vector>
    extern "C" int f(TVMValue *args, int *, int, TVMValue *ret, int *code, void *) {
      std::vector<long> v;
      for (long i = 0; i < args[0].v_int64; i++) v.push_back(i);
      try { v.at(100) = 0; } catch (const std::out_of_range &) { v.push_back(BIAS); }
      ret->v_int64 = v.back();
      *code = kTVMArgInt;
      return 0;
    }"""
    for prefix, bias in LIBRARIES.items():
        host = mblob.csource_module(code, "cc")
        host.export_library(
            tmp_path / f"{prefix}.o", system_lib=True, prefix=prefix, options=f"-DBIAS={bias} -O0"
        )
    (tmp_path / "main.c").write_text("""#include <mblob.h>
    static long of(const char *prefix) {
      mblob_module *m; mblob_function *f; TVMValue arg = {.v_int64 = 3}, ret; int code = kTVMArgInt, ret_code;
      if (mblob_system_lib(prefix, &m) || mblob_module_function(m, "f", 0, &f)) return -1;
      return mblob_function_call(f, &arg, &code, 1, &ret, &ret_code) ? -2 : (long)ret.v_int64;
    }
    int main(void) { return of("one_") == 0 && of("two_") == 105 ? 0 : 1; }""")
    run("cc", *include_flags(), "-c", tmp_path / "main.c", "-o", tmp_path / "main.o")
    run(cxx, tmp_path / "main.o", tmp_path / "one_.o", tmp_path / "two_.o", runtime, "-o", tmp_path / "p",
        "-pthread", "-ldl")  # fmt: skip
    run(tmp_path / "p")


def test_two_libraries_of_one_prefix_do_not_link(runtime: Path, tmp_path: Path) -> None:
    inputs = [str(library(tmp_path / f"{i}.o", "one_", i)) for i in (1, 2)]
    command = [
        "cc",
        *include_flags(),
        str(HOST),
        *inputs,
        str(runtime),
        "-o",
        str(tmp_path / "p"),
        "-ldl",
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}
    )
    assert done.returncode != 0
    assert "multiple definition of `one___tvm_dev_mblob'" in done.stderr


@pytest.mark.slow
def test_sanitizers_report_nothing(sanitized: Path, tmp_path: Path) -> None:
    """Kernels, what announces them, and the runtime are instrumented."""
    archive = sanitized / "address" / "libmblob.a"
    inputs = libraries(tmp_path, ".o", SANITIZE)
    prints_fine(program(tmp_path, inputs, archive, *SANITIZE))


@pytest.mark.slow
def test_valgrind_reports_nothing(
    require: Callable[[str], str], runtime: Path, tmp_path: Path
) -> None:
    valgrind = require("valgrind")
    path = program(tmp_path, libraries(tmp_path, ".o"), runtime)
    prints_fine(
        path,
        valgrind,
        "--quiet",
        "--error-exitcode=99",
        "--leak-check=full",
        "--errors-for-leak-kinds=definite",
    )


def test_a_runtime_of_another_maker_finds_packed_forms_by_name(tmp_path: Path) -> None:
    """What TVM's runtime does with the names: look one up, call it as a packed function."""
    path = library(tmp_path / "one.o", "one_", 0)
    (tmp_path / "main.c").write_text("""#include <tvm/runtime/c_runtime_api.h>
    #include <stdio.h>
    #include <string.h>
    int TVMBackendRegisterSystemLibSymbol(const char *name, void *address) {
      if (strstr(name, "__tvm_module_ctx")) *(void **)address = address;
      return puts(name) < 0;
    }
    void TVMAPISetLastError(const char *text) { (void)text; }
    int TVMFuncCall(TVMFunctionHandle f, TVMValue *a, int *c, int n, TVMValue *r, int *rc) {
      (void)f, (void)a, (void)c, (void)n, (void)r, (void)rc; return 0; }
    int TVMBackendGetFuncFromEnv(void *m, const char *n, TVMFunctionHandle *out) {
      (void)m, (void)n, (void)out; return 0; }
    void *TVMBackendAllocWorkspace(int t, int i, uint64_t n, int c, int b) {
      (void)t, (void)i, (void)n, (void)c, (void)b; return 0; }
    int TVMBackendFreeWorkspace(int t, int i, void *p) { (void)t, (void)i, (void)p; return 0; }
    int TVMBackendParallelLaunch(void *f, void *d, int n) { (void)f, (void)d, (void)n; return 0; }
    int TVMBackendParallelBarrier(int t, void *e) { (void)t, (void)e; return 0; }
    int main(void) { return 0; }""")
    run(
        "cc",
        "-DMBLOB_HOST",
        *include_flags(),
        tmp_path / "main.c",
        path,
        "-o",
        tmp_path / "p",
    )
    assert sorted(run(tmp_path / "p").stdout.split()) == sorted([
        "one_shift", "one_shift__plain", "one_how_often", "one_fail", "one_ask", "one_sum",
        "one___mblob_system_lib", "one___mblob_functions", "one___tvm_dev_mblob", "one___tvm_module_ctx",
    ])  # fmt: skip


# -- Python ----------------------------------------------------------------------------------------


def python(script: str, *arguments: object) -> str:
    return run(sys.executable, "-c", script, *arguments, cwd=ROOT).stdout


@pytest.fixture(scope="module")
def extension(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shared library with both libraries in it, linked with the runtime that Python has."""
    folder = tmp_path_factory.mktemp("extension")
    (native,) = (ROOT / "loader" / "_lib").glob("libmblob.so.0")
    run("cc", "-shared", "-o", folder / "extension.so", *libraries(folder, ".o"), native)
    return folder / "extension.so"


def test_python_finds_what_an_extension_holds(extension: Path) -> None:
    script = """
import ctypes, sys
import numpy as np
import mblob
mblob.system_lib  # the runtime that the extension needs
ctypes.CDLL(sys.argv[1])
for prefix, bias in ("one_", 0), ("two_", 105):
    lib = mblob.system_lib(prefix)
    out = np.empty(3, "float32")
    lib["shift"](np.arange(3, dtype="float32"), out, 3)
    greeting, weights = sorted(lib.imported_modules, key=lambda m: m.type_key)
    print(lib.type_key, out.tolist(), bytes(greeting.payload), np.asarray(weights.tensors["w"]).tolist())
    plain = lib.symbol("shift", None, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64])
    plain(out.ctypes.data, out.ctypes.data, 3)
    print(out.tolist(), lib["how_often"]())
    for name in "shift2", "shift__plain":
        try:
            lib[name]
        except AttributeError as error:
            print(error)
"""
    missing = "module 'library' has no function {}; it has: ask, fail, how_often, shift, sum; {}"
    hints = [
        missing.format("'shift2'", "did you mean 'shift'?"),
        missing.format("'shift__plain'", ""),
    ]
    lines = python(script, extension).splitlines()
    for bias, at in ((0, 0), (105, 4)):
        values = [float(bias + i) for i in range(3)]
        assert lines[at] == f"library {values} b'hello' {values}"
        assert lines[at + 1] == f"{[v + bias for v in values]} 2"
        assert lines[at + 2] == hints[0]
        assert lines[at + 3].startswith(hints[1])


def test_a_model_in_an_extension_finds_kernels_beside_other_modules(tmp_path: Path) -> None:
    factory = mblob.graph_executor_factory(models.graph(), {"w": models.W, "b": models.B})
    factory.import_module(mblob.blob_module("note", b"hi"))
    factory.import_module(mblob.csource_module(models.KERNELS, functions=models.FUNCTIONS))
    factory.export_library(tmp_path / "model.o", system_lib=True, prefix="model_")
    (native,) = (ROOT / "loader" / "_lib").glob("libmblob.so.0")
    run("cc", "-shared", "-o", tmp_path / "extension.so", tmp_path / "model.o", native)
    script = """
import ctypes, sys
import numpy as np
import mblob
mblob.system_lib
ctypes.CDLL(sys.argv[1])
model = mblob.graph_executor.GraphModule(mblob.system_lib("model_")["default"](mblob.cpu(0)))
model.run(x=np.ones((2, 3), "f"))
print(model.get_output(1).numpy().tolist())
"""
    assert python(script, tmp_path / "extension.so").strip() == str(
        (models.W + models.B).ravel().tolist()
    )


def test_python_says_that_nothing_is_linked_in() -> None:
    script = """
import mblob
for prefix in "", "model_":
    try:
        mblob.system_lib(prefix)
    except mblob.MblobError as error:
        print(error)
for prefix in 1, "a\\0b":
    try:
        mblob.system_lib(prefix)
    except (TypeError, ValueError) as error:
        print(error)
"""
    lines = python(script).splitlines()
    assert lines[0].startswith("no system library without a prefix is linked into this process")
    assert lines[1].startswith("no system library with the prefix 'model_' is linked")
    assert lines[2] == "system_lib: prefix: expected str, found int"
    assert lines[3] == "system_lib: prefix: 'a\\x00b' has a NUL in it"


@pytest.mark.slow
def test_an_extension_that_is_loaded_again_is_found_again(extension: Path) -> None:
    script = """
import ctypes, sys, _ctypes
import mblob
mblob.system_lib
first = ctypes.CDLL(sys.argv[1])
lib = mblob.system_lib("one_")
print(lib["sum"]())
del lib
_ctypes.dlclose(first._handle)
import mmap
held = [mmap.mmap(-1, 1 << 20) for _ in range(16)]  # so that it is loaded elsewhere
ctypes.CDLL(sys.argv[1])
print(mblob.system_lib("one_")["sum"](), mblob.system_lib("one_")["how_often"]())
"""
    assert python(script, extension) == "2016\n2016 0\n"


def test_loaders_in_python_open_what_is_linked_in(extension: Path) -> None:
    script = """
import ctypes, sys
import mblob
mblob.system_lib
ctypes.CDLL(sys.argv[1])
lib = mblob.system_lib("one_")
try:
    lib["greet"]
except mblob.LoaderMissingError as error:
    print(error.type_key)
except AttributeError:
    print("no greet")
@mblob.register_loader("greeting")
def load(payload, context):
    text = bytes(payload).decode()
    return mblob.Module("greeting", functions={"greet": lambda: text}, payload=payload)
print(mblob.system_lib("one_")["greet"]())
"""
    assert python(script, extension).splitlines()[-1] == "hello"


# -- the command line ------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_line_packs_system_libraries(runtime: Path, tmp_path: Path) -> None:
    (tmp_path / "two.safetensors").write_bytes(weights(105))
    (tmp_path / "one.safetensors").write_bytes(weights(0))
    (tmp_path / "greeting").write_text("hello")
    (tmp_path / "one.toml").write_text(
        f'output = "one.o"\nkernels = ["{KERNELS}"]\nfunctions = ["{SHIFT}"]\nweights = "one.safetensors"\n'
        'options = "-DBIAS=0"\nsystem_lib = true\nprefix = "one_"\n[blobs]\ngreeting = "greeting"\n'
    )
    pack = [sys.executable, "-m", "mblob.cli.main", "build"]
    run(*pack, "one.toml", cwd=tmp_path)
    contents = [
        "--kernel",
        KERNELS,
        "--function",
        SHIFT,
        "--blob",
        "greeting=greeting",
        "--weights",
        "two.safetensors",
    ]
    run(
        *pack,
        *contents,
        "--system-lib",
        "--prefix",
        "two_",
        "-o",
        "two.a",
        "--",
        "-DBIAS=105",
        cwd=tmp_path,
    )
    inputs = [
        str(tmp_path / "one.o"),
        "-Wl,--whole-archive",
        str(tmp_path / "two.a"),
        "-Wl,--no-whole-archive",
    ]
    prints_fine(program(tmp_path, inputs, runtime))


def test_the_command_line_names_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text(
        f'output = "x.o"\nkernels = ["{KERNELS}"]\nsystem_lib = "yes"\n'
    )
    pack = [sys.executable, "-m", "mblob.cli.main", "build"]
    for arguments, text in (
        (["bad.toml"], "system_lib: expected true or false, found 'yes'"),
        (
            ["--kernel", KERNELS, "--prefix", "p_", "-o", "x.so"],
            "add --system-lib, or leave the prefix out",
        ),
        (
            ["--kernel", KERNELS, "--system-lib", "-o", "x.so"],
            "expected .o (one object), .a (an archive)",
        ),
    ):
        done = subprocess.run(
            [*pack, *map(str, arguments)], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 2
        assert text in done.stderr
