"""Types of the cffi module `mblob.loader._native`, made by `loader/_native_build.py` from mblob.h."""

from typing import Any

ffi: Any
lib: Any
