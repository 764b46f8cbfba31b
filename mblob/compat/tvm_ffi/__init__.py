"""tvm_ffi's names over mblob: `import mblob.compat.tvm_ffi as tvm_ffi`.

For programs that load libraries, call functions and pass tensors. A list or dict stands for each of
tvm_ffi's containers. A name that needs a C++ compiler or tvm_ffi's objects can be imported; a call of
it is an error that says what to do.
"""

from __future__ import annotations

from mblob.compat.lazy_names import because, find_absent, offer_lazily

_OBJECTS = (
    "mblob has no classes for objects of tvm_ffi; pass Python values, or objects of the package tvm_ffi,"
    " which functions of mblob take, too"
)
_INLINE = (
    "mblob does not compile C++ for tvm_ffi; build the library with tvm_ffi.cpp.build, and load the file here,"
    " or pack plain C with mblob.csource_module"
)
_HERE = "mblob.compat.tvm_ffi"
_DTYPES = (
    "bfloat16", "bool", "float16", "float32", "float4_e2m1fn", "float4_e2m1fnx2", "float64", "float6_e2m3fn",
    "float6_e3m2fn", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz",
    "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "int16", "int32", "int64", "int8", "uint16", "uint32",
    "uint64", "uint8",
)  # fmt: skip
_HOMES = {
    "Array": "builtins:list",
    "DLDeviceType": f"{_HERE}.values:DLDeviceType",
    "Device": "mblob:Device",
    "Dict": "builtins:dict",
    "Function": "mblob:PackedFunction",
    "List": "builtins:list",
    "Map": "builtins:dict",
    "Module": "mblob:Module",
    "Object": f"{_HERE}.core:Object",
    "Shape": "mblob:Shape",
    "Tensor": "mblob:Tensor",
    "__version__": "mblob:__version__",
    "container": f"{_HERE}.container",
    "core": f"{_HERE}.core",
    "convert": f"{_HERE}.values:convert",
    "device": "mblob:device",
    "dtype": "mblob.dtype:TypeName",
    "error": f"{_HERE}.error",
    "from_dlpack": f"{_HERE}.values:from_dlpack",
    "get_global_func": f"{_HERE}.registry:get_global_func",
    "get_global_func_metadata": f"{_HERE}.registry:get_global_func_metadata",
    "load_module": f"{_HERE}.module:load_module",
    "module": f"{_HERE}.module",
    "register_global_func": f"{_HERE}.registry:register_global_func",
    "registry": f"{_HERE}.registry",
    "remove_global_func": f"{_HERE}.registry:remove_global_func",
    "system_lib": f"{_HERE}.module:system_lib",
    **{name: f"{_HERE}.values:{name}" for name in _DTYPES},
}
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
