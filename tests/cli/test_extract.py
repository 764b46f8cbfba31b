"""`mblob-pack extract`: payloads as files, byte for byte; code and texts beside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mblob
from mblob.dtype import DataType
from mblob.format import safetensors


def test_a_payload_is_written_byte_for_byte(pack, deploy: Path, tmp_path: Path) -> None:
    done = pack("extract", deploy, "-o", tmp_path / "new" / "parts")
    assert (done.returncode, done.stderr) == (0, "")
    (path,) = (tmp_path / "new" / "parts").iterdir()
    assert done.stdout == f"{path}\n"
    assert (path.name, path.read_bytes()) == ("1-about.json", b'{"version": 3}')


@pytest.mark.parametrize(
    ("name", "files", "text"),
    [
        ("ffi/metal", ["1-metal.metal", "1-metal.payload"], "kernel void vadd_kernel("),
        ("ffi/webgpu", ["1-webgpu.payload", "1-webgpu.wgsl"], "fn vadd_kernel("),
        ("ffi/relax_c", ["0-relax.VMExecutable.payload"], ""),
        ("opencl_llvm", ["1-opencl.cl", "1-opencl.payload"], "__kernel void vadd_kernel("),
        ("mlp_llvm", ["0-GraphExecutorFactory.json", "0-GraphExecutorFactory.payload"], '"nodes"'),
    ],
)
def test_libraries_of_tvm(
    pack, golden: Path, tmp_path: Path, name: str, files: list[str], text: str
) -> None:
    done = pack("extract", golden / f"{name}.so", "-o", tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == files
    readable = [p for p in tmp_path.iterdir() if p.suffix != ".payload"]
    assert text in "".join(p.read_text() for p in readable)
    with mblob.open(golden / f"{name}.so") as lib:
        payloads = [bytes(e.view()) for e in lib.entries if e.offset is not None]
    assert [p.read_bytes() for p in tmp_path.iterdir() if p.suffix == ".payload"] == payloads


def test_binary_device_code_is_written_as_it_is(pack, tmp_path: Path) -> None:
    code = b"\x7fELF\0\1\2"
    module = mblob.device_module("cuda", code, functions=[("k", ["handle"])])
    module.export_library(tmp_path / "k.so")
    assert pack("extract", tmp_path / "k.so", "--entry", "cuda", "-o", tmp_path).returncode == 0
    assert (tmp_path / "0-cuda.cubin").read_bytes() == code


def test_entries_are_chosen_by_index_or_key(pack, golden: Path, tmp_path: Path) -> None:
    library = golden / "dnnl_c_lib.so"
    assert (
        pack("extract", library, "--entry", "dnnl_json", "--entry", "0", "-o", tmp_path).returncode
        == 0
    )
    names = {p.name for p in tmp_path.iterdir() if p.suffix == ".payload"}
    assert names == {"0-const_loader.payload", "1-dnnl_json.payload", "2-dnnl_json.payload"}


def test_files_are_replaced_by_a_rename_and_wrong_entries_are_told(
    pack, deploy: Path, tmp_path: Path
) -> None:
    (tmp_path / "1-about.json").write_text("old")
    done = pack("extract", deploy, "-o", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "1-about.json exists; --force replaces it" in done.stderr
    with (tmp_path / "1-about.json").open() as held:
        assert pack("extract", deploy, "-o", tmp_path, "--force").returncode == 0
        assert held.read() == "old"
    assert (tmp_path / "1-about.json").read_text() == '{"version": 3}'
    done = pack("extract", deploy, "--entry", "cuda", "-o", tmp_path)
    assert (done.returncode, "no entry 'cuda'" in done.stderr, "1 (about)" in done.stderr) == (
        2,
        True,
        True,
    )
    done = pack("extract", deploy, "--entry", "0", "-o", tmp_path)
    assert (done.returncode, "the library itself" in done.stderr) == (2, True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["1-about.json"]


@pytest.mark.parametrize("words", [(), ("--tensors",), ("--tensors", "--format", "safetensors")])
def test_nothing_is_written_if_a_file_may_not_be_replaced(
    words: tuple[str, ...], pack, tmp_path: Path
) -> None:
    arrays = {name: np.ones(2, "f") for name in "abcd"}
    library = mblob.const_loader_module(arrays, {})
    library.import_module(mblob.blob_module("about", b"text"))
    library.export_library(tmp_path / "w.so")
    names = pack("extract", "w.so", "-o", "all", *words).stdout.splitlines()
    kept = {Path(name).name for name in names[1:]}
    (tmp_path / "out").mkdir()
    for name in kept:
        (tmp_path / "out" / name).write_text("old")
    done = pack("extract", "w.so", "-o", "out", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert [name for name in kept if name not in done.stderr] == []
    text = f"{len(kept)} files exist in out: " if len(kept) > 1 else f"out/{min(kept)} exists; "
    assert text in done.stderr and "; --force replaces " in done.stderr
    assert {path.name for path in (tmp_path / "out").iterdir()} == kept
    assert pack("extract", "w.so", "-o", "out", *words, "--force").returncode == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {Path(n).name for n in names}
    with pytest.raises(mblob.BuildError, match="; force=True replaces "):
        format = "safetensors" if "safetensors" in words else None
        mblob.extract(
            tmp_path / "w.so", tmp_path / "out", tensors=bool(words), format=format, force=False
        )


def test_nothing_is_written_if_what_is_there_cannot_be_replaced(pack, tmp_path: Path) -> None:
    library = mblob.blob_module("a", b"a")
    library.import_module(mblob.blob_module("b", b"b"))
    library.export_library(tmp_path / "w.so")
    (tmp_path / "out" / "1-b.payload").mkdir(parents=True)
    done = pack("extract", "w.so", "-o", "out", "--force")
    assert (done.returncode, done.stdout) == (5, "")
    assert "out/1-b.payload: the output cannot be written: no regular file is there" in done.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["1-b.payload"]


def test_one_payload_to_a_named_file(pack, deploy: Path, golden: Path, tmp_path: Path) -> None:
    done = pack("extract", deploy, "--entry", "about", "-o", "about.bin")
    assert (done.returncode, done.stdout) == (0, "about.bin\n")
    assert (tmp_path / "about.bin").read_text() == '{"version": 3}'
    done = pack("extract", golden / "dnnl_c_lib.so", "-o", "all.payload")
    assert (done.returncode, "a file holds one payload, and" in done.stderr) == (2, True)
    done = pack("extract", deploy, "-o", "a.safetensors")
    assert (done.returncode, "is no safetensors file" in done.stderr) == (2, True)
    done = pack("extract", deploy, "--entry", "about", "-o", "about.bin")
    assert (done.returncode, "about.bin exists; --force replaces it" in done.stderr) == (2, True)
    assert pack("extract", deploy, "-o", "about.bin", "--force").returncode == 0
    (tmp_path / "folder.bin").mkdir()
    assert pack("extract", deploy, "-o", "folder.bin").returncode == 0
    assert (tmp_path / "folder.bin" / "1-about.json").exists()


def test_a_file_without_a_blob_is_no_model_library(pack, golden: Path, tmp_path: Path) -> None:
    done = pack("extract", golden / "host_llvm.so", "-o", tmp_path / "none")
    assert (done.returncode, "nothing to extract" in done.stderr) == (3, True)
    assert not (tmp_path / "none").exists()


def test_a_payload_has_the_suffix_of_what_it_is(tmp_path: Path) -> None:
    import numpy as np

    np.save(tmp_path / "a.npy", np.ones(2))
    root = mblob.csource_module("int f(void) { return 0; }", functions=["int f(void)"])
    payloads = {"x": b"[1, 2]", "y": b"[1, 2", "z": (tmp_path / "a.npy").read_bytes(), "w": b""}
    for key, payload in payloads.items():
        root.import_module(mblob.blob_module(key, payload))
    one = ("w", DataType.parse("float32"), (2,), memoryview(bytes(8)))
    (tmp_path / "w.safetensors").write_bytes(b"".join(safetensors.encode([one])))
    root.import_module(mblob.safetensors_module(tmp_path / "w.safetensors"))
    root.export_library(tmp_path / "d.so")
    files = mblob.extract(tmp_path / "d.so", tmp_path / "out")
    assert {p.name.partition("-")[2] for p in files} == {
        "x.json",
        "y.payload",
        "z.npy",
        "w.payload",
        "safetensors.safetensors",
    }


def test_a_dash_writes_one_payload_to_stdout_and_never_makes_a_folder(
    pack, deploy: Path, golden: Path, tmp_path: Path
) -> None:
    done = pack("extract", deploy, "--entry", "about", "-o", "-")
    assert (done.returncode, done.stdout, done.stderr) == (0, '{"version": 3}', "")
    for words in ((golden / "dnnl_c_lib.so",), (deploy, "--tensors")):
        done = pack("extract", *words, "-o", "-")
        assert (done.returncode, done.stdout) == (2, "")
        assert "-o - writes the payload of one entry to stdout" in done.stderr
    assert not (tmp_path / "-").exists()
