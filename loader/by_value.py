"""Structs, complex numbers and integers of 128 bits that C functions take and return by value, as values of Python."""

from __future__ import annotations

import ctypes
import re
import struct
import sys
from collections.abc import Callable, Iterable
from functools import lru_cache
from os import uname
from typing import Any

from mblob import errors, texts
from mblob.format.functions_table import parameter, result_type
from mblob.format.struct_layouts import Field, read
from mblob.loader.c_arguments import Number, Reference, unexpected
from mblob.loader.c_memory import check_fields
from mblob.loader.c_words import number_of
from mblob.loader.tensor import empty
from mblob.named_tuple import NamedTuple

_INT128 = {"__int128_t": True, "__uint128_t": False}  # with a sign
_COMPLEX = {"float _Complex": "2f", "double _Complex": "2d"}
_DTYPES = {"pointer": "u", "enum": "i", "int": "i", "uint": "u", "float": "f", "complex": "c"}


def value_of(prototype: str, layouts: Callable[[str], str], data: bytes) -> Any:
    """The value that a function returned: a record of numpy, or bytes where numpy is not there; a complex number;
    an int.

    Args:
        prototype: of the function.
        layouts: the layout of a struct by its name, "" if it is not known.
    """
    name = result_type(prototype)
    if name.startswith("std::"):
        return _of_library(name, data)
    if name in _INT128:
        return int.from_bytes(data, sys.byteorder, signed=_INT128[name])
    if name in _COMPLEX and len(data) == struct.calcsize(_COMPLEX[name]):
        return complex(*struct.unpack(_COMPLEX[name], data))
    if name == "void" or number_of(name.split()) is not None:
        return _left_in(data)
    try:
        import numpy as np
    except ImportError:
        return data
    return np.frombuffer(bytearray(data), dtype_of(layouts(name), len(data)))[0]


def _left_in(data: bytes) -> Any:
    """The content of an object that began empty; in front of it the result of the function, if that is a number."""
    types, _, rest = data.partition(b"\0")
    number, _, name = types.decode("utf-8", "replace").rpartition(", ")
    if not number:
        return _of_library(name, rest)
    kind = getattr(number_of(number.split()), "kind", "int")
    (value,) = struct.unpack_from("d" if kind == "float" else "Q" if kind == "uint" else "q", rest)
    return bool(value) if kind == "bool" else value, _of_library(name, rest[8:])


def _texts(data: bytes) -> list[str]:
    made, at = [], 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 8], sys.byteorder)
        made.append(data[at + 8 : at + 8 + size].decode("utf-8", "surrogateescape"))
        at += 8 + size
    return made


def _of_library(name: str, data: bytes) -> Any:
    """The text, or the array, that is in an object of the standard library of C++."""
    if name == "std::string":
        return data.decode("utf-8", "surrogateescape")
    if name == "std::vector<std::string>":
        return _texts(data)
    found = re.fullmatch(r"std::\w+<(?:const )?(?:std::complex<(\w+)>|([\w ]+))(?:, \d+)?>", name)
    words = (found[2] or f"{found[1]} _Complex").split() if found else []
    number = number_of(words)
    if number is None:
        return data
    kind = {"char": "int", "bool": "bool"}.get(number.kind, number.kind)
    made = empty(
        (len(data) // number.size,), kind if kind == "bool" else f"{kind}{8 * number.size}"
    )
    if data:
        ctypes.memmove(made.data_ptr(), data, made.nbytes)
    return made


@lru_cache(256)
def dtype_of(layout: str, size: int) -> Any:
    """The type of numpy for a struct; without fields where they are not known."""
    import numpy as np

    fields = read(layout)
    # a union lies in no field; what lies further behind is a struct of the same name
    is_known = (
        fields and 0 <= size - max(f.end for f in fields) < _PADDING and fields[0].name != "_"
    )
    try:
        return np.dtype(_record(fields, 0, size)) if is_known else np.dtype(f"V{size}")
    except _DAMAGED:  # or names that occur twice
        return np.dtype(f"V{size}")


# by layouts of a damaged file
_DAMAGED = (ValueError, TypeError, LookupError, OverflowError, RecursionError)
_PADDING = 16  # at the end of a struct: less than the largest alignment


def _record(fields: Iterable[Field], start: int, size: int) -> Any:
    """Fields whose names are paths, as those of numpy: structs in structs, and arrays of structs."""
    members = _members(fields)
    return {
        "names": [m.name for m in members],
        "formats": [_format(m) for m in members],
        "offsets": [m.fields[0].offset - start for m in members],
        "itemsize": size,
    }


class _Member(NamedTuple):
    """A member of a struct.

    Attributes:
        name: of it.
        fields: of a struct, or of the first one of an array of them, those inside; else itself.
        items: the number of structs in an array, 0 of what is none.
        step: bytes from one of them to the next.
        is_struct: false of a number, or of an array of numbers.
    """

    name: str
    fields: list[Field]
    items: int
    step: int
    is_struct: bool


def _members(fields: Iterable[Field]) -> list[_Member]:
    """The members of a struct whose fields have paths for names: of structs in structs, and of arrays of them."""
    groups: dict[str, list[Field]] = {}
    for f in fields:
        groups.setdefault(re.split(r"[.\[]", f.name, maxsplit=1)[0], []).append(f)
    made = []
    for name, inside in groups.items():
        first, end = inside[0], max(f.end for f in inside)
        if first.name == name:
            made.append(_Member(name, inside[:1], 0, 0, False))
            continue
        items = [re.match(r"\[([0-9]+)\]", f.name[len(name) :]) for f in inside]
        cuts = [len(name) + len(i[0] if i else "") + 1 for i in items]
        count = max((int(i[1]) + 1 for i in items if i), default=0)
        of_first = [
            f._replace(name=f.name[cut:])
            for f, i, cut in zip(inside, items, cuts)
            if i is None or i[1] == "0"
        ]
        second = next((f.offset for f, i in zip(inside, items) if i and i[1] == "1"), end)
        made.append(_Member(name, of_first, count, second - first.offset, True))
    return made


def _format(m: _Member) -> Any:
    import numpy as np

    if not m.is_struct:
        return _number(m.fields[0])
    made = np.dtype(_record(m.fields, m.fields[0].offset, m.step))
    return np.dtype((made, (m.items,))) if m.items else made


def _number(f: Field) -> Any:
    kind = f.kind.rstrip("0123456789")
    if kind == "char":
        return f"S{f.number}"
    if kind == "bytes":
        return f"V{f.number}"
    of = "?" if kind == "bool" else f"{_DTYPES[kind]}{f.size}" if kind in _DTYPES else f"V{f.size}"
    return (of, (f.number,)) if f.number != 1 else of


def int128(number: Any, declared: str) -> bytes | None:
    """The bytes of a number for a parameter; None if that is no integer of 128 bits.

    Raises:
        ArgumentValueError: it is out of range.
    """
    name = " ".join(parameter(declared).words)
    signed = _INT128.get(name)
    if signed is None or "*" in declared or "[" in declared:
        return None
    low = -(1 << 127) if signed else 0
    if not isinstance(number, int):
        raise errors.ArgumentTypeError(texts.say(texts.EXPECTED, "int", type(number).__name__))
    if not low <= number < low + (1 << 128):
        expected = f"{name} ({low} to {low + (1 << 128) - 1})"
        raise errors.ArgumentValueError(texts.say(texts.EXPECTED, expected, repr(number)))
    return number.to_bytes(16, sys.byteorder, signed=signed)


# -- ctypes ----------------------------------------------------------------------------------------

# Elsewhere, ctypes passes arrays in structs in other registers than C does.
_PASSES_ARRAYS = uname().machine == "x86_64"
_POINTERS = {8 * ctypes.sizeof(ctypes.c_void_p): ctypes.c_void_p}


@lru_cache(256)
def structure_of(name: str, layout: str, size: int = 0) -> Any:
    """The ctypes.Structure of a struct that C takes or returns by value; None if ctypes cannot pass it, or if not
    all of it is known.

    Args:
        size: bytes, 0 if nothing tells them.
    """
    try:
        made = _structure(name.rpartition(" ")[2], read(layout), 0)
    except _DAMAGED:
        return None
    return made if made is not None and size in (0, ctypes.sizeof(made)) else None


def _structure(name: str, fields: list[Field], start: int) -> Any:
    declared, offsets = [], []
    for m in _members(fields):
        at = m.fields[0].offset
        of = _structure(m.name, m.fields, at) if m.is_struct else _ctype(m.fields[0])
        count = m.items if m.is_struct else m.fields[0].number if m.fields[0].number != 1 else 0
        if of is None or (count and not _PASSES_ARRAYS):
            return None
        if m.is_struct and m.items > 1 and ctypes.sizeof(of) != m.step:
            return None
        declared.append((m.name, of * count if count else of))
        offsets.append(at - start)
    if not declared or len(dict(declared)) < len(declared):
        return None
    made: Any = type(name, (ctypes.Structure,), {"_fields_": declared})
    same = all(getattr(made, own).offset == at for (own, _), at in zip(declared, offsets))
    return made if same else None


def _ctype(f: Field) -> Any:
    kind, bits = f.kind.rstrip("0123456789"), 8 * f.size
    if kind == "pointer":
        return _POINTERS.get(bits)
    if kind == "char":
        return ctypes.c_char
    if kind == "enum":
        kind = "int"
    return Number(kind, f.size).ctype if kind in ("int", "uint", "bool", "float") else None


class ByValue:
    """A parameter that is a struct by value: what `argtypes` has for it.

    Args:
        declared: its text in the prototype.
        structure: its type in ctypes.
        layout: its fields.
    """

    def __init__(self, declared: str, structure: Any, layout: str) -> None:
        self.declared, self.structure, self.layout = declared, structure, layout

    def __repr__(self) -> str:
        return f"<struct, {self.declared}>"

    def from_param(self, value: Any) -> Any:
        """The value that ctypes passes for an argument: of the type itself, a struct with the same fields, or its
        bytes."""
        if isinstance(value, self.structure):
            return value
        size = ctypes.sizeof(self.structure)
        check_fields(value, self.declared, size, lambda: self.layout)
        try:
            view = memoryview(value._obj if isinstance(value, Reference) else value)
            data = view.tobytes()
        except (TypeError, ValueError, BufferError):
            raise unexpected(f"{self.declared} of {size} bytes", value) from None
        if len(data) != size:
            expected = f"{size} bytes for {self.declared}"
            raise errors.ArgumentValueError(texts.say(texts.EXPECTED, expected, len(data)))
        return self.structure.from_buffer_copy(data)
