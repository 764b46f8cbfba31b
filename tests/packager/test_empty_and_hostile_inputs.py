"""Archives without members, hostile members of a `.tar`, and cut parameters: one error, the old file stays."""

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

DIRECTORY, SYMLINK, HARDLINK, DEVICE, FIFO, FILE = (
    tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.REGTYPE,
)  # fmt: skip


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """An object that defines `two`."""
    folder = tmp_path_factory.mktemp("object")
    (folder / "k.c").write_text("int two(void) { return 2; }\n")
    subprocess.run(["cc", "-fPIC", "-g", "-c", "k.c"], cwd=folder, check=True)
    return (folder / "k.o").read_bytes()


@pytest.fixture
def home(golden: Path) -> Path:
    return golden / "mlp_c.so"


def tar(path: Path, *members: tuple[dict[str, Any], bytes]) -> Path:
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as file:
        for fields, data in members:
            info = tarfile.TarInfo(fields["name"])
            info.size = len(data)
            for name, value in fields.items():
                setattr(info, name, value)
            file.addfile(info, io.BytesIO(data))
    return path


def refused_everywhere(
    path: Path, capsys: pytest.CaptureFixture[str], words: str, home: Path
) -> None:
    """By each verb that takes objects; what was there stays. `home`: a library to add them to."""
    folder = path.parent
    verbs = (
        ["build", path, "-o", folder / "out.so"],
        ["add", home, "--object", path, "-o", folder / "out.so"],
        ["convert", path, "--dialect", "ffi", "-o", folder / "out.tar"],
    )
    for verb in verbs:
        verb[-1].write_bytes(b"old")  # type: ignore[union-attr]
        assert main([str(word) for word in verb]) in (1, 2)
        error = capsys.readouterr().err
        assert error.startswith(f"mblob-pack: error: {path}"), error
        assert words in error, error
        assert error.count("\n") == 1
        assert verb[-1].read_bytes() == b"old"  # type: ignore[union-attr]
    left = {p.name for p in folder.iterdir()}
    assert left <= {path.name, "out.so", "out.tar", "TMPDIR"}
    with pytest.raises(mblob.MblobError, match=path.name):
        mblob.static_library(path).export_library(folder / "out.so")


def test_a_tar_with_folders_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    path = tar(tmp_path / "e.tar", ({"name": "d/", "type": DIRECTORY}, b""))
    refused_everywhere(
        path, capsys, "a tar archive without objects or sources; it has no files", home
    )


@pytest.mark.parametrize("table", [b"", b"/" + b" " * 47 + b"4         `\n\0\0\0\0"])
def test_an_archive_without_members(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], home: Path, table: bytes
) -> None:
    (tmp_path / "e.a").write_bytes(b"!<arch>\n" + table)
    words = "an archive without members, expected objects in it"
    refused_everywhere(tmp_path / "e.a", capsys, words, home)


def test_a_tar_without_members(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tar(tmp_path / "e.tar")
    out = tmp_path / "out.so"
    out.write_bytes(b"old")
    assert main(["build", str(path), "-o", str(out)]) == 2
    assert "e.tar: it begins with zeros: a tar archive without files" in capsys.readouterr().err
    assert out.read_bytes() == b"old"


LEADS, LINK = "its name leads out of the archive", "it is a link or a device"
HOSTILE: dict[str, tuple[list[dict[str, Any]], str]] = {
    "parent": ([{"name": "../x.o"}], LEADS),
    "parent inside": ([{"name": "a/../../x.o"}], LEADS),
    "absolute": ([{"name": "/tmp/mblob-test-member.o"}], LEADS),
    "absolute by pax": ([{"name": "x.o", "pax_headers": {"path": "/tmp/mblob-test-member.o"}}], LEADS),
    "symbolic link": ([{"name": "x.o", "type": SYMLINK, "linkname": "/etc/passwd", "size": 0}], LINK),
    "hard link": ([{"name": "k.o"}, {"name": "x.o", "type": HARDLINK, "linkname": "k.o", "size": 0}], LINK),
    "device": ([{"name": "x.o", "type": DEVICE, "size": 0}], LINK),
    "pipe": ([{"name": "x.o", "type": FIFO, "size": 0}], LINK),
    "10 GB by pax": ([{"name": "x.o", "pax_headers": {"size": "10000000000"}}], "10000000000 bytes, "),
    "twice": ([{"name": "k.o"}, {"name": "k.o"}], "it is there twice"),
    "twice, spelled otherwise": ([{"name": "k.o"}, {"name": "./k.o"}], "it is there twice"),
    "a tar": ([{"name": "k.o"}, {"name": "x.tar", "size": 0}], "expected an object file"),
}  # fmt: skip


@pytest.mark.parametrize("name", list(HOSTILE))
def test_hostile_members(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], home: Path, name: str, code: bytes
) -> None:
    members, words = HOSTILE[name]
    path = tar(tmp_path / "h.tar", *((m, code if m.get("size") != 0 else b"") for m in members))
    refused_everywhere(path, capsys, words, home)
    assert not Path("/tmp/mblob-test-member.o").exists()


def test_a_size_that_the_archive_has_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], home: Path, code: bytes
) -> None:
    info = tarfile.TarInfo("k.o")
    for size in (10_000_000_000, 1 << 62, len(code)):
        info.size = size
        content = (info.tobuf(tarfile.GNU_FORMAT) + code)[: 512 + len(code) - 100]
        (tmp_path / "h.tar").write_bytes(content)
        refused_everywhere(tmp_path / "h.tar", capsys, f"{size} bytes, ", home)


@pytest.mark.parametrize("name", ["x" * 3000 + ".o", ".", "b\nc.o", "ü" * 200 + ".o"])
def test_odd_names_are_only_names(tmp_path: Path, name: str, code: bytes) -> None:
    path = tar(tmp_path / "k.tar", ({"name": name}, code))
    mblob.static_library(path, functions=["int two(void)"]).export_library(tmp_path / "k.so")
    assert mblob.load_module(tmp_path / "k.so").two() == 2


# -- TVM -------------------------------------------------------------------------------------------


def test_keys_that_tvm_does_not_know_beside_objects_of_tvm(
    golden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `add` says it: `build`, and `export_library`; of a tar, and of a folder with its members."""
    model = golden / "lm" / "llama_legacy.bytecode.tar"
    with tarfile.open(model) as file:
        file.extractall(tmp_path / "parts", filter="data")
    (tmp_path / "labels.json").write_text("[]")
    labels = f"labels={tmp_path / 'labels.json'}"
    out = str(tmp_path / "all.so")
    words = (
        "warning: TVM cannot open the result: it refuses a library that has modules of kinds it"
        " does not know (labels)"
    )
    for given in (model, tmp_path / "parts"):
        assert main(["build", str(given), labels, "-o", out]) == 0
        assert capsys.readouterr().err.count(words) == 1
    assert main(["add", str(model), labels, "-o", out]) == 0
    assert capsys.readouterr().err.count(words) == 1
    assert main(["build", str(model), "-o", out]) == 0
    assert "TVM cannot open" not in capsys.readouterr().err
    module = mblob.static_library(model)
    module.import_module(mblob.blob_module("labels", b"[]"))
    with pytest.warns(mblob.PortabilityWarning, match=r"TVM cannot open the result.*\(labels\)"):
        module.export_library(out)


# -- parameters ------------------------------------------------------------------------------------


def test_cut_parameters_say_so(golden: Path, tmp_path: Path) -> None:
    whole = bytes(mblob.save_param_dict({"w": np.ones((2, 3), "float32")}))
    path = tmp_path / "w.params"
    for size in (8, 12, 24, 40, len(whole) - 1):
        path.write_bytes(whole[:size])
        for order in (None, True):
            with pytest.raises(
                mblob.FormatError, match=r"w\.params: the file ends too early, write"
            ):
                mblob.safetensors_module(path, order=order)
    path.write_bytes(b"")
    with pytest.raises(mblob.FormatError, match=r"w\.params: the file is empty; expected \.safe"):
        mblob.safetensors_module(path)
    graph = mblob.load_module(golden / "mlp_c.so")["get_graph_json"]()
    for given in (b"", whole[:7], whole[:12]):
        with pytest.raises(mblob.FormatError, match="graph_executor_factory: params: "):
            mblob.graph_executor_factory(graph, given)


def test_a_model_gets_at_least_one_parameter(golden: Path, tmp_path: Path) -> None:
    path = tmp_path / "none.params"
    path.write_bytes(bytes(mblob.save_param_dict({})))
    words = r"none\.params: no tensors in it; give the parameters of the model, or none"
    with pytest.raises(mblob.BuildError, match=words):
        mblob.safetensors_module(path, order=True)
    for model in ("mlp_c.so", "lm/llama_legacy.compiled.so"):
        with pytest.raises(mblob.BuildError, match=words):
            mblob.add(golden / model, params=path, output=tmp_path / "out.so")
        assert not (tmp_path / "out.so").exists()
