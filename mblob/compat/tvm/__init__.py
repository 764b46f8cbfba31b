"""TVM's names over mblob: `import mblob.compat.tvm as tvm`.

For programs that load and run compiled models: they were written for `tvm.runtime`,
`tvm.contrib.graph_executor`, `tvm.nd`, `tvm.relax.VirtualMachine` and the like, of TVM 0.6 to 0.27.
A name that needs TVM's compiler or its RPC can be imported; a call of it is an error that says what
to do.
"""

from __future__ import annotations

from mblob.compat.lazy_names import COMPILER, DOWNLOAD, RPC, because, find_absent, offer_lazily

_NDARRAY = "mblob.compat.tvm.runtime.ndarray"
_HOMES = {
    # modules
    "_ffi": "mblob.compat.tvm._ffi",
    "base": "mblob.compat.tvm.base",
    "contrib": "mblob.compat.tvm.contrib",
    "error": "mblob.compat.tvm.error",
    "ffi": "mblob.compat.tvm.ffi",
    "module": "mblob.compat.tvm.module",
    "nd": _NDARRAY,
    "ndarray": _NDARRAY,
    "relax": "mblob.compat.tvm.relax",
    "relay": "mblob.compat.tvm.relay",
    "runtime": "mblob.compat.tvm.runtime",
    "support": "mblob.compat.tvm.support",
    "testing": "mblob.compat.tvm.testing",
    # names
    **{
        name: f"{_NDARRAY}:{name}"
        for name in (
            "cl", "context", "cpu", "cuda", "device", "ext_dev", "gpu", "hexagon", "metal", "mtl", "opencl", "rocm",
            "vpi", "vulkan", "webgpu",
        )
    },
    "DataType": "mblob.compat.tvm.runtime:DataType",
    "TVMContext": "mblob:Device",
    "TVMError": "mblob:MblobError",
    "__version__": "mblob:__version__",
    "convert": "mblob.compat.tvm_ffi.values:convert",
    "get_global_func": "mblob:get_global_func",
    "register_func": "mblob:register_func",
    "register_global_func": "mblob:register_func",
}  # fmt: skip
_MODULES = {
    **because(
        COMPILER,
        (
            "arith", "auto_scheduler", "autotvm", "backend", "dlight", "driver", "instrument", "ir", "libinfo",
            "meta_schedule", "micro",
            "parser", "relay", "relax", "s_tir", "script", "support", "target", "te", "tir", "tirx", "topi",
            "transform", "contrib", "runtime.disco", "runtime.profiling", "runtime.profiler_vm",
        ),
    ),
    "rpc": RPC,
    "contrib.download": DOWNLOAD,
    "contrib.rpc": RPC,
}  # fmt: skip
_ABSENT = {
    **because(
        COMPILER,
        (
            "IRModule", "Object", "build", "build_config", "build_module", "compile", "compute", "create_schedule",
            "lower", "placeholder", "register_extension", "register_object", "thread_axis", "var",
        ),
    ),
    **{name: reason for name, reason in _MODULES.items() if name not in _HOMES},
}  # fmt: skip

find_absent(__name__, _MODULES)
__getattr__, __dir__ = offer_lazily(__name__, _HOMES, _ABSENT)
