"""`tvm_ffi.module`: libraries."""

from __future__ import annotations

import os

import mblob
from mblob import Module as Module


def load_module(path: str | os.PathLike[str], keep_module_alive: bool = True) -> Module:
    """`mblob.load_module`.

    Args:
        keep_module_alive: ignored. A library stays open while one of its modules, functions or
            tensors exists.
    """
    del keep_module_alive
    return mblob.load_module(path)


def system_lib(symbol_prefix: str = "") -> Module:
    """`mblob.system_lib`."""
    return mblob.system_lib(symbol_prefix)
