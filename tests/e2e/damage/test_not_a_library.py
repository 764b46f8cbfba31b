"""A file that is something else, or only the beginning of a library: what it is said to be, by all
that open libraries."""

from __future__ import annotations

import gzip
import io
import re
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

import mblob
from mblob.native.runtime import ffi, lib
from tests.warm import warm

FIRST = "; sources, objects and weights are packed into a shared library first (mblob-pack build)"
RUN = "void run(float x[1])"


def command(verb: str, path: Path) -> tuple[int, str]:
    done = warm("mblob.cli.command_line", "mblob.cli.inspect", "mblob.cli.verify")(
        "mblob.cli.main", verb, path
    )
    return done.returncode, done.stderr.strip()


def zipped() -> bytes:
    """As PyTorch writes a .pt."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("archive/data.pkl", b"x")
    return out.getvalue()


def tar_of(content: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as file:
        member = tarfile.TarInfo("a.txt")
        member.size = len(content)
        file.addfile(member, io.BytesIO(content))
    return out.getvalue()


def array() -> bytes:
    out = io.BytesIO()
    np.save(out, np.ones(3))
    return out.getvalue()


FILES = {
    "empty": b"",
    "text": b"hello\n",
    "zip": zipped(),
    "npy": array(),
    "zeros": bytes(9000),
}


def in_c(path: Path) -> tuple[str, str]:
    """What mblob_open says, and the code."""
    assert lib.mblob_open(str(path).encode(), ffi.NULL, ffi.new("mblob_module **")) != 0
    text = ffi.string(lib.mblob_last_error()).decode()
    return text, ffi.string(lib.mblob_last_error_info().code).decode()


@pytest.mark.parametrize("name", FILES)
def test_what_is_no_library_has_no_wrong_byte_and_breaks_no_rule(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"x.{name}"
    path.write_bytes(FILES[name])
    loaded = "an empty file" if name == "empty" else f"not an ELF file{FIRST}"
    looked = loaded if name == "empty" else f"not a library: neither ELF, Mach-O nor PE{FIRST}"
    assert in_c(path) == (f"{path}: {loaded}", "not_elf")
    for source, culprit in ((path, path), (FILES[name], "memory")):
        with pytest.raises(mblob.FormatError) as caught:
            mblob.load_module(source)
        assert (str(caught.value), caught.value.code) == (f"{culprit}: {loaded}", "not_elf")
    for verb in ("inspect", "verify"):
        assert command(verb, path) == (3, f"mblob-pack: error: {path}: {looked}")
    with pytest.raises(mblob.FormatError) as caught:
        mblob.open(path)
    assert (str(caught.value), caught.value.code) == (f"{path}: {looked}", "not_elf")


def test_a_tar_without_code_and_a_gzip_file_without_a_tar(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(tar_of(b"hello"))
    said = (3, f"mblob-pack: error: {path}: one member, which is no machine code")
    assert command("inspect", path) == command("verify", path) == said
    with pytest.raises(mblob.FormatError, match="no object file in the tar"):
        mblob.load_module(path)
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"hello"))
    text = f"{path}: a compressed file, but no tar archive is in it"
    for verb in (mblob.load_module, mblob.open):
        with pytest.raises(mblob.FormatError) as caught:
            verb(path)
        assert str(caught.value) == text
    assert command("verify", path) == (1, f"mblob-pack: error: {text}")


def test_a_folder_is_called_one(tmp_path: Path) -> None:
    assert "directory" in in_c(tmp_path)[0]
    for verb in (mblob.load_module, mblob.open):
        with pytest.raises(IsADirectoryError):
            verb(tmp_path)
    for name in ("inspect", "verify"):
        assert "Is a directory" in command(name, tmp_path)[1]


@pytest.mark.sample(2)
@pytest.mark.parametrize("size", [4, 40, 100, 6000, -1000])
def test_the_beginning_of_a_library_is_asked_about(tmp_path: Path, size: int) -> None:
    whole = tmp_path / "k.so"
    module = mblob.csource_module(f"{RUN} {{ x[0] *= 2; }}", functions=[RUN])
    module.export_library(whole)
    path = tmp_path / "cut.so"
    path.write_bytes(whole.read_bytes()[:size])
    with pytest.raises(mblob.FormatError) as caught:
        mblob.load_module(path)
    for text, code in ((str(caught.value), caught.value.code), in_c(path)):
        assert code == "elf_truncated"
        assert re.search(r"; is it an incomplete copy\? \(at byte \d+\)$", text), text
        length = len(path.read_bytes())
        assert f", the file ends at {length}; is" in text
    for verb in ("inspect", "verify"):
        status, text = command(verb, path)
        assert status == 1 and "; is it an incomplete copy? (at byte " in text
