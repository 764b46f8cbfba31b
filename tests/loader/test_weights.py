"""Weights inside libraries: safetensors payloads as read-only tensors over the mapped file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from loader import weights


def safetensors(header: Any, data: bytes = b"", size: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if size is None else size).to_bytes(8, "little") + text + data


def entry(dtype: str = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def test_tensors_are_read_only_views_of_the_library(
    tree_library: Callable[..., Path], tmp_path: Path, packed_blob: Any
) -> None:
    data = np.arange(6, dtype="f").tobytes() + np.array([7], "i8").tobytes()
    header = {"w": entry("F32", [2, 3], [0, 24]), "b": entry("I64", [], [24, 32]), "__metadata__": {"a": "b"}}
    path = tree_library(tmp_path / "w.so", [("library", None), ("safetensors", safetensors(header, data))], [[1], []])
    lib = mblob.load_module(path, missing="stub")
    tensors = lib.imported_modules[0].tensors
    assert list(tensors) == ["w", "b"]
    assert tensors["w"].readonly
    del lib
    np.testing.assert_array_equal(tensors["w"].numpy(), np.arange(6).reshape(2, 3))
    assert tensors["b"].numpy() == 7
    with pytest.raises(ValueError, match="read-only"):
        tensors["w"].numpy()[0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        tensors["w"].copyfrom(np.zeros((2, 3), "f"))


def test_a_module_without_tensors_says_so(kernels: Path) -> None:
    with pytest.raises(AttributeError, match="no named tensors"):
        _ = mblob.load_module(kernels).tensors


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"1234", "4 bytes"),
        (safetensors({}, size=10), "a header of 10 bytes"),
        (safetensors({}, size=2**63), "a header of"),
        (safetensors(b"{"), "no JSON"),
        (safetensors(b"[" * 200000), "no JSON"),
        (safetensors([]), "no JSON object"),
        (safetensors({"a": 1}), "expected an object"),
        (safetensors({"a": entry("F99")}, bytes(8)), "dtype 'F99'"),
        (safetensors({"a": entry(shape="x")}, bytes(8)), "shape 'x'"),
        (safetensors({"a": entry(shape=[-1])}, bytes(8)), "shape"),
        (safetensors({"a": entry(shape=[1] * 65)}, bytes(8)), "shape"),
        (safetensors({"a": entry(shape=[True])}, bytes(8)), "shape"),
        (safetensors({"a": entry(offsets=[0])}, bytes(8)), "data_offsets"),
        (safetensors({"a": entry(offsets=[8, 0])}, bytes(8)), "lie outside"),
        (safetensors({"a": entry(offsets=[0, 16])}, bytes(8)), "lie outside"),
        (safetensors({"a": entry(shape=[3])}, bytes(8)), "8 bytes, float32 of shape"),
        (safetensors({"a": entry(offsets=[4, 12])}, bytes(12)), "a gap or an overlap"),
        (safetensors({"a": entry(), "b": entry()}, bytes(8)), "a gap or an overlap"),
        (safetensors({"a": entry()}, bytes(9)), "1 bytes follow"),
    ],
)
def test_a_damaged_file_is_an_error_of_the_format(data: bytes, text: str) -> None:
    with pytest.raises(mblob.FormatError, match=text) as caught:
        weights.safetensors(memoryview(data))
    assert caught.value.code == "safetensors"


def test_a_parameter_dictionary_is_weights_too(tree_library: Callable[..., Path], tmp_path: Path) -> None:
    params = mblob.save_param_dict({"p": np.arange(3, dtype="i4")})
    path = tree_library(tmp_path / "p.so", [("library", None), ("plain_data", params)], [[1], []])
    tensors = mblob.load_module(path).imported_modules[0].tensors
    assert tensors["p"].numpy().tolist() == [0, 1, 2]
