"""Calls in loops: numpy arrays that are read directly, and functions with their arguments bound."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import threading
import tracemalloc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob


@pytest.fixture(scope="module")
def lib(kernels: Path) -> mblob.Module:
    return mblob.load_module(kernels)


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> mblob.Module:
    """Kernels with a prototype: types are checked, and the element's own alignment is enough."""
    path = tmp_path_factory.mktemp("bind") / "checked.so"
    source = """
#include <stdint.h>
void add4(const float *a, const float *b, float *c) { for (int i = 0; i < 4; ++i) c[i] = a[i] + b[i]; }
void sum(const double *a, int64_t n, double *out) { *out = 0; while (n--) *out += a[n]; }
void last(int64_t n, float *a) { a[n - 1] = 1; }
void parts(const float *a, const float *b, int n) { (void)a; (void)b; (void)n; }
"""
    prototypes = [
        "void add4(const float a[4], const float b[4], float c[4])",
        "void sum(const double *a, int64_t n, double *out)",
        "void last(int64_t n, float a[static n])",
        "void parts(const float a[n * 2], const float b[static n - 1], int n)",
    ]
    mblob.csource_module(source, functions=prototypes).export_library(path)
    return mblob.load_module(path)


def floats() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.arange(4, dtype="f"), np.ones(4, "f"), np.zeros(4, "f")


def misaligned(values: list[float]) -> np.ndarray:
    array = np.frombuffer(bytearray(4 * len(values) + 1), "u1")[1:].view("f")
    array[:] = values
    assert array.ctypes.data % 4
    return array


def allocated(call: Callable[[], object]) -> int:
    """Most bytes that Python's allocators had for `call` at once."""
    call()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        call()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


# -- numpy arrays ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("array", "seen"),
    [
        (np.zeros((2, 3), "f"), "7:2.32.1[2,3]"),
        (np.zeros(0, "i8"), "7:0.64.1[0]"),
        (np.zeros((), "i8"), "7:0.64.1[]"),
        (np.zeros((1, 4, 1), "u2")[:, ::1], "7:1.16.1[1,4,1]"),
        (np.zeros(8, "f").reshape(1, 2, 1, 2, 1, 2, 1, 1), "7:2.32.1[1,2,1,2,1,2,1,1]"),
        (np.zeros(8, "f").reshape(1, 2, 1, 2, 1, 2, 1, 1, 1, 1), "7:2.32.1[1,2,1,2,1,2,1,1,1,1]"),
        (np.zeros(3, "?"), "7:1.1.1[3]"),
        (np.zeros(3, "e"), "7:2.16.1[3]"),
        (np.zeros(3, "c16"), "7:5.128.1[3]"),
        (np.zeros(3, "l"), "7:0.64.1[3]"),
        (np.zeros(3, "q"), "7:0.64.1[3]"),
        (np.zeros(3, "=d"), "7:2.64.1[3]"),
        (np.zeros(3, np.dtype("d", metadata={"unit": "m"})), "7:2.64.1[3]"),
        (np.zeros(4, "f").view(np.matrix), "7:2.32.1[1,4]"),
        (np.array([1, 2], "i4").view(np.recarray), "7:0.32.1[2]"),
        (np.zeros(5, "f")[1:], "7:2.32.1[4]"),
    ],
    ids=lambda value: value if isinstance(value, str) else str(getattr(value, "dtype", value)),
)
def test_an_array_arrives_the_same_each_time(
    lib: mblob.Module, array: np.ndarray, seen: str
) -> None:
    assert [lib["describe"](array) for _ in range(4)] == [seen] * 4


@pytest.mark.parametrize("call", ["function", "bound"])
def test_a_call_with_numpy_arrays_allocates_nothing(checked: mblob.Module, call: str) -> None:
    a, b, c = floats()
    function = checked["add4"]
    bound = function.bind(a, b, c)
    assert allocated(bound if call == "bound" else lambda: function(a, b, c)) == 0
    np.testing.assert_array_equal(c, a + b)


def test_the_version_of_a_dlpack_request_is_made_once(lib: mblob.Module) -> None:
    versions = []

    class Tensor:
        def __dlpack__(self, *, max_version: Any = None) -> Any:
            versions.append(max_version)
            return np.zeros(2, "f").__dlpack__()

    for _ in range(2):
        assert lib["describe"](Tensor()) == "7:2.32.1[2]"
    assert versions == [(1, 0), (1, 0)]
    assert versions[0] is versions[1]


@pytest.mark.parametrize("times", [1, 3])
def test_what_is_wrong_with_an_array_is_told_each_time(checked: mblob.Module, times: int) -> None:
    add4 = checked["add4"]
    a, b, c = floats()
    readonly = a.copy()
    readonly.setflags(write=False)
    # numpy gives it out read-only, though its flag says writeable
    warned, _ = np.broadcast_arrays(a, b[None])
    wrong = [
        (
            (a.astype("d"), b, c),
            TypeError,
            r"add4: argument 0 \(a\): expected an array of float32, found float64",
        ),
        (
            (a, b.astype(">f4"), c),
            TypeError,
            r"add4: argument 1 \(b\): .*in native byte order, found >f4",
        ),
        (
            (a, np.zeros(8, "f")[::2], c),
            ValueError,
            r"add4: argument 1 \(b\): the array is not contiguous",
        ),
        ((a, b, c[::-1]), ValueError, r"add4: argument 2 \(c\): the array is not contiguous"),
        ((a, b, readonly), ValueError, r"add4: argument 2 \(c\): the array is read-only"),
        ((a, b, warned), ValueError, r"add4: argument 2 \(c\): the array is read-only"),
        (
            (a, np.zeros(5, "f"), c),
            mblob.KernelError,
            r"add4: argument 1 \(b\): expected shape \(4,\), found",
        ),
        ((a, b, np.zeros((), "O")), TypeError, "add4: argument 2"),
    ]
    for arguments, error, message in wrong * times:
        with pytest.raises(error, match=message):
            add4(*arguments)
    add4(readonly, warned, c)
    np.testing.assert_array_equal(c, readonly + warned[0])


def test_an_array_may_get_another_shape_while_it_is_used(lib: mblob.Module) -> None:
    array, stop = np.zeros(24, "f"), threading.Event()

    def reshape() -> None:
        while not stop.is_set():
            for shape in ((2, 3, 4), (24,), (4, 6)):
                # in place; to set .shape is deprecated in numpy 2.5
                array.resize(shape, refcheck=False)

    thread = threading.Thread(target=reshape)
    thread.start()
    try:
        seen = {lib["describe"](array) for _ in range(2000)}
    finally:
        stop.set()
        thread.join()
    assert seen <= {"7:2.32.1[2,3,4]", "7:2.32.1[24]", "7:2.32.1[4,6]"}


def test_a_call_keeps_no_reference_to_an_array(checked: mblob.Module) -> None:
    a, _, c = floats()
    before = sys.getrefcount(a)
    for _ in range(3):
        checked["add4"](a, a, c)
        with pytest.raises(TypeError):
            checked["add4"](a, a, 5)
    assert sys.getrefcount(a) == before


# -- bind ------------------------------------------------------------------------------------------


def test_a_bound_function_sees_what_is_in_the_arrays_at_each_call(checked: mblob.Module) -> None:
    a, b, c = floats()
    add = checked["add4"].bind(a, b, c)
    assert add() is None
    np.testing.assert_array_equal(c, a + b)
    a[:] = 7
    add()
    np.testing.assert_array_equal(c, a + b)
    assert add.function.name == "add4"
    assert [x is y for x, y in zip(add.args, (a, b, c))] == [True] * 3
    assert "add4" in repr(add)


@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        ((), ""),
        ((5, 2.5, None, "text", b"a\0b", bytearray(b"ab")), "0:5 2:2.5 4 11:text 12:3 12:2"),
        ((mblob.cpu(2), memoryview(b"abc"), print), "6:1.2 7:1.8.1[3] 10"),
        ((mblob.array(np.zeros((2, 2), "f")), np.float32(1)), "7:2.32.1[2,2] 2:1"),
        (tuple(range(20)), " ".join(f"0:{i}" for i in range(20))),
    ],
)
def test_every_kind_of_argument_can_be_bound(
    lib: mblob.Module, arguments: tuple[Any, ...], seen: str
) -> None:
    bound = lib["describe"].bind(*arguments)
    gc.collect()
    assert [bound() for _ in range(3)] == [seen] * 3


def test_a_bound_module_stays(kernels: Path) -> None:
    bound = mblob.load_module(kernels)["describe"].bind(mblob.load_module(kernels))
    gc.collect()
    assert bound() == "9"


def test_results_and_errors_of_a_bound_call_are_those_of_the_call(lib: mblob.Module) -> None:
    assert lib["give_int"].bind()() == -7
    broken = lib["broken"].bind()
    for _ in range(2):
        with pytest.raises(mblob.KernelError, match="it is broken: 100 % s"):
            broken()
    with pytest.raises(TypeError, match="describe: its arguments are bound"):
        lib["describe"].bind(1)(2)
    with pytest.raises(TypeError, match="describe: its arguments are bound"):
        lib["describe"].bind(1)(x=2)
    assert lib["describe"].bind(1)(*(), **{}) == "0:1"


def test_binding_says_what_is_wrong_at_once(checked: mblob.Module) -> None:
    a, b, c = floats()
    with pytest.raises(TypeError, match=r"add4: expected 3 arguments .*, found 2"):
        checked["add4"].bind(a, b)
    with pytest.raises(
        TypeError, match=r"add4: argument 2 \(c\): expected an array of float32, found float64"
    ):
        checked["add4"].bind(a, b, c.astype("d"))
    with pytest.raises(TypeError, match="add4: takes arguments by position only"):
        checked["add4"].bind(a, b, c=c)
    with pytest.raises(
        ValueError, match=r"last: argument 1 \(a\): expected shape \(at least -1,\)"
    ):
        checked["last"].bind(-1, a)
    with pytest.raises(TypeError, match="BoundFunction"):
        type(checked["add4"].bind(a, b, c))()


@pytest.mark.parametrize("number", [int, np.int64, np.array], ids=["int", "int64", "0-d array"])
def test_binding_checks_sizes_that_are_computed_of_a_number(
    checked: mblob.Module, number: Callable[[int], Any]
) -> None:
    a, b, _ = floats()
    checked["parts"].bind(a, b, number(2))
    with pytest.raises(mblob.ArgumentError, match=r"\(a\): expected shape \(6,\) for \[n \* 2\]"):
        checked["parts"].bind(a, b, number(3))
    with pytest.raises(
        mblob.ArgumentError, match=r"\(b\): expected shape \(at least 5,\) for \[n - 1"
    ):
        checked["parts"].bind(np.zeros(12, "f"), b, number(6))


def test_less_aligned_arrays_are_copied_at_each_call(lib: mblob.Module) -> None:
    x = misaligned([1, 2, 3])
    add_one = lib["add_one"].bind(x)
    for _ in range(3):
        add_one()
    x[0] = 10
    add_one()
    np.testing.assert_array_equal(x, [11, 6, 7])


def test_threads_may_share_a_bound_function(checked: mblob.Module, lib: mblob.Module) -> None:
    a, b, c = floats()
    x = misaligned([0, 0])
    calls = [checked["add4"].bind(a, b, c), lib["same_memory"].bind(x, x)]
    problems: list[object] = []

    def work() -> None:
        for _ in range(300):
            calls[0]()
            if calls[1]() != 1:
                problems.append("two copies")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    np.testing.assert_array_equal(c, a + b)


def test_buffers_cannot_change_their_size_while_they_are_bound(checked: mblob.Module) -> None:
    memory = bytearray(np.arange(3.0).tobytes())
    out = np.zeros(1)
    bound = checked["sum"].bind(memoryview(memory).cast("d"), 3, out)
    with pytest.raises(BufferError):
        memory.append(1)
    bound()
    assert out[0] == 3
    del bound
    memory.append(1)


def test_a_bound_function_keeps_its_library_and_its_arguments(kernels: Path) -> None:
    array = np.zeros(4, "f")
    gone = weakref.ref(array)
    bound = mblob.load_module(kernels)["describe"].bind(array)
    del array
    gc.collect()
    assert bound() == "7:2.32.1[4]"
    del bound
    gc.collect()
    assert gone() is None


def test_a_cycle_through_a_bound_function_is_collected(lib: mblob.Module) -> None:
    class Array(np.ndarray):
        bound: Any

    array = np.zeros(4, "f").view(Array)
    array.bound = lib["describe"].bind(array)
    gone = weakref.ref(array)
    del array
    gc.collect()
    assert gone() is None


def test_a_tensor_of_a_callback_cannot_be_used_later(lib: mblob.Module) -> None:
    kept: list[Any] = []
    describe = lib["describe"]

    def keep(tensor: Any) -> None:
        kept.append(describe.bind(tensor))
        assert pickle.loads(pickle.dumps(kept[0]))() == kept[0]()
        assert kept[0]() == "7:2.32.1[4]"

    lib["call_it"](keep, np.zeros(4, "f"))
    tensor = kept[0].args[0]
    for use in (
        kept[0],
        lambda: pickle.dumps(tensor),
        lambda: copy.copy(tensor),
        lambda: copy.deepcopy(tensor),
    ):
        with pytest.raises(ValueError, match="valid only during the call"):
            use()
