"""Kernels and tensors on a real OpenCL device; PoCL's, which is the processor, where there is no
other.

What no driver does on demand (errors, lost devices, lack of memory) is in
tests/c/plugins/test_opencl*.c, over a library of our own.
"""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob import loader
from tests.loader.opencl.opencl_libraries import SCALE, SCALE_TYPES, Pack, X
from tests.loader.payloads import ARGUMENT_TYPES, device_code

pytestmark = pytest.mark.own_process

SHIFT = SCALE.replace("scale", "shift").replace("factor", "by").replace("*=", "+=")


def payload(source: str, *functions: tuple[str, list[str], list[str]]) -> bytes:
    """Source as TVM wrote it up to 0.7: without delimiters."""
    return device_code("cl", source.encode(), *functions)


def floats(n: int) -> np.ndarray[Any, Any]:
    return np.arange(n, dtype="float32")


# -- kernels ---------------------------------------------------------------------------------------


def test_a_library_of_tvm_adds_two_vectors(golden: Path, opencl_device: mblob.Device) -> None:
    lib = mblob.load_module(golden / "opencl_llvm.so")
    a, b = floats(1024), np.full(1024, 0.5, "float32")
    c = mblob.empty((1024,), "float32", opencl_device)
    lib["vadd"](mblob.array(a, opencl_device), mblob.array(b, opencl_device), c)
    np.testing.assert_array_equal(c.numpy(), a + b)
    with pytest.raises(mblob.MblobError, match="device_type"):
        lib["vadd"](a, b, np.empty_like(a))
    with pytest.raises(mblob.MblobError, match=r"shape\[0\]"):
        lib["vadd"](*(mblob.empty((8,), "float32", opencl_device) for _ in range(3)))


def test_a_graph_runs_on_the_device(golden: Path, opencl_device: mblob.Device) -> None:
    def operator(name: str, *inputs: int) -> dict[str, Any]:
        attributes = {
            "func_name": "vadd",
            "num_inputs": "2",
            "num_outputs": "1",
            "flatten_data": "0",
        }
        return {
            "op": "tvm_op",
            "name": name,
            "attrs": attributes,
            "inputs": [[i, 0, 0] for i in inputs],
        }

    graph = {
        "nodes": [
            *({"op": "null", "name": n, "inputs": []} for n in "xy"),
            operator("s", 0, 1),
            operator("t", 2, 1),
        ],
        "arg_nodes": [0, 1],
        "node_row_ptr": [0, 1, 2, 3, 4],
        "heads": [[3, 0, 0]],
        "attrs": {
            "dltype": ["list_str", ["float32"] * 4],
            "storage_id": ["list_int", [0, 1, 2, 3]],
            "shape": ["list_shape", [[1024]] * 4],
            "device_index": ["list_int", [4] * 4],
        },
    }
    model = mblob.graph_executor.create(
        graph, mblob.load_module(golden / "opencl_llvm.so"), opencl_device
    )
    x, y = floats(1024), np.full(1024, 2, "float32")
    model.set_input(x=x, y=y)
    model.run()
    assert model.get_output(0).device == opencl_device
    np.testing.assert_array_equal(model.get_output(0).numpy(), x + y + y)


def test_kernels_work_on_what_others_left(pack_opencl: Pack, opencl_device: mblob.Device) -> None:
    module = pack_opencl(
        {"scale": SCALE, "shift": SHIFT}, ("scale", SCALE_TYPES, X), ("shift", SCALE_TYPES, X)
    )
    x = mblob.array(floats(100), opencl_device)
    module["scale"](x, 2.0, 90, 4, 32)
    module["shift"](x, -1, 80, 13, 8)  # an int for a float
    want = floats(100)
    want[:90] *= 2
    want[:80] -= 1
    np.testing.assert_array_equal(x.numpy(), want)
    with pytest.raises(AttributeError, match="other"):
        module["other"]


def test_one_program_without_delimiters_has_all_kernels(
    pack_opencl: Pack, opencl_device: mblob.Device
) -> None:
    module = pack_opencl(
        "", payload=payload(SCALE + SHIFT, ("shift", SCALE_TYPES, X), ("scale", SCALE_TYPES, X))
    )
    x = mblob.array(floats(10), opencl_device)
    module["shift"](x, 1.0, 10, 1, 10)
    module["scale"](x, 3.0, 10, 1, 10)
    np.testing.assert_array_equal(x.numpy(), 3 * (floats(10) + 1))


def test_scalars_of_every_type_arrive(pack_opencl: Pack, opencl_device: mblob.Device) -> None:
    types = [t for t in ARGUMENT_TYPES if t not in ("handle", "bool")]
    words = ["char", "short", "int", "long", "uchar", "ushort", "uint", "ulong", "float", "double"]
    values = [
        -(2**7),
        -(2**15),
        -(2**31),
        -(2**63),
        2**8 - 1,
        2**16 - 1,
        2**32 - 1,
        2**63 - 1,
        0.1,
        0.1,
    ]
    parameters = ", ".join(f"{word} a{i}" for i, word in enumerate(words))
    stores = "".join(f"*(__global {word} *)(out + {8 * i}) = a{i};" for i, word in enumerate(words))
    source = f"__kernel void put(__global char *out, {parameters}) {{ {stores} }}"
    module = pack_opencl(source, ("put", ["handle", *types]))
    out = mblob.array(np.zeros(80, "uint8"), opencl_device)
    module["put"](out, *values)
    found = out.numpy().tobytes()
    for i, dtype in enumerate(types):
        want = np.array(values[i], dtype).tobytes()
        assert found[8 * i : 8 * i + len(want)] == want, dtype
    with pytest.raises(ValueError, match="argument 3: 2147483648 does not fit int32"):
        module["put"](out, 0, 0, 2**31, *values[3:])


@pytest.mark.sample(1)
@pytest.mark.parametrize("count", [15, 16, 17, 40])
def test_any_number_of_pointers(pack_opencl: Pack, opencl_device: mblob.Device, count: int) -> None:
    parameters = ", ".join(f"__global int *x{i}, int n{i}" for i in range(count))
    stores = "".join(f"*x{i} = n{i} + {i};" for i in range(count))
    module = pack_opencl(
        f"__kernel void many({parameters}) {{ {stores} }}", ("many", ["handle", "int32"] * count)
    )
    outs = [mblob.array(np.zeros(1, "int32"), opencl_device) for _ in range(count)]
    module["many"](*(v for i, out in enumerate(outs) for v in (out, 100 * i)))
    assert [int(out.numpy()[0]) for out in outs] == [101 * i for i in range(count)]
    with pytest.raises(
        ValueError, match=f"argument {2 * count - 2} is a pointer and was given none"
    ):
        module["many"](*(v for out in (*outs[:-1], None) for v in (out, 0)))


@pytest.mark.slow
def test_a_launch_in_three_dimensions(pack_opencl: Pack, opencl_device: mblob.Device) -> None:
    source = """
    __kernel void where(__global int *out) {
      int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
      int at = (z * get_global_size(1) + y) * get_global_size(0) + x;
      out[at] = get_local_id(0) + 10 * get_local_id(1) + 100 * get_local_id(2) + 1000 * get_group_id(0)
                + 10000 * get_group_id(1) + 100000 * get_group_id(2);
    }
    """
    tags = [
        *(f"blockIdx.{i}" for i in "zyx"),
        *(f"threadIdx.{i}" for i in "xyz"),
        "tir.use_dyn_shared_memory",
    ]
    where = pack_opencl(source, ("where", ["handle"], tags))["where"]
    out = mblob.empty((2 * 3, 2 * 4, 3 * 5), "int32", opencl_device)
    where(out, 2, 2, 3, 5, 4, 3, 0)
    z, y, x = np.indices(out.shape)
    want = (
        x % 5
        + 10 * (y % 4)
        + 100 * (z % 3)
        + 1000 * (x // 5)
        + 10000 * (y // 4)
        + 100000 * (z // 3)
    )
    np.testing.assert_array_equal(out.numpy(), want)
    with pytest.raises(
        ValueError, match=r"threadIdx \(1, 1, 1000000\): the largest threadIdx.z of device 0"
    ):
        where(out, 1, 1, 1, 1, 1, 10**6, 0)


def test_barriers_and_local_memory(pack_opencl: Pack, opencl_device: mblob.Device) -> None:
    source = """
    __kernel void sums(__global const float *x, __global float *out) {
      __local float part[64];
      int i = get_local_id(0);
      part[i] = x[get_global_id(0)];
      for (int step = 32; step; step /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (i < step) part[i] += part[i + step];
      }
      if (!i) out[get_group_id(0)] = part[0];
    }
    """
    module = pack_opencl(source, ("sums", ["handle", "handle"], X))
    out = mblob.empty((16,), "float32", opencl_device)
    module["sums"](mblob.array(floats(1024), opencl_device), out, 16, 64)
    np.testing.assert_array_equal(out.numpy(), floats(1024).reshape(16, 64).sum(axis=1))


def test_several_threads_call_one_kernel(pack_opencl: Pack, opencl_device: mblob.Device) -> None:
    scale = pack_opencl(SCALE, ("scale", SCALE_TYPES, X))["scale"]
    right: list[int] = []

    def work(factor: int) -> None:
        for _ in range(20):
            x = mblob.array(floats(64), opencl_device)
            for _ in range(3):
                scale(x, float(factor), 64, 4, 16)
            np.testing.assert_array_equal(x.numpy(), floats(64) * factor**3)
        right.append(factor)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(right) == [1, 2, 3, 4]


class Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


class Value(ctypes.Union):
    """TVMValue."""

    _fields_ = (
        ("integer", ctypes.c_int64),
        ("number", ctypes.c_double),
        ("handle", ctypes.c_void_p),
    )


def test_streams_and_offsets_through_the_c_api(
    scale_path: str, opencl_device: mblob.Device
) -> None:
    api = ctypes.CDLL(str(next((Path(loader.__file__).parent / "_lib").glob("libmblob.so.0"))))
    api.TVMGetLastError.restype = ctypes.c_char_p

    def check(status: int) -> None:
        assert status == 0, api.TVMGetLastError()

    module, function, stream, ret, code = (ctypes.c_void_p() for _ in range(5))
    check(api.TVMModLoadFromFile(scale_path.encode(), b"so", ctypes.byref(module)))
    check(api.TVMModGetFunction(module, b"scale", 1, ctypes.byref(function)))
    x = mblob.array(floats(256), opencl_device)
    shape = ctypes.c_int64(100)
    part = Tensor(x.address, 4, 0, 1, 2, 32, 1, ctypes.addressof(shape), None, 4 * 64)

    def scale(factor: float) -> int:
        values = (Value * 5)(*(Value() for _ in range(5)))
        values[0].handle, values[1].number = ctypes.addressof(part), factor
        values[2].integer, values[3].integer, values[4].integer = 100, 4, 32
        codes = (ctypes.c_int * 5)(7, 2, 0, 0, 0)
        return int(
            api.TVMFuncCall(function, values, codes, 5, ctypes.byref(ret), ctypes.byref(code))
        )

    check(api.TVMStreamCreate(4, 0, ctypes.byref(stream)))
    check(api.TVMSetStream(4, 0, stream))
    check(scale(2.0))
    # the default stream goes on behind it
    check(api.TVMStreamStreamSynchronize(4, 0, stream, None))
    check(api.TVMSetStream(4, 0, None))
    check(scale(5.0))
    check(api.TVMSynchronize(4, 0, None))
    want = floats(256)
    want[64:164] *= 10
    np.testing.assert_array_equal(x.numpy(), want)
    part.byte_offset = 4
    assert scale(1.0) == -1
    assert b"begins at byte 4 of memory of 1024 bytes" in api.TVMGetLastError()
    check(api.TVMStreamFree(4, 0, stream))
    assert api.TVMSetStream(4, 0, stream) == -1
    assert b"is no stream of device 0" in api.TVMGetLastError()
    check(api.TVMFuncFree(function))
    check(api.TVMModFree(module))


@pytest.mark.slow
def test_threads_build_different_kernels_at_once(
    pack_opencl: Pack, opencl_device: mblob.Device
) -> None:
    sources = {f"scale{i}": SCALE.replace("scale", f"scale{i}") for i in range(8)}
    module = pack_opencl(sources, *((name, SCALE_TYPES, X) for name in sources))
    found: dict[int, list[float]] = {}

    def work(i: int) -> None:
        x = mblob.array(np.ones(4, "float32"), opencl_device)
        for name in (f"scale{i}", f"scale{i ^ 1}"):
            module[name](x, float(i), 4, 1, 4)
        found[i] = x.numpy().tolist()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {i: [float(i * i)] * 4 for i in range(8)}


# -- what goes wrong -------------------------------------------------------------------------------


def test_what_the_compiler_says_is_told(pack_opencl: Pack, opencl_device: mblob.Device) -> None:
    bad = "__kernel void bad(__global float *x) {\n  x[0] = undeclared_thing;\n}\n"
    module = pack_opencl(
        {"bad": bad, "scale": SCALE}, ("bad", ["handle"]), ("scale", SCALE_TYPES, X)
    )
    x = mblob.array(floats(4), opencl_device)
    with pytest.raises(mblob.MblobError) as info:
        module["bad"](x)
    for part in (
        "kernel 'bad' cannot be built",
        "undeclared_thing",
        "on device 0",
        "CL_BUILD_PROGRAM_FAILURE",
    ):
        assert part in str(info.value)
    assert "\n" not in str(info.value)
    assert ".cl:" not in str(info.value)  # no file of the driver's
    assert "bad:2:10: use of" in str(info.value) or "pthread-" not in str(info.value)  # PoCL
    module["scale"](x, 2.0, 4, 1, 4)  # each kernel is a program of its own
    np.testing.assert_array_equal(x.numpy(), 2 * floats(4))


def test_kernels_that_are_not_as_declared(pack_opencl: Pack, opencl_device: mblob.Device) -> None:
    x = mblob.array(floats(4), opencl_device)
    missing = pack_opencl("", payload=payload(f"/* gone */ {SCALE}", ("gone", ["handle"], [])))
    with pytest.raises(
        (mblob.MblobError, AttributeError),
        match="'gone' is declared and its program has no kernel of that name",
    ):
        missing["gone"](x)
    other = pack_opencl(SCALE, ("scale", ["handle", "float32"]))
    with pytest.raises(
        mblob.FormatError, match="'scale' is declared with 2 arguments and its program has 3"
    ):
        other["scale"](x, 1.0)
    lies = pack_opencl("", payload=payload(SCALE, ("scale", ["handle"], ["vthread"])))
    with pytest.raises(mblob.FormatError, match="launch tag 'vthread' is not known"):
        lies["scale"](x)


def test_memory_of_the_host_and_wrong_counts_are_refused(
    pack_opencl: Pack, opencl_device: mblob.Device
) -> None:
    scale = pack_opencl(SCALE, ("scale", SCALE_TYPES, X))["scale"]
    with pytest.raises(
        ValueError, match=r"argument 0 is a tensor of device type 1, expected 4 \(opencl\)"
    ):
        scale(floats(4), 1.0, 4, 1, 4)
    with pytest.raises(
        ValueError, match=r"expected 3 arguments and 2 launch sizes: blockIdx\.x, threadIdx\.x;"
    ):
        scale(mblob.array(floats(4), opencl_device), 1.0, 4)
    with pytest.raises(MemoryError, match="on device 0"):
        mblob.empty((1 << 60,), "int8", opencl_device)


def test_tensors_of_no_elements(opencl_device: mblob.Device) -> None:
    empty = mblob.array(np.empty((0, 3), "int16"), opencl_device)
    assert empty.numpy().shape == (0, 3)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("parameters", "declared", "found"),
    [
        (
            "read_only image2d_t x",
            ["handle"],
            "argument 0 is declared handle and in its program an image",
        ),
        (
            "__global float *x",
            ["int64"],
            "argument 0 is declared int64 and in its program a pointer to global memory",
        ),
        (
            "ulong x, __global ulong *y",
            ["handle", "handle"],
            r"argument 0 is declared handle .* a value \(ulong\)",
        ),
        (
            "__global float *x, __local int *y",
            ["handle", "handle"],
            "argument 1 is declared handle .* to local memory",
        ),
        (
            "__global float *x, sampler_t y",
            ["handle", "int64"],
            r"argument 1 is declared int64 .* a sampler",
        ),
        (
            "__global float *x, float y",
            ["handle", "int32"],
            r"argument 1 is declared int32 .* a value \(float\)",
        ),
        (
            "__global float *x, int2 y",
            ["handle", "int64"],
            r"argument 1 is declared int64 .* a value \(int2\)",
        ),
    ],
)
def test_parameters_of_another_kind_than_declared(
    pack_opencl: Pack, opencl_device: mblob.Device, parameters: str, declared: list[str], found: str
) -> None:
    module = pack_opencl(f"__kernel void k({parameters}) {{}}", ("k", declared))
    x = mblob.array(floats(4), opencl_device)
    with pytest.raises(mblob.FormatError, match=f"kernel 'k': {found}"):
        module["k"](*(x if d == "handle" else 1 for d in declared))


def test_parameters_of_the_users_types_and_none(
    pack_opencl: Pack, opencl_device: mblob.Device
) -> None:
    source = "typedef int own;\n__kernel void k(__global float *x, __constant float *y, own z) { x[z] = y[0]; }"
    module = pack_opencl(source, ("k", ["handle", "handle", "int32"]))
    x, y = (mblob.array(values, opencl_device) for values in (floats(4), np.full(1, 7, "float32")))
    module["k"](x, y, 2)
    assert x.numpy().tolist() == [0, 1, 7, 3]
    with pytest.raises(ValueError, match="kernel 'k': argument 0 is a pointer and was given none"):
        module["k"](None, y, 2)
