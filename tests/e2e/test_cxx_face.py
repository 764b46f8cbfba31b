"""TVM's C++ face over the C API: every compiler, the names of `make install COMPAT=1`, programs."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from tests.e2e.programs import ROOT, exported, run

INCLUDE = ROOT / "csrc" / "include" / "mblob" / "compat"
PARTS = {"packed_value.h", "typed_packed_func.h"}  # of packed_func.h
FACE = sorted(
    str(p.relative_to(INCLUDE))
    for p in (INCLUDE / "tvm" / "runtime").rglob("*.h")
    if "tvm/runtime/cxx_base.h" in p.read_text() or "MBLOB_FACE_BEGIN" in p.read_text()
    if p.name not in PARTS
)
STRICT = ("-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Werror")
Require = Callable[[str], str]


def in_prefix(prefix: Path) -> dict[str, str]:
    return {**os.environ, "LD_LIBRARY_PATH": str(prefix / "lib")}


def flags(prefix: Path) -> list[str]:
    """What a program of TVM's guides is built with."""
    return ["-O2", f"-I{prefix}/include", f"-L{prefix}/lib", "-ltvm_runtime", "-ldl", "-pthread"]


# -- headers ---------------------------------------------------------------------------------------


def test_the_face_is_complete() -> None:
    names = {Path(h).stem for h in FACE}
    assert {
        "module",
        "packed_func",
        "ndarray",
        "registry",
        "device_api",
        "logging",
        "string",
    } <= names


@pytest.mark.slow
@pytest.mark.parametrize("header", FACE)
def test_each_header_stands_alone(require: Require, header: str) -> None:
    source = f"#include <{header}>\nint nothing;\n"
    run(
        require("c++"),
        "-xc++",
        "-std=c++17",
        *STRICT,
        "-I",
        INCLUDE,
        "-fsyntax-only",
        "-",
        input=source,
    )


@pytest.mark.slow
@pytest.mark.parametrize("header", ["memory.h", "object.h", "container/shape_tuple.h"])
def test_a_header_alone_defines_what_it_declares(
    require: Callable[[str], str], tmp_path: Path, header: str
) -> None:
    (tmp_path / "main.cc").write_text(
        f"#include <tvm/runtime/{header}>\n"
        "bool is(tvm::runtime::ObjectRef r) {\n"
        "  return r->use_count() == 1 && r->type_index() == 3 && r->GetTypeKey() == tvm::runtime::String() &&\n"
        "         r.use_count() == 1;\n"
        "}\n"
    )
    compiled = tmp_path / "main.o"
    run(require("c++"), "-std=c++17", "-c", "-o", compiled, f"-I{INCLUDE}", tmp_path / "main.cc")
    assert "3tvm7runtime" not in run(require("nm"), "--undefined-only", compiled).stdout


@pytest.mark.sample(1)
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("standard", ["c++17", "c++20"])
@pytest.mark.parametrize("mode", ["-fPIE", "-fPIC", "-DMBLOB_HOST"])
def test_all_headers_together_compile_without_warnings(
    require: Require, compiler: str, standard: str, mode: str
) -> None:
    source = "".join(f"#include <{header}>\n" for header in [*reversed(FACE), *FACE])
    command = [require(compiler), "-xc++", f"-std={standard}", mode, *STRICT, "-I", INCLUDE]
    run(*command, "-O2", "-S", "-o", "/dev/null", "-", input=source)


@pytest.mark.slow
def test_an_older_standard_is_refused_in_words(require: Require) -> None:
    command = [require("c++"), "-xc++", "-std=c++14", "-I", INCLUDE, "-fsyntax-only", "-"]
    done = subprocess.run(
        list(map(str, command)),
        input="#include <tvm/runtime/module.h>\n",
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "-std=c++17" in done.stderr


def test_the_documented_functions_are_those_of_the_library(installed: Path) -> None:
    text = (ROOT / "docs" / "tvm_hosts.md").read_text()
    listed = text[text.index("## The C API") : text.index("The list has all functions")]
    documented = set(re.findall(r"`(TVM\w+)`", listed))
    assert documented == {
        n
        for n in exported(installed / "lib" / "libmblob.so")
        if n.startswith("TVM") and not n.startswith("TVMBackend")
    }


# -- programs --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("compiler", "standard"),
    [("clang++", "c++17"), pytest.param("g++", "c++20", marks=pytest.mark.nightly)],
)
def test_the_face_works_with_other_compilers(
    require: Require, built: Path, compat: Path, tmp_path: Path, compiler: str, standard: str
) -> None:
    units = sorted((ROOT / "tests" / "cxx").glob("*.cpp"))
    program = tmp_path / "test_face"
    run(require(compiler), f"-std={standard}", *STRICT, *units, "-o", program, *flags(compat))
    run(program, built / "lib", env=in_prefix(compat))


@pytest.mark.sample(2)
@pytest.mark.parametrize("mode", ["-fPIE", "-fPIC"])
@pytest.mark.parametrize("program", ["test_tvm_api", "test_tvm_objects"])
def test_a_c_host_of_tvms_c_api_links_with_tvms_name(
    require: Require, built: Path, compat: Path, tmp_path: Path, program: str, mode: str
) -> None:
    source = ROOT / "tests" / "c" / "host_abi" / f"{program}.c"
    run(
        require("cc"),
        "-std=gnu11",
        mode,
        source,
        "-o",
        tmp_path / program,
        "-Wl,--as-needed",
        *flags(compat),
    )
    run(tmp_path / program, built / "lib", env=in_prefix(compat))


@pytest.fixture(scope="module")
def addone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("addone") / "lib.so"
    mblob.csource_module(ROOT / "examples" / "tvm_deploy" / "addone.c").export_library(library)
    return library


@pytest.mark.slow
def test_the_deploy_program_links_with_tvms_name(
    require: Require, compat: Path, addone: Path, tmp_path: Path
) -> None:
    # As sources of 0.8 and before begin.
    source = tmp_path / "deploy.cpp"
    source.write_text(
        "#include <dmlc/logging.h>\n" + (ROOT / "examples/tvm_deploy/main.cpp").read_text()
    )
    run(require("c++"), "-std=c++17", source, "-o", tmp_path / "deploy", *flags(compat))
    assert run(tmp_path / "deploy", addone, env=in_prefix(compat)).stdout == "10\n"


# What TVM's guides compile programs with, and what compilers of distributions add to a link.
LOGGING = "-DDMLC_USE_LOGGING_LIBRARY=<tvm/runtime/logging.h>"
GUIDE = ("-std=c++17", "-O2", "-fPIC", LOGGING, "-Wall", "-Wextra", "-Werror")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("compiler", "link"), [("g++", "-Wl,--as-needed"), ("clang++", "-Wl,--no-as-needed")]
)
def test_the_deploy_program_builds_with_the_flags_of_tvms_guides(
    require: Require, compat: Path, addone: Path, tmp_path: Path, compiler: str, link: str
) -> None:
    """`-fPIC` makes no kernel of a program."""
    source = ROOT / "examples" / "tvm_deploy" / "main.cpp"
    run(require(compiler), *GUIDE, source, "-o", tmp_path / "deploy", link, *flags(compat))
    assert run(tmp_path / "deploy", addone, env=in_prefix(compat)).stdout == "10\n"


@pytest.mark.slow
def test_a_host_in_a_shared_library_needs_no_macro(
    require: Require, compat: Path, addone: Path, tmp_path: Path
) -> None:
    """Such as a binding to another language: opened by a program that knows nothing of the
    runtime."""
    (tmp_path / "main.c").write_text(
        "int deploy(int, char **);\nint main(int n, char **a) { return deploy(n, a); }\n"
    )
    text = (ROOT / "examples" / "tvm_deploy" / "main.cpp").read_text()
    (tmp_path / "host.cpp").write_text(
        text.replace("int main(", 'extern "C" int deploy(int, char **);\nint deploy(')
    )
    run(
        require("c++"),
        *GUIDE,
        "-shared",
        tmp_path / "host.cpp",
        "-o",
        tmp_path / "libhost.so",
        *flags(compat),
    )
    run(
        require("cc"),
        tmp_path / "main.c",
        "-o",
        tmp_path / "main",
        tmp_path / "libhost.so",
        env=in_prefix(compat),
    )
    assert run(tmp_path / "main", addone, env=in_prefix(compat)).stdout == "10\n"


def test_a_program_that_was_linked_with_tvm_finds_its_library(
    require: Require, built: Path, compat: Path, tmp_path: Path
) -> None:
    """At run time the name alone counts: the program below needs `libtvm_runtime.so`, as one linked
    with TVM."""
    symbols = exported(compat / "lib" / "libmblob.so")
    stub, program = tmp_path / "libtvm_runtime.so", tmp_path / "host"
    text = "".join(f"void {name}(void) {{}}\n" for name in symbols if name.startswith("TVM"))
    run(
        require("cc"),
        "-shared",
        "-fPIC",
        "-xc",
        "-",
        f"-Wl,-soname,{stub.name}",
        "-o",
        stub,
        input=text,
    )
    source = ROOT / "tests" / "c" / "host_abi" / "test_tvm_api.c"
    run(require("cc"), "-std=gnu11", source, "-o", program, f"-I{compat}/include", stub)
    assert "[libtvm_runtime.so]" in run("readelf", "-d", program).stdout
    run(program, built / "lib", env=in_prefix(compat))


def test_tvms_names_are_installed_on_request_only(installed: Path, compat: Path) -> None:
    assert {p.name for p in (installed / "include").iterdir()} == {"mblob.h", "mblob"}
    assert not (installed / "lib" / "libtvm_runtime.so").exists()
    own = compat / "include" / "mblob" / "compat"
    headers = {p.relative_to(own) for p in own.rglob("*.h")}
    assert {str(h.parent) for h in headers} >= {
        "dlpack",
        "dmlc",
        "tvm/ffi",
        "tvm/runtime/container",
    }
    for header in headers:
        (target,) = re.findall(r'^#include "(.*)"$', (compat / "include" / header).read_text())
        assert ((compat / "include" / header).parent / target).resolve() == own / header
    for prefix, folder in (
        (compat, "lib"),
        (compat, "lib/mblob/compat"),
        (installed, "lib/mblob/compat"),
    ):
        link = prefix / folder / "libtvm_runtime.so"
        assert link.resolve() == (prefix / "lib" / "libmblob.so").resolve()


CMAKE = """
cmake_minimum_required(VERSION 3.13)
project(deploy CXX)
set(CMAKE_CXX_STANDARD 17)
find_path(TVM_INCLUDE tvm/runtime/module.h)
find_library(TVM_RUNTIME tvm_runtime)
add_executable(deploy main.cpp)
target_include_directories(deploy PRIVATE ${TVM_INCLUDE})
target_link_libraries(deploy PRIVATE ${TVM_RUNTIME} ${CMAKE_DL_LIBS})
"""


@pytest.mark.slow
def test_a_cmake_project_finds_tvms_names(
    require: Require, compat: Path, addone: Path, tmp_path: Path
) -> None:
    cmake = require("cmake")
    (tmp_path / "CMakeLists.txt").write_text(CMAKE)
    (tmp_path / "main.cpp").write_text((ROOT / "examples" / "tvm_deploy" / "main.cpp").read_text())
    run(cmake, "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={compat}")
    run(cmake, "--build", tmp_path / "build")
    assert run(tmp_path / "build" / "deploy", addone, env=in_prefix(compat)).stdout == "10\n"


GOLDEN = r"""
#include <tvm/runtime/module.h>
#include <tvm/runtime/ndarray.h>
#include <cstdio>
int main(int, char **argv) {
  using namespace tvm::runtime;
  const DLDevice cpu{kDLCPU, 0};
  NDArray x = NDArray::Empty({1024}, DLDataType{kDLFloat, 32, 1}, cpu), y = x.CopyTo(cpu), z = x.CopyTo(cpu);
  for (int i = 0; i < 1024; ++i) static_cast<float *>(x->data)[i] = static_cast<float *>(y->data)[i] = float(i);
  for (const char *name : {"vadd", "__tvm_main__"}) {
    Module::LoadFromFile(argv[1]).GetFunction(name)(x, y, z);
    for (int i = 0; i < 1024; ++i) CHECK_EQ(static_cast<float *>(z->data)[i], 2 * float(i));
  }
  try {
    Module::LoadFromFile(argv[1]).GetFunction("vadd")(x, y);
  } catch (const tvm::Error &error) {
    std::puts(error.what());
  }
}
"""


@pytest.mark.slow
def test_what_tvm_compiled_runs_from_cxx(
    require: Require, compat: Path, golden: Path, tmp_path: Path
) -> None:
    (tmp_path / "golden.cpp").write_text(GOLDEN)
    run(
        require("c++"),
        "-std=c++17",
        tmp_path / "golden.cpp",
        "-o",
        tmp_path / "golden",
        *flags(compat),
    )
    done = run(tmp_path / "golden", golden / "host_llvm.so", env=in_prefix(compat))
    assert "num_args should be 3" in done.stdout


EXECUTOR = r"""
#include <tvm/runtime/module.h>
#include <tvm/runtime/ndarray.h>
#include <fstream>
#include <iterator>
int main(int, char **argv) {
  using namespace tvm::runtime;
  const tvm::Device dev{kDLCPU, 0};
  Module model = Module::LoadFromFile(argv[1]).GetFunction("default")(dev);
  PackedFunc set_input = model.GetFunction("set_input"), get_output = model.GetFunction("get_output");
  std::ifstream file(argv[2], std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  NDArray x = NDArray::Empty({1, 1, 8, 8}, tvm::DataType::Float(32), dev);
  x.CopyFromBytes(bytes.data(), bytes.size());
  set_input("data", x);
  model.GetFunction("run")();
  NDArray y = get_output(0);
  CHECK(y.Shape() == (ShapeTuple{1, 10})) << y.Shape();
  NDArray copy = NDArray::Empty(y.Shape(), y.DataType(), dev);
  get_output(0, copy);
  for (int i = 0; i < 10; ++i) CHECK_EQ(static_cast<float *>(y->data)[i], static_cast<float *>(copy->data)[i]);
  const int outputs = model.GetFunction("get_num_outputs")();
  CHECK_EQ(outputs, 1);
  std::ofstream(argv[3], std::ios::binary).write(static_cast<const char *>(y->data), 40);
}
"""


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["aot_mlp.so", "mlp_llvm.so"])
def test_executors_of_tvm_run_from_cxx(
    require: Require, compat: Path, golden: Path, tmp_path: Path, name: str
) -> None:
    np = pytest.importorskip("numpy")
    with np.load(golden / "mlp_llvm.npz") as file:
        network = dict(file)
    (tmp_path / "in.bin").write_bytes(network["data"].tobytes())
    (tmp_path / "host.cpp").write_text(EXECUTOR)
    run(
        require("c++"), "-std=c++17", tmp_path / "host.cpp", "-o", tmp_path / "host", *flags(compat)
    )
    run(
        tmp_path / "host",
        golden / name,
        tmp_path / "in.bin",
        tmp_path / "out.bin",
        env=in_prefix(compat),
    )
    found = np.frombuffer((tmp_path / "out.bin").read_bytes(), "float32").reshape(1, 10)
    np.testing.assert_allclose(found, network["out"], rtol=1e-5)


# A program that declares classes before it includes them, and leaves standard headers to TVM's.
FORWARD = r"""
namespace tvm { namespace runtime { class Module; class NDArray; class PackedFunc; class ObjectRef; class String; } }
struct Holder { tvm::runtime::Module *module; tvm::runtime::NDArray *array; };
#include <tvm/runtime/registry.h>
#include <tvm/runtime/container/map.h>
using tvm::runtime::Module;
using tvm::runtime::NDArray;
int main() {
  Module module = (*tvm::runtime::Registry::Get("runtime.SystemLib"))();
  NDArray array = NDArray::Empty({2}, tvm::runtime::DataType::Float(32), DLDevice{kDLCPU, 0});
  Holder holder{&module, &array};
  std::map<std::string, std::vector<int>> known{{"a", {1}}};
  std::unordered_map<std::string, std::atomic<int>> counts;
  std::ostringstream text;
  std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  char copy[8];
  std::memset(copy, 0, sizeof(copy));
  std::memcpy(copy, "fine", 5);
  text << copy << known.size() << (holder.array->Shape()[0]);
  std::cout << text.str() << std::endl;
  return std::strcmp(copy, "fine") + static_cast<int>(counts.size());
}
"""


@pytest.mark.slow
def test_a_program_may_declare_classes_and_leave_standard_headers_to_tvms(
    require: Require, compat: Path, tmp_path: Path
) -> None:
    (tmp_path / "host.cpp").write_text(FORWARD)
    for compiler in (require("g++"), require("clang++")):
        run(compiler, "-std=c++17", "-Wall", "-Wextra", "-Werror", tmp_path / "host.cpp", "-o",
            tmp_path / "host", *flags(compat))  # fmt: skip
        assert run(tmp_path / "host", env=in_prefix(compat)).stdout == "fine12\n"


@pytest.mark.slow
def test_a_library_exports_nothing_of_the_face(
    require: Require, compat: Path, tmp_path: Path
) -> None:
    """So that a TVM in the process is not taken for it, nor the other way round."""
    text = FORWARD.replace("int main()", 'extern "C" int host()')
    (tmp_path / "host.cpp").write_text(text)
    for compiler in (require("g++"), require("clang++")):
        run(compiler, "-std=c++17", "-shared", "-fPIC", tmp_path / "host.cpp", "-o",
            tmp_path / "libhost.so", *flags(compat))  # fmt: skip
        assert "host" in exported(tmp_path / "libhost.so")
        own = [name for name in exported(tmp_path / "libhost.so") if "tvm7runtime" in name]
        assert [name for name in own if not name.startswith(("_ZTI", "_ZTS"))] == []


# A runner in the style of TVM's apps/cpp_rtvm: what the model takes, by Map, then a run.
RUNNER = r"""
#include <tvm/runtime/module.h>
#include <tvm/runtime/ndarray.h>
#include <tvm/runtime/container/map.h>
using namespace tvm::runtime;
int main(int, char **argv) {
  Module factory = Module::LoadFromFile(argv[1]);
  Module model = factory.GetFunction("default")(tvm::Device{kDLCPU, 0});
  Map<String, ObjectRef> info = model.GetFunction("get_input_info")();
  auto shapes = GetRef<Map<String, ObjectRef>>(info["shape"].as<MapNode>());
  for (const auto &kv : shapes) {
    auto shape = GetRef<ShapeTuple>(kv.second.as<ShapeTuple::ContainerType>());
    std::cout << kv.first << shape << shape->size;
  }
  auto types = GetRef<Map<String, ObjectRef>>(info["dtype"].as<MapNode>());
  for (const auto &kv : types)
    std::cout << ' ' << kv.first << GetRef<String>(kv.second.as<String::ContainerType>());
  Map<String, ObjectRef> outputs = model.GetFunction("get_output_info")();
  Map<String, ShapeTuple> results = Downcast<Map<String, ShapeTuple>>(outputs["shape"]);
  std::cout << ' ' << results.size() << std::endl;
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["aot_mlp.so", "mlp_llvm.so"])
def test_what_a_model_takes_is_a_map(
    require: Require, compat: Path, golden: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "host.cpp").write_text(RUNNER)
    run(
        require("c++"), "-std=c++17", tmp_path / "host.cpp", "-o", tmp_path / "host", *flags(compat)
    )
    done = run(tmp_path / "host", golden / name, env=in_prefix(compat))
    assert done.stdout == "data[1, 1, 8, 8]4 datafloat32 1\n"


# -- refused by the compiler ------------------------------------------------------------------------

REFUSED = {
    "make_object of something else": (
        "auto n = tvm::runtime::make_object<int>(1);",
        "classes that derive from tvm::runtime::Object",
    ),
    "a module as something else": (
        "auto n = tvm::runtime::Module().as<int>();",
        "classes that derive from ModuleNode",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_offered_says_so_to_the_compiler(
    require: Require, compat: Path, tmp_path: Path, what: str
) -> None:
    text, message = REFUSED[what]
    source = tmp_path / "refused.cpp"
    source.write_text(f"#include <tvm/runtime/module.h>\nint main() {{ {text} }}\n")
    done = subprocess.run(
        [require("c++"), "-std=c++17", "-fsyntax-only", f"-I{compat}/include", source],
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert message in done.stderr
