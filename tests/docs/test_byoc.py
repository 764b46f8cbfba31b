"""docs/byoc.md, and the graph of docs/runtime.md, run as they stand."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_pages import pattern_of


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("page", "printed"), [("byoc.md", "[0.  0.  0.5 1. ]\n"), ("runtime.md", "64.0\n")]
)
def test_graphs_that_are_built_run(
    root: Path, blocks: Callable[[Path], list[Any]], page: str, printed: str, tmp_path: Path
) -> None:
    (block,) = [b for b in blocks(root / "docs" / page) if b.language == "python" and b.file]
    (tmp_path / block.file).write_text(block.text)
    done = subprocess.run(
        [sys.executable, block.file], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed


def test_the_walk_through_tvms_example(
    root: Path, blocks: Callable[[Path], list[Any]], tmp_path: Path
) -> None:
    """Its blocks are one program; what stands behind a block is what the block prints."""
    page = blocks(root / "docs" / "byoc.md")
    steps = [(i, block.text) for i, block in enumerate(page) if block.info == "walk"]
    assert len(steps) >= 10
    program = "\nprint('\\0')\n".join(text for _, text in steps)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True
    )
    if "needs oneDNN" in done.stderr:
        pytest.skip(done.stderr.splitlines()[-1])
    assert (done.returncode, done.stderr) == (0, "")
    for (i, _), printed in zip(steps, done.stdout.split("\0\n")):
        behind = page[i + 1]
        shown = behind.text if behind.language == "text" else ""
        assert re.fullmatch(pattern_of(shown), printed, re.DOTALL), printed


def test_the_generator_in_c(
    root: Path, blocks: Callable[[Path], list[Any]], tmp_path: Path
) -> None:
    page = blocks(root / "docs" / "byoc.md")
    (source,) = [block for block in page if block.language == "c" and block.file]
    (tmp_path / source.file).write_text(source.text)
    at = [i for i, block in enumerate(page) if block.info == "c_codegen"]
    build, program, printed = (page[i].text for i in (*at, at[-1] + 1))
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    run = functools.partial(
        subprocess.run, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment
    )
    done = run(["sh", "-ec", build])
    assert (done.returncode, done.stderr) == (0, "")
    done = run([sys.executable, "-c", program])
    assert (done.stdout, done.stderr) == (printed, "")


NETWORK = """
import numpy as np, onnx
from onnx import helper
weights = onnx.numpy_helper.from_array(np.random.default_rng(1).random((4, 3, 3, 3), "float32"), "w")
bias = onnx.numpy_helper.from_array(np.arange(4, dtype="float32"), "b")
axis = onnx.numpy_helper.from_array(np.array(1), "axis")
nodes = [
    helper.make_node("Conv", ["x", "w", "b"], ["c"]), helper.make_node("HardSwish", ["c"], ["h"]),
    helper.make_node("GlobalAveragePool", ["h"], ["g"]), helper.make_node("CumSum", ["g", "axis"], ["y"]),
]
values = {"x": [1, 3, 32, 32], "y": [1, 4, 1, 1]}
x, y = (helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s) for n, s in values.items())
graph = helper.make_graph(nodes, "net", [x], [y], [weights, bias, axis])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)]), "model.onnx")
"""


def test_a_network_of_onnx_is_a_library_by_the_program_of_the_page(
    root: Path,
    blocks: Callable[[Path], list[Any]],
    package_of: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    package_of("tvm"), package_of("onnx")
    page = blocks(root / "docs" / "byoc.md")
    (at,) = (i for i, block in enumerate(page) if block.info == "relax")
    program = f"{NETWORK}{page[at].text}"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, page[at + 1].text), done.stderr
    assert (tmp_path / "model.so").stat().st_size > 0


def test_its_links_lead_somewhere(root: Path) -> None:
    text = re.sub(
        r"^```.*?^```", "", (root / "docs" / "byoc.md").read_text(), flags=re.DOTALL | re.MULTILINE
    )
    targets = re.findall(r"\]\(([^)#]+)\)", text)
    assert len(targets) >= 4
    assert [t for t in targets if not (root / "docs" / t).exists()] == []


@pytest.mark.slow
def test_the_commands_of_the_example(
    root: Path, installed: Path, tmp_path: Path, require: Callable[[str], str]
) -> None:
    """examples/byoc/README.md: the block of commands, in a copy of the folder."""
    require("pkg-config")
    folder = tmp_path / "byoc"
    shutil.copytree(root / "examples" / "byoc", folder)
    text = (folder / "README.md").read_text()
    commands = text.split("```sh\n")[1].split("```")[0]
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PKG_CONFIG_PATH": str(installed / "lib/pkgconfig"),
        "LD_LIBRARY_PATH": str(installed / "lib"),
    }
    done = subprocess.run(
        ["sh", "-ec", commands], cwd=folder, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert "fuse 1.0  opens fuse" in done.stdout
    assert done.stdout.splitlines()[-1] == "2058.8508"
