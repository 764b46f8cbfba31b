"""The prototype of a function as debug information tells it, or why a packed function cannot call it, with what to give
instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mblob.argument_types import HALVES, Value
from mblob.format.functions_table import WORDS
from mblob.named_tuple import NamedTuple
from mblob.packager.compile.host_objects import HostFile, LinkInput
from mblob.packager.conventions import REFUSED
from mblob.packager.errors import NotCallable
from mblob.packager.functions.callers import caller_of
from mblob.packager.functions.library_objects import (
    class_name,
    is_left_behind,
    without_objects,
)
from mblob.packager.functions.number_names import in_c, scalar_of
from mblob.packager.functions.prototype_check import OWN_CALL, own_call
from mblob.packager.modules.prototypes import (
    Dim,
    Parameter,
    Prototype,
    Scalar,
    as_const,
    number_dim,
)

if TYPE_CHECKING:
    from mblob.binary.dwarf_functions import Function
    from mblob.binary.dwarf_types import CType


# Types of elements in descriptors of arrays, by their kinds: bt in libgfortran.h.
BASES = {"int": 1, "uint": 1, "bool": 2, "float": 3, "complex": 4}


def prototype_or_reason(
    function: Function, file: HostFile, files: Sequence[LinkInput]
) -> Prototype | str:
    """The prototype of a function, or the reason why no packed function can call it, and what to do; "" if its
    types are not known.

    Args:
        file: it is one of.
        files: all that may tell how it is called.
    """
    try:
        check_callable(function, file, files)
        if function.is_guess:
            return ""
        found = with_places(function, file)
        if file.own:
            prototype_of(without_objects(found), found)  # what shims do not help with is the reason
        return prototype_of(found)
    except NotCallable as exc:
        return str(exc)


def check_callable(function: Function, file: HostFile, files: Sequence[LinkInput]) -> None:
    """Refuse what the types of a function do not tell.

    Raises:
        NotCallable: its calling convention is no ordinary one, or Fortran passes a descriptor.
    """
    own = own_call(function.name, files)
    if own is not None or not function.is_ordinary:
        raise NotCallable(f"it {REFUSED.format(own or OWN_CALL)}")
    dummies = file.dummies.get(function.source_name, {})
    for i, (dummy, found) in enumerate(zip(function.names, function.parameters)):
        is_pointer = function.source_name and _points_at_pointer(found)
        if is_pointer or (dummy in dummies and dummies[dummy].is_pointer):
            of_result = f"its result is a pointer or allocatable: give {OUT_SUBROUTINE}"
            raise NotCallable(
                of_result if dummy == "__result"
                else f"parameter {i} ({dummy}) is a pointer or allocatable: {OTHER_SUBROUTINE.format('is neither')}"
            )  # fmt: skip


def _points_at_pointer(found: CType) -> bool:
    """True if a parameter of Fortran is a pointer or allocatable, but no procedure."""
    target = found.target
    return (
        found.kind in ("pointer", "either")
        and target is not None
        and target.kind == "pointer"
        and (target.target is None or target.target.kind not in ("void", "other"))
    )


def with_places(function: Function, file: HostFile) -> Function:
    """A function with what the source of Fortran says of how arguments are passed."""
    if not function.source_name:
        return function
    from mblob.packager.functions.fortran_prototypes import with_places

    return with_places(function, file.dummies.get(function.source_name, {}))


def prototype_of(function: Function, called: Function | None = None) -> Prototype:
    """The prototype of a plain function.

    Args:
        called: the function in the source, if it has other types.

    Raises:
        NotCallable: a packed function cannot call it.
    """
    try:
        return _prototype_of(function)
    except NotCallable as exc:
        line = caller_of(called or function)
        raise NotCallable(f"{exc}{': ' * bool(line)}{line}") from None


class _Remedies(NamedTuple):
    """The functions that errors advise to give in the place of another.

    Attributes:
        takes, writes: for an argument, and for a result, that is passed by value.
        takes_object, writes_object: the same for an object of C++.
        narrow: for a number that no argument has the size of.
    """

    takes: str
    writes: str
    takes_object: str
    writes_object: str
    narrow: str


_IN_C = _Remedies(
    "a function that takes a pointer to it",
    "a function that writes it to a pointer",
    "a function that takes numbers, texts and arrays, and makes the object",
    "a function that writes what is in it to arrays",
    "a function of double",
)
_IN_FORTRAN = _IN_C._replace(
    takes="a procedure that takes it without VALUE",
    writes="a subroutine that writes it to an argument",
    narrow="a procedure of real(8)",
)
OUT_SUBROUTINE = "a subroutine that calls it, and writes the result to an argument"
OTHER_SUBROUTINE = "give a subroutine whose argument {}, and that calls it"


def _prototype_of(function: Function) -> Prototype:
    if function.is_guess or "other" in (p.kind for p in function.parameters if p.text == "?"):
        raise NotCallable(
            "debug information does not tell its types: give its prototype, as"
            f" functions=['void {function.called}(...)']"
        )
    if function.variadic:
        raise NotCallable("it is variadic: give a function with a fixed list of parameters")
    if is_left_behind(function):
        raise NotCallable(
            "its result may lie in an object that a call makes of an argument: give a function that returns a copy"
        )
    names = (n if n.isidentifier() and n not in WORDS else "" for n in function.names)
    remedies = _IN_FORTRAN if function.source_name else _IN_C
    if any(t.library and class_name(t.library) for t in (*function.parameters, function.result)):
        remedies = _IN_C._replace(
            takes_object=f"its source in place of the object, or {_IN_C.takes_object}",
            writes_object=f"its source in place of the object, or {_IN_C.writes_object}",
        )
    found = tuple(
        _parameter(p, name, i, remedies)
        for i, (p, name) in enumerate(zip(function.parameters, names))
    )
    mangled = function.name if function.qualified else ""
    name = function.qualified or function.name
    if (returned := by_value(function.result, "it")) is not None:
        return Prototype(name, "value", None, returned.spelled, found, mangled, returned=returned)
    return Prototype(name, *_result(function.result, remedies), found, mangled)


def by_value(found: CType, name: str) -> Parameter | None:
    """A value that no argument is, as a packed function takes its address: a struct, a complex number, or an
    integer of 128 bits; None of other types, and of what C passes in a way that is not known."""
    one = (number_dim(1),)
    scalar = scalar_of(found)
    if scalar is not None and scalar.kind == "complex":
        value = found.value if _CLASS in found.text else Value(scalar.name, found.size, 0)
        if value is None:
            return None
        return Parameter(name, "tensor", scalar, True, one, scalar.name, value=value)
    spelled = found.text.removeprefix("const ")
    if found.kind in ("int", "uint") and found.size == 16 and "int128" in found.base:
        spelled = f"__{found.kind}128_t"
        return Parameter(name, "pointer", None, True, one, spelled, 16, value=Value(spelled, 16, 0))
    is_named = not any(c in spelled for c in "?<")
    if found.kind != "record" or found.value is None or found.is_object or not is_named:
        return None
    return Parameter(
        name, "pointer", None, True, one, spelled, found.size, layout=found.layout, value=found.value
    )  # fmt: skip


_CLASS = "std::complex<"


def _parameter(found: CType, name: str, index: int, remedies: _Remedies) -> Parameter:
    where = f"parameter {index}" + (f" ({name})" if name else "")
    if found.kind == "either":
        raise NotCallable(
            f"{where} is passed by its address unless it has VALUE: compile with gfortran -g -O1 -fno-lto, which tells"
        )
    if found.kind != "pointer":
        if (value := by_value(found, name or f"x{index}")) is not None:
            return value
        scalar = scalar_of(found)
        if scalar is None or scalar.kind == "complex":
            raise NotCallable(
                f"{where} is {_described(found, remedies.takes, remedies.takes_object, remedies.narrow)}"
            )
        return Parameter(name, "scalar", scalar)
    target = found.target
    if target is None:
        return Parameter(name, "pointer")
    base = BASES.get(target.target.kind) if target.kind == "shape" and target.target else None
    if base and target.target and (scalar := scalar_of(target.target)):
        shape = (Dim(None, ""),) * len(target.dims)
        return Parameter(name, "tensor", scalar, dims=shape, descriptor=base)
    if target.kind in ("shape", "descriptor") and name == "__result":
        raise NotCallable(f"its result is an array: give {OUT_SUBROUTINE}, such as r(n)")
    if target.kind in ("shape", "descriptor"):
        shown = f"parameter {index} ({name.lstrip('_')})"
        if "class" in target.text:
            raise NotCallable(
                f"{shown} is polymorphic: {OTHER_SUBROUTINE.format('is of one type')}"
            )
        raise NotCallable(
            f"{shown} is a Fortran array descriptor: declare it with explicit or assumed size, a(n) or"
            f" a(*), or {OTHER_SUBROUTINE.format('is so')}"
        )
    of = target.target if target.dims and target.target is not None else target
    if of.is_object and not found.is_reference and not target.dims:
        spelled = "" if "?" in found.text else found.text
        const = target.text.startswith("const ")
        return Parameter(name, "pointer", const=const, spelled=spelled, is_object=True)
    if of.is_object:
        raise NotCallable(
            f"{where} is {found.spelling}, an object of C++: give {remedies.takes_object}, or, to pass its address,"
            f" its prototype with void *{name}"
        )
    is_const = target.text.startswith("const ")
    dims: tuple[Dim, ...] = ()
    one = (number_dim(1)._replace(at_least=True),) if found.is_reference else ()
    element = target
    if target.dims and target.target is not None:  # float (*x)[64]: rows
        element = target.target
        if None not in target.dims:
            dims = tuple(number_dim(d) for d in target.dims if d is not None)
            dims = dims if one else (Dim(None, ""), *dims)
        is_const = is_const or element.text.startswith("const ")
    scalar = scalar_of(element)
    if scalar is None:
        is_function = target.text.count("?") == 1 and "(?)(" in target.text
        if "(kind=" in element.base and "(?)" not in element.base:  # 16 bytes, or 10
            raise NotCallable(
                f"{where} is {element.base}, which no argument is: give {_of_fortran(element.kind)}"
            )
        spelled = in_c(target.declaration("*?" if is_function else "*"))
        if "&" in spelled or target.kind == "void" or ("?" in target.text and not is_function):
            spelled = ""
        if target.dims:
            spelled = element.declaration("*") if "?" not in element.text else ""
            spelled = as_const(spelled) if is_const else spelled
        elif target.kind == "pointer":
            spelled = _pointer_to_pointers(target)
        is_record = element.kind == "record"
        size, alignment = (element.size, element.alignment) if is_record else (0, 0)
        dims = dims if size or (element.kind == "pointer" and spelled) else ()
        layout = found.layout if size and spelled else ""
        return Parameter(
            name, "pointer", None, is_const, dims or one, spelled, size, alignment, layout=layout
        )
    if one and not dims:
        is_number = is_const and scalar.kind != "complex" and scalar.name not in HALVES
        return Parameter(name, "number" if is_number else "tensor", scalar, is_const, one)
    if scalar.kind == "char" and is_const and not dims:
        return Parameter(name, "string", None, True)
    return Parameter(name, "tensor", scalar, is_const, dims)


def _of_fortran(kind: str) -> str:
    """A procedure that takes the largest number of a kind that an argument may be."""
    word = {"float": "real", "complex": "complex"}.get(kind, "integer")
    return f"a procedure of {word}(8)"


def _pointer_to_pointers(target: CType) -> str:
    """The spelling of a pointer to pointers, as of `Parameter`, which shows through typedefs what these
    point at; "" where C has none that can be told."""
    text, own = target.text, target.base
    is_const = text == f"{own} const" or (text != own and text.startswith("const "))
    if "*?)(" in own and own.count("?") == 1:
        return own.replace("*?", "*const *?" if is_const else "**?")
    return "" if "?" in own or "&" in own else f"{own} const *" if is_const else f"{own}*"


def _described(found: CType, remedy: str, of_object: str, narrow: str) -> str:
    """A type that no argument is passed as, and what to do: as of `_Remedies`."""
    text = found.spelling
    # a class of a template, such as std::string_view
    if found.is_object or (found.kind == "record" and "<" in found.base):
        return f"{text} by value, an object of C++: give {of_object}"
    if found.kind == "record":
        shown = "a struct" if text == "?" else text
        return f"{shown} by value: give {remedy}"
    if found.kind == "complex":
        return f"{text} by value: complex numbers are passed in arrays, so give {remedy}"
    return f"{text}, which no argument is: give {narrow if found.kind == 'float' else remedy}"


def _result(found: CType, remedies: _Remedies) -> tuple[str, Scalar | None, str]:
    if found.kind == "void":
        return "void", None, "void"
    if found.kind in ("pointer", "either"):
        text = found.text
        if found.target is not None and found.target.kind == "char" and text == "const char *":
            return "string", None, text
        return "pointer", None, "void *" if "?" in text or "&" in text else text
    scalar = scalar_of(found)
    if scalar is None or scalar.kind == "complex":
        found_type = _described(found, remedies.writes, remedies.writes_object, remedies.narrow)
        raise NotCallable(f"its result is {found_type}")
    return "scalar", scalar, scalar.name
