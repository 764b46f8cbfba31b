"""Element types as DLPack and TVM write them: {code, bits, lanes}."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

# DLDataTypeCode of dlpack.h; 6 and 7 are TVM's (v0.14), custom types start at 129.
NAMES = {0: "int", 1: "uint", 2: "float", 3: "handle", 4: "bfloat", 5: "complex", 6: "e4m3_float", 7: "e5m2_float"}
WIDTHS = (1, 2, 4, 8, 16, 32, 64, 128)  # bits of one element
CODES = {name: code for code, name in NAMES.items()}

# struct format characters with standard sizes -> code
_FORMAT_CODES = {**dict.fromkeys("bhilqn", 0), **dict.fromkeys("BHILQNc", 1), **dict.fromkeys("efd", 2)}


@dataclass(frozen=True)
class DataType:
    """One element type; `lanes` > 1 for vectors."""

    code: int
    bits: int
    lanes: int = 1

    @classmethod
    def parse(cls, text: str) -> DataType:
        """From TVM's text: "float32", "int8x4", "bool", "handle", "bfloat16".

        Raises:
            ValueError: no such type.
        """
        if text == "bool":
            return cls(1, 1)
        if text == "handle":
            return cls(3, 64)
        match = re.fullmatch(r"(int|uint|float|bfloat|complex|e4m3_float|e5m2_float)(\d{1,3})(?:x(\d{1,5}))?", text)
        if not match or int(match[2]) not in WIDTHS or not 0 < int(match[3] or 1) < 65536:
            raise ValueError(f"{text!r} is not a data type; expected one like float32, int8, uint8x4, bool")
        return cls(CODES[match[1]], int(match[2]), int(match[3] or 1))

    @classmethod
    def from_bytes(cls, raw: Any) -> DataType:
        """From the 4 bytes of a DLDataType."""
        return cls(raw[0], raw[1], raw[2] | raw[3] << 8)

    @classmethod
    def from_format(cls, fmt: str, itemsize: int) -> DataType:
        """From a buffer-protocol format in native byte order.

        Raises:
            TypeError: structured, big endian, or otherwise no plain number.
        """
        core = fmt[1:] if fmt[:1] in "@=<" else fmt
        if core == "?":
            return cls(1, 1)
        if core in ("Zf", "Zd"):
            return cls(5, itemsize * 8)
        if core not in _FORMAT_CODES:
            raise TypeError(f"elements of format {fmt!r} are no little-endian numbers")
        return cls(_FORMAT_CODES[core], itemsize * 8)

    def to_bytes(self) -> bytes:
        return bytes((self.code, self.bits)) + self.lanes.to_bytes(2, "little")

    def __str__(self) -> str:
        if (self.code, self.bits, self.lanes) == (1, 1, 1):
            return "bool"
        if (self.code, self.lanes) == (3, 1):
            return "handle"
        name = NAMES.get(self.code, f"custom[{self.code}]")
        return f"{name}{self.bits}" + (f"x{self.lanes}" if self.lanes != 1 else "")
