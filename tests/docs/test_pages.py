"""The tutorial and the guides do what they say: every command and program in them runs, in the
order of the page, and prints what the page shows."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = ["tutorial.md", *sorted(f"howto/{path.name}" for path in (DOCS / "howto").glob("*.md"))]
SLOW = "howto/import_onnx.md"  # TVM starts for seconds
LANGUAGES = {"sh": ["sh", "-eu", "-c"], "python": [sys.executable, "-c"]}


def pattern_of(shown: str) -> str:
    """What a block shows, as a pattern: `...` stands for anything."""
    return ".*".join(re.escape(part) for part in shown.split("..."))


@pytest.fixture
def environment(installed: Path, tmp_path: Path) -> dict[str, str]:
    """That of a user who has installed the C library and the Python package."""
    folders = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    library = installed / "lib"
    return {
        **os.environ,
        "PATH": folders,
        "HOME": str(tmp_path),
        "LD_LIBRARY_PATH": str(library),
        "PKG_CONFIG_PATH": str(library / "pkgconfig"),
    }


def prepare(page: list[Any], root: Path, folder: Path, require: Callable[[str], str]) -> None:
    """What the blocks of a page presuppose, by the word behind their language."""
    words = {block.info for block in page}
    if any("pkg-config" in block.text for block in page):
        require("pkg-config")
    for tool in ("cmake", "meson"):
        if tool in words:
            require(tool)
    if "cross" in words:
        require("aarch64-linux-gnu-gcc")
    if "model" in words:
        import numpy as np

        import mblob.cli.main

        manifest = root / "examples/digits/digits.toml"
        assert mblob.cli.main.main(["build", str(manifest), "-o", str(folder / "model.so")]) == 0
        images = np.load(root / "examples/digits/test_images.npy")
        np.save(folder / "x.npy", images[:1])

    if "onnx" in words:
        for package in ("tvm", "onnx"):
            if importlib.util.find_spec(package) is None:
                pytest.skip(f"{package} is not installed")
        command = [sys.executable, root / "tests/cli/onnx_networks.py", folder]
        subprocess.run(command, check=True)
    if "relax" in words:
        shutil.copy(root / "examples/relax/digits_relax.so", folder / "relax.so")


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n == SLOW else []) for n in PAGES]
)
def test_every_block_of_the_page_runs_and_prints_what_stands_behind_it(
    name: str,
    root: Path,
    blocks: Callable[[Path], list[Any]],
    require: Callable[[str], str],
    environment: dict[str, str],
    tmp_path: Path,
) -> None:
    page = blocks(DOCS / name)
    folder = tmp_path / "page"
    folder.mkdir()
    prepare(page, root, folder, require)
    printed = ""
    for block in page:
        if block.file:
            (folder / block.file).write_text(block.text)
        elif block.language == "text":
            assert re.fullmatch(pattern_of(block.text), printed, re.DOTALL), printed
        else:
            done = subprocess.run(
                [*LANGUAGES[block.language], block.text],
                cwd=root if block.info == "clone" else folder,
                env=environment,
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0, f"{block.text}\n{done.stdout}\n{done.stderr}"
            printed = done.stdout


@pytest.mark.parametrize("name", [*PAGES, "install.md", "limits.md"])
def test_a_page_starts_with_who_needs_it(name: str) -> None:
    title, _, rest = (DOCS / name).read_text().partition("\n")
    assert title.startswith("# ")
    assert rest.lstrip().startswith("This page is for ")


@pytest.mark.slow
def test_what_install_says_installs(
    root: Path, blocks: Callable[[Path], list[Any]], require: Callable[[str], str], tmp_path: Path
) -> None:
    require("pkg-config")
    text = "\n".join(b.text for b in blocks(DOCS / "install.md") if b.info != "wheel")
    done = subprocess.run(
        ["sh", "-eu", "-c", text],
        cwd=root,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    up = r"(lib/pkgconfig/\.\./\.\./)?"
    prefix = rf"{tmp_path}/\.local/{up}"
    flags = rf"-I{prefix}include -L{prefix}lib -Wl,-rpath,{prefix}lib -lmblob"
    assert re.search(flags, done.stdout)
