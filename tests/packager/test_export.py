"""`export_library`: what is in the file, whatever way it got there."""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mblob
from mblob.binary.elf_records import PT_LOAD, SHT_NOBITS
from mblob.format.blob_plan import BLOB_ALIGN, LARGE_PAYLOAD, TENSOR_ALIGN
from tests.packager.conftest import PAYLOAD, VADD, VADD_C, check

LINKERS = ("bfd", "gold", "lld", "mold")
LINKER_TOOLS = {"bfd": "ld.bfd", "gold": "ld.gold", "lld": "ld.lld", "mold": "mold"}
Require = Callable[[str], str]


@pytest.mark.sample(1)
@pytest.mark.parametrize("linker", LINKERS)
@pytest.mark.parametrize("embed", ["auto", "object", "append", "c"])
def test_every_linker_takes_every_embedding(
    tmp_path: Path, tree: mblob.Module, require: Require, linker: str, embed: str
) -> None:
    require(LINKER_TOOLS[linker])
    try:
        tree.export_library(tmp_path / "x.so", options=[f"-fuse-ld={linker}"], embed=embed)
    except mblob.ToolchainError as error:
        if (embed, linker) != ("append", "gold") or "left no program header" not in str(error):
            raise
        pytest.skip("a gold that keeps notes apart (binutils 2.35 does not) is not installed")
    check(tmp_path / "x.so")


def test_grow_gives_the_blob_the_last_segment_alone(tmp_path: Path, tree: mblob.Module) -> None:
    tree.export_library(tmp_path / "x.so", embed="grow")
    check(tmp_path / "x.so")
    with mblob.open(tmp_path / "x.so") as lib:
        last = [s for s in lib.elf.segments if s.p_type == PT_LOAD][-1]
        assert lib.blob is not None
        lead = lib.blob_offset - last.p_offset  # aligns the payload of a program's own key
        size = lead + lib.blob.size
        assert (last.p_flags, last.p_filesz, last.p_memsz) == (4, size, size)
        assert 0 <= lead < TENSOR_ALIGN
        assert last.p_offset % TENSOR_ALIGN == last.p_vaddr % TENSOR_ALIGN == 0
        assert (last.p_vaddr - last.p_offset) % last.p_align == 0
        sizes = {
            s.st_size for s in (*lib.elf.dynsym, *lib.elf.symtab) if s.name == "__tvm_dev_mblob"
        }
        assert sizes == {lib.blob.size}


def gap_before_blob(path: Path) -> int:
    """Bytes of the file between what else is loaded and the blob."""
    with mblob.open(path) as lib:
        assert lib.blob_offset is not None
        ends = [
            s.p_offset + s.p_filesz
            for s in lib.elf.segments
            if s.p_type == PT_LOAD and s.p_offset + s.p_filesz <= lib.blob_offset
        ]
        return lib.blob_offset - max(ends)


@pytest.mark.parametrize(
    ("embed", "linker"),
    [("grow", "bfd"), ("grow", "gold"), ("grow", "lld"), ("append", "bfd"), ("append", "lld")],
)
def test_a_small_library_has_no_gap_in_front_of_its_modules(
    tmp_path: Path, tree: mblob.Module, require: Require, linker: str, embed: str
) -> None:
    require(LINKER_TOOLS[linker])
    tree.export_library(tmp_path / "x.so", options=[f"-fuse-ld={linker}"], embed=embed)
    check(tmp_path / "x.so")
    behind = 4096 if embed == "append" else 0  # of what is not loaded: names, section headers
    assert gap_before_blob(tmp_path / "x.so") < 4096 + behind
    assert (tmp_path / "x.so").stat().st_size < len(PAYLOAD) + 32768


def test_a_small_library_has_at_most_a_page_of_padding(root: Path, tmp_path: Path) -> None:
    """Bytes of the file that are in no table and no section, of the demo and of one kernel."""
    build = [sys.executable, "-m", "mblob.cli.main", "build"]
    prototype = "void vadd(const float *a, const float *b, float *c, int64_t n)"
    kernel = ["--kernel", root / "examples/vadd.c", "--function", prototype]
    for words in ([root / "examples/digits/digits.toml"], kernel):
        subprocess.run([*build, *words, "-o", tmp_path / "x.so"], check=True)
        with mblob.open(tmp_path / "x.so") as lib:
            elf = lib.elf
            places = [
                (0, 64),
                (elf.e_phoff, elf.e_phnum * elf.e_phentsize),
                (elf.e_shoff, elf.e_shnum * elf.e_shentsize),
                *((s.sh_offset, s.sh_size) for s in elf.sections if s.sh_type != SHT_NOBITS),
            ]
        gaps, end = [], 0
        for offset, size in sorted(places):
            gaps.append(max(0, offset - end))
            end = max(end, offset + size)
        assert end == (tmp_path / "x.so").stat().st_size
        assert sum(gap for gap in gaps if gap > 64) <= 4096, gaps  # the others align a section


def test_a_large_payload_starts_where_it_copies_fast(tmp_path: Path, vadd: mblob.Module) -> None:
    vadd.import_module(mblob.blob_module("my_key", bytes(LARGE_PAYLOAD)))
    vadd.export_library(tmp_path / "x.so")
    with mblob.open(tmp_path / "x.so") as lib:
        assert lib.blob_offset is not None
        assert lib.blob_offset % BLOB_ALIGN < TENSOR_ALIGN
        assert lib.entries[1].offset is not None and lib.entries[1].offset % TENSOR_ALIGN == 0


@pytest.mark.sample(1)
@pytest.mark.parametrize("embed", ["grow", "append", "object"])
def test_a_machine_with_pages_of_64_kib_can_map_every_segment(
    tmp_path: Path, tree: mblob.Module, require: Require, embed: str
) -> None:
    """No two segments need one page, and each offset fits its address modulo the page size."""
    require("aarch64-linux-gnu-gcc")
    tree.export_library(tmp_path / "x.so", target="aarch64-linux-gnu", embed=embed)
    with mblob.open(tmp_path / "x.so") as lib:
        loads = [s for s in lib.elf.segments if s.p_type == PT_LOAD]
        for page in (1 << 12, 1 << 14, 1 << 16):
            assert [s for s in loads if (s.p_vaddr - s.p_offset) % page or s.p_align < page] == []
            pages = [(s.p_vaddr // page, (s.p_vaddr + s.p_memsz - 1) // page) for s in loads]
            assert all(last < first for (_, last), (first, _) in zip(pages, pages[1:]))


def test_tensors_of_a_small_library_are_aligned_in_memory(
    tmp_path: Path, vadd: mblob.Module
) -> None:
    w = np.arange(3, dtype="float32")
    vadd.import_module(mblob.safetensors_module({"w": w}))
    vadd.export_library(tmp_path / "x.so")
    tensor = mblob.load_module(tmp_path / "x.so").tensors["w"]
    assert tensor.address % 64 == 0
    assert (tensor.numpy() == w).all()


ODD_LINKS = [
    "-s",
    "-flto",
    "-Wl,--gc-sections -ffunction-sections",
    "-Wl,--hash-style=sysv",
    "-Wl,--build-id=none",
    "-Wl,-z,separate-code",
    "-Wl,-z,max-page-size=2097152",
    "-Wl,--emit-relocs",
    "-g",
    "-fuse-ld=lld -s",
    "-fuse-ld=lld -Wl,--no-rosegment",
    "-fuse-ld=lld -Wl,-z,separate-loadable-segments",
    "-fuse-ld=gold -Wl,-z,max-page-size=65536",
]


@pytest.mark.sample(2)
@pytest.mark.parametrize("options", ODD_LINKS)
def test_grow_works_whatever_the_link_looks_like(
    tmp_path: Path, tree: mblob.Module, require: Require, options: str
) -> None:
    for linker in ("lld", "gold"):
        if linker in options:
            require(f"ld.{linker}")
    tree.import_module(
        mblob.csource_module('__attribute__((section("odd_place"))) const int odd = 1;\n')
    )
    source = (
        "extern const char __tvm_dev_mblob[];\nconst char *blob(void) { return __tvm_dev_mblob; }\n"
    )
    tree.import_module(mblob.csource_module(source))
    tree.export_library(tmp_path / "x.so", options=options, embed="grow")
    check(tmp_path / "x.so")
    opened = ctypes.CDLL(str(tmp_path / "x.so"))
    opened.blob.restype = ctypes.c_void_p
    assert opened.blob() == ctypes.addressof(ctypes.c_char.in_dll(opened, "__tvm_dev_mblob"))


@pytest.mark.parametrize("cc", ["clang", "gcc"])
def test_every_c_compiler_packs(
    tmp_path: Path, tree: mblob.Module, require: Require, cc: str
) -> None:
    tree.export_library(tmp_path / "x.so", cc=require(cc))
    check(tmp_path / "x.so")


def test_grow_refuses_mold_by_name(tmp_path: Path, tree: mblob.Module, require: Require) -> None:
    require("mold")
    with pytest.raises(mblob.ToolchainError, match="mold knows no linker scripts"):
        tree.export_library(tmp_path / "x.so", options=["-fuse-ld=mold"], embed="grow")


PAGES = "-Wl,-z,max-page-size=16384,-z,common-page-size=16384"


def test_a_library_for_pages_of_16_kib_packs_and_opens(tmp_path: Path, require: Require) -> None:
    """As Android asks for, linked by lld."""
    require("ld.lld")
    source = "static int seen; int f(int x) { return x + ++seen; }"
    module = mblob.csource_module(source, functions=["int f(int x)"])
    module.import_module(mblob.blob_module("note", b"text"))
    module.export_library(tmp_path / "x.so", options=["-fuse-ld=lld", PAGES])
    assert mblob.verify(tmp_path / "x.so").has_blob
    assert mblob.load_module(tmp_path / "x.so").f(1) == 2


def test_a_library_that_glibc_refuses_is_not_written(tmp_path: Path, require: Require) -> None:
    """mold packs relocations, and does not say that the library needs a glibc that knows these."""
    require("mold")
    source = (
        "#include <stdlib.h>\nstatic int v; int *const table[64] = {[0 ... 63] = &v};"
        " int f(int x) { return abs(x) + (table[x] != 0) + rand(); }"
    )
    module = mblob.csource_module(source, functions=["int f(int x)"])
    options = ["-fno-builtin", "-fuse-ld=mold", "-Wl,-z,pack-relative-relocs"]
    with pytest.raises(mblob.BuildError) as refused:
        module.export_library(tmp_path / "x.so", options=options)
    assert str(refused.value).startswith("x.so: the linked library cannot be opened: it has packed")
    assert not (tmp_path / "x.so").exists()


TOOLS = ["strip", "strip -g", "objcopy", "objcopy --strip-debug", "patchelf --set-rpath /nowhere"]


@pytest.mark.sample(2)
@pytest.mark.parametrize("embed", ["grow", "append", "object"])
@pytest.mark.parametrize("command", TOOLS)
def test_the_library_survives_the_usual_tools(
    tmp_path: Path, tree: mblob.Module, require: Require, embed: str, command: str
) -> None:
    require(command.split()[0])
    tree.export_library(tmp_path / "x.so", embed=embed)
    subprocess.run([*command.split(), tmp_path / "x.so"], check=True)
    check(tmp_path / "x.so")


def test_the_stack_is_not_executable_and_references_bind_inside(
    tmp_path: Path, tree: mblob.Module
) -> None:
    tree.export_library(tmp_path / "x.so")
    text = subprocess.run(
        ["readelf", "-lWd", tmp_path / "x.so"], capture_output=True, text=True, check=True
    ).stdout
    assert " RW " in next(line for line in text.splitlines() if "GNU_STACK" in line).replace(
        "RWE", ""
    )
    assert "SYMBOLIC" in text


def test_the_library_is_executable_as_a_linker_leaves_it(
    tmp_path: Path, tree: mblob.Module
) -> None:
    tree.export_library(tmp_path / "x.so")
    mask = os.umask(0)
    os.umask(mask)
    assert (tmp_path / "x.so").stat().st_mode & 0o777 == 0o777 & ~mask


def test_the_same_inputs_give_the_same_bytes_wherever_they_lie(tmp_path: Path) -> None:
    found = set()
    for name in ("one", "another_place"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "k.c").write_text(
            '#include "k.h"\n' + VADD_C + "const char *where(void) { return __FILE__; }\n"
        )
        (folder / "k.h").write_text("\n")
        (folder / "b").write_bytes(PAYLOAD)
        host = mblob.csource_module(folder / "k.c", functions=[VADD], options="-g")
        host.import_module(mblob.blob_module("my_key", folder / "b"))
        host.export_library(folder / "x.so")
        found.add((folder / "x.so").read_bytes())
    assert len(found) == 1


def test_the_build_id_depends_on_the_payload(tmp_path: Path) -> None:
    ids = set()
    for digest in ("crc32", "none"):
        for byte in b"ab":
            host = mblob.csource_module(";")
            host.import_module(mblob.blob_module("k", bytes([byte])))
            host.export_library(tmp_path / "x.so", options=["-Wl,--build-id=sha1"], digest=digest)
            text = subprocess.run(
                ["readelf", "-n", tmp_path / "x.so"], capture_output=True, text=True
            ).stdout
            ids.add(next(line for line in text.splitlines() if "Build ID" in line))
    assert len(ids) == 4


@pytest.mark.parametrize("index", [True, False])
def test_a_library_alone_has_an_index_or_no_blob(
    tmp_path: Path, vadd: mblob.Module, index: bool
) -> None:
    vadd.export_library(tmp_path / "x.so", index=index)
    with mblob.open(tmp_path / "x.so") as lib:
        assert (lib.blob is not None) == index
        assert [e.type_key for e in lib.entries] == ["library"]
        assert lib.functions == lib.plain_functions == ["vadd"]


@pytest.mark.parametrize("index", [True, False])
def test_a_tree_without_host_code_is_a_library_too(tmp_path: Path, index: bool) -> None:
    root = mblob.device_module("cuda", "//PTX", functions=["k"])
    root.export_library(tmp_path / "x.so", index=index)
    with mblob.open(tmp_path / "x.so", verify="full") as lib:
        assert [e.type_key for e in lib.entries] == ["cuda"]
        assert bytes(lib.entries[0].view()) == bytes(root.payload)


def test_a_diamond_goes_out_and_comes_back(tmp_path: Path) -> None:
    """TVM 0.14 refuses to write this tree and reads it."""
    root, left, right, low = (
        mblob.blob_module(k, k.encode()) for k in ("root", "left", "right", "low")
    )
    root.import_module(left)
    root.import_module(right)
    left.import_module(right)
    right.import_module(low)
    left.import_module(low)
    root.export_library(tmp_path / "x.so")
    with mblob.open(tmp_path / "x.so", verify="full") as lib:
        keys = [e.type_key for e in lib.entries]
        edges = {(e.type_key, keys[i]) for e in lib.entries for i in e.imports}
    assert edges == {
        ("root", "left"),
        ("root", "right"),
        ("left", "right"),
        ("left", "low"),
        ("right", "low"),
    }


def test_a_circle_through_the_library_is_refused_by_name(tmp_path: Path) -> None:
    a, b = mblob.csource_module("int a;"), mblob.csource_module("int b;")
    middle = mblob.blob_module("middle", b"")
    a.import_module(middle)
    middle.import_module(b)
    with pytest.raises(mblob.MblobError, match=r"circle.*middle"):
        a.export_library(tmp_path / "x.so")


def test_several_host_modules_become_one_library(tmp_path: Path) -> None:
    root = mblob.csource_module("int f(void) { return 1; }\n")
    root.import_module(mblob.csource_module("int g(void) { return 2; }\n"))
    subprocess.run(
        "echo 'int h(void){return 3;}' | gcc -fPIC -c -xc - -o h.o",
        shell=True,
        cwd=tmp_path,
        check=True,
    )
    subprocess.run("ar rc h.a h.o", shell=True, cwd=tmp_path, check=True)
    root.import_module(mblob.static_library(tmp_path / "h.a", functions=["h"]))
    root.export_library(tmp_path / "x.so")
    with mblob.open(tmp_path / "x.so") as lib:
        assert (lib.plain_functions, lib.packed_functions, len(lib.entries)) == (
            ["f", "g"],
            ["f", "g", "h"],
            1,
        )


def test_objects_may_come_as_bytes(tmp_path: Path) -> None:
    subprocess.run(
        "echo 'int h(void){return 3;}' | gcc -fPIC -c -xc - -o h.o",
        shell=True,
        cwd=tmp_path,
        check=True,
    )
    module = mblob.static_library((tmp_path / "h.o").read_bytes(), functions=["int h(void)"])
    module.export_library(tmp_path / "x.so")
    assert ctypes.CDLL(str(tmp_path / "x.so")).h() == 3


def test_cxx_and_c_are_linked_together(tmp_path: Path, require: Require) -> None:
    require("g++")
    root = mblob.csource_module("int f(void) { return 1; }\n")
    text = '#include <string>\nextern "C" int g() { return (int)std::string("abc").size(); }\n'
    root.import_module(mblob.csource_module(text, fmt="cc"))
    root.export_library(tmp_path / "x.so")
    assert ctypes.CDLL(str(tmp_path / "x.so")).g() == 3


def test_tvm_code_with_vector_types_compiles_and_needs_no_cxx_library(
    tmp_path: Path, golden: Path
) -> None:
    mblob.csource_module(golden / "conv2d_vectorized.c").export_library(tmp_path / "x.so")
    with mblob.open(tmp_path / "x.so") as lib:
        assert lib.functions == ["tvmgen_default_fused_nn_conv2d_nn_bias_add_nn_relu"]
        assert not [n for n in lib.elf.needed if "stdc++" in n]
        assert not [u for u in lib.undefined if u.startswith("TVM")]


def test_objects_made_with_other_headers_leave_no_runtime_function_undefined(
    tmp_path: Path,
) -> None:
    (tmp_path / "k.c").write_text(
        "void *TVMBackendAllocWorkspace(int, int, unsigned long, int, int);\n"
        "int TVMBackendFreeWorkspace(int, int, void *);\nvoid TVMAPISetLastError(const char *);\n"
        'int k(void) { TVMAPISetLastError("k: no"); void *p = TVMBackendAllocWorkspace(1, 0, 100, 2, 32);\n'
        "  return p && (unsigned long)p % 64 == 0 ? TVMBackendFreeWorkspace(1, 0, p) : -1; }\n"
    )
    subprocess.run(["gcc", "-fPIC", "-c", "k.c", "-o", "k.o"], cwd=tmp_path, check=True)
    mblob.static_library(tmp_path / "k.o").export_library(tmp_path / "x.so")
    with mblob.open(tmp_path / "x.so") as lib:
        assert not [u for u in lib.undefined if u.startswith("TVM")]
        assert not [s.name for s in lib.elf.dynsym if s.name.startswith("TVM")]
    opened = ctypes.CDLL(str(tmp_path / "x.so"))
    assert opened.k() == 0


def test_links_for_another_machine(tmp_path: Path, tree: mblob.Module, require: Require) -> None:
    require("aarch64-linux-gnu-gcc")
    for how in (
        {"cc": "aarch64-linux-gnu-gcc"},
        {"target": "aarch64-linux-gnu"},
        {"target": "aarch64-linux-gnu", "embed": "object"},
    ):
        tree.export_library(tmp_path / "x.so", **how)
        with mblob.open(tmp_path / "x.so", verify="full") as lib:
            assert lib.target["machine"] == "aarch64"
            assert lib.blob is not None
            assert lib.blob.target == "aarch64-linux-gnu"


def test_large_payloads_cost_no_memory(
    tmp_path: Path, peak_memory: Callable[[Callable[[], object]], int]
) -> None:
    with (tmp_path / "big").open("wb") as file:
        file.truncate(300 << 20)
    host = mblob.csource_module(";")
    host.import_module(mblob.blob_module("k", tmp_path / "big"))
    assert peak_memory(lambda: host.export_library(tmp_path / "x.so", digest="none")) < 16 << 20
    assert (tmp_path / "x.so").stat().st_size > 300 << 20


def test_digests_are_recorded(tmp_path: Path, tree: mblob.Module) -> None:
    tree.export_library(tmp_path / "x.so", digest="sha256")
    with mblob.open(tmp_path / "x.so", verify="full") as lib:
        assert lib.entries[1].digest == hashlib.sha256(PAYLOAD).digest()


@pytest.mark.parametrize("name", ["x.so", "x.tar"])
def test_a_library_that_mblob_cannot_open_is_warned_of(
    tmp_path: Path, tree: mblob.Module, name: str
) -> None:
    tree.import_module(mblob.json_module("dnnl_json", "f", "{}"))
    message = r"has 'my_key' and no index, because .*; use index=False only for"
    with pytest.warns(mblob.UnreadableWarning, match=message) as found:
        tree.export_library(tmp_path / name, index=False)
    assert [w.filename for w in found] == [__file__]


def test_keys_that_are_known_need_no_index(tmp_path: Path, vadd: mblob.Module) -> None:
    vadd.import_module(mblob.json_module("dnnl_json", "f", "{}"))
    vadd.export_library(tmp_path / "x.so", index=False)  # a warning would be an error here
    with mblob.open(tmp_path / "x.so") as lib:
        assert [e.type_key for e in lib.entries] == ["library", "dnnl_json"]
