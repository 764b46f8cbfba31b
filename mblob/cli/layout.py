"""`--layout KEY=FORM`: where payloads of a user's own type key end, in a library without an index."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mblob.cli.report import UsageError

if TYPE_CHECKING:
    from mblob.module import Module


def add_layout(parser: argparse.ArgumentParser) -> None:
    """Add the option to a verb that reads libraries; `mblob.cli.command_line` gives it to the readers in
    Python."""
    parser.add_argument(
        "--layout",
        action="append",
        default=[],
        metavar="KEY=FORM",
        help="how payloads of a type key of your own are built, such as my_key=string,u64,strings; for a library "
        "without an index; may be repeated",
    )


def layouts_of(texts: Sequence[str]) -> dict[str, str]:
    """Layouts by type key.

    Raises:
        UsageError: one is not KEY=FORM, or a key is named twice.
    """
    found: dict[str, str] = {}
    for text in texts:
        key, equals, form = text.rpartition("=")
        if not (key and equals and form):
            raise UsageError(f"--layout: expected KEY=FORM, found {text!r}")
        if key in found:
            raise UsageError(f"--layout: {key!r} is named twice")
        found[key] = form
    return found


def load(args: argparse.Namespace) -> Module:
    """Load the library of a verb that runs it. The reader in C gets the layouts, too.

    Raises:
        As of `mblob.load_module`.
    """
    import mblob

    for key, form in layouts_of(args.layout).items():
        mblob.register_loader(key, layout=form)
    return mblob.load_module(args.file, assume=args.assume)
