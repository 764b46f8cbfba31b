"""The digits example: the data is what it says, kernels compute what numpy does, wrong shapes are refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mblob


@pytest.fixture(scope="module")
def here(root: Path) -> Path:
    return root / "examples" / "digits"


@pytest.fixture(scope="module")
def net(here: Path, tmp_path_factory: pytest.TempPathFactory) -> mblob.Module:
    library = tmp_path_factory.mktemp("digits") / "digits.so"
    command = [sys.executable, "-m", "mblob.cli.main", "build", str(here / "digits.toml"), "-o", str(library)]
    subprocess.run(command, check=True)
    return mblob.load_module(library)


def test_the_held_back_images_show_each_digit_about_equally_often(here: Path) -> None:
    images, labels = np.load(here / "test_images.npy"), np.load(here / "test_labels.npy")
    assert (images.shape, images.dtype, labels.shape) == ((360, 8, 8), np.uint8, (360,))
    assert images.max() == 16
    counts = np.bincount(labels, minlength=10)
    assert counts.min() >= 34
    assert counts.max() <= 38


def test_the_weights_are_the_committed_file_in_place(net: mblob.Module, here: Path) -> None:
    (weights,) = net.imported_modules
    assert weights.type_key == "safetensors"
    assert bytes(weights.payload) == (here / "weights.safetensors").read_bytes()
    shapes = {name: tuple(tensor.shape) for name, tensor in weights.tensors.items()}
    assert shapes == {
        "conv.weight": (16, 3, 3), "conv.bias": (16,), "hidden.weight": (64, 256), "hidden.bias": (64,),
        "output.weight": (10, 64), "output.bias": (10,),
    }  # fmt: skip


def test_each_kernel_computes_what_numpy_does(net: mblob.Module) -> None:
    rng = np.random.default_rng(1)
    x, w, b = (rng.normal(size=s).astype("float32") for s in ((2, 5, 7), (3, 3, 3), (3,)))
    y = np.empty((2, 3, 5, 7), "float32")
    net["conv3x3"](2, 5, 7, 3, x, w, b, y)
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    np.testing.assert_allclose(y, np.einsum("nijab,cab->ncij", windows, w) + b[:, None, None], atol=1e-5)

    expected = np.maximum(y, 0)
    net["relu"](y.size, y)
    np.testing.assert_array_equal(y, expected)

    cells, largest = rng.normal(size=(6, 2, 2, 3, 2)).astype("float32"), np.empty((6, 2, 3), "float32")
    net["maxpool2x2"](6, 2, 3, cells, largest)
    np.testing.assert_array_equal(largest, cells.max(axis=(2, 4)))

    x, w, b = (rng.normal(size=s).astype("float32") for s in ((4, 9), (5, 9), (5,)))
    y = np.empty((4, 5), "float32")
    net["dense"](4, 9, 5, x, w, b, y)
    np.testing.assert_allclose(y, x @ w.T + b, atol=1e-5)

    best = np.empty(4, "int32")
    net["argmax"](4, 5, y, best)
    np.testing.assert_array_equal(best, y.argmax(axis=1))


def test_argmax_takes_the_first_of_equals(net: mblob.Module) -> None:
    best = np.empty(1, "int32")
    net["argmax"](1, 3, np.array([[1, 2, 2]], "float32"), best)
    assert best.tolist() == [1]


def test_a_shape_that_the_prototype_does_not_allow_is_refused(net: mblob.Module) -> None:
    x, w, b, y = np.zeros((4, 9), "f4"), np.zeros((5, 8), "f4"), np.zeros(5, "f4"), np.full((4, 5), 7, "f4")
    with pytest.raises(mblob.KernelError, match=r"dense: argument 4 \(weight\).*9"):
        net["dense"](4, 9, 5, x, w, b, y)
    assert (y == 7).all()


def test_the_comparison_fails_when_the_answers_differ(here: Path, net: mblob.Module, tmp_path: Path) -> None:
    """A C program that says 0 to every image stands in for a broken one."""
    library = tmp_path / "digits.so"
    pack = [sys.executable, "-m", "mblob.cli.main", "build", str(here / "digits.toml"), "-o", str(library)]
    subprocess.run(pack, check=True)
    program = tmp_path / "zeros"
    program.write_text("#!/bin/sh\nfor i in $(seq 360); do echo 0; done\n")
    program.chmod(0o755)
    command = [sys.executable, str(here / "classify.py"), str(library), str(program)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "DIFFERENT answers" in done.stdout
