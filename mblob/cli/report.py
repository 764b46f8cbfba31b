"""The common parts of all verbs: usage errors, exit codes, the error line, sizes for people."""

from __future__ import annotations

import json
import re
import shlex
import sys
from typing import TextIO

from mblob import errors, texts
from mblob.errors import KernelError, MblobError, ToolchainError

PROGRAM = "mblob-pack"
USAGE = 2
IO = 5
INCOMPATIBLE = 6
EXIT_CODES = (
    (0, "fine"),
    (1, "a problem in the file, or an error of a kernel"),
    (2, "usage"),
    (3, "not a model library"),
    (4, "the compiler or linker failed; its output is shown"),
    (5, "I/O"),
    (6, "incompatible with this machine"),
    (7, "digest mismatch"),
    (130, "interrupted"),
)
FIRST_LINES, LAST_LINES = 60, 20  # of what a failed tool printed
LINE_LIMIT = 2000  # characters; a command line of a large build is longer


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
    if isinstance(error, MemoryError) or _is_lack_of_threads(error):
        return INCOMPATIBLE
    return None


def _is_lack_of_threads(error: BaseException) -> bool:
    """True if the system gave no thread, for a limit of processes or of memory: Python has no type
    for that."""
    return isinstance(error, RuntimeError) and str(error).startswith("can't start new thread")


def print_error(error: BaseException) -> None:
    """Print one `error:` line on stderr; then what a failed tool ran and said, and the hint if
    any."""
    if isinstance(error, OSError) and error.filename is not None:
        name = error.filename if error.filename != "" else "'' (an empty path)"
        text = f"{name}: {error.strerror}"
    elif isinstance(error, OSError) and error.strerror:
        text = error.strerror
    elif isinstance(error, MemoryError):
        text = str(error) or texts.NO_MEMORY
    else:
        text = str(error)
    hint = getattr(error, "hint", "")
    if hint and text.endswith(hint):  # where the text stands alone it says what to do itself
        text = text[: -len(hint)].rstrip("; ")
    if isinstance(error, ToolchainError):
        text = _without(text, error.output)
    if isinstance(error, (MblobError, OSError)) and not isinstance(error, KernelError):
        text, hint = in_options(text), in_options(hint)
    print(f"{PROGRAM}: error: {errors.one_line(one_line(text))}", file=sys.stderr)
    if isinstance(error, ToolchainError):
        if error.command:
            print(f"command: {one_line(shlex.join(error.command))}", file=sys.stderr)
        if error.output:
            print(for_terminal(shorten(error.output.rstrip("\n"))), file=sys.stderr)
    if hint:
        print(f"hint: {errors.one_line(one_line(hint))}", file=sys.stderr)


# Arguments of Python, as errors name them, and what the command line has for them.
_ARGUMENTS = {
    "alignment": "--align", "changes": "--blob", "entries": "--entry", "functions": "--function",
    "index": "--no-index", "reuse": "--no-reuse", "system_lib": "--system-lib", "options": "--",
    "shapes": "--shape", "tensors": "--tensors", "verify": "--level",
    **{name: f"--{name}" for name in ("carry", "cc", "dialect", "digest", "embed", "force", "format", "graph",
                                      "name", "assume", "order", "packed", "params", "prefix", "replace", "target",
                                      "standalone", "header", "weights")},
}  # fmt: skip
# Functions that make modules, and the options that call them.
_MODULES = {"csource_module": "--kernel", "static_library": "--object", "blob_module": "--blob KEY=FILE",
            "safetensors_module": "--weights", "graph_executor_factory": "--graph"}  # fmt: skip
# Functions at the start of a text, which the command line leaves out.
_FUNCTIONS = (
    r"\b(csource_module|static_library|blob_module|safetensors_module|graph_executor_factory|export_library|load_module"
    r"|add|swap|extract|convert|device|mblob\.open|functions): (?!\d)"
)


def in_options(text: str) -> str:
    """A text of the Python face in the words of the command line: `cc=` becomes `--cc`."""

    def option(found: re.Match[str]) -> str:
        value = (found[2] or "").strip("[]{}").replace("': '", "=").strip("'\"")
        word = _ARGUMENTS[found[1]]
        if word == "--":
            return f"-- {value or 'CFLAGS'}"
        if not value or value in ("True", "False"):
            return word
        return f"{word} '{value}'" if re.search(r"[ (\[]", value) else f"{word} {value}"

    # The patterns are compiled here: most runs have no error.
    for_python = "|".join(re.escape(row).replace("%s", "[^()]*?") for row in texts.FOR_PYTHON)
    text = re.sub(_FUNCTIONS, "", re.sub(for_python, "", text))
    made = rf"(?<![-\w.])(?<!, )({'|'.join(_MODULES)})(?![\w(])"  # in no list, as of type keys
    text = re.sub(made, lambda found: _MODULES[found[1]], text)
    text = re.sub(r"register_loader\('?([^',]*)'?, layout=\.\.\.\)", r"--layout \1=FORM", text)
    text = re.sub(r"mblob\.add\('([^']*)', \.\.\.\)", rf"{PROGRAM} add \1 ...", text)
    names = "|".join(_ARGUMENTS)
    argument = (
        rf"(?<![-\w.])({names})=(True\b|False\b|'[^']*'|\x22[^\x22]*\x22|\[[^]]*\]|\{{[^}}]*\}})?"
    )
    return re.sub(argument, option, text)


def _without(text: str, output: str) -> str:
    """The text of a failed tool without what its output, which is printed below, says again."""
    start = text.find(": ")
    while start >= 0:
        if text[start + 2 :].strip() and text[start + 2 :].strip() in one_line(output):
            return text[:start]
        start = text.find(": ", start + 1)
    return text


def print_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print one `warning:` line on stderr, in place of `warnings.showwarning`."""
    print(f"{PROGRAM}: warning: {one_line(in_options(str(message)))}", file=sys.stderr)


def for_terminal(text: str) -> str:
    """`text` of a tool or a file, which may have several lines: what a terminal would obey is
    written as an escape.

    Line ends and tabs stay, and what is readable in any language; `\\x1b[2J` becomes visible.
    """
    return "".join(
        c if c.isprintable() or c in "\n\t" else _escaped(c) for c in text.replace("\r\n", "\n")
    )


def one_line(text: str) -> str:
    """The same in one line, so that no input can forge a second one: line ends and tabs become
    spaces."""
    if text.isprintable():  # nearly all are, and listings have hundreds of thousands
        return text.strip()
    return "".join(
        c if c.isprintable() else " " if c.isspace() else _escaped(c) for c in text
    ).strip()


def _escaped(c: str) -> str:
    """One character as Python writes it: `\\x1b`."""
    return c.encode("unicode_escape").decode("ascii")


def shorten(output: str) -> str:
    """The output of a tool; if it is much, its beginning, where the first error is, and its end.

    Lines in between are counted, and the middle of very long lines.
    """
    lines = [_shorten_line(line) for line in output.splitlines()]
    if len(lines) <= FIRST_LINES + LAST_LINES + 1:
        return "\n".join(lines)
    left_out = f"... {len(lines) - FIRST_LINES - LAST_LINES} lines left out ..."
    return "\n".join([*lines[:FIRST_LINES], left_out, *lines[-LAST_LINES:]])


def _shorten_line(line: str) -> str:
    if len(line) <= LINE_LIMIT:
        return line
    half = LINE_LIMIT // 2
    return f"{line[:half]} ... {len(line) - 2 * half} characters left out ... {line[-half:]}"


def print_json(value: object) -> None:
    """Print one JSON value, indented."""
    print(json.dumps(value, indent=2))


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


def printable(line: str) -> str:
    """A line of a text with its indentation, without what a terminal would obey."""
    text = line.expandtabs(4)
    return " " * (len(text) - len(text.lstrip(" "))) + one_line(text)
