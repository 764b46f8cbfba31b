"""`tvm.runtime`: modules, arrays, devices and parameters."""

from __future__ import annotations

from mblob import Device as Device
from mblob import Module as Module
from mblob import PackedFunction, Shape
from mblob import Tensor as Tensor
from mblob import from_dlpack as from_dlpack
from mblob import load_module as load_module
from mblob import load_param_dict as load_param_dict
from mblob import save_param_dict as save_param_dict
from mblob import system_lib as system_lib
from mblob.compat.lazy_names import COMPILER, because, offer_lazily
from mblob.compat.tvm.runtime import executor as executor
from mblob.compat.tvm.runtime import ndarray as ndarray
from mblob.compat.tvm.runtime import relax_vm as relax_vm
from mblob.compat.tvm.runtime import vm as vm
from mblob.compat.tvm.runtime.container import String as String
from mblob.compat.tvm.runtime.executable import Executable as Executable
from mblob.compat.tvm.runtime.module import enabled as enabled
from mblob.compat.tvm.runtime.module import load_static_library as load_static_library
from mblob.compat.tvm.runtime.module import num_threads as num_threads
from mblob.compat.tvm.runtime.ndarray import array as array
from mblob.compat.tvm.runtime.ndarray import cl as cl
from mblob.compat.tvm.runtime.ndarray import cpu as cpu
from mblob.compat.tvm.runtime.ndarray import cuda as cuda
from mblob.compat.tvm.runtime.ndarray import device as device
from mblob.compat.tvm.runtime.ndarray import empty as empty
from mblob.compat.tvm.runtime.ndarray import ext_dev as ext_dev
from mblob.compat.tvm.runtime.ndarray import gpu as gpu
from mblob.compat.tvm.runtime.ndarray import metal as metal
from mblob.compat.tvm.runtime.ndarray import mtl as mtl
from mblob.compat.tvm.runtime.ndarray import opencl as opencl
from mblob.compat.tvm.runtime.ndarray import rocm as rocm
from mblob.compat.tvm.runtime.ndarray import vpi as vpi
from mblob.compat.tvm.runtime.ndarray import vulkan as vulkan
from mblob.compat.tvm.runtime.params import load_param_dict_from_file as load_param_dict_from_file
from mblob.compat.tvm.runtime.params import save_param_dict_to_file as save_param_dict_to_file
from mblob.compat.tvm_ffi.values import convert as convert
from mblob.dtype import TypeName

DataType = TypeName
NDArray = Tensor
PackedFunc = PackedFunction
ShapeTuple = Shape
TVMContext = Device
tensor = array
_ABSENT = (
    "Object", "ObjectGeneric", "Report", "Scriptable", "const", "disco", "profiler_vm", "profiling",
    "script_printer",
)  # fmt: skip
__getattr__, _ = offer_lazily(__name__, {}, because(COMPILER, _ABSENT))
