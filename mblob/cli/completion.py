"""`mblob-pack completion`: what a shell needs to complete the command line, made from its parsers; and what is in a
library, for the scripts to ask. No code of a library runs, and no name that a shell would expand is given to one.
"""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any

from mblob.cli.report import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mblob.cli.described import Argument
    from mblob.inspect.library import Library

NAME = "completion"
SHELLS = ("bash", "zsh", "fish")
ASKED = ("entries", "functions", "tensors")  # what the scripts ask about a library
PLAIN_NAME = re.compile(r"[A-Za-z0-9_.+:@-]{1,200}")  # names that mean nothing but themselves to a shell
NAMES_LIMIT = 2000
HEAD = "# Completion of mblob-pack for {shell}: made by `mblob-pack completion {shell}`.\n"

# What completes a value: "files" with the endings that it may have (none: any), "folders", or one of ASKED. "named" is
# NAME=FILE: one of ASKED or "" for the name, "alone" where a file without a name is one too, and the endings.
LIBRARIES = ("files", "so", "so.*", "o", "a", "tar", "tar.gz", "dylib", "dll")
KINDS: dict[str, tuple[str, ...]] = {
    "FILE": LIBRARIES, "A": LIBRARIES, "B": LIBRARIES, "OLD": LIBRARIES, "NEW": LIBRARIES, "LIBRARY": LIBRARIES,
    "OUT": LIBRARIES, "DIR": ("folders",), "N|KEY": ("entries",), "FUNC ARG...": ("functions", "npy", "npz"),
    "N|KEY=NEW": ("named", "entries", ""), "[NAME=]NEW": ("named", "tensors", "alone", "npy", "safetensors"),
    "KEY=FILE": ("named", "", ""), "LIB": ("files", "so", "so.*"),
}  # fmt: skip
# Options whose FILE is another one than a library, and names.
KINDS_OF_OPTIONS: dict[str, tuple[str, ...]] = {
    "kernel": ("files", "c", "cc", "cpp", "cxx", "cu", "cl"), "object": ("files", "o", "a"),
    "weights": ("files", "safetensors"), "carry": ("files", "c", "o", "a"), "graph": ("files", "json"),
    "params": ("files", "safetensors", "params"), "tensor": ("tensors",),
}  # fmt: skip


def configure(verbs: Any) -> None:
    """Add the verb to the command line."""
    summary = "print what a shell needs to complete this command line"
    parser = verbs.add_parser(
        NAME,
        help=summary,
        description=f"{summary}; {', '.join(ASKED)} are what the scripts ask about a library.",
        epilog="example: mblob-pack completion bash > mblob-pack.bash",
    )
    parser.add_argument("what", metavar="SHELL", choices=(*SHELLS, *ASKED), help="the shell, or what to list of FILE")
    parser.add_argument("file", metavar="FILE", nargs="?", help=f"library, after {', '.join(ASKED)}")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print a script, or names.

    Raises:
        UsageError: a file too many or too few.
        FormatError: the file cannot be read.
    """
    if (args.what in ASKED) != (args.file is not None):
        raise UsageError(
            f"completion {args.what}: expected {'a FILE' if args.what in ASKED else 'no FILE'}",
            hint="mblob-pack completion bash, or mblob-pack completion entries FILE",
        )
    if args.what in ASKED:
        from mblob.inspect.library import open_library

        with open_library(args.file, verify="off", partial=True) as library:
            for name in names_in(library, args.what):
                print(name)
        return 0
    from mblob.cli import completion_scripts

    print(completion_scripts.SCRIPTS[args.what](), end="")
    return 0


def names_in(library: Library, what: str) -> list[str]:
    """Numbers and type keys of entries, or functions; those that no shell would take for more than names."""
    if what == "entries":
        entries = [e for e in library.entries[:NAMES_LIMIT] if e.offset is not None]
        found = [str(e.index) for e in entries] + sorted({e.type_key for e in entries})
    elif what == "tensors":
        found = sorted(set(_tensors(library)))[:NAMES_LIMIT]
    else:
        found = library.packed_functions[:NAMES_LIMIT]
    return [name for name in found if PLAIN_NAME.fullmatch(name) and not name.startswith("-")]


def _tensors(library: Library) -> Iterator[str]:
    for entry in library.entries[:NAMES_LIMIT]:
        yield from (tensor.name for tensor in entry.content.tensors)


def kind_of(argument: Argument) -> tuple[str, ...]:
    """What completes the value of an argument: a kind and its endings, "words" and choices, () if nothing does."""
    if argument.choices:
        return ("words", *argument.choices)
    if argument.names and argument.metavar.endswith(("FILE", "NAME")) and argument.dest in KINDS_OF_OPTIONS:
        return KINDS_OF_OPTIONS[argument.dest]
    if argument.metavar in KINDS:
        return KINDS[argument.metavar]
    ending = re.fullmatch(r"[A-Za-z]+\.([a-z0-9]+)", argument.metavar)
    if ending:  # a file by its usual name: deploy.so, OUT.npz
        return LIBRARIES if ending[1] == "so" else ("files", ending[1])
    return ("files",) if "FILE" in argument.metavar else ()
