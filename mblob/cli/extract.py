"""`mblob-pack extract`: payloads and tensors as files, device code and graphs as texts. No code of
the library runs."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from mblob.cli.inspect import report_problems
from mblob.cli.layout import add_layout
from mblob.cli.progress import add_quiet, watched_files
from mblob.cli.report import UsageError
from mblob.cli.verbs import VERBS
from mblob.inspect.library import open_library

if TYPE_CHECKING:
    from pathlib import Path

    from mblob.inspect.library import Library

NAME = "extract"
STEP = 1 << 18  # bytes written at a time


def configure(verbs: Any) -> None:
    """Add the verb to the command line."""
    summary = VERBS[NAME]
    parser = verbs.add_parser(
        NAME,
        help=summary,
        description=f"{summary}. Each payload becomes a file INDEX-KEY.payload, byte for byte (weights: .safetensors, "
        "JSON: .json). Device code and graphs in a payload become files of their own, INDEX-KEY.FMT. With --tensor or "
        "--tensors, each tensor becomes INDEX-KEY.NAME.npy, or .safetensors for types that numpy does not have. The "
        "names of the files are printed.",
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
        "--tensor",
        action="append",
        metavar="NAME",
        help="write the tensor of this name: a weight, graph parameter or constant; may be repeated",
    )
    parser.add_argument("--tensors", action="store_true", help="write all tensors")
    parser.add_argument(
        "--format",
        choices=("npy", "safetensors"),
        help="format of tensors in a folder (default: npy, else safetensors if numpy lacks the type)",
    )
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="DIR|FILE",
        help="folder to write to, created if needed. Or one file: .npy (one tensor), .safetensors (tensors), .payload "
        "or .bin (the payload of one entry). Or -: the payload of one entry to stdout",
    )
    parser.add_argument("--force", action="store_true", help="replace files that exist")
    add_quiet(parser)
    add_layout(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the files.

    Raises:
        FormatError: the file is damaged, or no model library.
        BuildError: no such entry or tensor, or a format that cannot hold it.
        OSError: a file cannot be written.
    """
    from mblob.packager.edit.extract import extract

    files: list[Path] = []
    with open_library(args.file, partial=True) as library:
        if args.output == "-":
            _write_to_stdout(library, args)
            return report_problems(library)
        try:
            with watched_files(args, args.file):
                extract(
                    library,
                    args.output,
                    entries=args.entry,
                    tensors=args.tensors or args.tensor or False,
                    format=args.format,
                    written=files.append,
                    force=args.force,
                )
        finally:  # behind the progress, which has the terminal meanwhile
            for path in files:
                print(path)
        return report_problems(library)


def _write_to_stdout(library: Library, args: argparse.Namespace) -> None:
    """Write the payload of one entry to the standard output.

    Raises:
        UsageError: tensors were asked for, or not one entry. BuildError: no such entry.
    """
    from mblob.packager.edit.extract import chosen_entries

    entries = [] if args.tensors or args.tensor else chosen_entries(library, args.entry)
    if len(entries) != 1:
        raise UsageError(
            "extract: -o - writes the payload of one entry to stdout",
            hint="choose it with --entry N, or name a folder or a file",
        )
    (entry,) = entries
    view = entry.view()
    sys.stdout.flush()
    for start in range(0, len(view), STEP):
        sys.stdout.buffer.write(view[start : start + STEP])
