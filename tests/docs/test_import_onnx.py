"""docs/howto/import_onnx.md: its C program in a root folder without Python, TVM and ONNX."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.programs import ROOT, run
from tests.roots import in_root, into

pytestmark = [pytest.mark.slow, pytest.mark.own_process]


@pytest.mark.parametrize("engine", ["", "dnnl"])
def test_the_program_runs_where_there_is_nothing_but_what_it_needs(
    engine: str,
    blocks: Callable[[Path], list[Any]],
    installed: Path,
    onednn: str,
    package_of: Callable[[str], Path],
    require: Callable[[str], str],
    tmp_path: Path,
) -> None:
    package_of("tvm"), package_of("onnx"), require("pkg-config")
    page = blocks(ROOT / "docs" / "howto" / "import_onnx.md")
    (source,) = [block for block in page if block.file == "predict.c"]
    (tmp_path / source.file).write_text(source.text)
    assert len(source.text.splitlines()) <= 30
    run(sys.executable, ROOT / "tests" / "cli" / "onnx_networks.py", tmp_path)
    words = ["--shape", "x=1,3,32,32", *(["--engine", engine, "--carry", engine] if engine else [])]
    command = [sys.executable, "-m", "mblob.cli.main", "import", "model.onnx", "-o", "model.so"]
    run(*command, *words, cwd=tmp_path, env={**os.environ, "MBLOB_DNNL_ARCHIVE": ""})
    (build,) = [b.text for b in page if b.text.startswith("cc predict.c")]
    environment = {**os.environ, "PKG_CONFIG_PATH": str(installed / "lib" / "pkgconfig")}
    run("sh", "-ec", build.partition(" && ")[0], cwd=tmp_path, env=environment)
    root = tmp_path / "root"
    (root / "tmp").mkdir(parents=True)
    libraries = [installed / "lib" / name for name in ("libmblob.so.0", "libmblob-ffi.so")]
    into(root, tmp_path / "predict", tmp_path / "model.so", *libraries)

    def predict() -> subprocess.CompletedProcess[str]:
        command = [*in_root(root, LD_LIBRARY_PATH="/"), "/predict"]
        return subprocess.run(command, capture_output=True, text=True)

    if engine:
        done = predict()
        assert done.returncode, done.stdout
        assert "no libdnnl.so.3, no libdnnl.so.2: install it (Debian, Ubuntu: apt" in done.stderr
        name = onednn.partition("(")[2].rstrip(")")
        loaded = run(
            sys.executable, "-c",
            f"import ctypes; ctypes.CDLL({name!r}); print(open('/proc/self/maps').read())",
        )  # fmt: skip
        (path,) = {*re.findall(r"/\S*libdnnl\.so\S*", loaded.stdout)}
        into(root, shutil.copy(path, tmp_path / Path(name).name))
    done = predict()
    shown = next(b.text for b in page if re.fullmatch(r"[\d.]+\n", b.text))
    assert (done.returncode, done.stdout, done.stderr) == (0, shown, "")
