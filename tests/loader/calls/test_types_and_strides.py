"""No element type is taken for another one, and no array is accepted by where its memory happens to
lie."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.compilers import include_flags
from mblob.dtype import DataType
from mblob.packager.functions.wrappers import packed_forms
from tests.e2e.ffi.ffi_outcomes import DLTensor, new_capsule

pytestmark = pytest.mark.own_process

FFI = r"""
#include <stdint.h>
#include <string.h>
#include "abi.h"
extern void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message);
extern int TVMFFIFunctionCall(void *function, const struct mb_any *args, int32_t count, struct mb_any *result);
#define KERNEL(name)                                                                                            \
  int __tvm_ffi_##name(void *self, const struct mb_any *args, int32_t n, struct mb_any *result);                \
  int __tvm_ffi_##name(void *self, const struct mb_any *args, int32_t n, struct mb_any *result)
static int fail(const char *text) { TVMFFIErrorSetRaisedFromCStr("ValueError", text); return -1; }
static const DLTensor *tensor(const struct mb_any *a) {
  return a->type == MB_ANY_TENSOR ? (const DLTensor *)(const void *)((const char *)a->u.pointer + 24) : a->u.pointer;
}
/* tensor, code, bits, lanes */
KERNEL(takes) {
  (void)self, (void)n, (void)result;
  const DLTensor *t = tensor(&args[0]);
  if (t->dtype.code != args[1].u.i64 || t->dtype.bits != args[2].u.i64 || t->dtype.lanes != args[3].u.i64)
    return fail("another type");
  return 0;
}
KERNEL(takes_first) { /* of a list */
  const struct { char header[24]; struct mb_any *items; } *list = args[0].u.pointer;
  struct mb_any all[4] = {list->items[0], args[1], args[2], args[3]};
  return __tvm_ffi_takes(self, all, n, result);
}
/* Call a function with a tensor of that type; the tensor that it returns must have it. */
KERNEL(sends) {
  (void)n;
  uint8_t memory[64] = {0};
  int64_t shape[1] = {2}, strides[1] = {1};
  DLDataType type = {(uint8_t)args[1].u.i64, (uint8_t)args[2].u.i64, (uint16_t)args[3].u.i64};
  DLTensor t = {memory, {1, 0}, 1, type, shape, strides, 0};
  struct mb_any view = {MB_ANY_TENSOR_VIEW, 0, {.pointer = &t}}, back = {0};
  if (TVMFFIFunctionCall(args[0].u.pointer, &view, 1, &back)) return -1;
  if (back.type == MB_ANY_NONE) return 0;
  struct mb_any all[4] = {back, args[1], args[2], args[3]};
  return __tvm_ffi_takes(self, all, 4, result);
}
/* A borrowed tensor of that type. */
KERNEL(lends) {
  static uint8_t memory[64];
  static int64_t shape[1] = {2}, strides[1] = {1};
  static DLTensor t;
  (void)self, (void)n;
  t = (DLTensor){memory, {1, 0}, 1, {(uint8_t)args[0].u.i64, (uint8_t)args[1].u.i64, 1}, shape, strides, 0};
  *result = (struct mb_any){MB_ANY_TENSOR_VIEW, 0, {.pointer = &t}};
  return 0;
}
/* Add 1 to all elements of a matrix of floats; it may have strides, and is aligned to 64 bytes. */
KERNEL(strided) {
  (void)self, (void)n, (void)result;
  const DLTensor *t = args[0].u.pointer;
  if ((uintptr_t)t->data % 64) return fail("misaligned");
  for (int64_t i = 0; i < t->shape[0]; i++)
    for (int64_t k = 0; k < t->shape[1]; k++) ((float *)t->data)[i * t->strides[0] + k * t->strides[1]] += 1;
  return 0;
}
/* Multiply the elements of the first matrix by 10, and then add those of the first to the second's. */
KERNEL(strided_two) {
  (void)self, (void)n, (void)result;
  const DLTensor *t = args[0].u.pointer, *u = args[1].u.pointer;
  if ((uintptr_t)t->data % 64 || (uintptr_t)u->data % 64) return fail("misaligned");
  for (int64_t i = 0; i < t->shape[0]; i++)
    for (int64_t k = 0; k < t->shape[1]; k++) ((float *)t->data)[i * t->strides[0] + k * t->strides[1]] *= 10;
  const float *from = t->data;
  float *to = u->data;
  for (int64_t i = 0; i < t->shape[0]; i++)
    for (int64_t k = 0; k < t->shape[1]; k++)
      to[i * u->strides[0] + k * u->strides[1]] += from[i * t->strides[0] + k * t->strides[1]];
  return 0;
}
/* What compiled kernels do that take compact rows only. */
KERNEL(compact) {
  (void)self, (void)n, (void)result;
  const DLTensor *t = args[0].u.pointer;
  if ((uintptr_t)t->data % 64) return fail("misaligned");
  return t->strides[1] == 1 && t->strides[0] == t->shape[1] ? 0 : fail("Mismatched strides");
}
"""
CLASSIC = r"""
#include <tvm/runtime/c_runtime_api.h>
#include <stdint.h>
#define KERNEL(name)                                                                             \
  int name(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *self);         \
  int name(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *self)
KERNEL(takes) {
  (void)codes, (void)n, (void)ret, (void)ret_code, (void)self;
  DLTensor *t = args[0].v_handle;
  if (t->dtype.code == args[1].v_int64 && t->dtype.bits == args[2].v_int64 && t->dtype.lanes == args[3].v_int64)
    return 0;
  TVMAPISetLastError("another type");
  return -1;
}
KERNEL(compact) {
  (void)codes, (void)n, (void)ret, (void)ret_code, (void)self;
  DLTensor *t = args[0].v_handle;
  if (t->strides == 0 && (uintptr_t)t->data % 64 == 0) return 0;
  TVMAPISetLastError("strides, or misaligned");
  return -1;
}
"""

# What a library of the ffi dialect calls each type: DLPack 1.1. Those of TVM 0.15 to 0.19 are the
# same but where said.
CODES: dict[str, tuple[int, int]] = {
    **{f"int{b}": (0, b) for b in (4, 8, 16, 32, 64)}, **{f"uint{b}": (1, b) for b in (4, 8, 16, 32, 64)},
    **{f"float{b}": (2, b) for b in (16, 32, 64)}, "bfloat16": (4, 16), "complex64": (5, 64), "complex128": (5, 128),
    "bool": (6, 8), "float8_e3m4": (7, 8), "float8_e4m3": (8, 8), "float8_e4m3b11fnuz": (9, 8),
    "float8_e4m3fn": (10, 8), "float8_e4m3fnuz": (11, 8), "float8_e5m2": (12, 8), "float8_e5m2fnuz": (13, 8),
    "float8_e8m0fnu": (14, 8), "float6_e2m3fn": (15, 6), "float6_e3m2fn": (16, 6), "float4_e2m1fn": (17, 4),
}  # fmt: skip
# 0.15 to 0.19; the ffi dialect has them by other names
OF_TVM = {"e4m3_float8": (6, 8), "e5m2_float8": (7, 8)}
SAME = {"e4m3_float8": "float8_e4m3fn", "e5m2_float8": "float8_e5m2", "uint1": "bool"}
CODES_OF_CLASSIC = {
    **{n: c for n, c in CODES.items() if c[0] not in (6, 7)},
    **OF_TVM,
    "bool": (1, 1),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, cc: Callable[..., Path], root: Path) -> Path:
    """With ffi.so and classic.so."""
    folder = tmp_path_factory.mktemp("types")
    headers = (*include_flags(), "-I", str(root / "csrc/plugins/ffi"))
    cc(FFI, folder / "ffi.so", *headers)
    cc(CLASSIC, folder / "classic.so", *headers)
    return folder


@pytest.fixture(scope="module")
def ffi(folder: Path) -> mblob.Module:
    return mblob.load_module(folder / "ffi.so")


@pytest.fixture(scope="module")
def classic(folder: Path) -> mblob.Module:
    return mblob.load_module(folder / "classic.so")


def accepted(function: Any, given: Any, expected: tuple[int, int], lanes: int = 1) -> bool:
    try:
        function(given, *expected, lanes)
    except mblob.KernelError as error:
        assert "another type" in str(error)
        return False
    return True


class Producer:
    """A DLPack tensor of two elements of any type, as a capsule of either version."""

    def __init__(self, code: int, bits: int, versioned: bool) -> None:
        self.memory, self.shape, self.versioned = (
            ctypes.create_string_buffer(64),
            (ctypes.c_int64 * 1)(2),
            versioned,
        )
        data, shape = ctypes.addressof(self.memory), ctypes.addressof(self.shape)
        tensor = DLTensor(data, (1, 0), 1, code, bits, 1, shape, None, 0)
        head = bytes((1, 0, 0, 0, 1, 0, 0, 0)) + bytes(24)  # version 1.1, manager, deleter, flags
        raw = bytes(tensor)
        self.store = ctypes.create_string_buffer(head + raw if versioned else raw)

    def __dlpack__(self, **_options: object) -> Any:
        name = b"dltensor_versioned" if self.versioned else b"dltensor"
        return new_capsule(ctypes.addressof(self.store), name, None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


# -- types -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("given", [*CODES, *SAME])
def test_a_function_of_the_ffi_dialect_gets_each_type_by_its_code(
    ffi: mblob.Module, given: str, lanes: int
) -> None:
    tensor = mblob.empty((2,), given if lanes == 1 else f"{given.replace('bool', 'uint1')}x{lanes}")
    for expected, code in CODES.items():
        same = expected == SAME.get(given, given)
        assert accepted(ffi["takes"], tensor, code, lanes) is same, expected
        assert accepted(ffi["takes_first"], [tensor], code, lanes) is same, expected


@pytest.mark.parametrize("given", CODES_OF_CLASSIC)
def test_a_function_of_the_classic_dialect_gets_each_type_by_its_code(
    classic: mblob.Module, given: str
) -> None:
    tensor = mblob.empty((2,), given)
    for expected, code in CODES_OF_CLASSIC.items():
        assert accepted(classic["takes"], tensor, code) is (expected == given), expected


def test_float8_e3m4_is_no_type_of_the_classic_dialect(classic: mblob.Module) -> None:
    for code in CODES_OF_CLASSIC.values():
        assert not accepted(classic["takes"], mblob.empty((2,), "float8_e3m4"), code)


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("given", CODES)
def test_a_type_of_dlpack_keeps_its_meaning(
    ffi: mblob.Module, classic: mblob.Module, given: str, versioned: bool
) -> None:
    producer = Producer(*CODES[given], versioned)
    assert mblob.from_dlpack(producer).dtype == given
    for expected, code in CODES.items():
        assert accepted(ffi["takes"], producer, code) is (expected == given), expected
    for expected, code in CODES_OF_CLASSIC.items():
        assert accepted(classic["takes"], producer, code) is (expected == given), expected


@pytest.mark.parametrize("given", [*CODES, *SAME])
def test_dlpack_gets_each_type_by_its_code(given: str) -> None:
    for options in ({}, {"max_version": (1, 0)}):
        capsule = mblob.empty((2,), given).__dlpack__(**options)
        assert mblob.from_dlpack(capsule).dtype == SAME.get(given, given)


def test_arrays_of_numpy_and_ml_dtypes_are_taken_for_what_they_are(ffi: mblob.Module) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    arrays = [np.zeros(2, n) for n in CODES if hasattr(np, n) and n != "bool"] + [np.zeros(2, bool)]
    arrays += [
        mblob.array(np.zeros(2, getattr(ml_dtypes, n))) for n in CODES if n.startswith("float8_")
    ]
    assert len(arrays) == 22
    for array in arrays:
        for expected, code in CODES.items():
            assert accepted(ffi["takes"], array, code) is (expected == str(array.dtype)), (
                expected,
                array.dtype,
            )
        if isinstance(array, mblob.Tensor):
            assert str(array.numpy().dtype) == array.dtype


@pytest.mark.parametrize("name", CODES)
def test_a_python_function_sees_the_type_that_the_kernel_has_and_gives_it_back(
    ffi: mblob.Module, name: str
) -> None:
    seen = []

    def echo(tensor: mblob.Tensor) -> mblob.Tensor:
        seen.append(tensor.dtype)
        return mblob.empty(tensor.shape, tensor.dtype)

    ffi["sends"](echo, *CODES[name], 1)
    assert seen == [name]


@pytest.mark.parametrize("given", [*OF_TVM, *SAME])
def test_a_type_that_has_two_names_comes_back_as_the_one_that_the_kernel_knows(
    ffi: mblob.Module, given: str
) -> None:
    made = mblob.empty((2,), given)
    ffi["sends"](lambda _: made, *CODES[SAME[given]], 1)
    with pytest.raises(mblob.KernelError, match="another type"):
        ffi["sends"](lambda _: made, *(CODES["float8_e3m4"]), 1)


@pytest.mark.parametrize("to", ["ffi", "classic"])
def test_a_converted_library_takes_the_types_that_it_took(
    folder: Path, to: str, tmp_path: Path
) -> None:
    source, codes = ("classic.so", CODES_OF_CLASSIC) if to == "ffi" else ("ffi.so", CODES)
    mblob.convert(folder / source, tmp_path / "converted.so", dialect=to)
    lib = mblob.load_module(tmp_path / "converted.so")
    for given in (*CODES, *OF_TVM):
        for expected, code in codes.items():
            same = SAME.get(given, given) == SAME.get(expected, expected)
            if to == "ffi" and expected in ("float8_e4m3fn", "float8_e5m2"):
                same = False  # code of TVM 0.19 and before has no such numbers
            if to == "classic" and given in ("float8_e4m3fn", "float8_e5m2"):
                continue  # callers of that dialect have the other names
            assert accepted(lib["takes"], mblob.empty((2,), given), code) is same, (given, expected)


def test_a_converted_function_returns_its_own_tensor_or_refuses(
    folder: Path, tmp_path: Path
) -> None:
    """A translated copy of the tensor would end with the call."""
    mblob.convert(folder / "ffi.so", tmp_path / "converted.so", dialect="classic")
    lib = mblob.load_module(tmp_path / "converted.so")
    for name, code in CODES.items():
        if name in ("bool", "float8_e3m4", "float8_e4m3fn", "float8_e5m2"):
            with pytest.raises(
                mblob.KernelError,
                match=rf"lends: .* DLTensor \* with element type code {code[0]}, ",
            ):
                lib["lends"](*code)
        else:
            assert lib["lends"](*code).dtype == name


@pytest.mark.parametrize("dialect", ["classic", "ffi"])
def test_a_plain_c_function_takes_bools_for_bools_only(tmp_path: Path, dialect: str) -> None:
    text = "#include <stdbool.h>\nvoid invert(bool *a) { a[0] = !a[0]; }"
    mblob.csource_module(text, functions=["void invert(bool *a)"]).export_library(
        tmp_path / "b.so", dialect=dialect
    )
    lib = mblob.load_module(tmp_path / "b.so")
    for flag in (
        mblob.array(np.zeros(1, bool)),
        np.zeros(1, bool),
        mblob.array(np.zeros(1, "u1")).view("uint1"),
    ):
        lib["invert"](flag)
        assert np.asarray(flag).tolist() == [True]
    for name in CODES:
        if name not in ("bool", "uint1"):
            with pytest.raises((TypeError, mblob.KernelError), match=r"expected .*bool, found"):
                lib["invert"](mblob.empty((1,), name))


# -- strides ---------------------------------------------------------------------------------------


def placed(shape: tuple[int, ...], offset: int) -> np.ndarray[Any, Any]:
    """Floats counted from 0, the first one `offset` bytes behind a multiple of 64."""
    count = int(np.prod(shape))
    raw = np.zeros(4 * count + 128, "u1")
    start = -raw.ctypes.data % 64 + offset
    array = raw[start : start + 4 * count].view("f4").reshape(shape)
    array[...] = np.arange(count).reshape(shape)
    return array


VIEWS: dict[str, Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]] = {
    "columns": lambda a: a[:, ::2],
    "rows": lambda a: a[::2],
    "transposed": lambda a: a.T,
    "backwards": lambda a: a[::-1, ::-1],
    "corner": lambda a: a[1:, 1:3],
    "mixed": lambda a: a[::-1, 1::2].T,
}


@pytest.mark.parametrize("offset", range(64))
def test_a_strided_array_reaches_a_kernel_that_takes_strides_wherever_it_lies(
    ffi: mblob.Module, offset: int
) -> None:
    for view in VIEWS.values():
        a, expected = placed((4, 6), offset), placed((4, 6), 0)
        ffi["strided"](view(a))
        view(expected)[...] += 1
        np.testing.assert_array_equal(a, expected)
        bound = ffi["strided"].bind(view(a))
        bound(), bound()
        view(expected)[...] += 2
        np.testing.assert_array_equal(a, expected)


@pytest.mark.parametrize("offset", range(64))
def test_what_takes_no_strides_refuses_them_wherever_the_array_lies(
    ffi: mblob.Module, classic: mblob.Module, offset: int
) -> None:
    for view in VIEWS.values():
        a = view(placed((4, 6), offset))
        with pytest.raises(mblob.KernelError, match="Mismatched strides"):
            ffi["compact"](a)
        with pytest.raises(
            ValueError,
            match=r"argument 0: the array is not contiguous; pass numpy.ascontiguousarray",
        ):
            classic["compact"](a)
    for same in (
        placed((4, 6), offset),
        placed((4, 6), offset)[:1],
        placed((4, 6), offset)[:0, ::2],
    ):
        ffi["compact"](same) if len(same) else ffi["strided"](same)
        classic["compact"](same)


@pytest.mark.parametrize("offset", [0, 4, 60])
def test_two_interleaved_views_in_one_call_are_both_written(ffi: mblob.Module, offset: int) -> None:
    a, expected = placed((4, 6), offset), placed((4, 6), 0)
    expected[:, ::2] *= 10
    expected[:, 1::2] += expected[:, ::2]
    ffi["strided_two"](a[:, ::2], a[:, 1::2])
    np.testing.assert_array_equal(a, expected)
    expected[:, ::2] *= 10
    expected[:, 1::2] += expected[:, ::2]
    ffi["strided_two"].bind(a[:, ::2], a[:, 1::2])()
    np.testing.assert_array_equal(a, expected)


@pytest.mark.parametrize("offset", [0, 4, 60])
def test_one_strided_view_passed_twice_is_one_tensor(ffi: mblob.Module, offset: int) -> None:
    a, expected = placed((4, 6), offset), placed((4, 6), 0)
    view = a[:, ::2]
    ffi["strided_two"](view, view)
    expected[:, ::2] *= 20
    np.testing.assert_array_equal(a, expected)
    ffi["strided_two"].bind(view, view)()
    expected[:, ::2] *= 20
    np.testing.assert_array_equal(a, expected)


def test_broadcast_and_read_only_views_are_never_written(ffi: mblob.Module) -> None:
    for offset in (0, 4, 60):
        a = placed((1, 6), offset)
        wide = np.broadcast_to(a, (4, 6))
        # which is seen first, depends on numpy
        with pytest.raises(ValueError, match=r"read-only|not contiguous"):
            ffi["strided"](wide)
        np.testing.assert_array_equal(a, placed((1, 6), 0))


@pytest.mark.parametrize("offset", [0, 4])
def test_strides_that_dlpack_cannot_say_are_refused_by_name(ffi: mblob.Module, offset: int) -> None:
    fields = np.zeros(64 + 7 * 6, "u1")
    odd = np.ndarray(
        (4, 1), "f4", buffer=fields, offset=-fields.ctypes.data % 64 + offset, strides=(6, 4)
    )
    for given in (odd, odd[::-1]):
        with pytest.raises(ValueError, match="strided: argument 0: the array is not contiguous"):
            ffi["strided"](given)


def test_a_strided_tensor_of_dlpack_is_refused_with_the_remedy() -> None:
    with pytest.raises(
        ValueError, match=r"from_dlpack: the tensor is not contiguous; pass numpy.ascontiguousarray"
    ):
        mblob.from_dlpack(placed((4, 6), 0)[:, ::2])
    np.testing.assert_array_equal(mblob.array(placed((4, 6), 4).T).numpy(), placed((4, 6), 0).T)


NAMES = r"""
int main(void) {
  for (int code = 0; code < 256; code++)
    for (unsigned i = 0; i < 12; i++) {
      static const uint8_t widths[] = {0, 1, 4, 6, 8, 12, 16, 32, 64, 80, 128, 255};
      for (int lanes = 0; lanes < 3; lanes++) {
        const DLDataType type = {(uint8_t)code, widths[i], (uint16_t)(lanes * lanes)};
        char ours[40], runtime[32];
        mblob_dtype_name(type, ours, sizeof ours);
        printf("%d %d %d %s %s\n", type.code, type.bits, type.lanes, ours, mb_dtype_text(type, runtime));
      }
    }
  return 0;
}
"""


def test_an_element_type_has_one_name_in_c_in_python_and_in_packed_functions(
    tmp_path: Path, installed: Path
) -> None:
    text = (
        packed_forms([]) + "\nconst char *mb_dtype_text(DLDataType dtype, char text[32]);\n" + NAMES
    )
    (tmp_path / "names.c").write_text("#include <stdio.h>\n" + text)
    command = [
        "cc",
        "-w",
        *include_flags(),
        "-DMBLOB_KERNEL",
        "names.c",
        installed / "lib" / "libmblob.a",
    ]
    subprocess.run([*command, "-pthread", "-ldl", "-lm", "-o", "names"], cwd=tmp_path, check=True)
    said = subprocess.run([tmp_path / "names"], capture_output=True, text=True, check=True).stdout
    wrong = []
    for line in said.splitlines():
        *numbers, checks, runtime = line.split()
        name = str(DataType(*map(int, numbers)))
        if not checks == runtime == name:
            wrong.append((line, name))
    assert wrong == []


@pytest.mark.parametrize(
    "element", [(1, 1, 1), (1, 1, 4), (0, 8, 4), (10, 8, 1), (128, 8, 2), (2, 32, 1)]
)
def test_a_tensor_tells_its_element_type_as_python_names_it(element: tuple[int, int, int]) -> None:
    dtype = DataType(*element)
    assert str(mblob.empty((2,), str(dtype)).dtype) == str(dtype)
    assert DataType.parse(str(dtype)) == dtype


@pytest.mark.parametrize("dialect", ["classic", "ffi"])
def test_c_and_python_name_the_element_type_of_a_wrong_array_alike(
    tmp_path: Path, installed: Path, dialect: str
) -> None:
    source = mblob.csource_module("void f(float *x) {}", functions=["void f(float x[3])"])
    source.export_library(tmp_path / "f.so", dialect=dialect)
    (tmp_path / "host.c").write_text(
        "#include <mblob.h>\n#include <stdio.h>\nint main(void) { char x[3] = {0}; mblob_module *m;\n"
        'return mblob_open("f.so", NULL, &m) || mblob_call(m, "f", "float8_e3m4[3]", x) '
        "? puts(mblob_last_error()), 0 : 1; }"
    )
    command = [
        "cc",
        "-w",
        f"-I{installed / 'include'}",
        "host.c",
        installed / "lib" / "libmblob.so",
        "-o",
        "host",
    ]
    subprocess.run(command, cwd=tmp_path, check=True)
    env = {**os.environ, "LD_LIBRARY_PATH": str(installed / "lib")}
    said = subprocess.run(
        ["./host"], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    ).stdout
    assert "found float8_e3m4" in said
    with pytest.raises(TypeError, match="found float8_e3m4"):
        mblob.load_module(tmp_path / "f.so")["f"](mblob.empty((3,), "float8_e3m4"))
