"""Our functions as objects of tvm_ffi, for its users in this process."""

from __future__ import annotations

from mblob.loader import _call
from mblob.loader._native import ffi, lib
from mblob.loader.runtime import address_of
from mblob.loader.status import check

TYPE_CHECKING = False  # importing `typing` takes longer than everything else here
if TYPE_CHECKING:
    from typing import Any

_receive: Any = None  # tvm_ffi's function that makes its Python object of an address


def function_object(address: int) -> Any:
    """The `tvm_ffi.Function` of the mblob_function at `address`; the very object if it came from
    tvm_ffi.

    Raises:
        ImportError: tvm_ffi is not installed.
        IncompatibleError: libmblob-ffi.so is not there.
    """
    import tvm_ffi

    global _receive
    if _receive is None:
        _receive = tvm_ffi.Function.__from_extern_c__(_call.ffi_hand_over())
    out = ffi.new("void **")
    check(lib.mblob_function_to_ffi(ffi.cast("mblob_function *", address), out))
    return _receive(address_of(out[0]))  # which takes the reference
