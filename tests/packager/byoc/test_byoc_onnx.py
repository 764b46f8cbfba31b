"""Operators of ONNX, recurrent layers and operators of integers: with oneDNN, without, and what they stand for."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.programs import run

pytestmark = pytest.mark.own_process  # oneDNN
SCRIPT = Path(__file__).with_name("onnx_nodes.py")


@pytest.mark.parametrize(
    "words, at_least", [((), 18), pytest.param(("all",), 580, marks=pytest.mark.nightly)]
)
def test_operators_of_onnx_give_with_the_engine_what_they_give_without(
    package_of: Callable[[str], Path],
    onednn: str,
    tmp_path: Path,
    words: tuple[str, ...],
    at_least: int,
) -> None:
    package_of("tvm"), package_of("onnx")
    run(sys.executable, SCRIPT, tmp_path, *words)
    told = json.loads((tmp_path / "told.json").read_text())
    done = {name: entry for name, entry in told.items() if "refused" not in entry}
    wrong = {
        name: entry
        for name, entry in done.items()
        if "failed" in entry or max(entry["from TVM"], entry["from ONNX"] or 0) > 1e-4
    }
    assert not wrong and len(done) >= at_least, (len(done), wrong)
    by_engine = [
        name for name, entry in done.items() if entry["told"][:1] and "tvmgen" in entry["told"][0]
    ]
    assert len(by_engine) >= 0.75 * at_least, by_engine


def test_recurrent_layers_are_those_of_their_equations(
    package_of: Callable[[str], Path], onednn: str, tmp_path: Path
) -> None:
    package_of("tvm"), package_of("onnx")
    run(sys.executable, SCRIPT.with_name("onnx_layers.py"), tmp_path)
    told = json.loads((tmp_path / "told.json").read_text())
    assert len(told) == 10 and max(told.values()) < 1e-5, told


def test_operators_of_integers_are_what_they_stand_for(
    package_of: Callable[[str], Path], onednn: str, tmp_path: Path
) -> None:
    package_of("tvm"), package_of("onnx")
    run(sys.executable, SCRIPT.with_name("onnx_integers.py"), tmp_path)
    told = json.loads((tmp_path / "told.json").read_text())
    assert len(told) == 76 and max(told.values()) <= 1, told  # in steps
