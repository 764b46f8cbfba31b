"""The table that tells plain C functions and packed ones apart: what is written, and what is
refused."""

from __future__ import annotations

import pytest

from mblob.errors import FormatError
from mblob.format import functions_table
from mblob.format.functions_table import Row

ROWS = [
    Row("vadd", "vadd", "plain", 0, "const float *, float *, int64_t"),
    Row("vadd", "vadd__packed", "packed", 0, "const float *, float *, int64_t"),
    Row("conv", "conv", "packed", 64, "?"),
]
HEAD = b"mblob functions 1\n"


def test_an_alignment_may_begin_with_zeros_as_it_may_in_c() -> None:
    (row,) = functions_table.decode(HEAD + b"f\tf\tplain\t" + b"0" * 25 + b"16\tint\n\0")
    assert row.alignment == 16
    (row,) = functions_table.decode(HEAD + b"f\tf\tplain\t" + b"0" * 25 + b"\tint\n\0")
    assert row.alignment == 0


def test_a_table_survives_a_round_trip() -> None:
    data = functions_table.encode(ROWS)
    assert functions_table.decode(data) == ROWS
    assert functions_table.decode(data + b"what follows the NUL") == ROWS
    assert functions_table.decode(data[:-2] + b"\0") == ROWS


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        HEAD,
        b"mblob functions 2\n\0",
        HEAD + b"\xff\0",
        HEAD + b"f\tf\tplain\t0\0",
        HEAD + b"f\tf\tplain\t0\tint\tvoid f(int)\tmore\0",
        HEAD + b"\tf\tplain\t0\tint\0",
        HEAD + b"f\t\tplain\t0\tint\0",
        HEAD + b"f\tf\tpacket\t0\tint\0",
        HEAD + b"f\tf\tplain\t\tint\0",
        HEAD + b"f\tf\tplain\t-1\tint\0",
        HEAD + b"f\tf\tplain\t3\tint\0",
        HEAD + b"f\tf\tplain\t2097152\tint\0",
        HEAD + b"f\tf\tplain\t99999999999999999999999\tint\0",
        HEAD + "f\tf\tplain\t\u0664\tint\0".encode(),
        HEAD + b"f\tf\tplain\t0\tint\r\n\n\0",
    ],
)
def test_a_damaged_table_is_refused_by_its_rule(data: bytes) -> None:
    with pytest.raises(FormatError) as caught:
        functions_table.decode(data)
    assert caught.value.code == "function_table"
    assert "\n" not in str(caught.value)


def test_names_are_utf8_and_notes_are_for_people() -> None:
    with pytest.raises(UnicodeEncodeError):
        functions_table.encode([Row("f\udc80", "f", "plain", 0, "int")])
    row = Row("f", "f", "plain", 0, "int", "", "source", "a \x1b[31mred\x07\nb \udc80 ä\\n")
    table = functions_table.encode([row])
    assert functions_table.decode(table)[0].comment == "a [31mred\nb ? ä\\n"
    without = functions_table.encode([row._replace(origin="", comment="")])
    assert functions_table.checksum(table) == functions_table.checksum(without)


def test_sizes_with_a_comma_inside_are_one_dimension() -> None:
    read = functions_table.parameter("double r[size(x), size(y, 2) + 1]")
    assert read.dims == ("size(x)", "size(y, 2) + 1")
    assert functions_table.parameter("float x[]").dims == ("",)
