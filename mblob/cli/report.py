"""What all verbs share: usage errors, exit codes by error, the error line, sizes for people."""

from __future__ import annotations

import shlex
import sys

from mblob.errors import MblobError, ToolchainError

TYPE_CHECKING = False  # importing `typing` takes longer than everything else here
if TYPE_CHECKING:
    from typing import TextIO

PROGRAM = "mblob-pack"
USAGE = 2
IO = 5


class UsageError(Exception):
    """The command line asks for something that cannot be.

    Attributes:
        hint: what to do instead, "" when the message says it.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def exit_code(error: BaseException) -> int | None:
    """The exit code for an error, None for one that no input should cause."""
    if isinstance(error, MblobError):
        return error.exit_code
    if isinstance(error, UsageError):
        return USAGE
    if isinstance(error, OSError):
        return IO
    return None


def print_error(error: BaseException) -> None:
    """Print one `error:` line on stderr; then what a failed tool ran and said, and the hint if any."""
    if isinstance(error, OSError) and error.filename is not None:
        text = f"{error.filename}: {error.strerror}"
    elif isinstance(error, OSError) and error.strerror:
        text = error.strerror
    else:
        text = str(error)
    hint = getattr(error, "hint", "")
    if hint and text.endswith(hint):  # where the text stands alone it says what to do itself
        text = text[: -len(hint)].rstrip("; ")
    print(f"{PROGRAM}: error: {one_line(text)}", file=sys.stderr)
    if isinstance(error, ToolchainError):
        if error.command:
            print(f"command: {shlex.join(error.command)}", file=sys.stderr)
        if error.output:
            print(error.output.rstrip("\n"), file=sys.stderr)
    if hint:
        print(f"hint: {one_line(hint)}", file=sys.stderr)


def print_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int,
    file: TextIO | None = None, line: str | None = None,
) -> None:  # fmt: skip
    """Print one `warning:` line on stderr, in place of `warnings.showwarning`."""
    print(f"{PROGRAM}: warning: {one_line(str(message))}", file=sys.stderr)


def one_line(text: str) -> str:
    """`text` without line ends and other control characters, so that no input can forge a second line."""
    return "".join(c if c.isprintable() else " " for c in text).strip()


def human_size(size: int) -> str:
    """A number of bytes for people: `218 B`, `67.9 KiB`, `4.0 GiB`."""
    if size < 1024:
        return f"{size} B"
    value = float(size)
    for unit in ("KiB", "MiB", "GiB"):
        value /= 1024
        if value < 1024:
            return f"{value:.1f} {unit}"
    return f"{value / 1024:.1f} TiB"


def version() -> str:
    """The version of mblob."""
    from mblob import __version__

    return __version__
