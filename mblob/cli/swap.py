"""`mblob-pack swap`: new payloads and weights in place of old ones. The code of the library stays
byte for byte."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mblob.cli.inputs import named
from mblob.cli.layout import add_layout
from mblob.cli.progress import add_quiet, remarks, watched_files
from mblob.cli.report import UsageError
from mblob.cli.verbs import VERBS
from mblob.cli.written import tell_written

NAME = "swap"


def configure(verbs: Any) -> None:
    """Add the verb to the command line."""
    summary = VERBS[NAME]
    parser = verbs.add_parser(
        NAME,
        help=summary,
        description=f"{summary}. Machine code, tree and order stay unchanged. Digests, index and build-id are updated.",
        epilog="example: mblob-pack swap deploy.so --weights p0=p0.npy -o tuned.so",
    )
    parser.add_argument("file", metavar="FILE", help="shared library, packed by mblob or by TVM")
    parser.add_argument(
        "--blob",
        action="append",
        default=[],
        dest="entry",
        metavar="N|KEY=NEW",
        help="replace the payload of a key, or of an entry by its index, by a file; may be repeated",
    )
    parser.add_argument(
        "--entry", action="append", dest="entry", metavar="N|KEY=NEW", help=argparse.SUPPRESS
    )
    parser.add_argument(
        "--weights",
        action="append",
        default=[],
        metavar="[NAME=]NEW",
        help="NAME=NEW: replace the tensor NAME by the one in a .npy, .npz or .safetensors file; may be repeated. NEW "
        "alone: replace all tensors by those in a .npz or .safetensors file, or the tensor w by w.npy",
    )
    add_output(parser)
    add_layout(parser)
    parser.set_defaults(run=run)


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the options of all verbs that change a library."""
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="OUT",
        help="the new library; may be the same as FILE, to replace it",
    )
    parser.add_argument(
        "--no-reuse", action="store_true", help="do not share blocks on disk with FILE"
    )
    add_quiet(parser)


def run(args: argparse.Namespace) -> int:
    """Write the library.

    Raises:
        UsageError, MblobError, OSError: as of `mblob.swap`.
    """
    from mblob.packager.edit.swap import swap

    changes: dict[int | str, Any] = {}
    for text in args.entry:
        key, file = named(text, "--blob: expected N=FILE or KEY=FILE")
        if key in changes:
            raise UsageError(
                f"{changes[key]} and {file}: two files for the payload {key!r}, expected one"
            )
        changes[key] = file
    weights = weights_of(args.weights)
    if not changes and weights is None:
        raise UsageError("nothing to change", hint="--weights NAME=x.npy, or --blob KEY=FILE")
    with remarks(quiet=args.quiet), watched_files(args, args.file):
        swap(args.file, changes, args.output, weights=weights, reuse=not args.no_reuse)
    tell_written(args.output or args.file, quiet=args.quiet)
    return 0


def weights_of(texts: list[str]) -> dict[str, Any] | Path | None:
    """The weights that `--weights` asks for: one file, or files by names of tensors.

    Raises:
        UsageError: both, or a name twice.
    """
    if not texts:
        return None
    if len(texts) == 1 and ("=" not in texts[0] or Path(texts[0]).is_file()):
        return Path(texts[0])
    weights: dict[str, Any] = {}
    for text in texts:
        name, file = named(text, "--weights: expected NAME=FILE, or one FILE.safetensors alone")
        if name in weights:
            raise UsageError(
                f"{weights[name]} and {file}: two files for the tensor {name!r}, expected one"
            )
        weights[name] = file
    return weights
