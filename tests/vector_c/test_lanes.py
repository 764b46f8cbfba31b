"""Several lanes at once, read and written."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.packager.compile.vector_c.rewrite import rewrite
from tests.vector_c.building import COMPILERS, built
from tests.vector_c.features import DTYPES

Require = Callable[[str], str]
WAYS = ["v", "*p", "(*p)", "ps->m", "s.m", "rows[1]", "((T *)memory)[1]", "(*(T *)(memory + N))"]
# What is written behind a vector, and the lanes it means of n.
NAMES: dict[str, Callable[[int], list[int]]] = {
    "s10": lambda n: [1, 0], "yx": lambda n: [1, 0], "S01": lambda n: [0, 1], "even": lambda n: [*range(0, n, 2)],
    "odd": lambda n: [*range(1, n, 2)], "lo": lambda n: [*range((n + 1) // 2)],
    "hi": lambda n: [*range(n // 2, n)], "lo.s10": lambda n: [1, 0], "odd.lo": lambda n: [*range(1, n, 2)][: n // 4],
    "even.s1": lambda n: [2],
}  # fmt: skip


def reversed_name(n: int) -> str:
    return "s" + "".join(f"{i:x}" for i in reversed(range(n)))


def programs(scalar: str, n: int) -> tuple[str, list[Any]]:
    """A function `void f(T *in, T *out)` that stores what every statement leaves, and that by
    numpy."""
    v = f"{scalar}{n}"
    dtype = DTYPES[scalar]
    lines, expected = [], []
    names = {**NAMES, reversed_name(n): lambda n: [*reversed(range(n))]}
    for i, (name, lanes_of) in enumerate(names.items()):
        lanes = lanes_of(n)
        if (
            len(lanes) > n
            or not lanes
            or (n % 4 and name not in ("s10", "yx", "S01", reversed_name(n), "even"))
        ):
            continue
        place = WAYS[i % len(WAYS)].replace("T", v).replace("N", str(n))
        target = f"({place}).{name}" if place.startswith("*") else f"{place}.{name}"
        part = f"{scalar}{len(lanes)}" if len(lanes) > 1 else scalar
        first = np.arange(1, n + 1).astype(dtype)
        values = np.arange(20, 20 + len(lanes)).astype(dtype)
        made = f"{part}({', '.join(str(int(x)) for x in values)})" if len(lanes) > 1 else "20"
        for op, after, given in (
            ("{0} = {1};", lambda old, new: new, None),
            ("{0} += {1};", lambda old, new: old + new, None),
            ("{0} -= 1;", lambda old, new: old - 1, None),
            ("R.lo = {0}++;", lambda old, new: old + 1, lambda old, new: old),
            ("R.lo = --{0};", lambda old, new: old - 1, lambda old, new: old - 1),
            ("R.lo = ({0} = {1});", lambda old, new: new, lambda old, new: new),
        ):
            whole, result = first.copy(), np.zeros(n, dtype)
            old = first[lanes].astype(dtype)
            whole[lanes] = after(old, values)
            statement = op.format(target, made)
            if given is not None:
                if len(lanes) == 1:
                    statement = statement.replace("R.lo", "R.s0")
                    result[:1] = given(old, values)
                elif 2 * len(lanes) == n:
                    result[: len(lanes)] = given(old, values)
                else:
                    continue
            lines.append(f"  {place} = start; R = ({v})(0); {statement} *({v}*)out = {place}; out += {n};"
                         f" *({v}*)out = R; out += {n};")  # fmt: skip
            expected += [*whole, *result]
    text = f"""#ifdef __cplusplus
extern "C"
#endif
void f_{v}({scalar} *in, {scalar} *out) {{
  struct {{ {scalar} before; {v} m; }} s, *ps = &s;
  {scalar} memory[{2 * n}];
  {v} start = *({v}*)in, R, v, *p = &v, rows[2];
  (void)ps; (void)p; (void)rows; (void)memory; (void)s; (void)v;
""" + "\n".join(lines) + "\n}\n"  # fmt: skip
    return text, expected


EVERY = [
    (t, n) for t in ("float", "int8_t", "uint32_t", "double", "half") for n in (2, 3, 4, 8, 16)
]
SOME = [("float", 4), ("int8_t", 3), ("uint32_t", 2), ("double", 8)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "cases", [pytest.param(EVERY, marks=pytest.mark.slow), SOME], ids=["every", "some"]
)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_several_lanes_are_places(
    tmp_path: Path, require: Require, compiler: str, cases: list[tuple[str, int]]
) -> None:
    require(compiler)
    texts = {case: programs(*case) for case in cases}
    source = "#include <stdint.h>\n" + "".join(text for text, _ in texts.values())
    lib = built(
        tmp_path,
        source,
        cc=compiler,
        fmt="cc" if "++" in compiler else "c",
        options="-O1 -Wall -Werror",
    )
    for (scalar, n), (_, expected) in texts.items():
        assert expected
        start = np.arange(1, n + 1).astype(DTYPES[scalar])
        out = np.zeros(len(expected) + 1, DTYPES[scalar])
        getattr(lib, f"f_{scalar}{n}")(
            ctypes.c_void_p(start.ctypes.data), ctypes.c_void_p(out.ctypes.data)
        )
        assert out.tolist() == [*np.array(expected).tolist(), 0], f"{scalar}{n}"


@pytest.mark.parametrize("compiler", COMPILERS)
def test_lanes_through_pointers_and_of_what_is_no_place(
    tmp_path: Path, require: Require, compiler: str
) -> None:
    require(compiler)
    lib = built(tmp_path, """
#ifdef __cplusplus
extern "C"
#endif
void f(float *p, int i, float *out) {
  float4 *v = (float4 *)p;
  v->lo = v->hi;
  v++->s01 = (float2)(7, 8);
  v->xyz = v->zyx;
  out[0] = (*v * 2).hi[1];
  out[1] = v->odd[i];
  out[2] = ((float4)(1, 2, 3, 4))[2];
  out[3] = (*v)[i];
  out[4] = *(float4*)(((float*)p) + 1)[2] + *(float4*)(p + 0)[0x0];
}
""", cc=compiler, fmt="cc" if "++" in compiler else "c", options="-O0 -Wall -Werror")  # fmt: skip
    values, out = np.array([1, 2, 3, 4, 10, 20, 30, 40], np.float32), np.zeros(6, np.float32)
    lib.f(ctypes.c_void_p(values.ctypes.data), 1, ctypes.c_void_p(out.ctypes.data))
    assert values.tolist() == [7, 8, 3, 4, 30, 20, 10, 40]
    assert out.tolist() == [80, 40, 3, 20, 4 + 7, 0]


@pytest.mark.parametrize(
    "statement",
    [
        "(v + v).s0 = 1;",
        "(v + v)[1] = 1;",
        "(-v)[i] += 1;",
        "v.xy[i]++;",
        "--((float4)(1)).y;",
        "(v + v) = v;",
    ],
)
def test_a_lane_of_a_copy_is_no_place(statement: str) -> None:
    with pytest.raises(mblob.MblobError, match=r"x\.c:2: this writes to a copy that nothing reads"):
        rewrite(f"void f(float4 v, int i) {{\n {statement} }}", "x.c")
