"""The common parts of the virtual machines of Relay and Relax: their devices and inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mblob import texts
from mblob.arguments import wrong_type
from mblob.devices import Device
from mblob.errors import ArgumentValueError, argument_class, one_of
from mblob.loader.tensor import numpy_for
from mblob.typed import Allocator

ALLOCATORS = {"naive": 1, "pooled": 2}  # TVM's numbers


def placements(
    devices: Sequence[Device], config: Allocator | Mapping[Device, Allocator] | None
) -> list[int]:
    """The arguments that machines are made of: of each device its type, number and allocator.

    Raises:
        TypeError: a key of `config` is no device.
        ValueError: no such allocator.
    """
    given: Any = {} if config is None else config
    if not hasattr(given, "get"):
        given = dict.fromkeys(devices, given)
    for key in given:
        if not isinstance(key, Device):
            expected = "a Device such as mblob.cpu(0) as a key"
            raise wrong_type("VirtualMachine", "memory_cfg", expected, key)
    arguments: list[int] = []
    for device in devices:
        kind = given.get(device, "pooled")
        if kind not in tuple(ALLOCATORS):
            raise ArgumentValueError(f"memory_cfg: {one_of(ALLOCATORS, kind)}")
        arguments += [device.device_type, device.device_id, ALLOCATORS[kind]]
    return arguments


def check_nesting(nesting: int, key: str | int, func_name: str) -> None:
    """Refuse an input that is lists in lists too deep.

    Raises:
        ValueError: they are.
    """
    if nesting > texts.NESTING_LIMIT:
        raise ArgumentValueError(f"{func_name}: input {key!r}: {texts.NESTED}")


def scalar(value: float, dtype: str, key: str | int, func_name: str) -> Any:
    """A number as the array that it becomes; `key` and `func_name` are for errors.

    Raises:
        OverflowError: it is outside of the type.
    """
    np = numpy_for("a number as an input")
    with np.errstate(over="ignore"):
        fits = -(2**31) <= value < 2**31 if dtype == "int32" else True
        array = np.asarray(value, dtype) if fits else None
    if array is None or (np.isinf(array) and not np.isinf(value)):
        raise argument_class(OverflowError)(
            f"{func_name}: input {key!r}: {value!r} is outside of {dtype}, which a Python {type(value).__name__} "
            f"becomes; pass a numpy array of the type that the program takes"
        )
    return array
