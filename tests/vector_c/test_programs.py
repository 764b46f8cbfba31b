"""Random programs over every lane type and width, under each compiler, against numpy."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import mblob
from tests.vector_c.features import DTYPES, WIDTHS
from tests.vector_c.programs import Program

Require = Callable[[str], str]
PUBLIC = '#include <stdint.h>\n#ifdef __cplusplus\n#define PUBLIC extern "C"\n#else\n#define PUBLIC\n#endif\n'
# The seed with the compiler: each sees other programs. In the quick tier three widths of each lane
# type.
BUILDS = [
    ("gcc", "-O0", 5, 3),
    *(
        pytest.param(*build, len(WIDTHS), marks=mark)
        for build, mark in (
            (("gcc", "-O2", 1), pytest.mark.slow),
            (("g++", "-O1", 2), pytest.mark.nightly),
            (("clang", "-O1", 3), pytest.mark.nightly),
            (("clang++", "-O0", 4), pytest.mark.slow),
        )
    ),
]


def programs(seed: int, widths: int) -> list[Program]:
    """For each lane type, one of each of so many widths."""
    chance = random.Random(seed)
    return [
        Program(chance, t, n, f"p_{t}{n}") for t in DTYPES for n in chance.sample([*WIDTHS], widths)
    ]


def compiled(path: Path, made: Sequence[Program], compiler: str, level: str) -> ctypes.CDLL:
    fmt = "cc" if "++" in compiler else "c"
    texts = ["".join(p.source() for p in made if p.scalar == scalar) for scalar in DTYPES]
    modules = [mblob.csource_module(PUBLIC + text, fmt=fmt) for text in texts]
    for module in modules[1:]:
        modules[0].import_module(module)
    modules[0].export_library(path, cc=compiler, options=[level, "-g0", "-ffp-contract=off"])
    return ctypes.CDLL(str(path))


@pytest.mark.slow
@pytest.mark.parametrize(("compiler", "level", "seed", "widths"), BUILDS)
def test_random_programs_leave_what_numpy_says(
    tmp_path: Path, require: Require, compiler: str, level: str, seed: int, widths: int
) -> None:
    require(compiler)
    made = programs(seed, widths)
    library = compiled(tmp_path / "x.so", made, compiler, level)
    for program in made:
        out = np.zeros(program.expected.shape, program.expected.dtype)
        arguments = (
            ctypes.c_void_p(program.input.ctypes.data),
            ctypes.c_void_p(out.ctypes.data),
            1,
        )
        getattr(library, program.name)(*arguments)
        for found, wanted, lines in zip(out, program.expected, program.statements):
            assert np.array_equal(found, wanted, equal_nan=out.dtype.kind == "f"), "\n".join(
                [program.name, *lines]
            )
