"""Tries of newcomers that do not work, and the error of each."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.compilers import include_flags
from mblob.format.type_keys import RELAX_EXECUTABLES
from mblob.native.runtime import ffi, text
from mblob.native.runtime import lib as native
from tests.loader.executors.relax_programs import MAGIC, Function, Program, ret

pytestmark = pytest.mark.filterwarnings("always::mblob.errors.HiddenNameWarning")

CODE = """
void scale(const float *w, float *y) { y[0] = 2 * w[0]; }
void all(const float *m, const float *x, float *y, int n) { y[0] = m[0] + x[0] + n; }
int wide(const int *s) { return s[0]; }
"""
SCALE = "void scale(const float w[4], float y[4])"
ALL = "void all(const float m[2][3], const float x[4], float y[n], int n)"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("turns") / "deploy.so"
    module = mblob.csource_module(CODE, functions=[SCALE, ALL, "wide"])
    module.import_module(mblob.safetensors_module({"w": np.ones(4, "f")}))
    module.import_module(mblob.blob_module("config", b'{"labels": ["cat", "dog"]}'))
    module.import_module(mblob.blob_module("short", b"abc"))
    module.export_library(path)
    return path


@pytest.fixture
def lib(path: Path) -> Any:
    return mblob.load_module(path)


Y = np.zeros(4, "f")
M = np.zeros((2, 3), "f")
TURNS: dict[str, tuple[Callable[[Any], object], type[Exception], str]] = {
    "tensor as an attribute": (lambda lib: lib.tensors.w, AttributeError, "write tensors['w']"),
    "payload as an attribute": (
        lambda lib: lib.payloads.config, AttributeError, "write payloads['config']",
    ),
    "call of a signature": (
        lambda lib: lib.functions["scale"](Y, Y), TypeError, "call module['scale'](...)",
    ),
    "export": (lambda lib: lib.export("x.so"), AttributeError, "did you mean 'export_library'?"),
    "name of a tensor": (
        lambda lib: lib.scale("w", Y), TypeError,
        "scale: argument 0 (w): expected an array, found the str 'w'; for the tensor of that name pass"
        " lib.tensors['w']",
    ),
    "text for an array": (
        lambda lib: lib.scale("v", Y), TypeError, "expected an array, found the str 'v'",
    ),
    "text for a wchar_t *": (
        lambda lib: lib.wide("v"), TypeError,
        "found the str 'v'; for wchar_t * pass ctypes.create_unicode_buffer(s)",
    ),
    "text for a wchar_t * of ctypes": (
        lambda lib: lib.ctypes.wide("v"), TypeError, "for wchar_t * pass ctypes.create_unicode_buffer(x)",
    ),
    "None for an array": (
        lambda lib: lib.scale(None, Y), TypeError,
        "(w): expected a float32 tensor, found None; to pass NULL, pack it with a prototype that has void * there, or"
        " call lib.ctypes.scale",
    ),
    "None for an array of bind": (
        lambda lib: lib.scale.bind(None, Y), TypeError,
        "found None; to pass NULL, pack it with a prototype that has void * there, or call lib.ctypes.scale",
    ),
    "a library for a machine": (
        lambda lib: mblob.relax.VirtualMachine(lib, mblob.cpu(0)), TypeError,
        "found a module 'library'; it has no model: call its functions, as lib.NAME(...)",
    ),
    "a path for a machine": (
        lambda lib: mblob.relax.VirtualMachine("a.so", mblob.cpu(0)), TypeError,
        "found str; open the file with mblob.load_module",
    ),
    "float for an int": (lambda lib: lib.all(M, Y, Y, 4.0), TypeError, "expected int, found float"),
    "str for an int": (lambda lib: lib.all(M, Y, Y, "4"), TypeError, "expected int, found str"),
    "str for an int of bind": (
        lambda lib: lib["all"].bind(M, Y, Y, "4"), TypeError, "expected int, found str",
    ),
    "transposed array of a wrong shape": (
        lambda lib: lib.all(M.T, Y, Y, 4), ValueError, "(m): expected shape (2, 3), found (3, 2)",
    ),
    "array with gaps and of a right shape": (
        lambda lib: lib.all(M, np.zeros(8, "f")[::2], Y, 4), ValueError, "(x): the array is not contiguous",
    ),
    "size that is a number": (
        lambda lib: lib.all(M, M, Y, 4), ValueError, "(x): expected shape (4,), found (2, 3)",
    ),
    "size that an argument says": (
        lambda lib: lib.all(M, Y, Y, 3), ValueError, "(y): expected shape (3,) for [n], found (4,)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("turn", TURNS)
def test_an_error_says_what_to_write(lib: Any, turn: str) -> None:
    do, error, text = TURNS[turn]
    with pytest.raises(error, match=re.escape(text)):
        do(lib)


def test_names_of_others_are_answered_with_what_to_write() -> None:
    for name, said in (
        ("build", 'write mblob.csource_module("k.c").export_library("k.so")'),
        ("load", 'write mblob.load_module("k.so")'),
        ("GraphExecutor", "write mblob.graph_executor.GraphModule("),
        ("VirtualMachine", "write mblob.relax.VirtualMachine("),
        ("load_modul", "did you mean 'load_module'?"),
    ):
        with pytest.raises(AttributeError, match=re.escape(said)):
            getattr(mblob, name)


def test_a_namespace_is_answered_with_a_function_in_it(tmp_path: Path) -> None:
    code = (
        "namespace vis { int f(int x) { return x; } namespace deep { int g(int x) { return x; } } }"
    )
    mblob.csource_module(code, "cpp").export_library(tmp_path / "k.so")
    lib = mblob.load_module(tmp_path / "k.so")
    for get in (lambda: lib.vis.f(1), lambda: lib["vis"], lambda: lib.functions["vis"]):
        with pytest.raises(KeyError, match=r"'vis' is a namespace: call lib\['vis::f'\]"):
            get()
    with pytest.raises(KeyError, match=r"'deep' is a namespace: call lib\['vis::deep::g'\]"):
        lib.deep(1)


def test_what_is_there_shows_itself(lib: Any) -> None:
    assert repr(lib.payloads["config"])
    shown = repr(lib.payloads)
    assert "'config': <26 bytes: b'{\"labels\": [\"cat'...>" in shown
    assert "'short': <3 bytes: b'abc'>" in shown
    assert repr(lib.scale) == f"<mblob.PackedFunction {lib.functions['scale']}>"
    assert "float y[4]" in repr(lib.scale)


def test_an_argument_that_a_constructor_has_not_is_suggested() -> None:
    with pytest.raises(
        TypeError, match=r"unknown argument 'function'; .*did you mean 'functions'\?"
    ):
        mblob.csource_module(CODE, function=[SCALE])  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"unknown argument 'w'; .*by name: \{'w': array\}"):
        mblob.safetensors_module(w=Y)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'source'"):
        mblob.csource_module()  # type: ignore[call-arg]


def test_new_weights_of_another_type_are_told_how_to_convert_them(
    path: Path, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r'found float64 .*; convert it with astype\("float32"\)'):
        mblob.swap(path, weights={"w": np.ones(4)}, output=tmp_path / "new.so")


def test_an_input_of_a_model_without_its_name_is_told_the_names(tmp_path: Path) -> None:
    builder = mblob.GraphBuilder()
    x = builder.input("image", (4,), "float32")
    builder.output(builder.call("twice", [x], (4,), "float32"))
    factory = mblob.graph_executor_factory(builder)
    twice = "void twice(const float x[4], float y[4])"
    code = f"{twice} {{ for (int i = 0; i < 4; ++i) y[i] = 2 * x[i]; }}"
    factory.import_module(mblob.csource_module(code, functions=[twice]))
    factory.export_library(tmp_path / "model.so")
    lib = mblob.load_module(tmp_path / "model.so")
    model = mblob.graph_executor.GraphModule(lib["default"](mblob.cpu(0)))
    with pytest.raises(TypeError, match=r"run\(image=x\); the model has: image"):
        model.run(Y)


def test_names_that_hide_each_other_are_warned_of_when_packed(tmp_path: Path) -> None:
    walk = "void walk(float x[4])"
    module = mblob.csource_module(f"{walk} {{ x[0] = 1; }}", functions=[walk])
    for value in (b"1", b"2"):
        module.import_module(mblob.blob_module("config", value))
        module.import_module(mblob.safetensors_module({"w": Y, value.decode(): Y}))
        module.import_module(mblob.blob_module("loaded", value, data=False))
    with pytest.warns(mblob.HiddenNameWarning) as found:
        module.export_library(tmp_path / "x.so")
    assert [str(w.message).partition(";")[0] for w in found] == [
        "two modules of the tree have a payload 'config', and lib.payloads['config'] gives only one of them",
        "two modules of the tree have a tensor 'w', and lib.tensors['w'] gives only one of them",
        "the function 'walk' has the name of an attribute of modules: call it as lib['walk'](...)",
    ]


PROGRAM = r"""
#include <mblob.h>
#include <stdio.h>
int main(int argc, char **argv) {
  mblob_module *lib;
  DLTensor w;
  float x[4] = {1};
  if (argc != 2 || mblob_open(argv[1], NULL, &lib)) return 1;
  mblob_module_tensor(lib, "W", &w);
  puts(mblob_last_error());
  mblob_call(lib, "scale", "float32[4,tensor", x, x);
  puts(mblob_last_error());
  mblob_call(lib, "scale", "int,(int,(float32[4]", x, x);
  puts(mblob_last_error());
  mblob_call(lib, "scale", "float32[4]", x);
  puts(mblob_last_error());
  mblob_call(lib, "all", "float32[2,3],float32[4],float32[4],float32", x, x, x, 1.0);
  puts(mblob_last_error());
  mblob_module_release(lib);
}
"""


def test_c_says_what_was_meant(path: Path, tmp_path: Path) -> None:
    (tmp_path / "turns.c").write_text(PROGRAM)
    folder = mblob.get_library_dir()
    subprocess.run(
        ["cc", "turns.c", "-o", "turns", *include_flags(), f"-L{folder}", f"-Wl,-rpath,{folder}", "-lmblob"],
        cwd=tmp_path, check=True,
    )  # fmt: skip
    words = [str(tmp_path / "turns"), str(path)]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[0].endswith("there are: w; did you mean 'w'?")
    assert lines[1].endswith("; a ] is missing")
    assert "argument 1 of" in lines[2] and "cannot be read" in lines[2]
    assert lines[3] == "scale: expected 2 arguments, found 1: const float *, float *"
    assert "expected int, found float" in lines[4]


@pytest.mark.own_process
@pytest.mark.parametrize("how", ["item", "attribute"])
def test_a_function_of_a_program_is_told_how_it_is_called(golden: Path, how: str) -> None:
    def ask(lib: mblob.Module, name: str) -> str:
        with pytest.raises(mblob.NotFoundError) as caught:
            lib[name] if how == "item" else getattr(lib, name)
        return str(caught.value)

    lib = mblob.load_module(golden / "relax" / "cnn_bound.so")
    call = "mblob.relax.VirtualMachine(lib, mblob.cpu())['forward'](x)"
    assert ask(lib, "forward").endswith(f"; 'forward' is a function of its program: {call}")
    assert ask(lib, "default").endswith(f"; its program has: forward; call {call}")
    assert ask(lib, "softmx").endswith(f"; call {call}; did you mean 'softmax'?")
    assert callable(eval(call.removesuffix("(x)")))
    lib = mblob.load_module(golden / "vm_mlp.so")
    call = "mblob.vm.VirtualMachine(lib, mblob.cpu()).invoke('main', x)"
    assert ask(lib, "main").endswith(f"; 'main' is a function of its program: {call}")
    assert eval(call.replace("x)", "np.zeros((1, 64), 'f'))")).numpy().shape == (1, 10)


@pytest.mark.own_process
@pytest.mark.parametrize("model", ["relax/cnn_bound.so", "vm_mlp.so", "mlp_llvm.so"])
def test_a_plain_function_beside_a_model_is_told_with_the_reason(
    golden: Path, tmp_path: Path, model: str
) -> None:
    """And not with what the program of the model has."""
    code = "struct p { float x; int y : 3; }; float sum_of(struct p a) { return a.x + a.y; }"
    (tmp_path / "k.c").write_text(code)
    mblob.add(golden / model, kernels=tmp_path / "k.c", output=tmp_path / "a.so")
    lib = mblob.load_module(tmp_path / "a.so")
    for find in lib.__getitem__, lib.__getattr__:
        with pytest.raises(mblob.NotFoundError, match="struct p by value: give a function") as said:
            find("sum_of")
        assert "its program has" not in str(said.value)


@pytest.mark.own_process
def test_c_names_the_function_that_was_meant_and_how_programs_are_run(golden: Path) -> None:
    out = ffi.new("mblob_function **")
    handle = mblob.load_module(golden / "relax" / "cnn_bound.so")._node.handle  # type: ignore[attr-defined]
    assert native.mblob_module_function(handle, b"softmx", 1, out) == native.MBLOB_E_NOT_FOUND
    said = text(native.mblob_last_error())
    assert "softmax," not in said  # it is none of the first, and compared all the same
    assert said.endswith(
        ", ...; did you mean 'softmax'?; a function of its program is run by"
        " mblob_executor_create(module, NAME, ...)"
    )


@pytest.mark.own_process
@pytest.mark.parametrize("key", [*RELAX_EXECUTABLES, "relax.tokenizer", "relax.", "Executable"])
def test_c_tells_programs_by_their_exact_keys(tmp_path: Path, key: str) -> None:
    def said(name: str) -> str:
        code = native.mblob_module_function(lib._node.handle, name.encode(), 1, out)  # type: ignore[attr-defined]
        assert code == native.MBLOB_E_NOT_FOUND
        return text(native.mblob_last_error())

    out = ffi.new("mblob_function **")
    code = mblob.csource_module("int f(int x) { return x; }")
    program = Program([Function("main", [ret(0)], ["x"])], dialect="classic", magic=MAGIC).payload()
    code.import_module(mblob.blob_module(key, len(program).to_bytes(8, "little") + program))
    code.export_library(tmp_path / "m.so", dialect="classic")
    lib = mblob.load_module(tmp_path / "m.so")
    assert ("mblob_executor_create" in said("mai")) == (key in RELAX_EXECUTABLES)
    assert "methods, templates and static functions" in said("a::b")  # the closest remedy


OF_POINTERS = """
struct pair { int a; double b; };
int text(const char *s) { return s[0]; }
int texts(const char **v) { return v[0][0]; }
int pair(struct pair *p) { return p->a; }
int bytes(const unsigned char image[4]) { return image[0]; }
"""
A_TEXT = r"expected a str, bytes or an array, found "
TEXTS = r"expected a list of texts for const char \*\*v, or an array of their addresses \(uint64\), found "
PAIR = r"expected at least 16 bytes for struct pair \*p, found {}; pass ctypes\.byref\(p\) of a ctypes\.Structure"
ARRAY = r"expected an array, found {}; make it an array with numpy\.asarray\(image, \"uint8\"\)"


NOT_TAKEN: list[tuple[str, Any, str]] = [
    ("text", 3, A_TEXT + "3$"),
    ("text", 3.0, A_TEXT + r"3\.0$"),
    ("text", ["a"], A_TEXT + "list$"),
    ("text", ("a",), A_TEXT + "tuple$"),
    ("text", {"a": 1}, A_TEXT + "dict$"),
    ("texts", 3, TEXTS + "the number 3"),
    ("texts", {"a": 1}, TEXTS + "dict"),
    ("pair", (1, 2.0), PAIR.format("tuple")),
    ("pair", [1, 2.0], PAIR.format("list")),
    ("pair", {"a": 1}, PAIR.format("dict")),
    ("bytes", [1, 2, 3, 4], ARRAY.format("list")),
    ("bytes", (1, 2, 3, 4), ARRAY.format("tuple")),
    ("bytes", {}, "expected an array, found dict$"),
]


@pytest.mark.own_process
@pytest.mark.parametrize("dialect", ["classic", "ffi"])
def test_what_a_pointer_does_not_take_is_told_with_what_it_takes(
    tmp_path: Path, dialect: Any
) -> None:
    mblob.csource_module(OF_POINTERS).export_library(tmp_path / "p.so", dialect=dialect)
    lib = mblob.load_module(tmp_path / "p.so")
    for name, given, message in NOT_TAKEN:
        with pytest.raises(TypeError, match=message):
            lib[name](given)
