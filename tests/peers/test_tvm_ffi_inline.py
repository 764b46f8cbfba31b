"""tvm_ffi's cases that compile C++ (0.1.9): mblob loads the library of tvm_ffi_kernels.cpp."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob.compat.tvm_ffi as tvm_ffi
from tests.built_once import built_once
from tests.e2e.programs import run

pytestmark = [pytest.mark.slow, pytest.mark.own_process]

SOURCES = Path(__file__).parent
DATA = np.array([1, 2, 3, 4, 5], "float32")


def written(lib: Any, name: str) -> list[float]:
    out = np.empty_like(DATA)
    lib[name](tvm_ffi.from_dlpack(DATA), out)
    return out.tolist()


def kernel(lib: Any) -> None:
    assert written(lib, "add_one") == (DATA + 1).tolist()
    with pytest.raises(ValueError, match="expected two vectors of one size"):
        lib.add_one(DATA, np.zeros(2, "float32"))


def several(lib: Any) -> None:
    assert written(lib, "add_one") == (DATA + 1).tolist()
    assert written(lib, "add_two") == (DATA + 2).tolist()


def docstrings(lib: Any) -> None:
    kernel(lib)
    assert lib.get_function_doc("add_one") == "Writes x + 1 to y."
    assert lib.get_function_doc("add_two") is None


def allocator(lib: Any) -> None:
    found = lib.return_add_one(tvm_ffi.from_dlpack(DATA))
    assert isinstance(found, tvm_ffi.Tensor) and found.shape == (5,)
    assert found.numpy().tolist() == (DATA + 1).tolist()


def schemas(lib: Any) -> None:
    for name, returned, params in (
        ("add_one", ["None"], ["DLTensor*", "DLTensor*"]),
        ("sum", ["int"], ["ffi.Array"]),
    ):
        schema = json.loads(lib.get_function_metadata(name)["type_schema"])
        assert schema["type"] == "ffi.Function"
        arguments = schema["named_args"]
        assert [x["type"] for x in arguments["return"]] == returned
        assert [x["type"] for x in arguments["params"]] == params


def wrong_items(lib: Any) -> None:
    assert lib.sum(tvm_ffi.List([1, 2, 3])) == 6
    with pytest.raises(TypeError, match="Array<int>"):
        lib.sum(tvm_ffi.List([1, "a"]))


CHECKS: dict[str, Callable[[Any], None]] = {
    "test_load_inline.test_load_inline_cpp": kernel,
    "test_load_inline.test_load_inline_cpp_with_docstrings": docstrings,
    "test_load_inline.test_load_inline_cpp_multiple_sources": several,
    "test_load_inline.test_load_inline_cpp_build_dir": kernel,
    "test_load_inline.test_load_inline_with_env_tensor_allocator": allocator,
    "test_metadata.test_schema_global_func": schemas,
    "test_metadata.test_metadata_global_func": schemas,
    "test_container.test_seq_cross_conv_incompatible_list_to_array": wrong_items,
}


@pytest.fixture(scope="module")
def library(require: Callable[[str], str], package_of: Callable[[str], Path]) -> Any:
    compiler, package = require("c++"), package_of("tvm_ffi")

    def build(folder: Path) -> None:
        run(
            compiler, "-std=c++17", "-fPIC", "-shared", f"-I{package}/include",
            *sorted(SOURCES.glob("tvm_ffi_kernels*.cpp")), "-o", folder / "kernels.so",
        )  # fmt: skip

    folder = built_once("tvm-ffi-kernels", build, compiler, package, sources=(SOURCES,))
    return tvm_ffi.load_module(folder / "kernels.so")


@pytest.mark.parametrize("name", CHECKS)
def test_a_case_of_tvm_ffi_that_compiles_holds(library: Any, name: str) -> None:
    CHECKS[name](library)
