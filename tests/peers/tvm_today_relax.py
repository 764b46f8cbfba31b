"""Programs of TVM's tests of the virtual machine of today (relax/test_vm_*), restated, and the program
that compiles and runs them where apache-tvm is installed:

    python -m tests.peers.tvm_today_relax FOLDER

writes a library for each way to run a program, and the outcomes of all calls.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.peers.kernel import F, array
from tests.peers.tvm_today import numpy_array

MODES = ("bytecode", "compiled")
BUILD, CODEGEN, CALLBACK = "test_vm_build", "test_vm_codegen_only", "test_vm_callback_function"


@dataclass(frozen=True)
class Program:
    """A function of a program, and calls of it.

    Attributes:
        case: name of the case.
        function: that is called.
        calls: arguments of each call: arrays, numbers, texts, lists, {"shape": extents} and {"host":
            name of a function of `HOST`}.
    """

    case: str
    function: str
    calls: list[list[Any]]


def shape(*extents: int) -> dict[str, Any]:
    return {"extents": list(extents)}


def host(name: str) -> dict[str, Any]:
    return {"host": name}


seen: list[Any] = []


def _added(a: Any, b: Any) -> Any:
    return TENSOR[0](a.numpy() + b.numpy())


def _multiplied(a: Any, b: Any) -> Any:
    return TENSOR[0](a.numpy() * b.numpy())


TENSOR: list[Callable[[Any], Any]] = []  # how this process makes a tensor of an array
HOST: dict[str, Callable[..., Any]] = {
    "relax.peers.copy": lambda a, b: b.copyfrom(a.numpy()) and None,
    "relax.peers.add": _added,
    "relax.peers.multiply": _multiplied,
    "relax.peers.less_one": lambda a: TENSOR[0](a.numpy() - 1),
    "relax.peers.is_zero": lambda a: TENSOR[0](a.numpy()[0] == 0),
    "relax.peers.tile": lambda a, b: b.copyfrom(a.numpy().repeat(2, -1).reshape(b.shape)) and None,
    "relax.peers.keep": lambda a: seen.append(a.numpy().tolist()),
    "relax.peers.sixteen": lambda: TENSOR[0](numpy_array(array("int32", 16))),
}
PROGRAM = """
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def t_concat(a: T.handle, b: T.handle, c: T.handle):
        n, m = T.int64(), T.int64()
        A, B = T.match_buffer(a, (n,)), T.match_buffer(b, (m,))
        C = T.match_buffer(c, (n + m,))
        for i in range(n + m):
            C[i] = T.if_then_else(i < n, A[i], B[i - n])

    @T.prim_func(s_tir=True)
    def t_int16(a: T.handle, b: T.handle):
        n = T.int64()
        A, B = T.match_buffer(a, (n,)), T.match_buffer(b, (n,), "int16")
        for i in range(n):
            B[i] = T.Cast("int16", A[i])

    @T.prim_func(s_tir=True)
    def t_half(a: T.handle, b: T.handle):
        n, h = T.int64(), T.int64()
        A, B = T.match_buffer(a, (n,)), T.match_buffer(b, (h,))
        for i in range(h):
            B[i] = A[i] + T.float32(1)

    @T.prim_func(s_tir=True)
    def t_pairs(a: T.handle, b: T.handle, c: T.handle):
        n, h = T.int64(), T.int64()
        A, B, C = T.match_buffer(a, (n,)), T.match_buffer(b, (h,)), T.match_buffer(c, (n,))
        for i in range(n):
            C[i] = A[i] + B[i // 2]

    @T.prim_func(s_tir=True)
    def t_matmul(a: T.handle, b: T.handle, c: T.handle):
        m, n, k = T.int64(), T.int64(), T.int64()
        A, B, C = T.match_buffer(a, (m, n)), T.match_buffer(b, (n, k)), T.match_buffer(c, (m, k))
        for i, j in T.grid(m, k):
            C[i, j] = T.float32(0)
            for l in range(n):
                C[i, j] = C[i, j] + A[i, l] * B[l, j]

    @T.prim_func(s_tir=True)
    def t_ones(A: T.Buffer((2, 3), "int32")):
        for i, j in T.grid(2, 3):
            A[i, j] = 1

    @T.prim_func(s_tir=True)
    def t_sum_and_square(A: T.Buffer((2, 3), "int32"), B: T.Buffer((2, 3), "int32"), C: T.Buffer((2, 3), "int32")):
        for i, j in T.grid(2, 3):
            A[i, j] = A[i, j] + B[i, j]
            C[i, j] = A[i, j] * A[i, j]

    @T.prim_func(s_tir=True)
    def t_copy(A: T.Buffer((2, 3), "float32"), B: T.Buffer((2, 3), "float32")):
        for i, j in T.grid(2, 3):
            B[i, j] = A[i, j]

    @R.function
    def simple(x: R.Tensor((3, 4), "float32"), y: R.Tensor((3, 4), "float32")):
        z = R.call_pure_packed("relax.peers.copy", x, y, ty_args=(R.Tensor(ndim=2, dtype="float32")))
        return y

    @R.function
    def matched(x: R.Tensor(["n", "m"], "int32"), y: R.Any) -> R.Tensor(["m", "n"], dtype=None):
        return y

    @R.function
    def doubled_shape(x: R.Tensor(dtype="float32")) -> R.Shape:
        n, m = T.int64(), T.int64()
        _ = R.match_cast(x, R.Tensor((n, m), "float32"))
        return R.shape([n * 2, m * 3])

    @R.function
    def tiled(x: R.Tensor((4, 3), "float32")) -> R.Tensor:
        with R.dataflow():
            y = R.call_dps_packed("relax.peers.tile", (x,), R.Tensor((4, 6), dtype="float32"))
            R.output(y)
        return y

    @R.function
    def tiled_symbolic(x: R.Tensor(dtype="float32")) -> R.Tensor:
        n, m = T.int64(), T.int64()
        with R.dataflow():
            _ = R.match_cast(x, R.Tensor((n, m), "float32"))
            y = R.call_dps_packed("relax.peers.tile", (x,), R.Tensor((n, m * 2), dtype="float32"))
            R.output(y)
        return y

    @R.function
    def product(x: R.Tensor(["m", "n"], "float32"), w: R.Tensor(["n", "k"], "float32")) -> R.Tensor:
        m, k = T.int64(), T.int64()
        y = R.call_tir(Module.t_matmul, (x, w), R.Tensor((m, k), dtype="float32"))
        return y

    @R.function
    def in_place(x: R.Tensor((2, 3), "int32")) -> R.Tensor((2, 3), "int32"):
        R.func_attr({"relax.force_pure": True})
        y = R.call_tir_inplace(Module.t_ones, (x,), inplace_indices=[0], out_ty=R.Tensor((2, 3), dtype="int32"))
        return y

    @R.function
    def in_place_rw(x: R.Tensor((2, 3), "int32"), y: R.Tensor((2, 3), "int32")):
        R.func_attr({"relax.force_pure": True})
        both = R.call_tir_inplace(
            Module.t_sum_and_square, (x, y), inplace_indices=[0, -1],
            out_ty=[R.Tensor((2, 3), dtype="int32"), R.Tensor((2, 3), dtype="int32")],
        )
        return both

    @R.function
    def concat(x: R.Tensor(["n"], "float32"), y: R.Tensor(["m"], "float32")) -> R.Tensor:
        n, m = T.int64(), T.int64()
        z = R.call_tir(Module.t_concat, (x, y), R.Tensor((n + m,), dtype="float32"))
        return z

    @R.function
    def to_int16(x: R.Tensor(["n"], "float32")) -> R.Tensor:
        n = T.int64()
        z = R.call_tir(Module.t_int16, (x,), R.Tensor((n,), dtype="int16"))
        return z

    @R.function
    def half(x: R.Tensor(["n"], "float32")) -> R.Tensor:
        n = T.int64()
        z = R.call_tir(Module.t_half, (x,), R.Tensor((n // 2,), dtype="float32"))
        return z

    @R.function
    def add_constant(x: R.Tensor((2, 2), "float32")) -> R.Tensor((2, 2), "float32"):
        with R.dataflow():
            y = R.add(x, R.const([[1, 2], [3, 4.5]], "float32"))
            R.output(y)
        return y

    @R.function
    def pairs(x: R.Tensor(["n"], "float32"), y: R.Tensor(["n // 2 + 1"], "float32")) -> R.Tensor:
        n = T.int64()
        z = R.call_tir(Module.t_pairs, (x, y), R.Tensor((n,), dtype="float32"))
        return z

    @R.function
    def larger_shape(s: R.Shape(["m", "n"])):
        m, n = T.int64(), T.int64()
        return R.shape([2 * m, 3 * n])

    @R.function
    def last_of(x: R.Tensor(["n"], "float32"), y: R.Tensor(["n + 1"], "float32")) -> R.Tensor:
        n = T.int64()
        z = R.add(y, y)
        return z

    @R.function
    def nested(x: R.Tensor(["n"], "float32"), y: R.Tensor(["n"], "float32")):
        t = (x, y)
        return (t, t[0])

    @R.function
    def items(x: R.Tensor(ndim=2, dtype="float32"), y: R.Tensor(ndim=2, dtype="float32")):
        t = (x, y)
        a, b = t[0], t[1]
        c = R.call_pure_packed("relax.peers.add", a, b, ty_args=(R.Tensor(ndim=2, dtype="float32")))
        return c

    @R.function
    def allocated(x: R.Tensor((2, 3), dtype="float32")):
        R.func_attr({"relax.force_pure": True})
        storage = R.memory.alloc_storage(R.shape([24]), virtual_device_index=0, storage_scope="global", dtype="float32")
        y = R.memory.alloc_tensor(storage, 0, R.shape([2, 3]), dtype="float32")
        _ = Module.t_copy(x, y)
        return y

    @R.function
    def squared(x: R.Tensor((4, 4), "float32")) -> R.Any:
        y = R.call_pure_packed("relax.peers.multiply", x, x, ty_args=(R.Tensor(ndim=2, dtype="float32")))
        return y

    @R.function
    def calls_others(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")) -> R.Any:
        y = R.call_tir(Module.t_matmul, (x, w), R.Tensor((4, 4), dtype="float32"))
        z = Module.squared(y)
        return z

    @R.function
    def recursion(n: R.Tensor((1,), "float32")) -> R.Tensor:
        zero = R.call_pure_packed("relax.peers.is_zero", n, ty_args=(R.Tensor((), dtype="bool")))
        if zero:
            found = R.const([1.0], "float32")
        else:
            less = R.call_pure_packed("relax.peers.less_one", n, ty_args=(R.Tensor((1,), dtype="float32")))
            again = Module.recursion(less)
            found = R.call_pure_packed("relax.peers.add", again, again, ty_args=(R.Tensor((1,), dtype="float32")))
        return found

    @R.function
    def inner_add(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
        z = R.call_pure_packed("relax.peers.add", x, y, ty_args=(R.Tensor((2, 3), dtype="float32")))
        return z

    @R.function(pure=False)
    def closure(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
        f = R.make_closure(Module.inner_add, (x,))
        z = R.invoke_closure(f, (y,), ty_args=(R.Tensor((2, 3), dtype="float32")))
        return z

    @R.function(pure=False)
    def copied(x: R.Tensor((3, 4), "float32")):
        y = R.call_packed("vm.builtin.copy", x, ty_args=(R.Tensor((3, 4), dtype="float32")))
        return y

    @R.function(pure=False)
    def to_device(x: R.Tensor((3, 4), "float32")):
        y = R.call_packed("vm.builtin.to_device", x, 1, 0, ty_args=(R.Tensor((3, 4), dtype="float32")))
        return y

    @R.function
    def condition_constant(x: R.Tensor(ndim=2, dtype="float32")) -> R.Tensor(ndim=2, dtype="float32"):
        if R.const(True, "bool"):
            y = x
        else:
            y = x
        return y

    @R.function(pure=False)
    def condition(c: R.Tensor((), "bool"), x: R.Tensor((3, 4), "float32")) -> R.Tensor:
        if c:
            y = R.call_packed("relax.peers.add", x, x, ty_args=(R.Tensor((3, 4), dtype="float32")))
        else:
            y = R.call_packed("relax.peers.multiply", x, x, ty_args=(R.Tensor((3, 4), dtype="float32")))
        return y

    @R.function
    def constants(x: R.Tensor(ndim=2, dtype="float32")):
        y = R.const([1, 2], "int32")
        z = (y, R.const([3, 4], "int32"), x)
        return z

    @R.function(pure=False)
    def constant_arguments(x: R.Tensor((1, 2), "float32")):
        a = R.call_packed(
            "relax.peers.add", R.const([1, 2], "float32"), R.const([3, 4], "float32"),
            ty_args=(R.Tensor((2,), dtype="float32")),
        )
        b = R.call_packed("relax.peers.add", a, x, ty_args=(R.Tensor((1, 2), dtype="float32")))
        return b

    @R.function
    def turned_shape(x: R.Tensor(["n", "m"], "float32")) -> R.Shape(ndim=3):
        n, m = T.int64(), T.int64()
        return R.shape([m, n, 2])

    @R.function
    def number():
        return R.prim_value(T.int64(1))

    @R.function
    def element_type():
        return R.dtype("float32")

    @R.function
    def text():
        return R.str("hello")

    @R.function
    def reshaped(x: R.Tensor((3, 4), "float32")) -> R.Tensor((6, 2), "float32"):
        y = R.reshape(x, R.shape([6, 2]))
        return y

    @R.function
    def replaced():
        with R.dataflow():
            a = R.full(R.shape([4]), R.const(0, "float32"))
            b = R.add(a, R.ones(R.shape([4]), "float32"))
            c = R.multiply(b, R.const(3, "float32"))
            R.output(c)
        return c

    @R.function
    def trivial(x: R.Tensor((2, 3), "float32")):
        y = x
        z = y
        return (x, y, z)

    @R.function(pure=False)
    def to_callback(a: R.Tensor([16], "int32"), f: R.Callable([R.Tensor([16], "int32")], R.Tuple([]))):
        b = R.multiply(a, R.const(2, "int32"))
        _ = f(b)
        return R.tuple()

    @R.function(pure=False)
    def from_callback(f: R.Callable([], R.Tensor([16], "int32"))):
        a = f()
        b = R.multiply(a, R.const(2, "int32"))
        return b
"""
SQUARE = array(F, 3, 4, start=-5)
TWO = array(F, 2, 3, start=4)
PROGRAMS = [
    Program(f"{BUILD}.test_vm_compile_simple", "simple", [[SQUARE, array(F, 3, 4)]]),
    Program(f"{BUILD}.test_vm_compile_without_target_arg", "simple", [[SQUARE, array(F, 3, 4)]]),
    Program(
        f"{BUILD}.test_match_check", "matched",
        [[array("int32", 1, 2), array(F, *y)] for y in ((2, 1), (1, 2), (2, 1, 1))],
    ),
    Program(
        f"{BUILD}.test_vm_compile_stage2", "doubled_shape",
        [[array(F, 8, 4)], [array("int32", 1, 2)], [array(F, 1)], [[]]],
    ),
    Program(f"{BUILD}.test_vm_compile_stage3", "tiled", [[array(F, 4, 3)]]),
    Program(f"{BUILD}.test_vm_compile_e2e", "tiled_symbolic", [[array(F, 4, 3)], [array(F, 2, 5)]]),
    Program(
        f"{BUILD}.test_vm_compile_e2e_func_param_with_shape", "product",
        [[array(F, 4, 3), array(F, 3, 5)], [array(F, 4, 3), array(F, 4, 5)]],
    ),
    Program(f"{BUILD}.test_call_tir_inplace_e2e_simple", "in_place", [[array("int32", 2, 3)]]),
    Program(
        f"{BUILD}.test_call_tir_inplace_e2e_rw", "in_place_rw",
        [[array("int32", 2, 3), array("int32", 2, 3, start=5)]],
    ),
    Program(f"{BUILD}.test_vm_emit_te_extern", "items", [[array(F, 2, 2), array(F, 2, 2)]]),
    Program(f"{BUILD}.test_vm_emit_te_concat", "concat", [[array(F, 1), array(F, 2, start=3)]]),
    Program(f"{BUILD}.test_vm_emit_te_dtype_change", "to_int16", [[array(F, 3, start=-1)]]),
    Program(f"{BUILD}.test_vm_emit_te_floor_symbolic_shape", "half", [[array(F, 9)], [array(F, 1)]]),
    Program(f"{BUILD}.test_vm_emit_te_constant_param_cpu", "add_constant", [[array(F, 2, 2)]]),
    Program(
        f"{BUILD}.test_vm_relax_symbolic_shape", "pairs",
        [[array(F, 5), array(F, 3)], [array(F, 5), array(F, 4)]],
    ),
    Program(
        f"{BUILD}.test_vm_relax_symbolic_shape_tuple", "larger_shape",
        [[shape(2, 3)], [shape(2, 3, 4)], [2]],
    ),
    Program(f"{BUILD}.test_vm_relax_dyn_tir_shape", "last_of", [[array(F, 2), array(F, 3, start=1)]]),
    Program(f"{BUILD}.test_vm_tuple", "nested", [[array(F, 5), array(F, 5, start=7)]]),
    Program(f"{BUILD}.test_vm_tuplegetitem", "items", [[TWO, array(F, 2, 3)]]),
    Program(f"{BUILD}.test_lower_memory_alloc_storage_tensor", "allocated", [[TWO]]),
    Program(f"{BUILD}.test_sub_func_call", "calls_others", [[array(F, 4, 4), array(F, 4, 4, start=-3)]]),
    Program(f"{BUILD}.test_recursion", "recursion", [[array(F, 1, start=n)] for n in (0, 3, 7)]),
    Program(f"{BUILD}.test_vm_to_device", "to_device", [[SQUARE]]),
    Program(f"{BUILD}.test_vm_closure", "closure", [[TWO, array(F, 2, 3)]]),
    Program(f"{CODEGEN}.test_vm_copy", "copied", [[SQUARE]]),
    Program(f"{CODEGEN}.test_vm_to_device", "to_device", [[SQUARE]]),
    Program(f"{CODEGEN}.test_if_cond_const", "condition_constant", [[SQUARE]]),
    Program(
        f"{CODEGEN}.test_if_cond", "condition",
        [[{"dtype": "bool", "shape": [], "start": v}, SQUARE] for v in (1, 0)],
    ),
    Program(f"{CODEGEN}.test_vm_return_const_tuple", "constants", [[TWO]]),
    Program(f"{CODEGEN}.test_vm_const_as_call_arg", "constant_arguments", [[array(F, 1, 2)]]),
    Program(
        f"{CODEGEN}.test_shape_check_builtin", "turned_shape",
        [[array(F, 1, 2)], [[]], [array(F, 1)], [array("int32", 1, 2)]],
    ),
    Program(f"{CODEGEN}.test_prim_value", "number", [[]]),
    Program(f"{CODEGEN}.test_string_imm", "text", [[]]),
    Program(f"{CODEGEN}.test_datatype_imm", "element_type", [[]]),
    Program(f"{CODEGEN}.test_vm_builtin_reshape", "reshaped", [[SQUARE]]),
    Program(f"{CODEGEN}.test_vm_kill_object", "replaced", [[], []]),
    Program(f"{CODEGEN}.test_preserve_trivial_bindings", "trivial", [[TWO]]),
    Program(
        f"{CALLBACK}.test_pass_tensor_to_function", "to_callback",
        [[array("int32", 16), host("relax.peers.keep")]],
    ),
    Program(f"{CALLBACK}.test_generate_tensor_in_function", "from_callback", [[host("relax.peers.sixteen")]]),
]  # fmt: skip


@dataclass(frozen=True)
class Makers:
    """How a process makes what calls get: a tensor of an array, a Shape, a function by its name."""

    tensor: Callable[[Any], Any]
    shape: Callable[[list[int]], Any]
    function: Callable[[str], Any]

    def value(self, given: Any) -> Any:
        if isinstance(given, list):
            return [self.value(v) for v in given]
        if not isinstance(given, dict):
            return given
        if "extents" in given:
            return self.shape(given["extents"])
        return self.function(given["host"]) if "host" in given else self.tensor(numpy_array(given))


def plain(value: Any) -> Any:
    """A value of a machine as JSON."""
    if value is None or isinstance(value, (int, float, str)):
        return value
    if hasattr(value, "numpy"):
        found = value.numpy()
        return {
            "dtype": str(value.dtype),
            "shape": list(found.shape),
            "bytes": found.tobytes().hex(),
        }
    named = "Shape" if type(value).__name__ == "Shape" else "Tuple"
    return {named: [plain(v) for v in value]}


def outcome(call: Any, arguments: list[Any], makers: Makers) -> dict[str, Any]:
    """What a call gives: its value and the arrays after it, or text and classes of its error."""
    given = makers.value(arguments)
    seen.clear()
    try:
        result = plain(call(*given))
    except Exception as error:
        classes = {c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins"}
        kinds = sorted(classes & {"RuntimeError", "TypeError", "ValueError"})
        return {"error": re.sub(r"^\w+Error: ", "", str(error)), "classes": kinds}
    arrays = [plain(v) for v in given if hasattr(v, "numpy")]
    return {"result": result, "arrays": arrays, "seen": [*seen]}


def main(folder: Path) -> None:
    """Write MODE.so for each mode, and outcomes.json: the outcomes of all calls."""
    import tvm
    import tvm_ffi
    from tvm import relax
    from tvm.script import from_source

    for name, function in HOST.items():
        tvm.register_global_func(name, function, override=True)
    TENSOR.append(tvm.runtime.tensor)
    makers = Makers(tvm.runtime.tensor, tvm_ffi.Shape, tvm.get_global_func)
    head = "# from tvm.script import ir as I, relax as R, tirx as T\n"
    found: dict[str, list[Any]] = {}
    for mode in MODES:
        path = folder / f"{mode}.so"
        module = from_source(head + PROGRAM)
        relax.build(module, "llvm", exec_mode=mode).export_library(str(path))
        machine = relax.VirtualMachine(tvm.runtime.load_module(str(path)), tvm.cpu())
        for program in PROGRAMS:
            call = machine[program.function]
            found[f"{program.case}[{mode}]"] = [outcome(call, a, makers) for a in program.calls]
    (folder / "outcomes.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
