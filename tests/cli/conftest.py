"""Running `mblob-pack` as users do: a process of its own, in a folder of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.warm import warm

VADD = """\
#include <stdint.h>
void vadd(const float *a, const float *b, float *c, int64_t n) {
  for (int64_t i = 0; i < n; ++i) c[i] = a[i] + b[i];
}
"""
PROTOTYPE = "void vadd(const float *a, const float *b, float *c, int64_t n)"

VERBS = ("mblob.cli.build", "mblob.cli.inspect", "mblob.cli.run", "mblob.cli.verify")
IMPORTED = ("numpy", "mblob.cli.command_line", *VERBS, "mblob.packager.link.export")

Pack = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def pack_in() -> Pack:
    """`pack_in(folder, *arguments, env={})`: run mblob-pack there; stdout and stderr are
    captured."""

    def run(
        folder: Path, *arguments: object, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return warm(*IMPORTED)(
            "mblob.cli.main", *arguments, cwd=folder, env={**os.environ, **(env or {})}
        )

    return run


@pytest.fixture
def pack(pack_in: Pack, tmp_path: Path) -> Pack:
    """`pack(*arguments, env={})`: the same in the test's folder."""

    def run(
        *arguments: object, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return pack_in(tmp_path, *arguments, env=env)

    return run


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    """vadd.c in the test's folder."""
    path = tmp_path / "vadd.c"
    path.write_text(VADD)
    return path


@pytest.fixture(scope="session")
def deploy(tmp_path_factory: pytest.TempPathFactory, pack_in: Pack) -> Path:
    """A library with the plain C function vadd and one blob, packed once. Do not change it."""
    folder = tmp_path_factory.mktemp("deploy")
    (folder / "vadd.c").write_text(VADD)
    (folder / "about.json").write_text('{"version": 3}')
    done = pack_in(
        folder,
        "build",
        "--kernel",
        "vadd.c",
        "--function",
        PROTOTYPE,
        "--blob",
        "about=about.json",
        "-o",
        "deploy.so",
    )
    assert done.returncode == 0
    assert done.stderr.startswith("wrote deploy.so: ")
    return folder / "deploy.so"


@pytest.fixture(scope="session")
def error_line() -> Callable[[subprocess.CompletedProcess[str]], str]:
    """`error_line(done)`: the one `error:` line of a failed run, without its prefix, and no
    traceback."""

    def find(done: subprocess.CompletedProcess[str]) -> str:
        errors = [
            line for line in done.stderr.splitlines() if line.startswith("mblob-pack: error: ")
        ]
        assert len(errors) == 1, done.stderr
        assert "Traceback" not in done.stderr
        return errors[0].removeprefix("mblob-pack: error: ")

    return find
