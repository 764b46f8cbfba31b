"""Completion by Tab behind `mblob-pack`: the verb that prints the script for a shell, and the answer to
that script. No code of a library runs, and no name of a library that a shell would expand is offered.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from mblob.cli.inputs import OPTION_OF
from mblob.cli.verbs import COMPILING, VERBS
from mblob.errors import MblobError
from mblob.inspect.library import Library, open_library
from mblob.source_suffixes import FORMAT_OF

NAME = "completion"
# Set by the scripts below, to the name of the shell; COMP_LINE is the line up to the cursor.
VARIABLE = "_MBLOB_COMPLETE"
NAMES_LIMIT = 2000
_SCRIPTS = {
    "bash": """\
_mblob_pack() {
  mapfile -t COMPREPLY < <(_MBLOB_COMPLETE=bash COMP_LINE="${COMP_LINE:0:COMP_POINT}" \\
    COMP_WORDBREAKS="$COMP_WORDBREAKS" "$1" 2>/dev/null)
  if [[ ${COMPREPLY-} == *[=/] ]]; then compopt -o nospace 2>/dev/null; fi
}
complete -o bashdefault -o default -F _mblob_pack mblob-pack
""",
    "zsh": """\
#compdef mblob-pack
_mblob_pack() {
  local -a found
  found=(${(f)"$(_MBLOB_COMPLETE=zsh COMP_LINE="${(j: :)words[1,CURRENT-1]} $QIPREFIX$IPREFIX$PREFIX" \\
    $words[1] 2>/dev/null)"})
  compadd -- ${found:#*[=/]}
  compadd -S '' -- ${(M)found:#*[=/]}
}
if [[ $funcstack[1] == _mblob-pack ]]; then _mblob_pack; else compdef _mblob_pack mblob-pack; fi
""",
    "fish": """\
function __mblob_pack
    set -lx _MBLOB_COMPLETE fish
    set -lx COMP_LINE (commandline -cp | string collect)
    mblob-pack 2>/dev/null
end
complete -c mblob-pack -f -a '(__mblob_pack)'
""",
}
SHELLS = tuple(_SCRIPTS)

# Offers values: of the text before the cursor and the library of the line ("" without one).
Completer = Callable[[str, str], Iterable[str]]

# Endings of the files that a value may name, by the value's metavar, or by "--option metavar" where
# that decides.
_LIBRARIES = ("so", "so.*", "o", "a", "tar", "tar.gz", "dylib", "dll")
_SOURCES = tuple(suffix[1:] for suffix in FORMAT_OF)


def _given(*options: str) -> tuple[str, ...]:
    """Endings of the files that options take."""
    return tuple(suffix[1:] for suffix, option in OPTION_OF.items() if option in options)


_ENDINGS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("FILE", "A", "B", "OLD", "NEW", "LIBRARY", "OUT", "deploy.so"), _LIBRARIES),
    "LIB": ("so", "so.*"), "MODEL": ("onnx",), "OUT.npz": ("npz",), "OUT.html": ("html",),
    "--kernel FILE": _SOURCES, "--object FILE": _given("object"), "--weights FILE": _given("weights"),
    "--carry FILE": (*_SOURCES, "o", "a"), "--graph FILE": ("json",),
    "--params FILE": ("safetensors", "npz", "params"),
    "--order FILE": ("json",),
}  # fmt: skip


def configure(verbs: Any) -> None:
    """Add the verb to the command line."""
    summary = VERBS[NAME]
    parser = verbs.add_parser(
        NAME,
        help=summary,
        description=summary,
        epilog="example: mblob-pack completion bash > mblob-pack.bash",
    )
    parser.add_argument(
        "shell", metavar="SHELL", choices=SHELLS, help=f"the shell: {', '.join(SHELLS)}"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    print(_SCRIPTS[args.shell], end="")
    return 0


def answer(make_parser: Callable[[Sequence[str]], argparse.ArgumentParser]) -> int:
    """Print what the shell that asks may offer, one a line, as the script of that shell takes it.

    Args:
        make_parser: the parser of the command line, with some verbs.
    """
    line = split_line(os.environ.get("COMP_LINE", ""), os.environ.get("COMP_WORDBREAKS", ""))
    verb = next((word for word in line.words[1:] if word in VERBS), None)
    parser = make_parser((verb,) if verb else ())
    if verb is None:
        starts: Iterable[str] = parser._option_string_actions if line.prefix[:1] == "-" else VERBS
    else:
        (chosen,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
        words = line.words[line.words.index(verb) + 1 :]
        starts = _offered(verb, chosen.choices[verb], words, line.prefix)
    found = [word for word in starts if word.startswith(line.prefix) and word.isprintable()]
    if os.environ.get(VARIABLE) == "bash":
        found = [line.as_bash_takes(word) for word in found]
    sys.stdout.buffer.write(b"".join(os.fsencode(f"{word}\n") for word in found))
    return 0


def _offered(
    verb: str, parser: argparse.ArgumentParser, words: Sequence[str], prefix: str
) -> Iterable[str]:
    """The words that may stand behind a verb and `words`."""
    options = parser._option_string_actions
    waiting: argparse.Action | None = None  # the option whose value comes next
    plain: list[str] = []
    for i, word in enumerate(words):
        if waiting is not None:
            waiting = None
        elif word == "--" and verb in COMPILING:  # the compiler's own options
            return ()
        elif word == "--":
            plain += words[i + 1 :]
            break
        elif word.startswith("-") and len(word) > 1:
            action = options.get(word)
            waiting = action if action is not None and action.nargs != 0 else None
        else:
            plain.append(word)
    takers = parser._get_positional_actions()
    library = next((word for action, word in zip(takers, plain) if action.dest == "file"), "")
    if waiting is not None:
        return _values(waiting, plain, prefix, library)
    name, equals, value = prefix.partition("=")
    if equals and name in options:
        return [f"{name}={found}" for found in _values(options[name], plain, value, library)]
    if prefix.startswith("-"):
        return options
    if len(plain) < len(takers):
        return _values(takers[len(plain)], plain, prefix, library)
    return _values(takers[-1], plain, prefix, library) if takers and takers[-1].nargs == "*" else ()


def _values(
    action: argparse.Action, plain: Sequence[str], prefix: str, library: str
) -> Iterable[str]:
    """The values of an argument that begin with `prefix`, and others."""
    if action.choices is not None:
        return [str(choice) for choice in action.choices]
    if action.metavar == "FUNC ARG...":  # a function, then arrays
        of_name = _names_of(_functions) if len(plain) < 2 else _files(("npy", "npz"))
        return of_name(prefix, library)
    return _completer(action)(prefix, library)


def _completer(action: argparse.Action) -> Completer:
    """The completer that offers the values of an argument."""
    metavar = str(action.metavar)
    by_option = [f"{name} {metavar}" for name in action.option_strings]
    endings = next((_ENDINGS[name] for name in (*by_option, metavar) if name in _ENDINGS), None)
    if endings is not None:
        return _files(endings)
    if metavar == "DIR":
        return _files(())
    tensors = _files(("npy", "safetensors"))
    inputs = _files((*_SOURCES, *_given("object", "weights", "manifest")))
    offered: dict[str, Completer] = {
        "KEY=FILE": _Pairs(None, _files(("*",))),
        "INPUT": _Pairs(None, _files(("*",)), alone=inputs),
        "N|KEY": _names_of(_entries),
        "N|KEY=NEW": _Pairs(_entries, _files(("*",))),
        "[NAME=]NEW": _Pairs(_tensors, tensors, alone=tensors),
        "NAME": _names_of(_tensors) if "--tensor" in action.option_strings else _nothing,
    }
    return offered.get(metavar, _nothing)


def _nothing(_prefix: str, _library: str) -> tuple[str, ...]:
    return ()


def _files(endings: tuple[str, ...]) -> Completer:
    """Offers folders, and the files with one of the endings ("*": all)."""

    def offer(prefix: str, _library: str) -> list[str]:
        folder, start = os.path.split(prefix)
        shown = prefix[: len(prefix) - len(start)]
        try:
            with os.scandir(Path(folder or ".").expanduser()) as entries:
                found = [(entry.name, entry.is_dir()) for entry in entries]
        except (OSError, RuntimeError):  # RuntimeError: no home folder
            return []
        return [
            f"{shown}{name}{'/' if is_folder else ''}"
            for name, is_folder in sorted(found)
            if name.startswith(start) and (start.startswith(".") or not name.startswith("."))
            if is_folder or any(e == "*" or fnmatchcase(name, f"*.{e}") for e in endings)
        ]

    return offer


class _Pairs:
    """Offers `NAME=FILE`, and the files that may stand `alone`."""

    def __init__(
        self,
        names: Callable[[Library], Iterable[str]] | None,
        files: Completer,
        *,
        alone: Completer | None = None,
    ) -> None:
        self._names, self._files, self._alone = names, files, alone

    def __call__(self, prefix: str, library: str) -> list[str]:
        name, equals, file = prefix.partition("=")
        if equals:
            return [f"{name}={path}" for path in self._files(file, library)]
        names = [] if self._names is None else _names_of(self._names)(prefix, library)
        return [*(f"{n}=" for n in names), *(self._alone(prefix, library) if self._alone else ())]


def _names_of(names: Callable[[Library], Iterable[str]]) -> Completer:
    """Offers names in the library of the command line: those that mean nothing but themselves to
    every shell."""

    def offer(_prefix: str, library: str) -> list[str]:
        try:
            with open_library(Path(library).expanduser(), verify="off", partial=True) as opened:
                found = sorted(set(names(opened)))[:NAMES_LIMIT]
        except (MblobError, OSError, RuntimeError):  # no library: nothing to offer
            return []
        return [
            name
            for name in found
            if re.fullmatch(r"[A-Za-z0-9_.+:@][A-Za-z0-9_.+:@-]{0,199}", name)
        ]

    return offer


def _entries(library: Library) -> Iterator[str]:
    for entry in library.entries[:NAMES_LIMIT]:
        if entry.offset is not None:
            yield from (str(entry.index), entry.type_key)


def _tensors(library: Library) -> Iterator[str]:
    for entry in library.entries[:NAMES_LIMIT]:
        yield from (tensor.name for tensor in entry.content.tensors)


def _functions(library: Library) -> Iterable[str]:
    return library.packed_functions


# -- the line that is typed, up to the cursor, as words ----------------------------------------------

_SAFE = re.compile(r"([^\w@%+=:,./~-])", re.ASCII)


@dataclass(frozen=True)
class Typed:
    """A line as it is typed.

    Attributes:
        words: those before the one at the cursor, without quotes.
        prefix: the word at the cursor, without quotes; "" behind a space.
        kept: how many characters of `prefix` stay as they are. bash replaces what comes behind them:
            the text behind the last character that breaks words, or behind an open quote.
        quote: the quote that is open at the cursor, "" without one.
    """

    words: Sequence[str]
    prefix: str
    kept: int
    quote: str

    def as_bash_takes(self, word: str) -> str:
        """The part of a word that bash puts in, so that it means the word."""
        text = word[self.kept :]
        if self.quote == "'":
            return text.replace("'", "'\\''")
        if self.quote:
            return re.sub(r'([\\"$`])', r"\\\1", text)
        return _SAFE.sub(r"\\\1", text)


def split_line(line: str, breaks: str = "") -> Typed:
    """Split a line as POSIX shells do.

    Args:
        line: up to the cursor.
        breaks: the characters that break words for bash's completion, which are no spaces.
    """
    words: list[str] = []
    word, kept, quote = "", 0, ""
    is_word = False  # also of an empty pair of quotes
    at = 0
    while at < len(line):
        c, following = line[at], line[at + 1 : at + 2]
        at += 1
        if quote == "'" and c != quote:
            word += c
        elif c == "\\" and following and (not quote or following in '\\"$`'):
            word += following
            at += 1
            is_word = True
        elif quote and c != quote:
            word += c
        elif c == quote:
            quote = ""
        elif c in "'\"":
            quote, kept, is_word = c, len(word), True
        elif c.isspace():
            if is_word:
                words.append(word)
            word, kept, is_word = "", 0, False
        else:
            word += c
            is_word = True
            if c in breaks:
                kept = len(word)
    return Typed(words, word, kept, quote)
