"""Fields of structs: those of a C struct, as the notes of a table of functions have them, beside those of numpy's
and ctypes' types. docs/format.md, section 7."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from math import prod
from typing import Any

from mblob.named_tuple import NamedTuple

_SHOWN = 16  # fields of a layout in an error
_KINDS = {"f": "float", "i": "int", "u": "uint", "c": "complex", "m": "int", "M": "int"}
_OF_CTYPES = {
    **dict.fromkeys("bhilq", "int"),
    **dict.fromkeys("BHILQ", "uint"),
    **dict.fromkeys("fd", "float"),
    **dict.fromkeys("PzZOX", "pointer"),
}


class Field(NamedTuple):
    """Elements of one type in a struct, one behind the other.

    Attributes:
        offset: of the first, in bytes.
        name: of the field.
        kind: "float32", "uint8", "char", "pointer64", "enum32", ...; "bytes" for anything.
        number: of elements.
    """

    offset: int
    name: str
    kind: str
    number: int = 1

    @property
    def size(self) -> int:
        """Bytes of an element."""
        bits = int(self.kind.lstrip("abcdefghijklmnopqrstuvwxyz ") or 8)
        return bits // 8

    @property
    def end(self) -> int:
        return self.offset + self.size * self.number

    def __str__(self) -> str:
        dims = f"[{self.number}]" if self.number != 1 else ""
        return f"{self.offset} {self.name} {self.kind}{dims}"


_FIELD = r"([0-9]{1,10}) (\S+) ([a-z]+[0-9]{0,4})(?:\[([0-9]{1,10})\])?"


def read(text: str) -> list[Field]:
    """The fields of a layout; [] of what is none."""
    found = [re.fullmatch(_FIELD, one) for one in text.split(", ")]
    return [Field(int(f[1]), f[2], f[3], int(f[4] or 1)) for f in found if f] if all(found) else []


def shown(fields: list[Field], size: int) -> str:
    """A layout for people."""
    more = ", ..." if len(fields) > _SHOWN else ""
    return f"{{{', '.join(map(str, fields[:_SHOWN]))}{more}}} of {size} bytes"


@lru_cache(256)
def difference(layout: str, size: int, given: Any, is_one: bool) -> str:
    """Both layouts, if the elements of an array are laid out in another way than a C struct; else "".

    Args:
        layout, size: of the struct.
        given: a structured dtype of numpy, or a Structure of ctypes.
        is_one: there is one element, which may have more behind what is in the struct.
    """
    fields = read(layout)
    if not fields:
        return ""
    if isinstance(given, type):
        import ctypes

        found, found_size = list(_of_ctypes(given, 0, "")), ctypes.sizeof(given)
    else:
        found, found_size = list(_of_numpy(given, 0, "")), given.itemsize
    is_same = found_size == size or (is_one and found_size > size)
    # what overlaps is a union, one part of which may be the struct's
    alone = [a for a in found if sum(_overlap(a, b) for b in found) == 1]
    if is_same and all(_fit(a, b) for a in alone for b in fields if _overlap(a, b)):
        return ""
    return f"fields {shown(fields, size)}, found {shown(found, found_size)}"


def _overlap(a: Field, b: Field) -> bool:
    return a.offset < b.end and b.offset < a.end


def _fit(a: Field, b: Field) -> bool:
    """True if two fields have elements of one type at the same places."""
    if "bytes" in (a.kind, b.kind):
        return True
    one, other = _part(a), _part(b)
    return one.size == other.size and (a.offset - b.offset) % one.size == 0 and _alike(one, other)


def _part(field: Field) -> Field:
    """A field with the numbers that complex ones consist of."""
    if not field.kind.startswith("complex"):
        return field
    return field._replace(kind=f"float{field.size * 4}", number=2 * field.number)


def _alike(a: Field, b: Field) -> bool:
    """True if elements of one size mean the same; bytes do, and no type of numpy is a pointer or an enum."""
    integers = ("int", "uint", "pointer", "enum")
    kinds = {a.kind.rstrip("0123456789"), b.kind.rstrip("0123456789")}
    is_open = bool(kinds & {"pointer", "enum"}) and kinds.issubset(integers)
    return a.size == 1 or len(kinds) == 1 or is_open


def _of_numpy(dtype: Any, at: int, name: str) -> Iterator[Field]:
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        if base.names is None:
            for field in _of_numpy(base, at, name):
                yield field._replace(number=field.number * prod(shape))
            return
        for i in range(prod(shape)):
            yield from _of_numpy(base, at + i * base.itemsize, f"{name}[{i}]")
    elif dtype.names is not None:
        for own in dtype.names:
            field_type, offset = dtype.fields[own][:2]
            yield from _of_numpy(field_type, at + offset, f"{name}.{own}" if name else own)
    elif dtype.kind in "Sb":
        yield Field(at, name, "char" if dtype.kind == "S" else "bool", dtype.itemsize)
    elif dtype.kind == "V":
        yield Field(at, name, "bytes", dtype.itemsize)
    else:
        kind = _KINDS.get(dtype.kind, "text") if dtype.isnative else "swapped"
        yield Field(at, name, f"{kind}{8 * dtype.itemsize}")


def _of_ctypes(made: Any, at: int, name: str) -> Iterator[Field]:
    import ctypes

    size = ctypes.sizeof(made)
    letter = getattr(made, "_type_", None)
    if issubclass(made, ctypes.Array):
        if issubclass(made._type_, ctypes.Structure):
            for i in range(made._length_):
                step = ctypes.sizeof(made._type_)
                yield from _of_ctypes(made._type_, at + i * step, f"{name}[{i}]")
            return
        for field in _of_ctypes(made._type_, at, name):
            yield field._replace(number=field.number * made._length_)
    elif issubclass(made, ctypes.Structure):
        bases = [c for c in reversed(made.__mro__) if "_fields_" in vars(c)]
        for own, field_type, *bits in (f for c in bases for f in c._fields_):
            offset = at + getattr(made, own).offset
            shown_name = f"{name}.{own}" if name else own
            if bits:
                yield Field(offset, shown_name, "bytes", ctypes.sizeof(field_type))
            else:
                yield from _of_ctypes(field_type, offset, shown_name)
    elif isinstance(letter, str) and letter in "c?":
        yield Field(at, name, "char" if letter == "c" else "bool")
    elif isinstance(letter, str) and letter in _OF_CTYPES and size <= 8:
        yield Field(at, name, f"{_OF_CTYPES[letter]}{8 * size}")
    else:  # a union, a pointer, a function
        yield Field(at, name, "bytes", size)
