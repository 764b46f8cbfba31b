"""Types of C++'s standard library in DWARF that values of other languages can be copied to: strings, vectors and
their views."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from mblob.binary.dwarf_types import (
    RECORDS,
    CType,
    Library,
    children,
    constant_of,
    name_of,
    referred,
    type_of,
    unnamed,
)

_TYPES = ("DW_TAG_template_type_param",)
_VALUES = ("DW_TAG_template_value_param",)
_INLINE = re.compile("__[a-z0-9]+")  # namespaces of a version: __1, __cxx11
_OTHERS = ("__debug", "__detail")
_DYNAMIC = 2**32 - 1  # std::dynamic_extent, which is larger on other machines

_NAMES = ("basic_string", "basic_string_view", "vector", "span", "array")


def library_of(declared: Any, pointer_size: int, depth: int = 0) -> Library | None:
    """The class of the standard library that a type is, or a reference to it; None of others, and of those with
    allocators or traits of their own."""
    die, _, _ = unnamed(declared)
    is_moved = die is not None and die.tag == "DW_TAG_rvalue_reference_type"
    if die is not None and (is_moved or die.tag == "DW_TAG_reference_type"):
        die, _, _ = unnamed(referred(die))
    if die is None or die.tag not in RECORDS:
        return None
    name, is_template, listed = name_of(die).decode(errors="replace").partition("<")
    if name not in _NAMES or not _is_in_std(die):
        return None
    size = constant_of(die.attributes, "DW_AT_byte_size", 0, 0) or 0
    types = [referred(c) for c in children(die) if c.tag in _TYPES]
    counts = [
        constant_of(c.attributes, "DW_AT_const_value", 0, None)
        for c in children(die)
        if c.tag in _VALUES
    ]
    if not all(map(_is_usual, types[1:])):
        return None
    if types:
        element, _, is_const = unnamed(types[0])
        of = type_of(element, pointer_size)
        inner = library_of(element, pointer_size, depth + 1) if depth == 0 else None
        of = of if inner is None else of._replace(library=inner)
    elif is_template:  # of a class that is only declared, its name alone tells
        named = re.sub(r"^const | const$", "", _first(listed))
        found = _numbers(pointer_size).get(named)
        if found is None or not _has_usual_names(listed):
            return None
        of, is_const = found, "const" in _first(listed).split()
    else:
        return None
    if name == "array" and (not counts or counts[0] is None):
        return None
    count = counts[0] if counts and (counts[0] or 0) < _DYNAMIC else None
    return Library(name, of, is_const, count, size, is_moved)


def _is_in_std(die: Any) -> bool:
    """True of an entry in `std`, or in a namespace of a version there."""
    scope = die.get_parent()
    while scope is not None and scope.tag == "DW_TAG_namespace":
        name = name_of(scope).decode(errors="replace")
        if name == "std":
            above = scope.get_parent()
            return above is None or above.tag != "DW_TAG_namespace"
        if not _INLINE.fullmatch(name) or name in _OTHERS:
            return False
        scope = scope.get_parent()
    return False


_USUAL = ("allocator", "char_traits")


def _is_usual(die: Any) -> bool:
    """True of an argument of a template that is there anyway."""
    found, _, _ = unnamed(die)
    if found is None or found.tag not in RECORDS:
        return False
    return name_of(found).decode(errors="replace").partition("<")[0] in _USUAL and _is_in_std(found)


def _first(listed: str) -> str:
    return re.split("[,>]", listed)[0].strip()


def _has_usual_names(listed: str) -> bool:
    rest = listed.partition(",")[2]
    names = re.findall(r"([\w:]+)<", rest)
    return all(re.fullmatch(r"std::(?:__\w+::)*(?:allocator|char_traits)", n) for n in names)


def _numbers(pointer_size: int) -> dict[str, CType]:
    """Numbers by their names in C++."""

    def rows() -> Iterator[tuple[str, int, tuple[str, ...]]]:
        yield "char", 1, ("char",)
        yield "bool", 1, ("bool",)
        yield "float", 4, ("float",)
        yield "float", 8, ("double",)
        yield "int", 1, ("signed char",)
        yield "uint", 1, ("unsigned char",)
        yield "int", 2, ("short", "short int")
        yield "uint", 2, ("unsigned short", "short unsigned int")
        yield "int", 4, ("int",)
        yield "uint", 4, ("unsigned int",)
        yield "uint", 2, ("char16_t",)
        yield "uint", 4, ("char32_t",)
        yield "complex", 8, ("std::complex<float", "std::__1::complex<float")
        yield "complex", 16, ("std::complex<double", "std::__1::complex<double")
        yield "int", pointer_size, ("long", "long int")
        yield "uint", pointer_size, ("unsigned long", "long unsigned int")
        yield "int", 8, ("long long", "long long int")
        yield "uint", 8, ("unsigned long long", "long long unsigned int")

    return {
        name: CType(kind, size, name, base=name) for kind, size, names in rows() for name in names
    }
