"""`tvm.nd`, `tvm.runtime.ndarray`: arrays and devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mblob
from mblob import Device, Tensor
from mblob.errors import ArgumentValueError

if TYPE_CHECKING:
    from collections.abc import Callable

    from mblob.typed import ElementType, Shape


def device(dev_type: str | int, dev_id: int = 0) -> Device:
    """`mblob.device`. A text may be a target: its first word counts, "llvm" of "llvm -mcpu=skylake".

    Raises:
        ValueError: no such device.
    """
    words = dev_type.split() if isinstance(dev_type, str) else []
    return mblob.device(words[0] if words else dev_type, dev_id)


context = device


def _of_kind(kind: str) -> Callable[..., Device]:
    def of(dev_id: int = 0) -> Device:
        return device(kind, dev_id)

    of.__name__ = kind
    of.__doc__ = f"The device `{kind}` of a number, from 0."
    return of


cpu, cuda, ext_dev, hexagon, metal, opencl, rocm, vpi, vulkan, webgpu = map(
    _of_kind,
    ("cpu", "cuda", "ext_dev", "hexagon", "metal", "opencl", "rocm", "vpi", "vulkan", "webgpu"),
)
cl, gpu, mtl = opencl, cuda, metal


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
