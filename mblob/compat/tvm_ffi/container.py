"""`tvm_ffi.container`: lists and dictionaries of Python stand for its containers."""

Array = List = list
Dict = Map = dict

__all__ = ["Array", "Dict", "List", "Map"]
