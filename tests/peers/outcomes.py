"""Files that apache-tvm compiled, and the results of its programs, made once for all test
processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from tests.built_once import built_once


def outcomes_of(tvm: Path, program: ModuleType, *parts: ModuleType) -> Path:
    """The folder that `python -m PROGRAM FOLDER` wrote: `outcomes.json` and libraries.

    Args:
        tvm: the folder of the package.
        parts: modules that the program imports; it runs again when one of them changes.
    """
    releases: Sequence[Path] = sorted(tvm.parent.glob("apache_tvm-*.dist-info"))

    def make(folder: Path) -> None:
        done = subprocess.run(
            [sys.executable, "-m", program.__name__, str(folder)],
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert done.returncode == 0, done.stderr

    texts = [Path(m.__file__ or "").read_text() for m in (program, *parts)]
    return built_once(
        program.__name__.rpartition(".")[2], make, *texts, *(p.name for p in releases)
    )
