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
        description=f"{summary}. Each payload becomes INDEX-KEY.payload, byte for byte. Device code and graph texts "
        "are also written, as INDEX-KEY.FMT. With --tensor or --tensors, each tensor becomes INDEX-KEY.NAME.npy, or "
        ".safetensors for types that numpy does not have. Existing files are replaced. The names of the files are "
        "printed.",
        epilog="example: mblob-pack extract deploy.so --tensor p0 -o p0.npy",
    )
    parser.add_argument("file", metavar="FILE", help="shared library, packed by mblob or by TVM")
    parser.add_argument(
        "--entry",
        action="append",
        metavar="N|KEY",
        help="only this entry, by index or type key; may be repeated",
    )
    parser.add_argument(
        "--tensor", action="append", metavar="NAME",
        help="write the tensor of this name: a weight, graph parameter or constant; may be repeated",
    )  # fmt: skip
    parser.add_argument("--tensors", action="store_true", help="write all tensors")
    parser.add_argument("--format", choices=("npy", "safetensors"),
                        help="format of tensors in a folder (default: npy, else safetensors if numpy lacks the type)",
                        )  # fmt: skip
    parser.add_argument(
        "-o", "--output", required=True, metavar="DIR|FILE",
        help="folder to write to, created if needed; or a file: .npy (one tensor), .safetensors (any number), .payload "
        "or .bin (the payload of one entry)",
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
