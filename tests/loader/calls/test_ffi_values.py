"""Which values functions of the ffi dialect get for Python's, and what comes back."""

from __future__ import annotations

import collections
import ctypes
import datetime
import enum
import fractions
import gc
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.compilers import include_flags
from mblob.dtype import TypeName

pytestmark = pytest.mark.own_process

ROOT = Path(__file__).resolve().parents[3]


class Level(enum.IntEnum):
    HIGH = 3


class Seven:
    def __index__(self) -> int:
        return 7


class AnyType:
    def __dlpack_data_type__(self) -> tuple[int, int, int]:
        return (6, 8, 1)


class AnyDevice:
    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 1)


Pair = collections.namedtuple("Pair", "first second")


def build(folder: Path) -> Path:
    source = ROOT / "tests" / "c" / "kernels" / "ffi_values.c"
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    include = [*include_flags(), f"-I{ROOT}/csrc/plugins/ffi"]
    subprocess.run(["cc", *flags, *include, source, "-o", folder / "values.so"], check=True)
    return folder / "values.so"


@pytest.fixture(scope="module")
def lib(tmp_path_factory: pytest.TempPathFactory) -> mblob.Module:
    return mblob.load_module(build(tmp_path_factory.mktemp("values")))


CASES = [
    (True, "bool(1)"), (False, "bool(0)"), (np.bool_(True), "bool(1)"), (Level.HIGH, "int(3)"), (Seven(), "int(7)"),
    (np.int8(-3), "int(-3)"), (np.int64(-9), "int(-9)"), (np.uint8(200), "int(200)"), (np.uint64(5), "int(5)"),
    (np.float16(1.5), "float(1.5)"), (np.float32(0.5), "float(0.5)"), (np.float64(0.25), "float(0.25)"),
    (np.longdouble(2), "float(2)"), (fractions.Fraction(1, 2), "float(0.5)"), (np.array(3), "7"),
    ("", "str()"), ("short", "str(short)"), ("longer than eight", "str(longer than eight)"), (np.str_("hé"), "str(hé)"),
    ("a\0b", r"str(a\0b)"), ("\0", r"str(\0)"), ("abcdefg\0", r"str(abcdefg\0)"),
    ("abcdefgh\0ijk", r"str(abcdefgh\0ijk)"),
    (b"a\0b", r"bytes(a\0b)"), (bytearray(b"ab"), "bytes(ab)"), (np.bytes_(b"xy"), "bytes(xy)"), (None, "0"),
    ([], "[]"), ((), "[]"), ([1, 2], "[int(1)int(2)]"), ((1, True), "[int(1)bool(1)]"),
    (Pair(1, "x"), "[int(1)str(x)]"),
    ([[1, [2.5]], ["n\0n", None, b"q", np.int8(3), np.bool_(0), "a text of some length"]],
     r"[[int(1)[float(2.5)]][str(n\0n)0bytes(q)int(3)bool(0)str(a text of some length)]]"),
    ([np.zeros(2), len, mblob.cpu(), np.dtype("int8")], "[7068device(1,0)dtype(0,8,1)]"),
    (np.dtype("float32"), "dtype(2,32,1)"), (np.dtype(bool), "dtype(6,8,1)"), (np.dtype("complex64"), "dtype(5,64,1)"),
    (AnyType(), "dtype(6,8,1)"), (AnyDevice(), "device(2,1)"), (mblob.cpu(), "device(1,0)"), (ctypes.c_void_p(5), "4"),
    (len, "68"), (int, "68"), (lambda: None, "68"), (np.float32, "68"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "told"), CASES)
def test_a_value_arrives_as_what_it_is(lib: mblob.Module, value: Any, told: str) -> None:
    assert lib["kinds"](value) == told
    assert lib["kinds"].bind(value)() == told
    assert (
        lib["kinds"](1, value, [value])
        == f"int(1){told}[{told.replace('7', '70') if told == '7' else told}]"
    )


TEXTS = [
    "short",
    "longer than eight",
    "",
    "n\0n",
    "longer than eight\0 x",
    b"a\0b",
    b"longer than\0 eight",
    "float32",
]
MAPS = [
    {},
    {"a": 1, "b": [2, {"c": None}]},
    {1: "x", 2.5: b"y", "n\0n": True, (1, "a"): {}},
    collections.OrderedDict(z=1, a=2),
]
BACK = [True, False, 3, 2.5, None, *TEXTS, [], [1, [True, "n\0n"], None], *MAPS]


@pytest.mark.parametrize("value", BACK)
def test_a_value_comes_back_as_what_it_was(lib: mblob.Module, value: Any) -> None:
    for found in (
        lib["echo"](value),
        lib["call"](lambda x: x, value),
        lib["call"](lib["echo"], value),
    ):
        kind = dict if isinstance(value, dict) else type(value)
        assert (found, type(found)) == (value, kind)
        assert kind is not dict or list(found) == list(value)
    told = lib["kinds"](value)
    assert lib["kind_of_result"](lambda x: x, value) == told


def test_python_functions_get_what_the_kernel_passed(lib: mblob.Module) -> None:
    got: list[Any] = []
    lib["call"](
        lambda *x: got.extend(x), True, "n\0n", [1, (False,)], np.dtype("int8"), np.bool_(1)
    )
    assert got == [True, "n\0n", [1, [False]], "int8", True]
    assert [type(x) for x in got] == [bool, str, list, TypeName, bool]
    assert (
        lib["kind_of_result"](lambda: (np.bool_(1), "n\0n", np.zeros(1))) == r"[bool(1)str(n\0n)70]"
    )
    assert lib["kind_of_result"](lambda: np.dtype("uint8")) == "dtype(1,8,1)"


def test_an_error_that_passes_through_a_kernel_keeps_its_classes(lib: mblob.Module) -> None:
    """What the runtime's own function refused: its code comes through the ffi's error objects."""
    named = mblob.get_global_func
    for arguments, kind in (
        ((named("runtime.ModuleGetImport"), lib, 2), IndexError),
        ((named("runtime.ArraySize"), "x"), TypeError),
        ((named("runtime.Map"), 1), (TypeError, ValueError)),
    ):
        with pytest.raises(kind) as direct:
            arguments[0](*arguments[1:])
        with pytest.raises(kind) as passed:
            lib["call"](*arguments)
        assert type(passed.value) is type(direct.value)


def test_tensors_in_lists_are_not_copied(lib: mblob.Module) -> None:
    first, second = np.zeros(3, "float32"), mblob.array(np.zeros(2, "float32"))
    lib["bump"]([first, second, first])
    lib["bump"].bind((first,))()
    assert first.tolist() == [3, 3, 3]
    assert np.asarray(second).tolist() == [1, 1]
    fixed = np.zeros(2, "float32")
    fixed.flags.writeable = False
    lib["bump"]([fixed])
    assert fixed.tolist() == [0, 0]  # a copy was written


def test_a_capsule_of_dlpack_is_an_array_in_a_call_and_in_a_list(
    lib: mblob.Module, kernels: Path
) -> None:
    x = np.zeros(3, "float32")
    lib["bump"]([x.__dlpack__()])
    bound = lib["bump"].bind([x.__dlpack__()])
    bound()
    bound()
    assert x.tolist() == [3, 3, 3]
    describe = mblob.load_module(kernels)["describe"]
    used = x.__dlpack__()
    assert describe(used) == "7:2.32.1[3]"
    for function, argument in ((describe, used), (lib["bump"], [used])):
        with pytest.raises(
            TypeError, match=r"expected a DLPack capsule nobody has used, .*; ask the"
        ):
            function(argument)
    other = datetime.datetime_CAPI  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match=r"found PyCapsule$"):
        describe(other)
    assert mblob.packed_function(lambda value: value)(other) is other
    mblob.register_func("test.itself", lambda value: value, override=True)
    assert mblob.get_global_func("test.itself")(other) is other
    mblob.remove_global_func("test.itself")


def test_arrays_in_containers_are_aligned_for_kernels_and_written_back(lib: mblob.Module) -> None:
    room = np.zeros(64, "float32")
    start = -room.ctypes.data % 64 // 4 + 1  # 4 bytes behind a multiple of 64
    first, second = room[start : start + 2], mblob.from_dlpack(room[start + 2 : start + 4])
    assert lib["bump"]([first, second, first]) == 0
    assert room.sum() == 6
    assert first.tolist() == [2, 2]
    assert lib["bump"].bind((first,))() == 0
    assert first.tolist() == [3, 3]


def test_what_has_no_meaning_is_named_with_its_place(lib: mblob.Module) -> None:
    loop: list[Any] = []
    loop.append(loop)
    ring: dict[str, Any] = {}
    ring["ring"] = [ring]
    deep: list[Any] = []
    for _ in range(600):
        deep = [deep]
    for value, kind, text in (
        ({1}, TypeError, "kinds: argument 1: expected .*a list.*found set"),
        ([1, {2}], TypeError, "kinds: argument 1: item 1: expected"),
        ([1, [2, (set(),)]], TypeError, "kinds: argument 1: item 1: item 1: item 0: expected"),
        ({"a": {1}}, TypeError, "kinds: argument 1: value 0: expected .*found set"),
        ([{"a": 1, frozenset(): 2}], TypeError, "kinds: argument 1: item 0: key 1: expected"),
        (ring, ValueError, "kinds: argument 1: containers are nested more than 64 levels deep"),
        ([2**70], OverflowError, "kinds: argument 1: item 0: expected an int from"),
        (1j, TypeError, "kinds: argument 1: expected"),
        (
            np.dtype(">f4"),
            TypeError,
            "kinds: argument 1: functions have no data type for numpy's >f4",
        ),
        (np.dtype("S3"), TypeError, "kinds: argument 1: functions have no data type"),
        ("\udc80", mblob.errors.ArgumentValueError, "surrogates"),
        (loop, ValueError, "kinds: argument 1: containers are nested more than 64 levels deep"),
        (deep, ValueError, "kinds: argument 1: containers are nested more than 64 levels deep"),
    ):
        with pytest.raises(kind, match=text):
            lib["kinds"](1, value)
    assert lib["kinds"](1) == "int(1)"


class Endless:
    """Stands for another of its kind, without end."""

    def __tvm_ffi_object__(self) -> Endless:
        return Endless()


def within(levels: int, value: Any = 1) -> Any:
    for _ in range(levels):
        value = [value]
    return value


NESTING = """
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/c_runtime_api.h>
/* Array(Array(...)) of args[0] levels. */
TVM_DLL int nested(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code, void *resource) {
  TVMFunctionHandle array;
  if (TVMFuncGetGlobal("runtime.Array", &array)) return -1;
  int code = kTVMArgInt;
  TVMValue inner = {.v_int64 = 1};
  for (int64_t i = 0; i < args[0].v_int64; i++) {
    TVMValue outer;
    int outer_code;
    if (TVMFuncCall(array, &inner, &code, 1, &outer, &outer_code)) return -1;
    if (code == kTVMObjectHandle) TVMObjectFree(inner.v_handle);
    inner = outer, code = outer_code;
  }
  *ret = inner, *ret_code = code;
  return TVMFuncFree(array);
}
"""


def in_thread(work: Callable[[], None], stack: int) -> None:
    """Run it in a thread whose stack has that size; what it raises is raised here."""
    raised: list[BaseException] = []

    def body() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    before = threading.stack_size(stack)
    try:
        thread = threading.Thread(target=body)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    if raised:
        raise raised[0]


@pytest.mark.parametrize("stack", [64 << 10, 256 << 10, 0], ids=["64 KiB", "256 KiB", "usual"])
def test_lists_are_within_lists_64_levels_deep_on_any_stack(
    lib: mblob.Module, cc: Callable[..., Path], tmp_path: Path, stack: int
) -> None:
    nested = mblob.load_module(cc(NESTING, tmp_path / "nested.so", *include_flags(), "-w"))[
        "nested"
    ]
    loop: list[Any] = []
    loop.append([2, loop])
    refused = (
        "^kinds: argument 1: containers are nested more than 64 levels deep, which is the limit"
    )
    deep = [within(65), within(3000)]  # which end here: Python needs a large stack for that

    def work() -> None:
        assert lib["echo"](within(64)) == within(64)
        assert nested(64) == within(64)
        for value in (*deep, loop, (loop,), Endless(), [Endless()], within(64, Endless())):
            with pytest.raises(ValueError, match=refused):
                lib["kinds"](0, value)
        for levels in (65, 100_000):
            with pytest.raises(ValueError, match="containers are nested more than 64 levels deep"):
                nested(levels)

    in_thread(work, stack)


class Itself:
    def __tvm_ffi_object__(self) -> Any:
        return self


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (Itself(), "argument 0"),
        ([Itself()], "argument 0: item 0"),
        ([1, [2, 3, Itself()]], "argument 0: item 1: item 2"),
    ],
)
def test_an_object_that_stands_for_itself_is_named_by_its_place(
    lib: mblob.Module, value: Any, place: str
) -> None:
    with pytest.raises(
        RuntimeError, match=rf"^kinds: {place}: <.*Itself object at .*> stands for itself$"
    ):
        lib["kinds"](value)


def test_a_text_with_a_lone_surrogate_in_a_list_is_named_by_its_place(lib: mblob.Module) -> None:
    with pytest.raises(
        mblob.errors.ArgumentValueError, match="kinds: argument 0: item 1: the str has surrogates"
    ):
        lib["kinds"](["a", "\ud800"])


def test_nothing_is_kept_of_what_was_passed(lib: mblob.Module) -> None:
    array, text = np.zeros(3, "float32"), "x" * 1000 + "\0"
    nested = [array, [text, True, mblob.array(array)], lambda: None]
    before = sys.getrefcount(array), sys.getrefcount(text), sys.getrefcount(nested[2])
    for _ in range(300):
        lib["kinds"](nested)
        assert lib["echo"]([text]) == [text]
        with pytest.raises(TypeError):
            lib["kinds"]([*nested, {1}])
    gc.collect()
    assert (sys.getrefcount(array), sys.getrefcount(text), sys.getrefcount(nested[2])) == before


def test_nothing_is_kept_of_what_a_python_function_returned(lib: mblob.Module) -> None:
    array, function = np.zeros(3, "float32"), lambda: None
    before = sys.getrefcount(array), sys.getrefcount(function)
    for value in (array, function, [array, function]):
        for _ in range(50):
            lib["call"](lambda value=value: value)
            lib["kind_of_result"](lambda value=value: value)
    del value
    gc.collect()
    assert (sys.getrefcount(array), sys.getrefcount(function)) == before


def test_threads_convert_at_once(lib: mblob.Module) -> None:
    wrong: list[Any] = []

    def work(k: int) -> None:
        for i in range(200):
            value = [k, [i, f"{k}\0{i}", True], np.zeros(2)]
            told = lib["kinds"](value)
            if told != rf"[int({k})[int({i})str({k}\0{i})bool(1)]70]":
                wrong.append(told)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_classic_functions_get_what_they_know(kernels: Path) -> None:
    lib = mblob.load_module(kernels)
    assert lib["describe"](True, np.bool_(0)) == "0:1 0:0"
    with pytest.raises(ValueError, match="the str has a NUL inside"):
        lib["describe"]("a\0b")
    with pytest.raises(TypeError, match="found list; make it an array"):
        lib["describe"]([1])


def test_functions_of_the_registry_give_bools_back(lib: mblob.Module) -> None:
    mblob.register_func("values.flag", lambda x: x > 3, override=True)
    assert mblob.get_global_func("values.flag")(5) is True
    assert lib["kind_of_result"](mblob.get_global_func("values.flag"), 3) == "bool(0)"
