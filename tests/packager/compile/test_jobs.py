"""The jobs that run beside compilers, and their order."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mblob
from mblob.packager.compile.processes import Job, Processes, run_all

COPY = (sys.executable, "-c", "import sys; open(sys.argv[2], 'w').write(open('made').read())")


def test_sources_are_made_before_anything_else_is_done_meanwhile(tmp_path: Path) -> None:
    order: list[str] = []

    def make() -> None:
        order.append("source")
        (tmp_path / "made").write_text("text")

    run_all(
        [
            Job("a file", (sys.executable, "-c", "print(1)")),
            Job("a source", (*COPY, "-o", "out"), before=make),
        ],
        tmp_path,
        lambda: order.append("import"),
    )
    assert order == ["source", "import"]
    assert (tmp_path / "out").read_text() == "text"


def test_imports_begin_when_the_compilers_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    start = Processes._start

    def late(*of: Any) -> Any:
        time.sleep(0.05)
        process = start(*of)
        order.append("compiler")
        return process

    monkeypatch.setattr(Processes, "_start", late)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    jobs = [Job("a file", (sys.executable, "-c", "")) for _ in range(3)]
    run_all(jobs, tmp_path, lambda: order.append("import"))
    assert order[:3] == ["compiler", "compiler", "import"]


@pytest.fixture
def logging_compiler(tmp_path: Path) -> tuple[str, Callable[[], list[str]]]:
    """A compiler, and what it was asked so far."""
    compiler, log = tmp_path / "logging-gcc", tmp_path / "log"
    compiler.write_text(f'#!/bin/sh\necho "$*" >> {log}\nexec gcc "$@"\n')
    compiler.chmod(0o755)
    return str(compiler), lambda: log.read_text().splitlines()


def test_a_source_compiles_before_the_compiler_is_asked_for_its_machine(
    logging_compiler: tuple[str, Callable[[], list[str]]], tmp_path: Path
) -> None:
    cc, asked = logging_compiler
    mblob.csource_module("int f(int x) { return x; }").export_library(tmp_path / "f.so", cc=cc)
    kinds = ["-dumpmachine" in line for line in asked()]
    assert (kinds[0], sum(kinds)) == (False, 1)


@pytest.mark.parametrize(("functions", "optimizes"), [(None, "-Og"), (["int f(int x)"], "-O1")])
def test_packed_functions_are_optimised_with_the_checks_that_are_compiled_with_them(
    functions: list[str] | None,
    optimizes: str,
    logging_compiler: tuple[str, Callable[[], list[str]]],
    tmp_path: Path,
) -> None:
    cc, asked = logging_compiler
    module = mblob.csource_module("int f(int x) { return x; }", functions=functions)
    module.export_library(tmp_path / "f.so", cc=cc)
    (generated,) = (line.split() for line in asked() if "mblob_functions.c -o" in line)
    assert [word for word in generated if word.startswith("-O")][-1] == optimizes


@pytest.mark.parametrize(("result", "links_math"), [("x + 1", False), ("__builtin_sqrt(x)", True)])
def test_a_linker_reads_no_functions_of_numbers_for_code_that_calls_nothing(
    result: str,
    links_math: bool,
    logging_compiler: tuple[str, Callable[[], list[str]]],
    tmp_path: Path,
) -> None:
    cc, asked = logging_compiler
    text = f"double f(double x) {{ return {result}; }}"
    mblob.csource_module(text).export_library(tmp_path / "f.so", cc=cc)
    (link,) = (line for line in asked() if "-shared" in line)
    assert ("-lm" in link.split()) is links_math
    assert mblob.load_module(tmp_path / "f.so")["f"](4.0) == (2 if links_math else 5)


def test_a_source_that_cannot_be_made_ends_the_other_jobs(tmp_path: Path) -> None:
    def fail() -> None:
        raise ValueError("no prototype")

    sleeping = Job("a file", (sys.executable, "-c", "import time; time.sleep(600)"))
    with pytest.raises(ValueError, match="no prototype"):
        run_all([sleeping, Job("a source", (*COPY, "-o", "out"), before=fail)], tmp_path)
    assert not (tmp_path / "out").exists()


def test_compilers_do_not_wait_for_the_import_of_what_comes_behind_them() -> None:
    late = ("dataclasses", "inspect", "elftools", "pycparser", "mblob.inspect.library")
    program = (
        "import sys; before = set(sys.modules); import mblob.cli.build, mblob.packager.link.export;"
        f"print(*{{*{late}}} & (set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()) == (0, [])
