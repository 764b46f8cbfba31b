"""Read-only memory is never written, whoever gives it: executors name the output and can be used
again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob

# Their operators are plain C functions, which mblob's executor can call.
pytestmark = pytest.mark.filterwarnings("ignore::mblob.errors.PortabilityWarning")

KERNEL = "void twice(const float x[4], float y[4]) { for (int i = 0; i < 4; i++) y[i] = 2 * x[i]; }"
GRAPH = {
    "nodes": [
        {"op": "null", "name": "x", "inputs": []},
        {
            "op": "tvm_op", "name": "double", "inputs": [[0, 0, 0]],
            "attrs": {"func_name": "twice", "num_inputs": "1", "num_outputs": "1", "flatten_data": "0"},
        },
    ],
    "arg_nodes": [0],
    "heads": [[1, 0, 0]],
    "node_row_ptr": [0, 1, 2],
    "attrs": {
        "dltype": ["list_str", ["float32"] * 2],
        "storage_id": ["list_int", [0, 1]],
        "shape": ["list_shape", [[4], [4]]],
    },
}  # fmt: skip


class OnlyDlpack:
    """The array through DLPack alone."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **asked: Any) -> Any:
        return self.array.__dlpack__(**asked)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def of_bytes(shape: tuple[int, ...], folder: Path) -> tuple[Any, Callable[[], bytes]]:
    kept = bytes(64 + 4 * int(np.prod(shape)))
    start = -np.frombuffer(kept, "u1").ctypes.data % 64
    array = np.frombuffer(kept, "f4", offset=start, count=int(np.prod(shape))).reshape(shape)
    return array, lambda: kept


def of_a_file(shape: tuple[int, ...], folder: Path) -> tuple[Any, Callable[[], bytes]]:
    np.save(folder / "kept.npy", np.zeros(shape, "f4"))
    return np.load(folder / "kept.npy", mmap_mode="r"), (folder / "kept.npy").read_bytes


def of_a_flag(shape: tuple[int, ...], folder: Path) -> tuple[Any, Callable[[], bytes]]:
    array = mblob.empty(shape).numpy()
    array[...] = 0
    array.flags.writeable = False
    return array, array.tobytes


def of_dlpack(shape: tuple[int, ...], folder: Path) -> tuple[Any, Callable[[], bytes]]:
    array, kept = of_a_flag(shape, folder)
    try:
        array.__dlpack__(max_version=(1, 0))
    except (TypeError, BufferError):
        pytest.skip("this numpy gives no read-only DLPack")
    return OnlyDlpack(array), kept


def of_a_tensor(shape: tuple[int, ...], folder: Path) -> tuple[Any, Callable[[], bytes]]:
    array, _ = of_a_flag(shape, folder)
    record = mblob.load_param_dict(mblob.save_param_dict({"t": array}))["t"]
    assert record.readonly
    return record, lambda: record.numpy().tobytes()


@pytest.fixture(params=[of_bytes, of_a_file, of_a_flag, of_dlpack, of_a_tensor])
def read_only(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[tuple[int, ...]], Any]:
    """`array, kept = read_only(shape)`: memory that must not change, and a function that gives its
    bytes."""
    return lambda shape: request.param(shape, tmp_path)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> mblob.Module:
    folder = tmp_path_factory.mktemp("read_only")
    factory = mblob.graph_executor_factory(json.dumps(GRAPH))
    factory.import_module(mblob.csource_module(KERNEL, functions=[KERNEL.split(" {")[0]]))
    factory.export_library(folder / "m.so")
    return mblob.load_module(folder / "m.so")


def of_mlp(golden: Path) -> dict[str, np.ndarray]:
    """Input and output of the network that mlp_llvm, aot_mlp and vm_mlp hold."""
    with np.load(golden / "mlp_llvm.npz") as stored:
        return dict(stored)


def check(call: Callable[[Any], Any], text: str, given: tuple[Any, Callable[[], bytes]]) -> None:
    array, kept = given
    before = kept()
    with pytest.raises(ValueError, match="the array is read-only") as caught:
        call(array)
    assert text in str(caught.value)
    assert kept() == before


X = np.arange(4, dtype="f4")
MODEL_CALLS = {
    "get_output(0, ...)": lambda m, out: m.get_output(0, out),
    "get_output('double', ...)": lambda m, out: m.module["get_output"]("double", out),
    "set_output_zero_copy(0, ...)": lambda m, out: m.set_output_zero_copy(0, out),
    "set_output_zero_copy('double', ...)": lambda m, out: m.module["set_output_zero_copy"](
        "double", out
    ),
    "debug_get_output('double', ...)": lambda m, out: m.debug_get_output("double", out),
    "get_output(0, ...): argument 1": lambda m, out: m.module["get_output"].bind(0, out),
}


@pytest.mark.parametrize("text", MODEL_CALLS)
def test_graphs_write_to_no_read_only_array(
    library: mblob.Module, read_only: Any, text: str
) -> None:
    model = mblob.graph_executor.GraphModuleDebug(library["debug_create"]("default", mblob.cpu(0)))
    model.run(x=X)
    check(lambda array: MODEL_CALLS[text](model, array), text, read_only((4,)))
    model.run(x=X + 1)
    np.testing.assert_array_equal(model.get_output(0, np.zeros(4, "f4")).numpy(), 2 * (X + 1))


@pytest.mark.parametrize(
    "text", ["get_output(0, ...)", "get_input('data', ...)", "set_output_zero_copy(0, ...)"]
)
def test_ahead_of_time_models_neither(golden: Path, read_only: Any, text: str) -> None:
    stored = of_mlp(golden)
    model = mblob.aot_executor.AotModule(
        mblob.load_module(golden / "aot_mlp.so")["default"](mblob.cpu(0))
    )
    model.run(data=stored["data"])
    calls = {
        "get_output(0, ...)": (model.get_output, 0),
        "get_input('data', ...)": (model.get_input, "data"),
        "set_output_zero_copy(0, ...)": (model.set_output_zero_copy, 0),
    }
    function, key = calls[text]
    shape = stored["data"].shape if key else stored["out"].shape
    check(lambda array: function(key, array), text, read_only(shape))
    model.run()
    np.testing.assert_allclose(model.get_output(0).numpy(), stored["out"], rtol=1e-5)


def test_virtual_machines_neither(golden: Path, read_only: Any) -> None:
    stored = of_mlp(golden)
    machine = mblob.vm.VirtualMachine(mblob.load_module(golden / "vm_mlp.so"), mblob.cpu(0))
    check(
        lambda array: machine.set_outputs("main", array),
        "set_outputs('main', ...): argument 1",
        read_only((1, 10)),
    )
    np.testing.assert_allclose(machine.run(stored["data"]).numpy(), stored["out"], rtol=1e-5)


def test_tensors_are_copied_to_no_read_only_one(read_only: Any) -> None:
    array, kept = read_only((4,))
    before = kept()
    target = mblob.from_dlpack(array) if isinstance(array, OnlyDlpack) else array
    target = (
        target
        if isinstance(target, mblob.Tensor)
        else mblob.load_param_dict(mblob.save_param_dict({"t": X}))["t"]
    )
    for copy in (
        lambda: target.copyfrom(X),
        lambda: mblob.array(X).copyto(target),
        lambda: target.__setitem__(slice(None), X),
    ):
        with pytest.raises(ValueError, match="read-only"):
            copy()
    assert kept() == before


def test_a_lent_read_only_input_of_a_graph_stays_so(library: mblob.Module, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    model = mblob.graph_executor.GraphModule(library["default"](mblob.cpu(0)))
    model.set_input_zero_copy("x", mapped)
    for key in ("x", 0):
        view = model.get_input(key)
        assert view.readonly
        with pytest.raises(ValueError, match="read-only"):
            view.copyfrom(X)
    model.run()
    np.testing.assert_array_equal(model.get_output(0).numpy(), 2 * X)
    model.set_input("x", X + 1)
    model.get_input("x").copyfrom(X + 3)
    model.run()
    np.testing.assert_array_equal(model.get_output(0).numpy(), 2 * (X + 3))
    np.testing.assert_array_equal(mapped, X)


def test_and_one_of_a_model_compiled_ahead_of_time(golden: Path, tmp_path: Path) -> None:
    stored = of_mlp(golden)
    np.save(tmp_path / "x.npy", stored["data"])
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    model = mblob.aot_executor.AotModule(
        mblob.load_module(golden / "aot_mlp.so")["default"](mblob.cpu(0))
    )
    model.set_input_zero_copy("data", mapped)
    view = model.get_input("data")
    assert view.readonly and view.address == mapped.ctypes.data
    model.run()
    np.testing.assert_allclose(model.get_output(0).numpy(), stored["out"], rtol=1e-5)
    with pytest.raises(ValueError, match="expected shape"):
        model.set_input("data", stored["data"][0])
    assert model.get_input(0).address == mapped.ctypes.data
    model.set_input("data", np.zeros_like(stored["data"]))
    assert not model.get_input("data").readonly
    np.testing.assert_array_equal(mapped, stored["data"])
    model.run(data=mapped)
    np.testing.assert_allclose(model.get_output(0).numpy(), stored["out"], rtol=1e-5)
