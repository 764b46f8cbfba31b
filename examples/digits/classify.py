"""Classify the held-back test images with digits.so, from Python and from C, and compare.

    python classify.py DIGITS_SO C_PROGRAM

C_PROGRAM is classify.c, built; it gets the same library and images and prints one digit per line.
Exit status: 0; 1 when the answers differ or fewer than 97 % are right.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

import mblob

HERE = Path(__file__).resolve().parent
REQUIRED = 0.97


def classify(library: str, images: np.ndarray) -> np.ndarray:
    """The digit on each image: uint8 [n,8,8] with pixels 0..16 -> int32 [n]."""
    factory = mblob.load_module(library)
    model = mblob.graph_executor.GraphModule(factory["default"](mblob.cpu(0)))
    digits = np.empty(len(images), np.int32)
    for i in range(len(images)):
        model.set_input("image", images[i : i + 1])
        model.run()
        model.get_output(0, digits[i : i + 1])
    return digits


def main() -> int:
    if len(sys.argv) != 3:
        print(f"usage: {sys.argv[0]} DIGITS_SO C_PROGRAM", file=sys.stderr)
        return 2
    library, program = sys.argv[1:]
    images_file = HERE / "test_images.npy"
    images = np.load(images_file)
    labels = np.load(HERE / "test_labels.npy")

    in_python = classify(library, images)
    command = [str(Path(program).resolve()), library, str(images_file)]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    in_c = np.array(printed.split(), np.int32)

    n = len(labels)
    right_python = int(np.sum(in_python == labels))
    right_c = int(np.sum(in_c == labels)) if in_c.shape == labels.shape else 0
    same = np.array_equal(in_python, in_c)
    print(
        f"digits: python {100 * right_python / n:.1f} % ({right_python}/{n}), "
        f"C {100 * right_c / n:.1f} % ({right_c}/{n}), {'same' if same else 'DIFFERENT'} answers"
    )
    return 0 if same and min(right_python, right_c) >= REQUIRED * n else 1


if __name__ == "__main__":
    sys.exit(main())
