"""Weights inside libraries: safetensors payloads as read-only tensors over the mapped file."""

from __future__ import annotations

import ctypes
import json
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.dtype import DataType
from mblob.format import safetensors as mblob_safetensors
from mblob.loader.payloads import tensors_of_safetensors
from mblob.native.runtime import ffi, lib
from mblob.native.runtime import text as text_of


def safetensors(header: Any, data: bytes = b"", size: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if size is None else size).to_bytes(8, "little") + text + data


def entry(dtype: str = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def test_tensors_are_read_only_views_of_the_library(
    tree_library: Callable[..., Path], tmp_path: Path, packed_blob: Any
) -> None:
    data = np.arange(6, dtype="f").tobytes() + np.array([7], "i8").tobytes()
    header = {
        "w": entry("F32", [2, 3], [0, 24]),
        "b": entry("I64", [], [24, 32]),
        "__metadata__": {"a": "b"},
    }
    path = tree_library(
        tmp_path / "w.so",
        [("library", None), ("safetensors", safetensors(header, data))],
        [[1], []],
    )
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
    with pytest.raises(mblob.NotFoundError, match="no tensor 'w'; it has: none"):
        _ = mblob.load_module(kernels).tensors["w"]


def with_unknown(value: bytes) -> bytes:
    """A file in which `value` stands where readers pass over it, inside two objects."""
    return safetensors(b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"zz":' + value + b"}}")


DTYPES = {
    "BOOL": ("bool", 8), "U8": ("uint8", 8), "I8": ("int8", 8), "U16": ("uint16", 16), "I16": ("int16", 16),
    "U32": ("uint32", 32), "I32": ("int32", 32), "U64": ("uint64", 64), "I64": ("int64", 64), "F16": ("float16", 16),
    "BF16": ("bfloat16", 16), "F32": ("float32", 32), "F64": ("float64", 64), "C64": ("complex64", 64),
    "F8_E4M3": ("float8_e4m3fn", 8), "F8_E4M3FNUZ": ("float8_e4m3fnuz", 8), "F8_E5M2": ("float8_e5m2", 8),
    "F8_E5M2FNUZ": ("float8_e5m2fnuz", 8), "F8_E8M0": ("float8_e8m0fnu", 8),
    "F6_E2M3": ("uint8", 6), "F6_E3M2": ("uint8", 6), "F4": ("uint8", 4),
}  # fmt: skip

BAD = [
    (b"1234", "4 bytes, its header's size alone has 8"),
    (safetensors({}, size=10), "a header of 10 bytes"),
    (safetensors({}, size=2**63), "a header of"),
    (safetensors(b"{"), "no JSON"),
    (safetensors(b"[" * 200000), "no JSON"),
    (safetensors(b'{"\xff": 1}'), "no JSON"),
    (safetensors("{}".encode("utf-16")), "no JSON"),
    (safetensors([]), "no JSON object"),
    (safetensors({"a": 1}), "tensor 'a': expected an object"),
    (safetensors({"a\0": entry()}, bytes(8)), "NUL"),
    (safetensors({"\ud800": entry()}, bytes(8)), "surrogate"),
    (safetensors({"__metadata__": {"a": 1}}), "__metadata__"),
    (safetensors({"__metadata__": "a"}), "__metadata__"),
    (safetensors({"a": entry("F99")}, bytes(8)), "tensor 'a': dtype 'F99'"),
    (safetensors({"a": {"shape": [2], "data_offsets": [0, 8]}}, bytes(8)), "tensor 'a': dtype None"),
    (safetensors({"a": entry(shape="x")}, bytes(8)), "shape 'x'"),
    (safetensors({"a": entry(shape=[-1])}, bytes(8)), "shape"),
    (safetensors({"a": entry(shape=[1] * 65)}, bytes(8)), "shape"),
    (safetensors({"a": entry(shape=[True])}, bytes(8)), "shape"),
    (safetensors({"a": entry(shape=[2.0])}, bytes(8)), "shape"),
    (safetensors(b'{"a":{"dtype":"U8","shape":[-0],"data_offsets":[0,0]}}'), "shape"),
    (safetensors({"a": entry(offsets=[0])}, bytes(8)), "data_offsets"),
    (safetensors({"a": entry(offsets=[0, 8, 8])}, bytes(8)), "data_offsets"),
    (safetensors({"a": entry(offsets=[8, 0])}, bytes(8)), "lie outside"),
    (safetensors({"a": entry(offsets=[0, 16])}, bytes(8)), "lie outside"),
    (safetensors({"a": entry(shape=[3])}, bytes(8)), "tensor 'a': 8 bytes, F32 of shape [3] has 12"),
    (safetensors({"a": entry(shape=[2**62, 2**62])}, bytes(8)), "more than 2^64 bits"),
    (safetensors({"a": entry(shape=[2**62, 4, 0], offsets=[0, 0])}), "more than 2^64 bits"),
    (safetensors({"a": entry("F4", [3], [0, 2])}, bytes(2)), "F4 of shape [3] has 12 bits"),
    (safetensors({"a": entry("F6_E2M3", [3], [0, 3])}, bytes(3)), "has 18 bits"),
    (safetensors({"a": entry(offsets=[4, 12])}, bytes(12)), "tensor 'a': starts at byte 4 of the data, expected 0"),
    (safetensors({"a": entry(), "b": entry()}, bytes(8)), "tensor 'b': starts at byte 0 of the data, expected 8"),
    (safetensors({"a": entry()}, bytes(9)), "need 8 bytes of data, the file has 9"),
    (safetensors(b'{"a":' + json.dumps(entry()).encode() + b',"a":' + json.dumps(entry()).encode() + b"}", bytes(8)),
     "a name twice"),
    (with_unknown(b"[" * 63 + b"]" * 63), "nested too deep, over 64 levels"),
    (with_unknown(b'{"a":' * 100000), "nested too deep"),
    (with_unknown(b"1" * 513), "a number has too many digits, over 512"),
    (with_unknown(b"0." + b"1" * 513), "a number has too many digits"),
    (with_unknown(b"NaN"), "NaN is no number of JSON"),
    (with_unknown(b"-Infinity"), "-Infinity is no number of JSON"),
    (safetensors(b"\xef\xbb\xbf{}"), "it starts with a byte order mark"),
    (with_unknown(b'"\xff"'), "it is not UTF-8 at byte 58 of the text"),
    (with_unknown(b'"\xed\xa0\x80"'), "it is not UTF-8"),
    (with_unknown(b'"\\ud800"'), "half a surrogate pair at byte 58 of the text"),
    (with_unknown(b'"\\\\\\udc00\\ud800"'), "half a surrogate pair at byte 60"),
    *((with_unknown(text), "no JSON: unexpected ") for text in (
        b"00", b"-01", b"1.", b"-", b".5", b"+1", b"1e", b"1e+", b"0x1", b"tru", b"True",
        b"nullx", b"'a'", b"[1,]", b"{1:2}",
        b'"\\x"', b'"\\u12"', b'"\t"', b"1 2", b"//", b"",
    )),
    (safetensors(b'{"a'), "a string without an end at byte 1"),
    (safetensors(b'{"a":{"dtype":"U8","dtype":"U8","shape":[],"data_offsets":[0,1]}}', bytes(1)), "a name twice"),
]  # fmt: skip
GOOD = [
    safetensors({}),
    safetensors(b'{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2],"later":[{}]}}   ', b"ab"),
    safetensors({"a": entry(shape=[2, 0], offsets=[0, 0]), "b": entry()}, bytes(8)),
    *(
        safetensors({"a": entry(name, [8], [0, bits])}, bytes(range(bits)))
        for name, (_, bits) in DTYPES.items()
    ),
]
READABLE = [*GOOD[:3], *map(with_unknown, (
    b"[" * 62 + b"]" * 62, b"[" + b"[]," * 1000 + b"[]]", b"1" * 512, b"-0", b"-0.5e-7", b"1e999",
    b'"\\u0000\\ud83d\\ude00\\\\ud800\\/"',
    '"\u00e9\U0001f389"'.encode(), b'"' + b"[" * 100 + b"1" * 600 + b'"', b"[true,false , null]",
))]  # fmt: skip


@pytest.fixture(scope="module")
def read_in_c(tree_library: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """`read_in_c(data)`: (status, error text, DLTensor bytes) of tensor "a" in one of the payloads
    above."""
    payloads = [*(data for data, _ in BAD), *GOOD, *READABLE]
    entries = [("library", None), *(("safetensors", data) for data in payloads)]
    imports = [list(range(1, len(entries))), *([] for _ in payloads)]
    library = mblob.load_module(
        tree_library(tmp_path_factory.mktemp("weights") / "w.so", entries, imports), missing="stub"
    )

    def read(data: bytes) -> tuple[int, str, bytes]:
        module = library.imported_modules[payloads.index(data)]
        out = ffi.new("DLTensor *")
        status = lib.mblob_module_tensor(module._node.handle, b"a", out)
        return status, text_of(lib.mblob_last_error()) if status else "", bytes(ffi.buffer(out))

    return read


@pytest.mark.parametrize(("data", "text"), BAD)
def test_a_damaged_file_is_an_error_of_the_format_in_python_and_in_c(
    data: bytes, text: str, read_in_c: Any
) -> None:
    with pytest.raises(mblob.FormatError, match=re.escape(text)) as caught:
        tensors_of_safetensors(memoryview(data))
    assert (caught.value.code, "\n" in str(caught.value)) == ("payload", False)
    # Python's own words
    assert not re.search(r"line 1|codec|Expecting|delimiter", str(caught.value))
    status, message, _ = read_in_c(data)
    assert status == lib.MBLOB_E_FORMAT
    assert re.match(r"a: .*safetensors: .*[^]]$", message), message


@pytest.mark.parametrize("data", READABLE)
def test_what_the_format_allows_is_read(data: bytes, read_in_c: Any) -> None:
    tensors = tensors_of_safetensors(memoryview(data))
    assert read_in_c(data)[0] == (lib.MBLOB_OK if "a" in tensors else lib.MBLOB_E_NOT_FOUND)


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_has_a_view_in_python_and_in_c(name: str, read_in_c: Any) -> None:
    text, bits = DTYPES[name]
    data = safetensors({"a": entry(name, [8], [0, bits])}, bytes(range(bits)))
    tensor = tensors_of_safetensors(memoryview(data))["a"]
    assert (tensor.dtype, tensor.shape, tensor.nbytes) == (
        text,
        (bits,) if bits < 8 else (8,),
        bits,
    )
    status, _, raw = read_in_c(data)
    address, _, _, ndim, code, width, lanes, shape = struct.unpack_from("<QiiiBBHQ", raw)
    dtype = DataType.parse(text)
    assert (status, ndim, code, width, lanes) == (0, 1, dtype.code, dtype.bits, 1)
    assert ctypes.c_int64.from_address(shape).value == tensor.shape[0]
    assert ctypes.string_at(address, bits) == bytes(range(bits))


def test_every_dtype_is_tested() -> None:
    """Every dtype of the reader is one that the tests above read."""
    assert set(mblob_safetensors.DTYPES) == set(DTYPES)


def test_a_parameter_dictionary_is_weights_too(
    tree_library: Callable[..., Path], tmp_path: Path
) -> None:
    params = mblob.save_param_dict({"p": np.arange(3, dtype="i4")})
    path = tree_library(tmp_path / "p.so", [("library", None), ("plain_data", params)], [[1], []])
    tensors = mblob.load_module(path).imported_modules[0].tensors
    assert tensors["p"].numpy().tolist() == [0, 1, 2]


@pytest.mark.parametrize("key", ["metadata", "c", "cuda", "const_loader", "opencl"])
def test_a_module_that_holds_no_tensors_hides_none_whatever_its_bytes_are(
    tree_library: Callable[..., Path], tmp_path: Path, key: str
) -> None:
    params = mblob.save_param_dict({"p": np.arange(3, dtype="i4")})
    tree = [("library", None), (key, b'{"made by": "me"}'), ("plain_data", params)]
    path = tree_library(tmp_path / "p.so", tree, [[1, 2], [], []])
    assert list(mblob.load_module(path, missing="stub").tensors) == ["p"]


LISTS = {
    "few": (["b", "a"], "a, b"),
    "one long": (["n" * 5000], "..."),
    "a long one behind a short one": (["a", "n" * 5000, "z"], "a, ..."),
    **{f"full but for {399 - n}": (["n" * n, "z", "zz"], None) for n in range(388, 400)},
    "many": ([f"layer.{i:04}" for i in range(3000)], None),
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("names", LISTS)
def test_the_error_of_c_lists_tensors_up_to_a_bound(tmp_path: Path, names: str) -> None:
    given, shown = LISTS[names]
    host = mblob.csource_module("")
    host.import_module(mblob.safetensors_module({n: np.zeros(1, "int8") for n in given}))
    host.export_library(tmp_path / "w.so")
    module = mblob.load_module(tmp_path / "w.so")
    out = ffi.new("DLTensor *")
    assert lib.mblob_module_tensor(module._node.handle, b"none", out) == lib.MBLOB_E_NOT_FOUND
    head, _, listed = text_of(lib.mblob_last_error()).partition("; there are: ")
    assert head == "no tensor 'none' in module 'library' and its imports"
    assert shown is None or listed == shown
    assert len(listed) <= 405
    parts = listed.split(", ")
    cut = parts.pop() if parts[-1] == "..." else ""
    assert set(parts) <= set(given)
    assert bool(cut) == (len(parts) < len(given))


def test_the_error_of_c_says_that_there_are_no_tensors(tmp_path: Path) -> None:
    mblob.csource_module("").export_library(tmp_path / "n.so")
    module = mblob.load_module(tmp_path / "n.so")
    out = ffi.new("DLTensor *")
    assert lib.mblob_module_tensor(module._node.handle, b"w", out) == lib.MBLOB_E_NOT_FOUND
    assert text_of(lib.mblob_last_error()).endswith("and its imports; there are: none")


def test_c_refuses_weights_where_the_function_writes(tmp_path: Path) -> None:
    """It would end the process: the memory of weights may not be written."""
    host = mblob.csource_module(
        "void one(const float *x, float *y) { *y = *x + 1; }"
        "float sum(const float *x) { return x[0] + x[1]; }",
        functions=["void one(const float x[2], float y[2])", "float sum(const float x[2])"],
    )
    host.import_module(mblob.safetensors_module({"w": np.ones(2, "f")}))
    host.export_library(tmp_path / "w.so")
    module = mblob.load_module(tmp_path / "w.so")
    weights, mine = ffi.new("DLTensor *"), ffi.new("float [2]")
    assert lib.mblob_module_tensor(module._node.handle, b"w", weights) == lib.MBLOB_OK
    pointers = [ctypes.c_void_p(int(ffi.cast("uintptr_t", p))) for p in (weights, mine)]
    library = ctypes.CDLL(str(next(Path(mblob.loader.__file__).parent.glob("_lib/libmblob.so.0"))))
    handle = ctypes.c_void_p(int(ffi.cast("uintptr_t", module._node.handle)))
    w, m = pointers
    for types, a, b in ((b"float32[2],tensor", m, w), (b"tensor,tensor", w, w)):
        assert library.mblob_call(handle, b"one", types, a, b) == lib.MBLOB_E_ARGUMENT
        assert text_of(lib.mblob_last_error()) == (
            f'one: argument 1 of "{types.decode()}": the function writes there, and the tensor is in'
            " the library, which is read-only; pass memory of your own"
        )
    fields = ffi.cast("uintptr_t *", weights)  # the first is the pointer `data`
    data = ctypes.c_void_p(fields[0])
    assert library.mblob_call(handle, b"one", b"tensor,float32[2]", w, data) == lib.MBLOB_E_ARGUMENT
    assert library.mblob_call(handle, b"one", b"tensor,float32[2]", w, m) == lib.MBLOB_OK
    assert mine[0] == 2
    assert library.mblob_call(handle, b"sum", b"tensor", w) == lib.MBLOB_OK
    assert library.mblob_call(handle, b"sum", b"float32[2][1]", w) == lib.MBLOB_E_ARGUMENT
    assert text_of(lib.mblob_last_error()).endswith("; a matrix is float32[3,4]")


def test_c_finds_a_payload_by_its_type_key(tmp_path: Path) -> None:
    host = mblob.csource_module("")
    host.import_module(mblob.blob_module("config", b"first"))
    host.import_module(mblob.safetensors_module({"w": np.ones(2, "f")}))
    host.import_module(mblob.blob_module("empty", b""))
    host.export_library(tmp_path / "p.so")
    module = mblob.load_module(tmp_path / "p.so")
    data, size = ffi.new("const void **"), ffi.new("size_t *")

    def find(key: bytes) -> int:
        return lib.mblob_module_payload_by_key(module._node.handle, key, data, size)  # type: ignore[no-any-return]

    assert find(b"config") == lib.MBLOB_OK
    assert bytes(ffi.buffer(data[0], size[0])) == bytes(module.payloads["config"]) == b"first"
    assert find(b"empty") == lib.MBLOB_OK and size[0] == 0
    assert find(b"none") == lib.MBLOB_E_NOT_FOUND and data[0] == ffi.NULL
    head, _, keys = text_of(lib.mblob_last_error()).partition("; there are: ")
    assert head == "no payload 'none' in module 'library' and its imports"
    assert sorted(keys.split(", ")) == ["config", "empty", "safetensors"]


def tensor_in_c(module: mblob.Module, name: str) -> tuple[int, tuple[int, ...], bytes]:
    """Status, shape and data of a tensor of 4-byte elements that C finds."""
    out = ffi.new("DLTensor *")
    handle = module._node.handle  # type: ignore[attr-defined]
    status = lib.mblob_module_tensor(handle, name.encode(), out)
    if status:
        return status, (), b""
    data, ndim, bits, shape = struct.unpack("<Q8xixBxxQ", bytes(ffi.buffer(out))[:32])
    extents = tuple((ctypes.c_int64 * ndim).from_address(shape)) if ndim else ()
    assert bits == 32
    return 0, extents, ctypes.string_at(data, 4 * int(np.prod(extents)))


@pytest.mark.parametrize("name", ["mlp_c.so", "mlp_llvm.so"])
def test_c_finds_the_parameters_of_a_graph_as_python_does(golden: Path, name: str) -> None:
    library = mblob.load_module(golden / name)
    assert len(library.tensors) == 6
    for tensor, array in library.tensors.items():
        assert tensor_in_c(library, tensor) == (0, array.shape, array.numpy().tobytes())
    assert tensor_in_c(library, "p9")[0] == lib.MBLOB_E_NOT_FOUND
    assert "there are: p0, p1, p2, p3, p4, p5" in text_of(lib.mblob_last_error())


@pytest.mark.own_process
@pytest.mark.filterwarnings("ignore::mblob.errors.PortabilityWarning")
def test_c_finds_weights_that_a_program_imports(golden: Path, tmp_path: Path) -> None:
    w = np.ones(3, "f4")
    mblob.add(golden / "relax" / "cnn_bound.so", weights={"w": w}, output=tmp_path / "w.so")
    library = mblob.load_module(tmp_path / "w.so")
    assert tensor_in_c(library, "w") == (0, (3,), w.tobytes())
