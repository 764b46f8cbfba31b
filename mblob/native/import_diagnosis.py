"""The reasons why the compiled part of the package cannot be used here: it is for another machine
or Python, or another libmblob was loaded before it. Imported when something is wrong."""

from __future__ import annotations

import ctypes
import re
import sys
import sysconfig
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from mblob.errors import IncompatibleError, also
from mblob.installed import SONAME, library_dir

# What a linker says when libmblob lacks a function, or a version of its symbols.
_LACKS = re.compile(
    r"undefined symbol: mblob_|symbol mblob_\w+|version [`']MBLOB_|relocating .*mblob_"
)


def explained(error: ImportError) -> ImportError:
    """The error for people; `error` itself if nothing is known about it."""
    reason = _lacking(str(error)) if _LACKS.search(str(error)) else _built_for_another()
    return error if reason is None else _incompatible(reason)


def check_versions(wanted: bytes, found: bytes) -> None:
    """Refuse a libmblob that is older than the package.

    Raises:
        IncompatibleError: it is; the error is an ImportError, too.
    """
    if _numbers(found) < _numbers(wanted):
        raise _incompatible(_older(wanted.decode(), found.decode()))


def _incompatible(reason: str) -> ImportError:
    error = also(IncompatibleError, ImportError)(reason)
    assert isinstance(error, ImportError)
    return error


def _numbers(version: bytes) -> list[int]:
    return [int(word) for word in re.findall(rb"\d+", version)]


def _older(wanted: str, found: str) -> str:
    place = _loaded()
    return (
        f"mblob {wanted} needs libmblob {wanted} or later, and this process has loaded libmblob {found}"
        f"{f' from {place}' if place else ''}; import mblob first, or update that library"
    )


def _lacking(text: str) -> str:
    """The line for a libmblob without something that the package needs."""
    header = (library_dir() / SONAME).exists()
    place = _loaded()
    if not place or not header:
        return f"this mblob and its libmblob do not fit together: {text}; install mblob again"
    try:
        version = ctypes.CDLL(place).mblob_version
        version.restype = ctypes.c_char_p
        found = version().decode()
    except AttributeError:  # which has no function for its version
        found = "of a release before 0.1.0"
    return _older(_own_version(), found)


def _own_version() -> str:
    return str(sys.modules["mblob"].__version__)


def _loaded() -> str:
    """The file that this process has loaded as libmblob, "" for none."""
    try:
        lines = Path("/proc/self/maps").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    found = (line.split(None, 5)[-1] for line in lines)
    return next((path for path in found if Path(path).name.startswith("libmblob.so")), "")


def _built_for_another() -> str | None:
    """The line for a package that was not compiled, or for another Python; None if it was for
    this."""
    names = sorted(p.name for p in library_dir().parent.glob("_call.*.so"))
    fits = any(name == f"_call{suffix}" for name in names for suffix in EXTENSION_SUFFIXES)
    if fits and (library_dir() / SONAME).is_file():
        return None
    if fits or not names:
        return (
            "the compiled part of mblob is missing; install mblob again, in a clone by `make env`"
        )
    here = _spelled(str(sysconfig.get_config_var("EXT_SUFFIX")))
    there = ", ".join(_spelled(name.removeprefix("_call")) for name in names)
    return f"this mblob was built for {there}, and this is {here}; install mblob with the pip of this Python"


def _spelled(suffix: str) -> str:
    """ ".cpython-311-x86_64-linux-gnu.so" as people say it."""
    found = re.match(r"\.cpython-(\d)(\d+)-([\w-]+)\.so", suffix)
    return f"CPython {found[1]}.{found[2]} on {found[3]}" if found else suffix
