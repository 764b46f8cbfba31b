"""Integers at the edge: what C leaves open has one value here, under each compiler, optimized,
folded, or neither."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mblob
from tests.vector_c.building import COMPILERS
from tests.vector_c.programs import divided

Require = Callable[[str], str]
LANES = [f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)]
WIDTHS = (2, 3, 4, 16)
OPERATORS = ("/", "%", "<<", ">>", "+", "-", "*")


def edges(scalar: str, n: int) -> list[tuple[int, int]]:
    """Pairs of numbers at the ends of a lane type, and around what division stumbles over, for
    whole vectors."""
    info = np.iinfo(np.dtype(scalar.removesuffix("_t")))
    values = [info.min, 0, 1, 7, info.bits - 1, info.bits, info.max]
    values += [-1, -7, info.min + 1] if info.min else []
    pairs = [*itertools.product(values, values)][:: 1 if n == 4 else 7]
    return [*itertools.islice(itertools.cycle(pairs), -(-len(pairs) // n) * n)]


def expected(op: str, a: int, b: int, scalar: str) -> int:
    """The documented value, out of Python's integers."""
    info = np.iinfo(np.dtype(scalar.removesuffix("_t")))
    if op in ("/", "%"):
        return divided(op, a, b, info)
    if op in ("<<", ">>"):
        count = b % info.bits
        exact = a << count if op == "<<" else a >> count
    else:
        exact = {"+": a + b, "-": a - b, "*": a * b}[op]
    return (exact - info.min) % 2**info.bits + info.min


def literal(value: int, scalar: str) -> str:
    if scalar.startswith("u"):
        return f"{value}ull"
    return f"({value + 1}ll - 1)" if value < 0 else f"{value}ll"


def source(scalar: str, n: int) -> str:
    """`run(a, b, out)`: every operator on lanes from memory, and `folded(out)`: the same on
    constants."""
    v = f"{scalar}{n}"
    pairs = edges(scalar, n)
    run = [f"out[{i}] = *a {op} *b; out[{i}] {op}= 1; c = *a; c {op}= *b; out[{i + 1}] = c;"
           for i, op in zip(range(0, 99, 2), OPERATORS)]  # fmt: skip
    folded = []
    for k in range(0, len(pairs), n):
        a, b = (
            f"({v})({', '.join(literal(pair[side], scalar) for pair in pairs[k : k + n])})"
            for side in (0, 1)
        )
        folded += [f"*out++ = {a} {op} {b};" for op in OPERATORS]
    return (
        f"PUBLIC void run_{v}({v} *a, {v} *b, {v} *out) {{ {v} c; {' '.join(run)} }}\n"
        f"PUBLIC void folded_{v}({v} *out) {{ {' '.join(folded)} }}\n"
    )


def check(library: ctypes.CDLL, scalar: str, n: int) -> None:
    dtype = np.dtype(scalar.removesuffix("_t"))
    pairs = edges(scalar, n)
    folded = np.zeros((len(pairs) // n, len(OPERATORS), n), dtype)
    getattr(library, f"folded_{scalar}{n}")(ctypes.c_void_p(folded.ctypes.data))
    for k in range(0, len(pairs), n):
        a, b = (np.array([pair[side] for pair in pairs[k : k + n]], dtype) for side in (0, 1))
        out = np.zeros((2 * len(OPERATORS), n), dtype)
        getattr(library, f"run_{scalar}{n}")(*(ctypes.c_void_p(x.ctypes.data) for x in (a, b, out)))
        for i, op in enumerate(OPERATORS):
            wanted = [expected(op, int(x), int(y), scalar) for x, y in zip(a, b)]
            text = f"{scalar}{n}: {a.tolist()} {op} {b.tolist()}"
            assert out[2 * i + 1].tolist() == wanted, text
            assert out[2 * i].tolist() == [expected(op, x, 1, scalar) for x in wanted], text
            assert folded[k // n, i].tolist() == wanted, text


SLOW = pytest.mark.slow
SOME = [("int8_t", 2), ("uint16_t", 3), ("int32_t", 4), ("int64_t", 16)]
EVERY = [*itertools.product(LANES, WIDTHS)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("level", "cases"),
    [pytest.param("-O0", EVERY, marks=SLOW), pytest.param("-O2", EVERY, marks=SLOW), ("-O2", SOME)],
)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_no_operation_overflows_traps_or_is_folded_to_something_else(
    tmp_path: Path, require: Require, compiler: str, level: str, cases: list[tuple[str, int]]
) -> None:
    require(compiler)
    public = '#include <stdint.h>\n#ifdef __cplusplus\n#define PUBLIC extern "C"\n#else\n#define PUBLIC\n#endif\n'
    modules = [
        mblob.csource_module(public + "".join(texts), fmt="cc" if "++" in compiler else "c")
        for scalar in LANES
        if (texts := [source(t, n) for t, n in cases if t == scalar])
    ]
    for module in modules[1:]:
        modules[0].import_module(module)
    modules[0].export_library(
        tmp_path / "x.so", cc=compiler, options=[level, "-Wall", "-Wextra", "-Werror"]
    )
    library = ctypes.CDLL(str(tmp_path / "x.so"))
    for scalar, n in cases:
        check(library, scalar, n)
