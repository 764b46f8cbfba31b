"""`tvm._ffi.runtime_ctypes`: devices and element types."""

from mblob import Device as Device
from mblob.dtype import TypeName as DataType

TVMContext = Device

__all__ = ["DataType", "Device", "TVMContext"]
