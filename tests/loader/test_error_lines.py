"""An error is one line of bounded length, whatever the names in a file and the words of a caller
hold."""

from __future__ import annotations

import builtins
import copy
import os
import pickle
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mblob
from mblob import errors
from mblob.native._native import ffi, lib

PAGE = (Path(__file__).parents[2] / "docs" / "errors.md").read_text("utf-8")
HOSTILE = b"a\nb\rc\td\x1b[2J\x7f\xff\xc3\x28\xe2\x80\xa8\xe2\x80\xaeend"
SHOWN = "a\\nb\\rc\\td\\x1b[2J\\x7f\\xff\\xc3(\\xe2\\x80\\xa8\\xe2\\x80\\xaeend"  # as C writes it


def last() -> tuple[str, str]:
    """What a C program sees."""
    return ffi.string(lib.mblob_last_error()).decode(), ffi.string(
        lib.mblob_last_error_info().message
    ).decode()


def test_names_of_files_are_escaped_for_c_programs(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/" + HOSTILE
    out = ffi.new("mblob_module **")
    assert lib.mblob_open(path, ffi.NULL, out) != 0
    assert all(SHOWN in text for text in last())
    Path(os.fsdecode(path)).write_bytes(b"no ELF")
    assert lib.mblob_open(path, ffi.NULL, out) != 0
    whole, message = last()
    assert SHOWN in message
    assert whole == message


def test_readable_text_of_any_language_stays(tmp_path: Path) -> None:
    name = "größe-日本語-😀"
    assert lib.mblob_open(str(tmp_path / name).encode(), ffi.NULL, ffi.new("mblob_module **")) != 0
    assert name in last()[1]


@pytest.mark.parametrize("size", [1000, 1100, 60_000])
def test_of_a_long_word_the_ends_are_shown(size: int) -> None:
    word = "ä" + "x" * (size - 2 - 4) + "ende"
    assert lib.mblob_open(word.encode(), ffi.NULL, ffi.new("mblob_module **")) != 0
    message = last()[1]
    assert (word in message) == (size == 1000)
    assert message.startswith("äx")
    assert "ende" in message
    assert len(message) < 1200


def test_of_a_long_line_the_ends_are_shown() -> None:
    words = "größe " * 10_000
    assert lib.mblob_open(words.encode(), ffi.NULL, ffi.new("mblob_module **")) != 0
    message = ffi.string(lib.mblob_last_error())
    assert len(message) < 8200
    message.decode()  # no character is cut


@pytest.mark.parametrize(("status", "kept"), [("MBLOB_E_KERNEL", True), ("MBLOB_E_IO", False)])
def test_texts_of_kernels_stay_as_they_are_and_others_do_not(status: str, kept: bool) -> None:
    lib.mblob_set_error(getattr(lib, status), b"one\ntwo")
    assert last()[1] == ("one\ntwo" if kept else "one\\ntwo")


@pytest.mark.parametrize("call", [mblob.open, mblob.load_module, mblob.verify])
def test_names_of_files_are_escaped_in_exceptions(
    tmp_path: Path, call: Callable[[str], object]
) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/" + HOSTILE)
    Path(path).write_bytes(b"no ELF")
    with pytest.raises(mblob.FormatError) as caught:
        call(path)
    text = str(caught.value)
    assert text.isprintable()
    assert text.count("a\\nb") == 1
    assert str(pickle.loads(pickle.dumps(mblob.MblobError(text)))) == text


def test_type_keys_of_a_file_are_escaped_in_c_and_in_python(tmp_path: Path) -> None:
    root = mblob.csource_module("void f(void) {}")
    root.import_module(mblob.blob_module("odd\x1b[2J\nkey", b"x", data=False))
    path = tmp_path / "k.so"
    root.export_library(path)
    assert lib.mblob_open(bytes(path), ffi.NULL, ffi.new("mblob_module **")) != 0
    assert "odd\\x1b[2J\\nkey" in last()[1]
    with pytest.raises(mblob.LoaderMissingError) as caught:
        mblob.load_module(path)
    assert str(caught.value).isprintable()
    assert "odd\\x1b[2J\\nkey" in str(caught.value)
    assert caught.value.type_key == "odd\x1b[2J\nkey"


@pytest.mark.parametrize(
    "name", ["a\nb", "\udcff", "x" * 60_000, "a\u2028b"], ids=["line", "byte", "long", "separator"]
)
def test_wrong_names_are_escaped_and_bounded(
    name: str, tmp_path: Path, cc: Callable[..., Path]
) -> None:
    module = mblob.load_module(cc("void f(void) {}", tmp_path / "f.so"))
    for call in (
        lambda: module[name],
        lambda: module.symbol(name, None),
        lambda: mblob.get_global_func(name),
    ):
        with pytest.raises((AttributeError, ValueError)) as caught:
            call()
        text = str(caught.value)
        assert text.isprintable()
        assert len(text) < 1000


@pytest.mark.parametrize("name", ["c\nd", "y" * 60_000, "größe"], ids=["line", "long", "word"])
def test_names_of_functions_are_escaped_in_errors_of_calls(name: str) -> None:
    mblob.register_func(name, lambda x: x)
    function = mblob.get_global_func(name)
    with pytest.raises(TypeError) as caught:
        function(np.array([object()]))
    assert str(caught.value).startswith(name[:1])
    assert str(caught.value).isprintable()
    assert repr(function).isprintable()
    assert len(str(caught.value)) < 1500
    assert ("größe" in str(caught.value)) == (name == "größe")
    assert function.name == name


def test_warnings_are_one_line_too() -> None:
    from mblob.packager.errors import warn

    with pytest.warns(UserWarning, match=r"^a\\nb$"):
        warn("a\nb")


def kinds_of_the_page() -> dict[str, type[Exception]]:
    """The classes of the kinds that the page's table names one by one."""
    section = PAGE.partition("## Kinds")[2].partition("\n## ")[0]
    rows = [line.split("|") for line in section.splitlines() if "|" in line]
    return {
        kind: getattr(builtins, named[0])
        for row in rows
        if "built-in exception" not in row[1] and (named := re.findall(r"`(\w+)`", row[2]))
        for kind in re.findall(r"`(\w+)`", row[1])
        if kind[0].isupper()
    }


@pytest.mark.parametrize("name", [n for n, c in vars(builtins).items() if isinstance(c, type)])
def test_an_error_whose_kind_is_of_python_is_of_that_class_and_can_be_copied(name: str) -> None:
    python = getattr(builtins, name)
    expected = python if issubclass(python, Exception) else RuntimeError
    expected = kinds_of_the_page().get(name, expected)
    assert errors.class_of_kind(name) is expected
    error = errors.also(errors.KernelError, expected)(f"{name}: what a kernel says")
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert (type(again), str(again), again.args) == (type(error), str(error), error.args)
