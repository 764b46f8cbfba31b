"""A wheel of this tree, built once for all tests that install it: from a source archive, as without
git."""

from __future__ import annotations

import hashlib
import runpy
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tests.built_once import ROOT, built_once

# What make and tools leave in a checkout, as .gitignore has it.
MADE = (
    ".git", ".venv", "build", "dist", "*.egg-info", "_lib", "*.so", "_native.c", "_programs.c", "*.o", "__pycache__",
    ".pytest_cache", ".mypy_cache", ".ruff_cache", ".benchmarks",
)  # fmt: skip


def call_backend(step: str, source: Path, output: Path) -> Path:
    """Run one step of PEP 517 in the folder `source`; the file it made."""
    code = f"import sys; from setuptools import build_meta; print('made', build_meta.{step}(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", code, output], cwd=source, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return output / done.stdout.split()[-1]


def unpack(archive: Path, folder: Path) -> Path:
    """The folder that a source archive has at its top."""
    with tarfile.open(archive) as tar:
        tar.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    return next(p for p in folder.iterdir() if p.is_dir())


def _digest() -> str:
    """Of all that goes into a wheel."""
    found = hashlib.sha256(sys.version.encode())
    folders = [ROOT / name for name in ("mblob", "packager", "loader", "csrc")]
    files = [p for folder in folders for p in folder.rglob("*") if p.is_file()]
    skipped = {"build", "_lib", "__pycache__"}
    files = [
        p
        for p in files
        if skipped.isdisjoint(p.relative_to(ROOT).parts) and p.suffix not in (".so", ".o")
    ]
    for path in sorted([*files, ROOT / "setup.py", ROOT / "pyproject.toml", ROOT / "MANIFEST.in"]):
        if path.name not in ("_native.c", "_programs.c"):
            found.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return found.hexdigest()


def _build(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        checkout = work / "checkout"
        shutil.copytree(ROOT, checkout, symlinks=True, ignore=shutil.ignore_patterns(*MADE))
        (work / "sdist").mkdir()
        archive = call_backend("build_sdist", checkout, work / "sdist")
        call_backend("build_wheel", unpack(archive, work / "sdist"), folder)


def built_wheel() -> Path:
    """The wheel for the Python that runs this, as pip builds it from the sources."""
    (wheel,) = built_once("wheel", _build, _digest()).glob("*.whl")
    return wheel


def built_parts() -> tuple[Path, Path]:
    """The two wheels that a release has of it: of mblob and of mblob-packager."""
    recipe = ROOT / "wheel_parts.py"

    def split(folder: Path) -> None:
        runpy.run_path(str(recipe))["split"](built_wheel(), folder)

    key = hashlib.sha256(recipe.read_bytes()).hexdigest() + _digest()
    folder = built_once("wheel_parts", split, key)
    return next(folder.glob("mblob-*.whl")), next(folder.glob("mblob_packager-*.whl"))
