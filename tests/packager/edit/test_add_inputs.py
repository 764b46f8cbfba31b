"""Inputs of `add` and `build` that differ from the model, or that only a folder has."""

from __future__ import annotations

import subprocess
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.cli.main import main

TWO = "int two(void) { return 2; }"


def members(tmp_path: Path, dialect: Any = "classic") -> Path:
    """A folder with the members of a `.tar`, and the `.tar` beside it."""
    folder = tmp_path / f"of_{dialect}"
    folder.mkdir()
    tar = folder.with_suffix(".tar")
    mblob.csource_module(TWO).export_library(tar, dialect=dialect)
    subprocess.run(["tar", "xf", tar, "-C", folder], check=True)
    return folder


def model(path: Path, **options: Any) -> Path:
    mblob.csource_module("int one(void) { return 1; }").export_library(path, **options)
    return path


def test_a_folder_of_objects_is_an_input(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    folder = members(tmp_path).name
    assert main(["build", folder, "-q", "-o", "built.so"]) == 0
    assert mblob.load_module("built.so").two() == 2
    model(tmp_path / "m.so")
    mblob.add("m.so", objects=[folder], output="added.so")
    assert mblob.load_module("added.so").two() == 2
    assert main(["add", "m.so", "--object", folder, "-q", "-o", "again.so"]) == 0
    assert (tmp_path / "again.so").read_bytes() == (tmp_path / "added.so").read_bytes()


@pytest.mark.own_process
@pytest.mark.parametrize("dialect", ["classic", "ffi"])
def test_a_library_may_be_given_as_its_members(
    tmp_path: Path, monkeypatch: Any, capsys: Any, dialect: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / f"of_{dialect}"
    root = mblob.csource_module(TWO)
    root.import_module(mblob.blob_module("one", b"1"))
    root.export_library(folder.with_suffix(".tar"), dialect=dialect)
    folder.mkdir()
    subprocess.run(["tar", "xf", folder.with_suffix(".tar"), "-C", folder], check=True)
    Path("labels.json").write_text("[]")
    Path("k.c").write_text("int three(void) { return 3; }")
    more: dict[str, Any] = {"blobs": {"labels": Path("labels.json")}, "kernels": ["k.c"]}
    mblob.add(folder.with_suffix(".tar"), output="tar.so", **more)
    expected = mblob.load_module("tar.so")
    assert (expected.two(), expected.three(), list(expected.payloads)) == (2, 3, ["labels", "one"])
    parts = [str(p) for p in sorted(folder.iterdir())]
    assert any(p.endswith("devc.o") for p in parts)
    words = ["labels=labels.json", "k.c", "-q", "-o", "made.so"]
    for make in (
        lambda: mblob.add(folder, output="made.so", **more),
        lambda: mblob.add(parts, output="made.so", **more),
        lambda: mblob.add([folder], output="made.so", **more),
        lambda: mblob.add(parts[-1], objects=parts[:-1], output="made.so", **more),
        lambda: main(["add", folder.name, *words]),
        lambda: main(["add", *parts, *words]),
        lambda: main(["add", "k.c", "labels=labels.json", *parts, "-q", "-o", "made.so"]),
    ):
        Path("made.so").unlink(missing_ok=True)
        assert make() == 0
        lib = mblob.load_module("made.so")
        assert [m.type_key for m in lib.walk()] == [m.type_key for m in expected.walk()]
        assert (lib.two(), lib.three(), lib.payloads["labels"]) == (2, 3, b"[]")
    with pytest.raises(mblob.BuildError, match=r"objects of a library.*output= names"):
        mblob.add(folder, **more)
    with pytest.raises(mblob.BuildError, match="has a payload of this key already"):
        mblob.add(folder, blobs={"one": b"2"}, output="no.so")
    for given, said in (([], "an empty list"), (tmp_path / "TMPDIR", "a folder without objects")):
        (tmp_path / "TMPDIR").mkdir(exist_ok=True)
        with pytest.raises(mblob.BuildError, match=said):
            mblob.add(given, blobs={"k": b"1"}, output="no.so")
    assert main(["add", *parts, "-o", "no.so"]) == 2
    assert "nothing to add" in capsys.readouterr().err
    assert not Path("no.so").exists()


def test_a_text_where_a_path_is_expected_and_the_reverse(tmp_path: Path) -> None:
    """Each error names the argument or the constructor that takes what was given."""
    path, module = model(tmp_path / "m.so"), mblob.csource_module(TWO)
    before = path.read_bytes()
    text = r"expected the path of a file, found a source text; modules=\[mblob.csource_module"
    bytes_ = r"found bytes; modules=\[mblob.static_library"
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"kernels": TWO}, f"add: kernels: {text}"),
        ({"kernels": [f"\n{TWO}"]}, text),
        ({"objects": b"\x7fELF"}, f"add: objects: .*{bytes_}"),
        ({"objects": [bytearray(b"\x7fELF")]}, "found bytearray"),
        ({"kernels": [module]}, "found a Module; modules= takes modules"),
        ({"kernels": module}, "found a Module; modules= takes modules"),
        (
            {"modules": "two.c"},
            "expected a Module, found str; load_module opens one; csource_module, static_library",
        ),
        (
            {"modules": [tmp_path / "two.c"]},
            "expected a Module, found PosixPath; load_module opens one; csource_module",
        ),
    ]
    for how, error in wrong:
        with pytest.raises(TypeError, match=error):
            mblob.add(path, **how)
    with pytest.raises(TypeError, match="found list; make one module of each file"):
        mblob.csource_module(["two.c"])  # type: ignore[arg-type]
    for gone in ("gone", "src/gone"):
        with pytest.raises(FileNotFoundError, match="csource_module: no such file"):
            mblob.csource_module(gone)
    assert path.read_bytes() == before
    mblob.add(path, modules=[module])
    assert mblob.load_module(path).two() == 2


def test_a_library_of_tvm_without_modules_is_one_of_tvm(golden: Path, tmp_path: Path) -> None:
    for name in ("host_c.so", "mlp_c.so"):
        with pytest.warns(mblob.PortabilityWarning, match=r"TVM cannot open the result.*\(k\)"):
            mblob.add(golden / name, blobs={"k": b"1"}, output=tmp_path / name)
    plain = model(tmp_path / "m.so")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mblob.add(plain, blobs={"k": b"1"}, output=tmp_path / "added.so")


@pytest.mark.own_process
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["mlp_llvm", "relax/mlp_static"])
def test_a_model_of_tvm_stays_one_when_code_is_added(
    golden: Path, tmp_path: Path, name: str
) -> None:
    """The warning comes once: when TVM could open the library, and no longer can."""
    path, words = tmp_path / "a.so", r"TVM cannot open the result.*\(k\)"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mblob.add(golden / f"{name}.so", modules=[mblob.csource_module(TWO)], output=path)
        mblob.swap(path, digest="sha256")
        mblob.strip_index(path)
        mblob.add(path, modules=[mblob.csource_module(TWO.replace("two", "three"))])
    with pytest.warns(mblob.PortabilityWarning, match=words):
        mblob.add(path, blobs={"k": b"1"}, output=tmp_path / "b.so")
    by_hand = mblob.load_module(path)
    by_hand.import_module(mblob.blob_module("k", b"1"))
    with pytest.warns(mblob.PortabilityWarning, match=words):
        by_hand.export_library(tmp_path / "c.so")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mblob.add(tmp_path / "b.so", blobs={"l": b"1"})


@pytest.mark.own_process
@pytest.mark.parametrize("dialect", ["classic", "ffi"])
def test_a_model_of_tvm_stays_one_when_it_is_linked_again_or_converted(
    tmp_path: Path, dialect: Any
) -> None:
    tar = tmp_path / "m.tar"
    root = mblob.device_module("opencl", "kernel void k() {}", functions=["k"])
    root.import_module(mblob.csource_module(TWO))
    root.export_library(tar, dialect=dialect, index=False)  # as TVM writes it
    again, so, other = (tmp_path / name for name in ("again.tar", "again.so", "other.so"))
    mblob.static_library(tar).export_library(again)
    mblob.static_library(again).export_library(so)
    mblob.convert(so, other, dialect="classic" if dialect == "ffi" else "ffi")
    for made in (again, so, other):
        with pytest.warns(mblob.PortabilityWarning, match=r"TVM cannot open the result.*\(k\)"):
            mblob.add(made, blobs={"k": b"1"}, output=tmp_path / "out.so")


def test_objects_are_not_replaced_by_a_library(tmp_path: Path) -> None:
    folder = members(tmp_path)
    tar = folder.with_suffix(".tar")
    before = tar.read_bytes()
    for given in (tar, folder, [*folder.iterdir()]):
        with pytest.raises(mblob.BuildError, match=r"objects of a library.*; output= names it"):
            mblob.add(given, blobs={"k": b"1"})
    assert tar.read_bytes() == before


def by_hand(path: Path, output: Path) -> None:
    lib = mblob.load_module(path)
    lib.import_module(mblob.blob_module("new", b"1"))
    lib.export_library(output)


@pytest.mark.parametrize("named", ["same", "link", "none"])
@pytest.mark.parametrize(
    "call",
    [
        lambda path, **to: mblob.add(path, blobs={"new": b"1"}, **to),
        lambda path, **to: mblob.add(path, modules=[mblob.csource_module(TWO)], **to),
        lambda path, **to: mblob.swap(path, {"k": b"2"}, **to),
        lambda path, **to: mblob.strip_index(path, force=True, **to),
        lambda path, **to: mblob.add_index(path, **to),
        lambda path, output=None: by_hand(path, output or path),
    ],
    ids=["add", "add code", "swap", "strip_index", "add_index", "export_library"],
)
def test_a_file_that_is_read_only_is_not_replaced(
    tmp_path: Path, call: Any, named: str, request: Any
) -> None:
    path, link = tmp_path / "m.so", tmp_path / "link.so"
    root = mblob.csource_module("int one(void) { return 1; }")
    root.import_module(mblob.device_module("opencl", "__kernel void f() {}", functions=[("f", [])]))
    if "add_index" not in request.node.name:
        root.import_module(mblob.blob_module("k", b"1"))
    root.export_library(path, index="add_index" not in request.node.name)
    link.symlink_to(path)
    path.chmod(0o444)
    before = path.read_bytes()
    output = {"same": {"output": path}, "link": {"output": link}, "none": {}}[named]
    with pytest.raises(PermissionError, match=r"read-only.*name another output.*m\.so|link\.so"):
        call(path, **output)
    assert path.read_bytes() == before
    call(path, output=tmp_path / "new.so")
    assert (tmp_path / "new.so").stat().st_mode & 0o200  # its owner may change it again
    path.chmod(0o600)
    call(path, **output)
    assert path.read_bytes() != before


def test_two_of_one_name_by_hand(tmp_path: Path) -> None:
    x = np.ones(1, "float32")
    for clash, what in (
        (lambda: mblob.blob_module("k", b"1"), "payload 'k'"),
        (lambda: mblob.safetensors_module({"w": x}), "tensor 'w'"),
    ):
        new = mblob.csource_module(TWO)
        old = mblob.load_module(model(tmp_path / "m.so"))
        for root in (new, old):
            root.import_module(clash())
            root.import_module(clash())
        # who makes a whole tree may walk it, as programs of TVM do
        with pytest.warns(mblob.HiddenNameWarning, match=what):
            new.export_library(tmp_path / "new.so")
        with pytest.raises(mblob.BuildError, match=f"two modules have a {what}, of which programs"):
            old.export_library(tmp_path / "old.so")
        assert not (tmp_path / "old.so").exists()


@pytest.mark.own_process
@pytest.mark.parametrize("own", ["classic", "ffi"])
def test_code_of_the_other_dialect_is_told_with_both(tmp_path: Path, own: Any) -> None:
    other = "ffi" if own == "classic" else "classic"
    tar = members(tmp_path, other).with_suffix(".tar")
    file = model(tmp_path / "m.so", dialect=own)
    home = members(tmp_path, own).with_suffix(".tar")
    for base in (file, home):
        with pytest.raises(mblob.BuildError) as told:
            mblob.add(base, objects=[tar], output=tmp_path / "no.so")
        for text in (
            "the classic dialect",
            "the ffi dialect",
            base.name,
            tar.name,
            "convert writes",
        ):
            assert text in str(told.value)
    lib = mblob.load_module(file)
    lib.import_module(mblob.static_library(tar))
    with pytest.raises(mblob.BuildError, match="a library is of one"):
        lib.export_library(tmp_path / "no.so")
    with pytest.raises(mblob.BuildError, match=r"(?s)the classic.*the ffi.*of two libraries"):
        mblob.static_library([home, tar])
    mblob.convert(tar, tmp_path / "same.tar", dialect=own)
    mblob.add(file, objects=[tmp_path / "same.tar"], output=tmp_path / "a.so")
    assert mblob.load_module(tmp_path / "a.so").two() == 2


@pytest.mark.parametrize("linker", ["", "-fuse-ld=gold", "-fuse-ld=lld", "-fuse-ld=mold"])
def test_an_object_without_pic_is_named(tmp_path: Path, linker: str) -> None:
    (tmp_path / "k.c").write_text("int table[4]; int at(int i) { return table[i]; }")
    file = model(tmp_path / "m.so")
    for option in ("-mcmodel=small", "-mcmodel=large"):
        words = ["cc", "-c", "-O2", "-g", "-fno-pic", option, "k.c", "-o", "fixed.o"]
        if subprocess.run(words, cwd=tmp_path, check=False).returncode:
            pytest.skip(f"no {option} on this machine")
        with pytest.raises(
            mblob.BuildError, match=r"fixed\.o: compiled without -fPIC, .* with -fPIC"
        ):
            mblob.add(
                file, objects=[tmp_path / "fixed.o"], output=tmp_path / "a.so", options=linker
            )


def test_a_function_with_the_name_of_one_of_the_model_is_told(golden: Path, tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(
        "int get_graph_json(void) { return 4; } int stats(void) { return 5; }"
    )
    with pytest.warns(mblob.HiddenNameWarning, match=r"'get_graph_json'.*GraphExecutorFactory has"):
        mblob.add(golden / "mlp_c.so", kernels=[tmp_path / "k.c"], output=tmp_path / "a.so")
    lib = mblob.load_module(tmp_path / "a.so")
    assert (lib.ctypes.get_graph_json(), lib.stats()) == (4, 5)
    assert "nodes" in lib["get_graph_json"]()
    root = mblob.graph_executor_factory(lib["get_graph_json"]())
    root.import_module(mblob.csource_module(tmp_path / "k.c"))
    with pytest.warns(UserWarning) as told:
        root.export_library(tmp_path / "b.so")
    assert any("'get_graph_json' has the name of a function" in str(w.message) for w in told)
