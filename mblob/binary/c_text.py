"""C text of TVM: host functions, as `target="c"` writes them, and blobs, as it writes them where it
has no LLVM. Its `.tar` files hold them like this."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mblob.binary.elf_records import SHN_ABS, SHN_UNDEF, Symbol, global_symbol
from mblob.binary.image import OneImage
from mblob.errors import FormatError

_HEAD = 1 << 16  # bytes in which the definition of a blob must begin
_LIMIT = 512 << 20  # bytes of text: compilers take less
_SYMBOLS = rb"__tvm_dev_mblob|__tvm_ffi__library_bin|__tvm_ffi_library_bin"
_DEFINITION = re.compile(
    rb"\bunsigned\s+char\s+(\w{0,4096}(?:" + _SYMBOLS + rb"))\s*\[\s*(\d{1,18})\s*\]\s*=\s*\{"
)
_PAIRS = re.compile(rb"(?:[ \t\r\n]*0x[0-9a-fA-F]{2}[ \t\r\n]*,)*\s*(?:0x[0-9a-fA-F]{2})?\s*")
_NUMBER = re.compile(rb"\s*(0[xX][0-9a-fA-F]{1,2}|0|[1-9][0-9]{0,2})\s*")
_SPACE = b" \t\r\n,"

_TARGET = b"// tvm target: "  # how TVM begins what it writes
_FUNCTION = re.compile(rb"^TVM_DLL\s+int32_t\s+(\w{1,4096})\s*\(", re.MULTILINE)
_CONTEXTS = rb"__tvm_ffi__?library_ctx|__tvm_module_ctx"
_CONTEXT = re.compile(rb"^void\s*\*\s*(\w{0,4096}(?:" + _CONTEXTS + rb"))\s*(?:=|;)", re.MULTILINE)
_CALL = re.compile(rb"\b(TVM(?:FFI|Backend|Func|API)\w{1,200})\s*\(")


def is_c(data: memoryview) -> bool:
    """True if a file is C text that TVM wrote, or that defines a blob near its start."""
    head = bytes(data[:_HEAD])
    return b"\0" not in head and (head.startswith(_TARGET) or _DEFINITION.search(head) is not None)


class CText(OneImage):
    """C text with functions, or with a blob; an `mblob.binary.image.Image` for any machine.

    Offsets of a blob count in the bytes that the text stands for, not in the text.

    Raises:
        FormatError: "c_text": a blob has another number of bytes than it says, or something else
            among them.
    """

    format, kind, machine, endian, bits, byte_order = "c", "source", "any", "little", 64, "<"
    needed: Sequence[str] = ()

    def __init__(self, data: memoryview, name: str) -> None:
        self.name = name
        if len(data) > _LIMIT:
            raise FormatError.about(
                name, f"{len(data)} bytes of C text, {_LIMIT} are the limit", code="c_text"
            )
        self._blob = b""
        self.imports: Sequence[Symbol] = ()
        found = _DEFINITION.search(bytes(data[:_HEAD]))
        if found is not None:
            self.exports = [_symbol(found[1])]
            self._blob = self._read(
                found[1].decode(), int(found[2]), bytes(data[found.end() :]), found.end()
            )
            return
        functions = dict.fromkeys(m[1] for m in _FUNCTION.finditer(data))
        self.exports = [_symbol(n, function=True) for n in functions]
        self.exports += [_symbol(n) for n in dict.fromkeys(m[1] for m in _CONTEXT.finditer(data))]
        called = dict.fromkeys(m[1] for m in _CALL.finditer(data) if m[1] not in functions)
        self.imports = [_symbol(n, defined=False, function=True) for n in called]

    def _read(self, symbol: str, size: int, text: bytes, at: int) -> bytes:
        end = text.find(b"}")
        if end < 0:
            raise FormatError.about(
                self.name, f"the bytes of {symbol} do not end", code="c_text", offset=at
            )
        found = _decode(text[:end], self.name, at)
        if len(found) != size:
            raise FormatError.about(
                self.name, f"{symbol} has {len(found)} bytes, it says {size}", code="c_text"
            )
        return found

    def find(self, name: str) -> Symbol | None:
        return next((s for s in self.exports if s.name == name), None)

    def bytes_of(self, symbol: Symbol) -> tuple[int, memoryview]:
        return 0, memoryview(self._blob)

    def notes(self) -> Iterator[tuple[bytes, int, bytes, int]]:
        return iter(())


def _symbol(name: bytes, *, defined: bool = True, function: bool = False) -> Symbol:
    section = SHN_ABS if defined else SHN_UNDEF
    return global_symbol(name.decode("utf-8", "backslashreplace"), 0, section, function=function)


def _decode(text: bytes, name: str, at: int) -> bytes:
    """The bytes of "0x00,0x1,2, ..."; two digits each, as TVM from 0.14 on writes them, are decoded
    at once."""
    if _PAIRS.fullmatch(text):
        return bytes.fromhex(text.translate(None, _SPACE).replace(b"0x", b"").decode("ascii"))
    out = bytearray()
    numbers = text.split(b",")
    if not numbers[-1].strip():
        numbers.pop()
    for number in numbers:
        found = _NUMBER.fullmatch(number)
        value = int(found[1], 16 if found[1][1:2] in (b"x", b"X") else 10) if found else 256
        if value > 255:
            shown = number.strip()[:40].decode("utf-8", "backslashreplace")
            raise FormatError.about(
                name, f"{shown!r} among the bytes of a blob", code="c_text", offset=at
            )
        out.append(value)
    return bytes(out)
