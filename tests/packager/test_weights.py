"""Weights as people have them: dictionaries of arrays, .npz, .npy and .safetensors files."""

from __future__ import annotations

import io
import json
import tracemalloc
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

import mblob

ARRAYS = {
    "fc.bias": np.arange(3, dtype="int8"),
    "fc.weight": np.arange(6, dtype="float32").reshape(2, 3).T,  # column-major
}


def packed(weights: Any, tmp_path: Path) -> Mapping[str, Any]:
    mblob.export_library(mblob.safetensors_module(weights), tmp_path / "w.so")
    return mblob.load_module(tmp_path / "w.so").tensors


def check(found: Mapping[str, Any], expected: Mapping[str, Any] = ARRAYS) -> None:
    assert set(found) == set(expected)
    for name, array in expected.items():
        assert np.array_equal(found[name].numpy(), array)
        assert found[name].dtype == str(array.dtype)


def test_a_dictionary_of_arrays_is_packed_as_weights(tmp_path: Path) -> None:
    check(packed(ARRAYS, tmp_path))


def test_save_tensors_writes_what_is_packed_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "w.safetensors"
    mblob.save_tensors(file, ARRAYS)
    check(packed(file, tmp_path))
    with mblob.open(tmp_path / "w.so") as library:
        assert bytes(library.entries[-1].view()) == file.read_bytes()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed], ids=["stored", "deflated"])
def test_npz_is_packed_as_weights(tmp_path: Path, save: Any) -> None:
    rows = {name: np.ascontiguousarray(array) for name, array in ARRAYS.items()}
    save(tmp_path / "w.npz", **rows)
    check(packed(tmp_path / "w.npz", tmp_path))


def test_a_compressed_npz_is_not_held_in_memory(tmp_path: Path) -> None:
    array = np.zeros(1 << 23, "float32")  # 32 MiB
    array[::1000] = 3
    np.savez_compressed(tmp_path / "w.npz", w=array)
    host = mblob.csource_module("")
    tracemalloc.start()
    try:
        host.import_module(mblob.safetensors_module(tmp_path / "w.npz"))
        host.export_library(tmp_path / "w.so")
        assert tracemalloc.get_traced_memory()[1] < array.nbytes // 4
    finally:
        tracemalloc.stop()
    assert np.array_equal(mblob.load_module(tmp_path / "w.so").tensors["w"].numpy(), array)


def test_an_npz_without_arrays_is_a_file_of_no_weights(tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz")
    check(packed(tmp_path / "w.npz", tmp_path), {})


def test_npy_is_packed_under_the_name_of_its_file(tmp_path: Path) -> None:
    np.save(tmp_path / "bias.npy", ARRAYS["fc.bias"])
    check(packed(tmp_path / "bias.npy", tmp_path), {"bias": ARRAYS["fc.bias"]})


def test_a_dictionary_that_save_param_dict_wrote_is_packed_as_weights(tmp_path: Path) -> None:
    (tmp_path / "w.params").write_bytes(mblob.save_param_dict(ARRAYS))
    check(packed(tmp_path / "w.params", tmp_path))


def test_a_file_of_something_else_is_said_to_be_no_safetensors_file(tmp_path: Path) -> None:
    (tmp_path / "vadd.c").write_text("void vadd(const float *a, const float *b, float *c);")
    with pytest.raises(mblob.FormatError, match=r"vadd\.c: not a safetensors file; expected"):
        mblob.safetensors_module(tmp_path / "vadd.c")


def test_a_damaged_npz_is_an_error_that_names_it(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "w.npz", "w") as archive:
        archive.writestr("w.npy", b"nothing")
    with pytest.raises(mblob.FormatError, match=r"w\.npz:w\.npy: no \.npy file"):
        mblob.safetensors_module(tmp_path / "w.npz")
    (tmp_path / "w.npz").write_bytes(b"PK\3\4" + bytes(60))
    with pytest.raises(mblob.FormatError, match=r"w\.npz: not a \.npz file"):
        mblob.safetensors_module(tmp_path / "w.npz")


def test_a_file_that_is_missing_is_named_with_who_asked(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="safetensors_module: no such file"):
        mblob.safetensors_module(tmp_path / "w.safetensors")


def test_what_is_no_array_is_named(tmp_path: Path) -> None:
    with pytest.raises(mblob.BuildError, match="tensor 'w': expected an array"):
        mblob.safetensors_module({"w": "text"})
    with pytest.raises(mblob.BuildError, match="expected names of tensors as text, found int 1"):
        mblob.save_tensors(tmp_path / "w.safetensors", {1: ARRAYS["fc.bias"]})  # type: ignore[dict-item]
    assert not (tmp_path / "w.safetensors").exists()


@pytest.mark.parametrize("name", ["__metadata__", "a\0b"])
def test_names_that_safetensors_does_not_have_are_refused(tmp_path: Path, name: str) -> None:
    arrays = {name: ARRAYS["fc.bias"], **ARRAYS}
    np.savez(tmp_path / "w.npz", **{"__metadata__": ARRAYS["fc.bias"]})
    (tmp_path / "w.params").write_bytes(mblob.save_param_dict(arrays))
    for weights in (arrays, tmp_path / "w.npz", tmp_path / "w.params"):
        with pytest.raises(mblob.BuildError, match=r"tensor '.*'.*; choose another"):
            mblob.safetensors_module(weights)
    with pytest.raises(mblob.BuildError, match=r"save_tensors: tensor '.*'.*; choose another"):
        mblob.save_tensors(tmp_path / "w.safetensors", arrays)
    assert not (tmp_path / "w.safetensors").exists()


@pytest.mark.parametrize("name", [5, -5, None, b"w", ("w",)])
def test_names_of_parameters_are_text(name: Any) -> None:
    with pytest.raises(mblob.MblobError, match=r"save_param_dict: params\[1\]: expected str"):
        mblob.save_param_dict({"w": ARRAYS["fc.bias"], name: ARRAYS["fc.bias"]})


def test_the_safetensors_package_reads_what_save_tensors_writes(tmp_path: Path) -> None:
    mblob.save_tensors(tmp_path / "w.safetensors", ARRAYS)
    found = safetensors.numpy.load_file(tmp_path / "w.safetensors")
    assert set(found) == set(ARRAYS)
    assert all(np.array_equal(found[name], ARRAYS[name]) for name in ARRAYS)
    assert all(found[name].dtype == ARRAYS[name].dtype for name in ARRAYS)


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "float16", "int32", "float64", "uint64"]
)
@pytest.mark.parametrize("shape", [(), (0,), (3, 2, 1)])
def test_what_the_safetensors_package_writes_is_read_as_it_reads_it(
    tmp_path: Path, dtype: str, shape: tuple[int, ...]
) -> None:
    arrays = {"a": np.ones(shape, dtype), "b/é": np.arange(5).astype(dtype)}
    safetensors.numpy.save_file(arrays, tmp_path / "w.safetensors", metadata={"format": "np"})
    check(packed(tmp_path / "w.safetensors", tmp_path), arrays)


def test_damaged_and_ambiguous_npz_files_are_errors_of_the_format(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "w.npz", a=np.arange(1000.0))
    whole = (tmp_path / "w.npz").read_bytes()
    (tmp_path / "w.npz").write_bytes(whole[:60] + b"\xff" * 9 + whole[69:])
    with pytest.raises(mblob.FormatError, match=r"w\.npz: not a \.npz file"):
        mblob.safetensors_module(tmp_path / "w.npz")
    one = io.BytesIO()
    np.save(one, np.zeros(1))
    with zipfile.ZipFile(tmp_path / "twice.npz", "w") as archive:
        archive.writestr("a.npy", one.getvalue())
        archive.writestr("a", one.getvalue())
    with pytest.raises(mblob.FormatError, match="two arrays called 'a'"):
        mblob.safetensors_module(tmp_path / "twice.npz")


@pytest.mark.parametrize("how", ["zip", "pickle"])
def test_a_file_of_torch_is_named_with_what_converts_it(tmp_path: Path, how: str) -> None:
    path = tmp_path / "model.pt"
    if how == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("model/data.pkl", b"\x80\x02}q\x00.")
            archive.writestr("model/data/0", bytes(16))
    else:
        path.write_bytes(b"\x80\x02}q\x00.")
    with pytest.raises(
        mblob.FormatError, match=r"a file of torch\.save.*safetensors\.torch\.save_file"
    ):
        mblob.safetensors_module(path)


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "int64", "complex64"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_column_major_arrays_have_the_same_values_row_major(
    tmp_path: Path, dtype: str, save: Any
) -> None:
    shapes: list[tuple[int, ...]] = [
        (2, 3),
        (3, 1, 2),
        (4, 2, 3),
        (2, 3, 4, 5),
        (1, 7),
        (0, 2),
        (5, 2),
    ]
    arrays = {str(s): np.arange(np.prod(s)).astype(dtype).reshape(s) for s in shapes}
    save(tmp_path / "w.npz", **{name: np.asfortranarray(a) for name, a in arrays.items()})
    host = mblob.csource_module("")
    host.import_module(mblob.safetensors_module(tmp_path / "w.npz"))
    host.export_library(tmp_path / "a.so")
    lib = mblob.load_module(tmp_path / "a.so")
    for name, array in arrays.items():
        found = lib.tensors[name].numpy()
        assert found.flags.c_contiguous and found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)


# -- arrays of others ------------------------------------------------------------------------------


class Lent:
    """An array as PyTorch has them: no buffer protocol, a dtype of its own, `view`."""

    def __init__(self, array: Any, device: tuple[int, int] = (1, 0)) -> None:
        self.array, self.device = array, device
        self.dtype = f"torch.{array.dtype}"

    def view(self, *_: Any) -> Lent:
        raise AssertionError("torch.Tensor.view takes no text")

    def __dlpack__(self, **_: Any) -> Any:
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


def test_what_has_dlpack_is_packed(tmp_path: Path) -> None:
    whole = np.arange(24, dtype="float32").reshape(2, 3, 4)
    halves = mblob.empty((3,), "bfloat16").copyfrom(np.array([1, 2, 3], "float32"))
    state = {
        "rows": whole,
        "turned": whole.T,
        "part": whole[:, 1:, ::2],
        "scalar": np.array(7, "int64"),
        "empty": np.zeros((0, 3), "int8"),
        "flags": np.array([True, False]),
    }
    lent: dict[str, Any] = {name: Lent(array) for name, array in state.items()}
    mblob.save_tensors(tmp_path / "w.safetensors", lent | {"halves": Lent(halves)})
    file = mblob.safetensors_module(lent | {"halves": Lent(halves)})
    assert bytes(file.payload) == (tmp_path / "w.safetensors").read_bytes()
    file.export_library(tmp_path / "w.so")
    found = mblob.load_module(tmp_path / "w.so").tensors
    for name, array in state.items():
        np.testing.assert_array_equal(found[name].numpy(), array)
        assert found[name].dtype == str(array.dtype)
    assert found["halves"].dtype == "bfloat16"
    assert mblob.empty((3,), "float32").copyfrom(found["halves"]).numpy().tolist() == [1, 2, 3]
    new = np.ones((2, 3, 4), "float32")
    root = mblob.blob_module("one", Lent(whole))
    root.import_module(mblob.blob_module("two", [Lent(whole.T), b"1"]))
    root.export_library(tmp_path / "b.so")
    mblob.swap(tmp_path / "b.so", {"one": Lent(new)})
    mblob.add(tmp_path / "b.so", blobs={"three": Lent(new[:1])})
    payloads = mblob.load_module(tmp_path / "b.so").payloads
    assert bytes(payloads["one"]) == new.tobytes()
    assert bytes(payloads["two"]) == whole.T.tobytes() + b"1"
    assert bytes(payloads["three"]) == new[:1].tobytes()
    packed = mblob.save_param_dict({"rows": Lent(new)})
    np.testing.assert_array_equal(mblob.load_param_dict(packed)["rows"].numpy(), new)


class ReadOnly(Lent):
    """Gives a capsule with a version alone: no other can say that memory is read-only."""

    def __dlpack__(self, *, max_version: tuple[int, int]) -> Any:
        return mblob.array(self.array).__dlpack__(max_version=max_version)


def test_errors_name_the_tensor_that_lends_nothing_and_the_folder_of_an_index(
    tmp_path: Path,
) -> None:
    class Broken:
        def __dlpack_device__(self) -> tuple[int, int]:
            raise RuntimeError("it is gone")

        def __dlpack__(self) -> None: ...

    with pytest.raises(mblob.MblobError, match="'w': Broken gives no DLPack tensor: it is gone"):
        mblob.safetensors_module({"w": Broken()})
    (tmp_path / "tensor-cache.json").write_text('{"records": []}')
    with pytest.raises(mblob.MblobError, match=f"give its folder, {tmp_path}, as params"):
        mblob.safetensors_module(tmp_path / "tensor-cache.json")


def test_whatever_can_be_called_with_can_be_packed(tmp_path: Path) -> None:
    """Read-only arrays with `__dlpack__`, and capsules, which are used up and given back once."""
    mblob.csource_module(
        "float first(const float x[3]) { return x[0]; }"
        "void plus(const float *a, float *b) { *b += *a; }"
    ).export_library(tmp_path / "k.so")
    first = mblob.load_module(tmp_path / "k.so").first
    x = np.array([3, 4, 5], "float32")

    def lent() -> dict[str, Any]:
        tensor = mblob.array(x)
        return {
            "readonly": ReadOnly(x),
            "capsule": tensor.__dlpack__(),
            "versioned": tensor.__dlpack__(max_version=(1, 0)),
        }

    assert [first(value) for value in lent().values()] == [3, 3, 3]
    mblob.save_tensors(tmp_path / "w.safetensors", lent())
    given = lent()
    module = mblob.safetensors_module(given)
    assert bytes(module.payload) == (tmp_path / "w.safetensors").read_bytes()
    for name in "capsule", "versioned":
        with pytest.raises(mblob.MblobError, match="ask the array for a new one"):
            mblob.safetensors_module({"x": given[name]})
        with pytest.raises(mblob.MblobError, match="ask the array for a new one"):
            first(given[name])
    del given
    module.export_library(tmp_path / "w.so")
    for name, value in lent().items():
        mblob.swap(tmp_path / "w.so", weights={name: value})
        mblob.add(tmp_path / "k.so", weights={name: value if name == "readonly" else lent()[name]})
    for lib in map(mblob.load_module, (tmp_path / "w.so", tmp_path / "k.so")):
        assert [t.numpy().tolist() for t in lib.tensors.values()] == 3 * [[3, 4, 5]]
    packed = mblob.load_param_dict(mblob.save_param_dict(lent()))
    assert all(t.numpy().tolist() == [3, 4, 5] for t in packed.values())


def test_memory_of_a_capsule_is_given_back_once() -> None:
    import gc
    import weakref

    for version in {}, {"max_version": (1, 0)}:
        tensor = mblob.array(np.ones(3, "float32"))
        gone = weakref.ref(tensor)
        module = mblob.safetensors_module({"x": tensor.__dlpack__(**version)})
        del tensor
        gc.collect()
        assert gone() is not None and bytes(module.payload)[-12:] == np.ones(3, "float32").tobytes()
        del module
        gc.collect()
        assert gone() is None


def test_memory_of_a_device_and_no_capsule_are_told() -> None:
    with pytest.raises(
        TypeError, match=r"tensor 'w': expected memory of the host, found Lent on device \(2, 0\)"
    ):
        mblob.safetensors_module({"w": Lent(np.zeros(2), (2, 0))})
    with pytest.raises(TypeError, match=r"tensor 'w': Lent gives no DLPack tensor, but int"):
        broken = Lent(np.zeros(2))
        broken.__class__ = type("Lent", (Lent,), {"__dlpack__": lambda self: 3})
        mblob.safetensors_module({"w": broken})


def test_tensors_of_whole_lines_come_first_and_are_aligned(tmp_path: Path) -> None:
    arrays = {"a": np.zeros(3, "float64"), "b": np.zeros(64, "int8"), "c": np.zeros(32, "float32")}
    mblob.export_library(mblob.safetensors_module(arrays), tmp_path / "w.so")
    tensors = mblob.load_module(tmp_path / "w.so").tensors
    assert list(tensors) == ["c", "b", "a"]
    assert [t.numpy().ctypes.data % 64 for t in tensors.values()] == [0, 0, 0]


def tensor_cache(folder: Path, **row: Any) -> Path:
    """A folder of one tensor, as TVM's `tensor_cache.save` writes it: three bools."""
    known = {
        "name": "flag",
        "shape": [3],
        "dtype": "bool",
        "format": "raw",
        "nbytes": 3,
        "byteOffset": 0,
    }
    shard = {"dataPath": "s.bin", "format": "raw-shard", "nbytes": 3, "records": [{**known, **row}]}
    (folder / "s.bin").write_bytes(b"\1\0\1")
    (folder / "tensor-cache.json").write_text(json.dumps({"metadata": {}, "records": [shard]}))
    return folder


def test_a_tensor_cache_may_have_bools(tmp_path: Path) -> None:
    module = mblob.safetensors_module(tensor_cache(tmp_path), order=True)
    found = safetensors.numpy.load(bytes(module.payload))
    assert found["flag"].tolist() == [True, False, True]


def test_errors_of_a_tensor_cache_are_no_python(tmp_path: Path) -> None:
    with pytest.raises(
        mblob.FormatError, match="not an index of tensors: 'flag': 3 bytes are no int16"
    ):
        mblob.safetensors_module(tensor_cache(tmp_path, dtype="int16"), order=True)
    (tmp_path / "tensor-cache.json").write_text("{}")
    with pytest.raises(mblob.FormatError, match="not an index of tensors: it has no 'records'"):
        mblob.safetensors_module(tmp_path, order=True)


def test_an_empty_name_is_refused_wherever_it_comes_from(tmp_path: Path) -> None:
    x = np.ones(2, "f4")
    np.savez(tmp_path / "w.npz", **{"": x})
    head = b'{"":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    data = len(head).to_bytes(8, "little") + head + x.tobytes()
    (tmp_path / "w.safetensors").write_bytes(data)
    for weights in ({"": x}, tmp_path / "w.npz", tmp_path / "w.safetensors", data):
        for order in (None, True):
            if order and isinstance(weights, bytes):
                continue
            with pytest.raises(
                (mblob.BuildError, mblob.FormatError), match="expected a name, found an empty one"
            ):
                mblob.safetensors_module(weights, order=order)
    for call in (
        lambda: mblob.save_tensors(tmp_path / "out.safetensors", {"": x}),
        lambda: mblob.save_param_dict({"": x}),
        lambda: mblob.const_loader_module({"": x}, {}),
        lambda: mblob.blob_module("", b"x"),
    ):
        with pytest.raises(mblob.MblobError, match=r"found an empty one|found 0"):
            call()
