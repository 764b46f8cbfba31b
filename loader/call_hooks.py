"""What the compiled module `_call` asks of Python when it comes to tensors, devices, functions of
tvm_ffi, and arguments that do not fit: few calls of a kernel do."""

from __future__ import annotations

from typing import Any

from mblob.devices import Device
from mblob.dtype import TypeName
from mblob.format.functions_table import parameters
from mblob.loader import prototype
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
