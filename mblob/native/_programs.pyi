"""Types of the cffi module `mblob.native._programs`, made by `mblob/native/_native_build.py` from the readers in
`csrc/src/exec`."""

from typing import Any

ffi: Any
lib: Any
