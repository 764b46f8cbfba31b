"""JSON of files and callers: what bounds it is the text, not the process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from mblob import json_text
from mblob.texts import NESTING_LIMIT

# Each reader gets a text that would take Python's decoder more stack than there is.
READERS = """
import sys
sys.setrecursionlimit(1_000_000)
import mblob
from mblob.format import graph_json, safetensors
from mblob.inspect import difference, graph_summary
from mblob.packager.byoc.graph import read_graph
deep = "[" * 300_000 + "]" * 300_000
header = deep.encode()
for read in (
    lambda: graph_summary.summarize(memoryview(header)), lambda: graph_json.parse(deep),
    lambda: safetensors.read(memoryview(len(header).to_bytes(8, "little") + header)), lambda: read_graph(deep),
    lambda: mblob.json_module("k", "s", deep), lambda: mblob.graph_executor_factory(deep),
):
    try:
        read()
    except (mblob.MblobError, ValueError) as error:
        print("over 64 levels" in str(error))
print(difference._lines(deep) == [deep])
"""


def test_no_recursion_limit_lets_a_deep_text_end_the_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", READERS], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.split()) == (0, ["True"] * 7), done.stderr


@pytest.mark.parametrize("limit", [NESTING_LIMIT, NESTING_LIMIT + 1])
@pytest.mark.parametrize("text", ["[", '{"a":'])
def test_64_levels_are_read_and_one_more_is_refused(text: str, limit: int) -> None:
    whole = (
        text * limit
        + ("]" if text == "[" else "1" + "}")
        + ("]" if text == "[" else "}") * (limit - 1)
    )
    for beside in ("", ',"]]]"', ',"\\"[[[["', ",[],[[]]"):
        given = f"[{whole[1:-1]}{beside}]" if text == "[" and limit > 1 else whole
        if limit == NESTING_LIMIT:
            json_text.parse(given)
        else:
            with pytest.raises(json_text.JsonError, match="over 64 levels"):
                json_text.parse(given)


def test_minus_zero_is_no_whole_number() -> None:
    assert [type(n) for n in json_text.parse("[-0, 0, -1, -0.0, 10]")] == [
        float,
        int,
        int,
        float,
        int,
    ]


def test_bounding_a_text_takes_linear_time(
    count_calls: Callable[[Callable[[], object]], int],
) -> None:
    once, twice = ("[" + "[[[]]]," * n + "[]]" for n in (1000, 2000))
    json_text.parse(once)  # the first imports the decoder
    assert (
        count_calls(lambda: json_text.parse(twice))
        < 2 * count_calls(lambda: json_text.parse(once)) + 10
    )
