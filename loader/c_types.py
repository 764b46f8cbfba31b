"""Types of C as types of ctypes, from a prototype or from debug information."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from operator import index
from typing import TYPE_CHECKING, Any

from mblob.format import functions_table
from mblob.loader.by_value import ByValue, structure_of
from mblob.loader.c_arguments import (
    Number,
    Pointer,
    PointerOfCtypes,
    Reference,
    is_buffer,
    number_type,
)
from mblob.loader.c_memory import POINTER_SIZE, Callback, Memory, Object, Pointed
from mblob.loader.c_words import number_of, pointer_result, result_of
from mblob.named_tuple import NamedTuple

if TYPE_CHECKING:
    from mblob.binary.dwarf_functions import Function
    from mblob.binary.dwarf_types import CType


class Refusal(NamedTuple):
    """The reason why a call cannot be right.

    Attributes:
        text: the reason.
        is_unknown: there is no prototype that says it.
        instead: advice, where no types of ctypes make the call right.
    """

    text: str
    is_unknown: bool = False
    instead: str = ""

    def remedy(self, name: str) -> str:
        """Advice for the caller of the function `name`."""
        if self.instead:
            return self.instead
        pack = "pack it with its prototype (functions=), or " if self.is_unknown else ""
        other = "" if self.is_unknown else ", or pack a C function that takes a pointer to it"
        return f"{pack}get it with symbol({name!r}, restype, argtypes){other}"


UNKNOWN_RESULT = Refusal("no prototype says what it returns", True)
UNKNOWN = Refusal("no prototype says what it takes and returns", True)


class CDeclaration(NamedTuple):
    """The declaration of a C function.

    Attributes:
        text: its prototype, or as much of it as is known.
        restype: of ctypes.
        argtypes: of ctypes, None if they are not known.
        names: of the parameters, "" where one has none.
        variadic: more arguments may follow.
        refusal: why a call cannot be right, None if it can.
        of_result: what is left of `refusal` when the caller gives the types of the arguments.
    """

    text: str
    restype: Any = None
    argtypes: tuple[Any, ...] | None = None
    names: tuple[str, ...] = ()
    variadic: bool = False
    refusal: Refusal | None = None
    of_result: Refusal | None = None


class Sizes(NamedTuple):
    """The parameters `x[n]` of a function, and those that tell their sizes.

    Attributes:
        arrays: positions and types of the arrays.
        numbers: positions and names of the numbers.
    """

    arrays: tuple[tuple[int, Pointer], ...]
    numbers: tuple[tuple[int, str], ...]

    @classmethod
    def of(cls, declaration: CDeclaration) -> Sizes | None:
        """None if no parameter is one whose size another tells."""
        types = enumerate(declaration.argtypes or ())
        named = [
            (i, t, re.findall(r"[A-Za-z_]\w*", " ".join(t.dims)))
            for i, t in types
            if isinstance(t, Pointer)
        ]
        numbers = {
            (i, name)
            for i, name in enumerate(declaration.names)
            for _, _, names in named
            if name in names
        }
        known = {name for _, name in numbers}
        arrays = [(i, t) for i, t, names in named if known.intersection(names)]
        return cls(tuple(arrays), tuple(numbers)) if arrays else None

    def values(self, args: tuple[Any, ...]) -> dict[str, int]:
        """The numbers among arguments."""
        found = {}
        for i, name in self.numbers:
            value = args[i]
            if type(value) is int:
                found[name] = value
                continue
            with suppress(TypeError, ValueError):  # what is wrong with it is said by itself
                found[name] = index(_number_behind(value))
        return found


def _number_behind(value: Any) -> Any:
    """The number of an argument, or the one that it points at, as arguments of Fortran do."""
    if isinstance(value, Reference):
        value = value._obj
    elif isinstance(value, PointerOfCtypes):
        value = value.contents if value else None
    elif not hasattr(value, "value") and is_buffer(value):
        view: Any = memoryview(value)
        value = view.cast("B").cast(view.format)[0] if view.nbytes == view.itemsize else None
    return getattr(value, "value", value)


_DESCRIPTORS = ("array descriptor", "class descriptor")  # of Fortran, which no argument is


_NO_LAYOUTS: Mapping[str, str] = {}


def _parameter(
    text: str, type_text: str = "", layouts: Mapping[str, str] = _NO_LAYOUTS
) -> tuple[str, Any]:
    """Name and type of a parameter; the type is None if ctypes has none.

    Args:
        type_text: its type as a row has it.
        layouts: of structs that C passes by value, by their names.
    """
    p = functions_table.parameter(text)
    if text.lstrip().startswith(_DESCRIPTORS):
        return p.name, None
    if not p.pointer:
        number = number_of(list(p.words))
        if number is None and p.type_name in layouts:
            told = re.search(r":([0-9]+)$", type_text)
            number_of_bytes = int(told[1]) if told else 0
            return p.name, _by_value(p.text, p.type_name, layouts[p.type_name], number_of_bytes)
        return p.name, number_type(number) if number else None
    const = bool(re.search(r"\bconst\b", re.split(r"[*[]", text)[0]))
    element = number_of(list(p.words))
    is_function = re.search(functions_table.FUNCTION, p.text) is not None
    if p.indirect:
        of = p.text if is_function else _name_of(element)
        return p.name, _pointers(p.text, Pointed(of, const, p.depth), p.dims)
    if is_function:
        return p.name, Callback(p.text)
    if element is None:
        if type_text.endswith(functions_table.OBJECT):
            return p.name, Object(p.text, True) if "*" in p.text else None
        size, alignment = functions_table.memory_of(type_text)
        return p.name, Memory(p.text, const or not p.words, p.dims, size, alignment)
    return p.name, Pointer(p.text, element, const, p.dims)


def _by_value(declared: str, name: str, layout: str, size: int) -> Any:
    made = structure_of(name, layout, size)
    return None if made is None else ByValue(declared, made, layout)


def _pointers(declared: str, pointed: Pointed, dims: tuple[str, ...]) -> Memory:
    return Memory(declared, True, dims, POINTER_SIZE, 1, pointed)


def _name_of(element: Number | None) -> str:
    """As of `Pointed`; "" of what is no number."""
    return element.name if element is not None else ""


_WORD = rf"({functions_table.OBJECT}|:[0-9:]+)$"  # of ours behind a type


def of_texts(
    name: str,
    result: str,
    parameters: str,
    text: str,
    types: str = "",
    layouts: Mapping[str, str] = _NO_LAYOUTS,
) -> CDeclaration:
    """A function whose types are told in C.

    Args:
        result: type of the result, "" if it is unknown.
        parameters: in C, separated by commas; "?" if they are unknown.
        text: all of it, for people.
        types: of the parameters as a row has them, if that tells more.
        layouts: as of `_parameter`.
    """
    argtypes: list[Any] | None = None
    names: list[str] = []
    refusal: Refusal | None = None
    variadic = False
    if parameters != "?":
        found = functions_table.split(parameters)
        variadic = bool(found) and found[-1].strip() == "..."
        argtypes = []
        of_row = functions_table.split(types)
        for i, one in enumerate(found[:-1] if variadic else found):
            parameter, ctype = _parameter(one, of_row[i] if i < len(of_row) else "", layouts)
            if ctype is None:
                type_text = re.sub(_WORD, "", of_row[i]) if i < len(of_row) else one
                refusal = _no_type(f"parameter {i}", " ".join(type_text.split()))
                argtypes = None
                break
            argtypes.append(ctype)
            names.append(parameter)
    known, restype = result_of(result) if result else (False, None)
    if not known and result in layouts:
        restype = structure_of(result, layouts[result])
        known = restype is not None
    of_result = None
    if not known:
        of_result = _no_type("its result", result) if result else UNKNOWN_RESULT
    if argtypes is None and not refusal:
        refusal = Refusal("no prototype says what it takes", True) if result else UNKNOWN
    return CDeclaration(
        text,
        restype,
        argtypes=None if argtypes is None else tuple(argtypes),
        names=tuple(names),
        variadic=variadic,
        refusal=refusal or of_result,
        of_result=of_result,
    )


def _no_type(what: str, text: str) -> Refusal:
    reason = f"ctypes has no type for {what}, {text}"
    if re.search(r"\b(_?[Cc]omplex|complex<.*>)", text):
        return Refusal(f"{reason}, before Python 3.14", instead=_BY_POINTER)
    if re.search(r"\b(_Float16|__fp16|__bf16|__int128|_Float128|__float128)\b", text):
        return Refusal(reason, instead=_BY_POINTER)
    return Refusal(reason)


_BY_POINTER = "pack a C function that takes a pointer to the number, or to memory for the result"


def has_values(row: functions_table.Row) -> bool:
    """True if a function may take or return a struct by value."""
    result = row.prototype.partition("(")[0]
    of_values = (t for t in functions_table.split(row.types) if "*" not in t)
    return any(":" in t for t in of_values) or not result_of(result.rpartition(" ")[0])[0]


def of_row(row: functions_table.Row, layouts: Mapping[str, str] = _NO_LAYOUTS) -> CDeclaration:
    """A function as the table of its library has it.

    Args:
        layouts: as of `_parameter`.
    """
    start, end = row.prototype.find("("), row.prototype.rfind(")")
    if not 0 < start < end:
        types = "..." if row.types == "?" else row.types
        return of_texts(row.name, "", row.types, f"{row.name}({types})")
    result = row.prototype[:start].rstrip().removesuffix(functions_table.called(row.name))
    parameters = row.prototype[start + 1 : end]
    return of_texts(row.name, result.strip(), parameters, row.prototype, row.types, layouts)


def of_dwarf(name: str, function: Function) -> CDeclaration:
    parameters = [*(p.spelling for p in function.parameters), *["..."] * function.variadic]
    text = function.result.declaration(f"{name}({', '.join(parameters) or 'void'})")
    argtypes = [_parameter_of_dwarf(p) for p in function.parameters]
    ok, restype = _result_of_dwarf(function.result)
    refusal = of_result = None if ok else _no_type("its result", function.result.spelling)
    if not function.is_ordinary:
        refusal = of_result = Refusal("it is not called as C functions are")
    elif None in argtypes:
        i = argtypes.index(None)
        refusal = _no_type(f"parameter {i}", function.parameters[i].spelling)
    types = None if refusal else tuple(argtypes)
    return CDeclaration(text, restype, types, (), function.variadic, refusal, of_result)


def _number_of_dwarf(found: CType) -> Number | None:
    if found.kind == "enum":
        is_unsigned = found.target is not None and found.target.kind == "uint"
        return Number("uint" if is_unsigned else "int", found.size)
    if found.kind == "float" and found.size > 8:  # several have one size
        return number_of(found.base.split())
    is_number = found.kind in ("int", "uint", "char", "bool", "float", "complex")
    return Number(found.kind, found.size) if is_number else None


def _parameter_of_dwarf(found: CType) -> Any:
    """The entry of `argtypes` for a parameter; None if ctypes has no type for it."""
    if found.kind == "pointer" and found.target is not None:
        target = found.target
        if target.kind == "descriptor":
            return None
        rows = ["" if d is None else str(d) for d in target.dims]
        dims = tuple(rows or ["static 1"]) if found.is_reference else ("", *rows) if rows else ()
        const = target.text.startswith("const ")
        while target.dims and target.target is not None:
            target = target.target
        element = _number_of_dwarf(target)
        if element is not None:
            return Pointer(found.spelling, element, const, dims)
        if "(?)(" in target.text:
            return Callback(found.spelling)
        if target.kind == "pointer":
            return _pointers_of_dwarf(found.spelling, target, dims)
        if target.is_object:
            return None if found.is_reference else Object(found.spelling, True)
        size = target.size if target.kind == "record" else 0
        return Memory(found.spelling, const, dims, size, target.alignment or 1)
    if found.value is not None and found.kind == "record":
        return _by_value(found.spelling, found.spelling, found.layout, found.value.size)
    number = _number_of_dwarf(found)
    return number_type(number) if number else None


def _pointers_of_dwarf(declared: str, target: CType, dims: tuple[str, ...]) -> Memory:
    """The entry for a pointer to a pointer."""
    last, inner, depth = target, target.target, 2
    while inner is not None and inner.kind == "pointer":
        last, inner, depth = inner, inner.target, depth + 1
    if "(*?)(" in last.base:  # of a function
        declared = last.base.replace("*?", "*" * depth)
        return _pointers(declared, Pointed(declared, True, depth), dims)
    of = _name_of(_number_of_dwarf(inner)) if inner is not None else ""
    const = inner is not None and inner.text.startswith("const ")
    return _pointers(declared, Pointed(of, const, depth), dims)


def _result_of_dwarf(found: CType) -> tuple[bool, Any]:
    if found.kind == "void":
        return True, None
    if found.kind == "pointer" and found.target is not None:
        number = _number_of_dwarf(found.target)
        return True, pointer_result(number, found.target.text.startswith("const "))
    if found.value is not None and found.kind == "record":
        made = structure_of(found.spelling, found.layout, found.value.size)
        return made is not None, made
    number = _number_of_dwarf(found)
    restype = number and number.passed
    return restype is not None, restype
