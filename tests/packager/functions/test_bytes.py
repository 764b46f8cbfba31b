"""bytes and texts for pointers to bytes: what a call takes, and that the remedy for all else works."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import mblob

pytestmark = pytest.mark.own_process  # the ffi dialect has a plug-in

C = """
#include <stdint.h>
#include <string.h>
int sign(const signed char *x) { return x[1]; }
int narrow(int n, const int8_t x[n]) { return x[1]; }
int byte(const unsigned char *x) { return x[1]; }
int any(const void *x) { return ((const char *)x)[1]; }
struct pair { char a, b; };
int of_struct(const struct pair *x) { return x->b; }
int text(const char *x) { return strlen(x) == 3 ? x[1] : -1; }
int chars(int n, const char x[n]) { return x[1]; }
void write_sign(signed char *x) { x[1] = 'z'; }
void write_byte(uint8_t *x) { x[1] = 'z'; }
void write_chars(char *x) { x[1] = 'z'; }
void write_any(void *x) { ((char *)x)[1] = 'z'; }
int wide(const int16_t *x) { return x[0] == 'b' * 256 + 'a' || x[0] == 'a' * 256 + 'b' ? 'b' : -1; }
"""
READ = ("sign", "narrow", "byte", "any", "of_struct", "text", "chars", "wide")
WRITE = ("write_sign", "write_byte", "write_chars", "write_any")
VALUES = (b"abc", bytearray(b"abc"), "abc", memoryview(b"abc"), np.bytes_(b"abc"))


@pytest.fixture(scope="module", params=["classic", "ffi"])
def lib(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Any:
    file = tmp_path_factory.mktemp("bytes") / "k.so"
    mblob.csource_module(C).export_library(file, dialect=request.param)
    return mblob.load_module(file)


def called(call: Any, name: str, x: Any) -> int:
    return int(call(3, x) if name in ("narrow", "chars") else call(x))


def remedied(message: str, x: Any) -> Any:
    """The value that an error says to pass."""
    asked = re.search(r"; pass (\w.*\))", message)
    if asked is not None:
        return eval(asked[1], {"x": x, "numpy": np})
    astype = re.search(r'; convert it with astype\("(\w+)"\)', message)
    if astype is not None:
        return np.asarray(x).astype(astype[1])
    assert re.search("pass a text|pass a writable", message), message
    return "abc" if "pass a text" in message else bytearray(x)


@pytest.mark.parametrize("way", ["lib", "ctypes"])
def test_bytes_and_texts_are_read_or_the_remedy_works(lib: mblob.Module, way: str) -> None:
    taken = set()
    for name in READ:
        call = lib[name] if way == "lib" else lib.ctypes[name]
        for value in VALUES:
            if name == "wide" and not isinstance(value, (bytes, bytearray)):
                continue  # no numbers of two bytes
            value = value[:2] if name == "wide" else value
            for _ in range(2):
                try:
                    assert called(call, name, value) == ord("b"), (name, value)
                    taken.add((name, type(value)))
                    break
                except mblob.MblobError as exc:
                    value = remedied(str(exc), value)
            else:
                pytest.fail(f"{name}: {value!r}")
    for name in ("sign", "narrow", "byte", "any", "of_struct", "text", "chars"):
        assert (name, bytes) in taken
    assert {("text", str), ("chars", str)} <= taken


@pytest.mark.parametrize("way", ["lib", "ctypes"])
def test_bytes_that_a_function_writes_are_those_of_a_bytearray(lib: mblob.Module, way: str) -> None:
    for name in WRITE:
        call = lib[name] if way == "lib" else lib.ctypes[name]
        written = bytearray(b"abc")
        call(written)
        assert written == b"azc"
        for value in (b"abc", "abc"):
            with pytest.raises(mblob.MblobError) as caught:
                call(value)
            made = remedied(str(caught.value), value)
            call(made)
            assert bytes(made) == b"azc" and value in (b"abc", "abc")


def test_a_text_ends_at_its_nul(lib: mblob.Module) -> None:
    for value in (b"a\0c", "a\0c"):
        assert lib.any(value if isinstance(value, bytes) else value.encode()) == 0
        assert lib.chars(3, value) == 0
    with pytest.raises(mblob.MblobError, match=r"bytes have a NUL inside.*such as x"):
        lib.text(b"a\0c")
    with pytest.raises(
        mblob.MblobError, match=r"expected str, found [tT]ensor; pass a text, or pack"
    ):
        lib.text(np.zeros(3, "int8"))
    with pytest.raises(mblob.MblobError, match="surrogates"):
        lib.chars(1, "\ud800")
