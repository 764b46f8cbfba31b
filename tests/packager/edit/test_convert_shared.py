"""`mblob.convert` of a finished library with functions: its code stays where it is, adapters join
it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mblob
from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import PT_LOAD, PT_TLS
from mblob.bytes.mapping import map_file
from mblob.packager.errors import BuildError
from mblob.packager.link import request
from mblob.packager.options import linker_named
from tests.e2e.ffi.ffi_sources import PACKED, plain_module

pytestmark = pytest.mark.own_process

BY_NAME = r"""#include <stdint.h>
typedef union { int64_t i; double f; void *p; const char *s; } value;
void *TVMBackendAllocWorkspace(int type, int id, uint64_t size, int code, int bits);
int TVMBackendFreeWorkspace(int type, int id, void *data);
int TVMBackendGetFuncFromEnv(void *module, const char *name, void **out);
int TVMFuncCall(void *f, value *args, int *codes, int n, value *ret, int *code);
void TVMAPISetLastError(const char *text);
void *__tvm_module_ctx;
int sum(value *args, int *codes, int n, value *ret, int *code, void *resource) {
  void *f;
  if (n != 1 || codes[0]) { TVMAPISetLastError("sum: wants one int"); return -1; }
  int64_t *table = TVMBackendAllocWorkspace(1, 0, 8 * args[0].i, 0, 64);
  int64_t total = 0;
  for (int64_t i = 0; i < args[0].i; i++) table[i] = i;
  for (int64_t i = 0; i < args[0].i; i++) total += table[i];
  TVMBackendFreeWorkspace(1, 0, table);
  if (TVMBackendGetFuncFromEnv(__tvm_module_ctx, "my.callback", &f)) return -1;
  value v = {total};
  int c = 0;
  return TVMFuncCall(f, &v, &c, 1, ret, code);
}
"""


def packed(path: Path, **how: object) -> Path:
    mblob.csource_module(PACKED).export_library(path, **how)
    return path


def elf_of(path: Path) -> ElfFile:
    return ElfFile(map_file(path), str(path))


def section(path: Path, name: str) -> bytes:
    elf = elf_of(path)
    found = elf.section(name)
    assert found is not None
    return bytes(elf.contents(found))


def calls(path: Path) -> None:
    """What both dialects answer."""
    seen: list[object] = []

    def callback(*args: object) -> int:
        seen.append(args[:2])
        if len(seen) > 1:
            raise KeyError("second")
        return 41

    mblob.register_func("my.callback", callback, override=True)
    lib = mblob.load_module(path)
    assert lib["twice"](4) == 8
    a = np.arange(4, dtype="float32")
    lib["addone"](a)
    assert a.tolist() == [1, 2, 3, 4]
    for value in ("abc", "a longer text", None, b"bytes", 2.5, 7):
        assert lib["same"](value) == value
    assert lib["calls"](a) == 41
    with pytest.raises(KeyError, match="second"):
        lib["calls"](a)
    assert seen[0] == (7, "from classic")
    with pytest.raises(mblob.KernelError, match="twice: wants one int"):
        lib["twice"]("x")
    with mblob.open(path) as opened:
        entry = "main" if "main" in opened.functions else "__tvm_main__"
    assert lib[entry](5) == 10


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [[], ["-Wl,-z,now"], ["-fuse-ld=gold"], ["-fuse-ld=lld"], ["-Wl,--hash-style=sysv"]]
)
def test_there_and_back_and_there_again(
    tmp_path: Path, require: Callable[[str], str], options: list[str]
) -> None:
    if linker := linker_named(options):
        require(f"ld.{linker}")
    first = packed(tmp_path / "0.so", options=options)
    calls(first)
    for i, dialect in enumerate(("ffi", "classic", "ffi")):
        made = tmp_path / f"{i + 1}.so"
        mblob.convert(tmp_path / f"{i}.so", made, dialect=dialect)
        with mblob.open(made, verify="full") as lib:
            assert lib.dialect == dialect
            assert set(lib.functions) - {"main"} == {"addone", "calls", "fails", "same", "twice"}
            assert not [
                name for name in lib.undefined if name.startswith("TVM") and dialect == "classic"
            ]
        calls(made)
        assert section(made, ".text") == section(first, ".text")


def test_everything_that_is_loaded_keeps_its_place(tmp_path: Path) -> None:
    first, made = packed(tmp_path / "a.so", index=False), tmp_path / "b.so"
    mblob.convert(first, made, dialect="ffi")
    old, new = elf_of(first), elf_of(made)
    loaded = [s for s in old.segments if s.p_type == PT_LOAD]
    assert [s for s in new.segments if s.p_type == PT_LOAD][: len(loaded)] == loaded
    for name in (".text", ".rodata", ".eh_frame", ".data", ".init_array"):
        if old.section(name) is not None:
            assert section(made, name) == section(first, name)


@pytest.mark.sample(2)
@pytest.mark.parametrize("embed", ["grow", "object", "c", "append"])
def test_plain_functions_modules_and_the_table_come_along(tmp_path: Path, embed: str) -> None:
    root = plain_module()
    root.import_module(mblob.blob_module("my.kind", b"hello"))
    root.export_library(tmp_path / "a.so", embed=embed)
    mblob.convert(tmp_path / "a.so", tmp_path / "b.so", dialect="ffi", embed=embed)
    with mblob.open(tmp_path / "a.so") as a, mblob.open(tmp_path / "b.so", verify="full") as b:
        assert a.functions == b.functions
        assert [bytes(e.view()) for e in b.entries] == [b"", b"hello"]
        symbols = {(row.name, row.abi): row.symbol for row in b.function_table}
        assert symbols["vadd", "packed"] == "__tvm_ffi_vadd" and symbols["vadd", "plain"] == "vadd"
        exported = {s.name for s in b.elf.dynsym if s.is_exported}
        assert "vadd__packed" not in exported and "__tvm_dev_mblob" not in exported
    lib = mblob.load_module(tmp_path / "b.so")
    x, y = np.ones(4, "float32"), np.zeros(4, "float32")
    lib["vadd"](x, x, y, 4)
    assert y.tolist() == [2, 2, 2, 2]
    assert lib["greet"]("somebody else") == "hello somebody else"
    with pytest.raises(mblob.KernelError, match=r"expected shape \(5,\)"):
        lib["vadd"](x, x, y, 5)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "name", ["host_llvm", "host_c", "host_parallel", "opencl_llvm", "dag", "dnnl_c_lib"]
)
def test_what_tvm_0_14_exported_becomes_a_library_of_today(
    tmp_path: Path, golden: Path, name: str
) -> None:
    mblob.convert(golden / f"{name}.so", tmp_path / "x.so", dialect="ffi")
    with (
        mblob.open(golden / f"{name}.so") as old,
        mblob.open(tmp_path / "x.so", verify="full") as new,
    ):
        assert set(old.functions) <= set(new.functions)
        kinds = [e.type_key for e in old.entries] or ["library"]
        assert [e.type_key for e in new.entries] == kinds
    assert section(tmp_path / "x.so", ".text") == section(golden / f"{name}.so", ".text")
    if name in ("host_llvm", "host_c"):
        lib = mblob.load_module(tmp_path / "x.so")
        a, b, c = (
            np.arange(1024, dtype="float32"),
            np.ones(1024, "float32"),
            np.zeros(1024, "float32"),
        )
        lib["vadd"](a, b, c)
        assert (c == a + b).all()
    if name == "host_parallel":
        reference, lib = (
            mblob.load_module(golden / "host_parallel.so"),
            mblob.load_module(tmp_path / "x.so"),
        )
        with pytest.raises(mblob.KernelError) as wanted:
            reference["par_matmul"](1)
        with pytest.raises(mblob.KernelError) as found:
            lib["par_matmul"](1)
        assert str(wanted.value) in str(found.value)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "command",
    [["objcopy", "--strip-debug"], ["strip"], ["objcopy", "--strip-all"], ["patchelf"], ["swap"]],
)
def test_tools_take_the_result(tmp_path: Path, command: list[str]) -> None:
    root = mblob.csource_module(PACKED)
    root.import_module(mblob.blob_module("my.kind", b"hello"))
    root.export_library(tmp_path / "a.so")
    mblob.convert(tmp_path / "a.so", tmp_path / "b.so", dialect="ffi")
    noted = subprocess.run(
        ["readelf", "-aW", tmp_path / "b.so"], capture_output=True, text=True, check=True
    )
    assert not noted.stderr
    edited = tmp_path / "c.so"
    if command == ["swap"]:
        mblob.swap(tmp_path / "b.so", {"my.kind": b"a longer payload" * 1000}, edited)
        with mblob.open(edited, verify="full") as lib:
            assert bytes(lib.entries[1].view()) == b"a longer payload" * 1000
    elif command == ["patchelf"]:
        edited.write_bytes((tmp_path / "b.so").read_bytes())
        subprocess.run(
            ["patchelf", "--set-rpath", "/a/long/path/that/is/nowhere", edited], check=True
        )
    else:
        subprocess.run(
            [*command, tmp_path / "b.so", *(["-o"] if command[0] == "strip" else []), edited],
            check=True,
        )
    calls_of_kernels(edited)


@pytest.mark.sample(1)
@pytest.mark.parametrize("command", [["strip", "-o"], ["objcopy", "--strip-debug"]])
def test_tools_take_what_was_converted_twice(tmp_path: Path, command: list[str]) -> None:
    """Nothing is left in the tables of the first time, which have a segment of their own."""
    packed(tmp_path / "0.so")
    mblob.convert(tmp_path / "0.so", tmp_path / "1.so", dialect="ffi")
    mblob.convert(tmp_path / "1.so", tmp_path / "2.so", dialect="classic")
    edited = tmp_path / "edited.so"
    files = [edited, tmp_path / "2.so"] if command[-1] == "-o" else [tmp_path / "2.so", edited]
    subprocess.run([*command, *files], check=True)
    calls(edited)


THREAD = r"""#include <stdint.h>
typedef union { int64_t i; double f; void *p; const char *s; } value;
static __thread INITIAL;
int count(value *args, int *codes, int n, value *ret, int *code, void *resource) {
  ret->i = ++counter + args[0].i;
  *code = 0;
  return 0;
}
"""


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "initial",
    ["int counter = 40", "char lead = 1; static __thread int counter = 40", "int counter"],
)
@pytest.mark.parametrize("command", [[], ["objcopy", "--strip-debug"], ["objcopy", "--strip-all"]])
def test_variables_of_threads_are_one_block(
    tmp_path: Path, initial: str, command: list[str]
) -> None:
    """Tools make PT_TLS anew from the sections that they find one behind the other."""
    mblob.csource_module(THREAD.replace("INITIAL", initial)).export_library(tmp_path / "a.so")
    mblob.convert(tmp_path / "a.so", tmp_path / "b.so", dialect="ffi")
    path = tmp_path / "b.so"
    if command:
        path = tmp_path / "c.so"
        subprocess.run([*command, tmp_path / "b.so", path], check=True)
    before, after = (
        [(t.p_filesz, t.p_memsz) for t in elf_of(p).segments if t.p_type == PT_TLS]
        for p in (tmp_path / "b.so", path)
    )
    assert len(before) == 1 and after == before
    lib = mblob.load_module(path)
    start = 40 if "40" in initial else 0
    assert [lib["count"](0), lib["count"](0)] == [start + 1, start + 2]
    with pytest.raises(mblob.KernelError, match="argument 0 is of type 68"):
        lib["count"](lib["count"])  # an error text of the adapter's, in the same block
    assert lib["count"](0) == start + 3


def calls_of_kernels(path: Path) -> None:
    with mblob.open(path, verify="full") as lib:
        assert lib.dialect == "ffi"
    lib = mblob.load_module(path, missing="stub")
    assert lib["twice"](4) == 8
    with pytest.raises(mblob.KernelError, match="twice: wants one int"):
        lib["twice"]("x")


@pytest.mark.slow
def test_large_modules_are_not_there_twice(tmp_path: Path) -> None:
    root = mblob.csource_module(PACKED)
    root.import_module(mblob.blob_module("my.kind", b"payload " * (1 << 17)))
    root.export_library(tmp_path / "a.so")
    mblob.convert(tmp_path / "a.so", tmp_path / "b.so", dialect="ffi")
    data = (tmp_path / "b.so").read_bytes()
    assert data.count(b"payload ") == 1 << 17
    calls_of_kernels(tmp_path / "b.so")


@pytest.mark.slow
@pytest.mark.parametrize("linker", ["bfd", "gold", "lld"])
def test_a_blob_that_was_copied_before_the_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, require: Callable[[str], str], linker: str
) -> None:
    """It lies at an offset that is larger than its address."""
    require(f"ld.{linker}")
    monkeypatch.setattr(request, "EARLY_COPY_SIZE", 1)
    (tmp_path / "p").write_bytes(b"hello" * 100_000 + bytes(1 << 20) + b"end")
    root = plain_module()
    root.import_module(mblob.blob_module("my.kind", tmp_path / "p"))
    root.export_library(tmp_path / "a.so", options=[f"-fuse-ld={linker}"])
    mblob.convert(tmp_path / "a.so", tmp_path / "b.so", dialect="ffi")
    mblob.convert(tmp_path / "b.so", tmp_path / "c.so", dialect="classic")
    with mblob.open(tmp_path / "a.so") as a:
        assert a.blob_offset > a.elf.find("__tvm_dev_mblob").st_value
    for name in ("b.so", "c.so"):
        with mblob.open(tmp_path / name, verify="full") as lib:
            assert bytes(lib.entries[1].view()) == (tmp_path / "p").read_bytes()
        x, y = np.ones(4, "float32"), np.zeros(4, "float32")
        mblob.load_module(tmp_path / name)["vadd"](x, x, y, 4)
        assert y.tolist() == [2] * 4


def test_code_that_calls_the_runtime_by_name_finds_it(tmp_path: Path) -> None:
    """As TVM's C code does that was compiled against TVM's own headers: undefined, and bound by the
    library itself."""
    source = tmp_path / "k.c"
    source.write_text(BY_NAME)
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", tmp_path / "a.so"], check=True)
    mblob.convert(tmp_path / "a.so", tmp_path / "b.so", dialect="ffi")
    with mblob.open(tmp_path / "b.so") as lib:
        assert not [
            name
            for name in lib.undefined
            if name.startswith("TVM") and not name.startswith("TVMFFI")
        ]
    lib = mblob.load_module(tmp_path / "b.so")
    mblob.register_func("my.callback", lambda x: x + 1, override=True)
    assert lib["sum"](10) == 46
    with pytest.raises(mblob.KernelError, match="sum: wants one int"):
        lib["sum"]("x")


def test_a_library_without_section_headers(tmp_path: Path) -> None:
    first = packed(tmp_path / "a.so", index=False, embed="c")
    data = bytearray(first.read_bytes())
    data[40:48] = bytes(8)  # e_shoff
    data[60:64] = bytes(4)  # e_shnum, e_shstrndx
    (tmp_path / "bare.so").write_bytes(data)
    mblob.convert(tmp_path / "bare.so", tmp_path / "b.so", dialect="ffi")
    calls(tmp_path / "b.so")


def test_a_file_that_is_longer_than_its_memory(tmp_path: Path) -> None:
    """As with what debuggers read, or with a C++ library linked in and not stripped."""
    first = packed(tmp_path / "a.so")
    with first.open("ab") as file:
        file.write(bytes(1 << 20))
    mblob.convert(first, tmp_path / "b.so", dialect="ffi")
    calls(tmp_path / "b.so")


def test_names_that_are_hidden_have_no_version(tmp_path: Path) -> None:
    mblob.convert(packed(tmp_path / "a.so"), tmp_path / "b.so", dialect="ffi")
    elf = elf_of(tmp_path / "b.so")
    local = [version for s, version in zip(elf.dynsym, elf.versym[1:]) if not s.binding]
    assert len(local) > 10 and not any(local)


def test_what_cannot_be_joined_is_refused_by_name(tmp_path: Path) -> None:
    first = packed(tmp_path / "a.so")
    for how, culprit in (
        ({"fcompile": lambda *_: None}, "fcompile="),
        ({"options": ["-Wl,-init=twice__none,--defsym=twice__none=0"]}, "start-up"),
    ):
        with pytest.raises((BuildError, mblob.MblobError), match=culprit):
            mblob.convert(first, tmp_path / "x.so", dialect="ffi", **how)
    with pytest.raises(BuildError, match="a finished library has no objects to put into"):
        mblob.convert(first, tmp_path / "x.tar", dialect="ffi")
    with pytest.raises(BuildError, match="of the classic dialect already"):
        mblob.convert(first, tmp_path / "x.so", dialect="classic")
    assert not list(tmp_path.glob("x.*"))


def test_a_text_with_a_nul_inside_is_refused_and_not_cut(tmp_path: Path) -> None:
    source = "#include <string.h>\nvoid put(const char *s, int *n) { *n = (int)strlen(s); }"
    module = mblob.csource_module(source, functions=["void put(const char *s, int n[1])"])
    module.export_library(tmp_path / "made.so", dialect="ffi")
    module.export_library(tmp_path / "classic.so")
    mblob.convert(tmp_path / "classic.so", tmp_path / "converted.so", dialect="ffi")
    n = np.zeros(1, "int32")
    for name, text in (
        ("made.so", "without a NUL inside, found one at byte"),
        ("converted.so", "put: argument 0 is a str with a NUL inside"),
    ):
        lib = mblob.load_module(tmp_path / name)
        lib["put"]("abcd", n)
        for value in ("ab\0cd", "more than a value has room for\0"):
            with pytest.raises(ValueError, match=text):
                lib["put"](value, n)
        assert n[0] == 4
