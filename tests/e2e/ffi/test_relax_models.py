"""Models that apache-tvm compiles run here with TVM's numbers, as bytecode and compiled."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.e2e.ffi import relax_models

pytestmark = [pytest.mark.slow, pytest.mark.own_process]


@pytest.fixture(scope="module")
def models(package_of: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    package_of("tvm")
    folder = tmp_path_factory.mktemp("models")
    subprocess.run([sys.executable, relax_models.__file__, folder], check=True)
    return folder


def flat(value: Any) -> list[Any]:
    if isinstance(value, mblob.Tensor):
        return [value.numpy()]
    if isinstance(value, mblob.Shape):
        return [np.array(value, "int64")]
    return [array for item in value for array in flat(item)]


@pytest.mark.parametrize("mode", ["bytecode", "compiled"])
@pytest.mark.parametrize("name", sorted(relax_models.MODELS))
def test_models_of_tvm_give_tvms_numbers(models: Path, name: str, mode: str) -> None:
    vm = mblob.relax.VirtualMachine(mblob.load_module(models / f"{name}.{mode}.so"), mblob.cpu(0))
    with np.load(models / f"{name}.npz") as known:
        arguments = [known[key] for key in known.files if key.startswith("a")]
        expected = [known[key] for key in known.files if key.startswith("r")]
    for _ in range(2):
        found = flat(vm["main"](*arguments))
        assert len(found) == len(expected) > 0
        for ours, theirs in zip(found, expected):
            assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
