"""The fields of a struct as debug information tells them: `mblob.format.struct_layouts` reads the text."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

from mblob.binary.dwarf_types import (
    COMPLEX,
    ENCODINGS,
    POINTERS,
    RECORDS,
    children,
    constant_of,
    extents,
    name_of,
    referred,
    unnamed,
)

_FIELDS = 64  # a struct with more gets no layout
_known: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def layout_of(record: Any, pointer_size: int) -> str:
    """The fields of a struct or union, `0 x float32, 4 name char[16]`; "" if they are not known, or too many."""
    found = _known.get(record)
    if found is None:
        fields: list[str] = []
        for offset, name, kind, count in _record(record, pointer_size, 0, ""):
            fields.append(f"{offset} {name or '_'} {kind}{f'[{count}]' if count != 1 else ''}")
            if len(fields) > _FIELDS:
                fields = []
                break
        found = _known[record] = ", ".join(fields)
    return found


_Field = tuple[int, str, str, int]  # offset, name, kind of the elements, their number


def _record(die: Any, pointer_size: int, start: int, path: str) -> Iterator[_Field]:
    if die.tag == "DW_TAG_union_type":
        size = constant_of(die.attributes, "DW_AT_byte_size", 0, 0) or 0
        yield start, path, "bytes", size
        return
    for child in children(die):
        if child.tag not in ("DW_TAG_member", "DW_TAG_inheritance"):
            continue
        if "DW_AT_external" in child.attributes:  # a static member
            continue
        own = name_of(child).decode(errors="replace")
        name = f"{path}.{own}" if path and own else path or own
        bits = constant_of(child.attributes, "DW_AT_bit_size", 0, None)
        at = constant_of(child.attributes, "DW_AT_data_member_location", 0, 0) or 0
        if bits is None:
            yield from _field(referred(child), pointer_size, start + at, name)
            continue
        first = constant_of(child.attributes, "DW_AT_data_bit_offset", 0, 8 * at) or 0
        yield start + first // 8, name, "bytes", (first + bits + 7) // 8 - first // 8


def _field(die: Any, pointer_size: int, at: int, name: str) -> Iterator[_Field]:
    die, _, _ = unnamed(die)
    if die is None:
        return
    size = constant_of(die.attributes, "DW_AT_byte_size", 0, 0) or 0
    if die.tag in RECORDS and COMPLEX.get(name_of(die).decode(errors="replace")) == size:
        yield at, name, f"complex{8 * size}", 1
    elif die.tag in RECORDS:
        yield from _record(die, pointer_size, at, name)
    elif die.tag == "DW_TAG_array_type":
        element, _, _ = unnamed(referred(die))
        sizes = [size or 0 for size in extents(die)]
        step = constant_of(element.attributes, "DW_AT_byte_size", 0, 0) if element else 0
        if element is not None and element.tag in RECORDS:
            for i in range(prod(sizes)):
                yield from _record(element, pointer_size, at + i * (step or 0), f"{name}[{i}]")
            return
        for offset, _, kind, count in _field(element, pointer_size, at, name):
            if prod(sizes):
                yield offset, name, kind, count * prod(sizes)
    elif die.tag in POINTERS:
        yield at, name, f"pointer{8 * pointer_size}", 1
    elif die.tag == "DW_TAG_enumeration_type":
        yield at, name, f"enum{8 * size}", 1
    elif (die.tag == "DW_TAG_base_type" and size <= 8) or _is_complex(die):
        kind = ENCODINGS.get(die.attributes["DW_AT_encoding"].value, "bytes")
        is_char = name_of(die) == b"char"
        yield at, name, "char" if is_char else "bool" if kind == "bool" else f"{kind}{8 * size}", 1
    elif size:
        yield at, name, "bytes", size


def _is_complex(die: Any) -> bool:
    return die.tag == "DW_TAG_base_type" and bool(die.attributes["DW_AT_encoding"].value == 3)
