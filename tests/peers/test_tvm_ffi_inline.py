"""tvm_ffi's cases that compile C++ (0.1.9): mblob loads the library of tvm_ffi_kernels.cpp."""

from __future__ import annotations

import json
import sys
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


def wrong_items_of_a_list(lib: Any) -> None:
    assert lib.id_list_int([1, 2, 3]) == [1, 2, 3]
    with pytest.raises(TypeError, match="List<int>"):
        lib.id_list_int(["not", "ints"])


def wrong_values(name: str, expected: str) -> Callable[[Any], None]:
    def check(lib: Any) -> None:
        assert lib[name]({"a": 1, "b": 2}) == {"a": 1, "b": 2}
        with pytest.raises(TypeError, match=expected):
            lib[name]({"a": "not_int", "b": "still_not_int"})

    return check


def point(_: Any) -> Any:
    return tvm_ffi.core._lookup_or_register_type_info_from_type_key("peers.Point")


def schema_of(metadata: dict[str, Any]) -> str:
    schema = tvm_ffi.core.TypeSchema.from_json_str(metadata["type_schema"])
    renamed = schema.repr(lambda name: {"Array": "Sequence", "Map": "Mapping"}.get(name, name))
    assert renamed == str(schema).replace("Array", "Sequence").replace("Map", "Mapping")
    return str(schema)


def schemas_of_members(lib: Any) -> None:
    found = {f.name: schema_of(f.metadata) for f in point(lib).fields}
    assert found == {"x": "int", "label": "str | None", "rows": "Map[str, Array[int]]"}


def schemas_of_methods(lib: Any) -> None:
    found = {m.name: schema_of(m.metadata) for m in point(lib).methods}
    assert found["sum"] == "Callable[[peers.Point, int], int]"
    assert found["append"] == "Callable[[peers.Point, Array[int], int], Array[int]]"


def metadata_of_a_member(lib: Any) -> None:
    found = point(lib).fields[0]
    assert found.name == "x" and found.doc == "A coordinate." and found.frozen
    assert {**found.metadata, "type_schema": ""} == {
        "type_schema": "",
        "bool_attr": True,
        "int_attr": 1,
        "str_attr": "hello",
    }


def metadata_of_a_method(lib: Any) -> None:
    found = next(m for m in point(lib).methods if m.name == "sum")
    assert found.doc == "Adds y." and found.metadata["bool_attr"] is True and not found.is_static


def method_as_function(lib: Any) -> None:
    assert tvm_ffi.get_global_func("peers.twice")(4) == 8
    metadata = tvm_ffi.get_global_func_metadata("peers.PointSum")
    assert schema_of(metadata) == "Callable[[peers.Point, int], int]"


def code_at(symbol: str) -> Callable[[Any], None]:
    """A function of the code at an address, which keeps an object."""

    def check(lib: Any) -> None:
        of_mlir = symbol == "mlir_add_one"
        make: Any = tvm_ffi.Function
        make = make.__from_mlir_packed_safe_call__ if of_mlir else make.__from_extern_c__
        kept = [1, 2, 3]
        count = sys.getrefcount(kept)
        f = make(lib.code_of(symbol).value, keep_alive_object=kept)
        assert (f(1), f(2)) == (2, 3) and sys.getrefcount(kept) == count + 1
        with pytest.raises(TypeError, match="int"):
            f(None)
        del f
        assert sys.getrefcount(kept) == count
        assert make(lib.code_of(symbol).value)(5) == 6

    return check


CHECKS: dict[str, Callable[[Any], None]] = {
    "test_load_inline.test_load_inline_cpp": kernel,
    "test_load_inline.test_load_inline_cpp_with_docstrings": docstrings,
    "test_load_inline.test_load_inline_cpp_multiple_sources": several,
    "test_load_inline.test_load_inline_cpp_build_dir": kernel,
    "test_load_inline.test_load_inline_with_env_tensor_allocator": allocator,
    "test_function.test_function_from_c_symbol": code_at("add_one"),
    "test_function.test_function_from_mlir_packed_safe_call": code_at("mlir_add_one"),
    "test_metadata.test_schema_global_func": schemas,
    "test_metadata.test_metadata_global_func": schemas,
    "test_metadata.test_schema_field": schemas_of_members,
    "test_metadata.test_schema_member_method": schemas_of_methods,
    "test_metadata.test_metadata_field": metadata_of_a_member,
    "test_metadata.test_metadata_member_method": metadata_of_a_method,
    "test_metadata.test_mem_fn_as_global_func": method_as_function,
    "test_container.test_seq_cross_conv_incompatible_list_to_array": wrong_items,
    "test_container.test_seq_cross_conv_incompatible_array_to_list": wrong_items_of_a_list,
    "test_container.test_map_cross_conv_incompatible_dict_to_map": wrong_values(
        "id_map_str_int", "Map<str, int>"
    ),
    "test_container.test_map_cross_conv_incompatible_map_to_dict": wrong_values(
        "id_dict_str_int", "Dict<str, int>"
    ),
}


@pytest.fixture(scope="module")
def library(require: Callable[[str], str], package_of: Callable[[str], Path]) -> Any:
    compiler, package = require("c++"), package_of("tvm_ffi")

    def build(folder: Path) -> None:
        run(
            compiler,
            "-std=c++17",
            "-fPIC",
            "-shared",
            f"-I{package}/include",
            *sorted(SOURCES.glob("tvm_ffi_kernels*.cpp")),
            "-o",
            folder / "kernels.so",
        )

    folder = built_once("tvm-ffi-kernels", build, compiler, package, sources=(SOURCES,))
    return tvm_ffi.load_module(folder / "kernels.so")


@pytest.mark.parametrize("name", CHECKS)
def test_a_case_of_tvm_ffi_that_compiles_holds(library: Any, name: str) -> None:
    CHECKS[name](library)


# -- Maps without libtvm_ffi -----------------------------------------------------------------------

MAPS: list[dict[Any, Any]] = [
    {},
    {1: 2, 3: 4, 5: 6, 7: 8},
    {i: str(i) for i in range(5)},
    {f"key {i}" * (i % 5 + 1): i for i in range(500)},
    {"x": {"y": [1, {"z": 2}]}},
    {1.5: 2, b"x": 1, b"bytes of an object": 3, True: 4, "text of an object": 5, None: 6},
]


@pytest.mark.parametrize("value", MAPS, ids=lambda value: str(len(value)))
def test_cxx_finds_each_key_of_a_map_in_its_order(library: Any, value: dict[Any, Any]) -> None:
    for name in ("id_map", "id_dict"):
        found = library[name](value)
        assert found == value and list(found) == list(value)
    assert [library.find(value, key) for key in value] == list(value.values())
    assert library.find(value, "nobody") == "missing"


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 40])
def test_cxx_changes_a_map_in_place(library: Any, count: int) -> None:
    known: dict[Any, Any] = {i: f"v{i}" for i in range(count)}
    library.keep(known)
    for i in range(40):
        known[f"new {i}"] = i
        found = library.kept_set(f"new {i}", i)
        assert found == known and list(found) == list(known)
    for key in list(known)[::2]:
        del known[key]
        assert library.kept_erase(key) == known
    library.keep({})


def test_a_map_holds_tensors_without_a_copy(library: Any) -> None:
    found = library.id_map({"x": DATA})["x"]
    assert found.numpy().tolist() == DATA.tolist()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        *((x, x) for x in ("float32", "int8x4", "bool", "float8_e4m3fn", "float4_e2m1fnx2")),
        ("f32x2", "float32x2"),
        ("i8", "int8"),
        ("fp8_e5m2", "float8_e5m2"),
        ("bfloat", "bfloat16"),
        ("int32xvscalex4", "int32xvscalex4"),
    ],
)
def test_cxx_reads_and_writes_names_of_types(library: Any, text: str, name: str) -> None:
    assert library.dtype_text(library.dtype_of(text)) == name


def test_an_unknown_name_of_a_type_is_a_value_error(library: Any) -> None:
    for text in ("floot", "float32x0", "int999", "float32xx4", "float8_e4m3fn8"):
        with pytest.raises(ValueError, match="unknown dtype"):
            library.dtype_of(text)
