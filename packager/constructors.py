"""The module constructors, as `import mblob` hands them on."""

from packager.device_modules import device_module
from packager.host_modules import csource_module, static_library
from packager.payload_modules import (
    blob_module,
    const_loader_module,
    graph_executor_factory,
    json_module,
    safetensors_module,
)

__all__ = [
    "blob_module",
    "const_loader_module",
    "csource_module",
    "device_module",
    "graph_executor_factory",
    "json_module",
    "safetensors_module",
    "static_library",
]
