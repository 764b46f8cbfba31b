"""The run side: a library file becomes a tree of modules whose functions can be called.

Thin Python over the C runtime in `csrc`. `mblob.native` (cffi) is the wide API, `mblob.loader._call`
(a C extension) the hot path: calling functions, tensors, callbacks. Users write `import mblob`,
which hands these names on.

Who imports whom, from the ground up: `mblob.native`, `_call` <- bridge <- callbacks <- loaders <-
opened <- load <- sources; tensor, functions, system_lib. What is here imports the
others, to tell the compiled modules about our Python classes; of some, how to import them.
"""

from __future__ import annotations

import atexit
import sys

from mblob import errors
from mblob.annotations import TYPE_CHECKING, Any
from mblob.native.runtime import address_of, check, ffi, lib, raise_status

try:
    from mblob.loader import _call
except ImportError as error:
    from mblob.native.mismatch import explained

    raise explained(error) from None
from mblob.loader import bridge
from mblob.loader.opened import OpenedNode, adopt, remember
from mblob.module import Module

if TYPE_CHECKING:
    from mblob.devices import Device
    from mblob.loader.tensor import Shape, Tensor


DATA_TYPE = 5  # kTVMDataType


def _classes() -> tuple[type[Device], type[Tensor], type[Shape]]:
    """Asked for with the first tensor or device: most programs that call kernels have none."""
    from mblob.devices import Device
    from mblob.loader.tensor import Shape, Tensor

    return Device, Tensor, Shape


def _error_class(given: Any) -> type[Exception]:
    return errors.argument_class(given)


def _module_handle(module: Module) -> int:
    node = module._node
    if isinstance(node, OpenedNode):
        return address_of(lib.mblob_module_retain(node.handle))
    from mblob.loader.callbacks import made_module

    return address_of(made_module(module, lambda: module))


def _wrap_module(address: int) -> Module:
    return adopt(ffi.cast("mblob_module *", address))


def _ffi_function(address: int) -> Any:
    from mblob.loader.ffi_values import function_object

    return function_object(address)


def _ffi_stand_in(value: Any) -> Any:
    from mblob.loader.ffi_values import stand_in

    return stand_in(value)


def _prototype(owner: OpenedNode, name: str) -> str:
    return owner.functions().get(name, "")


def _declared(owner: OpenedNode, name: str, i: int) -> tuple[str, str]:
    from mblob.format.functions_table import parameters

    known = parameters(_prototype(owner, name))
    if i < 0:
        return "", ", ".join(p.text for p in known)
    return (known[i].name, known[i].text) if i < len(known) else ("", "")


def _tensor_advice(owner: OpenedNode, text: str) -> str:
    return (
        f"; for the tensor of that name pass lib.tensors[{text!r}]"
        if text in owner.module.tensors
        else ""
    )


def _result_value(code: int, value: Any) -> Any:
    if code == DATA_TYPE:
        from mblob.dtype import TypeName

        return TypeName(value)
    from mblob.loader.handle import Handle

    return Handle(value)


def _check_bound(owner: OpenedNode, name: str, shown: str, given: tuple[Any, ...]) -> None:
    from mblob.loader.prototype import check

    check(_prototype(owner, name), shown, given)


def _check_shape(owner: OpenedNode, name: str, shown: str, i: int, shape: tuple[int, ...]) -> None:
    from mblob.loader.prototype import check_shape

    check_shape(_prototype(owner, name), shown, i, shape)


_call.set_hooks(
    module_class=Module,
    module_handle=_module_handle,
    wrap_module=_wrap_module,
    classes=_classes,
    raise_status=raise_status,
    ffi_function=_ffi_function,
    ffi_stand_in=_ffi_stand_in,
    error_class=_error_class,
    declared=_declared,
    prototype=_prototype,
    tensor_advice=_tensor_advice,
    check_bound=_check_bound,
    check_shape=_check_shape,
    remember=remember,
    result_value=_result_value,
)


def _trace(*values: Any) -> None:
    """Print what a kernel traces (`tvm.tir.trace` without a function of its own)."""
    print([*values])


# Objects go while the interpreter ends, and threads of kernels may still run.
atexit.register(lib.mblob_keep_loaded)

check(bridge.register_global("tvm.default_trace_action", _trace, override=True))
# Plug-ins look there for the libraries that wheels bring (csrc/plugins/dnnl/onednn.c).
check(bridge.register_global("mblob.python_prefix", lambda: sys.prefix, override=True))
