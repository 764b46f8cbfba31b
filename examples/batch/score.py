"""Read the digits on many images, in one process and on worker processes, and compare the rates.

    python score.py digits.so --count 2000000 --workers 2 one numpy dask ray

Each name is a way to do it: `one` calls mblob in this process, `numpy` calculates with numpy
instead, `dask` and `ray` send chunks of images to worker processes, to which they pickle the library.
Exit status: 0; 1 when two ways do not read the same digits.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import mblob

IMAGES = Path(__file__).resolve().parent.parent / "digits" / "test_images.npy"
CHUNK = 20_000  # images of a task
WEIGHTS = (
    "conv.weight", "conv.bias", "hidden.weight", "hidden.bias", "output.weight", "output.bias",
)  # fmt: skip

Range = tuple[int, int]


def images_of(part: Range) -> np.ndarray:
    """The images from one number up to another: those of the file again and again."""
    images: np.ndarray = np.load(IMAGES)
    chosen: np.ndarray = images[np.arange(*part) % len(images)]
    return chosen


def count_digits(digits: np.ndarray) -> np.ndarray:
    """Count how often there is a 0, a 1, ..."""
    return np.bincount(digits, minlength=10)


def total(counts: Iterable[np.ndarray]) -> np.ndarray:
    summed: np.ndarray = np.stack(list(counts)).sum(axis=0, dtype="int64")
    return summed


# -- one chunk -------------------------------------------------------------------------------------


def score(part: Range, lib: mblob.Module) -> np.ndarray:
    """The work of a worker: `lib` is a library that it opened when it unpickled its first task."""
    images = images_of(part)
    digits = np.empty(len(images), "int32")
    lib.classify(images, *(lib.tensors[name] for name in WEIGHTS), digits, len(images))
    return count_digits(digits)


def score_with_numpy(part: Range, w: dict[str, np.ndarray]) -> np.ndarray:
    x = np.pad(images_of(part).astype("float32") / 16, ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2))
    x = windows.reshape(-1, 9) @ w["conv.weight"].reshape(16, 9).T + w["conv.bias"]
    x = np.maximum(x, 0).reshape(-1, 4, 2, 4, 2, 16).max(axis=(2, 4))  # image, row, column, channel
    x = x.transpose(0, 3, 1, 2).reshape(-1, 256)
    x = np.maximum(x @ w["hidden.weight"].T + w["hidden.bias"], 0)
    x = x @ w["output.weight"].T + w["output.bias"]
    return count_digits(x.argmax(axis=1))


# -- all chunks ------------------------------------------------------------------------------------


def with_one(lib: mblob.Module, parts: list[Range], workers: int) -> tuple[np.ndarray, float]:
    start = time.perf_counter()
    return total(score(part, lib) for part in parts), time.perf_counter() - start


def with_numpy(lib: mblob.Module, parts: list[Range], workers: int) -> tuple[np.ndarray, float]:
    weights = {name: lib.tensors[name].numpy() for name in WEIGHTS}
    start = time.perf_counter()
    return total(score_with_numpy(part, weights) for part in parts), time.perf_counter() - start


def with_dask(lib: mblob.Module, parts: list[Range], workers: int) -> tuple[np.ndarray, float]:
    distributed: Any = import_module("dask.distributed")
    cluster = distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None
    )
    client = distributed.Client(cluster)
    try:
        client.gather(client.map(score, parts[:1] * workers, lib=lib, pure=False))  # imports
        start = time.perf_counter()
        counts = client.gather(client.map(score, parts, lib=lib, pure=False))
        return total(counts), time.perf_counter() - start
    finally:
        client.retire_workers()  # first: workers complain about a scheduler that is gone
        client.close()
        cluster.close()


def with_ray(lib: mblob.Module, parts: list[Range], workers: int) -> tuple[np.ndarray, float]:
    ray: Any = import_module("ray")
    ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
    try:
        task, given = ray.remote(score), ray.put(lib)
        ray.get([task.remote(part, given) for part in parts[:1] * workers])  # imports
        start = time.perf_counter()
        counts = ray.get([task.remote(part, given) for part in parts])
        return total(counts), time.perf_counter() - start
    finally:
        ray.shutdown()


WAYS: dict[str, Callable[[mblob.Module, list[Range], int], tuple[np.ndarray, float]]] = {
    "one": with_one,
    "numpy": with_numpy,
    "dask": with_dask,
    "ray": with_ray,
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Read the digits on many images.")
    parser.add_argument("library")
    parser.add_argument("ways", nargs="*", metavar="WAY", help="one, numpy, dask, ray")
    parser.add_argument("--count", type=int, default=2_000_000, help="number of images")
    parser.add_argument("--workers", type=int, default=2, help="worker processes")
    parser.add_argument(
        "--bytes", action="store_true", help="pickle the library itself, for other machines"
    )
    given = parser.parse_intermixed_args()
    ways = given.ways or ["one", "numpy", "dask"]
    if unknown := set(ways) - set(WAYS):
        parser.error(f"no such way: {', '.join(sorted(unknown))}")
    lib = mblob.load_module(given.library)
    if given.bytes:
        lib = lib.with_bytes()
    parts = [(at, min(at + CHUNK, given.count)) for at in range(0, given.count, CHUNK)]
    found = []
    for way in ways:
        digits, seconds = WAYS[way](lib, parts, given.workers)
        found.append(digits)
        print(f"{way:6}{given.count / seconds / 1e3:8.0f} thousand images/s", *digits, flush=True)
    return 0 if all((digits == found[0]).all() for digits in found) else 1


if __name__ == "__main__":
    sys.exit(main())
