"""The pages of `--html`: the file of a page, and writing it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mblob.cli.report import UsageError
from mblob.temporary import replacing

if TYPE_CHECKING:
    from mblob.inspect.library import Library


def page_target(library: Path, out: str) -> Path:
    """The file that a page about a library is written to.

    Raises:
        UsageError: `out` is the library itself, or no name.
    """
    if not out:
        raise UsageError("--html: expected the name of a file", hint="--html report.html")
    target = Path(out)
    if out != "-" and target.exists() and target.samefile(library):
        raise UsageError(
            f"--html {out}: that is the library itself, which the page would replace",
            hint="--html report.html",
        )
    return target


def write_page(library: Library, out: str, page: str | None = None) -> None:
    """Write a page, by default that of the library, to the file `out`, which is replaced when all
    of it is written; "-" is stdout.

    Raises:
        UsageError: `out` is the library itself, or no name.
        OSError: it cannot be written.
    """
    target = page_target(library.path, out)
    page = library.to_html() if page is None else page
    if out == "-":
        sys.stdout.write(page)
        return
    with replacing(target) as temporary:
        temporary.write_text(page, "utf-8")
