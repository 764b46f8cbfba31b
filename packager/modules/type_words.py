"""Types in prototypes that only their source explains, in what pycparser reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pycparser import c_ast

from mblob.named_tuple import NamedTuple
from mblob.packager.modules.prototypes import Parameter


class Words(NamedTuple):
    """Words of a source that prototypes may have beside those of C.

    Attributes:
        types: what stands for a type of its own (`real`, `struct image`, `enum mode`): a number, `void`
            for a struct, or `void *` for a pointer.
        numbers: values of enumerators.
        values: types that are passed by value though they are no numbers, as parameters.
    """

    types: Mapping[str, str] = {}
    numbers: Mapping[str, int] = {}
    values: Mapping[str, Parameter] = {}


def resolve(node: Any, types: Mapping[str, str]) -> None:
    """Put what types of the source stand for in their places.

    Args:
        types: as of `Words`.
    """
    for at, inner in node.children() if types else ():
        meant = types.get(_own_name(inner))
        if meant is not None and at == "type":
            named = c_ast.IdentifierType(meant.removesuffix("*").split())
            made = c_ast.TypeDecl(inner.declname, inner.quals, inner.align, named)
            if meant.endswith("*"):
                made.quals = []
                made = c_ast.PtrDecl(inner.quals, made)
            node.type = made
        else:
            resolve(inner, types)


def _own_name(node: Any) -> str:
    """A type as `Words` names it, "" if it is none of a source."""
    inner: Any = node.type if isinstance(node, c_ast.TypeDecl) else None
    if isinstance(inner, c_ast.IdentifierType):
        return inner.names[0] if len(inner.names) == 1 else ""
    tag = _TAGS.get(type(inner))
    return f"{tag} {inner.name}" if tag else ""


def value_name(node: Any) -> str:
    """A type as `Words.values` names it, "" if it is none."""
    names = getattr(getattr(node, "type", None), "names", ())
    if isinstance(node, c_ast.TypeDecl) and "__int128" in names:
        return "__uint128_t" if "unsigned" in names else "__int128_t"
    if isinstance(node, c_ast.TypeDecl) and "_Complex" in names:
        return " ".join([*(w for w in names if w != "_Complex"), "_Complex"])
    return _own_name(node)


_TAGS = {c_ast.Struct: "struct", c_ast.Union: "union", c_ast.Enum: "enum"}
