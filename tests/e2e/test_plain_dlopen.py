"""Kernels in a process without a runtime: what the fallbacks of the slots do, under each
compiler."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from mblob.compilers import include_flags

KERNEL = """
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/c_backend_api.h>
#ifdef __cplusplus
extern "C" {
#endif
static int body(int task, TVMParallelGroupEnv *env, void *data) {
  ((int *)data)[task] = env->num_task;
  return TVMBackendParallelBarrier(task, env);
}
TVM_DLL int works(void *args, int *codes, int n, void *ret, int *ret_code, void *resource) {
  int tasks[1] = {0};
  char *memory = (char *)TVMBackendAllocWorkspace(1, 0, 1000, 2, 32);
  if (!memory || (uintptr_t)memory % 64) return 1;
  memory[999] = 7;
  if (TVMBackendParallelLaunch(body, tasks, 0) || tasks[0] != 1) return 2;
  return TVMBackendFreeWorkspace(1, 0, memory) ? 3 : 0;
}
TVM_DLL int fails(void *args, int *codes, int n, void *ret, int *ret_code, void *resource) {
  TVMAPISetLastError("kernel: no luck today");
  return -1;
}
TVM_DLL int asks(void *args, int *codes, int n, void *ret, int *ret_code, void *resource) {
  void *f;
  return TVMBackendGetFuncFromEnv(0, "somewhere.else", &f);
}
#ifdef __cplusplus
}
#endif
"""


@pytest.mark.parametrize("flags", ["-O0", "-O2", "-O3"])
@pytest.mark.parametrize("compiler", ["gcc", "clang", "g++", "clang++"])
def test_a_plain_dlopen_host_gets_memory_one_thread_and_error_texts(
    compiler: str, flags: str, tmp_path: Path, root: Path, require: Callable[[str], str]
) -> None:
    source, out = tmp_path / ("k.cc" if "++" in compiler else "k.c"), tmp_path / "k.so"
    source.write_text(KERNEL)
    flags_of_kernels = [
        "-fPIC",
        "-shared",
        *include_flags(),
        *(["-DMBLOB_KERNEL"] if "++" in compiler else []),
    ]
    command = [require(compiler), flags, "-Wall", "-Werror", *flags_of_kernels, source, "-o", out]
    subprocess.run(command, check=True)
    library = ctypes.CDLL(str(out))
    last_error = library["__mblob_last_error"]
    last_error.restype = ctypes.c_char_p
    nothing = (None, None, 0, None, None, None)
    assert library.works(*nothing) == 0
    assert library.fails(*nothing) == -1
    assert last_error() == b"kernel: no luck today"
    assert library.asks(*nothing) == -1
    assert b"somewhere.else" in last_error()
    undefined = subprocess.run(
        ["nm", "-D", "-u", out], check=True, capture_output=True, text=True
    ).stdout
    assert "TVM" not in undefined
