"""`python -m mblob`: where C programs find mblob."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from mblob import installed
from mblob.__main__ import PRINTED, main


@pytest.mark.parametrize("option", PRINTED)
def test_each_option_prints_one_line(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([option]) == 0
    done = capsys.readouterr()
    assert done.out.count("\n") == 1 and done.err == ""
    for word in shlex.split(done.out):
        folder = word.removeprefix("-I").removeprefix("-L").removeprefix("-Wl,-rpath,")
        assert word == "-lmblob" or Path(folder).is_dir() or word.endswith("/mblob.c")


def test_several_options_print_a_line_each_in_their_order(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--libdir", "--includedir"]) == 0
    assert capsys.readouterr().out.splitlines() == [mblob.get_library_dir(), mblob.get_include()]


@pytest.mark.parametrize("function", [mblob.get_amalgamation, installed.get_plugin_sources])
def test_a_package_without_a_c_file_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, function: Callable[[], str]
) -> None:
    assert Path(function()).is_file()
    monkeypatch.setattr(installed, "library_dir", lambda: tmp_path)
    with pytest.raises(
        mblob.IncompatibleError, match=r"\.c needs mblob-packager: pip install 'mblob\[pack\]'"
    ):
        function()


@pytest.mark.parametrize("words", [[], ["--lib"], ["--cflags=x"]])
def test_other_words_are_a_mistake_of_usage(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "--cflags" in capsys.readouterr().err


def test_a_folder_with_a_space_is_quoted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "a b"
    folder.mkdir()
    for name in (installed.SONAME, "libmblob.so", "libmblob.a"):
        (folder / name).touch()
    monkeypatch.setattr(installed, "library_dir", lambda: folder)
    assert main(["--libs"]) == 0
    words = shlex.split(capsys.readouterr().out)
    assert words == [f"-L{folder}", f"-Wl,-rpath,{folder}", "-lmblob"]


def test_a_package_without_its_library_says_which_file_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(installed, "library_dir", lambda: tmp_path)
    assert main(["--libs"]) == 4
    line = f"python -m mblob: the C library of mblob is missing: {tmp_path / installed.SONAME}; install mblob again\n"
    assert capsys.readouterr().err == line
