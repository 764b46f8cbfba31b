"""The house rules that can be tested: what CI may skip, what make offers, what the sources look like."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob

SKIPPING = """
import os
import subprocess
import pytest

def run_without_path(tool):
    os.environ["PATH"] = "/nowhere"
    subprocess.run([tool])

def fails_to_link(linker):
    raise subprocess.CalledProcessError(1, ["cc", f"-fuse-ld={{linker}}"])

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
        ("run_without_path('readelf')", "", "1 skipped"),
        ("run_without_path('readelf')", "true", "1 failed"),
        ("run_without_path('no-such-tool')", "", "1 failed"),
        ("fails_to_link('none')", "", "1 skipped"),
        ("fails_to_link('none')", "true", "1 failed"),
        ("fails_to_link('bfd')", "", "1 failed"),
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
    assert listed == {"help", "env", "demo", "test", "lint", "check", "nightly", "bench", "install", "clean"}


def test_make_env_does_nothing_when_it_is_fresh(root: Path) -> None:
    if not (root / ".venv" / "ready").exists():
        subprocess.run(["make", "env"], cwd=root, check=True, stdout=subprocess.DEVNULL)
    command = ["make", "--no-print-directory", "-n", "env"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ":"


@pytest.fixture
def bare(root: Path, tmp_path: Path, require: Callable[[str], str]) -> Path:
    """A copy of csrc, and a folder of programs for a PATH: what a machine that compiles has, without find and sed."""
    for tool in ("make", "sh", "cat", "cc", "ar", "mkdir", "printf"):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / tool).symlink_to(require(tool))
    shutil.copytree(root / "csrc", tmp_path / "csrc", ignore=shutil.ignore_patterns("build"))
    return tmp_path


def make_bare(bare: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(bare / "bin" / "make"), "-C", str(bare / "csrc"), *words]
    return subprocess.run(command, env={"PATH": str(bare / "bin")}, capture_output=True, text=True, check=False)


def test_make_finds_the_sources_by_itself(bare: Path) -> None:
    done = make_bare(bare, "-n")
    assert (done.returncode, done.stderr) == (0, "")
    sources = sorted((bare / "csrc" / "src").rglob("*.c"))
    assert len(sources) > 50
    assert all(f" -c src/{p.relative_to(bare / 'csrc' / 'src')} " in done.stdout for p in sources)
    assert f"Version: {mblob.__version__}" in done.stdout


@pytest.mark.parametrize(("lost", "message"), [("src", "no %.c in src"), ("include", "no MBLOB_VERSION|no %.h in")])
def test_make_links_no_library_of_nothing(bare: Path, lost: str, message: str) -> None:
    shutil.rmtree(bare / "csrc" / lost)
    done = make_bare(bare)
    assert done.returncode != 0
    assert re.search(message, done.stderr)
    assert not (bare / "csrc" / "build").exists()


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
