"""Words that only a source explains, its types, macros and enumerators: prototypes that have them, and
bounds of arrays in the declarations of the source."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from typing import Any

from mblob.packager.errors import BuildError
from mblob.packager.modules.prototype_parser import (
    ParseError,
    array_dims,
    c_ast,
    folded,
    parse,
    tree,
    value_name,
)
from mblob.packager.modules.prototypes import (
    Parameter,
    Prototype,
    Scalar,
    as_const,
    declared_twice,
    distinct,
    likely_macros,
    other_name,
    standard,
    type_names,
)


def each_readable(declarations: Iterable[Any]) -> tuple[tuple[Prototype, ...], dict[str, str]]:
    """The prototypes among texts that can be read; and, by the names of their functions, the texts of
    others, which have words that a source may explain.

    Raises:
        BuildError: as of `parse`, for what no source explains.
    """
    read: list[Prototype] = []
    others: dict[str, str] = {}
    for text in declarations:
        code = standard(text) if isinstance(text, str) else ""
        parts = [text] if "{" in code or not code else filter(str.strip, code.split(";"))
        for part in parts:
            try:
                read += parse([part])
            except BuildError:
                name = _unexplained(part) if code else ""
                if not name:
                    raise
                if others.setdefault(name, part).split() != part.split():
                    other = _other_overload(name, part)
                    raise declared_twice(name, (others[name], part), other) from None
    found = distinct(read)
    if both := [p for p in found if p.name in others]:
        raise declared_twice(both[0].name, (both[0].text, others[both[0].name]))
    return found, others


def _other_overload(name: str, text: str) -> str:
    """A function of another name that calls one of C++ in a namespace; "" if it cannot be told."""
    if "&" not in text:
        with suppress(BuildError):  # it has own types
            (found,) = parse([as_in_c(text)])
            return other_name(found._replace(name=name))
    return ""


def as_in_c(code: str) -> str:
    """A prototype of C++ as C declares it: without namespaces, with pointers for references."""
    made = ""
    for piece in re.sub(r"\b\w+\s*::\s*", "", code).split("["):
        bound, bracket, rest = piece.rpartition("]")  # `&` in a bound is an operator
        made += f"[{bound}{bracket}{rest.replace('&&', '*').replace('&', '*')}"
    return made[1:]


def _unexplained(text: str) -> str:
    """The function that a text declares in words that a source may explain, "" if there are none."""
    written = standard(text)
    code = as_in_c(written)
    types = type_names(code)
    try:
        (node,) = _tree_of(code, types)
    except (ParseError, ValueError):
        head = code.partition("(")[0].replace("*", " ").split()
        is_function = bool(head) and head[-1].isidentifier() and "#" not in code
        return head[-1] if is_function and likely_macros(code) else ""
    if not isinstance(getattr(node, "type", None), c_ast.FuncDecl):
        return ""
    parameters = node.type.args.params if node.type.args else ()
    known = {p.name for p in parameters if isinstance(p, c_ast.Decl)}
    if code != written:  # of C++
        scope = re.search(rf"((?:\w+\s*::\s*)*)\b{node.name}\s*\(", written)
        return f"{scope[1] if scope else ''}{node.name}".replace(" ", "")
    is_explained = _has_own_words(node, types, known) or any(
        value_name(t).startswith(("struct ", "union ", "__")) or "_Complex" in value_name(t)
        for t in (node.type.type, *(getattr(p, "type", None) for p in parameters))
    )
    return str(node.name) if is_explained else ""


def _tree_of(code: str, types: Sequence[str]) -> list[Any]:
    try:
        return tree(code, types)
    except ParseError:  # the name that <complex.h> has for a keyword
        return tree(re.sub(r"\bcomplex\b", "_Complex", code), types)


def _has_own_words(node: Any, types: Sequence[str], names: Collection[str]) -> bool:
    """True if a declaration has types or numbers that C does not know.

    Args:
        types: the types among them.
        names: those of parameters.
    """
    if isinstance(node, c_ast.IdentifierType):
        return not set(types).isdisjoint(node.names)
    if isinstance(node, c_ast.ID):
        return node.name not in names
    return isinstance(node, c_ast.Enum) or any(_has_own_words(n, types, names) for n in node)


def with_bounds(
    prototype: Prototype,
    declaration: str,
    numbers: Mapping[str, int],
    array_types: Mapping[str, str],
) -> tuple[Prototype, str]:
    """A prototype with the bounds of arrays that the declaration of its function has in the source, and
    why some are missing, "" if none are.

    Args:
        numbers: enumerators of the source.
        array_types: its typedefs of arrays, by name.
    """
    try:
        code = as_in_c(standard(declaration))
        (node,) = tree(code, type_names(code))
        found = node.type.args.params
        if prototype.mangled and [getattr(p, "name", "") or "" for p in found] != [
            p.name for p in prototype.parameters
        ]:
            return prototype, ""  # of a method, or of an overload
    except (AttributeError, BuildError, ParseError, ValueError):
        return (
            prototype,
            f"{prototype.name}: its declaration in the source is not C that mblob reads",
        )
    _rename(found, prototype.parameters)
    known: dict[str, str | int] = {
        **numbers,
        **{
            p.name: p.element.kind
            for p in prototype.parameters
            if p.kind == "scalar" and p.element.is_integer
        },
    }
    typedefs = _trees(array_types)
    made = list(prototype.parameters)
    why = ""
    for i, (p, declared) in enumerate(zip(prototype.parameters, found)):
        is_memory = p.kind == "pointer" and (p.size or p.is_indirect)
        if p.kind not in ("tensor", "string") and not is_memory:
            continue
        if p.dims and p.dims[0].code:  # of a reference: debug information has them
            continue
        try:
            where = f"{prototype.name}: parameter {i} ({p.name})"
            kind = _of_typedefs(getattr(declared, "type", None), typedefs)
            element, dims = array_dims(kind, where, known)
        except BuildError as exc:
            why = why or str(exc)
            continue
        if not dims and not p.dims:
            continue
        dims += p.dims[len(dims) :]  # of a typedef that is told nowhere
        # gcc forgets that of a typedef of arrays
        const = p.const or ("const" in getattr(element, "quals", ()) and not p.is_indirect)
        if is_memory:
            spelled = as_const(p.spelled) if const and not p.is_indirect else p.spelled
            made[i] = p._replace(const=const, spelled=spelled, dims=tuple(dims))
            continue
        scalar = p.scalar or Scalar("char", "char")
        made[i] = p._replace(kind="tensor", scalar=scalar, const=const, dims=tuple(dims))
    return prototype._replace(parameters=tuple(made)), why


def _trees(array_types: Mapping[str, str]) -> dict[str, Any]:
    """The arrays that typedefs stand for, without those that are not C that mblob reads."""
    found: dict[str, Any] = {}
    for name, text in array_types.items():
        with suppress(AttributeError, BuildError, ParseError, ValueError):
            code = standard(text)
            (node,) = tree(code, type_names(code.partition("typedef")[2]))
            found[name] = _of_typedefs(node.type, found)
    return found


def _of_typedefs(kind: Any, typedefs: Mapping[str, Any]) -> Any:
    """A type, with the arrays that typedefs stand for; const is that of what is in them."""
    inner = getattr(kind, "type", None)
    if not isinstance(kind, c_ast.TypeDecl):
        if isinstance(kind, (c_ast.ArrayDecl, c_ast.PtrDecl)):
            kind.type = _of_typedefs(inner, typedefs)
        return kind
    known = typedefs.get(inner.names[-1]) if isinstance(inner, c_ast.IdentifierType) else None
    if known is None:
        return kind
    made = element = deepcopy(known)
    while not isinstance(element, c_ast.TypeDecl):
        element = element.type
    element.quals = [*(element.quals or ()), *(kind.quals or ())]
    return made


def _rename(declared: Sequence[Any], parameters: Sequence[Parameter]) -> None:
    """Give the bounds in a declaration the names that its parameters have in the definition."""
    own = [getattr(d, "name", None) or "" for d in declared]
    names = {old: p.name for old, p in zip(own, parameters) if old and p.name}
    if all(old == new for old, new in names.items()):
        return
    others = {p.name: f"another {p.name}" for p in parameters}  # an enumerator there
    left = list(declared)
    while left:
        node = left.pop()
        if isinstance(node, c_ast.ID):
            node.name = {**others, **names}.get(node.name, node.name)
        left += node


def enumerators(texts: Iterable[str]) -> dict[str, int]:
    """The names of enums and their values, as far as these are numbers.

    Args:
        texts: `enum name {...}`, each once.
    """
    found: dict[str, int] = {}
    twice: set[str] = set()  # in scopes, of which the texts say nothing
    for text in texts:
        try:
            (node,) = tree(text)
            listed = node.type.values.enumerators
        except (AttributeError, BuildError, ParseError, ValueError):
            continue
        value: int | None = -1
        for one in listed:
            value = folded(one.value, found) if one.value else None if value is None else value + 1
            if value is not None and found.setdefault(one.name, value) != value:
                twice.add(one.name)
    return {name: value for name, value in found.items() if name not in twice}
