"""Uses that TVM's programs make of modules, models, tensors, devices and values."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import pickle
import tracemalloc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
import mblob.compat.tvm as tvm
from mblob.compat.tvm.contrib.graph_executor import GraphModule
from mblob.dtype import TypeName

KERNELS = """#include <stdint.h>
void scale(const float *x, const float *w, float *y) { for (int i = 0; i < 4; i++) y[i] = x[i] * w[i]; }
void shift(const float *x, float *y) { for (int i = 0; i < 4; i++) y[i] = x[i] + 1; }
void *ident(void *p) { return p; }
"""
PROTOTYPES = [
    "void scale(const float x[4], const float w[4], float y[4])",
    "void shift(const float x[4], float y[4])",
    "void *ident(void *p)",
]
X, W = np.arange(4, dtype="float32"), np.array([1, 2, 3, 4], "float32")


def node(name: str, *inputs: int) -> dict[str, Any]:
    attrs = {
        "func_name": name,
        "num_inputs": str(len(inputs)),
        "num_outputs": "1",
        "flatten_data": "0",
    }
    return {"op": "tvm_op", "name": name, "attrs": attrs, "inputs": [[i, 0, 0] for i in inputs]}


GRAPH = {
    "nodes": [
        {"op": "null", "name": "x", "inputs": []}, {"op": "null", "name": "w", "inputs": []},
        node("scale", 0, 1), node("shift", 2),
    ],
    "arg_nodes": [0, 1], "heads": [[3, 0, 0]], "node_row_ptr": list(range(5)),
    "attrs": {
        "dltype": ["list_str", ["float32"] * 4], "storage_id": ["list_int", [0, 1, 2, 3]],
        "shape": ["list_shape", [[4]] * 4],
    },
}  # fmt: skip


def made() -> mblob.Module:
    factory = mblob.graph_executor_factory(GRAPH, {"w": W})
    factory.import_module(mblob.csource_module(KERNELS, functions=PROTOTYPES, packed="name"))
    return factory


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.so"
    made().export_library(path, fcompile=False)
    return path


@pytest.fixture
def lib(library: Path) -> mblob.Module:
    return mblob.load_module(library)


def output(gm: Any) -> Any:
    return gm.get_output(0).numpy().tolist()


# -- modules ---------------------------------------------------------------------------------------


def test_a_module_has_the_names_of_today(lib: mblob.Module) -> None:
    assert lib.kind == lib.type_key == "GraphExecutorFactory"
    assert lib.imports == lib.imported_modules and lib.imports[0].kind == "library"
    assert lib.inspect_source("json") == lib.get_source("json")


@pytest.mark.parametrize(
    ("module", "mask"),
    [
        (mblob.csource_module("int f;"), 4),
        (mblob.blob_module("my_key", b"x"), 1),
        (mblob.Module("my_key", functions={"f": print}), 2),
    ],
)
def test_properties_are_read_and_called(module: mblob.Module, mask: int) -> None:
    assert module.get_property_mask() == mask
    flags = (
        module.is_binary_serializable,
        module.is_runnable,
        module.is_dso_exportable,
    )
    expected = [bool(mask & bit) for bit in (1, 2, 4)]
    assert [f == e and f() is e and repr(f) == repr(e) for f, e in zip(flags, expected)] == [
        True
    ] * 3
    assert module.is_compilation_exportable() is expected[2]


def test_properties_of_a_library(lib: mblob.Module) -> None:
    assert lib.is_runnable and lib.is_binary_serializable and not lib.is_dso_exportable
    assert lib.imports[0].is_runnable and not lib.imports[0].is_binary_serializable


# -- factories -------------------------------------------------------------------------------------


def test_parameters_of_a_factory_are_a_dict_for_set_input(lib: mblob.Module) -> None:
    params = lib["get_graph_params"]()
    assert list(params) == ["w"] and params["w"].numpy().tolist() == W.tolist()
    params["w"].numpy()[:] = 0  # a copy: the library's own stay as they are
    params = lib.get_params()
    gm = GraphModule(lib["remove_params"]()["default"](mblob.cpu(0)))
    gm.set_input("x", X, **params)
    gm.run()
    assert output(gm) == (X * W + 1).tolist()
    gm.load_params(params)
    assert gm.get_input("w").numpy().tolist() == W.tolist()


def test_a_factory_can_be_asked_before_it_is_exported() -> None:
    factory = made()
    gm = GraphModule(factory["default"](mblob.cpu(0)))
    gm.run(x=X)
    assert output(gm) == (X * W + 1).tolist()
    assert list(factory.get_params()) == ["w"]
    assert json.loads(factory["get_graph_json"]())["heads"] == GRAPH["heads"]
    assert made()["remove_params"]().imports  # of a factory that is gone
    bare = factory["remove_params"]()
    assert bare.get_params() == {} and list(factory.get_params()) == ["w"]
    gm = GraphModule(bare["default"](mblob.cpu(0)))
    gm.run(x=X, w=X)
    assert output(gm) == (X * X + 1).tolist()


def test_a_model_of_a_factory_that_is_not_exported_cannot_be_pickled() -> None:
    model = GraphModule(made()["default"](mblob.cpu(0)))
    with pytest.raises(TypeError, match="is not of a file cannot be pickled"):
        pickle.dumps(model)


def test_a_factory_that_was_asked_sees_what_it_imports_later() -> None:
    factory = mblob.graph_executor_factory(GRAPH, {"w": W})
    with pytest.raises(mblob.MblobError, match="imports no module"):
        factory["default"](mblob.cpu(0))
    factory.import_module(mblob.csource_module(KERNELS, functions=PROTOTYPES, packed="name"))
    assert GraphModule(factory["default"](mblob.cpu(0))).get_num_inputs() == 2
    with pytest.raises(mblob.NotFoundError, match="no function 'defalt'"):
        factory["defalt"]


def test_a_loaded_factory_is_exported_without_its_parameters(
    lib: mblob.Module, tmp_path: Path
) -> None:
    bare = tmp_path / "bare.so"
    lib["remove_params"]().export_library(bare)
    loaded = mblob.load_module(bare, verify="full")
    assert loaded.get_params() == {}
    gm = GraphModule(loaded["default"](mblob.cpu(0)))
    gm.run(x=X, w=W)
    assert output(gm) == (X * W + 1).tolist()
    again = tmp_path / "again.so"
    lib.export_library(again)
    assert list(mblob.load_module(again).get_params()) == ["w"]
    lib.import_module(mblob.blob_module("k", b"1"))
    lib.export_library(tmp_path / "other.so")
    other = mblob.load_module(tmp_path / "other.so")
    assert bytes(other.payloads["k"]) == b"1"
    other.imported_modules[0].import_module(
        other.imported_modules[1]
    )  # another tree than the file's
    with pytest.raises(mblob.BuildError, match="exported with all modules that it has"):
        other.export_library(tmp_path / "x.so")


@pytest.mark.own_process  # which starts a plug-in
@pytest.mark.parametrize("options", [{}, {"index": False}, {"dialect": "ffi"}])
def test_a_loaded_library_of_code_alone_is_exported_again(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    first, second = tmp_path / "first.so", tmp_path / "second.so"
    mblob.csource_module(KERNELS, functions=PROTOTYPES).export_library(first, **options)
    mblob.load_module(first).export_library(second)
    assert second.read_bytes() == first.read_bytes()
    assert second.stat().st_mode == first.stat().st_mode
    y = np.zeros(4, "float32")
    mblob.load_module(second)["shift"](X, y)
    assert y.tolist() == (X + 1).tolist()


@pytest.mark.own_process  # which starts a plug-in
def test_a_loaded_library_of_code_alone_is_exported_with_the_options_that_were_asked_for(
    tmp_path: Path,
) -> None:
    """tests/e2e/test_exported_again.py has those of libraries with modules."""
    mblob.csource_module(KERNELS, functions=PROTOTYPES).export_library(tmp_path / "first.so")
    loaded = mblob.load_module(tmp_path / "first.so")
    loaded.export_library(tmp_path / "second.so", dialect="ffi")
    y = np.zeros(4, "float32")
    mblob.load_module(tmp_path / "second.so")["shift"](X, y)
    assert y.tolist() == (X + 1).tolist()
    with pytest.raises(mblob.MblobError, match="unknown argument 'cflags'"):
        loaded.export_library(tmp_path / "third.so", cflags=None)
    for option in ({"digest": "none"}, {"index": False}):
        loaded.export_library(tmp_path / "third.so", **option)
        with mblob.open(tmp_path / "third.so") as looked:
            assert looked.blob is not None
            assert (looked.blob.index_offset is None) == ("index" in option)


def test_a_loaded_library_is_exported_with_options_that_ask_for_no_more_than_a_copy(
    tmp_path: Path,
) -> None:
    packed = mblob.csource_module("int f(void) { return 1; }")
    packed.import_module(mblob.blob_module("k", b"cat"))
    packed.export_library(tmp_path / "first.so")
    loaded = mblob.load_module(tmp_path / "first.so")
    options: dict[str, Any] = {"fcompile": False, "cc": None, "system_lib": False, "options": []}
    for reuse in (True, False):
        loaded.export_library(tmp_path / "second.so", reuse=reuse, **options)
        assert (tmp_path / "second.so").read_bytes() == (tmp_path / "first.so").read_bytes()


def test_a_loaded_library_is_exported_without_a_copy_of_its_payloads_in_memory(
    tmp_path: Path,
) -> None:
    size = 32 << 20
    with (tmp_path / "big").open("wb") as file:
        file.truncate(size)
    packed = mblob.csource_module("int f(void) { return 1; }")
    packed.import_module(mblob.blob_module("k", tmp_path / "big"))
    packed.export_library(tmp_path / "first.so")
    loaded = mblob.load_module(tmp_path / "first.so")
    tracemalloc.start()
    try:
        loaded.export_library(tmp_path / "second.so")
        assert tracemalloc.get_traced_memory()[1] < size // 2
    finally:
        tracemalloc.stop()
    assert mblob.load_module(tmp_path / "second.so").imports[0].payload.nbytes == size


# -- models ----------------------------------------------------------------------------------------


def test_inputs_are_lent_by_name(lib: mblob.Module) -> None:
    gm = GraphModule(lib["default"](mblob.cpu(0)))
    x, w = mblob.array(X), mblob.array(W)
    gm.set_input_zero_copy(x=x, w=w)
    gm.run()
    assert output(gm) == (X * W + 1).tolist()
    w.copyfrom(X)
    gm.run()
    assert output(gm) == (X * X + 1).tolist()
    gm.set_input_zero_copy("w", x)
    with pytest.raises(ValueError, match="no input"):
        gm.set_input_zero_copy(z=x)


def test_a_factory_without_parameters_does_not_keep_the_one_that_has_them(library: Path) -> None:
    lib = mblob.load_module(library)
    kept = weakref.ref(lib)
    bare = lib["remove_params"]()
    del lib
    assert kept() is None
    gm = GraphModule(bare["default"](mblob.cpu(0)))
    gm.set_input(x=X, w=W)
    gm.run()
    assert output(gm) == (X * W + 1).tolist()


def test_a_model_for_debugging_writes_what_its_nodes_compute(
    lib: mblob.Module, tmp_path: Path
) -> None:
    graph = lib["get_graph_json"]()
    gm = mblob.graph_executor.create_debug(
        graph, lib.imports[0], mblob.cpu(0), dump_root=tmp_path / "d"
    )
    nodes = gm.debug_datum.get_graph_nodes() if gm.debug_datum else []
    assert [(n["name"], n["op"], n["inputs"], n["shape"]) for n in nodes] == [
        ("x", "param", [], [4]),
        ("w", "param", [], [4]),
        ("scale", "scale", ["x", "w"], [4]),
        ("shift", "shift", ["scale"], [4]),
    ]
    folder = tmp_path / "d" / "_tvmdbg_device_CPU_0"
    (graph_file,) = folder.iterdir()
    assert set(json.loads(graph_file.read_text())) >= {"nodes", "arg_nodes", "heads", "attrs"}
    gm.run(number=3, x=X, w=W)
    tensors = mblob.load_param_dict((folder / "output_tensors.params").read_bytes())
    assert {k: v.numpy().tolist() for k, v in tensors.items()} == {
        "x____topo-index:0____output-num:0": X.tolist(),
        "w____topo-index:1____output-num:0": W.tolist(),
        "scale____topo-index:2____output-num:0": (X * W).tolist(),
        "shift____topo-index:3____output-num:0": (X * W + 1).tolist(),
    }
    assert output(gm) == (X * W + 1).tolist()
    gm.exit()
    assert not (tmp_path / "d").exists()


def test_a_model_for_debugging_removes_nothing_of_the_callers(
    lib: mblob.Module, tmp_path: Path
) -> None:
    (tmp_path / "mine").touch()
    gm = mblob.graph_executor.create_debug(
        lib["get_graph_json"](), lib.imports[0], mblob.cpu(0), dump_root=tmp_path
    )
    gm.exit()
    assert [path.name for path in tmp_path.iterdir() if path.name != "lib.so"] == ["mine"]


def test_a_model_for_debugging_takes_the_graph_as_tvm_gives_it(lib: mblob.Module) -> None:
    device = mblob.cpu(0)
    gm = mblob.graph_executor.GraphModuleDebug(
        lib["debug_create"]("default", device), [device], lib["get_graph_json"](), None
    )
    assert gm.debug_datum is not None and gm.debug_datum.get_graph_nodes()[2]["op"] == "scale"
    gm.run(x=X)
    assert output(gm) == (X * W + 1).tolist()
    module = lib["debug_create"]("default", device)
    with pytest.raises(ValueError, match="dump_root needs graph_json_str"):
        mblob.graph_executor.GraphModuleDebug(module, dump_root="d")
    outputs = lib["get_graph_json"]().replace('"num_outputs": "1"', '"num_outputs": "one"')
    for graph in ("{}", "no JSON", outputs):
        with pytest.raises(mblob.ArgumentError, match="not the graph of an executor"):
            mblob.graph_executor.GraphModuleDebug(module, device, graph)


# -- packing ---------------------------------------------------------------------------------------

PACKED = """#include <tvm/runtime/c_backend_api.h>
TVM_DLL int answer(TVMValue *a, int *c, int n, TVMValue *ret, int *code, void *r) {
  ret->v_int64 = 42; *code = kTVMArgInt; return 0;
}
"""


def test_an_object_is_taken_with_names_of_its_functions(tmp_path: Path) -> None:
    import tarfile

    mblob.csource_module(PACKED).export_library(tmp_path / "a.tar")
    with tarfile.open(tmp_path / "a.tar") as tar:
        name = next(n for n in tar.getnames() if n.endswith(".o") and "devc" not in n)
        (tmp_path / "a.o").write_bytes(tar.extractfile(name).read())  # type: ignore[union-attr]
    mblob.static_library(tmp_path / "a.o", ["answer"]).export_library(tmp_path / "a.so")
    assert mblob.load_module(tmp_path / "a.so")["answer"]() == 42
    with pytest.raises(
        mblob.BuildError,
        match=r"no kernel or object defines 'anser': .* did you mean",
    ):
        mblob.static_library(tmp_path / "a.o", ["anser"]).export_library(tmp_path / "b.so")


# -- tensors and devices ---------------------------------------------------------------------------


def test_a_tensor_has_the_names_of_tvm() -> None:
    t = mblob.array(np.arange(24, dtype="int16").reshape(2, 3, 4))
    assert t.strides == (12, 4, 1) and mblob.empty((), "int8").strides == ()
    assert t.numel() == 24 and (t.size(0), t.size(-1)) == (2, 4)
    assert t.is_contiguous() and t.data_ptr() == t.address
    assert mblob.from_dlpack(t.to_dlpack()).data_ptr() == t.data_ptr()


@pytest.mark.parametrize(("dtype", "shape", "offset", "expected"), [
    (None, (6,), 0, [0, 1, 2, 3, 4, 5]), (None, (2, 2), 4, [[2, 3], [4, 5]]), ("int8", (2,), 2, [1, 0]),
    (None, (0,), 12, []),
])  # fmt: skip
def test_a_view_is_part_of_the_memory(dtype: Any, shape: Any, offset: int, expected: Any) -> None:
    t = mblob.array(np.arange(6, dtype="int16"))
    view = t._create_view(shape, dtype, relative_byte_offset=offset)
    assert view.numpy().tolist() == expected
    t.copyfrom(np.full(6, 7, "int16"))
    assert not expected or view.numpy().ravel()[0] == 7


@pytest.mark.parametrize(
    ("shape", "offset", "found"),
    [
        ((7,), 0, "0 <= i_byte < 14"),
        ((6,), 2, "2 <= i_byte < 14"),
        ((1,), 99, "99 <= i_byte < 101"),
    ],
)
def test_a_view_outside_of_the_tensor_is_refused(shape: Any, offset: int, found: str) -> None:
    t = mblob.empty((6,), "int16")
    with pytest.raises(ValueError, match=rf"would occupy bytes {found}.* only contains 12 bytes"):
        t._create_view(shape, relative_byte_offset=offset)
    with pytest.raises(ValueError, match="relative_byte_offset"):
        t._create_view((1,), relative_byte_offset=-2)


def test_a_device_has_the_names_of_tvm() -> None:
    device = mblob.device("cuda:1")
    assert (str(device), device.index, device.type) == ("cuda:1", 1, "cuda")
    assert device.dlpack_device_type() == 2
    assert mblob.cpu(0).exist is True and mblob.device("metal").exist is False
    mblob.cpu(0).sync()
    with pytest.raises(mblob.IncompatibleError):
        mblob.device("metal").sync()


# -- values ----------------------------------------------------------------------------------------


def test_a_pointer_stays_a_pointer(lib: mblob.Module) -> None:
    found = lib["ident"](ctypes.c_void_p(0x1234))
    assert isinstance(found, ctypes.c_void_p) and found.value == 0x1234
    assert found == 0x1234 == int(found) and hex(found) == "0x1234" and found
    assert found == ctypes.c_void_p(0x1234) and {found: 1}[0x1234] == 1
    assert lib["ident"](found) == found and "0x1234" in repr(found)
    assert not lib["ident"](ctypes.c_void_p(0)) and lib["ident"](None) == 0
    seen: list[Any] = []
    mblob.packed_function(seen.append)(found)
    assert isinstance(seen[0], ctypes.c_void_p) and seen[0].value == 0x1234


def test_a_function_of_python_takes_and_gives_all_values() -> None:
    echo = mblob.packed_function(lambda *args: [*args], "echo")
    values = [
        1,
        2.5,
        True,
        "text",
        b"bytes",
        None,
        [1, [2]],
        mblob.cuda(3),
        mblob.Shape([1, 2]),
        echo,
    ]
    for given, found in zip(values, echo(*values)):
        assert type(given) is type(found)
        assert given.same_as(found) if given is echo else given == found
    (dtype,) = echo(TypeName("float8_e4m3fn"))
    assert isinstance(dtype, TypeName) and (dtype.type_code, dtype.bits) == (10, 8)
    with pytest.raises(TypeError, match="expected a callable"):
        mblob.packed_function(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "numbers", "itemsize"), [
    ("float32", (2, 32, 1), 4), ("int8x4", (0, 8, 4), 4), ("bool", (6, 8, 1), 1), ("boolx4", (6, 8, 4), 4),
    ("bfloat16", (4, 16, 1), 2), ("float8_e3m4", (7, 8, 1), 1), ("float4_e2m1fnx4", (17, 4, 4), 2),
    ("float6_e2m3fnx4", (15, 6, 4), 3), ("handle", (3, 64, 1), 8),
])  # fmt: skip
def test_a_type_has_its_parts(text: str, numbers: tuple[int, int, int], itemsize: int) -> None:
    found = TypeName(text)
    assert found == text and repr(found) == f"dtype('{text}')"
    assert (found.type_code, found.bits, found.lanes) == numbers == found.__dlpack_data_type__()
    assert found.itemsize == itemsize
    assert TypeName.from_dlpack_data_type(numbers) == text
    assert text == "handle" or found.with_lanes(2).lanes == 2
    with pytest.raises(ValueError, match="not a data type"):
        TypeName(text + "x")


def test_a_type_is_made_of_dtypes_of_numpy() -> None:
    assert TypeName(np.dtype("int16")) == TypeName(np.int16) == "int16"
    with pytest.raises(mblob.ArgumentError, match="dtype: content: expected str or a dtype of n"):
        TypeName(5)


class Value:
    """Has one method, of tvm_ffi's protocols."""

    def __new__(cls, method: str, value: Any) -> Any:
        return object.__new__(type("Value", (), {method: lambda _: value}))


@pytest.mark.parametrize(("method", "value", "expected"), [
    ("__tvm_ffi_int__", 10, 10), ("__tvm_ffi_float__", 10, 10.0), ("__tvm_ffi_opaque_ptr__", 10, 10),
    ("__cuda_stream__", (0, 7), 7), ("__tvm_ffi_value__", [1, Value("__tvm_ffi_value__", 2)], [1, 2]),
    ("__dlpack_data_type__", (2, 32, 1), "float32"), ("__dlpack_device__", (2, 1), mblob.cuda(1)),
])  # fmt: skip
def test_a_value_says_what_it_is(method: str, value: Any, expected: Any) -> None:
    found = mblob.packed_function(lambda x: x)(Value(method, value))
    assert found == expected
    assert isinstance(
        found,
        ctypes.c_void_p
        if method in ("__tvm_ffi_opaque_ptr__", "__cuda_stream__")
        else type(expected),
    )


def test_what_a_kernel_traces_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert mblob.get_global_func("tvm.default_trace_action")(1, 2.5) is None
    assert capsys.readouterr().out == "[1, 2.5]\n"


def test_a_file_that_cannot_be_written_whole_stays_what_it_was(
    lib: mblob.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gm = mblob.graph_executor.create_debug(
        lib["get_graph_json"](), lib.imports[0], mblob.cpu(0), dump_root=tmp_path
    )
    gm.run(x=X, w=W)
    (folder,) = tmp_path.iterdir()
    params = tmp_path / "w.params"
    tvm.runtime.save_param_dict_to_file({"w": W}, params)
    before = {path: path.read_bytes() for path in (*folder.iterdir(), params)}
    assert len(before) == 4

    def full(path: Path, data: bytes) -> None:
        with path.open("wb") as file:
            file.write(data[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    for write in (
        lambda: gm.run(x=W, w=X),
        lambda: tvm.runtime.save_param_dict_to_file({"w": X}, params),
    ):
        with pytest.raises(OSError, match="the output cannot be written: No space left") as caught:
            write()
        assert caught.value.filename
    assert {path: path.read_bytes() for path in (*folder.iterdir(), params)} == before


def test_tensors_are_equal_that_are_the_same_memory() -> None:
    x = mblob.array(X)
    assert x == x._create_view((4,)) and x.same_as(x) and hash(x) == hash(x._create_view((4,)))
    assert x != mblob.array(X) and x != x._create_view((2, 2)) and x != x.view("int32")
    assert x != X.tolist() and len({x, x._create_view((4,)), x._create_view((3,))}) == 2
