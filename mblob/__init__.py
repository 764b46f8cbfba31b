"""Pack compute kernels, graphs and weights into one shared library, and call it.

What to call first (`help(mblob.NAME)` describes a name):

    csource_module      C sources to pack; import_module adds weights, export_library writes a .so
    load_module         load a .so of mblob or TVM: call its functions, read its tensors
    graph_executor      run a model of TVM; also aot_executor, vm, relax
    open                look into a .so without running it; also verify, diff
    swap                replace weights in a .so; also add, extract, convert

Pack:

    host = mblob.csource_module("vadd.c", functions=["void vadd(const float a[n], ...)"])
    host.import_module(mblob.safetensors_module({"w": weights}))
    host.export_library("deploy.so")

Load and call:

    lib = mblob.load_module("deploy.so")
    lib["vadd"](a, b, c, 3)
    lib.functions, lib.tensors["w"], lib.payloads

MblobError is the base of all errors of mblob.
"""

# Every name is handed on when it is first used, so `import mblob` costs nothing: looking at a file
# never imports a compiler driver, ctypes or numpy. Where each name lives is the table `_HOME`.

from __future__ import annotations

import os
import sys
from _thread import RLock

__version__ = "0.1.0"

_HOME = {
    # the format
    "open": "mblob.inspect.library:open_library",
    "Library": "mblob.inspect.library:Library",
    "Module": "mblob.module:Module",
    "verify": "mblob.inspect.verification:verify",
    "diff": "mblob.inspect.difference:diff",
    "save_param_dict": "mblob.format.ndarray:save_param_dict",
    # errors
    "MblobError": "mblob.errors:MblobError",
    "ArgumentError": "mblob.errors:ArgumentError",
    "FormatError": "mblob.errors:FormatError",
    "DigestError": "mblob.errors:DigestError",
    "IncompatibleError": "mblob.errors:IncompatibleError",
    "LoaderMissingError": "mblob.errors:LoaderMissingError",
    "BuildError": "mblob.errors:BuildError",
    "ToolchainError": "mblob.errors:ToolchainError",
    "NotFoundError": "mblob.errors:NotFoundError",
    "KernelError": "mblob.errors:KernelError",
    "PortabilityWarning": "mblob.errors:PortabilityWarning",
    "UnreadableWarning": "mblob.errors:UnreadableWarning",
    "HiddenNameWarning": "mblob.errors:HiddenNameWarning",
    # C programs
    "get_amalgamation": "mblob.installed:get_amalgamation",
    "get_include": "mblob.installed:get_include",
    "get_library_dir": "mblob.installed:get_library_dir",
    # devices
    "Device": "mblob.devices:Device",
    "device": "mblob.devices:device",
    "cpu": "mblob.devices:cpu",
    "cuda": "mblob.devices:cuda",
    "opencl": "mblob.devices:opencl",
    # packing
    "csource_module": "mblob.packager.modules.host_modules:csource_module",
    "static_library": "mblob.packager.link.relink:static_library",
    "device_module": "mblob.packager.device.modules:device_module",
    "json_module": "mblob.packager.modules.payload_modules:json_module",
    "graph_executor_factory": "mblob.packager.modules.payload_modules:graph_executor_factory",
    "const_loader_module": "mblob.packager.modules.payload_modules:const_loader_module",
    "blob_module": "mblob.packager.modules.payload_modules:blob_module",
    "safetensors_module": "mblob.packager.modules.weights:safetensors_module",
    "save_tensors": "mblob.packager.modules.weights:save_tensors",
    "export_library": "mblob.packager.link.export:export_library",
    # changing what is packed
    "extract": "mblob.packager.edit.extract:extract",
    "add": "mblob.packager.edit.add:add",
    "swap": "mblob.packager.edit.swap:swap",
    "strip_index": "mblob.packager.edit.swap:strip_index",
    "add_index": "mblob.packager.edit.swap:add_index",
    "convert": "mblob.packager.edit.convert:convert",
    "standalone": "mblob.packager.edit.standalone:standalone",
    # graphs, and parts of them for code generators
    "GraphBuilder": "mblob.packager.byoc:GraphBuilder",
    "byoc": "mblob.packager.byoc",
    "partition_graph": "mblob.packager.byoc:partition_graph",
    "register_codegen": "mblob.packager.byoc:register_codegen",
    # loading
    "load_module": "mblob.loader.load:load_module",
    "register_loader": "mblob.loader.loaders:register_loader",
    "register_func": "mblob.loader.global_functions:register_func",
    "get_global_func": "mblob.loader.global_functions:get_global_func",
    "list_global_func_names": "mblob.loader.global_functions:list_global_func_names",
    "packed_function": "mblob.loader.global_functions:packed_function",
    "remove_global_func": "mblob.loader.global_functions:remove_global_func",
    "system_lib": "mblob.loader.system_lib:system_lib",
    "PackedFunction": "mblob.loader._call:PackedFunction",
    "Shape": "mblob.loader.tensor:Shape",
    "Tensor": "mblob.loader.tensor:Tensor",
    "empty": "mblob.loader.tensor:empty",
    "array": "mblob.loader.tensor:array",
    "from_dlpack": "mblob.loader.tensor:from_dlpack",
    "load_param_dict": "mblob.loader.payloads:load_param_dict",
    # executors: modules
    "aot_executor": "mblob.loader.aot_executor",
    "graph_executor": "mblob.loader.graph_executor",
    "graph_runtime": "mblob.loader.graph_executor",  # its name in TVM 0.6
    "relax": "mblob.loader.relax",
    "vm": "mblob.loader.vm",
}

__all__ = sorted([*_HOME, "__version__"])


# A child of fork() would wait for ever for a module that another thread of its parent was
# importing.
_importing = RLock()
os.register_at_fork(
    before=_importing.acquire, after_in_parent=_importing.release, after_in_child=_importing.release
)


class _NoSuchName(AttributeError):
    """No such name in mblob. What was meant is looked for when the text is asked for: importing
    `mblob.x` raises this, too."""

    def __str__(self) -> str:
        from mblob.errors import did_you_mean

        wanted = self.args[0]
        instead = next((f"; write {way}" for names, way in _WAYS if wanted in names.split()), "")
        near = instead or did_you_mean(wanted, __all__)
        return f"module 'mblob' has no attribute {wanted!r}{near}"


# Names that others have for what mblob does, and what to write.
_WAYS = (
    ("build compile create export link make pack", 'mblob.csource_module("k.c").export_library("k.so")'),
    ("import_module load load_library load_file load_static_library", 'mblob.load_module("k.so")'),
    ("diff info inspect tree verify", 'mblob.open("k.so")'),
    ("GraphExecutor GraphModule GraphRuntime", 'mblob.graph_executor.GraphModule(lib["default"](mblob.cpu(0)))'),
    ("AotExecutor AotModule", 'mblob.aot_executor.AotModule(lib["default"](mblob.cpu(0)))'),
    ("VirtualMachine vm_executor", "mblob.relax.VirtualMachine(lib, mblob.cpu(0)), of Relay mblob.vm.VirtualMachine"),
    ("nd tensor ndarray NDArray", "mblob.array(x)"),
    ("standalone", 'lib.export_library("whole.so", standalone=True)'),
    ("weights save_weights params", "mblob.safetensors_module({name: array})"),
)  # fmt: skip


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise _NoSuchName(name)
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
