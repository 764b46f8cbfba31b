"""`mblob-pack inspect`: what is in a library. It reads the file and never runs code of it."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from mblob.cli.report import human_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mblob.library import Library

NAME = "inspect"
NOT_A_LIBRARY = 3


def configure(verbs: Any) -> None:
    """Add the verb to the command line."""
    summary = "show what is in a library, without running it"
    parser = verbs.add_parser(
        NAME,
        help=summary,
        description=summary,
        epilog="example: mblob-pack inspect deploy.so --tree",
    )
    parser.add_argument("file", metavar="FILE", help="shared library, packed by mblob or by TVM")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--tree", action="store_true", help="only the tree of modules")
    form.add_argument("--json", action="store_true", help="one JSON object, schema mblob/inspect/1")
    form.add_argument("--functions", action="store_true", help="only the functions, one per line")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print what was asked for. Exit code 3 for a shared object that is no model library."""
    from mblob.library import open_library

    with open_library(args.file) as library:
        if not library.is_model_library:
            raise NotAModelLibrary(args.file)
        if args.json:
            print(json.dumps(library.to_json(), indent=2))
        elif args.tree:
            print("\n".join(tree_lines(library)))
        elif args.functions:
            print("\n".join(function_lines(library)))
        else:
            print("\n".join(summary_lines(library)))
    return 0
