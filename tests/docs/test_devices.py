"""docs/devices.md: its program runs where there is OpenCL, and its variables are the ones that the
code reads."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mblob


@pytest.mark.slow
def test_the_program_prints_what_the_device_made(blocks, root: Path, tmp_path: Path) -> None:
    cached = {"POCL_CACHE_DIR": str(tmp_path / "pocl"), "MBLOB_CACHE_DIR": str(tmp_path / "cache")}
    environment = {
        **os.environ,
        **cached,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    for block in blocks(root / "docs" / "devices.md"):
        if block.file:
            (tmp_path / block.file).write_text(block.text)
        else:
            command = block.text
    done = subprocess.run(
        ["sh", "-ec", command], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    if mblob.IncompatibleError.__name__ in done.stderr and "opencl" in done.stderr:
        pytest.skip(f"OpenCL is not installed: {done.stderr.splitlines()[-1]}")
    assert (done.returncode, done.stdout) == (0, "[0.  2.5 5.  7.5]\n"), done.stderr


def test_every_variable_is_told_and_exists(root: Path) -> None:
    page = (root / "docs" / "devices.md").read_text()
    sources = "".join(
        path.read_text() for path in (root / "csrc" / "plugins" / "opencl").glob("*.c")
    )
    read = set(re.findall(r'getenv\("(MBLOB_\w+)"\)', sources))
    told = set(re.findall(r"MBLOB_(?:OPENCL|CACHE)\w*", page))
    assert read == told
