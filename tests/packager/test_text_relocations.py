"""Code that the dynamic linker would have to change is refused, whatever compiler or assembler made it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob

C = "int table[4]; int at(int i) { return table[i]; }"
WORDS = r"fixed\.o: compiled without -fPIC.*compile it with -fPIC \(in assembler, .*\.data\.rel\.ro"


def assembler(word: str, section: str) -> str:
    return f"""
.text
.globl f
.type f, %function
f: nop
.size f, .-f
.section {section}
.balign 8
place: {word} f
.section .note.GNU-stack,"",%progbits
"""


def compiled(folder: Path, cc: str, name: str, text: str, *options: str) -> Path:
    (folder / name).write_text(text)
    words = [cc, "-c", "-O2", *options, name, "-o", "fixed.o"]
    done = subprocess.run(words, cwd=folder, check=False, capture_output=True, text=True)
    if done.returncode:
        assert any(option in done.stderr for option in options), done.stderr
        pytest.skip(f"{cc} has no {' '.join(options)}")
    return folder / "fixed.o"


def refused(path: Path, **options: str) -> None:
    out = path.parent / "out.so"
    out.write_bytes(b"old")
    module = mblob.static_library(path, packed=["f"], functions=["int at(int i)", "void f(void)"])
    with pytest.raises(mblob.BuildError, match=WORDS):
        module.export_library(out, **options)
    assert out.read_bytes() == b"old"


@pytest.mark.parametrize("cc", ["cc", "aarch64-linux-gnu-gcc", "i686-linux-gnu-gcc"])
def test_compiled_code(tmp_path: Path, require: Callable[[str], str], cc: str) -> None:
    require(cc)
    large = () if "i686" in cc else ("-mcmodel=large",)
    path = compiled(tmp_path, cc, "k.c", C + "void f(void) {}", "-fno-pic", *large)
    refused(path, cc=cc)


@pytest.mark.parametrize("section", [".text", ".rodata"])
@pytest.mark.parametrize("cc", ["cc", "aarch64-linux-gnu-gcc", "i686-linux-gnu-gcc"])
def test_assembler(tmp_path: Path, require: Callable[[str], str], cc: str, section: str) -> None:
    require(cc)
    text = assembler(".long" if "i686" in cc else ".quad", section)
    refused(
        compiled(
            tmp_path, cc, "k.S", text + ".data\n.globl at\n.type at, %function\nat: .long 0\n"
        ),
        cc=cc,
    )


@pytest.mark.parametrize("linker", ["gold", "lld", "mold"])
def test_each_linker(tmp_path: Path, require: Callable[[str], str], linker: str) -> None:
    require(f"ld.{linker}")
    path = compiled(tmp_path, "cc", "k.c", C + "void f(void) {}", "-fno-pic", "-mcmodel=large")
    refused(path, options=f"-fuse-ld={linker}")


def test_the_remedies(tmp_path: Path) -> None:
    path = compiled(tmp_path, "cc", "k.c", C, "-fno-pic", "-mcmodel=large")
    module = mblob.static_library(path, functions=["int at(int i)"])
    with pytest.warns(mblob.PortabilityWarning, match="-z notext: code .* is changed"):
        module.export_library(tmp_path / "kept.so", options="-Wl,-z,notext")
    assert mblob.load_module(tmp_path / "kept.so").at(1) == 0
    path = compiled(tmp_path, "cc", "k.S", assembler(".quad", '.data.rel.ro,"aw"'))
    mblob.static_library(path, functions=["void f(void)"]).export_library(tmp_path / "k.so")
    for name in ("-fPIC", "-mcmodel=large -fPIC"):
        path = compiled(tmp_path, "cc", "k.c", C, *name.split())
        module = mblob.static_library(path, functions=["int at(int i)"])
        module.export_library(tmp_path / "k.so")
        assert mblob.load_module(tmp_path / "k.so").at(1) == 0
