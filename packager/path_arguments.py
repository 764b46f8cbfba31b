"""The arguments that callers hand over as "a path or the thing itself", told apart in one place;
and as JSON. Outputs, which are none of the inputs, and folders for intermediate files."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import disk_usage
from typing import Any, TypeVar

from mblob import arguments
from mblob.bytes.wire import KEY_LIMIT
from mblob.errors import ArgumentError
from mblob.format.type_keys import RESERVED, TAKEN
from mblob.module import Module
from mblob.packager.errors import BuildError, BuildTypeError, refused
from mblob.source_suffixes import SOURCES
from mblob.temporary import LEAST_SPACE, temporary_folder

T = TypeVar("T")


def checked(check: Callable[..., T], *args: Any) -> T:
    """The result of a check of `mblob.arguments`.

    Raises:
        BuildError: it refuses the argument.
    """
    try:
        return check(*args)
    except ArgumentError as error:
        raise refused(error) from None


def checked_path(value: Any, who: str) -> str:
    """`value` as a path that a file can have.

    Raises:
        BuildError: it is none.
    """
    return checked(arguments.path, value, who)


def path_or_text(given: str | os.PathLike[str], who: str) -> Path | str:
    """Tell a path from a source text.

    A path-like object is a path. A string is one if a file of that name exists, or if it looks like
    the name of a file: one line, a suffix at its end, no comment, none of the characters that code
    has.

    Raises:
        FileNotFoundError, IsADirectoryError: a path without a file.
        BuildError: a text with half of a surrogate pair.
    """
    if isinstance(given, os.PathLike):
        return existing_file(Path(given), who)
    if not isinstance(given, str):
        several = "; make one module of each file" if isinstance(given, (list, tuple)) else ""
        raise BuildTypeError(
            f"{who}: expected a path or a source text, found {type(given).__name__}{several}"
        )
    if _is_path(given):
        return existing_file(Path(given), who)
    try:
        given.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        raise BuildError(
            f"{who}: the source text has half of a surrogate pair, which is no character"
        ) from None
    return given


def refuse_text(given: Any, who: str, constructor: str) -> None:
    """Refuse a source text, the bytes of a file or a module where only paths are taken.

    Args:
        constructor: of modules, which takes them.

    Raises:
        BuildTypeError: naming it.
    """
    if isinstance(given, str) and (_is_path(given) or not re.search(r'[;{}()#"\n]', given)):
        return
    if isinstance(given, (str, bytes, bytearray, memoryview)):
        kind = "a source text" if isinstance(given, str) else type(given).__name__
        raise BuildTypeError(
            f"{who}: expected the path of a file, found {kind}; modules=[mblob.{constructor}(...)] adds it"
        )
    if isinstance(given, Module):
        raise BuildTypeError(
            f"{who}: expected the path of a file, found a Module; modules= takes modules"
        )


def _is_path(given: str) -> bool:
    one_line = given and "\n" not in given and "\0" not in given and len(given) < 4096
    return bool(one_line and (_exists(given) or re.fullmatch(_FILE_NAME, given)))


_FILE_NAME = r'(?!\s*/[/*])[^;{}()#"]*\.[A-Za-z][\w+]*'


def _exists(name: str) -> bool:
    """True if there is anything of that name; False for a name that no file can have."""
    try:
        return Path(name).exists()
    except OSError:
        return False


def existing_file(path: Path, who: str) -> Path:
    """`path`, if there is a regular file. A pipe or a device is none: it is read twice, or has no
    end.

    Raises:
        FileNotFoundError, IsADirectoryError, OSError: there is none.
        ValueError: no file can have that path.
    """
    checked_path(path, who)
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, f"{who}: no such file", str(path)) from None
    except OSError as exc:
        raise OSError(exc.errno, f"{who}: {exc.strerror}", str(path)) from None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, f"{who}: a folder, expected a file", str(path))
    if not stat.S_ISREG(mode):
        kinds = ((stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
        kind = next((name for test, name in kinds if test(mode)), "a device")
        raise OSError(
            errno.EINVAL,
            f"{who}: {kind}, expected a regular file; write what it gives to one",
            str(path),
        )
    return path


@contextmanager
def payload_or_path(given: Any) -> Iterator[None]:
    """Let the error about a missing file say how a text is given that is the payload itself."""
    try:
        yield
    except FileNotFoundError as error:
        if isinstance(given, str):
            error.strerror = f"{error.strerror} (give a text that is itself the payload as bytes)"
        raise


def as_json(value: Any, what: str) -> str:
    """The JSON text of a value that a caller gave; `what` begins the errors about it.

    Raises:
        BuildError: it has something that JSON has not, such as NaN.
    """
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except TypeError as exc:
        raise BuildTypeError(f"{what}: no JSON: {exc}") from None
    except (ValueError, RecursionError) as exc:
        raise BuildError(f"{what}: no JSON: {exc}") from None


TAKEN_KEYS = f"mblob and TVM have {', '.join(TAKEN)}"  # the end of an error


def check_key(key: str, who: str) -> str:
    """A type key that a module may have.

    Raises:
        BuildError: reserved, empty, too long or with a NUL.
    """
    if not isinstance(key, str):
        raise BuildTypeError(f"{who}: expected a type key as text, found {type(key).__name__}")
    if key in RESERVED:
        raise BuildError(
            f"{who}: type key {key!r} is the format's own; choose another: {TAKEN_KEYS}"
        )
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        raise BuildError(f"{who}: type key {key!r} is not valid Unicode") from None
    if "\0" in key:
        raise BuildError(f"{who}: type key {key!r} has a NUL in it, which no key may have")
    if not 1 <= size <= KEY_LIMIT:
        raise BuildError(f"{who}: a type key has 1 to {KEY_LIMIT} bytes, found {size}")
    return key


# -- outputs, and folders for intermediate files ---------------------------------------------------


def check_output(output: Path, inputs: Iterable[tuple[str, Path]]) -> None:
    """Refuse an output that is one of the inputs: by the name it has in the end, or by another link
    to the file.

    Raises:
        BuildError: naming the input.
    """
    if not output.exists():
        return
    for what, path in inputs:
        # a missing input is for those to report who read it
        if path.exists() and path.samefile(output):
            raise BuildError(
                f"{output}: the output is also {what} ({path}), which would be lost; name another output"
            )


@contextmanager
def workspace(folder: str | os.PathLike[str] | None) -> Iterator[Path]:
    """A folder for intermediate files: the caller's, which is kept, or a temporary one, which is
    removed."""
    if folder is not None:
        path = Path(checked_path(folder, "workspace_dir")).absolute()
        path.mkdir(parents=True, exist_ok=True)
        yield path
        return
    with temporary_folder() as made:
        try:
            yield made
        except OSError as exc:
            full = exc.errno in (errno.ENOSPC, errno.EDQUOT) and disk_usage(made).free < LEAST_SPACE
            if full and exc.filename is None:
                what = f"temporary files cannot be written: {exc.strerror}; set TMPDIR to a folder with more room"
                raise OSError(exc.errno, what, str(made.parent)) from exc
            raise


# -- the output of an export -----------------------------------------------------------------------


def output_path(file_name: Any, by_caller: bool, system_lib: bool) -> Path:
    """The path of an output, whose suffix says what it is.

    Args:
        by_caller: the caller's `fcompile` writes it.

    Raises:
        BuildError: a suffix that such an output does not have.
    """
    path = Path(checked_path(file_name, "export_library: file_name"))
    if not by_caller:
        _check_suffix(path, system_lib)
    return path


# What people ask for that is neither a library nor a tar of objects; a linker would write a library
# of that name.
_COMPILED = (
    ".o", ".a", ".obj", ".cubin", ".fatbin", ".hsaco", ".spv", ".metallib", ".clbin", ".xclbin", ".awsxclbin", ".aocx",
)  # fmt: skip
_PACKED = (".gz", ".bz2", ".xz", ".zst", ".tgz", ".zip")
_DATA = (".npy", ".npz", ".safetensors", ".params", ".json", ".toml", ".txt", ".py", ".html")
_OTHER_FILES = (*SOURCES, *_COMPILED, *_PACKED, *_DATA)


STATIC_SUFFIXES = (".o", ".a", ".tar")  # of system libraries


def _check_suffix(path: Path, system_lib: bool) -> None:
    if system_lib:
        if path.suffix not in STATIC_SUFFIXES:
            raise BuildError(
                f"{path}: expected .o (one object), .a (an archive) or .tar (objects) for a system library, which is"
                " linked into a program"
            )
    elif path.suffix in _OTHER_FILES:
        name = ".tar" + path.suffix if path.stem.endswith(".tar") else path.suffix
        raise BuildError(
            f"{path}: expected a name that ends in .so (a shared library) or .tar (its objects), found {name}"
            + ("; for static linking add system_lib=True" if path.suffix in (".o", ".a") else "")
        )
