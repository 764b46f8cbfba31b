"""A program that apache-tvm compiles: `python tvm_program.py FOLDER` writes TARGET.MODE.tar, and io.npz with what
TVM's own machine gives: y of x."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np


def main(folder: Path) -> None:
    import tvm
    from tvm import relax
    from tvm.script import relax as script

    random = np.random.default_rng(5)
    first, second = (random.standard_normal(s).astype("float32") for s in ((8, 16), (16, 4)))
    block = relax.BlockBuilder()
    x = relax.Var("x", script.Tensor((2, 8), "float32"))
    with block.function("main", [x]):
        h = block.emit(relax.op.nn.relu(relax.op.matmul(x, relax.const(first))))
        y = block.emit(relax.op.nn.softmax(relax.op.matmul(h, relax.const(second))))
        block.emit_func_output(y)
    for target, mode in (("llvm", "compiled"), ("c", "bytecode"), ("llvm", "bytecode")):
        built = relax.build(block.get(), target, exec_mode=mode)
        built.export_library(str(folder / f"{target}.{mode}.tar"))
    built.export_library(str(folder / "tvm.so"))
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(folder / "tvm.so")), tvm.cpu())
    given = random.standard_normal((2, 8)).astype("float32")
    np.savez(folder / "io.npz", x=given, y=machine["main"](tvm.runtime.tensor(given)).numpy())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
