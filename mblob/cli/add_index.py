"""`mblob-pack add-index`: an index for a blob that has none. The code stays byte for byte."""

from __future__ import annotations

import argparse
from typing import Any

from mblob.cli import swap
from mblob.cli.layout import add_layout
from mblob.cli.progress import watched_files
from mblob.cli.verbs import VERBS

NAME = "add-index"


def configure(verbs: Any) -> None:
    """Add the verb to the command line."""
    summary = VERBS[NAME]
    parser = verbs.add_parser(
        NAME,
        help=summary,
        description=f"{summary}. TVM opens it as before.",
        epilog="example: mblob-pack add-index for_tvm.so -o checked.so",
    )
    parser.add_argument("file", metavar="FILE", help="shared library without an index")
    swap.add_output(parser)
    add_layout(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the library.

    Raises:
        MblobError, OSError: as of `mblob.add_index`.
    """
    from mblob.packager.edit.swap import add_index

    with watched_files(args, args.file):
        add_index(args.file, args.output, reuse=not args.no_reuse)
    return 0
