"""`mblob-pack swap`: what the command line adds to `mblob.swap`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mblob
from mblob.cli.report import UsageError
from mblob.cli.swap import named, weights_of

GRAPH = '{"nodes": [], "arg_nodes": [], "heads": [], "node_row_ptr": [0], "attrs": {}}'


def test_payloads_by_index_and_key(pack, deploy: Path, tmp_path: Path) -> None:
    (tmp_path / "new.json").write_text('{"version": 4, "more": "than before"}')
    for name in ("1", "about"):
        done = pack("swap", deploy, "--entry", f"{name}=new.json", "-o", "b.so")
        assert (done.returncode, done.stdout) == (0, "")
        assert done.stderr.startswith("wrote b.so: ")
        assert pack("extract", "b.so", "--entry", "1", "-o", "out.bin", "--force").returncode == 0
        assert (tmp_path / "out.bin").read_text() == (tmp_path / "new.json").read_text()
        assert pack("verify", "b.so").returncode == 0


def test_weights_from_files(pack, tmp_path: Path) -> None:
    old = {"w": np.zeros(3, "float32"), "a=b": np.zeros(2, "int32")}
    mblob.graph_executor_factory(GRAPH, old).export_library(tmp_path / "g.so")
    np.save(tmp_path / "w.npy", np.arange(3, dtype="float32"))
    np.save(tmp_path / "ab.npy", np.arange(2, dtype="int32"))
    done = pack(
        "swap", "g.so", "--weights", "w=w.npy", "--weights", "a=b=ab.npy", "-o", "g.so", "-q"
    )
    assert (done.returncode, done.stderr) == (0, "")
    with mblob.open(tmp_path / "g.so") as library:
        assert {t.name: bytes(t.data) for t in library.entries[0].tensors} == {
            "w": np.arange(3, dtype="float32").tobytes(),
            "a=b": np.arange(2, dtype="int32").tobytes(),
        }
    assert pack("extract", "g.so", "--tensors", "-o", "all.safetensors").returncode == 0
    mblob.graph_executor_factory(GRAPH, old).export_library(tmp_path / "h.so")
    assert pack("swap", "h.so", "--weights", "all.safetensors", "-o", "h.so").returncode == 0
    assert (tmp_path / "h.so").read_bytes()[-100:] == (tmp_path / "g.so").read_bytes()[-100:]


def test_each_failure_has_its_code(pack, deploy: Path, tmp_path: Path, error_line) -> None:
    (tmp_path / "x").write_text("x")
    (tmp_path / "text.so").write_text("no library")
    for words, code, text in (
        (["--entry", "1=x"], 2, "-o"),
        (["-o", "b.so"], 2, "nothing to change"),
        (["--entry", "1", "-o", "b.so"], 2, "expected N=FILE or KEY=FILE"),
        (["--entry", "9=x", "-o", "b.so"], 2, "no entry '9'"),
        (["--entry", "1=gone", "-o", "b.so"], 5, "gone"),
        (["--weights", "x", "-o", "b.so"], 1, "safetensors"),
        (["--weights", "w=x", "-o", "b.so"], 2, "no tensor 'w'"),
        (["--entry", "1=x", "-o", "no/b.so"], 5, "no/b.so"),
    ):
        done = pack("swap", deploy, *words)
        assert (done.returncode, text in error_line(done)) == (code, True), (words, done.stderr)
    assert pack("swap", "text.so", "--entry", "1=x", "-o", "b.so").returncode == 3
    assert not (tmp_path / "b.so").exists()


def test_names_with_equals_signs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c=d").write_text("")
    assert named("a=b=c=d", "") == ("a=b", Path("c=d"))
    assert named("a=b=gone", "") == ("a", Path("b=gone"))
    assert weights_of(["c=d"]) == Path("c=d")
    assert weights_of([]) is None
    for texts in (["a", "b"], ["=x"], ["a=x", "a=y"]):
        with pytest.raises(UsageError):
            weights_of(texts)


def test_constants_of_a_program_are_weights_that_inspect_names(
    pack, golden: Path, tmp_path: Path
) -> None:
    source = golden / "relax" / "cnn_bound.so"
    if not source.exists():
        pytest.skip("no golden libraries of Relax")
    assert "constant 7  float32[8]" in pack("inspect", source).stdout
    done = pack("extract", source, "--tensor", "constant 7", "-o", "w.npy")
    assert done.returncode == 0, done.stderr
    np.save(tmp_path / "w.npy", np.load(tmp_path / "w.npy") + 1)
    done = pack("swap", source, "--weights", "constant 7=w.npy", "-o", "tuned.so", "-q")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = pack("diff", source, "tuned.so")
    assert "tensor constant 7" in done.stdout
    assert "constant 11" not in done.stdout
    np.save(tmp_path / "w.npy", np.zeros(9, "f4"))
    done = pack("swap", source, "--weights", "constant 7=w.npy", "-o", "other.so")
    assert done.returncode == 2
    assert (
        "'constant 7': expected float32 of shape (8,), which the code of the library was compiled for, found float32"
        in done.stderr
    )


def test_a_file_of_tensors_goes_to_the_modules_that_have_them(pack, tmp_path: Path) -> None:
    """Two weights modules: names say where a tensor goes; an entry can be replaced as a whole."""
    encoder, decoder = (
        mblob.safetensors_module({k: np.zeros(2, "float32") for k in names})
        for names in (("e.w", "shared"), ("d.w", "shared"))
    )
    encoder.import_module(decoder)
    with pytest.warns(mblob.HiddenNameWarning, match="shared"):
        mblob.export_library(encoder, tmp_path / "two.so")

    def written(name: str, *tensors: str) -> None:
        mblob.save_tensors(tmp_path / name, {k: np.ones(2, "float32") for k in tensors})

    def sums(name: str) -> list[dict[str, float]]:
        with mblob.open(tmp_path / name) as library:
            modules = [e.tensors for e in library.entries if e.type_key == "safetensors"]
            return [
                {t.name: float(np.frombuffer(t.data, "float32").sum()) for t in tensors}
                for tensors in modules
            ]

    written("both.safetensors", "e.w", "d.w")
    done = pack("swap", "two.so", "--weights", "both.safetensors", "-o", "a.so")
    assert done.returncode == 0, done.stderr
    assert sums("a.so") == [{"e.w": 2.0, "shared": 0.0}, {"d.w": 2.0, "shared": 0.0}]
    written("d.safetensors", "d.w", "shared")
    done = pack("swap", "two.so", "--weights", "d.safetensors", "-o", "b.so")
    assert done.returncode == 2 and "'shared' is in several entries: 0 (" in done.stderr
    assert "--blob 0=NEW" in done.stderr
    done = pack("swap", "two.so", "--weights", "1=d.safetensors", "-o", "b.so")
    assert done.returncode == 2 and "--blob 1=NEW" in done.stderr, done.stderr
    done = pack("swap", "two.so", "--entry", "1=d.safetensors", "-o", "c.so")
    assert done.returncode == 0, done.stderr
    assert sums("c.so") == [{"e.w": 0.0, "shared": 0.0}, {"d.w": 2.0, "shared": 2.0}]
