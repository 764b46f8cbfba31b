"""`mblob-pack`: parse the command line, run one verb, turn every failure into one line and an exit code.

Exit codes: 0 fine; 1 a problem in the file or an error of a kernel; 2 usage; 3 not a model library; 4 the
compiler or linker failed; 5 I/O; 6 incompatible with this machine; 7 digest mismatch; 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from types import FrameType
from typing import NoReturn

from mblob.cli import build, doctor, extract, inspect, run
from mblob.cli.report import PROGRAM, UsageError, exit_code, print_error

VERBS = (build, inspect, extract, run, doctor)
INTERRUPTED = 130


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors look like all our others."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint=f"{self.prog} --help shows what it takes")


class VersionAction(argparse.Action):
    """Print the version. Finding it takes imports that only this option needs."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from mblob.cli.report import version

        print(f"{PROGRAM} {version()}")
        parser.exit(0)


def make_parser() -> Parser:
    """The parser of the whole command line."""
    parser = Parser(
        prog=PROGRAM,
        description="Pack kernels, graphs and weights into one shared library, look into it, run it.",
        epilog=f"{PROGRAM} VERB --help has an example of each verb.",
    )
    parser.add_argument("--version", action=VersionAction, nargs=0, help="print the version and exit")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser)
    for verb in VERBS:
        verb.configure(verbs)
    return parser


def split_cflags(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """What stands before the first `--`, and what after it: for `build`, flags of the compiler.

    For the other verbs `--` ends the options, as everywhere, and all stays together.
    """
    words = list(argv)
    if words[:1] != [build.NAME] or "--" not in words:
        return words, []
    at = words.index("--")
    return words[:at], words[at + 1 :]


def main(argv: Sequence[str] | None = None) -> int:
    """Run `mblob-pack`.

    Args:
        argv: the arguments without the program's name; those of the process by default.

    Returns:
        The exit code.
    """
    signal.signal(signal.SIGTERM, _terminate)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
        signal.signal(signal.SIGHUP, _terminate)
    if sys.stdout is None or sys.stderr is None:  # closed by the caller, as `>&-` does
        _replace_closed_streams()
    if isinstance(sys.stdout, TextIOWrapper):  # a terminal without Unicode must not end a listing
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        words, cflags = split_cflags(sys.argv[1:] if argv is None else argv)
        args = make_parser().parse_args(words)
        args.cflags = cflags
        code: int = args.run(args)
        _flush()
    except BrokenPipeError:  # the reader of our output left, as in `| head`; what it wanted, it has
        _discard_output()
        return 0
    except KeyboardInterrupt:
        print(f"{PROGRAM}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        expected = exit_code(error)
        if expected is None:  # a bug of ours: the traceback is the message
            raise
        print_error(error)
        try:
            sys.stdout.flush()
        except OSError:
            _discard_output()
        return expected
    return code


def _flush() -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output") from None


def _discard_output() -> None:
    """What cannot be written must not fail again when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _replace_closed_streams() -> None:
    """Let writing to a closed stdout be the I/O error that it is; what goes to a closed stderr is lost.

    The descriptors are taken, so that no file opened later gets the number of a standard stream.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if number < 2 else os.O_WRONLY)  # the lowest free number: this one
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - for the life of the process
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115


def _terminate(signum: int, _frame: FrameType | None) -> NoReturn:
    """Leave through the `finally` clauses, which remove temporary files."""
    raise SystemExit(128 + signum)


if __name__ == "__main__":
    sys.exit(main())
