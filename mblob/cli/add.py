"""`mblob-pack add`: weights and files for a finished library. Its code stays byte for byte."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from mblob.cli.build import split_blob
from mblob.cli.layout import add_layout
from mblob.cli.progress import remarks, watched_files
from mblob.cli.report import PROGRAM, UsageError, human_size, one_line
from mblob.cli.swap import add_output
from mblob.cli.verbs import VERBS
from mblob.cli.written import tell_written

NAME = "add"


def configure(verbs: Any) -> None:
    """Add the verb to the command line."""
    summary = VERBS[NAME]
    parser = verbs.add_parser(
        NAME,
        help=summary,
        description=f"{summary}. Machine code, tree and payloads stay unchanged. The root of the library imports what "
        "is added.",
        epilog="example: mblob-pack add deploy.so --blob labels=labels.json -o all.so",
    )
    parser.add_argument(
        "file", metavar="FILE", help="shared library, packed by mblob, by TVM or by anybody else"
    )
    parser.add_argument(
        "--weights",
        metavar="FILE",
        action="append",
        default=[],
        help="weights: .safetensors, .npz or .npy; may be repeated",
    )
    parser.add_argument(
        "--blob",
        metavar="KEY=FILE",
        action="append",
        default=[],
        help="file to add as it is; programs find it by KEY; may be repeated",
    )
    parser.add_argument(
        "--replace",
        action="store_true",
        help="replace payloads of the same key, and weights that have the same tensors",
    )
    add_output(parser)
    add_layout(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the library.

    Raises:
        UsageError, MblobError, OSError: as of `mblob.add`.
    """
    from mblob.packager.edit.add import add

    blobs: dict[str, Path] = {}
    for key, file in map(split_blob, args.blob):
        if key in blobs:
            raise UsageError(f"--blob: {key!r} is named twice")
        blobs[key] = file
    if not (args.weights or blobs):
        raise UsageError("nothing to add", hint="--weights FILE, or --blob KEY=FILE")
    with remarks(quiet=args.quiet), watched_files(args, args.file):
        left = add(
            args.file, weights=args.weights, blobs=blobs, output=args.output, replace=args.replace,
            reuse=not args.no_reuse,
        )  # fmt: skip
    tell_written(args.output, quiet=args.quiet)
    if left and not args.quiet:
        text = f"{PROGRAM}: info: {human_size(left)} of the old packed modules stay behind in {args.output}, unused"
        print(one_line(text), file=sys.stderr)
    return 0
