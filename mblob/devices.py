"""Devices: where memory is and where a kernel runs."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mblob.arguments import whole, wrong_type
from mblob.device_types import CODES, NAMES
from mblob.errors import ArgumentValueError, MblobError, also, did_you_mean


def _attribute(kind: int, what: str) -> property:
    """A property of devices: attribute `kind` of TVM's DeviceAttrKind."""
    text = f"{what}; None if the device does not tell it. Error as of `sync`."
    return property(lambda self: _plugins().device_attribute(self, kind), doc=text)


class Device:
    """A device: a type, by name or DLPack number, and a number. It compares and hashes by both, and
    prints as `cpu:0`.

    Attributes:
        device_type: DLDeviceType, 1 for cpu.
        device_id, index: number among the devices of its type, from 0.
        name, type: device type as text: "cpu", "opencl", ...
    """

    __slots__ = ("device_id", "device_type")
    _is_device = True  # by which mblob.loader._call knows one without importing this
    device_id: int
    device_type: int

    def __init__(self, device_type: int | str, device_id: int = 0) -> None:
        if isinstance(device_type, str):
            named = device(device_type, device_id)
            device_type, device_id = named.device_type, named.device_id
        object.__setattr__(self, "device_type", whole("Device", "device_type", device_type))
        object.__setattr__(self, "device_id", whole("Device", "device_id", device_id))

    def __setattr__(self, name: str, value: Any) -> None:
        raise also(MblobError, AttributeError)(f"a Device cannot be changed ({name})")

    def __reduce__(self) -> tuple[Any, ...]:
        return Device, (self.device_type, self.device_id)

    @property
    def name(self) -> str:
        """Device type as text: "cpu", "opencl", ..."""
        return NAMES.get(self.device_type, f"device_type_{self.device_type}")

    type = name

    @property
    def index(self) -> int:
        """Number among the devices of its type."""
        return self.device_id

    def dlpack_device_type(self) -> int:
        """DLPack's number of the device type."""
        return self.device_type

    @property
    def exist(self) -> bool:
        """True if this process can use the device. It needs a runtime for it, and the device."""
        return bool(_plugins().device_exists(self))

    max_threads_per_block = _attribute(1, "Largest number of threads in a block")
    warp_size = _attribute(2, "Threads that run together")
    max_shared_memory_per_block = _attribute(3, "Bytes of shared memory of a block")
    compute_version = _attribute(4, 'Version of the compute capability, as text: "8.6"')
    device_name = _attribute(5, "Name of the device, as text")
    max_clock_rate = _attribute(6, "Highest clock rate, in kHz")
    multi_processor_count = _attribute(7, "Number of multiprocessors")
    max_thread_dimensions = _attribute(8, "Largest block along each of three axes")
    api_version = _attribute(11, "Version of the device's runtime")
    driver_version = _attribute(12, "Version of the driver")
    l2_cache_size_bytes = _attribute(13, "Bytes of the L2 cache")
    total_global_memory = _attribute(14, "Bytes of memory")
    available_global_memory = _attribute(15, "Bytes of memory that are free")

    def sync(self) -> None:
        """Wait until the device has finished what this thread gave to it.

        Raises:
            IncompatibleError: no runtime for the device.
        """
        _plugins().synchronize(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Device):
            return NotImplemented
        return (self.device_type, self.device_id) == (other.device_type, other.device_id)

    def __hash__(self) -> int:
        return hash((self.device_type, self.device_id))

    def __str__(self) -> str:
        return f"{self.name}:{self.device_id}"

    def __repr__(self) -> str:
        return f"device(type={self.name!r}, index={self.device_id})"


def device(kind: str | int, device_id: int = 0) -> Device:
    """Device of a kind given by name ("cpu", "opencl", "opencl:1") or DLPack number.

    The device type of a plug-in (mblob/plugin.h) is known, too, if the plug-in can be found.

    Raises:
        TypeError: `kind` is neither text nor a number, or `device_id` no integer.
        ValueError: no such kind; the text lists them. A number below 0.
    """
    if isinstance(kind, int):
        return Device(kind, device_id)
    if not isinstance(kind, str):
        raise wrong_type("device", "kind", "str or int", kind)
    name, colon, number = kind.partition(":")
    if colon:
        if not number.isdecimal():
            raise ArgumentValueError(
                f"device {kind[:60]!r}: expected a number behind the colon, found {number[:60]!r}"
            )
        device_id = int(number)
    code = CODES.get(name) or _code_of_plugin(name)
    if not code:
        known = ", ".join(sorted(CODES))
        raise ArgumentValueError(
            f"device {kind[:60]!r} is not known; expected one of {known}, or the name of a plug-in's devices"
            f"{did_you_mean(kind[:60], CODES)}"
        )
    return Device(code, device_id)


def _code_of_plugin(name: str) -> int:
    """The device code of a name in the runtime, 0 if it knows no such name or is not installed."""
    try:
        plugins = _plugins()
    except ImportError:
        return 0
    return int(plugins.device_type(name))


def _plugins() -> Any:
    # by name: the format does not need the half that loads
    return import_module("mblob.loader.plugins")


def cpu(device_id: int = 0) -> Device:
    """The CPU. There is only one, so `device_id` is 0."""
    return Device(1, device_id)


def cuda(device_id: int = 0) -> Device:
    """An NVIDIA GPU: number `device_id`, from 0."""
    return Device(2, device_id)


def opencl(device_id: int = 0) -> Device:
    """An OpenCL device: number `device_id`, from 0, over all platforms."""
    return Device(4, device_id)
