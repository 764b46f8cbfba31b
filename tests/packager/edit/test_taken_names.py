"""Names that a library has already, and a library that is open while a new one takes its place: in both
dialects, by command, in Python and by hand."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.cli.main import main

pytestmark = pytest.mark.own_process  # the ffi dialect has a plug-in

W = {"w": np.ones((2, 3), "float32"), "v": np.ones(3, "float32")}


@pytest.fixture(scope="module", params=["classic", "ffi"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a library of two functions, weights and a payload, and with what has the same names."""
    folder = tmp_path_factory.mktemp(request.param)
    module = mblob.csource_module(
        "int one(int x) { return x + 1; } int two(int x) { return x + 2; }"
    )
    module.import_module(mblob.safetensors_module(W))
    module.import_module(mblob.blob_module("labels", b"old"))
    for name in ("m.so", "m.tar"):
        module.export_library(folder / name, dialect=request.param)
    (folder / "k.c").write_text("int two(int x) { return x + 22; }")
    (folder / "labels.txt").write_text("new")
    mblob.save_tensors(folder / "all.safetensors", {name: 5 * w for name, w in W.items()})
    mblob.save_tensors(folder / "v.safetensors", {"v": 5 * W["v"]})
    return folder


# Word of the command, argument of `mblob.add`, module, and what is said.
SAME: dict[str, tuple[str, str, Callable[[Path], Any], Callable[[Path], mblob.Module], str]] = {
    "payload": ("labels={}", "blobs", lambda p: {"labels": p}, lambda p: mblob.blob_module("labels", p),
                "a payload of this key already"),
    "tensors": ("{}", "weights", str, mblob.safetensors_module, "has a tensor 'w' already"),
    "function": ("{}", "kernels", str, mblob.csource_module, "has a function 'two' already"),
}  # fmt: skip
FILES = {"payload": "labels.txt", "tensors": "all.safetensors", "function": "k.c"}


@pytest.mark.parametrize("what", list(SAME))
def test_the_error_says_how_to_replace(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    word, argument, given, module, said = SAME[what]
    file, out, library = made / FILES[what], tmp_path / "out.so", made / "m.so"
    out.write_bytes(b"old")
    command = ["add", str(library), word.format(file), "-o", str(out)]
    assert main(command) == 2
    assert f"{said}; --replace replaces it\n" in capsys.readouterr().err
    added: Any = {argument: given(file), "output": out}
    with pytest.raises(mblob.BuildError, match=f"{said}; replace=True replaces it$"):
        mblob.add(library, **added)
    lib = mblob.load_module(library)
    lib.import_module(module(file))
    with pytest.raises(mblob.BuildError, match=f"{said}; mblob.add with replace=True replaces it$"):
        lib.export_library(out)
    assert out.read_bytes() == b"old"
    for replace in (
        lambda: main([*command, "--replace"]),
        lambda: mblob.add(library, **added, replace=True),
    ):
        assert replace() == 0
        new = mblob.load_module(out)
        found = (bytes(new.payloads["labels"]), new.tensors["w"].numpy()[0, 0], new.two(1))
        changed = {
            "payload": (b"new", 1, 3),
            "tensors": (b"old", 5, 3),
            "function": (b"old", 1, 23),
        }
        assert found == changed[what]
        out.unlink()


def test_weights_that_would_replace_others_name_the_verb_that_can(
    made: Path, tmp_path: Path
) -> None:
    new = made / "v.safetensors"
    for replace in (False, True):
        with pytest.raises(
            mblob.BuildError,
            match=r"; swap replaces single tensors, by ones of their type and shape; ",
        ):
            mblob.add(made / "m.so", weights=new, output=tmp_path / "a.so", replace=replace)
    mblob.swap(made / "m.so", weights={"v": 5 * W["v"]}, output=tmp_path / "a.so")
    with pytest.raises(
        mblob.BuildError, match=r"library of .*m\.tar with build, in which swap replaces"
    ):
        mblob.add(made / "m.tar", weights=new, output=tmp_path / "b.so")
    assert not (tmp_path / "b.so").exists()


VERBS: dict[str, Callable[[Path, Any], Any]] = {
    "add": lambda path, _: mblob.add(path, blobs={"more": b"x" * 100_000}),
    "add by command": lambda path, _: main(["add", str(path), f"more={__file__}", "-o", str(path)]),
    "swap": lambda path, _: mblob.swap(path, weights={"w": 9 * W["w"]}),
    "export": lambda path, lib: (lib.import_module(mblob.blob_module("more", b"y")), lib.export_library(path)),
}  # fmt: skip


@pytest.mark.parametrize("verb", list(VERBS))
def test_a_library_that_is_open_stays_as_it_was(made: Path, tmp_path: Path, verb: str) -> None:
    path = tmp_path / "live.so"
    shutil.copy(made / "m.so", path)
    lib = mblob.load_module(path)
    w = lib.tensors["w"].numpy()
    VERBS[verb](path, lib)
    assert (lib.one(1), lib.two(1), w.sum(), bytes(lib.payloads["labels"])) == (2, 3, 6, b"old")
    new = mblob.load_module(path)
    assert new.one(1) == 2
    assert ("more" in new.payloads) == (verb != "swap")
    assert new.tensors["w"].numpy().sum() == (54 if verb == "swap" else 6)
    assert {p.name for p in tmp_path.iterdir()} <= {"live.so", "TMPDIR"}
