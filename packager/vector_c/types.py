"""The types that matter to the rewriter: OpenCL-like vectors, their lanes, pointers to both."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

# Lane types under the names that TVM's C generator prints (codegen_c_host.cc), with kind and bits.
SCALARS = {
    "half": ("float", 16), "float": ("float", 32), "double": ("float", 64),
    "int8_t": ("int", 8), "int16_t": ("int", 16), "int32_t": ("int", 32), "int64_t": ("int", 64),
    "uint8_t": ("uint", 8), "uint16_t": ("uint", 16), "uint32_t": ("uint", 32), "uint64_t": ("uint", 64),
}  # fmt: skip
# Older generators and OpenCL spell integer lanes without width.
_ALIASES = {
    "int": "int32_t", "uint": "uint32_t", "char": "int8_t", "uchar": "uint8_t",
    "short": "int16_t", "ushort": "uint16_t", "long": "int64_t", "ulong": "uint64_t",
}  # fmt: skip

_NAME = re.compile(rf"({'|'.join([*SCALARS, *_ALIASES])})([2-9]|1[0-6])")
WORD = re.compile(rf"\b{_NAME.pattern}\b")


@dataclass(frozen=True)
class Type:
    """A type as far as rewriting needs it.

    Attributes:
        scalar: the lane type, a key of SCALARS.
        lanes: 1 for a scalar.
        pointers: how often it can be dereferenced; dimensions of arrays count.
        mask: what a comparison gives: lanes of -1 and 0. Lanes are signed integers as wide as what was compared.
    """

    scalar: str
    lanes: int = 1
    pointers: int = 0
    mask: bool = False

    @property
    def is_vector(self) -> bool:
        return self.lanes > 1 and not self.pointers

    @property
    def name(self) -> str:
        """The C name of the vector in the text that we add."""
        return f"mblob_{self.scalar}{self.lanes}"

    @property
    def lane(self) -> Type:
        return Type(self.scalar)

    @property
    def kind(self) -> str:
        return SCALARS[self.scalar][0]

    @property
    def bits(self) -> int:
        return SCALARS[self.scalar][1]

    def pointer(self, depth: int = 1) -> Type:
        """The type of a pointer to it; a negative `depth` dereferences."""
        return replace(self, pointers=self.pointers + depth)

    def as_mask(self) -> Type:
        """What a comparison of such vectors gives."""
        return Type(f"int{self.bits}_t", self.lanes, mask=True)

    def plain(self) -> Type:
        """The same lanes as a vector of integers."""
        return replace(self, mask=False)

    def __str__(self) -> str:
        return f"{self.scalar}{self.lanes if self.lanes > 1 else ''}{'*' * self.pointers}"


def vector_named(name: str) -> Type | None:
    """The vector that a name means, None if it means none: "float4", "int32_t8", "int16" (16 lanes of 32 bits)."""
    found = _NAME.fullmatch(name)
    return Type(_ALIASES.get(found[1], found[1]), int(found[2])) if found else None


def common(a: Type, b: Type) -> Type:
    """The type in which two vectors of one width meet, by the ranks of C: floats, then width, then unsigned."""

    def rank(t: Type) -> tuple[bool, int, bool]:
        return t.kind == "float", t.bits, t.kind == "uint"

    if a.mask != b.mask:
        return b if a.mask else a
    return a if rank(a) >= rank(b) else b
