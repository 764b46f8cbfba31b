"""Where the names of `mblob.__init__` come from, for type checkers. A test compares it with the table there."""

from collections.abc import Callable
from typing import Any, overload

from loader import aot_executor as aot_executor
from loader import graph_executor as graph_executor
from loader import vm as vm
from loader._call import PackedFunction as PackedFunction
from loader.functions import get_global_func as get_global_func
from loader.load import load_module as load_module
from loader.loaders import register_loader as register_loader
from loader.system_lib import system_lib as system_lib
from loader.tensor import Tensor as Tensor
from loader.tensor import array as array
from loader.tensor import empty as empty
from loader.tensor import from_dlpack as from_dlpack
from loader.tensor import load_param_dict as load_param_dict
from mblob.devices import Device as Device
from mblob.devices import cpu as cpu
from mblob.devices import cuda as cuda
from mblob.devices import device as device
from mblob.devices import opencl as opencl
from mblob.difference import diff as diff
from mblob.errors import DigestError as DigestError
from mblob.errors import FormatError as FormatError
from mblob.errors import IncompatibleError as IncompatibleError
from mblob.errors import KernelError as KernelError
from mblob.errors import LoaderMissingError as LoaderMissingError
from mblob.errors import MblobError as MblobError
from mblob.errors import PortabilityWarning as PortabilityWarning
from mblob.errors import ToolchainError as ToolchainError
from mblob.errors import UnreadableWarning as UnreadableWarning
from mblob.library import Library as Library
from mblob.library import open_library
from mblob.module import Module as Module
from mblob.ndarray import save_param_dict as save_param_dict
from mblob.verification import verify as verify
from packager import byoc as byoc
from packager.byoc import partition_graph as partition_graph
from packager.byoc import register_codegen as register_codegen
from packager.constructors import blob_module as blob_module
from packager.constructors import const_loader_module as const_loader_module
from packager.constructors import csource_module as csource_module
from packager.constructors import device_module as device_module
from packager.constructors import graph_executor_factory as graph_executor_factory
from packager.constructors import json_module as json_module
from packager.constructors import safetensors_module as safetensors_module
from packager.constructors import static_library as static_library
from packager.convert import convert as convert
from packager.export import export_library as export_library
from packager.extract import extract as extract
from packager.swap import add_index as add_index
from packager.swap import strip_index as strip_index
from packager.swap import swap as swap

open = open_library
__version__: str
__all__: list[str]

_F = Callable[..., Any]

@overload
def register_func(name: str, f: _F, override: bool = False) -> _F: ...
@overload
def register_func(name: _F) -> _F: ...
@overload
def register_func(name: str, f: None = None, override: bool = False) -> Callable[[_F], _F]: ...
