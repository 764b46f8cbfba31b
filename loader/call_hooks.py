"""What the compiled module `_call` asks of Python when it comes to tensors, devices, functions of
tvm_ffi, and arguments that do not fit: few calls of a kernel do."""

from __future__ import annotations

import ctypes
from keyword import iskeyword
from typing import Any

from mblob import texts
from mblob.devices import Device
from mblob.dtype import TypeName
from mblob.errors import ArgumentTypeError, ArgumentValueError, MblobError
from mblob.format.functions_table import parameters
from mblob.loader import prototype
from mblob.loader.c_functions import comment_of
from mblob.loader.ffi_values import function_object as function_object
from mblob.loader.ffi_values import stand_in as stand_in
from mblob.loader.handle import Handle
from mblob.loader.opened import OpenedNode, prototype_of
from mblob.loader.tensor import Shape, Tensor

DATA_TYPE = 5  # kTVMDataType


def classes() -> tuple[type[Device], type[Tensor], type[Shape]]:
    return Device, Tensor, Shape


def declared(owner: OpenedNode, name: str, i: int) -> tuple[str, str]:
    known = parameters(prototype_of(owner, name))
    if i < 0:
        return "", ", ".join(p.text for p in known)
    return (known[i].name, known[i].text) if i < len(known) else ("", "")


def doc(owner: OpenedNode, name: str) -> str | None:
    """What `help` shows of a function: its prototype, and the comment above it in its source; None if its
    file, which both are in, was written over before it was read."""
    try:
        prototype = prototype_of(owner, name)
    except MblobError:
        return None
    comment = comment_of(owner, name) if prototype else ""
    return f"{prototype}\n\n{comment}" if comment else prototype or None


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
    result = text.partition("(")[0].rstrip().removesuffix(name).strip()
    return inspect.Signature(known, return_annotation=result or inspect.Signature.empty)


def by_reference(given: Any) -> Any:
    """The object that `ctypes.byref(object)` refers to."""
    found = given._obj
    if ctypes.cast(given, ctypes.c_void_p).value != ctypes.addressof(found):
        raise ArgumentTypeError(
            "ctypes.byref(x, offset) is no argument; pass a ctypes.pointer to the part of x"
        )
    return found


def addresses(arrays: Any, dtype: str, place: str) -> Any:
    """The addresses of arrays, for a pointer to pointers. What it gives keeps the arrays.

    Raises:
        ArgumentTypeError, ArgumentValueError: an item is no compact array, or of another type.
    """
    import numpy as np

    found: list[int | None] = []
    kept = []
    for i, item in enumerate(arrays):
        if item is None:
            found.append(None)
            continue
        array = item.numpy() if isinstance(item, Tensor) else item
        if not isinstance(array, np.ndarray):
            expected = f"an array of {dtype}" if dtype else "an array"
            text = texts.say(texts.EXPECTED, expected, type(item).__name__)
            raise ArgumentTypeError(f"{place}: item {i}: {text}")
        if dtype and array.dtype != dtype:
            text = texts.say(texts.DTYPE_OF_ARRAY, dtype, str(array.dtype), dtype)
            raise ArgumentTypeError(f"{place}: item {i}: {text}")
        if not array.flags.c_contiguous:
            raise ArgumentValueError(f"{place}: item {i}: {texts.COMPACT}")
        found.append(array.ctypes.data)
        kept.append(array)
    made: Any = (ctypes.c_void_p * len(found))(*found)
    made.kept = kept
    return made


def tensor_advice(owner: OpenedNode, text: str) -> str:
    return (
        f"; for the tensor of that name pass lib.tensors[{text!r}]"
        if text in owner.module.tensors
        else ""
    )


def result_value(code: int, value: Any) -> Any:
    return TypeName(value) if code == DATA_TYPE else Handle(value)


def check_bound(owner: OpenedNode, name: str, shown: str, given: tuple[Any, ...]) -> None:
    prototype.check(prototype_of(owner, name), shown, given)


def check_shape(owner: OpenedNode, name: str, shown: str, i: int, shape: tuple[int, ...]) -> None:
    prototype.check_shape(prototype_of(owner, name), shown, i, shape)
