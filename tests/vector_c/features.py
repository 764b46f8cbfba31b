"""Every operation on vectors, as C over `A`, `B`, `C`, a scalar `s` and `T`, and as numpy over a,
b, c, s."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any  # of numpy; shapes and dtypes are what is tested

DTYPES = {
    "half": np.float16, "float": np.float32, "double": np.float64,
    "int8_t": np.int8, "int16_t": np.int16, "int32_t": np.int32, "int64_t": np.int64,
    "uint8_t": np.uint8, "uint16_t": np.uint16, "uint32_t": np.uint32, "uint64_t": np.uint64,
}  # fmt: skip
WIDTHS = range(2, 17)
OLD_NAMES = {
    "int8_t": "char", "int16_t": "short", "int32_t": "int", "int64_t": "long",
    "uint8_t": "uchar", "uint16_t": "ushort", "uint32_t": "uint", "uint64_t": "ulong",
}  # fmt: skip


@dataclass(frozen=True)
class Feature:
    """One operation.

    Attributes:
        code: statements that leave the result in `R`, a vector of type T, or in `M`, a mask.
        expect: the same in numpy, in any dtype.
        integers: for vectors of integers only.
        mask: the result is in M.
    """

    code: str
    expect: Callable[[Array, Array, Array, Any], Array]
    integers: bool = False
    mask: bool = False


def quotient(a: Array, b: Array) -> Array:
    """C's division: towards zero."""
    if a.dtype.kind == "f":
        return a / b
    wide = a.astype(object)
    return np.array(
        [
            abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
            for x, y in zip(wide, b.astype(object))
        ]
    )


def remainder(a: Array, b: Array) -> Array:
    return a - (quotient(a, b) * b.astype(object)).astype(a.dtype)


def after(a: Array, i: int, value: Any) -> Array:
    changed = a.copy()
    changed[i] = value
    return changed


FEATURES = [
    Feature("R = A + B;", lambda a, b, c, s: a + b),
    Feature("R = A - B;", lambda a, b, c, s: a - b),
    Feature("R = A * B;", lambda a, b, c, s: a * b),
    Feature("R = A / B;", lambda a, b, c, s: quotient(a, b)),
    Feature("R = A % B;", lambda a, b, c, s: remainder(a, b), integers=True),
    Feature("R = (A & B) | (A ^ C);", lambda a, b, c, s: (a & b) | (a ^ c), integers=True),
    Feature("R = C << C;", lambda a, b, c, s: c << c, integers=True),
    Feature("R = A >> C;", lambda a, b, c, s: a >> c, integers=True),
    Feature("R = ~A;", lambda a, b, c, s: ~a, integers=True),
    Feature("R = -A;", lambda a, b, c, s: -a),
    Feature("R = +A + s * B - s;", lambda a, b, c, s: a + s * b - s),
    Feature("R = A; R += B; R -= C; R *= B; R /= s;", lambda a, b, c, s: quotient((a + b - c) * b, s + 0 * a)),
    Feature("R = A; R %= B; R &= C; R |= B; R ^= s;",
            lambda a, b, c, s: ((remainder(a, b) & c) | b) ^ s, integers=True),
    Feature("R = C; R <<= 1; R >>= 1;", lambda a, b, c, s: c, integers=True),
    Feature("R = C; T old = R++; ++R; R = R * old; R--; --R;", lambda a, b, c, s: (c + s // s + s // s) * c - 2),
    Feature("M = A < B;", lambda a, b, c, s: a < b, mask=True),
    Feature("M = A > s;", lambda a, b, c, s: a > s, mask=True),
    Feature("M = A <= C;", lambda a, b, c, s: a <= c, mask=True),
    Feature("M = B >= A;", lambda a, b, c, s: b >= a, mask=True),
    Feature("M = C == B;", lambda a, b, c, s: c == b, mask=True),
    Feature("M = A != C;", lambda a, b, c, s: a != c, mask=True),
    Feature("M = (A < B) && !(C == B) || (B > C);", lambda a, b, c, s: ((a < b) & (c != b)) | (b > c), mask=True),
    Feature("R = (A) < (B) ? (A) : (B);", lambda a, b, c, s: np.minimum(a, b)),
    Feature("R = (((A) > (C) ? (A) : (C)) == B ? T0 : A + C);",
            lambda a, b, c, s: np.where(np.maximum(a, c) == b, 0, a + c)),
    Feature("B4 cond = A > C; R = cond ? A : s;", lambda a, b, c, s: np.where(a > c, a, s)),
    Feature("R = (T)(A > B);", lambda a, b, c, s: a > b),
    Feature("B4 cond = A > B; R = (T)cond;", lambda a, b, c, s: a > b),
    Feature("R = s > 1 ? A : B;", lambda a, b, c, s: a if s > 1 else b),
    Feature("R = s > 100 ? A : T0;", lambda a, b, c, s: 0 * a),
    Feature("R = CONSTRUCT;", lambda a, b, c, s: a[::-1]),
    Feature("R = RAMP;", lambda a, b, c, s: s + np.arange(len(a))),
    Feature("R = BROADCAST;", lambda a, b, c, s: s + 0 * a),
    Feature("R = (T)(s) + T(s);", lambda a, b, c, s: s + s + 0 * a),
    Feature("R = A; R.s1 = B.s0; R.s0 = (A + B).s1;", lambda a, b, c, s: after(after(a, 1, b[0]), 0, (a + b)[1])),
    Feature("R = A; R.LAST = s;", lambda a, b, c, s: after(a, -1, s)),
    Feature("R = (T)((float_N)C);", lambda a, b, c, s: c),
    Feature("R = (T)(double_N)(uint8_t_N)(C);", lambda a, b, c, s: c),
    Feature("T v[3]; v[0] = A; v[1] = B; v[2] = v[0] * v[1]; R = v[2];", lambda a, b, c, s: a * b),
    Feature("T *p = &R; *p = A; p->s0 = B.s0; p[0] += B;", lambda a, b, c, s: after(a, 0, b[0]) + b),
    Feature("R = NAME_twice(NAME_twice(C, s), 1);", lambda a, b, c, s: c + c + s + c + c + s + 1),
    Feature("T v; if (s > 1) { v = A; } else { v = B; } R = v;", lambda a, b, c, s: a if s > 1 else b),
    Feature("R = A; for (T v = T0; v.s0 < 3; v += 1) R = v + A;", lambda a, b, c, s: a + 2),
    Feature("R = min(A, B) + max(A, C);", lambda a, b, c, s: np.minimum(a, b) + np.maximum(a, c)),
    Feature("R = (T)fabs((double_N)(A)) + C;", lambda a, b, c, s: np.abs(a.astype(np.float64)).astype(a.dtype) + c),
]  # fmt: skip


def features(scalar: str) -> list[Feature]:
    """Those that vectors of this lane type have."""
    return [f for f in FEATURES if not f.integers or np.dtype(DTYPES[scalar]).kind in "iu"]


def source(scalar: str, widths: Iterable[int]) -> str:
    """A C file with `run_<type>(a, b, c, s, out, mask)` for every width of a lane type."""
    parts = [
        '#include <stdint.h>\n#include <math.h>\n#ifdef __cplusplus\n#define PUBLIC extern "C"\n'
        "#else\n#define PUBLIC\n#endif\n"
    ]
    parts += [_function(scalar, n) for n in widths]
    return "".join(parts)


def _function(scalar: str, n: int) -> str:
    name = f"{scalar}{n}"
    used = f"{OLD_NAMES.get(scalar, scalar)}{n}" if n % 2 else name  # both ways of spelling
    size = np.dtype(DTYPES[scalar]).itemsize
    mask = f"int{8 * size}_t"
    words = {
        "CONSTRUCT": f"{used}({', '.join(f'A.s{i:x}' for i in reversed(range(n)))})",
        "RAMP": f"(({used})({', '.join(f'(s)+(1*{i})' for i in range(n))}))",
        "BROADCAST": f"(({used})({', '.join(['s'] * n)}))",
        "T0": f"(({used})({', '.join(['0'] * n)}))",
        "LAST": f"s{n - 1:x}",
        "B4": f"uint32_t{n}",
        "NAME": f"f_{name}",
    }
    lines = [
        f"static {used} f_{name}_twice({used} v, const {used} more) {{ return v + v + more; }}\n"
        f"PUBLIC void run_{name}(const {scalar} *a, const void *b, {scalar} *c, double x, void *out, {mask} *mask) {{\n"
        f"  {scalar} s = ({scalar})x;\n  {used} A = *({used}*)(a);\n"
        f"  const {used} B = (({used}*)(({scalar}*)b + (0)))[0], C = (({used} *)c)[0];\n"
    ]
    stored = masks = 0
    for f in features(scalar):
        code = f.code
        for word, text in words.items():
            code = code.replace(word, text)
        code = code.replace("_N", str(n)).replace("(T)", f"({used})")
        code = code.replace("T ", f"{used} ").replace("T(", f"{used}(")
        if f.mask:
            lines.append(f"  {{ {mask}{n} M; {code} *({mask}{n}*)(mask + ({masks * n})) = M; }}\n")
            masks += 1
        else:
            store = (
                f"(({used}*)out)[{stored}]"
                if stored % 2
                else f"*({used}*)(({scalar}*)out + {stored * n})"
            )
            lines.append(f"  {{ {used} R; {code} {store} = R; }}\n")
            stored += 1
    return "".join([*lines, "}\n"])
