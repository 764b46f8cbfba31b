"""Apache TVM inside one process, with its own Python: `export_library`, `load_module`, calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import relax_models
import tvm
import tvm.te as te
import tvm_ffi
import worker

CALLS: dict[str, Callable[[int], object]] = {}


def kernels() -> Any:
    """A module with `add4`, compiled by TVM."""
    a, b = (te.placeholder((4,), name=name) for name in "ab")
    c = te.compute((4,), lambda i: a[i] + b[i], name="c")
    function = te.create_prim_func([a, b, c]).with_attr("global_symbol", "add4")
    return tvm.compile(tvm.IRModule({"add4": function}), target="llvm").mod


def export(payload: str, output: str) -> dict[str, float]:
    """Pack kernels, and a file's bytes as a constant; reading and compiling them is not counted."""
    module = kernels()
    if payload:
        constant = tvm.runtime.tensor(np.fromfile(payload, np.uint8))
        create = tvm_ffi.get_global_func("ffi.Module.create.const_loader")
        module.import_module(create({"payload": constant}, {"none": ["payload"]}))
    return worker.sampled(lambda: module.export_library(output))


def load(path: str, count: int) -> dict[str, float]:
    def action() -> object:
        # else the next one only finds it again
        module = tvm_ffi.load_module(path, keep_module_alive=False)
        assert len(module.imports) == count
        return module

    return worker.sampled(action, with_faults=True)


def prepare(path: str) -> None:
    """Make the loops of calls."""
    function = tvm.runtime.load_module(path)["add4"]
    arrays = [np.ones(4, np.float32) for _ in range(3)]
    tensors = [tvm.runtime.tensor(a) for a in arrays]
    add = np.add

    def loop(p: Any, q: Any, r: Any) -> Callable[[int], None]:
        def run(count: int) -> None:
            for _ in range(count):
                function(p, q, r)

        return run

    def numpy(count: int) -> None:
        a, b, c = arrays
        for _ in range(count):
            add(a, b, out=c)

    CALLS.update(arrays=loop(*arrays), tensors=loop(*tensors), numpy=numpy)
    CALLS["arrays"](1)
    assert arrays[2].tolist() == [2.0] * 4


def call(case: str, count: int) -> dict[str, float]:
    return worker.per_call(CALLS[case], count)


def write_relax(folder: str) -> dict[str, list[int]]:
    """Compile the Relax programs; the shapes of their arguments by name."""
    relax_models.write(folder)
    return {name: list(shape) for name, shape in relax_models.INPUTS.items()}


def prepare_relax(folder: str, shapes: dict[str, list[int]]) -> dict[str, float]:
    """Make loops of calls of `main`; the sums of what it gives."""
    sums = {}
    for name, shape in shapes.items():
        program = tvm.runtime.load_module(f"{folder}/relax_{name}.so")
        function = tvm.relax.VirtualMachine(program, tvm.cpu())["main"]
        x = tvm.runtime.tensor(np.full(shape, 0.5, "float32"))
        CALLS[name] = worker.repeated(function, x)
        sums[name] = float(function(x).numpy().sum())
    return sums


if __name__ == "__main__":
    actions = (export, load, prepare, call, write_relax, prepare_relax)
    worker.serve({f.__name__: f for f in actions})
