"""`mblob-pack extract --tensor`: single tensors, held against numpy and an independent writer of
the formats."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import unicodedata
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import mblob
from mblob.dtype import DataType
from mblob.format import npy, safetensors

NPY_DTYPES = (
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64",
    "complex64", "complex128",
)  # fmt: skip
SHAPES = ((), (0,), (3,), (2, 3), (1, 0, 4), (1,) * 32)


def safetensors_file(tensors: dict[str, tuple[str, list[int], bytes]]) -> bytes:
    """A file, written by hand."""
    head, data = {}, b""
    for name, (dtype, shape, raw) in tensors.items():
        head[name] = {
            "dtype": dtype,
            "shape": shape,
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(head).encode()
    return struct.pack("<Q", len(text)) + text + data


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """A library with weights of three kinds."""
    content = safetensors_file(
        {
            "a": ("F32", [2, 2], np.arange(4, dtype="<f4").tobytes()),
            "b": ("BF16", [3], np.arange(3).astype(ml_dtypes.bfloat16).tobytes()),
            "layer.0/w": ("I64", [], struct.pack("<q", -5)),
        }
    )
    (tmp_path / "w.safetensors").write_bytes(content)
    mblob.safetensors_module(tmp_path / "w.safetensors").export_library(tmp_path / "w.so")
    return tmp_path / "w.so"


@pytest.mark.parametrize("dtype", NPY_DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_numpy_reads_what_is_written_and_we_read_what_numpy_writes(
    tmp_path: Path, dtype: str, shape: tuple
) -> None:
    array = (np.arange(int(np.prod(shape))) % 2).astype(dtype).reshape(shape)
    path = tmp_path / "x.npy"
    path.write_bytes(npy.header(DataType.parse(dtype), shape) + array.tobytes())
    read = np.load(path)
    assert (read.dtype, read.shape, read.tobytes()) == (array.dtype, shape, array.tobytes())
    for given in (array, array.copy(order="F")):
        np.save(path, given)
        record = npy.read(memoryview(path.read_bytes()), "x.npy")
        found = (str(record.dtype), record.shape, bytes(record.data))
        assert found == (dtype, shape, array.tobytes())


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros(2, ">f4"), "little-endian"),
        (np.zeros(2, "U3"), "little-endian"),
        (np.zeros(2, [("a", "f4")]), "little-endian"),
    ],
    ids=["big", "text", "structure"],
)
def test_arrays_that_are_not_plain_are_refused(
    tmp_path: Path, array: np.ndarray, words: str
) -> None:
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(mblob.FormatError, match=f"x.npy: .*{words}"):
        npy.read(memoryview((tmp_path / "x.npy").read_bytes()), "x.npy")


def test_damaged_npy_files_are_errors(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(3))
    whole = (tmp_path / "x.npy").read_bytes()
    for at in range(len(whole)):
        with pytest.raises(mblob.FormatError):
            npy.read(memoryview(whole[:at]), "x.npy")
    for at in range(128):
        for bit in range(8):
            data = bytearray(whole)
            data[at] ^= 1 << bit
            try:
                npy.read(memoryview(data), "x.npy")
            except mblob.FormatError as error:
                assert len(str(error)) < 300


def test_one_tensor_to_npy(pack, weights: Path, tmp_path: Path, error_line) -> None:
    done = pack("extract", weights, "--tensor", "a", "-o", "a.npy")
    assert (done.returncode, done.stdout, done.stderr) == (0, "a.npy\n", "")
    np.testing.assert_array_equal(
        np.load(tmp_path / "a.npy"), np.arange(4, dtype="float32").reshape(2, 2)
    )
    done = pack("extract", weights, "--tensor", "b", "-o", "b.npy")
    line = error_line(done)
    assert (
        done.returncode == 2
        and "tensor 'b': .npy cannot hold bfloat16; write a .safetensors file, or --format safetensors"
        in line
    )
    assert not (tmp_path / "b.npy").exists()
    done = pack("extract", weights, "--tensors", "-o", "all.npy")
    assert (done.returncode, "3 were asked for" in error_line(done)) == (2, True)
    done = pack("extract", weights, "--tensor", "zz", "-o", "zz.npy")
    assert (
        done.returncode,
        "no tensor 'zz'" in error_line(done),
        "layer.0/w" in error_line(done),
    ) == (2, True, True)


def test_all_tensors_to_safetensors_and_folders(pack, weights: Path, tmp_path: Path) -> None:
    assert pack("extract", weights, "--tensors", "-o", "all.safetensors").returncode == 0
    data = (tmp_path / "all.safetensors").read_bytes()
    base, entries = safetensors.read(memoryview(data))
    assert base % 64 == 0
    found = {e.name: (str(e.dtype), e.shape, data[base + e.begin : base + e.end]) for e in entries}
    assert found["b"] == ("bfloat16", (3,), np.arange(3).astype(ml_dtypes.bfloat16).tobytes())
    assert found["layer.0/w"] == ("int64", (), struct.pack("<q", -5))
    done = pack("extract", weights, "--tensors", "--format", "safetensors", "-o", "parts")
    assert {p.name for p in (tmp_path / "parts").iterdir()} == {
        "0-safetensors.a.safetensors",
        "0-safetensors.b.safetensors",
        "0-safetensors.layer.0_w.safetensors",
    }
    assert done.stdout.count("\n") == 3


@pytest.mark.sample(6)
@pytest.mark.parametrize("kind", sorted(safetensors.DTYPES))
def test_every_dtype_of_safetensors_comes_out_as_it_went_in(tmp_path: Path, kind: str) -> None:
    bits = 8 * 4 * (8 if safetensors.DTYPES[kind].bits == 1 else safetensors.DTYPES[kind].bits) // 8
    raw = os.urandom(bits // 8)
    content = safetensors_file({"t": (kind, [2, 2], raw)})
    mblob.safetensors_module(content).export_library(tmp_path / "t.so")
    mblob.extract(tmp_path / "t.so", tmp_path / "t.safetensors", tensors=["t"])
    data = (tmp_path / "t.safetensors").read_bytes()
    base, (entry,) = safetensors.read(memoryview(data))
    assert (entry.dtype, entry.shape, data[base:]) == (safetensors.DTYPES[kind], (2, 2), raw)


def test_parameters_of_models_that_tvm_exported(golden: Path, tmp_path: Path) -> None:
    """Against an independent reading: the record of each array, found by its magic number."""
    for name, key in (
        ("mlp_llvm", "GraphExecutorFactory"),
        ("vm_mlp", "VMExecutable"),
        ("ffi/relax_c", "relax."),
    ):
        whole = (golden / f"{name}.so").read_bytes()
        mblob.extract(golden / f"{name}.so", tmp_path / "t.safetensors", tensors=True)
        data = (tmp_path / "t.safetensors").read_bytes()
        base, entries = safetensors.read(memoryview(data))
        found = sorted((e.shape, data[base + e.begin : base + e.end]) for e in entries)
        records, at = [], whole.find(b"\x3f\xa1\xb4\x96\xf0\x40\x5e\xdd")
        while at >= 0:
            (ndim,) = struct.unpack_from("<i", whole, at + 24)
            shape = struct.unpack_from(f"<{ndim}q", whole, at + 32)
            (size,) = struct.unpack_from("<q", whole, at + 32 + 8 * ndim)
            start = at + 40 + 8 * ndim
            records.append((shape, whole[start : start + size]))
            at = whole.find(b"\x3f\xa1\xb4\x96\xf0\x40\x5e\xdd", at + 8)
        assert found == sorted(records) and found, key


def test_a_parameter_dictionary_under_a_key_of_the_user(tmp_path: Path) -> None:
    params = {"w": np.arange(3, dtype="float32"), "b": np.ones((2, 2), "int8")}
    mblob.blob_module("mine", mblob.save_param_dict(params)).export_library(tmp_path / "p.so")
    mblob.extract(tmp_path / "p.so", tmp_path, tensors=True)
    np.testing.assert_array_equal(np.load(tmp_path / "0-mine.w.npy"), params["w"])
    np.testing.assert_array_equal(np.load(tmp_path / "0-mine.b.npy"), params["b"])
    mblob.swap(tmp_path / "p.so", weights={"b": np.zeros((2, 2), "int8")})
    with mblob.open(tmp_path / "p.so") as library:
        found = mblob.load_param_dict(bytes(library.entries[0].view()))
    assert found["b"].numpy().tolist() == [[0, 0], [0, 0]]


def test_names_never_leave_the_folder(pack, tmp_path: Path) -> None:
    """Absolute, upwards, NUL, too long, twice, and the same but for upper case: all land in the
    folder."""
    names = [
        "/etc/passwd",
        "../../up",
        "..",
        ".",
        "a\\b",
        "x" * 5000,
        "W",
        "w",
        "w~2",
        "-o",
        "ü",
        "a\nb",
        "CON",
    ]
    params = {name: np.full(2, i, "float32") for i, name in enumerate(names)}
    graph = '{"nodes": [], "arg_nodes": [], "heads": [], "node_row_ptr": [0], "attrs": {}}'
    mblob.graph_executor_factory(graph, params).export_library(tmp_path / "g.so")
    out = tmp_path / "deep" / "er"
    done = pack("extract", "g.so", "--tensors", "-o", out)
    assert done.returncode == 0, done.stderr
    files = list(out.iterdir())
    assert len(files) == len(names) == len({p.name.casefold() for p in files})
    assert sorted(float(np.load(p)[0]) for p in files) == list(range(len(names)))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["deep", "g.so"]
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["er"]


def test_an_empty_name_gives_a_file(tmp_path: Path) -> None:
    """TVM writes some; mblob's packager refuses them."""
    record = mblob.save_param_dict({"w": np.ones(1, "float32")})[8 + 8 + 8 + 8 + 1 + 8 :]
    payload = struct.pack("<QQQ", 1, 0, 1) + record + struct.pack("<QQ", 0, 0)
    mblob.blob_module("const_loader", payload).export_library(tmp_path / "c.so")
    files = mblob.extract(tmp_path / "c.so", tmp_path / "out", tensors=True)
    assert [float(np.load(p)[0]) for p in files] == [1]


def test_a_name_that_is_there_twice_gives_two_files(tmp_path: Path) -> None:
    record = mblob.save_param_dict({"w": np.ones(1, "float32")})[8 + 8 + 8 + 8 + 1 + 8 :]
    names = struct.pack("<Q", 2) + 2 * (struct.pack("<Q", 1) + b"w")
    payload = names + struct.pack("<Q", 2) + record + record + struct.pack("<QQ", 0, 0)
    mblob.blob_module("const_loader", payload).export_library(tmp_path / "c.so")
    files = mblob.extract(tmp_path / "c.so", tmp_path / "out", tensors=["w"])
    assert [p.name for p in files] == ["0-const_loader.w.npy", "0-const_loader.w~2.npy"]
    with pytest.raises(mblob.MblobError, match="'w' is there 2 times"):
        mblob.extract(tmp_path / "c.so", tmp_path / "c.safetensors", tensors=["w"])


def test_names_that_file_systems_take_for_one_are_told_apart(tmp_path: Path) -> None:
    """Case, normal forms of Unicode, trailing dots and spaces, names of devices, cut names: a file
    for each."""
    names = ["\u00e9", "e\u0301", "e_", "K", "k", "\u212a", "w", "w.", "w..", "w ", "nul", "NUL"]
    names += ["a\0b", "a_b", "a/b", "a:b"]
    names += ["x" * 300 + "1", "x" * 300 + "2", "/", "..", "../w", "./w", "W~2", "w~2", "-", "~"]
    params = {name: np.full(2, i, "float32") for i, name in enumerate(names)}
    mblob.blob_module("p/../q", mblob.save_param_dict(params)).export_library(tmp_path / "p.so")
    for _ in range(2):  # a second time: everything is replaced, nothing is added
        files = mblob.extract(tmp_path / "p.so", tmp_path / "out", tensors=True)
        assert sorted(files) == sorted((tmp_path / "out").iterdir())
    plain = {unicodedata.normalize("NFKC", p.name).casefold().rstrip(". ") for p in files}
    assert len(plain) == len(names)
    assert all(len(os.fsencode(p.name)) < 255 and p.name.startswith("0-p_.._q.") for p in files)
    assert sorted(float(np.load(p)[0]) for p in files) == list(range(len(names)))


def test_a_name_that_is_there_twice_is_seen_twice(pack, tmp_path: Path) -> None:
    """By inspect, by `EntryView.tensors`, by diff."""
    paths = []
    for name, last in (("a", 1), ("b", 2)):
        record = mblob.save_param_dict({"w": np.ones(1, "float32")})[8 + 8 + 8 + 8 + 1 + 8 :]
        other = mblob.save_param_dict({"w": np.full(1, last, "float32")})[8 + 8 + 8 + 8 + 1 + 8 :]
        two = struct.pack("<Q", 2) + 2 * (struct.pack("<Q", 1) + b"w") + struct.pack("<Q", 2)
        paths.append(tmp_path / f"{name}.so")
        mblob.blob_module("const_loader", two + record + other + bytes(16)).export_library(
            paths[-1]
        )
    with mblob.open(paths[1]) as library:
        assert [(t.name, bytes(t.data)) for t in library.entries[0].tensors] == [
            ("w", struct.pack("<f", 1)),
            ("w", struct.pack("<f", 2)),
        ]
        assert [t["name"] for t in library.to_json()["entries"][0]["tensors"]] == ["w", "w"]
    assert pack("inspect", paths[1], "--entry", "0").stdout.count(" w  float32[1]") == 2
    (entry,) = mblob.diff(*paths).entries
    assert [(t.name, t.change) for t in entry.tensors] == [("w[1]", "changed")]


def test_thousands_of_files_cost_a_few_system_calls_each(tmp_path: Path, require) -> None:
    """What a file costs does not depend on how many there are, nor on how deep the folder lies."""

    def calls(count: int) -> int:
        content = safetensors_file({f"t{i}": ("U8", [1], b"x") for i in range(count)})
        library = tmp_path / f"{count}.so"
        mblob.safetensors_module(content).export_library(library)
        folder = tmp_path / "a" / "b" / "c" / "d" / str(count)
        trace = tmp_path / f"{count}.trace"
        script = "import sys, mblob; mblob.extract(sys.argv[1], sys.argv[2], tensors=True)"
        command = [
            require("strace"),
            "-f",
            "-o",
            trace,
            sys.executable,
            "-c",
            script,
            library,
            folder,
        ]
        subprocess.run(command, check=True)
        assert len(list(folder.iterdir())) == count
        return len(trace.read_text().splitlines())

    few, many = calls(100), calls(1100)
    assert many - few <= 7 * 1000


def test_links_in_the_folder_are_replaced_not_followed(pack, weights: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "0-safetensors.a.npy").symlink_to(tmp_path / "precious")
    assert pack("extract", weights, "--tensor", "a", "-o", "out").returncode == 2
    assert pack("extract", weights, "--tensor", "a", "-o", "out", "--force").returncode == 0
    assert (tmp_path / "precious").read_text() == "mine"
    assert not (tmp_path / "out" / "0-safetensors.a.npy").is_symlink()


def test_the_library_itself_is_no_output(pack, weights: Path, error_line) -> None:
    before = weights.read_bytes()
    done = pack("extract", weights, "--entry", "0", "-o", weights)
    assert (done.returncode, "is also the library" in error_line(done)) == (2, True)
    assert weights.read_bytes() == before


def test_large_payloads_pass_through_little_memory(tmp_path: Path, peak_memory) -> None:
    with (tmp_path / "big").open("wb") as file:
        file.truncate(64 << 20)
    mblob.blob_module("big", tmp_path / "big").export_library(tmp_path / "big.so")
    peak = peak_memory(lambda: mblob.extract(tmp_path / "big.so", tmp_path / "big.payload"))
    assert (tmp_path / "big.payload").stat().st_size == 64 << 20
    assert peak < 4 << 20
