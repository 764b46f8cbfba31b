"""Compiled functions of the classic dialect (TVM 0.16 to 0.20), written in C as TVM generates them: no
library of these releases with compiled functions was at hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.e2e.programs import run
from tests.loader.executors import relax_programs
from tests.loader.executors.relax_programs import COMPILED, Function
from tests.loader.payloads import u64

pytestmark = pytest.mark.own_process
CODE = r"""
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/c_runtime_api.h>
void *__tvm_module_ctx = NULL;

/* Call a function of the registry on the first `count` arguments, and keep the result in a register. */
static int call(const char *name, void *registers, int to, TVMValue *args, int *codes, int count) {
  TVMFunctionHandle f;
  if (TVMBackendGetFuncFromEnv(__tvm_module_ctx, name, &f)) return -1;
  if (TVMFuncCall(f, args, codes, count, &args[count], &codes[count])) return -1;
  return TVMBackendAnyListMoveFromPackedReturn(registers, to, args, codes, count);
}

#define FUNCTION(name) \
  int __vmtir__##name(TVMValue *given, int *codes_, int n, TVMValue *ret, int *rc, void *r)
#define ROWS \
  void *regs = given[1].v_handle; \
  TVMValue a[4]; \
  int c[4]; \
  (void)codes_, (void)n, (void)ret, (void)rc, (void)r

FUNCTION(pair) { /* (x) -> (x, constant 0) */
  ROWS;
  TVMBackendAnyListSetPackedArg(regs, 0, a, c, 0);
  TVMBackendAnyListSetPackedArg(given[2].v_handle, 0, a, c, 1);
  return call("vm.builtin.make_tuple", regs, 1, a, c, 2);
}
FUNCTION(text) { /* () -> a text that is the caller's to copy */
  ROWS;
  a[0].v_str = "compiled";
  c[0] = kTVMStr;
  return TVMBackendAnyListMoveFromPackedReturn(regs, 0, a, c, 0);
}
FUNCTION(twice) { /* (x) -> pair(pair(x)), through the functions of the program */
  ROWS;
  for (int i = 0; i < 2; i++) {
    a[0] = given[0], c[0] = kTVMOpaqueHandle;
    TVMBackendAnyListSetPackedArg(given[3].v_handle, 0, a, c, 1);
    TVMBackendAnyListSetPackedArg(regs, i, a, c, 2);
    if (call("vm.builtin.invoke_closure", regs, i + 1, a, c, 3)) return -1;
  }
  TVMBackendAnyListResetItem(regs, 2);
  TVMBackendAnyListSetPackedArg(regs, 1, a, c, 0);
  return call("vm.builtin.copy", regs, 1, a, c, 1);
}
FUNCTION(deep) { /* endless */
  ROWS;
  a[0] = given[0], c[0] = kTVMOpaqueHandle;
  TVMBackendAnyListSetPackedArg(given[3].v_handle, 3, a, c, 1);
  TVMBackendAnyListSetPackedArg(regs, 0, a, c, 2);
  return call("vm.builtin.invoke_closure", regs, 1, a, c, 3);
}
FUNCTION(absent) { /* of a name that nobody has */
  ROWS;
  TVMBackendAnyListSetPackedArg(regs, 0, a, c, 0);
  return call("tests.compiled.absent", regs, 1, a, c, 1);
}
"""
# What LLVM's code leaves of a call by name: a variable, and the text if it has a known prefix.
LACKING = r"""
const char text[] = "vm.builtin.is a text", *const other = "of vm.builtin.also_text";
static void *found __asm__(".tvm_func.tests.compiled.named") __attribute__((used));
FUNCTION(lacks) {
  ROWS;
  TVMBackendAnyListSetPackedArg(regs, 0, a, c, 0);
  return call("vm.builtin.no_such", regs, 1, a, c, 1) || call("vm.builtin.copy", regs, 1, a, c, 1) ||
         call("tvm.contrib.none.such", regs, 1, a, c, 1);
}
"""


def export(rows: dict[str, int], code: str, path: Path, key: str = "relax.VMExecutable") -> Path:
    functions = [
        Function(name, params=[] if name == "text" else ["x"], registers=count, kind=COMPILED)
        for name, count in rows.items()
    ]
    magic = relax_programs.MAGIC
    constants = [np.arange(3, dtype="float32")]
    program = relax_programs.Program(functions, constants, "classic", magic)
    payload = program.payload()
    root = mblob.blob_module(key, u64(len(payload)) + payload)
    root.import_module(mblob.csource_module(code))
    root.export_library(path, dialect="classic", index=False)
    return path


@pytest.fixture(scope="module", params=["relax.Executable", "relax.VMExecutable"])
def vm(request: Any, tmp_path_factory: pytest.TempPathFactory) -> mblob.relax.VirtualMachine:
    rows = {"pair": 2, "text": 1, "twice": 3, "deep": 2, "absent": 2}
    path = export(rows, CODE, tmp_path_factory.mktemp("compiled") / "x.so", request.param)
    return mblob.relax.VirtualMachine(mblob.load_module(path), mblob.cpu(0))


def test_a_compiled_program_that_lacks_functions_says_so_when_it_is_opened(tmp_path: Path) -> None:
    """And what needs none of them runs."""
    path = export({"text": 1, "lacks": 2}, CODE + LACKING, tmp_path / "x.so")
    names = ["vm.builtin.no_such", "tvm.contrib.none.such", "tests.compiled.named"]
    with mblob.open(path) as lib:
        (told,) = [d["message"] for d in lib.diagnostics if d["code"] == "missing_functions"]
    assert ", ".join(names) in told
    with pytest.warns(UserWarning, match=f"nobody provides: {', '.join(names)}; a call"):
        module = mblob.load_module(path)
    vm = mblob.relax.VirtualMachine(module, mblob.cpu(0))
    assert vm.missing == names
    assert vm["text"]() == "compiled"
    all_named = " ".join(map(repr, names))
    with pytest.raises(
        mblob.KernelError, match=rf"no_such in .* registry; .*provides {all_named}$"
    ):
        vm["lacks"](1)
    mblob.register_func("tests.compiled.named", lambda: None, override=True)
    assert vm.missing == names[:-1]


def test_the_names_are_found_in_a_stripped_library(
    tmp_path: Path, require: Callable[[str], str]
) -> None:
    path = export({"text": 1, "lacks": 2}, CODE + LACKING, tmp_path / "x.so")
    run(require("strip"), path)
    with pytest.warns(UserWarning, match=r"provides: vm.builtin.no_such, tvm.contrib.none.such; a"):
        mblob.load_module(path)


def test_values_constants_and_functions_reach_compiled_code(vm: Any) -> None:
    x = np.ones((2, 2), "float32")
    for _ in range(3):
        given, constant = vm["pair"](x)
        assert given.numpy().tolist() == x.tolist()
        assert constant.numpy().tolist() == [0, 1, 2]
        assert vm["pair"](None)[0] is None
        assert vm["pair"](mblob.Shape([4]))[0] == (4,)
        found = vm["twice"]("s")
        assert found[0] == "s"
        assert vm["text"]() == "compiled"
    vm.set_input("text")
    vm.invoke_stateful("text")
    assert vm.get_outputs("text") == "compiled"


def test_errors_of_compiled_code_are_named_and_leave_the_machine_usable(vm: Any) -> None:
    with pytest.raises(
        mblob.KernelError, match="Function pair expects 1 arguments, found 0"
    ) as error:
        vm["pair"]()
    assert error.value.kind == "InternalError"
    with pytest.raises(RecursionError) as deep:
        vm["deep"](1)
    assert str(deep.value).startswith("RecursionError: ")
    assert len(str(deep.value)) < 300
    with pytest.raises(mblob.MblobError, match=r"absent: .*tests\.compiled\.absent"):
        vm["absent"](1)
    assert vm["text"]() == "compiled"
