"""Text of a payload: what `Module.get_source` and `EntryView.source` give, and what people are
shown."""

from __future__ import annotations

import codecs
import re
from typing import Any

from mblob.errors import FormatError
from mblob.format.grammar import GRAMMARS, Grammars, decode_payload

# Formats of device code that are text, by the names that payloads carry.
TEXT_FORMATS = frozenset(
    {
        "cu",
        "cuda",
        "ptx",
        "cl",
        "hip",
        "metal",
        "wgsl",
        "glsl",
        "gl",
        "ll",
        "s",
        "asm",
        "c",
        "cc",
        "cpp",
    }
)
_SHOWN_FIELDS = ("code", "source", "data")
_UNPRINTED = "[\0-\x08\x0b\x0e-\x1f\x7f]"  # in no text
_TEXT_FIELDS = ("graph_json", "nodes_json", "code", "source", "data")


def source_of(key: str, payload: memoryview, fmt: str, grammars: Grammars = GRAMMARS) -> str | None:
    """Text of a payload of type `key`, None if it has none in that format.

    Args:
        fmt: "" for whatever there is, "json" for graphs, or a device format such as "ptx" or "cl".
        grammars: those of the dialect.
    """
    try:
        fields = decode_payload(key, payload, grammars)
    except FormatError:
        return None
    stored = _text(fields.get("fmt", b"")) or ""
    for name in _TEXT_FIELDS:
        if name not in fields or isinstance(fields[name], (list, dict)):
            continue
        is_json = name.endswith("json")
        wanted = fmt in ("", "json") if is_json else fmt in ("", stored)
        if wanted and (is_json or not stored or stored in TEXT_FORMATS):
            text = _text(fields[name])
            # which align the parameters behind it
            return text.rstrip(" ") if text and name == "graph_json" else text
    sources = fields.get("sources")
    if isinstance(sources, dict):  # one text for each kernel
        texts = [_text(value) for value in sources.values()]
        return None if None in texts else "\n".join(t for t in texts if t)
    return None


def text_beginning(
    key: str, payload: memoryview, limit: int, grammars: Grammars = GRAMMARS
) -> tuple[str, int] | None:
    """The text that people read in a payload: of a key without a grammar the payload, else device
    code. Graphs are shown as such.

    Returns:
        The text of at most `limit` bytes, and how many bytes more there are. None: it is no text.
    """
    raw: Any = payload
    if key in grammars:
        try:
            fields = decode_payload(key, payload, grammars)
        except FormatError:
            return None
        stored = _text(fields.get("fmt", b"")) or ""
        raw = next((fields[n] for n in _SHOWN_FIELDS if isinstance(fields.get(n), memoryview)), b"")
        if stored and stored not in TEXT_FORMATS:
            return None
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        text = decoder.decode(bytes(raw[:limit]), final=len(raw) <= limit)
    except UnicodeDecodeError:
        return None
    if not text or re.search(_UNPRINTED, text):
        return None
    return text, len(raw) - min(limit, len(raw)) + len(decoder.getstate()[0])


def _text(raw: Any) -> str | None:
    data = bytes(raw)
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
