"""Programs of test_beside_tvm.py: each runs in a process of its own, with TVM and mblob loaded in
the order asked for.

python -m tests.e2e.beside_tvm ORDER PROGRAM ARGUMENT...
ORDER is words of "tvm", "tvm_ffi" and "mblob", joined by commas, with "global" where libmblob is
opened with RTLD_GLOBAL, as a program has it that links it.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

NUMBERS = np.arange(1000, dtype=np.float32)
PROCESS = ctypes.CDLL(None)


def file_of(address: int) -> str:
    """The file that is mapped at an address."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, _, rest = line.partition(" ")
        start, end = (int(number, 16) for number in span.split("-"))
        if start <= address < end:
            return Path(rest.split()[-1]).name
    raise AssertionError(f"nothing is mapped at {address:#x}")


def found(names: list[str]) -> dict[str, str]:
    """The file whose symbol a library without its own would get, by name; those that nobody has are
    left out."""
    files = {}
    for name in names:
        try:
            address = ctypes.cast(getattr(PROCESS, name), ctypes.c_void_p).value
        except AttributeError:
            continue
        assert address
        files[name] = file_of(address)
    return files


def load(order: str, names: list[str]) -> None:
    """Import in this order; after each step the global scope must have nothing of libmblob, unless
    it was put there."""
    before: dict[str, str] = {}
    words = order.split(",")
    for word in words:
        if word == "global":
            (runtime,) = (Path(__file__).parents[2] / "loader" / "_lib").glob("libmblob.so.0")
            ctypes.CDLL(str(runtime), mode=ctypes.RTLD_GLOBAL)
            continue
        importlib.import_module(word)
        if word == "mblob":
            importlib.import_module("mblob.native.runtime")
        now = found(names)
        if "global" in words:
            continue
        assert not [name for name, file in now.items() if "mblob" in file], now
        if word == "mblob":
            assert now == before
        before = now


def tvm_kernel() -> Any:
    """y = x * 2 + 1 over 1000 floats, in parallel, compiled by TVM."""
    import tvm
    from tvm import te

    x = te.placeholder((1000,), "float32", name="x")
    y = te.compute((1000,), lambda i: x[i] * 2.0 + 1.0, name="y")
    schedule = tvm.s_tir.Schedule(te.create_prim_func([x, y]))
    (loop,) = schedule.get_loops(schedule.get_sblock("y"))
    schedule.parallel(loop)
    return tvm.compile(schedule.mod, target="llvm")["main"]


def check_tvm_kernel(kernel: Any) -> None:
    import tvm

    x, y = tvm.runtime.tensor(NUMBERS), tvm.runtime.tensor(NUMBERS * 0)
    kernel(x, y)
    assert (y.numpy() == NUMBERS * 2 + 1).all()


# -- programs --------------------------------------------------------------------------------------


def nothing(_: list[str]) -> None:
    """The imports alone."""


def kernels(arguments: list[str]) -> None:
    """A library with undefined runtime functions runs on mblob's runtime, TVM's own code on
    TVM's."""
    import tvm_ffi

    import mblob

    own = tvm_kernel()
    check_tvm_kernel(own)
    mblob.register_func("host.answer", lambda *args: 42)
    tvm_ffi.register_global_func("host.answer", lambda *args: 7)
    module = mblob.load_module(arguments[0])
    assert module["constructor_ran"]() == 1
    assert module["weak_ones"]() == 1
    assert "libmblob" in file_of(module["address_of_call"]())
    assert module["parallel"](3) == 3
    assert module["asks"]() == 42
    assert tvm_ffi.get_global_func("host.answer")() == 7
    out = np.empty_like(NUMBERS)
    for _ in range(20):  # both thread pools, in turns
        module["two_stages"](NUMBERS, out)
        assert (out == (NUMBERS + 1) * 2).all()
        assert module["parallel"](5) == 5
        check_tvm_kernel(own)
    halves = np.arange(0x7C00, dtype=np.uint16)
    for name in ("half_to_float", "half_to_float_in_registers"):
        floats = np.empty(len(halves), np.float32)
        module[name](halves, floats)
        assert (floats == halves.view(np.float16)).all()
    try:
        module["fails_with"]("of the kernel")
    except mblob.KernelError as error:
        assert str(error) == "of the kernel"
    else:
        raise AssertionError("no error")
    try:
        own(1)
    except Exception as error:
        assert not isinstance(error, mblob.MblobError), error
    else:
        raise AssertionError("no error")


def tensors(arguments: list[str]) -> None:
    """Tensors go both ways without a copy, and outlive the side that made them."""
    import gc

    import tvm
    import tvm_ffi

    import mblob

    own = tvm_kernel()
    module = mblob.load_module(arguments[0])
    for make in (tvm.runtime.tensor, lambda a: tvm_ffi.from_dlpack(a.copy())):
        x, y = make(NUMBERS), make(NUMBERS * 0)
        module["two_stages"](x, y)  # written in place
        assert (np.from_dlpack(y) == (NUMBERS + 1) * 2).all()
    x, y = mblob.array(NUMBERS), mblob.empty((1000,), "float32")
    own(tvm_ffi.from_dlpack(x), tvm_ffi.from_dlpack(y))
    assert (y.numpy() == NUMBERS * 2 + 1).all()
    for dtype in ("float16", "float64", "int8", "uint8", "int32", "int64", "uint64", "bool"):
        values = (np.arange(24).reshape(2, 3, 4) % 2).astype(dtype)
        made = mblob.array(values)
        theirs = tvm_ffi.from_dlpack(made)
        assert tuple(theirs.shape) == (2, 3, 4)
        assert str(theirs.dtype) == dtype
        del made
        gc.collect()
        assert (np.from_dlpack(theirs) == values).all()
        theirs = tvm_ffi.from_dlpack(values.copy())
        copy = mblob.array(theirs)
        del theirs
        gc.collect()
        assert copy.dtype == dtype
        assert (copy.numpy() == values).all()


def golden(arguments: list[str]) -> None:
    """Libraries of TVM 0.14 on mblob while another TVM is loaded; and that TVM beside them."""
    import tvm

    import mblob

    folder = Path(arguments[0])
    a, c = np.arange(1024, dtype=np.float32), np.empty(1024, np.float32)
    for name in ("host_llvm.so", "host_c.so"):
        mblob.load_module(folder / name)["vadd"](a, a, c)
        assert (c == 2 * a).all()
    square = np.random.default_rng(1).random((512, 512), dtype=np.float32)
    product = np.empty_like(square)
    mblob.load_module(folder / "host_parallel.so")["par_matmul"](square, product)
    assert np.allclose(product, (2 * square) @ (2 * square), rtol=1e-4)
    for name in ("mlp_llvm", "mlp_c"):
        expected = np.load(folder / f"{name}.npz")
        factory = mblob.load_module(folder / f"{name}.so")
        model = mblob.graph_executor.GraphModule(factory["default"](mblob.cpu(0)))
        model.set_input("data", expected["data"])
        model.run()
        assert np.allclose(model.get_output(0).numpy(), expected["out"], rtol=1e-5)
    module = tvm.runtime.load_module(str(folder / "ffi" / "ctx_llvm.so"))
    with mblob.open(folder / "ffi" / "ctx_llvm.so") as looked_at:
        assert "TVMFFIErrorSetRaisedFromCStrParts" in looked_at.undefined
    assert len(list(module.imports)) == 0
    check_tvm_kernel(tvm_kernel())


def packed_here(arguments: list[str]) -> None:
    """A library that mblob packed opens in this TVM, which knows another format, as one without
    functions."""
    import tvm

    import mblob

    path, text = (
        arguments[0],
        "#include <stdint.h>\nvoid f(float *a, int64_t n) { for (; n--;) a[n] += 1; }\n",
    )
    host = mblob.csource_module(text, functions=["void f(float a[n], int64_t n)"])
    host.import_module(mblob.blob_module("my_key", b"bytes"))
    host.export_library(path)
    theirs, ours = tvm.runtime.load_module(path), mblob.load_module(path)
    assert not theirs.implements_function("f")
    a = np.zeros(3, np.float32)
    ours["f"](a, 3)
    del theirs
    ours["f"](a, 3)
    assert (a == 2).all()
    assert bytes(ours.imported_modules[0].payload) == b"bytes"


def main() -> None:
    order, program, *arguments = sys.argv[1:]
    names = os.environ["NAMES_OF_LIBMBLOB"].split()
    load(order, names)
    before = found(names)
    globals()[program](arguments)
    assert found(names) == before
    print("fine")


if __name__ == "__main__":
    main()
