"""The origin of each name of `mblob.__init__`, for type checkers. A test compares it with the table there."""

from mblob.devices import Device as Device
from mblob.devices import cpu as cpu
from mblob.devices import cuda as cuda
from mblob.devices import device as device
from mblob.devices import opencl as opencl
from mblob.errors import ArgumentError as ArgumentError
from mblob.errors import BuildError as BuildError
from mblob.errors import DigestError as DigestError
from mblob.errors import FormatError as FormatError
from mblob.errors import HiddenNameWarning as HiddenNameWarning
from mblob.errors import IncompatibleError as IncompatibleError
from mblob.errors import KernelError as KernelError
from mblob.errors import LoaderMissingError as LoaderMissingError
from mblob.errors import MblobError as MblobError
from mblob.errors import NotFoundError as NotFoundError
from mblob.errors import PortabilityWarning as PortabilityWarning
from mblob.errors import ToolchainError as ToolchainError
from mblob.errors import UnreadableWarning as UnreadableWarning
from mblob.format.ndarray import save_param_dict as save_param_dict
from mblob.inspect.difference import diff as diff
from mblob.inspect.library import Library as Library
from mblob.inspect.library import open_library
from mblob.inspect.verification import verify as verify
from mblob.installed import get_amalgamation as get_amalgamation
from mblob.installed import get_include as get_include
from mblob.installed import get_library_dir as get_library_dir
from mblob.loader import aot_executor as aot_executor
from mblob.loader import graph_executor as graph_executor
from mblob.loader import relax as relax
from mblob.loader import vm as vm
from mblob.loader._call import PackedFunction as PackedFunction
from mblob.loader.global_functions import get_global_func as get_global_func
from mblob.loader.global_functions import list_global_func_names as list_global_func_names
from mblob.loader.global_functions import packed_function as packed_function
from mblob.loader.global_functions import register_func as register_func
from mblob.loader.global_functions import remove_global_func as remove_global_func
from mblob.loader.load import load_module as load_module
from mblob.loader.loaders import register_loader as register_loader
from mblob.loader.payloads import load_param_dict as load_param_dict
from mblob.loader.system_lib import system_lib as system_lib
from mblob.loader.tensor import Shape as Shape
from mblob.loader.tensor import Tensor as Tensor
from mblob.loader.tensor import array as array
from mblob.loader.tensor import empty as empty
from mblob.loader.tensor import from_dlpack as from_dlpack
from mblob.module import Module as Module
from mblob.packager import byoc as byoc
from mblob.packager.byoc import GraphBuilder as GraphBuilder
from mblob.packager.byoc import partition_graph as partition_graph
from mblob.packager.byoc import register_codegen as register_codegen
from mblob.packager.device.modules import device_module as device_module
from mblob.packager.edit.add import add as add
from mblob.packager.edit.convert import convert as convert
from mblob.packager.edit.extract import extract as extract
from mblob.packager.edit.standalone import standalone as standalone
from mblob.packager.edit.swap import add_index as add_index
from mblob.packager.edit.swap import strip_index as strip_index
from mblob.packager.edit.swap import swap as swap
from mblob.packager.link.export import export_library as export_library
from mblob.packager.link.relink import static_library as static_library
from mblob.packager.modules.host_modules import csource_module as csource_module
from mblob.packager.modules.payload_modules import blob_module as blob_module
from mblob.packager.modules.payload_modules import const_loader_module as const_loader_module
from mblob.packager.modules.payload_modules import graph_executor_factory as graph_executor_factory
from mblob.packager.modules.payload_modules import json_module as json_module
from mblob.packager.modules.weights import safetensors_module as safetensors_module
from mblob.packager.modules.weights import save_tensors as save_tensors

graph_runtime = graph_executor
open = open_library
__version__: str
__all__: list[str]
