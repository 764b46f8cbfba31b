"""`mblob-pack add`: weights, files and code for a finished library, whose own code stays
byte for byte."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from mblob.cli.build import add_code, functions_of, split_blob
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
        description=f"{summary}. Its machine code, tree and payloads stay unchanged. The root of the library imports "
        "what is added; new code joins the code of the library.",
        epilog="example: mblob-pack add deploy.so --blob labels=labels.json -o labeled.so; "
        "mblob-pack add labeled.so --kernel add.c "
        "--function 'void add(const float a[8], const float b[8], float c[8])' -o all.so -- -O3",
    )
    parser.add_argument(
        "file",
        metavar="FILE",
        help="shared library of mblob, of TVM or of anybody else; or the .tar with its objects",
    )
    new = parser.add_argument_group("what to add; each option may be repeated")
    new.add_argument(
        "--weights",
        metavar="FILE",
        action="append",
        default=[],
        help="weights: .safetensors, .npz or .npy",
    )
    new.add_argument(
        "--blob",
        metavar="KEY=FILE",
        action="append",
        default=[],
        help="file to add as it is; programs find it by KEY",
    )
    add_code(new, "object or archive")
    parser.add_argument("--cc", metavar="CC", help="compiler (default: $CC, else cc)")
    parser.add_argument(
        "--target", metavar="TRIPLE", help="machine that FILE is for, such as aarch64-linux-gnu"
    )
    parser.add_argument(
        "--replace",
        action="store_true",
        help="replace payloads of the same key, weights that have the same tensors, and functions of the same name",
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
    functions = functions_of(args)
    if not (args.weights or blobs or args.kernel or args.object):
        raise UsageError(
            "nothing to add", hint="--weights FILE, --blob KEY=FILE, --kernel FILE or --object FILE"
        )
    with remarks(quiet=args.quiet), watched_files(args, args.file):
        left = add(
            args.file, weights=args.weights, blobs=blobs, kernels=args.kernel, objects=args.object,
            functions=functions, output=args.output, replace=args.replace, reuse=not args.no_reuse,
            cc=args.cc, target=args.target, options=args.cflags,
        )  # fmt: skip
    tell_written(args.output, quiet=args.quiet)
    if left and not args.quiet:
        text = f"{PROGRAM}: info: {human_size(left)} of the old packed modules stay behind in {args.output}, unused"
        print(one_line(text), file=sys.stderr)
    return 0
