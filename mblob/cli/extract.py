"""`mblob-pack extract`: payloads and tensors as files, device code and graphs as texts. No code of
the library runs."""

from __future__ import annotations

import argparse
from typing import Any

NAME = "extract"


def configure(verbs: Any) -> None:
    """Add the verb to the command line."""
    summary = "write payloads or tensors of a library to files, without running it"
    parser = verbs.add_parser(
        NAME,
        help=summary,
        description=f"{summary}: each payload as INDEX-KEY.payload, byte for byte, the code of device modules and the "
        "text of graphs beside it as INDEX-KEY.FMT; with --tensor or --tensors each tensor as INDEX-KEY.NAME.npy, or "
        ".safetensors for types that numpy has not. "
        "Files that exist are replaced. Prints the names of the files.",
        epilog="example: mblob-pack extract deploy.so --tensor p0 -o p0.npy",
    )
    parser.add_argument("file", metavar="FILE", help="shared library, packed by mblob or by TVM")
    parser.add_argument(
        "--entry",
        action="append",
        metavar="N|KEY",
        help="only these: an index, or a type key; may be repeated",
    )
    parser.add_argument(
        "--tensor", action="append", metavar="NAME",
        help="tensors of these names: weights, parameters of graphs, constants; may be repeated",
    )  # fmt: skip
    parser.add_argument("--tensors", action="store_true", help="all tensors")
    parser.add_argument("--format", choices=("npy", "safetensors"),
                        help="of tensors in a folder; by default npy, and safetensors for types that numpy has not",
                        )  # fmt: skip
    parser.add_argument(
        "-o", "--output", required=True, metavar="DIR|FILE",
        help="folder to write to, made if needed; or a file: .npy (one tensor), .safetensors (any number), .payload or "
        ".bin (the payload of one entry)",
    )  # fmt: skip
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the files.

    Raises:
        FormatError: the file is damaged, or no model library.
        BuildError: no such entry or tensor, or a format that cannot hold it.
        OSError: a file cannot be written.
    """
    from mblob.cli.inspect import report_problems
    from mblob.inspect.library import open_library
    from mblob.packager.edit.extract import extract

    with open_library(args.file, partial=True) as library:
        extract(
            library, args.output, entries=args.entry, tensors=args.tensors or args.tensor or False, format=args.format,
            written=print,
        )  # fmt: skip
        return report_problems(library)
