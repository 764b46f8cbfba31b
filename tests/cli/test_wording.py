"""Remarks and errors say what is true, once."""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mblob
from mblob.format import safetensors
from tests.looking.conftest import LIB, blob_source, classic_blob, string

C = '#define EXPORT __attribute__((visibility("default")))\n'


def library(cc: Callable[..., Path], blob: bytes, path: Path) -> Path:
    return cc(C + blob_source(blob), path, "-Wl,-Bsymbolic")


def test_an_unknown_key_is_told_once_and_nothing_is_said_of_what_follows(
    cc: Callable[..., Path], pack, tmp_path: Path
) -> None:
    blob = classic_blob(LIB, string("nobody_knows") + b"anything", row_ptr=(0, 1, 1), child=(1,))
    done = pack("inspect", library(cc, blob, tmp_path / "u.so"))
    assert done.returncode == 1
    assert "trailing_bytes" not in done.stdout and "last module" not in done.stdout
    assert "modules    1" in done.stdout and "no known payload" not in done.stdout
    assert done.stderr.startswith(f"mblob-pack: error: {tmp_path / 'u.so'}: type key")
    assert done.stderr.count("has no known payload grammar") == 1
    for form in ("--tree", "--functions", "--json"):
        again = pack("inspect", tmp_path / "u.so", form)
        assert (again.returncode, again.stderr) == (1, done.stderr)
    done = pack("extract", tmp_path / "u.so", "-o", tmp_path / "out")
    assert done.stderr.startswith(f"mblob-pack: error: {tmp_path / 'u.so'}: type key")


def test_a_damaged_payload_is_told_with_its_code_once(golden: Path, pack, tmp_path: Path) -> None:
    mblob.open(golden / "mlp_c.so").close()
    data = bytearray((golden / "mlp_c.so").read_bytes())
    data[0x2077] ^= 1 << 4
    (tmp_path / "g.so").write_bytes(data)
    assert pack("inspect", tmp_path / "g.so").stdout.count("[payload]") == 1


@pytest.mark.parametrize(
    ("dtype", "shape", "size", "words"),
    [
        ("F16", [8388609], 16777217, "has 16777218"),
        ("F32", [3], 11, "has 12"),
        ("F16", [1 << 62, 4], 2, "2^64 bits"),
    ],
)
def test_sizes_of_tensors_are_whole_numbers(
    dtype: str, shape: list[int], size: int, words: str
) -> None:
    head = json.dumps({"t": {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}}).encode()
    with pytest.raises(mblob.FormatError) as caught:
        safetensors.read(memoryview(struct.pack("<Q", len(head)) + head + bytes(size)))
    assert words in str(caught.value) and "e+" not in str(caught.value)


def test_one_symbol_is_defined_more_than_once(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("int __tvm_f(void) { return 1; }")
    for name in ("a", "b"):
        subprocess.run(["cc", "-c", tmp_path / "a.c", "-o", tmp_path / f"{name}.o"], check=True)
    subprocess.run(["ar", "rc", tmp_path / "l.a", tmp_path / "a.o", tmp_path / "b.o"], check=True)
    with mblob.open(tmp_path / "l.a") as lib:
        told = {d["code"]: d["message"] for d in lib.diagnostics}
    assert told["duplicate_symbols"].startswith("1 symbol is defined more than once: __tvm_f")


# -- dialect, functions, stacks --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "dialect"),
    [
        ("EXPORT int __tvm_ffi_f(void *s, void *a, int n, void *r) { return 0; }", "ffi"),
        ("EXPORT void *__tvm_ffi__library_ctx; EXPORT int __tvm_ffi_f(void) { return 0; }", "ffi"),
        ("EXPORT void *__tvm_module_ctx; EXPORT int f(void) { return 0; }", "classic"),
        ("EXPORT int f(void) { return 0; }", None),
    ],
)
def test_the_dialect_is_told_by_symbols_where_there_is_no_blob(
    cc: Callable[..., Path], pack, tmp_path: Path, source: str, dialect: str | None
) -> None:
    path = cc(C + source, tmp_path / "f.so")
    with mblob.open(path) as lib:
        assert (lib.blob, lib.dialect, lib.to_json()["dialect"]) == (None, dialect, dialect)
        assert "no blob" in repr(lib)
    done = pack("verify", path, "--json")
    if dialect is None:
        assert done.returncode == 3
        return
    found = json.loads(done.stdout)
    assert (found["dialect"], found["blob"], found["index"], found["entries"]) == (
        dialect,
        False,
        False,
        [],
    )
    assert "no blob" in pack("verify", path).stdout


def test_a_function_of_a_table_is_listed_once_in_either_dialect(tmp_path: Path) -> None:
    source = "void vadd(const float *a, float *b) { b[0] = a[0]; }"
    for dialect in ("classic", "ffi"):
        module = mblob.csource_module(source, functions=["void vadd(const float a[4], float b[4])"])
        module.export_library(tmp_path / f"{dialect}.so", dialect=dialect)
        with mblob.open(tmp_path / f"{dialect}.so") as lib:
            forms = [(f.name, f.abi) for f in lib.host_functions]
            assert (lib.functions, lib.packed_functions, lib.plain_functions) == (
                ["vadd"],
                ["vadd"],
                ["vadd"],
            )
        assert forms == [("vadd", "packed" if dialect == "classic" else "ffi"), ("vadd", "plain")]


@pytest.mark.parametrize(
    "source", ["int __tvm_f(void) { return 1; }", "const char __tvm_dev_x[3] = {1};"]
)
def test_objects_without_the_note_want_an_executable_stack(
    tmp_path: Path, source: str, require
) -> None:
    (tmp_path / "a.c").write_text(source)
    subprocess.run(["cc", "-c", tmp_path / "a.c", "-o", tmp_path / "a.o"], check=True)
    assert stack_remarks(tmp_path / "a.o") == 0
    subprocess.run(
        [require("objcopy"), "--remove-section=.note.GNU-stack", tmp_path / "a.o"], check=True
    )
    subprocess.run(["ar", "rc", tmp_path / "a.a", tmp_path / "a.o"], check=True)
    subprocess.run(["tar", "-C", tmp_path, "-cf", tmp_path / "a.tar", "a.o"], check=True)
    assert [stack_remarks(tmp_path / f"a.{kind}") for kind in ("o", "a", "tar")] == [1, 1, 1]


def test_the_default_of_aarch64_is_no_executable_stack(require, tmp_path: Path) -> None:
    assembler, built = tmp_path / "a.s", tmp_path / "a.o"
    assembler.write_text(".globl __tvm_f\n.text\n__tvm_f: ret\n")
    subprocess.run(
        [require("clang"), "--target=aarch64-linux-gnu", "-c", assembler, "-o", built], check=True
    )
    assert stack_remarks(built) == 0


def stack_remarks(path: Path) -> int:
    with mblob.open(path) as lib:
        return [d["code"] for d in lib.diagnostics].count("executable_stack")


# -- verbs -----------------------------------------------------------------------------------------


@pytest.fixture
def functions(cc: Callable[..., Path], tmp_path: Path) -> Path:
    return cc(
        C + "EXPORT void *__tvm_module_ctx; EXPORT int f(void) { return 0; }", tmp_path / "f.so"
    )


@pytest.mark.parametrize("verb", ["strip-index", "add-index"])
def test_functions_without_a_blob_are_a_library_that_has_nothing_to_index(
    pack, functions: Path, error_line, cc: Callable[..., Path], tmp_path: Path, verb: str
) -> None:
    done = pack(verb, functions, "-o", "o.so")
    assert (done.returncode, "a library of functions, without a blob" in error_line(done)) == (
        2,
        True,
    )
    done = pack(
        verb, cc(C + "EXPORT int f(void) { return 0; }", tmp_path / "plain.so"), "-o", "o.so"
    )
    assert (done.returncode, "not a model library" in error_line(done)) == (3, True)


def test_convert_names_what_it_writes(pack, functions: Path, error_line) -> None:
    for name in ("x.o", "x.a"):
        done = pack("convert", functions, "--dialect", "ffi", "-o", name)
        line = error_line(done)
        assert (
            done.returncode == 2
            and "shared library (.so), or .tar" in line
            and "system_lib" not in line
        )


def test_diff_tells_the_size_of_what_is_gone(pack, tmp_path: Path) -> None:
    one = mblob.csource_module("int f(void) { return 0; }")
    one.export_library(tmp_path / "b.so")
    one.import_module(mblob.blob_module("key", b"1234"))
    one.export_library(tmp_path / "a.so")
    assert "key: size 4\n" in pack("diff", tmp_path / "a.so", tmp_path / "b.so").stdout
    assert "key: size 4\n" in pack("diff", tmp_path / "b.so", tmp_path / "a.so").stdout
    assert "None" not in pack("diff", tmp_path / "a.so", tmp_path / "b.so").stdout


# -- extract ---------------------------------------------------------------------------------------


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A library with tensors that numpy has, and such that it has not."""
    tensors = {"w": ("F32", [2], 8), "b": ("BF16", [3], 6), "e": ("F8_E4M3", [4], 4)}
    head, at = {}, 0
    for name, (dtype, shape, size) in tensors.items():
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(head).encode()
    (tmp_path / "m.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(range(at)))
    module = mblob.csource_module("int f(void) { return 0; }")
    module.import_module(mblob.safetensors_module(tmp_path / "m.safetensors"))
    module.export_library(tmp_path / "m.so")
    return tmp_path / "m.so"


def test_each_tensor_is_written_as_it_can_be(pack, mixed: Path, tmp_path: Path, error_line) -> None:
    done = pack("extract", mixed, "--tensors", "-o", "all")
    assert (done.returncode, done.stderr) == (0, "")
    names = sorted(p.name.split(".", 1)[1] for p in (tmp_path / "all").iterdir())
    assert names == ["b.safetensors", "e.safetensors", "w.npy"]
    (path,) = (tmp_path / "all").glob("*.w.npy")
    assert np.load(path).tobytes() == bytes(range(8))
    (path,) = (tmp_path / "all").glob("*.b.safetensors")
    start, (entry,) = safetensors.read(memoryview(path.read_bytes()))
    assert (entry.name, path.read_bytes()[start:]) == ("b", bytes(range(8, 14)))
    done = pack("extract", mixed, "--tensors", "--format", "npy", "-o", "npy")
    assert (done.returncode, "cannot hold" in error_line(done), (tmp_path / "npy").exists()) == (
        2,
        True,
        False,
    )


def test_what_no_format_can_hold_is_named_when_the_rest_is_written(
    pack, tmp_path: Path, error_line
) -> None:
    dtypes = mblob.dtype.DataType.parse
    params = {"w": (dtypes("float32"), 4), "q": (dtypes("int4"), 1)}
    payload = params_with(params)
    module = mblob.csource_module("int f(void) { return 0; }")
    module.import_module(mblob.blob_module("my_params", payload))
    module.export_library(tmp_path / "q.so")
    done = pack("extract", tmp_path / "q.so", "--tensors", "-o", "all")
    line = error_line(done)
    assert done.returncode == 2 and "can hold int4: q of entry 1" in line
    assert [p.name for p in (tmp_path / "all").iterdir()] == ["1-my_params.w.npy"]
    done = pack("extract", tmp_path / "q.so", "--tensor", "q", "-o", "none")
    assert (done.returncode, "int4" in error_line(done), (tmp_path / "none").exists()) == (
        2,
        True,
        False,
    )


def params_with(tensors: dict[str, tuple[mblob.dtype.DataType, int]]) -> bytes:
    """A parameter dictionary with a tensor of one element of each type."""
    out = struct.pack("<QQQ", 0xF7E58D4F05049CB7, 0, len(tensors))
    out += b"".join(map(string, tensors)) + struct.pack("<Q", len(tensors))
    for dtype, size in tensors.values():
        out += struct.pack("<QQiii", 0xDD5E40F096B4A13F, 0, 1, 0, 1) + dtype.to_bytes()
        out += struct.pack("<qQ", 1, size) + bytes(size)
    return out


@pytest.mark.parametrize("what", [("--tensor", "w"), ("--tensors",), ()])
def test_no_folder_gets_the_name_of_a_file(
    pack, mixed: Path, tmp_path: Path, error_line, what: tuple[str, ...]
):
    done = pack("extract", mixed, *what, "-o", "z.txt")
    assert (
        done.returncode,
        "to create a folder of that name" in error_line(done),
        (tmp_path / "z.txt").exists(),
    ) == (
        2,
        True,
        False,
    )
    for folder in ("z.txt/", "z-1.0", "plain"):
        assert pack("extract", mixed, *what, "-o", folder).returncode == 0
        assert (tmp_path / folder).is_dir()
