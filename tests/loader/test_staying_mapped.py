"""Code that something may still run stays mapped after the last reference is gone; other code goes."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from mblob.format import unloading

ROOT = Path(__file__).resolve().parents[2]
HEADER = ROOT / "csrc/src/core/harmless.h"

ORDINARY = """
#include <math.h>
#include <stdlib.h>
#include <string.h>
int f(int x) { char *p = malloc(8); memset(p, x, 8); x = p[1]; free(p); return x + (int)sinf(0); }
"""
THREAD = """
#include <pthread.h>
#include <unistd.h>
static volatile int beats;
static void *loop(void *u) { for (;;) { ++beats; usleep(1000); } return u; }
int f(int x) { pthread_t t; return pthread_create(&t, 0, loop, 0) + x; }
"""
OPENMP = """
int f(int x) {
  int sum = 0;
#pragma omp parallel for reduction(+ : sum)
  for (int i = 0; i < 1000; ++i) sum += x;
  return sum / 1000;
}
"""
KEY = """
#include <pthread.h>
static void gone(void *p) { (void)p; }
int f(int x) { pthread_key_t k; return pthread_key_create(&k, gone) + x; }
"""
HANDLER = """
#include <signal.h>
static void on(int n) { (void)n; }
int f(int x) { signal(SIGUSR2, on); return x; }
"""
STUBBORN = {"thread": THREAD, "key": KEY, "handler": HANDLER}

USE = """
import gc, sys, time, mblob
for _ in range(3):
    lib = mblob.load_module(sys.argv[1])
    assert lib.f(7) == 7
    del lib
    gc.collect()
    time.sleep(0.05)
print("alive")
"""


def build(path: Path, text: str, *options: str, cc: str | None = None) -> Path:
    kernel = mblob.csource_module(text, "c", functions=["int f(int x)"])
    kernel.export_library(path, options=["-O1", *options], cc=cc)
    return path


def use(path: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", USE, path], capture_output=True, text=True, check=False
    )
    return done.stdout or f"{done.returncode}: {done.stderr}"


def stays(path: Path, mapped: Callable[[Path], bool], **how: str) -> bool:
    lib = mblob.load_module(path, **how)  # type: ignore[arg-type]
    assert mapped(path)
    del lib
    gc.collect()
    return mapped(path)


def test_an_ordinary_kernel_is_unmapped(mapped: Callable[[Path], bool], tmp_path: Path) -> None:
    path = build(tmp_path / "ordinary.so", ORDINARY)
    assert not stays(path, mapped)
    assert stays(path, mapped, unload="never")


@pytest.mark.parametrize("kind", STUBBORN)
def test_a_kernel_that_hands_its_code_out_stays(
    mapped: Callable[[Path], bool], tmp_path: Path, kind: str
) -> None:
    assert stays(build(tmp_path / f"{kind}.so", STUBBORN[kind]), mapped)


def test_unload_always_is_the_users_word(mapped: Callable[[Path], bool], tmp_path: Path) -> None:
    assert not stays(build(tmp_path / "key.so", KEY), mapped, unload="always")
    with pytest.raises(mblob.MblobError, match="unload"):
        mblob.load_module(tmp_path / "key.so", unload="maybe")  # type: ignore[arg-type]


def test_threads_of_a_kernel_outlive_the_library(tmp_path: Path) -> None:
    assert use(build(tmp_path / "thread.so", THREAD)) == "alive\n"


@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_openmp_kernels_outlive_the_library(
    tmp_path: Path, require: Callable[[str], str], cc: str
) -> None:
    require(cc)
    assert use(build(tmp_path / "omp.so", OPENMP, "-fopenmp", cc=cc)) == "alive\n"


def test_the_header_is_made_of_the_table() -> None:
    assert HEADER.read_text() == unloading.header()


@pytest.mark.parametrize("name", ["memcpy", "__memcpy_chk", "sinf", "__isoc99_sscanf", "__isoc23_strtol",
                                  "__expf_finite", "__aarch64_ldadd4_relax", "_ITM_deregisterTMCloneTable",
                                  "_ZTVN10__cxxabiv117__class_type_infoE", "__atomic_load_16"])  # fmt: skip
def test_functions_that_keep_nothing(name: str) -> None:
    assert unloading.is_harmless(name)


@pytest.mark.parametrize("name", ["pthread_create", "signal", "GOMP_parallel", "__kmpc_fork_call", "dlsym", "atexit",
                                  "_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE",
                                  "__sigaction", "__cxa_thread_atexit", "TVMFuncRegisterGlobal", "on_exit", "putenv",
                                  "setvbuf", "pthread_key_create", "__getdents", "f", "l", ""])  # fmt: skip
def test_functions_that_may_keep_something(name: str) -> None:
    assert not unloading.is_harmless(name)


SUBNORMAL = """
import mblob, sys, numpy as np
a = np.array([1e-40], "float32")
lib = mblob.load_module(sys.argv[1])
assert lib.f(1) == 1
print((a * np.float32(1))[0] != 0)
del lib
print((a * np.float32(1))[0] != 0)
"""
SETS = """
#ifdef __SSE__
#include <xmmintrin.h>
__attribute__((constructor)) static void on(void) { _mm_setcsr(_mm_getcsr() | 0x8040); }
__attribute__((destructor)) static void off(void) { _mm_setcsr(_mm_getcsr() | 0x8040); }
#endif
int f(int x) { return x; }
"""


@pytest.mark.parametrize("text, options", [(SETS, ()), ("int f(int x) { return x; }", ("-ffast-math",)),
                                           ("int f(int x) { return x; }", ("-Ofast",))])  # fmt: skip
def test_loading_and_unloading_leave_how_the_thread_computes(
    tmp_path: Path, text: str, options: tuple[str, ...]
) -> None:
    path = build(tmp_path / "sets.so", text, *options)
    done = subprocess.run(
        [sys.executable, "-c", SUBNORMAL, path], capture_output=True, text=True, check=False
    )
    assert done.stdout == "True\nTrue\n", done.stderr


def test_fast_math_does_not_reach_the_link() -> None:
    from mblob.packager.compile.commands import for_linking

    words = [
        "-O2",
        "-Ofast",
        "-ffast-math",
        "-mpc32",
        "-mdaz-ftz",
        "-lm",
        "-funsafe-math-optimizations",
    ]
    assert for_linking(words) == ["-O2", "-O3", "-lm"]
