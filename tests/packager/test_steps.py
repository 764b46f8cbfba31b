"""An export enters few files: who reads its way through the packager sees all of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FILES = 60
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


def test_an_export_of_one_kernel_and_one_tensor_enters_few_files(tmp_path: Path) -> None:
    text = "void scale(const float *x, const float *w, float *y) { y[0] = x[0] * w[0]; }\n"
    (tmp_path / "scale.c").write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, check=True
    )
    files = done.stdout.split()
    assert "packager/link/export.py" in files and "packager/link/read_back.py" in files
    assert len(files) <= FILES, done.stdout
    assert (tmp_path / "first.so").read_bytes() == (tmp_path / "second.so").read_bytes()
