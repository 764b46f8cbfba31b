"""mblob: pack compute kernels and module blobs into one shared library, look into it, load it, run it.

Every name below is handed on when it is first used, so `import mblob` costs nothing: looking at a file never
imports a compiler driver, ctypes or numpy. Where each name lives is the table `_HOME`.
"""

from __future__ import annotations

import os
import sys
from _thread import RLock

TYPE_CHECKING = False  # importing `typing` takes longer than everything else here
if TYPE_CHECKING:
    from typing import Any


__version__ = "0.1.0"

_HOME = {
    # the format
    "open": "mblob.library:open_library",
    "Library": "mblob.library:Library",
    "Module": "mblob.module:Module",
    "verify": "mblob.verification:verify",
    "diff": "mblob.difference:diff",
    "save_param_dict": "mblob.ndarray:save_param_dict",
    # errors
    "MblobError": "mblob.errors:MblobError",
    "FormatError": "mblob.errors:FormatError",
    "DigestError": "mblob.errors:DigestError",
    "IncompatibleError": "mblob.errors:IncompatibleError",
    "LoaderMissingError": "mblob.errors:LoaderMissingError",
    "ToolchainError": "mblob.errors:ToolchainError",
    "KernelError": "mblob.errors:KernelError",
    "PortabilityWarning": "mblob.errors:PortabilityWarning",
    "UnreadableWarning": "mblob.errors:UnreadableWarning",
    # devices
    "Device": "mblob.devices:Device",
    "device": "mblob.devices:device",
    "cpu": "mblob.devices:cpu",
    "cuda": "mblob.devices:cuda",
    "opencl": "mblob.devices:opencl",
    # packing
    "csource_module": "packager.constructors:csource_module",
    "static_library": "packager.constructors:static_library",
    "device_module": "packager.constructors:device_module",
    "json_module": "packager.constructors:json_module",
    "graph_executor_factory": "packager.constructors:graph_executor_factory",
    "const_loader_module": "packager.constructors:const_loader_module",
    "blob_module": "packager.constructors:blob_module",
    "safetensors_module": "packager.constructors:safetensors_module",
    "export_library": "packager.export:export_library",
    # changing what is packed
    "extract": "packager.extract:extract",
    "swap": "packager.swap:swap",
    "strip_index": "packager.swap:strip_index",
    "add_index": "packager.swap:add_index",
    "convert": "packager.convert:convert",
    # bring your own codegen
    "byoc": "packager.byoc",
    "partition_graph": "packager.byoc:partition_graph",
    "register_codegen": "packager.byoc:register_codegen",
    # loading
    "load_module": "loader.load:load_module",
    "register_loader": "loader.loaders:register_loader",
    "register_func": "loader.functions:register_func",
    "get_global_func": "loader.functions:get_global_func",
    "system_lib": "loader.system_lib:system_lib",
    "PackedFunction": "loader._call:PackedFunction",
    "Tensor": "loader.tensor:Tensor",
    "empty": "loader.tensor:empty",
    "array": "loader.tensor:array",
    "from_dlpack": "loader.tensor:from_dlpack",
    "load_param_dict": "loader.tensor:load_param_dict",
    # executors: modules
    "aot_executor": "loader.aot_executor",
    "graph_executor": "loader.graph_executor",
    "vm": "loader.vm",
}

__all__ = sorted([*_HOME, "__version__"])


# A child of fork() would wait for ever for a module that another thread of its parent was importing.
_importing = RLock()
os.register_at_fork(
    before=_importing.acquire, after_in_parent=_importing.release, after_in_child=_importing.release
)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'mblob' has no attribute {name!r}")
    module, _, attribute = home.partition(":")
    with _importing:
        __import__(module)  # importlib.import_module would import importlib and warnings first
    value = sys.modules[module]
    if attribute:
        value = getattr(value, attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
