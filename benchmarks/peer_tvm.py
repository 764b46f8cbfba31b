"""Apache TVM in an environment of its own, away from mblob's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

VERSION = "0.27.0.post1"
FOLDER = Path(__file__).resolve().parent.parent / "build" / f"tvm-{VERSION}"


def python(install: bool) -> Path | str:
    """A Python that imports TVM: $TVM_PYTHON, or that of a virtual environment in build/, made if
    `install`; else why there is none."""
    given = os.environ.get("TVM_PYTHON")
    if given:
        return Path(given) if _works(Path(given)) else f"$TVM_PYTHON, {given}, has none that works"
    found = FOLDER / "bin" / "python"
    if _works(found):
        return found
    if not install:
        return f"{FOLDER.relative_to(FOLDER.parents[1])} is not there, a full run makes it"
    for words in (
        [sys.executable, "-m", "venv", "--clear", str(FOLDER)],
        [
            str(found),
            "-m",
            "pip",
            "-qq",
            "--disable-pip-version-check",
            "install",
            f"apache-tvm=={VERSION}",
            "numpy",
        ],
    ):
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            return f"it cannot be installed: {' '.join(done.stderr.split())[-200:]}"
    return found if _works(found) else "what was installed does not work"


def _works(path: Path) -> bool:
    words = [str(path), "-c", "import numpy, tvm, tvm.te"]
    return path.exists() and not subprocess.run(words, capture_output=True, check=False).returncode
