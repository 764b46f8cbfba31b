"""The objects of a library as TVM and mblob export them (`.tar`, a folder, a list) are linked again, with
whatever else is given. The root of their modules stays the root."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.cli.main import main

pytestmark = pytest.mark.own_process
DOUBLE = "void twice(float *x, long n) { for (long i = 0; i < n; ++i) x[i] *= 2; }"
PRE = "void pre(float *x, long n) { for (long i = 0; i < n; ++i) x[i] += 1; }"
GRAPH = '{"nodes": [], "arg_nodes": [], "heads": [], "node_row_ptr": [0], "attrs": {}}'


def exported(path: Path, dialect: Any) -> Path:
    """A `.tar` whose root is no host code, but for ffi, which has no graphs."""
    host = mblob.csource_module(DOUBLE, functions=["void twice(float x[n], long n)"])
    host.import_module(mblob.blob_module("one", b"x" * 2000))
    root = host
    if dialect == "classic":
        root = mblob.graph_executor_factory(GRAPH, {"p": np.ones(3, "float32")})
        root.import_module(host)
    root.export_library(path, dialect=dialect)
    return path


def members(tar: Path, folder: Path) -> list[Path]:
    folder.mkdir()
    subprocess.run(["tar", "-xf", tar, "-C", folder], check=True)
    return sorted(p for p in folder.rglob("*") if p.is_file())


def check(path: Path, dialect: str, *more: str) -> None:
    keys = (["GraphExecutorFactory"] if dialect == "classic" else []) + ["library", "one"]
    with mblob.open(path, verify="full") as library:
        assert library.dialect == dialect
        assert library.entries[0].type_key == keys[0]
        assert sorted(e.type_key for e in library.entries) == sorted([*keys, *more])
    lib, x = mblob.load_module(path), np.ones(3, "float32")
    lib["twice"](x, 3)
    lib["pre"](x, 3)
    assert x.tolist() == [3, 3, 3] and bytes(lib.payloads["one"]) == b"x" * 2000


@pytest.mark.sample(3)
@pytest.mark.parametrize("dialect", ["classic", "ffi"])
@pytest.mark.parametrize("form", ["tar", "folder", "list"])
def test_in_python(tmp_path: Path, dialect: Any, form: str) -> None:
    tar = exported(tmp_path / "m.tar", dialect)
    given: Any = tar
    if form != "tar":
        given = members(tar, tmp_path / "members")
        given = given if form == "list" else tmp_path / "members"
    root = mblob.static_library(given)
    root.import_module(mblob.csource_module(PRE, functions=["void pre(float x[n], long n)"]))
    root.import_module(mblob.safetensors_module({"w": np.ones(2)}))
    root.export_library(tmp_path / "a.so")
    check(tmp_path / "a.so", dialect, "safetensors")


@pytest.mark.parametrize("dialect", ["classic", "ffi"])
def test_the_object_with_the_modules_alone(tmp_path: Path, dialect: Any) -> None:
    """The code beside it may be of a source, or of the library that it is added to."""
    members(exported(tmp_path / "m.tar", dialect), tmp_path / "members")
    devc, source, output = tmp_path / "members" / "devc.o", tmp_path / "k.c", tmp_path / "a.so"
    source.write_text(PRE + DOUBLE)
    assert main(["build", str(devc), str(source), "-o", str(output)]) == 0
    check(output, dialect)
    assert main(["build", str(devc), f"labels={source}", "-o", str(output)]) == 0
    with mblob.open(output, verify="full") as library:
        assert library.dialect == dialect
        assert {"one", "labels", "library"} <= {e.type_key for e in library.entries}
    mblob.csource_module(PRE + DOUBLE).export_library(output, dialect=dialect)
    if dialect == "classic":  # the root of the modules imports code
        with pytest.raises(mblob.BuildError, match="build a library of these modules and of the"):
            mblob.add(output, objects=[devc])
        return
    mblob.add(output, objects=[devc])
    assert bytes(mblob.load_module(output).payloads["one"]) == b"x" * 2000


@pytest.mark.sample(3)
@pytest.mark.parametrize("dialect", ["classic", "ffi"])
@pytest.mark.parametrize("verb", ["build", "object", "objects", "add"])
def test_by_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dialect: Any, verb: str
) -> None:
    monkeypatch.chdir(tmp_path)
    exported(tmp_path / "m.tar", dialect)
    Path("pre.c").write_text(PRE)
    Path("labels.json").write_text("[1]")
    words = {
        "build": ["build", "m.tar"],
        "object": ["build", "--object", "m.tar"],
        "add": ["add", "m.tar"],
    }.get(verb)
    if words is None:
        words = [
            "build",
            *(w for p in members(tmp_path / "m.tar", tmp_path / "o") for w in ("--object", str(p))),
        ]
    words += [
        "--kernel",
        "pre.c",
        "--function",
        "void pre(float x[n], long n)",
        "--blob",
        "labels=labels.json",
    ]
    assert main([*words, "-o", "a.so", "-q"]) == 0
    check(tmp_path / "a.so", dialect, "labels")


@pytest.mark.parametrize("dialect", ["classic", "ffi", None])
def test_objects_in_a_tar_are_callable_as_in_a_folder(
    tmp_path: Path, monkeypatch: Any, dialect: Any
) -> None:
    """With debug information; alone, or beside the members of a model's library."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "members"
    if dialect is None:
        folder.mkdir()
    else:
        members(exported(tmp_path / "m.tar", dialect), folder)
    for name in ("one", "two"):
        text = f"int {name}(int x) {{ return x + 1; }}"
        words = ["cc", "-g", "-fPIC", "-c", "-xc", "-", "-o", folder / f"{name}.o"]
        subprocess.run(words, input=text.encode(), check=True)
    subprocess.run(["tar", "-cf", "x.tar", "-C", folder, "."], check=True)
    Path("k.c").write_text("int three(void) { return 3; }")
    old = mblob.csource_module("int f(void) { return 1; }")
    if dialect == "classic":  # the module of a graph imports the library
        root = mblob.blob_module("root", b"1")
        root.import_module(old)
        old = root
    old.export_library("l.so", dialect=dialect or "classic")
    for make in (
        lambda: mblob.static_library(folder).export_library("a.so"),
        lambda: mblob.static_library("x.tar").export_library("a.so"),
        lambda: main(["build", "x.tar", "-q", "-o", "a.so"]),
        lambda: main(["build", "x.tar", "k.c", "-q", "-o", "a.so"]),
        lambda: mblob.add("x.tar", blobs={"k": b"1"}, output="a.so"),
        lambda: mblob.add("x.tar", blobs={"k": b"1"}, functions=["one"], output="a.so"),
        lambda: mblob.add("l.so", objects=["x.tar"], output="a.so"),
    ):
        Path("a.so").unlink(missing_ok=True)
        assert not make()  # type: ignore[func-returns-value]
        assert mblob.load_module("a.so").one(1) == 2
    mblob.static_library("x.tar", functions=["two"]).export_library("a.so")
    lib = mblob.load_module("a.so")
    assert lib.two(1) == 2
    with pytest.raises(mblob.NotFoundError):
        lib.get_function("one")


@pytest.mark.parametrize("name", ["llama_legacy.bytecode", "llama_paged.bytecode"])
def test_models_of_tvm(golden: Path, tmp_path: Path, name: str) -> None:
    root = mblob.static_library(golden / "lm" / f"{name}.tar")
    root.import_module(mblob.csource_module(PRE, functions=["void pre(float x[n], long n)"]))
    root.export_library(tmp_path / "a.so")
    with mblob.open(tmp_path / "a.so") as made, mblob.open(golden / "lm" / f"{name}.so") as tvm:
        assert made.dialect == tvm.dialect == "ffi"
        assert [bytes(e.view()) for e in made.entries if e.offset] == [
            bytes(e.view()) for e in tvm.entries if e.offset
        ]
        assert sorted(made.functions) == sorted([*tvm.functions, "pre"])
    x = np.ones(3, "float32")
    mblob.load_module(tmp_path / "a.so", missing="stub")["pre"](x, 3)
    assert x.tolist() == [2, 2, 2]


def test_what_cannot_be_linked_again(tmp_path: Path) -> None:
    tar = exported(tmp_path / "m.tar", "ffi")
    mblob.csource_module(DOUBLE).export_library(tmp_path / "a.so")
    with pytest.raises(
        mblob.BuildError, match="a finished library, which cannot be linked again; give its sources"
    ):
        mblob.static_library(tmp_path / "a.so")
    with pytest.raises(mblob.BuildError, match="packed modules of two libraries"):
        mblob.static_library([tar, exported(tmp_path / "n.tar", "ffi")])
    (tmp_path / "empty").mkdir()
    with pytest.raises(mblob.BuildError, match="a folder without objects"):
        mblob.static_library(tmp_path / "empty")


def test_a_library_as_an_object_names_the_verb(
    tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    mblob.csource_module(DOUBLE).export_library("a.so")
    assert main(["build", "--object", "a.so", "-o", "b.so"]) == 2
    assert (
        "a.so: a finished library, which cannot be linked again; give its sources, its objects (.o, .a), or the .tar"
        " that it is exported to; or add the other files to it (mblob-pack add a.so ...)"
        in capsys.readouterr().err
    )
    for name in ("m.tar", "n.tar"):
        exported(tmp_path / name, "ffi")
    assert main(["build", "m.tar", "--object", "n.tar", "-o", "b.so"]) == 2
    assert "packed modules of two libraries" in capsys.readouterr().err


def test_names_that_the_objects_have_already(tmp_path: Path) -> None:
    tar = exported(tmp_path / "m.tar", "ffi")
    with pytest.raises(mblob.BuildError, match="has a payload of this key already"):
        mblob.add(tar, blobs={"one": b"2"}, output=tmp_path / "a.so")
    with pytest.raises(
        mblob.BuildError,
        match=r"make a library of .*m.tar with build, and add to that with replace=True",
    ):
        mblob.add(tar, blobs={"one": b"2"}, output=tmp_path / "a.so", replace=True)
    assert not (tmp_path / "a.so").exists()


HOSTILE = {
    "..": (b"x", "its name leads out of the archive"),
    ".": (b"x", "m.tar"),
    "/etc/x.o": (b"junk", "x.o"),
    "a/../../lib0.o": (b"\x7fELF" + bytes(200), "lib0.o"),
    "inner.tar": (bytes(512), "inner.tar"),
    "k.cu": (b"__global__ void k() {}", "no machine code"),
}


@pytest.mark.parametrize("name", list(HOSTILE))
def test_hostile_members(tmp_path: Path, name: str) -> None:
    data, message = HOSTILE[name]
    tar, out = tmp_path / "m.tar", tmp_path / "a.so"
    with tarfile.open(tar, "w") as file:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        file.addfile(info, io.BytesIO(data))
    out.write_bytes(b"old")
    with pytest.raises(mblob.MblobError, match=message) as caught:
        mblob.add(tar, blobs={"one": b"1"}, output=out)
    assert len(str(caught.value).splitlines()) == 1 and "m.tar" in str(caught.value)
    assert out.read_bytes() == b"old"


def test_a_tar_that_ends_too_early(tmp_path: Path) -> None:
    tar = exported(tmp_path / "m.tar", "ffi")
    tar.write_bytes(tar.read_bytes()[:3000])
    with pytest.raises(mblob.FormatError, match=r"m\.tar"):
        mblob.static_library(tar)


@pytest.mark.parametrize("dialect", ["classic", "ffi"])
def test_members_in_c_are_a_tree_in_a_folder_and_in_a_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dialect: Any
) -> None:
    """As of a `.tar` of TVM's target="c". Paths of members are those of the caller's folder."""
    monkeypatch.chdir(tmp_path)
    work, folder = tmp_path / "work", Path("members")
    folder.mkdir()
    root = mblob.csource_module("int two(void) { return 2; }\n")
    root.import_module(mblob.blob_module("labels", b"cat"))
    root.export_library(tmp_path / "x.so", dialect=dialect, embed="c", workspace_dir=work)
    (folder / "devc.c").write_bytes((work / "devc.c").read_bytes())
    (folder / "lib0.c").write_text("int two(void) { return 2; }\n")
    Path("pre.c").write_text("int three(void) { return 3; }\n")
    members, pre = [folder / "lib0.c", folder / "devc.c"], Path("pre.c")
    for verb, *inputs in (
        ("build", folder),
        ("build", *(tmp_path / path for path in members)),
        ("build", *members, pre),
        ("add", folder, pre),
    ):
        words = ["--dialect", dialect] if verb == "build" else []
        assert main([verb, *map(str, inputs), *words, "-o", "out.so"]) == 0
        lib = mblob.load_module("out.so")
        assert lib["two"]() == 2 and bytes(lib.payloads["labels"]) == b"cat"
        assert pre not in inputs or lib["three"]() == 3
    mblob.static_library(folder).export_library("out.so", dialect=dialect)
    assert mblob.load_module("out.so")["two"]() == 2


def test_packed_modules_beside_an_object_that_are_left_out_are_told(tmp_path: Path) -> None:
    from mblob.packager.link.build import BuildPlan, build

    members(exported(tmp_path / "m.tar", "ffi"), tmp_path / "o")
    told = r"devc\.o, beside \S+lib0\.o, has the packed modules"
    with pytest.warns(UserWarning, match=told):
        build(BuildPlan(tmp_path / "a.so", objects=[tmp_path / "o/lib0.o"]))
    build(BuildPlan(tmp_path / "a.so", objects=[tmp_path / "o"]))
    (tmp_path / "o/lib0.c").write_text(DOUBLE)
    with pytest.warns(UserWarning, match=r"devc\.o, beside \S+lib0\.c, has the packed modules"):
        build(BuildPlan(tmp_path / "a.so", kernels=[tmp_path / "o/lib0.c"]))


def test_kernels_of_a_model_without_the_model_are_told(tmp_path: Path) -> None:
    code = "int tvmgen_default_add(void *a, int *t, int n, void *r, int *c, void *s) { return 0; }"
    (tmp_path / "lib0.c").write_text(code)
    with pytest.warns(UserWarning, match=r"kernels of a model .*tvmgen_default_add.*its devc\.o"):
        mblob.csource_module(tmp_path / "lib0.c").export_library(tmp_path / "a.so")
    root = mblob.csource_module("")
    root.export_library(tmp_path / "b.so")
    mblob.add(tmp_path / "b.so", kernels=[tmp_path / "lib0.c"])  # which may have it


@pytest.mark.parametrize("form", ["tar", "folder"])
def test_what_is_no_code_is_left_out_of_a_tar_and_of_a_folder(tmp_path: Path, form: str) -> None:
    folder, tar = tmp_path / "o", tmp_path / "m.tar"
    folder.mkdir()
    (folder / "README.txt").write_text("about it\n")
    given = tar if form == "tar" else folder
    for name in ("README.txt", "k.c"):
        (folder / "k.c").write_text("int two(void) { return 2; }\n") if name == "k.c" else None
        with tarfile.open(tar, "w") as file:
            for path in sorted(folder.iterdir()):
                file.add(path, path.name)
        if name == "k.c":
            mblob.static_library(given).export_library(tmp_path / "a.so")
            assert mblob.load_module(tmp_path / "a.so")["two"]() == 2
            continue
        with pytest.raises(mblob.BuildError, match=r"without objects .*; it has only README\.txt"):
            mblob.static_library(given)
