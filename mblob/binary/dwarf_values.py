"""Structs and unions that functions take and return by value, as debug information tells them: the type of C that
any compiler of the machine passes in the same way."""

from __future__ import annotations

import re
from typing import Any

from mblob.argument_types import Value
from mblob.binary.dwarf_types import (
    ENCODINGS,
    POINTERS,
    RECORDS,
    children,
    constant_of,
    extents,
    name_of,
    referred,
    text_of,
)

# Of compilers: structs are passed in another way, or debug information leaves alignments out.
_OPTIONS = (
    b"-gstrict-dwarf",
    b"-struct-return",
    b"-fpack-struct",
    b"-malign-double",
    b"-mlong-double",
)
_LARGEST = 1 << 16  # bytes: it lies on the stack
_LONGEST = 8192  # characters of the type in C
_DEPTH = 16
_BY_VALUE = 5  # DW_CC_pass_by_value, of a class

# Machines whose structs are known, and where alignments of numbers in them end; below, they are the sizes.
_LARGEST_ALIGNMENT = {"x86_64": 16, "i386": 4, "aarch64": 16, "arm": 8, "riscv": 16, "s390x": 8}
_QUALIFIERS = ("DW_TAG_const_type", "DW_TAG_volatile_type", "DW_TAG_typedef")

# What says nothing about how a value lies or is passed; anything else might.
_PLACES = {"DW_AT_name", "DW_AT_decl_file", "DW_AT_decl_line", "DW_AT_decl_column", "DW_AT_sibling"}
_OF_RECORD = _PLACES | {
    "DW_AT_byte_size", "DW_AT_calling_convention", "DW_AT_export_symbols", "DW_AT_linkage_name", "DW_AT_accessibility",
}  # fmt: skip
_OF_MEMBER = _PLACES | {
    "DW_AT_type", "DW_AT_data_member_location", "DW_AT_accessibility", "DW_AT_mutable",
}  # fmt: skip
_OF_ARRAY = _PLACES | {"DW_AT_type", "DW_AT_ordering"}
_OF_NUMBER = _PLACES | {"DW_AT_byte_size", "DW_AT_encoding"}
_OF_NAME = _PLACES | {"DW_AT_type", "DW_AT_accessibility"}
_OF_POINTER = _PLACES | {"DW_AT_type", "DW_AT_byte_size"}
_OF_ENUM = _PLACES | {
    "DW_AT_type", "DW_AT_byte_size", "DW_AT_encoding", "DW_AT_enum_class", "DW_AT_accessibility",
}  # fmt: skip
# Entries below a record that have no place in its values.
_ASIDE = (
    "DW_TAG_subprogram",
    "DW_TAG_typedef",
    "DW_TAG_variable",
    "DW_TAG_enumeration_type",
    "DW_TAG_imported_declaration",
    "DW_TAG_template_type_param",
    "DW_TAG_template_value_param",
    "DW_TAG_const_type",
    "DW_TAG_volatile_type",
    "DW_TAG_array_type",
    "DW_TAG_subroutine_type",
    "DW_TAG_ptr_to_member_type",
    *POINTERS,
    *RECORDS,
)
_INTEGERS = {
    ("int", 1): "signed char", ("int", 2): "short", ("int", 4): "int", ("int", 8): "long long",
    ("uint", 1): "unsigned char", ("uint", 2): "unsigned short", ("uint", 4): "unsigned int",
    ("uint", 8): "unsigned long long", ("bool", 1): "_Bool",
}  # fmt: skip
INT128 = {b"__int128": "__int128", b"__int128 unsigned": "unsigned __int128"}
INT128[b"unsigned __int128"] = INT128[b"__int128 unsigned"]  # as clang has it
_FLOATS = {
    b"float": ("float", 4), b"double": ("double", 8), b"long double": ("long double", 0),
    b"complex float": ("float _Complex", 4), b"complex double": ("double _Complex", 8),
    b"complex long double": ("long double _Complex", 0),
    b"complex": ("", 0),  # of clang and gfortran, by their sizes
    b"real(kind=4)": ("float", 4), b"real(kind=8)": ("double", 8),
    b"complex(kind=4)": ("float _Complex", 4), b"complex(kind=8)": ("double _Complex", 8),
}  # fmt: skip


class _NotKnown(Exception):
    """A type that C may pass in another way than what can be told."""


class _Type:
    """A type in C.

    Attributes:
        text: in front of a name.
        dims: behind it.
        size, alignment: in bytes, of it all.
        offsets: of the members of a struct.
    """

    def __init__(
        self, text: str, size: int, alignment: int, dims: str = "", offsets: tuple[int, ...] = ()
    ) -> None:
        self.text, self.size, self.alignment = text, size, alignment
        self.dims, self.offsets = dims, offsets


def value_of(declared: Any, pointer_size: int) -> Value | None:
    """The struct or union that a type is; None if it is none, or if C might pass it in another way than one with
    the members that debug information tells."""
    largest = _LARGEST_ALIGNMENT.get(declared.dwarfinfo.config.machine_arch, 0)
    producer = text_of(declared.cu.get_top_DIE(), "DW_AT_producer")
    if not largest or any(option in producer for option in _OPTIONS):
        return None
    try:
        die = _behind_names(declared)
        if die.tag not in RECORDS:
            return None
        made = _record(die, pointer_size, largest, 0)
    except _NotKnown:
        return None
    if made.size > _LARGEST or len(made.text) > _LONGEST or _may_be_packed(made, pointer_size):
        return None
    return Value(made.text, made.size, made.alignment, made.offsets)


def _may_be_packed(made: _Type, pointer_size: int) -> bool:
    """True if `packed`, which debug information does not tell where it moves no member, would change the way in which
    a struct is passed: its alignment would no longer be above that of a register. Numbers of floating point alone are
    in registers of their own (32-bit Arm)."""
    words = set(re.findall("[a-z]+", re.sub(r" m[0-9]+", " ", made.text)))
    return made.alignment > pointer_size and not (pointer_size == 4 and words <= _FLOATING)


_FLOATING = {"struct", "union", "float", "double"}


def _behind_names(die: Any) -> Any:
    for _ in range(_DEPTH):
        if die is None:
            break
        if die.tag not in _QUALIFIERS:
            return die
        _check(die, _OF_NAME)
        die = referred(die)
    raise _NotKnown


def _check(die: Any, known: set[str]) -> None:
    if not known.issuperset(die.attributes):
        raise _NotKnown


def _record(die: Any, pointer_size: int, largest: int, depth: int) -> _Type:
    _check(die, _OF_RECORD)
    by_value = die.attributes.get("DW_AT_calling_convention")
    if depth > _DEPTH or (by_value is not None and by_value.value != _BY_VALUE):
        raise _NotKnown
    is_union = die.tag == "DW_TAG_union_type"
    members: list[str] = []
    offsets: list[int] = []
    end, alignment = 0, 1
    for child in children(die):
        is_static = not {"DW_AT_external", "DW_AT_declaration"}.isdisjoint(child.attributes)
        if child.tag in _ASIDE or (child.tag == "DW_TAG_member" and is_static):
            continue
        if child.tag != "DW_TAG_member":
            raise _NotKnown
        _check(child, _OF_MEMBER)
        found = _any(referred(child), pointer_size, largest, depth + 1)
        at = 0 if is_union else -(-end // found.alignment) * found.alignment
        if at != constant_of(child.attributes, "DW_AT_data_member_location", 0, 0):
            raise _NotKnown
        members.append(f"{found.text} m{len(members)}{found.dims};")
        offsets.append(at)
        end = max(end, at + found.size)
        alignment = max(alignment, found.alignment)
        if end > _LARGEST or len(members) > _LONGEST:
            raise _NotKnown
    size = -(-end // alignment) * alignment
    if not members or size != constant_of(die.attributes, "DW_AT_byte_size", 0, None):
        raise _NotKnown
    text = f"{'union' if is_union else 'struct'} {{ {' '.join(members)} }}"
    if len(text) > _LONGEST:
        raise _NotKnown
    return _Type(text, size, alignment, offsets=tuple(offsets))


def _any(declared: Any, pointer_size: int, largest: int, depth: int) -> _Type:
    die = _behind_names(declared)
    if die.tag in RECORDS:
        return _record(die, pointer_size, largest, depth)
    if die.tag == "DW_TAG_array_type":
        return _array(die, pointer_size, largest, depth)
    size = constant_of(die.attributes, "DW_AT_byte_size", 0, None)
    if die.tag in POINTERS:
        _check(die, _OF_POINTER)
        if size not in (None, pointer_size):
            raise _NotKnown
        text, size = "void *", pointer_size
    elif die.tag == "DW_TAG_enumeration_type":
        _check(die, _OF_ENUM)
        found = _any(referred(die), pointer_size, largest, depth + 1)
        if found.size != size or found.text not in _INTEGERS.values():
            raise _NotKnown
        text = found.text
    elif die.tag == "DW_TAG_string_type":  # of Fortran
        _check(die, _PLACES | {"DW_AT_byte_size"})
        if not size:
            raise _NotKnown
        return _Type("unsigned char", size, 1, f"[{size}]")
    elif die.tag == "DW_TAG_base_type":
        _check(die, _OF_NUMBER)
        text = _number(die, size or 0)
    else:
        raise _NotKnown
    part = size or 0
    if "_Complex" in text:
        part //= 2
    # a long double of i386 has 12 bytes
    return _Type(text, size or 0, min(part & -part if part != 10 else 2, largest))


def _number(die: Any, size: int) -> str:
    name = name_of(die)
    kind = ENCODINGS.get(die.attributes["DW_AT_encoding"].value, "")
    if kind in ("float", "complex"):
        text, part = _FLOATS.get(name, ("", 0))
        if name == b"complex":
            text, part = {8: ("float _Complex", 4), 16: ("double _Complex", 8)}.get(size, ("", 0))
        expected = part * (2 if kind == "complex" else 1)
        if text and (size == expected or not part) and ("_Complex" in text) == (kind == "complex"):
            return text
        raise _NotKnown
    if kind in ("int", "uint") and size == 16 and name in INT128:
        return INT128[name]
    if b"BitInt" in name:
        raise _NotKnown
    if kind == "bool" and size > 1:  # Fortran's logical
        kind = "int"
    if (kind, size) in _INTEGERS:
        return _INTEGERS[kind, size]
    raise _NotKnown


def _array(die: Any, pointer_size: int, largest: int, depth: int) -> _Type:
    _check(die, _OF_ARRAY)
    found = _any(referred(die), pointer_size, largest, depth + 1)
    size, text = found.size, ""
    dims = extents(die)
    for d in dims:
        if not d or d > _LARGEST:
            raise _NotKnown
        size, text = size * d, f"{text}[{d}]"
    if not dims or size > _LARGEST or found.size % found.alignment:
        raise _NotKnown
    return _Type(found.text, size, found.alignment, text + found.dims)
