"""The line on stderr about the library that a verb wrote."""

from __future__ import annotations

import sys
from pathlib import Path

from mblob.cli.report import PROGRAM, human_size, one_line
from mblob.errors import MblobError, listed


def tell_written(path: str | Path, *, quiet: bool, wants_all: bool = False) -> None:
    """Name the file, its size, and what is in it; nothing with `--quiet`.

    Args:
        wants_all: all functions of new code were to be callable; those that are not are named, too.
    """
    if quiet:
        return
    left_out: list[str] = []
    from mblob.inspect.library import Library

    try:
        with Library(path, verify="off", partial=True) as library:
            modules = len(library.entries)
            modules = modules if modules > 1 else 0  # nothing but the library itself
            functions = library.host_functions
            callable_ = {f.name for f in functions if f.abi != "plain"}
            names = {f.name for f in functions} - callable_
            plain = len(names)
            if wants_all and callable_ and plain:
                table = library.function_table
                left_out = sorted({row.name for row in table if row.comment} & names)
            counts = [
                (modules, "module"),
                (len(callable_), "function"),
                (plain, "more plain C function" if callable_ else "plain C function"),
            ]
    except MblobError:  # no reader of ours can, and a warning said so
        counts = []
    shown = ", ".join(f"{n} {what}{'' if n == 1 else 's'}" for n, what in counts if n)
    size = human_size(Path(path).stat().st_size)
    print(one_line(f"wrote {path}: {size}{shown and f', {shown}'}"), file=sys.stderr)
    if left_out:
        text = (
            f"{PROGRAM}: info: not callable: {listed(left_out, 6)};"
            f" mblob-pack inspect {path} --functions says why"
        )
        print(one_line(text), file=sys.stderr)
