"""`mblob-pack standalone`: a library with the runtime that it needs, and a C interface."""

from __future__ import annotations

import argparse
from typing import Any

from mblob.cli import build
from mblob.cli.verbs import VERBS

NAME = "standalone"


def configure(verbs: Any) -> None:
    """Add the verb to the command line."""
    summary = VERBS[NAME]
    parser = verbs.add_parser(
        NAME,
        help=summary,
        description=f"{summary}: build --standalone. Each input is told by its name.",
        epilog="example: mblob-pack standalone add.c --graph graph.json --params model.safetensors "
        "--function 'void add(const float a[8], const float b[8], float c[8])' -o whole.so --header whole.h",
    )
    build.add_options(parser)
    parser.usage = (
        "mblob-pack standalone INPUT... -o whole.so [--prefix NAME] [--header whole.h] [options] "
        "[-- CFLAGS...]"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Make a plan of manifest and flags, and carry it out; or write a finished library with its runtime.

    Raises:
        UsageError, MblobError, OSError: as of `build`.
    """
    args.standalone = True
    return build.run(args)
