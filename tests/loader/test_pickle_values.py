"""Tensors, bound functions, payloads and functions in pickles, and copies of them."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.dtype import DataType

TYPES = [
    "float32", "float64", "float16", "bfloat16", "bool", "int1", "int4", "uint2", "int8x4", "float32x3", "uint1x2",
    "complex64", "int64", "uint16", "float8_e4m3fn", "float8_e5m2", "e4m3_float8", "float4_e2m1fn", "float6_e2m3fn",
    "float8_e3m4", "float4_e2m1fnx2", "bfloat16x2", "uint1x8",
]  # fmt: skip


def again(value: Any, protocol: int = 4) -> Any:
    return pickle.loads(pickle.dumps(value, protocol))


def bits(tensor: mblob.Tensor) -> bytes:
    return bytes(tensor._create_view((tensor.nbytes,), "uint8"))


def of_bits(shape: tuple[int, ...], dtype: str) -> mblob.Tensor:
    """A tensor whose bytes are 1, 2, 3, ..."""
    made = mblob.empty(shape, dtype)
    made._create_view((made.nbytes,), "uint8").copyfrom(
        np.arange(1, made.nbytes + 1).astype("uint8")
    )
    return made


@pytest.mark.parametrize("dtype", TYPES)
def test_a_tensor_of_each_type_arrives_with_its_bits_and_shape(dtype: str) -> None:
    for shape in ((2, 3), (), (0,), (4, 0, 2), (1,) * 7):
        given = of_bits(shape, dtype)
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            found = again(given, protocol)
            assert (found.shape, found.dtype, found.device) == (shape, given.dtype, mblob.cpu(0))
            assert bits(found) == bits(given)
            assert found.address % 64 == 0 or not found.nbytes


def test_the_types_tried_have_every_code_of_a_number() -> None:
    codes = {DataType.parse(t).code for t in TYPES}
    assert codes >= {0, 1, 2, 4, 5, 6, 10, 12, 15, 17, 128}


def test_copies_have_memory_of_their_own() -> None:
    given = mblob.array(np.arange(6, dtype="float32"))
    for copied in (copy.copy(given), copy.deepcopy(given), again(given)):
        given[:] = np.full(6, 7, "float32")
        assert copied.numpy().tolist() == [0, 1, 2, 3, 4, 5]
        copied.numpy()[:] = -1
        assert given.numpy().tolist() == [7] * 6
        given[:] = np.arange(6, dtype="float32")


def test_a_tensor_that_is_twice_in_a_pickle_arrives_once() -> None:
    given = mblob.array([1.0])
    for first, second in (again([given, given]), copy.deepcopy([given, given])):
        assert first is second


def test_views_arrive_with_their_elements_alone() -> None:
    base = np.arange(12, dtype="int16")
    strided = mblob.from_dlpack(base[4:8])
    part = mblob.array(base)._create_view((2, 2), relative_byte_offset=8)
    views = [(strided, [4, 5, 6, 7]), (part, [[4, 5], [6, 7]])]
    if np.lib.NumpyVersion(np.__version__) >= "2.1.0":  # before, numpy gives no read-only arrays
        lent = np.arange(3.0)
        lent.flags.writeable = False
        views.append((mblob.from_dlpack(lent), [0, 1, 2]))
    for given, expected in views:
        for copied in (again(given), again(given, 5), copy.copy(given), copy.deepcopy(given)):
            assert copied.numpy().tolist() == expected
            assert not copied.readonly
        assert len(pickle.dumps(given)) < 300


def test_buffers_outside_of_the_pickle_are_not_copied_into_it() -> None:
    given = mblob.array(np.arange(1 << 16, dtype="uint8"))
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(given, 5, buffer_callback=buffers.append)
    assert len(data) < 300
    assert np.shares_memory(np.frombuffer(buffers[0], "uint8"), given.numpy())
    found = pickle.loads(data, buffers=buffers)
    assert bits(found) == bits(given)
    assert not np.shares_memory(found.numpy(), given.numpy())


def test_addresses_are_not_pickled() -> None:
    with pytest.raises(TypeError, match="a Tensor of handles cannot be pickled: its elements are"):
        pickle.dumps(mblob.empty((2,), "handle"))
    assert copy.copy(mblob.empty((2,), "handle")).shape == (2,)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("values")
    (folder / "k.c").write_text(
        "void twice(const float *x, float *y, int n) { for (int i = 0; i < n; ++i) y[i] = 2 * x[i]; }"
    )
    host = mblob.csource_module(
        str(folder / "k.c"), functions=["void twice(const float x[n], float y[n], int n)"]
    )
    host.import_module(mblob.safetensors_module({"w": np.arange(3, dtype="float32")}))
    host.import_module(mblob.blob_module("config", b"text"))
    host.export_library(str(folder / "lib.so"))
    return folder / "lib.so"


def test_weights_and_payloads_arrive_as_their_bytes(library: Path) -> None:
    lib = mblob.load_module(library)
    for copied in (again(lib.tensors), copy.deepcopy(lib.tensors)):
        assert copied["w"].numpy().tolist() == [0, 1, 2]
        assert not copied["w"].readonly
    for copied in (again(lib.payloads), copy.deepcopy(lib.payloads)):
        assert (type(copied), copied["config"]) == (dict, b"text")
    assert copy.copy(lib.tensors)["w"].address == lib.tensors["w"].address
    assert isinstance(copy.copy(lib.payloads)["config"], memoryview)


def test_a_bound_function_arrives_with_its_arguments(library: Path) -> None:
    out = mblob.empty((3,))
    bound = mblob.load_module(library).twice.bind(mblob.array(np.ones(3, "f")), out, 3)
    found = again(bound)
    found()
    assert found.args[1].numpy().tolist() == [2, 2, 2]
    found.args[0][:] = np.zeros(3, "f")
    bound()
    assert out.numpy().tolist() == [2, 2, 2]


def test_functions_without_a_library_say_what_to_pickle_instead(library: Path) -> None:
    with pytest.raises(TypeError, match=r"pickle its name, and call mblob\.get_global_func where"):
        pickle.dumps(mblob.get_global_func("mblob.python_prefix"))
    with pytest.raises(TypeError, match=r"pickle the Python function, and pass it to mblob\.pack"):
        pickle.dumps(mblob.packed_function(len))
    for function in (mblob.packed_function(len), mblob.load_module(library).twice):
        assert copy.copy(function) is copy.deepcopy(function) is function


def test_what_is_not_packed_yet_says_what_to_pickle_instead(library: Path) -> None:
    weights = mblob.safetensors_module({"w": np.zeros(3, "f")})
    graph = mblob.graph_executor_factory('{"nodes": []}', {})
    for module in (weights, mblob.blob_module("config", b"{}"), graph):
        for use in (pickle.dumps, copy.deepcopy):
            with pytest.raises(
                TypeError, match="is not packed yet cannot be pickled or copied dee"
            ):
                use(module)
    of_file = mblob.blob_module("config", library)
    assert again(of_file).payload == of_file.payload == again(of_file).payload


def test_an_opened_file_says_what_to_pickle_instead(library: Path) -> None:
    with mblob.open(library) as opened:
        for use in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match=r"lib\.so: .* pass the path, and open it there"):
                use(opened)
        assert again(opened.to_json()) == opened.to_json()


@pytest.mark.own_process
def test_results_of_workers_are_tensors(tmp_path: Path) -> None:
    program = tmp_path / "work.py"
    program.write_text(
        "import multiprocessing, mblob, numpy as np\n"
        "def work(x):\n"
        "    return mblob.array(x.numpy() * 2), {'name': mblob.Shape([1, 2])}\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('fork').Pool(1) as pool:\n"
        "        for y, _ in pool.map(work, [mblob.array(np.full(2, i, 'f')) for i in range(3)]):\n"
        "            print(type(y).__name__, y.numpy().tolist())\n"
    )
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == (
        "Tensor [0.0, 0.0]\nTensor [2.0, 2.0]\nTensor [4.0, 4.0]\n",
        "",
    )
