"""`mblob-pack strip-index`: a library without its index. The code stays byte for byte."""

from __future__ import annotations

import argparse
from typing import Any

from mblob.cli import swap
from mblob.cli.layout import add_layout
from mblob.cli.progress import watched_files
from mblob.cli.verbs import VERBS

NAME = "strip-index"


def configure(verbs: Any) -> None:
    """Add the verb to the command line."""
    summary = VERBS[NAME]
    parser = verbs.add_parser(
        NAME,
        help=summary,
        description=f"{summary}. This is refused if only the index says where a payload is or ends.",
        epilog="example: mblob-pack strip-index deploy_ffi.so --force -o for_tvm.so",
    )
    parser.add_argument("file", metavar="FILE", help="shared library that mblob packed")
    parser.add_argument(
        "--force",
        action="store_true",
        help="write the library even if it has type keys without a known format; mblob cannot open it then",
    )
    swap.add_output(parser)
    add_layout(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the library.

    Raises:
        MblobError, OSError: as of `mblob.strip_index`.
    """
    from mblob.packager.edit.swap import strip_index

    with watched_files(args, args.file):
        strip_index(args.file, args.output, force=args.force, reuse=not args.no_reuse)
    return 0
