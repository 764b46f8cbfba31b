"""tvm_ffi's tests (0.1.9), with the names of `mblob.compat.tvm_ffi`."""

from __future__ import annotations

import ctypes
import gc
import pickle
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mblob
import mblob.compat.tvm_ffi as tvm_ffi
from tests.peers.cases import Case, holding, names
from tests.peers.test_tvm_ffi_inline import CHECKS
from tests.peers.tvm_ffi_checks import all_of, bad, echo, same, value_of
from tests.peers.tvm_ffi_containers import CONTAINER

pytestmark = pytest.mark.own_process

# -- test_function ---------------------------------------------------------------------------------


def echoes() -> None:
    same(None, type(None))()
    for value in (1, True, False, 1.5, "hello", b"abc"):
        same(value)()
    device, dtype = echo(tvm_ffi.device("cuda:1")), echo(tvm_ffi.dtype("float32"))
    assert (str(device), device.index, device.dlpack_device_type()) == (
        "cuda:1",
        1,
        tvm_ffi.DLDeviceType.kDLCUDA,
    )
    assert repr(device) == "device(type='cuda', index=1)"
    assert isinstance(dtype, tvm_ffi.dtype) and dtype == tvm_ffi.dtype("float32")
    pointer = echo(ctypes.c_void_p(0x12345678))
    assert isinstance(pointer, ctypes.c_void_p) and pointer.value == 0x12345678
    add = tvm_ffi.convert(lambda a, b: a + b)
    assert echo(add)(1, 2) == 3 and echo(add).same_as(add)
    x = tvm_ffi.from_dlpack(np.arange(10, dtype="int32"))
    y = echo(mblob.array(x))
    assert isinstance(y, tvm_ffi.Tensor) and y.shape == (10,) and y.dtype == tvm_ffi.dtype("int32")


def raw_texts() -> None:
    assert tvm_ffi.convert(lambda: "hello")() == "hello"
    assert tvm_ffi.convert(lambda: bytearray(b"hello"))() == b"hello"


def long_texts() -> None:
    for text in ("hello", "hello" * 100, b"hello", b"hello" * 100, "a\0b"):
        same(text)()


def callables() -> None:
    def add(a: Any, b: Any) -> Any:
        return a + b

    assert isinstance(tvm_ffi.convert(add), tvm_ffi.Function) and tvm_ffi.convert(add)(1, 2) == 3
    assert tvm_ffi.convert(lambda f, *args: f(*args))(add, 1, 3.3) == 4.3


def global_functions() -> None:
    @tvm_ffi.register_global_func("peers.echo", override=True)
    def f(x: Any) -> Any:
        return x

    assert tvm_ffi.get_global_func("peers.echo").same_as(f) and f(1) == 1
    assert "peers.echo" in tvm_ffi.registry.list_global_func_names()
    tvm_ffi.registry.remove_global_func("peers.echo")
    assert "peers.echo" not in tvm_ffi.registry.list_global_func_names()
    assert tvm_ffi.get_global_func("peers.echo", allow_missing=True) is None


def protocol(method: str, value: Any, expected: Any, kind: Any) -> Callable[[], None]:
    def check() -> None:
        found = echo(value_of(method, value))
        assert found == expected and isinstance(found, kind)

    return check


def nested_values() -> None:
    v = "__tvm_ffi_value__"
    assert echo(value_of(v, 10)) == 10
    assert echo(value_of(v, [1, 2, value_of(v, 3)])) == [1, 2, 3]
    assert echo(value_of(v, value_of(v, value_of(v, 10)))) == 10


def opaque_objects() -> None:
    class Own:
        value = "hello"

    x = Own()
    count = sys.getrefcount(x)
    assert echo(x) is x and echo(x).value == "hello"
    found: list[Any] = []
    assert tvm_ffi.convert(lambda z: found.append(z) or z)(x) is x and found == [x]
    found.clear()
    assert sys.getrefcount(x) == count


NO_OBJECTS = "the test counts references of tvm_ffi's objects; mblob returns Python values instead"
NO_CLASSES = (
    "the test derives classes from tvm_ffi's Cython classes, or lets tvm_ffi return such classes"
)
FUNCTION = [
    Case("test_function.test_echo", echoes),
    Case("test_function.test_return_raw_str_bytes", raw_texts),
    Case("test_function.test_string_bytes_passing", long_texts),
    Case("test_function.test_nested_container_passing", unsaid=NO_OBJECTS),
    Case("test_function.test_pyfunc_convert", callables),
    Case("test_function.test_global_func", global_functions),
    Case("test_function.test_rvalue_ref", unsaid=NO_OBJECTS),
    Case("test_function.test_echo_with_opaque_object", opaque_objects),
    Case("test_function.test_function_subclass", unsaid=NO_CLASSES),
    Case(
        "test_function.test_function_with_opaque_ptr_protocol",
        protocol("__tvm_ffi_opaque_ptr__", 10, 10, ctypes.c_void_p),
    ),
    Case(
        "test_function.test_function_with_dlpack_data_type_protocol",
        protocol("__dlpack_data_type__", (2, 32, 1), tvm_ffi.dtype("float32"), tvm_ffi.dtype),
    ),
    Case(
        "test_function.test_function_with_dlpack_device_protocol",
        protocol("__dlpack_device__", (2, 1), tvm_ffi.device("cuda:1"), tvm_ffi.Device),
    ),
    Case(
        "test_function.test_integral_float_variants_passing",
        all_of(
            protocol("__tvm_ffi_int__", 10, 10, int),
            protocol("__tvm_ffi_float__", 10, 10.0, float),
            protocol("__tvm_ffi_value__", np.int32(1), 1, int),
            protocol("__tvm_ffi_value__", np.float64(2), 2.0, float),
        ),
    ),
    Case("test_function.test_function_with_value_protocol", nested_values),
]

# -- test_tensor -----------------------------------------------------------------------------------


def attributes() -> None:
    data = np.zeros((10, 8, 4, 2), "int16")
    x = tvm_ffi.from_dlpack(data)
    assert isinstance(x, tvm_ffi.Tensor) and x.shape == data.shape and x.ndim == 4
    assert (x.numel(), x.size(0), x.size(-1)) == (640, 10, 2)
    assert x.is_contiguous() and x.strides == (64, 8, 2, 1) and x.dtype == tvm_ffi.dtype("int16")
    assert (x.device.dlpack_device_type(), x.device.index) == (tvm_ffi.DLDeviceType.kDLCPU, 0)
    np.testing.assert_array_equal(np.from_dlpack(x), data)


def addresses() -> None:
    data = np.arange(8, dtype="int32")
    assert tvm_ffi.from_dlpack(data).data_ptr() == data.ctypes.data
    assert tvm_ffi.from_dlpack(data[2:]).data_ptr() == data[2:].ctypes.data


def shapes() -> None:
    shape = tvm_ffi.Shape((10, 8, 4, 2))
    found = echo(shape)
    assert shape == (10, 8, 4, 2) == found and isinstance(found, tvm_ffi.Shape)
    assert tvm_ffi.convert(shape) is shape


def holders() -> None:
    x = mblob.array(np.arange(80, dtype="int32").reshape(10, 8))
    np.testing.assert_array_equal(echo(value_of("__tvm_ffi_object__", x)).numpy(), x.numpy())
    pair = echo(value_of("__tvm_ffi_value__", (x, 2)))
    assert pair[1] == 2 and pair[0].shape == (10, 8)


TORCH = "the test needs torch, which mblob's tests do not install"
TENSOR = [
    Case("test_tensor.test_tensor_attributes", attributes),
    Case(
        "test_tensor.test_empty_tensor_is_contiguous",
        lambda: tvm_ffi.from_dlpack(np.zeros((4, 0, 4), "int16")).is_contiguous() or pytest.fail(),
    ),
    Case("test_tensor.test_tensor_data_ptr", addresses),
    Case(
        "test_tensor.test_non_contiguous_tensor_attributes",
        differs="`from_dlpack` refuses an array with gaps between its elements",
    ),
    Case("test_tensor.test_shape_object", shapes),
    Case("test_tensor.test_tensor_class_override", unsaid=NO_CLASSES),
    Case("test_tensor.test_tvm_ffi_tensor_compatible", holders),
    Case("test_tensor.test_tensor_auto_dlpack", unsaid=TORCH),
]

# -- test_dtype, test_device -----------------------------------------------------------------------

PARTS = {
    "int8": (0, 8),
    "int16": (0, 16),
    "int32": (0, 32),
    "int64": (0, 64),
    "uint8": (1, 8),
    "uint16": (1, 16),
    "uint32": (1, 32),
    "uint64": (1, 64),
    "float16": (2, 16),
    "float32": (2, 32),
    "float64": (2, 64),
}
SMALL = {
    "bool": (6, 8),
    "bfloat16": (4, 16),
    "float8_e3m4": (7, 8),
    "float8_e4m3": (8, 8),
    "float8_e4m3b11fnuz": (9, 8),
    "float8_e4m3fn": (10, 8),
    "float8_e4m3fnuz": (11, 8),
    "float8_e5m2": (12, 8),
    "float8_e5m2fnuz": (13, 8),
    "float8_e8m0fnu": (14, 8),
    "float6_e2m3fn": (15, 6),
    "float6_e3m2fn": (16, 6),
    "float4_e2m1fn": (17, 4),
}


def type_is(found: Any, code: int, bits: int, lanes: int = 1) -> None:
    assert isinstance(found, tvm_ffi.dtype)
    assert (found.type_code, found.bits, found.lanes) == (code, bits, lanes)


def of_numpy(types: dict[str, tuple[int, int]], module: Any) -> Callable[[], None]:
    def check() -> None:
        for name, parts in types.items():
            type_is(echo(np.dtype(getattr(module, name))), *parts)

    return check


def of_ml_dtypes() -> None:
    import ml_dtypes

    of_numpy({name: parts for name, parts in SMALL.items() if name != "bool"}, ml_dtypes)()


def builtin_types() -> None:
    for name, parts in {**PARTS, **SMALL}.items():
        type_is(echo(getattr(tvm_ffi, name)), *parts)
    type_is(echo(tvm_ffi.float4_e2m1fnx2), 17, 4, 2)


def dtypes() -> None:
    float32 = tvm_ffi.dtype("float32")
    assert repr(float32) == "dtype('float32')" and np.array([1, 2], dtype=float32).dtype == float32


def item_sizes() -> None:
    sizes = {
        "float32": 4,
        "float32x4": 16,
        "float8_e5m2x4": 4,
        "float6_e2m3fnx4": 3,
        "float4_e2m1fnx4": 2,
        "uint8": 1,
        "bool": 1,
    }
    for text, size in sizes.items():
        found = pickle.loads(pickle.dumps(tvm_ffi.dtype(text)))
        assert found.itemsize == size and found == tvm_ffi.dtype(text)


def bools() -> None:
    type_is(tvm_ffi.dtype("bool"), 6, 8)
    assert tvm_ffi.dtype("bool").with_lanes(4) == "boolx4"


def devices() -> None:
    d = tvm_ffi.DLDeviceType
    rows = [
        ("cpu", 0, d.kDLCPU),
        ("cuda", 0, d.kDLCUDA),
        ("cuda", 3, d.kDLCUDA),
        ("metal", 2, d.kDLMetal),
        ("ext_dev", 0, d.kDLExtDev),
    ]
    for kind, index, number in rows:
        for found in (
            tvm_ffi.device(f"{kind}:{index}"),
            tvm_ffi.device(kind, index),
            tvm_ffi.device(number, index),
        ):
            assert (found.dlpack_device_type(), found.index) == (number, index)
            assert (
                str(found) == f"{kind}:{index}"
                and repr(found) == f"device(type={kind!r}, index={index})"
            )
            assert pickle.loads(pickle.dumps(found)) == found
    assert tvm_ffi.device("cpu", np.int32(1)).index == 1


DTYPE = [
    Case("test_dtype.test_dtype", dtypes),
    Case("test_dtype.test_dtype_itemsize", item_sizes),
    Case(
        "test_dtype.test_dtype_itemmize_error",
        bad(lambda: tvm_ffi.dtype("int32xvscalex4").itemsize, ValueError),
    ),
    Case("test_dtype.test_dtype_pickle", item_sizes),
    Case(
        "test_dtype.test_dtype_with_lanes",
        lambda: type_is(tvm_ffi.dtype("float32").with_lanes(4), 2, 32, 4),
    ),
    Case("test_dtype.test_torch_dtype_conversion", unsaid=TORCH),
    Case("test_dtype.test_numpy_dtype_conversion", of_numpy(PARTS, np)),
    Case("test_dtype.test_ml_dtypes_dtype_conversion", of_ml_dtypes),
    Case("test_dtype.test_builtin_dtype_conversion", builtin_types),
    Case(
        "test_dtype.test_dtype_from_dlpack_data_type",
        lambda: type_is(tvm_ffi.dtype.from_dlpack_data_type((0, 8, 1)), 0, 8),
    ),
    Case("test_dtype.test_dtype_bool", bools),
]
DEVICE = [
    *(
        Case(f"test_device.{name}", devices)
        for name in (
            "test_device",
            "test_device_from_str",
            "test_device_dlpack_device_type",
            "test_device_with_dev_id",
            "test_device_pickle",
        )
    ),
    Case(
        "test_device.test_deive_type_error",
        all_of(
            *(bad(lambda t=t: tvm_ffi.device(t), ValueError) for t in ("cpu:0:0", "cpu:?", "cpu:"))
        ),
    ),
    Case("test_device.test_deive_id_error", bad(lambda: tvm_ffi.device("cpu", "?"), TypeError)),
    Case("test_device.test_device_class_override", unsaid=NO_CLASSES),
    Case(
        "test_device.test_cuda_stream_handling",
        protocol("__cuda_stream__", (0, 1), 1, ctypes.c_void_p),
    ),
]

# -- test_error ------------------------------------------------------------------------------------


def raises(kind: type[Exception], text: str) -> Any:
    def fail(*_: Any) -> None:
        raise kind(text)

    return tvm_ffi.convert(fail)


def errors() -> None:
    apply = tvm_ffi.convert(lambda f, *args: f(*args))
    for kind in (ValueError, TypeError):
        with pytest.raises(kind, match="error XYZ"):
            apply(raises(kind, "error XYZ"), 1)
    with pytest.raises(TypeError):
        tvm_ffi.convert(lambda x: x)()


def no_cycle() -> None:
    class Probe: ...

    def failed() -> Any:
        probe = Probe()
        with pytest.raises(KeyError):
            tvm_ffi.get_global_func("peers.missing")
        return weakref.ref(probe)

    gc.disable()
    try:
        assert failed()() is None
    finally:
        gc.enable()


BACKTRACE = "the test looks for C++ frames in `__tvm_ffi_error__`; mblob's errors have Python's own traceback"
ERROR = [
    Case("test_error.test_parse_backtrace", unsaid=BACKTRACE),
    Case("test_error.test_error_from_cxx", errors),
    Case("test_error.test_error_from_nested_pyfunc", unsaid=BACKTRACE),
    Case("test_error.test_error_traceback_update", unsaid=BACKTRACE),
    Case("test_error.test_error_no_cyclic_reference", no_cycle),
]

# -- test_load_inline, test_metadata ---------------------------------------------------------------


def no_metadata() -> None:
    tvm_ffi.register_global_func("peers.plain", lambda x: x)
    assert tvm_ffi.get_global_func_metadata("peers.plain") == {}
    tvm_ffi.remove_global_func("peers.plain")


def no_attribute() -> None:
    assert tvm_ffi.core._lookup_type_attr(64, "__metadata__") is None


INLINE = "the test compiles CUDA with tvm_ffi"
OTHERS = [
    *(
        Case(f"test_load_inline.test_{x}", unsaid=INLINE)
        for x in ("load_inline_cuda", "load_inline_both", "cuda_memory_alloc_noleak")
    ),
    Case("test_metadata.test_metadata_empty_for_python_func", no_metadata),
    Case("test_metadata.test_class_metadata_none", no_attribute),
]

COMPILED = [Case(name) for name in CHECKS]
HOLD = holding([*FUNCTION, *TENSOR, *DTYPE, *DEVICE, *ERROR, *CONTAINER, *OTHERS])
CASES = [*FUNCTION, *TENSOR, *DTYPE, *DEVICE, *ERROR, *CONTAINER, *OTHERS, *COMPILED]


@pytest.mark.parametrize("case", HOLD, ids=names(HOLD))
def test_a_case_of_tvm_ffi_holds(case: Case) -> None:
    assert case.check is not None
    case.check()
