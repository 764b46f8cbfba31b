"""Records of fixed layout: each is declared once, by its fields, for the code that reads, writes,
patches and shows it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from operator import itemgetter
from typing import Any

from mblob.named_tuple import NamedTuple


class Field(NamedTuple):
    """A field of a record.

    Attributes:
        name: in the document that defines the record.
        code: its format, as of `struct`.
        offset: from the first byte of the record.
        size: bytes.
    """

    name: str
    code: str
    offset: int
    size: int

    @property
    def place(self) -> slice:
        """Its bytes among those of the record."""
        return slice(self.offset, self.offset + self.size)


class Record:
    """Fields one behind the other, without padding.

    Args:
        fields: name and `struct` code of each, as "sh_name I, sh_type I". The codes `N` and `n` are
            a word, without and with a sign.
        byte_order: "<" or ">".
        bits: of a word.

    Attributes:
        fields: by name, in their order.
        size: bytes.
        pack, unpack_from, iter_unpack: as of `struct.Struct`.
    """

    def __init__(self, fields: str, byte_order: str = "<", bits: int = 64) -> None:
        words = {"N": "Q", "n": "q"} if bits == 64 else {"N": "I", "n": "i"}
        self.fields: dict[str, Field] = {}
        codes, at = byte_order, 0
        for part in fields.split(","):
            name, code = part.strip().rsplit(" ", 1)
            code = words.get(code, code)
            size = struct.calcsize(byte_order + code)
            self.fields[name] = Field(name, code, at, size)
            codes, at = codes + code, at + size
        layout = struct.Struct(codes)
        self.byte_order = byte_order
        self.format = layout.format
        self.size = layout.size
        self.pack = layout.pack
        self.unpack_from = layout.unpack_from
        self.iter_unpack = layout.iter_unpack

    def offset_of(self, name: str) -> int:
        return self.fields[name].offset

    def pick(self, *names: str) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
        """A function that takes two or more fields, in the given order, out of what `unpack_from`
        returns."""
        places = list(self.fields)
        return itemgetter(*map(places.index, names))

    def packer(self, *names: str) -> Callable[[tuple[Any, ...]], bytes]:
        """A function that makes a record of all its fields, in the given order."""
        order, pack = itemgetter(*map(names.index, self.fields)), self.pack
        return lambda values: pack(*order(values))

    def make(self, **values: int | bytes) -> bytes:
        """A record with these fields; the other numbers are 0.

        Raises:
            struct.error: a value does not fit.
        """
        row = {**dict.fromkeys(self.fields, 0), **values}
        assert len(row) == len(self.fields), values
        return self.pack(*row.values())

    def put(self, data: bytearray | memoryview, at: int, **values: int) -> None:
        """Change fields of the record at an offset.

        Raises:
            struct.error: a value does not fit.
        """
        for name, value in values.items():
            f = self.fields[name]
            data[at + f.offset : at + f.offset + f.size] = self.encode(name, value)

    def encode(self, name: str, value: int) -> bytes:
        """The bytes of one field.

        Raises:
            struct.error: the value does not fit.
        """
        return struct.pack(self.byte_order + self.fields[name].code, value)

    def field_at(self, data: bytes | memoryview, name: str) -> int:
        """A number of a record that `data` starts with; 0 for bytes that are missing."""
        f = self.fields[name]
        order = "little" if self.byte_order == "<" else "big"
        return int.from_bytes(bytes(data[f.place]), order)  # type: ignore[arg-type]
