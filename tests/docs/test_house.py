"""The house rules that can be tested: what CI may skip, what make offers, what the sources look like."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SKIPPING = """
import pytest

def test_it(require):
    {statement}
"""


@pytest.mark.parametrize(
    ("statement", "ci", "outcome"),
    [
        ("require('no-such-tool')", "", "1 skipped"),
        ("require('no-such-tool')", "true", "1 failed"),
        ("pytest.skip('no GPU here')", "true", "1 skipped"),
        ("pytest.skip('no golden libraries')", "true", "1 skipped"),
        ("pytest.skip('later')", "true", "1 failed"),
    ],
)
def test_in_ci_only_a_gpu_and_the_golden_libraries_may_be_missing(
    root: Path, tmp_path: Path, statement: str, ci: str, outcome: str
) -> None:
    shutil.copy(root / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_it.py").write_text(SKIPPING.format(statement=statement))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"],
        cwd=tmp_path, env={**os.environ, "CI": ci}, capture_output=True, text=True,
    )  # fmt: skip
    assert outcome in done.stdout, done.stdout


def test_make_help_lists_every_target_for_people(root: Path) -> None:
    done = subprocess.run(["make", "-s", "help"], cwd=root, capture_output=True, text=True, check=True)
    listed = {line.split()[1] for line in done.stdout.splitlines()}
    assert listed == {"help", "env", "demo", "test", "lint", "check", "bench", "install", "clean"}


def test_make_env_does_nothing_when_it_is_fresh(root: Path) -> None:
    if not (root / ".venv" / "ready").exists():
        subprocess.run(["make", "env"], cwd=root, check=True, stdout=subprocess.DEVNULL)
    done = subprocess.run(["make", "-n", "env"], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ":"


def test_make_check_is_lint_then_test(root: Path) -> None:
    done = subprocess.run(["make", "-n", "check"], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.index("lint") < done.stdout.index("pytest")


def test_ci_calls_make_check(root: Path) -> None:
    script = root / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text().rstrip().endswith("make check")
    subprocess.run(["bash", "-n", str(script)], check=True)


def test_no_source_file_is_too_long_to_read(root: Path) -> None:
    folders = ("mblob", "packager", "loader", "csrc/src", "examples", "benchmarks", "tests")
    files = [p for f in folders for p in (root / f).rglob("*") if p.suffix in (".py", ".c", ".h", ".cpp")]
    assert files
    long = {str(p.relative_to(root)): len(p.read_text().splitlines()) for p in files if p.name != "_native.c"}
    assert {name: lines for name, lines in long.items() if lines > 500} == {}


def test_nothing_is_left_for_later(root: Path) -> None:
    marks = tuple("".join(pair) for pair in (("TO", "DO"), ("FIX", "ME")))
    guilty = [
        f"{path.relative_to(root)}: {mark}"
        for folder in ("mblob", "packager", "loader", "csrc", "examples", "benchmarks", "docs")
        for path in (root / folder).rglob("*")
        if path.suffix in (".py", ".c", ".h", ".cpp", ".md", ".toml") and path.name != "_native.c"
        for mark in marks
        if mark in path.read_text()
    ]
    assert guilty == []
