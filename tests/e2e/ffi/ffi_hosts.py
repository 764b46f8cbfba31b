"""Hosts of the ffi dialect, run as programs: `python -m tests.e2e.ffi.ffi_hosts tvm|tvm_ffi CASE
PATH...`.

Each case opens libraries in a real TVM, or in tvm_ffi alone, and asserts what it finds. `make` lets
TVM write some.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tvm_ffi

HOST = sys.argv[1]
if HOST == "tvm":
    import tvm

EMPTY = tvm_ffi.system_lib("of_nobody_")  # a module for loaders to give
PAYLOADS: list[bytes] = []


def load(path: str) -> Any:
    return tvm.runtime.load_module(path) if HOST == "tvm" else tvm_ffi.load_module(path)


def tensor(array: Any) -> Any:
    return tvm_ffi.from_dlpack(array)


def loader_of(kind: str) -> None:
    def keep(payload: Any) -> Any:
        PAYLOADS.append(bytes(payload))
        return EMPTY

    tvm_ffi.register_global_func(f"ffi.Module.load_from_bytes.{kind}", keep, override=True)


def fails(kind: type[Exception], call: Callable[[], Any], *parts: str) -> None:
    try:
        call()
    except kind as error:
        assert type(error) is kind, type(error)
        for part in parts:
            assert part in str(error), (part, str(error))
        return
    raise AssertionError(f"no {kind.__name__}")


def functions(path: str) -> None:
    m = load(path)
    a, b, c = np.arange(5, dtype="float32"), np.ones(5, "float32"), np.zeros(5, "float32")
    A, B, C = map(tensor, (a, b, c))
    m["vadd"](A, B, C, 5)
    assert c.tolist() == [1, 2, 3, 4, 5]
    assert m["scale"](2.5, 3) == 7.5
    assert m["scale"](2, True) == 2.0
    assert m["isodd"](3) is True
    assert m["greet"]("wo") == "hello wo"
    assert m["greet"]("a longer name than fits") == "hello a longer name than fits"
    assert m["echo"]("short") == "short"
    assert m["total"](tensor(np.ones((2, 3), "float32")), 2, 3) == 6.0
    assert m["ident"](None).value is None
    assert m["nothing"]() is None
    fails(
        TypeError,
        lambda: m["vadd"](A, B, C),
        "Expected 4 arguments",
        "found 3",
        "`vadd(a: Tensor([n], float32), ",
    )
    fails(
        TypeError,
        lambda: m["vadd"](A, B, C, "x"),
        "Mismatched type on argument #3",
        "expected int",
        "found str",
    )
    fails(
        TypeError,
        lambda: m["vadd"](A, 1, C, 5),
        "Mismatched type on argument #1",
        "expected Tensor",
        "found int",
    )
    fails(
        TypeError, lambda: m["vadd"](None, B, C, 5), "argument #0", "expected Tensor", "found None"
    )
    doubles = tensor(b.astype("float64"))
    fails(
        TypeError,
        lambda: m["vadd"](A, doubles, C, 5),
        "Mismatched b.dtype",
        "expected float32, found float64",
    )
    short = tensor(b[:4].copy())
    fails(
        ValueError,
        lambda: m["vadd"](A, short, C, 5),
        "Mismatched b.shape on argument #1",
        "expected shape (5,)",
    )
    gaps = tensor(np.ones(10, "float32")[::2])
    fails(ValueError, lambda: m["vadd"](A, gaps, C, 5), "Mismatched b.strides", "compact")
    fails(ValueError, lambda: m["scale"](1.0, 300), "Invalid k on argument #1", "found 300")
    fails(TypeError, lambda: m["scale"](None, 1), "argument #0", "expected float, found None")
    fails(TypeError, lambda: m["greet"](3), "argument #0", "expected str, found int")
    # 2^64 - 1: the bits, as TVM hands on what C++ functions return (TypeTraits of tvm/ffi/type_traits.h)
    assert m["big"]() == -1
    assert m["scale"](np.float64(0.5), 2) == 1.0


def tree(path: str) -> None:
    for kind in ("my.kind", "cuda", "metal", "dnnl_json", "const_loader"):
        loader_of(kind)
    m = load(path)
    assert len(m.imports) == 5
    Path(path + ".payloads").write_bytes(
        b"".join(len(p).to_bytes(8, "little") + p for p in PAYLOADS)
    )


def constants(path: str) -> None:
    """A const_loader as the root, read by TVM's own loader."""
    got: list[Any] = []

    def init(*arrays: Any) -> None:
        got.extend(np.from_dlpack(a).copy() for a in arrays)

    tvm_ffi.register_global_func("__init_ext", init, override=True)
    m = load(path)
    assert m.kind == "const_loader", m.kind
    assert m.implements_function("vadd", True)
    a = np.ones(3, "float32")
    c = np.zeros(3, "float32")
    m.get_function("vadd", True)(tensor(a), tensor(a), tensor(c), 3)
    assert c.tolist() == [2, 2, 2]


def weights(path: str, file: str) -> None:
    """Without an index weights stand in the stream, so a loader of the host's gets the file."""
    loader_of("safetensors")
    load(path)
    assert [Path(file).read_bytes()] == PAYLOADS


def own_kernels(path: str) -> None:
    """What TVM compiled and mblob linked: tensors, a callback, a workspace, a loop, an error."""
    calls: list[Any] = []
    tvm_ffi.register_global_func("my.callback", lambda *args: calls.append(args[1:]), override=True)
    m = load(path)
    a, c = np.arange(4, dtype="float32"), np.zeros(4, "float32")
    m["add"](tensor(a), tensor(a), tensor(c))
    assert c.tolist() == [0, 2, 4, 6]
    m["packed"](tensor(a), 3, 2.5)
    m["packed"](tensor(a), 4, 3)
    assert calls == [(3, 2.5, "hello"), (4, 3.0, "hello")]
    x, y = np.ones(1024, "float32"), np.zeros(1024, "float32")
    m["work"](tensor(x), tensor(y))
    assert (y == 3).all()
    fails(TypeError, lambda: m["add"](1, 2, 3), "Mismatched type on argument #0", "expected Tensor")


def adapted(path: str) -> None:
    """Functions of the classic convention, which call back."""
    seen: list[Any] = []

    def callback(*args: Any) -> Any:
        seen.append(args[:2])
        if len(seen) == 3:
            raise KeyError("third")
        return [41, "a text that is long"][len(seen) - 1]

    tvm_ffi.register_global_func("my.callback", callback, override=True)
    m = load(path)
    a = np.arange(4, dtype="float32")
    assert m["twice"](4) == 8
    m["addone"](tensor(a))
    assert a.tolist() == [1, 2, 3, 4]
    for value in ("abc", "a longer text", None, b"bytes", b"many more bytes", 2.5, 7):
        assert m["same"](value) == value
    assert [m["calls"](tensor(a)), m["calls"](tensor(a))] == [41, "a text that is long"]
    fails(KeyError, lambda: m["calls"](tensor(a)), "third")
    assert seen[0] == (7, "from classic")
    fails(RuntimeError, lambda: m["twice"]("x"), "twice: wants one int")
    fails(RuntimeError, lambda: m["twice"](*range(40)), "twice: wants one int")
    fails(TypeError, lambda: m["twice"](m["twice"]), "argument 0 is of type 68")
    fails(RuntimeError, lambda: m["fails"](), "fails: failed with status -1")
    assert m["main"](5) == 10


def golden(folder: str) -> None:
    """What TVM 0.14 exported: a kernel of each target, a parallel loop with a workspace, errors,
    and kernels that ask for a device."""
    for name in ("host_llvm", "host_c"):
        m = load(f"{folder}/{name}.so")
        a, b, c = (
            np.arange(1024, dtype="float32"),
            np.ones(1024, "float32"),
            np.zeros(1024, "float32"),
        )
        m["vadd"](tensor(a), tensor(b), tensor(c))
        assert (c == a + b).all()
    m = load(f"{folder}/host_llvm.so")
    fails(RuntimeError, lambda: m["vadd"](tensor(a)), "num_args should be 3")
    m = load(f"{folder}/host_parallel.so")
    fails(RuntimeError, lambda: m["par_matmul"](tensor(a)), "num_args should be 2")
    x, wanted = np.load(f"{folder}/x.npy"), np.load(f"{folder}/y.npy")
    y = np.zeros_like(wanted)
    m["par_matmul"](tensor(x), tensor(y))
    assert np.allclose(y, wanted, rtol=1e-4)
    loader_of("opencl")
    m = load(f"{folder}/opencl_llvm.so")
    assert len(PAYLOADS) == 1 and m.implements_function("vadd")


def without_a_loader(path: str) -> None:
    """tvm_ffi is in the process, nothing but dlopen() opened the library: it has no module to look
    in."""
    library = ctypes.CDLL(path)
    address = ctypes.cast(library["__tvm_ffi_calls"], ctypes.c_void_p).value
    function = tvm_ffi.Function.__from_extern_c__(address, keep_alive_object=library)
    fails(RuntimeError, lambda: function(1), "my.callback: no runtime has opened this library")


def system_lib(path: str, prefix: str) -> None:
    """Objects that are linked into a library of the program's, and announce themselves."""
    loader_of("my.kind")
    ctypes.CDLL(path)
    m = tvm_ffi.system_lib(prefix)
    assert PAYLOADS == [b"hello"]
    assert len(m.imports) == 1
    a, c = np.arange(3, dtype="float32"), np.zeros(3, "float32")
    m["vadd"](tensor(a), tensor(a), tensor(c), 3)
    assert c.tolist() == [0, 2, 4]
    assert m["greet"]("a longer name") == "hello a longer name"
    fails(TypeError, lambda: m["vadd"](1, 2, 3, 4), "Mismatched type on argument #0")


def refused(path: str) -> None:
    try:
        load(path)
    except Exception:
        return
    raise AssertionError("it opens")


def make(folder: str) -> None:
    """What TVM 0.27 compiles and exports, for the C target and for LLVM."""
    from tvm import te
    from tvm.script import tirx as T

    n = te.var("n")
    A, B = te.placeholder((n,), "float32", name="A"), te.placeholder((n,), "float32", name="B")
    add = te.create_prim_func([A, B, te.compute((n,), lambda i: A[i] + B[i], name="C")])

    @T.prim_func
    def packed(A: T.Buffer((4,), "float32"), k: T.int32, x: T.float32):  # type: ignore[no-untyped-def]
        T.func_attr({"global_symbol": "packed"})
        T.evaluate(T.call_packed("my.callback", A.data, k, x, "hello"))

    @T.prim_func
    def work(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32")):  # type: ignore[no-untyped-def]
        T.func_attr({"global_symbol": "work"})
        t = T.alloc_buffer((4096,), "float32")
        for i in range(1024):
            t[i] = A[i] * 2.0
        for i in T.parallel(1024):
            B[i] = t[i] + 1.0

    module = tvm.IRModule(
        {"add": add.with_attr("global_symbol", "add"), "packed": packed, "work": work}
    )
    for target in ("c", "llvm"):
        built = tvm.compile(module, target=target).mod
        built.export_library(str(Path(folder) / f"{target}.tar"))
        built.export_library(str(Path(folder) / f"{target}.so"))


def make_system_lib(folder: str) -> None:
    """A system library of prefix tvm_, with one function that has the prefix in its name and others
    that have not."""
    from tvm.script import tirx as T

    @T.prim_func
    def main(n: T.int32) -> T.int32:  # type: ignore[no-untyped-def]
        return n * 3

    @T.prim_func
    def prefixed(n: T.int32) -> T.int32:  # type: ignore[no-untyped-def]
        T.func_attr({"global_symbol": "tvm_prefixed"})
        return n + 7

    @T.prim_func
    def asks(n: T.int32) -> T.int32:  # type: ignore[no-untyped-def]
        return T.call_packed("test.twice", n) + 1

    @T.prim_func
    def above(n: T.int32) -> T.bool:  # type: ignore[no-untyped-def]
        return n > 3

    @T.prim_func
    def loop(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")):  # type: ignore[no-untyped-def]
        for i in T.parallel(64):
            b[i] = a[i] * 2.0

    @T.prim_func
    def below(a: T.Buffer((64,), "float32"), n: T.int32):  # type: ignore[no-untyped-def]
        for i in T.parallel(64):
            assert a[i] < T.Cast("float32", n), ("ValueError", ["too large"])

    functions = {"main": main, "asks": asks, "above": above, "loop": loop, "below": below}
    module = tvm.IRModule(
        {name: f.with_attr("global_symbol", name) for name, f in functions.items()}
    )
    module.update(tvm.IRModule({"tvm_prefixed": prefixed}))
    built = tvm.compile(module.with_attr("system_lib_prefix", "tvm_"), target="llvm").mod
    built.export_library(str(Path(folder) / "lib.tar"))


def make_constants(folder: str, source: str) -> None:
    """const.so: constants over the functions of a C text; vm.so: an executable of relax over
    both."""
    from tvm import relax
    from tvm.script import ir as I
    from tvm.script import relax as R
    from tvm.script import tirx as T

    @I.ir_module
    class Model:
        @T.prim_func
        def twice(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):  # type: ignore[no-untyped-def]
            T.func_attr({"global_symbol": "twice"})
            for i in range(4):
                B[i] = A[i] * 2.0

        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):  # type: ignore[no-untyped-def]
            return R.call_tir(Model.twice, (x,), R.Tensor((4,), "float32"))  # type: ignore[arg-type]

    arrays = {
        "w": np.arange(6, dtype="float32").reshape(2, 3),
        "b": np.array(7, "int8"),
        "h": np.ones(3, "float16"),
        "f": np.ones(3, "bool"),
    }
    tensors = {name: tvm.runtime.tensor(array) for name, array in arrays.items()}
    symbols = {"ext": ["w", "b"], "ext2": ["h", "w", "f"], "none": []}
    constants = tvm_ffi.get_global_func("ffi.Module.create.const_loader")(tensors, symbols)
    names = [name for symbol in symbols for name in (symbol, f"__init_{symbol}")]
    create = tvm_ffi.get_global_func("runtime.CSourceModuleCreate")
    constants.import_module(create(Path(source).read_text(), "c", names, []))
    for name in ("const.so", "const.tar"):
        constants.export_library(str(Path(folder) / name))
    executable = relax.build(Model, target="llvm")
    executable.mod.import_module(constants)
    executable.export_library(str(Path(folder) / "vm.so"))


def initialised(path: str, *kinds: str) -> None:
    """Constants are given to each function before its first call, and the modules beside arrive."""
    for kind in kinds:
        loader_of(kind)
    m = load(path)
    assert (m.kind, len(m.imports), len(PAYLOADS)) == ("const_loader", 1 + len(kinds), len(kinds))
    for _ in range(2):
        found = {name: m.get_function(name, True)() for name in ("ext", "ext2", "none")}
        assert found == {"ext": 12010023, "ext2": 13068039, "none": 10000000}, found


if __name__ == "__main__":
    globals()[sys.argv[2]](*sys.argv[3:])
    print("fine")
