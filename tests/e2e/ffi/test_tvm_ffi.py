"""Functions, tensors and errors between mblob and a real tvm_ffi in one process."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mblob.compilers import include_flags
from mblob.inspect.library_search import open_shared
from mblob.inspect.linkage import resolve
from mblob.inspect.runtime_names import INSTALLED
from tests.e2e.programs import ROOT, run

pytestmark = pytest.mark.slow
PROGRAMS = [
    "cpp_library",
    "cpp_values",
    "cpp_tensors",
    "functions_in",
    "functions_out",
    "tensors",
    "both_open_one_file",
]
CPP = r"""
#define TVM_FFI_DLL_EXPORT_INCLUDE_METADATA 1
#include <tvm/ffi/tvm_ffi.h>

namespace ffi = tvm::ffi;
static int add_one(int x) { return x + 1; }
static ffi::String greet(ffi::String name) { return "hello dear friend " + std::string(name); }
static ffi::Bytes same(ffi::Bytes b) { return b; }
static ffi::Shape shape_of(ffi::TensorView x) { return ffi::Shape(x.shape()); }
static void scale(ffi::TensorView x, double f) {
  TVM_FFI_ICHECK(x.stride(0) == 1);
  for (int64_t i = 0; i < x.size(0); ++i) static_cast<float *>(x.data_ptr())[i] *= static_cast<float>(f);
}
static int64_t sum(ffi::Array<int64_t> row) {
  int64_t total = 0;
  for (auto v : row) total += v;
  return total;
}
static int64_t total(ffi::Array<ffi::Array<double>> rows) {
  double all = 0;
  for (auto row : rows) for (double v : row) all += v;
  return static_cast<int64_t>(all);
}
static ffi::Array<ffi::Any> grown(ffi::Array<ffi::Any> row) {
  row.push_back(ffi::String("one more"));
  return row;
}
static bool negated(bool flag) { return !flag; }
static int64_t length(ffi::String text) { return static_cast<int64_t>(text.size()); }
static void fill(ffi::Array<ffi::Tensor> row, float value) {
  for (auto t : row) static_cast<float *>(t.data_ptr())[0] = value;
}
static ffi::Any call_all(ffi::Array<ffi::Function> row, ffi::Any x) {
  for (auto f : row) x = f(x);
  return x;
}
static ffi::String type_of(ffi::Any x) { return x.GetTypeKey(); }
static ffi::Function maker(int k) { return ffi::Function::FromTyped([k](int x) { return x + k; }); }
static ffi::Optional<ffi::Tensor> kept;
static double first(ffi::Tensor x) { return static_cast<float *>(x.data_ptr())[0]; }
static void keep(ffi::Tensor x) { kept = x; }
static double first_kept() { return first(kept.value()); }
static void drop() { kept = ffi::Optional<ffi::Tensor>(); }
static ffi::Any same_any(ffi::Any x) { return x; }
static ffi::Optional<ffi::Tensor> same_optional(ffi::Optional<ffi::Tensor> x) { return x; }
static int64_t rank(DLTensor *x) { return x->ndim; }
static void fails(int x) { TVM_FFI_THROW(ValueError) << "bad number " << x; }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(add_one, add_one);
TVM_FFI_DLL_EXPORT_TYPED_FUNC_DOC(add_one, "Adds one.");
TVM_FFI_DLL_EXPORT_TYPED_FUNC(greet, greet);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(bytes, same);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(shape_of, shape_of);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(scale, scale);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(sum, sum);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(total, total);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(grown, grown);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(negated, negated);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(length, length);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(fill, fill);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(call_all, call_all);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(type_of, type_of);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(maker, maker);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(fails, fails);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(first, first);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(keep, keep);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(first_kept, first_kept);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(drop, drop);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(same_any, same_any);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(same_optional, same_optional);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(rank, rank);
"""


@pytest.fixture(scope="module")
def package(package_of: Callable[[str], Path]) -> Path:
    """The folder of the installed tvm_ffi."""
    return package_of("tvm_ffi")


@pytest.fixture(scope="module")
def libraries(package: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A library of C, and one of C++ that needs libtvm_ffi."""
    folder = tmp_path_factory.mktemp("tvm_ffi")
    (folder / "library.cc").write_text(CPP)
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler is installed")
    run(compiler, "-std=c++17", "-fPIC", "-shared", f"-I{package}/include", folder / "library.cc",
        "-o", folder / "cpp.so", f"-L{package}/lib", "-ltvm_ffi")  # fmt: skip
    run("cc", "-std=gnu11", "-O2", "-fPIC", "-shared", *include_flags(), f"-I{ROOT}/csrc/plugins/ffi",
        ROOT / "tests/c/kernels/ffi.c", "-o", folder / "c.so")  # fmt: skip
    return folder / "c.so", folder / "cpp.so"


@pytest.mark.parametrize("order", ["mblob,tvm_ffi", "tvm_ffi,mblob"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_they_understand_each_other(libraries: tuple[Path, Path], program: str, order: str) -> None:
    done = run(
        sys.executable, "-m", "tests.e2e.ffi.tvm_ffi_programs", program, order, *libraries, cwd=ROOT
    )
    assert done.stdout == "fine\n"
    assert done.stderr == ""


WITHOUT = """
import sys
import mblob
lib = mblob.load_module(sys.argv[1])
print(lib.greet("you"), lib.sum([1, 2, 3]), "libtvm_ffi" in open("/proc/self/maps").read())
try:
    lib.fails(3)
except ValueError as error:
    print(error)
"""


def test_a_library_that_was_linked_with_libtvm_ffi_opens_without_it(
    libraries: tuple[Path, Path],
) -> None:
    done = run(sys.executable, "-c", WITHOUT, libraries[1], cwd=ROOT)
    assert done.stdout.splitlines()[1:] == ["ValueError: bad number 3"]
    assert done.stdout.splitlines()[0].endswith("6 False")
    assert not resolve(open_shared(str(libraries[1])), str(libraries[1]), [INSTALLED]).unresolved


def test_a_library_that_needs_classes_of_libtvm_ffi_says_so(
    package: Path, tmp_path: Path, require: Callable[[str], str]
) -> None:
    source = tmp_path / "library.cc"
    source.write_text(
        "#include <tvm/ffi/extra/module.h>\n#include <tvm/ffi/function.h>\n"
        "static tvm::ffi::Module open(tvm::ffi::String path) {\n"
        "  return tvm::ffi::Module::LoadFromFile(path);\n}\n"
        "TVM_FFI_DLL_EXPORT_TYPED_FUNC(open_file, open);\n"
    )
    library = tmp_path / "library.so"
    run(require("c++"), "-std=c++17", "-fPIC", "-shared", f"-I{package}/include", source,
        "-o", library, f"-L{package}/lib", "-ltvm_ffi")  # fmt: skip
    program = f"import mblob\ntry: mblob.load_module({str(library)!r})\nexcept mblob.IncompatibleError as e: print(e)"
    done = run(sys.executable, "-c", program, cwd=ROOT)
    assert "undefined symbol: _ZN3tvm3ffi" in done.stdout
    assert "load tvm_ffi first (Python: import tvm_ffi)" in done.stdout


def test_our_functions_are_no_objects_without_tvm_ffi(libraries: tuple[Path, Path]) -> None:
    program = (
        "import sys; sys.modules['tvm_ffi'] = None\nimport mblob\n"
        f"function = mblob.load_module({str(libraries[0])!r})['add']\n"
        "try: function.__tvm_ffi_object__()\nexcept ImportError: print('import')"
    )
    assert run(sys.executable, "-c", program, cwd=ROOT).stdout == "import\n"
