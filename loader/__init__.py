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
from _collections_abc import Callable

from mblob import errors
from mblob.annotations import Any
from mblob.native.runtime import address_of, check, ffi, lib, raise_status

try:
    from mblob.loader import _call
except ImportError as error:
    from mblob.native.import_diagnosis import explained

    raise explained(error) from None
from mblob.loader import node_registry
from mblob.loader.callbacks import made_module
from mblob.loader.opened import OpenedNode, adopt, prototype_of, remember
from mblob.module import Module


def _error_class(given: Any) -> type[Exception]:
    return errors.argument_class(given)


def _module_handle(module: Module) -> int:
    node = module._node
    if isinstance(node, OpenedNode):
        return address_of(lib.mblob_module_retain(node.handle))
    return address_of(made_module(module, lambda: module))


def _wrap_module(address: int) -> Module:
    return adopt(ffi.cast("mblob_module *", address))


def _uncommon(name: str) -> Callable[..., Any]:
    """A function of `mblob.loader.call_hooks`, which most programs never come to: it imports `re`
    and `typing`, which take longer than all else that a first result needs."""

    def hook(*args: Any) -> Any:
        from mblob.loader import call_hooks

        return getattr(call_hooks, name)(*args)

    return hook


_call.set_hooks(
    module_class=Module,
    module_handle=_module_handle,
    wrap_module=_wrap_module,
    classes=_uncommon("classes"),
    raise_status=raise_status,
    ffi_function=_uncommon("function_object"),
    ffi_stand_in=_uncommon("stand_in"),
    error_class=_error_class,
    declared=_uncommon("declared"),
    prototype=prototype_of,
    tensor_advice=_uncommon("tensor_advice"),
    check_bound=_uncommon("check_bound"),
    check_shape=_uncommon("check_shape"),
    remember=remember,
    result_value=_uncommon("result_value"),
)


def _trace(*values: Any) -> None:
    """Print what a kernel traces (`tvm.tir.trace` without a function of its own)."""
    print([*values])


# Objects go while the interpreter ends, and threads of kernels may still run.
atexit.register(lib.mblob_keep_loaded)

check(node_registry.register_global("tvm.default_trace_action", _trace, override=True))
# Plug-ins look there for the libraries that wheels bring (csrc/plugins/dnnl/onednn.c).
check(node_registry.register_global("mblob.python_prefix", lambda: sys.prefix, override=True))
