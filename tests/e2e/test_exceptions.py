"""C++ exceptions that leave code which the runtime called: errors of the call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from mblob.compilers import include_flags
from mblob.errors import KernelError
from tests.e2e.programs import run

pytestmark = pytest.mark.own_process
Require = Callable[[str], str]

KERNELS = r"""
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
namespace mine {
struct Virtual : virtual std::runtime_error { Virtual() : std::runtime_error("virtual base") {} };
struct Other { long x = 3; virtual ~Other() = default; };
struct Second : Other, std::logic_error { Second() : std::logic_error("second base") {} };
struct Private : private std::runtime_error { Private() : std::runtime_error("hidden") {} };
struct Plain { int x; };
extern "C" int inside(int x) { if (x) throw Second(); return 7; }
}
namespace { struct Hidden : std::exception { const char *what() const noexcept override { return "local"; } }; }
static int alive;
struct Counted { Counted() { alive++; } ~Counted() { alive--; } };
extern "C" int living() { return alive; }
extern "C" int uncaught() { return std::uncaught_exceptions(); }
extern "C" const char *text() { throw std::runtime_error("no text"); }
extern "C" void nothing(const float *x, int n) { if (n) throw std::runtime_error("nothing"); }
extern "C" double f(int which) {
  Counted one;
  switch (which) {
    case 1: throw std::out_of_range("x is too large");
    case 2: throw 42;
    case 3: throw "a text";
    case 4: throw mine::Virtual();
    case 5: throw mine::Second();
    case 6: throw mine::Private();
    case 7: throw mine::Plain{1};
    case 8: throw Hidden();
    case 9: throw std::bad_alloc();
    case 10: throw std::runtime_error("");
    case 11: try { throw std::runtime_error("again"); } catch (...) { throw; }
    case 12: {
      std::exception_ptr kept;
      try { throw std::runtime_error("kept"); } catch (...) { kept = std::current_exception(); }
      std::rethrow_exception(kept);
    }
    case 13: throw std::runtime_error("%s\nsecond line");
    case 14: throw std::runtime_error(std::string(5000, 'x'));
  }
  return 0.5;
}
"""
THROWN = {
    1: "std::out_of_range: x is too large", 2: "int", 3: "char const*: a text",
    4: "mine::Virtual: virtual base", 5: "mine::Second: second base", 6: "mine::Private",
    7: "mine::Plain", 8: "(anonymous namespace)::Hidden: local", 9: "std::bad_alloc",
    10: "std::runtime_error", 11: "std::runtime_error: again", 12: "std::runtime_error: kept",
    13: "std::runtime_error: %s\nsecond line", 14: "std::runtime_error: " + "x" * 5000,
}  # fmt: skip
FUNCTIONS = [
    "double f(int which)",
    "int living()",
    "int uncaught()",
    "int inside(int x)",
    "const char *text()",
    "void nothing(const float *x, int n)",
]
PACKED = r"""
#include <tvm/runtime/c_backend_api.h>
#include <stdexcept>
#include <string>
static int task(int id, TVMParallelGroupEnv *, void *all) {
  if (id == 1 || *static_cast<int64_t *>(all)) throw std::runtime_error("task " + std::to_string(id));
  return 0;
}
extern "C" TVM_DLL int loop(TVMValue *args, int *, int, TVMValue *, int *, void *) {
  return TVMBackendParallelLaunch(task, &args[0].v_int64, 2);
}
extern "C" TVM_DLL int raw(TVMValue *, int *, int, TVMValue *, int *, void *) { throw std::runtime_error("raw"); }
extern "C" TVM_DLL int catches(TVMValue *args, int *codes, int n, TVMValue *ret, int *code, void *) {
  try { return raw(args, codes, n, ret, code, nullptr); } catch (...) { return 0; }
}
"""


def threw(function: object, *arguments: object) -> str:
    with pytest.raises(KernelError) as caught:
        function(*arguments)  # type: ignore[operator]
    return str(caught.value)


@pytest.mark.sample(1)
@pytest.mark.parametrize("dialect", ["classic", "ffi"])
@pytest.mark.parametrize(
    "options",
    [
        [],
        pytest.param(["-Os", "-fno-rtti"], marks=pytest.mark.slow),
        pytest.param(["-static-libgcc", "-static-libstdc++"], marks=pytest.mark.slow),
    ],
    ids=["plain", "small", "unwinder linked in"],
)
@pytest.mark.parametrize("compiler", ["cc", pytest.param("clang", marks=pytest.mark.slow)])
def test_an_exception_that_leaves_a_kernel_is_an_error_of_the_call(
    require: Require, tmp_path: Path, dialect: str, options: list[str], compiler: str
) -> None:
    np = pytest.importorskip("numpy")
    require("c++")
    host = mblob.csource_module(KERNELS, fmt="cc", functions=FUNCTIONS)
    mblob.export_library(
        host, tmp_path / "k.so", dialect=dialect, cc=require(compiler), options=options
    )
    lib = mblob.load_module(tmp_path / "k.so")
    for which, text in THROWN.items():
        assert threw(lib.f, which) == f"f: the code threw {text}"
    assert lib.f(0) == 0.5 and lib.inside(0) == 7
    assert threw(lib.inside, 1) == "inside: the code threw mine::Second: second base"
    assert threw(lib.text) == "text: the code threw std::runtime_error: no text"
    x = np.zeros(3, "float32")
    assert threw(lib.nothing, x, 1) == "nothing: the code threw std::runtime_error: nothing"
    assert (lib.living(), lib.uncaught()) == (0, 0)  # destructors ran, all exceptions are over


@pytest.fixture(scope="module")
def packed_object(tmp_path_factory: pytest.TempPathFactory, require: Require) -> Path:
    folder = tmp_path_factory.mktemp("exceptions")
    (folder / "p.cc").write_text(PACKED)
    run(
        require("c++"), "-O2", "-fPIC", "-c", folder / "p.cc", "-o", folder / "p.o", *include_flags()
    )  # fmt: skip
    return folder / "p.o"


def test_an_exception_of_an_object_is_an_error_in_calls_and_in_threads(
    packed_object: Path, tmp_path: Path
) -> None:
    mblob.static_library(packed_object).export_library(tmp_path / "p.so")
    lib = mblob.load_module(tmp_path / "p.so")
    assert threw(lib["raw"]) == "raw: the code threw std::runtime_error: raw"
    assert lib["catches"]() is None  # what the code catches itself is its own
    one, both = threw(lib["loop"], 0), threw(lib["loop"], 1)
    assert "the code threw std::runtime_error: task 1" in one and "task 0" not in one
    assert "the code threw std::runtime_error: task 0" in both
    assert "ask 1 error" in threw(lib["loop"], 0)  # the worker lives


ENDS = r"""
#include <pthread.h>
struct Last { int *seen; ~Last() { ++*seen; } };
static int seen;
extern "C" int leave(void *, int *, int, void *, int *, void *) { Last last{&seen}; pthread_exit(nullptr); }
extern "C" int count(void *, int *, int, long *out, int *code, void *) { *out = seen; *code = 0; return 0; }
"""
HOST = r"""
#include <mblob.h>
#include <pthread.h>
#include <stdio.h>
static void *call(void *module) {
  (void)mblob_call(module, "leave", "");
  return "returned";
}
int main(int argc, char **argv) {
  (void)argc;
  mblob_module *module = NULL;
  const mblob_open_options options = {.struct_size = sizeof(options), .assume = MBLOB_ASSUME_PACKED};
  if (mblob_open(argv[1], &options, &module)) return puts(mblob_last_error()), 1;
  pthread_t thread;
  void *end = NULL;
  pthread_create(&thread, NULL, call, module);
  pthread_join(thread, &end);
  mblob_function *count = NULL;
  TVMValue value;
  int code;
  if (mblob_module_function(module, "count", 0, &count)) return puts(mblob_last_error()), 2;
  if (mblob_function_call(count, NULL, NULL, 0, &value, &code)) return 3;
  printf("%s, %d destroyed\n", end ? (char *)end : "ended", (int)value.v_int64);
  mblob_function_release(count);
  mblob_module_release(module);
}
"""


def test_a_thread_that_ends_inside_a_kernel_ends(
    installed: Path, tmp_path: Path, require: Require
) -> None:
    """Unwinding by pthread_exit() is no exception to be caught."""
    (tmp_path / "ends.cc").write_text(ENDS)
    (tmp_path / "host.c").write_text(HOST)
    run(require("c++"), "-shared", "-fPIC", tmp_path / "ends.cc", "-o", tmp_path / "ends.so")
    run(
        "cc", tmp_path / "host.c", "-o", tmp_path / "host", "-I", installed / "include",
        "-L", installed / "lib", "-lmblob", "-pthread", f"-Wl,-rpath,{installed}/lib",
    )  # fmt: skip
    assert run(tmp_path / "host", tmp_path / "ends.so").stdout == "ended, 1 destroyed\n"
