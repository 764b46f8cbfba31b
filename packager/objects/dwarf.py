"""Entries of debug information: DWARF 2 to 5, as far as the types of functions need them.

Numbers of a file are suspects: what does not fit raises ValueError, IndexError, KeyError or
struct.error, and the caller takes the file as one without debug information.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Union

# DWARF 5, tables 7.3 and 7.5, and what gcc adds: the names of those that somebody asks for.
TAGS = {
    0x01: "array_type", 0x02: "class_type", 0x04: "enumeration_type", 0x05: "formal_parameter",
    0x0F: "pointer_type", 0x10: "reference_type", 0x13: "structure_type", 0x15: "subroutine_type",
    0x16: "typedef", 0x17: "union_type", 0x18: "unspecified_parameters", 0x21: "subrange_type",
    0x24: "base_type", 0x26: "const_type", 0x2E: "subprogram", 0x35: "volatile_type",
    0x37: "restrict_type", 0x39: "namespace", 0x42: "rvalue_reference_type", 0x47: "atomic_type",
}  # fmt: skip
ATTRIBUTES = {
    0x01: "sibling", 0x03: "name", 0x0B: "byte_size", 0x13: "language", 0x25: "producer",
    0x27: "prototyped", 0x2F: "upper_bound", 0x37: "count", 0x3C: "declaration", 0x3E: "encoding",
    0x3F: "external", 0x47: "specification", 0x49: "type", 0x6E: "linkage_name",
    0x72: "str_offsets_base", 0x2107: "GNU_vector",
}  # fmt: skip

# Forms (table 7.6) by what they are. Sizes of 0 are those of offsets, of -1 those of addresses.
_NUMBERS = {0x0B: "B", 0x05: "H", 0x06: "I", 0x07: "Q"}  # data1, 2, 4, 8
_SIGNED, _UNSIGNED, _IMPLICIT = 0x0D, 0x0F, 0x21
_STRING, _STRP, _LINE_STRP = 0x08, 0x0E, 0x1F
_STRX = {0x1A: 0, 0x25: 1, 0x26: 2, 0x27: 3, 0x28: 4}
_REFERENCES = {0x11: "B", 0x12: "H", 0x13: "I", 0x14: "Q"}  # ref1, 2, 4, 8: in the unit
_REF_UDATA, _REF_ADDR, _REF_SIGNATURE, _INDIRECT = 0x15, 0x10, 0x20, 0x16
_BLOCKS = {0x0A: "B", 0x03: "H", 0x04: "I"}  # block1, 2, 4
_BLOCKS_OF_LEB = (0x09, 0x18)  # block, exprloc
_FLAG, _PRESENT = 0x0C, 0x19
_LEB = (0x1B, 0x22, 0x23, 0x1F01, 0x1F02)  # addrx, loclistx, rnglistx, and gcc's
# addr, data16, sec_offset, strp_sup, ref_sup4, ref_sup8, addrx1 to 4, GNU_ref_alt, GNU_strp_alt
_PLAIN = {
    0x01: -1, 0x1E: 16, 0x17: 0, 0x1D: 0, 0x1C: 4, 0x24: 8, 0x29: 1, 0x2A: 2, 0x2B: 3, 0x2C: 4,
    0x1F20: 0, 0x1F21: 0,
}  # fmt: skip
_COMPILE, _TYPE, _PARTIAL, _SKELETON, _SPLIT, _SPLIT_TYPE = range(1, 7)  # kinds of units
_ABBREVIATIONS_LIMIT = 1 << 16


class Reference(NamedTuple):
    """A value that names an entry.

    Attributes:
        offset: in its section; of a signature, that.
        by_signature: whether it is the signature of a type in a unit of its own.
    """

    offset: int
    by_signature: bool = False


# None: an expression, an address, or a text in another file.
Value = Union[int, bytes, Reference, None]


class _Abbreviation(NamedTuple):
    tag: int
    has_children: bool
    forms: Sequence[tuple[int, int, int]]  # attribute, form, value of an implicit constant


class Sections(NamedTuple):
    """Debug sections of a file, b"" for those that it does not have.

    Attributes:
        info: each `.debug_info`; types of a unit of their own have one each, and `.debug_types`.
    """

    order: str  # "<" or ">", as of struct
    info: Sequence[bytes]
    types: Sequence[bytes]
    abbrev: bytes
    strings: bytes
    line_strings: bytes
    string_offsets: bytes


class Entry:
    """An entry: `tag` and `attributes` without DW_TAG_ and DW_AT_; others are not told."""

    __slots__ = ("_end", "attributes", "has_children", "tag", "unit")

    def __init__(
        self, unit: Unit, tag: str, has_children: bool, attributes: Mapping[str, Value], end: int
    ) -> None:
        self.unit, self.tag, self.has_children = unit, tag, has_children
        self.attributes, self._end = attributes, end

    def children(self) -> Iterator[Entry]:
        at: int | None = self._end if self.has_children else None
        while at is not None:
            child = self.unit.entry_at(at)
            if child is None:
                return
            yield child
            at = child.next()

    def next(self) -> int:
        """Where what follows the entry and its children is."""
        if not self.has_children:
            return self._end
        sibling = self.attributes.get("sibling")
        if isinstance(sibling, Reference) and sibling.offset > self._end:
            return sibling.offset
        return self.unit.behind_children(self._end)

    def referred(self, name: str) -> Entry | None:
        """The entry that an attribute names, None if the entry has no such attribute."""
        if name not in self.attributes:
            return None
        value = self.attributes[name]
        if not isinstance(value, Reference):
            raise ValueError(f"{name} is in another file")
        if value.by_signature:
            return self.unit.info.of_signature(value.offset)
        return self.unit.info.unit_of(self.unit, value.offset).known_entry_at(value.offset)


class Unit:
    """A unit of one section.

    Attributes:
        address_size: bytes of a pointer.
        first: where its first entry is.
        end: where it ends.
        kind: as in DWARF 5.
        signature, type_at: of a type in a unit of its own.
    """

    def __init__(self, info: DebugInfo, data: bytes, at: int, in_types: bool) -> None:
        self.info, self.data, self.start, self.order = info, data, at, info.sections.order
        length, self.offset_size = self.number("I", at), 4
        at += 4
        if length == 0xFFFFFFFF:
            length, self.offset_size = self.number("Q", at), 8
            at += 8
        self.end = at + length
        if length < 2 or self.end > len(data):
            raise ValueError("a unit ends behind its section")
        self.version = self.number("H", at)
        at += 2
        self.kind = _TYPE if in_types else _COMPILE
        if self.version >= 5:
            self.kind, self.address_size = data[at], data[at + 1]
            table = self.number(self._offset_code, at + 2)
            at += 2 + self.offset_size
        else:
            table = self.number(self._offset_code, at)
            self.address_size = data[at + self.offset_size]
            at += self.offset_size + 1
        if not 2 <= self.version <= 5 or self.address_size not in (2, 4, 8):
            raise ValueError("a unit of another kind")
        self.signature, self.type_at = 0, 0
        if self.kind in (_TYPE, _SPLIT_TYPE):
            self.signature = self.number("Q", at)
            self.type_at = self.start + self.number(self._offset_code, at + 8)
            at += 8 + self.offset_size
        elif self.kind in (_SKELETON, _SPLIT):
            at += 8
        self.first = at
        self._abbreviations = info.abbreviations(table)
        self._strings_at = 16 if self.offset_size == 8 else 8
        top = self.known_entry_at(self.first)
        base = top.attributes.get("str_offsets_base")
        if isinstance(base, int):
            self._strings_at = base
            top = self.known_entry_at(self.first)
        self.top = top

    @property
    def has_code(self) -> bool:
        """Whether it is no unit of a type alone."""
        return self.kind not in (_TYPE, _SPLIT_TYPE)

    # -- numbers -----------------------------------------------------------------------------------

    @property
    def _offset_code(self) -> str:
        return "Q" if self.offset_size == 8 else "I"

    def number(self, code: str, at: int) -> int:
        return int(struct.unpack_from(self.order + code, self.data, at)[0])

    # -- entries -----------------------------------------------------------------------------------

    def known_entry_at(self, at: int) -> Entry:
        found = self.entry_at(at)
        if found is None:
            raise ValueError("an entry is missing")
        return found

    def entry_at(self, at: int) -> Entry | None:
        """The entry there, None for the end of a row."""
        if not self.first <= at < self.end:
            raise ValueError("an entry outside of its unit")
        self.info.left -= 1
        if self.info.left < 0:
            raise ValueError("entries are nested so that reading them takes for ever")
        code, at = leb(self.data, at)
        if not code:
            return None
        abbreviation = self._abbreviations[code]
        attributes: dict[str, Value] = {}
        for attribute, form, constant in abbreviation.forms:
            name = ATTRIBUTES.get(attribute)
            value, at = self._value(form, constant, at)
            if name is not None:
                attributes[name] = value
        tag = TAGS.get(abbreviation.tag, "")
        return Entry(self, tag, abbreviation.has_children, attributes, at)

    def behind_children(self, at: int) -> int:
        """Where the row of entries at `at` ends, with those below."""
        depth = 1
        while depth:
            entry = self.entry_at(at)
            if entry is None:
                depth -= 1
                at = leb(self.data, at)[1]
            elif entry.has_children and "sibling" not in entry.attributes:
                depth += 1
                at = entry._end
            else:
                at = entry.next()
        return at

    def _value(self, form: int, constant: int, at: int) -> tuple[Value, int]:
        """A value, and where the next one is."""
        data = self.data
        code = _NUMBERS.get(form)
        if code is not None:
            return self.number(code, at), at + struct.calcsize(code)
        code = _REFERENCES.get(form)
        if code is not None:
            return Reference(self.start + self.number(code, at)), at + struct.calcsize(code)
        if form == _PRESENT:
            return 1, at
        if form in (_STRP, _LINE_STRP):
            table = self.info.sections.strings if form == _STRP else self.info.sections.line_strings
            return text_at(table, self.number(self._offset_code, at)), at + self.offset_size
        if form == _STRING:
            found = text_at(data, at)
            return found, at + len(found) + 1
        if form == _IMPLICIT:
            return constant, at
        if form == _FLAG:
            return data[at], at + 1
        if form == _SIGNED:
            return signed_leb(data, at)
        if form == _UNSIGNED:
            return leb(data, at)
        if form in _STRX:
            return self._indexed_text(_STRX[form], at)
        if form == _REF_UDATA:
            number, at = leb(data, at)
            return Reference(self.start + number), at
        if form == _REF_ADDR:
            size = self.address_size if self.version == 2 else self.offset_size
            code = {2: "H", 4: "I", 8: "Q"}[size]
            return Reference(self.number(code, at)), at + size
        if form == _REF_SIGNATURE:
            return Reference(self.number("Q", at), by_signature=True), at + 8
        if form == _INDIRECT:
            form, at = leb(data, at)
            if form in (_INDIRECT, _IMPLICIT):
                raise ValueError("a form that names itself")
            return self._value(form, 0, at)
        return None, self._behind(form, at)

    def _behind(self, form: int, at: int) -> int:
        """Where a value that tells nothing of types ends."""
        if form in _PLAIN:
            size = _PLAIN[form]
            return at + (size if size > 0 else self.address_size if size else self.offset_size)
        if form in _BLOCKS:
            code = _BLOCKS[form]
            return at + struct.calcsize(code) + self.number(code, at)
        if form in _BLOCKS_OF_LEB:
            size, at = leb(self.data, at)
            return at + size
        if form in _LEB:
            return leb(self.data, at)[1]
        raise ValueError(f"an unknown form {form:#x}")

    def _indexed_text(self, size: int, at: int) -> tuple[Value, int]:
        if size:
            raw = self.data[at : at + size]
            index = int.from_bytes(raw, "little" if self.order == "<" else "big")
            at += size
        else:
            index, at = leb(self.data, at)
        place = self._strings_at + index * self.offset_size
        offsets = self.info.sections.string_offsets
        if place + self.offset_size > len(offsets):  # of the first entry, before its base is known
            return None, at
        (offset,) = struct.unpack_from(self.order + self._offset_code, offsets, place)
        return text_at(self.info.sections.strings, offset), at


class DebugInfo:
    """The units of a file."""

    def __init__(self, sections: Sections) -> None:
        self.sections = sections
        self._tables: dict[int, Mapping[int, _Abbreviation]] = {}
        rows = [(data, False) for data in sections.info] + [(d, True) for d in sections.types]
        # Entries that are read, again and again where others are below them: all together so many.
        self.left = 64 * (sum(len(data) for data, _ in rows) + 64)
        self._units: list[Unit] = []
        for data, in_types in rows:
            at = 0
            while at < len(data):
                self._units.append(Unit(self, data, at, in_types))
                at = self._units[-1].end

    def units(self) -> list[Unit]:
        """Those that may have functions."""
        return [unit for unit in self._units if unit.has_code]

    def unit_of(self, near: Unit, offset: int) -> Unit:
        """The unit with that offset in the section of `near`."""
        if near.start <= offset < near.end:
            return near
        return next(u for u in self._units if u.data is near.data and u.start <= offset < u.end)

    def of_signature(self, signature: int) -> Entry:
        unit = next(u for u in self._units if not u.has_code and u.signature == signature)
        return unit.known_entry_at(unit.type_at)

    def abbreviations(self, at: int) -> Mapping[int, _Abbreviation]:
        """The table there."""
        found = self._tables.get(at)
        if found is None:
            found = self._tables[at] = _read_abbreviations(self.sections.abbrev, at)
        return found


def _read_abbreviations(data: bytes, at: int) -> dict[int, _Abbreviation]:
    found: dict[int, _Abbreviation] = {}
    while True:
        code, at = leb(data, at)
        if not code:
            return found
        if len(found) == _ABBREVIATIONS_LIMIT:
            raise ValueError("too many abbreviations")
        tag, at = leb(data, at)
        has_children, at = data[at] != 0, at + 1
        forms = []
        while True:
            attribute, at = leb(data, at)
            form, at = leb(data, at)
            constant = 0
            if form == _IMPLICIT:
                constant, at = signed_leb(data, at)
            if not attribute and not form:
                break
            forms.append((attribute, form, constant))
        found[code] = _Abbreviation(tag, has_children, forms)


def text_at(data: bytes, at: int) -> bytes:
    """The text there, which ends with a NUL.

    Raises:
        ValueError: it does not end.
    """
    return data[at : data.index(0, at)]


def leb(data: bytes, at: int) -> tuple[int, int]:
    """A number of variable length (LEB128), and where the next one is."""
    value = data[at] & 0x7F
    shift = 7
    while data[at] & 0x80:
        at += 1
        value |= (data[at] & 0x7F) << shift
        shift += 7
        if shift > 70:
            raise ValueError("a number of more than 64 bits")
    return value, at + 1


def signed_leb(data: bytes, at: int) -> tuple[int, int]:
    value, end = leb(data, at)
    bits = 7 * (end - at)
    return value - (1 << bits) if value >> (bits - 1) else value, end
