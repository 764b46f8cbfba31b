"""Pointers to pointers and to functions in a prototype, beside those of the source: both as C spells them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mblob.packager.errors import BuildError
from mblob.packager.functions.number_names import scalar_of
from mblob.packager.modules.prototype_parser import ParseError, c_ast, named_scalar, tree
from mblob.packager.modules.prototypes import Scalar, type_names

if TYPE_CHECKING:
    from mblob.binary.dwarf_types import CType


def may_be_one(spelled: str, actual: CType) -> bool:
    """False if a pointer differs from that of the source in what a call reads or writes through it. `const`
    may differ; `void` stands for anything, and so does a name that C does not know.

    Args:
        spelled: with a "?" where a name stands, which may be missing at the end.
    """
    left, right = _tree(spelled), _tree(_in_words_of_c(actual).declaration("?"))
    return left is None or right is None or _alike(left, right, actual.size)


def _in_words_of_c(found: CType) -> CType:
    """A type with base types in the place of names for them."""
    if found.kind == "pointer" and found.target is not None:
        target = _in_words_of_c(found.target)
        return found._replace(text=target.declaration("*" + "?" * ("?" in target.text)))
    number = scalar_of(found)
    base = found.base if found.kind == "other" else ""  # of a function
    return found._replace(text=number.name if number else base or found.text)


def _tree(spelled: str) -> Any:
    code = (spelled if "?" in spelled else f"{spelled} ?").replace("?", "declared")
    try:
        (node,) = tree(code, type_names(code))
    except (BuildError, ParseError, ValueError):  # of C++
        return None
    return node.type


def _alike(one: Any, other: Any, pointer_size: int) -> bool:
    left, right = _inside(one), _inside(other)
    if _is_open(left) or _is_open(right):
        return True
    if isinstance(left, Scalar) and isinstance(right, Scalar):
        return _bits(left, pointer_size) == _bits(right, pointer_size)
    if type(left) is not type(right):
        return False
    if isinstance(left, c_ast.FuncDecl):
        taken, given = _parameters(left), _parameters(right)
        if len(taken) != len(given):
            return False
        if not all(_alike(a, b, pointer_size) for a, b in zip(taken, given)):
            return False
    if isinstance(left, (c_ast.FuncDecl, c_ast.PtrDecl)):
        return _alike(left.type, right.type, pointer_size)
    return getattr(left, "name", "") == getattr(right, "name", "")  # of a struct; `...` has none


def _inside(node: Any) -> Any:
    """A type without names and qualifiers; a number as `Scalar`, an array as the pointer that it decays to."""
    while isinstance(node, (c_ast.TypeDecl, c_ast.Typename, c_ast.Decl)):
        node = node.type
    if isinstance(node, c_ast.ArrayDecl):
        return c_ast.PtrDecl([], node.type)
    if isinstance(node, c_ast.IdentifierType):
        with suppress(BuildError):
            return named_scalar(node.names, "")
    return node


def _is_open(node: Any) -> bool:
    """True of what may stand for any type: `void`, a name that C does not know, an enum."""
    return isinstance(node, (c_ast.IdentifierType, c_ast.Enum))


def _parameters(function: c_ast.FuncDecl) -> list[Any]:
    found = function.args.params if function.args else []
    is_void = [getattr(_inside(p), "names", None) for p in found] == [["void"]]
    return [] if is_void else found


def _bits(number: Scalar, pointer_size: int) -> tuple[str, int | None]:
    """The kind and the bytes of a number in memory. Integers of one byte are the same, with `bool`."""
    size = number.size(pointer_size)
    return ("int" if size == 1 else number.kind, size)
