"""`tvm.base`: the class of all errors."""

from mblob import MblobError as TVMError
from mblob import __version__ as __version__

__all__ = ["TVMError", "__version__"]
