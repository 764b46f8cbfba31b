"""The classic codec: pinned bytes, round trips over random trees, and damage of every kind."""

from __future__ import annotations

import json
import os
import random
import re
from pathlib import Path
from typing import Any

import pytest

from mblob.bytes.payload_source import BytesPayload, FilePayload, IterPayload
from mblob.bytes.sink import BytesSink
from mblob.dtype import DataType
from mblob.errors import DigestError, FormatError
from mblob.format import classic
from mblob.format.blob_plan import BlobPlan, OutEntry
from mblob.format.grammar import decode_payload
from mblob.format.ndarray import ArrayRecord, encode_ndarray, read_param_dict, save_param_dict
from mblob.inspect.library import Library

GOLDEN = Path(os.environ.get("MBLOB_GOLDEN") or Path(__file__).parents[3] / "shared" / "golden")


def write(entries: list[OutEntry], rows: list[list[int]], **how: Any) -> bytes:
    sink = BytesSink()
    plan = BlobPlan([e._replace(imports=tuple(row)) for e, row in zip(entries, rows)], **how)
    plan.has_tree = not plan.is_library_alone
    size = plan.write(sink)
    assert size == len(sink.data)
    return bytes(sink.data)


LIB = OutEntry("library", None)


def test_the_worked_example_of_the_document_has_these_bytes() -> None:
    """docs/format.md, section 8: every byte of its hex dump is what the codec writes."""
    text = (Path(__file__).parents[2] / "docs" / "format.md").read_text()
    section = text[text.index("## 8.") : text.index("## 9.")]
    dump = bytes.fromhex(
        "".join(re.findall(r"^[0-9a-f]{4}  ((?:[0-9a-f]{2} ?){1,16})", section, re.M)).replace(
            " ", ""
        )
    )
    data = write(
        [LIB, OutEntry("my_key", BytesPayload(b"hello"), data=True)],
        [[1], []],
        target="x86_64-linux-gnu",
        producer="mblob 0.1.0",
    )
    assert dump == data


def test_a_library_alone_is_count_zero() -> None:
    """N 8, count 0."""
    assert write([LIB], [[]], index=False) == bytes([8]) + bytes(15)


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="no golden libraries beside the project")
@pytest.mark.parametrize(
    "name", sorted(p.stem for p in GOLDEN.glob("*.so")) if GOLDEN.is_dir() else []
)
def test_what_tvm_wrote_is_written_again_byte_for_byte(name: str) -> None:
    with Library(GOLDEN / f"{name}.so") as lib:
        if lib.blob is None:
            assert name.startswith("host_")
            return
        entries = [
            OutEntry(e.type_key, None if e.offset is None else BytesPayload(e.view()))
            for e in lib.entries
        ]
        data = write(entries, [list(e.imports) for e in lib.entries], index=False)
        symbol = lib.elf.find("__tvm_dev_mblob")
        assert symbol
        assert data == bytes(lib.elf.bytes_of(symbol)[1])


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="no golden libraries beside the project")
def test_the_trees_of_real_libraries_are_what_their_descriptions_say() -> None:
    def plain(node: dict) -> dict:
        return {"type_key": node["type_key"], "imports": [plain(c) for c in node["imports"]]}

    checked = 0
    for path in GOLDEN.glob("*.so"):
        facts = path.with_suffix(".json")
        if facts.exists() and isinstance(want := json.loads(facts.read_text()), dict):
            with Library(path) as lib:
                assert plain(lib.tree()) == want["tree"], path.name
                checked += 1
    assert checked >= 8


@pytest.mark.parametrize("digest", ["none", "crc32", "sha256"])
@pytest.mark.parametrize("index", [True, False])
def test_random_trees_survive_a_round_trip(digest: str, index: bool) -> None:
    rng = random.Random(7)
    for _ in range(30):
        n = rng.randint(1, 7)
        rows = [sorted(rng.sample(range(i + 1, n), rng.randint(0, n - 1 - i))) for i in range(n)]
        payloads = [rng.randbytes(rng.randint(0, 90)) for _ in range(n - 1)]
        entries = [LIB]
        for p in payloads:
            source = BytesPayload(p) if rng.random() < 0.5 else IterPayload([p[:3], p[3:]])
            if index:
                entries.append(OutEntry("my_key", source, data=True, alignment=rng.choice([1, 64])))
            else:
                entries.append(
                    OutEntry("examplejson", BytesPayload(len(p).to_bytes(8, "little") + p))
                )
        data = write(entries, rows, index=index, digest=digest)
        blob = classic.read(memoryview(data), level="full", index_expected=index)
        assert [list(e.imports) for e in blob.entries] == rows
        for e, p in zip(blob.entries[1:], payloads):
            assert e.offset is not None
            found = data[e.offset : e.offset + e.size]
            assert found == (p if index else len(p).to_bytes(8, "little") + p)


SMALL = write(
    [
        LIB,
        OutEntry("my_key", BytesPayload(b"hello")),
        OutEntry("bulk", BytesPayload(b"x" * 70), alignment=64),
    ],
    [[1, 2], [2], []],
    target="t",
    producer="p",
)


def test_every_single_bit_flip_of_an_indexed_blob_is_found() -> None:
    for at in range(len(SMALL)):
        for bit in range(8):
            damaged = bytearray(SMALL)
            damaged[at] ^= 1 << bit
            with pytest.raises((FormatError, DigestError)):
                classic.read(memoryview(damaged), level="full", index_expected=True)


def test_every_changed_byte_is_found() -> None:
    damaged = bytearray(SMALL)
    for at, was in enumerate(SMALL):
        for value in {was ^ 1 << (at % 8), was ^ 0x80, (was + at) % 256, 0, 0xFF}:
            if value != was:
                damaged[at] = value
                with pytest.raises((FormatError, DigestError)):
                    classic.read(memoryview(damaged), level="full", index_expected=True)
        damaged[at] = was


def test_a_blob_cut_anywhere_is_refused() -> None:
    for cut in range(len(SMALL)):
        for fixed_up in (False, True):
            short = bytearray(SMALL[:cut])
            if fixed_up and cut >= 8:
                short[:8] = (cut - 8).to_bytes(8, "little")
            with pytest.raises(FormatError):
                classic.read(memoryview(short), index_expected=True)


def test_damage_without_an_index_is_an_error_or_harmless_never_a_crash() -> None:
    data = write([LIB, OutEntry("cuda", BytesPayload(cuda_payload()))], [[1], []], index=False)
    for at in range(len(data)):
        for value in (0, 1, 0x7F, 0x80, 0xFF, data[at] ^ 1):
            damaged = bytearray(data)
            damaged[at] = value
            try:
                classic.read(memoryview(damaged), level="full")
            except FormatError as error:
                assert error.code


def cuda_payload() -> bytes:
    from mblob.bytes.wire import encode_string
    from mblob.format.grammar import FunctionInfo, encode_function_map

    info = FunctionInfo(
        "k", (DataType.parse("handle"), DataType.parse("int32")), ("blockIdx.x", "threadIdx.x")
    )
    return encode_string("ptx") + encode_function_map([info]) + encode_string("//PTX")


def test_the_device_payload_of_the_specification() -> None:
    """docs/format.md, section 8: the worked CUDA example is 210 + 8 bytes."""
    data = write([LIB, OutEntry("cuda", BytesPayload(cuda_payload()))], [[1], []], index=False)
    assert len(data) == 218
    assert data[:8] == (210).to_bytes(8, "little")
    fields = decode_payload("cuda", memoryview(cuda_payload()))
    assert bytes(fields["data"]) == b"//PTX"
    assert fields["functions"]["k"].launch_param_tags == ("blockIdx.x", "threadIdx.x")


def test_parameter_dictionaries_have_tvms_bytes() -> None:
    """classic.md 10: {"w": float32[2]} is 97 bytes."""
    raw = b"\0\0\x80?\0\0\0@"
    record = ArrayRecord(DataType.parse("float32"), (2,), memoryview(raw))
    data = save_param_dict({"w": record})
    assert len(data) == 97
    assert data.hex().startswith(
        "b79c04054f8de5f7" + "00" * 8 + "01" + "00" * 7 + "01" + "00" * 7 + "77"
    )
    assert data.endswith(bytes.fromhex("0000803f00000040"))
    found = read_param_dict(data)
    assert found["w"].shape == (2,)
    assert bytes(found["w"].data) == raw
    for cut in range(len(data)):
        with pytest.raises(FormatError):
            read_param_dict(data[:cut])
    with pytest.raises(FormatError, match="follow the last array"):
        read_param_dict(data + b"\0")


def test_arrays_of_numpy_and_buffers_are_taken() -> None:
    numpy = pytest.importorskip("numpy")
    params = {
        "a": numpy.arange(6, dtype="float32").reshape(2, 3),
        "t": numpy.arange(6, dtype="int64").reshape(2, 3).T,
        "h": numpy.ones(3, "float16"),
        "b": numpy.array([True, False]),
        "s": numpy.float64(3.5),
        "e": numpy.empty((0, 4), "int8"),
    }
    found = read_param_dict(save_param_dict(params))
    assert str(found["b"].dtype) == "bool"
    for name, value in params.items():
        record = found[name]
        assert record.shape == value.shape
        assert bytes(record.data) == value.tobytes()
    with pytest.raises(TypeError, match="in native byte order, found >f4"):
        save_param_dict({"x": numpy.ones(2, ">f4")})


def test_an_array_whose_bytes_do_not_match_its_shape_is_not_written() -> None:
    with pytest.raises(ValueError, match="7 bytes of data, float32 of shape"):
        encode_ndarray(DataType.parse("float32"), (2,), b"1234567")


def test_a_payload_file_that_changes_while_it_is_read_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "weights.bin"
    path.write_bytes(bytes(1 << 20))
    chunks = FilePayload(path).chunks()
    next(chunks)
    with path.open("ab") as file:
        file.write(b"more")
    with pytest.raises(
        Exception, match=r"changed while it was read: 1048576 bytes at first, then 1048580"
    ):
        list(chunks)


def test_an_iterator_is_written_once() -> None:
    payload = IterPayload(iter([b"ab", b"c"]))
    assert b"".join(payload.chunks()) == b"abc"
    with pytest.raises(Exception, match="used up"):
        list(payload.chunks())


def test_an_unknown_digest_or_level_is_a_usage_error() -> None:
    with pytest.raises(ValueError, match="expected one of none, crc32, sha256, found 'md5'"):
        write([LIB], [[]], digest="md5")
    with pytest.raises(ValueError, match="expected one of off, header, full"):
        classic.read(memoryview(SMALL), level="all")


def test_level_off_reads_what_header_refuses() -> None:
    damaged = bytearray(SMALL)
    at = SMALL.index(b"hello")
    damaged[at] ^= 1
    assert len(classic.read(memoryview(damaged), level="off").entries) == 3
    with pytest.raises(DigestError, match=r"entry 1 \(my_key\)"):
        classic.read(memoryview(damaged))


@pytest.mark.parametrize(
    "text",
    [
        "float32",
        "int8x4",
        "bool",
        "handle",
        "bfloat16",
        "uint8",
        "complex64",
        "complex64x4",
        "e4m3_float8",
        "float8_e4m3fn",
        "float8_e5m2x4",
        "float4_e2m1fn",
        "float8_e3m4",
        "float8_e3m4x4",
    ],
)
def test_data_types_survive_text_and_bytes(text: str) -> None:
    dtype = DataType.parse(text)
    assert str(dtype) == text
    assert DataType.from_bytes(dtype.to_bytes()) == dtype


@pytest.mark.parametrize(
    "text",
    [
        "float",
        "float33",
        "float0",
        "int8x0",
        "f32",
        "float999",
        "float8_e4m3fnx0",
        "x4",
        "int8x",
        "",
    ],
)
def test_other_text_is_no_data_type(text: str) -> None:
    with pytest.raises(ValueError, match="is not a data type"):
        DataType.parse(text)
