"""`tvm._ffi`: registered functions, and classes that programs take from here."""

from __future__ import annotations

from mblob import get_global_func as get_global_func
from mblob import register_func as register_func
from mblob.compat.lazy_names import COMPILER, because, offer_lazily
from mblob.compat.tvm._ffi import base as base
from mblob.compat.tvm._ffi import runtime_ctypes as runtime_ctypes

__getattr__, __dir__ = offer_lazily(
    __name__, {}, because(COMPILER, ("register_extension", "register_object"))
)
