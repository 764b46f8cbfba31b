"""A check that a prototype says what the source does, as far as debug information tells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mblob.argument_types import SIZES
from mblob.packager.compile.host_objects import LinkInput
from mblob.packager.conventions import ATTRIBUTES, REFUSED
from mblob.packager.errors import BuildError
from mblob.packager.modules.prototypes import Parameter, Prototype, Scalar

if TYPE_CHECKING:
    from mblob.binary.dwarf_functions import Function
    from mblob.binary.dwarf_types import CType
    from mblob.packager.functions.wrappers import Wrapped


def check_prototypes(wrapped: Sequence[Wrapped], files: Sequence[LinkInput]) -> None:
    """Refuse a prototype that says something else than the source does, and a function that is not
    called as C does, as far as the source, debug information or the symbol tells.

    Raises:
        BuildError: naming the function and the difference.
    """
    if not wrapped:
        return
    known = {function.name: function for f, _ in files for function in f.functions}
    for w in wrapped:
        name = w.prototype.name
        function = known.get(name)
        own = own_call(name, files)
        if own is not None or (function is not None and not function.is_ordinary):
            raise BuildError(f"functions: {name} {REFUSED.format(own or OWN_CALL)}")
        is_own = w.prototype.shim is None
        if function is not None and is_own and (difference := contradiction(w.prototype, function)):
            raise BuildError(
                f"functions: {name}: the prototype {difference}; write it as the source has it"
            )


def contradiction(prototype: Prototype, function: Function) -> str | None:
    """The difference between a prototype and the function that the source defines, None if calls
    through it are right.

    `const` may differ, it marks what the packed function takes for an input; `void *` may stand for
    any pointer. Neither changes what is passed.
    """
    found = function.parameters
    if function.is_guess:
        return None
    if len(prototype.parameters) != len(found) or function.variadic:
        types = ", ".join([*map(_text, found), *(["..."] if function.variadic else [])]) or "void"
        return f"has {_counted(len(prototype.parameters))}, the source has {len(found)}: ({types})"
    for i, (p, actual) in enumerate(zip(prototype.parameters, found)):
        where = f"parameter {i}" + (f" ({p.name})" if p.name else "")
        if not _same_parameter(p, actual, function.pointer_size):
            own = p.text if len(p.dims) > 1 else p.spelled.replace("?", "") or p.c_type
            old = _OLD_STYLE if function.is_old_style and p.kind == "scalar" else ""
            return f"{where} is {own!r}, the source has {_spelled(actual)}{old}"
    if not _same_result(prototype, function):
        return (
            f"returns {prototype.result_type!r}, the source's returns {_spelled(function.result)}"
        )
    return None


_OLD_STYLE = ", as its old-style definition takes float as double, and small integers as int"


def _counted(parameters: int) -> str:
    return f"{parameters} parameter{'' if parameters == 1 else 's'}"


def _spelled(found: CType) -> str:
    text = _text(found)
    if found.kind == "either":
        return f"{text!r}, unless it has VALUE there (debug information of gfortran -g -O1 -fno-lto tells)"
    return "another type" if text == _NAMELESS else repr(text)


_NAMELESS = "a type without a name"


def _text(found: CType) -> str:
    """A type as C spells it."""
    if "?" not in found.text or found.text.count("?") == found.text.count("(*?)(") == 1:
        return found.spelling
    rows = found.target
    if found.kind == "pointer" and rows is not None and rows.dims and rows.target is not None:
        dims = "".join(f"[{'*' if d is None else d}]" for d in rows.dims)
        return _NAMELESS if "?" in rows.target.text else f"{rows.target.text} (*){dims}"
    return _NAMELESS


def _same_parameter(p: Parameter, actual: CType, pointer_size: int) -> bool:
    if p.value is not None and actual.kind == "either" and actual.target is not None:
        actual = actual.target
    if actual.kind == "either":
        actual = actual._replace(kind="pointer")
    if p.kind == "scalar" or p.is_hidden:
        return _same_number(p.element, actual, pointer_size, by_value=True)
    if p.value is not None:
        return _same_value(p, actual)
    if actual.kind != "pointer" or actual.target is None:
        return False
    target = actual.target
    if not _same_rows(p, target) or not _same_kind_of_pointer(p, target):
        return False
    while target.kind == "other" and target.target is not None:  # rows of an array
        target = target.target
    if p.is_indirect or p.is_function:
        from mblob.packager.functions.pointer_types import may_be_one  # with pycparser

        return may_be_one(p.spelled, actual)
    if p.kind == "pointer" or target.kind in ("void", "record"):
        return True
    if target.kind == "other":
        return "(?)(" not in target.text  # a function
    if p.kind == "string":
        return target.size == 1
    if target.kind == "complex" and p.element.kind == "float":  # its parts
        return 2 * SIZES.get(p.element.name, 0) == target.size
    return _same_number(p.element, target, pointer_size, by_value=False)


def _same_value(p: Parameter, actual: CType) -> bool:
    """True if a type is passed by value as that of a parameter."""
    if actual.value is not None:
        return actual.value == p.value
    kind = "complex" if p.scalar else p.spelled.strip("_").removesuffix("128_t")
    return p.value is not None and (actual.kind, actual.size) == (kind, p.value.size)


def _same_kind_of_pointer(p: Parameter, target: CType) -> bool:
    """True if a pointer as a prototype spells it may point at a type, as far as the spelling tells:
    names may stand for anything."""
    if p.is_function:
        return target.kind in ("other", "void")
    if p.is_indirect:
        return target.kind in ("pointer", "other", "void")
    if "struct " in p.spelled or "union " in p.spelled:
        return target.kind in ("record", "other", "void")
    return True


def _same_rows(p: Parameter, target: CType) -> bool:
    """True if the rows of an array are as long in both, as far as both say so. An array of fewer or
    more dimensions is the same memory seen in another way."""
    dims = [int(d.text) if d.text.isdigit() else None for d in p.dims[1:]]
    return len(dims) != len(target.dims) or all(
        None in pair or pair[0] == pair[1] for pair in zip(dims, target.dims)
    )


def _same_result(prototype: Prototype, function: Function) -> bool:
    if prototype.scalar is not None:
        return _same_number(prototype.scalar, function.result, function.pointer_size, by_value=True)
    if prototype.returned is not None:
        return _same_value(prototype.returned, function.result)
    wanted = "pointer" if prototype.result == "string" else prototype.result
    return function.result.kind == wanted


def _same_number(scalar: Scalar, actual: CType, pointer_size: int, by_value: bool) -> bool:
    """True if the target sees one type in both: same size, same kind."""
    size = scalar.size(pointer_size)
    if size is not None and size != actual.size:
        return False
    if not by_value and size == 2 and scalar.kind in ("float", "bfloat") and actual.kind == "uint":
        return True  # where compilers have no such type, kernels read its bits
    if scalar.kind in ("float", "bfloat"):
        return actual.kind == "float"
    if "char" in (scalar.kind, actual.kind) or actual.kind == "enum":
        return actual.kind in ("int", "uint", "char", "enum")
    if not by_value and "bool" in (scalar.kind, actual.kind):  # tensors of bool hold bytes
        return actual.kind in ("bool", "int", "uint")
    return scalar.kind == actual.kind


OWN_CALL = " in the source (an attribute such as ms_abi or vectorcall)"


def own_call(name: str, files: Sequence[LinkInput]) -> str | None:
    """The file and the mark by which a function is not called as C does, None without a mark."""
    for f, contents in files:
        machine = "" if contents.machine is None else contents.machine.name
        attribute = f.own_calls.get(name)
        if attribute in ATTRIBUTES.get(machine, ()):
            return f" in {f.label} ({attribute})"
        if name in contents.own_calls:
            return f" in {f.label} (its symbol says so)"
    return None
