"""Kernels of TVM's tests of tensor expressions: te/test_te_create_primfunc, _tensor, _tag."""

from __future__ import annotations

from typing import Any

from tests.peers.kernel import F, Kernel, array, values

PRIM, TENSOR, TAG = "test_te_create_primfunc", "test_te_tensor", "test_te_tag"


def _kernel(case: str, calls: list[list[Any]], *lines: str, int64: bool = False) -> Kernel:
    head = "int64 = True\n" if int64 else ""
    return Kernel(case, f"te\n{head}" + "\n".join(lines), calls)


def floats(*shape: int, start: int = 0) -> dict[str, Any]:
    return array(F, *shape, start=start)


MATMUL = (
    'a, b = (te.placeholder((8, 8), name=name) for name in "ab")',
    'k = te.reduce_axis((0, 8), "k")',
    "c = te.compute((8, 8), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), name='c', attrs=ATTRS)",
)
SQUARES = [floats(8, 8), floats(8, 8, start=-9), floats(8, 8)]
ROWS = (
    'rows, columns = te.var("rows"), te.var("columns")',
    "x = te.placeholder((rows, columns), name='x', dtype=DTYPE)",
    "y = te.placeholder((rows, columns), name='y', dtype=OTHER)",
    'k = te.reduce_axis((0, columns), "k")',
)


def _rows(dtype: str = F, other: str = F) -> tuple[str, ...]:
    return (f"DTYPE, OTHER = {dtype!r}, {other!r}", *ROWS)


def _matmul(
    case: str, result: str = "[a, b, c]", attrs: str = "None", *lines: str, int64: bool = False
) -> Kernel:
    given = [SQUARES[2], *SQUARES[:2]] if result == "[c, a, b]" else SQUARES
    program = (MATMUL[0], f"ATTRS = {attrs}", *MATMUL[1:], *lines, f"parameters = {result}")
    return _kernel(f"{PRIM}.{case}", [given], *program, int64=int64)


LAYOUT = 'te.compute((8, 8), lambda i, j: c[i, j] + 1, attrs={"layout_free_placeholders": [c]})'
ARGMAX = (
    "def better(p, q):",
    "    first = p[V] >= q[V]",
    "    return tuple(tirx.Select(first, p[n], q[n]) for n in range(2))",
    "def worst(*dtypes):",
    "    found = [tirx.const(-1, d) for d in dtypes]",
    "    found[V] = te.min_value(dtypes[V])",
    "    return tuple(found)",
    'best = te.comm_reducer(better, worst, name="best")',
    "given = (x, y)",
    "u, v = te.compute((rows,), lambda i: best((x[i, k], y[i, k]), axis=k), name='best')",
    "parameters = [x, y, u, v]",
)
INDEX, VALUE = array("int32", 2, 4, start=10), values(F, 3, 9, 1, 9, -1, -5, -1, -7)
VALUE = {**VALUE, "shape": [2, 4]}
UNARY = ("acos", "acosh", "asin", "asinh", "atanh")


def kernels() -> list[Kernel]:
    return [
        _kernel(
            f"{PRIM}.test_unique_name_complete_block", [[floats(4, 4), floats(4, 4)]],
            'a = te.placeholder((4, 4), name="a")',
            'b = te.compute((4, 4), lambda i, j: a[i, j] * 2, name="same")',
            'c = te.compute((4, 4), lambda i, j: b[i, j] + 1, name="same")',
            "parameters = [a, c]",
        ),
        _kernel(
            f"{PRIM}.test_unique_name_reduction_block", [[floats(4, 4), floats()]],
            'a, k, l = te.placeholder((4, 4), name="a"), te.reduce_axis((0, 4)), te.reduce_axis((0, 4))',
            'b = te.compute((4,), lambda i: te.sum(a[i, k], axis=k), name="same")',
            'c = te.compute((), lambda: te.sum(b[l], axis=l), name="same")',
            "parameters = [a, c]",
        ),
        _matmul("test_matmul"),
        _matmul("test_matmul_int64", int64=True),
        _matmul("test_arg_order", "[c, a, b]"),
        _matmul("test_tensor_attr", attrs='{"layout_free_placeholders": [b]}'),
        *(
            _matmul(f"test_tensor_layout_attr[{name}]", "[a, b, d]",
                    '{"layout_free_placeholders": [b]}', f"d = {LAYOUT}", int64=name == "int64")
            for name in ("None", "int64")
        ),
        _kernel(
            f"{PRIM}.test_element_wise", [[floats(8, 8), floats(8, 8)]],
            'a = te.placeholder((8, 8), name="a")',
            "b = te.compute((8, 8), lambda i, j: a[i, j] * 2)",
            "parameters = [a, te.compute((8, 8), lambda i, j: b[i, j] + 1)]",
        ),
        _kernel(
            f"{PRIM}.test_conv2d", [[floats(2, 3, 6, 6), floats(3, 3, 3, 4, start=-50), floats(2, 4, 6, 6)]],
            'a, w = te.placeholder((2, 3, 6, 6), name="a"), te.placeholder((3, 3, 3, 4), name="w")',
            "inside = lambda y, x: tirx.all(y >= 1, y < 7, x >= 1, x < 7)",
            "padded = te.compute((2, 3, 8, 8), lambda n, c, y, x:"
            " tirx.if_then_else(inside(y, x), a[n, c, y - 1, x - 1], tirx.const(0, 'float32')))",
            "c, p, q = (te.reduce_axis((0, 3)) for _ in range(3))",
            "parameters = [a, w, te.compute((2, 4, 6, 6), lambda n, f, y, x:"
            " te.sum(padded[n, c, y + p, x + q] * w[c, p, q, f], axis=[c, p, q]))]",
        ),
        _kernel(
            f"{PRIM}.test_multi_output", [[floats(2, 3), floats(2, 3, start=5), floats(2, 3), floats(2, 3)]],
            *_rows(),
            "u, v = te.compute((rows, columns), lambda i, j: (x[i, j] + 2, y[i, j] * 3))",
            "parameters = [x, y, u, v]",
        ),
        _kernel(
            f"{PRIM}.test_extern", [SQUARES], "ATTRS = None", *MATMUL[:1],
            'call = lambda i, o: tirx.call_packed("peers.matmul", i[0], i[1], o[0], 0, 0)',
            'parameters = [a, b, te.extern((8, 8), [a, b], call, name="c")]',
        ),
        _kernel(
            f"{PRIM}.test_extern_epilogue", [SQUARES], "ATTRS = None", *MATMUL[:1],
            'call = lambda i, o: tirx.call_packed("peers.matmul", i[0], i[1], o[0])',
            'c = te.extern((8, 8), [a, b], call, name="c")',
            "parameters = [a, b, te.compute((8, 8), lambda i, j: c[i, j] + 1)]",
        ),
        _kernel(
            f"{PRIM}.test_extern_with_explicit_buffer_access", [[floats(16), floats(16)]],
            'a = te.placeholder((16,), name="a")',
            'call = lambda i, o: tirx.call_extern("void", "memcpy", o[0].data, i[0].data, tirx.const(64, "uint64"))',
            'parameters = [a, te.extern((16,), [a], call, name="c")]',
        ),
        _kernel(
            f"{PRIM}.test_constant", [[floats(11), floats(11)]],
            'a, two = te.placeholder((11,), name="a"), te.compute((), lambda: 2)',
            "parameters = [te.compute((11,), lambda i: a[i] + two()), a]",
        ),
        _kernel(
            f"{PRIM}.test_data_dependent_access",
            [[floats(5), floats(5, start=3), values("int32", 4, 0, 0, 2, 1)]],
            'a, at = te.placeholder((5,), name="a"), te.placeholder((5,), name="at", dtype="int32")',
            "parameters = [te.compute((5,), lambda i: a[at[i]]), a, at]",
        ),
        *(
            _kernel(
                f"{PRIM}.test_topi_float_unary_accepts_float_input[{name}-{dtype}]",
                [[{"dtype": dtype, "values": [0.25, 0.5, 0.75]}, array(dtype, 3)]],
                f'x = te.placeholder((3,), name="x", dtype="{dtype}")',
                f"parameters = [x, topi.{name}(x)]",
            )
            for name in UNARY
            for dtype in (F, "float64")
        ),
        _kernel(
            f"{PRIM}.test_select_simplify", [[floats(1, 2, 6, 6, 4), floats(1, 2, 1, 1, 4)]],
            'x = te.placeholder((1, 2, 6, 6, 4), name="x")',
            'parameters = [x, topi.nn.adaptive_pool(x, [1, 1], "avg", "NCHW4c")]',
        ),
        _kernel(
            f"{PRIM}.test_argmax_idx_val", [[INDEX, VALUE, array("int32", 2), floats(2)]],
            *_rows("int32", F), "V = 1", *ARGMAX,
        ),
        _kernel(
            f"{PRIM}.test_argmax_val_idx", [[VALUE, INDEX, floats(2), array("int32", 2)]],
            *_rows(F, "int32"), "V = 0", *ARGMAX,
        ),
        _kernel(
            f"{PRIM}.test_int64_indices", [[floats(5), floats(5)]],
            'n = te.var("n", "int64")', 'a = te.placeholder((n,), name="a")',
            "parameters = [a, te.compute((n,), lambda i: a[i] + 1)]",
        ),
        _kernel(
            f"{PRIM}.test_zero_dim_add", [[array("int32", start=3), array("int32", start=4), array("int32")]],
            'a, b = (te.placeholder((), name=n, dtype="int32") for n in "ab")',
            "parameters = [a, b, te.compute((), lambda: a() + b())]",
        ),
        _kernel(
            f"{PRIM}.test_reshape", [[floats(2, 4), floats(4, 2)]],
            'a = te.placeholder((2, 4), name="a")', "parameters = [a, topi.reshape(a, (4, 2))]", int64=True,
        ),
        _kernel(
            f"{PRIM}.test_resize2d_symbolic",
            [[floats(1, 2, 8, 8), floats(1, 2, 4, 16)], [floats(1, 2, 8, 8), floats(1, 2, 3, 5)]],
            'a, h, w = te.placeholder((1, 2, 8, 8), name="a"), tirx.Var("h", "int64"), tirx.Var("w", "int64")',
            'parameters = [a, topi.image.resize2d(a, (0.0,) * 4, size=(h, w), method="nearest_neighbor",'
            ' coordinate_transformation_mode="asymmetric", rounding_method="round")]', int64=True,
        ),
        _kernel(
            f"{PRIM}.test_with_var_input", [[floats(4, 3), n, floats(n, 3)] for n in (1, 3)],
            'n, rows, columns = (te.var(v, "int64") for v in ("n", "rows", "columns"))',
            'a = te.placeholder((rows, columns), name="a")',
            "parameters = [a, n, te.compute((n, columns), lambda i, j: a[i, j])]", int64=True,
        ),
        _kernel(
            f"{PRIM}.test_loop_aware_initial_value", [[floats(5, 5), floats(5, start=100), floats(5)]],
            'a, first = te.placeholder((5, 5), name="a"), te.placeholder((5,), name="first")',
            "k = te.reduce_axis((0, 5))",
            "from_first = lambda i: te.comm_reducer(lambda p, q: p + q, lambda _: first[i])",
            "parameters = [a, first, te.compute((5,), lambda i: from_first(i)(a[i, k], axis=[k]))]",
        ),
        _kernel(
            f"{PRIM}.test_loop_aware_reducer_combiner", [[floats(5, 5), floats(5)]],
            'a, k = te.placeholder((5, 5), name="a"), te.reduce_axis((0, 5))',
            "counted = lambda i: te.comm_reducer(lambda p, q: p + q + a[i, 0], lambda t: tirx.const(0, t))",
            "parameters = [a, te.compute((5,), lambda i: counted(i)(a[i, k], axis=[k]))]",
        ),
        _kernel(
            f"{PRIM}.test_adaptive_pooling_window", [[floats(1, 2, 8, 20), floats(1, 2, 6, 15)]],
            'x = te.placeholder((1, 2, 8, 20), name="x")',
            'parameters = [x, topi.nn.adaptive_pool(x, [6, 15], "avg")]',
        ),
        *(
            _kernel(
                f"{PRIM}.test_adaptive_pooling_mixed_reduction_levels[{h}x{w}]",
                [[floats(1, 1, h, w, start=10), floats(1, 1, 2, 2)]],
                f'x = te.placeholder((1, 1, {h}, {w}), name="x")',
                'parameters = [x, topi.nn.adaptive_pool(x, [2, 2], pool_type="avg")]',
            )
            for h, w in ((4, 5), (5, 4))
        ),
        _kernel(
            f"{PRIM}.test_global_pool", [[array("int8", 1, 1, 8, 8), array("int8", 1, 1, 1, 1)]],
            'x = te.placeholder((1, 1, 8, 8), name="x", dtype="int8")',
            'parameters = [x, topi.nn.global_pool(x, pool_type="avg", layout="NCHW")]',
        ),
        _kernel(
            f"{PRIM}.test_nested_reduce_domain_dependency", [[floats(4, 4, 4), floats(4)]],
            'x = te.placeholder((4, 4, 4), name="x")',
            "def triangle(i):",
            "    p = te.reduce_axis(tvm.ir.Range.from_min_extent(0, i))",
            "    q = te.reduce_axis(tvm.ir.Range.from_min_extent(0, p))",
            "    return te.sum(x[i, p, q], axis=[p, q])",
            "parameters = [x, te.compute((4,), triangle)]",
        ),
        *_tensor_kernels(),
        *_tagged_kernels(),
    ]  # fmt: skip


def _tensor_kernels() -> list[Kernel]:
    pair = [floats(2, 3), floats(2, 3, start=5)]
    return [
        _kernel(
            f"{TENSOR}.test_tensor", [[floats(2, 4), floats(3, 4, start=9), floats(2, 3, 4)]],
            "m, n, l = map(te.var, 'mnl')",
            'a, b = te.placeholder((m, l), name="a"), te.placeholder((n, l), name="b")',
            "parameters = [a, b, te.compute((m, n, l), lambda i, j, k: a[i, k] * b[j, k])]",
        ),
        _kernel(
            f"{TENSOR}.test_rank_zero", [[floats(6), floats(start=3), floats()]],
            'n = te.var("n")', 'a, s = te.placeholder((n,), name="a"), te.placeholder((), name="s")',
            "k = te.reduce_axis((0, n))",
            "parameters = [a, s, te.compute((), lambda: te.sum(a[k] * s(), axis=k))]",
        ),
        _kernel(
            f"{TENSOR}.test_conv1d", [[floats(8), floats(6)]],
            'a = te.placeholder((8,), name="a")',
            "parameters = [a, te.compute((6,), lambda i: a[i] + a[i + 1] + a[i + 2])]",
        ),
        _kernel(
            f"{TENSOR}.test_tensor_slice", [[floats(5)]],
            'n = te.var("n")', "ones = te.compute((n, n), lambda i, j: 1)",
            'parameters = [te.compute((n,), lambda i: (ones[0][i] + ones[0][i]).astype("float32"))]',
        ),
        _kernel(
            f"{TENSOR}.test_tensor_reduce_multi_axis", [[*pair, floats(1)]], *_rows(),
            "l = te.reduce_axis((0, rows))",
            "parameters = [x, y, te.compute((1,), lambda _: te.sum(x[l, k] * y[l, k], axis=(l, k)))]",
        ),
        *(
            _kernel(
                f"{TENSOR}.{case}", [[*pair, floats(2)]], *_rows(),
                "total = te.comm_reducer(lambda p, q: p + q, lambda t: tirx.const(0, t))",
                f"parameters = [x, y, te.compute((rows,), lambda i: {expression})]",
            )
            for case, expression in (
                ("test_tensor_comm_reducer", "total(x[i, k] * y[i, k], axis=k)"),
                ("test_tensor_comm_reducer_overload", "total(x[i, 0], y[i, 1])"),
            )
        ),
        _kernel(
            f"{TENSOR}.test_tensor_reduce", [[floats(2, 5), floats(3, 5), floats(2, 3)]],
            'a, b = te.placeholder((2, 5), name="a"), te.placeholder((3, 5), name="b")',
            "t = te.compute((2, 3, 5), lambda i, j, k: a[i, k] * b[j, k])",
            "k = te.reduce_axis((0, 4))",
            "parameters = [a, b, te.compute((2, 3), lambda i, j: te.sum(t(i, j, k + 1), axis=k))]",
        ),
        _kernel(
            f"{TENSOR}.test_tensor_reduce_multiout_with_cond",
            [[array("int32", 2, 4), array("int32", 2, 4, start=7), array("int32", 2), array("int32", 2)]],
            *_rows("int32", "int32"),
            "both = te.comm_reducer(lambda p, q: (p[0] + q[0], p[1] + q[1]),"
            " lambda t, u: (tirx.const(0, t), tirx.const(1, u)))",
            "even = te.floormod(k, 2) == 0",
            "u, v = te.compute((rows,), lambda i: both((x[i, k], y[i, k]), axis=k, where=even))",
            "parameters = [x, y, u, v]",
        ),
        _kernel(
            f"{TENSOR}.test_extern", [[floats(6), floats(6)]],
            'n = te.var("n")', 'a = te.placeholder((n,), name="a")',
            'call = lambda i, o: tirx.call_packed("peers.copy", i[0], o[0])',
            "parameters = [a, te.extern((n,), [a], call)]",
        ),
        _kernel(
            f"{TENSOR}.test_extern_multi_out", [[floats(6), floats(6), floats(6)]],
            'a = te.placeholder((6,), name="a")',
            'call = lambda i, o: tirx.call_packed("peers.copy", i[0], i[0], o[0], o[1])',
            "u, v = te.extern([a.shape, a.shape], [a], call)", "parameters = [a, u, v]",
        ),
        _kernel(
            f"{TENSOR}.test_tuple_inputs", [[*pair, floats(2, 3), floats(2, 3)]], *_rows(),
            "u, v = te.compute((rows, columns), lambda i, j: (x[i, j] * 2, y[i, j] * 3))",
            "parameters = [x, y, u, v]",
        ),
        _kernel(
            f"{TENSOR}.test_tuple_with_different_deps", [[*pair, floats(2, 3)]], *_rows(),
            "u, v = te.compute((rows, columns), lambda i, j: (x[i, j] * 2, y[i, j] * 3))",
            "parameters = [x, y, te.compute((rows, columns), lambda i, j: u[i, j] + 4)]",
        ),
        _kernel(
            f"{TENSOR}.test_tensor_inputs", [[floats(1, start=4), floats(1)]],
            'x = te.placeholder((1,), name="x")',
            "parameters = [x, te.compute(x.shape, lambda i: x[i] + x[i])]",
        ),
    ]  # fmt: skip


def _tagged_kernels() -> list[Kernel]:
    product = "te.compute((8, 8), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k))"
    prepared = ("ATTRS = None", *MATMUL[:2])
    return [
        _kernel(
            f"{TAG}.test_with", [SQUARES], *prepared,
            'with te.tag_scope(tag="gemm"):', f"    c = {product}",
            'assert c.op.tag == "gemm"', "parameters = [a, b, c]",
        ),
        _kernel(
            f"{TAG}.test_decorator", [SQUARES], *prepared,
            '@te.tag_scope(tag="gemm")', "def made():", f"    return {product}",
            "c = made()", "parameters = [a, b, c]",
        ),
        _kernel(
            f"{TAG}.test_nested", [SQUARES], *prepared,
            "try:",
            '    with te.tag_scope(tag="outer"), te.tag_scope(tag="inner"): pass',
            "except ValueError:", "    pass",
            f"parameters = [a, b, {product}]",
        ),
    ]  # fmt: skip
