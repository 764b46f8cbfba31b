"""Functions to write: each calls one that no packed function can call, and can be called itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mblob.packager.functions.library_objects import shown_class
from mblob.packager.functions.number_names import scalar_of

if TYPE_CHECKING:
    from mblob.binary.dwarf_functions import Function
    from mblob.binary.dwarf_types import CType

_LONGEST = 132  # characters of a line in Fortran
_CXX_COMPLEX = "std::complex<"
_STRING_VIEW = ("basic_string_view<char,", "basic_string_view<char>")  # which is made of a text


def caller_of(function: Function) -> str:
    """A function that calls a plain one, and takes and returns what arguments and results can be; "" if
    none can be declared."""
    if function.source_name:
        return _of_fortran(function)
    if function.variadic or function.is_guess:
        return ""
    *namespaces, name = function.called.split("::")
    return caller(
        name, name, function.result, [*zip(function.parameters, function.names)], namespaces
    )


def caller(
    name: str,
    called: str,
    result: CType,
    parameters: Sequence[tuple[CType, str]],
    namespaces: Sequence[str] = (),
    *,
    first: str = "",
) -> str:
    """A function in C or C++; "" if a type cannot be written there.

    Args:
        name: the new one is `call_NAME`.
        called: what stands in front of the arguments.
        parameters: types and names of what is passed.
        namespaces: around both.
        first: a parameter in front of these, which is not passed.
    """
    types = [result, *(found for found, _ in parameters)]
    # classes of the standard library, which the new function may have
    objects = [shown_class(found).removesuffix(" &&") for found in types]
    all_types = [
        t for t, made in zip(types, objects) if not made and not (t is not result and _is_text(t))
    ]
    if any(t.is_object or (t.target is not None and t.target.is_object) for t in all_types):
        return ""  # no argument is an object of C++
    declared, passed = [first] * bool(first), []
    for i, (found, own_name) in enumerate(parameters):
        own = own_name or f"x{i}"
        is_text = _is_text(found)
        made = "" if is_text else objects[i + 1]
        pointed = "" if is_text or made else _pointed(found)
        text = f"const char *{own}" if is_text else _number(found, own)
        if made:
            text = f"{made}{own}" if made.endswith("&") else f"{made} {own}"
        declared.append(f"const {pointed} *{own}" if pointed else text)
        is_moved = made and found.library is not None and found.library.is_moved
        passed.append(f"*{own}" if pointed else f"std::move({own})" if is_moved else own)
    call = f"{called}({', '.join(passed)})"
    if objects[0]:
        head, body = f"{objects[0].removeprefix('const ').removesuffix(' &')} ", f"return {call}"
    elif pointed := _pointed(result):
        declared.append(f"{pointed} *result")
        head, body = "void ", f"*result = {call}"
    elif result.kind == "void":
        head, body = "void ", call
    else:
        head, body = _number(result, ""), f"return {call}"
        head += " " * (not head.endswith("*"))
    text = f"{head}call_{name}({', '.join(declared) or 'void'}) {{ {body}; }}"
    names = text.replace(called, name).replace(_CXX_COMPLEX, "")
    for made in filter(None, objects):
        names = names.replace(made.removeprefix("const ").removesuffix(" &"), "")
    if "?" in text or "<" in names or len(set(passed)) < len(passed):
        return ""
    for scope in reversed(namespaces):
        text = f"namespace {scope} {{ {text} }}"
    return text


def _is_text(found: CType) -> bool:
    """True of a std::string_view, or of a reference to a constant one."""
    target = found.target if found.is_reference else None
    if target is not None and target.text.startswith("const "):
        found = target
    return found.base.startswith(_STRING_VIEW)


def _pointed(found: CType) -> str:
    """The type of a value that is passed by its address instead; "" if it need not be."""
    text = found.text.removeprefix("const ")
    if found.kind == "complex" and _CXX_COMPLEX not in text:
        scalar = scalar_of(found)
        return scalar.name if scalar is not None else "?"
    if found.kind in ("int", "uint") and found.size > 8:  # __int128, which no argument is
        return text
    if found.kind == "record" and "<" in found.base:
        return "?"  # what names a class of a template, names none of its namespaces
    return text if found.kind in ("complex", "record") else ""


def _number(found: CType, name: str) -> str:
    """A declaration; numbers that are no arguments are narrower."""
    if found.size > 8 and found.kind == "float":
        return f"double {name}".rstrip()
    return found.declaration(name)


def _of_fortran(function: Function) -> str:
    *modules, name = function.source_name.split("::")
    dummies = [_fortran_type(p) for p in function.parameters]
    # Only an interface tells how arguments are passed that are not by address.
    is_known = bool(modules) or all(p.kind == "pointer" for p in function.parameters)
    result = function.result
    if None in dummies or not is_known or result.kind != "float":
        return ""
    names = ", ".join(function.names)
    types = [f"{t[0]} :: {own}{t[1]}" for t, own in zip(dummies, function.names) if t]
    types.append("real(8) :: result")
    if not modules:
        types.append(f"{_short(result)} :: {name}")
    text = (
        f"subroutine call_{name}({names}{', ' * bool(names)}result); {'; '.join(types)};"
        f" result = {name}({names}); end"
    )
    return text if len(text) <= _LONGEST else ""


def _short(found: CType) -> str:
    return found.text.replace("kind=", "")


def _fortran_type(found: CType) -> tuple[str, str] | None:
    """The type of a dummy argument, and what stands behind its name; None if debug information does not
    tell, or if no argument has it."""
    is_value = found.kind != "pointer"
    target = found if is_value else found.target
    if target is None or target.kind not in ("int", "float", "complex") or target.size > 16:
        return None
    if target.kind == "float" and target.size > 8:
        return None
    return _short(target) + ", value" * is_value, "(*)" if found.dims else ""
