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

NAME = rf"({'|'.join([*SCALARS, *ALIASES])})([2-9]|1[0-6])"
WORD = rf"\b{NAME}\b"

_HALF = r"\bhalf\b"


def names_vectors(text: str) -> bool:
    """True if a text has a word that may name a vector type, or `half`."""
    return re.search(WORD, text) is not None or re.search(_HALF, text) is not None
