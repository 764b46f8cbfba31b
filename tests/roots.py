"""Root folders that have a program, and nothing else but what it needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.programs import run

# Only root may change the root folder; others where they may become root, of all or of a namespace of their own.
_WAYS = ((), ("sudo", "-n"), ("unshare", "-r"))
_PATH = f"{os.environ.get('PATH', os.defpath)}{os.pathsep}/usr/sbin{os.pathsep}/sbin"


def into(root: Path, *files: Path | str) -> None:
    """Copy files into a root folder, and the shared libraries that they need to the same places in it."""
    for file in files:
        shutil.copy(file, root)
    needed = re.findall(r"(/\S+) \(0x", run("ldd", *files).stdout)
    for path in {path for path in needed if "mblob" not in Path(path).name}:
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)


def in_root(root: Path, **environment: str) -> list[str]:
    """The words before a program that run it in a root folder; where nobody may, the test is skipped."""
    chroot = shutil.which("chroot", path=_PATH)
    env = ("env", "-i", *(f"{name}={value}" for name, value in environment.items()))
    for way in _WAYS:
        if chroot and (not way or shutil.which(way[0])):
            words = [*way, *env, chroot]
            if not subprocess.run([*words, "/", "/bin/true"], capture_output=True).returncode:
                return [*words, str(root)]
    pytest.skip("chroot is for root alone")
