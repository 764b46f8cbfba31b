"""Plain functions with the name of a packed function that a model's library has: in the ffi dialect, where the
symbols differ. The packed one is called; a plain one that is to be callable is refused."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mblob
from mblob.cli.main import main

pytestmark = pytest.mark.own_process  # the ffi dialect has a plug-in
# Functions as a compiler of models writes them: `add` and `scale` return 100.
VALUE = "typedef struct { int type, small; union { long i; void *p; }; } V;\n"
PACKED = "int __tvm_ffi_{0}(void *s, const V *a, int n, V *r) {{ r->type = 1; r->small = 0; r->i = {1}; return 0; }}\n"
MODEL = VALUE + PACKED.format("add", "100") + PACKED.format("scale", "100")
OWN = {
    "own.c": "int add(int a, int b) { return a + b; } int mine(int x) { return x + 1; }",
    "own.cpp": "int add(int a, int b) { return a + b; } int mine(int x) { return x + 1; }",
    "own.f90": "integer function add(a, b)\ninteger, value :: a, b\nadd = a + b\nend function\n"
    "integer function mine(x)\ninteger, value :: x\nmine = x + 1\nend function\n",
}  # fmt: skip


@pytest.fixture(params=[*OWN, "own.o"])
def own(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    name = str(request.param)
    source = "own.c" if name == "own.o" else name
    Path(source).write_text(OWN[source])
    if name == "own.o":
        subprocess.run(["cc", "-g", "-fPIC", "-c", source], check=True)
    root = mblob.csource_module(MODEL, functions=[])
    root.import_module(mblob.blob_module("k", b"1"))
    for output in ("m.tar", "m.so"):
        root.export_library(output, dialect="ffi")
    return name


def by_hand(file: str, own: str, functions: Any) -> None:
    """A module of the caller's is imported, and the tree is exported."""
    make = mblob.static_library if own.endswith(".o") else mblob.csource_module
    root = mblob.load_module(file) if file.endswith(".so") else mblob.static_library(file)
    host = next(m for m in root.walk() if m.type_key != "k")
    host.import_module(make(own, functions=functions))
    root.export_library("a.so")


def added(file: str, own: str, functions: Any) -> None:
    given = {"objects" if own.endswith(".o") else "kernels": [own]}
    mblob.add(file, functions=functions, output="a.so", **given)  # type: ignore[arg-type]


WAYS: dict[str, Callable[[str, Any], object]] = {
    "add.tar": lambda own, functions: added("m.tar", own, functions),
    "add.so": lambda own, functions: added("m.so", own, functions),
    "hand.tar": lambda own, functions: by_hand("m.tar", own, functions),
    "hand.so": lambda own, functions: by_hand("m.so", own, functions),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_function_of_the_model_is_found(own: str, way: str) -> None:
    for functions in ([], ["mine"]):
        WAYS[way](own, functions)
        lib = mblob.load_module("a.so")
        assert lib["add"](1, 2) == 100
        assert lib.scale() == 100
        if functions:
            assert lib.mine(1) == 2


@pytest.mark.parametrize("way", WAYS)
def test_a_function_that_is_to_be_callable_is_refused(own: str, way: str) -> None:
    for functions in (None, ["add"]):
        with pytest.raises(mblob.BuildError, match="has a function 'add' already") as caught:
            WAYS[way](own, functions)
        assert ("in functions=" in str(caught.value)) == (functions is None and "so" not in way)
    assert not Path("a.so").exists()


def test_by_command(own: str, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("build", "add"):
        words = [verb, "m.tar", own, "-q", "-o", "a.so"]
        for more in (["--no-functions"], ["--function", "mine"]):
            assert main([*words, *more]) == 0
            assert mblob.load_module("a.so").add() == 100
        asked = ["--function", "int add(int a, int b)"]  # of Fortran, it would be add_
        for more in ([], ["--function", "add"], *([] if "f90" in own else [asked])):
            Path("a.so").unlink(missing_ok=True)
            assert main([*words, *more]) == 2
            assert "lib0.o): has a function 'add' already" in capsys.readouterr().err
            assert not Path("a.so").exists()


def test_a_packed_function_of_the_callers_own(tmp_path: Path) -> None:
    """It calls the plain one, or is in its file: the caller wrote both."""
    plain = "int add(int a, int b) { return a + b; }\n"
    wrapper = VALUE + "int add(int a, int b);\n" + PACKED.format("add", "add(1, 1)")
    together = mblob.csource_module(plain + VALUE + PACKED.format("add", "2"))
    apart = mblob.csource_module(plain)
    apart.import_module(mblob.csource_module(wrapper))
    for i, module in enumerate((together, apart)):
        module.export_library(tmp_path / f"{i}.so", dialect="ffi")
        assert mblob.load_module(tmp_path / f"{i}.so").add() == 2
