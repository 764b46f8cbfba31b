"""Vectors in macros and own headers of a source that is rewritten without its preprocessor having
run."""

from __future__ import annotations

import re
from pathlib import Path

from mblob.packager.compile.vector_c.mentions import mentions
from mblob.packager.compile.vector_c.own_names import own_names
from mblob.packager.compile.vector_c.tokens import place, tokenize
from mblob.packager.compile.vector_c.types import WORD

_DEFINE = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:[^\n\\]|\\.|\\\n)*)", re.MULTILINE | re.DOTALL
)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
_COMMENT = re.compile(r"/\*.*?(?:\*/|$)|//.*", re.DOTALL)
_LARGEST = 16 << 20  # bytes of a header


def hidden_vectors(source: str, file: str, folder: Path | None) -> str | None:
    """What hides vector types from the rewriter, with its line; None if nothing does.

    Args:
        folder: where the source lies, None if it is a text.
    """
    tokens, tail = tokenize(source)
    spaces = [(t.start - len(t.space), t.space) for t in tokens]
    spaces.append((len(source) - len(tail), tail))
    own = own_names(source, tokens)
    for start, space in spaces:
        if "#" not in space:
            continue
        for found in _DEFINE.finditer(space):
            for word in WORD.finditer(_COMMENT.sub(" ", found[2])):
                if word[0] not in own and found[1] not in own:
                    return f"{place(source, start + found.start(1), file)}: macro {found[1]} uses {word[0]}"
        for found in _INCLUDE.finditer(space):
            if folder is not None and _uses_vectors(folder / found[1]):
                return f'{place(source, start + found.start(1), file)}: header "{found[1]}" uses vector types'
    return None


def _uses_vectors(header: Path) -> bool:
    try:
        if header.stat().st_size > _LARGEST:
            return False
        text = header.read_text("utf-8", "surrogateescape")
    except OSError:
        return False  # a header elsewhere, or none: the compiler's to find
    if not mentions(text):
        return False
    tokens, _ = tokenize(text)
    own = own_names(text, tokens)
    in_code = any(t.kind == "name" and t.text not in own and WORD.fullmatch(t.text) for t in tokens)
    return in_code or hidden_vectors(text, header.name, None) is not None
