"""The dialect of a library for which nobody names one: that of the inputs, by command and in Python."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.cli.main import main

SOURCES = {
    "classic": "void *__tvm_module_ctx; int f(void *a, int *c, int n, void *r, int *rc, void *res) { return 0; }",
    "ffi": "int __tvm_ffi_g(void *self, const void *args, int n, void *result) { return 0; }",
    "plain": "int h(int x) { return x; }",
}
GRAPH = '{"nodes": [], "arg_nodes": [], "heads": [], "node_row_ptr": [0], "attrs": {}}'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, source in SOURCES.items():
        command = ["cc", "-g", "-c", "-fPIC", "-xc", "-", "-o", f"{name}.o"]
        subprocess.run(command, input=source.encode(), check=True)
    Path("graph.json").write_text(GRAPH)
    return tmp_path


def dialect(path: str) -> str | None:
    with mblob.open(path) as library:
        return library.dialect


@pytest.mark.parametrize("name", SOURCES)
def test_objects_of_one_dialect(folder: Path, name: str) -> None:
    wanted = "ffi" if name == "ffi" else "classic"
    mblob.save_tensors("w.safetensors", {"w": np.ones(2)})
    subprocess.run(["ar", "rc", "lib.a", f"{name}.o"], check=True)
    for file in (f"{name}.o", "lib.a"):
        assert main(["build", file, "w.safetensors", "-o", "a.so", "-q"]) == 0
        assert dialect("a.so") == wanted
        root = mblob.static_library(file)
        root.import_module(mblob.safetensors_module({"w": np.ones(2)}))
        root.export_library("b.so")
        assert dialect("b.so") == wanted


def test_sources_have_the_dialect_of_their_objects(folder: Path) -> None:
    """One whose function a macro makes, another one beside it, and one for a library that has none."""
    Path("p.c").write_text(SOURCES["plain"])
    made = "#define TVM_FFI_NAMED(name, more) int __tvm_##name(void *self, const void *a, int n, void *r) more\n"
    Path("m.c").write_text(made + "TVM_FFI_NAMED(ffi_g, { return 0; })")
    Path("c.c").write_text(SOURCES["classic"])
    assert main(["build", "p.c", "m.c", "-o", "a.so", "-q"]) == 0
    assert dialect("a.so") == "ffi"
    subprocess.run(["cc", "-shared", "plain.o", "-o", "plain.so"], check=True)
    mblob.add("plain.so", kernels=["m.c"], output="b.so")
    assert dialect("b.so") == "ffi"
    assert main(["build", "m.c", "c.c", "-o", "c.so", "-q"]) == 2
    assert main(["build", "p.c", "c.c", "-o", "c.so", "-q"]) == 0
    assert dialect("c.so") == "classic"


def test_headers_of_tvm_say_nothing_of_a_sources_dialect(folder: Path) -> None:
    """`c_backend_api.h` defines slots of the classic dialect, which are weak; TVM's C code has it."""
    of_tvm = '#include "tvm/runtime/c_backend_api.h"\n#include "tvm/ffi/c_api.h"\n'
    function = "TVM_DLL int32_t __tvm_ffi_g(void *self, void *args, int32_t n, void *result)"
    Path("g.c").write_text(f"{of_tvm}{function} {{ return !self && !args && n && !result; }}")
    assert main(["build", "g.c", "-o", "g.so", "-q"]) == 0
    assert dialect("g.so") == "ffi"


def test_inputs_of_both_need_the_option(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, other in ((["classic.o"], "classic.o"), (["--graph", "graph.json"], "graph.json")):
        assert main(["build", "ffi.o", *words, "-o", "a.so"]) == 2
        said = capsys.readouterr().err
        assert f"{other} is of the classic dialect" in said and "ffi.o of the ffi dialect" in said
        assert "--dialect says" in said and not Path("a.so").exists()
    root = mblob.static_library("ffi.o")
    root.import_module(mblob.static_library("classic.o"))
    with pytest.raises(mblob.BuildError, match=r"classic\.o is .*, ffi\.o of .* dialect= "):
        root.export_library("a.so")
    assert main(["build", "ffi.o", "classic.o", "--dialect", "classic", "-o", "a.so", "-q"]) == 0
    assert dialect("a.so") == "classic"


@pytest.mark.parametrize("own", ["classic", "ffi"])
def test_an_object_beside_a_tar_of_the_other_dialect(folder: Path, own: str) -> None:
    other = "ffi" if own == "classic" else "classic"
    root = mblob.csource_module(SOURCES["plain"])
    root.import_module(mblob.blob_module("k", b"1"))
    root.export_library("m.tar", dialect=own)  # type: ignore[arg-type]
    for make in (
        lambda: mblob.static_library([f"{other}.o", "m.tar"]).export_library("x.so"),
        lambda: mblob.add("m.tar", objects=[f"{other}.o"], output="x.so"),
    ):
        with pytest.raises(
            mblob.BuildError, match=rf"(?=.*m\.tar)(?=.*{other}\.o is of|.*, {other}\.o of)"
        ):
            make()
    assert main(["build", f"{other}.o", "m.tar", "-o", "x.so"]) == 2
    assert not Path("x.so").exists()
    assert main(["build", f"{own}.o", "m.tar", "-q", "-o", "x.so"]) == 0
    assert dialect("x.so") == own


@pytest.mark.own_process
@pytest.mark.parametrize("name", ["ffi", "classic"])
def test_a_tar_of_the_other_dialect_is_converted_and_a_line_says_so(
    folder: Path, capsys: pytest.CaptureFixture[str], name: Any
) -> None:
    other = "classic" if name == "ffi" else "ffi"
    root = mblob.csource_module(SOURCES["plain"])
    root.import_module(mblob.blob_module("k", b"[]"))
    root.export_library("m.tar", dialect=name)
    line = rf"info: m\.tar\S* is of the {name} dialect, a\.so of the {other} dialect: modules were"
    for chosen in (other, name):
        assert main(["build", "m.tar", "--dialect", chosen, "-o", f"{chosen}.so"]) == 0
        said = capsys.readouterr().err.replace(f"{chosen}.so", "a.so")
        assert bool(re.search(line, said)) is (chosen == other)
        assert dialect(f"{chosen}.so") == chosen
        assert mblob.load_module(f"{chosen}.so").h(3) == 3


def test_a_graph_is_classic(folder: Path) -> None:
    assert main(["build", "plain.o", "--graph", "graph.json", "-o", "a.so", "-q"]) == 0
    assert dialect("a.so") == "classic"


def test_a_program_of_relax_is_of_the_ffi_dialect(golden: Path, tmp_path: Path) -> None:
    with mblob.open(golden / "ffi" / "relax_c.so") as library:
        entry = next(e for e in library.entries if e.type_key == "relax.VMExecutable")
        program = bytes(entry.view())
    root = mblob.csource_module(SOURCES["plain"])
    root.import_module(mblob.blob_module("relax.VMExecutable", program))
    root.export_library(tmp_path / "a.so")
    assert dialect(str(tmp_path / "a.so")) == "ffi"
