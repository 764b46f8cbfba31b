"""`--layout KEY=FORM`: where payloads of a user's own type key end, in a library without an index."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from mblob.cli.report import UsageError


def add_layout(parser: argparse.ArgumentParser) -> None:
    """Add the option to a verb; `mblob.cli.command_line` gives it to the readers."""
    parser.add_argument(
        "--layout", action="append", default=[], metavar="KEY=FORM",
        help="how payloads of a type key of your own are built, such as my_key=string,u64,strings; for a library "
        "without an index; may be repeated",
    )  # fmt: skip


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
