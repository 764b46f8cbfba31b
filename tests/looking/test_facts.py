"""Facts that a file tells beside its blob: who provides what, for which processors, of which TVM,
and what is wrong."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mblob
from mblob.errors import FormatError
from mblob.format.blob_model import Blob, Entry
from mblob.format.grammar import FunctionInfo
from mblob.inspect.contents import DecodedPayload
from mblob.inspect.library import Library
from mblob.inspect.providers import provider_of
from mblob.inspect.tvm_releases import releases_of
from tests.looking.conftest import BLOB, CUDA, KERNEL, LIB, blob_source, classic_blob, string, u64

DEVC = blob_source(BLOB, attributes="")


def codes(path: Path, **arguments: Any) -> list[str]:
    with Library(path, **arguments) as lib:
        return [d["code"] for d in lib.diagnostics]


# -- who provides what -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "provider"),
    [
        ("expf cosl tanh fmaxf", "libm"),
        ("memcpy strlen strtol malloc pthread_create __stack_chk_fail abort isdigit", "libc"),
        ("__udivti3 __gnu_h2f_ieee __truncsfhf2 __fixunssfdi __floattidf __powisf2 __muldc3 __aeabi_idiv __popcountdi2",
         "libgcc or compiler-rt"),
        ("_Znwm __cxa_throw __gxx_personality_v0", "libstdc++ or libc++"),
        ("TVMBackendAllocWorkspace TVMFuncCall", "TVM runtime"),
        ("TVMFFIFunctionCall TVMFFIErrorSetRaisedFromCStrParts", "tvm_ffi"),
        ("cuLaunchKernel cuModuleLoadData", "libcuda (the driver)"), ("cudaMalloc", "libcudart"),
        ("cublasSgemm_v2 cudnnCreate", "CUDA libraries"), ("clCreateBuffer", "libOpenCL"), ("hipMalloc", "HIP runtime"),
        ("GOMP_parallel omp_get_num_threads __kmpc_fork_call", "OpenMP runtime"), ("cblas_sgemm sgemm_", "BLAS"),
        ("_GLOBAL_OFFSET_TABLE_ __dso_handle .TOC. _gp_disp", "linker"), ("__cxa_finalize __gmon_start__", "compiler"),
    ],
)  # fmt: skip
def test_names_tell_who_provides_them(names: str, provider: str) -> None:
    assert {n: provider_of(n) for n in names.split()} == dict.fromkeys(names.split(), provider)


def test_names_of_nobody_are_of_nobody() -> None:
    for name in (
        "memory_pool",
        "stride_of",
        "cluster",
        "curve",
        "isnan_of",
        "click",
        "hipster",
        "my_f",
        "tvm_add",
    ):
        assert provider_of(name) is None, name


def test_what_the_file_says_goes_before_what_the_name_tells(
    cc: Callable[..., Path], tmp_path: Path
) -> None:
    source = "float expf(float); double pow(double, double); int other(void);\n"
    source += "int __tvm_x(int n) { return expf(n) + pow(n, 3) + other(); }\n"
    with Library(cc(source, tmp_path / "m.so", "-lm", "-fno-builtin")) as lib:
        found = {
            u.name: (u.version, u.library, u.provider) for u in lib.undefined_symbols if not u.weak
        }
    assert found["expf"] == ("GLIBC_2.27", "libm.so.6", "libm")
    assert found["pow"][1:] == ("libm.so.6", "libm")
    assert found["other"] == (None, None, None)
    with Library(tmp_path / "m.so") as lib:
        readelf = subprocess.run(
            ["readelf", "--dyn-syms", "-W", lib.path], capture_output=True, text=True
        ).stdout
        theirs = {
            line.split()[7]
            for line in readelf.splitlines()
            if " UND " in line and len(line.split()) > 7
        }
        ours = {f"{u.name}@{u.version}" if u.version else u.name for u in lib.undefined_symbols}
        assert ours == theirs


# -- for which processors --------------------------------------------------------------------------


def hints(path: Path) -> list[str]:
    with Library(path) as lib:
        return lib.to_json()["target"]["hints"]


def test_notes_and_attributes_tell_the_processor(
    clang: Any, cc: Callable[..., Path], tmp_path: Path
) -> None:
    arm = hints(clang(DEVC + KERNEL, tmp_path / "a.o", "armv7-linux-gnueabihf"))
    assert {"EABI5", "armv7", "arguments in VFP registers"} <= set(arm)
    assert "arguments in VFP registers" not in hints(
        clang(DEVC + KERNEL, tmp_path / "b.o", "armv7-linux-gnueabi")
    )
    riscv = hints(clang(DEVC + KERNEL, tmp_path / "c.o", "riscv64-linux-gnu"))
    assert riscv[:3] == ["RV64", "double float", "C"]
    assert any(h.startswith("rv64i") for h in riscv)
    assert hints(clang(DEVC + KERNEL, tmp_path / "d.o", "powerpc64le-linux-gnu")) == ["ELFv2"]
    assert "mips32r2" in hints(clang(DEVC + KERNEL, tmp_path / "e.o", "mips-linux-gnu"))
    assert hints(cc(DEVC, tmp_path / "f.so", "-nostdlib")) == []


NOTES = {
    ("x86_64", 0xC0000002, 3): ["IBT", "SHSTK"],
    ("x86_64", 0xC0008002, 7): ["needs x86-64-baseline", "needs x86-64-v2", "needs x86-64-v3"],
    ("x86_64", 0xC0010002, 8): ["uses x86-64-v4"],
    ("aarch64", 0xC0000000, 3): ["BTI", "PAC"],
    ("x86_64", 0xC0000099, 1): [],
}


@pytest.mark.parametrize(("machine", "kind", "value"), NOTES)
def test_property_notes_tell_features(
    clang: Any, tmp_path: Path, machine: str, kind: int, value: int
) -> None:
    note = '__asm__(".section .note.gnu.property,\\"a\\",%note\\n.p2align 3\\n'
    note += '.long 4\\n.long 16\\n.long 5\\n.asciz \\"GNU\\"\\n'
    note += f'.long {kind}\\n.long 4\\n.long {value}\\n.long 0\\n.text\\n");\n'
    path = clang(note + DEVC, tmp_path / "n.o", f"{machine}-linux-gnu")
    assert hints(path) == NOTES[machine, kind, value]
    whole = path.read_bytes()
    at = whole.index(b"GNU\0" + struct.pack("<I", kind))
    # a size that lies
    (tmp_path / "cut.o").write_bytes(whole[: at + 8] + b"\xff\xff\xff\x7f" + whole[at + 12 :])
    assert hints(tmp_path / "cut.o") == []


# -- which TVM -------------------------------------------------------------------------------------


def range_of(key: str = "cuda", *, facts: dict[str, Any] | None = None, tags: tuple[str, ...] = (),
        dialect: str = "classic", symbol: str = "__tvm_dev_mblob", exports: tuple[str, ...] = (),
        undefined: tuple[str, ...] = (),
        rows: tuple[tuple[int, ...], ...] = ((1,), ()), has_tree: bool = True,
        library: bool = False) -> str | None:  # fmt: skip
    second = Entry(1, key, None if library else 20, 0 if library else 5, rows[1])
    entries = (Entry(0, "library", None, 0, rows[0]), second)
    blob = Blob(dialect, 100, entries, 100, symbol=symbol, has_tree=has_tree)
    content = DecodedPayload(facts or {}, (FunctionInfo("k", (), tags),))
    names = dict.fromkeys((symbol, *exports), False)
    return releases_of(
        blob, [("library", DecodedPayload()), (key, content)], names, set(undefined)
    ).range


FFI: dict[str, Any] = {"dialect": "ffi", "symbol": "__tvm_ffi__library_bin"}
RELAX = {**FFI, "key": "relax.VMExecutable"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, "0.7 - 0.20"),
        ({"has_tree": False}, "0.5 - 0.6"),
        ({"key": "library", "library": True}, "0.7"),
        ({"key": "GraphRuntimeFactory"}, "0.7"),
        ({"key": "metadata"}, "0.7 - 0.8"),
        ({"key": "GraphExecutorFactory"}, "0.8 - 0.19"),
        ({"key": "const_loader"}, "0.9 - 0.20"),
        ({"key": "relax.Executable"}, "0.16 - 0.19"),
        ({"key": "relax.VMExecutable"}, "0.20"),
        ({"key": "metal", "facts": {"code": {}}}, "0.7 - 0.12"),
        ({"key": "metal", "facts": {"shaders": []}}, "0.13 - 0.20"),
        ({"tags": ("blockIdx.x", "tir.use_dyn_shared_memory")}, "0.8 - 0.20"),
        (
            {
                "key": "VMExecutable",
                "facts": {"executable": {"machine": "relay", "version": "0.11.0"}},
            },
            "0.11",
        ),
        ({"dialect": "ffi", "symbol": "__tvm_ffi_library_bin"}, "0.21"),
        (FFI, "0.22 - 0.27"),
        ({**FFI, "exports": ("__TVMBackendGetFuncFromEnv",)}, "0.22 - 0.25"),
        ({**FFI, "exports": ("__TVMFFIHandleInitOnce",)}, "0.26 - 0.27"),
        ({**FFI, "undefined": ("TVMFFIErrorSetRaisedFromCStrParts",)}, "0.24 - 0.27"),
        ({**FFI, "tags": ("tirx.use_dyn_shared_memory",)}, "0.24 - 0.27"),
        ({**FFI, "tags": ("tirx.use_required_block_dimension",)}, "0.27"),
        ({**RELAX, "facts": {"executable": {"machine": "relax", "layout": 1}}}, "0.22"),
        ({**RELAX, "facts": {"executable": {"machine": "relax", "layout": 2}}}, "0.23 - 0.27"),
        ({**FFI, "undefined": ("TVMFuncCall",)}, None),
    ],
)
def test_facts_narrow_the_range_of_releases(
    arguments: dict[str, Any], expected: str | None
) -> None:
    assert range_of(**arguments) == expected


# -- what is wrong ---------------------------------------------------------------------------------


def test_a_sound_library_has_no_remarks(cc: Callable[..., Path], tmp_path: Path) -> None:
    assert codes(cc(DEVC, tmp_path / "m.so", "-Wl,-Bsymbolic")) == []


def test_an_executable_stack_is_told_of_libraries_and_objects(
    cc: Callable[..., Path], tmp_path: Path
) -> None:
    assert "executable_stack" in codes(cc(DEVC, tmp_path / "m.so", "-Wl,-z,execstack"))
    assembler = tmp_path / "a.s"
    assembler.write_text(".globl __tvm_f\n.text\n__tvm_f: ret\n")
    subprocess.run(["cc", "-c", assembler, "-o", tmp_path / "a.o"], check=True)
    assert codes(tmp_path / "a.o") == ["executable_stack"]
    assembler.write_text(assembler.read_text() + '.section .note.GNU-stack,"",%progbits\n')
    subprocess.run(["cc", "-c", assembler, "-o", tmp_path / "a.o"], check=True)
    assert codes(tmp_path / "a.o") == []


def test_a_blob_that_another_library_may_stand_in_for(
    cc: Callable[..., Path], tmp_path: Path
) -> None:
    assert codes(cc(DEVC, tmp_path / "m.so")) == ["interposable_blob"]
    context = "void *__tvm_module_ctx; void *f(void) { return __tvm_module_ctx; }\n"
    users = {"no code of the library does": "", "code may find __tvm_module_ctx in": context}
    for text, code in users.items():
        with mblob.open(cc(DEVC + code, tmp_path / "m.so")) as lib:
            assert text in lib.diagnostics[0]["message"]
    protected = DEVC.replace(
        "unsigned char __tvm", '__attribute__((visibility("protected"))) unsigned char __tvm'
    )
    assert codes(cc(protected, tmp_path / "p.so")) == []


def test_what_mblob_packed_is_linked_so_unless_its_code_refers_to_the_blob_by_name(
    cc: Callable[..., Path], tmp_path: Path
) -> None:
    """mold leaves no mark of -Bsymbolic, as nothing does here; the note says who packed."""
    note = '__asm__(".section .note.mblob,\\"a\\",%note\\n.long 6, 16, 1\\n.asciz \\"mblob\\"\\n.p2align 2\\n'
    note += '.long 1, 4, 0, 0\\n.text\\n");\n'
    assert codes(cc(note + DEVC, tmp_path / "m.so")) == []
    user = "\nconst void *blob(void) { return __tvm_dev_mblob; }"
    assert codes(cc(note + DEVC + user, tmp_path / "u.so")) == ["interposable_blob"]
    assert codes(cc(note + DEVC + user, tmp_path / "s.so", "-Wl,-Bsymbolic")) == []


def test_a_blob_in_writable_memory(cc: Callable[..., Path], tmp_path: Path) -> None:
    source = DEVC.replace("const ", "")
    assert codes(cc(source, tmp_path / "m.so", "-Wl,-Bsymbolic")) == ["writable_blob"]
    subprocess.run(["cc", "-c", tmp_path / "m.c", "-o", tmp_path / "m.o"], check=True)
    assert codes(tmp_path / "m.o") == ["writable_blob"]


def test_a_read_only_dynamic_section_is_told(
    cc: Callable[..., Path], tmp_path: Path, require: Callable[[str], str]
) -> None:
    require("ld.lld")
    path = cc(DEVC, tmp_path / "m.so", "-Wl,-Bsymbolic", "-fuse-ld=lld", "-Wl,-z,rodynamic")
    assert codes(path) == ["read_only_dynamic"]


def test_relocations_in_code(
    cc: Callable[..., Path], tmp_path: Path, require: Callable[[str], str]
) -> None:
    assembler = tmp_path / "t.s"
    assembler.write_text(
        '.text\n.globl f\nf: ret\n.quad f\n.section .note.GNU-stack,"",%progbits\n'
    )
    path = cc(DEVC, tmp_path / "m.so", str(assembler), "-Wl,-Bsymbolic", "-Wl,-z,notext")
    assert codes(path) == ["text_relocations"]


def test_two_dialects_at_once(cc: Callable[..., Path], tmp_path: Path) -> None:
    tree = u64(2, 0, 0, 0) + LIB
    both = DEVC + "\n" + blob_source(u64(len(tree)) + tree, "__tvm_ffi__library_bin", "")
    path = cc(both, tmp_path / "m.so", "-Wl,-Bsymbolic")
    assert codes(path) == ["two_dialects", "era"]
    with Library(path) as lib:
        assert lib.dialect == "classic"


def test_sizes_that_lie(cc: Callable[..., Path], tmp_path: Path) -> None:
    assert codes(
        cc(blob_source(BLOB + bytes(9), attributes=""), tmp_path / "a.so", "-Wl,-Bsymbolic")
    ) == ["blob_size"]
    longer = u64(len(BLOB) - 8 + 9) + BLOB[8:] + bytes(9)
    assert codes(cc(blob_source(longer, attributes=""), tmp_path / "b.so", "-Wl,-Bsymbolic")) == [
        "trailing_bytes"
    ]
    for lie in (len(BLOB), 2**62, 2**64 - 1):
        with pytest.raises(FormatError) as caught:
            Library(cc(blob_source(u64(lie) + BLOB[8:], attributes=""), tmp_path / "c.so"))
        assert caught.value.code == "size"


@pytest.mark.parametrize(
    ("user", "context"),
    [
        ("void *__TVMBackendGetFuncFromEnv;", "void *__tvm_module_ctx;"),
        (
            "int TVMBackendGetFuncFromEnv(); int f() { return TVMBackendGetFuncFromEnv(); }",
            "void *__tvm_module_ctx;",
        ),
        (
            "void *__TVMFFIEnvModLookupFromImports; int __tvm_ffi_f(void) { return 0; }",
            "void *__tvm_ffi__library_ctx;",
        ),
    ],
)
def test_calls_of_imported_modules_without_a_context(
    cc: Any, tmp_path: Path, user: str, context: str
) -> None:
    assert codes(cc(user + "int __tvm_x;", tmp_path / "a.so")) == ["missing_context"]
    assert codes(cc(user + context, tmp_path / "b.so")) == []


def test_modules_that_nothing_here_runs_are_told_once_for_each_type(
    cc: Callable[..., Path], tmp_path: Path
) -> None:
    json = string("s") + string('{"nodes": []}') + u64(0)
    blob = classic_blob(
        LIB, *[string("tensorrt") + json] * 3, row_ptr=(0, 3, 3, 3, 3), child=(1, 2, 3)
    )
    with Library(cc(blob_source(blob, attributes=""), tmp_path / "m.so", "-Wl,-Bsymbolic")) as lib:
        (remark,) = lib.diagnostics
    assert remark["code"] == "no_runtime"
    assert remark["message"].startswith(
        "3 entries (1, 2, 3) of type tensorrt: nothing of mblob runs it, it needs Ten"
    )


def test_an_executable_is_no_library(tmp_path: Path) -> None:
    source = tmp_path / "m.c"
    source.write_text(DEVC + "int main(void) { return 0; }")
    subprocess.run(["cc", source, "-no-pie", "-rdynamic", "-o", tmp_path / "m"], check=True)
    assert "not_shared" in codes(tmp_path / "m")


def test_metadata_and_text_of_ffi_functions_belong_to_them(
    cc: Callable[..., Path], tmp_path: Path
) -> None:
    names = (
        "__tvm_ffi_add",
        "__tvm_ffi__metadata_add",
        "__tvm_ffi__doc_add",
        "__tvm_ffi_sub",
        "__tvm_ffi_main",
    )
    source = "".join(f"int {n}(void) {{ return 0; }}\n" for n in names)
    with Library(cc(source, tmp_path / "m.so")) as lib:
        assert lib.functions == ["add", "main", "sub"]
        add = lib.host_functions[0]
        assert (add.symbol, add.abi) == ("__tvm_ffi_add", "ffi")
        assert (add.metadata, add.doc) == ("__tvm_ffi__metadata_add", "__tvm_ffi__doc_add")
        assert (lib.host_functions[2].metadata, lib.entry_function) == (None, "main")


def test_beside_ffi_functions_other_code_is_none_of_the_module(
    cc: Callable[..., Path], tmp_path: Path
) -> None:
    """As in C++ that tvm_ffi compiles, whose templates are all exported; a classic library has
    every function."""
    names = ("__tvm_ffi_add", "_ZN3tvm3ffi5ErrorC1Ev", "add")
    source = "".join(f"int {n}(void) {{ return 0; }}\n" for n in names)
    with Library(cc(source, tmp_path / "m.so")) as lib:
        assert [(f.symbol, f.abi) for f in lib.host_functions] == [("__tvm_ffi_add", "ffi")]
    with Library(cc(source + "void *__TVMAPISetLastError;", tmp_path / "c.so")) as lib:
        assert {(f.symbol, f.abi) for f in lib.host_functions} >= {
            ("__tvm_ffi_add", "ffi"),
            ("add", "packed"),
        }


def test_functions_of_tvm_0_21_have_plain_names(cc: Callable[..., Path], tmp_path: Path) -> None:
    with Library(
        cc("void *__tvm_ffi_library_ctx; int add(void) { return 0; }", tmp_path / "m.so")
    ) as lib:
        assert [(f.name, f.symbol, f.abi) for f in lib.host_functions] == [("add", "add", "ffi")]
        assert (lib.era.range, lib.era.dialect) == ("0.21", "ffi")


def test_plain_functions_have_the_types_of_the_table(tmp_path: Path) -> None:
    prototype = "void f(float *x, int n)"
    host = mblob.csource_module(f"{prototype} {{ x[0] = n; }}\n", fmt="c", functions=[prototype])
    host.export_library(tmp_path / "m.so")
    with Library(tmp_path / "m.so") as lib:
        assert [(f.name, f.abi, f.types) for f in lib.host_functions] == [
            ("f", "packed", "float *, int"),
            ("f", "plain", "float *, int"),
        ]


def test_a_closed_library_says_so(cc: Callable[..., Path], tmp_path: Path) -> None:
    lib = Library(cc(DEVC, tmp_path / "m.so"))
    entry = lib.entries[1]
    view = entry.view()
    lib.close()
    assert bytes(view) == CUDA
    for ask in (entry.view, lambda: lib.target, lib.to_json, lib.blob_bytes):
        with pytest.raises(ValueError, match="the library is closed"):
            ask()
