"""The one line of a tool's output that people see."""

from __future__ import annotations

import pytest

from mblob.tool_output import first_error


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("", ""),
        ("/tmp/error/x.c:1:2: warning: odd\n/tmp/error/x.c:3:4: error: bad\n", "/tmp/error/x.c:3:4: error: bad"),
        ("my-error.c:1: note\nx.c:1:10: fatal error: k.h: No such file", "x.c:1:10: fatal error: k.h: No such file"),
        ("ld: a.o: undefined reference to `f'\ncollect2: error: ld returned 1", "ld: a.o: undefined reference to `f'"),
        ("collect2: error: ld returned 1", "collect2: error: ld returned 1"),
        ("\n  words\nmore\n", "words"),
    ],
)
def test_it_is_the_line_that_says_most(output: str, line: str) -> None:
    assert first_error(output) == line
