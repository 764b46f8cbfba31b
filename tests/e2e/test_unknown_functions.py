"""A function is called as a packed one only if something says that it is: in Python, by the command
and in C, whatever made the library."""

from __future__ import annotations

import ctypes
import pickle
import re
import subprocess
import sys
import tarfile
from ctypes import byref, c_char_p, c_int32, c_uint32, c_void_p
from pathlib import Path

import numpy as np
import pytest

import mblob
from mblob.compilers import include_flags

PLAIN = "void scale2(float *x, int n) { for (int i = 0; i < n; i++) x[i] *= 2; }\n"
PACKED = """
union value { long long i; double d; void *p; };
int %s(union value *args, int *codes, int count, union value *result, int *code, void *resource) {
  (void)codes, (void)resource;
  result->i = args[0].i + count;
  *code = 0;
  return 0;
}
"""
pytestmark = pytest.mark.own_process  # libraries of both dialects start plug-ins

MARKED = "void *__tvm_module_ctx;\n" + PACKED % "of_tvm"
NEEDS_WORD = "nothing says how 'scale2' is called.*assume='packed'"


def compiled(folder: Path, name: str, text: str, *flags: str) -> Path:
    (folder / f"{name}.c").write_text(text)
    command = ["cc", "-O2", "-fPIC", *flags, "-c", f"{name}.c"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / f"{name}.o"


def linked(folder: Path, text: str, *flags: str) -> Path:
    (folder / "x.c").write_text(text)
    subprocess.run(["cc", "-shared", "-fPIC", "x.c", *flags, "-o", "x.so"], cwd=folder, check=True)
    return folder / "x.so"


def packed_object(
    folder: Path,
    name: str,
    text: str,
    *flags: str,
    warned: bool = False,
    functions: list[str] = [],  # noqa: B006
) -> Path:
    module = mblob.static_library(compiled(folder, name, text, *flags), functions=functions)
    if warned:
        with pytest.warns(UserWarning, match=r"\.o: nothing says how .* called"):
            module.export_library(folder / "k.so")
    else:
        module.export_library(folder / "k.so")
    return folder / "k.so"


# -- what nothing tells about ----------------------------------------------------------------------


@pytest.mark.parametrize("library", ["libc.so.6", "libm.so.6"])
def test_a_library_of_the_system_has_no_function_to_call(library: str) -> None:
    # Its file, wherever the dynamic linker found it.
    ctypes.CDLL(library)
    path = next(
        line.split()[-1]
        for line in Path("/proc/self/maps").read_text().splitlines()
        if re.search(rf"/(ld-musl-)?{library.partition('.')[0]}(-2\.\d+)?\.so[.\d]*$", line)
    )
    name = "qsort" if library == "libc.so.6" else "cos"
    with pytest.raises(mblob.NotFoundError, match=f"nothing says how '{name}' is called"):
        mblob.load_module(path)[name]("abc")
    command = [sys.executable, "-m", "mblob.cli.main", "run", path, name, "1.0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert f"nothing says how '{name}' is called" in done.stderr
    assert "--assume packed" in done.stderr


@pytest.mark.parametrize("flags", [(), ("-g1",), ("-g", "-gsplit-dwarf"), ("-flto",)], ids=" ".join)
def test_an_object_without_types_is_packed_with_a_warning_and_its_function_is_not_called(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    path = packed_object(tmp_path, "k", PLAIN, *flags, warned=True)
    lib = mblob.load_module(path)
    with pytest.raises(AttributeError, match=NEEDS_WORD):
        lib.scale2(np.ones(3, np.float32), 3)
    assert not lib.implements_function("scale2")
    assert dict(lib.functions) == {}
    x = (ctypes.c_float * 2)(1, 2)
    lib.symbol("scale2", None, [c_void_p, ctypes.c_int])(x, 2)
    assert list(x) == [2, 4]


def test_an_object_that_nothing_packed_is_not_called_either(tmp_path: Path) -> None:
    with pytest.raises(AttributeError, match=NEEDS_WORD):
        mblob.load_module(compiled(tmp_path, "k", PLAIN))["scale2"]
    with tarfile.open(tmp_path / "k.tar", "w") as tar:
        tar.add(tmp_path / "k.o", "k.o")
    with pytest.raises(AttributeError, match=NEEDS_WORD):
        mblob.load_module(tmp_path / "k.tar")["scale2"]


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("embed", ["object", "c"])
def test_the_blob_and_the_slots_of_mblob_say_nothing_of_other_functions(
    tmp_path: Path, index: bool, embed: str
) -> None:
    root = mblob.csource_module("void one(int *x) { *x = 1; }", functions=["void one(int *x)"])
    root.import_module(mblob.static_library(compiled(tmp_path, "k", PLAIN)))
    root.import_module(mblob.json_module("tensorrt", "s", {"nodes": []}))
    with pytest.warns(UserWarning, match="nothing says how scale2 is called"):
        root.export_library(tmp_path / "k.so", index=index, embed=embed)
    lib = mblob.load_module(tmp_path / "k.so", missing="stub")
    assert sorted(lib.functions) == ["one"]
    with pytest.raises(mblob.NotFoundError, match="nothing says how 'scale2'"):
        lib.get_function("scale2")


def test_a_blob_alone_without_index_says_nothing_of_functions_beside_it(tmp_path: Path) -> None:
    root = mblob.static_library(compiled(tmp_path, "k", PLAIN))
    root.import_module(mblob.json_module("tensorrt", "s", {"nodes": []}))
    with pytest.warns(UserWarning, match="nothing says how"):
        root.export_library(tmp_path / "k.so", index=False)
    with pytest.raises(mblob.NotFoundError, match=NEEDS_WORD):
        mblob.load_module(tmp_path / "k.so", missing="stub").get_function("scale2")
    believed = mblob.load_module(tmp_path / "k.so", missing="stub", assume="packed")
    assert believed.implements_function("scale2")


def test_code_of_tvm_says_nothing_of_an_object_beside_it(tmp_path: Path) -> None:
    root = mblob.static_library(compiled(tmp_path, "tvm", MARKED))
    root.import_module(mblob.static_library(compiled(tmp_path, "k", PLAIN)))
    with pytest.warns(UserWarning, match="nothing says how scale2 is called"):
        root.export_library(tmp_path / "k.so")
    lib = mblob.load_module(tmp_path / "k.so")
    assert lib.of_tvm(41) == 42
    with pytest.raises(AttributeError, match=NEEDS_WORD):
        lib.scale2(1)
    assert mblob.load_module(tmp_path / "k.so", assume="packed").implements_function("scale2")


def test_a_helper_that_others_call_is_packed_without_a_warning(tmp_path: Path) -> None:
    root = mblob.csource_module(
        "void helper(int *x); void one(int *x) { helper(x); }", functions=["void one(int *x)"]
    )
    helper = compiled(tmp_path, "k", "void helper(int *x) { *x = 7; }")
    root.import_module(mblob.static_library(helper))
    root.export_library(tmp_path / "k.so")
    x = np.zeros(1, np.int32)
    mblob.load_module(tmp_path / "k.so").one(x)
    assert x[0] == 7


# -- what something tells --------------------------------------------------------------------------


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("text", "flags", "functions"),
    [
        (MARKED.replace("of_tvm", "sum"), (), []),
        (PACKED % "sum", ("-g",), []),
        (PACKED % "sum", (), ["sum"]),
        ("void TVMAPISetLastError(const char *);\n"
         + (PACKED % "sum").replace("*code = 0;", 'if (count > 9) TVMAPISetLastError("many"); *code = 0;'), (), []),
        ("#include <tvm/runtime/c_backend_api.h>\n"
         + (PACKED % "sum").replace("*code = 0;", 'if (count > 9) TVMAPISetLastError("many"); *code = 0;'), (), []),
    ],
    ids=["context", "types", "name", "undefined", "slots"],
)  # fmt: skip
@pytest.mark.parametrize("beside", [False, True])
def test_a_packed_function_is_called_if_something_says_so(
    tmp_path: Path, text: str, flags: tuple[str, ...], functions: list[str], beside: bool
) -> None:
    made = compiled(tmp_path, "p", text, *flags, *include_flags())
    root = mblob.static_library(made, functions=functions)
    if beside:  # with a table of functions
        root.import_module(
            mblob.csource_module("void one(int *x) { *x = 1; }", functions=["void one(int *x)"])
        )
    root.export_library(tmp_path / "k.so")
    assert mblob.load_module(tmp_path / "k.so").sum(41) == 42


def test_a_plain_function_with_three_arguments_like_a_packed_one_is_none(tmp_path: Path) -> None:
    text = "int sum(long *a, int *b, int n) { return (int)a[0] + b[0] + n; }"
    lib = mblob.load_module(packed_object(tmp_path, "k", text, "-g"))
    with pytest.raises(AttributeError, match="'sum' is a plain C function"):
        lib.sum(1)


@pytest.mark.parametrize("how", ["a path", "bytes", "a descriptor", "an object"])
def test_the_word_of_the_user_counts_for_one_opening(tmp_path: Path, how: str) -> None:
    path = linked(tmp_path, PACKED % "sum")

    def opened(**options: object) -> mblob.Module:
        if how == "a descriptor":
            with path.open("rb") as file:
                return mblob.load_module(file.fileno(), **options)  # type: ignore[arg-type]
        if how == "an object":
            return mblob.load_module(compiled(tmp_path, "o", PACKED % "sum"), **options)  # type: ignore[arg-type]
        return mblob.load_module(path if how == "a path" else path.read_bytes(), **options)  # type: ignore[arg-type]

    believed = opened(assume="packed")
    assert believed.sum(41) == 42
    assert list(believed.functions) == ["sum"]
    doubted = opened()
    with pytest.raises(AttributeError, match="nothing says how 'sum' is called"):
        doubted["sum"]
    assert list(doubted.functions) == []
    again = opened(assume="packed")
    assert again["sum"](1) == believed["sum"](1) == 2


def test_the_word_of_the_user_stays_with_a_pickle(tmp_path: Path) -> None:
    lib = mblob.load_module(linked(tmp_path, PACKED % "sum"), assume="packed")
    assert pickle.loads(pickle.dumps(lib)).sum(41) == 42
    assert pickle.loads(pickle.dumps(lib["sum"]))(41) == 42


def test_the_word_of_the_user_does_not_count_against_the_table(tmp_path: Path) -> None:
    path = packed_object(tmp_path, "k", PLAIN, "-g")
    with pytest.raises(AttributeError, match="'scale2' is a plain C function"):
        mblob.load_module(path, assume="packed").scale2(1)


def test_in_the_ffi_dialect_names_say_what_a_function_is_whatever_the_user_says(
    tmp_path: Path,
) -> None:
    root = mblob.csource_module("void one(int *x) { *x = 1; }", functions=["void one(int *x)"])
    root.import_module(mblob.static_library(compiled(tmp_path, "k", PLAIN)))
    with pytest.warns(UserWarning, match="nothing says how scale2 is called"):
        root.export_library(tmp_path / "k.so", dialect="ffi")
    lib = mblob.load_module(tmp_path / "k.so", assume="packed")
    assert list(lib.functions) == ["one"]
    assert not lib.implements_function("scale2")


def test_another_word_is_refused(tmp_path: Path) -> None:
    for word in ("plain", "Packed", 1, True):
        with pytest.raises(mblob.MblobError, match="assume: expected 'packed', found"):
            mblob.load_module(tmp_path / "x.so", assume=word)  # type: ignore[arg-type]


def test_the_command_takes_the_word_too(tmp_path: Path) -> None:
    path = linked(tmp_path, PACKED % "sum")
    command = [sys.executable, "-m", "mblob.cli.main", "run", str(path), "sum", "41"]
    done = subprocess.run(
        [*command, "--assume", "packed"], capture_output=True, text=True, check=True
    )
    assert "42" in done.stdout
    assert subprocess.run(command, capture_output=True, check=False).returncode != 0


def test_inspect_lists_what_nothing_tells_about_as_unknown(tmp_path: Path) -> None:
    path = packed_object(tmp_path, "k", PLAIN, warned=True)
    command = [sys.executable, "-m", "mblob.cli.main", "inspect", str(path)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "scale2  unknown: nothing says how it is called" in text
    text = subprocess.run(
        [*command, "--functions"], capture_output=True, text=True, check=True
    ).stdout
    assert text == "unknown scale2\n"


# -- in C ------------------------------------------------------------------------------------------


class Options(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("verify", c_int32), ("missing", c_int32), ("loader_count", c_uint32),
        ("loaders", c_void_p), ("unload", c_int32), ("assume", c_int32),
    ]  # fmt: skip


@pytest.fixture
def runtime() -> ctypes.CDLL:
    c = ctypes.CDLL(str(Path(mblob.get_library_dir()) / "libmblob.so.0"))
    c.mblob_last_error.restype = c_char_p
    return c


def test_a_c_host_asks_by_an_option(tmp_path: Path, runtime: ctypes.CDLL) -> None:
    path = bytes(linked(tmp_path, PACKED % "sum"))
    module, function = c_void_p(), c_void_p()
    for assume in (0, 1, 0):
        options = Options(ctypes.sizeof(Options), assume=assume)
        assert not runtime.mblob_open(path, byref(options), byref(module))
        status = runtime.mblob_module_function(module, b"sum", 0, byref(function))
        assert (status == 0) == (assume == 1)
        if assume:
            runtime.mblob_function_release(function)
        else:
            assert b"MBLOB_ASSUME_PACKED" in runtime.mblob_last_error()
        runtime.mblob_module_release(module)
    wrong = Options(ctypes.sizeof(Options), assume=2)
    assert runtime.mblob_open(path, byref(wrong), byref(module))
    assert b"assume is 2" in runtime.mblob_last_error()


def test_all_libraries_that_tvm_exported_have_a_mark(golden: Path) -> None:
    for path in sorted(golden.rglob("*.so")):
        with mblob.open(path) as library:
            assert [f.name for f in library.host_functions if f.abi == "plain"] == [], path


@pytest.mark.sample(1)
@pytest.mark.parametrize("change", ["an index", "the other dialect", "and back"])
def test_a_library_of_tvm_whose_blob_is_its_only_mark_keeps_its_functions(
    golden: Path, tmp_path: Path, change: str
) -> None:
    source, output = golden / "relax/classic/relax_020.so", tmp_path / "x.so"
    if change == "an index":
        mblob.add_index(source, output)
    else:
        mblob.convert(source, output, dialect="ffi")
    if change == "and back":
        mblob.convert(output, tmp_path / "y.so", dialect="classic")
        output = tmp_path / "y.so"
    with mblob.open(source) as before, mblob.open(output) as after:
        assert set(before.packed_functions) == set(after.packed_functions)
        names = before.packed_functions
    lib = mblob.load_module(output, missing="stub")
    assert names and all(lib.implements_function(name, True) for name in names)
