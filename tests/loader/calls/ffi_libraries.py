"""Libraries that apache-tvm exports, in the ffi dialect: `python -m
tests.loader.calls.ffi_libraries FOLDER` writes them.

In a process of its own: tests of mblob run without TVM.
"""

# No `from __future__ import annotations`: TVM's parser looks at the annotations themselves.
import sys
from pathlib import Path

import tvm
from tvm import relax, te
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T


@I.ir_module
class Host:
    """Kernels for the processor."""

    @T.prim_func
    def main(
        a: T.Buffer((16,), "float32"), b: T.Buffer((16,), "float32"), c: T.Buffer((16,), "float32")
    ):
        T.func_attr({"global_symbol": "main"})
        for i in range(16):
            c[i] = a[i] + b[i]

    @T.prim_func
    def scale(x: T.handle, n: T.int64, f: T.float32):
        T.func_attr({"global_symbol": "scale"})
        m = T.int64()
        a = T.match_buffer(x, (m, 2), "float32")
        for i, j in T.grid(m, 2):
            a[i, j] = a[i, j] * f + T.Cast("float32", n)

    @T.prim_func
    def iadd(a: T.int64, b: T.int64) -> T.int64:
        T.func_attr({"global_symbol": "iadd"})
        return a + b

    @T.prim_func
    def flip(a: T.Buffer((4,), "bool"), b: T.Buffer((4,), "bool")):
        T.func_attr({"global_symbol": "flip"})
        for i in range(4):
            b[i] = T.Not(a[i])

    @T.prim_func
    def above(n: T.int32) -> T.bool:
        T.func_attr({"global_symbol": "above"})
        return n > 3

    @T.prim_func
    def widen(a: T.Buffer((2, 3), "int8"), b: T.Buffer((2, 3), "uint64")):
        T.func_attr({"global_symbol": "widen"})
        for i, j in T.grid(2, 3):
            b[i, j] = T.Cast("uint64", a[i, j])


@I.ir_module
class Calls:
    """Kernels that call functions by name, use workspaces and run loops in parallel."""

    @T.prim_func
    def notes(a: T.Buffer((8,), "float32"), n: T.int64, f: T.float32):
        T.func_attr({"global_symbol": "notes"})
        T.evaluate(T.call_packed("test.note", "a text that is long", "short", n, f, a.data))

    @T.prim_func
    def answers(n: T.int32) -> T.int32:
        T.func_attr({"global_symbol": "answers"})
        return T.call_packed("test.answer", n) + 1

    @T.prim_func
    def misses(n: T.int32):
        T.func_attr({"global_symbol": "misses"})
        T.evaluate(T.call_packed("test.nobody", n))

    @T.prim_func
    def works(a: T.Buffer((1024,), "float32"), b: T.Buffer((1024,), "float32")):
        T.func_attr({"global_symbol": "works"})
        t = T.alloc_buffer((200000,), "float32")
        for i in T.parallel(1024):
            t[i] = a[i] * T.float32(2)
        for i in T.parallel(1024):
            b[i] = t[i] + T.float32(1)

    @T.prim_func
    def loops(n: T.int32):
        T.func_attr({"global_symbol": "loops"})
        for i in T.parallel(64):
            T.evaluate(T.call_packed("test.each", i))


@I.ir_module
class Tensors:
    """Passes a tensor that it makes itself (C code for that does not compile in TVM 0.27)."""

    @T.prim_func
    def shows(a: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "shows"})
        T.evaluate(
            T.call_packed(
                "test.tensor",
                T.tvm_stack_make_array(
                    a.data,
                    T.tvm_stack_make_shape(8, dtype="handle"),
                    0,
                    1,
                    T.float32(0),
                    0,
                    dtype="handle",
                ),
            )
        )


@I.ir_module
class Model:
    """A model of relax: code of a virtual machine over kernels."""

    @R.function
    def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        with R.dataflow():
            y = R.add(x, R.const(1.0, "float32"))
            R.output(y)
        return y


def device_library(kind: str) -> tvm.runtime.Module:
    """c = a + b over 1024 floats for a device."""
    a, b = (te.placeholder((1024,), name=name) for name in "ab")
    c = te.compute((1024,), lambda i: a[i] + b[i], name="c")
    function = te.create_prim_func([a, b, c]).with_attr("global_symbol", "vadd")
    schedule = tvm.s_tir.Schedule(tvm.IRModule({"vadd": function}))
    schedule.work_on("vadd")
    (loop,) = schedule.get_loops(schedule.get_sblock("c"))
    outer, inner = schedule.split(loop, [None, 64])
    schedule.bind(outer, "blockIdx.x")
    schedule.bind(inner, "threadIdx.x")
    return tvm.tirx.build(schedule.mod, target=tvm.target.Target(kind, host="llvm"))


def main() -> None:
    """Write host_T.so, calls_T.so for both targets, tensors.so, opencl.so, cuda.so, relax_MODE.so
    for both modes."""
    folder = Path(sys.argv[1])
    for target in ("llvm", "c"):
        for name, module in (("host", Host), ("calls", Calls)):
            tvm.tirx.build(module, target=target).export_library(
                str(folder / f"{name}_{target}.so")
            )
    tvm.tirx.build(Tensors, target="llvm").export_library(str(folder / "tensors.so"))
    for kind in ("opencl", "cuda"):
        device_library(kind).export_library(str(folder / f"{kind}.so"))
    for mode in ("bytecode", "compiled"):
        relax.build(Model, target="llvm", exec_mode=mode).export_library(
            str(folder / f"relax_{mode}.so")
        )


if __name__ == "__main__":
    main()
