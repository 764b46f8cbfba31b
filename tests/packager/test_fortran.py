"""Objects that gfortran compiled: their debug information has the types alone, and does not say
that Fortran passes addresses."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mblob

SOURCE = """
subroutine scale2(n, x)
  integer, intent(in) :: n
  real(8), intent(inout) :: x(n)
  x = 2 * x
end subroutine
subroutine addone(n)
  integer, intent(inout) :: n
  n = n + 1
end subroutine
real function addf(a, b)
  real, intent(in) :: a, b
  addf = a + b
end function
subroutine saxpy(n, a, x, y) bind(c, name="saxpy")
  use iso_c_binding
  integer(c_long), value :: n
  real(c_float), value :: a
  real(c_float), intent(in) :: x(n)
  real(c_float), intent(inout) :: y(*)
  y(1:n) = y(1:n) + a*x
end subroutine
subroutine length(s, k)
  character(len=*), intent(in) :: s
  integer, intent(out) :: k
  k = len(s)
end subroutine
subroutine total(x, s)
  real, intent(in) :: x(:)
  real, intent(out) :: s
  s = sum(x)
end subroutine
module m
contains
  subroutine inside(n) bind(c)
    integer, intent(inout) :: n
    n = n + 2
  end subroutine
end module
subroutine moved(n, x, m)
  integer, intent(inout) :: n
  real(8), intent(inout) :: x(n)
  integer, value :: m
  integer :: i
  do i = 1, n
    call scale2(1, x(i))
  end do
  n = n + m
  call scale2(1, x(1))
  n = n + m
end subroutine
logical function all_of(l, v)
  logical, intent(in) :: l
  logical, value :: v
  all_of = l .and. v
end function
character(len=3) function word(k)
  integer, intent(in) :: k
  word = merge("one", "two", k == 1)
end function
"""
RIGHT = [
    "void scale2_(int *n, double *x)",
    "void addone_(int *n)",
    "float addf_(float *a, float *b)",
    "void saxpy(long n, float a, const float x[n], float y[n])",
    "void length_(const char *s, int *k, long size)",
    "void total_(void *x, float *s)",
    "void moved_(int *n, double *x, int m)",
    "void inside(int *n)",
    "int all_of_(int *l, int v)",
    "void word_(char *r, long size, int *k)",
]
WRONG = {
    "void addone_(int n)": r"parameter 0 \(n\) is 'int', the source has 'integer\(kind=4\) \*'",
    "void addone_(float *n)": r"the source has 'integer\(kind=4\) \*'",
    "void scale2_(int *n, float *x)": r"the source has 'real\(kind=8\) \*'",
    "void saxpy(long *n, float a, const float *x, float *y)": r"the source has 'integer\(kind=8\)'",
    "void length_(const char *s, int *k)": r"has 2 parameters, the source has 3",
    "void total_(float *x, float *s)": r"the source has 'array descriptor \*'",
    "int all_of_(int l, int v)": r"parameter 0 \(l\) .*the source has 'logical\(kind=4\) \*'",
    "bool all_of_(int *l, int v)": r"the source's returns 'logical\(kind=4\)'",
    "void word_(int *k)": r"the source has 3",
    "void inside(int n)": r"the source has 'integer\(kind=4\) \*'",
    "void moved_(int n, double *x, int m)": r"the source has 'integer\(kind=4\) \*'",
    "void moved_(int *n, double *x, int *m)": r"parameter 2 \(m\) .*the source has 'integer\(kind=4\)'",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fortran")


def compiled(folder: Path, require: Callable[[str], str], *flags: str) -> Path:
    (folder / "k.f90").write_text(SOURCE)
    path = folder / f"k{''.join(flags)}.o"
    if not path.exists():
        command = [require("gfortran"), *flags, "-fPIC", "-c", "k.f90", "-o", path]
        subprocess.run(command, cwd=folder, check=True)
    return path


@pytest.mark.parametrize(
    "flags",
    [
        ("-g", "-O2"),
        ("-g", "-O0", "-gdwarf-4"),
        pytest.param(("-g", "-O3"), marks=pytest.mark.slow),
        pytest.param(("-g", "-O0"), marks=pytest.mark.slow),
        pytest.param(("-O2",), marks=pytest.mark.slow),
    ],
    ids="".join,
)
def test_right_prototypes_of_fortran_pack_and_run(
    folder: Path, require: Callable[[str], str], flags: tuple[str, ...]
) -> None:
    module = mblob.static_library(compiled(folder, require, *flags), functions=RIGHT)
    path = folder / f"lib{''.join(flags)}.so"
    module.export_library(path, options=["-lgfortran"])
    lib = mblob.load_module(path)
    n, x, k = np.array([3], "int32"), np.arange(3.0), np.zeros(1, "int32")
    lib.scale2_(n, x)
    lib.addone_(n)
    assert n[0] == 4 and x.tolist() == [0, 2, 4]
    one = np.ones(1, "float32")
    assert lib.addf_(one, one) == 2
    a, y = np.arange(4, dtype="float32"), np.ones(4, "float32")
    lib.saxpy(4, 2.0, a, y)
    assert y.tolist() == [1, 3, 5, 7]
    lib.length_("four", k, 4)
    assert k[0] == 4
    true, word = np.ones(1, "int32"), np.zeros(3, "int8")
    assert lib.all_of_(true, 1) == 1 and lib.all_of_(true, 0) == 0
    lib.word_(word, 3, np.array([2], "int32"))
    assert word.tobytes() == b"two"
    n, x = np.array([2], "int32"), np.ones(2)
    lib.moved_(n, x, 5)
    assert n[0] == 12 and x.tolist() == [4, 2]


@pytest.mark.sample(3)
@pytest.mark.parametrize("prototype", WRONG)
def test_wrong_prototypes_of_fortran_are_refused(
    folder: Path, require: Callable[[str], str], tmp_path: Path, prototype: str
) -> None:
    path = compiled(folder, require, "-g", "-O2")
    module = mblob.static_library(path, functions=[prototype])
    with pytest.raises(mblob.BuildError, match=WRONG[prototype]):
        module.export_library(tmp_path / "k.so", options=["-lgfortran"])


# From -O2 on, gcc merges functions that do the same (-fipa-icf): one has no code of its own, and debug information of
# the other has its places apart.
TWINS = """
subroutine {0}1(n, r){2}
  integer, {1} :: n
  integer, intent(out) :: r
  r = 3 * n
end subroutine
subroutine {0}2(n, r){2}
  integer, {1} :: n
  integer, intent(out) :: r
  r = 3 * n
end subroutine
"""


def twins(folder: Path, require: Callable[[str], str], source: str, name: str, *flags: str) -> Path:
    (folder / f"{name}.f90").write_text(source)
    command = [require("gfortran"), "-g", *flags, "-fPIC", "-c", f"{name}.f90"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / f"{name}.o"


@pytest.mark.sample(2)
@pytest.mark.parametrize("level", ["-O0", "-O2", pytest.param("-O3", marks=pytest.mark.slow)])
@pytest.mark.parametrize("bind", ["", " bind(c)"], ids=["f", "bind"])
@pytest.mark.parametrize("how", ["intent(in)", "value"])
def test_prototypes_of_merged_fortran_functions_are_compared(
    tmp_path: Path, require: Callable[[str], str], how: str, bind: str, level: str
) -> None:
    path = twins(tmp_path, require, TWINS.format("k", how, bind), "k", level)
    names = [f"k{i}{'' if bind else '_'}" for i in (1, 2)]
    right, wrong = ("int n", "int *n") if how == "value" else ("int *n", "int n")
    for name in names:
        module = mblob.static_library(path, functions=[f"void {name}({wrong}, int *r)"])
        with pytest.raises(mblob.BuildError, match=r"parameter 0 \(n\) is .*the source has"):
            module.export_library(tmp_path / "k.so", options=["-lgfortran"])
    functions = [f"void {name}({right}, int *r)" for name in names]
    module = mblob.static_library(path, functions=functions)
    module.export_library(tmp_path / "k.so", options=["-lgfortran"])
    lib = mblob.load_module(tmp_path / "k.so")
    r = np.zeros(1, "int32")
    for i, name in enumerate(names, 5):
        lib[name](i if how == "value" else np.array([i], "int32"), r)
        assert r[0] == 3 * i


def test_an_argument_whose_place_nothing_tells_is_an_address(
    tmp_path: Path, require: Callable[[str], str]
) -> None:
    source = TWINS.format("k", "intent(in)", "") + TWINS.format("v", "value", "")
    merged = twins(tmp_path, require, source, "merged", "-O2")
    late = twins(tmp_path, require, source, "late", "-O2", "-flto")
    for file, name in ((merged, "k1_"), (merged, "k2_"), (late, "k1_"), (late, "v1_")):
        module = mblob.static_library(file, functions=[f"void {name}(int n, int *r)"])
        with pytest.raises(mblob.BuildError, match=r"the source has 'integer\(kind=4\) \*'"):
            module.export_library(tmp_path / "k.so", options=["-lgfortran"])
    # as the error says
    told = twins(tmp_path, require, source, "told", "-O1", "-fno-lto")
    module = mblob.static_library(told, functions=["void v1_(int n, int *r)"])
    module.export_library(tmp_path / "k.so", options=["-lgfortran"])
    r = np.zeros(1, "int32")
    mblob.load_module(tmp_path / "k.so").v1_(7, r)
    assert r[0] == 21
