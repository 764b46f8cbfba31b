"""Functions of C++ that have one name: which of them a caller's prototype is of, and how calls choose."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mblob.binary.dwarf_types import in_cxx
from mblob.format.functions_table import parameters
from mblob.packager.functions.library_objects import shown_class
from mblob.packager.modules.prototypes import Prototype

if TYPE_CHECKING:
    from mblob.binary.dwarf_functions import Function
    from mblob.binary.dwarf_types import CType

_CONST = ("const", "volatile", "restrict", "__restrict")
_TAGS = ("struct", "union", "enum", "class", "signed")


def of_text(text: str, functions: Sequence[Function]) -> Function | None:
    """The one whose types have the names of a prototype; None if that is none of them, or several.

    Args:
        functions: those that a call through the prototype would be right for, as far as sizes and kinds tell.
    """
    if len(functions) < 2:
        return next(iter(functions), None)
    declared = [p.type_text for p in parameters(text)]
    ranked = sorted(((_likeness(declared, f), i) for i, f in enumerate(functions)), reverse=True)
    (best, i), (second, _) = ranked[:2]
    return functions[i] if best > second else None


def _likeness(declared: Sequence[str], function: Function) -> tuple[int, int]:
    """The number of parameters that have the declared types; and of those that have `const` and `&`, too."""
    pairs = [(text, t.text) for text, t in zip(declared, function.parameters)]
    exact = sum(_words(a) == _words(b) for a, b in pairs)
    return sum(_plain(a) == _plain(b) for a, b in pairs), exact


def _words(text: str) -> list[str]:
    """The words of a type, without those that C++ needs not have."""
    text = re.sub(r"\b\w+\s*::\s*|\?", "", text)
    words = re.findall(r"\w+|\[[^\]]*\]|\S", text)
    numbers = {"long", "short", "unsigned"}
    dropped = {*_TAGS, "int"} if numbers.intersection(words) else set(_TAGS)
    return ["*" if w[0] == "[" else w for w in words if w not in dropped]


def _plain(text: str) -> list[str]:
    return ["*" if w == "&" else w for w in _words(text) if w not in _CONST]


def shown_type(found: CType) -> str:
    """The type of a parameter in the name of an overload."""
    text = shown_class(found) or re.sub(r"\b(?:struct|union|enum|class) ", "", found.spelling)
    return in_cxx(text)


def chooser(name: str, overloads: Sequence[Prototype]) -> Prototype | None:
    """The function of a name that calls the one of several that the arguments fit, or the only one; None if nothing
    would tell what the bytes of the result are."""
    overloads = sorted(overloads, key=lambda o: o.name)
    first = overloads[0]
    if len(overloads) == 1:
        return first._replace(name=name)
    types = {o.result_type for o in overloads}
    if len(types) > 1 and not {"value", "made"}.isdisjoint(o.result for o in overloads):
        return None
    result = first.result_type if len(types) == 1 else "auto"
    comment = "\n".join(
        ["It calls the function that the arguments fit:", *(o.name for o in overloads)]
    )
    return Prototype(
        name, "chosen", None, result, (), first.mangled, first.origin, comment, overloads=tuple(overloads)
    )  # fmt: skip
