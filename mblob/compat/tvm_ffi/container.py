"""`tvm_ffi.container`: lists and dictionaries of Python stand for its containers."""

from mblob.compat.tvm_ffi.core import MISSING as MISSING

Array = List = list
Dict = Map = dict

__all__ = ["MISSING", "Array", "Dict", "List", "Map"]
