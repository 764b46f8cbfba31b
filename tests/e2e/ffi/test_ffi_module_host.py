"""Programs that use libmblob-ffi without libtvm_ffi: C++ hosts written for tvm_ffi, static programs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from tests.e2e.programs import run

ADD = r"""
#include <stdint.h>
typedef struct { int32_t type; uint32_t zero; union { int64_t i; void *p; } v; } any;
void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message);
int __tvm_ffi_add_one(void *self, const any *args, int32_t count, any *result) {
  if (count != 1 || args[0].type != 1)
    return TVMFFIErrorSetRaisedFromCStr("ValueError", "add_one: expected an int"), -1;
  result->type = 1;
  result->v.i = args[0].v.i + 1;
  return 0;
}
"""
STATIC = r"""
#include <mblob.h>
#include <stdio.h>
int main(int argc, char **argv) {
  mblob_module *module;
  mblob_function *function;
  const TVMValue value = {.v_int64 = 41};
  const int code = 0;
  TVMValue result;
  int result_code;
  if (argc != 2 || mblob_open(argv[1], NULL, &module) ||
      mblob_module_function(module, "add_one", 0, &function) ||
      mblob_function_call(function, &value, &code, 1, &result, &result_code))
    return puts(mblob_last_error()), 1;
  printf("%d\n", (int)result.v_int64);
  mblob_function_release(function);
  mblob_module_release(module);
}
"""
HOST = r"""
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/tvm_ffi.h>
#include <cstdlib>
#include <iostream>
namespace ffi = tvm::ffi;
struct Memory {
  void AllocData(DLTensor *t) { t->data = std::malloc(ffi::GetDataSize(*t)); }
  void FreeData(DLTensor *t) { std::free(t->data); }
};
class NodeObj : public ffi::Object {
 public:
  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO("test.Node", NodeObj, ffi::Object);
};
class LeafObj : public NodeObj {
 public:
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("test.Leaf", LeafObj, NodeObj);
};
int main(int, char **argv) {
  ffi::Module module = ffi::Module::LoadFromFile(argv[1]);
  ffi::Tensor x = ffi::Tensor::FromNDAlloc(Memory(), ffi::Shape({4}), DLDataType{kDLFloat, 32, 1},
                                           DLDevice{kDLCPU, 0});
  static_cast<float *>(x.data_ptr())[0] = 5;
  std::cout << module->kind() << ' ' << module->GetFunction("add_one").value()(41).cast<int>() << ' '
            << module->GetFunction("first").value()(x).cast<double>() << ' '
            << module->GetFunction("nobody").has_value() << module->imports().size() << std::endl;
  try {
    module->GetFunction("add_one").value()("x");
  } catch (const ffi::Error &error) {
    std::cout << error.kind() << std::endl;
  }
  ffi::ObjectRef leaf{ffi::ObjectPtr<ffi::Object>(ffi::make_object<LeafObj>())};
  std::cout << (leaf.as<NodeObj>() != nullptr) << (leaf.as<LeafObj>() != nullptr)
            << (ffi::ObjectRef(ffi::make_object<NodeObj>()).as<LeafObj>() != nullptr)
            << (x.as<NodeObj>() != nullptr) << leaf.GetTypeKey() << std::endl;
  try {
    ffi::Module::LoadFromFile("/nowhere.so");
  } catch (const ffi::Error &error) {
    std::cout << error.message() << std::endl;
  }
}
"""
SHARED = r"""
#include <iostream>
int main(int, char **argv) {
  tvm::ffi::Module root = tvm::ffi::Module::LoadFromFile(argv[1]);
  tvm::ffi::Module a = root->imports()[0].cast<tvm::ffi::Module>();
  tvm::ffi::Module b = root->imports()[1].cast<tvm::ffi::Module>();
  std::cout << a->kind() << ' ' << b->kind() << ' ' << a->imports()[0].cast<tvm::ffi::Module>().same_as(
      b->imports()[0].cast<tvm::ffi::Module>()) << ' '
            << root->GetFunction("nobody", true).has_value() << std::endl;
}
"""
RETURNED = r"""
#include <iostream>
namespace ffi = tvm::ffi;
int main(int, char **argv) {
  auto global = [](const char *name) { return ffi::Function::GetGlobalRequired(name); };
  ffi::Any given = global("ffi.ModuleLoadFromFile")(std::string(argv[1]));
  ffi::Module module = given.cast<ffi::Module>();
  std::cout << given.GetTypeKey() << ' ' << module->GetFunction("add_one").value()(41).cast<int>() << ' '
            << global("ffi.ModuleGetKind")(module).cast<std::string>() << ' '
            << global("ffi.ModuleGetFunction")(module, "add_one", false)
                   .cast<ffi::Function>()(1).cast<int>() << std::endl;
}
"""
LIBRARY = r"""
#include <tvm/ffi/tvm_ffi.h>
namespace ffi = tvm::ffi;
static int add_one(int x) { return x + 1; }
static double first(ffi::Tensor x) { return static_cast<float *>(x.data_ptr())[0]; }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(add_one, add_one);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(first, first);
"""


def test_a_plug_in_has_a_soname(installed: Path) -> None:
    for plugin in (installed / "lib").glob("libmblob-*.so"):
        assert f"soname: [{plugin.name}]" in run("readelf", "-d", plugin).stdout


@pytest.mark.parametrize("linked", [True, False])
def test_a_static_program_has_the_plug_in_that_it_asks_for(
    installed: Path, tmp_path: Path, linked: bool
) -> None:
    (tmp_path / "add.c").write_text(ADD)
    (tmp_path / "host.c").write_text(STATIC)
    run("cc", "-shared", "-fPIC", tmp_path / "add.c", "-o", tmp_path / "add.so")
    lib = installed / "lib"
    asked = ["-Wl,-u,__mblob_static_plugin_ffi", lib / "libmblob-ffi.a"] if linked else []
    run("cc", f"-I{installed}/include", tmp_path / "host.c", *asked, lib / "libmblob.a", "-o",
        tmp_path / "host", "-ldl", "-lm", "-pthread")  # fmt: skip
    environment = {k: v for k, v in os.environ.items() if k != "MBLOB_PLUGIN_PATH"}
    done = subprocess.run(
        [str(tmp_path / "host"), str(tmp_path / "add.so")],
        capture_output=True,
        text=True,
        env=environment,
    )
    if linked:
        assert (done.returncode, done.stdout) == (0, "42\n")
    else:
        assert "or link libmblob-ffi.a" in done.stdout


@pytest.mark.parametrize("of", ["make install", "the package"])
def test_pkg_config_links_a_static_program_with_the_plug_in(
    installed: Path, tmp_path: Path, require: Callable[[str], str], of: str
) -> None:
    folder = installed / "lib" if of == "make install" else Path(mblob.get_library_dir())
    variables = {k: v for k, v in os.environ.items() if k != "MBLOB_PLUGIN_PATH"}
    variables["PKG_CONFIG_PATH"] = str(folder / "pkgconfig")
    asked = [require("pkg-config"), "--cflags", "--libs", "mblob-static-ffi"]
    words = run(*asked, env=variables).stdout.split()
    (tmp_path / "add.c").write_text(ADD)
    (tmp_path / "host.c").write_text(STATIC)
    run("cc", "-shared", "-fPIC", tmp_path / "add.c", "-o", tmp_path / "add.so")
    run("cc", tmp_path / "host.c", "-o", tmp_path / "host", *words)
    assert "libmblob" not in run("readelf", "-d", tmp_path / "host").stdout
    assert run(tmp_path / "host", tmp_path / "add.so", env=variables).stdout == "42\n"


@pytest.mark.parametrize("of", ["make install", "the package"])
def test_no_name_is_in_both_static_libraries(installed: Path, tmp_path: Path, of: str) -> None:
    folder = installed / "lib" if of == "make install" else Path(mblob.get_library_dir())
    archives = [folder / "libmblob-ffi.a", folder / "libmblob.a"]
    run("cc", "-shared", "-o", tmp_path / "all.so", "-Wl,--whole-archive", *archives,
        "-Wl,--no-whole-archive", "-lm", "-ldl", "-pthread")  # fmt: skip


@pytest.fixture
def build_host(
    require: Callable[[str], str],
    installed: Path,
    package_of: Callable[[str], Path],
    tmp_path: Path,
) -> Callable[[str], Path]:
    """A C++ program with tvm_ffi's headers and without its library."""

    def build(text: str) -> Path:
        (tmp_path / "host.cc").write_text(text)
        run(require("c++"), "-std=c++17", f"-I{package_of('tvm_ffi')}/include", "-include", "mblob/ffi_module.h",
            tmp_path / "host.cc", "-o", tmp_path / "host", f"-I{installed}/include", f"-L{installed}/lib",
            f"-Wl,-rpath,{installed}/lib", "-lmblob-ffi", "-lmblob",
        )  # fmt: skip
        return tmp_path / "host"

    return build


@pytest.mark.slow
def test_a_cxx_host_of_tvm_ffi_runs_without_its_library(
    require: Callable[[str], str],
    build_host: Callable[[str], Path],
    package_of: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    (tmp_path / "library.cc").write_text(LIBRARY)
    run(require("c++"), "-std=c++17", f"-I{package_of('tvm_ffi')}/include", "-shared", "-fPIC",
        tmp_path / "library.cc", "-o", tmp_path / "library.so")  # fmt: skip
    lines = run(build_host(HOST), tmp_path / "library.so").stdout.splitlines()
    assert lines[:3] == ["library 42 5 00", "TypeError", "1100test.Leaf"]
    assert "/nowhere.so" in lines[3]


@pytest.mark.slow
def test_the_header_is_for_the_first_releases_of_tvm_ffi_too(
    require: Callable[[str], str],
    installed: Path,
    package_of: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    """0.1.0 to 0.1.7 have no tvm/ffi/tvm_ffi.h."""
    shutil.copytree(package_of("tvm_ffi") / "include", tmp_path / "include")
    (tmp_path / "include/tvm/ffi/tvm_ffi.h").unlink()
    (tmp_path / "host.cc").write_text(SHARED)
    run(require("c++"), "-std=c++17", "-fsyntax-only", "-include", "mblob/ffi_module.h", tmp_path / "host.cc",
        f"-I{tmp_path}/include", f"-I{installed}/include")  # fmt: skip


@pytest.mark.slow
def test_a_cxx_host_has_one_object_of_a_module_that_several_import(
    build_host: Callable[[str], Path], tmp_path: Path
) -> None:
    root = mblob.csource_module("int f(void) { return 1; }")
    layer = [root]
    for i in range(40):  # 2^40 paths lead to the last ones
        below = [mblob.blob_module(f"{name}{i}", b"x") for name in "ab"]
        for module in layer:
            for child in below:
                module.import_module(child)
        layer = below
    root.export_library(tmp_path / "library.so", dialect="ffi")
    done = run(build_host(SHARED), tmp_path / "library.so", timeout=60)
    assert done.stdout == "b0 a0 1 0\n"  # the order of docs/format.md


@pytest.mark.slow
def test_a_module_that_a_function_takes_or_gives_is_one_of_cxx(
    build_host: Callable[[str], Path], tmp_path: Path
) -> None:
    (tmp_path / "add.c").write_text(ADD)
    run("cc", "-shared", "-fPIC", tmp_path / "add.c", "-o", tmp_path / "add.so")
    done = run(build_host(RETURNED), tmp_path / "add.so")
    assert done.stdout == "ffi.Module 42 library 2\n"
