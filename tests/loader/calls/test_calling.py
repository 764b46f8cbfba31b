"""Calling functions: what goes in, what comes out, and what each wrong argument says."""

from __future__ import annotations

import array
import ctypes
import mmap
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.format.functions_table import Row
from mblob.loader.handle import Handle


def shown(value: object) -> str:
    """A parameter in the name of a test: the same in every process, so without addresses."""
    return re.sub("0x[0-9a-f]+", "0x", str(value))[:30]


def closed() -> mmap.mmap:
    memory = mmap.mmap(-1, 16)
    memory.close()
    return memory


@pytest.fixture(scope="module")
def lib(kernels: Path) -> mblob.Module:
    return mblob.load_module(kernels)


def floats(n: int = 8) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.arange(n, dtype="f"), np.ones(n, "f"), np.zeros(n, "f")


def test_a_kernel_adds_two_numpy_arrays_in_place(lib: mblob.Module) -> None:
    a, b, c = floats()
    assert lib["vadd"](a, b, c) is None
    np.testing.assert_array_equal(c, a + b)


@pytest.mark.parametrize(
    ("argument", "seen"),
    [
        (5, "0:5"),
        (-(2**63), "0:-9223372036854775808"),
        (True, "0:1"),
        (2.5, "2:2.5"),
        (np.float32(2.5), "2:2.5"),
        (np.float64(2.5), "2:2.5"),
        (np.int16(-3), "0:-3"),
        (np.uint8(200), "0:200"),
        (np.bool_(True), "0:1"),
        (None, "4"),
        ("tätext", "11:tätext"),
        (b"a\0b", "12:3"),
        (bytearray(b"abcd"), "12:4"),
        (ctypes.c_void_p(0x10), "3:10"),
        (mblob.cpu(2), "6:1.2"),
        (mblob.opencl(0), "6:4.0"),
        (memoryview(b"abc"), "7:1.8.1[3]"),
        (array.array("d", [1, 2]), "7:2.64.1[2]"),
        ((ctypes.c_int16 * 3)(), "7:0.16.1[3]"),
        (np.zeros((2, 3), "f"), "7:2.32.1[2,3]"),
        (np.zeros((), "f"), "7:2.32.1[]"),
        (np.zeros((0, 3), "i8"), "7:0.64.1[0,3]"),
        (np.zeros(2, "e"), "7:2.16.1[2]"),
        (np.zeros(2, "?"), "7:1.1.1[2]"),
        (np.zeros(2, "c8"), "7:5.64.1[2]"),
        (np.zeros(2, "c16"), "7:5.128.1[2]"),
        (np.zeros(2, "u4"), "7:1.32.1[2]"),
        (np.zeros(2, "b"), "7:0.8.1[2]"),
    ],
    ids=shown,
)
def test_each_kind_of_argument_arrives_as_its_type_code(
    lib: mblob.Module, argument: object, seen: str
) -> None:
    assert lib["describe"](argument) == seen


def test_many_arguments_pass_through_the_heap(lib: mblob.Module) -> None:
    assert lib["describe"](*range(40)) == " ".join(f"0:{i}" for i in range(40))


def test_modules_and_functions_are_arguments(lib: mblob.Module) -> None:
    assert lib["describe"](lib, lib["vadd"], print) == "9 10 10"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("give_int", -7),
        ("give_float", 1.5),
        ("give_bool", True),
        ("give_handle", 0x1234),
        ("give_nothing", None),
        ("give_bytes", b"a\0b"),
    ],
)
def test_each_kind_of_result_becomes_its_python_object(
    lib: mblob.Module, name: str, value: object
) -> None:
    result = lib[name]()
    assert result == value
    assert type(result) is (Handle if name == "give_handle" else type(value))


def test_an_object_that_python_has_no_word_for_is_an_error(lib: mblob.Module) -> None:
    with pytest.raises(TypeError, match="is no object of this runtime"):
        lib["give_object"]()


def test_an_error_of_the_kernel_arrives_with_its_own_text(lib: mblob.Module) -> None:
    with pytest.raises(mblob.KernelError) as caught:
        lib["broken"]()
    assert str(caught.value) == "it is broken: 100 % s"
    assert caught.value.exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (floats()[:2], "num_args"),
        ((*floats()[:2], 1), "Expect arg"),
        ((*floats()[:2], np.zeros(8)), "dtype"),
        ((*floats()[:2], np.zeros((2, 4), "f")), "ndim"),
        ((*floats()[:2], np.zeros(9, "f")), "constraint"),
    ],
    ids=["count", "kind", "dtype", "ndim", "shape"],
)
def test_wrong_arguments_that_the_kernel_finds_count_as_wrong_use(
    lib: mblob.Module, arguments: tuple[object, ...], text: str
) -> None:
    with pytest.raises(mblob.KernelError, match=text) as caught:
        lib["vadd"](*arguments)
    assert caught.value.exit_code == 2


# what an error about the dtype of an array is
DTYPE = mblob.errors.also(mblob.ArgumentError, TypeError, ValueError)


@pytest.mark.parametrize(
    ("argument", "error", "text"),
    [
        (np.zeros((4, 4), "f")[:, ::2], ValueError, "not contiguous; pass numpy.ascontiguousarray"),
        (np.zeros((4, 4), "f").T, ValueError, "not contiguous"),
        (np.zeros(4, ">f4"), DTYPE, "in native byte order, found >f4; convert it with astype$"),
        (np.zeros(4, [("a", "f"), ("b", "i")]), DTYPE, "found .*'a'"),
        (np.array([object()]), DTYPE, "found object"),
        (
            np.zeros(4, "M8[s]"),
            DTYPE,
            r"found datetime64\[s\]; convert it with astype",
        ),
        (np.zeros(4, "U3"), DTYPE, "found <U3"),
        (np.zeros(2, "g"), DTYPE, "found float128; convert it with astype$"),
        ([1, 2], TypeError, "found list; make it an array"),
        (object(), TypeError, "found object"),
        (closed(), TypeError, "mmap gives no numbers: mmap closed or invalid; "),
        (2**63, OverflowError, r"expected an int from -2\*\*63 to 2\*\*63 - 1"),
        ("a\0b", ValueError, "NUL"),
        (np.complex64(1), TypeError, "complex"),
    ],
    ids=shown,
)
def test_an_argument_that_cannot_be_passed_names_itself_and_the_remedy(
    lib: mblob.Module, argument: object, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text) as caught:
        lib["describe"](1, argument)
    assert str(caught.value).startswith("describe: argument 1: ")
    assert "\n" not in str(caught.value)


def test_keywords_are_refused(lib: mblob.Module) -> None:
    with pytest.raises(TypeError, match="by position"):
        lib["describe"](x=1)


def test_a_missing_function_names_what_exists_and_what_was_meant(lib: mblob.Module) -> None:
    with pytest.raises(
        AttributeError, match=r"no function 'vad'.*it has: .*did you mean 'vadd'"
    ) as caught:
        lib["vad"]
    assert "\n" not in str(caught.value)
    assert not lib.implements_function("vad")
    assert lib.implements_function("vadd")


def test_a_function_is_looked_up_by_a_str(lib: mblob.Module) -> None:
    for look in (lib.__getitem__, lib.get_function, lib.implements_function):
        with pytest.raises(TypeError, match="expected the name of a function, a str, found int 3"):
            look(3)  # type: ignore[arg-type]


def test_a_plain_c_function_is_called_through_ctypes(lib: mblob.Module) -> None:
    add = lib.symbol("plain_add", ctypes.c_int, [ctypes.c_int, ctypes.c_int])
    assert add(2, 3) == 5
    with pytest.raises(AttributeError, match="no C symbol 'plain_ad'"):
        lib.symbol("plain_ad")


def test_the_gil_is_free_during_a_call(lib: mblob.Module) -> None:
    """Each call ends when all four have begun."""
    met = []
    threads = [threading.Thread(target=lambda: met.append(lib["meet"](4))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert met == [1] * 4


# -- what the library recorded about a function ----------------------------------------------------


@pytest.fixture(scope="module")
def recorded(build: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> mblob.Module:
    rows = [
        Row("vadd", "vadd", "packed", 0, "const float *, const float *, float *"),
        Row("describe", "describe", "packed", 0, "const double *, int64_t, float"),
        Row(
            "shapes", "describe", "packed", 0, "const float[n][4], uint8_t *, unsigned long long *"
        ),
        Row("unknown", "describe", "packed", 0, "?"),
        Row("none", "describe", "packed", 0, "void"),
        Row("unsigned", "describe", "packed", 0, "uint64_t"),
        Row("real", "describe", "packed", 0, "double"),
        Row("plain_add", "plain_add", "plain", 0, "int, int"),
    ]
    return mblob.load_module(build(tmp_path_factory.mktemp("table") / "table.so", table=rows))


def test_a_recorded_signature_is_shown(recorded: mblob.Module) -> None:
    assert recorded["vadd"].signature == "const float *, const float *, float *"


def test_a_wrong_count_is_found_before_the_call(recorded: mblob.Module) -> None:
    a, b, _ = floats()
    with pytest.raises(TypeError, match=r"vadd: expected 3 arguments \(const float \*.*found 2"):
        recorded["vadd"](a, b)
    with pytest.raises(TypeError, match=r"none: expected 0 arguments \(void\), found 1$"):
        recorded["none"](1)
    with pytest.raises(TypeError, match=r"real: expected 1 argument \(double\), found 0$"):
        recorded["real"]()


def test_a_wrong_dtype_is_found_before_the_call(recorded: mblob.Module) -> None:
    a, b, _ = floats()
    with pytest.raises(
        TypeError, match=r"vadd: argument 2: expected an array of float32, found float64; .*astype"
    ):
        recorded["vadd"](a, b, np.zeros(8))


def test_a_read_only_output_is_refused_and_a_read_only_input_is_fine(
    recorded: mblob.Module,
) -> None:
    a, b, c = floats()
    a.flags.writeable = False
    recorded["vadd"](a, b, c)
    c.flags.writeable = False
    with pytest.raises(ValueError, match="argument 2: the array is read-only"):
        recorded["vadd"](a, b, c)


def test_numbers_are_converted_to_what_the_signature_says(recorded: mblob.Module) -> None:
    assert recorded["describe"](np.zeros(1), 3, 4) == "7:2.64.1[1] 0:3 2:4"
    with pytest.raises(TypeError, match="argument 1: expected int, found float"):
        recorded["describe"](np.zeros(1), 3.0, 4)
    one = "; pass an array with one element"
    with pytest.raises(TypeError, match="argument 0: expected an array, found the number 7" + one):
        recorded["describe"](7, 3, 4)


@pytest.mark.parametrize(
    ("value", "bits"), [(0, 0), (2**63 - 1, 2**63 - 1), (2**63, -(2**63)), (2**64 - 1, -1)]
)
def test_an_unsigned_parameter_takes_all_of_its_64_bits(
    recorded: mblob.Module, value: int, bits: int
) -> None:
    assert recorded["unsigned"](value) == f"0:{bits}"
    assert recorded["unsigned"](np.uint64(value)) == f"0:{bits}"


@pytest.mark.parametrize("value", [-1, -(2**70), 2**64])
def test_an_int_outside_of_an_unsigned_parameter_says_what_is_allowed(
    recorded: mblob.Module, value: int
) -> None:
    with pytest.raises(
        OverflowError, match=r"unsigned: argument 0: expected an int from 0 to 2\*\*64 - 1"
    ):
        recorded["unsigned"](value)


def test_an_int_that_no_float_holds_is_refused(recorded: mblob.Module) -> None:
    with pytest.raises(OverflowError, match="real: argument 0: the int is too large for a float"):
        recorded["real"](10**400)


@pytest.mark.parametrize(
    ("name", "value", "seen"),
    [
        ("unsigned", np.array(7), "0:7"),
        ("unsigned", np.array(2**63, "u8"), "0:-9223372036854775808"),
        ("real", np.array(1.5, "f"), "2:1.5"),
        ("real", np.array(3), "2:3"),
        ("real", np.float16(1.5), "2:1.5"),
        ("unsigned", np.uint8(7), "0:7"),
        ("unsigned", np.bool_(True), "0:1"),
    ],
    ids=str,
)
def test_scalars_and_arrays_without_dimensions_are_numbers_where_a_number_is_recorded(
    recorded: mblob.Module, name: str, value: object, seen: str
) -> None:
    assert recorded[name](value) == seen


@pytest.mark.parametrize(
    "value", [np.array(1.5), np.float32(1.5), np.zeros(1, "i8"), ctypes.c_int64(1)], ids=repr
)
def test_what_is_no_integer_is_refused_where_one_is_recorded(
    recorded: mblob.Module, value: object
) -> None:
    with pytest.raises(TypeError, match=r"unsigned: argument 0: expected int, found"):
        recorded["unsigned"](value)


def test_array_parameters_are_pointers_and_bool_is_a_byte(recorded: mblob.Module) -> None:
    text = recorded["shapes"](np.zeros((2, 4), "f"), np.zeros(3, "?"), np.zeros(1, "u8"))
    assert text == "7:2.32.1[2,4] 7:1.1.1[3] 7:1.64.1[1]"


def test_an_unknown_signature_checks_nothing(recorded: mblob.Module) -> None:
    assert recorded["unknown"](1, None) == "0:1 4"


def test_a_plain_function_is_never_called_as_packed(recorded: mblob.Module) -> None:
    with pytest.raises(AttributeError, match="plain C function"):
        recorded["plain_add"]
    assert recorded.symbol("plain_add", ctypes.c_int)(40, 2) == 42


class Producer:
    """Something with __dlpack__ that is not what it should be."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule


def test_a_wrong_dlpack_result_is_named(lib: mblob.Module) -> None:
    with pytest.raises(
        TypeError, match=r"describe: argument 1: expected a DLPack capsule .*, found 5"
    ):
        lib["describe"](1, Producer(5))


@pytest.mark.parametrize(("ndim", "dimension"), [(-1, 1), (65, 1), (1, -1), (2, 2**62)])
def test_an_impossible_dlpack_shape_is_refused(
    lib: mblob.Module, ndim: int, dimension: int
) -> None:
    tensor = mblob.empty((2, 2))
    capsule = tensor.__dlpack__()
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    address = get_pointer(capsule, b"dltensor")
    shape = (ctypes.c_int64 * 2)(dimension, dimension)
    # DLTensor: data, device, ndim, dtype, shape
    ctypes.c_int32.from_address(address + 16).value = ndim
    ctypes.c_void_p.from_address(address + 24).value = ctypes.addressof(shape)
    with pytest.raises(ValueError, match="describe: argument 0: tensor: "):
        lib["describe"](Producer(capsule))


# runs with the interpreter's lock, as deleters of frameworks do
DELETER = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)


class Foreign:
    """A capsule whose tensor is deleted by Python code.

    Attributes:
        capsule: DLManagedTensor (tensor of 48 bytes, context, deleter), or with a version (version,
            context, deleter, flags, tensor).
        address: of its DLTensor.
        deleted: what the deleter was called with.
    """

    def __init__(self, version: Any) -> None:
        self.capsule = mblob.empty((2, 2)).__dlpack__(max_version=version)
        get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
        get_pointer.restype, get_pointer.argtypes = (
            ctypes.c_void_p,
            (ctypes.py_object, ctypes.c_char_p),
        )
        self.managed = get_pointer(self.capsule, b"dltensor_versioned" if version else b"dltensor")
        self.address = self.managed + (32 if version else 0)
        self.deleted: list[int] = []
        self._deleter = DELETER(self._delete)
        place = ctypes.c_void_p.from_address(self.managed + (16 if version else 56))
        place.value = ctypes.cast(self._deleter, ctypes.c_void_p).value

    def _delete(self, pointer: int) -> None:
        try:
            raise KeyError("an error of the deleter's own")
        except KeyError:
            self.deleted.append(pointer)

    def harm(self, what: str) -> None:
        """Make it one that is refused."""
        kind, place, value = HARM[what]
        kind.from_address(self.address + place).value = value


# Of its DLTensor: data, device, ndim, dtype, shape, strides, byte_offset.
HARM = {
    "device": (ctypes.c_int32, 8, 7),  # of Vulkan, which has no addresses
    "dimensions": (ctypes.c_int32, 16, -1), "least": (ctypes.c_int32, 16, -(2**31)), "many": (ctypes.c_int32, 16, 65),
    "shape": (ctypes.c_uint64, 24, 0), "data": (ctypes.c_uint64, 0, 0), "offset": (ctypes.c_uint64, 40, 2**63),
    # flags stand before the tensor
    "before": (ctypes.c_uint64, 40, 2**64 - 4), "padded": (ctypes.c_uint64, -8, 4),
}  # fmt: skip
REFUSED = {
    "least": (ValueError, "tensor: -2147483648 dimensions, expected 0 to 64"),
    "many": (ValueError, "tensor: 65 dimensions, expected 0 to 64"),
    "shape": (ValueError, "tensor: shape is NULL, expected 2 extents"),
    "data": (ValueError, "tensor: data is NULL, expected 16 bytes"),
    "offset": (
        ValueError,
        "tensor: byte_offset is 9223372036854775808, more than memory has addresses",
    ),
    "before": (ValueError, "tensor: byte_offset is 18446744073709551612"),
    "device": (BufferError, "DLPack: memory of device type 7 has no addresses"),
    "dimensions": (ValueError, "tensor: -1 dimensions, expected 0 to 64"),
}


@pytest.mark.parametrize("version", [None, (1, 0)])
@pytest.mark.parametrize("harm", REFUSED)
def test_a_deleter_that_runs_python_leaves_the_error_alone(
    lib: mblob.Module, version: Any, harm: str
) -> None:
    tensor = Foreign(version)
    tensor.harm(harm)
    error, words = REFUSED[harm]
    with pytest.raises(error, match=f"describe: argument 0: {words}"):
        lib["describe"](Producer(tensor.capsule))
    assert tensor.deleted == [tensor.managed]


@pytest.mark.parametrize("version", [None, (1, 0)])
@pytest.mark.parametrize("harm", REFUSED)
def test_a_refused_tensor_that_is_imported_is_deleted_and_named(version: Any, harm: str) -> None:
    tensor = Foreign(version)
    tensor.harm(harm)
    error, words = REFUSED[harm]
    with pytest.raises(error, match=words):
        mblob.from_dlpack(tensor.capsule)
    assert tensor.deleted == [tensor.managed]


@pytest.mark.parametrize("take", ["imported", "called"])
def test_elements_that_are_padded_to_bytes_are_refused(lib: mblob.Module, take: str) -> None:
    tensor = Foreign((1, 0))
    tensor.harm("padded")
    with pytest.raises(
        BufferError, match=r"each element is padded to whole bytes \(flag 4\), expected packed"
    ):
        mblob.from_dlpack(tensor.capsule) if take == "imported" else lib["describe"](
            Producer(tensor.capsule)
        )
    assert tensor.deleted == [tensor.managed]


def test_failures_that_decide_what_python_does_have_a_code_and_the_text_alone_is_shown(
    lib: mblob.Module,
) -> None:
    from mblob.native.runtime import ffi
    from mblob.native.runtime import lib as runtime

    def code_and_text(name: str, *arguments: object) -> tuple[str, str]:
        with pytest.raises(mblob.KernelError):
            lib[name](*arguments)
        error = runtime.mblob_last_error_info()
        return ffi.string(error.code).decode(), ffi.string(error.message).decode()

    code, text = code_and_text("vadd", *floats()[:2])
    assert code == "kernel_arguments"
    assert code not in text
    assert code_and_text("broken") == ("", "it is broken: 100 % s")
