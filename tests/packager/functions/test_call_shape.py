"""`export_library` in TVM's call shape: fcompile, fpack_imports, addons, workspace_dir, options,
tar."""

from __future__ import annotations

import ctypes
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

import mblob
from tests.packager.conftest import check


class Compiler:
    """An fcompile of the caller's."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[str], dict[str, Any]]] = []

    def __call__(self, file_name: str, files: list[str], **kwargs: Any) -> str:
        self.calls.append((file_name, files, kwargs))
        options = kwargs.get("options", [])
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", file_name, *files, *options], check=True)
        return "what fcompile returned"


def test_fcompile_is_called_as_tvm_calls_it(tmp_path: Path, tree: mblob.Module) -> None:
    compiler = Compiler()
    (tmp_path / "addon.c").write_text("int addon;\n")
    addons, options = [str(tmp_path / "addon.c")], ["-O3"]
    result = tree.export_library(
        tmp_path / "x.so", compiler, None, addons, options=options, answer=42
    )
    assert result == "what fcompile returned"
    ((name, files, kwargs),) = compiler.calls
    assert Path(name).name == "x.so"
    assert [Path(f).name for f in files] == ["addon.c", "lib0.c", "mblob_functions.c", "devc.o"]
    assert kwargs["answer"] == 42
    assert kwargs["options"][0] == "-O3"
    assert (addons, options) == ([str(tmp_path / "addon.c")], ["-O3"]), (
        "the caller's lists are not modified"
    )
    check(tmp_path / "x.so")


def test_fcompile_without_imports_and_index_gets_no_blob(
    tmp_path: Path, vadd: mblob.Module
) -> None:
    compiler = Compiler()
    vadd.export_library(tmp_path / "x.so", compiler, index=False)
    assert [Path(f).name for f in compiler.calls[0][1]] == ["lib0.c", "mblob_functions.c"]


def test_fcompile_gets_text_where_the_target_has_no_elf(tmp_path: Path, tree: mblob.Module) -> None:
    def compiler(file_name: str, files: list[str], **kwargs: Any) -> list[str]:
        Path(file_name).touch()
        return [Path(f).name for f in files]

    compiler.get_target_triple = lambda: "arm64-apple-darwin"  # type: ignore[attr-defined]
    assert tree.export_library(tmp_path / "x.so", compiler)[-1] == "devc.c"


@pytest.mark.parametrize(
    ("triple", "machine", "flags"),
    [
        ("aarch64-linux-gnu", 183, 0),
        ("armv7l-linux-gnueabihf", 40, 0x5000400),
        ("riscv64-linux-gnu", 243, 5),
        ("i686-linux-gnu", 3, 0),
    ],
)
def test_devc_o_is_for_the_machine_of_fcompile(
    tmp_path: Path, tree: mblob.Module, triple: str, machine: int, flags: int
) -> None:
    seen = []

    def compiler(file_name: str, files: list[str], **kwargs: Any) -> None:
        from mblob.binary.elf import ElfFile

        Path(file_name).touch()
        elf = ElfFile(memoryview(Path(files[-1]).read_bytes()))
        seen.append((elf.e_machine, elf.e_flags))

    compiler.get_target_triple = lambda: triple  # type: ignore[attr-defined]
    tree.export_library(tmp_path / "x.so", compiler)
    assert seen == [(machine, flags)]


def test_fpack_imports_makes_the_file_with_the_modules(tmp_path: Path, tree: mblob.Module) -> None:
    def fpack(mod: mblob.Module, is_system_lib: bool, prefix: str, workspace: str) -> str:
        assert (mod, is_system_lib, prefix) == (tree, False, "")
        path = Path(workspace) / "mine.c"
        path.write_text("int mine(void) { return 7; }\n")
        return str(path)

    tree.export_library(tmp_path / "x.so", fpack_imports=fpack, workspace_dir=tmp_path / "work")
    assert ctypes.CDLL(str(tmp_path / "x.so")).mine() == 7
    with mblob.open(tmp_path / "x.so") as lib:
        assert lib.blob is None


def test_a_workspace_of_the_caller_is_kept(tmp_path: Path, tree: mblob.Module) -> None:
    tree.export_library(tmp_path / "x.so", workspace_dir=tmp_path / "work")
    assert (tmp_path / "work" / "lib0.o").exists()


def test_addons_are_compiled_and_linked(tmp_path: Path, tree: mblob.Module) -> None:
    (tmp_path / "a.c").write_text("int from_source(void) { return 1; }\n")
    subprocess.run(
        "echo 'int from_object(void){return 2;}' | gcc -fPIC -c -xc - -o b.o",
        shell=True,
        cwd=tmp_path,
        check=True,
    )
    tree.export_library(tmp_path / "x.so", addons=[tmp_path / "a.c", str(tmp_path / "b.o")])
    opened = ctypes.CDLL(str(tmp_path / "x.so"))
    assert (opened.from_source(), opened.from_object()) == (1, 2)
    check(tmp_path / "x.so")


def test_a_tar_holds_objects_that_make_the_library(tmp_path: Path, tree: mblob.Module) -> None:
    tree.export_library(tmp_path / "x.tar")
    tree.export_library(tmp_path / "y.tar")
    assert (tmp_path / "x.tar").read_bytes() == (tmp_path / "y.tar").read_bytes()
    with tarfile.open(tmp_path / "x.tar") as tar:
        assert tar.getnames() == ["lib0.o", "mblob_functions.o", "mblob_table.o", "devc.o"]
        for member in tar.getmembers():
            (tmp_path / member.name).write_bytes(tar.extractfile(member).read())  # type: ignore[union-attr]
    subprocess.run("gcc -shared -o x.so *.o", shell=True, cwd=tmp_path, check=True)
    check(tmp_path / "x.so")


def test_a_source_file_is_compiled_where_it_lies(tmp_path: Path) -> None:
    (tmp_path / "k.h").write_text("#define ANSWER 42\n")
    (tmp_path / "k.c").write_text('#include "k.h"\nint f(void) { return ANSWER; }\n')
    for kwargs in ({}, {"fcompile": Compiler()}):
        mblob.csource_module(str(tmp_path / "k.c")).export_library(tmp_path / "x.so", **kwargs)
        opened = ctypes.CDLL(str(tmp_path / "x.so"))
        assert opened.f() == 42


def test_options_reach_compilation_and_link(tmp_path: Path) -> None:
    host = mblob.csource_module("int f(void) { return ANSWER; }\n")
    host.export_library(tmp_path / "x.so", options="-DANSWER=5 -Wl,-soname,given.so")
    assert ctypes.CDLL(str(tmp_path / "x.so")).f() == 5
    text = subprocess.run(
        ["readelf", "-d", tmp_path / "x.so"], capture_output=True, text=True, check=True
    ).stdout
    assert "given.so" in text


def test_a_module_of_an_opened_library_is_copied(tmp_path: Path, tree: mblob.Module) -> None:
    class Opened(mblob.Module):
        """A module as a loader gives it: a key and bytes, no constructor of ours."""

    root = mblob.csource_module(";")
    root.import_module(
        Opened("cuda", payload=mblob.device_module("cuda", "x", functions=["k"]).payload)
    )
    root.export_library(tmp_path / "x.so")
    with mblob.open(tmp_path / "x.so", verify="full") as lib:
        assert [e.type_key for e in lib.entries] == ["library", "cuda"]
