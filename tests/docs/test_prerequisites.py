"""The messages of `make env` on a machine that lacks something, before it builds."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# A compiler that finds everything but one header.
WITHOUT = """#!/bin/sh
for text in "$@"; do case $text in *.c) grep -q "{header}" "$text" && exit 1;; esac; done
exec cc "$@"
"""


@pytest.fixture
def look(root: Path) -> Callable[..., str]:
    """`look(CC="nope")`: what prerequisites.py says; "" where nothing is missing."""

    def run(*options: str, **environment: str) -> str:
        command = [sys.executable, *options, str(root / "prerequisites.py")]
        done = subprocess.run(
            command, env={**os.environ, **environment}, capture_output=True, text=True
        )
        assert (done.returncode == 1) == bool(done.stderr)
        assert done.stdout == ""
        return done.stderr

    return run


def compiler(folder: Path, header: str) -> str:
    """One that does not find a header."""
    path = folder / "gcc-without"
    path.write_text(WITHOUT.format(header=header))
    path.chmod(0o755)
    return str(path)


def test_a_machine_that_builds_lacks_nothing(look: Callable[..., str]) -> None:
    assert look() == ""


def test_one_line_names_a_missing_compiler(look: Callable[..., str]) -> None:
    said = look(CC="no-such-cc -O2")
    assert said.startswith("make env: not found: the C compiler no-such-cc; ")
    assert said.count("\n") == 1


def test_one_line_names_missing_headers_of_python(look: Callable[..., str], tmp_path: Path) -> None:
    said = look(CC=compiler(tmp_path, "Python.h"))
    assert re.match(r"make env: not found: Python's headers \(/.*/Python\.h\); ", said)
    assert said.count("\n") == 1


def test_one_line_names_missing_headers_of_the_c_library(
    look: Callable[..., str], tmp_path: Path
) -> None:
    said = look(CC=compiler(tmp_path, "stdlib.h"))
    assert said.startswith("make env: not found: the C library's headers")
    assert said.count("\n") == 1


def test_one_line_names_a_missing_ensurepip(root: Path) -> None:
    code = (
        "import importlib.util, runpy, sys; real = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name: None if name == 'ensurepip' else real(name)\n"
        f"runpy.run_path({str(root / 'prerequisites.py')!r}, run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert re.match(
        r"make env: not found: Python's module venv \(with ensurepip\); .*\n$", done.stderr
    )


OS_RELEASES = {
    'ID=debian\nNAME="Debian GNU/Linux"': "apt-get install python3-venv python3-dev gcc libc6-dev",
    'ID=linuxmint\nID_LIKE="ubuntu debian"': "apt-get install python3-venv python3-dev gcc libc6-dev",
    'ID="rocky"\nID_LIKE="rhel centos fedora"': "dnf install python3 python3-devel gcc glibc-devel",
    "NAME=Fedora\nID=fedora\n": "dnf install python3 python3-devel gcc glibc-devel",
    "ID=alpine": "apk add python3 python3-dev gcc musl-dev",
    "ID=other": "",
    "": "",
}


@pytest.mark.parametrize("text", OS_RELEASES)
def test_packages_have_the_names_of_the_distribution(root: Path, text: str) -> None:
    needs: dict[str, Any] = runpy.run_path(str(root / "prerequisites.py"))
    assert (
        needs["install_command"](["ensurepip", "Python.h", "compiler"], text, "python3")
        == OS_RELEASES[text]
    )


def test_another_python_has_packages_of_its_own(root: Path) -> None:
    needs = runpy.run_path(str(root / "prerequisites.py"))
    found = needs["install_command"](["ensurepip", "Python.h"], "ID=debian", "python3.14")
    assert found == "apt-get install python3.14-venv python3.14-dev"


def test_the_page_about_installing_names_the_same_packages(root: Path) -> None:
    text = (root / "docs" / "install.md").read_text()
    needs = runpy.run_path(str(root / "prerequisites.py"))
    for family in ("debian", "fedora", "alpine"):
        command = needs["install_command"](list(needs["NEEDS"]), f"ID={family}", "python3")
        (line,) = (
            line for line in text.splitlines() if f"`{' '.join(command.split()[:2])} " in line
        )
        assert set(command.split()) <= set(re.findall(r"[\w.-]+", line))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["CC=no-such-cc"], "make env: not found: the C compiler no-such-cc; "),
        (["PYTHON=no-such-python"], "make env: no-such-python is not installed"),
        (["PYTHON=./old"], "make env: ./old is Python 3.8; mblob needs 3.9 or later"),
    ],
)
def test_make_env_looks_before_it_builds(
    root: Path, tmp_path: Path, words: list[str], said: str
) -> None:
    for name in ("Makefile", "prerequisites.py", "setup.py", "pyproject.toml"):
        shutil.copy(root / name, tmp_path)
    for name in ("csrc", "loader", "mblob"):
        (tmp_path / name).symlink_to(root / name)
    old = "import sys; sys.version_info = (3, 8, 0); exec(sys.argv.pop(1))"
    (tmp_path / "old").write_text(f'#!/bin/sh\nshift\nexec {sys.executable} -c "{old}" "$@"\n')
    (tmp_path / "old").chmod(0o755)
    done = subprocess.run(["make", *words, "env"], cwd=tmp_path, capture_output=True, text=True)
    first, *others = done.stderr.splitlines()
    assert first.startswith(said)
    assert [line for line in others if not line.startswith("make: ***")] == []
    assert (done.returncode, done.stdout) == (2, "")
    assert not (tmp_path / ".venv").exists()


def test_make_env_says_what_it_does_while_it_does_it(root: Path, tmp_path: Path) -> None:
    """With a Python that makes no environment and installs nothing, but tells as setup.py does."""
    for name in ("Makefile", "prerequisites.py", "setup.py", "pyproject.toml"):
        shutil.copy(root / name, tmp_path)
    for name in ("csrc", "loader", "mblob"):
        (tmp_path / name).symlink_to(root / name)
    (tmp_path / "fake").write_text(
        "#!/bin/sh\n"
        'case "$*" in\n'
        '*venv*) mkdir -p .venv/bin; cp "$0" .venv/bin/python;;\n'
        f"*--editable*) exec {sys.executable} tell.py;;\n"
        "esac\n"
    )
    (tmp_path / "fake").chmod(0o755)
    # of setup.py the function alone
    text = (root / "setup.py").read_text()
    say = text[text.index("def say(") : text.index("class BuildExt")]
    (tmp_path / "tell.py").write_text(
        f"import os, sys\nfrom pathlib import Path\n{say}\nsys.stdout = None\nsay('compiling libmblob')\n"
    )
    command = ["make", "PYTHON=./fake", "env"]
    lines = [
        "make env: making .venv",
        "make env: installing pip (downloads, unless it is there)",
        "make env: installing what mblob and its tests need (downloads, unless it is there)",
        "make env: compiling libmblob",
        "make env: compiling Python files",
    ]
    for expected in (lines, lines[1:]):  # a rebuild keeps the environment
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines() == expected
        os.utime(tmp_path / ".venv" / "ready", (1, 1))  # older than what it is made of
    assert len(re.findall(r'^ +say\(f?"compiling ', text, re.MULTILINE)) == 3


def test_fresh_machines_have_the_packages_of_the_readme_and_no_others(root: Path) -> None:
    script = (root / "tests" / "fresh_machine").read_text()
    (packages,) = re.findall(r"^packages='(.*)'$", script, re.MULTILINE)
    assert f"`apt-get install {packages}`" in (root / "README.md").read_text()


def test_the_script_of_fresh_machines_says_what_it_does_not_take(root: Path) -> None:
    script = root / "tests" / "fresh_machine"
    done = subprocess.run(["bash", str(script), "--no-such-option"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.endswith("tests/fresh_machine: unknown option --no-such-option\n")
    helped = subprocess.run(
        ["bash", str(script), "--help"], capture_output=True, text=True, check=True
    ).stdout
    options = re.findall(r"^    (--[a-z-]+)", script.read_text(), re.MULTILINE)
    assert options and all(option in helped for option in options)
