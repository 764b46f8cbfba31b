"""Wrong arguments of the public functions: one error each, that names function, argument, expected
and found."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

import mblob

SOURCES = "a path, bytes, an open binary file or a descriptor"

# What is called, with which argument, the class of the error and its whole text.
TABLE: list[tuple[Callable[[Any], Any], Any, type[Exception], str]] = [
    (mblob.load_module, None, TypeError, f"load_module: source: expected {SOURCES}, found NoneType"),
    (mblob.load_module, 1.5, TypeError, f"load_module: source: expected {SOURCES}, found float"),
    (mblob.load_module, True, TypeError, f"load_module: source: expected {SOURCES}, found bool"),
    (mblob.load_module, [], TypeError, f"load_module: source: expected {SOURCES}, found list"),
    (mblob.load_module, io.StringIO("x"), TypeError, f"load_module: source: expected {SOURCES}, found str"),
    (mblob.load_module, -1, ValueError, "load_module: source: expected 0 to 2147483647, found -1"),
    (mblob.load_module, 2**40, ValueError, "load_module: source: expected 0 to 2147483647, found 1099511627776"),
    (mblob.load_module, "a\0b", ValueError, "load_module: source: the path 'a\\x00b' has a NUL in it"),
    (lambda v: mblob.load_module("x", v), None, TypeError, "load_module: fmt: expected str, found NoneType"),
    (lambda v: mblob.load_module("x", verify=v), [], ValueError,
     "load_module: verify: expected one of header, full, off, found []"),
    (lambda v: mblob.load_module("x", missing=v), None, ValueError,
     "load_module: missing: expected one of error, stub, found None"),
    (lambda v: mblob.load_module("x", loaders=v), [print], TypeError,
     "load_module: loaders: expected a mapping of type keys to loaders, found list"),
    (lambda v: mblob.load_module("x", loaders=v), {1: print}, TypeError,
     "load_module: a key of loaders: expected str, found int"),
    (lambda v: mblob.load_module("x", loaders=v), {"k": 1}, TypeError,
     "load_module: loaders['k']: expected a callable, found int"),
    (mblob.system_lib, None, TypeError, "system_lib: prefix: expected str, found NoneType"),
    (mblob.system_lib, b"p_", TypeError, "system_lib: prefix: expected str, found bytes"),
    (mblob.system_lib, "\udcff", ValueError, "system_lib: prefix: '\\udcff' is no Unicode text"),
    (mblob.register_func, None, TypeError,
     "register_func: name: expected str, or a function with a name, found NoneType"),
    (mblob.register_func, b"x", TypeError, "register_func: name: expected str, or a function with a name, found bytes"),
    (lambda v: mblob.register_func(v, print), "", ValueError,
     "register_func: name: expected a name, found an empty one"),
    (lambda v: mblob.register_func(v, print), "a\0b", ValueError, "register_func: name: 'a\\x00b' has a NUL in it"),
    (lambda v: mblob.register_func("arguments.f", v), 1, TypeError, "register_func: f: expected a callable, found int"),
    (mblob.get_global_func, None, TypeError, "get_global_func: name: expected str, found NoneType"),
    (mblob.get_global_func, "a\0b", ValueError, "get_global_func: name: 'a\\x00b' has a NUL in it"),
    (mblob.register_loader, 1, TypeError, "register_loader: key: expected str, found int"),
    (lambda v: mblob.register_loader("k", v), 1, TypeError, "register_loader: fn: expected a callable, found int"),
    (mblob.Module, "", ValueError, "Module: a type key is needed"),
    (lambda v: mblob.Module("k", functions=v), 5, TypeError,
     "Module: functions: expected a dict of callables by name, found int"),
    (lambda v: mblob.Module("k", functions={"f": v}), 5, TypeError,
     "Module: functions: 'f': expected a callable, found int"),
    (mblob.Module, 5, TypeError, "Module: type_key: expected str, found int"),
    (lambda v: mblob.Module("k", functions={v: print}), 5, TypeError,
     "Module: a key of functions: expected str, found int"),
    (lambda v: mblob.Module("k", payload=v), "text", TypeError,
     "Module: payload: expected contiguous bytes, found str"),
    (lambda v: mblob.Module("k", payload=v), memoryview(b"abcd")[::2], TypeError,
     "Module: payload: expected contiguous bytes, found bytes with gaps"),
    (lambda v: mblob.Module("k", save=v), 5, TypeError, "Module: save: expected a callable, found int"),
    (mblob.empty, None, TypeError, "empty: shape: expected int or a sequence of int, found NoneType"),
    (mblob.empty, "33", TypeError, "empty: shape: expected int or a sequence of int, found str"),
    (mblob.empty, b"ab", TypeError, "empty: shape: expected int or a sequence of int, found bytes"),
    (mblob.empty, {1: 2}, TypeError, "empty: shape: expected int or a sequence of int, found dict"),
    (mblob.empty, [2, 1.5], TypeError, "empty: shape[1]: expected int, found float"),
    (mblob.empty, (2, -1), ValueError, "empty: shape[1]: expected 0 to 9223372036854775807, found -1"),
    (mblob.empty, 2**70, ValueError, f"empty: shape[0]: expected 0 to 9223372036854775807, found {2**70}"),
    (lambda v: mblob.empty(2, v), None, TypeError, "empty: dtype: expected str or a dtype of numpy, found NoneType"),
    (lambda v: mblob.empty(2, v), b"int8", TypeError, "empty: dtype: expected str or a dtype of numpy, found bytes"),
    (lambda v: mblob.empty(2, v), "flaot32", ValueError,
     "empty: dtype: 'flaot32' is not a data type; expected one like float32, int8, uint8x4, bool;"
     " did you mean 'float32'?"),
    (lambda v: mblob.empty(2, device=v), "cpu", TypeError,
     "empty: device: expected a Device such as mblob.cpu(0), found str"),
    (lambda v: mblob.array([1.0], v), None, TypeError,
     "array: device: expected a Device such as mblob.cpu(0), found NoneType"),
    (mblob.array, None, TypeError, "array: source: expected an array, found NoneType"),
    (mblob.array, {1: 2}, TypeError, "array: source: expected an array, found dict"),
    (mblob.from_dlpack, None, TypeError, "from_dlpack: expected an object with __dlpack__, found NoneType"),
    (mblob.load_param_dict, None, TypeError, "load_param_dict: data: expected bytes-like, found NoneType"),
    (lambda v: mblob.empty(2).copyfrom(v), 5, TypeError, "copyfrom: source: expected an array, found int"),
    (lambda v: mblob.empty(2).copyto(v), None, TypeError,
     "copyto: target: expected a Tensor or a Device, found NoneType"),
    (lambda v: mblob.empty(2).view(v), None, TypeError,
     "view: dtype: expected str or a dtype of numpy, found NoneType"),
    (mblob.cpu, None, TypeError, "Device: device_id: expected int, found NoneType"),
    (mblob.cpu, 1.5, TypeError, "Device: device_id: expected int, found float"),
    (mblob.cpu, -1, ValueError, "Device: device_id: expected 0 to 2147483647, found -1"),
    (mblob.device, None, TypeError, "device: kind: expected str or int, found NoneType"),
    (mblob.device, b"cpu", TypeError, "device: kind: expected str or int, found bytes"),
    (mblob.device, 2**40, ValueError, "Device: device_type: expected 0 to 2147483647, found 1099511627776"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "value", "kind", "text"), TABLE, ids=[text for *_, text in TABLE])
def test_a_wrong_argument_is_named(
    call: Callable[[Any], Any], value: Any, kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind) as caught:
        call(value)
    assert str(caught.value) == text
    assert isinstance(caught.value, mblob.MblobError)


def test_integers_of_numpy_are_integers() -> None:
    np = pytest.importorskip("numpy")
    assert mblob.empty(np.int64(3)).shape == (3,)
    assert mblob.empty(np.array([2, 3])).shape == (2, 3)
    assert mblob.empty((np.int32(2), 0), np.dtype("int8")).shape == (2, 0)
    assert mblob.cpu(np.int64(1)) == mblob.cpu(1)


def test_lists_of_different_lengths_are_no_array() -> None:
    pytest.importorskip("numpy")
    with pytest.raises(ValueError, match=r"^array: source: "):
        mblob.array([[1], [2, 3]])


@pytest.mark.parametrize("dtype", ["datetime64[s]", ">f4"])
def test_an_array_that_has_no_dlpack_capsule_is_named_by_its_dtype(dtype: str) -> None:
    np = pytest.importorskip("numpy")
    with pytest.raises(BufferError) as caught:
        mblob.from_dlpack(np.zeros(3, dtype))
    start = f"from_dlpack: numpy.ndarray of dtype {np.dtype(dtype)} has no DLPack capsule: "
    assert str(caught.value).startswith(start)
    assert len(str(caught.value)) > len(start)  # the exporter's own words


def test_an_argument_that_refuses_to_be_exported_is_named_with_its_dtype() -> None:
    class Odd:
        dtype = "int3"

        def __dlpack__(self, **_: Any) -> None:
            raise BufferError("not today")

    mblob.register_func("arguments.identity", lambda x: x, override=True)
    with pytest.raises(
        BufferError, match="argument 0: Odd of dtype int3 has no DLPack capsule: not today"
    ):
        mblob.get_global_func("arguments.identity")(Odd())


def test_a_text_with_a_lone_surrogate_is_named() -> None:
    mblob.register_func("arguments.identity", lambda *x: x[-1], override=True)
    with pytest.raises(
        mblob.errors.ArgumentValueError,
        match=r"arguments\.identity: argument 1: the str has surrogates",
    ):
        mblob.get_global_func("arguments.identity")(1, "a\udcff")
