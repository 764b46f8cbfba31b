"""Changes of the process by loading, calling and closing a library beside its memory."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from tests.e2e.programs import run

X86 = platform.machine() in ("x86_64", "i686")
RUN = ["int run(int x)"]
SUBNORMALS = """
import sys, numpy as np, mblob, warnings
warnings.simplefilter("error")
a = np.array([1e-40], "float32")
def right(): return bool((a * np.float32(1))[0] != 0) and 1e-320 * 1 != 0
assert right()
lib = mblob.load_module(sys.argv[1], unload=True)
print(right(), end=" ")
assert lib.run(1) == 2
print(right(), end=" ")
del lib
print(right())
"""
# Rounds upwards, takes subnormal numbers as zero; in the x87 another precision.
CHANGE = """
static void change(void) {
#if defined(__x86_64__) || defined(__SSE__)
  unsigned m; unsigned short c;
  __asm__ volatile("stmxcsr %0" : "=m"(m)); m |= 0xc040; __asm__ volatile("ldmxcsr %0" : : "m"(m));
  __asm__ volatile("fnstcw %0" : "=m"(c)); c &= ~0x300; __asm__ volatile("fldcw %0" : : "m"(c));
#elif defined(__aarch64__)
  unsigned long f; __asm__ volatile("mrs %0, fpcr" : "=r"(f));
  f |= 1u << 24; __asm__ volatile("msr fpcr, %0" : : "r"(f));
#endif
}
int run(int x) { return x + 1; }
"""
HOST = r"""
#include <fenv.h>
#include <mblob.h>
#include <stdio.h>
int main(int argc, char **argv) {
  mblob_module *lib;
  fenv_t before, now;
  volatile float tiny = 1e-40f, one = 1;
  mblob_open_options options = {.struct_size = sizeof options, .unload = MBLOB_UNLOAD_ALWAYS};
  fesetround(FE_DOWNWARD);
  for (int i = 1; i < argc; i++) {
    if (mblob_open(argv[i], &options, &lib)) return puts(mblob_last_error()), 1;
    printf("%d%d ", fegetround() == FE_DOWNWARD, tiny * one != 0);
    mblob_module_release(lib);
    printf("%d%d\n", fegetround() == FE_DOWNWARD, tiny * one != 0);
  }
  (void)before, (void)now;
  return 0;
}
"""


@pytest.fixture(scope="module")
def changing(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Libraries that change the control words when they are loaded, and when they are closed."""
    folder = tmp_path_factory.mktemp("control")
    found = {}
    for name in ("constructor", "destructor"):
        found[name] = folder / f"{name}.so"
        source = CHANGE.replace("static void change", f"__attribute__(({name})) static void change")
        mblob.csource_module(source, functions=RUN).export_library(found[name])
    return found


def python(text: str, *arguments: object) -> str:
    return run(sys.executable, "-c", text, *arguments).stdout


@pytest.mark.parametrize("name", ["constructor", "destructor"])
def test_loading_and_closing_leave_the_control_words(
    changing: dict[str, Path], installed: Path, tmp_path: Path, name: str
) -> None:
    assert python(SUBNORMALS, changing[name]) == "True True True\n"
    if name == "destructor":
        return
    (tmp_path / "host.c").write_text(HOST)
    lib = installed / "lib"
    run("cc", "-O1", "-frounding-math", tmp_path / "host.c", "-o", tmp_path / "host", f"-I{installed}/include",
        f"-L{lib}", "-lmblob", "-lm", f"-Wl,-rpath,{lib}")  # fmt: skip
    assert run(tmp_path / "host", *changing.values()).stdout == "11 11\n11 11\n"


@pytest.mark.parametrize("option", ["-ffast-math", "-Ofast", "-funsafe-math-optimizations"])
@pytest.mark.parametrize("cc", ["gcc", pytest.param("clang", marks=pytest.mark.slow)])
def test_fast_mathematics_do_not_reach_the_link(
    tmp_path: Path, require: Callable[[str], str], cc: str, option: str
) -> None:
    """Elsewhere, as in TVM, nobody would put the control words back."""
    library = tmp_path / "fast.so"
    module = mblob.csource_module("int run(int x) { return x + 1; }", functions=RUN)
    module.export_library(library, cc=require(cc), options=["-O2", option])
    text = SUBNORMALS.replace(
        "mblob.load_module(sys.argv[1], unload=True)", "ctypes.CDLL(sys.argv[1])"
    )
    assert python("import ctypes\n" + text, library) == "True True True\n"


def test_a_library_that_changes_handlers_or_the_locale_is_told(tmp_path: Path) -> None:
    source = (
        "#include <locale.h>\n#include <signal.h>\nstatic void handle(int s) { (void)s; }\n"
        "__attribute__((constructor)) static void begin(void) {"
        ' signal(SIGUSR1, handle); signal(SIGFPE, handle); setlocale(LC_ALL, "C.UTF-8"); }\n'
        "int run(int x) { return x + 1; }"
    )
    mblob.csource_module(source, functions=RUN).export_library(tmp_path / "k.so")
    text = (
        "import sys, warnings, mblob\nwith warnings.catch_warnings(record=True) as told:\n"
        "    warnings.simplefilter('always')\n    lib = mblob.load_module(sys.argv[1])\n"
        "print(*[(w.message, w.filename) for w in told])"
    )
    said = python(text, tmp_path / "k.so")
    for words in (
        "k.so: loading it changed the handler of signal 8 (",
        "the handler of signal 10 (",
        "<string>",
    ):
        assert words in said
    done = subprocess.run(
        [sys.executable, "-c", "import locale; locale.setlocale(locale.LC_ALL, 'C')\n" + text, tmp_path / "k.so"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "the locale, C to C.UTF-8" in done.stdout


def test_tasks_of_a_parallel_loop_leave_the_control_words_of_their_threads(tmp_path: Path) -> None:
    source = CHANGE.replace("int run(int x) { return x + 1; }", "") + (
        "#include <tvm/runtime/c_backend_api.h>\n"
        "static int task(int i, TVMParallelGroupEnv *e, void *p) { (void)e; ((float *)p)[i] *= 1; return 0; }\n"
        "static int spoil(int i, TVMParallelGroupEnv *e, void *p) { (void)e, (void)p; if (i) change(); return 0; }\n"
        "void run(float *x) { volatile float v = 1e-40f; for (int i = 0; i < 2; i++) x[i] = v;\n"
        "  TVMBackendParallelLaunch(spoil, 0, 2); TVMBackendParallelLaunch(task, x, 2); }"
    )
    module = mblob.csource_module(source, functions=["void run(float x[2])"])
    module.export_library(tmp_path / "k.so")
    text = (
        "import sys, numpy as np, mblob\nx = np.zeros(2, 'float32')\n"
        "mblob.load_module(sys.argv[1]).run(x)\nprint((x.view('uint32') != 0).all())"
    )
    assert python(text, tmp_path / "k.so") == "True\n"
