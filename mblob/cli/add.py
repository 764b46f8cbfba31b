"""`mblob-pack add`: weights, files and code for a finished library, whose own code stays
byte for byte."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from mblob.cli.inputs import (
    add_inputs,
    blobs_of,
    check_output,
    find_library,
    functions_of,
    sort_words,
)
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
        epilog="example: mblob-pack add deploy.so labels=labels.json -o labeled.so; "
        "mblob-pack add labeled.so add.c "
        "--function 'void add(const float a[8], const float b[8], float c[8])' -o all.so -- -O3",
    )
    parser.add_argument(
        "file",
        metavar="FILE",
        help="shared library of mblob, of TVM or of anybody else; or the .tar with its objects, a folder of these "
        "objects, or one of them, with the others among INPUT",
    )
    new = add_inputs(
        parser, "what to add", "source, object, archive, weights or KEY=FILE (any file) to add"
    )
    new.add_argument(
        "--params",
        metavar="FILE",
        help="parameters of the model: a Relax program, which takes them as one tuple, or a graph. "
        ".safetensors, .npz, a file of save_param_dict, or a folder with tensor-cache.json",
    )
    new.add_argument(
        "--order",
        metavar="FILE",
        help="JSON list of names in --params, all or some, in the order of the program (default: that of the file)",
    )
    parser.add_argument("--cc", metavar="CC", help="compiler (default: $CC, else cc)")
    parser.add_argument(
        "--target", metavar="TRIPLE", help="machine that FILE is for, such as aarch64-linux-gnu"
    )
    parser.add_argument(
        "--replace",
        action="store_true",
        help="replace payloads of the same key, weights that have the same tensors, parameters of the model, and "
        "functions of the same name",
    )
    add_output(parser)
    add_layout(parser)
    parser.usage = "mblob-pack add FILE INPUT... -o OUT [options] [-- CFLAGS...]"
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the library.

    Raises:
        UsageError, MblobError, OSError: as of `mblob.add`.
    """
    from mblob.packager.edit.add import add

    find_library(args)
    sort_words(args)
    blobs, functions = dict(blobs_of(args)), functions_of(args)
    if not (args.weights or args.params or blobs or args.kernel or args.object or functions):
        if "=" in args.file and not Path(args.file).exists():
            raise UsageError(f"add: expected the library to add to, found {args.file!r} alone")
        raise UsageError(
            "nothing to add",
            hint="give a source, an object, weights, --params FILE, --function NAME or KEY=FILE",
        )
    check_output(NAME, args.output, "all.so")
    with remarks(quiet=args.quiet), watched_files(args, args.file):
        left = add(
            args.file, weights=args.weights, params=args.params, order=args.order, blobs=blobs, kernels=args.kernel,
            objects=args.object, functions=functions, output=args.output, replace=args.replace, reuse=not args.no_reuse,
            cc=args.cc, target=args.target, options=args.cflags,
        )  # fmt: skip
    is_code = bool(args.kernel or args.object)
    tell_written(args.output, quiet=args.quiet, wants_all=is_code and functions is None)
    if left and not args.quiet:
        text = f"{PROGRAM}: info: {human_size(left)} of the old packed modules stay behind in {args.output}, unused"
        print(one_line(text), file=sys.stderr)
    return 0
