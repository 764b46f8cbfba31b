"""`tvm.nd`, `tvm.runtime.ndarray`: arrays and devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mblob
from mblob import Device as Device
from mblob import Tensor
from mblob import cpu as cpu
from mblob import cuda as cuda
from mblob import device as device
from mblob import from_dlpack as from_dlpack
from mblob import opencl as opencl
from mblob.errors import ArgumentValueError

if TYPE_CHECKING:
    from collections.abc import Callable

    from mblob.typed import ElementType, Shape

Array = Tensor
NDArray = Tensor
cl, context, gpu = opencl, device, cuda


def _of_kind(kind: str) -> Callable[..., Device]:
    def of(dev_id: int = 0) -> Device:
        return device(kind, dev_id)

    of.__name__ = kind
    of.__doc__ = f"The device `{kind}` of a number, from 0."
    return of


ext_dev, hexagon, metal, rocm, vpi, vulkan, webgpu = map(
    _of_kind, ("ext_dev", "hexagon", "metal", "rocm", "vpi", "vulkan", "webgpu")
)
mtl = metal


def array(
    arr: Any, device: Device | None = None, mem_scope: str | None = None, ctx: Device | None = None
) -> Tensor:
    """`mblob.array`: a new tensor with the elements of an array.

    Args:
        device, ctx: where it lies; the processor by default.
        mem_scope: None or "global". mblob has no other memory scopes.
    """
    _check_scope("array", mem_scope)
    return mblob.array(arr, device or ctx or cpu())


def empty(
    shape: Shape,
    dtype: ElementType = "float32",
    device: Device | None = None,
    mem_scope: str | None = None,
    ctx: Device | None = None,
) -> Tensor:
    """`mblob.empty`: a tensor that is not initialized; `device`, `ctx` and `mem_scope` as of `array`."""
    _check_scope("empty", mem_scope)
    return mblob.empty(shape, dtype, device or ctx or cpu())


def _check_scope(function: str, mem_scope: str | None) -> None:
    if mem_scope not in (None, "", "global"):
        raise ArgumentValueError(
            f"{function}: mem_scope: expected None or 'global', found {mem_scope!r}"
        )
