"""An export enters few files: who reads its way through the packager sees all of them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from mblob.packager.link import export

ROOT = Path(__file__).parents[2]
FILES = 62
NO_STEP = "mblob/named_tuple.py"  # stands in for a module of the standard library
# The second export of a process: the first one also asks the compiler, and fills tables.
PROGRAM = """if True:
    import os, sys, threading
    import numpy, mblob
    work = sys.argv[1]
    root = os.path.dirname(os.path.dirname(os.path.realpath(mblob.__file__)))
    parts = tuple(os.path.join(root, part) + os.sep for part in ("mblob", "packager", "loader"))
    entered = set()
    def enter(frame, event, argument):
        if event == "call" and frame.f_code.co_name != "<module>":
            entered.add(frame.f_code.co_filename)
    def export(name):
        function = "void scale(const float x[1], const float w[1], float y[1])"
        library = mblob.csource_module(f"{work}/scale.c", functions=[function])
        library.import_module(mblob.safetensors_module({"w": numpy.ones(1, "float32")}))
        library.export_library(f"{work}/{name}.so")
    export("first")
    threading.setprofile(enter)
    sys.setprofile(enter)
    export("second")
    sys.setprofile(None)
    threading.setprofile(None)
    files = {os.path.realpath(name) for name in entered}
    print(*sorted(os.path.relpath(name, root) for name in files if name.startswith(parts)), sep="\\n")
"""


@pytest.fixture(scope="module")
def entered(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The files that the export of one kernel and one tensor enters."""
    work = tmp_path_factory.mktemp("steps")
    text = "void scale(const float *x, const float *w, float *y) { y[0] = x[0] * w[0]; }\n"
    (work / "scale.c").write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(work)], capture_output=True, text=True, check=True
    )
    assert (work / "first.so").read_bytes() == (work / "second.so").read_bytes()
    return [path for path in done.stdout.split() if path != NO_STEP]


def test_an_export_of_one_kernel_and_one_tensor_enters_few_files(entered: list[str]) -> None:
    assert len(entered) <= FILES, " ".join(entered)


def test_the_table_of_steps_names_the_files_of_the_steps(entered: list[str]) -> None:
    named = re.findall(r"`([\w/]+\.py)`", str(export.__doc__))
    paths = {name if "/" in name else f"packager/link/{name}" for name in named}
    assert all((ROOT / path).is_file() for path in paths)
    steps = {path for path in entered if path.startswith(("packager/link/", "packager/functions/"))}
    assert steps <= {*paths, "packager/link/export.py"}
    functions = set(re.findall(r"`([a-z_]+)`", str(export.__doc__)))
    texts = [(ROOT / path).read_text() for path in paths]
    for name in functions - {"export_library"}:
        assert any(f"def {name}(" in text for text in texts), name
