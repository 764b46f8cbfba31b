"""What compilers and linkers print, as people need it in one line."""

from __future__ import annotations

import re

# The word, not a part of a path.
_TELLING = re.compile(
    r"(?<![\w/.-])error(?![\w/.-])|undefined reference|cannot find|multiple definition|relocation", re.IGNORECASE
)


def first_error(output: str) -> str:
    """The line of a tool's output that says most; "" if it printed nothing."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    # The compiler driver only repeats that the linker failed.
    own = [line for line in lines if not line.startswith("collect2:")]
    return next((line for line in own if _TELLING.search(line)), next(iter([*own, *lines]), ""))
