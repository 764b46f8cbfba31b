"""`tvm_ffi.error`: classes to catch.

An error of a kernel is a `mblob.KernelError`, and also of the class of Python that its kind names.
"""

from mblob import KernelError as Error

__all__ = ["Error"]
