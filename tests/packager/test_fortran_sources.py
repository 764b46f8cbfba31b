"""Sources in Fortran: compiled by gfortran, and callable as their procedures say."""

from __future__ import annotations

import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.packager.functions.test_prototypes_from_sources import shown
from tests.packager.functions.test_tvm_executor import pack_verb

pytestmark = pytest.mark.own_process  # the ffi dialect has a plug-in

SOURCE = """
! Multiplies by two.
subroutine twice(n, x)
  integer, intent(in) :: n
  real(8), intent(inout) :: x(n)
  x = 2 * x
end subroutine

subroutine rows(m, n, a, b)
  integer, intent(in) :: m, n
  real, intent(in) :: a(m, n)
  real, intent(out) :: b(m)
  b = sum(a, 2)
end subroutine

subroutine open_size(lda, a, x, k)
  integer, intent(in) :: lda
  real, intent(in) :: a(lda, *)
  real, intent(inout) :: x(*)
  integer, value :: k
  x(1) = a(lda, k)
end subroutine

subroutine counts(n, k, m)
  integer, intent(inout) :: n
  integer, intent(out) :: k
  integer :: m
  n = n + 1
  k = n + m
end subroutine

subroutine bounds(n, x, y, z, w)
  integer, parameter :: width = 3
  integer, intent(in) :: n
  real, intent(in) :: x(0:n), y(width), z(-1:1), w((n + 1) * width - 2)
  if (x(0) + y(1) + z(0) + w(1) > 1e30) stop
end subroutine

real function norm(x, n)
  integer, intent(in) :: n
  real, intent(in) :: x(n)
  norm = sqrt(sum(x**2))
end function

logical function both(l, v)
  logical, intent(in) :: l
  logical, value :: v
  both = l .and. v
end function

subroutine texts(any, fixed, out, k)
  character(len=*), intent(in) :: any
  character(len=4), intent(in) :: fixed
  character(len=3), intent(out) :: out
  integer, intent(out) :: k
  k = len(any)
  out = fixed(2:4)
end subroutine

subroutine flag(trans, k)
  character trans
  integer k
  k = 0
  if (trans .eq. 'N') k = 1
  trans = 'x'
end subroutine

module shapes
  use iso_c_binding
  implicit none
  integer, parameter :: columns = 2
contains
  subroutine fill(n, x)
    integer, intent(in) :: n
    integer, intent(out) :: x(n, columns)
    integer :: i
    do i = 1, n
      x(i, :) = i
    end do
  end subroutine
  real(c_double) function area(w, h) bind(c, name="area_of")
    real(c_double), value :: w, h
    area = w * h
  end function
end module
"""
PROTOTYPES = {
    "twice": "void twice(int32_t n, double x[n])",
    "rows": "void rows(int32_t m, int32_t n, const float a[m, n], float b[m])",
    "open_size": "void open_size(int32_t lda, const float a[lda, *], float *x, int32_t k)",
    "counts": "void counts(int32_t *n, int32_t *k, int32_t *m)",
    "bounds": (
        "void bounds(int32_t n, const float x[n + 1], const float y[3], const float z[3],"
        " const float w[(n + 1) * 3 - 2])"
    ),
    "norm": "float norm(const float x[n], int32_t n)",
    "both": "int32_t both(int32_t l, int32_t v)",
    "texts": "void texts(const char *any, const char fixed[4 or fewer], char out[static 3], int32_t *k)",
    "flag": "void flag(char trans[static 1], int32_t *k)",
    "shapes::fill": "void shapes::fill(int32_t n, int32_t x[n, 2])",
    "area_of": "double area_of(double w, double h)",
}


def packed(tmp_path: Path, source: str, fmt: Any = "f90", *, export: Any = None, **how: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module = mblob.csource_module(source, fmt, **how)
        module.export_library(tmp_path / "x.so", **(export or {}))
    return mblob.load_module(tmp_path / "x.so")


@pytest.mark.parametrize("options", ["-O2", "-O0", "-g -fno-underscoring", "-O3 -flto"])
@pytest.mark.parametrize("dialect", ["classic", "ffi"])
@pytest.mark.sample(2)
def test_procedures_are_called_as_their_source_says(
    tmp_path: Path, require: Callable[[str], str], dialect: str, options: str
) -> None:
    require("gfortran")
    lib = packed(tmp_path, SOURCE, export={"dialect": dialect, "options": options})
    assert shown(lib) == PROTOTYPES
    x = np.arange(3.0)
    lib.twice(3, x)
    assert x.tolist() == [0, 2, 4]
    a, b = np.asfortranarray(np.arange(6, dtype="float32").reshape(2, 3)), np.zeros(2, "float32")
    lib.rows(2, 3, a, b)
    assert b.tolist() == [3, 12]
    y = np.zeros(1, "float32")
    lib.open_size(2, a, y, 3)
    assert y[0] == 5
    n, k = np.array([3], "int32"), np.zeros(1, "int32")
    lib.counts(n, k, np.array([7], "int32"))
    assert (n[0], k[0]) == (4, 11)
    assert lib.norm(np.array([3, 4], "float32"), 2) == 5
    assert (lib.both(1, 1), lib.both(1, 0)) == (1, 0)
    out = np.zeros(3, "int8")
    lib.texts("hello", "abcd", out, k)
    assert (out.tobytes(), k[0]) == (b"bcd", 5)
    lib.texts("", "ab", out, k)  # padded with blanks
    assert out.tobytes() == b"b  "
    lib.flag("N", k)
    assert k[0] == 1
    table = np.zeros((3, 2), "int32", order="F")
    lib["shapes::fill"](3, table)
    assert table.tolist() == [[1, 1], [2, 2], [3, 3]]
    assert lib.area_of(2, 3) == 6


def test_sizes_and_orders_are_checked(tmp_path: Path, require: Callable[[str], str]) -> None:
    require("gfortran")
    lib = packed(tmp_path, SOURCE)
    b, n = np.zeros(2, "float32"), np.zeros(1, "int32")
    for call, says in (
        (lambda: lib.twice(3, np.zeros(4)), r"twice: argument 1 \(x\): expected shape \(3,\)"),
        (lambda: lib.rows(2, 2, np.zeros((2, 2), "float32"), b), "column order.*asfortranarray"),
        (
            lambda: lib.rows(2, 3, np.zeros((3, 2), "float32", order="F"), b),
            r"expected shape \(2, 3\)",
        ),
        (lambda: lib.rows(2, 3, np.zeros((4, 6), "float32").T[::2, ::2], b), "column order"),
        (lambda: lib.bounds(2, *[np.zeros(3, "float32")] * 4), r"expected shape \(7,\)"),
        (lambda: lib.counts(np.zeros(0, "int32"), n, n), r"expected shape \(at least 1,\)"),
        (lambda: lib.counts(3, b, b), "expected an array"),
        (lambda: lib.texts("a", "abcd", np.zeros(2, "int8"), np.zeros(1, "int32")), "at least"),
        (
            lambda: lib.texts("a", "abcd", "abc", np.zeros(1, "int32")),
            "found the str .*bytearray|tensor",
        ),
        (lambda: lib["shapes::fill"](2, np.zeros((2, 3), "int32", order="F")), r"\(2, 2\)"),
    ):
        with pytest.raises(mblob.MblobError, match=says):
            call()


def test_an_array_of_one_element_has_any_size(
    tmp_path: Path, require: Callable[[str], str]
) -> None:
    compiler = require("gfortran")
    source = tmp_path / "swap.f"
    source.write_text(
        "      subroutine swap(n, x, y, a)\n      integer n, i, x(1), y(1)\n      real a(n, 1)\n"
        "      do 10 i = 1, n\n      x(i) = y(i)\n 10   a(1, i) = i\n      end\n"
    )
    subprocess.run([compiler, "-g", "-O1", "-fPIC", "-c", source.name], cwd=tmp_path, check=True)
    for module in (mblob.csource_module(source), mblob.static_library(tmp_path / "swap.o")):
        module.export_library(tmp_path / "x.so")
        x, y, a = np.zeros(3, "i4"), np.arange(3, dtype="i4"), np.zeros((3, 3), "f4", order="F")
        mblob.load_module(tmp_path / "x.so").swap(np.array([3], "i4"), x, y, a)
        assert (x.tolist(), a[0].tolist()) == ([0, 1, 2], [1, 2, 3])


def test_an_object_tells_what_its_debug_information_has(
    tmp_path: Path, require: Callable[[str], str]
) -> None:
    (tmp_path / "k.f90").write_text(SOURCE)
    command = [require("gfortran"), "-g", "-O1", "-fPIC", "-c", "k.f90"]
    subprocess.run(command, cwd=tmp_path, check=True)
    mblob.static_library(tmp_path / "k.o").export_library(tmp_path / "x.so")
    lib = mblob.load_module(tmp_path / "x.so")
    assert lib.functions.keys() == PROTOTYPES.keys()
    n, x = np.array([3], "int32"), np.arange(3.0)
    lib.twice(n, x)
    assert x.tolist() == [0, 2, 4]
    a, b = np.ones((2, 3), "float32", order="F"), np.zeros(2, "float32")
    lib.rows(np.array([2], "int32"), n, a, b)
    assert b.tolist() == [3, 3]
    with pytest.raises(mblob.MblobError, match="column order"):
        lib.rows(np.array([2], "int32"), n, np.ones((2, 3), "float32"), b)


FIXED = """C     fixed form
      SUBROUTINE AXPY(N, A, X, Y)
      INTEGER N
      REAL A, X(N),
     &  Y(*)
      INTEGER I
      DO 10 I = 1, N
   10 Y(I) = Y(I) + A * X(I)
      END
"""


@pytest.mark.parametrize("suffix", [".f", ".for", ".F", ".f90", ".F90", ".f95", ".f03", ".f08"])
def test_every_suffix_by_command(
    tmp_path: Path, require: Callable[[str], str], suffix: str
) -> None:
    require("gfortran")
    text = FIXED if suffix.lower() in (".f", ".for") else SOURCE
    if suffix[1].isupper():
        text = "#ifdef __GFORTRAN__\n" + text + "#endif\n"
    (tmp_path / f"k{suffix}").write_text(text)
    done = pack_verb("build", "--kernel", tmp_path / f"k{suffix}", "-o", tmp_path / "x.so")
    assert done.returncode == 0, done.stderr
    lib = mblob.load_module(tmp_path / "x.so")
    if "AXPY" in text:
        x, y = np.ones(2, "float32"), np.zeros(2, "float32")
        lib.axpy(np.array([2], "int32"), np.array([3], "float32"), x, y)
        assert y.tolist() == [3, 3]
        with pytest.raises(mblob.MblobError, match=r"expected shape \(2,\)"):
            lib.axpy(np.array([2], "int32"), np.array([3], "float32"), x[:1], y)
    else:
        assert shown(lib) == PROTOTYPES


def kernels(files: list[Path]) -> list[str]:
    return [word for file in files for word in ("--kernel", str(file))]


def test_a_source_uses_modules_of_those_before_it(
    tmp_path: Path, require: Callable[[str], str]
) -> None:
    require("gfortran")
    (tmp_path / "a.f90").write_text(
        "subroutine use_it(x)\nuse twice\nreal, intent(out) :: x(size)\nx = 1\nend subroutine\n"
    )
    (tmp_path / "c.f90").write_text("module base\ninteger, parameter :: half = 2\nend module\n")
    (tmp_path / "b.f90").write_text(
        "module twice\nuse base\ninteger, parameter :: size = 2 * half\nend module\n"
    )
    files = [tmp_path / name for name in ("c.f90", "b.f90", "a.f90")]
    done = pack_verb("build", *kernels(files), "-o", tmp_path / "x.so")
    assert done.returncode == 0, done.stderr
    lib = mblob.load_module(tmp_path / "x.so")
    assert shown(lib) == {"use_it": "void use_it(float x[4])"}
    done = pack_verb("build", *kernels(files[::-1]), "-o", tmp_path / "y.so")
    assert done.returncode and "twice.mod" in done.stderr
    assert not list(tmp_path.glob("*.mod"))


def test_modules_in_the_current_folder_are_found_as_by_gfortran(
    tmp_path: Path, require: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gfortran = require("gfortran")
    (tmp_path / "b.f90").write_text("module base\ninteger, parameter :: size = 4\nend module\n")
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.f90").write_text(
        "subroutine use_it(x)\nuse base\nreal, intent(out) :: x(size)\nx = 1\nend subroutine\n"
    )
    subprocess.run([gfortran, "-fsyntax-only", "b.f90"], check=True, cwd=tmp_path)
    monkeypatch.chdir(tmp_path)
    done = pack_verb("build", "src/a.f90", "-o", "x.so")
    assert done.returncode == 0, done.stderr
    assert shown(mblob.load_module(tmp_path / "x.so")) == {"use_it": "void use_it(float x[4])"}


def test_fortran_joins_a_finished_library(tmp_path: Path, require: Callable[[str], str]) -> None:
    require("gfortran")
    mblob.csource_module("int f(int x) { return x; }\n").export_library(tmp_path / "a.so")
    (tmp_path / "k.f90").write_text(SOURCE)
    mblob.add(tmp_path / "a.so", kernels=[tmp_path / "k.f90"], output=tmp_path / "x.so")
    lib = mblob.load_module(tmp_path / "x.so")
    assert lib.f(3) == 3 and lib.norm(np.array([3, 4], "float32"), 2) == 5


def test_symbols_are_names_too(tmp_path: Path, require: Callable[[str], str]) -> None:
    require("gfortran")
    names = ["twice_", "__shapes_MOD_fill", "norm", "area_of"]
    lib = packed(tmp_path, SOURCE, functions=names)
    assert list(lib.functions) == sorted(names)
    text = "void twice_(int *n, double *x)"
    assert shown(packed(tmp_path, SOURCE, functions=[text])) == {"twice_": text}
    with pytest.raises(mblob.BuildError, match="the source has 'integer"):
        packed(tmp_path, SOURCE, functions=["void twice_(int n, double *x)"])


def test_without_gfortran_the_error_names_fc(
    tmp_path: Path, require: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for tool in ("cc", "gcc", "ld", "as"):
        (tmp_path / tool).symlink_to(require(tool))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("FC", raising=False)
    with pytest.raises(mblob.ToolchainError, match=r"no Fortran compiler.*\$FC.*install gfortran"):
        packed(tmp_path, SOURCE)
    monkeypatch.setenv("FC", "nofort")
    with pytest.raises(mblob.ToolchainError, match=r"\$FC: no Fortran compiler 'nofort' found"):
        packed(tmp_path, SOURCE)


def test_fc_names_the_compiler(
    tmp_path: Path, require: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    called = tmp_path / "called"
    (tmp_path / "myfort").write_text(
        f'#!/bin/sh\ntouch {called}\nexec {require("gfortran")} "$@"\n'
    )
    (tmp_path / "myfort").chmod(0o755)
    monkeypatch.setenv("FC", str(tmp_path / "myfort"))
    assert packed(tmp_path, SOURCE).norm(np.array([3, 4], "float32"), 2) == 5
    assert called.exists()


def test_a_mistake_in_the_source_is_told(tmp_path: Path, require: Callable[[str], str]) -> None:
    require("gfortran")
    with pytest.raises(mblob.ToolchainError, match=r"lib0\.f90.*does not compile: .*Error"):
        packed(tmp_path, "subroutine f(x)\nreal :: x\nx = = 1\nend subroutine\n")


CORNERS = """
module m
  implicit none
contains
  subroutine opt(n, k, v)
    integer, intent(in) :: n
    integer, intent(out) :: k
    integer, optional, value :: v
    k = n
    if (present(v)) k = k + v
  end subroutine
  subroutine cplx(a, n)
    integer, intent(in) :: n
    complex, intent(inout) :: a(n, n)
    a(1, 2) = 7
  end subroutine
  subroutine turned(z, w, r, two)
    complex, intent(in) :: z, two(2)
    complex(8), intent(inout) :: w
    real, intent(out) :: r
    r = aimag(z)
    w = w * z
  end subroutine
  subroutine chars(names, n, k)
    integer, intent(in) :: n
    character(len=8), intent(in) :: names(n)
    integer, intent(out) :: k
    k = iachar(names(n)(1:1))
  end subroutine
  function word(k) result(w)
    integer, intent(in) :: k
    character(len=3) :: w
    w = merge("one", "two", k == 1)
  end function
  subroutine poly(a)
    class(*), intent(in) :: a
  end subroutine
end module
"""


def test_hidden_arguments_and_orders_that_are_seldom(
    tmp_path: Path, require: Callable[[str], str]
) -> None:
    require("gfortran")
    lib = packed(tmp_path, CORNERS)
    k = np.zeros(1, "int32")
    lib["m::opt"](3, k, 4)
    assert k[0] == 7
    lib["m::opt"](3, k, None)
    assert k[0] == 3
    a = np.zeros((2, 2), "complex64", order="F")
    lib["m::cplx"](a, 2)
    assert a[0, 1] == 7
    with pytest.raises(mblob.MblobError, match="column order"):
        lib["m::cplx"](np.zeros((2, 2), "complex64"), 2)
    z, w, r = np.full(1, 3j, "c8"), np.full(1, 2j, "c16"), np.zeros(1, "f4")
    for one in (z, z[0], 3j, np.complex128(3j), z.reshape(())):
        w[0] = 2j
        lib["m::turned"](one, w, r, np.zeros(2, "c8"))
        assert (w[0], r[0]) == (-6, 3)
    for real in (3, np.float32(3), True, np.int64(2)):
        w[0] = 2j
        lib["m::turned"](real, w, r, np.zeros(2, "c8"))
        assert (w[0], r[0]) == (2j * real, 0)
    for wrong, says in (
        ((z[:0], w, r, z), r"expected shape \(at least 1,\)"),
        ((w, w, r, z), "expected an array of complex64"),
        ((1e300j, w, r, z), "argument 0: the number is too large for complex64"),
        ((10**400, w, r, z), "argument 0: the number is too large for complex64"),
        (("1", w, r, z), "expected an array, found the str"),
        ((z, 2j, r, z), "expected an array, found the number 2j; pass an array with one"),
        ((z, w, r, 2j), "expected an array, found the number 2j"),
        ((z, w, r, z[0]), "expected an array, found the number"),
    ):
        with pytest.raises(mblob.MblobError, match=says):
            lib["m::turned"](*wrong)
    names = np.frombuffer(b"one     Two     ", "int8")
    lib["m::chars"](names, 2, k)
    assert k[0] == ord("T")
    with pytest.raises(mblob.MblobError, match=r"at least 24"):
        lib["m::chars"](names, 3, k)
    text = np.zeros(3, "int8")
    lib["m::word"](text, 2)
    assert text.tobytes() == b"two"
    with pytest.raises(mblob.MblobError, match=r"at least 3"):
        lib["m::word"](text[:2], 2)
    with pytest.raises(mblob.BuildError, match=r"m::poly cannot be called: .*polymorphic"):
        packed(tmp_path, CORNERS, functions=["m::poly"])
