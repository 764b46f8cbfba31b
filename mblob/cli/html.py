"""`mblob-pack inspect FILE --html OUT`: the page of a library as a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mblob.cli.report import UsageError

if TYPE_CHECKING:
    from mblob.inspect.library import Library


def write_page(library: Library, out: str) -> None:
    """Write the page to the file `out`, which is replaced when all of it is written; "-" is stdout.

    Raises:
        UsageError: `out` is the library itself, or no name.
        OSError: it cannot be written.
    """
    from mblob.packager.output import replacing

    if not out:
        raise UsageError("--html: expected the name of a file", hint="--html report.html")
    target = Path(out)
    if out != "-" and target.exists() and target.samefile(library.path):
        raise UsageError(
            f"--html {out}: that is the library itself, which the page would replace",
            hint="--html report.html",
        )
    page = library.to_html()
    if out == "-":
        sys.stdout.write(page)
        return
    with replacing(target) as temporary:
        temporary.write_text(page, "utf-8")
