"""Archives: members by their names, and damage."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from mblob.binary import archive
from mblob.errors import FormatError


def member(name: str, body: bytes, size: int | None = None, end: str = "`\n") -> bytes:
    head = f"{name:<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(body) if size is None else size:<10}{end}"
    return head.encode() + body + b"\n" * (len(body) % 2)


def read(data: bytes) -> list[tuple[str, bytes]]:
    return [
        (name, bytes(body))
        for name, body in archive.members(memoryview(b"!<arch>\n" + data), "x.a")
    ]


def test_members_come_in_order_without_the_tables_of_ar(
    tmp_path: Path, require: Callable[[str], str]
) -> None:
    names = [
        "b.o",
        "a_member_with_a_rather_long_name.o",
        "a.o",
        "another_member_with_a_long_name.o",
    ]
    for name in names:
        (tmp_path / name).write_bytes(name[:3].encode())
    subprocess.run([require("ar"), "rcs", "x.a", *names], cwd=tmp_path, check=True)
    found = archive.members(memoryview((tmp_path / "x.a").read_bytes()), "x.a")
    assert [(name, bytes(body)) for name, body in found] == [
        (f"x.a({n})", n[:3].encode()) for n in names
    ]


def test_symbol_tables_are_passed_over_and_padding_may_be_missing() -> None:
    data = member("/", b"\0\0\0\0") + member("/SYM64/", bytes(8)) + member("a.o/", b"odd")
    assert read(data) == read(data[:-1]) == [("x.a(a.o)", b"odd")]
    assert read(b"") == []


@pytest.mark.parametrize(
    ("data", "text", "offset"),
    [
        (b"xx", "no header of an archive member", 8),
        (member("a.o/", b"")[:-1], "no header of an archive member", 8),
        (member("a.o/", b"", end="``"), "no header of an archive member", 8),
        (member("a.o/", b"ab") + b"no header", "no header of an archive member", 70),
        (member("a.o/", b"ab", size=-1), "no header of an archive member", 8),
        (member("a.o/", b"ab", size=3), "a member of 3 bytes, 2 are left", 8),
        (member("a.o/", b"", size=9999999999), "a member of 9999999999 bytes, 0 are left", 8),
    ],
)
def test_damage_is_found_where_it_is(data: bytes, text: str, offset: int) -> None:
    with pytest.raises(FormatError, match=f"^x.a: {text}") as caught:
        read(data)
    assert (caught.value.code, caught.value.offset) == ("archive", offset)


def test_a_long_name_that_is_nowhere_is_empty() -> None:
    assert read(member("//", b"a.o/\n") + member("/99", b"")) == [("x.a()", b"")]
