"""`mblob-pack convert`: a library of one dialect written in the other. No code of it runs."""

from __future__ import annotations

import argparse
from typing import Any

from mblob.cli.layout import add_layout
from mblob.cli.progress import add_quiet, remarks, watched_files
from mblob.cli.report import UsageError
from mblob.cli.verbs import VERBS
from mblob.cli.written import tell_written
from mblob.errors import MblobError

NAME = "convert"


def configure(verbs: Any) -> None:
    """Add the verb to the command line."""
    summary = VERBS[NAME]
    parser = verbs.add_parser(
        NAME,
        help=summary,
        description=f"{summary}. The tree does not change. Payloads are written in the format of the new dialect. Each "
        "packed function gets an adapter to the new calling convention; this needs a C compiler. In a shared library, "
        "the code does not change, and the adapters are appended. Objects and archives are linked again.",
        epilog="example: mblob-pack convert deploy.so --dialect ffi -o deploy_ffi.so",
    )
    parser.add_argument(
        "file", metavar="FILE", help="shared library, or what it is linked from: .tar, .o, .a"
    )
    parser.add_argument(
        "--dialect",
        choices=("classic", "ffi"),
        required=True,
        help="dialect to write: classic for TVM 0.5-0.20, ffi for TVM 0.22 and later and tvm_ffi",
    )
    parser.add_argument(
        "--object",
        metavar="FILE",
        action="append",
        default=[],
        help="object, archive or C source of the library's host code; may be repeated",
    )
    parser.add_argument(
        "-o", "--output", metavar="OUT", required=True, help="the library to write (.so, or .tar)"
    )
    parser.add_argument(
        "--no-index", action="store_true", help="write only TVM's bytes: no index, no digests"
    )
    parser.add_argument("--cc", metavar="CC", help="compiler (default: $CC, else cc)")
    parser.add_argument(
        "--target", metavar="TRIPLE", help="machine to link for, such as aarch64-linux-gnu"
    )
    add_quiet(parser)
    add_layout(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Convert.

    Raises:
        As of `mblob.convert`.
    """
    from mblob.packager.edit.convert import convert

    if args.output == "-":
        raise UsageError(
            "convert: -o -: a library is written to a file, not to stdout", hint="-o converted.so"
        )
    try:
        with remarks(quiet=args.quiet), watched_files(args, args.file):
            convert(
                args.file,
                args.output,
                dialect=args.dialect,
                objects=args.object,
                index=not args.no_index,
                cc=args.cc,
                target=args.target,
            )
    except ValueError as error:
        if isinstance(error, MblobError):
            raise
        raise UsageError(str(error)) from error
    tell_written(args.output, quiet=args.quiet)
    return 0
