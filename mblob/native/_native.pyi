"""Types of the cffi module `mblob.native._native`, made by `mblob/native/_native_build.py` from mblob.h."""

from typing import Any

ffi: Any
lib: Any
