"""`mblob.add` of code, and modules imported into a loaded library that is exported: new code joins the
finished library."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.binary.elf import ElfFile
from mblob.bytes.mapping import map_file
from mblob.errors import HiddenNameWarning
from tests.packager.edit.test_add import GOLDEN, W, code_of, linked, packed, run_twice, tree_of

pytestmark = [
    pytest.mark.own_process,
    pytest.mark.filterwarnings("ignore:TVM cannot open:mblob.PortabilityWarning"),
]

PRE = """#include <math.h>
#include <stdint.h>
void pre(const float *x, float *y, int64_t n) { for (int64_t i = 0; i < n; ++i) y[i] = sqrtf(x[i]) / 2; }
"""
PROTOTYPE = "void pre(const float x[n], float y[n], int64_t n)"
WITH_CODE = [name for name in GOLDEN if name not in ("dag", "dnnl_c_lib")]  # those are half a model


@pytest.fixture
def pre(tmp_path: Path) -> Path:
    path = tmp_path / "pre.c"
    path.write_text(PRE)
    return path


def run_pre(path: Path) -> None:
    x, y = np.full(4, 16, "float32"), np.zeros(4, "float32")
    lib = mblob.load_module(path, missing="stub")
    lib["pre"](x, y, 4)
    assert y.tolist() == [2] * 4
    with pytest.raises(mblob.MblobError, match=r"expected shape \(5,\)"):
        lib["pre"](x, y, 5)


def contains(new: Path, old: Path) -> bool:
    return set(code_of(old)) <= set(code_of(new))


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", WITH_CODE)
def test_a_kernel_joins_libraries_of_tvm(
    golden: Path, tmp_path: Path, pre: Path, require: Any, name: str
) -> None:
    old, new = golden / f"{name}.so", tmp_path / "a.so"
    mblob.add(
        old, kernels=pre, functions=PROTOTYPE, weights=W, blobs={"labels": b"[1]"}, output=new
    )
    assert contains(new, old)
    before, after = tree_of(old), tree_of(new)
    count = len(before)
    assert after[0] == (before[0][0], (*before[0][1], count, count + 1), before[0][2])
    assert after[1:count] == before[1:]
    stripped = tmp_path / "stripped.so"
    subprocess.run(["strip", "-o", stripped, new], check=True)
    for path in (new, stripped):
        mblob.verify(path)
        run_pre(path)
        lib = mblob.load_module(path, missing="stub")
        assert bytes(lib.payloads["labels"]) == b"[1]" and set(lib.tensors) >= set(W)
    mblob.add(stripped, blobs={"more": b"x"})
    run_pre(stripped)


def test_the_model_runs_as_before(golden: Path, tmp_path: Path, pre: Path) -> None:
    outcome = np.load(golden / "mlp_llvm.npz")
    mblob.add(
        golden / "mlp_llvm.so", kernels=[pre], functions=[PROTOTYPE], output=tmp_path / "a.so"
    )
    lib = mblob.load_module(tmp_path / "a.so")
    model = mblob.graph_executor.GraphModule(lib["default"](mblob.cpu()))
    model.set_input("data", outcome["data"])
    model.run()
    np.testing.assert_array_equal(model.get_output(0).numpy(), outcome["out"])
    run_pre(tmp_path / "a.so")


@pytest.mark.parametrize("dialect", ["classic", "ffi"])
def test_libraries_of_mblob_get_code_again_and_again(
    tmp_path: Path, pre: Path, dialect: Any
) -> None:
    path = packed(tmp_path / "a.so", {"one": b"x" * 3_000_000}, dialect=dialect)
    first = code_of(path)
    mblob.add(path, kernels=[pre], functions=[PROTOTYPE])
    (tmp_path / "half.c").write_text("int half(int x) { return x / 2; }")
    subprocess.run(["cc", "-c", "-g", "-fPIC", "half.c"], cwd=tmp_path, check=True)
    mblob.add(path, objects=tmp_path / "half.o", functions=["int half(int x)"], weights=W)
    for _ in range(2):
        assert set(first) <= set(code_of(path))
        assert [key for key, _, _ in tree_of(path)] == ["library", "one", "safetensors"]
        assert mblob.load_module(path)["half"](8) == 4
        assert sorted(mblob.load_module(path).functions) == ["half", "pre", "twice"]
        run_pre(path)
        run_twice(path)
        subprocess.run(["strip", "-o", tmp_path / "s.so", path], check=True)
        path = tmp_path / "s.so"


# the first code binds variables for functions of the runtime, which the next code binds again
BOUND = [
    *("relax/tensor_cache_model", "relax/mlp_dynamic", "relax/cnn_bound", "relax/compiled_control"),
    *("relax/llm_paged_kv", "relax/mlp_static", "relax/byoc_c"),
    *(
        "ffi/ctx_llvm",
        "ffi/metal",
        "ffi/webgpu",
        "mlp_c",
        "mlp_llvm",
        "aot_mlp",
        "vm_mlp",
        "host_c",
    ),
]


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", BOUND)
def test_libraries_of_tvm_get_code_again_and_again(golden: Path, tmp_path: Path, name: str) -> None:
    old, path = golden / f"{name}.so", tmp_path / "a.so"
    numbers = {"one": 1, "two": 2, "three": 3}
    for function, number in numbers.items():
        source = tmp_path / f"{function}.c"
        source.write_text(f"int {function}(void) {{ return {number}; }}")
        mblob.add(old if number == 1 else path, kernels=source, output=path)
    assert contains(path, old)
    stripped = tmp_path / "stripped.so"
    made = subprocess.run(["strip", "-o", stripped, path], check=True, capture_output=True)
    assert not made.stderr
    for p in (path, stripped):
        mblob.verify(p)
        lib = mblob.load_module(p, missing="stub")
        assert {function: lib[function]() for function in numbers} == numbers


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["ffi/ctx_llvm", "ffi/metal", "mlp_llvm"])
def test_code_for_link_time_optimization(golden: Path, tmp_path: Path, name: str) -> None:
    """Slots that new code brings are filled in another object, which the linker keeps apart."""
    source, made = tmp_path / "two.c", tmp_path / "a.so"
    source.write_text("int two(void) { return 2; }")
    mblob.add(golden / f"{name}.so", kernels=source, output=made, options="-flto")
    for function, kind in (("slim", "-fno-fat-lto-objects"), ("fat", "-ffat-lto-objects")):
        text = f"int {function}(void) {{ return 3; }}"
        command = ["cc", "-c", "-fPIC", "-flto", kind, "-xc", "-", "-o", tmp_path / "k.o"]
        subprocess.run(command, input=text.encode(), check=True)
        mblob.add(
            made, objects=tmp_path / "k.o", functions=f"int {function}(void)", options="-flto"
        )
    mblob.verify(made)
    lib = mblob.load_module(made, missing="stub")
    assert (lib["two"](), lib["slim"](), lib["fat"]()) == (2, 3, 3)


def test_an_addition_has_no_program_headers_for_what_an_earlier_one_left(
    golden: Path, tmp_path: Path
) -> None:
    """The headers must fit in front of the first section, or strip breaks the library."""
    path, counts = tmp_path / "a.so", []
    for i in range(4):
        (tmp_path / "k.c").write_text(f"int f{i}(void) {{ return {i}; }}")
        mblob.add(path if i else golden / "mlp_llvm.so", kernels=tmp_path / "k.c", output=path)
        counts.append(len(ElfFile(map_file(path)).segments))
    # code and data; the blob, tables and notes of the one before are gone
    assert [new - old for old, new in zip(counts, counts[1:])] == [2, 2, 2]
    subprocess.run(["strip", path], check=True)
    mblob.verify(path)
    assert [mblob.load_module(path)[f"f{i}"]() for i in range(4)] == list(range(4))


@pytest.mark.parametrize("linker", ["", "-fuse-ld=gold", "-fuse-ld=lld", "-fuse-ld=mold"])
def test_a_warning_says_which_results_strip_breaks(
    tmp_path: Path, linker: str, require: Callable[[str], str]
) -> None:
    if linker:
        require(linker.partition("=")[2].replace("gold", "ld.gold").replace("lld", "ld.lld"))
    path, stripped, source = tmp_path / "a.so", tmp_path / "stripped.so", tmp_path / "k.c"
    source.write_text("int zero(void) { return 0; }")
    command = ["cc", "-shared", "-fPIC", "-g0", *filter(None, [linker]), source, "-o", path]
    subprocess.run(command, check=True)
    warned = []
    for number in (1, 2):
        source.write_text(f"int number{number}(void) {{ return {number}; }}")
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            mblob.add(path, kernels=source)
        warned.append(any("do not run strip" in str(w.message) for w in told))
        subprocess.run(["strip", "-o", stripped, path], capture_output=True)
        try:
            mblob.verify(stripped)
            breaks = False
        except mblob.MblobError:
            breaks = True
        assert breaks == warned[-1] == ("headers_behind" in dict(mblob.verify(path).warnings))
        if platform.machine() == "x86_64":  # whose pages have 4 KiB
            assert path.stat().st_size < 64 << 10
    assert not any(warned)


@pytest.mark.parametrize("name", ["", "host_c", "ffi/ctx_llvm"])
def test_a_library_without_modules(golden: Path, tmp_path: Path, pre: Path, name: str) -> None:
    old = golden / f"{name}.so" if name else linked(tmp_path / "l.so")
    mblob.add(old, kernels=[pre], functions=[PROTOTYPE], output=tmp_path / "a.so")
    assert contains(tmp_path / "a.so", old)
    run_pre(tmp_path / "a.so")
    if not name:
        assert mblob.load_module(tmp_path / "a.so").symbol("half", int_type(), [int_type()])(8) == 4


def int_type() -> Any:
    import ctypes

    return ctypes.c_int


def test_old_payloads_come_along_once(tmp_path: Path, pre: Path) -> None:
    """The blob that ended the library does not stay in it as a hole."""
    path = packed(tmp_path / "a.so", {"one": b"x" * 5_000_000})
    assert mblob.add(path, kernels=[pre], functions=[PROTOTYPE]) == 0
    assert path.stat().st_size < 6_000_000


REFUSED = {
    "constructors (start)": """static int made; int get(int x) { return x + made; }
__attribute__((constructor)) void start(void) { made = 1; }""",
    "(get: IFUNC, as target_clones makes; if it has a resolver of yours, calls need its prototype, too,"
    " functions=['void get(...)'])": """__attribute__((target_clones("avx2", "default")))
int get(int x) { return x; }""",
    "static C++ objects with destructors (k.cc:2)": """#include <string>
static std::string s = "s"; extern "C" int get(int x) { return x + s.size(); }""",
}


@pytest.mark.parametrize("why", list(REFUSED))
def test_code_that_cannot_join_is_named_with_the_remedy(
    golden: Path, tmp_path: Path, why: str
) -> None:
    source = tmp_path / ("k.cc" if "std::" in REFUSED[why] else "k.c")
    source.write_text(REFUSED[why])
    out = tmp_path / "out.so"
    out.write_bytes(b"old")
    with pytest.raises(mblob.BuildError) as caught:
        mblob.add(golden / "host_c.so", kernels=[source], functions=["int get(int x)"], output=out)
    assert why in str(
        caught.value
    ) and "export the model to a .tar, and give the .tar to build" in str(caught.value)
    assert "/tmp/mblob" not in str(caught.value) and out.read_bytes() == b"old"


JOINED = {
    "tls.c": "__thread int own = 5; int get(int x) { return own += x; }",
    "cxx.cc": """#include <vector>
extern "C" int get(int x) { return 5 + std::vector<int>(x, 1).size(); }""",
}


def test_variables_of_threads_are_named(tmp_path: Path) -> None:
    """Those with initial values, beside one that earlier code has."""
    earlier = "__thread int own; int f(int x) { return own += x; }"
    mblob.csource_module(earlier).export_library(tmp_path / "a.so")
    text = "__thread int zero, five = 5; int get(int x) { return five += x + zero++; }"
    (tmp_path / "k.c").write_text(text)
    with pytest.raises(mblob.BuildError, match=r"of threads with initial values \(five\); .*\.tar"):
        mblob.add(tmp_path / "a.so", kernels=tmp_path / "k.c")


@pytest.mark.parametrize("name", list(JOINED))
def test_code_that_can_join(golden: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(JOINED[name])
    made = tmp_path / "a.so"
    mblob.add(
        golden / "host_llvm.so", kernels=tmp_path / name, functions="int get(int x)", output=made
    )
    assert mblob.load_module(made)["get"](3) == 8


def test_functions_of_one_name(golden: Path, tmp_path: Path) -> None:
    source, out = tmp_path / "k.c", tmp_path / "a.so"
    source.write_text("void vadd(float *x) { *x = 7; }")
    given: Any = {"kernels": source, "functions": "void vadd(float *x)", "output": out}
    with pytest.raises(
        mblob.BuildError, match="has a function 'vadd' already; replace=True replaces it"
    ):
        mblob.add(golden / "host_llvm.so", **given)
    mblob.add(golden / "host_llvm.so", **given, replace=True)
    lib, x = mblob.load_module(out), np.zeros(1, "float32")
    assert list(lib.functions) == ["vadd"]
    lib["vadd"](x)
    assert x[0] == 7
    plain = linked(tmp_path / "l.so")
    source.write_text("int half(int x) { return x / 2 + 100; }")
    given = {"kernels": source, "functions": "int half(int x)", "output": out}
    with pytest.raises(mblob.BuildError, match="has a function 'half' already; replace=True"):
        mblob.add(plain, **given)
    mblob.add(plain, **given, replace=True)
    assert mblob.load_module(out)["half"](4) == 102


@pytest.mark.parametrize("dialect", ["classic", "ffi"])
@pytest.mark.parametrize(
    "functions", [None, ["add"], ["int add(int a, int b)"]], ids=["all", "name", "prototype"]
)
def test_a_function_takes_the_place_of_another_however_it_is_named(
    tmp_path: Path, dialect: Any, functions: Any
) -> None:
    old, new, out = tmp_path / "old.so", tmp_path / "k.c", tmp_path / "a.so"
    text = "int add(int a, int b) { return a + b; }\nint sub(int a, int b) { return a - b; }\n"
    mblob.csource_module(text).export_library(old, dialect=dialect)
    new.write_text("int add(int a, int b) { return a + b + 100; }")
    with pytest.raises(mblob.BuildError, match="has a function 'add' already; replace=True"):
        mblob.add(old, kernels=new, functions=functions, output=out)
    mblob.add(old, kernels=new, functions=functions, output=out, replace=True)
    lib = mblob.load_module(out)
    assert (lib["add"](1, 2), lib["sub"](1, 2)) == (103, -1)
    assert sorted(lib.functions) == ["add", "sub"]
    with mblob.open(out) as library:
        assert len(library.function_table) == 4


def test_a_function_of_the_source_does_not_hide_behind_one_of_tvm(
    golden: Path, tmp_path: Path
) -> None:
    """Which has another symbol, in the ffi dialect."""
    name = mblob.open(golden / "ffi" / "ctx_llvm.so").packed_functions[0]
    new, out = tmp_path / "k.c", tmp_path / "a.so"
    new.write_text(f"void {name}(float *x) {{ *x = 7; }}")
    with pytest.raises(mblob.BuildError, match=f"has a function '{name}' already"):
        mblob.add(golden / "ffi" / "ctx_llvm.so", kernels=new, output=out)
    mblob.add(golden / "ffi" / "ctx_llvm.so", kernels=new, output=out, replace=True)
    x = np.zeros(1, "float32")
    mblob.load_module(out)[name](x)
    assert x[0] == 7


@pytest.mark.parametrize("linker", ["bfd", "gold", "lld", "mold"])
def test_code_without_data_of_its_own_joins(tmp_path: Path, linker: str, require: Any) -> None:
    """The linker puts nothing between the tables and the packed modules."""
    require(f"ld.{linker}")
    (tmp_path / "k.c").write_text("int two(void) { return 2; }")
    options = [f"-fuse-ld={linker}"]
    mblob.add(
        linked(tmp_path / "l.so"),
        kernels=tmp_path / "k.c",
        functions=[],
        output=tmp_path / "a.so",
        options=options,
    )
    assert ctypes.CDLL(str(tmp_path / "a.so")).two() == 2
    assert mblob.load_module(tmp_path / "a.so").symbol("two") is not None


def test_errors_of_what_was_given(golden: Path, tmp_path: Path, pre: Path) -> None:
    old, out = golden / "host_c.so", tmp_path / "a.so"
    with pytest.raises(mblob.BuildError, match=r"neither \S+host_c.so nor new code defines 'pre'"):
        mblob.add(old, blobs={"k": b"1"}, functions=[PROTOTYPE], output=out)
    with pytest.raises(mblob.BuildError, match="nor new code defines 'gone'"):
        mblob.add(old, kernels=[pre], functions=["void gone(void)"], output=out)
    with pytest.raises(mblob.ToolchainError, match=r"pre.c"):
        pre.write_text("syntax error")
        mblob.add(old, kernels=[pre], output=out)
    with pytest.raises(mblob.BuildError, match="another library, which cannot be linked again"):
        mblob.add(old, modules=[mblob.load_module(golden / "host_llvm.so")], output=out)
    with pytest.raises(mblob.BuildError, match="no entry 3"):
        mblob.add(old, modules={3: [mblob.blob_module("k", b"1")]}, output=out)
    assert not out.exists()


def test_an_unknown_argument_is_told_with_the_one_that_was_meant(
    golden: Path, tmp_path: Path
) -> None:
    for more in ({"blobs": {"k": b"1"}}, {"kernels": "k.c"}):
        with pytest.raises(
            TypeError, match=r"^add: unknown argument 'weight'; .*did you mean 'weights'"
        ):
            mblob.add(golden / "host_c.so", **more, weight=[], output=tmp_path / "x.so")  # type: ignore[call-arg]


def test_a_library_of_another_machine(tmp_path: Path, pre: Path, require: Any) -> None:
    require("aarch64-linux-gnu-gcc")
    old = packed(tmp_path / "a.so", target="aarch64-linux-gnu")
    with pytest.raises(mblob.IncompatibleError, match=r"aarch64.*pass cc= or target="):
        mblob.add(old, kernels=[pre], functions=[PROTOTYPE], output=tmp_path / "b.so")
    mblob.add(
        old,
        kernels=[pre],
        functions=[PROTOTYPE],
        output=tmp_path / "b.so",
        target="aarch64-linux-gnu",
    )
    with mblob.open(tmp_path / "b.so") as library:
        assert sorted(library.functions) == ["pre", "twice"]


# -- by hand ---------------------------------------------------------------------------------------


def test_what_a_loaded_library_imports_is_added(golden: Path, tmp_path: Path) -> None:
    old, new = golden / "mlp_llvm.so", tmp_path / "a.so"
    lib = mblob.load_module(old)
    code = mblob.csource_module(PRE, functions=[PROTOTYPE])
    code.import_module(mblob.safetensors_module(W))
    lib.import_module(code)
    lib.import_module(mblob.blob_module("labels", b"[1]"))
    lib.imported_modules[0].import_module(mblob.blob_module("below", b"2"))
    lib.export_library(new)
    assert contains(new, old)
    rows = [(key, imports) for key, imports, _ in tree_of(new)]
    assert rows == [
        ("GraphExecutorFactory", (1, 3)),
        ("library", (2, 4)),
        ("safetensors", ()),
        ("labels", ()),
        ("below", ()),
    ]
    run_pre(new)
    again = mblob.load_module(new)
    again.import_module(mblob.blob_module("more", b"3"))
    again.export_library(tmp_path / "b.so", index=True, digest="sha256")
    assert bytes(mblob.load_module(tmp_path / "b.so").payloads["more"]) == b"3"


@pytest.mark.parametrize("dialect", ["classic", "ffi"])
def test_by_hand_and_by_add_give_the_same_file(tmp_path: Path, dialect: Any) -> None:
    old = packed(tmp_path / "a.so", {"one": b"x" * 100}, dialect=dialect)
    mblob.add(old, weights=W, blobs={"labels": b"[1]"}, output=tmp_path / "b.so")
    lib = mblob.load_module(old)
    lib.import_module(mblob.safetensors_module(W))
    lib.import_module(mblob.blob_module("labels", b"[1]"))
    lib.export_library(tmp_path / "c.so")
    assert (tmp_path / "b.so").read_bytes() == (tmp_path / "c.so").read_bytes()


def test_what_cannot_be_added_by_hand(golden: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.so"
    lib, loop = mblob.load_module(golden / "mlp_llvm.so"), mblob.blob_module("k", b"1")
    loop.import_module(lib.imported_modules[0])
    lib.import_module(loop)
    with pytest.raises(mblob.BuildError, match="imports one of the loaded library"):
        lib.export_library(out)
    lib = mblob.load_module(golden / "mlp_llvm.so")
    lib.import_module(mblob.load_module(golden / "host_c.so"))
    with pytest.raises(mblob.BuildError, match="another library, which cannot be linked again"):
        lib.export_library(out)
    assert not out.exists()


RUNNER = """#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **paths) {
  void *library = dlopen(paths[1], RTLD_NOW);
  if (!library) return puts(dlerror()), 1;
  int (*get)(int) = (int (*)(int))dlsym(library, "get"), (*half)(int) = (int (*)(int))dlsym(library, "half");
  unsigned char *blob = dlsym(library, "__tvm_dev_mblob");
  return !(get && get(3) == 4 && half && half(8) == 4 && dlsym(library, "half__packed") && blob && blob[0]);
}
"""


@pytest.mark.parametrize("compiler", ["cc", "musl-gcc"])
def test_dynamic_linkers_take_the_result(tmp_path: Path, require: Any, compiler: str) -> None:
    """A library of anybody, with code and files, opened by glibc and by musl without mblob."""
    require(compiler)
    for name, text in (
        ("half.c", "int half(int x) { return x / 2; }"),
        ("get.c", "int get(int x) { return x + 1; }"),
        ("runner.c", RUNNER),
    ):
        (tmp_path / name).write_text(text)
    for words in (
        ["-shared", "-fPIC", "half.c", "-o", "l.so"],
        ["runner.c", "-o", "runner", "-ldl"],
    ):
        subprocess.run([compiler, *words], cwd=tmp_path, check=True)
    made, names = tmp_path / "a.so", ["int half(int x)", "int get(int x)"]
    mblob.add(
        tmp_path / "l.so",
        kernels=tmp_path / "get.c",
        functions=names,
        blobs={"k": b"x" * 5000},
        output=made,
        cc=compiler,
    )
    subprocess.run([tmp_path / "runner", made], check=True)
    mblob.add(made, blobs={"more": b"y"})
    subprocess.run([tmp_path / "runner", made], check=True)


def test_a_library_has_one_c_library(golden: Path, tmp_path: Path, require: Any) -> None:
    """Code of glibc does not keep musl from opening a library that both opened; code of another C library is
    refused, and nothing is written."""
    musl = require("musl-gcc")
    (tmp_path / "get.c").write_text("int get(int x) { return x + 1; }")
    (tmp_path / "own.c").write_text("__thread int own; int get2(int x) { return 5 + (own += x); }")
    (tmp_path / "open.c").write_text(
        "#include <dlfcn.h>\nint main(int c, char **v) { return !dlopen(v[c - 1], RTLD_NOW); }"
    )
    for words in (["open.c", "-o", "open"], ["-shared", "-fPIC", "get.c", "-o", "musl.so"]):
        subprocess.run([musl, *words], cwd=tmp_path, check=True)
    made = tmp_path / "a.so"
    for name in ("get.c", "own.c"):  # with the buffer of errors, then with a variable of its own
        old = made if made.exists() else golden / "host_c.so"
        mblob.add(old, kernels=tmp_path / name, output=made)
        subprocess.run([tmp_path / "open", made], check=True)
        assert mblob.load_module(made)["get"](1) == 2
    assert mblob.load_module(made)["get2"](3) == 8
    for old, compiler, words in (
        (tmp_path / "musl.so", "cc", r"musl.so needs libc.so, the new code libc.so.6: .* musl-gcc"),
        (golden / "mlp_llvm.so", musl, r"needs libm.so.6, the new code libc.so: .* for glibc"),
    ):
        with pytest.raises(mblob.IncompatibleError, match=words):
            mblob.add(old, kernels=tmp_path / "own.c", output=tmp_path / "no.so", cc=compiler)
        assert not (tmp_path / "no.so").exists()


def test_new_code_takes_no_name_that_the_library_takes_from_others(tmp_path: Path) -> None:
    """Its own code would call the new function."""
    text = "#include <math.h>\nfloat twice(float x) { return 2 * expf(x); }\n"
    mblob.csource_module(text, options="-lm").export_library(tmp_path / "l.so")
    before = (tmp_path / "l.so").read_bytes()
    (tmp_path / "new.c").write_text("float expf(float x) { return x; }\n")
    with pytest.raises(mblob.BuildError, match=r"defines 'expf', which .* takes from libm.*static"):
        mblob.add(tmp_path / "l.so", kernels=tmp_path / "new.c")
    assert (tmp_path / "l.so").read_bytes() == before
    (tmp_path / "new.c").write_text(
        "static float expf(float x) { return x; }\nfloat one(float x) { return expf(x); }\n"
    )
    mblob.add(tmp_path / "l.so", kernels=tmp_path / "new.c")
    lib = mblob.load_module(tmp_path / "l.so")
    assert (lib.one(1.5), lib.twice(0.0)) == (1.5, 2.0)


def test_a_symbol_that_nothing_defines_is_refused_unless_an_option_permits_it(
    tmp_path: Path,
) -> None:
    mblob.csource_module("int f(int x) { return x; }").export_library(tmp_path / "l.so")
    (tmp_path / "new.c").write_text("int nowhere(int); int g(int x) { return nowhere(x); }\n")
    given: dict[str, Any] = {"kernels": tmp_path / "new.c", "output": tmp_path / "new.so"}
    with pytest.raises(mblob.BuildError, match=r"defines nowhere.*the option -Wl,-z,undefs"):
        mblob.add(tmp_path / "l.so", **given)
    assert not (tmp_path / "new.so").exists()
    with pytest.warns(mblob.PortabilityWarning, match="nothing that is linked defines nowhere"):
        mblob.add(tmp_path / "l.so", **given, options="-Wl,-z,undefs")


@pytest.mark.parametrize("linker", ["bfd", "lld"])
def test_code_that_calls_itself_joins_without_packed_functions(
    tmp_path: Path, require: Callable[[str], str], linker: str
) -> None:
    """Its last section has bytes: bfd would put the packed modules into the segment of these."""
    require(f"ld.{linker}")
    mblob.csource_module("int f(int x) { return x; }").export_library(tmp_path / "l.so")
    (tmp_path / "k.c").write_text("int g(int x) { return x; } int h(int x) { return g(x) + 1; }\n")
    given: dict[str, Any] = {"functions": [], "options": [f"-fuse-ld={linker}"]}
    mblob.add(tmp_path / "l.so", kernels=tmp_path / "k.c", **given, output=tmp_path / "new.so")
    assert mblob.load_module(tmp_path / "new.so").symbol("h")(3) == 4


SOFTMAX = "tvmgen_default_fused_nn_softmax"


def test_a_replaced_function_is_told_with_who_calls_which(golden: Path, tmp_path: Path) -> None:
    """Graphs look functions up by name; machine code has addresses."""
    code = f"int {SOFTMAX}(void *a, int *b, int c, void *d, int *e, void *f) {{ return -1; }}"
    (tmp_path / "k.c").write_text(code)
    given: dict[str, Any] = {"kernels": [tmp_path / "k.c"], "replace": True}
    with pytest.warns(HiddenNameWarning, match="and so does the GraphExecutorFactory: it must"):
        mblob.add(golden / "mlp_llvm.so", **given, output=tmp_path / "g.so")
    with pytest.warns(HiddenNameWarning, match="is replaced: programs call the new one"):
        mblob.add(golden / "aot_mlp.so", **given, output=tmp_path / "a.so")
    known = np.load(golden / "mlp_llvm.npz")
    graph = mblob.graph_executor.GraphModule(
        mblob.load_module(tmp_path / "g.so")["default"](mblob.cpu())
    )
    with pytest.raises(mblob.KernelError, match="softmax"):
        graph.run(data=known["data"])
    library = mblob.load_module(tmp_path / "a.so")
    model = mblob.aot_executor.AotModule(library["default"](mblob.cpu()))
    model.set_input("data", known["data"])
    model.run()
    assert np.allclose(model.get_output(0).numpy(), known["out"])
    with pytest.raises(mblob.KernelError):
        library[SOFTMAX]()
