"""The blob as C text, `devc.c`: for compilers whose object format we do not write. TVM 0.14's
layout, byte for byte.

Five source bytes per blob byte, and compilers need gigabytes for a few MiB of it: the last resort.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mblob.bytes.sink import BytesSink
from mblob.format.classic import SYMBOL
from mblob.packager.errors import BuildError

BYTES_PER_LINE = 20
# bytes of blob; above it gcc needs more than 9 GB of memory (measured), and clang fails
LIMIT = 64 << 20

_HEAD = """#ifdef _WIN32
#define TVM_EXPORT __declspec(dllexport)
#else
#define TVM_EXPORT
#endif
#ifdef __cplusplus
extern "C" {
#endif
"""
_TAIL = """#ifdef __cplusplus
}
#endif
"""


class _HexSink(BytesSink):
    """Turns a blob into lines of hexadecimal numbers. The 8 bytes of the length prefix are patched
    at the end, so the text is made of bytes that are kept until then."""

    def write(self, data: memoryview | bytes, /) -> None:
        if len(self.data) + len(data) > LIMIT:
            raise BuildError(
                f"embed='c': the packed modules have more than {LIMIT >> 20} MiB; C compilers cannot take that as text,"
                " use embed='grow' or embed='object'"
            )
        super().write(data)


def to_c(blob: bytes, symbol: str = SYMBOL, *, system_lib: bool = False) -> str:
    """C source that defines `symbol` as the bytes of `blob` (its length prefix included).

    Args:
        system_lib: register the symbol with the process at start-up, as TVM does for statically
            linked libraries; such text is C++ only.
    """
    out = [_HEAD, f"TVM_EXPORT extern const unsigned char {symbol}[];\n"]
    out.append(f"const unsigned char {symbol}[{len(blob)}] = {{")
    for at in range(0, len(blob), BYTES_PER_LINE):
        out.append("\n  " + "".join(f"0x{byte:02x}," for byte in blob[at : at + BYTES_PER_LINE]))
    out.append("\n};\n")
    if system_lib:
        out.append("extern int TVMBackendRegisterSystemLibSymbol(const char*, void*);\n")
        out.append(
            f'static int {symbol}_reg_ = TVMBackendRegisterSystemLibSymbol("{symbol}", (void*){symbol});\n'
        )
    return "".join([*out, _TAIL])


def write_c(
    path: Path, symbol: str, write_blob: Callable[[_HexSink], int], *, system_lib: bool = False
) -> int:
    """Write `devc.c` and return the blob's size.

    Raises:
        BuildError: the blob is too large for any C compiler.
    """
    sink = _HexSink()
    size = write_blob(sink)
    path.write_text(to_c(bytes(sink.data), symbol, system_lib=system_lib))
    return size
