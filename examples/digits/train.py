"""Train the digits network and write what the demo needs beside this file.

Needs numpy and scikit-learn (`pip install numpy scikit-learn`); the demo itself does not, because
its output is committed:

    weights.safetensors   float32: conv.weight [16,3,3], conv.bias [16], hidden.weight [64,256],
                          hidden.bias [64], output.weight [10,64], output.bias [10]
    test_images.npy       uint8 [360,8,8], pixels 0..16, never shown to the training
    test_labels.npy       uint8 [360], the digit each image shows

The data is `sklearn.datasets.load_digits`: 1797 images from the UCI set "Optical Recognition of
Handwritten Digits". The network is conv 3x3 -> relu -> max pool 2x2 -> dense -> relu -> dense, on
pixels / 16.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits  # type: ignore
from sklearn.model_selection import train_test_split  # type: ignore

HERE = Path(__file__).resolve().parent
SEED = 7
TEST_IMAGES = 360
CHANNELS, HIDDEN, CLASSES = 16, 64, 10
EPOCHS, BATCH, LEARNING_RATE, WEIGHT_DECAY = 80, 64, 2e-3, 1e-4


def initial_weights(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """He-normal weights and zero biases, in the order the layers run."""

    def layer(*shape: int) -> np.ndarray:
        scale = float(np.sqrt(2 / np.prod(shape[1:])))
        return (rng.normal(size=shape) * scale).astype(np.float32)

    return {
        "conv.weight": layer(CHANNELS, 3, 3),
        "conv.bias": np.zeros(CHANNELS, np.float32),
        "hidden.weight": layer(HIDDEN, CHANNELS * 16),
        "hidden.bias": np.zeros(HIDDEN, np.float32),
        "output.weight": layer(CLASSES, HIDDEN),
        "output.bias": np.zeros(CLASSES, np.float32),
    }


def patches(images: np.ndarray) -> np.ndarray:
    """The 3x3 neighbourhood of every pixel, zero outside: [n,8,8] -> [n,8,8,9]."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    return windows.reshape(*images.shape, 9)


def forward(w: dict[str, np.ndarray], images: np.ndarray) -> dict[str, np.ndarray]:
    """Every intermediate result for float32 images [n,8,8]; "logits" is [n,10]."""
    n = len(images)
    near = patches(images)
    conv = near @ w["conv.weight"].reshape(CHANNELS, 9).T + w["conv.bias"]  # [n,8,8,c]
    cells = np.maximum(conv, 0).transpose(0, 3, 1, 2).reshape(n, CHANNELS, 4, 2, 4, 2)
    pooled = cells.max(axis=(3, 5))
    flat = pooled.reshape(n, -1)
    hidden = np.maximum(flat @ w["hidden.weight"].T + w["hidden.bias"], 0)
    logits = hidden @ w["output.weight"].T + w["output.bias"]
    return {
        "near": near,
        "cells": cells,
        "pooled": pooled,
        "flat": flat,
        "hidden": hidden,
        "logits": logits,
    }


def gradients(
    w: dict[str, np.ndarray], images: np.ndarray, labels: np.ndarray
) -> dict[str, np.ndarray]:
    """Gradients of the mean cross entropy with respect to each weight."""
    n = len(images)
    f = forward(w, images)
    p = np.exp(f["logits"] - f["logits"].max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(n), labels] -= 1
    d_logits = p / n
    d_hidden = (d_logits @ w["output.weight"]) * (f["hidden"] > 0)
    d_pooled = (d_hidden @ w["hidden.weight"]).reshape(f["pooled"].shape)
    # The gradient goes to the largest cell of each 2x2 window, and only where relu let it through.
    largest = f["cells"] == f["pooled"][:, :, :, None, :, None]
    d_cells = d_pooled[:, :, :, None, :, None] * (largest & (f["cells"] > 0))
    d_conv = d_cells.reshape(n, CHANNELS, 8, 8).transpose(0, 2, 3, 1)
    return {
        "conv.weight": np.einsum("nijc,nijk->ck", d_conv, f["near"], optimize=True).reshape(
            CHANNELS, 3, 3
        ),
        "conv.bias": d_conv.sum(axis=(0, 1, 2)),
        "hidden.weight": d_hidden.T @ f["flat"],
        "hidden.bias": d_hidden.sum(axis=0),
        "output.weight": d_logits.T @ f["hidden"],
        "output.bias": d_logits.sum(axis=0),
    }


def shifted(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Each image moved by -1, 0 or 1 pixel in both directions: a digit stays what it is."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    moves = rng.integers(0, 3, size=(len(images), 2))
    return np.stack([p[y : y + 8, x : x + 8] for p, (y, x) in zip(padded, moves)])


def train(images: np.ndarray, labels: np.ndarray) -> dict[str, np.ndarray]:
    """Adam with a learning rate that falls to zero along a cosine; float32 throughout."""
    rng = np.random.default_rng(SEED)
    w = initial_weights(rng)
    mean = {k: np.zeros_like(v) for k, v in w.items()}
    square = {k: np.zeros_like(v) for k, v in w.items()}
    steps = EPOCHS * (len(images) // BATCH)
    step = 0
    for _ in range(EPOCHS):
        order = rng.permutation(len(images))
        for start in range(0, len(images) - BATCH + 1, BATCH):
            batch = order[start : start + BATCH]
            step += 1
            rate = LEARNING_RATE * 0.5 * (1 + np.cos(np.pi * step / steps))
            for k, g in gradients(w, shifted(images[batch], rng), labels[batch]).items():
                g = g + WEIGHT_DECAY * w[k]
                mean[k] = 0.9 * mean[k] + 0.1 * g
                square[k] = 0.999 * square[k] + 0.001 * g * g
                estimate = mean[k] / (1 - 0.9**step)
                spread = np.sqrt(square[k] / (1 - 0.999**step))
                w[k] = (w[k] - rate * estimate / (spread + 1e-8)).astype(np.float32)
    return w


def save_safetensors(path: Path, tensors: dict[str, np.ndarray]) -> None:
    """Write float32 tensors: u64 header size, JSON header padded to 8 bytes, then the data without
    gaps."""
    header, end = {}, 0
    for name, tensor in tensors.items():
        header[name] = {
            "dtype": "F32",
            "shape": list(tensor.shape),
            "data_offsets": [end, end + tensor.nbytes],
        }
        end += tensor.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    data = b"".join(t.astype("<f4").tobytes() for t in tensors.values())
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def main() -> None:
    digits = load_digits()
    train_images, test_images, train_labels, test_labels = train_test_split(
        digits.images,
        digits.target,
        test_size=TEST_IMAGES,
        stratify=digits.target,
        random_state=SEED,
    )
    w = train((train_images / 16).astype(np.float32), train_labels)
    right = np.sum(
        forward(w, (test_images / 16).astype(np.float32))["logits"].argmax(axis=1) == test_labels
    )
    print(f"held-back images: {right}/{TEST_IMAGES} right ({100 * right / TEST_IMAGES:.1f} %)")
    save_safetensors(HERE / "weights.safetensors", w)
    np.save(HERE / "test_images.npy", test_images.astype(np.uint8))
    np.save(HERE / "test_labels.npy", test_labels.astype(np.uint8))


if __name__ == "__main__":
    main()
