"""The digits example: the data is what it says, kernels compute what numpy does, wrong shapes are
refused."""

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
    command = [
        sys.executable,
        "-m",
        "mblob.cli.main",
        "build",
        str(here / "digits.toml"),
        "-o",
        str(library),
    ]
    subprocess.run(command, check=True)
    return mblob.load_module(library)


def test_the_held_back_images_show_each_digit_about_equally_often(here: Path) -> None:
    images, labels = np.load(here / "test_images.npy"), np.load(here / "test_labels.npy")
    assert (images.shape, images.dtype, labels.shape) == ((360, 8, 8), np.uint8, (360,))
    assert images.max() == 16
    counts = np.bincount(labels, minlength=10)
    assert counts.min() >= 34
    assert counts.max() <= 38


def test_the_parameters_are_the_committed_weights(net: mblob.Module, here: Path) -> None:
    assert net.type_key == "GraphExecutorFactory"
    assert [m.type_key for m in net.imported_modules] == ["library"]
    weights = mblob.safetensors_module(here / "weights.safetensors")
    assert dict(net.tensors).keys() == {
        "conv.weight", "conv.bias", "hidden.weight", "hidden.bias", "output.weight", "output.bias"
    }  # fmt: skip
    data = bytes(weights.payload)
    for name, tensor in net.tensors.items():
        assert tensor.numpy().tobytes() in data, name


def test_the_model_tells_what_it_takes_and_gives(net: mblob.Module) -> None:
    model = mblob.graph_executor.GraphModule(net["default"](mblob.cpu(0)))
    assert model.get_input_info() == ({"image": (1, 8, 8)}, {"image": "uint8"})
    assert model.get_output_info() == (
        {"digit:0": (1,), "logits:1": (1, 10)},
        {"digit:0": "int32", "logits:1": "float32"},
    )


def test_each_kernel_computes_what_numpy_does(net: mblob.Module) -> None:
    rng = np.random.default_rng(1)
    pixels, image = rng.integers(0, 17, (1, 8, 8)).astype("uint8"), np.empty((1, 8, 8), "float32")
    net["normalize"](pixels, image)
    np.testing.assert_array_equal(image, pixels.astype("float32") / 16)

    x, w, b = (rng.normal(size=s).astype("float32") for s in ((1, 8, 8), (16, 3, 3), (16,)))
    y = np.empty((1, 16, 8, 8), "float32")
    net["conv_relu"](x, w, b, y)
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    conv = np.einsum("nijab,cab->ncij", windows, w) + b[:, None, None]
    np.testing.assert_allclose(y, np.maximum(conv, 0), atol=1e-5)

    largest = np.empty((1, 16, 4, 4), "float32")
    net["max_pool"](conv.astype("float32"), largest)
    np.testing.assert_array_equal(
        largest, conv.astype("float32").reshape(1, 16, 4, 2, 4, 2).max(axis=(3, 5))
    )

    x, w, b = (rng.normal(size=s).astype("float32") for s in ((1, 64), (10, 64), (10,)))
    y, best = np.empty((1, 10), "float32"), np.empty(1, "int32")
    net["dense"](x, w, b, y)
    np.testing.assert_allclose(y, x @ w.T + b, atol=1e-5)
    net["argmax"](y, best)
    assert best == y.argmax()

    x, w, b = (rng.normal(size=s).astype("float32") for s in ((1, 256), (64, 256), (64,)))
    y = np.empty((1, 64), "float32")
    net["dense_relu"](x, w, b, y)
    np.testing.assert_allclose(y, np.maximum(x @ w.T + b, 0), atol=1e-4)


def test_argmax_takes_the_first_of_equals(net: mblob.Module) -> None:
    best = np.empty(1, "int32")
    net["argmax"](np.array([[1, 2, 2, 0, 0, 0, 0, 0, 0, 2]], "float32"), best)
    assert best.tolist() == [1]


def test_a_shape_that_the_prototype_does_not_allow_is_refused(net: mblob.Module) -> None:
    x, w, b, y = (
        np.zeros((1, 64), "f4"),
        np.zeros((10, 63), "f4"),
        np.zeros(10, "f4"),
        np.full((1, 10), 7, "f4"),
    )
    with pytest.raises(
        mblob.KernelError, match=r"dense: argument 1 \(weight\): expected shape \(10, 64\)"
    ):
        net["dense"](x, w, b, y)
    assert (y == 7).all()


def test_the_comparison_fails_when_the_answers_differ(
    here: Path, net: mblob.Module, tmp_path: Path
) -> None:
    """A C program that says 0 to every image stands in for a broken one."""
    library = tmp_path / "digits.so"
    pack = [
        sys.executable,
        "-m",
        "mblob.cli.main",
        "build",
        str(here / "digits.toml"),
        "-o",
        str(library),
    ]
    subprocess.run(pack, check=True)
    program = tmp_path / "zeros"
    program.write_text("#!/bin/sh\nfor i in $(seq 360); do echo 0; done\n")
    program.chmod(0o755)
    command = [sys.executable, str(here / "classify.py"), str(library), str(program)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "DIFFERENT answers" in done.stdout
