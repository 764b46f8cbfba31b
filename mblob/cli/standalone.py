"""`mblob-pack standalone`: a library with the runtime that it needs, and a C interface."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mblob.cli import build
from mblob.cli.inputs import check_output, is_shared
from mblob.cli.progress import remarks, watched_files
from mblob.cli.report import UsageError
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
    finished = next(filter(is_shared, args.inputs), None)
    if finished is not None:
        return _join(args, finished)
    args.standalone = True
    return build.run(args)


# What of a command line has a meaning for a finished library.
_OF_FINISHED = {
    "cc", "cflags", "command_line", "header", "inputs", "json", "no_reuse", "output", "prefix", "quiet", "run", "shape",
    "target", "verb",
}  # fmt: skip


def _join(args: argparse.Namespace, finished: str) -> int:
    """Write a finished library with its runtime: it is the only input."""
    from mblob.packager.edit.standalone import standalone

    others = [word for word in args.inputs if word != finished]
    given = (name for name, value in vars(args).items() if value not in (None, [], False))
    others += [f"--{name.replace('_', '-')}" for name in given if name not in _OF_FINISHED]
    if others:
        raise UsageError(
            f"standalone: {finished} is a finished library, which gets its runtime alone; found {others[0]} besides",
            hint=f"mblob-pack add {finished} INPUT... -o all.so, and then mblob-pack standalone all.so -o whole.so",
        )
    if args.output is None:
        raise UsageError("standalone: expected -o whole.so")
    check_output(NAME, args.output, "whole.so")
    with remarks(quiet=args.quiet), watched_files(args, finished):
        standalone(
            finished, args.output, prefix=args.prefix or "", header=args.header, shapes=build.shapes_of(args),
            reuse=not args.no_reuse, cc=args.cc, target=args.target, options=args.cflags,
        )  # fmt: skip
    build.tell_result(args, Path(args.output))
    return 0
