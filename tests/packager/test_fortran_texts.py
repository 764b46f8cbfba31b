"""Texts of Fortran: each has the length that the source says, is padded with blanks, and never read behind its end."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.packager.test_fortran_sources import packed

pytestmark = pytest.mark.own_process  # the ffi dialect has a plug-in

SOURCE = """
subroutine fixed(s, t)
  character(len=8), intent(in) :: s
  character(len=8), intent(out) :: t
  t = s
end
subroutine by_number(n, s, t)
  integer, intent(in) :: n
  character(len=n), intent(in) :: s
  character(len=n + 2), intent(out) :: t
  t = s // '|.'
end
subroutine any(s, t, k)
  character(len=*), intent(in) :: s
  character(len=*), intent(inout) :: t
  integer, intent(out) :: k
  k = 100 * len(s) + len_trim(t)
  t = s
end
subroutine old(s)
  character(len=4) s
  s(1:1) = 'Z'
end
subroutine several(n, s, t)
  integer, intent(in) :: n
  character(len=4), intent(in) :: s(n)
  character(len=4), intent(out) :: t(n)
  t = s(n:1:-1)
end
subroutine several_any(n, s, t)
  integer, intent(in) :: n
  character(len=*), intent(in) :: s(n)
  character(len=*), intent(inout) :: t(*)
  t(1:n) = s(n:1:-1)
end
subroutine table(m, n, s, t)
  integer, intent(in) :: m, n
  character(len=3), intent(in) :: s(m, n)
  character(len=3), intent(out) :: t
  t = s(m, 1)
end
function repeated(n) result(r)
  integer, intent(in) :: n
  character(len=2 * n) :: r
  r = 'abcdefghijklmnop'
end
subroutine of_c(s, n, t) bind(c)
  use iso_c_binding
  integer(c_int), value :: n
  character(kind=c_char), intent(in) :: s(n)
  character(kind=c_char), intent(out) :: t(*)
  t(1:n) = s(n:1:-1)
end
"""
SHOWN = {
    "fixed": "void fixed(const char s[8 or fewer], char t[static 8])",
    "by_number": "void by_number(int32_t n, const char s[n or fewer], char t[static n + 2])",
    "any": "void any(const char *s, char *t, int32_t *k)",
    "old": "void old(char s[static 4])",
    "several": "void several(int32_t n, const char s[static 4 * n], char t[static 4 * n])",
    "several_any": "void several_any(int32_t n, const char s[n][*], char t[*][*])",
    "table": "void table(int32_t m, int32_t n, const char s[static 3 * m * n], char t[static 3])",
    "repeated": "void repeated(char result[static 2 * n], int32_t n)",
    "of_c": "void of_c(const char s[static n], int32_t n, char *t)",
}


@pytest.fixture(params=["classic", "ffi"])
def lib(request: Any, tmp_path: Path, require: Callable[[str], str]) -> Any:
    require("gfortran")
    return packed(tmp_path, SOURCE, export={"dialect": request.param})


def characters(text: bytes) -> list[Any]:
    """A text in each form that a parameter takes."""
    return [
        text.decode(), text, bytearray(text), np.frombuffer(text, "int8"), np.frombuffer(text, "uint8"),
        np.array(text), np.array([text]), memoryview(text), ctypes.create_string_buffer(text, len(text) or 1),
    ]  # fmt: skip


def test_a_text_is_padded_and_never_cut(lib: Any) -> None:
    assert {name: str(found) for name, found in lib.functions.items()} == SHOWN
    for given in characters(b"abc"):
        t = bytearray(8)
        lib.fixed(given, t)
        assert t == b"abc     "
        lib.fixed.bind(given, t)()
        t = bytearray(7)
        lib.by_number(5, given, t)
        assert t == b"abc  |."
    for given in characters(b"abcdefgh"):
        lib.fixed(given, t := bytearray(8))
        assert t == b"abcdefgh"
    for given in characters(b"abcdefghi"):
        with pytest.raises(ValueError, match="at most 8 bytes, found 9; pass a shorter one"):
            lib.fixed(given, bytearray(8))
        with pytest.raises(ValueError, match="at most 5 bytes, found 9"):
            lib.by_number(5, given, bytearray(7))
    lib.by_number(1000, "x", t := bytearray(1002))
    assert t == b"x".ljust(1000) + b"|."
    with pytest.raises(ValueError, match="overflow or are negative"):
        lib.by_number(-1, "", bytearray(7))
    with pytest.raises(ValueError, match="pass all of them, with blanks at the end"):
        lib.by_number(1 << 25, "", bytearray(7))
    with pytest.raises(TypeError, match="expected a str or an int8 tensor, found None"):
        lib.fixed(None, bytearray(8))
    with pytest.raises(TypeError, match=r'found <U1; convert it with astype."S".'):
        lib.fixed(np.array("x"), bytearray(8))
    with pytest.raises(TypeError, match=r'numpy.asarray.t, "S".'):
        lib.fixed("x", ["y"])


def test_what_a_procedure_writes_to_has_its_length(lib: Any) -> None:
    for memory in (
        bytearray(8),
        ctypes.create_string_buffer(8),
        np.zeros(1, "S8"),
        np.zeros(8, "i1"),
    ):
        lib.fixed("ab", memory)
        assert bytes(memory) == b"ab      "
    for short in (
        bytearray(7),
        ctypes.create_string_buffer(7),
        np.zeros(1, "S7"),
        np.zeros(7, "i1"),
    ):
        with pytest.raises(ValueError, match="at least 8"):
            lib.fixed("ab", short)
    with pytest.raises((TypeError, ValueError), match=r"read-only|bytearray"):
        lib.fixed("ab", b"12345678")
    lib.repeated(t := bytearray(6), 3)
    assert t == b"abcdef"
    with pytest.raises(ValueError, match="at least 6"):
        lib.repeated(bytearray(5), 3)
    k = np.zeros(1, "int32")
    for memory in (
        ctypes.create_string_buffer(b"abc", 6),
        np.array([b"abc"], "S6"),
        bytearray(b"abc   "),
    ):
        lib.any("xy", memory, k)  # NUL ends neither
        assert (k[0], bytes(memory)) == (203, b"xy    ")


def test_a_text_without_intent_is_a_copy_or_memory_to_write_to(lib: Any) -> None:
    lib.old("ab")
    lib.old(b"abcd")
    for memory in (
        bytearray(b"abcd"),
        ctypes.create_string_buffer(b"abcd", 4),
        np.array([b"abcd"]),
    ):
        lib.old(memory)
        assert bytes(memory) == b"Zbcd"
    with pytest.raises(ValueError, match="at least 4"):
        lib.old(bytearray(b"abc"))
    with pytest.raises(ValueError, match="at most 4 bytes, found 5"):
        lib.old("abcde")


def test_arrays_of_texts_have_texts_of_their_length(lib: Any) -> None:
    rows = np.frombuffer(b"a   bcd ", "int8").reshape(2, 4)
    for given in (
        ["a", "bcd"],
        (b"a", b"bcd"),
        np.array([b"a", b"bcd"]),
        rows,
        rows.ravel(),
        b"a   bcd ",
    ):
        for t in (np.zeros(2, "S4"), np.zeros((2, 4), "int8"), bytearray(8)):
            lib.several(2, given, t)
            assert bytes(t) == b"bcd a   "
    for wrong in (
        np.zeros(2, "S5"),
        np.zeros(1, "S8"),
        ["abcde", ""],
        np.zeros(1, "S4"),
        b"a   bcd",
    ):
        with pytest.raises(ValueError, match=r"expected shape \((2, 4|at least 8,)\)"):
            lib.several(2, wrong, bytearray(8))
    with pytest.raises(ValueError, match=r"expected shape \(2, 4\), found \(2, 3\)"):
        lib.several(2, ["a", "b"], np.zeros(2, "S3"))
    with pytest.raises(TypeError, match="item 1: expected a text, found int"):
        lib.several(2, ["a", 1], bytearray(8))
    t = np.zeros(2, "S6")
    lib.several_any(2, ["ab", "cde"], t)
    assert t.tobytes() == b"cde   ab    "
    with pytest.raises(ValueError, match=r"expected shape \(2, \*\), found \(3,\)"):
        lib.several_any(2, "abc", t)
    lib.table(2, 3, np.array([[b"a", b"b"], [b"c", b"d"], [b"e", b"f"]]), t := bytearray(3))
    assert t == b"b  "
    with pytest.raises(ValueError, match=r"expected shape \(3, 2, 3\), found \(2, 3, 1\)"):
        lib.table(2, 3, np.array([[b"a", b"b", b"c"], [b"d", b"e", b"f"]]), t)
    for given in ("abc", b"abc", np.array(b"abc"), np.array([b"a", b"b", b"c"])):
        lib.of_c(given, 3, t)
        assert t == b"cba"
    with pytest.raises(ValueError, match="at least 4"):
        lib.of_c("abc", 4, t)


def test_the_c_functions_check_the_length_behind_a_number(lib: Any) -> None:
    t, n = bytearray(8), ctypes.byref(ctypes.c_int(4))
    lib.ctypes.fixed(np.array([b"abcdefgh"]), t, 8, 8)
    assert t == b"abcdefgh"
    lib.symbol("fixed_")("12345678", t, 8, 8)
    assert t == b"12345678"
    for number in (n, ctypes.c_int(4), np.array([4], "int32"), ctypes.pointer(ctypes.c_int(4))):
        if not isinstance(number, ctypes.c_int):
            lib.ctypes.by_number(number, b"abcd", bytearray(6), 4, 6)
            with pytest.raises(ValueError, match=r"at least 4,\) for \[n\], found \(3,\)"):
                lib.ctypes.by_number(number, b"abc", bytearray(6), 4, 6)
    with pytest.raises(ValueError, match="at least 6"):
        lib.ctypes.by_number(n, b"abcd", bytearray(5), 4, 6)
    with pytest.raises(ValueError, match=r"for \[s_len\], found \(3,\)"):
        lib.ctypes.any(b"abc", t, ctypes.byref(ctypes.c_int()), 4, 8)


HOST = """
#include <mblob.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv) {
  mblob_module *lib; char t[9] = "", u[9] = "";
  if (argc < 2 || mblob_open(argv[1], NULL, &lib)) return 1;
  if (mblob_call(lib, "fixed", "str,int8[8]", "abc", t)) return 2;
  if (mblob_call(lib, "fixed", "int8[2],int8[8]", "xyz", u)) return 3;
  printf("%s|%s|\\n", t, u);
  if (!mblob_call(lib, "fixed", "str,int8[8]", "abcdefghi", t)) return 4;
  puts(mblob_last_error());
  if (!mblob_call(lib, "fixed", "str,int8[7]", "abc", t)) return 5;
  puts(mblob_last_error());
  mblob_module_release(lib);
  return 0;
}
"""


def test_texts_from_c(tmp_path: Path, require: Callable[[str], str]) -> None:
    require("gfortran")
    packed(tmp_path, SOURCE)
    (tmp_path / "host.c").write_text(HOST)
    flags = [f"-I{mblob.get_include()}", f"-L{mblob.get_library_dir()}", "-lmblob"]
    flags.append(f"-Wl,-rpath,{mblob.get_library_dir()}")
    subprocess.run([require("cc"), "host.c", "-o", "host", *flags], cwd=tmp_path, check=True)
    done = subprocess.run(
        ["./host", "x.so"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert lines[0] == "abc     |xy      |"
    assert "at most 8 bytes, found 9; pass a shorter one" in lines[1]
    assert "expected shape (at least 8,), found (7,)" in lines[2]


def test_a_length_that_cannot_be_read_is_a_remark(
    tmp_path: Path, require: Callable[[str], str]
) -> None:
    require("gfortran")
    (tmp_path / "k.f90").write_text(
        "subroutine f(n, s)\n integer, intent(in) :: n\n character(len=n / 2), intent(in) :: s\nend\n"
    )
    with pytest.warns(UserWarning, match=r"parameter 1 \(s\): a length is made of numbers"):
        mblob.csource_module(tmp_path / "k.f90").export_library(tmp_path / "x.so")
    assert str(mblob.load_module(tmp_path / "x.so").f) is not None
