"""Blobs of the ffi dialect: the C reader against the Python one, over sound blobs and damaged
ones."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from mblob.errors import DigestError, FormatError
from mblob.format import ffi_dialect
from mblob.format.ffi_dialect import SYMBOL, SYMBOL_OF_0_21
from tests.e2e.programs import run
from tests.unit.test_ffi_dialect import BROKEN, CUDA, GOOD, LIB, blob, string, u64

FORMS = {SYMBOL: "ffi", SYMBOL_OF_0_21: "0.21"}
CONSTANTS = u64(0, 0, 0, 0)
SHADERS = string("metal") + u64(0) + u64(1) + string("k") + string("kernel void k()")
METAL = string("metal") + string(SHADERS)
TREE = string("_import_tree") + u64(3, 0, 1, 1) + u64(1, 1)


def stream(*items: bytes, tree: bytes = TREE) -> bytes:
    """A blob of 0.21."""
    body = u64(len(items) + bool(tree)) + b"".join(items) + tree
    return u64(len(body)) + body


def with_tail(data: bytes, tail: bytes) -> bytes:
    return u64(len(data) - 8 + len(tail)) + data[8:] + tail


SOUND = [
    (SYMBOL, bytes(blob(*GOOD))),
    (SYMBOL, bytes(blob(LIB, string("cuda") + string(CUDA)))),
    (SYMBOL, bytes(blob(string("relax.VMExecutable") + string(b"\1\2\3"), LIB))),
    (SYMBOL, bytes(blob(string("const_loader") + string(CONSTANTS), LIB, METAL, indptr=(0, 2, 2, 2), child=(1, 2)))),
    (SYMBOL, bytes(blob(LIB, string("empty") + string(b"")))),
    (SYMBOL, with_tail(bytes(blob(*GOOD)), b"bytes that TVM passes over")),
    (SYMBOL_OF_0_21, stream(LIB, string("cuda") + CUDA)),
    (SYMBOL_OF_0_21, stream(string("relax.VMExecutable") + string(b"abc"), LIB)),
    (SYMBOL_OF_0_21, stream(LIB, string("metal") + SHADERS, tree=b"")),
    (SYMBOL_OF_0_21, stream(LIB, string("GraphExecutorFactory") + string("{}") + u64(0, 0) + string("m"))),
]  # fmt: skip


def facts_of_c(built: Path, dialect: str, level: str, files: list[Path]) -> list[dict[str, Any]]:
    done = run(built / "plain" / "blob_dump", "--dialect", dialect, "--level", level, *files)
    return [json.loads(line) for line in done.stdout.splitlines()]


def facts_of_python(data: bytes, symbol: str, level: str) -> dict[str, Any]:
    try:
        found = ffi_dialect.read(memoryview(data), symbol, level=level)
    except DigestError as error:
        return {"code": "digest", "offset": None, "entry": error.entry}
    except FormatError as error:
        return {"code": error.code, "offset": error.offset, "entry": error.entry}
    entries = [{"type_key": e.type_key, "offset": e.offset, "size": e.size} for e in found.entries]
    return {"entries": entries, "imports": [list(e.imports) for e in found.entries]}


def compare(
    built: Path, folder: Path, symbol: str, level: str, blobs: list[bytes], *, offsets: bool
) -> None:
    files = []
    for i, data in enumerate(blobs):
        files.append(folder / f"{i}.bin")
        files[-1].write_bytes(data)
    answers = facts_of_c(built, FORMS[symbol], level, files)
    assert len(answers) == len(files)
    for data, found in zip(blobs, answers):
        expected = facts_of_python(data, symbol, level)
        if "code" not in expected:
            assert found == expected
            continue
        assert found.get("code") == expected["code"], (data, found, expected)
        if offsets:
            assert found["offset"] == expected["offset"], (data, found, expected)


@pytest.mark.parametrize("level", ["off", "header", "full"])
def test_both_readers_agree_on_sound_and_broken_blobs(
    built: Path, tmp_path: Path, level: str
) -> None:
    for symbol in FORMS:
        blobs = [data for of, data in SOUND if of == symbol]
        if symbol == SYMBOL:
            blobs += [bytes(data) for data, _ in BROKEN]
        compare(built, tmp_path, symbol, level, blobs, offsets=True)


def damaged(rng: random.Random, data: bytearray) -> bytes:
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(data)) if data else 0
        kind = rng.randrange(3)
        if kind == 0 and data:
            data[at] = rng.randrange(256)
        elif kind == 1:
            del data[at:]
        else:
            value = rng.choice([0, 1, 2, 8, 255, 2**31, 2**32, 2**61, 2**63, 2**64 - 1])
            data[at : at + 8] = value.to_bytes(8, "little")[: len(data) - at]
    if len(data) >= 8 and rng.random() < 0.7:
        data[:8] = u64(len(data) - 8)
    return bytes(data)


@pytest.mark.parametrize("level", ["header", "full"])
@pytest.mark.parametrize("symbol", FORMS)
def test_both_readers_agree_on_damaged_blobs(
    built: Path, tmp_path: Path, symbol: str, level: str
) -> None:
    rng = random.Random(symbol + level)
    sound = [data for of, data in SOUND if of == symbol]
    blobs = [damaged(rng, bytearray(rng.choice(sound))) for _ in range(1200)]
    compare(built, tmp_path, symbol, level, blobs, offsets=False)
