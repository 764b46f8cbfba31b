"""Statically linked libraries: modules over the process-wide table that their constructors fill."""

from __future__ import annotations

from loader.functions import get_global_func
from mblob.errors import MblobError
from mblob.module import Module

GLOBAL_NAME = "runtime.SystemLib"  # TVM's name of the function that makes the module


def system_lib(prefix: str = "") -> Module:
    """The module of the functions that statically linked libraries registered under `prefix`.

    Raises:
        MblobError: nothing was registered, or no runtime in the process knows of system libraries.
    """
    make = get_global_func(GLOBAL_NAME, allow_missing=True)
    if make is None:
        raise MblobError(
            f"no system library: nothing in this process registered {GLOBAL_NAME!r}; link one in, "
            "or open a file with mblob.load_module"
        )
    module = make(prefix)
    if not isinstance(module, Module):
        raise MblobError(f"{GLOBAL_NAME!r} gave {type(module).__name__}, expected a module")
    return module
