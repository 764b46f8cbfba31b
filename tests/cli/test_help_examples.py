"""The commands that `--help` shows as examples, one after the other: what one makes, the next ones
take."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mblob.cli.command_line import make_parser

EPILOGS = {
    verb: (parser.epilog or "").removeprefix("example: ")
    for action in make_parser()._actions
    if isinstance(action, argparse._SubParsersAction)
    for verb, parser in action.choices.items()
}
# Several stand one behind the other.
EXAMPLES = [
    (verb, text)
    for verb, epilog in EPILOGS.items()
    for text in re.split(r"; (?=mblob-pack )", epilog)
]
SOURCE = """\
#include <stdint.h>
void vadd(const float *a, const float *b, float *c, int64_t n) {
  for (int64_t i = 0; i < n; ++i) c[i] = a[i] + b[i];
}
"""
GRAPH = {
    "nodes": [
        {"op": "null", "name": "data", "inputs": []},
        {"op": "null", "name": "p0", "inputs": []},
        {"op": "tvm_op", "name": "sum", "inputs": [[0, 0, 0], [1, 0, 0]],
         "attrs": {"func_name": "add", "num_inputs": "2", "num_outputs": "1", "flatten_data": "0"}},
    ],
    "arg_nodes": [0, 1], "heads": [[2, 0, 0]], "node_row_ptr": [0, 1, 2, 3],
    "attrs": {
        "shape": ["list_shape", [[8], [8], [8]]], "dltype": ["list_str", ["float32"] * 3],
        "storage_id": ["list_int", [0, 1, 2]],
    },
}  # fmt: skip
ADD = "void add(const float *a, const float *b, float *c) { for (int i = 0; i < 8; ++i) c[i] = a[i] + b[i]; }"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with what users bring: sources, weights, a graph, labels, inputs. The examples make all else
    that they name."""
    np = pytest.importorskip("numpy")
    (tmp_path / "vadd.c").write_text(SOURCE)
    (tmp_path / "add.c").write_text(ADD)
    (tmp_path / "graph.json").write_text(json.dumps(GRAPH))
    (tmp_path / "labels.json").write_text('["cat", "dog"]')
    for name, count in (("a", 1024), ("b", 1024), ("x", 8)):
        np.save(tmp_path / f"{name}.npy", np.arange(count, dtype="float32"))
    header = json.dumps({"p0": {"dtype": "F32", "shape": [8], "data_offsets": [0, 32]}}).encode()
    (tmp_path / "model.safetensors").write_bytes(
        len(header).to_bytes(8, "little") + header + bytes(32)
    )
    return tmp_path


def test_every_verb_has_an_example() -> None:
    assert len(EPILOGS) > 10
    for verb, example in EXAMPLES:
        assert f"mblob-pack {verb}" in example


def test_the_examples_run_one_after_the_other_as_printed(
    require, folder: Path, standalone_runtimes: Path
) -> None:
    environment = {
        **os.environ,
        "MBLOB_CACHE_DIR": str(standalone_runtimes),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    for verb, example in EXAMPLES:
        if verb == "import":  # tests/cli/test_import.py runs it: TVM starts for seconds
            continue
        before = {p.name: p.stat().st_mtime_ns for p in folder.iterdir()}
        done = subprocess.run(
            [require("bash"), "-euc", example],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, (verb, done.stderr)
        assert "error" not in done.stderr
        after = {p.name: p.stat().st_mtime_ns for p in folder.iterdir()}
        assert after != before or done.stdout, f"{verb} neither wrote nor said anything"
