"""Errors begin with the file that they are about, once, whatever it is called."""

from __future__ import annotations

import copy
import random
import struct
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import mblob
from mblob.errors import DigestError, FormatError, MblobError
from mblob.packager.modules.weights import read_tensors


def refusal(path: Path | str) -> MblobError:
    with pytest.raises(MblobError) as caught, mblob.open(path):
        pass
    return caught.value


def damaged_blob(golden: Path) -> bytes:
    data = bytearray((golden / "dag.so").read_bytes())
    with mblob.open(golden / "dag.so") as library:
        at = library.blob_offset
    struct.pack_into("<Q", data, at + 8, 1 << 40)
    return bytes(data)


def test_a_file_whose_name_is_a_word_of_the_error_is_named(
    golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some.so").write_bytes(damaged_blob(golden))
    text = str(refusal("some.so")).partition("some.so: ")[2]
    word = text.split(" ")[0]
    assert word
    for name in (word, text[0]):
        Path(name).write_bytes(damaged_blob(golden))
        assert str(refusal(name)) == f"{name}: {text}"


def test_weights_whose_name_begins_the_error_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = struct.pack("<QQQ", 0xF7E58D4F05049CB7, 0, 0) + struct.pack("<Q", 3)
    for name in ("w", "params", "p"):
        Path(name).write_bytes(data)
        with pytest.raises(FormatError) as caught:
            read_tensors(Path(name))
        assert str(caught.value).startswith(f"{name}: params: 0 names, 3 arrays")
        assert caught.value.culprit == name


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_arrays_that_are_damaged_are_named_once(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"w{suffix}"
    if suffix == ".npy":
        np.save(path, np.zeros(300))
    else:
        np.savez(path, a=np.zeros(300))
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(FormatError) as caught:
        read_tensors(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert str(caught.value).count(path.name) == 1


def damages(data: bytes, chance: random.Random) -> Iterator[bytes]:
    """Cuts, and bytes that are changed, most of them near the start or in the blob."""
    for _ in range(8):
        yield data[: chance.randrange(len(data))]
    for _ in range(16):
        changed = bytearray(data)
        for _ in range(chance.randrange(1, 40)):
            changed[chance.randrange(min(len(data), chance.choice((64, 1024, 1 << 20))))] ^= 255
        yield bytes(changed)


@pytest.mark.parametrize("kind", ["elf", "tar", "gzip", "macho"])
def test_each_error_of_opening_names_its_file_once(kind: str, golden: Path, tmp_path: Path) -> None:
    data = (golden / "host_c.so").read_bytes()
    if kind == "macho":
        data = b"\xca\xfe\xba\xbe" + struct.pack(">I", 2) + data[:4096]
    elif kind != "elf":
        with tarfile.open(tmp_path / "a", "w:gz" if kind == "gzip" else "w") as tar:
            tar.add(golden / "host_c.so", "lib0.o")
        data = (tmp_path / "a").read_bytes()
    path = tmp_path / "the-file.so"
    refused = 0
    for damaged in damages(data, random.Random(kind)):
        path.write_bytes(damaged)
        try:
            mblob.open(path).close()
        except MblobError as error:
            refused += 1
            text = str(error)
            assert text.startswith((f"{path}: ", f"{path}(")) and text.count(path.name) == 1, text
            assert error.culprit.startswith(str(path))
    assert refused > 5


def test_the_culprit_is_what_was_put_in_front_last() -> None:
    error = FormatError.about("a.so", "cut off", code="truncated", offset=3)
    assert (str(error), error.culprit) == ("a.so: cut off (at byte 3)", "a.so")
    error.prefix("a.tar")
    assert (str(error), error.culprit) == ("a.tar: a.so: cut off (at byte 3)", "a.tar")
    assert copy.copy(DigestError("x")).culprit == DigestError("x").culprit == ""
