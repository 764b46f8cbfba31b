"""Element types as DLPack and TVM write them: {code, bits, lanes}."""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Any

from mblob.arguments import no_numbers, wrong_type
from mblob.errors import ArgumentValueError, did_you_mean
from mblob.named_tuple import NamedTuple

# DLDataTypeCode of dlpack.h; custom types start at 129.
INT, UINT, FLOAT, HANDLE, BFLOAT, COMPLEX = range(6)
NAMES = {
    INT: "int",
    UINT: "uint",
    FLOAT: "float",
    HANDLE: "handle",
    BFLOAT: "bfloat",
    COMPLEX: "complex",
}
WIDTHS = (1, 2, 4, 8, 16, 32, 64, 128)  # bits of one element

# TVM's 6 and 7. Those of DLPack, which libraries of the ffi dialect write, are bool (uint1 here) and float8_e3m4,
# which has a code of its own here and in the runtime (MBLOB_FLOAT8_E3M4 of mblob/plugin.h).
E4M3_FLOAT8, E5M2_FLOAT8 = 6, 7
DLPACK_BOOL, DLPACK_FLOAT8_E3M4 = 6, 7
FLOAT8_E3M4 = 128

# Small floats, whose names say their bits: code and bits. Those of TVM, and DLPack's from 8 on.
SMALL_FLOATS = {
    "e4m3_float8": (E4M3_FLOAT8, 8), "e5m2_float8": (E5M2_FLOAT8, 8),
    "float8_e4m3": (8, 8), "float8_e4m3b11fnuz": (9, 8),
    "float8_e4m3fn": (10, 8), "float8_e4m3fnuz": (11, 8), "float8_e5m2": (12, 8), "float8_e5m2fnuz": (13, 8),
    "float8_e8m0fnu": (14, 8), "float6_e2m3fn": (15, 6), "float6_e3m2fn": (16, 6), "float4_e2m1fn": (17, 4),
    "float8_e3m4": (FLOAT8_E3M4, 8),
}  # fmt: skip
OF_DLPACK = {"bool": (DLPACK_BOOL, 8), "float8_e3m4": (DLPACK_FLOAT8_E3M4, 8)}
# Every dtype of safetensors, by its name there.
OF_SAFETENSORS = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32",
    "I32": "int32", "U64": "uint64", "I64": "int64", "F16": "float16", "BF16": "bfloat16", "F32": "float32",
    "F64": "float64", "C64": "complex64", "F8_E4M3": "float8_e4m3fn", "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2": "float8_e5m2", "F8_E5M2FNUZ": "float8_e5m2fnuz", "F8_E8M0": "float8_e8m0fnu",
    "F6_E2M3": "float6_e2m3fn", "F6_E3M2": "float6_e3m2fn", "F4": "float4_e2m1fn",
}  # fmt: skip
LAST_CODE = max(code for code, _ in SMALL_FLOATS.values() if code != FLOAT8_E3M4)

# Elements by their text without lanes: code and bits.
_ELEMENTS = {
    f"{name}{bits}": (code, bits)
    for code, name in NAMES.items()
    if name != "handle"
    for bits in WIDTHS
}
_ELEMENTS |= SMALL_FLOATS
# What a misspelt one is held against: those that people write.
_COMMON = (
    "bool", "handle", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    "float16", "float32", "float64", "bfloat16", *SMALL_FLOATS,
)  # fmt: skip
_TEXTS = {element: text for text, element in _ELEMENTS.items()}

# Bits that elements of a code have: of those that are no integers.
_BITS_OF = {FLOAT: (8, 16, 32, 64, 128), HANDLE: (64,), BFLOAT: (16,), COMPLEX: (32, 64, 128)}
_BITS_OF |= {code: (bits,) for code, bits in SMALL_FLOATS.values()}

# struct format characters with standard sizes -> code
_FORMAT_CODES = {
    **dict.fromkeys("bhilqn", INT),
    **dict.fromkeys("BHILQNc", UINT),
    **dict.fromkeys("efd", FLOAT),
}


class DataType(NamedTuple):
    """One element type; `lanes` > 1 for vectors."""

    code: int
    bits: int
    lanes: int = 1

    @classmethod
    def parse(cls, text: str) -> DataType:
        """From TVM's text: "float32", "int8x4", "bool", "handle", "bfloat16", "float8_e4m3fn".

        Raises:
            ValueError: no such type.
        """
        if text == "bool":
            return cls(UINT, 1)
        if text == "handle":
            return cls(HANDLE, 64)
        if text == "void":
            return cls(HANDLE, 0)
        name, lanes = text, "1"
        if name not in _ELEMENTS:
            name, _, lanes = text.rpartition("x")
        if (
            name not in _ELEMENTS
            or not re.fullmatch("[0-9]{1,5}", lanes)
            or not 0 < int(lanes) < 65536
        ):
            raise ArgumentValueError(
                f"{text[:60]!r} is not a data type; expected one like float32, int8, uint8x4, bool"
                f"{did_you_mean(name or text, _COMMON)}"
            )
        return cls(*_ELEMENTS[name], int(lanes))

    @classmethod
    def from_bytes(cls, raw: Any) -> DataType:
        """From the 4 bytes of a DLDataType."""
        return cls(raw[0], raw[1], raw[2] | raw[3] << 8)

    def of_ffi(self) -> DataType:
        """The type for numbers that a library of the ffi dialect stores: bool and float8_e3m4 have
        other codes there."""
        if self.code == DLPACK_BOOL and self.bits == 8:
            return DataType(UINT, 1, self.lanes)
        is_e3m4 = self.code == DLPACK_FLOAT8_E3M4 and self.bits == 8
        return DataType(FLOAT8_E3M4, 8, self.lanes) if is_e3m4 else self

    @classmethod
    def from_format(cls, fmt: str, itemsize: int) -> DataType:
        """From a buffer-protocol format in native byte order.

        Raises:
            TypeError: structured, big endian, or otherwise no plain number.
        """
        core = fmt[1:] if fmt[:1] in "@=<" else fmt
        if core == "?":
            return cls(UINT, 1)
        if core in ("Zf", "Zd"):
            return cls(COMPLEX, itemsize * 8)
        if core not in _FORMAT_CODES:
            raise no_numbers(None, fmt)
        return cls(_FORMAT_CODES[core], itemsize * 8)

    @property
    def is_possible(self) -> bool:
        """True if there can be elements of this type. `mb_dtype_check` of csrc says the same."""
        if self.code in (INT, UINT):
            widths: Container[int] = (*range(1, 65), 128)
        elif self.code > FLOAT8_E3M4:
            widths = range(1, 256)  # users' types
        else:
            widths = _BITS_OF.get(self.code, ())
        return self.bits in widths and 0 < self.lanes < 65536

    @property
    def itemsize(self) -> int:
        """Bytes of one element, all lanes together."""
        return (self.bits * self.lanes + 7) // 8

    def to_bytes(self) -> bytes:
        return bytes((self.code, self.bits)) + self.lanes.to_bytes(2, "little")

    def __str__(self) -> str:
        if self == (UINT, 1, 1):
            return "bool"
        if self.code == HANDLE and (self.lanes == 1 or not self.bits):
            return "handle" if self.bits else "void"
        text = (
            _TEXTS.get((self.code, self.bits))
            or f"{NAMES.get(self.code, f'custom[{self.code}]')}{self.bits}"
        )
        return text + (f"x{self.lanes}" if self.lanes != 1 else "")


def type_text(function: str, argument: str, dtype: Any) -> str:
    """A data type given as text, or by something that has a name, such as numpy's, as text.

    Raises:
        TypeError: it is something else.
    """
    named = getattr(dtype, "name", None) or getattr(dtype, "__name__", None)
    text = dtype if isinstance(dtype, str) else named
    if not isinstance(text, str):
        raise wrong_type(function, argument, "str or a dtype of numpy", dtype)
    return text


class TypeName(str):
    """An element type as text, such as "float32" or "int8x4", that has its parts, too: what tvm_ffi
    calls a dtype. numpy takes it as a dtype.

    Attributes:
        type_code, bits, lanes: DLPack's numbers. bool has the code 6 and 8 bits.

    Raises:
        TypeError: it is neither text nor a dtype of numpy.
        ValueError: no such type.
    """

    __slots__ = ("bits", "lanes", "type_code")
    type_code: int
    bits: int
    lanes: int

    def __new__(cls, content: Any) -> TypeName:
        text = type_text("dtype", "content", content)
        made = super().__new__(cls, text)
        is_vector = text.startswith("boolx")
        kind = DataType.parse(text.replace("bool", "uint1") if is_vector else text)
        is_bool = kind[:2] == (UINT, 1)
        made.type_code, made.bits = (
            OF_DLPACK["bool"]
            if is_bool
            else OF_DLPACK["float8_e3m4"]
            if kind.code == FLOAT8_E3M4
            else kind[:2]
        )
        made.lanes = kind.lanes
        return made

    @classmethod
    def from_dlpack_data_type(cls, dltype_tuple: tuple[int, int, int]) -> TypeName:
        """The type that DLPack's numbers say: (code, bits, lanes)."""
        kind = DataType(*dltype_tuple).of_ffi()
        element = str(DataType(kind.code, kind.bits))
        return cls(element if kind.lanes == 1 else f"{element}x{kind.lanes}")

    @property
    def itemsize(self) -> int:
        """Bytes of one element, all lanes together."""
        return (self.bits * self.lanes + 7) // 8

    def with_lanes(self, lanes: int) -> TypeName:
        """The vector type of so many of these elements."""
        return self.from_dlpack_data_type((self.type_code, self.bits, lanes))

    def __dlpack_data_type__(self) -> tuple[int, int, int]:
        return self.type_code, self.bits, self.lanes

    def __reduce__(self) -> tuple[Any, ...]:
        return TypeName, (str(self),)

    def __repr__(self) -> str:
        return f"dtype({str(self)!r})"
