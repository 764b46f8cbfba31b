"""Regions of Relax modules of the releases of apache-tvm before 0.27, which pass functions, types and constants on in
other ways."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.loader.dnnl.dnnl_graphs import ROOT
from tests.packager.byoc.test_byoc_relax import CASES, SCRIPT, results

pytestmark = [pytest.mark.own_process, pytest.mark.slow]
GARBAGE_OF_TVM = (
    "open_words",
    2,
)  # what TVM 0.25 and 0.26 compute alone: a slice that ends with its axis


@pytest.mark.parametrize("release", ["0.25.0 apache-tvm-ffi==0.1.12", "0.26.0"])
def test_modules_of_earlier_releases_give_with_the_engine_what_tvm_gives_without(
    tmp_path: Path, onednn: str, release: str
) -> None:
    """In an environment of their own: two releases cannot be in one."""
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    packages = [*f"apache-tvm=={release}".split(), "cffi", "pyelftools", "lief"]
    subprocess.run([python, "-m", "pip", "-qq", "install", *packages], check=True)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([python, SCRIPT, tmp_path], check=True, env=environment)
    for case in CASES:
        io = np.load(tmp_path / f"{case}.npz")
        for i, array in enumerate(results(tmp_path / f"{case}.so", io["x"])):
            if (case, i) != GARBAGE_OF_TVM:
                np.testing.assert_allclose(array, io[f"y{i}"], rtol=1e-4, atol=1e-5, err_msg=case)
    assert (tmp_path / "unknown.txt").read_text() == "tvmgen_dnnl_main_0: 1 dnnl.dense_relu"
