"""Text of a payload: what `Module.get_source` and `EntryView.source` give."""

from __future__ import annotations

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


def _text(raw: Any) -> str | None:
    data = bytes(raw)
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
