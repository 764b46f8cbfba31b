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
    begin = text.index("exports these functions under TVM's names:")
    listed = re.findall(r"`(TVMFFI\w+)`", text[begin : text.index("These functions differ", begin)])
    exported = set(re.findall(r"\bNAME\((TVMFFI\w+),", source))
    assert len(exported) > 20 and sorted(listed) == sorted(exported - EXCEPT)


# Of 0.21, and what a library announces without being asked.
EXCEPT = {"TVMFFIObjectFree", "TVMFFIEnvModRegisterSystemLibSymbol"}


def test_all_global_functions_of_tvm_ffi_are_listed(root: Path) -> None:
    text = (root / "docs/ffi.md").read_text()
    source = (root / "csrc/plugins/ffi/globals.c").read_text()
    begin = text.index("of these global functions of libtvm_ffi")
    listed = re.findall(r"`(ffi\.[\w.]+)`", text[begin : text.index("**Static programs.**", begin)])
    there = set(re.findall(r'(?:\{|, )"(ffi\.[\w.]+)"', source))
    assert len(there) > 15 and sorted(listed) == sorted(there)
