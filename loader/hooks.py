"""Tells the compiled modules about our Python classes, once, when `loader` is imported.

The top of the loader: it imports the others, none of them imports it.
"""

from __future__ import annotations

from loader import _call, status
from loader.opened import OpenedNode, adopt
from loader.runtime import address_of, ffi
from loader.tensor import Tensor
from mblob.devices import Device
from mblob.module import Module


def _module_handle(module: Module) -> int:
    node = module._node
    if isinstance(node, OpenedNode):
        return address_of(node.handle)
    raise TypeError(f"module {module.type_key!r} was made in Python; only modules of opened libraries are arguments")


def _wrap_module(address: int) -> Module:
    return adopt(ffi.cast("mblob_module *", address))


def install() -> None:
    """Hand the classes and functions over."""
    _call.set_hooks(
        module_class=Module,
        module_handle=_module_handle,
        wrap_module=_wrap_module,
        device_class=Device,
        tensor_class=Tensor,
        raise_status=status.raise_status,
    )
