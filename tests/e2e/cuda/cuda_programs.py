"""PTX for any GPU since Maxwell, the host code that TVM generates around it, and programs that run
both.

A program is Python for a process of its own: what a driver has started stays in a process.
`kernel(name)` in it makes a function the body of a kernel of the driver's double; on a GPU it does
nothing, and the kernel is the one in PTX.
"""

from __future__ import annotations

PTX = """\
//
.version 6.0
.target sm_50
.address_size 64

.visible .entry vadd_kernel(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
  .reg .pred %p<2>; .reg .f32 %f<4>; .reg .b32 %r<6>; .reg .b64 %rd<11>;
  ld.param.u64 %rd1, [a];
  ld.param.u64 %rd2, [b];
  ld.param.u64 %rd3, [c];
  ld.param.u32 %r2, [n];
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %ntid.x;
  mov.u32 %r5, %tid.x;
  mad.lo.s32 %r1, %r3, %r4, %r5;
  setp.ge.s32 %p1, %r1, %r2;
  @%p1 bra DONE;
  cvta.to.global.u64 %rd4, %rd1;
  cvta.to.global.u64 %rd5, %rd2;
  cvta.to.global.u64 %rd6, %rd3;
  mul.wide.s32 %rd7, %r1, 4;
  add.s64 %rd8, %rd4, %rd7;
  add.s64 %rd9, %rd5, %rd7;
  add.s64 %rd10, %rd6, %rd7;
  ld.global.f32 %f1, [%rd8];
  ld.global.f32 %f2, [%rd9];
  add.f32 %f3, %f1, %f2;
  st.global.f32 [%rd10], %f3;
DONE:
  ret;
}

.extern .shared .align 4 .b8 bytes[];

.visible .entry last_word(.param .u64 out, .param .u32 offset, .param .f32 value)
{
  .reg .f32 %f<3>; .reg .b32 %r<4>; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [offset];
  ld.param.f32 %f1, [value];
  mov.u32 %r2, bytes;
  add.u32 %r3, %r2, %r1;
  st.shared.f32 [%r3], %f1;
  ld.shared.f32 %f2, [%r3];
  cvta.to.global.u64 %rd2, %rd1;
  st.global.f32 [%rd2], %f2;
  ret;
}

.visible .entry crash(.param .u64 where)
{
  .reg .b32 %r<2>; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [where];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r1, 1;
  st.global.u32 [%rd2], %r1;
  ret;
}
"""

# As TVM's host code does it: the device is set, then the kernel is called with its launch sizes
# behind its arguments.
HOST = r"""
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/c_runtime_api.h>

extern void *__tvm_module_ctx;
static int call(const char *name, TVMValue *values, int *codes, int count) {
  TVMFunctionHandle f;
  TVMValue ret;
  int code, status = TVMBackendGetFuncFromEnv(__tvm_module_ctx, name, &f);
  return status ? status : TVMFuncCall(f, values, codes, count, &ret, &code);
}

int vadd(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code, void *self);
int vadd(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code, void *self) {
  DLTensor *a = args[0].v_handle, *b = args[1].v_handle, *c = args[2].v_handle;
  (void)codes, (void)count, (void)ret, (void)ret_code, (void)self;
  int64_t n = a->shape[0];
  TVMValue device[2] = {{.v_int64 = a->device.device_type}, {.v_int64 = a->device.device_id}};
  int whole[2] = {kTVMArgInt, kTVMArgInt};
  if (call("__tvm_set_device", device, whole, 2)) return -1;
  TVMValue values[6] = {{.v_handle = a->data}, {.v_handle = b->data}, {.v_handle = c->data},
                        {.v_int64 = n},        {.v_int64 = (n + 127) / 128}, {.v_int64 = 128}};
  int kinds[6] = {kTVMOpaqueHandle, kTVMOpaqueHandle, kTVMOpaqueHandle, kTVMArgInt, kTVMArgInt, kTVMArgInt};
  return call("vadd_kernel", values, kinds, 6);
}
"""

PREAMBLE = """
import ctypes, gc, os, sys
import numpy as np
import mblob

double = ctypes.CDLL(os.environ["MBLOB_CUDA_LIBRARY"]) if os.environ.get("MBLOB_CUDA_LIBRARY") else None
BODY = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p)
bodies = []

def kernel(name):
    def define(function):
        if double:
            bodies.append(BODY(lambda arguments, launch: function(arguments)))
            double.fake_cuda_define(name.encode(), bodies[-1])
    return define

def value(argument, ctype):
    return ctypes.cast(argument, ctypes.POINTER(ctype))[0]

def floats(argument, n):
    return np.ctypeslib.as_array(ctypes.cast(value(argument, ctypes.c_void_p), ctypes.POINTER(ctypes.c_float)), (n,))

@kernel("vadd_kernel")
def _(arguments):
    n = value(arguments[3], ctypes.c_int32)
    a, b, c = (floats(arguments[i], n) for i in range(3))
    c[:] = a + b

@kernel("last_word")
def _(arguments):
    floats(arguments[0], 1)[0] = value(arguments[2], ctypes.c_float)

lib = mblob.load_module(sys.argv[1])
cuda = mblob.cuda(0)
a = np.arange(1000, dtype="float32")
b = a[::-1].copy()
"""

PROGRAMS = {
    "host code launches the kernel": """
x, y, z = mblob.array(a, cuda), mblob.array(b, cuda), mblob.empty((1000,), "float32", cuda)
for _ in range(3):
    lib["vadd"](x, y, z)
np.testing.assert_array_equal(z.numpy(), a + b)
np.testing.assert_array_equal(x.numpy(), a)
""",
    "the kernel is called by itself": """
x, y, z = mblob.array(a, cuda), mblob.array(b, cuda), mblob.empty((1000,), "float32", cuda)
kernel = lib.imported_modules[0]["vadd_kernel"]
kernel(x, y, z, 500, 4, 128)
np.testing.assert_array_equal(z.numpy()[:500], (a + b)[:500])
kernel(x, y, z, 1000, 8, 128)
np.testing.assert_array_equal(z.numpy(), a + b)
""",
    "more shared memory than 48 KiB is asked for": """
out = mblob.empty((1,), "float32", cuda)
lib.imported_modules[0]["last_word"](out, (64 << 10) - 4, 2.5, 1, 1, 64 << 10)
assert out.numpy()[0] == 2.5
""",
    "pinned and managed memory are the kernel's, too": """
pinned = mblob.empty((1000,), "float32", mblob.device("cuda_host"))
managed = mblob.array(b, mblob.device("cuda_managed"))
out = mblob.empty((1000,), "float32", cuda)
pinned.numpy()[:] = a
lib.imported_modules[0]["vadd_kernel"](pinned, managed, out, 1000, 8, 128)
np.testing.assert_array_equal(out.numpy(), a + b)
np.testing.assert_array_equal(managed.copyto(pinned).numpy(), b)
""",
    "wrong calls are told and change nothing": """
kernel = lib.imported_modules[0]["vadd_kernel"]
x, z = mblob.array(a, cuda), mblob.array(b, cuda)
for arguments, text in (
    ((x, x, z, 1000, 8), "expected 4 arguments and 2 launch sizes: blockIdx.x, threadIdx.x; found 5 values"),
    ((x, x, z, 1000, 8, 4096), "a block of 4096 threads"),
    ((x, x, z, 1 << 40, 8, 128), "1099511627776 does not fit uint32"),
    ((x, 1.5, z, 1000, 8, 128), "argument 1: expected a tensor"),
    ((x, mblob.array(a), z, 1000, 8, 128), "argument 1: its memory is on device type 1"),
):
    try:
        kernel(*arguments)
    except (ValueError, TypeError, mblob.MblobError) as error:
        assert text in str(error), error
    else:
        raise AssertionError(text)
np.testing.assert_array_equal(z.numpy(), b)
""",
    "memory that is not there": """
try:
    mblob.empty((1 << 50,), "uint8", cuda)
except MemoryError as error:
    assert "bytes of memory" in str(error) and "CUDA_ERROR_OUT_OF_MEMORY" in str(error), error
else:
    raise AssertionError
np.testing.assert_array_equal(mblob.array(a, cuda).numpy(), a)
""",
    "tensors are handed on without a copy": """
x = mblob.array(a, cuda)
assert x.__dlpack_device__() == (2, 0)
y = mblob.from_dlpack(x)
assert y.address == x.address and y.device == cuda
for stream in (None, -1, 1, 2):
    assert mblob.from_dlpack(x.__dlpack__(stream=stream)).address == x.address
copied = mblob.from_dlpack(x.__dlpack__(max_version=(1, 0), copy=True, stream=1))
assert copied.address != x.address
np.testing.assert_array_equal(copied.numpy(), a)
try:
    x.__dlpack__(stream=0)
except ValueError as error:
    assert "1 (legacy default)" in str(error)
else:
    raise AssertionError
x = None
np.testing.assert_array_equal(y.numpy(), a)
""",
    "a device that is lost is told, and the rest goes on": """
x = mblob.array(a, cuda)
lost = ""
if double:
    double.fake_cuda_fail(b"cuStreamSynchronize", 0, 700)
else:
    lib.imported_modules[0]["crash"](None)
for _ in range(2):
    try:
        x.numpy()
    except mblob.MblobError as error:
        lost += str(error)
assert "CUDA_ERROR_ILLEGAL_ADDRESS" in lost and "started anew" in lost and "lost to this process before" in lost, lost
host = lib["twice"]
assert host(21) == 42
""",
}
