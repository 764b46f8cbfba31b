"""`mblob.compat.tvm` and `mblob.compat.tvm_ffi`: names over what mblob has."""

from __future__ import annotations

import inspect
import pickle
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
import mblob.compat.tvm as tvm
import mblob.compat.tvm.relay.frontend as relay_frontend
import mblob.compat.tvm.te as te
from mblob.compat import tvm_ffi
from mblob.compat.names import NAMES
from mblob.compat.tvm import relay, rpc
from mblob.compat.tvm.contrib import graph_executor, graph_runtime, utils
from mblob.compat.tvm.contrib.debugger import debug_executor

MODULES = sorted(f"mblob.compat.{name}" for name in NAMES)


@pytest.mark.parametrize("name", MODULES)
def test_each_name_is_there(name: str) -> None:
    module = import_module(name)
    assert module.__all__ == sorted(set(module.__all__))
    for one in module.__all__:
        assert getattr(module, one) is not None
        assert one in dir(module)
    imported: dict[str, Any] = {}
    exec(f"from {name} import *", imported)
    assert set(module.__all__) <= set(imported)


def test_editors_find_a_stub_of_each_package_from_which_the_page_imports() -> None:
    root = Path(mblob.__file__).parents[1]
    page = (root / "docs" / "tvm_hosts.md").read_text()
    packages = re.findall(r"(?:import|from) (mblob\.compat[\w.]*)", page)
    assert {"mblob.compat.tvm", "mblob.compat.tvm.contrib", "mblob.compat.tvm_ffi"} <= set(packages)
    stubs = [root / package.replace(".", "/") / "__init__.pyi" for package in packages]
    assert [stub for stub in stubs if "def __getattr__" not in stub.read_text()] == []


def test_modules_can_be_imported_by_their_paths() -> None:
    script = (
        "import mblob.compat.tvm.runtime.vm, mblob.compat.tvm.te.schedule as schedule\n"
        "import mblob.compat.tvm_ffi.core as core\n"
        "from mblob.compat.tvm.contrib.debugger import debug_executor\n"
        "print(mblob.compat.tvm.runtime.vm.VirtualMachine.__name__, schedule.__name__, core.MISSING.same_as(1))\n"
        "print(mblob.compat.tvm, debug_executor.create.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        "VirtualMachine mblob.compat.tvm.te.schedule False\n"
        f"<module 'mblob.compat.tvm' ({Path(mblob.__file__).parent}/compat/names.py)> create_debug\n"
    )


def test_classes_can_be_pickled_and_sources_found() -> None:
    for value in (tvm.runtime.Executable, tvm.runtime.vm.VirtualMachine, tvm.nd.array):
        assert pickle.loads(pickle.dumps(value)) is value
    # what was pickled when each module was a file
    old = b"cmblob.compat.tvm.runtime.executable\nExecutable\n."
    assert pickle.loads(old) is tvm.runtime.Executable
    assert inspect.getsource(tvm.nd.array).startswith("def array(")
    assert inspect.getmodule(tvm.nd.array).__name__ == "mblob.compat.arrays"  # type: ignore[union-attr]
    assert "names" in (inspect.getdoc(tvm.contrib) or "")


def test_names_are_those_of_mblob() -> None:
    assert tvm.runtime.Module is tvm_ffi.Module is mblob.Module
    assert tvm.nd.NDArray is tvm.runtime.Tensor is tvm_ffi.Tensor is mblob.Tensor
    assert tvm.TVMError is tvm.error.TVMError is mblob.MblobError
    assert graph_executor.GraphModule is graph_runtime.GraphModule
    assert debug_executor.GraphModuleDebug is mblob.graph_executor.GraphModuleDebug
    assert issubclass(tvm.runtime.vm.VirtualMachine, mblob.vm.VirtualMachine)
    assert tvm.relax.VirtualMachine is mblob.relax.VirtualMachine
    assert tvm.runtime.relax_vm.VirtualMachine is mblob.relax.VirtualMachine
    assert tvm.base.TVMError is tvm._ffi.base.TVMError is tvm.TVMError
    assert tvm.ffi.Shape is tvm_ffi.Shape and tvm.support.utils is tvm.contrib.utils
    assert tvm.TVMContext is tvm.runtime.TVMContext is mblob.Device
    assert tvm.runtime.executor.aot_executor.AotModule is mblob.aot_executor.AotModule
    assert tvm.module.load is tvm.runtime.load_module is mblob.load_module
    assert tvm_ffi.Function is tvm.runtime.PackedFunc is mblob.PackedFunction
    assert tvm.gpu(1) == tvm.cuda(1) and tvm.context("cl", 2) == tvm.cl(2) == mblob.opencl(2)
    assert [str(d(0)) for d in (tvm.vulkan, tvm.metal, tvm.rocm, tvm.hexagon)] == [
        "vulkan:0",
        "metal:0",
        "rocm:0",
        "hexagon:0",
    ]


LAZY = """
import sys, mblob.compat.tvm, mblob.compat.tvm_ffi
heavy = ("mblob.loader", "mblob.packager", "numpy", "ctypes", "tvm", "tvm_ffi", "typing")
print(*(m for m in heavy if m in sys.modules))
"""


def test_importing_the_names_imports_nothing_else() -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{LAZY}"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() in ([], ["typing"])


@pytest.mark.parametrize(
    ("call", "name", "advice"),
    [
        (relay.build, "tvm.relay.build", "export_library"),
        (tvm.build, "tvm.build", "export_library"),
        (te.placeholder, "tvm.te.placeholder", "export_library"),
        (relay_frontend.from_onnx, "tvm.relay.frontend.from_onnx", "export_library"),
        (tvm.contrib.cc.create_shared, "tvm.contrib.cc.create_shared", "export_library"),
        (tvm.transform.PassContext, "tvm.transform.PassContext", "export_library"),
        (tvm.relax.build, "tvm.relax.build", "export_library"),
        (tvm.register_extension, "tvm.register_extension", "export_library"),
        (
            tvm.contrib.download.download_testdata,
            "tvm.contrib.download.download_testdata",
            "urllib",
        ),
        (tvm.runtime.profiling.Report, "tvm.runtime.profiling.Report", "export_library"),
        (rpc.connect, "tvm.rpc.connect", "no RPC"),
        (tvm.contrib.rpc.connect, "tvm.contrib.rpc.connect", "no RPC"),
        (tvm_ffi.cpp.load_inline, "tvm_ffi.cpp.load_inline", "csource_module"),
        (tvm_ffi.register_object, "tvm_ffi.register_object", "pass Python values"),
    ],
)
def test_what_mblob_does_not_have_is_an_error_at_the_call(
    call: Any, name: str, advice: str
) -> None:
    with pytest.raises(NotImplementedError, match=f"^{name}: .*{advice}") as caught:
        call(1)
    assert isinstance(caught.value, tvm.TVMError)
    assert "\n" not in str(caught.value)


def test_a_class_of_what_mblob_does_not_have_is_an_error() -> None:
    with pytest.raises(NotImplementedError, match="IRModule"):
        type("Mine", tvm.IRModule.__mro_entries__(()), {})


def test_a_name_that_nobody_has_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="did you mean"):
        _ = tvm.runtim
    with pytest.raises(ImportError):
        import_module("mblob.compat.tvm.runtim")


def test_arrays_have_the_parameters_of_tvm() -> None:
    x = tvm.nd.array([[1, 2], [3, 4]], tvm.cpu(0))
    assert tvm.nd.array(x, ctx=tvm.cpu()).numpy().tolist() == [[1, 2], [3, 4]]
    assert tvm.runtime.tensor(x.numpy(), device=tvm.cpu()).shape == (2, 2)
    assert tvm.nd.empty((2, 3)).dtype == tvm.runtime.empty((2,), "float32", tvm.cpu()).dtype
    assert tvm.nd.empty((2,), mem_scope="global").shape == (2,)
    with pytest.raises(
        tvm.TVMError, match=r"mem_scope: expected None or 'global', found 'texture'"
    ):
        tvm.nd.empty((2,), mem_scope="texture")
    tvm.testing.assert_allclose(x.numpy(), np.array([[1, 2], [3, 4]]))
    with pytest.raises(AssertionError):
        tvm.testing.assert_allclose(x.numpy(), 0)


def test_a_target_names_the_device_of_its_first_word() -> None:
    assert tvm.device("llvm -mcpu=skylake", 1) == tvm.cpu(1)
    assert tvm.context("opencl -device=mali") == tvm.device(dev_type="cl", dev_id=0)
    assert tvm.nd.array([1.0], tvm.cpu()).ctx == tvm.cpu()


def test_a_device_tells_what_it_is() -> None:
    cpu = tvm.cpu()
    assert cpu.exist and cpu.max_threads_per_block is cpu.device_name is cpu.warp_size is None


def test_an_input_of_a_model_is_copied_to_an_array(tmp_path: Path) -> None:
    graph = mblob.GraphBuilder()
    x = graph.input("x", (2,), "float32")
    graph.output(graph.call("f", [x], (2,)))
    factory = mblob.graph_executor_factory(graph)
    code = "void f(const float *x, float *y) { y[0] = x[1], y[1] = x[0]; }"
    prototype = "void f(const float x[2], float y[2])"
    factory.import_module(mblob.csource_module(code, functions=[prototype], packed="name"))
    model = graph_executor.GraphModule(factory["default"](tvm.cpu()))
    model.set_input(x=np.array([1, 2], "float32"))
    out = tvm.nd.empty((2,))
    assert model.get_input(0, out) is out and out.numpy().tolist() == [1, 2]
    with pytest.raises(ValueError, match=r"expected float32 of shape \(3,\)"):
        model.get_input("x", np.zeros(3, "float32"))


def test_a_function_is_called_before_each_measurement() -> None:
    order: list[str] = []
    tvm.register_func("names.before", lambda *_: order.append("before"), override=True)
    functions = {"f": mblob.packed_function(lambda: order.append("f"))}
    module = mblob.Module("timed", functions=functions)
    module.time_evaluator("f", tvm.cpu(), number=2, repeat=2, f_preproc="names.before")()
    assert order == ["f", *(["before", "f", "f"] * 2)]
    with pytest.raises(mblob.NotFoundError, match=r"names\.none"):
        module.time_evaluator("f", f_preproc="names.none")


def test_parameters_go_to_files_and_back(tmp_path: Path) -> None:
    given = {"w": np.arange(4, dtype="float32")}
    path = tmp_path / "w.params"
    tvm.runtime.save_param_dict_to_file(given, path)
    (found,) = tvm.runtime.load_param_dict_from_file(path).items()
    assert found[0] == "w" and found[1].numpy().tolist() == [0, 1, 2, 3]
    assert relay.load_param_dict(relay.save_param_dict(given))["w"].shape == (4,)


def test_a_temporary_folder_is_removed() -> None:
    with utils.tempdir() as temp:
        assert temp / "a" == Path(temp.relpath("a"))
        Path(temp.relpath("a")).write_text("x")
        assert temp.listdir() == ["a"]
    assert not Path(temp.path).exists()


def test_what_this_process_can_run() -> None:
    assert tvm.runtime.enabled("llvm") and not tvm.runtime.enabled("unknown")
    assert tvm.runtime.num_threads() >= 1


SOURCE = "void twice(const float *x, float *y, int64_t n) { for (int i = 0; i < n; i++) y[i] = 2 * x[i]; }"
PROTOTYPE = "void twice(const float x[n], float y[n], int64_t n)"


def test_an_executable_links_once_and_when_told() -> None:
    lib = mblob.csource_module(f"#include <stdint.h>\n{SOURCE}", functions=[PROTOTYPE])
    executable = tvm.runtime.Executable(lib)
    first = executable.jit()
    assert executable.jit() is first and executable.mod is lib
    assert executable.jit(force_recompile=True) is not first
    x, y = np.arange(3, dtype="float32"), np.empty(3, "float32")
    executable["twice"](x, y, 3)
    assert y.tolist() == [0, 2, 4]


@pytest.mark.own_process
def test_a_machine_takes_an_executable_and_has_tvms_names_of_allocators(golden: Path) -> None:
    lib = mblob.load_module(golden / "relax" / "cnn_bound.so")
    machine = tvm.relax.VirtualMachine(tvm.runtime.Executable(lib), tvm.cpu())
    assert machine.functions == ["forward"]
    assert (machine.NAIVE_ALLOCATOR, machine.POOLED_ALLOCATOR) == (1, 2)


def test_a_device_is_made_of_a_name() -> None:
    assert tvm_ffi.Device("cuda", 1) == tvm_ffi.Device(2, 1)


def test_registered_functions_can_be_listed_and_removed() -> None:
    @tvm_ffi.register_global_func("compat.echo")
    def echo(x: Any) -> Any:
        return x

    assert echo.same_as(tvm_ffi.get_global_func("compat.echo")) and echo(3) == 3
    assert "compat.echo" in tvm_ffi.registry.list_global_func_names()
    tvm_ffi.remove_global_func("compat.echo")
    assert tvm_ffi.get_global_func("compat.echo", allow_missing=True) is None
    with pytest.raises(mblob.NotFoundError, match=r"compat\.echo"):
        tvm_ffi.remove_global_func("compat.echo")


def test_a_tensor_of_others_is_checked_as_asked() -> None:
    x = mblob.empty((4,), "float32")
    assert tvm_ffi.from_dlpack(x, require_alignment=64, require_contiguous=True).shape == (4,)
    part = x._create_view((3,), relative_byte_offset=4)
    with pytest.raises(ValueError, match="not a multiple of 64"):
        tvm_ffi.from_dlpack(part, require_alignment=64)
