"""The manual page: all that the parsers have, in roff that man and mandoc take without a word."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from mblob.cli import manual
from mblob.cli.described import program
from mblob.cli.report import EXIT_CODES


@pytest.fixture
def page(root: Path, tmp_path: Path) -> Path:
    """mblob-pack.1 as it is made for an installation."""
    done = subprocess.run(
        [sys.executable, "-m", "mblob.cli.manual"], cwd=root, capture_output=True, text=True,
        env={"COLUMNS": "40", "FORCE_COLOR": "1", "LANG": "C"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    path = tmp_path / "mblob-pack.1"
    path.write_text(done.stdout)
    return path


def test_the_page_is_the_same_whatever_the_terminal(page: Path) -> None:
    assert page.read_text() == manual.page()


def test_mandoc_has_no_complaint(require, page: Path) -> None:
    done = subprocess.run([require("mandoc"), "-T", "lint", "-W", "warning", str(page)], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_groff_has_no_warning(require, page: Path) -> None:
    words = [require("man"), "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", str(page)]
    done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_verb_option_and_exit_code_is_on_the_page(require, page: Path) -> None:
    words = [require("mandoc"), "-T", "utf8", "-O", "width=200", str(page)]
    text = re.sub(r".\x08", "", subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    _, verbs = program()
    parts = dict(re.findall(r"^   ([a-z-]+)\n(.*?)(?=^ {0,3}\S)", text, re.MULTILINE | re.DOTALL))
    assert list(parts) == [v.name for v in verbs]
    for verb in verbs:
        for argument in verb.arguments:
            if argument.dest != "help":
                heading = ", ".join(argument.names) + (" " if argument.names else "") + argument.metavar
                assert f"       {heading.strip()}" in parts[verb.name], (verb.name, heading)
        for example in verb.examples:
            assert example in parts[verb.name]
    for code, meaning in EXIT_CODES:
        assert re.search(rf"^ +{code} +{re.escape(meaning[0].upper() + meaning[1:])}\.$", text, re.MULTILINE), code


@pytest.mark.parametrize("text", [r"a \fB bold", ".SH", "'tis", "-x --yy", "~/a^b `c`", r"C:\new\n"])
def test_text_is_shown_as_it_is_written(require, tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.1"
    path.write_text(f'.TH X 1 2026-01-01 "x" "x"\n.SH NAME\nx \\- y\n.SH TEXT\n{manual.roff(text)}\n')
    done = subprocess.run([require("mandoc"), "-T", "utf8", str(path)], capture_output=True, text=True, check=True)
    assert text in re.sub(r".\x08", "", done.stdout).splitlines()[-3].strip()


def test_an_installation_has_the_page_and_the_completions(root: Path, installed: Path, tmp_path: Path) -> None:
    from mblob.cli import shell_files

    words = ["make", "-s", "-j2", "install", f"PREFIX={tmp_path}/usr", f"PYTHON={sys.executable}"]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    share = tmp_path / "usr" / "share"
    assert {str(p.relative_to(share)) for p in share.rglob("*") if p.is_file()} == set(shell_files.FILES)
    assert (share / "man" / "man1" / "mblob-pack.1").read_text() == manual.page()


def test_the_readme_tells_the_same_exit_codes(root: Path) -> None:
    text = " ".join((root / "README.md").read_text().split())
    for code, meaning in EXIT_CODES:
        first = re.escape(re.split(r"[,;]", meaning)[0])
        assert re.search(rf"\b{code} {first}", text), (code, meaning)
