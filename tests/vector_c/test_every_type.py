"""Every lane type, width and operator against numpy, under each compiler."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.vector_c.features import DTYPES, WIDTHS, features, source

GUARD = 0xA5
# Everything is compiled without optimization, and what shows how optimizers take it with.
SOME_TYPES = ("half", "float", "int8_t", "uint32_t")
SOME_WIDTHS = (2, 3, 4, 8, 16)
CONVERTED = ("half", "float", "double", "int8_t", "int32_t", "int64_t", "uint64_t")
BUILDS = [
    pytest.param("gcc", "c", id="gcc"),
    pytest.param("g++", "cc", id="g++"),
    pytest.param("clang", "c", id="clang", marks=pytest.mark.slow),
    pytest.param("clang++", "cc", id="clang++", marks=pytest.mark.slow),
]
OPTIONS = ["-g0", "-Wall", "-Wextra", "-Wno-parentheses", "-Werror"]
Require = Callable[[str], str]


class Guarded:
    """An array of exactly `count` elements between bytes that must not change, aligned like one
    element."""

    def __init__(self, dtype: Any, count: int) -> None:
        size = np.dtype(dtype).itemsize
        raw = np.full(64 + 64 + size + count * size + 64, GUARD, np.uint8)
        start = 64 + -raw.ctypes.data % 64 + size
        self.before, self.behind = raw[:start], raw[start + count * size :]
        self.array = raw[start : start + count * size].view(dtype)

    @property
    def address(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.array.ctypes.data)

    def check(self) -> None:
        assert (self.before == GUARD).all()
        assert (self.behind == GUARD).all()


def check(library: ctypes.CDLL, scalar: str, n: int) -> None:
    dtype = np.dtype(DTYPES[scalar])
    random = np.random.default_rng(n)
    wanted = features(scalar)
    masks = [f for f in wanted if f.mask]
    values = [f for f in wanted if not f.mask]
    a, b, c = (Guarded(dtype, n) for _ in range(3))
    low = 0 if dtype.kind == "u" else -11
    a.array[:] = random.integers(low, 12, n)
    b.array[:] = random.integers(1, 12, n) * random.choice([1, -1] if low else [1], n)
    c.array[:] = random.integers(0, 5, n)
    out, mask = Guarded(dtype, n * len(values)), Guarded(f"i{dtype.itemsize}", n * len(masks))
    getattr(library, f"run_{scalar}{n}")(
        a.address, b.address, c.address, ctypes.c_double(3), out.address, mask.address
    )
    for guarded in (a, b, c, out, mask):
        guarded.check()
    inputs = (a.array.copy(), b.array.copy(), c.array.copy(), dtype.type(3))
    for kind, found in ((values, out.array), (masks, mask.array)):
        for feature, lanes in zip(kind, found.reshape(len(kind), n)):
            with np.errstate(over="ignore"):
                expected = np.asarray(feature.expect(*inputs)).astype(dtype)
            if feature.mask:
                expected = -expected.astype(mask.array.dtype)
            assert lanes.tolist() == expected.tolist(), f"{scalar}{n}: {feature.code}"


def export(
    path: Path, compiler: str, fmt: str, options: Sequence[str], scalars: Iterable[str] = DTYPES,
    widths: Sequence[int] = WIDTHS,
) -> None:  # fmt: skip
    """A library of everything, of two sources: compilers run side by side, but each source costs
    the headers again."""
    texts = [source(scalar, widths) for scalar in scalars]
    first, second = (mblob.csource_module("".join(texts[i::2]), fmt=fmt) for i in range(2))
    first.import_module(second)
    first.export_library(path, cc=compiler, options=options)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("compiler", "fmt"),
    [
        ("gcc", "c"),
        pytest.param("g++", "cc", marks=pytest.mark.nightly),
        pytest.param("clang", "c", marks=pytest.mark.nightly),
        ("clang++", "cc"),
    ],
)
def test_every_operation_on_every_vector_is_numpys(
    tmp_path: Path, require: Require, compiler: str, fmt: str
) -> None:
    require(compiler)
    export(tmp_path / "x.so", compiler, fmt, ["-O0", *OPTIONS])
    library = ctypes.CDLL(str(tmp_path / "x.so"))
    for scalar in DTYPES:
        for n in WIDTHS:
            check(library, scalar, n)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("compiler", "widths"),
    [
        ("gcc", (3,)),
        *(
            pytest.param(name, SOME_WIDTHS, marks=pytest.mark.slow)
            for name in ("gcc", "g++", "clang")
        ),
    ],
)
def test_every_operation_on_some_vectors_is_numpys_when_optimized(
    tmp_path: Path, require: Require, compiler: str, widths: Sequence[int]
) -> None:
    require(compiler)
    fmt = "cc" if "++" in compiler else "c"
    export(tmp_path / "x.so", compiler, fmt, ["-O1", *OPTIONS], SOME_TYPES, widths)
    library = ctypes.CDLL(str(tmp_path / "x.so"))
    for scalar in SOME_TYPES:
        for n in widths:
            check(library, scalar, n)


@pytest.mark.slow
@pytest.mark.parametrize(("compiler", "fmt"), BUILDS)
def test_what_was_converted_is_compared_and_chosen(
    tmp_path: Path, require: Require, compiler: str, fmt: str
) -> None:
    """With the options that are usual: optimizers fold these three, and gcc 12 failed where float
    became double."""
    cases = [(a, b, n) for a in CONVERTED for b in CONVERTED for n in (2, 4, 8)]
    text = '#include <stdint.h>\n#ifdef __cplusplus\nextern "C" {\n#endif\n'
    for a, b, n in cases:
        text += (
            f"void {a}_to_{b}{n}(const {a} *p, {b} *q) {{ {b}{n} v = ({b}{n})(*({a}{n}*)p);"
            f" *({b}{n}*)q = (v > ({b}{n})(2)) ? v : ({b}{n})(2); }}\n"
        )
    module = mblob.csource_module(text + "#ifdef __cplusplus\n}\n#endif\n", fmt=fmt)
    module.export_library(tmp_path / "x.so", cc=require(compiler))
    library = ctypes.CDLL(str(tmp_path / "x.so"))
    for a, b, n in cases:
        given, found = np.arange(n).astype(DTYPES[a]), np.zeros(n, DTYPES[b])
        getattr(library, f"{a}_to_{b}{n}")(
            ctypes.c_void_p(given.ctypes.data), ctypes.c_void_p(found.ctypes.data)
        )
        np.testing.assert_array_equal(
            found, np.maximum(np.arange(n), 2), err_msg=f"{a} to {b}, {n} lanes"
        )


SANITIZED = """
import ctypes, sys
from tests.vector_c.test_every_type import SOME_TYPES, SOME_WIDTHS, check
library = ctypes.CDLL(sys.argv[1])
for scalar in SOME_TYPES:
    for n in SOME_WIDTHS:
        check(library, scalar, n)
"""


@pytest.mark.slow
def test_sanitizers_find_nothing(tmp_path: Path, root: Path, require: Require) -> None:
    flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O0", "-g0"]
    export(tmp_path / "x.so", require("gcc"), "c", flags, SOME_TYPES, SOME_WIDTHS)
    runtimes = [
        subprocess.run(
            ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    done = subprocess.run(
        [sys.executable, "-c", SANITIZED, tmp_path / "x.so"],
        env={**os.environ, "LD_PRELOAD": " ".join(runtimes), "ASAN_OPTIONS": "detect_leaks=0"},
        cwd=root, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
