"""tvm_ffi's names over mblob: `import mblob.compat.tvm_ffi as tvm_ffi`.

For programs that load libraries, call functions and pass tensors. A list or dict stands for each of
tvm_ffi's containers. A name that needs a C++ compiler or tvm_ffi's objects can be imported; a call of
it is an error that says what to do.
"""

from __future__ import annotations

from mblob.compat.lazy_names import because, find_absent, names_of_stub, offer_lazily

_OBJECTS = (
    "mblob has no classes for objects of tvm_ffi; pass Python values, or objects of the package tvm_ffi,"
    " which functions of mblob take, too"
)
_INLINE = (
    "mblob does not compile C++ for tvm_ffi; build the library with tvm_ffi.cpp.build, and load the file here,"
    " or pack plain C with mblob.csource_module"
)
_HOMES = names_of_stub(__file__)
_MODULES = {
    "cpp": _INLINE,
    **because(_OBJECTS, ("access_path", "dataclasses", "serialization", "structural")),
}
_ABSENT = {
    **_MODULES,
    **because(
        _OBJECTS,
        (
            "ObjectConvertible", "StreamContext", "convert_func",
            "get_raw_stream", "init_ffi_api", "method", "register_error", "register_object", "structural_equal",
            "structural_hash", "use_raw_stream", "use_torch_stream",
        ),
    ),
}  # fmt: skip

find_absent(__name__, _MODULES)
__getattr__, __dir__ = offer_lazily(__name__, _HOMES, _ABSENT)
