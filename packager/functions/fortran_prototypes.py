"""Prototypes of Fortran procedures: names, sizes and directions that debug information of Fortran leaves
out, and the source has.

Fortran passes nearly all by address. The prototype of a packed function says what is behind it: one
number, an array, whose order is that of columns, or a text, whose length is a hidden argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mblob.packager.compile.fortran_tree import RESULT, Dummy, Expression
from mblob.packager.errors import NotCallable
from mblob.packager.modules.prototypes import Dim, Parameter, Prototype, number_dim, size_dim

if TYPE_CHECKING:
    from mblob.binary.dwarf_functions import Function
    from mblob.binary.dwarf_types import CType

_CHARACTER = "character"  # as dwarf_functions calls what a text consists of


def with_places(function: Function, dummies: Mapping[str, Dummy]) -> Function:
    """A procedure with what its source says of how arguments are passed, where debug information does
    not tell.

    Raises:
        NotCallable: its result is a text of which a call cannot tell how long it is.
    """
    made = []
    *modules, last = function.source_name.split("::")
    # with bind(C), other descriptors are passed
    own = f"{last}_", "".join(f"__{module}" for module in modules) + f"_MOD_{last}"
    for name, found in zip(function.names, function.parameters):
        dummy = dummies.get(name)
        if found.kind == "either" and dummy is not None and found.target is not None:
            found = found.target if dummy.is_value else found._replace(kind="pointer")
        if name == RESULT and dummy is not None and _is_open_text(found, dummy, dummies):
            raise NotCallable(
                "its result is a text whose length is not made of numbers, integer arguments, + - and *: give a"
                " subroutine that calls it, and writes the result to an argument"
            )
        target = found.target if function.name in own and dummy is not None else None
        if target is not None and _has_shape(found.kind, target, name, dummies):
            found = found._replace(target=target._replace(kind="shape"))
        made.append(found)
    return function._replace(parameters=tuple(made))


def _is_open_text(found: CType, dummy: Dummy, dummies: Mapping[str, Dummy]) -> bool:
    """True of a text whose length neither debug information nor the source tells."""
    is_told = dummy.length == "*" or _is_readable(dummy.length, dummies)
    return _is_text(found) and found.target is not None and not (found.target.dims or is_told)


def _has_shape(kind: str, target: CType, name: str, dummies: Mapping[str, Dummy]) -> bool:
    """True of an array of assumed shape, and of a result whose bounds can be read, with a known descriptor."""
    if kind != "pointer" or target.kind != "descriptor":
        return False
    dummy = dummies[name]
    bounds = [e for both in dummy.bounds for e in both]
    is_told = dummy.is_assumed_shape or (
        name == RESULT and bounds and all(_is_readable(e, dummies) for e in bounds)
    )
    return bool(is_told and target.target is not None and len(dummy.bounds) == len(target.dims))


def _is_readable(e: Expression, dummies: Mapping[str, Dummy]) -> bool:
    """True of a bound that a call can compute: of what is given always."""
    if isinstance(e, str):
        return e in dummies and not dummies[e].is_optional and not dummies[e].bounds
    if not isinstance(e, tuple):
        return isinstance(e, int)
    operator, left, right = e
    if operator == "size" and isinstance(left, str):
        return left in dummies and dummies[left].is_assumed_shape and not dummies[left].is_optional
    return operator in _OPERATORS and _is_readable(left, dummies) and _is_readable(right, dummies)


def of_fortran(
    prototype: Prototype, function: Function, dummies: Mapping[str, Dummy]
) -> tuple[Prototype, str]:
    """A prototype with what is behind the addresses, and why the size of an array is not checked, "" if
    all are.

    Args:
        prototype: of debug information alone.
        dummies: by name, what the source says of dummy arguments.
    """
    found = function.parameters
    dwarf_names = function.names
    types = {name: (i, t) for i, (name, t) in enumerate(zip(function.names, found))}
    made = [
        _parameter(p, name, t, types, dummies)
        for p, name, t in zip(prototype.parameters, function.names, found)
    ]
    kinds = {
        p.name: "at_" if p.kind == "number" and not p.const else "v_"
        for p in made
        if p.kind in ("number", "scalar") and p.scalar and p.scalar.is_integer
    }
    kinds |= {p.name: "" for p in made if p.descriptor and p.name not in kinds}
    why = ""
    for i, p in enumerate(made):
        dims = p.dims
        name = dwarf_names[i]
        where = f"{prototype.name}: parameter {i} ({p.name})"
        is_explicit = found[i].dims or (p.descriptor and not dummies[name].is_assumed_shape)
        if name in dummies and dummies[name].bounds and is_explicit:
            extents = [_extent(*bounds) for bounds in dummies[name].bounds]
            read = [_dim(extent, kinds) for extent in extents]
            if None in read:
                why = why or f"{where}: bounds are made of numbers, integer arguments, + - and *"
            dims = tuple(new or old for new, old in zip(read, dims))
            if extents[-1] == 1 and not p.descriptor:
                dims = (*dims[:-1], Dim(None, ""))
        if p.length is not None:
            length = dummies[name].length if name in dummies else "*"
            if p.length.code is None and length != "*":
                told = _dim(length, kinds)
                if told is None:
                    why = (
                        why or f"{where}: a length is made of numbers, integer arguments, + - and *"
                    )
                p = p._replace(length=told or p.length)
            made[i] = p._replace(dims=tuple(reversed(dims)) if found[i].dims else ())
        else:
            made[i] = p._replace(dims=dims if p.has_strides or any(d.code for d in dims) else ())
    return prototype._replace(parameters=tuple(made)), why


def _parameter(
    p: Parameter,
    name: str,
    found: CType,
    types: Mapping[str, tuple[int, CType]],
    dummies: Mapping[str, Dummy],
) -> Parameter:
    """A parameter with what is behind its address.

    Args:
        types: all parameters by name, with their places.
    """
    of = name[1:] if name[:1] in (".", "_") else ""
    hidden = next((types[c + name][1] for c in "._" if c + name in types), None)
    if (name in dummies and dummies[name].is_optional) or (hidden and hidden.kind == "bool"):
        p = p._replace(optional=True)
    if p.kind == "scalar" and of in types:  # what Fortran adds behind all others
        at, text = types[of]
        if found.kind == "bool":
            return p._replace(name=of + "_present", kind="present", of=at)
        shown = _length_name(of)
        return (
            p._replace(name=shown, kind="length", of=at)
            if _is_text(text)
            else p._replace(name=shown)
        )
    intent = dummies[name].intent if name in dummies else ""
    if found.kind != "pointer" or p.kind not in ("tensor", "pointer"):
        return p
    is_const = intent == "in"
    spelled = f"const {p.spelled}" if is_const and p.spelled and "?" not in p.spelled else p.spelled
    p = p._replace(const=is_const, spelled=spelled, name="result" if name == "__result" else p.name)
    if p.descriptor:
        return p._replace(columns=name in dummies and dummies[name].is_contiguous)
    if _is_text(found):
        size = (found.target.dims or (None,))[0] if found.target is not None else None
        p = p._replace(length=Dim(None, _length_name(name)) if size is None else number_dim(size))
        if not found.dims:
            is_written = intent in ("out", "inout") or name == RESULT
            return p if is_written else p._replace(kind="text")
    if found.dims:
        # x(1) is how FORTRAN 66 declares an array of any size.
        sizes = (*found.dims[:-1], None if found.dims[-1] == 1 else found.dims[-1])
        dims = tuple(Dim(None, "") if d is None else number_dim(d) for d in sizes)
        return p._replace(dims=dims, columns=len(dims) > 1 and p.length is None)
    if is_const and p.scalar is not None and p.scalar.kind == "complex":  # which no argument is
        return p._replace(dims=(number_dim(1)._replace(at_least=True),))
    return p._replace(kind="number") if p.kind == "tensor" else p


def _is_text(found: CType) -> bool:
    """True of a pointer to a text, or to an array of texts."""
    return found.target is not None and found.target.text == _CHARACTER


def _length_name(text: str) -> str:
    """The name of the hidden parameter with the length of a text."""
    return text.lstrip("_") + "_len"


# -- bounds ----------------------------------------------------------------------------------------

_OPERATORS = {"+": "mblob_add", "-": "mblob_sub", "*": "mblob_mul"}


def _extent(lower: Expression, upper: Expression) -> Expression:
    """The number of elements between two bounds; "*": as many as there are."""
    if upper == "*":
        return "*"
    if isinstance(lower, int) and isinstance(upper, int):
        return max(upper - lower + 1, 0)
    if isinstance(lower, int):
        return (
            upper
            if lower == 1
            else ("-", upper, lower - 1)
            if lower > 1
            else ("+", upper, 1 - lower)
        )
    return ("+", ("-", upper, lower), 1)


def _dim(extent: Expression, kinds: Mapping[str, str]) -> Dim | None:
    """One dimension, None if it cannot be read.

    Args:
        kinds: of integer parameters, by name, what their variables begin with; "" of arrays with descriptors.
    """
    if extent == "*":
        return Dim(None, "")
    read = _read(extent, kinds)
    return None if read is None else size_dim(*read)


def _read(e: Expression, kinds: Mapping[str, str]) -> tuple[str, str] | None:
    """C code and text of an expression."""
    if isinstance(e, int):
        return f"INT64_C({e})", str(e)
    if isinstance(e, str):
        return (kinds[e] + e, e) if kinds.get(e) else None
    if e is None:
        return None
    operator, left, right = e
    if operator == "size" and kinds.get(str(left)) != "":
        return None
    if operator == "size":
        dimension = (
            f".tensor->shape[{right - 1}]" if isinstance(right, int) and right else ".elements"
        )
        return f"v_{left}{dimension}", f"size({left}{f', {right}' if right else ''})"
    read = _read(left, kinds), _read(right, kinds)
    if read[0] is None or read[1] is None or operator not in _OPERATORS:
        return None
    texts = [
        f"({text})"
        if isinstance(side, tuple)
        and side[0] not in ("*", "size")
        and (operator == "*" or side is right)
        else text
        for side, (_, text) in ((left, read[0]), (right, read[1]))
    ]
    code = f"{_OPERATORS[operator]}({read[0][0]}, {read[1][0]}, &bad)"
    return code, f" {operator} ".join(texts)
