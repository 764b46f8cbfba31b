"""`mblob-pack extract`: payloads as files, byte for byte; code and texts beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

import mblob


def test_a_payload_is_written_byte_for_byte(pack, deploy: Path, tmp_path: Path) -> None:
    done = pack("extract", deploy, "-o", tmp_path / "new" / "parts")
    assert (done.returncode, done.stderr) == (0, "")
    (path,) = (tmp_path / "new" / "parts").iterdir()
    assert done.stdout == f"{path}\n"
    assert (path.name, path.read_bytes()) == ("1-about.payload", b'{"version": 3}')


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
    (tmp_path / "1-about.payload").write_text("old")
    with (tmp_path / "1-about.payload").open() as held:
        assert pack("extract", deploy, "-o", tmp_path).returncode == 0
        assert held.read() == "old"
    assert (tmp_path / "1-about.payload").read_text() == '{"version": 3}'
    done = pack("extract", deploy, "--entry", "cuda", "-o", tmp_path)
    assert (done.returncode, "no entry 'cuda'" in done.stderr, "1 (about)" in done.stderr) == (
        2,
        True,
        True,
    )
    done = pack("extract", deploy, "--entry", "0", "-o", tmp_path)
    assert (done.returncode, "the library itself" in done.stderr) == (2, True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["1-about.payload"]


def test_one_payload_to_a_named_file(pack, deploy: Path, golden: Path, tmp_path: Path) -> None:
    done = pack("extract", deploy, "--entry", "about", "-o", "about.bin")
    assert (done.returncode, done.stdout) == (0, "about.bin\n")
    assert (tmp_path / "about.bin").read_text() == '{"version": 3}'
    done = pack("extract", golden / "dnnl_c_lib.so", "-o", "all.payload")
    assert (done.returncode, "3 to write" in done.stderr) == (2, True)
    done = pack("extract", deploy, "-o", "a.safetensors")
    assert (done.returncode, "is no safetensors file" in done.stderr) == (2, True)
    (tmp_path / "folder.bin").mkdir()
    assert pack("extract", deploy, "-o", "folder.bin").returncode == 0
    assert (tmp_path / "folder.bin" / "1-about.payload").exists()


def test_a_file_without_a_blob_is_no_model_library(pack, golden: Path, tmp_path: Path) -> None:
    done = pack("extract", golden / "host_llvm.so", "-o", tmp_path / "none")
    assert (done.returncode, "nothing to extract" in done.stderr) == (3, True)
    assert not (tmp_path / "none").exists()
