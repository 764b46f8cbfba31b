"""The command line of `mblob-pack`: parse it, run one verb, turn every failure into one line and an
exit code.

Exit codes: 0 fine; 1 a problem in the file or an error of a kernel; 2 usage; 3 not a model library;
4 the compiler or linker failed; 5 I/O; 6 incompatible with this machine; 7 digest mismatch; 130
interrupted.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn

from mblob.cli.layout import layouts_of
from mblob.cli.report import EXIT_CODES, PROGRAM, UsageError, exit_code, print_error, version
from mblob.cli.verbs import COMPILING, VERBS
from mblob.errors import did_you_mean
from mblob.source_suffixes import WEIGHTS


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors look like all our others."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", Formatter)
        options.setdefault("allow_abbrev", False)
        super().__init__(**options)
        self._given: dict[str, list[str]] = {}  # words of options that are given once

    def _print_message(self, message: str, file: Any = None) -> None:
        (file or sys.stderr).write(message)  # the base passes over what cannot be written

    verbs: Mapping[str, Parser] = {}  # of the whole command line

    def error(self, message: str) -> NoReturn:
        if message == "the following arguments are required: VERB":
            message = f"expected a verb: {', '.join(self.verbs)}"
        message = message.removeprefix("argument ") if message.startswith("argument -") else message
        message = message.replace("expected one argument", "expected a value behind it")
        message = re.sub(r"invalid int value: (.*)", r"expected an integer, found \1", message)
        raise UsageError(message, hint=f"{self.prog} --help shows what it takes")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        names = [str(c) for c in action.choices]
        what = "verb" if action.dest == "verb" else "/".join(action.option_strings) or action.dest
        expected = f"expected one of {', '.join(names)}{did_you_mean(value, names)}"
        self.error(
            f"unknown verb {value!r}; {expected}"
            if what == "verb"
            else f"{what}: found {value!r}, {expected}"
        )

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As its base; an option that nobody knows is answered with the one that was meant."""
        found, rest = self.parse_known_args(args, namespace)
        if rest:
            verb = self.verbs[found.verb]
            words = verb.words
            if words is None or (unknown := verb.unknown(rest)):
                verb.refuse(rest if words is None else unknown)
            getattr(found, words).extend(rest)
        found.command_line = tuple(args)
        return found

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As its base, but if a verb's command line has a word that the verb does not know and
        lacks one that it needs, the error is about the first; so it is about an unknown option in
        front of a verb."""
        try:
            return super().parse_known_args(args, namespace)
        except UsageError:
            name = args[0].partition("=")[0] if self.verbs and args else ""
            if name.startswith("-") and name not in ("--", *self._option_string_actions):
                close = _near("", name, self._option_string_actions)
                self.error(f"no option {name!r}{close}")
            needed = [action for action in self._actions if action.required]
            if self.verbs or not needed:
                raise
            for action in needed:
                action.required = False
            try:
                _, rest = super().parse_known_args(args, None)
            finally:
                for action in needed:
                    action.required = True
            if unknown := self.unknown(rest):
                self.refuse(unknown)
            raise

    def _parse_known_args(self, *args: Any) -> Any:
        self._given = {}
        return super()._parse_known_args(*args)

    def _get_values(self, action: argparse.Action, words: list[str]) -> Any:
        """As its base, but a second value of an option is an error: it would replace the first,
        silently."""
        if action.option_strings and isinstance(action, argparse._StoreAction):
            first = self._given.setdefault(action.dest, words)
            if first is not words:
                name, both = "/".join(action.option_strings), " and ".join([*first, *words])
                raise UsageError(f"{name}: given twice ({both}), expected once")
        return super()._get_values(action, words)

    @property
    def words(self) -> str | None:
        """The attribute for any number of words of a verb; None if the verb takes no such."""
        lists = (a.dest for a in self._actions if a.nargs == "*" and not a.option_strings)
        return next(lists, None)

    def unknown(self, rest: Sequence[str]) -> list[str]:
        """The words among those that argparse leaves which this parser of a verb does not know. It leaves
        words behind an option."""
        is_number = self._negative_number_matcher.match
        known = [w for w in rest if not w.startswith("-") or is_number(w)] if self.words else []
        return [word for word in rest if word not in known]

    def refuse(self, rest: Sequence[str]) -> NoReturn:
        """The error about words that this parser of a verb does not know."""
        verb = self.prog.rpartition(" ")[2]
        option = next((word for word in rest if word.startswith("-")), rest[0])
        name = option.partition("=")[0]
        if not option.startswith("-"):
            text = f"{option!r} is one word too many"
            if verb == "swap":
                raise UsageError(text, hint=_for_swap(option))
            self.error(text)
        close = _near(verb, name, self._option_string_actions)
        if verb in COMPILING and not close and not name.startswith("--"):
            raise UsageError(
                f"{verb}: no option {name!r}",
                hint=f"options of the compiler come behind --: {PROGRAM} {verb} ... -- {option}",
            )
        self.error(f"{verb}: no option {name!r}{close}")


def _for_swap(word: str) -> str:
    """The option by which swap takes a file that was given as a word."""
    name, equals, file = word.rpartition("=")
    suffix = Path(file).suffix.lower()
    as_payload = f"--blob {word if equals else f'KEY={word}'}"
    if suffix not in WEIGHTS:
        return as_payload
    as_tensor = f"--weights {name if equals else Path(file).stem}={file}"
    if suffix != ".npy" and not equals:
        return f"--weights {file}"
    return f"a tensor: {as_tensor}, a payload: {as_payload}" if equals else as_tensor


# Other words for options of a verb.
_MEANT = {
    "build": {
        **dict.fromkeys(("c", "code", "csource", "source", "sources", "src"), "--kernel"),
        **dict.fromkeys(("config", "payload", "payloads"), "--blob"),
        **dict.fromkeys(("prototype", "signature"), "--function"),
    },
    "convert": dict.fromkeys(("to", "format", "into"), "--dialect"),
    "swap": dict.fromkeys(("payload", "payloads", "config"), "--blob")
    | dict.fromkeys(("tensor", "tensors", "params"), "--weights"),
}


def _near(verb: str, name: str, options: Iterable[str]) -> str:
    """The hint in the error for an option that a verb has not: the one that was meant, if any."""
    word = name.lstrip("-").replace("_", "-")
    meant = _MEANT.get(verb, {}).get(word.casefold())
    if meant is not None and name.startswith("--"):
        return f"; did you mean {meant!r}?"
    by_word = {option.lstrip("-"): option for option in options}  # dashes are no likeness
    close = did_you_mean(word, by_word)
    return next(
        (close.replace(repr(w), repr(o)) for w, o in by_word.items() if repr(w) in close), ""
    )


class Formatter(argparse.HelpFormatter):
    """As its base, which imports a module for archives only to ask how wide the terminal is,
    whenever an option is declared."""

    def __init__(
        self, prog: str, indent_increment: int = 2, max_help_position: int = 24, **more: Any
    ) -> None:
        more.setdefault("width", _columns() - 2)
        super().__init__(prog, indent_increment, max_help_position, **more)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """As its base, but an example is one line: whoever copies it runs the whole of it."""
        if text.startswith("example: "):
            commands = re.split(r"; (?=mblob-pack )", text.removeprefix("example: "))
            return "\n".join(f"{indent}example: {command}" for command in commands)
        return super()._fill_text(text, width, indent)


def _columns() -> int:
    """Of the terminal, as `shutil.get_terminal_size` finds them."""
    named = os.environ.get("COLUMNS", "")
    if named.isascii() and named.isdigit() and len(named) < 6 and int(named) > 0:
        return int(named)
    try:
        return os.get_terminal_size(1).columns or 80
    except OSError:
        return 80


class VersionAction(argparse.Action):
    """Print the version. Finding it takes imports that only this option needs."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(f"{PROGRAM} {version()}")
        parser.exit(0)


def make_parser(verbs: Collection[str] = tuple(VERBS)) -> Parser:
    """The parser of the whole command line, or of that of some verbs, whose modules are imported.

    Args:
        verbs: (): all verbs have names and summaries, as for `--help`, and no module is imported.
    """
    codes = ", ".join(
        f"{code} {meaning.partition(';')[0].partition(',')[0]}" for code, meaning in EXIT_CODES
    )
    parser = Parser(
        prog=PROGRAM,
        description="Pack kernels, graphs and weights into one shared library; inspect and run it.",
        epilog=f"{PROGRAM} VERB --help has an example of each verb. Exit codes: {codes}.",
    )
    parser.add_argument(
        "--version", action=VersionAction, nargs=0, help="print the version and exit"
    )
    parsers = parser.add_subparsers(
        dest="verb", metavar="VERB", prog=PROGRAM, required=True, parser_class=Parser
    )
    parser.verbs = parsers.choices
    for verb in verbs:
        import_module(f"mblob.cli.{verb.replace('-', '_')}").configure(parsers)
    if not verbs:
        for verb, summary in VERBS.items():
            parsers.add_parser(verb, help=summary)
    return parser


def _tell_swallowed(error: UsageError, cflags: Sequence[str]) -> None:
    """Let the error about a missing output say that it stands among the options of the compiler."""
    output = next((w for w in cflags if w.startswith(("-o", "--output"))), None)
    if output is not None and "-o/--output" in str(error):
        error.hint = f"words behind -- are options of the compiler; write {output} in front of --"


def split_cflags(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words before the first `--`, and those after it: of verbs that compile, compiler flags.

    For the other verbs `--` ends the options, as everywhere, and all stays together.
    """
    words = list(argv)
    if not words or words[0] not in COMPILING or "--" not in words:
        return words, []
    at = words.index("--")
    return words[:at], words[at + 1 :]


def _run(args: argparse.Namespace) -> int:
    """Run the verb, with the layouts that `--layout` gives (mblob/cli/layout.py)."""
    if not getattr(args, "layout", None):
        return int(args.run(args))
    from mblob.inspect.payload_layouts import temporary_layouts

    with temporary_layouts(layouts_of(args.layout), "--layout"):
        return int(args.run(args))


def execute(argv: Sequence[str]) -> int:
    """Run what a command line asks for.

    Args:
        argv: the arguments without the program's name.

    Returns:
        The exit code.

    Raises:
        KeyboardInterrupt: as it came.
        SystemExit: of `--help` and `--version`.
    """
    if sys.stdout is None or sys.stderr is None:  # closed by the caller, as `>&-` does
        _replace_closed_streams()
    if isinstance(sys.stdout, TextIOWrapper):  # a terminal without Unicode must not end a listing
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        if "_MBLOB_COMPLETE" in os.environ:  # of a shell that asks what Tab should offer
            from mblob.cli.completion import answer

            return answer(make_parser)
        words, cflags = split_cflags(argv)
        try:
            args = make_parser(
                _verb_of(words[:2] if words[:1] == ["--"] else words[:1])
            ).parse_args(words)
        except UsageError as error:
            _tell_swallowed(error, cflags)
            raise
        except SystemExit:  # of --help
            _flush()
            raise
        args.cflags = cflags
        code = _run(args)
        _flush()
    except BrokenPipeError:  # the reader of our output left, as in `| head`; what it wanted, it has
        _discard_output()
        return 0
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


def _verb_of(words: Sequence[str]) -> list[str]:
    """The first word that is a verb, if any."""
    return [word for word in words if word in VERBS][:1]


def _flush() -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output") from None


def _discard_output() -> None:
    """Send standard output to the null device: a failed write must not fail again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _replace_closed_streams() -> None:
    """Let writing to a closed stdout be the I/O error that it is; what goes to a closed stderr is
    lost.

    The descriptors are taken, so that no file opened later gets the number of a standard stream.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # the lowest free number: this one
            os.open(os.devnull, os.O_RDONLY if number < 2 else os.O_WRONLY)
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - for the life of the process
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
