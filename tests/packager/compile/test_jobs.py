"""What happens beside compilers, and in which order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mblob.packager.compile.processes import Job, run_all

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
