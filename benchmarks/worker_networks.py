"""Networks inside one process, with the Python of Apache TVM: mblob builds libraries of them, ONNX
Runtime runs them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import worker
from tvm import relax

import mblob

CALLS: dict[str, Callable[[], Any]] = {}


def build(path: str, shapes: dict[str, list[int]], engine: str, plain: str) -> str:
    """Write the library of a network with oneDNN and that without; else why there is none."""
    try:
        program = mblob.byoc.relax.from_onnx(path, shapes)
    except Exception as error:
        return " ".join(str(error).split())[-120:] or type(error).__name__
    mblob.byoc.relax.build(program, "llvm", "dnnl").export_library(engine)
    relax.build(program, "llvm").export_library(plain)
    return ""


def quantize(path: str, shapes: dict[str, list[int]], made: str) -> None:
    """Write a network in int8 (QDQ): uint8 between layers, weights of int8 with a scale for each channel."""
    from onnxruntime import quantization

    random = np.random.default_rng(1)
    rows = iter(
        [{n: random.random(shape, dtype="float32") for n, shape in shapes.items()} for _ in "12"]
    )

    class Inputs(quantization.CalibrationDataReader):  # type: ignore[misc]
        def get_next(self) -> Any:
            return next(rows, None)

    part = f"{made}.part"
    quick = quantization.QuantType.QUInt8  # ONNX Runtime takes twice as long for QInt8
    quantization.quantize_static(path, part, Inputs(), per_channel=True, activation_type=quick)
    Path(part).rename(made)


def prepare(case: str, path: str, shapes: dict[str, list[int]], io: str, threads: int) -> float:
    """Make the action of a network, and write its inputs and results; the largest of these."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    random = np.random.default_rng(1)
    given = {
        value.name: random.random(shapes[value.name], dtype="float32")
        if value.type == "tensor(float)"
        else random.integers(0, 256, shapes[value.name], dtype=value.type[7:-1])
        for value in session.get_inputs()
    }
    CALLS[case] = lambda: session.run(None, given)
    results = CALLS[case]()
    numbered = {f"x{i}": x for i, x in enumerate(given.values())}
    np.savez(io, **numbered, **{f"y{i}": y for i, y in enumerate(results)})
    return max(float(abs(y).max()) for y in results)


def call(case: str) -> dict[str, float]:
    """The second of two calls: the first one wakes the threads."""
    CALLS[case]()
    return worker.sampled(CALLS[case])


if __name__ == "__main__":
    worker.serve({f.__name__: f for f in (build, quantize, prepare, call, worker.installed_bytes)})
