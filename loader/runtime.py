"""The one place where the compiled modules are imported and told about our Python classes."""

from __future__ import annotations

from loader import _call, _native, status
from loader.tensor import Tensor
from mblob.devices import Device
from mblob.module import Module

TYPE_CHECKING = False  # importing `typing` takes longer than everything else here
if TYPE_CHECKING:
    from typing import Any


ffi = _native.ffi
lib = _native.lib


def address_of(pointer: Any) -> int:
    """The number of a C pointer: what `_call` takes."""
    return int(ffi.cast("uintptr_t", pointer))


def _module_handle(module: Module) -> int:
    from loader.opened import OpenedNode

    node = module._node
    if isinstance(node, OpenedNode):
        return address_of(node.handle)
    raise TypeError(f"module {module.type_key!r} was made in Python; only modules of opened libraries are arguments")


def _wrap_module(address: int) -> Module:
    from loader.opened import adopt

    return adopt(ffi.cast("mblob_module *", address))


_call.set_hooks(
    module_class=Module,
    module_handle=_module_handle,
    wrap_module=_wrap_module,
    device_class=Device,
    tensor_class=Tensor,
    raise_status=status.raise_status,
)
