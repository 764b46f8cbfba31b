"""Real libraries for the loader's tests: kernels compiled by the machine's C compiler, blobs of our
codec."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import mblob
from mblob.bytes.payload_source import BytesPayload
from mblob.bytes.sink import BytesSink
from mblob.compilers import include_flags
from mblob.format import functions_table
from mblob.format.blob_plan import BlobPlan, OutEntry
from mblob.inspect import relay_summary
from tests.loader.executors import vm_programs
from tests.loader.opencl.opencl_libraries import (  # noqa: F401 (fixtures)
    opencl_caches,
    opencl_device,
    pack_opencl,
    scale_path,
)

KERNELS = r"""
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/c_backend_api.h>

#define KERNEL(name)                                                                             \
  int name(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *self);         \
  int name(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *self)
#define UNUSED (void)args, (void)codes, (void)n, (void)ret, (void)ret_code, (void)self

static int fail(const char *text) { TVMAPISetLastError(text); return -1; }
static DLTensor *tensor(TVMValue v) { return (DLTensor *)v.v_handle; }

KERNEL(vadd) {
  UNUSED;
  if (n != 3) return fail("vadd: num_args should be 3");
  for (int i = 0; i < 3; ++i) {
    if (codes[i] != kTVMDLTensorHandle) return fail("vadd: Expect arg[i] to be pointer");
    DLTensor *t = tensor(args[i]);
    if (t->dtype.code != kDLFloat || t->dtype.bits != 32) return fail("vadd.dtype is expected to be float32");
    if (t->ndim != 1) return fail("vadd.ndim is expected to equal 1");
    if (t->device.device_type != kDLCPU) return fail("vadd.device_type is expected to be 1");
    if (t->shape[0] != tensor(args[0])->shape[0]) return fail("Argument shape has an unsatisfied constraint");
    if (t->byte_offset != 0 || t->strides != NULL) return fail("vadd: not folded");
  }
  float *a = tensor(args[0])->data, *b = tensor(args[1])->data, *c = tensor(args[2])->data;
  for (int64_t i = 0; i < tensor(args[0])->shape[0]; ++i) c[i] = a[i] + b[i];
  return 0;
}

/* "0:5 2:2.5 7:2.32.1[2,3] 11:text 12:3 4" for the arguments given */
KERNEL(describe) {
  UNUSED;
  static __thread char text[1024];
  char *p = text;
  *p = 0;
  for (int i = 0; i < n; ++i) {
    p += sprintf(p, "%s%d", i ? " " : "", codes[i]);
    if (codes[i] == kTVMArgInt) p += sprintf(p, ":%lld", (long long)args[i].v_int64);
    if (codes[i] == kTVMArgFloat) p += sprintf(p, ":%g", args[i].v_float64);
    if (codes[i] == kTVMStr) p += sprintf(p, ":%.100s", args[i].v_str);
    if (codes[i] == kTVMBytes) p += sprintf(p, ":%zu", ((TVMByteArray *)args[i].v_handle)->size);
    if (codes[i] == kTVMOpaqueHandle)
      p += sprintf(p, ":%llx", (unsigned long long)(uintptr_t)args[i].v_handle);
    if (codes[i] == kDLDevice)
      p += sprintf(p, ":%d.%d", (int)args[i].v_device.device_type, args[i].v_device.device_id);
    if (codes[i] == kTVMDLTensorHandle) {
      DLTensor *t = tensor(args[i]);
      p += sprintf(p, ":%d.%d.%d[", t->dtype.code, t->dtype.bits, t->dtype.lanes);
      for (int d = 0; d < t->ndim; ++d) p += sprintf(p, d ? ",%lld" : "%lld", (long long)t->shape[d]);
      p += sprintf(p, "]");
    }
  }
  ret->v_str = text;
  *ret_code = kTVMStr;
  return 0;
}

KERNEL(give_int) { UNUSED; ret->v_int64 = -7; *ret_code = kTVMArgInt; return 0; }
KERNEL(give_float) { UNUSED; ret->v_float64 = 1.5; *ret_code = kTVMArgFloat; return 0; }
KERNEL(give_bool) { UNUSED; ret->v_int64 = 1; *ret_code = kTVMArgBool; return 0; }
KERNEL(give_handle) { UNUSED; ret->v_handle = (void *)0x1234; *ret_code = kTVMOpaqueHandle; return 0; }
KERNEL(give_nothing) { UNUSED; return 0; }
KERNEL(give_bytes) {
  UNUSED;
  static TVMByteArray bytes = {"a\0b", 3};
  ret->v_handle = &bytes;
  *ret_code = kTVMBytes;
  return 0;
}
KERNEL(give_object) { UNUSED; ret->v_handle = &fail; *ret_code = kTVMObjectHandle; return 0; }
KERNEL(give_back) { UNUSED; *ret = args[0]; *ret_code = codes[0]; return 0; }

KERNEL(broken) { UNUSED; return fail("it is broken: 100 % s"); }

/* adds 1 in place; the data must be aligned as TVM's LLVM kernels assume */
KERNEL(add_one) {
  UNUSED;
  float *x = tensor(args[0])->data;
  if ((uintptr_t)x % 64) return fail("add_one: data is not aligned to 64 bytes");
  for (int64_t i = 0; i < tensor(args[0])->shape[0]; ++i) x[i] += 1;
  return 0;
}

/* b = a + 1, element by element from the first: what happens when they overlap is seen */
KERNEL(shift_add) {
  UNUSED;
  float *a = tensor(args[0])->data, *b = tensor(args[1])->data;
  for (int64_t i = 0; i < tensor(args[1])->shape[0]; ++i) b[i] = a[i] + 1;
  return 0;
}

KERNEL(same_memory) {
  UNUSED;
  ret->v_int64 = tensor(args[0])->data == tensor(args[1])->data;
  *ret_code = kTVMArgInt;
  return 0;
}

KERNEL(address_of) {
  UNUSED;
  ret->v_handle = tensor(args[0])->data;
  *ret_code = kTVMOpaqueHandle;
  return 0;
}

/* calls args[0] with the rest, and gives back what it gives */
KERNEL(call_it) {
  UNUSED;
  if (codes[0] != kTVMPackedFuncHandle) return fail("call_it: Expect arg[0] to be a function");
  return TVMFuncCall(args[0].v_handle, args + 1, codes + 1, n - 1, ret, ret_code);
}

KERNEL(snooze) {
  UNUSED;
  struct timespec t = {0, 200000000};
  nanosleep(&t, NULL);
  return 0;
}

/* waits until args[0] calls have begun, half a minute at most; gives whether they have */
KERNEL(meet) {
  UNUSED;
  static int begun;
  struct timespec t = {0, 1000000};
  __atomic_add_fetch(&begun, 1, __ATOMIC_SEQ_CST);
  for (int i = 0; i < 30000 && __atomic_load_n(&begun, __ATOMIC_SEQ_CST) < args[0].v_int64; ++i) nanosleep(&t, NULL);
  ret->v_int64 = __atomic_load_n(&begun, __ATOMIC_SEQ_CST) >= args[0].v_int64;
  *ret_code = kTVMArgInt;
  return 0;
}

int plain_add(int a, int b);
int plain_add(int a, int b) { return a + b; }
const char plain_text[] = "text in the library";
"""

# Looks up a function by name the way compiled kernels do, and calls it with the rest of the
# arguments.
ENVIRONMENT = r"""
extern void *__tvm_module_ctx;
KERNEL(call_by_name) {
  UNUSED;
  TVMFunctionHandle f;
  if (TVMBackendGetFuncFromEnv(__tvm_module_ctx, args[0].v_str, &f)) return -1;
  return TVMFuncCall(f, args + 1, codes + 1, n - 1, ret, ret_code);
}
"""


def pack(
    entries: Sequence[tuple[str, bytes | None]], imports: Sequence[Sequence[int]], **options: Any
) -> bytes:
    """Bytes of a blob: entries (type key, payload; None for the library) and their imports."""
    out = [
        OutEntry(key, None if data is None else BytesPayload(data), tuple(row), key == "plain_data")
        for (key, data), row in zip(entries, imports)
    ]
    sink = BytesSink()
    plan = BlobPlan(out, **options)
    plan.has_tree = not plan.is_library_alone
    plan.write(sink)
    return bytes(sink.data)


def c_array(name: str, data: bytes) -> str:
    """C text of an exported constant array."""
    body = ",".join(map(str, data)) or "0"
    array = f"const unsigned char {name}[{max(len(data), 1)}]"
    return f"extern {array};\n{array} = {{{body}}};\n"


@pytest.fixture(scope="session")
def build(root: Path, cc: Callable[..., Path]) -> Callable[..., Path]:
    """`build(path, source=KERNELS, blob=b"", table=[])`: a library of packed kernels; its path."""

    def make(
        path: Path,
        source: str = KERNELS,
        *flags: str,
        blob: bytes = b"",
        table: Sequence[functions_table.Row] = (),
    ) -> Path:
        if blob:
            source += c_array("__tvm_dev_mblob", blob)
        if table:
            source += c_array(functions_table.SYMBOL, functions_table.encode(table))
        return cc(source, path, *include_flags(), *flags)

    return make


@pytest.fixture(scope="session")
def kernels(build: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of the test kernels, without a blob."""
    return build(tmp_path_factory.mktemp("kernels") / "kernels.so")


@pytest.fixture(scope="session")
def tree_library(build: Callable[..., Path]) -> Callable[..., Path]:
    """`tree_library(path, entries, imports)`: the kernels, `call_by_name`, and a blob."""

    def make(path: Path, entries: Any, imports: Any, **options: Any) -> Path:
        return build(path, KERNELS + ENVIRONMENT, blob=pack(entries, imports, **options))

    return make


@pytest.fixture
def object_file(root: Path, tmp_path: Path) -> Path:
    """The kernels as a relocatable object."""
    source, target = tmp_path / "k.c", tmp_path / "k.o"
    source.write_text(KERNELS)
    subprocess.run(
        ["cc", "-c", "-fPIC", "-O1", *include_flags(), str(source), "-o", str(target)], check=True
    )
    return target


def is_mapped(path: Path) -> bool:
    """Whether the file at `path` (its device and inode) is mapped into this process."""
    status = path.stat()
    for line in Path("/proc/self/maps").read_text().splitlines():
        fields = line.split(None, 5)
        if len(fields) > 5 and int(fields[4]) == status.st_ino and path.name in fields[5]:
            return True
    return False


@pytest.fixture(scope="session")
def mapped() -> Callable[[Path], bool]:
    return is_mapped


@pytest.fixture(scope="session")
def packed_blob() -> Callable[..., bytes]:
    return pack


@pytest.fixture(scope="session")
def kernel_source() -> str:
    return KERNELS


@pytest.fixture(scope="session")
def primitives(build: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of what the programs of vm_programs call."""
    return build(tmp_path_factory.mktemp("vm") / "primitives.so", KERNELS + vm_programs.PRIMITIVES)


@pytest.fixture
def load(primitives: Path) -> Callable[..., mblob.Module]:
    """`load(program or code, version="0.14.0")`: its executable, over the kernels of vm_programs.

    What `verify` says of the code is held against it: both read it, or both refuse it.
    """

    def make(program: vm_programs.Program | bytes, version: str = "0.14.0") -> mblob.Module:
        code = program if isinstance(program, bytes) else program.code(version)
        try:
            executable = mblob.get_global_func("runtime.Load_Executable")(
                code, mblob.load_module(primitives)
            )
        except mblob.FormatError as error:
            with pytest.raises(mblob.FormatError) as told:
                relay_summary.summarize(memoryview(code))
            assert (told.value.code, told.value.offset) == (error.code, error.offset)
            assert str(told.value) in str(error)
            raise
        relay_summary.summarize(memoryview(code))
        assert isinstance(executable, mblob.Module)
        return executable

    return make


@pytest.fixture
def machine(load: Callable[..., mblob.Module]) -> Callable[..., Any]:
    """`machine(program or code, version="0.14.0")`: a machine on the cpu."""

    def make(program: vm_programs.Program | bytes, version: str = "0.14.0") -> Any:
        vm = load(program, version)["vm_load_executable"]()
        vm["init"](1, 0, 2)
        return vm

    return make
