"""Inputs that hold packed modules already, such as the members of TVM's tars: they are refused, as
nobody would read them beside those of the library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import mblob
from mblob.packager.errors import BuildError

KERNEL = "int twice(int x) { return 2 * x; }"
SYMBOLS = ("__tvm_dev_mblob", "__tvm_ffi__library_bin", "__tvm_ffi_library_bin")
SAYS = (
    r"defines \w+, the packed modules of another library .*extract writes .*blob_module packs one"
)


def devc(folder: Path, symbol: str, flags: tuple[str, ...] = ()) -> Path:
    source = folder / "devc.c"
    source.write_text(f"const unsigned char {symbol}[16] = {{8}};\n")
    command = ["cc", "-fPIC", *flags, "-c", source, "-o", folder / "devc.o"]
    subprocess.run(command, check=True)
    return source


@pytest.mark.sample(3)
@pytest.mark.parametrize("symbol", SYMBOLS)
@pytest.mark.parametrize("how", ["object", "bytes", "archive", "source", "text"])
def test_an_input_that_holds_packed_modules_is_refused(
    tmp_path: Path, symbol: str, how: str
) -> None:
    source = devc(tmp_path, symbol)
    subprocess.run(["ar", "rc", "devc.a", "devc.o"], cwd=tmp_path, check=True)
    root = mblob.csource_module(KERNEL, functions=["int twice(int x)"])
    root.import_module(
        {
            "object": lambda: mblob.static_library(tmp_path / "devc.o"),
            "bytes": lambda: mblob.static_library((tmp_path / "devc.o").read_bytes()),
            "archive": lambda: mblob.static_library(tmp_path / "devc.a"),
            "source": lambda: mblob.csource_module(source),
            "text": lambda: mblob.csource_module(source.read_text()),
        }[how]()
    )
    with pytest.raises(BuildError, match=SAYS):
        root.export_library(tmp_path / "m.so", dialect="ffi" if "dev" in symbol else "classic")
    assert not (tmp_path / "m.so").exists()


@pytest.mark.parametrize(
    ("name", "flags"), [("m.so", ()), ("m.tar", ()), ("m.a", ()), ("m.so", ("-flto",))]
)
def test_every_output_refuses_it(tmp_path: Path, name: str, flags: tuple[str, ...]) -> None:
    devc(tmp_path, SYMBOLS[1], flags)
    root = mblob.csource_module(KERNEL, functions=["int twice(int x)"])
    root.import_module(mblob.static_library(tmp_path / "devc.o"))
    with pytest.raises(BuildError, match="the packed modules of another library"):
        root.export_library(tmp_path / name, system_lib=name == "m.a")


def test_without_modules_of_our_own_the_members_of_a_tar_are_linked_as_they_are(
    tmp_path: Path,
) -> None:
    """Nothing is lost then: the library is what TVM would link of them."""
    model = mblob.csource_module("int f(void *args, void *codes, int n) { return 0; }")
    model.import_module(mblob.blob_module("labels", b"cat"))
    model.export_library(tmp_path / "whole.tar")
    subprocess.run(["tar", "xf", "whole.tar"], cwd=tmp_path, check=True)
    first, *others = [mblob.static_library(p) for p in sorted(tmp_path.glob("*.o"))]
    for module in others:
        first.import_module(module)
    first.export_library(tmp_path / "again.so", index=False)
    assert bytes(mblob.load_module(tmp_path / "again.so").payloads["labels"]) == b"cat"


def test_verify_and_inspect_tell_of_two_blobs(tmp_path: Path) -> None:
    mblob.csource_module(KERNEL).export_library(tmp_path / "one.tar")
    devc(tmp_path, SYMBOLS[1])
    (tmp_path / "devc.o").rename(tmp_path / "other.o")
    subprocess.run(["tar", "xf", "one.tar"], cwd=tmp_path, check=True)
    names = [str(p) for p in tmp_path.glob("*.o")]
    subprocess.run(["cc", "-shared", *names, "-o", tmp_path / "two.so"], check=True)
    for verb in ("verify", "inspect"):
        command = [sys.executable, "-m", "mblob.cli.main", verb, tmp_path / "two.so"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert "__tvm_dev_mblob and __tvm_ffi__library_bin" in done.stdout + done.stderr, verb
