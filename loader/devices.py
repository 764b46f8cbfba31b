"""Kinds of devices that plug-ins bring."""

from __future__ import annotations

from mblob.loader.runtime import ffi, lib
from mblob.loader.status import bytes_of_name


def type_of(name: str) -> int:
    """The DLPack number of a kind of devices by its name, 0 if no plug-in that can be found has
    that name."""
    out = ffi.new("int *")
    encoded = bytes_of_name(name)
    return 0 if encoded is None or lib.mblob_device_type(encoded, out) else int(out[0])
