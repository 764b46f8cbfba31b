"""A host with lines that need the compiler or RPC: each is one error, at the call."""

import sys

import tvm
import tvm.testing
from tvm import auto_scheduler, autotvm, meta_schedule, relay, relax, rpc, te, tir, topi
from tvm._ffi.base import TVMError
from tvm.contrib import cc, graph_executor, ndk
from tvm.contrib.download import download_testdata
from tvm.ir.module import IRModule
from tvm.relay import testing
from tvm.script import tir as T

calls = {
    "tvm.relay.build": lambda: relay.build(None, target="llvm"),
    "tvm.relay.frontend.from_onnx": lambda: relay.frontend.from_onnx(None),
    "tvm.relay.transform.InferType": lambda: relay.transform.InferType()(None),
    "tvm.relay.vm.compile": lambda: relay.vm.compile(None),
    "tvm.relay.testing.resnet.get_workload": lambda: testing.resnet.get_workload(),
    "tvm.relax.build": lambda: relax.build(None),
    "tvm.relax.frontend.torch.from_exported_program": lambda: (
        relax.frontend.torch.from_exported_program(None)
    ),
    "tvm.build": lambda: tvm.build(None),
    "tvm.compile": lambda: tvm.compile(None),
    "tvm.lower": lambda: tvm.lower(None),
    "tvm.transform.PassContext": lambda: tvm.transform.PassContext(opt_level=3),
    "tvm.target.Target": lambda: tvm.target.Target("llvm"),
    "tvm.te.create_schedule": lambda: te.create_schedule(None),
    "tvm.topi.nn.conv2d": lambda: topi.nn.conv2d(),
    "tvm.tir.Schedule": lambda: tir.Schedule(None),
    "tvm.script.tir.prim_func": lambda: T.prim_func(print),
    "tvm.ir.module.IRModule": lambda: IRModule({}),
    "tvm.autotvm.apply_history_best": lambda: autotvm.apply_history_best("x.log"),
    "tvm.auto_scheduler.ApplyHistoryBest": lambda: auto_scheduler.ApplyHistoryBest("x.json"),
    "tvm.meta_schedule.tune_tir": lambda: meta_schedule.tune_tir(),
    "tvm.contrib.cc.create_shared": lambda: cc.create_shared("x.so", []),
    "tvm.contrib.ndk.create_shared": lambda: ndk.create_shared("x.so", []),
    "tvm.contrib.download.download_testdata": lambda: download_testdata("http://x", "y"),
    "tvm.rpc.connect": lambda: rpc.connect("localhost", 9090),
    "tvm.rpc.LocalSession": lambda: rpc.LocalSession(),
    "tvm.testing.parameter": lambda: tvm.testing.parameter(1),
    "tvm.runtime.profiling.Report": lambda: tvm.runtime.profiling.Report(),
    "tvm.register_extension": lambda: tvm.register_extension(str),
    "tvm.instrument.PassTimingInstrument": lambda: tvm.instrument.PassTimingInstrument(),
}
for name, call in calls.items():
    try:
        call()
    except NotImplementedError as error:
        assert isinstance(error, TVMError)
        assert str(error).startswith(f"{name}: ") and "\n" not in str(error), error
    else:
        sys.exit(f"{name} did not fail")
print(graph_executor.create, len(calls))
