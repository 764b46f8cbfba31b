"""TVM's names over mblob: `import mblob.compat.tvm as tvm`.

For programs that load and run compiled models: they were written for `tvm.runtime`,
`tvm.contrib.graph_executor`, `tvm.nd`, `tvm.relax.VirtualMachine` and the like, of TVM 0.6 to 0.27.
A name that needs TVM's compiler or its RPC can be imported; a call of it is an error that says what
to do.
"""

from __future__ import annotations

from mblob.compat.lazy_names import (
    COMPILER,
    DOWNLOAD,
    RPC,
    because,
    find_absent,
    names_of_stub,
    offer_lazily,
)

_HOMES = names_of_stub(__file__)
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
