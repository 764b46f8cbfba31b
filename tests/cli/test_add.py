"""`mblob-pack add`: what the command line adds to `mblob.add`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import mblob
from mblob.native.runtime import ffi, lib


def test_weights_and_files(pack, deploy: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", w=np.arange(3, dtype="float32"))
    mblob.save_tensors(tmp_path / "more.safetensors", {"b": np.ones(2, "int32")})
    (tmp_path / "labels.json").write_text("[1]")
    words = ["--weights", "w.npz", "--weights", "more.safetensors", "--blob", "labels=labels.json"]
    done = pack("add", deploy, *words, "-o", "b.so")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("wrote b.so: ") and len(done.stderr.splitlines()) == 1
    with mblob.open(tmp_path / "b.so") as library:
        assert [e.type_key for e in library.entries] == [
            "library",
            "about",
            "safetensors",
            "safetensors",
            "labels",
        ]
    assert pack("verify", "b.so").returncode == 0
    assert (
        pack("add", "b.so", "--blob", "labels=w.npz", "--replace", "-o", "b.so", "-q").stderr == ""
    )
    assert (
        bytes(mblob.load_module(tmp_path / "b.so").payloads["labels"])
        == (tmp_path / "w.npz").read_bytes()
    )


def test_weights_packed_as_a_file_are_told(pack, deploy: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "w.npy", np.ones(2, "f4"))
    for words in (("add", deploy), ("build",)):
        done = pack(*words, "w=w.npy", "-o", "file.so")
        assert done.returncode == 0
        assert "as the payload 'w'; its tensors have no names" in done.stderr
        assert "warning" not in pack(*words, "--blob", "w=w.npy", "-o", "file.so").stderr
        with pytest.raises(mblob.NotFoundError, match=r"payload has this key: payloads\['w'\]"):
            mblob.load_module(tmp_path / "file.so").tensors["w"]
        handle = mblob.load_module(tmp_path / "file.so")._node.handle  # type: ignore[attr-defined]
        assert lib.mblob_module_tensor(handle, b"w", ffi.new("DLTensor *")) != 0
        assert ffi.string(lib.mblob_last_error()).endswith(b"none; a payload has this key")
    assert pack("add", deploy, "w.npy", "-o", "tensor.so").returncode == 0
    with pytest.raises(mblob.NotFoundError, match=r"tensor has this name: tensors\['w'\]"):
        mblob.load_module(tmp_path / "tensor.so").payloads["w"]


def test_a_source_packed_as_a_file_is_told(pack, deploy: Path, tmp_path: Path) -> None:
    (tmp_path / "pre.c").write_text("int one(void) { return 1; }")
    said = pack("add", deploy, "k=pre.c", "-o", "b.so").stderr
    assert (
        "as the payload 'k'; none of its functions is compiled. To compile it, write pre.c;" in said
    )
    assert "compiled" not in pack("add", deploy, "--blob", "k=pre.c", "-o", "b.so").stderr


def test_swap_names_the_tensor_of_an_array_file_as_add_does(
    pack, deploy: Path, tmp_path: Path
) -> None:
    np.save(tmp_path / "w.npy", np.ones(2, "f4"))
    assert pack("add", deploy, "w.npy", "-o", "a.so").returncode == 0
    np.save(tmp_path / "w.npy", np.zeros(2, "f4"))
    assert pack("swap", "a.so", "--weights", "w.npy", "-o", "b.so").returncode == 0
    assert not mblob.load_module(tmp_path / "b.so").tensors["w"].numpy().any()


def test_the_library_may_stand_anywhere_among_the_words(pack, deploy: Path, tmp_path: Path) -> None:
    (tmp_path / "labels.json").write_text("[1]")
    np.save(tmp_path / "w.npy", np.ones(2, "f4"))
    for i, words in enumerate(
        (
            ["labels=labels.json", deploy, "-o"],
            ["w.npy", "labels=labels.json", deploy, "-o"],
            ["labels=labels.json", "w.npy", "-q", deploy, "-o"],
        )
    ):
        assert pack("add", *words, f"{i}.so").returncode == 0
        with mblob.open(tmp_path / f"{i}.so") as library:
            assert [e.type_key for e in library.entries][:2] == ["library", "about"]
            assert library.entries[-1].type_key == "labels"
    done = pack("add", "labels=labels.json", "w.npy", "-o", "no.so")
    assert done.returncode == 5 and "error: labels=labels.json: no such file" in done.stderr


def test_a_file_of_torch_is_told_how_to_become_weights(pack, deploy: Path, tmp_path: Path) -> None:
    (tmp_path / "sd.pt").write_bytes(b"\x80\x02}q\x00.")
    call = "safetensors.torch.save_file(torch.load('sd.pt', weights_only=True), 'sd.safetensors')"
    for words in (("build",), ("add", deploy), ("build", "--weights")):
        done = pack(*words, "sd.pt", "-o", "x.so")
        assert done.returncode == 1 and done.stderr.count("sd.pt:") == 1
        assert call in done.stderr
    (tmp_path / "sd.pt").write_bytes(b"no pickle")
    assert "hint: sd=sd.pt" in pack("build", "sd.pt", "-o", "x.so").stderr


def test_what_tvm_refuses_and_what_stays_behind(pack, golden: Path, tmp_path: Path) -> None:
    (tmp_path / "labels.json").write_text("[1]")
    done = pack("add", golden / "opencl_llvm.so", "--blob", "labels=labels.json", "-o", "b.so")
    warning, written, left = done.stderr.splitlines()
    assert done.returncode == 0 and written.startswith("wrote b.so: ")
    assert (
        warning.startswith("mblob-pack: warning: TVM cannot open the result: ")
        and "(labels)" in warning
    )
    assert left == "mblob-pack: info: 605 B of the old packed modules stay behind in b.so, unused"


def test_a_function_of_the_library(pack, tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text("int three(void) { return 3; }\nint four(void) { return 4; }\n")
    assert pack("build", "k.c", "--function", "three", "-o", "a.so").returncode == 0
    for words in (("four",), ("int four(void)", "--blob", "k=k.c")):
        done = pack("add", "a.so", "-q", "-o", "b.so", "--function", *words)
        assert (done.returncode, done.stderr) == (0, "")
        assert mblob.load_module(tmp_path / "b.so").four() == 4
    done = pack("add", "a.so", "-o", "c.so", "--function", "for")
    assert done.returncode == 2 and "did you mean 'four'" in done.stderr


def test_each_failure_has_its_code(pack, deploy: Path, tmp_path: Path, error_line) -> None:
    (tmp_path / "x").write_text("x")
    for words, code, text in (
        (["--blob", "k=x"], 2, "-o"),
        (["-o", "b.so"], 2, "nothing to add"),
        (
            ["--kernel", "x", "--function", "f", "--no-functions", "-o", "b.so"],
            2,
            "exclude each other",
        ),
        (["--blob", "x", "-o", "b.so"], 2, "expected KEY=FILE"),
        (["--blob", "k=x", "--blob", "k=x", "-o", "b.so"], 2, "two files for the key 'k'"),
        (["--blob", "about=x", "-o", "b.so"], 2, "--replace replaces it"),
        (["--blob", "k=gone", "-o", "b.so"], 5, "gone"),
        (["--weights", "x", "-o", "b.so"], 1, "safetensors"),
        (["--blob", "k=x", "-o", "no/b.so"], 5, "no/b.so"),
    ):
        done = pack("add", deploy, *words)
        assert done.returncode == code, done.stderr
        assert text in done.stderr
        assert not (tmp_path / "b.so").exists()


def test_words_mean_what_the_options_do(pack, deploy: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", w=np.arange(3, dtype="float32"))
    (tmp_path / "labels.json").write_text("[1]")
    (tmp_path / "two.c").write_text("int two(void) { return 2; }\n")
    done = pack("add", deploy, "w.npz", "-o", "b.so", "-q", "two.c", "labels=labels.json")
    assert (done.returncode, done.stderr) == (0, "")
    lib = mblob.load_module(tmp_path / "b.so")
    assert lib["two"]() == 2 and bytes(lib.payloads["labels"]) == b"[1]" and "w" in lib.tensors
    for word, code, text in (
        ("labels.json", 2, "hint: labels=labels.json"),
        ("b.so", 2, "a finished library"),
        ("gone.txt", 5, "no such file"),
    ):
        done = pack("add", deploy, word, "-o", "c.so")
        assert (done.returncode, text in done.stderr) == (code, True), done.stderr


def test_a_folder_and_a_file_in_it_are_taken_once(pack, kernel: Path, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    for name in ("two", "three"):
        (tmp_path / "src" / f"{name}.c").write_text(
            f'#include "n.h"\nint {name}(void) {{ return N; }}\n'
        )
    (tmp_path / "src" / "n.h").write_text("#define N 7\n")
    done = pack("build", "src", "src/../src/two.c", "-o", "b.so", "-q")
    assert (done.returncode, done.stderr) == (0, "")
    assert mblob.load_module(tmp_path / "b.so").three() == 7
    done = pack("add", "src", "src/two.c", "-o", "c.so")
    assert done.returncode == 2 and "it is no library to add to: pack it with build" in done.stderr
    library = mblob.csource_module("int one(void) { return 1; }")
    library.import_module(mblob.blob_module("k", b"x"))
    library.export_library(tmp_path / "model.tar")
    (tmp_path / "model").mkdir()
    subprocess.run(["tar", "xf", "../model.tar"], cwd=tmp_path / "model", check=True)
    (tmp_path / "model" / "lib7.c").write_text("int seven(void) { return 7; }\n")
    done = pack("add", "model", "model/lib7.c", "-o", "c.so")
    assert (
        done.returncode == 2 and "lib7.c is a file of the library that is added to" in done.stderr
    )
    for verb in ("add", "build"):
        done = pack(verb, "model", "model/lib7.c", "src/two.c", "-o", f"{verb}.so", "-q")
        assert (done.returncode, done.stderr) == (0, "")
        assert mblob.load_module(tmp_path / f"{verb}.so")["seven"]() == 7
