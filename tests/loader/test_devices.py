"""Tensors and functions on a device: that of tests/c/kernels/plugin_toy.c, whose memory nobody else
can read."""

from __future__ import annotations

import copy
import gc
import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.compilers import include_flags

# The operators of a model are plain C functions, which mblob's executor can call.
pytestmark = [
    pytest.mark.own_process,
    pytest.mark.filterwarnings("ignore::mblob.errors.PortabilityWarning"),
]

CPU = mblob.cpu(0)


@pytest.fixture(scope="module")
def toy_path(root: Path, cc: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = (root / "tests/c/kernels/plugin_toy.c").read_text()
    flags = (*include_flags(), "-DMBLOB_HOST", '-DTOY_KEY="toy_key"', "-fvisibility=hidden")
    return cc(source, tmp_path_factory.mktemp("toy") / "toy.so", *flags)


@pytest.fixture
def device(toy_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[mblob.Device]:
    monkeypatch.setenv("MBLOB_PLUGIN_PATH", str(toy_path))
    yield mblob.device("ext_dev", 1)


def test_the_plug_in_names_its_devices(device: mblob.Device) -> None:
    assert (mblob.device("toy"), mblob.device("toy:1"), mblob.device("toy", 1)) == (
        mblob.device("ext_dev"),
        device,
        device,
    )
    for name in ("to", "toy\0", "", "toyy:1"):
        with pytest.raises(
            ValueError,
            match=r"is not known; expected one of .*, or the name of a plug-in's devices",
        ):
            mblob.device(name)


def test_an_array_goes_to_the_device_and_back(device: mblob.Device) -> None:
    values = np.arange(6, dtype="float32").reshape(2, 3)
    tensor = mblob.array(values, device)
    assert tensor.device == device
    assert (tensor.shape, tensor.dtype, tensor.nbytes) == ((2, 3), "float32", 24)
    assert repr(tensor) == "<mblob.Tensor float32[2, 3] on ext_dev:1>"
    assert tensor.address < 0x2000  # no address of this process
    back = tensor.numpy()
    np.testing.assert_array_equal(back, values)
    back[:] = 0  # a copy: the device keeps its own
    np.testing.assert_array_equal(tensor.numpy(), values)


def test_a_tensor_on_the_device_is_pickled_and_copied_to_the_same_device(
    device: mblob.Device, toy_path: Path, tmp_path: Path
) -> None:
    given = mblob.array(np.arange(3, dtype="int16"), device)
    for protocol in (2, 5):
        found = pickle.loads(pickle.dumps(given, protocol))
        assert (found.device, found.numpy().tolist()) == (device, [0, 1, 2])
    for copied in (copy.copy(given), copy.deepcopy(given)):
        copied[:] = np.zeros(3, "int16")
        assert copied.device == device
    assert given.numpy().tolist() == [0, 1, 2]
    (tmp_path / "t").write_bytes(pickle.dumps(given))
    program = f"import pickle; print(pickle.load(open({str(tmp_path / 't')!r}, 'rb')))"
    for plug_in, expected in (
        (str(toy_path), "int16[3] on ext_dev:1"),
        ("", "a Tensor on ext_dev:1, from a pickle: "),
    ):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "MBLOB_PLUGIN_PATH": plug_in},
            capture_output=True,
            text=True,
            check=False,
        )
        assert expected in done.stdout + done.stderr


def test_tensors_are_copied_between_devices(device: mblob.Device) -> None:
    source = mblob.array(np.arange(3, dtype="int16"), device)
    there = source.copyto(mblob.device("ext_dev", 0))
    assert there.device.device_id == 0
    np.testing.assert_array_equal(there.copyto(CPU).numpy(), [0, 1, 2])
    there[:] = np.array([7, 8, 9], dtype="int16")
    np.testing.assert_array_equal(source.copyfrom(there).numpy(), [7, 8, 9])
    with pytest.raises(ValueError, match="expected int16 of shape"):
        there.copyfrom(np.zeros(4, "int16"))


def test_memory_of_a_device_is_no_buffer_and_no_dlpack(device: mblob.Device) -> None:
    tensor = mblob.empty((2,), "float32", device)
    assert tensor.__dlpack_device__() == (12, 1)
    with pytest.raises(BufferError, match="copy it to the processor first"):
        memoryview(tensor)  # type: ignore[arg-type]
    with pytest.raises(BufferError, match="known to this runtime only"):
        tensor.__dlpack__()


def test_what_the_device_refuses_is_told(device: mblob.Device) -> None:
    with pytest.raises(
        mblob.IncompatibleError, match=r"toy: no device 5; there are 2, counted from 0"
    ):
        mblob.empty((2,), "float32", mblob.device("ext_dev", 5))
    with pytest.raises(MemoryError, match="16 MiB"):
        mblob.empty((1 << 25,), "uint8", device)
    np.testing.assert_array_equal(mblob.array(np.ones(2), device).numpy(), [1, 1])


def test_memory_is_given_back(device: mblob.Device) -> None:
    for _ in range(1000):  # the toy has 256 blocks
        mblob.empty((4,), "uint8", device)
    gc.collect()
    assert mblob.empty((4,), "uint8", device).nbytes == 4


def test_functions_of_a_plug_in_get_tensors_of_its_device(
    device: mblob.Device, tmp_path: Path, toy_path: Path
) -> None:
    host = mblob.csource_module("int unused;")
    host.import_module(mblob.blob_module("toy_key", b"12345"))
    host.export_library(tmp_path / "lib.so")
    lib = mblob.load_module(tmp_path / "lib.so")
    assert lib["in_child"]() == 45
    a, b = (mblob.array(np.array([x], "float32"), device) for x in (3, 4))
    total = mblob.empty((1,), "float32", device)
    mblob.get_global_func("__tvm_set_device")(12, 1)
    assert lib["sum"](a, b, total) == 1  # the thread's device
    assert total.numpy().tolist() == [7]
    with pytest.raises(mblob.KernelError, match="fails as it should"):
        lib["fails"]()


def test_plug_ins_are_listed(device: mblob.Device, toy_path: Path) -> None:
    from mblob.loader.plugins import plugins

    (toy,) = (p for p in plugins() if p.origin == str(toy_path))
    assert (toy.name, toy.version, toy.type_keys, toy.devices) == (
        "toy",
        "1.0",
        ("toy_key",),
        (12,),
    )
    assert toy.needs == "nothing" and toy.problem == ""
    assert toy.describe() == "toy number 4"


def split_graph(types: list[int]) -> str:
    """data -> copy to the device -> sum(there, there) -> copy back -> twice on the host."""
    nodes: list[dict[str, Any]] = [{"op": "null", "name": "data", "inputs": []}]

    def call(name: str, function: str, inputs: list[int]) -> None:
        attrs = {
            "func_name": function,
            "num_inputs": str(len(inputs)),
            "num_outputs": "1",
            "flatten_data": "0",
        }
        nodes.append(
            {"op": "tvm_op", "name": name, "attrs": attrs, "inputs": [[i, 0, 0] for i in inputs]}
        )

    call("there", "__copy", [0])
    call("added", "sum", [1, 1])
    call("back", "__copy", [2])
    call("result", "twice", [3])
    count = len(nodes)
    attrs = {
        "dltype": ["list_str", ["float32"] * count],
        "storage_id": ["list_int", list(range(count))],
        "shape": ["list_shape", [[1]] * count],
        "device_index": ["list_int", types],
    }
    return json.dumps(
        {
            "nodes": nodes,
            "arg_nodes": [0],
            "heads": [[4, 0, 0]],
            "node_row_ptr": list(range(count + 1)),
            "attrs": attrs,
        }
    )


@pytest.fixture
def split(device: mblob.Device, tmp_path: Path) -> mblob.Module:
    host = mblob.csource_module(
        "void twice(const float *x, float *y) { *y = 2 * *x; }",
        functions=["void twice(const float *x, float *y)"],
    )
    host.import_module(mblob.blob_module("toy_key", b"12345"))
    host.export_library(tmp_path / "split.so")
    return mblob.load_module(tmp_path / "split.so")


def test_a_graph_is_split_between_the_host_and_a_device(
    split: mblob.Module, device: mblob.Device
) -> None:
    graph = mblob.graph_executor.create(split_graph([1, 12, 12, 1, 1]), split, [CPU, device])
    for value in (3, 5):
        graph.set_input("data", np.array([value], "float32"))
        graph.run()
        assert graph.get_output(0).numpy().tolist() == [4 * value]
        graph.run(parallel=2)
        assert graph.get_output(0).numpy().tolist() == [4 * value]


# Of each node its name, its function, its inputs and where it is: 1 the host, 12 the device. The
# device and the host have work that does not depend on each other.
TWO_BRANCHES = {
    "to": ("__copy", ["data"], 12),
    "there": ("there", ["to"], 12),
    "back": ("__copy", ["there"], 1),
    "here": ("here", ["data"], 1),
    "more": ("here", ["here"], 1),
    "joined": ("join", ["back", "more"], 1),
}


def graph_of(nodes: dict[str, tuple[str, list[str], int]], order: Sequence[str]) -> str:
    names = ["data", *order]
    rows: list[dict[str, Any]] = [{"op": "null", "name": "data", "inputs": []}]
    for name in order:
        function, inputs, _ = nodes[name]
        attrs = {
            "func_name": function,
            "num_inputs": str(len(inputs)),
            "num_outputs": "1",
            "flatten_data": "0",
        }
        ends = [[names.index(i), 0, 0] for i in inputs]
        rows.append({"op": "tvm_op", "name": name, "attrs": attrs, "inputs": ends})
    count = len(rows)
    return json.dumps(
        {
            "nodes": rows,
            "arg_nodes": [0],
            "node_row_ptr": list(range(count + 1)),
            "heads": [[names.index("joined"), 0, 0]],
            "attrs": {
                "dltype": ["list_str", ["float32"] * count],
                "storage_id": ["list_int", list(range(count))],
                "shape": ["list_shape", [[1]] * count],
                "device_index": ["list_int", [1, *(nodes[name][2] for name in order)]],
            },
        }
    )


@pytest.mark.parametrize(
    "order", ["to there back here more joined", "here more to there back joined", "here to there more back joined"]
)  # fmt: skip
def test_the_device_gets_its_work_before_the_host_begins_whatever_the_order_of_nodes(
    device: mblob.Device, order: str
) -> None:
    done: list[str] = []

    def note(name: str, by: float) -> Callable[..., None]:
        def function(*tensors: mblob.Tensor) -> None:
            done.append(name)
            total = sum(float(t.numpy()[0]) for t in tensors[:-1])
            tensors[-1].copyfrom(np.array([by * total], "float32"))

        return function

    by = {"there": 3, "here": 2, "join": 1}
    kernels = mblob.Module("tests.kernels", functions={n: note(n, k) for n, k in by.items()})
    text = graph_of(TWO_BRANCHES, order.split())
    graph = mblob.graph_executor.create(text, kernels, [CPU, device])
    for value in (1, 5):
        done.clear()
        graph.run(data=np.array([value], "float32"), parallel=1)
        assert graph.get_output(0).numpy().tolist() == [(3 + 2 * 2) * value]
        assert done == ["there", "here", "here", "join"]
    bound = mblob.array(np.array([2], "float32"))
    graph.set_input_zero_copy("data", bound)  # what waits for what is found again
    graph.run()
    assert graph.get_output(0).numpy().tolist() == [14]


@pytest.mark.parametrize("parallel", [2, 3])
def test_an_operator_of_the_host_meets_one_of_a_device(device: mblob.Device, parallel: int) -> None:
    """Each waits for the other. What uses a device runs on the thread that called."""
    barrier = threading.Barrier(2, timeout=20)
    threads: dict[str, int] = {}

    def meet(name: str) -> Callable[..., None]:
        def function(*tensors: mblob.Tensor) -> None:
            threads[name] = threading.get_ident()
            if name == "there" or tensors[0].numpy()[0] == 1:  # not `more`
                barrier.wait()
            total = sum(float(t.numpy()[0]) for t in tensors[:-1])
            tensors[-1].copyfrom(np.array([2 * total], "float32"))

        return function

    text = graph_of(TWO_BRANCHES, list(TWO_BRANCHES))
    functions = {n: meet(n) for n in ("there", "here")} | {"join": lambda a, b, y: y.copyfrom(a)}
    graph = mblob.graph_executor.create(
        text, mblob.Module("tests.kernels", functions=functions), [CPU, device]
    )
    for _ in range(5):
        graph.run(data=np.array([1], "float32"), parallel=parallel)
        assert graph.get_output(0).numpy().tolist() == [2]
        assert threads["there"] == threading.get_ident() != threads["here"]


def test_what_one_node_writes_over_is_read_before(device: mblob.Device) -> None:
    """`early` reads the memory that `late` writes, and is listed first: giving the device its work
    first may not change that."""
    nodes = {
        "early": ("add", ["data", "data"], 1),
        "late": ("add", ["early", "data"], 1),
        "to": ("__copy", ["late"], 12),
        "there": ("add", ["to", "to"], 12),
        "back": ("__copy", ["there"], 1),
        "joined": ("add", ["back", "early"], 1),
    }

    def add(*tensors: mblob.Tensor) -> None:
        total = sum(float(t.numpy()[0]) for t in tensors[:-1])
        tensors[-1].copyfrom(np.array([total], "float32"))

    kernels = mblob.Module("tests.kernels", functions={"add": add})
    text = graph_of(nodes, list(nodes))
    graph = mblob.graph_executor.create(text, kernels, [CPU, device])
    graph.run(data=np.array([1], "float32"))
    assert graph.get_output(0).numpy().tolist() == [2 * (2 + 1) + 2]
    shared = json.loads(text)
    # `back` has the memory of `late`, which `to` reads
    shared["attrs"]["storage_id"][1][5] = shared["attrs"]["storage_id"][1][2]
    again = mblob.graph_executor.create(json.dumps(shared), kernels, [CPU, device])
    again.run(data=np.array([1], "float32"))
    assert again.get_output(0).numpy().tolist() == [2 * (2 + 1) + 2]


def test_values_on_a_device_come_from_anywhere_and_go_anywhere(
    split: mblob.Module, device: mblob.Device
) -> None:
    graph = mblob.graph_executor.create(split_graph([12, 12, 12, 12, 1]), split, [device, CPU])
    there = mblob.array(np.array([7], "float32"), device)
    graph.set_input("data", there)
    assert graph.get_input("data").device == device
    # its input is on the device, and the kernel wants the host
    with pytest.raises(mblob.MblobError, match=r"node 4 'result'"):
        graph.run()
    with pytest.raises(
        mblob.IncompatibleError,
        match=r"input 'data': the tensor is on device cpu:0.*ext_dev:1",
    ):
        graph.set_input_zero_copy("data", mblob.array(np.zeros(1, "float32")))
    graph.set_input_zero_copy("data", there)


def test_a_debug_executor_shows_what_is_on_the_device(
    split: mblob.Module, device: mblob.Device
) -> None:
    graph = mblob.graph_executor.create_debug(split_graph([1, 12, 12, 1, 1]), split, [CPU, device])
    graph.set_input("data", np.array([3], "float32"))
    graph.run()
    added = graph.get_node_output("added")
    assert added.device == device
    assert added.numpy().tolist() == [6]


def test_a_graph_for_a_device_that_is_not_there_is_refused(split: mblob.Module) -> None:
    with pytest.raises(mblob.IncompatibleError, match=r"toy: no device 7"):
        mblob.graph_executor.create(
            split_graph([1, 12, 12, 1, 1]), split, [CPU, mblob.device("ext_dev", 7)]
        )
    with pytest.raises(mblob.IncompatibleError, match=r"vulkan"):
        mblob.graph_executor.create(
            split_graph([1, 7, 7, 1, 1]), split, [CPU, mblob.device("vulkan")]
        )


def test_a_device_that_is_lost_tells_which_value_was_copied(
    split: mblob.Module, device: mblob.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = split_graph([12, 12, 12, 1, 1])
    graph = mblob.graph_executor.create(text, split, [device, CPU])
    factory = mblob.graph_executor_factory(text, {"data": np.ones(1, "float32")})
    host = mblob.csource_module(
        "void twice(const float *x, float *y) { *y = 2 * *x; }",
        functions=["void twice(const float *x, float *y)"],
    )
    host.import_module(mblob.blob_module("toy_key", b"12345"))
    factory.import_module(host)
    factory.export_library(tmp_path / "model.so")
    model = mblob.load_module(tmp_path / "model.so")
    with monkeypatch.context() as lost:
        lost.setenv("TOY_LOST", "1")
        with pytest.raises(mblob.KernelError, match=r"input 'data'.*: toy: the device is lost"):
            graph.set_input("data", np.ones(1, "float32"))
        with pytest.raises(
            mblob.KernelError, match=r"graph: parameter 'data': toy: the device is lost"
        ):
            model["default"](device, CPU)
    graph.set_input("data", np.full(1, 3, "float32"))
    assert graph.get_input("data").numpy().tolist() == [3]
