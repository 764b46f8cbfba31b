"""Libraries with OpenCL kernels for tests, and the device that they run on."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

import mblob

Pack = Callable[..., mblob.Module]

X = ["blockIdx.x", "threadIdx.x"]
SCALE = """
__kernel void scale(__global float *x, float factor, int n) {
  int i = get_global_id(0);
  if (i < n) x[i] *= factor;
}
"""
SCALE_TYPES = ["handle", "float32", "int32"]


def python(script: str, **environment: str) -> str:
    """What a new interpreter prints; variables of the environment beside those of the tests."""
    done = subprocess.run(
        [sys.executable, "-c", "import mblob, numpy as np\n" + textwrap.dedent(script)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def opencl_caches(tmp_path_factory: pytest.TempPathFactory) -> Iterable[None]:
    """Nothing is left in the user's caches. PoCL reads its variable when it is loaded, once."""
    folder = tmp_path_factory.mktemp("opencl")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POCL_CACHE_DIR", str(folder / "pocl"))
        patch.setenv("MBLOB_CACHE_DIR", str(folder / "mblob"))
        yield


@pytest.fixture(scope="module")
def opencl_device(opencl_caches: None) -> mblob.Device:
    try:
        mblob.empty((1,), "float32", mblob.opencl(0))
    except mblob.MblobError as exc:
        pytest.skip(f"OpenCL is not installed: {exc}")
    return mblob.opencl(0)


def packed(path: Path, kernels: mblob.Module, **options: Any) -> Path:
    host = mblob.csource_module("int unused;")
    host.import_module(kernels)
    host.export_library(path, **options)
    return path


@pytest.fixture
def pack_opencl(tmp_path: Path) -> Pack:
    """`pack_opencl(source, *functions)`: the opencl module of a library that was packed and opened
    again."""
    count = 0

    def make(source: Any, *functions: Any, payload: bytes | None = None) -> mblob.Module:
        nonlocal count
        count += 1
        given = payload is not None
        kernels = (
            mblob.blob_module("opencl", payload)
            if given
            else mblob.device_module("opencl", source, functions)
        )
        return mblob.load_module(packed(tmp_path / f"lib{count}.so", kernels)).imported_modules[0]

    return make


@pytest.fixture
def scale_path(opencl_device: mblob.Device, tmp_path: Path) -> str:
    """A library with SCALE, for other processes."""
    kernels = mblob.device_module("opencl", SCALE, [("scale", SCALE_TYPES, X)])
    return str(packed(tmp_path / "scale.so", kernels))
