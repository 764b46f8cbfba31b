"""Prints the table of docs/howto/updates.md: what an update of a library moves, by tool.

    python3 -m benchmarks.updating [--size MIB] [--tensor MIB] [--folder DIR]

A tool that is not installed is left out. The libraries and their copies take eight times the size.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import mblob

MIB = 1 << 20
KERNELS = """#include <math.h>
void scale(float x[64], float by) { for (int i = 0; i < 64; ++i) x[i] *= by; }
void warp(float x[64]) { for (int i = 0; i < 64; ++i) x[i] = %s; }
"""
OLD_CODE = KERNELS % "x[i] + 1"
NEW_CODE = KERNELS % "sinf(x[i]) * expf(-x[i] * x[i]) + sqrtf(fabsf(x[i]))"
CHANGED = "layer1"


def make(folder: Path, size: int, tensor: int) -> None:
    """Write old.so, nothing.so, kernel.so, tensor.so and both.so: what changed is in the name.

    Args:
        size: bytes of weights.
        tensor: bytes of each tensor.
    """
    random = np.random.default_rng(1)
    weights = {
        f"layer{i}": random.integers(0, 256, tensor, "uint8") for i in range(max(2, size // tensor))
    }
    new = random.integers(0, 256, tensor, "uint8")
    for name, code in (("old", OLD_CODE), ("kernel", NEW_CODE)):
        module = mblob.csource_module(code)
        module.import_module(mblob.safetensors_module(weights))
        module.export_library(folder / f"{name}.so", options=["-lm"], reuse=False)
    shutil.copy(folder / "old.so", folder / "nothing.so")
    for name, source in (("tensor", "old"), ("both", "kernel")):
        mblob.swap(folder / f"{source}.so", weights={CHANGED: new}, output=folder / f"{name}.so")


def code_size(folder: Path) -> int:
    """Bytes of a library with the new kernel and no weights: what changes with a kernel, at most."""
    mblob.csource_module(NEW_CODE).export_library(folder / "code.so", options=["-lm"])
    return (folder / "code.so").stat().st_size


def _run(*words: object) -> str:
    command = [str(word) for word in words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def by_zstd(old: Path, new: Path, folder: Path) -> int:
    """A patch that is made where both files are."""
    _run("zstd", "-q", "-f", "--long=31", f"--patch-from={old}", new, "-o", folder / "patch")
    return (folder / "patch").stat().st_size


def by_rsync(old: Path, new: Path, folder: Path) -> int:
    """All bytes of rsync's own protocol, both ways. By itself it takes pieces of 32 KiB of a file of 1 GiB, and sends
    twice as much about them."""
    there = Path(shutil.copy(old, folder / "there.so"))
    options = ("--block-size=65536", "--no-whole-file", "--ignore-times", "--stats")
    said = _run("rsync", *options, new, there)
    return sum(
        int(n.replace(",", ""))
        for n in re.findall(r"Total bytes (?:sent|received): ([\d,]+)", said)
    )


def by_casync(old: Path, new: Path, folder: Path) -> int:
    """Chunks that the store did not have, as it compresses them, and the new index."""
    store = folder / "store.castr"
    shutil.rmtree(store, ignore_errors=True)
    _run("casync", "make", f"--store={store}", folder / "old.caibx", old)
    before = _size_of(store)
    _run("casync", "make", f"--store={store}", folder / "new.caibx", new)
    return _size_of(store) - before + (folder / "new.caibx").stat().st_size


def by_layer(old: Path, new: Path, folder: Path) -> int:
    """A layer of an OCI image has the whole file."""
    _run("tar", "-czf", folder / "layer.tar.gz", "-C", new.parent, new.name)
    return (folder / "layer.tar.gz").stat().st_size


def _size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


# How people call a way, the program that it needs, and what it moves.
WAYS: dict[str, tuple[str, Callable[[Path, Path, Path], int]]] = {
    "`zstd --patch-from`": ("zstd", by_zstd),
    "`rsync --block-size=65536`": ("rsync", by_rsync),
    "casync": ("casync", by_casync),
    "a layer of an OCI image": ("tar", by_layer),
}


def table(folder: Path, size: int, tensor: int) -> Iterator[str]:
    """The lines of the table, in Markdown. Sizes are in bytes, ratios without what a way moves for no change."""
    make(folder, size, tensor)
    code = code_size(folder)
    changes = {"kernel": code, "tensor": tensor, "both": code + tensor}
    yield f"| way | nothing | {' | '.join(f'{name}: {n:,} bytes' for name, n in changes.items())} |"
    yield "|---|---:|---:|---:|---:|"
    for way, (program, moved) in WAYS.items():
        if shutil.which(program) is None:
            continue
        for_nothing = moved(folder / "old.so", folder / "nothing.so", folder)
        cells = [f"{for_nothing:,}"]
        for name, changed in changes.items():
            bytes_moved = moved(folder / "old.so", folder / f"{name}.so", folder)
            cells.append(f"{bytes_moved:,} ({(bytes_moved - for_nothing) / changed:.3f}x)")
        yield f"| {way} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", type=int, default=1024, help="MiB of weights (default: 1024)")
    parser.add_argument("--tensor", type=int, default=16, help="MiB of a tensor (default: 16)")
    parser.add_argument("--folder", default=os.environ.get("TMPDIR"), help="where the files are")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        for line in table(Path(name), arguments.size * MIB, arguments.tensor * MIB):
            print(line, flush=True)


if __name__ == "__main__":
    main()
