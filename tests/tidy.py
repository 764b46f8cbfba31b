"""A run of the tests leaves nothing behind, in the tree, in the home folder, or in the temporary
one.

The whole run gets a home folder and a temporary folder of its own. At its end both must be empty,
and the tree must have no file that it did not have before; what is there is named, and the run
fails. Folders that pytest gives to tests lie elsewhere (pytest keeps those of the last runs), and
`build/tests` is where compiled programs are kept on purpose. ccache, if it is installed, keeps its own.

The order of the tests is random. At its end a run tells the seed, and for each failure the command
that repeats it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import compiled_once

ROOT = Path(__file__).resolve().parents[1]
MADE = {"build", "csrc/build"}  # by make, which may run at the same time
SHOWN = 10  # leftovers, and commands that repeat failures


def files_of(tree: Path) -> set[str]:
    """What is in a checkout, without what make, tools and editors keep there."""
    found = set()
    for folder, folders, files in os.walk(tree):
        here = Path(folder).relative_to(tree)
        folders[:] = [
            f for f in folders if f != "__pycache__" and (here / f).as_posix() not in MADE
        ]
        names = [name for name in (*folders, *files) if not name.startswith(".")]
        folders[:] = [f for f in folders if f in names]
        found.update((here / name).as_posix() for name in names)
    return found


def use_ccache(cache: str) -> None:
    """Put ccache in front of the compilers, where it is installed: most of what tests compile, some test
    has compiled before. `CCACHE_DISABLE=1 make test` compiles all of it.

    CCACHE_PATH is for tests that run a compiler with a PATH of their own.
    """
    for folder in map(Path, ("/usr/lib/ccache", "/usr/lib64/ccache")):
        if (folder / "cc").exists() and "CCACHE_PATH" not in os.environ:
            os.environ.setdefault("CCACHE_DIR", cache)
            os.environ["CCACHE_PATH"] = os.environ["PATH"]
            os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Two builds that must have the same bytes are both compiled."""
    before = os.environ.get("CCACHE_DISABLE")
    if "same_bytes" in item.name:
        os.environ["CCACHE_DISABLE"] = "1"
    yield
    if before is None:
        os.environ.pop("CCACHE_DISABLE", None)


class Tidy:
    """Of the process that the user started; its workers inherit the folders."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        self.before = files_of(tree)
        self.folder = Path(tempfile.mkdtemp(prefix="mblob-tests-"))
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
        # What pip has fetched for `make env` it need not fetch again. PoCL's objects go with the
        # run, and so do matplotlib's list of fonts, and the settings that rustup writes when pip
        # asks for Rust's version, as pip does for its User-Agent. (Path's expanduser fails for a
        # user whom the system does not know.)
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111
        os.environ.setdefault("PIP_CACHE_DIR", f"{cache}/pip")
        use_ccache(f"{cache}/ccache")
        os.environ.setdefault("POCL_CACHE_DIR", str(self.folder / "pocl"))
        os.environ.setdefault("MPLCONFIGDIR", str(self.folder / "matplotlib"))
        os.environ.setdefault("RUSTUP_HOME", str(self.folder / "rustup"))
        for variable in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
            os.environ.pop(variable, None)
        for variable, name in (
            ("HOME", "home"),
            ("TMPDIR", "tmp"),
            (compiled_once.FOLDER, "compiled"),
        ):
            (self.folder / name).mkdir()
            os.environ[variable] = str(self.folder / name)
        tempfile.tempdir = None
        self.left: list[str] = []

    def look(self) -> list[str]:
        """What was left; the folders are removed."""
        for name in ("home", "tmp"):
            for path in sorted((self.folder / name).iterdir()):
                first = next((p for p in sorted(path.rglob("*")) if not p.is_dir()), path)
                self.left.append(f"{name}: {first.relative_to(self.folder / name)}")
        self.left += [f"tree: {name}" for name in sorted(files_of(self.tree) - self.before)]
        shutil.rmtree(self.folder, ignore_errors=True)
        return self.left


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput") and not config.option.collectonly:
        config.pluginmanager.register(Watch(Tidy(config.rootpath)))


class Watch:
    def __init__(self, tidy: Tidy) -> None:
        self.tidy = tidy

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.tidy.look() and not session.exitstatus:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        line = terminalreporter.write_line
        for left in self.tidy.left[:SHOWN]:
            line(f"left behind: {left}", red=True)
        if len(self.tidy.left) > SHOWN:
            line(f"left behind: {len(self.tidy.left) - SHOWN} more")
        seed = config.getoption("randomly_seed", None)
        if seed is None:
            return
        line(f"order: -p randomly --randomly-seed={seed}")
        failed = terminalreporter.stats.get("failed", []) + terminalreporter.stats.get("error", [])
        for node in list(dict.fromkeys(report.nodeid for report in failed))[:SHOWN]:
            words = [sys.executable, "-m", "pytest", "-m", "", f"--randomly-seed={seed}", node]
            line(f"repeat: {shlex.join(words)}")
