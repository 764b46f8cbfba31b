"""`mblob-pack diff`: the differences between two libraries. No code of them runs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from mblob.cli.layout import add_layout
from mblob.cli.progress import add_quiet, watched_files
from mblob.cli.report import UsageError, one_line, print_json, printable
from mblob.cli.verbs import VERBS
from mblob.inspect.difference import diff

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mblob.inspect.difference import Change, Difference, ItemChange

NAME = "diff"
SIGNS = {"added": "+", "removed": "-", "changed": "~"}
LISTED = 200  # tensors, kernels, functions of one kind that are shown


def configure(verbs: Any) -> None:
    """Add the verb to the command line."""
    summary = VERBS[NAME]
    parser = verbs.add_parser(
        NAME,
        help=summary,
        description=f"{summary}: by entry, tensor and function. `+`: only in B, `-`: only in A, `~`: different. "
        "Build-ids, debug information and the position of the blob are not compared. Exit code 0: equal; 1: "
        "different, or a file is damaged.",
        epilog="example: mblob-pack diff deploy.so tuned.so --json",
    )
    parser.add_argument("a", metavar="A", help="shared library, packed by mblob or by TVM")
    parser.add_argument("b", metavar="B", help="shared library to compare with A")
    parser.add_argument(
        "--lines",
        type=int,
        default=40,
        metavar="N",
        help="lines to show of a text's diff (default: 40)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object, schema mblob/diff/1")
    add_quiet(parser)
    add_layout(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the differences; 1 if there are any.

    Raises:
        FormatError, DigestError, OSError: as of `mblob.diff`.
    """
    if args.lines < 0:
        raise UsageError(f"--lines: expected 0 or more, found {args.lines}")
    with watched_files(args, args.a):
        found = diff(args.a, args.b, lines=args.lines)
    if args.json:
        print_json(found.to_json())
    else:
        for line in lines_of(found):
            print(line)
    return 0 if found.same else 1


def lines_of(found: Difference) -> Iterator[str]:
    """The differences for people."""
    for change in found.library:
        yield f"~ {one_line(describe(change))}"
    yield from _items("function", found.functions, "")
    for entry in found.entries:
        place = "" if entry.change == "added" else f"[{entry.a}]"
        place += "" if entry.change == "removed" or entry.a == entry.b else f"[{entry.b}]"
        details = "; ".join(describe(d) for d in entry.details)
        yield one_line(f"{SIGNS[entry.change]} entry {place} {entry.path}: {details}")
        yield from _items("tensor", entry.tensors, "  ")
        yield from _items("kernel", entry.kernels, "  ")
        for line in entry.text:
            yield f"    {printable(line)}"


def _items(kind: str, items: tuple[ItemChange, ...], lead: str) -> Iterator[str]:
    for item in items[:LISTED]:
        words = [describe(d) for d in item.details]
        if item.largest is not None:
            words.append(str(item.largest))
        details = "; ".join(words)
        yield f"{lead}{SIGNS[item.change]} {one_line(f'{kind} {item.name:.200}' + (f': {details}' if details else ''))}"
    if len(items) > LISTED:
        yield f"{lead}... {len(items) - LISTED} more: see --json"


def describe(change: Change) -> str:
    """One change in words."""
    if isinstance(change.a, list) and isinstance(change.b, list):
        gone, new = (
            [x for x in change.a if x not in change.b],
            [x for x in change.b if x not in change.a],
        )
        if change.what in ("undefined", "needed", "imports"):
            words = [f"-{x}" for x in gone[:20]] + [f"+{x}" for x in new[:20]]
            return f"{change.what} {' '.join(words) or 'in another order'}"
    # of what is in one of them alone
    if change.what == "size" and (change.a is None or change.b is None):
        return f"size {change.b if change.a is None else change.a}"
    if change.a == change.b:
        return f"{change.what} {_word(change.a)}"
    return f"{change.what} {_word(change.a)} -> {_word(change.b)}"


def _word(value: Any) -> str:
    """A value for people."""
    if value is None or value == []:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return f"{', '.join(map(str, value)):.300}"
    return str(value)
