"""Numbers of debug information as C spells them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mblob import argument_types
from mblob.argument_types import HALVES
from mblob.packager.modules.prototypes import Scalar

if TYPE_CHECKING:
    from mblob.binary.dwarf_types import CType

# Compilers order them in their own ways.
_WORDS = ("unsigned", "signed", "long", "short", "char", "int")
_NAMES = {
    (row.kind, row.bits // 8): row.c
    for row in argument_types.TABLE
    if row.kind in ("int", "uint", "float", "complex") and row.c not in HALVES
}


def scalar_of(found: CType) -> Scalar | None:
    """A number as C spells it where the name is known everywhere, else by its size."""
    text = found.text.removeprefix("const ")
    kind = argument_types.KINDS.get(text)
    if kind == found.kind and argument_types.SIZES.get(text, found.size) == found.size:
        return Scalar(argument_types.ALIASES.get(text, text), kind)
    if found.kind == "char":
        return Scalar("char", "char")
    if found.kind == "bool" and found.size == 1:
        return Scalar("bool", "bool")
    if found.kind == "float":
        if found.base in HALVES:
            return Scalar(found.base, argument_types.KINDS[found.base])
        name = _NAMES.get(("float", found.size))
        return Scalar(name, "float") if name and found.base != "__ibm128" else None
    if found.kind == "complex":
        name = _NAMES.get(("complex", found.size))
        return Scalar(name, "complex") if name else None
    if found.kind == "enum":
        is_signed = found.target is not None and found.target.kind == "int"
        return _integer("", found.size, is_signed)
    if found.kind in ("int", "uint"):
        return _integer(text if text == found.base else "", found.size, found.kind == "int")
    return None


def in_c(text: str) -> str:
    """A type with the words of C for numbers of Fortran, "" if C has none for one."""
    for word, kind in _OF_FORTRAN.items():
        for (of, size), name in _NAMES.items() if f"{word}(kind=" in text else ():
            width = size // 2 if kind == "complex" else size
            text = text.replace(f"{word}(kind={width})", name) if of == kind else text
    return "" if "(kind=" in text else text


_OF_FORTRAN = {"real": "float", "integer": "int", "complex": "complex", "logical": "int"}


def _integer(spelled: str, size: int, is_signed: bool) -> Scalar | None:
    """An integer by its size, in the words of C if the source has them."""
    words = spelled.split()
    kind = "int" if is_signed else "uint"
    if (kind, size) not in _NAMES:
        return None
    if words and set(words) <= set(_WORDS):
        if {"long", "short", "char"}.intersection(words):
            words = [word for word in words if word != "int"]
        if "char" not in words:
            words = [word for word in words if word != "signed"]
        return Scalar(" ".join(sorted(words, key=_WORDS.index)), kind)
    return Scalar(_NAMES[kind, size], kind)
