"""`tvm._ffi.base`: the class of all errors."""

from mblob.compat.tvm.base import TVMError as TVMError
from mblob.compat.tvm.base import __version__ as __version__

__all__ = ["TVMError", "__version__"]
