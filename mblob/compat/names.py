"""The names of TVM's packages, module by module: where mblob has them, and why it has no others.

`mblob.compat.modules` makes the modules of this table: no code lies at the path of a module of TVM. A name
that mblob calls otherwise is written `TVM's=mblob's`.
"""

from __future__ import annotations

from collections.abc import Mapping

COMPILER = (
    "mblob runs models and has no compiler of TVM; compile where TVM is installed, call export_library"
    " there, and load that file here"
)
RPC = "mblob has no RPC; run the program on the machine that has the library and the device"
DOWNLOAD = "mblob downloads nothing; use urllib.request.urlretrieve"
OBJECTS = (
    "mblob has no classes for objects of tvm_ffi; pass Python values, or objects of the package tvm_ffi,"
    " which functions of mblob take, too"
)
INLINE = (
    "mblob does not compile C++ for tvm_ffi; build the library with tvm_ffi.cpp.build, and load the file here,"
    " or pack plain C with mblob.csource_module"
)

_DEVICES = "cl cpu cuda device ext_dev gpu metal mtl opencl rocm vpi vulkan"
_ERROR = {"mblob": "TVMError=MblobError __version__"}
_GRAPHS = {"mblob.loader.graph_executor": "GraphModule create"}
_DEBUGGED_GRAPHS = {"mblob.loader.graph_executor": "GraphModuleDebug create=create_debug"}
_FOLDERS = {"mblob.compat.utilities": "TempDirectory tempdir=TempDirectory"}
_MACHINES_OF_RELAX = {
    "mblob.loader.relax": "VirtualMachine",
    "mblob.compat.programs": "VMInstrumentReturnKind",
}
_TVM_FFI = {
    "builtins": "Array=list Dict=dict List=list Map=dict",
    "mblob": "Device Function=PackedFunction Module Shape Tensor __version__ device",
    "mblob.dtype": "dtype=TypeName",
    "mblob.compat.classes": "Object",
    "mblob.compat.registry": (
        "get_global_func get_global_func_metadata load_module register_global_func remove_global_func system_lib"
    ),
    "mblob.compat.values": (
        "DLDeviceType convert from_dlpack bfloat16 bool float16 float32 float4_e2m1fn float4_e2m1fnx2 float64"
        " float6_e2m3fn float6_e3m2fn float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz"
        " float8_e5m2 float8_e5m2fnuz float8_e8m0fnu int16 int32 int64 int8 uint16 uint32 uint64 uint8"
    ),
}
_NO_OBJECTS = {
    INLINE: "cpp",
    OBJECTS: (
        "ObjectConvertible StreamContext access_path convert_func dataclasses get_raw_stream init_ffi_api method"
        " register_error register_object serialization structural structural_equal structural_hash use_raw_stream"
        " use_torch_stream"
    ),
}

# Modules of TVM by their names; of each, modules of mblob with the names that are in them. The modules
# below a module are names of it, too.
NAMES: Mapping[str, Mapping[str, str]] = {
    "tvm": {
        "mblob": (
            "TVMContext=Device TVMError=MblobError __version__ get_global_func register_func"
            " register_global_func=register_func"
        ),
        "mblob.dtype": "DataType=TypeName",
        "mblob.compat.arrays": f"{_DEVICES} context hexagon webgpu",
        "mblob.compat.values": "convert",
        "mblob.compat.tvm.runtime": "nd=ndarray ndarray",
    },
    "tvm._ffi": {"mblob": "get_global_func register_func"},
    "tvm._ffi.base": _ERROR,
    "tvm._ffi.runtime_ctypes": {
        "mblob": "Device TVMContext=Device",
        "mblob.dtype": "DataType=TypeName",
    },
    "tvm.base": _ERROR,
    "tvm.contrib": {},
    "tvm.contrib.debugger": {},
    "tvm.contrib.debugger.debug_executor": _DEBUGGED_GRAPHS,
    "tvm.contrib.debugger.debug_runtime": _DEBUGGED_GRAPHS,  # TVM 0.7 and before
    "tvm.contrib.graph_executor": _GRAPHS,
    "tvm.contrib.graph_runtime": _GRAPHS,  # TVM 0.7 and before
    "tvm.contrib.util": _FOLDERS,  # TVM 0.7 and before
    "tvm.contrib.utils": _FOLDERS,
    "tvm.error": {  # an error of a kernel is also of the class of Python that its kind names
        "mblob": (
            "DiagnosticError=KernelError InternalError=KernelError OpError=KernelError RPCError=KernelError"
            " TVMError=MblobError"
        ),
        "builtins": (
            "OpAttributeInvalid=AttributeError OpAttributeRequired=AttributeError"
            " OpAttributeUnImplemented=NotImplementedError OpNotImplemented=NotImplementedError"
        ),
    },
    "tvm.ffi": _TVM_FFI,  # TVM 0.20 and 0.21
    "tvm.module": {  # TVM 0.6 and before
        "mblob": "Module load=load_module load_module system_lib",
        "mblob.compat.utilities": "enabled",
    },
    "tvm.relax": {"mblob.loader.relax": "VirtualMachine"},
    "tvm.relay": {"mblob": "load_param_dict save_param_dict"},
    "tvm.runtime": {
        "builtins": "String=str",
        "mblob": (
            "Device Module NDArray=Tensor PackedFunc=PackedFunction ShapeTuple=Shape TVMContext=Device Tensor"
            " from_dlpack load_module load_param_dict save_param_dict system_lib"
        ),
        "mblob.dtype": "DataType=TypeName",
        "mblob.compat.arrays": f"{_DEVICES} array empty tensor=array",
        "mblob.compat.utilities": (
            "enabled load_param_dict_from_file load_static_library num_threads save_param_dict_to_file"
        ),
        "mblob.compat.programs": "Executable",
        "mblob.compat.values": "convert",
    },
    "tvm.runtime.container": {
        "builtins": "String=str",
        "mblob": "ShapeTuple=Shape",
        "mblob.compat.programs": "ADT tuple_object",
    },
    "tvm.runtime.executable": {"mblob.compat.programs": "Executable"},
    "tvm.runtime.executor": {"mblob.loader.aot_executor": "AotModule"},
    "tvm.runtime.executor.aot_executor": {"mblob.loader.aot_executor": "AotModule"},
    "tvm.runtime.module": {
        "mblob": "Module load_module system_lib",
        "mblob.benchmark": "BenchmarkResult",
        "mblob.compat.utilities": "enabled load_static_library num_threads",
    },
    "tvm.runtime.ndarray": {
        "mblob": "Array=Tensor Device NDArray=Tensor TVMContext=Device from_dlpack",
        "mblob.compat.arrays": f"{_DEVICES} array context empty hexagon webgpu",
    },
    "tvm.runtime.params": {
        "mblob": "load_param_dict save_param_dict",
        "mblob.compat.utilities": "load_param_dict_from_file save_param_dict_to_file",
    },
    "tvm.runtime.relax_vm": _MACHINES_OF_RELAX,  # TVM 0.18 to 0.20
    "tvm.runtime.vm": {
        "mblob.loader.vm": "Executable",
        "mblob.compat.programs": "VMInstrumentReturnKind VirtualMachine",
    },
    "tvm.support": {"mblob.compat.tvm.contrib": "utils"},
    "tvm.testing": {"mblob.compat.utilities": "assert_allclose"},
    "tvm_ffi": _TVM_FFI,
    "tvm_ffi.container": {
        "builtins": "Array=list Dict=dict List=list Map=dict",
        "mblob.compat.classes": "MISSING",
    },
    "tvm_ffi.core": {
        "mblob.compat.classes": (
            "MISSING Object TypeField TypeInfo TypeMethod TypeSchema _lookup_or_register_type_info_from_type_key"
            " _lookup_type_attr"
        ),
    },
    "tvm_ffi.error": {"mblob": "Error=KernelError"},
    "tvm_ffi.module": {"mblob": "Module", "mblob.compat.registry": "load_module system_lib"},
    "tvm_ffi.registry": {
        "mblob.compat.registry": (
            "get_global_func get_global_func_metadata list_global_func_names register_global_func remove_global_func"
        ),
    },
}

# Names of TVM's modules that mblob does not have, by the reason. "*" are all names of the module. What
# is a module in TVM can be imported, with the modules below it.
ABSENT: Mapping[str, Mapping[str, str]] = {
    "tvm": {
        COMPILER: (
            "IRModule Object arith auto_scheduler autotvm backend build build_config build_module compile compute"
            " create_schedule dlight driver instrument ir libinfo lower meta_schedule micro parser placeholder"
            " register_extension register_object s_tir script target te thread_axis tir tirx topi transform var"
        ),
        RPC: "rpc",
    },
    "tvm._ffi": {COMPILER: "register_extension register_object"},
    "tvm.contrib": {DOWNLOAD: "download", RPC: "rpc", COMPILER: "*"},
    "tvm.ffi": _NO_OBJECTS,
    "tvm.relax": {COMPILER: "*"},
    "tvm.relay": {COMPILER: "*"},
    "tvm.runtime": {
        COMPILER: (
            "Object ObjectGeneric Report Scriptable const disco profiler_vm profiling script_printer"
        )
    },
    "tvm.support": {COMPILER: "*"},
    "tvm.testing": {COMPILER: "*"},
    "tvm_ffi": _NO_OBJECTS,
}
