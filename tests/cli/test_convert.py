"""`mblob-pack convert` on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

import mblob
from tests.e2e.ffi.ffi_sources import plain_module


@pytest.mark.slow
def test_a_library_is_converted_with_its_functions_or_from_its_objects(
    pack, error_line, tmp_path: Path
) -> None:
    root = mblob.csource_module("")
    root.import_module(mblob.blob_module("my.kind", b"hello"))
    root.export_library(tmp_path / "d.so")
    done = pack("convert", "d.so", "--dialect", "ffi", "-o", "f.so")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("wrote f.so: ")
    said = pack("convert", "d.so", "--to", "ffi", "-o", "f.so").stderr
    assert "did you mean '--dialect'?" in said
    assert "library_bin" in pack("inspect", "f.so", "--json").stdout
    plain_module().export_library(tmp_path / "p.tar")
    plain_module().export_library(tmp_path / "p.so")
    done = pack("convert", "p.so", "--dialect", "ffi", "-o", "j.so", "-q")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = pack("convert", "p.so", "--dialect", "ffi", "--cc", "no-such-cc", "-o", "x.so")
    assert done.returncode == 4 and "no-such-cc" in error_line(done)
    assert not (tmp_path / "x.so").exists()
    assert pack("convert", "p.tar", "--dialect", "ffi", "--no-index", "-o", "x.so").returncode == 0
    for name in ("x.so", "j.so"):
        with mblob.open(tmp_path / name) as lib:
            assert "vadd" in lib.functions and lib.elf.find("__tvm_ffi_vadd") is not None


def test_wrong_command_lines(pack, error_line, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("text")
    for arguments, code, culprit in (
        (["text", "--dialect", "ffi", "-o", "x.so"], 3, "text"),
        (["none.so", "--dialect", "ffi", "-o", "x.so"], 5, "none.so"),
        (["text", "-o", "x.so"], 2, "--dialect"),
        (["text", "--dialect", "ffi", "-o", "-"], 2, "-o -"),
    ):
        done = pack("convert", *arguments)
        assert done.returncode == code, (arguments, done.stderr)
        assert culprit in error_line(done)


def test_a_manifest_names_the_dialect(pack, tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text("int f(int x) { return x; }\n")
    lines = (
        'output = "m.so"',
        'kernels = ["k.c"]',
        'functions = ["int f(int x)"]',
        'dialect = "ffi"',
    )
    (tmp_path / "m.toml").write_text("\n".join(lines))
    assert pack("build", "m.toml").returncode == 0
    with mblob.open(tmp_path / "m.so") as lib:
        assert lib.dialect == "ffi"
        assert lib.elf.find("__tvm_ffi_f") is not None
    assert pack("build", "--kernel", "k.c", "--dialect", "ffi", "-o", "n.so").returncode == 0
