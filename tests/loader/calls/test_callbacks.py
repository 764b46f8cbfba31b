"""Python functions that kernels call, and the exceptions they raise."""

from __future__ import annotations

import gc
import threading
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


@pytest.mark.parametrize("value", [5, -1.5, "text", b"a\0b", None])
def test_a_callback_gets_values_and_gives_one_back(lib: mblob.Module, value: Any) -> None:
    assert lib["call_it"](lambda x: x, value) == value


def test_a_callback_can_write_into_an_array_of_the_kernel(lib: mblob.Module) -> None:
    a = np.zeros(4, "f")

    def fill(t: mblob.Tensor) -> None:
        t.numpy()[:] = 3

    lib["call_it"](fill, a)
    assert a.tolist() == [3] * 4


def test_a_tensor_kept_after_the_callback_is_refused(lib: mblob.Module) -> None:
    kept = []
    lib["call_it"](lambda t: kept.append(t), np.zeros(4, "f"))
    with pytest.raises(ValueError, match="only during the call"):
        _ = kept[0].shape
    with pytest.raises((BufferError, TypeError, ValueError)):
        kept[0].numpy()
    with pytest.raises(ValueError, match="only during the call"):
        lib["describe"](kept[0])


@pytest.mark.parametrize("find", [mblob.packed_function, "callback.keep"])
@pytest.mark.parametrize("make", [np.array, mblob.array])
def test_a_python_function_that_is_called_directly_may_keep_its_tensors(
    find: Any, make: Callable[..., Any]
) -> None:
    kept: list[Any] = []

    def keep(t: mblob.Tensor) -> None:
        kept.extend([t, t._create_view((2,)), np.from_dlpack(t), t.numpy(), mblob.from_dlpack(t)])

    if isinstance(find, str):
        mblob.register_func(find, keep, override=True)
        function = mblob.get_global_func(find)
    else:
        function = find(keep)
    function(make(np.full(2**18, 3, "f")))  # so large that the memory itself goes when it is freed
    for view in kept:
        assert set(np.asarray(view).ravel()) == {3}


VIEWS: dict[str, Callable[[Any], Any]] = {
    "numpy": mblob.Tensor.numpy,
    "from_dlpack": np.from_dlpack,
    "capsule": lambda t: t.__dlpack__(),
    "part": lambda t: t._create_view((2,)).numpy(),
    "imported": mblob.from_dlpack,
    "item": lambda t: mblob.packed_function(lambda items: items)([t]),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_view_kept_of_a_tensor_without_an_owner_is_an_error(
    lib: mblob.Module, view: Callable[[Any], Any]
) -> None:
    kept = []
    array = np.zeros(4, "f")
    with pytest.raises(ValueError, match=r"argument 0 of a Python function.* still a view"):
        lib["call_it"](lambda t: kept.append(view(t)), array)
    lib["call_it"](lambda t: len([view(t)]), array)


def test_a_part_of_a_tensor_is_valid_as_long_as_the_tensor(lib: mblob.Module) -> None:
    kept: list[mblob.Tensor] = []
    lib["call_it"](lambda t: kept.extend([t._create_view((2,)), t.view("int32")]), np.zeros(4, "f"))
    for part in kept:
        with pytest.raises(ValueError, match="only during the call"):
            _ = part.shape


def test_an_exception_of_a_callback_comes_back_as_the_same_object(lib: mblob.Module) -> None:
    error = KeyError("mine")

    def raises() -> None:
        raise error

    with pytest.raises(KeyError) as caught:
        lib["call_it"](raises)
    assert caught.value is error
    assert any(entry.name == "raises" for entry in caught.traceback)


def test_an_exception_passes_through_two_kernels(lib: mblob.Module) -> None:
    error = ValueError("inner")

    def inner() -> None:
        raise error

    def outer() -> None:
        lib["call_it"](inner)

    with pytest.raises(ValueError, match="inner") as caught:
        lib["call_it"](outer)
    assert caught.value is error


def test_an_old_exception_is_not_mistaken_for_a_new_error(lib: mblob.Module) -> None:
    def raises() -> None:
        raise KeyError("old")

    with pytest.raises(KeyError):
        lib["call_it"](raises)
    with pytest.raises(mblob.KernelError, match="broken"):
        lib["broken"]()


def test_an_exception_object_is_let_go_after_it_was_raised(lib: mblob.Module) -> None:
    class Mine(Exception):
        pass

    def raises() -> None:
        raise Mine

    with pytest.raises(Mine) as caught:
        lib["call_it"](raises)
    gone = weakref.ref(caught.value)
    del caught
    gc.collect()
    assert gone() is None


def test_a_callback_returns_a_copy_of_an_array(lib: mblob.Module) -> None:
    given = np.arange(6, dtype="int16").reshape(2, 3)
    for array in (given, mblob.array(given)):
        found = lib["call_it"](lambda array=array: array)
        assert isinstance(found, mblob.Tensor)
        np.testing.assert_array_equal(found.numpy(), given)
        found.numpy()[:] = -1
    assert given.tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(ValueError, match="not contiguous"):
        lib["call_it"](lambda: given[:, ::-1])


def test_functions_and_modules_pass_through_callbacks(lib: mblob.Module) -> None:
    function = lib["call_it"](lambda f: f, lib["give_int"])
    assert function() == -7
    assert lib["call_it"](lambda m: m, lib) is lib


def test_a_registered_function_is_found_by_name_and_called(lib: mblob.Module) -> None:
    @mblob.register_func("test.loader.add")
    def add(a: int, b: int) -> int:
        return a + b

    assert add(1, 2) == 3
    assert mblob.get_global_func("test.loader.add")(2, 3) == 5
    with pytest.raises(ValueError, match=r"test\.loader\.add"):
        mblob.register_func("test.loader.add", add)
    with pytest.raises(
        ValueError, match=r"'test\.loader\.add' is registered already; override=True replaces it"
    ):
        mblob.register_func("test.loader.add", add)
    mblob.register_func("test.loader.add", lambda a, b: a * b, override=True)
    assert mblob.get_global_func("test.loader.add")(2, 3) == 6


def test_a_missing_global_function_is_an_error_or_none() -> None:
    with pytest.raises(ValueError, match=r"no global function 'test\.loader\.none'"):
        mblob.get_global_func("test.loader.none")
    assert mblob.get_global_func("test.loader.none", allow_missing=True) is None


def test_what_is_registered_must_be_callable() -> None:
    with pytest.raises(TypeError, match="expected a callable, found int"):
        mblob.register_func("test.loader.int", 3)


def test_a_callback_runs_in_whatever_thread_calls(lib: mblob.Module) -> None:
    seen = []
    thread = threading.Thread(
        target=lambda: lib["call_it"](lambda: seen.append(threading.get_ident()))
    )
    thread.start()
    thread.join()
    assert seen == [thread.ident]


def test_a_callback_that_was_an_argument_is_let_go(lib: mblob.Module) -> None:
    class Callback:
        def __call__(self) -> int:
            return 4

    callback = Callback()
    gone = weakref.ref(callback)
    assert lib["call_it"](callback) == 4
    del callback
    gc.collect()
    assert gone() is None


class Counts:
    packed: Any = None

    def __call__(self, *args: Any) -> int:
        return len(args)


def made_function() -> Any:
    def function(*args: Any) -> int:
        return len(args)

    return function


@pytest.mark.parametrize("make", [made_function, Counts])
@pytest.mark.parametrize("way", ["attribute", "attribute of an argument", "bound"])
def test_a_packed_function_that_its_python_function_keeps_is_collected(
    make: Callable[[], Any], way: str
) -> None:
    noted = []
    for _ in range(20):
        function, packed = make(), None
        packed = mblob.packed_function(function)
        assert packed(1, 2) == 2
        function.packed = {
            "attribute": packed,
            "attribute of an argument": [{"f": packed}],
            "bound": packed.bind(1),
        }[way]
        noted.append(weakref.ref(function))
        del function, packed
    gc.collect()
    assert sum(one() is not None for one in noted) == 0


def test_a_packed_function_that_others_have_outlives_its_object(lib: mblob.Module) -> None:
    """The runtime alone has it then: nothing that it needs is collected."""
    function = made_function()
    function.packed = mblob.packed_function(function)
    gone = weakref.ref(function)
    mblob.register_func("test.callbacks.kept", function.packed)
    del function
    gc.collect()
    assert gone() is not None
    assert mblob.get_global_func("test.callbacks.kept")(1, 2, 3) == 3
    mblob.remove_global_func("test.callbacks.kept")
    passed = made_function()
    passed.packed = mblob.packed_function(passed)
    assert lib["call_it"](passed.packed, 7) == 1
    gc.collect()
    assert passed.packed(1) == 1


def test_a_tensor_that_a_function_returns_is_not_copied() -> None:
    kept = mblob.array(np.arange(4, dtype="float32"), mblob.cpu(0))
    mblob.register_func("callback.kept", lambda: kept, override=True)
    result = mblob.get_global_func("callback.kept")()
    assert np.shares_memory(result.numpy(), kept.numpy())
    mblob.register_func("callback.array", lambda: kept.numpy(), override=True)
    assert not np.shares_memory(mblob.get_global_func("callback.array")().numpy(), kept.numpy())


def test_what_a_function_was_lent_is_copied_when_it_returns_it() -> None:
    mblob.register_func("callback.same", lambda t: t, override=True)
    mblob.register_func("callback.cast", lambda _, t: mblob.from_dlpack(t), override=True)
    array = np.arange(4, dtype="float32")
    results = [
        mblob.get_global_func("callback.same")(array),
        mblob.get_global_func("callback.cast")(1, array),
    ]
    array[:] = -1
    for result in results:
        np.testing.assert_array_equal(result.numpy(), np.arange(4, dtype="float32"))
