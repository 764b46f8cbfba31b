"""Plug-ins that the C runtime finds (csrc/include/mblob/plugin.h), and kinds of devices that they
bring."""

from __future__ import annotations

from typing import Any

from mblob.devices import Device
from mblob.loader.global_functions import get_global_func
from mblob.loader.node_registry import call_back
from mblob.native.runtime import bytes_of_name, ffi, last_error, lib, text

DESCRIPTION_SIZE = 512  # bytes


class PluginInfo:
    """A plug-in, as its table says; nothing of it ran.

    Attributes:
        name, version: of the plug-in, "" where its table cannot be read.
        type_keys: of the modules that it opens.
        devices: DLPack numbers of the kinds of devices that it brings.
        needs: what it looks for at run time, for people.
        origin: "process", the library that carries it, or its file.
        problem: why it cannot be used, "" if nothing is known against it.
    """

    __slots__ = ("devices", "name", "needs", "origin", "problem", "type_keys", "version")

    def __init__(self, found: Any) -> None:
        self.name = text(found.name)
        self.version = text(found.version)
        self.type_keys = _items(text(found.type_keys))
        self.devices = tuple(int(d) for d in _items(text(found.devices)) if d.isdecimal())
        self.needs = text(found.needs)
        self.origin = text(found.origin)
        self.problem = text(found.problem)

    def describe(self) -> str:
        """Start the plug-in; its description of itself.

        Raises:
            MblobError: it cannot work here, with the reason.
        """
        out = ffi.new("char[]", DESCRIPTION_SIZE)
        if lib.mblob_plugin_describe(self.name.encode(), out, DESCRIPTION_SIZE):
            raise last_error()
        return text(out)


def _items(listed: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in listed.split(",") if item.strip())


def plugins() -> list[PluginInfo]:
    """The plug-ins of this process, of open libraries, and in files, in the order in which they
    count."""
    found: list[PluginInfo] = []

    def visit(_context: Any, plugin: Any) -> int:
        found.append(PluginInfo(plugin))
        return 0

    call_back(visit, "int(void *, const mblob_plugin_found *)", lib.mblob_plugins)
    return found


def device_type(name: str) -> int:
    """The DLPack number of a kind of devices by its name, 0 if no plug-in that can be found has
    that name."""
    out = ffi.new("int *")
    encoded = bytes_of_name(name)
    return 0 if encoded is None or lib.mblob_device_type(encoded, out) else int(out[0])


def device_attribute(device: Device, kind: int) -> Any:
    """An attribute of a device, by its number in TVM; None if the device does not tell it."""
    return get_global_func("runtime.GetDeviceAttr")(device.device_type, device.device_id, kind)


def device_exists(device: Device) -> bool:
    """True if there is such a device, and a runtime for it."""
    return bool(device_attribute(device, 0))


def synchronize(device: Device) -> None:
    """Wait for the work of this thread on a device.

    Raises:
        IncompatibleError: no runtime for the device.
    """
    get_global_func("mblob.Synchronize")(device.device_type, device.device_id)
