"""Files that lie on purpose: tables without end, names that fill the memory, counts of 2^63. One
error each."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import lief  # noqa: F401  # so that no file is charged for it
import pytest

from mblob.cli import inspect_text
from mblob.errors import FormatError, MblobError
from mblob.inspect.library import Library

MEMORY = 24 << 20  # bytes; what small files may cost


def elf(
    body: bytes,
    *,
    kind: int = 3,
    segments: Sequence[tuple[int, ...]] = (),
    sections: int = 0,
    at: int = 0,
) -> bytes:
    head = b"\x7fELF\2\1\1" + bytes(9)
    head += struct.pack(
        "<HHIQQQIHHHHHH", kind, 62, 1, 0, 64, at, 0, 64, 56, len(segments), 64, sections, 0
    )
    return (
        head
        + b"".join(struct.pack("<IIQQQQQQ", t, 4, o, v, v, s, s, 8) for t, o, v, s in segments)
        + body
    )


def section(*fields: int) -> bytes:
    return struct.pack("<IIQQQQIIQQ", *fields)


def look(path: Path) -> None:
    with Library(path, partial=True) as lib:
        lib.to_json()
        for _ in inspect_text.lines(lib):
            pass


@pytest.fixture
def refused(tmp_path: Path, peak_memory: Callable[..., int]) -> Callable[[bytes], str]:
    """`refused(data)`: the code of the one error, which cost little memory."""

    def check(data: bytes) -> str:
        path = tmp_path / "hostile"
        path.write_bytes(data)
        codes: list[str] = []

        def run() -> None:
            with pytest.raises(FormatError) as caught:
                look(path)
            assert "\n" not in str(caught.value)
            assert len(str(caught.value)) < 600
            codes.append(caught.value.code)
            if caught.value.code in ("pe", "coff", "mach_o"):
                text = str(caught.value).removeprefix(f"{path}: ")
                codes[0] += ": " + text.partition(" (at")[0]

        assert peak_memory(run) < MEMORY
        return codes[0]

    return check


@pytest.mark.parametrize("kind", [1, 3])
@pytest.mark.parametrize("count", [2**20, 2**32, 2**63, 2**64 - 1])
def test_more_sections_than_the_file_has_room_for(
    refused: Callable[[bytes], str], kind: int, count: int
) -> None:
    assert (
        refused(elf(bytes(64) + section(0, 0, 0, 0, 0, count, 0, 0, 0, 0), kind=kind, at=128))
        == "elf_truncated"
    )


@pytest.mark.parametrize("size", [10**6, 24 * (2**22 + 5), 2**63, 2**64 - 1])
def test_more_symbols_than_the_file_has_room_for(
    refused: Callable[[bytes], str], size: int
) -> None:
    heads = (
        section(*[0] * 10)
        + section(0, 3, 0, 0, 64, 64, 0, 0, 1, 0)
        + section(0, 2, 0, 0, 64, size, 1, 0, 8, 24)
    )
    assert refused(elf(bytes(256) + heads, kind=1, sections=3, at=320)) == "elf_truncated"


@pytest.mark.parametrize("size", [2**32, 2**63, 2**64 - 1])
def test_strings_that_end_outside_the_file(refused: Callable[[bytes], str], size: int) -> None:
    heads = section(0, 3, 0, 0, 64, size, 0, 0, 1, 0)
    assert refused(elf(bytes(64) + heads, kind=1, sections=1, at=128)) == "elf_truncated"


def test_sections_that_share_one_long_name(refused: Callable[[bytes], str]) -> None:
    names = b"\0" + b"n" * 60_000 + b"\0\0\0"
    heads = b"".join(
        section(1, 3 if i == 0 else 1, 0, 0, 64, len(names), 0, 0, 1, 0) for i in range(20_000)
    )
    assert refused(elf(names + heads, kind=1, sections=20_000, at=64 + len(names))) == "elf_header"


def test_thousands_of_sections_with_one_short_name_are_no_attack(tmp_path: Path) -> None:
    names = b"\0.text\0\0"
    heads = b"".join(
        section(1, 3 if i == 0 else 1, 0, 0, 64, len(names), 0, 0, 1, 0) for i in range(20_000)
    )
    (tmp_path / "many.o").write_bytes(
        elf(names + heads, kind=1, sections=20_000, at=64 + len(names))
    )
    look(tmp_path / "many.o")


def test_notes_that_overlap_are_read_about_once(
    tmp_path: Path, count_calls: Callable[..., int]
) -> None:
    """A table of segments that all hold the same notes: what it takes grows with the file, not with
    its square."""
    note = struct.pack("<III", 4, 0, 1) + b"GNU\0"

    def cost(n: int) -> int:
        body, start = note * n, 64 + 56 * n
        segments = [(4, start + 16 * i, 0, len(body) - 16 * i) for i in range(n)]
        (tmp_path / "notes").write_bytes(elf(body, segments=segments))
        return count_calls(lambda: look(tmp_path / "notes"))

    assert cost(400) < 3 * cost(200)


def needed_versions(segments: int, count: int) -> bytes:
    """One undefined symbol with a version, `count` records of versions, `segments` before the one
    that counts."""
    at = 64 + 56 * (segments + 2)
    strings, dynamic = at + 48, at + 48 + 64
    numbers, needed = dynamic + 160, dynamic + 176
    table = needed + 16 + 16 * count
    tags = [
        5,
        strings,
        6,
        at,
        10,
        64,
        4,
        table,
        0x6FFFFFF0,
        numbers,
        0x6FFFFFFE,
        needed,
        0x6FFFFFFF,
        1,
        0,
        0,
    ]
    body = (
        bytes(24)
        + struct.pack("<IBBHQQ", 1, 0x12, 0, 0, 0, 0)
        + b"\0__tvm_f\0libm.so.6\0V1\0".ljust(64, b"\0")
    )
    body += struct.pack("<16Q", *tags).ljust(160, b"\0") + struct.pack("<2H", 0, 2).ljust(16, b"\0")
    body += (
        struct.pack("<HHIII", 1, min(count, 65535), 9, 16, 0)
        + struct.pack("<IHHII", 0, 0, 2, 19, 16) * count
    )
    body += struct.pack("<2I", 1, 2).ljust(64, b"\0")
    loads = [(1, 0, 0, 0)] * segments + [(1, 0, 0, at + len(body)), (2, dynamic, dynamic, 128)]
    return elf(body, segments=loads)


def test_versions_without_end(refused: Callable[[bytes], str], tmp_path: Path) -> None:
    (tmp_path / "v.so").write_bytes(needed_versions(1, 1))
    with Library(tmp_path / "v.so") as lib:
        (symbol,) = lib.undefined_symbols
        assert (symbol.version, symbol.library) == ("V1", "libm.so.6")
    assert refused(needed_versions(2, 17000)) == "elf_dynamic"


def coff(sections: int, symbols: int, strings: bytes = b"") -> bytes:
    return struct.pack("<HHIIIHH", 0x8664, sections, 0, 20, symbols, 0, 0) + strings


@pytest.mark.parametrize("data", [coff(1, 2**31), coff(65535, 1), coff(1, 10, bytes(400))])
def test_coff_objects_that_lie(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.obj").write_bytes(data)
    try:
        look(tmp_path / "x.obj")
    except MblobError as error:
        assert "\n" not in str(error)


LONG, MANY = b"a" * 50_000 + b"\0", 2000


def coff_of_tails() -> bytes:
    record = struct.pack("<2IIhHBB", 0, 5, 0, 1, 0, 2, 0)
    head = coff(1, MANY)[:8] + struct.pack("<IIHH", 60, MANY, 0, 0) + bytes(40)
    return head + record * MANY + struct.pack("<I", 6 + len(LONG)) + b"xx" + LONG


def mach_o_of_one_name() -> bytes:
    at = 32 + 24
    command = struct.pack("<6I", 2, 24, at, MANY, at + 16 * MANY, 1 + len(LONG))
    head = struct.pack("<8I", 0xFEEDFACF, 0x01000007, 3, 1, 1, len(command), 0, 0)
    return head + command + struct.pack("<IBBHQ", 1, 3, 0, 0, 5) * MANY + b"\0" + LONG


def mach_o_of_two_tables() -> bytes:
    command = struct.pack("<6I", 2, 24, 80, 0, 80, 0) * 2
    return struct.pack("<8I", 0xFEEDFACF, 0x01000007, 3, 1, 2, len(command), 0, 0) + command


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (coff_of_tails, "coff: its names add up to more than 8 times the file"),
        (mach_o_of_one_name, "mach_o: its names add up to more than 8 times the file"),
        (mach_o_of_two_tables, "mach_o: more than one table of symbols"),
    ],
)
def test_symbols_that_share_one_long_name(
    refused: Callable[[bytes], str], make: Callable[[], bytes], error: str
) -> None:
    """Of 90 KB lief and its readers made hundreds of megabytes."""
    assert refused(make()) == error


def test_exports_of_a_dll_that_share_one_long_name(
    refused: Callable[[bytes], str], dll: Path
) -> None:
    raw = bytearray(dll.read_bytes())
    (at,) = struct.unpack_from("<I", raw, 60)
    optional = at + 24
    (headers,) = struct.unpack_from("<H", raw, at + 6)
    last = optional + struct.unpack_from("<H", raw, at + 20)[0] + 40 * (headers - 1)
    (start,) = struct.unpack_from("<I", raw, last + 12)
    functions, names = start + 40, start + 44
    ordinals, text = names + 4 * MANY, names + 6 * MANY
    body = struct.pack("<2I2H7I", 0, 0, 0, 0, text, 1, 1, MANY, functions, names, ordinals)
    body += struct.pack("<I", 16) + struct.pack("<I", text) * MANY + bytes(2 * MANY) + LONG
    struct.pack_into("<2I", raw, last + 8, len(body), start)
    struct.pack_into("<2I", raw, last + 16, len(body), len(raw))
    struct.pack_into("<I", raw, last + 36, 0x40000040)
    struct.pack_into("<2I", raw, optional + 112, start, len(body))
    assert refused(bytes(raw) + body) == "pe: its names add up to more than 8 times the file"


@pytest.mark.slow
def test_a_dll_whose_import_tables_are_one_table(
    refused: Callable[[bytes], str], dll: Path
) -> None:
    """Four thousand libraries, each with the same ten thousand names."""
    raw = bytearray(dll.read_bytes())
    (at,) = struct.unpack_from("<I", raw, 60)
    optional = at + 24
    (headers,) = struct.unpack_from("<H", raw, at + 6)
    table = optional + struct.unpack_from("<H", raw, at + 20)[0]
    last = table + 40 * (headers - 1)
    (address,) = struct.unpack_from("<I", raw, last + 12)
    libraries, names = 4000, 10_000
    thunks = address + 20 * (libraries + 1)
    text = thunks + 8 * (names + 1)
    body = struct.pack("<5I", thunks, 0, 0, text + 2, 0) * libraries + bytes(20)
    body += struct.pack("<Q", text) * names + bytes(8) + b"\0\0name\0"
    struct.pack_into("<2I", raw, last + 8, len(body), address)
    struct.pack_into("<2I", raw, last + 16, len(body), len(raw))
    struct.pack_into("<I", raw, last + 36, 0x40)
    struct.pack_into("<2I", raw, optional + 120, address, len(body))
    assert refused(bytes(raw) + body) == "pe: more imported names than the file has room for"
