"""Standalone libraries: a model with the runtime that it needs, and four C functions."""

from __future__ import annotations

import ctypes
import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.binary.elf import ElfFile
from mblob.bytes.mapping import map_file
from tests.built_once import built_once
from tests.e2e.programs import ROOT, exported, run
from tests.e2e.test_other_machines import CONVERTED, MUSL, Machine
from tests.loader import payloads
from tests.loader.conftest import KERNELS as PACKED
from tests.loader.executors import relax_programs as relax
from tests.loader.executors import test_aot_executor
from tests.loader.executors.test_graph_executor import FUNCTIONS, KERNELS, B, W, graph
from tests.roots import in_root, into

pytestmark = pytest.mark.filterwarnings("ignore::mblob.errors.PortabilityWarning")

PREDICT = """\
void predict(const float x[3], const float w[2][3], float y[2]) {
  for (int r = 0; r < 2; ++r) y[r] = w[r][0] * x[0] + w[r][1] * x[1] + w[r][2] * x[2];
}
"""
DIGITS = r"""
#include "digits.h"
#include <stdio.h>
int main(void) {
  uint8_t image[64];
  int32_t digit;
  float logits[10];
  digits_model *model;
  if (digits_open(&model)) return fprintf(stderr, "%s\n", digits_error()), 1;
  while (fread(image, 64, 1, stdin))
    if (digits_run(model, &(digits_inputs){image}, &(digits_outputs){&digit, logits}) == 0) printf("%d\n", digit);
  digits_close(model);
  return 0;
}
"""
SOURCES = (ROOT / "csrc", ROOT / "packager", ROOT / "examples" / "digits", ROOT / "mblob")


def pack_digits(folder: Path, **how: Any) -> None:
    from mblob.packager.link import manifest
    from mblob.packager.link.build import build

    plan = manifest.load(ROOT / "examples" / "digits" / "digits.toml", folder / "digits.so")
    build(plan._replace(standalone=True, header=folder / "digits.h", **how))
    build(plan._replace(output=folder / "plain.so", **how))
    (folder / "digits.c").write_text(DIGITS)
    cc = how.get("cc") or "cc"
    words = ("-std=c11", "-Wall", "-Wextra", "-Werror", folder / "digits.c", folder / "digits.so")
    run(cc, *words, "-o", folder / "digits", "-Wl,-rpath,$ORIGIN", cwd=folder)


@pytest.fixture(scope="module")
def digits() -> Path:
    """The folder of the digits model: digits.so, digits.h, plain.so, and the program digits."""
    return built_once("standalone-digits", pack_digits, sources=SOURCES)


@pytest.fixture(scope="module")
def images() -> Any:
    return np.load(ROOT / "examples" / "digits" / "test_images.npy")[:20]


def expected_of(library: Path, images: Any) -> list[int]:
    model = mblob.graph_executor.GraphModule(mblob.load_module(library)["default"](mblob.cpu(0)))
    found = []
    for image in images:
        model.run(image=image[None])
        found.append(int(model.get_output(0).numpy()[0]))
    return found


class Interface:
    """A standalone library through ctypes."""

    def __init__(self, path: Path, prefix: str) -> None:
        self.lib, self.prefix = ctypes.CDLL(str(path)), prefix
        self.model = ctypes.c_void_p()
        self("error").restype = ctypes.c_char_p
        assert self("open")(ctypes.byref(self.model)) == 0, self.error()

    def __call__(self, name: str) -> Any:
        return getattr(self.lib, f"{self.prefix}_{name}")

    def error(self) -> str:
        return str(self("error")().decode())

    def run(self, inputs: list[Any], outputs: list[Any]) -> int:
        given, wanted = (
            (ctypes.c_void_p * len(a))(*(x.ctypes.data if x is not None else None for x in a))
            for a in (inputs, outputs)
        )
        return int(self("run")(self.model, given, wanted))

    def close(self) -> None:
        self("close")(self.model)


# -- a graph ---------------------------------------------------------------------------------------


def test_a_c_program_runs_the_model(digits: Path, images: Any) -> None:
    done = subprocess.run([digits / "digits"], input=images.tobytes(), capture_output=True)
    assert done.returncode == 0, done.stderr
    assert [*map(int, done.stdout.split())] == expected_of(digits / "plain.so", images)


def test_it_runs_in_a_root_with_nothing_else(digits: Path, images: Any, tmp_path: Path) -> None:
    into(tmp_path, digits / "digits", digits / "digits.so")
    command = [*in_root(tmp_path), "/digits"]
    done = subprocess.run(command, input=images[:1].tobytes(), capture_output=True)
    assert (done.stdout, done.stderr) == (
        f"{expected_of(digits / 'plain.so', images[:1])[0]}\n".encode(),
        b"",
    )


def test_it_needs_the_c_library_alone_and_exports_its_interface(digits: Path) -> None:
    library = ElfFile(map_file(digits / "digits.so"), "digits.so")
    assert {*library.needed} <= {
        "libc.so.6",
        "libm.so.6",
        "libpthread.so.0",
        "ld-linux-x86-64.so.2",
    }
    new = {*exported(digits / "digits.so")} - {*exported(digits / "plain.so")}
    assert new == {f"digits_{name}" for name in ("open", "run", "close", "error")}


def test_mblob_opens_it_as_an_ordinary_library_beside_its_own_runtime(
    digits: Path, images: Any, tmp_path: Path
) -> None:
    path = tmp_path / "digits.so"
    shutil.copy(digits / "digits.so", path)
    known = expected_of(digits / "plain.so", images)
    whole, digit, logits = Interface(path, "digits"), np.zeros(1, "int32"), np.zeros(10, "f")
    assert "digits_open" not in mblob.open(path).packed_functions
    for _ in range(2):  # each runtime after the other
        assert whole.run([images[3]], [digit, logits]) == 0, whole.error()
        assert digit[0] == known[3]
        assert expected_of(path, images) == known
    whole.close()


def test_a_graph_model_grows_by_at_most_150_kb(digits: Path) -> None:
    grown = (digits / "digits.so").stat().st_size - (digits / "plain.so").stat().st_size
    assert grown <= 150_000


def scaled(path: Path, w: Any, **how: Any) -> Path:
    factory = mblob.graph_executor_factory(graph(), {"w": w, "b": B})
    factory.import_module(mblob.csource_module(KERNELS, functions=FUNCTIONS))
    mblob.export_library(factory, path, standalone=True, **how)
    return path


def test_two_in_one_process_do_not_interfere(tmp_path: Path) -> None:
    x = np.arange(6, dtype="f").reshape(2, 3)
    models = [
        Interface(scaled(tmp_path / f"m{i}.so", W * i, prefix=f"p{i}"), f"p{i}") for i in (1, 2)
    ]
    for _ in range(2):
        for i, model in enumerate(models, 1):
            y, flat = np.zeros((2, 3), "f"), np.zeros(6, "f")
            assert model.run([x], [y, flat]) == 0, model.error()
            np.testing.assert_array_equal(y, x * W * i + B)
            np.testing.assert_array_equal(flat, y.ravel())
    for model in models:
        model.close()


def test_the_tar_of_a_library_becomes_one(tmp_path: Path) -> None:
    factory = mblob.graph_executor_factory(graph(), {"w": W, "b": B})
    factory.import_module(mblob.csource_module(KERNELS, functions=FUNCTIONS))
    mblob.export_library(factory, tmp_path / "m.tar")
    mblob.static_library(tmp_path / "m.tar").export_library(tmp_path / "m.so", standalone=True)
    x, y, flat = np.ones((2, 3), "f"), np.zeros((2, 3), "f"), np.zeros(6, "f")
    model = Interface(tmp_path / "m.so", "m")
    assert model.run([x], [y, flat]) == 0, model.error()
    np.testing.assert_array_equal(y, W + B)


def test_errors_have_a_text(tmp_path: Path) -> None:
    model = Interface(scaled(tmp_path / "m.so", W), "m")
    assert model("open")(None) != 0 and "NULL" in model.error()
    assert model.run([None], [np.zeros(6), np.zeros(6)]) != 0
    assert model.error() == "run: input 'x' is NULL"
    assert model("run")(model.model, None, None) != 0
    assert model.error() == "run: the struct of inputs is NULL"


# -- functions -------------------------------------------------------------------------------------


@pytest.fixture
def predict() -> mblob.Module:
    library = mblob.csource_module(PREDICT)
    weights = np.arange(6, dtype="float32").reshape(2, 3)
    library.import_module(mblob.safetensors_module({"w": weights}))
    return library


@pytest.mark.parametrize("dialect", ["classic", "ffi"])
def test_a_function_takes_tensors_of_the_library(
    predict: mblob.Module, tmp_path: Path, dialect: Any
) -> None:
    predict.export_library(tmp_path / "plain.so", dialect=dialect)
    predict.export_library(
        tmp_path / "whole.so", standalone=True, dialect=dialect, header=tmp_path / "whole.h"
    )
    text = (tmp_path / "whole.h").read_text()
    assert (
        "  const float *x; /* float32[3] */\n" in text and "  float *y; /* float32[2] */\n" in text
    )
    y = np.zeros(2, "float32")
    model = Interface(tmp_path / "whole.so", "whole")
    assert model.run([np.array([1, 2, 3], "float32")], [y]) == 0, model.error()
    assert [*y] == [8, 26]
    grown = (tmp_path / "whole.so").stat().st_size - (tmp_path / "plain.so").stat().st_size
    assert grown <= 100_000


TWO = r"""
#include "old.h"
#include "new.h"
#include <stdio.h>
int main(void) {
  float x[3] = {1, 2, 3}, y[2], z[2];
  old_model *a;
  new_model *b;
  if (old_open(&a) || new_open(&b)) return puts("open"), 1;
  for (int i = 0; i < 2; ++i)
    if (old_run(a, &(old_inputs){x}, &(old_outputs){y}) || new_run(b, &(new_inputs){x}, &(new_outputs){z}))
      return puts("run"), 1;
  int failed = old_run(a, NULL, NULL);
  printf("%g %g %g %g %d [%s] [%s]\n", y[0], y[1], z[0], z[1], failed != 0, old_error(), new_error());
  old_close(a);
  new_close(b);
}
"""


@pytest.mark.slow
def test_two_versions_live_in_one_process(
    predict: mblob.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mblob.packager.standalone import runtime

    def export(name: str) -> Path:
        path = tmp_path / f"{name}.so"
        predict.export_library(path, standalone=True, header=path.with_suffix(".h"))
        return path

    new = export("new")
    text = Path(runtime.get_amalgamation()).read_text()
    other = tmp_path / "mblob.c"
    text = re.sub(r'(#define MBLOB_VERSION) "[^"]*"', r'\1 "0.0.7"', text)
    layout = "struct mb_library{"  # which another version has otherwise
    assert layout in text
    other.write_text(text.replace(layout, f"{layout} char more[64];"))
    monkeypatch.setattr(runtime, "get_amalgamation", lambda: str(other))
    old = export("old")
    (tmp_path / "two.c").write_text(TWO)
    run("cc", "two.c", old, new, "-o", "two", cwd=tmp_path)
    said = run(tmp_path / "two", cwd=tmp_path).stdout
    assert said == "8 26 8 26 1 [run: the struct of inputs is NULL] []\n"


RUST = """\
#[repr(C)] struct Inputs { x: *const f32 }
#[repr(C)] struct Outputs { y: *mut f32 }
#[link(name = "whole")]
extern "C" {
    fn whole_open(model: *mut *mut u8) -> i32;
    fn whole_run(model: *mut u8, inputs: *const Inputs, outputs: *const Outputs) -> i32;
    fn whole_close(model: *mut u8);
}
fn main() {
    let (x, mut y, mut model) = ([1f32, 2., 3.], [0f32; 2], std::ptr::null_mut());
    unsafe {
        assert_eq!(whole_open(&mut model), 0);
        assert_eq!(whole_run(model, &Inputs { x: x.as_ptr() }, &Outputs { y: y.as_mut_ptr() }), 0);
        whole_close(model);
    }
    println!("{} {}", y[0], y[1]);
}
"""


@pytest.mark.slow
def test_a_rust_program_runs_it(
    predict: mblob.Module, tmp_path: Path, require: Callable[[str], str]
) -> None:
    rustc = require("rustc")
    home = {**os.environ, "HOME": pwd.getpwuid(os.geteuid()).pw_dir}
    del home["RUSTUP_HOME"]
    predict.export_library(tmp_path / "libwhole.so", standalone=True, prefix="whole")
    (tmp_path / "main.rs").write_text(RUST)
    run(rustc, "main.rs", "-L", ".", "-C", "link-arg=-Wl,-rpath,$ORIGIN", cwd=tmp_path, env=home)
    assert run(tmp_path / "main").stdout == "8 26\n"


GO = """\
package main

// #cgo LDFLAGS: -L${SRCDIR} -lwhole -Wl,-rpath,$ORIGIN
// #include "whole.h"
// static const char *run(whole_model *model, const float *x, float *y) {
//   return whole_run(model, &(whole_inputs){x}, &(whole_outputs){y}) ? whole_error() : 0;
// }
import "C"
import "fmt"

func predict(scale C.float, results chan<- string) {
	var model *C.whole_model
	if C.whole_open(&model) != 0 {
		panic("open")
	}
	defer C.whole_close(model)
	x, y := [3]C.float{scale, 2 * scale, 3 * scale}, [2]C.float{}
	for i := 0; i < 1000; i++ {
		y = [2]C.float{}
		if text := C.run(model, &x[0], &y[0]); text != nil {
			panic(C.GoString(text))
		}
		if y != [2]C.float{8 * scale, 26 * scale} {
			panic(fmt.Sprint(scale, y))
		}
	}
	results <- fmt.Sprint(y[0]/scale, y[1]/scale, " ", C.GoString(C.run(model, nil, &y[0])))
}

func main() {
	results := make(chan string)
	for i := 1; i <= 4; i++ {
		go predict(C.float(i), results)
	}
	for i := 1; i <= 4; i++ {
		fmt.Println(<-results)
	}
}
"""


@pytest.mark.slow
def test_a_go_program_runs_it(
    predict: mblob.Module, tmp_path: Path, require: Callable[[str], str]
) -> None:
    go = require("go")
    predict.export_library(
        tmp_path / "libwhole.so", standalone=True, prefix="whole", header=tmp_path / "whole.h"
    )
    (tmp_path / "main.go").write_text(GO)
    settings = {"GO111MODULE": "off", "GOENV": "off", "GOFLAGS": "", "GOPROXY": "off"}
    folders = {"GOCACHE": str(tmp_path / "cache"), "GOPATH": str(tmp_path / "path")}
    run(go, "build", "main.go", cwd=tmp_path, env={**os.environ, **settings, **folders})
    assert run(tmp_path / "main").stdout == "8 26 run: input 'x' is NULL\n" * 4


@pytest.mark.slow
@pytest.mark.parametrize("machine", [*CONVERTED, MUSL], ids=lambda machine: machine.triplet)
def test_it_is_packed_for_another_machine(
    tmp_path: Path, require: Callable[[str], str], images: Any, digits: Path, machine: Machine
) -> None:
    cc, qemu = require(f"{machine.triplet}-gcc"), require(f"qemu-{machine.name}")
    pack_digits(tmp_path, cc=cc)
    with mblob.open(tmp_path / "digits.so") as library:
        of_c = re.compile(r"lib(c|m|pthread|dl)\.so(\.\d)?|ld.*")
        assert all(of_c.fullmatch(name) for name in library.elf.needed)
    command = [qemu, "-L", f"/usr/{machine.triplet}", tmp_path / "digits"]
    done = subprocess.run(command, input=images.tobytes(), capture_output=True)
    assert done.returncode == 0, done.stderr
    assert [*map(int, done.stdout.split())] == expected_of(digits / "plain.so", images)


# -- other models ----------------------------------------------------------------------------------


def test_a_model_compiled_ahead_of_time(tmp_path: Path) -> None:
    payload = payloads.aot_factory({"w_0": test_aot_executor.W}, "m")
    factory = mblob.blob_module("AotExecutorFactory", payload)
    factory.import_module(mblob.csource_module(PACKED + test_aot_executor.MODEL, functions=[]))
    factory.export_library(tmp_path / "plain.so", dialect="classic")
    factory.export_library(tmp_path / "m.so", standalone=True, dialect="classic")
    x, y = np.arange(4, dtype="f"), np.zeros(4, "f")
    model = Interface(tmp_path / "m.so", "m")
    assert model.run([x], [y]) == 0, model.error()
    np.testing.assert_array_equal(y, x * test_aot_executor.W + test_aot_executor.K)
    assert model.run([-x - 1], [y]) != 0 and "x is negative" in model.error()
    model.close()


TWICE = "void twice(const float x[2][3], float y[2][3]) { for (int i = 0; i < 6; ++i) y[0][i] = 2 * x[0][i]; }"


def relax_program(dialect: str) -> mblob.Module:
    """main(x, w): a tuple of 2 x and x + w, which is a parameter."""
    first = len(relax.BUILTINS)
    constants = [relax.F32, (2, 3), (24,), "global", "ErrorContext(fn=main) "]
    c, i, r, call = relax.c, relax.i, relax.r, relax.call
    code = []
    for k in (0, 1):
        code += [
            call(relax.CHECK, [r(k), i(2), c(0), c(4)]),
            call(relax.MATCH, [r(k), relax.VOID, i(2), i(0), i(2), i(0), i(3), c(4)]),
            call(relax.STORAGE, [relax.VM, c(2), i(0), c(0), c(3)], 2 + k),
            call(relax.TENSOR, [r(2 + k), i(0), c(1), c(0)], 4 + k),
        ]
    code += [
        call(first, [r(0), r(4)]),
        call(first + 1, [r(0), r(1), r(5)]),
        call(relax.TUPLE, [r(4), r(5)], 6),
        relax.ret(6),
    ]
    functions = [relax.Function(f"vm.builtin.{name}") for name in relax.BUILTINS]
    functions += [relax.Function("twice"), relax.Function("plus")]
    functions.append(relax.Function("main", code, ["x", "w"]))
    payload = relax.Program(functions, constants, dialect, relax.MAGIC).payload()
    length = payloads.u64(len(payload)) if dialect == "classic" else b""
    return mblob.blob_module("relax.VMExecutable", length + payload)


@pytest.mark.parametrize("dialect", ["classic", "ffi"])
def test_a_relax_program_with_its_parameters(tmp_path: Path, dialect: Any) -> None:
    w = np.arange(6, dtype="f").reshape(2, 3)
    plus = TWICE.replace("twice(", "plus(").replace(", float", ", const float w[2][3], float")
    plus = plus.replace("2 * x[0][i]", "x[0][i] + w[0][i]")
    root = relax_program(dialect)
    root.import_module(
        mblob.csource_module(TWICE + plus, packed="name" if dialect == "classic" else None)
    )
    root.import_module(mblob.safetensors_module({"w": w}, order=["w"]))
    root.export_library(tmp_path / "plain.so", dialect=dialect)
    root.export_library(
        tmp_path / "m.so", standalone=True, dialect=dialect, header=tmp_path / "m.h"
    )
    text = (tmp_path / "m.h").read_text()
    assert re.findall(r"  .*\*(\w+); /\* (.*) \*/", text) == [
        (name, "float32[2, 3]") for name in ("x", "output0", "output1")
    ]
    x, outputs = w + 1, [np.zeros((2, 3), "f") for _ in range(2)]
    model = Interface(tmp_path / "m.so", "m")
    for _ in range(2):
        assert model.run([x], outputs) == 0, model.error()
        np.testing.assert_array_equal(outputs[0], 2 * x)
        np.testing.assert_array_equal(outputs[1], x + w)
    model.close()
    grown = (tmp_path / "m.so").stat().st_size - (tmp_path / "plain.so").stat().st_size
    assert grown <= 200_000


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ({"standalone": True, "system_lib": True}, "standalone: system_lib= has no meaning"),
        ({"standalone": True, "index": False}, "standalone: index= has no meaning"),
        ({"header": "h.h"}, "add standalone=True"),
        ({"standalone": True, "prefix": "9"}, "cannot begin the names of C functions"),
        ({"standalone": True, "prefix": "TVMx"}, "names that start so are the runtime's"),
    ],
)
def test_options_that_have_no_meaning_are_refused(
    predict: mblob.Module, tmp_path: Path, how: dict[str, Any], text: str
) -> None:
    name = "o.o" if "system_lib" in how else "o.so"
    (tmp_path / name).write_text("old")
    with pytest.raises(mblob.BuildError, match=re.escape(text)):
        predict.export_library(tmp_path / name, **how)
    assert (tmp_path / name).read_text() == "old"


def test_a_module_that_nothing_in_a_library_runs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "o.h").write_text("old")
    library = mblob.csource_module(PREDICT)
    library.import_module(mblob.device_module("cuda", "x", functions=[]))
    with pytest.raises(
        mblob.BuildError, match="runs 'cuda': it needs the CUDA driver; compile the model without"
    ):
        library.export_library(tmp_path / "o.so", standalone=True, header=tmp_path / "o.h")
    assert (tmp_path / "o.h").read_text() == "old" and not (tmp_path / "o.so").exists()


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (
            "void f(const float *x, float y[2]) { *y = *x; }",
            "'x' is neither an array of a fixed size",
        ),
        ("void f(const float x[1], int n) {(void)x, (void)n;}", "'n' is neither an array"),
        ("void f(float x[1]) {*x = 1;} void g(float x[1]) {*x = 1;}", "f, g with a prototype"),
        ("int f_;", "no function with a prototype"),
    ],
)
def test_functions_that_have_no_struct_are_refused(source: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(mblob.BuildError, match=re.escape(text)):
        mblob.csource_module(source).export_library(tmp_path / "o.so", standalone=True)


def test_a_compiler_that_is_not_there_is_told(predict: mblob.Module, tmp_path: Path) -> None:
    with pytest.raises(mblob.ToolchainError, match="no C compiler found for hexagon-linux-gnu"):
        predict.export_library(tmp_path / "o.so", standalone=True, target="hexagon-linux-gnu")


def test_names_of_members_are_names_of_c() -> None:
    from mblob.packager.standalone.interface import member_names

    names = ["x", "x", "serving/x:0", "1", "", "int", "x_2"]
    assert member_names(names) == ["x", "x_2", "serving_x_0", "_1", "_", "int_", "x_2_2"]
