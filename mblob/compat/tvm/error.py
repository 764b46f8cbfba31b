"""`tvm.error`: classes to catch.

An error of a kernel is a `mblob.KernelError`, and also of the class of Python that its kind names:
`except ValueError` catches it, too.
"""

from mblob import KernelError
from mblob import MblobError as TVMError

DiagnosticError = InternalError = OpError = RPCError = KernelError
OpNotImplemented = OpAttributeUnImplemented = NotImplementedError
OpAttributeRequired = OpAttributeInvalid = AttributeError

__all__ = [
    "DiagnosticError",
    "InternalError",
    "OpAttributeInvalid",
    "OpAttributeRequired",
    "OpAttributeUnImplemented",
    "OpError",
    "OpNotImplemented",
    "RPCError",
    "TVMError",
]
