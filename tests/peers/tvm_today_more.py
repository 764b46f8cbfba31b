"""Kernels of further cases of TVM's tests of today: intrinsics, numbers, tensor expressions, and
calls of functions of the host. `tests/peers/tvm_today.py` compiles them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.peers.kernel import F, Kernel, array, elementwise, function, loop, values

# -- functions that kernels call -------------------------------------------------------------------


def _copy(*arrays: Any) -> None:
    """The first half of the arrays goes to the second."""
    half = len(arrays) // 2
    for source, to in zip(arrays[:half], arrays[half:]):
        source.copyto(to)


def _matmul(a: Any, b: Any, c: Any, *_: int) -> None:
    c.copyfrom(a.numpy() @ b.numpy())


HOST: dict[str, Callable[..., Any]] = {
    "peers.nothing": lambda *_: None,
    "peers.last": lambda *args: args[-1],
    "peers.sum": lambda a, b: a + b,
    "peers.sum_of_all": lambda *args: sum(args),
    "peers.thirteen": lambda _: 13,
    "peers.fourteen": lambda _: 14,
    "peers.thirteen_and_half": lambda _: 13.5,
    "peers.copy": _copy,
    "peers.matmul": _matmul,
}


def host_call(name: str, *arguments: str) -> str:
    words = ", ".join((f'"{name}"', *arguments))
    return f"T.call_packed({words})"


# -- codegen/test_target_codegen_llvm, _c_host, _extern ---------------------------------------------

LLVM, C_HOST = "test_target_codegen_llvm", "test_target_codegen_c_host"
BF = "bfloat16"
MORE_LLVM = [
    Kernel(
        f"{LLVM}.test_call_packed_returning_void",
        function("x: T.int32", f"T.evaluate({host_call('peers.nothing', 'x')})"),
        [[3]],
    ),
    Kernel(
        f"{LLVM}.test_call_extern_returning_void",
        function("x: T.int32", 'T.evaluate(T.call_extern("void", "srand", x))'),
        [[3]],
    ),
    Kernel(f"{LLVM}.test_debug_symbol_for_float64", elementwise(16, "float64", "float64", "A[i]"),
           [[array("float64", 16, start=3), array("float64", 16)]]),
    Kernel(f"{LLVM}.test_dwarf_debug_information",
           elementwise(1024, F, F, "A[i] + A[1023 - i]", "T.parallel"),
           [[array(F, 1024), array(F, 1024)]]),
    Kernel(f"{LLVM}.test_llvm_crt_static_lib", elementwise(32, BF, BF, "A[i] + A[31 - i]"),
           [[array(BF, 32), array(BF, 32)]]),
    Kernel(f"{LLVM}.test_llvm_import",
           elementwise(10, F, F, 'T.call_pure_extern("float32", "fmaxf", A[i], T.float32(4))'),
           [[array(F, 10), array(F, 10)]]),
    Kernel(f"{LLVM}.test_llvm_intrin",
           function('A: T.Buffer((4,), "float32")',
                    'T.evaluate(T.Call("tirx.prefetch", [T.address_of(A[0]), 0, 3, 1], ret_ty="void"))',
                    "A[3] = A[0] + T.float32(5)"),
           [[array(F, 4, start=2)]]),
    Kernel(f"{LLVM}.test_llvm_lookup_intrin",
           elementwise(8, "uint32", "uint32",
                       'T.call_llvm_pure_intrin("uint32", "llvm.ctpop.i32", A[i])'),
           [[values("uint32", 0, 1, 3, 7, 255, 256, 65535, 4294967295), array("uint32", 8)]]),
    Kernel(f"{LLVM}.test_llvm_intrinsic_id",
           elementwise(4, "uint32", "uint32",
                       'T.call_llvm_pure_intrin("uint32", "llvm.bitreverse.i32", A[i])'),
           [[values("uint32", 1, 2, 6, 4294967295), array("uint32", 4)]]),
    Kernel(f"{LLVM}.test_llvm_overloaded_intrin",
           elementwise(4, "int32", "int32",
                       'T.call_llvm_pure_intrin("int32", "llvm.ctlz", A[i], T.bool(False))'),
           [[values("int32", 0, 1, 1000, 2147483647), array("int32", 4)]]),
    Kernel(f"{LLVM}.test_llvm_void_intrin",
           function('A: T.Buffer((2,), "int32")', "T.assume(A[0] == 1)", "A[1] = A[0] + 1"),
           [[values("int32", 1, 0)]]),
    *(
        Kernel(f"{LLVM}.test_llvm_order_functions",
               function("v: T.float32, B: T.Buffer((1,), 'float32')",
                        f'B[0] = T.call_extern("float32", "{name}", v)'),
               [[2.75, array(F, 1)]])
        for name in ("sqrtf", "floorf", "cbrtf")
    ),
    Kernel(f"{LLVM}.test_llvm_scalar_concat",
           function('x: T.int32, y: T.int32, B: T.Buffer((2,), "int32")',
                    "B[T.Ramp(0, 1, 2)] = T.Shuffle([x, y], [0, 1])"),
           [[3, -4, array("int32", 2)]]),
    Kernel(
        f"{LLVM}.test_llvm_target_attributes",
        function(
            "a: T.handle, b: T.handle, n: T.int32",
            "A = T.match_buffer(a, (n,))",
            "B = T.match_buffer(b, (n,))",
            "for j in T.parallel(2):",
            "    for i in range((n + 1) // 2):",
            "        if j * ((n + 1) // 2) + i < n:",
            "            B[j * ((n + 1) // 2) + i] = A[j * ((n + 1) // 2) + i] + T.float32(1)",
        ),
        [[array(F, n), array(F, n), n] for n in (1, 6, 7)] + [[array(F, 7), array(F, 7), 6]],
    ),
    Kernel(
        f"{LLVM}.test_rank_zero_bound_checkers",
        function(
            'A: T.Buffer((64,), "float32"), s: T.Buffer((), "float32"), B: T.Buffer((), "float32")',
            'C = T.alloc_buffer((), "float32")',
            "C[()] = T.float32(0)",
            *loop(64, "C[()] = C[()] + A[i] * s[()]"),
            "B[()] = C[()] + T.float32(1)",
        ),
        [[array(F, 64), array(F, start=2), array(F)]],
        pass_config={"tirx.instrument_bound_checkers": True},
    ),
    *(
        Kernel(
            f"{suite}.test_subroutine_call",
            "module\n"
            + function('A: T.Buffer((1,), "float32")', "Module.INNER(A.data)")
            + function("data: T.handle('float32')", 'A = T.decl_buffer((1,), "float32", data=data)',
                       "A[0] = T.float32(42)", name="INNER"),
            [[array(F, 1)]],
            target,
        )
        for suite, target in ((LLVM, "llvm"), (C_HOST, "c"))
    ),
    Kernel(
        f"{C_HOST}.test_local_alloc_buffer_uses_plain_c_pointer",
        function('A: T.Buffer((1,), "float32")', 'B = T.alloc_buffer((1,), "float32", scope="local")',
                 "B[0] = A[0] + T.float32(1)", "A[0] = B[0]"),
        [[array(F, 1, start=1)]],
        "c",
    ),
    Kernel(
        "test_target_codegen_extern.test_add_pipeline",
        function(
            'A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")',
            *loop(32, "C[T.Ramp(i * 2, 1, 2)] = A[T.Ramp(i * 2, 1, 2)] + T.Broadcast(T.float32(1), 2)"),
        ),
        [[array(F, 64), array(F, 64)]],
    ),
    Kernel(
        "test_target_codegen_extern.test_pack_buffer_simple",
        function('A: T.Buffer((1024,), "float32"), C: T.Buffer((1024,), "float32")',
                 f"T.evaluate({host_call('peers.copy', 'A', 'C')})"),
        [[array(F, 1024), array(F, 1024)]],
    ),
    Kernel("test_minimal_target_codegen_llvm.test_llvm_add_pipeline",
           function('A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32"),'
                    ' C: T.Buffer((1024,), "float32")',
                    "for i in T.parallel(256):",
                    "    for j in T.vectorized(4):",
                    "        C[4 * i + j] = A[4 * i + j] + B[4 * i + j]"),
           [[array(F, 1024), array(F, 1024, start=9), array(F, 1024)]]),
]  # fmt: skip

# -- runtime/test_runtime_trace --------------------------------------------------------------------

TRACE = "test_runtime_trace"


def traced(case: str, parameters: str, *body: str, calls: list[list[Any]]) -> Kernel:
    return Kernel(f"{TRACE}.{case}", function(parameters, *body), calls)


def _traces() -> Iterator[Kernel]:
    yield traced(
        "test_trace_default_action",
        'X: T.Buffer((2, 2, 2), "float32"), Y: T.Buffer((2, 2, 2), "float32")',
        "for i, j, k in T.grid(2, 2, 2):",
        '    Y[i, j, k] = T.Call("tirx.tvm_call_trace_packed", ["tvm.default_trace_action", i, j, k,'
        ' X[i, j, k]], ret_ty="float32")',
        calls=[[array(F, 2, 2, 2, start=1), array(F, 2, 2, 2)]],
    )
    for dtype in ("float64", "float32", "int64", "int32"):
        same, of = [array(dtype, 4, start=5)], f'"{dtype}"'
        yield traced(
            "test_trace_expr_assign",
            f"X: T.Buffer((4,), {of}), Y: T.Buffer((4,), {of})",
            *loop(4, f"Y[i] = {_trace('peers.nothing', dtype, 'X[i]')}"),
            calls=[[*same, array(dtype, 4)]],
        )
        for case, summed in (
            ("test_trace_expr_sum_generated", "peers.sum"),
            ("test_trace_expr_sum_args", "peers.sum_of_all"),
            ("test_trace_expr_sum_custom", "peers.sum"),
        ):
            arguments = ["X[i]", "Z[i]"] + (["X[i]"] if summed == "peers.sum_of_all" else [])
            yield traced(
                case,
                f"X: T.Buffer((4,), {of}), Z: T.Buffer((4,), {of}), Y: T.Buffer((4,), {of})",
                *loop(4, f"Y[i] = {_trace(summed, dtype, *arguments)}"),
                calls=[[*same, array(dtype, 4, start=-2), array(dtype, 4)]],
            )
        changes = (
            ("test_trace_can_change_traced_value_int", ("peers.thirteen", "peers.fourteen"))
            if dtype.startswith("int")
            else ("test_trace_can_change_traced_value_float", ("peers.thirteen_and_half",) * 2)
        )
        for first, second in (changes[1], changes[1][::-1]):
            yield traced(
                changes[0],
                f"X: T.Buffer((4,), {of}), Y: T.Buffer((4,), {of}), Z: T.Buffer((4,), {of})",
                *loop(4, f"Y[i] = {_trace(first, dtype, 'X[i]')}"),
                *loop(4, f"Z[i] = {_trace(second, dtype, 'Y[i]')}"),
                calls=[[*same, array(dtype, 4), array(dtype, 4)]],
            )


def _trace(name: str, dtype: str, *arguments: str) -> str:
    words = ", ".join((f'"{name}"', *arguments))
    return f'T.Call("tirx.tvm_call_trace_packed", [{words}], ret_ty="{dtype}")'


# -- tirx-base/test_tir_intrin ---------------------------------------------------------------------

INTRIN = "test_tir_intrin"
HALVES = values(F, 0.5, 1.5, 2.5, 3.5, -0.5, -1.5, -2.5, -3.5)
EDGES = values(F, 1, -1, 0.5, -0.5, 0.49, -0.49, 0.3, -0.3, 0, 1.1, -1.1, 2, -2)
PARTS = values(F, 0.125, 0.25, 0.3, 0.375, 0.4, 0.45, 0.5)


def _intrinsics() -> Iterator[Kernel]:
    for name, given in [("nearbyint", HALVES), ("round", HALVES)]:
        case = "test_nearbyint" if name == "nearbyint" else "test_round_ties_to_even"
        yield Kernel(
            f"{INTRIN}.{case}", elementwise(8, F, F, f"T.{name}(A[i])"), [[given, array(F, 8)]]
        )
    for name in ("round", "trunc", "ceil", "floor", "nearbyint"):
        yield Kernel(
            f"{INTRIN}.test_round_intrinsics_on_int",
            elementwise(4, "int32", "int32", f"T.{name}(A[i])"),
            [[values("int32", -10, 0, 1, 10), array("int32", 4)]],
        )
    for name in (
        "exp",
        "exp10",
        "log2",
        "log10",
        "sinh",
        "cosh",
        "log1p",
        "asin",
        "acos",
        "atan",
        "asinh",
        "acosh",
        "atanh",
        "erf",
    ):
        yield Kernel(
            f"{INTRIN}.test_unary_intrin",
            elementwise(7, F, F, f"T.{name}(A[i])"),
            [[PARTS, array(F, 7)], [values(F, 1.5, -1.5, 20, -20, 1, 0, 2), array(F, 7)]],
        )
    for name in ("asin", "acos"):
        yield Kernel(
            f"{INTRIN}.test_asin_acos_boundary_values",
            elementwise(13, F, F, f"T.{name}(A[i])"),
            [[EDGES, array(F, 13)]],
        )
    for name in ("atan2", "nextafter", "copysign", "hypot"):
        yield Kernel(
            f"{INTRIN}.test_binary_intrin",
            _binary(F, f"T.{name}(A[i], B[i])"),
            [[PARTS, values(F, 1, -1, 0, 0.3, 7, -0.2, 3), array(F, 7)]],
        )
    yield Kernel(
        f"{INTRIN}.test_ldexp",
        _binary("int32", "T.ldexp(A[i], B[i])"),
        [[PARTS, values("int32", 0, 1, 2, 3, 4, -1, 5), array(F, 7)]],
    )
    yield Kernel(
        f"{INTRIN}.test_fma",
        _binary(F, "A[i] * B[i] + A[i]"),
        [[PARTS, values(F, 1, 2, 3, 4, 5, 6, 7), array(F, 7)]],
    )
    for dtype, most in (("int32", 2**31 - 1), ("int64", 2**63 - 1)):
        yield Kernel(
            f"{INTRIN}.test_clz[{dtype}-llvm]",
            elementwise(7, dtype, "int32", 'T.Cast("int32", T.clz(A[i]))'),
            [[values(dtype, 1, 2, 9, 99, 1000, 10**6, most), array("int32", 7)]],
        )


def _binary(b: str, expression: str) -> str:
    return function(
        f'A: T.Buffer((7,), "float32"), B: T.Buffer((7,), "{b}"), C: T.Buffer((7,), "float32")',
        *loop(7, f"C[i] = {expression}"),
    )


# -- tirx-base/test_tir_imm_values -----------------------------------------------------------------

IMM = "test_tir_imm_values"
INTEGERS = {
    "int8": (-128, 0, 127),
    "uint8": (0, 255),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint64": (0, 2**63 - 1),
}
FLOATS = {
    "float16": ("-65504", "3.14", "65504", "inf", "nan"),
    "bfloat16": ("-3e38", "3e38", "3.14"),
    "float32": ("-3.4028234e38", "3.14", "3.4028234e38", "inf", "nan"),
    "float64": ("-1.7e308", "3.14", "1.7e308", "inf", "nan"),
}
FOLDED = {
    "int8": ([(127, 1), (127, 127), (-128, 3), (-7, 2), (5, -3)], ""),
    "uint8": ([(255, 1), (10, 3), (200, 7), (0, 9)], "mod"),
    "int32": ([(7, 2), (-7, 2), (7, -2), (40000, 3), (-1, 5)], "mod"),
    "uint32": ([(2**32 - 1, 1), (7, 2), (3 * 10**9, 7)], ""),
}


def _stored(case: str, dtype: str, literals: Any) -> Kernel:
    lines = [f"B[{i}] = {literal}" for i, literal in enumerate(literals)]
    shape = f"({len(lines)},)"
    return Kernel(
        f"{IMM}.{case}",
        function(f'B: T.Buffer({shape}, "{dtype}")', *lines),
        [[array(dtype, len(lines))]],
    )


def _constant(case: str, dtype: str, literal: str, of: str | None) -> Kernel:
    """A kernel that stores a constant: of the type `of`, or of the type that TVM chooses."""
    program = f"parameters = [te.compute((1,), lambda i: tirx.const({literal}, {of!r}))]"
    return Kernel(f"{IMM}.{case}", f"te\n{program}", [[array(dtype, 1)]])


def _float(text: str) -> str:
    return text if text not in ("inf", "nan") else f"float({text!r})"


def _numbers() -> Iterator[Kernel]:
    for dtype, integers in INTEGERS.items():
        for n in integers:
            yield _constant(f"test_tir_make_intimm[{dtype}]", dtype, str(n), dtype)
    large = [
        f"(T.uint64({n >> 32}) << T.uint64(32)) + T.uint64({n & 0xFFFFFFFF})"
        for n in (2**63 - 1, 2**64 - 1)
    ]
    yield _stored("test_tir_large_py_int_literals[uint64]", "uint64", large)
    for dtype, a, op, b in [
        ("uint8", 255, "+", 1),
        ("int32", 2**31 - 1, "+", 1),
        ("uint32", 2**32 - 1, "+", 1),
        ("int64", 2**63 - 1, "+", 1),
        ("uint64", 2**32, "*", 2**32),
    ]:
        yield _stored("test_tir_intimm_overflow", dtype, [f"T.{dtype}({a}) {op} T.{dtype}({b})"])
    for dtype, floats in FLOATS.items():
        for text in floats:
            yield _constant(f"test_tir_make_floatimm[{dtype}]", dtype, _float(text), dtype)
    for dtype in ("float16", "float32", "float64"):
        for text in ("3.14", "nan", "inf"):
            case = f"test_tir_special_floatimms[{text}-{dtype}]"
            yield _constant(case, dtype, _float(text), dtype)
    yield _stored("test_tir_too_large_literal_f64", "float64", ["T.float64(1.7976e309)"])
    for text, dtype in [
        ("256", "int32"), ("2147483647", "int32"), ("-2147483648", "int32"), ("2147483648", "int64"),
        ("-2147483649", "int64"), ("3.14159", "float32"), ("-3.4028234e38", "float32"),
        ("3.4028234e38", "float32"), ("-3.402e39", "float64"), ("3.402e39", "float64"),
    ]:  # fmt: skip
        case = f"test_tir_const_auto_dtype[{text}-{dtype}]"
        yield _constant(case, dtype, text, None)
    for op in ("+", "-", "*", "/"):
        source = function(
            'x: T.float32, y: T.float32, z: T.Buffer((), "float32")', f"z[()] = x {op} y"
        )
        yield Kernel(
            f"{IMM}.test_tir_floatimm_const_fold", source,
            [[x, y, array(F)] for x, y in [(3e30, 3e30), (3e30, -3e30), (3e30, 3e-30), (1.5, "nan"),
                                           (1.0, "inf"), (1.0, "-inf"), (2.5, 0.25)]],
        )  # fmt: skip
    for dtype, (pairs, mod) in FOLDED.items():
        division = ["truncdiv", "floordiv"] + (["truncmod", "floormod"] if mod else [])
        for text in ["x * y", "x + y", "x - y", *(f"T.{name}(x, y)" for name in division)]:
            source = function(
                f"x: T.{dtype}, y: T.{dtype}", f"return {text}", result=f" -> T.{dtype}"
            )
            yield Kernel(f"{IMM}.test_tir_{dtype}_const_fold", source, [list(p) for p in pairs])


# -- contrib/test_sort -----------------------------------------------------------------------------

SHUFFLED = values(F, 1, 5, 2, 4.5, 3.5, 1.25, 0.5, 7, 3.25, -5, 0.75, -1.5)


def _sorts() -> Iterator[Kernel]:
    for case, shape, counts, arguments in (
        ("test_sort", (2, 3, 2), values("int32", 1, 2, 3, 3), "1, 0"),
        ("test_sort_np", (2, 3, 2), values("int32", 3, 3, 3, 3), "1, 1"),
        ("test_sort", (2, 6), values("int32", 4, 6), "-1, 0"),
    ):
        reduced = [*shape[:1], *shape[2:]]
        source = function(
            f'A: T.Buffer({shape}, "float32"), N: T.Buffer({tuple(reduced)}, "int32"),'
            f' B: T.Buffer({shape}, "int32")',
            f"T.evaluate({host_call('tvm.contrib.sort.argsort_nms', 'A', 'N', 'B', arguments)})",
        )
        given = [{**SHUFFLED, "shape": list(shape)}, {**counts, "shape": reduced}]
        yield Kernel(f"test_sort.{case}", source, [[*given, array("int32", *shape)]])


def kernels() -> list[Kernel]:
    return [*MORE_LLVM, *_sorts(), *_traces(), *_intrinsics(), *_numbers()]
