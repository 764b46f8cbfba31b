"""A `.tar` of objects is added to a library: its code joins, its modules hang below the root, and names that
exist already are treated as those of files. Objects beside a `.tar` keep their functions."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.packager.edit.test_add import tree_of
from tests.packager.test_relink import GRAPH, exported, members

pytestmark = pytest.mark.own_process
PLUS = "float plus(const float *x) { return x[0] + 1; }"


def with_debug(folder: Path) -> Path:
    made = folder / "plus.o"
    command = ["cc", "-g", "-fPIC", "-c", "-xc", "-", "-o", made]
    subprocess.run(command, input=PLUS.encode(), check=True)
    return made


def library(path: Path, root: mblob.Module | None = None, **options: Any) -> Path:
    """A library with the payload `one`."""
    host = mblob.csource_module("int one(void) { return 1; }")
    host.import_module(mblob.blob_module("one", b"old"))
    if root is not None:
        root.import_module(host)
    (root or host).export_library(path, **options)
    return path


def keys(path: Path) -> list[str]:
    return [key for key, _, _ in tree_of(path)]


@pytest.mark.parametrize("form", ["tar", "members"])
@pytest.mark.parametrize("how", ["build", "add", "python"])
def test_objects_beside_a_tar_keep_their_functions(tmp_path: Path, form: str, how: str) -> None:
    from mblob.packager.link.build import BuildPlan, build

    tar, out = exported(tmp_path / "m.tar", "ffi"), tmp_path / "a.so"
    objects = [tar] if form == "tar" else members(tar, tmp_path / "members")
    objects = [with_debug(tmp_path), *objects]
    if how == "build":
        build(BuildPlan(out, objects=objects))
    elif how == "add":
        mblob.add(
            library(tmp_path / "l.so", dialect="ffi"), objects=objects, output=out, replace=True
        )
    else:
        mblob.static_library(objects).export_library(out)
    lib, x = mblob.load_module(out), np.ones(3, "float32")
    assert lib["plus"](x) == 2
    lib["twice"](x, 3)
    assert x.tolist() == [2, 2, 2]


def test_a_payload_whose_key_exists_is_refused_or_replaced(tmp_path: Path) -> None:
    path, tar = library(tmp_path / "l.so", dialect="ffi"), exported(tmp_path / "m.tar", "ffi")
    with pytest.raises(mblob.BuildError, match=r"has a payload of this key already; replace=True"):
        mblob.add(path, objects=tar)
    mblob.add(path, objects=tar, replace=True)
    assert keys(path) == ["library", "one"]
    assert bytes(mblob.load_module(path).payloads["one"]) == b"x" * 2000


def test_a_function_whose_name_exists_is_refused_or_replaced(tmp_path: Path) -> None:
    source = "void twice(float *x, long n) { x[0] = n; }"
    mblob.csource_module(source).export_library(tmp_path / "l.so", dialect="ffi")
    tar = exported(tmp_path / "m.tar", "ffi")
    with pytest.raises(mblob.BuildError, match="has a function 'twice' already; replace=True"):
        mblob.add(tmp_path / "l.so", objects=tar)
    mblob.add(tmp_path / "l.so", objects=tar, replace=True)
    x = np.ones(3, "float32")
    mblob.load_module(tmp_path / "l.so")["twice"](x, 3)
    assert x.tolist() == [2, 2, 2]


def test_a_model_hangs_below_the_root(tmp_path: Path) -> None:
    root = mblob.graph_executor_factory(GRAPH, {"q": np.ones(3, "float32")})
    path = library(tmp_path / "l.so", root)
    mblob.add(path, objects=exported(tmp_path / "m.tar", "classic"), replace=True)
    lib = mblob.load_module(path)
    assert [m.type_key for m in lib.imported_modules].count("GraphExecutorFactory") == 1
    assert keys(path).count("library") == keys(path).count("one") == 1


def test_a_model_cannot_hang_below_the_library_that_it_imports(tmp_path: Path) -> None:
    tar = exported(tmp_path / "m.tar", "classic")
    mblob.csource_module("int one(void) { return 1; }").export_library(tmp_path / "n.tar")
    for path in (library(tmp_path / "l.so"), tmp_path / "n.tar"):
        before = path.read_bytes()
        with pytest.raises(mblob.BuildError, match=r"m\.tar\S+: its GraphExecutorFactory imports"):
            mblob.add(path, objects=tar, replace=True, output=path)
        assert path.read_bytes() == before


def test_parameters_of_a_graph_and_weights_of_one_name(tmp_path: Path) -> None:
    from mblob.packager.link.build import BuildPlan, build

    np.savez(tmp_path / "w.npz", p=np.zeros(2, "float32"))
    tar, weights = exported(tmp_path / "m.tar", "classic"), tmp_path / "w.npz"
    with pytest.raises(mblob.BuildError, match=r"m\.tar\S* and \S*w\.npz both have a tensor 'p'"):
        build(BuildPlan(tmp_path / "a.so", objects=[tar], weights=[weights]))
    build(BuildPlan(tmp_path / "a.so", objects=[tar]))
    with pytest.raises(mblob.BuildError, match="has a tensor 'p' already"):
        mblob.add(tmp_path / "a.so", weights=weights)
    host = mblob.csource_module("")
    host.import_module(mblob.safetensors_module(weights))
    host.export_library(tmp_path / "b.so")
    factory = mblob.graph_executor_factory(GRAPH, {"p": np.ones(3, "float32")})
    with pytest.raises(mblob.BuildError, match=r"safetensors.*has a tensor 'p' already"):
        mblob.add(tmp_path / "b.so", modules=[factory])


def test_two_models_may_have_parameters_of_one_name(tmp_path: Path, recwarn: Any) -> None:
    root = mblob.graph_executor_factory(GRAPH, {"p": np.ones(3, "float32")})
    root.import_module(mblob.graph_executor_factory(GRAPH, {"p": np.ones(3, "float32")}))
    root.export_library(tmp_path / "a.so")
    assert not [w for w in recwarn if issubclass(w.category, mblob.HiddenNameWarning)]
