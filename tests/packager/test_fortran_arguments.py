"""Arguments of Fortran that are no plain arrays: descriptors, callbacks, optional ones."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mblob
from tests.packager.functions.test_prototypes_from_sources import shown
from tests.packager.test_fortran_sources import packed

pytestmark = pytest.mark.own_process  # the ffi dialect has a plug-in

REFUSED = """
module m
  use iso_c_binding
contains
  subroutine assumed(x)
    real, intent(inout) :: x(:)
    x = 3
  end subroutine
  subroutine any_rank(x)
    real, intent(inout) :: x(..)
  end subroutine
  subroutine array(x)
    real, pointer, intent(inout) :: x(:)
    x = 4
  end subroutine
  subroutine scalar(x)
    integer, allocatable :: x
    x = 5
  end subroutine
  subroutine texts(x)
    character(len=*), intent(in) :: x(:)
  end subroutine
  subroutine text(x)
    character(len=:), allocatable, intent(inout) :: x
    x = "abc"
  end subroutine
  subroutine anything(x, k)
    class(*), intent(in) :: x
    integer, intent(out) :: k
    k = 0
    select type (x)
    type is (real)
      k = 6
    end select
  end subroutine
  function line(n) result(r)
    integer, intent(in) :: n
    real :: r(n)
    r = n
  end function
  function word(n) result(r)
    integer, intent(in) :: n
    character(len=:), allocatable :: r
    r = repeat("a", n)
  end function
  subroutine c_assumed(x) bind(c)
    real, intent(inout) :: x(:)
    x = 7
  end subroutine
  subroutine c_any_rank(x) bind(c)
    type(*), intent(in) :: x(..)
  end subroutine
  subroutine c_array(x) bind(c)
    real, pointer, intent(inout) :: x(:)
  end subroutine
  subroutine c_scalar(x) bind(c)
    real, allocatable, intent(inout) :: x
  end subroutine
  subroutine c_text(x, k) bind(c)
    character(kind=c_char, len=*), intent(in) :: x
    integer, intent(out) :: k
    k = len(x)
  end subroutine
end module
subroutine through(n, x, k, r, t)
  use m
  integer, intent(in) :: n
  real, target, intent(inout) :: x(n, 7)
  integer, intent(inout) :: k(7)
  real, intent(out) :: r(n)
  character, intent(out) :: t(n)
  real, pointer :: p(:)
  integer, allocatable :: j
  character(len=n) :: w
  call assumed(x(:, 3))
  p => x(:, 4)
  call array(p)
  call scalar(j)
  k(5) = j
  call anything(x(1, 1), k(6))
  r = line(n)
  w = word(n)
  t = [(w(j:j), j = 1, n)]
  call c_assumed(x(:, 7))
  call c_text(w, k(7))
end subroutine
"""
REASONS = {
    r"a Fortran array descriptor: declare it with explicit or assumed size, a\(n\) or a\(\*\), or give a": (
        "m::assumed m::any_rank m::texts c_assumed c_any_rank c_array c_scalar c_text"
    ),
    "is (a Fortran array descriptor|a pointer or allocatable): .*give a subroutine": "m::array m::scalar m::text",
    "polymorphic: give a subroutine whose argument is of one type": "m::anything",
    "its result is (an array|a pointer or allocatable): give a subroutine": "m::line m::word",
}


def test_what_has_no_c_type_is_refused_with_a_remedy_that_works(
    tmp_path: Path, require: Callable[[str], str]
) -> None:
    source = tmp_path / "k.f90"
    source.write_text(REFUSED)
    command = [require("gfortran"), "-g", "-fPIC", "-c", "k.f90"]
    subprocess.run(command, cwd=tmp_path, check=True)
    # debug information alone does not tell arrays of assumed shape from others with a descriptor
    for module, told in (
        (mblob.csource_module(source), {"m::assumed", "m::line"}),
        (mblob.static_library(tmp_path / "k.o"), set()),
    ):
        module.export_library(tmp_path / "x.so")
        lib = mblob.load_module(tmp_path / "x.so")
        assert lib.functions.keys() == {"through"} | told
        for name in told:
            with pytest.raises(mblob.MblobError, match="no prototype says"):
                lib.symbol(name)(np.zeros(3, "f4"), None)
        for reason, names in REASONS.items():
            for name in sorted({*names.split()} - told):
                with pytest.raises(mblob.NotFoundError, match=f"{name}.*{reason}"):
                    lib[name]
                if "descriptor" in reason and "|" not in reason:
                    with pytest.raises(mblob.MblobError, match="no type for parameter 0, array"):
                        lib.symbol(name)(np.zeros(3, "f4"), None)
    with pytest.raises(mblob.BuildError, match=r"c_text cannot be called: .*a Fortran array"):
        mblob.csource_module(source, functions=["c_text"]).export_library(tmp_path / "y.so")
    x, k = np.zeros((2, 7), "f4", order="F"), np.zeros(7, "i4")
    r, t = np.zeros(2, "f4"), np.zeros(2, "i1")
    lib.through(np.array([2], "i4"), x, k, r, t)
    assert x[1].tolist() == [0, 0, 3, 4, 0, 0, 7] and k.tolist() == [0, 0, 0, 0, 5, 6, 2]
    assert (r.tolist(), t.tobytes()) == ([2, 2], b"aa")


SHAPES = """
module shapes
contains
  function mean(x) result(m)
    real(8), intent(in) :: x(:)
    real(8) :: m
    m = sum(x) / size(x)
  end function
  subroutine scale(a, f, mask)
    real(4), intent(inout) :: a(:,:)
    real(4), intent(in) :: f
    logical, intent(in), optional :: mask(:,:)
    if (present(mask)) then
      where (mask) a = a * f
    else
      a = a * f
    end if
  end subroutine
  subroutine turned(c, first)
    complex(8), contiguous, intent(inout) :: c(:)
    integer, intent(out) :: first(0:)
    c = c * (0d0, 1d0)
    first(0) = size(c)
    first(1) = lbound(first, 1)
  end subroutine
  function outer(x, y) result(r)
    real(8), intent(in) :: x(:), y(:,:)
    real(8) :: r(size(x), size(y, 2) + 1)
    integer :: i, j
    do j = 1, size(r, 2)
      do i = 1, size(r, 1)
        r(i, j) = x(i) * j
      end do
    end do
  end function
  function first(n, x)
    integer, intent(in) :: n
    integer(8), intent(in) :: x(:)
    integer(8) :: first(n)
    first = x(:n)
  end function
  function longest(x) result(r)
    real(8), intent(in) :: x(:)
    real(8) :: r(max(size(x), 2))
    r = 0
  end function
  subroutine moved(p)
    integer, intent(inout) :: p(:,:,:)
    p = reshape(p, shape(p), order=[1, 2, 3]) + cshift(p, 1, 2)
  end subroutine
end module
subroutine apart(v)
  real(4) :: v(:)
  v = v + 1
end subroutine
"""


@pytest.mark.parametrize("options", ["-O2", "-O0"])
@pytest.mark.parametrize("dialect", ["classic", "ffi"])
@pytest.mark.sample(2)
def test_arrays_of_assumed_shape_are_passed_with_their_strides(
    tmp_path: Path, require: Callable[[str], str], dialect: str, options: str
) -> None:
    require("gfortran")
    lib = packed(tmp_path, SHAPES, export={"dialect": dialect, "options": options})
    assert shown(lib) == {
        "apart": "void apart(float v[*])",
        "shapes::first": "void shapes::first(int64_t result[n], int32_t n, const int64_t x[*])",
        "shapes::mean": "double shapes::mean(const double x[*])",
        "shapes::moved": "void shapes::moved(int32_t p[*, *, *])",
        "shapes::outer": (
            "void shapes::outer(double result[size(x), size(y, 2) + 1], const double x[*], const double y[*, *])"
        ),
        "shapes::scale": "void shapes::scale(float a[*, *], float f, const int32_t mask[*, *])",
        "shapes::turned": "void shapes::turned(double _Complex c[*], int32_t first[*])",
    }
    mean, scale = lib["shapes::mean"], lib["shapes::scale"]
    x = np.arange(20.0)
    for part in (x, x[::2], x[3::5], x[::-1], x[7:7], x[4:5]):
        assert mean(part) == part.mean() if len(part) else np.isnan(mean(part))
    for order in ("C", "F"):
        a = np.arange(48, dtype="f4").reshape(6, 8, order=order)
        expected = a.copy()
        expected[::2, 1::3] *= 2
        scale(a[::2, 1::3], 2.0, None)
        assert np.array_equal(a, expected)
        mask = (a > 10).astype("i4")
        expected[a > 10] *= 3
        scale(a, 3.0, mask)
        assert np.array_equal(a, expected)
        scale(a[:0], 3.0, None)
    p = np.arange(60, dtype="i4").reshape(3, 4, 5)
    expected = p + np.roll(p, -1, axis=1)
    lib["shapes::moved"](p)
    assert np.array_equal(p, expected)
    c, numbers = np.arange(3) + 0j, np.zeros(5, "i4")
    lib["shapes::turned"](c, numbers)
    assert c.tolist() == [0, 1j, 2j] and numbers.tolist() == [3, 0, 0, 0, 0]
    v = np.zeros(6, "f4")
    lib.apart(v[::3])
    assert v.tolist() == [1, 0, 0, 1, 0, 0]
    for order in ("C", "F"):
        made = np.zeros((3, 5), order=order)
        lib["shapes::outer"](made, np.arange(3.0), np.ones((2, 4)))
        assert np.array_equal(made, np.outer(np.arange(3), np.arange(1, 6)))
    taken = np.zeros(2, "i8")
    lib["shapes::first"](taken, 2, np.arange(9)[::4])
    assert taken.tolist() == [0, 4]
    read_only = np.ones(3)
    read_only.flags.writeable = False
    assert mean(read_only) == 1
    for wrong, name, *given in (
        (r"shape \(\*,\), found \(2, 3\)", "mean", np.ones((2, 3))),
        ("float64, found float32", "mean", np.ones(3, "f4")),
        ("stride 0 of dimension 0", "mean", np.broadcast_to(np.ones(1), (4,))),
        ("column order", "turned", np.ones(6, "c16")[::2], numbers),
        (r"shape \(3, 5\), found \(3, 4\)", "outer", np.ones((3, 4)), np.ones(3), np.ones((2, 4))),
        ("read-only", "first", read_only.astype("i8")[:0], 0, 5),
    ):
        if wrong == "read-only":
            given[0].flags.writeable = False
            given[2] = taken
        with pytest.raises(mblob.MblobError, match=wrong):
            lib[f"shapes::{name}"](*given)
    with pytest.raises(mblob.NotFoundError, match=r"longest.*its result is an array: give a"):
        lib["shapes::longest"]


LATER = """
subroutine before(b, a, s)
  real, intent(in) :: a(:)
  real, intent(inout) :: b(2 * size(a))
  character(len=size(a)), intent(out) :: s
  b(:size(a)) = a
  s = repeat("s", size(a))
end subroutine
function letters(x) result(r)
  real, intent(in) :: x(:)
  character(len=size(x)) :: r
  r = repeat("r", size(x))
end function
function half(n) result(r)
  integer, intent(in) :: n
  character(len=n / 2) :: r
  r = "h"
end function
subroutine words(x, n)
  character(len=4), intent(in) :: x(:)
  integer, intent(out) :: n
  n = size(x)
end subroutine
subroutine sizes(t, n, b)
  integer, intent(in) :: n
  character(len=4), intent(in) :: t(n)
  real, intent(inout) :: b(size(t))
  b = n
end subroutine
"""


def test_sizes_of_arrays_that_come_later_and_lengths_of_texts_are_checked(
    tmp_path: Path, require: Callable[[str], str]
) -> None:
    require("gfortran")
    module = mblob.csource_module(LATER, fmt="f90")
    with pytest.warns(UserWarning, match=r"does not check .*sizes: parameter 2"):
        module.export_library(tmp_path / "k.so")
    lib = mblob.load_module(tmp_path / "k.so")
    assert shown(lib) == {
        "before": "void before(float b[2 * size(a)], const float a[*], char s[static size(a)])",
        "letters": "void letters(char result[static size(x)], const float x[*])",
        "sizes": "void sizes(const char t[static 4 * n], int32_t n, float *b)",
    }
    a, b, text = np.arange(4, dtype="f4"), np.zeros(4, "f4"), np.zeros(4, "i1")
    lib.before(b, a[::2], text)
    assert (b[:2].tolist(), text.tobytes()) == ([0, 2], b"ss\0\0")
    with pytest.raises(mblob.MblobError, match=r"expected shape \(6,\).* found \(4,\)"):
        lib.before(b, a[:3], text)
    lib.letters(text, a)
    assert text.tobytes() == b"rrrr"
    with pytest.raises(mblob.MblobError, match=r"at least 4,\), found \(3,\)"):
        lib.letters(text[:3], a)
    for name, why in (
        ("words", "a Fortran array descriptor"),
        ("half", "a text whose length is not"),
    ):
        with pytest.raises(mblob.NotFoundError, match=rf"{name}.*{why}"):
            lib[name]


CALLBACK = """
subroutine applied(f, x) bind(c)
  use iso_c_binding
  type(c_funptr), value :: f
  real(c_double), intent(out) :: x
  abstract interface
    function made(n) bind(c)
      import
      integer(c_int), value :: n
      real(c_double) :: made
    end function
  end interface
  procedure(made), pointer :: p
  call c_f_procpointer(f, p)
  x = p(3)
end subroutine
"""


def test_a_pointer_to_a_function_of_any_types(
    tmp_path: Path, require: Callable[[str], str]
) -> None:
    require("gfortran")
    lib, x = packed(tmp_path, CALLBACK), np.zeros(1)
    assert shown(lib) == {"applied": "void applied(void *f, double *x)"}
    half = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int)(lambda n: n / 2)
    for applied in (lib.applied, lib.symbol("applied")):
        x[0] = 0
        applied(half, x)
        assert x[0] == 1.5


NUMBERS = """
module m
contains
  real(8) function area(r) bind(c, name="my_area")
    real(8), value :: r
    area = 3 * r * r
  end function
end module
subroutine wide(x)
  real(16), intent(inout) :: x(2)
  x = 2 * x
end subroutine
subroutine long_integer(n)
  integer(16), intent(inout) :: n
  n = n + 1
end subroutine
subroutine applied(f, x)
  interface
    real(8) function f(x, n)
      real(8), value :: x
      integer(4), value :: n
    end function
  end interface
  real(8), intent(inout) :: x
  x = f(x, 2)
end subroutine
"""


def test_numbers_that_no_argument_is_are_refused_and_procedures_have_the_types_of_c(
    tmp_path: Path, require: Callable[[str], str]
) -> None:
    require("gfortran")
    lib, x = packed(tmp_path, NUMBERS), np.ones(1)
    assert shown(lib) == {
        "applied": "void applied(double (*f)(double, int32_t), double *x)",
        "my_area": "double my_area(double r)",
    }
    lib.applied(ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_int32)(pow), x)
    for name, found, given in (("wide", "real", "real"), ("long_integer", "integer", "integer")):
        reason = rf"{found}\(kind=16\), which no argument is: give a procedure of {given}\(8\)"
        with pytest.raises(mblob.NotFoundError, match=reason):
            lib[name]


def test_the_name_that_bind_c_gives_is_told(tmp_path: Path, require: Callable[[str], str]) -> None:
    require("gfortran")
    for name in ("m::area", "area", "AREA"):
        with pytest.raises(mblob.BuildError, match=r"by bind\(C\): its name is my_area"):
            packed(tmp_path, NUMBERS, functions=[name])


OPTIONAL = """
module m
contains
  subroutine given(n, k, i, x, a, s, o, v, t)
    integer, intent(in) :: n
    integer, intent(out) :: k
    integer, optional, intent(in) :: i
    real, optional, intent(in) :: x(n), a(2, 3)
    character(len=*), optional, intent(in) :: s
    integer, optional, intent(out) :: o
    real, optional, value :: v
    character(len=4), optional, intent(out) :: t
    k = 0
    if (present(i)) k = k + i
    if (present(x)) k = k + 2 * int(x(n))
    if (present(a)) k = k + 4 * int(a(2, 3))
    if (present(s)) k = k + 8 * (len(s) - 2)
    if (present(o)) o = 16
    if (present(v)) k = k + 32 * int(v)
    if (present(t)) t = "text"
  end subroutine
end module
"""


@pytest.mark.parametrize("dialect", ["classic", "ffi"])
def test_none_leaves_an_optional_argument_out(
    tmp_path: Path, require: Callable[[str], str], dialect: str
) -> None:
    require("gfortran")
    lib = packed(tmp_path, OPTIONAL, export={"dialect": dialect})
    call, k, out, text = lib["m::given"], np.zeros(1, "i4"), np.zeros(1, "i4"), np.zeros(4, "i1")
    x, a = np.ones(3, "f4"), np.ones((2, 3), "f4", order="F")
    values = [1, x, a, "abc", out, 1.0, text]
    parts = [1, 2, 4, 8, 0, 32, 0]
    for left_out in (*({i} for i in range(7)), set(), set(range(7))):
        out[0], text[:] = 0, 0
        call(3, k, *(None if i in left_out else value for i, value in enumerate(values)))
        assert k[0] == sum(part for i, part in enumerate(parts) if i not in left_out)
        assert out[0] == (0 if 4 in left_out else 16)
        assert text.tobytes() == (bytes(4) if 6 in left_out else b"text")
    assert "i: None leaves it out\nx: None" in (call.__doc__ or "")
    for wrong, says in (
        (lambda: call(None, k, *values), "argument 0 .*expected int, found None|argument #0"),
        (lambda: call(3, k, 1, x[:2], *values[2:]), r"expected shape \(3,\)"),
        (lambda: call(3, k, "1", *values[1:]), "expected int"),
        (lambda: call(3, k, *values[:-1]), "xpected 9 arguments"),
    ):
        with pytest.raises(mblob.MblobError, match=says):
            wrong()
