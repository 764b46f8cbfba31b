"""docs/inside.md runs as it stands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def test_commands_and_python(
    root: Path, blocks: Callable[[Path], list[Any]], tmp_path: Path
) -> None:
    page = blocks(root / "docs" / "inside.md")
    (commands,) = [b.text for b in page if b.language == "sh"]
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
