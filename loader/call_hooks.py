"""Functions of Python that the compiled module `_call` calls when it comes to tensors, devices,
functions of tvm_ffi, and arguments that do not fit. Few calls of a kernel need them."""

from __future__ import annotations

import ctypes
from functools import lru_cache, partial
from keyword import iskeyword
from typing import Any

from mblob.devices import Device
from mblob.dtype import TypeName
from mblob.errors import ArgumentTypeError, MblobError
from mblob.format.functions_table import called, parameters
from mblob.loader import by_value, c_memory, prototype
from mblob.loader.c_arguments import complex_type
from mblob.loader.c_callbacks import mismatch as mismatch
from mblob.loader.c_callbacks import not_of_ctypes as not_of_ctypes
from mblob.loader.c_characters import characters as characters
from mblob.loader.c_functions import comment_of, layouts_of
from mblob.loader.c_functions import declared as declared_in_c
from mblob.loader.c_memory import Memory, Pointed, check_layout
from mblob.loader.c_memory import pointed as pointed
from mblob.loader.c_memory import without_overlaps as without_overlaps
from mblob.loader.ffi_values import function_object as function_object
from mblob.loader.ffi_values import stand_in as stand_in
from mblob.loader.handle import Handle
from mblob.loader.opened import OpenedNode, prototype_of
from mblob.loader.prototype import ANY
from mblob.loader.tensor import Shape, Tensor, empty

DATA_TYPE = 5  # kTVMDataType


def classes() -> tuple[type[Device], type[Tensor], type[Shape]]:
    return Device, Tensor, Shape


def declared(owner: OpenedNode, name: str, i: int) -> tuple[str, str]:
    known = parameters(prototype_of(owner, name))
    if i < 0:
        return "", ", ".join(p.text for p in known)
    return (known[i].name, known[i].text) if i < len(known) else ("", "")


def doc(owner: OpenedNode, name: str) -> str | None:
    """The text that `help` shows of a function: its prototype, and the comment above it in its
    source; None if its file, which both are in, was written over before it was read."""
    try:
        prototype = prototype_of(owner, name)
    except MblobError:
        return None
    comment = comment_of(owner, name) if prototype else ""
    of_cxx = {
        line.partition(": ")[0]
        for line in comment.split("\n")
        if ": std::" in line.replace("const ", "")
    }
    may_be_null = [
        p.name
        for p in parameters(prototype)
        if p.name and p.is_memory and (not p.dims or p.dims[0] in ANY) and p.name not in of_cxx
    ]
    null = f"None is the null pointer for {', '.join(may_be_null)}." if may_be_null else ""
    return "\n\n".join(filter(None, (prototype, comment, null))) or None


def signature(owner: OpenedNode, name: str) -> Any:
    """The `inspect.Signature` of a function; None if its prototype is not known. Annotations are C types."""
    import inspect  # 10 ms, and few programs ask

    text = prototype_of(owner, name)
    if "(" not in text or text.endswith("(...)"):
        return None
    known = [
        inspect.Parameter(
            p.name if p.name and not iskeyword(p.name) else f"arg{i}",
            inspect.Parameter.POSITIONAL_ONLY,
            annotation=p.type_text,
        )
        for i, p in enumerate(parameters(text))
    ]
    result = text.partition("(")[0].rstrip().removesuffix(called(name)).strip()
    return inspect.Signature(known, return_annotation=result or inspect.Signature.empty)


def addresses(items: Any, pointed: tuple[str, bool, int], place: str) -> Any:
    """As of `c_memory.addresses`."""
    return c_memory.addresses(items, Pointed(*pointed), place)


def no_addresses(found: str, pointed: tuple[str, bool, int], declared: str) -> str:
    return str(Pointed(*pointed).refusal(found, declared))


def by_reference(given: Any) -> Any:
    """The object that `ctypes.byref(object)` refers to."""
    found = given._obj
    if ctypes.cast(given, ctypes.c_void_p).value != ctypes.addressof(found):
        raise ArgumentTypeError(
            "ctypes.byref(x, offset) is no argument; pass a ctypes.pointer to the part of x"
        )
    return found


def one_complex(number: Any, parameter: tuple[str, str], place: str) -> memoryview | None:
    """An array with a number in it, for a function that reads one complex number; None if it may read
    more.

    Args:
        parameter: the type of its elements, and the parameter as the prototype has it.
        place: what errors begin with.
    """
    dtype, declared = parameter
    is_value = "*" not in declared and "[" not in declared
    if not (is_value or declared.endswith("[static 1]")):
        return None
    made = empty((1,), dtype)
    try:
        parts = complex_type(made.nbytes).from_param(number)
    except MblobError as exc:
        exc.prefix(place)
        raise
    ctypes.memmove(made.data_ptr(), ctypes.byref(parts), ctypes.sizeof(parts))
    return memoryview(made)


def int128(number: Any, declared: str, place: str) -> bytes | None:
    """As of `by_value.int128`, for a call."""
    try:
        return by_value.int128(number, declared)
    except MblobError as exc:
        exc.prefix(place)
        raise


def returned(owner: OpenedNode, name: str, data: bytes) -> Any:
    """The value that a function returned as bytes."""
    layouts = partial(_layout, owner)
    return by_value.value_of(prototype_of(owner, name), layouts, data)


def _layout(owner: OpenedNode, name: str) -> str:
    return layouts_of(owner).get(name, "")


_parameters = lru_cache(256)(parameters)


def check_record(owner: OpenedNode, place: tuple[str, str, int, int], value: Any) -> bool:
    """Compare the fields of structs with those of the structs that a parameter points at. True of an array of
    numpy with structs of the same size.

    Args:
        place: name of the function, the name that errors show, index of the parameter, bytes of its struct.
    """
    name, shown, i, size = place
    known = _parameters(prototype_of(owner, name))
    if i >= len(known):
        return False
    try:
        check_layout(value, known[i].text, size, partial(layouts_of, owner))
    except MblobError as exc:
        exc.prefix(prototype.argument(shown, i, known[i]))
        raise
    return getattr(value, "itemsize", 0) == size


def tensor_advice(owner: OpenedNode, text: str) -> str:
    return (
        f"; for the tensor of that name pass lib.tensors[{text!r}]"
        if text in owner.module.tensors
        else ""
    )


def result_value(code: int, value: Any) -> Any:
    return TypeName(value) if code == DATA_TYPE else Handle(value)


def check_bound(
    owner: OpenedNode, name: str, shown: str, given: tuple[Any, ...], args: tuple[Any, ...]
) -> None:
    """As `prototype.check`, and of pointers to structs.

    Args:
        given: of each tensor its shape.
        args: as they are.
    """
    text = prototype_of(owner, name)
    numbers = prototype.check(text, shown, given)
    known = parameters(text)
    if not any(p.is_memory for p in known):
        return
    types = declared_in_c(owner, name).argtypes or ()
    for i, (parameter, ctype, value) in enumerate(zip(known, types, args)):
        if isinstance(ctype, Memory) and len(types) == len(args):
            try:
                ctype.check_shape(value, numbers)
            except MblobError as exc:
                exc.prefix(prototype.argument(shown, i, parameter))
                raise


def check_shape(owner: OpenedNode, name: str, shown: str, i: int, shape: tuple[int, ...]) -> None:
    prototype.check_shape(prototype_of(owner, name), shown, i, shape)
