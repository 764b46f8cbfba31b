"""Programs of test_tvm_ffi.py, which share a process with a real tvm_ffi.

python -m tests.e2e.ffi.tvm_ffi_programs PROGRAM ORDER C_LIBRARY CPP_LIBRARY
"""

from __future__ import annotations

import gc
import importlib
import sys
from typing import Any

import numpy as np

LIBRARY: str  # of C (tests/c/kernels/ffi.c)
CPP: str  # of C++, which needs libtvm_ffi


def floats(n: int) -> Any:
    return np.arange(n, dtype="float32")


def raised(function: Any, *args: Any) -> BaseException:
    try:
        function(*args)
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def cpp_library() -> None:
    import tvm_ffi

    import mblob

    lib = mblob.load_module(CPP)
    assert lib["add_one"](4) == 5
    assert lib["greet"]("bob") == "hello dear friend bob"
    assert lib["greet"]("x") == "hello dear friend x"
    assert lib["bytes"](b"a\0b and more") == b"a\0b and more"
    assert lib["shape_of"](np.zeros((2, 3), "float32")) == (2, 3)
    x = floats(8)
    lib["scale"](x, 2.0)
    lib["scale"](tvm_ffi.from_dlpack(x), 2.0)
    np.testing.assert_array_equal(x, floats(8) * 4)
    assert lib["maker"](5)(3) == 8
    error = raised(lib["fails"], 3)
    assert isinstance(error, mblob.KernelError)
    assert (error.kind, str(error)) == ("ValueError", "ValueError: bad number 3")
    assert raised(lib["add_one"], "x").kind == "TypeError"  # type: ignore[attr-defined]
    assert lib["add_one"](4) == 5
    assert "ffi.Function" in lib.get_function_metadata("add_one")["type_schema"]  # type: ignore[index]
    assert lib.get_function_doc("add_one") == "Adds one."
    assert (lib.get_function_doc("greet"), lib.get_function_metadata("nobody")) == (None, None)


def cpp_tensors() -> None:
    """A parameter of class Tensor or Any gets an object that C++ may keep."""
    import tvm_ffi

    import mblob

    lib = mblob.load_module(CPP)
    x = floats(4) + 3
    for given in (x, mblob.array(x), tvm_ffi.from_dlpack(x), memoryview(x)):
        assert (lib["first"](given), lib["rank"](given)) == (3, 1)
    held = sys.getrefcount(x)
    lib["keep"](x)
    assert sys.getrefcount(x) == held + 1
    x[0] = 9
    assert lib["first_kept"]() == 9
    lib["drop"]()
    assert sys.getrefcount(x) == held
    for name in ("same_any", "same_optional"):
        assert lib[name](x).address == x.ctypes.data
    assert lib["same_optional"](None) is None
    assert lib["type_of"](x) == "ffi.Tensor"
    theirs = tvm_ffi.load_module(CPP)  # functions of tvm_ffi are of C++, too
    mblob.register_func("test.first", theirs.get_function("first"))
    assert mblob.get_global_func("test.first")(x) == 9
    assert "TypeError" in str(raised(lib["first"], 3))


def cpp_values() -> None:
    """Lists are arrays that C++ reads and copies, flags and texts are what they are."""
    import tvm_ffi

    import mblob

    lib, theirs = mblob.load_module(CPP), tvm_ffi.load_module(CPP)
    assert (lib["sum"]([1, 2, 3]), lib["sum"](()), lib["sum"](tvm_ffi.convert([4]))) == (6, 0, 4)
    assert lib["sum"](list(range(5000))) == sum(range(5000))
    assert lib["total"]([[1, 2.5], (), [np.float32(0.5)]]) == 4
    row = [1, "text", True]
    grown = lib["grown"](row)
    assert grown == [1, "text", True, "one more"]
    assert type(grown[2]) is bool
    assert row == [1, "text", True]
    assert [lib["negated"](x) for x in (True, False, 0, np.bool_(True))] == [
        False,
        True,
        True,
        False,
    ]
    assert lib["length"]("a\0b and more") == 12 == theirs["length"]("a\0b and more")
    assert [lib["length"](x) for x in ("", "\0", "seven..", "eight...")] == [0, 1, 7, 8]
    x, y = floats(2), mblob.array(floats(2))
    lib["fill"]([x, y, tvm_ffi.from_dlpack(x)], 7.5)
    assert (x[0], np.asarray(y)[0]) == (7.5, 7.5)
    assert lib["call_all"]([lambda x: x + 1, lib["add_one"], theirs["add_one"]], 1) == 4
    assert lib["call_all"]([lambda x: not x], True) is False
    plain = (
        True,
        1,
        1.5,
        "longer than eight",
        "a\0b",
        b"x",
        [1],
        {"a": [1]},
        None,
        np.dtype("float32"),
        np.int8(1),
    )
    of_theirs = (
        tvm_ffi.device("cpu", 0),
        tvm_ffi.dtype("bool"),
        tvm_ffi.Shape((1, 2)),
        tvm_ffi.convert([1]),
    )
    for value in (*plain, *of_theirs):
        assert lib["type_of"](value) == theirs["type_of"](value), value
    assert "argument 0: item 1: expected" in str(raised(lib["sum"], [1, object()]))
    assert raised(lib["sum"], ["x"]).kind == "TypeError"  # type: ignore[attr-defined]


def functions_in() -> None:
    import tvm_ffi

    import mblob

    lib = mblob.load_module(LIBRARY)
    ten = tvm_ffi.convert(lambda v: v * 10)
    assert lib["call"](ten, 7) == 70
    back = lib["echo"](ten)
    assert back(4) == 40
    assert back.__tvm_ffi_object__().same_as(ten)
    error = raised(lib["call"], tvm_ffi.convert(lambda v: [][v]), 0)
    assert (error.kind, str(error)) == ("IndexError", "IndexError: list index out of range")  # type: ignore[attr-defined]
    row = tvm_ffi.Array([1, 2, 3])
    assert lib["type_of"](row) == 71
    given = [
        1,
        2.5,
        None,
        "text",
        "a longer text",
        [1, []],
        tvm_ffi.from_dlpack(floats(3)),
        tvm_ffi.Shape((4, 5)),
        ten,
    ]
    back = lib["echo"](tvm_ffi.Array(given))
    assert back[:6] == [1, 2.5, None, "text", "a longer text", [1, []]]
    assert (back[6].numpy().tolist(), back[7], back[8](4)) == ([0, 1, 2], (4, 5), 40)
    long = tvm_ffi.convert(lambda: tvm_ffi.Array([1, tvm_ffi.Array(range(3000))]))
    assert lib["call"](long) == [1, list(range(3000))]
    nested = tvm_ffi.Array([])
    for _ in range(600):  # deeper than is read: passed on as it is, where that begins
        nested = tvm_ffi.Array([nested])
    inner = lib["echo"](nested)
    while isinstance(inner, list):
        (inner,) = inner
    assert "is no function" in str(raised(inner))
    entries = {"a": 1, 2: [1.5, {"b": None}], **{f"key {i}": i for i in range(50)}}
    map_, ten_by_name = tvm_ffi.Map(entries), tvm_ffi.Map({"ten": ten})
    assert lib["type_of"](map_) == lib["type_of"](entries) == lib["type_of"]({}) == 72
    for value in (map_, entries):
        back = lib["echo"](value)
        assert type(back) is dict and back == entries and list(back) == list(map_)
    assert (lib["echo"]({}), lib["echo"](tvm_ffi.Map({}))) == ({}, {})
    assert lib["echo"](ten_by_name)["ten"](4) == 40
    assert lib["call"](tvm_ffi.convert(lambda m: tvm_ffi.Map({"got": m["a"]})), map_) == {"got": 1}
    assert lib["echo"](tvm_ffi.Dict(entries)) == entries
    assert lib["echo"](tvm_ffi.List([1, [2]])) == [1, [2]]
    path = tvm_ffi.access_path.AccessPath.root().attr("a")
    opaque = lib["echo"](path)  # nothing here knows what it is; it is passed on
    assert opaque.__tvm_ffi_object__().same_as(path)
    assert "is no function" in str(raised(opaque))
    assert lib["echo"](tvm_ffi.Shape((4, 5))) == (4, 5)
    assert mblob.load_module(CPP)["sum"](row) == 6


def functions_out() -> None:
    import tvm_ffi

    import mblob

    lib = mblob.load_module(LIBRARY)
    add = lib["add"].__tvm_ffi_object__()
    assert isinstance(add, tvm_ffi.Function)
    assert add(3, 4) == 7
    error = raised(add, 3)
    assert (type(error), str(error)) == (TypeError, "add: expected 2 arguments")
    apply = tvm_ffi.convert(lambda f, a, b: f(a, b))
    assert apply(lib["add"], 5, 6) == 11  # asked for the object
    tvm_ffi.register_global_func("test.add", add)
    del lib, add
    gc.collect()
    assert tvm_ffi.get_global_func("test.add")(1, 2) == 3  # keeps the library
    text = tvm_ffi.convert(mblob.load_module(LIBRARY)["string"].__tvm_ffi_object__())
    assert [text(n) for n in (0, 7, 8)] == ["", "abcdefg", "abcdefgh"]
    mblob.register_func("test.fails", lambda: {}["key"])
    error = raised(mblob.get_global_func("test.fails").__tvm_ffi_object__())
    assert (type(error), "key" in str(error)) == (KeyError, True)


def tensors() -> None:
    import tvm_ffi

    import mblob

    lib = mblob.load_module(LIBRARY)
    memory = floats(8)
    tensor = tvm_ffi.from_dlpack(memory)
    assert lib["sum"](tensor) == 28
    mblob.register_func("test.same", lambda t: tvm_ffi.from_dlpack(t))
    same = mblob.get_global_func("test.same")(tensor)  # borrowed for the call: a copy
    assert not np.shares_memory(same.numpy(), memory)
    np.testing.assert_array_equal(same.numpy(), memory)
    holder = [tensor]
    mblob.register_func("test.given", lambda: holder[0])
    given = mblob.get_global_func("test.given")()
    assert np.shares_memory(given.numpy(), memory)
    ours = mblob.empty((4,), "float32", mblob.cpu(0))
    theirs = tvm_ffi.from_dlpack(ours)
    assert np.shares_memory(np.from_dlpack(theirs), ours.numpy())
    kept = mblob.empty((4,), "float32", mblob.cpu(0))
    mblob.register_func("test.kept", lambda: kept)
    again = mblob.get_global_func("test.kept")()
    assert np.shares_memory(again.numpy(), kept.numpy())
    twos = lib["twos"].__tvm_ffi_object__()(tensor)  # made here, used there
    assert isinstance(twos, tvm_ffi.Tensor)
    np.testing.assert_array_equal(np.from_dlpack(twos), np.full(8, 2, "float32"))
    back = lib["call"](tvm_ffi.convert(lambda: holder[0]))
    assert np.shares_memory(back.numpy(), memory)
    through = lib["call"](tvm_ffi.convert(lambda t: t), memory)
    np.testing.assert_array_equal(through.numpy(), memory)  # of the copy, if it is not aligned
    del through
    address = memory.ctypes.data
    holder.clear()
    del tensor, given, memory
    gc.collect()
    assert back.numpy().ctypes.data == address
    np.testing.assert_array_equal(back.numpy(), floats(8))


def both_open_one_file() -> None:
    import tvm_ffi

    import mblob

    ours, theirs = mblob.load_module(LIBRARY), tvm_ffi.load_module(LIBRARY)
    for _ in range(3):
        assert ours["add"](1, 2) == theirs["add"](1, 2) == 3
        assert isinstance(raised(ours["add"], 1), mblob.KernelError)
        assert type(raised(theirs["add"], 1)) is TypeError
    tvm_ffi.register_global_func("test.theirs", lambda: 1)
    assert ours["global"]("test.theirs") is None
    assert theirs["global"]("test.theirs")() == 1


def main() -> None:
    """Run PROGRAM after importing the packages of ORDER."""
    global LIBRARY, CPP
    program, order, LIBRARY, CPP = sys.argv[1:]
    for name in order.split(","):
        importlib.import_module(name)
    globals()[program]()
    gc.collect()
    print("fine")


if __name__ == "__main__":
    main()
