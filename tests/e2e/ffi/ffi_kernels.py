"""Kernels of many characters, compiled by TVM 0.27: `python -m tests.e2e.ffi.ffi_kernels FOLDER`
writes {c,llvm,more}.so.

The C target knows fewer types and calls than LLVM does; what it cannot write is in more.so, for a
cpu that is named.
"""

# mypy: ignore-errors

from __future__ import annotations

import platform
import sys
from pathlib import Path

import tvm
from tvm.script import tirx as T


def copy_of(dtype: str) -> tvm.tirx.PrimFunc:
    @T.prim_func
    def copy(A: T.Buffer((16,), dtype), B: T.Buffer((16,), dtype)):
        for i in range(16):
            B[i] = A[i]

    return copy


@T.prim_func
def send(A: T.Buffer((2, 3), "float32"), a: T.int32, b: T.int64, c: T.float32, d: T.float64, e: T.bool, h: T.handle,
         u: T.uint8, s: T.int16):  # fmt: skip
    T.evaluate(
        T.call_packed(
            "t.see",
            A.data,
            a,
            b,
            c,
            d,
            e,
            h,
            u,
            s,
            "text",
            "",
            "\u00e9 and more than 7",
            T.int64(-5),
            True,
        )
    )


@T.prim_func
def rows(A: T.Buffer((16, 64), "float32"), B: T.Buffer((16, 64), "float32")):
    for i in T.parallel(16):
        t = T.alloc_buffer((64,), "float32")
        for j in range(64):
            t[j] = A[i, j] + 1.0
        for j in range(64):
            B[i, j] = t[j] * T.Cast("float32", i)


@T.prim_func
def workspace(A: T.Buffer((1024,), "int32"), B: T.Buffer((1024,), "int32")):
    t = T.alloc_buffer((200000,), "int32")
    u = T.alloc_buffer((100000,), "int64")
    for i in range(200000):
        t[i] = A[i % 1024] + i
    for i in range(100000):
        u[i] = T.Cast("int64", t[i * 2])
    for i in T.parallel(1024):
        B[i] = t[i * 100] + T.Cast("int32", u[i])


@T.prim_func
def calls_in_tasks(A: T.Buffer((8,), "int32")):
    for i in T.parallel(8):
        T.evaluate(T.call_packed("t.task", i, A.data))


@T.prim_func
def asserts_in_tasks(A: T.Buffer((64,), "float32"), n: T.float32):
    for i in T.parallel(64):
        assert A[i] < n, ("IndexError", ["a task ", "refuses"])
        A[i] = A[i] + T.float32(1)


@T.prim_func
def negated(A: T.Buffer((16,), "bool"), B: T.Buffer((16,), "bool")):
    for i in range(16):
        B[i] = not A[i]


@T.prim_func
def above(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "bool"), x: T.float32):
    for i in range(16):
        B[i] = A[i] > x


@T.prim_func
def take_int8(A: T.Buffer((1,), "int8"), x: T.int8):
    A[0] = x


@T.prim_func
def take_uint32(A: T.Buffer((1,), "uint32"), x: T.uint32):
    A[0] = x


@T.prim_func
def take_uint64(A: T.Buffer((1,), "uint64"), x: T.uint64):
    A[0] = x


@T.prim_func
def take_bool(A: T.Buffer((1,), "bool"), x: T.bool):
    A[0] = x


@T.prim_func
def take_float32(A: T.Buffer((1,), "float32"), x: T.float32):
    A[0] = x


@T.prim_func
def no_rank(a: T.handle, b: T.handle):
    A = T.match_buffer(a, (), "float32")
    B = T.match_buffer(b, (), "float32")
    B[()] = A[()] + 1.0


@T.prim_func
def gaps(a: T.handle, b: T.handle):
    A = T.match_buffer(a, (3, 4), "float32", strides=[8, 1])
    B = T.match_buffer(b, (3, 4), "float32")
    for i, j in T.grid(3, 4):
        B[i, j] = A[i, j]


@T.prim_func
def symbolic(a: T.handle, b: T.handle, c: T.handle):
    n = T.int64()
    m = T.int64()
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (m, n), "float32")
    C = T.match_buffer(c, (n * m + 1,), "float32")
    for i, j in T.grid(n, m):
        C[i * m + j] = A[i, j] + B[j, i]


@T.prim_func
def shifted(a: T.handle, b: T.handle, k: T.int32):
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n + k,), "float32")
    for i in range(n):
        B[i + k] = A[i]


@T.prim_func
def offset(a: T.handle, b: T.handle):
    o = T.int64()
    A = T.match_buffer(a, (4,), "float32", elem_offset=o, offset_factor=1)
    B = T.match_buffer(b, (4,), "float32")
    for i in range(4):
        B[i] = A[i]


@T.prim_func
def positive(n: T.int32) -> T.int32:
    assert n > 0, ("ValueError", ["n ", "must be", " positive, 100% of the time: \u00e9"])
    return n * 2


@T.prim_func
def late(A: T.Buffer((4,), "float32"), n: T.int32):
    for i in range(4):
        A[i] = T.Cast("float32", i)
        assert i < n, "stops here"


@T.prim_func
def wide_loop(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "int64")
    B = T.match_buffer(b, (n,), "int64")
    for i in T.parallel(n):
        B[i] = A[i] + i


@T.prim_func
def mathematics(A: T.Buffer((8,), "float64"), B: T.Buffer((8,), "float64")):
    for i in range(8):
        B[i] = (
            T.erf(A[i])
            + T.tanh(A[i])
            + T.pow(A[i], 1.5)
            + T.call_extern("float64", "hypot", A[i], A[i])
        )


@T.prim_func
def give_int(n: T.int64) -> T.int64:
    if n == 0:
        return T.int64(9223372036854775807)
    return n * T.int64(3)


@T.prim_func
def give_uint8(n: T.int32) -> T.uint8:
    return T.Cast("uint8", n)


@T.prim_func
def give_float(n: T.int32) -> T.float32:
    return T.Cast("float32", n) / T.float32(2)


@T.prim_func
def give_bool(n: T.int32) -> T.bool:
    return n > 3


@T.prim_func
def give_nothing(n: T.int32):
    T.evaluate(n)


@T.prim_func
def half_sum(A: T.Buffer((16,), "float16"), B: T.Buffer((16,), "float16")):
    for i in range(16):
        B[i] = A[i] * T.float16(2) + T.float16(1)


@T.prim_func
def vectors(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(8):
        for j in T.vectorized(8):
            B[i * 8 + j] = T.sqrt(A[i * 8 + j]) * T.float32(3)


@T.prim_func
def lends(A: T.Buffer((4, 6), "float32")):
    t = T.alloc_buffer((8,), "float32")
    for i in range(8):
        t[i] = A[i // 6, i % 6] * 2.0
    T.evaluate(T.call_packed("t.tensors", t, A))


@T.prim_func
def misses(A: T.Buffer((4,), "float32")):
    A[0] = T.float32(1)
    T.evaluate(T.call_packed("t.nobody", A))


@tvm.script.ir_module
class Calls:
    @T.prim_func
    def twice(n: T.int32) -> T.int32:
        T.func_attr({"global_symbol": "twice"})
        return n * 2

    @T.prim_func(private=True)
    def add_to(data: T.handle("float32"), n: T.int32):
        A = T.decl_buffer((4,), "float32", data=data)
        for i in range(4):
            A[i] = A[i] + T.Cast("float32", n)

    @T.prim_func
    def main(A: T.Buffer((4,), "float32"), n: T.int32):
        T.func_attr({"global_symbol": "main"})
        Calls.add_to(A.data, n)
        Calls.add_to(A.data, 1)

    @T.prim_func
    def four_times(n: T.int32) -> T.int32:
        T.func_attr({"global_symbol": "four_times"})
        return Calls.twice(Calls.twice(n))


BOTH = [send, rows, workspace, calls_in_tasks, asserts_in_tasks, negated, above, take_int8, take_uint32, take_uint64,
        take_bool, take_float32, no_rank, gaps, symbolic, shifted, offset, positive, late, wide_loop, mathematics,
        give_int, give_uint8, give_float, give_bool, give_nothing]  # fmt: skip
MORE = [half_sum, vectors, lends, misses]
TYPES = ("bool", "int8", "uint64", "bfloat16", "float8_e4m3fn", "float8_e5m2")
MORE_TYPES = ("float16", "int4", "uint4", "int2", "float4_e2m1fn", "uint16x2")


def module(functions: list[tvm.tirx.PrimFunc], types: tuple[str, ...]) -> tvm.IRModule:
    named = {f.attrs["global_symbol"]: f for f in functions}
    named |= {f"copy_{t}": copy_of(t) for t in types}
    return tvm.IRModule({name: f.with_attr("global_symbol", name) for name, f in named.items()})


def main() -> None:
    folder = Path(sys.argv[1])
    for target in ("c", "llvm"):
        tvm.compile(module(BOTH, TYPES), target=target).mod.export_library(
            str(folder / f"{target}.so")
        )
    more = module(MORE, MORE_TYPES)
    more.update(Calls)
    cpu = {"mcpu": "x86-64-v2"} if platform.machine() == "x86_64" else {}
    tvm.compile(more, target={"kind": "llvm", **cpu}).mod.export_library(str(folder / "more.so"))
    print("fine")


if __name__ == "__main__":
    main()
