"""Tensors: memory of their own or of somebody else, seen by numpy and through DLPack."""

from __future__ import annotations

import contextlib
import gc
import mmap
import re
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mblob


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "int8", "uint64", "bool", "complex64"]
)
def test_an_array_goes_in_and_comes_out(dtype: str) -> None:
    source = (np.arange(6).reshape(2, 3) % 2).astype(dtype)
    tensor = mblob.array(source)
    assert (tensor.shape, tensor.ndim, tensor.dtype, tensor.nbytes) == (
        (2, 3),
        2,
        dtype,
        source.nbytes,
    )
    assert tensor.device == mblob.cpu(0)
    np.testing.assert_array_equal(tensor.numpy(), source)
    assert tensor.numpy().dtype == source.dtype


def test_numpy_shares_the_memory_and_keeps_the_tensor() -> None:
    tensor = mblob.empty((4,), "float32")
    view = tensor.numpy()
    view[:] = 7
    assert tensor.numpy().tolist() == [7] * 4
    gone = weakref.ref(tensor)
    del tensor
    gc.collect()
    assert gone() is not None
    assert view.tolist() == [7] * 4
    del view
    gc.collect()
    assert gone() is None


def test_memory_of_our_own_is_aligned_to_128_bytes() -> None:
    assert all(mblob.empty(n, "int8").address % 128 == 0 for n in (1, 3, 1000, 100000))


def test_empty_takes_a_number_a_shape_and_numpy_dtypes() -> None:
    assert mblob.empty(3).shape == (3,)
    assert mblob.empty((), "int32").shape == ()
    assert mblob.empty((0, 5)).nbytes == 0
    assert mblob.empty((2,), np.dtype("int16")).dtype == "int16"
    assert mblob.empty((2,), np.float64).dtype == "float64"
    assert mblob.empty((2,), "int8x4").nbytes == 8
    assert mblob.empty((2,), "int8x4").numpy().shape == (2, 4)


def test_nested_lists_become_a_tensor() -> None:
    assert mblob.array([[1.0, 2.0]]).numpy().tolist() == [[1.0, 2.0]]


def test_a_strided_array_is_made_compact() -> None:
    source = np.arange(12, dtype="i4").reshape(3, 4)[:, ::2]
    np.testing.assert_array_equal(mblob.array(source).numpy(), source)


def test_tensors_are_copied_from_and_to() -> None:
    a = mblob.array(np.arange(4, dtype="f"))
    b = mblob.empty((4,))
    assert a.copyto(b) is b
    assert b.asnumpy().tolist() == [0, 1, 2, 3]
    b[:] = np.ones(4, "f")
    assert a.copyfrom(b).numpy().tolist() == [1] * 4
    assert a.copyto(mblob.cpu(0)).numpy().tolist() == [1] * 4


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "bfloat16", "float8_e4m3fn"])
@pytest.mark.parametrize(
    "source", [[[1, 0], [0, 1]], np.eye(2), np.eye(2, dtype=int), np.eye(2) > 0]
)
def test_arrays_of_numpy_and_lists_are_converted(source: Any, dtype: Any) -> None:
    tensor = mblob.empty((2, 2), dtype)
    tensor[:] = source
    np.testing.assert_array_equal(tensor.numpy().astype("f"), np.eye(2))


@pytest.mark.parametrize(
    "source",
    [mblob.array(np.zeros((4, 1))), np.zeros(5), np.zeros((2, 2)), [0.0]],
    ids=["tensor", "size", "shape", "list"],
)
def test_copying_what_does_not_fit_says_both_sides(source: Any) -> None:
    with pytest.raises(ValueError, match=r"expected float32 of shape \(4,\), found float64 of sh"):
        mblob.empty((4,)).copyfrom(source)


AS_SOURCES = {
    "numpy": lambda a: a,
    "tensor": mblob.array,
    "list": lambda a: a.tolist(),
    "memoryview": memoryview,
    "dlpack": lambda a: ByDlpack(a),
    "capsule": lambda a: a.__dlpack__(),
}


class ByDlpack:
    """An array that has the method of DLPack, and no buffer."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)


@pytest.mark.parametrize("kind", AS_SOURCES)
def test_a_source_of_any_kind_is_converted_by_one_rule(kind: str) -> None:
    make = AS_SOURCES[kind]
    rounded = mblob.empty((2,)).copyfrom(make(np.array([0.1, 1e-50])))
    assert rounded.numpy().tolist() == [np.float32(0.1), 0]
    assert mblob.empty((2,), "int32").copyfrom(make(np.array([3.0, -1]))).numpy().tolist() == [
        3,
        -1,
    ]
    whole = mblob.empty((2,), "int32")
    with pytest.raises(
        ValueError, match=r"copyfrom: element \[1\] is 3\.7, which int32 does not have; convert the"
    ):
        whole.copyfrom(make(np.array([3.0, 3.7])))
    with pytest.raises(ValueError, match=r"element \[0\] is 300, which int8 does not have"):
        mblob.empty((2,), "int8")[:] = make(np.array([300, 1]))


@pytest.mark.parametrize(
    ("dtype", "good", "bad"),
    [
        ("int8", [-128.0, 127.0], [128.0, -129.0, 0.5, np.nan, np.inf, -np.inf]),
        ("uint8", np.array([0, 255]), np.array([-1, 256])),
        ("uint64", np.array([0, 2**63 - 1]), np.array([-1, -(2**63)])),
        ("int64", np.array([2**63 - 1, 0], "uint64"), np.array([2**63, 2**64 - 1], "uint64")),
        ("int64", [-(2.0**63), 2.0**62], [2.0**63, -(2.0**64)]),
        ("uint64", [2.0**63, 0.0], [2.0**64, -1.0]),
        ("bool", np.array([0, 1]), np.array([2, -1])),
        ("bool", [0.0, 1.0], [0.5, 2.0]),
        ("int32", np.array([1 + 0j, 2]), np.array([1 + 1j, 0.5 + 0j])),
        ("float32", np.array([1 + 0j, 2.5]), np.array([1 + 1j])),
        ("int16", np.array([1, 2], "f2"), np.array([0.5, np.inf], "f2")),
    ],
)
def test_a_conversion_keeps_every_value_or_is_refused(dtype: str, good: Any, bad: Any) -> None:
    good, bad = np.asarray(good), np.asarray(bad)
    found = mblob.empty((2,), dtype).copyfrom(good).numpy()
    assert [int(v) if dtype != "float32" else float(v) for v in found] == [v for v in good]
    for i, value in enumerate(bad):
        with pytest.raises(
            ValueError, match=r"element \[\] is|the element is .*, which .* does not"
        ):
            mblob.empty((), dtype).copyfrom(bad[i : i + 1].reshape(()))
        with pytest.raises(ValueError, match=r"element \[2\] is"):
            mblob.empty((3,), dtype).copyfrom(np.array([0, 0, value], bad.dtype))
    assert mblob.empty((0,), dtype).copyfrom(bad[:0]).shape == (0,)


def test_types_that_numpy_lacks_are_not_converted() -> None:
    for target, source in (("int4", np.zeros(2)), ("float32", mblob.empty((2,), "int4"))):
        with pytest.raises(
            ValueError, match=r"copyfrom: expected .*, which mblob does not convert"
        ):
            mblob.empty((2,), target).copyfrom(source)
    assert mblob.empty((2,), "int4").copyfrom(mblob.empty((2,), "int4")).dtype == "int4"


@pytest.mark.parametrize("face", ["array", "copyfrom", "setitem"])
def test_a_capsule_is_an_array_once(face: str) -> None:
    use: Any = {
        "array": mblob.array,
        "copyfrom": lambda c: mblob.empty((2,)).copyfrom(c),
        "setitem": lambda c: mblob.empty((2,)).__setitem__(slice(None), c),
    }[face]
    capsule = np.ones(2, "f").__dlpack__()
    use(capsule)
    with pytest.raises(
        TypeError, match=r"source: expected a DLPack capsule nobody has used.*; ask"
    ):
        use(capsule)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: mblob.empty((2,), "float33x"), ValueError, "not a data type"),
        (lambda: mblob.empty((1,), "float33"), ValueError, "'float33' is not a data type"),
        (
            lambda: mblob.empty((-1,)),
            ValueError,
            r"shape\[0\]: expected 0 to 9223372036854775807, found -1",
        ),
        (
            lambda: mblob.empty((1 << 40, 1 << 40)),
            ValueError,
            "more bytes than an address can count",
        ),
        (lambda: mblob.empty((1 << 60,), "int8"), MemoryError, "no memory"),
        (lambda: mblob.empty((1,) * 65), ValueError, "65 dimensions"),
        (
            lambda: mblob.empty((2,), "float32", mblob.device("vulkan")),
            mblob.IncompatibleError,
            r"device type 7 \(vulkan\)",
        ),
        (
            lambda: mblob.array(np.zeros(2, "f"), mblob.device("metal")),
            mblob.IncompatibleError,
            r"device type 8 \(metal\)",
        ),
        (lambda: mblob.array(np.zeros(2, ">f4")), TypeError, "native"),
        (lambda: mblob.array(object()), TypeError, "expected an array, found object"),
        (lambda: mblob.from_dlpack(3), TypeError, "__dlpack__, found int"),
        (lambda: mblob.empty((2,)).__setitem__(0, 1), TypeError, r"takes `t\[:\] = array`"),
    ],
)
def test_what_cannot_be_a_tensor_says_why(make: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        make()
    assert "\n" not in str(caught.value)


MASKED = np.ma.masked_array(np.arange(4, dtype="f"), mask=[1, 0, 0, 0])
USES: dict[str, Callable[[mblob.Module], object]] = {
    "call": lambda lib: lib["vadd"](MASKED, MASKED, MASKED, 4),
    "bind": lambda lib: lib["vadd"].bind(MASKED, MASKED, MASKED, 4),
    "array": lambda lib: mblob.array(MASKED),
    "copyfrom": lambda lib: mblob.empty((4,)).copyfrom(MASKED),
    "from_dlpack": lambda lib: mblob.from_dlpack(MASKED),
    "params": lambda lib: mblob.save_param_dict({"a": MASKED}),
    "payload": lambda lib: mblob.blob_module("raw", MASKED),
    "subclass": lambda lib: mblob.array(MASKED.view(type("Own", (np.ma.MaskedArray,), {}))),
}


@pytest.mark.parametrize("use", USES)
def test_a_masked_array_does_not_lose_its_mask_without_a_word(kernels: Any, use: str) -> None:
    with pytest.raises(
        (TypeError, mblob.MblobError), match=r"a masked array would lose its mask; pass x\.filled"
    ):
        USES[use](mblob.load_module(kernels))


def test_bfloat16_is_seen_as_bits() -> None:
    tensor = mblob.empty((3,), "bfloat16")
    with pytest.raises(
        BufferError, match=r'bfloat16 have no buffer format; use Tensor.view\("uint16"\)'
    ):
        memoryview(tensor)
    tensor.view("uint16").numpy()[:] = 0x3F80
    assert tensor.view("uint16").numpy().tolist() == [0x3F80] * 3
    with pytest.raises(ValueError, match="not as large"):
        tensor.view("float32")


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"])
def test_types_of_ml_dtypes_go_to_numpy_and_back(dtype: str) -> None:
    source = np.array([0.5, 1, 2, 4]).astype(getattr(ml_dtypes, dtype))
    tensor = mblob.array(source)
    assert tensor.dtype == dtype
    assert tensor.numpy().dtype == source.dtype
    assert tensor.numpy().astype("f8").tolist() == [0.5, 1, 2, 4]


TAKE_ARRAYS = {
    "array": mblob.array,
    "copyfrom": lambda array: mblob.empty((3,)).copyfrom(array),
    "save_param_dict": lambda array: mblob.save_param_dict({"w": array}),
    "const_loader_module": lambda array: mblob.const_loader_module({"w": array}, {"f": ["w"]}),
    "a call": lambda array: mblob.get_global_func("runtime.Array")(array),
}


@pytest.mark.parametrize("face", TAKE_ARRAYS)
@pytest.mark.parametrize(
    "dtype", ["int4", "uint4", "float4_e2m1fn", "datetime64[s]", "<U3", ">i4", "object"]
)
def test_an_array_of_other_elements_is_refused_by_its_dtype(face: str, dtype: str) -> None:
    source = np.zeros(3, getattr(ml_dtypes, dtype, dtype))
    expected = "expected an array of bool, int8 to int64, uint8 to uint64, float16 to float64.* in native byte order"
    found = re.escape(str(source.dtype))
    text = f"{expected}, found {found}; convert it with astype"
    with pytest.raises(TypeError, match=text) as caught:
        TAKE_ARRAYS[face](source)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e8m0fnu"])
def test_types_of_ml_dtypes_are_weights_of_numpy_and_of_tensors(dtype: str) -> None:
    source = np.array([0.5, 1, 2, 4]).astype(getattr(ml_dtypes, dtype))
    saved = mblob.save_param_dict({"w": source})
    assert mblob.load_param_dict(saved)["w"].numpy().tobytes() == source.tobytes()
    assert mblob.load_param_dict(saved)["w"].dtype == dtype
    assert mblob.save_param_dict({"w": mblob.array(source)}) == saved
    assert mblob.save_param_dict({"w": np.repeat(source, 2)[::2]}) == saved


def test_numpy_takes_types_without_a_buffer_format() -> None:
    """Where there is no buffer, numpy would make one object of the tensor."""
    tensor = mblob.array(np.array([0.5, 1, 2], ml_dtypes.bfloat16))
    found = np.asarray(tensor)
    assert (found.dtype, found.tolist()) == (ml_dtypes.bfloat16, [0.5, 1, 2])
    found[0] = 4
    assert np.asarray(tensor, "float32").tolist() == [4, 1, 2]
    copied = np.array(tensor)
    copied[0] = 8
    assert found.tolist() == [4, 1, 2]
    with pytest.raises(ValueError, match="copy=False forbids"):
        np.asarray(tensor, "float32", copy=False)


def test_without_ml_dtypes_the_error_names_the_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(TypeError, match=r'no float8_e5m2; install ml_dtypes, .* t.view\("uint8"\)'):
        mblob.empty((3,), "float8_e5m2").numpy()


# -- DLPack ----------------------------------------------------------------------------------------


def test_numpy_takes_a_tensor_through_dlpack() -> None:
    tensor = mblob.array(np.arange(6, dtype="f").reshape(2, 3))
    view = np.from_dlpack(tensor)
    assert view.ctypes.data == tensor.address
    gone = weakref.ref(tensor)
    del tensor
    gc.collect()
    assert view.sum() == 15
    del view
    gc.collect()
    assert gone() is None


def test_bool_goes_both_ways_through_dlpack() -> None:
    tensor = mblob.from_dlpack(np.array([True, False]))
    assert tensor.dtype == "bool"
    assert np.from_dlpack(tensor).tolist() == [True, False]


def test_a_tensor_takes_an_array_through_dlpack_and_keeps_it() -> None:
    source = np.arange(4, dtype="i4")
    address = source.ctypes.data
    tensor = mblob.from_dlpack(source)
    del source
    gc.collect()
    assert (tensor.address, tensor.numpy().tolist()) == (address, [0, 1, 2, 3])


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (None, "dltensor"),
        ((0, 8), "dltensor"),
        ((1, 0), "dltensor_versioned"),
        ((2, 0), "dltensor_versioned"),
    ],
)
def test_the_consumer_chooses_the_kind_of_capsule(version: Any, name: str) -> None:
    capsule = mblob.empty((2,)).__dlpack__(max_version=version)
    assert f'"{name}"' in repr(capsule)


def test_a_capsule_nobody_takes_frees_its_tensor() -> None:
    for version in (None, (1, 0)):
        tensor = mblob.empty((2,))
        gone = weakref.ref(tensor)
        capsule = tensor.__dlpack__(max_version=version)
        del tensor
        gc.collect()
        assert gone() is not None
        del capsule
        gc.collect()
        assert gone() is None


def test_a_capsule_is_taken_once() -> None:
    capsule = mblob.empty((2,)).__dlpack__()
    mblob.from_dlpack(capsule)
    with pytest.raises(TypeError, match="nobody has used"):
        mblob.from_dlpack(capsule)


def test_a_read_only_tensor_is_told_as_such_or_refused() -> None:
    source = np.arange(3, dtype="f")
    source.flags.writeable = False
    tensor = mblob.from_dlpack(mblob.load_param_dict(mblob.save_param_dict({"w": source}))["w"])
    assert tensor.readonly
    with pytest.raises(BufferError, match="read-only"):
        tensor.__dlpack__()
    copy = mblob.from_dlpack(tensor.__dlpack__(copy=True))
    assert not copy.readonly
    assert copy.address != tensor.address


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"stream": 5}, BufferError),
        ({"dl_device": (2, 0)}, BufferError),
        ({"max_version": 1}, TypeError),
        ({"x": 1}, TypeError),
    ],
)
def test_dlpack_options_that_cannot_be_met_are_refused(
    options: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        mblob.empty((2,)).__dlpack__(**options)


class Producer:
    """Something with `__dlpack__` and no buffer, from before DLPack 1.0: it knows no
    max_version."""

    def __init__(self, tensor: mblob.Tensor) -> None:
        self.tensor = tensor

    def __dlpack__(self) -> Any:
        return self.tensor.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()


def test_a_kernel_takes_anything_with_dlpack(kernels: Any) -> None:
    lib = mblob.load_module(kernels)
    out = mblob.array(np.zeros(3, "f"))
    lib["vadd"](Producer(mblob.array(np.ones(3, "f"))), mblob.array(np.ones(3, "f")), Producer(out))
    assert out.numpy().tolist() == [2, 2, 2]


def test_a_tensor_that_is_no_argument_any_more_is_freed(kernels: Any) -> None:
    lib = mblob.load_module(kernels)
    tensor = mblob.array(np.ones(3, "f"))
    gone = weakref.ref(tensor)
    lib["describe"](Producer(tensor))
    del tensor
    gc.collect()
    assert gone() is None


def test_parameter_dictionaries_go_both_ways() -> None:
    params = {"w": np.arange(6, dtype="f").reshape(2, 3), "b": mblob.array(np.array(3, "i8"))}
    found = mblob.load_param_dict(mblob.save_param_dict(params))
    assert sorted(found) == ["b", "w"]
    np.testing.assert_array_equal(found["w"].numpy(), params["w"])
    assert found["b"].numpy() == 3
    with pytest.raises(mblob.FormatError, match="magic"):
        mblob.load_param_dict(b"nothing of the kind")


@pytest.mark.parametrize(
    "statement",
    [
        "mblob.empty(2).numpy()",
        "mblob.array([1, 2])",
        "from mblob.loader import vm_common; vm_common.scalar(1, 'int32', 'x', 'main')",
    ],
)
def test_what_needs_numpy_says_so_where_it_is_missing(statement: str) -> None:
    code = f"import sys; sys.modules['numpy'] = None; import mblob; {statement}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].startswith("ImportError: ")
    assert done.stderr.splitlines()[-1].endswith("needs numpy: pip install 'mblob[numpy]'")
    assert "During handling" not in done.stderr


class Foreign:
    """An array of a framework: DLPack, and a dtype that is a text."""

    dtype = "bfloat16"

    def __dlpack__(self, **_: object) -> object:
        return mblob.empty((2,), "bfloat16").__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


@pytest.mark.parametrize(
    "use", [mblob.array, lambda v: mblob.save_param_dict({"a": v})], ids=["array", "weights"]
)
def test_a_buffer_that_was_closed_says_so_wherever_an_array_is_expected(
    use: Callable[[Any], object],
) -> None:
    closed, released = mmap.mmap(-1, 16), memoryview(b"ab")
    closed.close(), released.release()
    with pytest.raises(TypeError, match=r"mmap gives no numbers: .*closed"):
        use(closed)
    with pytest.raises(TypeError, match=r"memoryview gives no numbers: .*released"):
        use(released)


def test_an_array_without_view_is_no_attribute_error() -> None:
    assert mblob.array(Foreign()).dtype == "bfloat16"
    saved = mblob.save_param_dict({"a": Foreign()})
    assert mblob.load_param_dict(saved)["a"].dtype == "bfloat16"


@pytest.mark.parametrize(("shape", "dtype"), [((2, 3), "float32"), ((0, 3), "int64"), ((), "bool")])
def test_every_byte_of_a_damaged_parameter_dictionary_gives_an_error_or_an_array(
    shape: tuple[int, ...], dtype: str
) -> None:
    """Also elements that no type has, and shapes of no elements whose addresses overflow."""
    whole = mblob.save_param_dict({"a": np.zeros(shape, dtype)})
    for at in range(len(whole)):
        for value in (0, 1, 3, 7, 127, 255):
            damaged = whole[:at] + bytes([value]) + whole[at + 1 :]
            with contextlib.suppress(mblob.FormatError):
                for tensor in mblob.load_param_dict(damaged).values():
                    with contextlib.suppress(mblob.MblobError):  # "elements of type int3 ..."
                        tensor.numpy()


def test_an_array_without_elements_has_dimensions_that_numpy_can_have(tmp_path: Path) -> None:
    head = b'{"a":{"dtype":"F32","shape":[0,1099511627776,1099511627776],"data_offsets":[0,0]}}'
    with pytest.raises(mblob.FormatError, match="no addresses"):
        mblob.safetensors_module(len(head).to_bytes(8, "little") + head)
    text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 1099511627776, 1099511627776)}"
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text)
    with pytest.raises(mblob.FormatError, match="no addresses"):
        mblob.safetensors_module(tmp_path / "x.npy")
