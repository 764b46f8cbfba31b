"""Code that something may still run is not unmapped when its library is closed; other code is."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import mblob
from mblob.compilers import include_flags
from tests.e2e.programs import ROOT

RUN = ["void run(float x[1])"]

# Loads k.so in argv[2] the way of argv[1], calls it, lets it go, waits; prints whether it is mapped.
PROGRAM = r"""
import gc, os, sys, threading, time
import numpy as np, mblob
path, how, options = sys.argv[1], sys.argv[2], eval(sys.argv[3])
def use():
    lib = mblob.load_module(path, **options)
    x = np.ones(1, "float32")
    lib.run(x)
    assert x[0] == 2, x
    return lib
if how == "threads":
    others = [threading.Thread(target=use) for _ in range(4)]
    [t.start() for t in others], [t.join() for t in others]
elif how == "fork":
    if os.fork() == 0:  # before the first loop: a child of gcc's libgomp waits for its parent's threads
        use(), gc.collect(), time.sleep(0.05), os._exit(0)
    assert os.wait()[1] == 0
    use()
elif how == "end":
    lib = use()
    gc.collect(), print(True), sys.exit()  # the interpreter lets it go
else:
    for _ in range(2):
        use()
gc.collect(), time.sleep(0.05)
print(os.path.basename(path) in open("/proc/self/maps").read())
"""


class Case(NamedTuple):
    stays: bool
    source: str
    options: tuple[str, ...] = ()


THREAD = """#include <pthread.h>
#include <unistd.h>
static void *work(void *p) { for (;;) usleep(1000); return p; }
static void begin(void) { pthread_t t; pthread_create(&t, 0, work, 0); pthread_detach(t); }
"""
CASES = {
    "arithmetic": Case(False, "void run(float *x) { x[0] *= 2; }"),
    "libc": Case(
        False,
        "#include <math.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
        "static int order(const void *a, const void *b) { return *(const char *)a - *(const char *)b; }\n"
        'void run(float *x) { char t[64], *u = strdup("21"); qsort(u, 2, 1, order); '
        'snprintf(t, sizeof t, "%g", atof(u) / 12 + sinf(x[0] - 1) + 1); x[0] = strtof(t, 0); free(u); }',
        ("-O0", "-D_FORTIFY_SOURCE=0", "-lm"),
    ),
    "OpenMP": Case(
        True,
        "void run(float *x) {\nfloat s = 0;\n#pragma omp parallel for reduction(+:s)\n"
        "for (int i = 0; i < 64; ++i) s += x[0] / 32;\nx[0] = s; }",
        ("-fopenmp",),
    ),
    "a thread": Case(True, THREAD + "void run(float *x) { begin(); x[0] *= 2; }", ("-pthread",)),
    "a key's destructor": Case(
        True,
        "#include <pthread.h>\nstatic pthread_key_t key;\nstatic void end(void *p) { *(float *)p = 0; }\n"
        "static float dead;\nvoid run(float *x) { pthread_key_create(&key, end); pthread_setspecific(key, &dead);"
        " x[0] *= 2; }",
        ("-pthread",),
    ),
    "a signal's handler": Case(
        True,
        "#include <signal.h>\nstatic void ignore(int s) { (void)s; }\n"
        "void run(float *x) { signal(SIGUSR1, ignore); raise(SIGUSR1); x[0] *= 2; }",
    ),
    "an address by name": Case(
        True,
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n"
        'void run(float *x) { x[0] += dlsym(RTLD_DEFAULT, "pthread_create") != 0; }',
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stays")


def packed(folder: Path, name: str, source: str, options: tuple[str, ...], **more: object) -> Path:
    path = folder / f"k_{abs(hash((name, options, str(more))))}.so"
    if not path.exists():
        module = mblob.csource_module(source, functions=RUN, **more)
        module.export_library(path, options=["-O2", *options])
    return path


def ends(path: Path, how: str = "del", **options: object) -> bool:
    """Whether the library is mapped after its last reference is gone."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, path, how, repr(options)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "3"},
        timeout=60,
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout.split()[-1] == "True"


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", CASES)
def test_code_is_unmapped_if_it_calls_only_what_keeps_no_address(folder: Path, name: str) -> None:
    case = CASES[name]
    assert ends(packed(folder, name, case.source, case.options)) is case.stays


@pytest.mark.parametrize("name", CASES)
def test_inspect_tells_what_becomes_of_a_library(folder: Path, name: str) -> None:
    """From the file alone: what libgomp calls, that does not tell."""
    case = CASES[name]
    with mblob.open(packed(folder, name, case.source, case.options)) as lib:
        told = lib.unloading
    assert told is not None
    if name == "OpenMP":
        assert (told.stays, told.libraries) == (None, ("libgomp.so.1",))
        assert "GOMP_parallel" in told.symbols
        assert str(told).startswith("known when loaded: depends on libgomp.so.1 (GOMP_parallel")
        return
    assert (told.stays, told.libraries, told.flags) == (case.stays, (), ())
    if case.stays:
        assert told.symbols and all(f"{symbol}(" in case.source for symbol in told.symbols)
        assert str(told) == f"stays mapped: {', '.join(told.symbols)}"
    else:
        assert not told.symbols and str(told) == "unmapped after the last reference"


@pytest.mark.parametrize(
    ("source", "options", "flag"),
    [
        (CASES["arithmetic"].source, ["-Wl,-z,nodelete"], "nodelete"),
        # As static members of templates of C++ are.
        (
            'int n = 1; __asm__(".type n, %gnu_unique_object"); int __tvm_x(void) { return ++n; }',
            [],
            "unique",
        ),
    ],
)
def test_flags_of_the_linker_keep_a_library(
    folder: Path, source: str, options: list[str], flag: str
) -> None:
    path = folder / f"lib{flag}.so"
    command = ["cc", "-shared", "-fPIC", "-xc", *options, "-", "-o", path]
    subprocess.run(command, input=source, text=True, check=True)
    with mblob.open(path) as lib:
        told = lib.unloading
    assert told is not None and (told.stays, told.flags) == (True, (flag,))
    program = (
        "import sys, gc, mblob\nlib = mblob.load_module(sys.argv[1])\ndel lib\ngc.collect()\n"
        "print(sys.argv[1] in open('/proc/self/maps').read())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, path], capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\n"


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", ["threads", "fork", "end"])
def test_openmp_kernels_from_threads_in_forks_and_at_the_end(folder: Path, how: str) -> None:
    case = CASES["OpenMP"]
    assert ends(packed(folder, "OpenMP", case.source, case.options), how)


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc", "clang", "g++", "clang++"])
@pytest.mark.parametrize("how", ["del", "threads", "fork", "end"])
def test_openmp_of_each_compiler(
    folder: Path, require: Callable[[str], str], compiler: str, how: str
) -> None:
    cc = require(compiler)
    case = CASES["OpenMP"]
    source = case.source
    fmt = "c"
    if compiler.endswith("++"):
        source, fmt = f'extern "C" {{\n{source}\n}}', "cc"
    path = folder / f"omp_{compiler}.so"
    if not path.exists():
        module = mblob.csource_module(source, fmt, functions=RUN)
        module.export_library(path, cc=cc, options=["-O2", "-fopenmp"])
    assert ends(path, how)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["del", "threads", "fork", "end"])
def test_openmp_of_fortran(folder: Path, require: Callable[[str], str], how: str) -> None:
    (folder / "run.f90").write_text(
        "subroutine run(x) bind(c)\n use iso_c_binding\n real(c_float), intent(inout) :: x(1)\n"
        " real(c_float) :: s\n integer :: i\n s = 0\n!$omp parallel do reduction(+:s)\n do i = 1, 64\n"
        "  s = s + x(1) / 32\n end do\n x(1) = s\nend subroutine\n"
    )
    path = folder / "fortran.so"
    if not path.exists():
        command = [require("gfortran"), "-O2", "-fPIC", "-fopenmp", "-c", "run.f90", "-o", "run.o"]
        subprocess.run(command, cwd=folder, check=True)
        module = mblob.static_library(folder / "run.o", functions=RUN)
        module.export_library(path, options=["-lgfortran", "-fopenmp"])
    assert ends(path, how)


REPLACED = r"""
import gc, os, shutil, sys
import numpy as np, mblob
path, place = sys.argv[1:]
x = np.ones(1, "float32")
def replace():
    shutil.copyfile(path, place + ".new"), os.replace(place + ".new", place)
    x[0] = 1
    mblob.load_module(place).run(x)
    assert x[0] == 2
def now():
    gc.collect()
    with open("/proc/self/maps") as maps:
        return len(maps.readlines()), len(os.listdir("/proc/self/fd"))
[replace() for _ in range(20)]
before = now()
[replace() for _ in range(300)]
print(before == now(), before, now())
"""


@pytest.mark.parametrize("name", ["arithmetic", "libc"])
def test_a_library_that_is_replaced_300_times_leaves_no_mapping(
    folder: Path, tmp_path: Path, name: str
) -> None:
    path = packed(folder, name, CASES[name].source, CASES[name].options)
    done = subprocess.run(
        [sys.executable, "-c", REPLACED, path, tmp_path / "k.so"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.startswith("True "), (done.stdout, done.stderr)


def test_what_a_library_brings_counts_too(folder: Path) -> None:
    """A helper that it needs starts the thread, or does not."""
    for name, source, stays in (
        ("quiet", "float half(float x) { return x / 2; }", False),
        ("busy", THREAD + "float half(float x) { begin(); return x / 2; }", True),
    ):
        helper = folder / f"lib{name}.so"
        (folder / f"{name}.c").write_text(source)
        subprocess.run(
            [
                "cc",
                "-shared",
                "-fPIC",
                "-O1",
                f"{name}.c",
                "-o",
                helper,
                f"-Wl,-soname,lib{name}.so",
            ],
            cwd=folder,
            check=True,
        )
        kernel = "float half(float x);\nvoid run(float *x) { x[0] = 4 * half(x[0]); }"
        options = (f"-L{folder}", f"-l{name}", f"-Wl,-rpath,{folder}")
        assert ends(packed(folder, name, kernel, options)) is stays


def test_the_user_may_say_otherwise(folder: Path) -> None:
    plain = packed(folder, "arithmetic", CASES["arithmetic"].source, ())
    key = CASES["an address by name"]
    other = packed(folder, "an address by name", key.source, key.options)
    assert ends(plain, keep=True) and not ends(other, unload=True)
    with pytest.raises(mblob.ArgumentError, match="exclude each other"):
        mblob.load_module(plain, keep=True, unload=True)


def test_c_hosts_end_well_after_openmp_kernels(
    folder: Path, installed: Path, tmp_path: Path
) -> None:
    (tmp_path / "host.c").write_text(
        "#include <mblob.h>\n#include <stdio.h>\n#include <string.h>\n#include <unistd.h>\n"
        "int main(int argc, char **argv) {\n"
        "  mblob_open_options o = {.struct_size = sizeof o, .unload = argc > 2 ? MBLOB_UNLOAD_NEVER : 0};\n"
        "  mblob_module *lib; char line[4096]; int mapped = 0;\n"
        "  for (int i = 0; i < 3; i++) {\n"
        "    float x[1] = {1};\n"
        '    if (mblob_open(argv[1], &o, &lib) || mblob_call(lib, "run", "float32[1]", x) || x[0] != 2)\n'
        '      return printf("%s\\n", mblob_last_error()), 1;\n'
        "    mblob_module_release(lib);\n"
        "  }\n"
        "  usleep(50000);\n"
        '  FILE *maps = fopen("/proc/self/maps", "r");\n'
        "  while (fgets(line, sizeof line, maps)) mapped |= strstr(line, strrchr(argv[1], '/')) != NULL;\n"
        '  return printf("%d\\n", mapped) < 0;\n'
        "}\n"
    )
    lib = installed / "lib"
    subprocess.run(
        ["cc", tmp_path / "host.c", "-o", tmp_path / "host", f"-I{installed}/include", f"-L{lib}",
         "-lmblob", f"-Wl,-rpath,{lib}"],
        check=True,
    )  # fmt: skip
    for name, words, mapped in (
        ("OpenMP", [], "1"),
        ("arithmetic", [], "0"),
        ("arithmetic", ["k"], "1"),
    ):
        path = packed(folder, name, CASES[name].source, CASES[name].options)
        done = subprocess.run([tmp_path / "host", path, *words], capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, f"{mapped}\n"), done


def test_registered_global_functions_keep_their_library(folder: Path) -> None:
    """By a name that the runtime itself gives."""
    source = (
        "#include <tvm/runtime/c_runtime_api.h>\n"
        "static int one(TVMValue *a, int *c, int n, TVMRetValueHandle r, void *p) { return 0; }\n"
        "void run(float *x) { TVMFunctionHandle f; x[0] *= 2;\n"
        '  if (TVMFuncCreateFromCFunc(one, 0, 0, &f) || TVMFuncRegisterGlobal("stays.one", f, 1)) x[0] = 0; }'
    )
    assert ends(packed(folder, "registered", source, tuple(include_flags())))


def test_the_runtime_knows_each_name_of_the_table(folder: Path) -> None:
    """Those that this process has, and spellings: one library calls them all."""
    from mblob import unload_safe_functions

    here = ctypes.CDLL("libm.so.6")
    spelt = ["__isoc99_sscanf", "__snprintf_chk", "__memcpy_chk", "expf", "cosl"]
    names = [
        n for n in (*unload_safe_functions.NAMES, *spelt) if n.isidentifier() and hasattr(here, n)
    ]
    assert len(names) > 300
    options = ("-w", "-fno-builtin", "-lm")
    for more, stays in (([], False), (["signal"], True)):
        declared = "".join(f"extern char {n}[] __attribute__((weak));\n" for n in names + more)
        source = f"{declared}char *all[] = {{{', '.join(names + more)}}};\n"
        source += "void run(float *x) { x[0] *= 1 + (all[(int)x[0]] != 0); }"
        path = packed(folder, f"all {more}", source, options)
        with mblob.open(path) as lib:
            assert len(lib.undefined_symbols) > 300
        assert ends(path) is stays


def test_the_table_is_what_its_header_has() -> None:
    from mblob import unload_safe_functions

    assert (
        ROOT / "csrc/src/core/link/unload_safe_functions.h"
    ).read_text() == unload_safe_functions.header()
    for name in (
        "expf",
        "__memcpy_chk",
        "__isoc23_strtol",
        "_ZNSt7__cxx1112basic_stringIcE",
        "__exp_finite",
    ):
        assert unload_safe_functions.keeps_no_address(name), name
    for name in (
        "pthread_create",
        "GOMP_parallel",
        "dlsym",
        "atexit",
        "_ZNSt6thread15_M_start",
        "f",
        "__chk",
    ):
        assert not unload_safe_functions.keeps_no_address(name), name
