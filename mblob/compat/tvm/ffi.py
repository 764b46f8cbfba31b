"""`tvm.ffi`, as TVM 0.20 and 0.21 call the package tvm_ffi."""

from __future__ import annotations

from mblob.compat import tvm_ffi

__getattr__, __dir__ = tvm_ffi.__getattr__, tvm_ffi.__dir__
