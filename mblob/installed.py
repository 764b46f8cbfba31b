"""The folders of the installed package for C programs, and the options of a compiler."""

from __future__ import annotations

import shlex
from functools import cache
from pathlib import Path

from mblob.errors import ToolchainError, needs_package

SONAME = "libmblob.so.0"


@cache
def include_dir() -> Path:
    """The folder of `mblob.h`.

    An installed package carries it as `mblob/csrc/include`, a checkout has it beside the package.

    Raises:
        ToolchainError: the installation is incomplete.
    """
    package = Path(__file__).resolve().parent
    for root in (package, package.parent):
        found = root / "csrc" / "include"
        if (found / "mblob.h").is_file():
            return found
    raise ToolchainError(
        f"the C headers of mblob are missing: {package}/csrc/include/mblob.h; install mblob again"
    )


def library_dir() -> Path:
    """The folder of libmblob. In a checkout it is that of the sources: `loader/_lib`."""
    return (Path(__file__).resolve().parent / "loader").resolve() / "_lib"


def get_include() -> str:
    """The folder of `mblob.h`: pass it to a C compiler with `-I`.

    Raises:
        ToolchainError: the installation is incomplete.
    """
    return str(include_dir())


def get_library_dir() -> str:
    """The folder of `libmblob.so`, for a linker, and of `libmblob.a`, for programs without shared
    libraries (with `mblob[pack]`). Programs that link `-lmblob` also need `-Wl,-rpath,` and this
    folder.

    Raises:
        ToolchainError: the installation is incomplete.
    """
    folder = library_dir()
    for name in (SONAME, "libmblob.so"):
        if not (folder / name).is_file():
            raise ToolchainError(
                f"the C library of mblob is missing: {folder / name}; install mblob again"
            )
    return str(folder)


def get_amalgamation() -> str:
    """The path of `mblob.c`: libmblob as one C file, for programs and libraries that contain the
    runtime (docs/howto/one_c_file.md). Its header is that of `get_include`.

    Raises:
        IncompatibleError: `mblob[pack]` is not installed.
    """
    return _source("mblob.c")


def get_plugin_sources() -> str:
    """The path of `mblob-plugins.c`: the plug-ins that come with mblob, as one C file.

    Raises:
        IncompatibleError: `mblob[pack]` is not installed.
    """
    return _source("mblob-plugins.c")


def _source(name: str) -> str:
    path = library_dir() / name
    if not path.is_file():
        raise needs_package(name, "mblob-packager")
    return str(path)


def cmake_dir() -> str:
    """The folder of `mblobConfig.cmake`, for CMake: `-Dmblob_DIR=` and this."""
    return str(Path(get_library_dir()) / "cmake" / "mblob")


def cflags() -> str:
    """Options that compile a program with `mblob.h`, quoted for a shell."""
    return f"-I{_quoted(get_include())}"


def libs() -> str:
    """Options that link a program with libmblob, which it finds when it runs, quoted for a
    shell."""
    folder = _quoted(get_library_dir())
    return f"-L{folder} -Wl,-rpath,{folder} -lmblob"


def _quoted(folder: str) -> str:
    return shlex.quote(folder)
