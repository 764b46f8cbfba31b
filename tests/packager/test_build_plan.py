"""Builds from a description: the manifest, and the tree it means."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import mblob
from mblob.packager.errors import BuildError
from mblob.packager.link.build import BuildPlan, build
from mblob.packager.link.manifest import load
from tests.packager.conftest import VADD, VADD_C

WEIGHTS = json.dumps({"x": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}}).encode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with everything a manifest may name."""
    made = tmp_path / "model"
    made.mkdir()
    (made / "vadd.c").write_text(VADD_C)
    (made / "two.c").write_text("int two(void) { return TWO; }\n")
    (made / "labels.txt").write_text("cat\ndog\n")
    (made / "w.safetensors").write_bytes(len(WEIGHTS).to_bytes(8, "little") + WEIGHTS + b"ab")
    return made


MANIFEST = f"""
output = "deploy.so"
kernels = ["vadd.c", "two.c"]
functions = ["{VADD}"]
weights = "w.safetensors"
options = "-DTWO=2"
digest = "sha256"

[blobs]
labels = "labels.txt"
"""


def tree(path: Path) -> dict[str, list[str]]:
    with mblob.open(path, verify="full") as lib:
        keys = [e.type_key for e in lib.entries]
        return {e.type_key: sorted(keys[i] for i in e.imports) for e in lib.entries}


def test_a_manifest_names_everything_relative_to_itself(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "model.toml").write_text(MANIFEST)
    monkeypatch.chdir(folder.parent)
    build(load("model/model.toml"))
    assert tree(folder / "deploy.so") == {
        "library": ["labels", "safetensors"],
        "labels": [],
        "safetensors": [],
    }
    with mblob.open(folder / "deploy.so") as lib:
        assert lib.packed_functions == ["vadd"]
        assert lib.plain_functions == ["two", "vadd"]
        assert len(lib.entries[1].digest) == 32


def test_imports_give_the_tree_its_shape(folder: Path) -> None:
    (folder / "model.toml").write_text(MANIFEST + '[imports]\nweights = ["labels"]\n')
    build(load(folder / "model.toml"))
    assert tree(folder / "deploy.so") == {
        "library": ["safetensors"],
        "labels": [],
        "safetensors": ["labels"],
    }


def test_a_plan_from_flags_gives_the_same_bytes(folder: Path) -> None:
    (folder / "model.toml").write_text(MANIFEST)
    build(load(folder / "model.toml"))
    plan = BuildPlan(
        folder / "flags.so",
        kernels=[folder / "vadd.c", folder / "two.c"],
        functions=[VADD],
        weights=[folder / "w.safetensors"],
        blobs=[("labels", folder / "labels.txt")],
        options=["-DTWO=2"],
        digest="sha256",
    )
    build(plan)
    assert (folder / "flags.so").read_bytes() == (folder / "deploy.so").read_bytes()


def test_blobs_alone_make_a_library(folder: Path) -> None:
    build(BuildPlan(folder / "x.so", blobs=[("labels", folder / "labels.txt")]))
    assert tree(folder / "x.so") == {"library": ["labels"], "labels": []}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("output = ", "expected a manifest in TOML"),
        ("kernels = []", "no output"),
        ('output = "x.so"\ncolour = 1', "unknown key 'colour'; expected some of output, kernels"),
        ("output = 5", "output: expected a text, found 5"),
        ('output = "x.so"\nkernels = [1]', "kernels: expected a text, found 1"),
        ('output = "x.so"\nkernels = 1', "kernels: expected a list of texts, found 1"),
        ('output = "x.so"\nblobs = ["a"]', "blobs: expected a table"),
        ('output = "x.so"\nindex = "yes"', "index: expected true or false"),
        ('output = "x.so"', "nothing to pack"),
        (
            'output = "x.so"\nkernels = ["vadd.c"]\nimports = {library = ["nope"]}',
            "no module is called 'nope'",
        ),
        (
            'output = "x.so"\nkernels = ["vadd.c"]\nimports = {library = ["library"]}',
            "'library' -> 'library'",
        ),
        (
            'output = "x.so"\nfunctions = ["int f(int)"]\nblobs = {a = "labels.txt"}',
            "needs kernels or objects",
        ),
        (
            'output = "x.so"\nweights = ["w.safetensors", "w.safetensors"]',
            "w.safetensors: given twice",
        ),
    ],
)
def test_a_manifest_that_means_nothing_is_refused_by_name(
    folder: Path, text: str, message: str
) -> None:
    (folder / "model.toml").write_text(text)
    with pytest.raises(BuildError, match=message):
        build(load(folder / "model.toml"))
    assert not (folder / "x.so").exists()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x = " + "[" * 5000 + "]" * 5000, "nest deeper than 64 levels"),
        ("x = " + "{a = " * 5000 + "1" + "}" * 5000, "nest deeper than 64 levels"),
        ('x = ["""a"""", ' + "[" * 5000, "nest deeper than 64 levels"),
        (".".join(["a"] * 20_000) + " = 1", "more than 64 parts"),
        ("[" + ' . "b"' * 70 + "]", "more than 64 parts"),
        ("x = " + "1" * 5000, "4300 digits|unknown key"),  # as Python reads numbers
        ("#" * (1 << 20) + "\n", "more than 1048576 bytes"),
        ('a = """' + "\\" * 1_000_000, "TOML"),
        ('a = """' + '\\"""' * 200_000, "TOML"),
    ],
    ids=range(9),
)
def test_a_manifest_that_would_cost_stack_or_memory_is_refused(
    tmp_path: Path, text: str, reason: str
) -> None:
    (tmp_path / "deep.toml").write_text(text)
    with pytest.raises(BuildError, match=reason):
        load(tmp_path / "deep.toml")


def test_brackets_and_points_in_texts_and_comments_of_a_manifest_are_no_levels(
    tmp_path: Path,
) -> None:
    deep = "[" * 100 + "." * 100
    text = f"output = '{deep}' # {deep}\nkernels = [\"\"\"{deep}\"\"\", '''{deep}''']\n"
    (tmp_path / "m.toml").write_text(text)
    assert [p.name for p in load(tmp_path / "m.toml").kernels] == [deep, deep]


def test_a_missing_manifest_is_an_oserror(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nope\.toml"):
        load(tmp_path / "nope.toml")
