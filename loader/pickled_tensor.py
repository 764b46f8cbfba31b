"""Tensors in pickles: a pickle has the bytes of the elements, their type, the shape and the device.

The name of `tensor` stands in pickles, so it stays.
"""

from __future__ import annotations

from pickle import PickleBuffer
from typing import Any

from mblob.device_types import HOST
from mblob.devices import Device
from mblob.dtype import HANDLE, UINT, DataType
from mblob.errors import ArgumentTypeError, IncompatibleError
from mblob.loader import _call
from mblob.loader.tensor import CPU, Tensor, empty

_BYTE = (UINT, 8, 1)


def reduce_tensor(given: Tensor, protocol: int) -> tuple[Any, ...]:
    """The value of `__reduce_ex__` for `given`. From protocol 5 on, the pickler may take the bytes
    without a copy (`buffer_callback`).

    Raises:
        TypeError: its elements are addresses of this process.
        IncompatibleError, ValueError: it cannot be read, such as after the call that lent it.
    """
    if DataType.parse(given.dtype).code == HANDLE:
        raise ArgumentTypeError(
            "a Tensor of handles cannot be pickled: its elements are addresses of this process"
        )
    on_host = given if given.device.device_type in HOST else given.copyto(CPU)
    data = memoryview(_bytes_of(on_host))
    if protocol < 5:
        return tensor, (given.shape, given.dtype, given.device, bytes(data))
    return tensor, (given.shape, given.dtype, given.device, PickleBuffer(data))


def tensor(shape: tuple[int, ...], dtype: str, device: Device, data: Any) -> Tensor:
    """A tensor with memory of its own that has the elements whose bytes are `data`.

    Raises:
        IncompatibleError: this process has no runtime for the device.
    """
    view = memoryview(data).cast("B")
    found = empty(shape, dtype)
    _bytes_of(found).copyfrom(_call.tensor_view(view, (view.nbytes,), _BYTE))
    if device.device_type in HOST:
        return found
    try:
        return found.copyto(device)
    except IncompatibleError as error:
        error.prefix(f"a Tensor on {device}, from a pickle")
        raise


def _bytes_of(given: Tensor) -> Tensor:
    return given._create_view((given.nbytes,), "uint8")
