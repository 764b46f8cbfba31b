"""Compilers and linkers that say that all went well when it did not."""

from __future__ import annotations

from pathlib import Path

import pytest

import mblob

ODD = {
    "the compiler writes nothing": (
        'for a in "$@"; do [ "$a" = -c ] && exit 0; done',
        "wrote nothing to",
    ),
    "the linker writes nothing": (
        'for a in "$@"; do [ "$a" = -shared ] && exit 0; done',
        "wrote nothing to",
    ),
    "the linker writes something else": (
        'for a in "$@"; do [ "$a" = -shared ] && odd=1; [ "$last" = -o ] && out="$a"; last="$a"; done\n'
        '[ "$odd" ] && { echo hello > "$out"; exit 0; }',
        "no ELF file",
    ),
}


@pytest.mark.parametrize("case", ODD)
def test_it_is_an_error_of_the_tool(tmp_path: Path, case: str) -> None:
    script, text = ODD[case]
    compiler = tmp_path / "oddcc"
    compiler.write_text(f'#!/bin/sh\n{script}\nexec cc "$@"\n')
    compiler.chmod(0o755)
    output = tmp_path / "o.so"
    output.write_bytes(b"the old one")
    host = mblob.csource_module("void f(void) {}", functions=["void f(void)"])
    with pytest.raises(mblob.ToolchainError, match=text) as caught:
        host.export_library(output, cc=str(compiler))
    assert str(compiler) in caught.value.command
    assert output.read_bytes() == b"the old one"
    assert {p.name for p in tmp_path.iterdir()} <= {"o.so", "oddcc", "TMPDIR"}


def test_a_command_that_does_not_end_its_quotation(tmp_path: Path) -> None:
    with pytest.raises(mblob.MblobError, match=r"the command \"gcc 'x\": No closing quotation"):
        mblob.csource_module("void f(void) {}").export_library(tmp_path / "o.so", cc="gcc 'x")
