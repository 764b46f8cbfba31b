"""Kernels of the cases of TVM's tests of today: which there are, and the program that makes them.

`python -m tests.peers.tvm_today FOLDER` runs where apache-tvm is installed. It compiles all kernels
to libraries, calls each there, and writes arguments and outcomes, with which mblob's are compared.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.peers import tvm_today_more, tvm_today_te
from tests.peers.kernel import F, Kernel, array, elementwise, function, loop

TARGETS = ("llvm", "c")
ADD = "B[i] = A[i] + T.float32(1)"


# -- codegen/test_target_codegen_llvm --------------------------------------------------------------

LLVM = "test_target_codegen_llvm"
RANGES = [(-12, -12), (-11, -1), (-11, 0), (0, 0), (12, 12), (1, 11), (0, 11), (-11, 11)]
DIVISORS = [(-11, -1), (-11, 1), (-4, -4), (-2, -2), (1, 11), (0, 11), (4, 4), (2, 2), (-11, 11)]


def _divisions() -> Iterator[tuple[str, bool, tuple[int, int], tuple[int, int]]]:
    for dividends in RANGES:
        for divisors in DIVISORS:
            unsigned = ["uint32"] if dividends[0] >= 0 and divisors[0] >= 0 else []
            for dtype in ["int32", "int8", *unsigned]:
                yield from ((dtype, floor, dividends, divisors) for floor in (False, True))
    for divisors in [(0, 11), (1, 11), (2, 2), (4, 4)]:
        for dividends in [(123, 133), (0, 255)]:
            yield from (("uint8", floor, dividends, divisors) for floor in (False, True))


def _division_kernels() -> Iterator[Kernel]:
    for dtype, floor, (a, b), (c, d) in _divisions():
        name = f"{LLVM}.test_llvm_div[{dtype}-{'floor' if floor else 'trunc'}-{a}:{b}-{c}:{d}]"
        rows, columns = b - a + 1, d - c + 1
        divisors = [v or 1 for v in range(c, d + 1)]
        results = [array(dtype, rows, columns), array(dtype, rows, columns)]
        given = [array(dtype, rows, start=a), {"dtype": dtype, "values": divisors}]
        yield Kernel(name, f"div {dtype} {int(floor)} {a} {b} {c} {d}", [[*given, *results]])


def _numbers(case: str) -> str:
    return f"{LLVM}.{case}"


LLVM_KERNELS = [
    Kernel(
        _numbers("test_unique_primfunc_global_symbols_compile"),
        function('A: T.Buffer((1,), "float32")', "A[0] = T.float32(2)"),
        [[array("float32", 1)]],
    ),
    Kernel(
        _numbers("test_llvm_large_uintimm"),
        function(
            'A: T.Buffer((1,), "uint64")', "A[0] = (T.uint64(1) << T.uint64(63)) + T.uint64(126)"
        ),
        [[array("uint64", 1)]],
    ),
    Kernel(
        _numbers("test_llvm_multi_parallel"),
        elementwise(
            128,
            "float32",
            "float32",
            "T.sqrt(A[i] + T.float32(1)) * T.float32(2) + T.float32(2)",
            "T.parallel",
        ),
        [[array("float32", 128), array("float32", 128)]],
    ),
    *(
        Kernel(
            _numbers("test_llvm_flip_pipeline"),
            function(
                f'A: T.Buffer(({n + base},), "float32"), B: T.Buffer(({n},), "float32")',
                *loop(n, f"B[i] = A[{n + base - 1} - i]", kind=kind),
            ),
            [[array("float32", n + base), array("float32", n)]],
        )
        for n, base, kind in [
            (4, 0, "T.vectorized"),
            (128, 8, "T.parallel"),
            (3, 0, "T.serial"),
            (128, 1, "T.serial"),
        ]
    ),
    Kernel(
        _numbers("test_llvm_vadd_pipeline"),
        function(
            "a: T.handle, b: T.handle, c: T.handle",
            "n = T.int32()",
            "A = T.match_buffer(a, (n,))",
            "B = T.match_buffer(b, (n,))",
            "C = T.match_buffer(c, (n,))",
            "for i in range(n):",
            "    C[i] = A[i] + B[i]",
        ),
        [
            [array("float32", n), array("float32", n, start=5), array("float32", n)]
            for n in (128, 7)
        ],
    ),
    Kernel(
        _numbers("test_llvm_madd_pipeline"),
        function(
            'A: T.Buffer((64, 2), "float32"), B: T.Buffer((64, 2), "float32")',
            "for i in T.parallel(64):",
            "    for j in range(2):",
            "        B[i, j] = A[i, j] + T.float32(1)",
        ),
        [[array("float32", 64, 2), array("float32", 64, 2)]],
    ),
    Kernel(
        _numbers("test_llvm_temp_space"),
        function(
            'A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32")',
            "C = T.alloc_buffer((1024,))",
            *loop(1024, "C[i] = A[i] + T.float32(1)"),
            *loop(1024, "B[i] = C[i] + T.float32(1)"),
        ),
        [[array("float32", 1024), array("float32", 1024)]],
    ),
    *(
        Kernel(
            _numbers("test_multiple_func"),
            elementwise(10, "float32", "float32", e),
            [[array("float32", 10), array("float32", 10)]],
        )
        for e in ("A[i] + A[i]", "A[i] + A[i] + T.float32(1)")
    ),
    Kernel(
        _numbers("test_llvm_condition"),
        elementwise(64, "float32", "float32", "T.if_then_else(8 <= i, A[i], T.float32(0))"),
        [[array("float32", 64), array("float32", 64)]],
    ),
    Kernel(
        _numbers("test_llvm_bool"),
        elementwise(64, "int32", "float32", 'T.Cast("float32", A[i] == 1)'),
        [[array("int32", 64), array("float32", 64)]],
    ),
    Kernel(
        _numbers("test_llvm_cast_float_to_bool"),
        elementwise(4, "float32", "bool", 'T.Cast("bool", A[i])'),
        [[{"dtype": "float32", "values": [0, 1, "nan", "inf"]}, array("bool", 4)]],
    ),
    Kernel(
        _numbers("test_rank_zero"),
        function(
            'A: T.Buffer((64,), "float32"), s: T.Buffer((), "float32"), B: T.Buffer((), "float32")',
            "B[()] = T.float32(1)",
            *loop(64, "B[()] = B[()] + A[i] * s[()]"),
        ),
        [[array("float32", 64), array("float32", start=3), array("float32")]],
    ),
    Kernel(
        _numbers("test_alignment"),
        elementwise(1024, "float32", "float32", "A[i] * T.float32(3)"),
        [[array("float32", 1024), array("float32", 1024)]],
    ),
    *(
        Kernel(
            _numbers("test_llvm_fp_math"),
            elementwise(n, "float32", "float32", e),
            [[{"dtype": "float32", "values": [v] * n}, array("float32", n)]],
        )
        for n in (4, 8, 16)
        for e, v in (("T.float32(1) / (T.float32(1e37) * A[i])", 100), ("T.sigmoid(A[i])", -1000))
    ),
    *(
        Kernel(
            _numbers("test_llvm_bf16"),
            function(
                'A: T.Buffer((32,), "bfloat16"), B: T.Buffer((32,), "bfloat16")',
                *loop(32, "B[i] = A[i] + A[i]", kind=kind),
            ),
            [[array("bfloat16", 32), array("bfloat16", 32)]],
        )
        for kind in ("T.serial", "T.vectorized")
    ),
    Kernel(
        _numbers("test_llvm_assume"),
        function(
            'A: T.Buffer((16,), "int32"), B: T.Buffer((14,), "int32")',
            "for i in range(16):",
            "    T.assume(i < 12 or A[i] == 0)",
            *loop(14, "B[i] = A[i] * 2"),
        ),
        [[{"dtype": "int32", "values": [*range(12), 0, 0, 0, 0]}, array("int32", 14)]],
    ),
    Kernel(
        _numbers("test_debug_symbol_for_buffer_var"),
        function(
            'A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")',
            'C = T.alloc_buffer((16,), "float32")',
            *loop(16, "C[i] = A[i]", "B[i] = C[i]", kind="T.parallel"),
        ),
        [[array("float32", 16), array("float32", 16)]],
    ),
    Kernel(
        _numbers("test_int_parameter"),
        function(
            "x: T.int32",
            "if x > 0:",
            "    return 10",
            "else:",
            "    return 20",
            result=" -> T.int32",
        ),
        [[1], [-1]],
    ),
    Kernel(
        _numbers("test_bool_parameter"),
        function(
            "x: T.bool", "if x:", "    return 10", "else:", "    return 20", result=" -> T.int32"
        ),
        [[True], [False], [1], [0]],
    ),
    Kernel(
        _numbers("test_bool_return_value"),
        function("x: T.int32", "return x < 10", result=" -> T.bool"),
        [[1], [15]],
    ),
]

# -- codegen/test_codegen_assert, test_codegen_error_handling ---------------------------------------

ASSERTS = {
    "test_assert_runtime_error": ("RuntimeError", ["Expected non-null input"], [0]),
    "test_assert_value_error": ("ValueError", ["Shape mismatch: expected 4 got 8"], [0]),
    "test_assert_type_error": ("TypeError", ["Expected Tensor but got int"], [0]),
    "test_assert_multi_part_message": (
        "ValueError",
        ["Expected shape ", "4", " but got ", "8"],
        [0],
    ),
    "test_assert_passing_condition": ("RuntimeError", ["This should not be raised"], [1]),
    "test_assert_many_parts": ("RuntimeError", [f"p{i}" for i in range(8)], [0]),
    "test_tvmscript_assert_preserves_kind": ("ValueError", ["x must be positive"], [0, 1]),
    "test_tvmscript_assert_preserves_parts": ("ValueError", ["x must be ", "positive"], [0]),
}
N = "n = T.int64()"
SHARED = function(
    "a: T.handle, b: T.handle",
    N,
    'A = T.match_buffer(a, (n,), "float32")',
    'B = T.match_buffer(b, (n,), "float32")',
    "for i in range(n):",
    f"    {ADD}",
)
FIXED = elementwise(128, "float32", "float32", "A[i] + T.float32(1)")
HANDLING: dict[str, tuple[str, list[list[Any]]]] = {
    "test_wrong_argument_count_error": (SHARED, [[array(F, 128), array(F, 128)], []]),
    "test_type_mismatch_non_tensor": (SHARED, [[array(F, 128), 1]]),
    "test_shape_mismatch_shared_variable": (SHARED, [[array(F, 128), array(F, 126)]]),
    "test_invalid_shape_fixed": (FIXED, [[array(F, 256), array(F, 256)]]),
    "test_strides_mismatch_transposed": (
        function(
            'A: T.Buffer((16, 8), "float32"), B: T.Buffer((16, 8), "float32")',
            "for i, j in T.grid(16, 8):",
            "    B[i, j] = A[i, j] + T.float32(1)",
        ),
        [
            [array(F, 16, 8), array(F, 16, 8)],
            [{**array(F, 16, 8), "transposed": True}, array(F, 16, 8)],
        ],
    ),
    "test_ndim_mismatch_error": (FIXED, [[array(F, 4, 8), array(F, 4, 8)]]),
    "test_dtype_mismatch_error": (FIXED, [[array("int32", 128), array(F, 128)]]),
    "test_type_mismatch_int_parameter": (LLVM_KERNELS[-3].source, [[5], [array(F, 8)]]),
    "test_type_mismatch_float_parameter": (
        function("x: T.float32", "return x > T.float32(0)", result=" -> T.bool"),
        [[1.0], [array(F, 8)]],
    ),
    "test_type_mismatch_bool_parameter": (LLVM_KERNELS[-2].source, [[True], [array(F, 8)]]),
    "test_forward_reference_symbolic_shape": (
        function(
            "a: T.handle, b: T.handle",
            N,
            'A = T.match_buffer(a, (n + 1,), "int32")',
            'B = T.match_buffer(b, (n,), "int32")',
            "for i in range(n):",
            "    B[i] = A[i] + A[i + 1]",
        ),
        [[array("int32", 5), array("int32", 4)], [array("int32", 10), array("int32", 4)]],
    ),
    "test_invalid_arguments_mixed_params": (
        function('a0: T.bool, a1: T.Buffer((10,), "float32")', "return 0", result=" -> T.int32"),
        [[True, array(F, 10)], [1, 1], [1, array("int32", 10)], [False, array(F, 11)]],
    ),
}


def _error_kernels() -> Iterator[Kernel]:
    for target in TARGETS:
        for test, (kind, parts, values) in ASSERTS.items():
            source = function("x: T.int32", f"assert x > 0, ({kind!r}, {parts!r})")
            yield Kernel(
                f"test_codegen_assert.{test}[{target}]", source, [[v] for v in values], target
            )
        for test, (source, calls) in HANDLING.items():
            yield Kernel(f"test_codegen_error_handling.{test}[{target}]", source, calls, target)


# -- codegen/test_target_codegen_c_host and others -------------------------------------------------


def _host(test: str, a: str, b: str, expression: str) -> Kernel:
    calls = [[array(a, 1024, start=-7), array(b, 1024)]]
    return Kernel(
        f"test_target_codegen_c_host.{test}", elementwise(1024, a, b, expression), calls, "c"
    )


OTHERS = [
    _host("test_add", F, F, "A[i] + A[i]"),
    _host("test_reinterpret", "int32", F, 'T.reinterpret("float32", A[i] + 2)'),
    _host("test_ceil", F, F, "T.ceil(A[i] * T.float32(0.3))"),
    _host("test_floor", F, F, "T.floor(A[i] * T.float32(0.3))"),
    _host("test_round", F, F, "T.round(A[i] * T.float32(0.3))"),
    _host("test_workspace_allocation_cast", F, F, "A[i] - T.float32(1)"),
    *(
        Kernel(
            f"test_target_codegen.test_codegen_loop_step[{target}]",
            function(
                'A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32")',
                "for i in T.serial(3, 1024, step=96):",
                "    B[i] = A[i] * T.float32(2)",
            ),
            [[array(F, 1024), array(F, 1024)]],
            target,
        )
        for target in TARGETS
    ),
    Kernel(
        "test_target_codegen_bool.test_cmp_load_store[llvm]",
        function(
            'A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")',
            'C = T.alloc_buffer((32,), "bool")',
            *loop(32, "C[i] = A[i] > T.float32(7)"),
            *loop(32, 'B[i] = T.Cast("float32", C[i] and A[i] < T.float32(20))'),
        ),
        [[array(F, 32), array(F, 32)]],
    ),
    Kernel(
        "test_target_codegen_x86.test_fp16_to_fp32",
        elementwise(64, "float16", F, 'T.Cast("float32", A[i])'),
        [[array("float16", 64), array(F, 64)]],
    ),
    Kernel(
        "test_runtime_extension.test_dltensor_compatible",
        function(
            "a: T.handle",
            "n = T.int32()",
            'A = T.match_buffer(a, (n,), "int64")',
            "for i in T.serial(n - 1):",
            "    A[i + 1] = A[i] + T.int64(1)",
        ),
        [[array("int64", 10)]],
    ),
]


def kernels() -> list[Kernel]:
    """All, with different functions."""
    own = [*_division_kernels(), *LLVM_KERNELS, *_error_kernels(), *OTHERS]
    return [*own, *tvm_today_more.kernels(), *tvm_today_te.kernels()]


def library_of(kernel: Kernel) -> str:
    """The name of the library that has a kernel."""
    return "-".join([kernel.target, *(name.replace(".", "-") for name in kernel.pass_config)])


# -- the program -----------------------------------------------------------------------------------


def numpy_array(given: dict[str, Any]) -> Any:
    """The array that a call has: its elements ascend, or are those given."""
    import ml_dtypes
    import numpy as np

    dtype = np.dtype(getattr(ml_dtypes, given["dtype"], given["dtype"]))
    if "values" in given:
        numbers = given["values"]
        if dtype.kind not in "iu":
            numbers = [float(v) for v in numbers]
        return np.array(numbers).astype(dtype).reshape(given.get("shape", (len(numbers),)))
    count = int(np.prod(given["shape"]))
    ascending = np.arange(given["start"], given["start"] + count, dtype="int64")
    return ascending.astype(dtype).reshape(given["shape"])


def argument(given: Any, tensor: Any, from_dlpack: Any) -> Any:
    """What a call gets: a tensor, a view of an array that is not compact, or a number."""
    import numpy as np

    if given in ("nan", "inf", "-inf"):
        return float(given)
    if not isinstance(given, dict):
        return given
    made = numpy_array(given)
    if given.get("transposed"):
        return from_dlpack(np.asfortranarray(made))
    return tensor(made)


def outcome(call: Any, arguments: list[Any], tensor: Any, from_dlpack: Any) -> dict[str, Any]:
    """What a call gives: its result and the bytes of all arrays, or text and classes of its error.

    Args:
        tensor: makes a tensor of an array.
        from_dlpack: makes a view of an array.
    """
    given = [argument(a, tensor, from_dlpack) for a in arguments]
    try:
        result = call(*given)
    except Exception as error:
        classes = [c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins"]
        return {"error": re.sub(r"^\w+Error: ", "", str(error)), "classes": classes}
    return {
        "result": result,
        "arrays": [a.numpy().tobytes().hex() for a in given if hasattr(a, "numpy")],
    }


def _division(text: str) -> Any:
    import tvm
    from tvm import te

    dtype, floor, *bounds = text.split()[1:]
    a, b, c, d = map(int, bounds)
    x, y = te.placeholder((b - a + 1,), dtype, "X"), te.placeholder((d - c + 1,), dtype, "Y")

    def clipped(value: Any, low: int, high: int) -> Any:
        ends = tvm.tirx.const(low, dtype), tvm.tirx.const(high, dtype)
        return ends[0] if low == high else tvm.tirx.min(ends[1], tvm.tirx.max(ends[0], value))

    def computed(name: str) -> Any:
        operation = getattr(tvm.tirx, name)
        element = lambda i, j: operation(clipped(x[i], a, b), clipped(y[j], c, d))  # noqa: E731
        return te.compute((b - a + 1, d - c + 1), element, name=name)

    names = ("floordiv", "floormod") if floor == "1" else ("truncdiv", "truncmod")
    results = [computed(name) for name in names]
    return te.create_prim_func([x, y, *results])


def _functions(kernel: Kernel, name: str) -> dict[Any, Any]:
    """The functions of a kernel: NAME of its text gets `name`, and INNER a name of its own."""
    from tvm.script import from_source

    form, _, program = kernel.source.partition("\n")
    if form.startswith("div "):
        return {name: _division(form)}
    if form == "te":
        return {name: _of_tensors(program)}
    text = kernel.source if form != "module" else program
    text = text.replace("NAME", name).replace("INNER", f"inner_{name}")
    text = re.sub(r"(?m)^def (inner_)?", lambda m: _decorator(bool(m[1])) + m[0], text)
    head = "# from tvm.script import tirx as T, ir as I\n"
    if form != "module":
        return {name: from_source(head + text)}
    indented = "".join(f"    {line}" for line in text.splitlines(keepends=True))
    return dict(from_source(f"{head}@I.ir_module\nclass Module:\n{indented}").functions)


def _decorator(private: bool) -> str:
    return f"@T.prim_func(private={private}, s_tir=True)\n"


def _of_tensors(program: str) -> Any:
    import tvm
    from tvm import te, tirx, topi

    names: dict[str, Any] = {"tvm": tvm, "te": te, "tirx": tirx, "topi": topi}
    exec(program, names)
    more = {"index_dtype_override": "int64"} if names.get("int64") else {}
    return te.create_prim_func(names["parameters"], **more)


def main(folder: Path) -> None:
    """Write LIBRARY.so for each library, and outcomes.json: the outcomes of all calls, by function."""
    import tvm
    import tvm_ffi

    for name, registered in tvm_today_more.HOST.items():
        tvm.register_global_func(name, registered, override=True)
    found: dict[str, list[Any]] = {}
    for library, chosen in libraries().items():
        functions: dict[Any, Any] = {}
        for name, kernel in chosen.items():
            for key, made in _functions(kernel, name).items():
                inner = getattr(key, "name_hint", name) != name
                functions[key] = made if inner else made.with_attr("global_symbol", name)
        path, (first, *_) = folder / f"{library}.so", chosen.values()
        with tvm.transform.PassContext(config=first.pass_config):
            tvm.compile(tvm.IRModule(functions), target=first.target).export_library(str(path))
        loaded = tvm.runtime.load_module(str(path))
        for name, kernel in chosen.items():
            found[f"{library}.{name}"] = [
                outcome(loaded[name], call, tvm.runtime.tensor, tvm_ffi.from_dlpack)
                for call in kernel.calls
            ]
    (folder / "outcomes.json").write_text(json.dumps(found))


def libraries() -> dict[str, dict[str, Kernel]]:
    """Kernels by library and name of their function."""
    found: dict[str, dict[str, Kernel]] = {}
    for kernel in kernels():
        of = found.setdefault(library_of(kernel), {})
        of[f"k{len(of)}"] = kernel
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
