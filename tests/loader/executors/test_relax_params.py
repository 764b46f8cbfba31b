"""Parameters that are packed with a program: their order, where they lie, and how they are passed."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.loader.executors.relax_programs import BUILTINS, ITEM, Function, Program, call, i, r, ret

pytestmark = pytest.mark.own_process  # starts libmblob-ffi.so

ARRAYS = {
    "b": np.arange(3, dtype="float32"),
    "w": np.arange(32, dtype="float32").reshape(2, 16),
    "a": np.arange(5, dtype="int8"),
}
NAMES = ["b", "w", "a"]


def program() -> mblob.Module:
    """main(which, params): field 1 of the tuple."""
    functions = [Function(f"vm.builtin.{name}") for name in BUILTINS]
    functions.append(Function("main", [call(ITEM, [r(1), i(1)], 2), ret(2)], ["x", "params"]))
    root = mblob.blob_module("relax.VMExecutable", Program(functions).payload())
    root.import_module(mblob.csource_module(""))
    return root


def machine(weights: Any, order: Any, tmp_path: Path) -> mblob.relax.VirtualMachine:
    root = program()
    root.import_module(mblob.safetensors_module(weights, order=order))
    root.export_library(tmp_path / "m.so", dialect="ffi")
    return mblob.relax.VirtualMachine(mblob.load_module(tmp_path / "m.so"), mblob.cpu(0))


def check(vm: mblob.relax.VirtualMachine, names: list[str]) -> None:
    params = vm.params
    assert isinstance(params, tuple) and len(params) == len(names)
    for name, tensor in zip(names, params):
        np.testing.assert_array_equal(tensor.numpy(), ARRAYS[name])
        assert tensor.numpy().ctypes.data % 64 == 0
    result = vm["main"](np.zeros(1, "float32"), params)
    np.testing.assert_array_equal(result.numpy(), ARRAYS[names[1]])


@pytest.mark.parametrize("kind", ["dictionary", "npz", "params", "file of mblob", "folder"])
@pytest.mark.filterwarnings("ignore:.* the order of its tensors is that of their names")
def test_parameters_keep_the_order_of_the_file(kind: str, tmp_path: Path) -> None:
    weights: Any = ARRAYS
    if kind == "npz":
        weights = tmp_path / "p.npz"
        np.savez(weights, **ARRAYS)
    elif kind == "params":
        weights = tmp_path / "p.params"
        weights.write_bytes(mblob.save_param_dict(ARRAYS))
    elif kind == "file of mblob":
        weights = tmp_path / "p.safetensors"
        weights.write_bytes(mblob.safetensors_module(ARRAYS, order=True).payload)
    elif kind == "folder":
        weights = tensor_cache(tmp_path)
    names = sorted(NAMES) if kind == "params" else NAMES  # written sorted
    check(machine(weights, True, tmp_path), names)


def tensor_cache(folder: Path) -> Path:
    """As TVM's tensor_cache.save writes it; b as bfloat16."""
    stored = {
        "b": (ARRAYS["b"].view("uint32") >> 16).astype("uint16"),
        "w": ARRAYS["w"],
        "a": ARRAYS["a"],
    }
    rows, data = [], b""
    for name, array in stored.items():
        rows.append(
            {
                "name": name,
                "shape": list(ARRAYS[name].shape),
                "dtype": str(ARRAYS[name].dtype),
                "byteOffset": len(data),
                "nbytes": array.nbytes,
                "format": "f32-to-bf16" if name == "b" else "raw",
            }
        )
        data += array.tobytes()
    (folder / "params_shard_0.bin").write_bytes(data)
    shard = {
        "dataPath": "params_shard_0.bin",
        "format": "raw-shard",
        "nbytes": len(data),
        "records": rows,
    }
    (folder / "tensor-cache.json").write_text(json.dumps({"metadata": {}, "records": [shard]}))
    return folder


def test_another_order_wins_over_the_file(tmp_path: Path) -> None:
    check(machine(ARRAYS, ["a", "w", "b"], tmp_path), ["a", "w", "b"])
    (tmp_path / "names.json").write_text('["w", "a", "b"]')
    check(machine(ARRAYS, tmp_path / "names.json", tmp_path), ["w", "a", "b"])


def test_an_order_of_some_tensors_leaves_the_others_out_and_tells_them(tmp_path: Path) -> None:
    (tmp_path / "names.json").write_text('["b", "w"]')
    for order in (["b", "w"], tmp_path / "names.json"):
        with pytest.warns(UserWarning, match=r"order: has no a, so these tensors are left out; w"):
            check(machine(ARRAYS, order, tmp_path), ["b", "w"])
        assert "a" not in mblob.load_module(tmp_path / "m.so").tensors


def test_a_program_without_parameters_has_none(tmp_path: Path) -> None:
    assert machine(ARRAYS, None, tmp_path).params == ()


def called_with_its_parameters(vm: mblob.relax.VirtualMachine) -> Any:
    """The result if only the first input is set, and the packed parameters stand in for the others."""
    vm.module["set_one_input"]("main", "x", np.zeros(1, "float32"))
    vm.invoke_stateful("main")
    return vm.get_outputs("main").numpy()


def test_a_function_takes_the_packed_parameters_where_nobody_sets_them(tmp_path: Path) -> None:
    vm = machine(ARRAYS, True, tmp_path)
    np.testing.assert_array_equal(called_with_its_parameters(vm), ARRAYS["w"])
    vm.set_input("main", np.zeros(1, "float32"), vm.params[::-1])
    vm.invoke_stateful("main")
    np.testing.assert_array_equal(vm.get_outputs("main").numpy(), ARRAYS["w"])


def test_inputs_are_set_without_the_packed_parameters(tmp_path: Path) -> None:
    vm, x = machine(ARRAYS, True, tmp_path), np.zeros(1, "float32")
    for args, named in (((x,), {}), ((), {"x": x}), ((x, vm.params), {}), ((x,), {"params": vm.params})):  # fmt: skip
        vm.set_input("main", *args, **named)
        for _ in range(2):
            vm.invoke_stateful("main")
            np.testing.assert_array_equal(vm.get_outputs("main").numpy(), ARRAYS["w"])
    assert vm.benchmark(mblob.cpu(0), x, func_name="main", number=1, repeat=1).mean > 0
    with pytest.raises(TypeError, match=r"expected 1 more argument \(x\), found 0"):
        vm.set_input("main", params=vm.params)
    with pytest.raises(TypeError, match=r"main\(x\): expected 1 more .*no parameter 'y'"):
        vm.set_input("main", y=x)
    with pytest.raises(TypeError, match="expected 2, found 0"):
        vm.set_input("main")
    bare = machine(ARRAYS, None, tmp_path)
    with pytest.raises(TypeError, match="expected 2, found 1"):
        bare.set_input("main", x)


def test_parameters_live_longer_than_their_machine(tmp_path: Path) -> None:
    params = machine(ARRAYS, True, tmp_path).params
    for name, tensor in zip(NAMES, params):
        np.testing.assert_array_equal(tensor.numpy(), ARRAYS[name])


@pytest.mark.parametrize(
    ("order", "text"),
    [
        ([], "expected names of the 3 tensors, once; missing: b, w, a"),
        (["b", "w", "aaa"], "once; missing: a; unknown: aaa"),
        (["b", "w", "a", "c"], "expected names of the 3 tensors, once; unknown: c"),
        (["b", "w", "a", "a"], "expected names of the 3 tensors, once; several times: a"),
        ("nothing.json", "nothing.json"),
        (3, "expected a list of names of tensors"),
    ],
)
def test_a_wrong_order_is_told(order: Any, text: str) -> None:
    with pytest.raises((mblob.MblobError, OSError), match=text):
        mblob.safetensors_module(ARRAYS, order=order)


def test_a_file_with_a_wrong_order_is_named_and_a_near_name_is_told(tmp_path: Path) -> None:
    (tmp_path / "names.json").write_text('["bias", "weigth"]')
    arrays = {"weight": ARRAYS["w"], "bias": ARRAYS["b"]}
    text = r"names\.json: order: .*missing: weight; unknown: weigth; did you mean 'weight'\?"
    with pytest.raises(mblob.BuildError, match=text):
        mblob.safetensors_module(arrays, order=tmp_path / "names.json")


def test_a_damaged_order_is_told_when_the_machine_is_made(tmp_path: Path) -> None:
    payload = bytes(mblob.safetensors_module(ARRAYS, order=True).payload)
    order = rb"[\"b\", \"w\", \"a\"]"
    assert order in payload
    for damaged, text in [
        (rb"[\"b\", \"x\", \"a\"]", "no tensor 'x'"),
        (rb"[\"b\", \"w\", \"a\" ", "order of parameters"),
        (rb"[\"b\",12, \"a\"]", "order of parameters"),
        (rb"{\"b\": \"w\",\"a\"}", "order of parameters"),
    ]:
        (tmp_path / "w.safetensors").write_bytes(payload.replace(order, damaged.ljust(len(order))))
        root = program()
        root.import_module(mblob.blob_module("safetensors", tmp_path / "w.safetensors"))
        root.export_library(tmp_path / "m.so", dialect="ffi")
        with pytest.raises(mblob.FormatError, match=text):
            mblob.relax.VirtualMachine(mblob.load_module(tmp_path / "m.so"), mblob.cpu(0))


HOST = """
#include <mblob.h>
#include <stdio.h>
int main(int argc, char **argv) {
  mblob_module *lib = NULL, *vm = NULL;
  void *params = NULL;
  float x[1] = {0}, w[2][16] = {{0}};
  int failed = mblob_open(argv[1], NULL, &lib) || mblob_executor_create(lib, NULL, kDLCPU, 0, &vm) ||
               mblob_executor_params(vm, &params) ||
               mblob_call(vm, "main", "float32[1],object -> float32[2,16]", x, params, w);
  puts(failed ? mblob_last_error() : w[1][15] == 31 ? "31" : "wrong");
  w[1][15] = 0;
  failed = mblob_executor_set_input(vm, "x", "float32[1]", x) || mblob_executor_run(vm) ||
           mblob_executor_get_output(vm, 0, "float32[2,16]", w);
  puts(failed ? mblob_last_error() : w[1][15] == 31 ? "31" : "wrong");
  mblob_value_release((TVMValue){.v_handle = params}, kTVMObjectHandle);
  params = lib;
  if (mblob_executor_params(lib, &params) != MBLOB_E_ARGUMENT || params) puts("wrong");
  mblob_module_release(vm);
  mblob_module_release(lib);
  return 0;
}
"""


def test_a_c_program_passes_them(tmp_path: Path, require: Callable[[str], str]) -> None:
    machine(ARRAYS, True, tmp_path)
    (tmp_path / "host.c").write_text(HOST)
    library = mblob.get_library_dir()
    words = [
        "cc",
        "host.c",
        "-o",
        "host",
        f"-I{mblob.get_include()}",
        f"-L{library}",
        f"-Wl,-rpath,{library}",
        "-lmblob",
    ]
    subprocess.run(words, cwd=tmp_path, check=True)
    done = subprocess.run(
        ["./host", "m.so"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert done.stdout == "31\n31\n"


def test_build_packs_them_by_command(tmp_path: Path) -> None:
    program().export_library(tmp_path / "p.tar", dialect="ffi")
    np.savez(tmp_path / "p.npz", **ARRAYS)
    (tmp_path / "names.json").write_text('["a", "w", "b"]')
    words = ["build", "--object", "p.tar", "--params", "p.npz", "-o", "m.so"]
    for more, names in (([], NAMES), (["--order", "names.json"], ["a", "w", "b"])):
        subprocess.run(
            [sys.executable, "-m", "mblob.cli.main", *words, *more], cwd=tmp_path, check=True
        )
        check(mblob.relax.VirtualMachine(mblob.load_module(tmp_path / "m.so"), mblob.cpu(0)), names)
    words = [sys.executable, "-m", "mblob.cli.main", "run", "m.so", "x=float32[1]", "-o", "out.npz"]
    subprocess.run(words, cwd=tmp_path, check=True)
    with np.load(tmp_path / "out.npz") as out:
        np.testing.assert_array_equal(out["out0"], ARRAYS["w"])


def test_inspect_tells_the_order_and_what_is_copied(tmp_path: Path) -> None:
    machine(ARRAYS, True, tmp_path)
    with mblob.open(tmp_path / "m.so") as library:
        (entry,) = (e for e in library.entries if e.type_key == "safetensors")
        facts = dict(entry.content.facts)
    assert facts == {"parameters": NAMES, "copied": 5}  # w has 128 bytes, b lies behind it, then a
    words = [sys.executable, "-m", "mblob.cli.main", "inspect", "m.so", "--tree"]
    done = subprocess.run(words, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert "3 tensors of 145 B, parameters, 5 B to be copied" in done.stdout


def machine_of(path: Path, *names: str) -> mblob.relax.VirtualMachine:
    functions = [Function(name, [ret(0)], ["x"]) for name in names]
    root = mblob.blob_module("relax.VMExecutable", Program(functions).payload())
    root.import_module(mblob.csource_module(""))
    root.export_library(path, dialect="ffi")
    return mblob.relax.VirtualMachine(mblob.load_module(path), mblob.cpu(0))


def test_a_machine_without_main_runs_its_only_function(tmp_path: Path) -> None:
    vm, x = machine_of(tmp_path / "m.so", "forward"), np.ones(1, "float32")
    vm.module["set_one_input"](ctypes.c_void_p(), "x", x)  # as mblob_executor_set_input does
    vm.module["invoke_stateful"](ctypes.c_void_p())
    np.testing.assert_array_equal(vm.get_outputs("forward"), x)
    assert vm.benchmark(mblob.cpu(0), x, number=1, repeat=1).results


def test_a_machine_of_several_functions_without_main_lists_them(tmp_path: Path) -> None:
    vm = machine_of(tmp_path / "m.so", "forward", "backward")
    text = r"no function 'main'; there are 2: forward, backward"
    with pytest.raises(mblob.NotFoundError, match=text):
        vm.module["set_one_input"](ctypes.c_void_p(), "x", np.zeros(1, "float32"))
