"""Plug-ins in C++ that libraries carry: each has its own inline functions, statics and templates,
wherever it is."""

from __future__ import annotations

import gc
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from mblob.compilers import include_flags

# Two files of one plug-in, which share what C++ makes once for a program, and catch each other's
# exceptions.
SHARED = r"""
#include <mblob.h>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
struct Error : std::runtime_error { using std::runtime_error::runtime_error; };
struct Base { virtual ~Base() = default; virtual int next() = 0; };
struct Config {
  std::map<std::string, int> values{{"n", N}};
  int calls = 0;
  static Config &get() { static Config config; return config; }
};
template <class T> struct Holder { static T value; static thread_local T own; };
template <class T> T Holder<T>::value = N;
template <class T> thread_local T Holder<T>::own = N;
inline int variable = N;
"""
SECOND = (
    SHARED
    + r"""
struct Counter : Base { int next() override { return ++Config::get().calls; } };
Base *make() { return new Counter; }
void fail() { throw Error("on purpose"); }
int helper() { return N; }
"""
)
FIRST = (
    SHARED
    + r"""
Base *make();
void fail();
int helper();
static int open_module(const mblob_host *host, const struct mblob_module_info *, void **self) {
  *self = (void *)host;
  return 0;
}
static int find(void *, const char *name, void **function) {
  *function = strcmp(name, "goNAME") ? nullptr : (void *)1;
  return 0;
}
static int call(void *self, void *, const TVMValue *, const int *, int, void *ret) {
  int caught = 0;
  try { fail(); } catch (const Error &) { caught = 1; }
  Base *base = make();
  base->next();
  delete base;
  TVMValue v;
  v.v_int64 = 1000000 * caught + Config::get().values.at("n") * 1000 + Config::get().calls * 100 + Holder<int>::value +
              Holder<int>::own + variable + helper();
  return ((const mblob_host *)self)->return_value(ret, v, kDLInt);
}
static const mblob_runtime runtimes[] = {{"keyNAME", open_module, find, call, nullptr, nullptr}};
MBLOB_PLUGIN(pNAME) = {MBLOB_PLUGIN_ABI, sizeof(mblob_plugin), "pNAME", "1", "keyNAME", "", "", nullptr, nullptr,
                       runtimes, nullptr, 1, 0};
"""
)
KERNEL = r"""
struct Config { int calls = 40; static Config &get() { static Config config; return config; } };
extern "C" int host(void) { return Config::get().calls++; }
"""


def texts(number: int, name: str) -> list[str]:
    return [f"#define N {number}\n" + text.replace("NAME", name) for text in (FIRST, SECOND)]


def answer(number: int, calls: int) -> int:
    return 1000000 + 1000 * number + 100 * calls + 4 * number


def carried(form: str, number: int, name: str, folder: Path, root: Path) -> object:
    """A plug-in as sources, objects or an archive."""
    if form == "sources":
        first, second = (
            mblob.csource_module(text, "cc", options="-std=c++17") for text in texts(number, name)
        )
        first.import_module(second)
        return first
    objects = []
    for i, text in enumerate(texts(number, name)):
        source = folder / f"{name}_{number}_{i}.cc"
        source.write_text(text)
        line = [
            "g++",
            "-std=c++17",
            "-O1",
            "-fPIC",
            *include_flags(),
            "-c",
            str(source),
            "-o",
        ]
        subprocess.run([*line, str(source.with_suffix(".o"))], check=True)
        objects.append(source.with_suffix(".o"))
    if form == "archive":
        subprocess.run(
            ["ar", "rcs", str(folder / f"{name}_{number}.a"), *map(str, objects)], check=True
        )
        return folder / f"{name}_{number}.a"
    module, second = map(mblob.static_library, objects)
    module.import_module(second)
    return module


def exported(path: Path) -> set[str]:
    with mblob.open(path) as lib:
        return {s.name for s in lib.elf.dynsym if s.is_exported}


@pytest.fixture(autouse=True)
def compiler(require: Callable[[str], str]) -> None:
    require("g++")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["sources", "objects", "archive"])
def test_two_libraries_with_two_versions(tmp_path: Path, root: Path, form: str) -> None:
    libraries = []
    for number in (1, 2):
        module = mblob.blob_module("key", b"", data=False)
        path = tmp_path / f"{number}.so"
        module.export_library(path, carry=[carried(form, number, "", tmp_path, root)])
        assert exported(path) == {"__mblob_plugin_p", "__tvm_dev_mblob"}
        with mblob.open(path) as lib:
            assert lib.functions == []
        libraries.append(mblob.load_module(path))
    for calls in (1, 2):
        assert [lib["go"]() for lib in libraries] == [answer(1, calls), answer(2, calls)]
    del libraries
    gc.collect()
    assert str(tmp_path / "1.so") not in Path("/proc/self/maps").read_text()


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("form", ["sources", "objects", "archive"])
def test_two_in_one_library_beside_kernels_in_cxx(tmp_path: Path, root: Path, form: str) -> None:
    host = mblob.csource_module(KERNEL, "cc", functions=["int host(void)"])
    for name in "ab":
        host.import_module(mblob.blob_module(f"key{name}", b"", data=False))
    plugins = [carried(form, number, name, tmp_path, root) for number, name in ((1, "a"), (2, "b"))]
    host.export_library(tmp_path / "x.so", carry=plugins)
    lib = mblob.load_module(tmp_path / "x.so")
    for calls in (1, 2):
        found = [lib.get_function(f"go{name}", True)() for name in "ab"]
        assert (found, lib["host"]()) == ([answer(1, calls), answer(2, calls)], 39 + calls)


@pytest.mark.slow
def test_two_versions_in_one_program(tmp_path: Path, root: Path) -> None:
    for number in (1, 2):
        module = mblob.blob_module("key", b"", data=False)
        module.export_library(
            tmp_path / f"{number}.o",
            carry=[carried("sources", number, "", tmp_path, root)],
            system_lib=True,
            prefix=f"p{number}_",
        )
    (tmp_path / "main.c").write_text(r"""
#include <mblob.h>
#include <stdio.h>
int main(void) {
  for (int i = 1; i < 3; i++) {
    mblob_module *lib;
    mblob_function *go;
    TVMValue value;
    int code;
    if (mblob_system_lib(i == 1 ? "p1_" : "p2_", &lib) || mblob_module_function(lib, "go", 1, &go) ||
        mblob_function_call(go, NULL, NULL, 0, &value, &code))
      return puts(mblob_last_error()), 1;
    printf("%d\n", (int)value.v_int64);
  }
}
""")
    (library,) = (root / "loader" / "_lib").glob("libmblob.so.0")
    line = [
        "gcc",
        "main.c",
        "1.o",
        "2.o",
        *include_flags(),
        str(library),
        "-lstdc++",
        "-o",
        "main",
    ]
    subprocess.run(line, cwd=tmp_path, check=True)
    environment = {"LD_LIBRARY_PATH": str(library.parent)}
    done = subprocess.run(
        ["./main"], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == [str(answer(1, 1)), str(answer(2, 1))]


@pytest.mark.sample(1)
@pytest.mark.parametrize("form", ["source", "object", "archive", "addon"])
def test_kernels_in_cxx_share_nothing_with_other_libraries(tmp_path: Path, form: str) -> None:
    """Statics of inline functions are one for the whole process as compilers leave them, and keep
    it mapped."""
    libraries = []
    for number in (100, 200):
        source = tmp_path / f"k{number}.cc"
        source.write_text(KERNEL.replace("40", str(number)))
        subprocess.run(
            ["g++", "-O1", "-fPIC", "-c", str(source), "-o", str(source.with_suffix(".o"))],
            check=True,
        )
        subprocess.run(
            ["ar", "rcs", str(source.with_suffix(".a")), str(source.with_suffix(".o"))], check=True
        )
        given = source.with_suffix(".a" if form == "archive" else ".o")
        before = given.read_bytes()
        functions, addons = ["int host(void)"], None
        if form == "source":
            module = mblob.csource_module(source, functions=functions)
        elif form == "addon":
            module, addons = mblob.csource_module("int other;", functions=functions), [given]
        else:
            module = mblob.static_library(given, functions=functions)
        module.export_library(tmp_path / f"{number}.so", addons=addons)
        assert given.read_bytes() == before
        libraries.append(mblob.load_module(tmp_path / f"{number}.so"))
    assert [lib["host"]() for lib in libraries] == [100, 200]
    del libraries
    gc.collect()
    assert str(tmp_path / "100.so") not in Path("/proc/self/maps").read_text()


def test_names_of_cxx_are_no_packed_functions(tmp_path: Path) -> None:
    """What they would do with the arguments of a packed call nobody knows."""
    mblob.csource_module("int seven(int x) { return x + 7; }", "cc").export_library(
        tmp_path / "x.so"
    )
    assert "_Z5seveni" in exported(tmp_path / "x.so")
    with mblob.open(tmp_path / "x.so") as lib:
        assert lib.functions == ["seven"]
    lib = mblob.load_module(tmp_path / "x.so")
    assert lib.seven(1) == 8
    with pytest.raises(AttributeError, match="_Z5seveni"):
        lib["_Z5seveni"](1)
    assert not lib.implements_function("_Z5seveni")
    import ctypes

    assert lib.symbol("_Z5seveni", ctypes.c_int, [ctypes.c_int])(1) == 8


@pytest.mark.parametrize("form", ["object", "archive"])
def test_kernels_in_cxx_that_were_compiled_before_link_their_library(
    tmp_path: Path, form: str
) -> None:
    text = '#include <vector>\nextern "C" int three(void) { return (int)std::vector<int>{1, 2, 3}.size(); }\n'
    (tmp_path / "k.cc").write_text(
        text + "struct A { virtual ~A() {} };\nA *make() { return new A; }\n"
    )
    subprocess.run(["g++", "-O0", "-fPIC", "-c", "k.cc"], cwd=tmp_path, check=True)
    subprocess.run(["ar", "rcs", "k.a", "k.o"], cwd=tmp_path, check=True)
    given = tmp_path / ("k.o" if form == "object" else "k.a")
    mblob.static_library(given, functions=["int three(void)"]).export_library(tmp_path / "x.so")
    with mblob.open(tmp_path / "x.so") as lib:
        assert any("stdc++" in name for name in lib.elf.needed)
    assert mblob.load_module(tmp_path / "x.so")["three"]() == 3
