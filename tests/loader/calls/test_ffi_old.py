"""On the way to the dialect of 0.22: TVM 0.21 (plain names, another blob) and 0.20 (the classic
one)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mblob
from mblob.compilers import include_flags
from mblob.format import ffi_dialect
from tests.unit.test_ffi_dialect import CUDA, LIB, string, u64

pytestmark = pytest.mark.own_process

ROOT = Path(__file__).resolve().parents[3]
KERNELS = (ROOT / "tests/c/kernels/ffi.c").read_text()
FLAGS = (*include_flags(), f"-I{ROOT}/csrc/plugins/ffi")
TREE = string("_import_tree") + u64(3, 0, 1, 1) + u64(1, 1)


def stream(*items: bytes) -> bytes:
    body = u64(len(items)) + b"".join(items)
    return u64(len(body)) + body


def with_blob(symbol: str, data: bytes) -> str:
    return f"const unsigned char {symbol}[] = {{{','.join(map(str, data))}}};\n"


@pytest.fixture
def of_0_21(cc: Callable[..., Path], tmp_path: Path) -> mblob.Module:
    data = stream(LIB, string("cuda") + CUDA, TREE)
    source = "#define OLD\n" + KERNELS + with_blob(ffi_dialect.SYMBOL_OF_0_21, data)
    return mblob.load_module(cc(source, tmp_path / "old.so", *FLAGS))


def test_a_library_of_0_21_has_plain_names(of_0_21: mblob.Module) -> None:
    lib = of_0_21
    assert [m.type_key for m in lib.walk()] == ["library", "cuda"]
    assert bytes(lib.imported_modules[0].payload) == CUDA
    assert lib["add"](3, 4) == 7
    assert lib(3, 4) == 7  # the entry, which a string names
    assert lib["sum"](np.arange(5, dtype="float32")) == 10
    assert [lib["type_of"](v) for v in (1, True, 2.5, None, "text", b"bytes", np.zeros(1))] == [
        1,
        2,
        3,
        0,
        8,
        9,
        7,
    ]
    assert lib["type_of"](lib["add"]) == 68
    with pytest.raises(mblob.KernelError) as caught:
        lib["add"](1)
    assert (caught.value.kind, str(caught.value)) == (
        "TypeError",
        "TypeError: add: expected 2 arguments",
    )
    assert not lib.implements_function("__tvm_ffi_library_ctx")


def test_it_calls_by_name_and_in_parallel(of_0_21: mblob.Module) -> None:
    mblob.register_func("old.twice", lambda x: 2 * x, override=True)
    assert of_0_21["asks"]("old.twice", 21) == 42
    assert of_0_21["asks"]("old.twice", "ab") == "abab"
    assert of_0_21["parallel"](-1) == 6
    with pytest.raises(mblob.KernelError, match="IndexError: this task fails"):
        of_0_21["parallel"](2)
    assert of_0_21["workspace"]() == 7

    def fails(_x: int) -> None:
        raise LookupError("not there")

    mblob.register_func("old.twice", fails, override=True)
    with pytest.raises(LookupError, match="not there"):
        of_0_21["asks"]("old.twice", 1)


def test_tensors_are_behind_a_shorter_header(of_0_21: mblob.Module) -> None:
    mblob.register_func("old.sum", of_0_21["sum"], override=True)
    given = mblob.array(np.arange(4, dtype="float32"), mblob.cpu(0))
    mblob.register_func("old.tensor", lambda: given, override=True)
    # an object that passes through the kernel
    assert of_0_21["asks"]("old.tensor").numpy().sum() == 6
    mblob.register_func("old.sum", lambda *_: None, override=True)


def test_a_library_of_0_20_is_a_classic_one(cc: Callable[..., Path], tmp_path: Path) -> None:
    code = b"\x1e\x15\x14\x42\x2f\xde\x25\xd2 bytecode"
    data = stream(string("relax.VMExecutable") + string(code), LIB, TREE)
    source = """
#include <tvm/runtime/c_runtime_api.h>
void *__tvm_module_ctx;
int (*__TVMBackendGetFuncFromEnv)(void *, const char *, TVMFunctionHandle *);
int add(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *self) {
  (void)codes, (void)n, (void)self;
  ret->v_int64 = args[0].v_int64 + args[1].v_int64;
  *ret_code = 0;
  return __tvm_module_ctx && __TVMBackendGetFuncFromEnv ? 0 : -1;
}
"""
    source += with_blob("__tvm_dev_mblob", data)
    path = cc(source, tmp_path / "relax.so", *FLAGS, "-DMBLOB_HOST")
    lib = mblob.load_module(path)
    assert [m.type_key for m in lib.walk()] == ["relax.VMExecutable", "library"]
    assert bytes(lib.payload) == string(code)
    with pytest.raises(mblob.FormatError, match=r"relax\.VMExecutable: bytecode\.version"):
        lib.get_function("as_text")
    assert lib.imported_modules[0]["add"](3, 4) == 7


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (stream(LIB, string("cuda") + CUDA[:-1], TREE), "truncated"),
        (stream(LIB, string("unheard.of") + string(b"x"), TREE), "unknown_key"),
        (
            stream(LIB, string("_import_tree") + u64(2, 0, 0) + u64(0), string("cuda") + CUDA),
            "tree_last",
        ),
        (stream(LIB)[:-2], "size"),
    ],
)
def test_damage_is_told(cc: Callable[..., Path], tmp_path: Path, data: bytes, code: str) -> None:
    path = cc(with_blob(ffi_dialect.SYMBOL_OF_0_21, data), tmp_path / "bad.so")
    with pytest.raises(mblob.FormatError) as caught:
        mblob.load_module(path)
    assert caught.value.code == code
    assert "bad.so" in str(caught.value)


def test_getters_of_a_library_in_c(cc: Callable[..., Path], tmp_path: Path) -> None:
    lib = mblob.load_module(cc(KERNELS, tmp_path / "new.so", *FLAGS))
    with pytest.raises(
        AttributeError, match=r"no function 'ad'; it has: add, adder, asks, .*did you mean"
    ):
        lib.get_function("ad")
    assert lib.get_function_metadata("add") == {"type_schema": "..."}
    assert lib.get_function_doc("add") == "Adds."
    assert (lib.get_function_doc("sum"), lib.get_function_metadata("nobody")) == (None, None)
    above = mblob.Module("above", functions={})
    above.import_module(lib)
    assert above.get_function_doc("add") is None
    assert above.get_function_doc("add", query_imports=True) == "Adds."
    assert [lib["string"](n) for n in (0, 7, 8)] == ["", "abcdefg", "abcdefgh"]
    assert lib["nul_inside"]() == "a\0b"
    assert lib["adder"](5)(3) == 8
    with pytest.raises(mblob.KernelError, match=r"^my\.Error: a message$") as caught:
        lib["fails_with_object"]()
    assert caught.value.kind == "my.Error"
