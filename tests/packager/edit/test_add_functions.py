"""`mblob.add(file, functions=...)`: plain C functions that a finished library exports already become callable."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob

pytestmark = pytest.mark.own_process

TEXT = """struct pair { float a; int b : 3; };
double sum(const float *x, int n) { double s = 0; for (int i = 0; i < n; ++i) s += x[i]; return s; }
float first(const struct pair *p) { return p->a; }
int by_value(struct pair p) { return (int)p.a; }
int plain(int x) { return x + 1; }
float number = 1;
"""
# as docs/ffi.md writes one; it makes a library one of the ffi dialect
OF_FFI = """#include <stdint.h>
typedef struct { int32_t type; uint32_t zero; int64_t i; } any;
int __tvm_ffi_one(void *self, const any *args, int32_t count, any *result) {
  result->type = 1; result->i = 1; return 0;
}
"""
PROTOTYPE = "double sum(const float x[n], int n)"
X = np.array([1, 2, 4], "float32")


def linked(path: Path, text: str = TEXT, *options: str, compiler: str = "cc") -> Path:
    source = path.with_suffix(".cc" if compiler == "c++" else ".c")
    source.write_text(text)
    subprocess.run([compiler, "-shared", "-fPIC", *options, source, "-o", path], check=True)
    return path


def test_added_code_that_glibc_may_not_open_is_told(golden: Path, tmp_path: Path) -> None:
    code = '_Thread_local char b[%d] __attribute__((tls_model("initial-exec"))); int get(int x) { return b[x]; }'
    (tmp_path / "large.c").write_text(code % 4000)
    (tmp_path / "small.c").write_text(code % 40)
    with pytest.warns(mblob.PortabilityWarning, match="needs 4[0-9]* bytes of static TLS"):
        mblob.add(golden / "host_llvm.so", kernels=tmp_path / "large.c", output=tmp_path / "a.so")
    assert "static_tls" in dict(mblob.open(tmp_path / "a.so").verify().warnings)
    mblob.add(golden / "host_llvm.so", kernels=tmp_path / "small.c", output=tmp_path / "b.so")
    assert mblob.load_module(tmp_path / "b.so").get(3) == 0
    assert not mblob.open(tmp_path / "b.so").diagnostics


def test_a_name_that_the_model_has_is_told_with_the_way_that_keeps_the_model(
    golden: Path, tmp_path: Path
) -> None:
    (tmp_path / "k.c").write_text("int softmax(int x) { return x; }")
    says = r"'softmax' already; replace=True replaces it, also where the relax\.VMExecutable calls it: .* another name"
    with pytest.raises(mblob.BuildError, match=says):
        mblob.add(
            golden / "relax" / "cnn_bound.so", kernels=tmp_path / "k.c", output=tmp_path / "a.so"
        )


@pytest.mark.filterwarnings("ignore:TVM cannot open:mblob.PortabilityWarning")
@pytest.mark.parametrize("dialect", ["classic", "ffi"])
@pytest.mark.parametrize(
    ("options", "functions"), [(["-g"], "sum"), (["-g0"], PROTOTYPE)], ids=["name", "prototype"]
)
def test_a_function_of_the_library_becomes_callable(
    tmp_path: Path, require: Any, dialect: str, options: list[str], functions: str
) -> None:
    strip = require("strip")
    old, made = tmp_path / "l.so", tmp_path / "a.so"
    linked(old, TEXT + OF_FFI * (dialect == "ffi"), *options)
    mblob.add(old, functions=functions, output=made)
    with mblob.open(made) as library:
        assert library.dialect == dialect
        wanted = "__tvm_ffi_sum" if dialect == "ffi" else "sum__packed"
        rows = [(row.symbol, row.abi) for row in library.function_table]
        assert sorted(rows) == sorted([("sum", "plain"), (wanted, "packed")])
    stripped = tmp_path / "stripped.so"
    subprocess.run([strip, "-o", stripped, made], check=True)
    mblob.add(stripped, functions="int plain(int x)", blobs={"k": b"1"})
    for path in (made, stripped):
        mblob.verify(path)
        lib = mblob.load_module(path)
        assert lib["sum"](X, 3) == 7
        if functions == PROTOTYPE:
            with pytest.raises(mblob.MblobError, match=r"expected shape \(2,\)"):
                lib["sum"](X, 2)
    assert lib["plain"](1) == 2


def test_functions_of_the_library_and_of_new_code_in_one_call(tmp_path: Path) -> None:
    """The new code calls one of the library, too."""
    old, made, new = linked(tmp_path / "l.so", TEXT, "-g"), tmp_path / "a.so", tmp_path / "k.c"
    new.write_text(
        "int plain(int);\nint two(void) { return plain(1); }\nint not_asked(void) { return 3; }"
    )
    mblob.add(old, kernels=new, functions=["two", "sum", "first"], output=made)
    lib = mblob.load_module(made)
    assert sorted(lib.functions) == ["first", "sum", "two"]
    assert (lib["two"](), lib["sum"](X, 3), lib["first"](X[:2])) == (2, 7, 1)


def test_by_hand(tmp_path: Path) -> None:
    lib = mblob.load_module(linked(tmp_path / "l.so", TEXT, "-g"))
    lib.import_module(mblob.csource_module("", functions=["sum", "int plain(int x)"]))
    lib.export_library(tmp_path / "a.so")
    made = mblob.load_module(tmp_path / "a.so")
    assert (made["sum"](X, 3), made["plain"](1)) == (7, 2)


@pytest.mark.parametrize("dialect", ["classic", "ffi"])
def test_the_table_of_functions_has_types(tmp_path: Path, dialect: Any) -> None:
    """Of a library of mblob without debug information."""
    old, made = tmp_path / "l.so", tmp_path / "a.so"
    mblob.csource_module(TEXT, functions=["plain"]).export_library(old, dialect=dialect)
    mblob.add(old, functions=["sum"], output=made)
    lib = mblob.load_module(made)
    assert (lib["sum"](X, 3), lib["plain"](1)) == (7, 2)
    with mblob.open(made) as library:
        rows = {(row.name, row.abi): row for row in library.function_table}
        assert rows["sum", "packed"].origin == rows["sum", "plain"].origin == "source"
    with pytest.raises(
        mblob.BuildError, match=r"by_value cannot be called: parameter 0 \(p\) is struct pair by"
    ):
        mblob.add(old, functions=["by_value"], output=made)
    with pytest.raises(mblob.BuildError, match="has a function 'sum' already; replace=True"):
        mblob.add(made, functions=[PROTOTYPE])
    mblob.add(made, functions=[PROTOTYPE], replace=True)
    with pytest.raises(mblob.MblobError, match=r"expected shape \(2,\)"):
        mblob.load_module(made)["sum"](X, 2)


def test_functions_of_cxx_and_of_aliases(tmp_path: Path, require: Any) -> None:
    require("c++")
    text = """namespace ns { int twice(int x) { return 2 * x; } }
int over(int x) { return x; }
int over(float x) { return (int)x + 100; }
extern "C" int own(int x) { return x + 5; }
extern "C" int alias(int x) __attribute__((alias("own")));
"""
    old, made = linked(tmp_path / "l.so", text, "-g", compiler="c++"), tmp_path / "a.so"
    mblob.add(old, functions=["ns::twice", "int over(float x)", "alias"], output=made)
    lib = mblob.load_module(made)
    assert (lib["ns::twice"](4), lib["over"](2.0), lib["alias"](1)) == (8, 102, 6)
    bare = linked(tmp_path / "bare.so", text, "-g0", compiler="c++")
    for path, name, why in (
        (old, "double over(double x)", "it is overloaded"),
        (old, "twice", "has the function ns::twice: write its name so"),
        (bare, "ns::twice", 'as a function of C.., and nothing tells its types.*extern "C"'),
    ):
        with pytest.raises(mblob.BuildError, match=why):
            mblob.add(path, functions=[name], output=tmp_path / "no.so")


def test_what_cannot_be_called_is_told_with_the_remedy(golden: Path, tmp_path: Path) -> None:
    described, bare = linked(tmp_path / "d.so", TEXT, "-g"), linked(tmp_path / "b.so", TEXT, "-g0")
    out = tmp_path / "out.so"
    out.write_bytes(b"old")
    of_tvm, of_ffi = golden / "host_llvm.so", golden / "ffi" / "ctx_llvm.so"
    cases: list[tuple[Path, str, str]] = [
        (
            bare,
            "sum",
            r"neither its debug information nor .* give its prototype, as 'double sum\(const float",
        ),
        (
            bare,
            "sun",
            r"neither \S+b.so nor new code defines 'sun': check the name, .*did you mean 'sum'",
        ),
        (bare, "int number(void)", r"neither \S+b.so nor new code defines 'number'"),
        (described, "by_value", "struct pair by value: give a function that takes a pointer to it"),
        (described, "double sum(const double *x, int n)", "the source has 'const float \\*'"),
        (of_tvm, "vadd", "has a function 'vadd' already"),
        (of_ffi, "par", "has a function 'par' already"),
    ]
    for path, text, why in cases:
        with pytest.raises(mblob.BuildError, match=why):
            mblob.add(path, functions=[text], output=out)
    for path, text in ((of_tvm, "void vadd(float *x)"), (of_ffi, "void par(float *x)")):
        with pytest.raises(
            mblob.BuildError, match="a packed function of this name, which programs call as it is"
        ):
            mblob.add(path, functions=[text], output=out, replace=True)
    assert out.read_bytes() == b"old"


def test_tvm_calls_it(tmp_path: Path, package_of: Callable[[str], Path]) -> None:
    package_of("tvm")
    old, made = linked(tmp_path / "l.so", TEXT + OF_FFI, "-g"), tmp_path / "a.so"
    mblob.add(old, functions=["plain", PROTOTYPE], output=made)
    script = "import sys, numpy, tvm\nm = tvm.runtime.load_module(sys.argv[1])\n"
    script += "x = tvm.runtime.tensor(numpy.array([1, 2, 4], 'float32'))\n"
    script += "print(m['plain'](1), m['one'](), m['sum'](x, 3))"
    done = subprocess.run([sys.executable, "-c", script, made], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("2 1 7.0\n", 0), done.stderr


def test_reasons_of_functions_that_are_not_callable_outlive_additions(tmp_path: Path) -> None:
    """Of a static function, one in an anonymous namespace, and one with a variable number of arguments."""
    c, cxx, more = tmp_path / "k.c", tmp_path / "o.cc", tmp_path / "m.c"
    c.write_text("static int inner(int x) { return x; } int outer(int n, ...) { return inner(n); }")
    cxx.write_text("namespace { int own(int x) { return x; } } int two(int x) { return own(x); }")
    more.write_text("int more(int x) { return x; }")
    path, asked = tmp_path / "a.so", ("inner", "own", "outer")

    def reasons(path: Path) -> list[str]:
        lib, found = mblob.load_module(path), []
        for name in asked:
            with pytest.raises(mblob.NotFoundError) as caught:
                lib[name]
            found.append(str(caught.value).split("; ", 2)[2])
        return found

    root = mblob.csource_module(c)
    root.import_module(mblob.csource_module(cxx))
    root.export_library(path)
    expected = reasons(path)
    assert "static" in expected[0] and "anonymous namespace" in expected[1]
    assert "variadic" in expected[2]
    mblob.add(path, kernels=more)
    assert reasons(path) == expected
    mblob.add(path, blobs={"k": more})
    mblob.convert(path, tmp_path / "f.so", dialect="ffi")
    assert reasons(path) == reasons(tmp_path / "f.so") == expected


def test_new_code_calls_its_own_function_and_not_one_of_the_process_with_its_name(
    golden: Path, tmp_path: Path
) -> None:
    """libc has a function times; TVM links its libraries so that the first of the process counts."""
    source, made = tmp_path / "k.c", tmp_path / "a.so"
    source.write_text(
        "int times(int a, int b) { return a * b; } int twice(int a) { return times(a, 2); }"
    )
    mblob.add(golden / "host_c.so", kernels=source, output=made)
    lib = mblob.load_module(made)
    assert (lib["times"](6, 7), lib["twice"](5), lib.ctypes.times(6, 7)) == (42, 10, 42)
