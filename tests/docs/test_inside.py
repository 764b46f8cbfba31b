"""docs/inside.md runs as it stands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.docs.test_pages import pattern_of


def test_commands_and_python(
    root: Path, blocks: Callable[[Path], list[Any]], require: Callable[[str], str], tmp_path: Path
) -> None:
    page = blocks(root / "docs" / "inside.md")
    (commands,) = [b.text for b in page if b.language == "sh" and not b.info]
    (python,) = [b.text for b in page if b.language == "python"]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-euc", commands],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.search(
        r"^deploy.so: sound \(full\): classic blob, with an index$", done.stdout, re.MULTILINE
    )
    assert "\nw.npy\n" in done.stdout
    assert "~ entry [1] library/const_loader: " in done.stdout
    assert (
        "  ~ tensor w: first different element 0; largest difference 2 at [3]: 3 -> 1\n"
        in done.stdout
    )
    done = subprocess.run(
        [sys.executable, "-c", python], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert (
        done.stdout == "[('const_loader', 'crc32', True)]\n[('library/const_loader', 'changed')]\n"
    )
    assert {"for_tvm.so", "all.safetensors", "empty.so"} <= {p.name for p in tmp_path.iterdir()}
    printed = ""
    for block in page:
        if block.info == "binutils":
            command = block.text.split()
            require(command[0])
            done = subprocess.run(
                command, cwd=tmp_path, capture_output=True, text=True, errors="replace", check=True
            )
            printed = done.stdout
        elif block.language == "text":
            assert re.fullmatch(pattern_of(block.text), printed, re.DOTALL), printed
