"""libmblob, the C runtime in `csrc`, for the parts of mblob that are written in Python.

`mblob.native._native` (cffi) is what it exports, `mblob.native.runtime` its errors as exceptions. The
library itself is in `mblob/loader/_lib`, beside the extension `mblob.loader._call`, which links the
same file: a process must have only one registry of functions.

Raises:
    ImportError: the compiled part is missing, or does not fit this Python.
"""

from __future__ import annotations

try:
    from mblob.native._native import ffi as ffi
    from mblob.native._native import lib as lib
except ImportError as error:
    from mblob.native.import_diagnosis import explained

    raise explained(error) from None

if ffi.string(lib.MBLOB_VERSION) != ffi.string(lib.mblob_version()):
    from mblob.native.import_diagnosis import check_versions

    check_versions(ffi.string(lib.MBLOB_VERSION), ffi.string(lib.mblob_version()))
