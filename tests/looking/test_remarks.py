"""Remarks, in both dialects and for each kind of file: a library that has one, and one that has
not."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from mblob.binary.elf_records import DT_REL, DT_RELA
from mblob.format.grammar import GRAMMARS
from mblob.format.type_keys import TABLE

PASSIVE = {"c", "static_library", "metadata_module"}  # hold nothing that is called
OF_PLUGIN = {"dnnl_packed"}  # whose payload only the plug-in reads that runs it


def u64(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


def text(value: str) -> bytes:
    return u64(len(value)) + value.encode()


BLOBS = {
    "classic": ("__tvm_dev_mblob", u64(2) + text("_lib") + text("_import_tree") + u64(2, 0, 0, 0)),
    "ffi": ("__tvm_ffi__library_bin", u64(2, 0, 0, 0) + text("_lib")),
}
FIND = {
    "classic": ("TVMBackendGetFuncFromEnv", "f", "__tvm_module_ctx"),
    "ffi": ("TVMFFIEnvModLookupFromImports", "__tvm_ffi_f", "__tvm_ffi__library_ctx"),
}
FUNCTION = "int f(void) { return 0; }\n"
STACK = '__asm__(".section .note.GNU-stack,\\"x\\",%progbits\\n.previous");\n'


def blob(
    dialect: str, *, const: str = "const", prefix: str = "", more: int = 0, behind: int = 0
) -> str:
    """A blob without modules; `more` bytes of the symbol, `behind` the modules."""
    name, body = BLOBS[dialect]
    body += bytes(behind)
    data = u64(len(body)) + body
    return f"{const} unsigned char {prefix}{name}[{len(data) + more}] = {{{','.join(map(str, data))}}};\n"


def calls(dialect: str, context: str = "") -> str:
    find, function, _ = FIND[dialect]
    return (
        f"{context}int {find}(void *, const char *, void **);\n"
        f'int {function}(void) {{ return {find}(0, "a", 0); }}\n'
    )


def context(dialect: str) -> str:
    return f"void *{FIND[dialect][2]};\n"


CASES: dict[str, tuple[Callable[[str], str], tuple[str, ...], set[str], set[str]]] = {
    # source, flags of the link, remarks of the shared library, remarks of objects
    "default": (lambda d: blob(d) + FUNCTION, (), {"interposable_blob"}, set()),
    "symbolic": (lambda d: blob(d) + FUNCTION, ("-Wl,-Bsymbolic",), set(), set()),
    "protected": (lambda d: blob(d, const='__attribute__((visibility("protected"))) const'), (), set(), set()),
    "writable": (lambda d: blob(d, const=""), ("-Wl,-Bsymbolic",), {"writable_blob"}, {"writable_blob"}),
    "stack": (
        lambda d: blob(d) + STACK, ("-Wl,-Bsymbolic", "-Wl,-z,execstack"), {"executable_stack"}, {"executable_stack"},
    ),
    "size": (lambda d: blob(d, more=8), ("-Wl,-Bsymbolic",), {"blob_size"}, {"blob_size"}),
    "behind": (lambda d: blob(d, behind=16), ("-Wl,-Bsymbolic",), {"trailing_bytes"}, {"trailing_bytes"}),
    "no context": (lambda d: blob(d) + calls(d), ("-Wl,-Bsymbolic",), {"missing_context"}, {"missing_context"}),
    "context": (lambda d: blob(d) + calls(d, context(d)), ("-Wl,-Bsymbolic",), set(), set()),
    "prefix": (lambda d: blob(d, prefix="p_"), ("-Wl,-Bsymbolic",), {"prefixed_blob"}, set()),
    "prefixes": (
        lambda d: blob(d, prefix="p_") + blob(d, prefix="q_"), ("-Wl,-Bsymbolic",),
        {"prefixed_blob", "several_prefixes"}, {"several_prefixes"},
    ),
    "relocated text": (
        lambda d: blob(d) + FUNCTION + '__asm__(".text\\n.quad f\\n");\n', ("-Wl,-Bsymbolic", "-Wl,-z,notext"),
        {"text_relocations"}, set(),
    ),
}  # fmt: skip


def codes(path: Path) -> set[str]:
    with mblob.open(path) as lib:
        assert lib.is_model_library
        return {d["code"] for d in lib.diagnostics}


@pytest.mark.sample(8)
@pytest.mark.parametrize("dialect", BLOBS)
@pytest.mark.parametrize("case", CASES)
def test_remarks(cc, tmp_path: Path, dialect: str, case: str) -> None:
    source, flags, of_library, of_objects = CASES[case]
    assert codes(cc(source(dialect), tmp_path / "m.so", *flags)) == of_library
    subprocess.run(["cc", "-c", "-fPIC", tmp_path / "m.c", "-o", tmp_path / "m.o"], check=True)
    subprocess.run(["ar", "rcs", tmp_path / "m.a", tmp_path / "m.o"], check=True)
    subprocess.run(["tar", "-C", tmp_path, "-cf", tmp_path / "m.tar", "m.o"], check=True)
    for name in ("m.o", "m.a", "m.tar"):
        assert codes(tmp_path / name) == of_objects, name


@pytest.mark.parametrize("dialect", BLOBS)
def test_members_that_do_not_go_together(cc, tmp_path: Path, dialect: str) -> None:
    cc(blob(dialect) + FUNCTION, tmp_path / "m.so")
    (tmp_path / "weak.c").write_text("__attribute__((weak)) int f(void) { return 1; }\n")
    for name, source in {"m": "m.c", "again": "m.c", "weak": "weak.c"}.items():
        subprocess.run(
            ["cc", "-c", "-fPIC", tmp_path / source, "-o", tmp_path / f"{name}.o"], check=True
        )
    for other, expected in {"again": {"duplicate_symbols"}, "weak": set()}.items():
        subprocess.run(["ar", "rcs", f"{other}.a", "m.o", f"{other}.o"], check=True, cwd=tmp_path)
        assert codes(tmp_path / f"{other}.a") == expected
    both = cc(blob("classic") + blob("ffi"), tmp_path / "both.so", "-Wl,-Bsymbolic")
    assert codes(both) == {"two_dialects", "era"}


def test_programs_are_no_libraries(cc, tmp_path: Path) -> None:
    cc(blob("classic") + "int main(void) { return 0; }", tmp_path / "m.so")
    for flag in ("-pie", "-no-pie"):
        program = tmp_path / f"program{flag}"
        subprocess.run(["cc", flag, "-rdynamic", tmp_path / "m.c", "-o", program], check=True)
        assert codes(program) == {"not_shared"}


def test_what_the_dynamic_linker_refuses(cc, tmp_path: Path) -> None:
    link = ("-Wl,-Bsymbolic", "-Wl,-z,nodlopen")
    library = cc(blob("classic"), tmp_path / "closed.so", *link)
    assert codes(library) == {"not_loadable"}
    library = cc(blob("classic") + FUNCTION + "int (*p)(void) = f;", tmp_path / "m.so", link[0])
    assert codes(library) == set()
    data = bytearray(library.read_bytes())
    with mblob.open(library) as lib:
        elf = lib.elf
        at = elf.offset_of(elf.dynamic[DT_RELA if DT_RELA in elf.dynamic else DT_REL][0], 1, "")
    data[at + 2] = 0xFF  # where the first relocation writes
    (tmp_path / "damaged.so").write_bytes(data)
    with mblob.open(tmp_path / "damaged.so") as lib:
        (remark,) = lib.diagnostics
    assert (remark["code"], remark["severity"]) == ("elf_dynamic", "error")
    assert "lies outside the data" in remark["message"]


def test_mold_leaves_no_mark_of_bsymbolic(
    cc, tmp_path: Path, require: Callable[[str], str]
) -> None:
    require("ld.mold")
    assert codes(cc(blob("classic"), tmp_path / "m.so", "-fuse-ld=mold", "-Wl,-Bsymbolic")) == set()
    user = blob("classic") + "const void *own(void) { return __tvm_dev_mblob; }\n"
    assert codes(cc(user, tmp_path / "u.so", "-fuse-ld=mold")) == {"interposable_blob"}


def test_each_type_of_modules_has_somebody_who_runs_it_or_a_remark() -> None:
    from mblob import loader

    runs = {"AotExecutorFactory", "GraphExecutorFactory", "GraphRuntimeFactory"}
    runs |= {"VMExecutable", "const_loader", "metadata", "relax.Executable", "relax.VMExecutable"}
    for path in (Path(loader.__file__).parent / "_lib").glob("libmblob-*.so"):
        with mblob.open(path) as lib:
            runs |= {key for plugin in lib.plugins for key in plugin.type_keys}
    remarks = {row.key for row in TABLE if row.needs and row.where}
    assert set(GRAMMARS) | OF_PLUGIN == runs | PASSIVE | remarks
    assert runs - set(GRAMMARS) >= OF_PLUGIN
    assert not (runs | PASSIVE) & remarks


def test_a_plugin_in_the_file_runs_its_modules(cc, tmp_path: Path) -> None:
    payload = text("s") + text('{"nodes": []}') + u64(0)
    body = (
        u64(3)
        + text("_lib")
        + text("tensorrt")
        + payload
        + text("_import_tree")
        + u64(3, 0, 1, 1, 1, 1)
    )
    data = u64(len(body)) + body
    source = f"const unsigned char __tvm_dev_mblob[] = {{{','.join(map(str, data))}}};\n"
    assert codes(cc(source, tmp_path / "without.so", "-Wl,-Bsymbolic")) == {"no_runtime"}
    texts = "char name[32], version[32], keys[192], devices[64], needs[192]"
    table = f"const struct {{ unsigned abi, size; {texts}; long rest[5]; }}"
    source += f'{table} __mblob_plugin_trt = {{1, 560, "trt", "1", "tensorrt", "", "", {{0}}}};\n'
    assert codes(cc(source, tmp_path / "with.so", "-Wl,-Bsymbolic")) == set()
