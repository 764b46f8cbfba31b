"""`mblob-pack verify`: whether a library is whole, and whether all that it needs is there. No code
of it runs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mblob.cli.layout import add_layout
from mblob.cli.progress import add_quiet, watched_files
from mblob.cli.report import exit_code, human_size, in_options, one_line, print_json
from mblob.cli.verbs import VERBS
from mblob.errors import MblobError
from mblob.inspect import runtime_names
from mblob.inspect.library_search import is_for, open_shared
from mblob.inspect.providers import provider_of
from mblob.inspect.verification import SCHEMA, verify

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mblob.inspect.verification import CheckedEntry, Verification

NAME = "verify"


def configure(verbs: Any) -> None:
    """Add the verb to the command line."""
    summary = VERBS[NAME]
    parser = verbs.add_parser(
        NAME,
        help=summary,
        description=f"{summary}. Exit codes: 1: the file is damaged or breaks a rule of the format; 3: neither mblob "
        "nor TVM packed it; 6: with --against, a symbol is missing; 7: bytes differ from their digest.",
        epilog="example: mblob-pack verify deploy.so --against libm.so.6 --against libc.so.6",
    )
    parser.add_argument("file", metavar="FILE", help="shared library, packed by mblob or by TVM")
    parser.add_argument(
        "--level",
        choices=("header", "full"),
        default="full",
        help="header: structure and index; full (default): also every byte of the payloads",
    )
    parser.add_argument(
        "--against",
        action="append",
        metavar="LIB",
        help="look up undefined symbols, as the dynamic linker would: first in LIB (a path, or a name such as "
        "libm.so.6), then in the libraries that FILE needs; may be repeated",
    )
    parser.add_argument(
        "--root",
        default="/",
        metavar="DIR",
        help="root folder of the machine that FILE is for; needed libraries are searched below it",
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object, schema mblob/verify/1"
    )
    add_quiet(parser)
    add_layout(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Check, and say what was found.

    Raises:
        FormatError, DigestError, OSError: as of `mblob.verify`.
        IncompatibleError: a symbol or a library is missing; or as of `mblob.verify`.
    """
    try:
        with watched_files(args, args.file):
            found = verify(args.file, args.level, args.against, args.root)
        if args.json:
            print_json(found.to_json())
        else:
            for line in lines_of(found):
                print(line)
            _hint_at_providers(found)
    except MblobError as error:
        if args.json:
            print_json(failure(args, error))
        raise
    found.check()
    return 0


def failure(args: argparse.Namespace, error: Exception) -> dict[str, Any]:
    """The object that `--json` prints in place of a result."""
    return {
        "schema": SCHEMA,
        "file": args.file,
        "level": args.level,
        "ok": False,
        "error": {
            "kind": type(error).__name__,
            "code": getattr(error, "code", None) or None,
            "entry": getattr(error, "entry", None),
            "offset": getattr(error, "offset", None),
            "exit_code": exit_code(error),
            "message": str(error),
        },
    }


def lines_of(found: Verification) -> Iterator[str]:
    """The result for people; one line for each symbol, `NAME@VERSION` TAB provider."""
    index = "with an index" if found.has_index else "no index: changed bytes cannot be told"
    what = f"{found.dialect} blob, {index}" if found.has_blob else "no blob"
    yield one_line(f"{found.path}: sound ({found.level}): {what}")
    for entry in found.entries:
        yield f"  {one_line(describe(entry, found.level))}"
    for code, message in found.warnings:
        yield f"  warning: {one_line(in_options(message))} [{code}]"
    for code, message in found.info:
        yield f"  info: {one_line(in_options(message))} [{code}]"
    if found.linkage is not None:
        for reference in found.linkage.references:
            yield f"{one_line(str(reference))}\t{one_line(reference.provider or 'nobody')}"


def describe(entry: CheckedEntry, level: str) -> str:
    """One entry in one line."""
    checks = []
    if entry.digest:
        checks.append(
            f"{entry.digest} {'matches' if entry.compared else 'not compared at this level'}"
        )
    if entry.walked:
        later = (
            ", its operators are checked when it is loaded"
            if entry.type_key.endswith("_json")
            else ""
        )
        checks.append(f"follows its grammar{later}")
    elif level == "full":
        checks.append("content not checked (unknown key)")
    return f"[{entry.index}] {entry.type_key}  {human_size(entry.size)}  {', '.join(checks) or 'inside the blob'}"


def _hint_at_providers(found: Verification) -> None:
    """Say who has the missing symbols: what mblob binds itself when it opens the library, and whom
    their names tell."""
    missing = {r.name for r in found.linkage.unresolved} if found.linkage else set()
    if not missing:
        return
    elf = open_shared(found.path)
    bound = runtime_names.bound_here(elf)
    own = sorted(missing & bound.keys())
    if own:
        runtime = runtime_names.installed()
        fits = runtime is not None and is_for(elf, runtime)
        where = str(runtime_names.INSTALLED) if fits else "the libmblob.so of its machine"
        names = _shown([f"{name} ({Path(bound[name]).name})" for name in own])
        print(f"hint: mblob's runtime has {names}: --against {where}", file=sys.stderr)
    others = [
        f"{name} ({provider})"
        for name in sorted(missing - bound.keys())
        if (provider := provider_of(name))
    ]
    if others:
        print(f"hint: by their names: {_shown(others)}", file=sys.stderr)


def _shown(names: list[str]) -> str:
    return one_line(", ".join(names[:12])) + (", ..." if len(names) > 12 else "")
