"""Writing blobs of the ffi dialect: TVM's bytes, the index behind them, what its loader could not
read, and damage."""

from __future__ import annotations

import random
import re
import struct
from pathlib import Path
from typing import Any

import pytest

import mblob
from mblob.bytes.payload_source import BytesPayload, IterPayload
from mblob.bytes.sink import BytesSink
from mblob.errors import DigestError, FormatError
from mblob.format import ffi_dialect
from mblob.format.blob_plan import BlobPlan, OutEntry, check_ffi
from tests.unit.test_ffi_dialect import LIB as LIB_BYTES
from tests.unit.test_ffi_dialect import blob, string, u64

LIB = OutEntry("library", None)


def write(entries: list[OutEntry], rows: list[list[int]], **how: Any) -> bytes:
    sink = BytesSink()
    plan = BlobPlan([e._replace(imports=tuple(row)) for e, row in zip(entries, rows)], "ffi", **how)
    check_ffi(plan.entries)
    size = plan.write(sink)
    assert size == len(sink.data)
    return bytes(sink.data)


def entry(kind: str, payload: bytes, **how: Any) -> OutEntry:
    return OutEntry(kind, BytesPayload(payload), **how)


def test_the_worked_example_of_the_document_has_these_bytes() -> None:
    """docs/format.md, section 11: every byte of its hex dump is what the writer writes."""
    text = (Path(__file__).parents[2] / "docs" / "format.md").read_text()
    section = text[text.index("## 11.") :]
    rows = re.findall(r"^([0-9a-f]{4})  ((?:[0-9a-f]{2} ?){1,16})$", section, re.M)
    dump = bytes.fromhex("".join(row for _, row in rows).replace(" ", ""))
    data = write(
        [LIB, entry("my_key", b"hello", data=True)],
        [[1], []],
        target="x86_64-linux-gnu",
        producer="mblob 0.1.0",
    )
    assert dump == data
    places = [sum(len(bytes.fromhex(row)) for _, row in rows[:i]) for i in range(len(rows))]
    assert [int(at, 16) for at, _ in rows] == places


def test_without_an_index_the_bytes_are_tvms() -> None:
    data = write([LIB, entry("my_key", b"hello")], [[1], []], index=False)
    assert data == bytes(blob(LIB_BYTES, string("my_key") + string("hello")))
    alone = write([LIB], [[]], index=False)
    assert alone == u64(8 * 5 + 4) + u64(2, 0, 0, 0) + LIB_BYTES


@pytest.mark.parametrize("name", ["metal", "webgpu", "relax_c"])
def test_what_tvm_wrote_is_written_again_byte_for_byte(golden: Path, name: str) -> None:
    with mblob.open(golden / f"ffi/{name}.so") as lib:
        assert lib.blob is not None
        entries = [
            OutEntry(e.type_key, None if e.offset is None else BytesPayload(e.view()))
            for e in lib.entries
        ]
        symbol = lib.elf.find(lib.blob.symbol)
        assert symbol is not None
        _, data = lib.elf.bytes_of(symbol)
        assert write(entries, [list(e.imports) for e in lib.entries], index=False) == bytes(data)


def test_the_index_tells_what_the_stream_tells() -> None:
    entries = [LIB, entry("a", b"x" * 70, alignment=64, align_at=6), entry("b", b"yy", data=True)]
    entries.append(OutEntry("c", IterPayload(iter([b"one", b"two"]))))
    data = write(entries, [[1, 2, 3], [2], [], []], digest="sha256", target="t", producer="p")
    found = ffi_dialect.read(memoryview(data), level="full", index_expected=True)
    assert (found.dialect, found.symbol, found.target) == ("ffi", ffi_dialect.SYMBOL, "t")
    assert [(e.type_key, e.imports, e.data, e.bulk) for e in found.entries] == [
        ("library", (1, 2, 3), False, False),
        ("a", (2,), False, True),
        ("b", (), True, False),
        ("c", (), False, False),
    ]
    payloads = [data[e.offset or 0 :][: e.size] for e in found.entries[1:]]
    assert payloads == [b"x" * 70, b"yy", b"onetwo"]
    bulk = found.entries[1]
    assert (
        bulk.offset is not None and (bulk.offset + 6) % 64 == 0 and bulk.offset >= found.stream_size
    )
    # TVM sees where the payload is, and goes on behind it.
    stream = ffi_dialect.read(memoryview(u64(found.stream_size - 8) + data[8 : found.stream_size]))
    place = stream.entries[1]
    assert data[place.offset or 0 :][: place.size] == u64(bulk.offset, 70)
    assert [e.type_key for e in stream.entries] == [e.type_key for e in found.entries]


@pytest.mark.parametrize(
    ("entries", "rows", "message"),
    [
        ([LIB, entry("a", b"")], [[1], []], r"module 1 \('a'\) has an empty payload"),
        (
            [LIB, OutEntry("a", IterPayload(iter([])))],
            [[1], []],
            r"module 1 \('a'\) has an empty payload",
        ),
        (
            [LIB, OutEntry("a", IterPayload(iter([])), alignment=64)],
            [[1], []],
            r"module 1 \('a'\) has an empty",
        ),
        ([LIB, entry("", b"x")], [[1], []], "module 1: kind ''"),
        ([LIB, entry("_lib", b"x")], [[1], []], "module 1: kind '_lib'"),
        ([entry("a", b"x")], [[]], "no module of the tree is host code"),
        ([LIB, LIB], [[1], []], "modules 0 and 1 both stand for the library"),
        (
            [LIB, entry("a", b"x"), entry("b", b"x")],
            [[2, 1], [], []],
            r"imports \[2, 1\], expected ascending",
        ),
        ([LIB, entry("a", b"x")], [[1, 1], []], r"imports \[1, 1\], expected ascending"),
        ([LIB, entry("a", b"x")], [[1], [1]], r"module 1 \(a\) imports \[1\]"),
        ([LIB, entry("a", b"x")], [[1], [0]], r"module 1 \(a\) imports \[0\]"),
    ],
)
def test_what_tvms_loader_could_not_read_is_not_written(
    entries: list[OutEntry], rows: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        write(entries, rows)


def sample(**how: Any) -> bytes:
    entries = [LIB, entry("a", b"payload of a", data=True), entry("b", b"B" * 100, alignment=64)]
    return write(entries, [[1, 2], [], []], **how)


def test_every_changed_byte_is_found() -> None:
    data = sample()
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1 + at % 255
        with pytest.raises((FormatError, DigestError)):
            ffi_dialect.read(memoryview(damaged), level="full", index_expected=True)


def test_every_cut_is_found() -> None:
    data = sample()
    for size in range(len(data)):
        with pytest.raises(FormatError):
            ffi_dialect.read(memoryview(data[:size]), index_expected=True)


def test_an_index_that_lies_about_the_stream_is_found() -> None:
    """Its checksums hold: whoever made it meant it."""
    good = sample()
    other = write(
        [LIB, entry("a", b"payload of A", data=True), entry("b", b"C" * 100, alignment=64)],
        [[1, 2], [], []],
    )
    found = ffi_dialect.read(memoryview(good))
    for e in found.entries[1:]:
        swapped = bytearray(good)
        place = slice(e.offset, (e.offset or 0) + e.size)
        swapped[place] = other[place]
        with pytest.raises(DigestError, match=f"entry {e.index} "):
            ffi_dialect.read(memoryview(swapped), level="full")


def test_random_damage_raises_what_is_documented() -> None:
    rng = random.Random(6)
    for data in (sample(), sample(index=False), sample(digest="none")):
        for _ in range(400):
            damaged = bytearray(data)
            for _ in range(rng.randint(1, 4)):
                at = rng.randrange(len(damaged) - 8)
                damaged[at : at + 8] = struct.pack(
                    "<Q", rng.choice([0, 1, 2**63, 2**64 - 1, rng.getrandbits(64)])
                )
            for level in ("off", "header", "full"):
                try:
                    ffi_dialect.read(memoryview(damaged), level=level)
                except FormatError as error:
                    assert error.code
                except DigestError as error:
                    assert "checksum" in str(error) or "digest" in str(error)
