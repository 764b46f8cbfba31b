"""docs/ffi.md: its program runs, and the functions that it lists are there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any


def test_the_program_runs(blocks: Any, root: Path, tmp_path: Path) -> None:
    for block in blocks(root / "docs/ffi.md"):
        if block.file:
            (tmp_path / block.file).write_text(block.text)
    subprocess.run(["cc", "-shared", "-fPIC", "half.c", "-o", "half.so"], cwd=tmp_path, check=True)
    program = [sys.executable, "half.py"]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "21\nValueError | ValueError: half: expected an even integer\n"


def test_all_functions_are_listed(root: Path) -> None:
    text = (root / "docs/ffi.md").read_text()
    source = (root / "csrc/plugins/ffi/c_api.c").read_text()
    listed = text.partition("It has, under TVM's names:")[2]
    for name in re.findall(r'SYMBOL\("(TVMFFI\w+)"', source):
        short = re.sub(
            r"^TVMFFI(ErrorSetRaised|ErrorCreate|Function|Object|Tensor|Env|Handle)", "", name
        )
        assert (
            name in listed
            or short in listed
            or short.removesuffix("Versioned") in listed
            or name in EXCEPT
        ), name


# Of 0.21, and what a library announces without being asked.
EXCEPT = ("TVMFFIObjectFree", "TVMFFIEnvModRegisterSystemLibSymbol")
