"""The names of vector types, and whether a source has one. Importing this is quick: most sources have
none."""

from __future__ import annotations

import re

# Lane types under the names that TVM's C generator prints (codegen_c_host.cc), with kind and bits.
SCALARS = {
    "half": ("float", 16), "float": ("float", 32), "double": ("float", 64),
    "int8_t": ("int", 8), "int16_t": ("int", 16), "int32_t": ("int", 32), "int64_t": ("int", 64),
    "uint8_t": ("uint", 8), "uint16_t": ("uint", 16), "uint32_t": ("uint", 32), "uint64_t": ("uint", 64),
}  # fmt: skip
# Older generators and OpenCL spell integer lanes without width.
ALIASES = {
    "int": "int32_t", "uint": "uint32_t", "char": "int8_t", "uchar": "uint8_t",
    "short": "int16_t", "ushort": "uint16_t", "long": "int64_t", "ulong": "uint64_t",
}  # fmt: skip

NAME = re.compile(rf"({'|'.join([*SCALARS, *ALIASES])})([2-9]|1[0-6])")
WORD = re.compile(rf"\b{NAME.pattern}\b")

_MAYBE = re.compile(r"[a-z](?:[2-9]|1[0-6])\b|\bhalf\b")  # each name of a vector ends like this
_HALF = re.compile(r"\bhalf\b")


def may_name_vectors(source: str) -> bool:
    """True if a source has a word that may name a vector type, or `half`: in its code, a comment or
    a text."""
    return _MAYBE.search(source) is not None and names_vectors(source)


def names_vectors(text: str) -> bool:
    """The same of a short text."""
    return WORD.search(text) is not None or _HALF.search(text) is not None
