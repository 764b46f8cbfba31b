"""A package that does not fit the machine or the libmblob that it meets says so in one line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mblob
from mblob.installed import SONAME, library_dir

ASKS = """
import mblob, sys
try:
    mblob.load_module if "load" in sys.argv else mblob.verify("/proc/self/exe")
except ImportError as error:
    assert isinstance(error, mblob.IncompatibleError), type(error)
    print(error)
"""


def ask(folder: Path, first: str = "load", **environment: str) -> str:
    """What a program says that begins with loading or with `verify`."""
    done = subprocess.run(
        [sys.executable, "-c", ASKS, first],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def package(root: Path, tmp_path: Path) -> Path:
    """A folder with a copy of the package."""
    skipped = shutil.ignore_patterns("_lib", "__pycache__")
    shutil.copytree(root / "mblob", tmp_path / "mblob", ignore=skipped)
    return tmp_path


def test_a_package_for_another_machine_names_both(package: Path) -> None:
    (compiled,) = (package / "mblob" / "loader").glob("_call.*.so")
    compiled.rename(compiled.with_name("_call.cpython-39-aarch64-linux-gnu.so"))
    here = f"CPython {sys.version_info[0]}.{sys.version_info[1]} on "
    text = ask(package)
    assert text.startswith(
        "this mblob was built for CPython 3.9 on aarch64-linux-gnu, and this is "
    )
    assert here in text and text.count("\n") == 1


@pytest.mark.parametrize("first", ["load", "verify"])
def test_a_package_that_was_not_compiled_says_so(package: Path, first: str) -> None:
    text = "the compiled part of mblob is missing; install mblob again, in a clone by `make env`\n"
    assert ask(package, first) == text  # its libmblob is
    for part in ("loader", "native"):
        for compiled in (package / "mblob" / part).glob("*.so"):
            compiled.unlink()
    assert ask(package, first) == text


def test_an_older_libmblob_that_was_loaded_first_is_refused_with_both_versions(
    tmp_path: Path,
) -> None:
    data = (library_dir() / SONAME).read_bytes()
    old = tmp_path / SONAME
    version = mblob.__version__.encode()
    assert (b"\0" + version + b"\0") in data
    old.write_bytes(data.replace(b"\0" + version + b"\0", b"\x000.0.9\0"))
    text = ask(tmp_path, LD_PRELOAD=str(old))
    own = mblob.__version__
    assert text == (
        f"mblob {own} needs libmblob {own} or later, and this process has loaded libmblob 0.0.9"
        f" from {old}; import mblob first, or update that library\n"
    )


@pytest.mark.parametrize("tells", [True, False])
def test_a_libmblob_that_lacks_functions_is_refused_with_both_versions(
    tmp_path: Path, tells: bool
) -> None:
    source = (
        'const char *mblob_version(void);\nconst char *mblob_version(void) { return "0.0.1"; }\n'
    )
    (tmp_path / "old.c").write_text(source if tells else "int nothing;\n")
    (tmp_path / "old.map").write_text("MBLOB_0.1 { global: mblob_*; local: *; };\n")
    old = tmp_path / SONAME
    command = ["cc", "-shared", "-fPIC", "old.c", f"-Wl,-soname,{SONAME}"]
    command += ["-Wl,--version-script=old.map", "-o", str(old)]
    subprocess.run(command, cwd=tmp_path, check=True)
    text = ask(tmp_path, LD_PRELOAD=str(old))
    found = "libmblob 0.0.1" if tells else "libmblob of a release before 0.1.0"
    assert f"this process has loaded {found} from {old}; " in text
    assert text.count("\n") == 1
