"""Compile the network of examples/digits with apache-tvm 0.27 to a Relax program. The libraries beside
this file are what it writes: `python compile.py digits_relax.so` takes any number of images,
`python compile.py digits_relax_20.so 20` exactly 20."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tvm  # type: ignore[import-not-found,import-untyped,unused-ignore]
from tvm import relax
from tvm.script import relax as R  # type: ignore[import-not-found,import-untyped,unused-ignore]

DIGITS = Path(__file__).parent.parent / "digits"


def weights() -> dict[str, Any]:
    raw = (DIGITS / "weights.safetensors").read_bytes()
    size = int.from_bytes(raw[:8], "little")
    found = {}
    for name, row in json.loads(raw[8 : 8 + size]).items():
        if name != "__metadata__":
            start, end = row["data_offsets"]
            data = np.frombuffer(raw[8 + size + start : 8 + size + end], "float32")
            found[name] = data.reshape(row["shape"])
    return found


def network(batch: int | None) -> tvm.IRModule:
    """The network for that many images, None for any number."""
    w = {name: relax.const(array) for name, array in weights().items()}
    builder = relax.BlockBuilder()
    n = tvm.tirx.Var("n", "int64") if batch is None else batch
    x = relax.Var("image", R.Tensor((n, 1, 8, 8), "uint8"))
    with builder.function("main", [x]):
        y = relax.op.divide(relax.op.astype(x, "float32"), relax.const(16.0, "float32"))
        y = relax.op.nn.conv2d(y, relax.op.reshape(w["conv.weight"], (16, 1, 3, 3)), padding=1)
        y = relax.op.nn.relu(relax.op.add(y, relax.op.reshape(w["conv.bias"], (1, 16, 1, 1))))
        y = relax.op.nn.max_pool2d(y, (2, 2), (2, 2))
        y = relax.op.reshape(y, (n, 256))
        for layer in ("hidden", "output"):
            y = relax.op.matmul(y, relax.op.permute_dims(w[f"{layer}.weight"]))
            y = builder.emit(relax.op.add(y, w[f"{layer}.bias"]))
            y = relax.op.nn.relu(y) if layer == "hidden" else y
        builder.emit_func_output(relax.op.astype(relax.op.argmax(y, axis=1), "int32"))
    return builder.get()


if __name__ == "__main__":
    target = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v2"})
    batch = int(sys.argv[2]) if len(sys.argv) > 2 else None
    relax.build(network(batch), target).export_library(sys.argv[1], options=["-s"])
