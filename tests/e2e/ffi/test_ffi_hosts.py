"""Libraries of the ffi dialect in the hosts that they are for: TVM 0.27, and tvm_ffi alone."""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.e2e.ffi.ffi_sources import PACKED, plain_module
from tests.e2e.programs import ffi_host, run

HOSTS = ("tvm", "tvm_ffi")


@pytest.fixture(scope="module", autouse=True)
def _installed(package_of: Callable[[str], Path]) -> None:
    for package in ("tvm", "tvm_ffi"):
        package_of(package)


@pytest.fixture(scope="module")
def of_tvm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what TVM exports: {c,llvm}.{so,tar}."""
    folder = tmp_path_factory.mktemp("of_tvm")
    ffi_host("tvm", "make", folder)
    return folder


def unpacked(tar: Path, folder: Path) -> list[Path]:
    folder.mkdir()
    run("tar", "xf", tar, "-C", folder)
    return sorted(folder.iterdir())


@pytest.mark.parametrize("embed", ["grow", "object", "c", "append"])
def test_plain_functions_are_called_and_check_their_arguments(tmp_path: Path, embed: str) -> None:
    plain_module().export_library(tmp_path / "f.so", dialect="ffi", embed=embed)
    for which in HOSTS if embed == "grow" else HOSTS[1:]:
        ffi_host(which, "functions", tmp_path / "f.so")


def test_hidden_functions_and_an_fcompile_of_the_callers(tmp_path: Path) -> None:
    plain_module(packed="name").export_library(tmp_path / "hidden.so", dialect="ffi")
    with mblob.open(tmp_path / "hidden.so") as lib:
        exported = {s.name for s in lib.elf.dynsym if s.is_exported}
        assert "vadd" not in exported and "__tvm_ffi_vadd" in exported
    ffi_host("tvm_ffi", "functions", tmp_path / "hidden.so")

    def link(name: str, files: list[str], options: tuple[str, ...] = ()) -> None:
        subprocess.run(["cc", "-shared", "-fPIC", "-o", name, *files, *options], check=True)

    plain_module().export_library(tmp_path / "foreign.so", fcompile=link, dialect="ffi")
    ffi_host("tvm_ffi", "functions", tmp_path / "foreign.so")


def test_objects_of_a_tar_are_linked_elsewhere(tmp_path: Path) -> None:
    plain_module().export_library(tmp_path / "f.tar", dialect="ffi")
    files = unpacked(tmp_path / "f.tar", tmp_path / "files")
    run("cc", "-shared", "-o", tmp_path / "f.so", *files)
    ffi_host("tvm_ffi", "functions", tmp_path / "f.so")


def test_payloads_of_every_kind_arrive(tmp_path: Path) -> None:
    root = plain_module()
    root.import_module(mblob.blob_module("my.kind", b"hello"))
    tags = ["blockIdx.x", "threadIdx.x", "tir.use_dyn_shared_memory"]
    kernel = {
        "name": "k",
        "arg_types": ["handle", "bool"],
        "launch_param_tags": tags,
        "arg_extra_tags": [1, 0],
    }
    root.import_module(mblob.device_module("cuda", "//PTX", functions=[kernel]))
    metal = mblob.device_module(
        "metal", {"k": "kernel void k() {}"}, functions=[("k", ["handle"], tags[:1])]
    )
    root.import_module(metal)
    root.import_module(mblob.json_module("dnnl_json", "ext", {"nodes": []}, ["w"]))
    root.import_module(mblob.const_loader_module({"w": np.ones(2, "bool")}, {"ext": ["w"]}))
    path = tmp_path / "tree.so"
    root.export_library(path, dialect="ffi")
    ffi_host("tvm_ffi", "tree", path)
    with mblob.open(path, verify="full") as lib:
        want = b"".join(struct.pack("<Q", e.size) + bytes(e.view()) for e in lib.entries[1:])
        assert (tmp_path / "tree.so.payloads").read_bytes() == want
        (cuda,) = next(e for e in lib.entries if e.type_key == "cuda").kernels
    assert cuda.launch_param_tags[-1] == "tirx.use_dyn_shared_memory"
    assert cuda.arg_extra_tags == (1, 0)
    assert [str(t) for t in cuda.arg_types] == ["handle", "bool"]
    assert bytes((6, 8, 1, 0)) in want  # DLPack's bool


def test_constants_are_read_by_tvms_own_loader(tmp_path: Path) -> None:
    root = mblob.const_loader_module(
        {"a": np.arange(3.0), "b": np.ones((2, 2), "int8")}, {"ext": ["b", "a"]}
    )
    root.import_module(plain_module())
    root.export_library(tmp_path / "constants.so", dialect="ffi")
    ffi_host("tvm", "constants", tmp_path / "constants.so")


def test_weights_are_for_loaders_of_the_host_where_there_is_no_index(tmp_path: Path) -> None:
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    file = tmp_path / "w.safetensors"
    file.write_bytes(struct.pack("<Q", len(header)) + header + struct.pack("<2f", 1, 2))
    root = plain_module()
    root.import_module(mblob.safetensors_module(file))
    root.export_library(tmp_path / "w.so", dialect="ffi", index=False)
    ffi_host("tvm_ffi", "weights", tmp_path / "w.so", file)


@pytest.mark.parametrize("which", HOSTS)
def test_kernels_of_tvm_are_linked_as_they_are(of_tvm: Path, tmp_path: Path, which: str) -> None:
    (source,) = unpacked(of_tvm / "c.tar", tmp_path / "c")
    mblob.csource_module(source).export_library(tmp_path / "c.so", dialect="ffi")
    ffi_host(which, "own_kernels", tmp_path / "c.so")
    (object_file,) = unpacked(of_tvm / "llvm.tar", tmp_path / "llvm")
    mblob.static_library(object_file).export_library(tmp_path / "llvm.so", dialect="ffi")
    ffi_host(which, "own_kernels", tmp_path / "llvm.so")


def test_objects_that_call_the_runtime_by_name_find_it(
    of_tvm: Path, tmp_path: Path, package_of: Callable[[str], Path]
) -> None:
    """C that was compiled against TVM's headers leaves functions undefined."""
    (source,) = unpacked(of_tvm / "c.tar", tmp_path / "c")
    ffi = package_of("tvm_ffi")
    folders = [
        package_of("tvm") / "include",
        ffi / "include",
        ffi / "3rdparty" / "dlpack" / "include",
    ]
    made = tmp_path / "made.o"
    run("cc", "-c", "-fPIC", source, "-o", made, *(f"-I{folder}" for folder in folders))
    mblob.static_library(made).export_library(tmp_path / "made.so", dialect="ffi")
    with mblob.open(tmp_path / "made.so") as lib:
        assert not [name for name in lib.undefined if name.startswith("TVM")]
    ffi_host("tvm_ffi", "own_kernels", tmp_path / "made.so")


@pytest.mark.parametrize("which", HOSTS)
def test_functions_of_the_classic_convention_get_adapters(tmp_path: Path, which: str) -> None:
    mblob.csource_module(PACKED).export_library(tmp_path / "adapted.so", dialect="ffi")
    ffi_host(which, "adapted", tmp_path / "adapted.so")


def test_a_library_opened_by_hand_beside_tvm_ffi_has_no_module_to_look_in(tmp_path: Path) -> None:
    mblob.csource_module(PACKED).export_library(tmp_path / "adapted.so", dialect="ffi")
    ffi_host("tvm_ffi", "without_a_loader", tmp_path / "adapted.so")


def test_adapters_are_linked_by_an_fcompile_of_the_callers(tmp_path: Path) -> None:
    """Of objects: what sources define, only the caller's compiler sees."""
    mblob.csource_module(PACKED).export_library(tmp_path / "packed.tar", index=False)
    (made,) = unpacked(tmp_path / "packed.tar", tmp_path / "files")

    def link(name: str, files: list[str], options: tuple[str, ...] = ()) -> None:
        subprocess.run(["cc", "-shared", "-fPIC", "-o", name, *files, *options], check=True)

    mblob.static_library(made).export_library(tmp_path / "foreign.so", fcompile=link, dialect="ffi")
    ffi_host("tvm_ffi", "adapted", tmp_path / "foreign.so")


@pytest.mark.sample(2)
@pytest.mark.parametrize("prefix", ["", "p_"])
@pytest.mark.parametrize("suffix", ["o", "a"])
def test_system_libraries_announce_themselves(tmp_path: Path, prefix: str, suffix: str) -> None:
    root = plain_module()
    root.import_module(mblob.blob_module("my.kind", b"hello"))
    objects = tmp_path / f"lib.{suffix}"
    root.export_library(objects, dialect="ffi", system_lib=True, prefix=prefix)
    lines = [line.split() for line in run("nm", objects).stdout.splitlines()]
    names = {words[2] for words in lines if len(words) == 3}
    assert {f"__tvm_ffi_{prefix}vadd", f"{prefix}__tvm_ffi__library_bin"} <= names
    run(
        "cc",
        "-shared",
        "-o",
        tmp_path / "program.so",
        "-Wl,--whole-archive",
        objects,
        "-Wl,--no-whole-archive",
    )
    ffi_host("tvm_ffi", "system_lib", tmp_path / "program.so", prefix)


@pytest.mark.parametrize("which", HOSTS)
def test_finished_libraries_of_the_classic_dialect_run_in_todays_hosts(
    tmp_path: Path, which: str
) -> None:
    mblob.csource_module(PACKED).export_library(tmp_path / "classic.so")
    mblob.convert(tmp_path / "classic.so", tmp_path / "joined.so", dialect="ffi")
    ffi_host(which, "adapted", tmp_path / "joined.so")
    if which == "tvm_ffi":
        ffi_host(which, "without_a_loader", tmp_path / "joined.so")


def test_what_tvm_0_14_exported_runs_in_tvm_of_today(tmp_path: Path, golden: Path) -> None:
    for name in ("host_llvm", "host_c", "host_parallel", "opencl_llvm"):
        mblob.convert(golden / f"{name}.so", tmp_path / f"{name}.so", dialect="ffi")
    x, y = (
        np.random.default_rng(0).random((512, 512), dtype="float32"),
        np.zeros((512, 512), "float32"),
    )
    mblob.load_module(golden / "host_parallel.so")["par_matmul"](x, y)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    ffi_host("tvm", "golden", tmp_path)


@pytest.mark.sample(1)
@pytest.mark.parametrize("target", ["c", "llvm"])
def test_what_tvm_exported_goes_to_classic_and_back(
    of_tvm: Path, tmp_path: Path, target: str
) -> None:
    mblob.convert(of_tvm / f"{target}.so", tmp_path / "classic.so", dialect="classic")
    mblob.convert(tmp_path / "classic.so", tmp_path / "back.so", dialect="ffi")
    for which in HOSTS:
        ffi_host(which, "own_kernels", tmp_path / "back.so")


@pytest.mark.sample(2)
@pytest.mark.parametrize("suffix", ["tar", "so"])
@pytest.mark.parametrize("target", ["c", "llvm"])
def test_what_tvm_exported_is_converted_and_runs_here(
    of_tvm: Path, tmp_path: Path, target: str, suffix: str
) -> None:
    calls: list[Any] = []
    mblob.register_func("my.callback", lambda *args: calls.append(args[1:]), override=True)
    mblob.convert(of_tvm / f"{target}.{suffix}", tmp_path / "classic.so", dialect="classic")
    lib = mblob.load_module(tmp_path / "classic.so")
    a, c = np.arange(4, dtype="float32"), np.zeros(4, "float32")
    lib["add"](a, a, c)
    assert c.tolist() == [0, 2, 4, 6]
    lib["packed"](a, 3, 2.5)
    assert calls == [(3, 2.5, "hello")]
    x, y = np.ones(1024, "float32"), np.zeros(1024, "float32")
    lib["work"](x, y)
    assert (y == 3).all()
    with pytest.raises(mblob.KernelError, match="TypeError: Mismatched type on argument #0"):
        lib["add"](1, 2, 3)


def test_what_is_converted_to_ffi_runs_in_both(tmp_path: Path) -> None:
    mblob.csource_module(PACKED).export_library(tmp_path / "packed.tar")
    mblob.convert(tmp_path / "packed.tar", tmp_path / "packed.so", dialect="ffi")
    for which in HOSTS:
        ffi_host(which, "adapted", tmp_path / "packed.so")


def test_an_empty_payload_is_refused_by_both(tmp_path: Path) -> None:
    """What mblob refuses to write, TVM refuses to read."""
    from tests.unit.test_ffi_dialect import LIB, blob, string, u64

    data = bytes(blob(LIB, string("my.kind") + u64(0)))
    text = f"const unsigned char __tvm_ffi__library_bin[] = {{{','.join(map(str, data))}}};"
    (tmp_path / "empty.c").write_text(text)
    run("cc", "-shared", "-fPIC", "-o", tmp_path / "empty.so", tmp_path / "empty.c")
    ffi_host("tvm_ffi", "refused", tmp_path / "empty.so")
