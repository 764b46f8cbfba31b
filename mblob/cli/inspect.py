"""`mblob-pack inspect`: what is in a library. It reads the file and never runs code of it."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from mblob.cli import inspect_text
from mblob.cli.layout import add_layout
from mblob.cli.report import UsageError, in_options, one_line, print_json
from mblob.cli.verbs import VERBS
from mblob.errors import FormatError, did_you_mean
from mblob.inspect.inspect_json import entry_json
from mblob.inspect.library import open_library

if TYPE_CHECKING:
    from mblob.inspect.library import EntryView, Library


NAME = "inspect"


def configure(verbs: Any) -> None:
    """Add the verb to the command line."""
    summary = VERBS[NAME]
    parser = verbs.add_parser(
        NAME,
        help=summary,
        description=f"{summary}. --functions prints one function per line: NAME and its prototype for a packed "
        "function, which load_module and `run` can call, and `plain` and the prototype for a C function, which a "
        "program can call after dlopen. Behind # stands where a prototype comes from.",
        epilog="example: mblob-pack inspect deploy.so --functions | grep -v '^plain '",
    )
    parser.add_argument(
        "file",
        metavar="FILE",
        help="shared library, object, archive or .tar, packed by mblob or by TVM, for any machine (ELF, Mach-O, PE)",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--tree", action="store_true", help="only the tree of modules")
    form.add_argument("--json", action="store_true", help="one JSON object, schema mblob/inspect/1")
    form.add_argument(
        "--html", metavar="OUT.html", help="write one page for a browser, with a map of the bytes"
    )
    form.add_argument("--functions", action="store_true", help="only the functions, one per line")
    parser.add_argument(
        "--entry",
        metavar="N|KEY",
        help="show everything about one module, by index or type key; with --json as JSON",
    )
    parser.add_argument("--prefix", help="select a system library, if the file has several")
    parser.add_argument(
        "--machine",
        help="select a slice of a universal Mach-O file, such as arm64; an error if the file is for another machine",
    )
    add_layout(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print what was asked for.

    Raises:
        FormatError: the file is damaged, or no model library ("not_elf", "no_blob": exit code 3).
        UsageError: no such entry.
    """
    if args.entry is not None and (args.tree or args.functions or args.html is not None):
        raise UsageError(
            "inspect: --entry shows one module, and --tree, --functions and --html all of them"
        )
    with _opened(args) as library:
        library.require_model()
        if args.entry is not None:
            _print_entry(library, one_entry(library, args.entry), args.json)
        elif args.html is not None:
            from mblob.cli.pages import write_page

            write_page(library, args.html)
        elif args.json:
            print_json(library.to_json())
        else:
            for line in inspect_text.lines(
                library, "tree" if args.tree else "functions" if args.functions else ""
            ):
                print(line)
        return report_problems(library)


def _opened(args: argparse.Namespace) -> Library:
    """The library that was asked for.

    Raises:
        UsageError: the file has no such prefix or machine. What `mblob.open` raises.
    """
    try:
        return open_library(args.file, partial=True, prefix=args.prefix, machine=args.machine)
    except FormatError as error:
        if error.code in ("no_prefix", "no_machine"):
            raise UsageError(str(error)) from None
        raise


def _print_entry(library: Library, entry: EntryView, as_json: bool) -> None:
    if as_json:
        print_json(entry_json(entry))
        return
    for line in inspect_text.entry_lines(library, entry):
        print(line)


def one_entry(library: Library, wanted: str) -> EntryView:
    """The entry of an index or a type key.

    Raises:
        UsageError: there is none, or there are several of that key.
    """
    matches = [e for e in library.entries if str(e.index) == wanted] or [
        e for e in library.entries if e.type_key == wanted
    ]
    if not matches:
        known = ", ".join(f"{e.index} ({e.type_key})" for e in library.entries[:20])
        keys = {e.type_key for e in library.entries}
        raise UsageError(
            f"inspect: no entry {wanted!r} in {library.path}; there are {known}{did_you_mean(wanted, keys)}"
        )
    if len(matches) > 1:
        places = ", ".join(str(e.index) for e in matches[:20])
        raise UsageError(
            f"inspect: {len(matches)} entries of type {wanted!r}: choose one of {places}"
        )
    return matches[0]


def report_problems(library: Library) -> int:
    """Say on stderr what kept part of the file from being read; the exit code."""
    problems = [d["message"] for d in library.diagnostics if d["severity"] == "error"]
    for message in problems:
        print(
            f"mblob-pack: error: {one_line(f'{library.path}: {in_options(message)}')}",
            file=sys.stderr,
        )
    return 1 if problems else 0
