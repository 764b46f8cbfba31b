"""Completion by Tab behind `mblob-pack`, through argcomplete (the extra `cli`), and the verb that
prints the script for a shell. No code of a library runs, and no name that a shell would expand is
offered.
"""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mblob.cli.inputs import OPTION_OF
from mblob.cli.report import UsageError
from mblob.cli.verbs import VERBS
from mblob.errors import MblobError
from mblob.inspect.library import open_library
from mblob.source_suffixes import FORMAT_OF

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mblob.inspect.library import Library

    Completer = Callable[..., Iterable[str]]

NAME = "completion"
SHELLS = ("bash", "zsh", "fish")
INSTALL = "pip install 'mblob[cli]'"
NAMES_LIMIT = 2000

# Endings of the files that a value may name, by the value's metavar, or by "--option metavar" where
# that decides.
_LIBRARIES = ("so", "so.*", "o", "a", "tar", "tar.gz", "dylib", "dll")
_SOURCES = tuple(suffix[1:] for suffix in FORMAT_OF)


def _given(*options: str) -> tuple[str, ...]:
    """Endings of the files that options take."""
    return tuple(suffix[1:] for suffix, option in OPTION_OF.items() if option in options)


_ENDINGS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("FILE", "A", "B", "OLD", "NEW", "LIBRARY", "OUT", "deploy.so"), _LIBRARIES),
    "LIB": ("so", "so.*"), "OUT.npz": ("npz",), "OUT.html": ("html",),
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
        description=f"{summary}; needs argcomplete: {INSTALL}.",
        epilog="example: mblob-pack completion bash > mblob-pack.bash",
    )
    parser.add_argument(
        "shell", metavar="SHELL", choices=SHELLS, help=f"the shell: {', '.join(SHELLS)}"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the script.

    Raises:
        UsageError: argcomplete is not installed.
    """
    try:
        from argcomplete.shell_integration import shellcode
    except ImportError:
        raise UsageError("completion: argcomplete is not installed", hint=INSTALL) from None
    print(shellcode(["mblob-pack"], shell=args.shell), end="")
    return 0


def answer(parser: argparse.ArgumentParser) -> None:
    """Answer the shell that asks, and end the process; silently without argcomplete."""
    try:
        import argcomplete
    except ImportError:
        os._exit(1)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for verb in action.choices.values():
                for argument in verb._actions:
                    if argument.choices is None:
                        vars(argument)["completer"] = _completer(argument)
    argcomplete.autocomplete(parser, always_complete_options=False)


def _completer(action: argparse.Action) -> Completer:
    """The completer that offers the values of an argument."""
    from argcomplete.completers import DirectoriesCompleter, FilesCompleter

    metavar = str(action.metavar)
    by_option = [f"{name} {metavar}" for name in action.option_strings]
    endings = next((_ENDINGS[name] for name in (*by_option, metavar) if name in _ENDINGS), None)
    if endings is not None:
        return FilesCompleter(endings)
    if metavar == "DIR":
        return DirectoriesCompleter()
    arrays, tensors = FilesCompleter(("npy", "npz")), FilesCompleter(("npy", "safetensors"))
    inputs = FilesCompleter((*_SOURCES, *_given("object", "weights", "manifest")))
    offered: dict[str, Completer] = {
        "KEY=FILE": _Pairs(None, FilesCompleter()),
        "INPUT": _Pairs(None, FilesCompleter(), alone=inputs),
        "N|KEY": _names_of(_entries),
        "N|KEY=NEW": _Pairs(_entries, FilesCompleter()),
        "[NAME=]NEW": _Pairs(_tensors, tensors, alone=tensors),
        "NAME": _names_of(_tensors) if "--tensor" in action.option_strings else _nothing,
        "FUNC ARG...": lambda prefix, parsed_args, **more: (
            arrays(prefix) if parsed_args.words else _names_of(_functions)(prefix, parsed_args)
        ),
    }
    return offered.get(metavar, _nothing)


def _nothing(**_: object) -> tuple[str, ...]:
    return ()


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

    def __call__(self, prefix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
        name, equals, file = prefix.partition("=")
        if equals:
            return [f"{name}={path}" for path in self._files(file)]
        found = (
            []
            if self._names is None
            else [f"{n}=" for n in _names_of(self._names)(prefix, parsed_args)]
        )
        return [*found, *(self._alone(prefix) if self._alone else ())]


def _names_of(names: Callable[[Library], Iterable[str]]) -> Completer:
    """Offers names in the library of the command line: those that mean nothing but themselves to
    every shell."""

    def offer(prefix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
        try:
            file = Path(parsed_args.file or "").expanduser()
            with open_library(file, verify="off", partial=True) as library:
                found = sorted(set(names(library)))[:NAMES_LIMIT]
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
