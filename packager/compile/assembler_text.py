"""Whether the assembler may read files for a text of C: `.incbin` and its like, in whatever string they hide.

Not only `asm` statements reach the assembler as they are: names of sections, of symbols, of aliases do too. And a
directive can be put together: of string literals side by side, of escapes, by macros of the assembler, by operands
and alternatives of a template. So all string literals are looked at as the compiler reads them, and templates in
which something is glued to a directive or an operand are taken for the worst.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_READS = re.compile(rb"incbin|\.(?:include|macro|irp|mri)", re.IGNORECASE)
_ASM = re.compile(rb"\b(?:__asm__|__asm|asm)\b")
# Numbers with separators and character constants are there so that their quotes begin nothing. All alternatives begin
# with a character of their own, which is what makes the search fast.
_TOKEN = re.compile(
    rb"\d[\w.]*(?:'\w+)+|'(?:[^'\\\n]|\\.)+'"
    rb'|R(?:(?<!\wR)|(?<=\b[LuU]R)|(?<=\bu8R))"(?P<mark>[^()\\\s"]{0,16})\((?P<raw>.*?)\)(?P=mark)"'
    rb'|"(?P<plain>(?:[^"\\\n]|\\.)*)"',
    re.DOTALL,
)
_PREFIXES = (b"", b"L", b"u", b"U", b"u8")  # of literals
_TEMPLATE = re.compile(rb'[\sa-z_]*\(\s*((?:"(?:[^"\\\n]|\\.)*"\s*)+)[:)]')
_QUOTED = re.compile(rb"%[%{|}]")  # what a template writes for a character that it would read itself
_GLUED = re.compile(
    rb"(?:\.[A-Za-z_]*"  # a directive whose end an operand, an alternative or a macro's argument may be
    rb"|%[A-Za-z]*(?:\d+|\[\w+\]))"  # an operand, which may be a symbol of any name, with more behind it
    rb"(?:%(?!=)|[{|\\]|(?<=[\d\]])[A-Za-z_]|\}+[\w%{])"
)
_ESCAPE = re.compile(rb"\\(?:x([0-9A-Fa-f]+)|([0-7]{1,3})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_NAMED_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"v": b"\v", b"f": b"\f", b"a": b"\a", b"b": b"\b"}


def may_read_files(text: bytes) -> bool:
    """Whether the assembler may read a file for what is compiled.

    Args:
        text: preprocessed, without line markers.
    """
    if _READS.search(text) or _READS.search(b"\n".join(_strings(text))):
        return True
    for found in _ASM.finditer(text):
        template = _TEMPLATE.match(text, found.end())
        if template is None or _GLUED.search(_QUOTED.sub(b" ", _joined(template[1]))):
            return True
    return False


def _joined(literals: bytes) -> bytes:
    return b"".join(_strings(literals))


def _strings(text: bytes) -> Iterator[bytes]:
    """The strings of a text: literals side by side are one, escapes are what they stand for."""
    parts: list[bytes] = []
    end = -1
    for token in _TOKEN.finditer(text):
        raw, plain = token["raw"], token["plain"]
        if raw is None and plain is None:
            continue
        if parts and text[end : token.start()].strip() not in _PREFIXES:
            yield b"".join(parts)
            parts = []
        parts.append(raw if plain is None else _ESCAPE.sub(_meaning, plain) if b"\\" in plain else plain)
        end = token.end()
    if parts:
        yield b"".join(parts)


def _meaning(escape: re.Match[bytes]) -> bytes:
    x, octal, *universal, name = escape.groups()
    if x or octal:
        return bytes([int(x or octal, 16 if x else 8) & 0xFF])
    code = next(filter(None, universal), None)
    if code:
        return chr(min(int(code, 16), 0x10FFFF)).encode(errors="surrogatepass")
    return _NAMED_ESCAPES.get(name, name)
