"""The headers of a file byte by byte: where each field lies, its name in the standard, what it
says.

Fields are those of the System V gABI (chapters 4 and 5) and of docs/format.md. Nothing here takes
more than LIMIT records of a kind, whatever a file announces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mblob.binary import elf_records
from mblob.binary.elf import ElfFile
from mblob.binary.non_elf import ForeignFile
from mblob.bytes.record import Record
from mblob.bytes.wire import Cursor
from mblob.errors import FormatError
from mblob.format import index
from mblob.format.type_keys import TREE_KEY

if TYPE_CHECKING:
    from mblob.format.blob_model import Entry
    from mblob.inspect.library import Library

LIMIT = 400  # records of one kind: items, records of the index, section headers
NUMBERS = 64  # of a list of numbers
KEY_SHOWN = 96  # bytes of a key
POOL_SHOWN = 1024  # bytes of the names of an index

MACH_HEADER = "magic number I, cputype I, cpusubtype I, filetype I, ncmds I, sizeofcmds I, flags I"
DOS_HEADER = "e_magic 2s, from e_cblp to e_res2 58s, e_lfanew: offset I"
COFF_HEADER = (
    "Machine H, NumberOfSections H, TimeDateStamp I, PointerToSymbolTable: offset I,"
    "NumberOfSymbols I, SizeOfOptionalHeader H, Characteristics: flags H"
)

_HEX = (
    "number",
    "cputype",
    "Machine",
    "CRC",
    "flags",
    "addr",
    "vaddr",
    "offset",
    "off",
    "entry",
    "p_type",
    "sh_type",
)


def _names(prefix: str) -> dict[int, str]:
    """The constants of ELF whose names start so, by value."""
    return {value: name for name, value in vars(elf_records).items() if name.startswith(prefix)}


_CHOICES = {
    "e_ident[EI_CLASS]": {1: "ELFCLASS32", 2: "ELFCLASS64"},
    "e_ident[EI_DATA]": {1: "ELFDATA2LSB, little endian", 2: "ELFDATA2MSB, big endian"},
    "e_type": _names("ET_"),
    "e_machine": elf_records.MACHINES,
    "p_type": _names("PT_"),
    "sh_type": _names("SHT_"),
    "digest algorithm": {0: "none", 1: "CRC-32", 2: "SHA-256"},
}
_BITS = {
    "p_flags": ((4, "R"), (2, "W"), (1, "X")),
    "sh_flags": (
        (1, "WRITE"),
        (2, "ALLOC"),
        (4, "EXECINSTR"),
        (16, "MERGE"),
        (32, "STRINGS"),
        (1024, "TLS"),
    ),
}


@dataclass
class Block:
    """Bytes in one piece, divided into named fields.

    Attributes:
        title: what they are.
        offset: of the first byte in the file.
        data: what the fields cover, and no more.
        fields: offset in `data`, size, name, what it says.
    """

    title: str
    offset: int
    data: bytes = b""
    fields: list[tuple[int, int, str, str]] = field(default_factory=list)

    def add(self, raw: bytes | memoryview, name: str, says: str) -> None:
        """The next field."""
        self.fields.append((len(self.data), len(raw), name, says))
        self.data += bytes(raw)

    def to_json(self) -> list[Any]:
        return [self.title, self.offset, self.data.hex(), [list(f) for f in self.fields]]


@dataclass
class Group:
    """Blocks of one kind; `left_out` more were not taken."""

    title: str
    blocks: list[Block]
    left_out: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "blocks": [b.to_json() for b in self.blocks],
            "left_out": self.left_out,
        }


def header_groups(library: Library) -> list[Group]:
    """All headers of a file, in the order of a reader; of an archive those of the member that has
    the blob."""
    image = library.image
    image = image.images[0] if library.blob_symbol is None else image.owner(library.blob_symbol)
    groups: list[Group] = []
    if isinstance(image, ElfFile):
        groups += _elf_groups(image)
    elif isinstance(image, ForeignFile):
        groups += _foreign_groups(image, library.target["bits"])
    if library.blob:
        groups += _blob_groups(library, library.blob_bytes()[: library.blob.size])
    return [g for g in groups if g.blocks]


# -- records of fixed layout -----------------------------------------------------------------------


def block_of(title: str, data: memoryview, at: int, record: Record, base: int = 0) -> Block:
    """One record as a block.

    Args:
        at: of the record in `data`; the caller has checked that it is there.
        base: offset of `data` in the file.
    """
    block, raw = Block(title, base + at), data[at : at + record.size]
    for field_of, value in zip(record.fields.values(), record.unpack_from(raw)):
        block.add(raw[field_of.place], field_of.name, says(field_of.name, value))
    return block


def says(name: str, value: int | bytes) -> str:
    """The value of a field in words."""
    if isinstance(value, bytes):
        if not any(value):
            return "zeros"
        return value.rstrip(b"\0").hex() if name == "digest" else repr(value)[1:]
    if name in _CHOICES:
        return f"{value:#x}: {_CHOICES[name][value]}" if value in _CHOICES[name] else f"{value:#x}"
    if name in _BITS:
        return f"{value:#x}: {' '.join(word for bit, word in _BITS[name] if value & bit) or 'none'}"
    if name == "reserved" or not any(word in name for word in _HEX):
        return str(value)
    return f"{value:#x} ({value})" if value > 9 else str(value)


# -- ELF -------------------------------------------------------------------------------------------


def _elf_groups(elf: ElfFile) -> Iterator[Group]:
    layout = elf.layout
    yield Group("ELF header", [block_of("Elf_Ehdr", elf.data, 0, layout.ehdr, elf.base)])
    titles = [f"Elf_Phdr {i}" for i in range(len(elf.segments))]
    yield _table("Program headers", titles, elf.data, elf.e_phoff, layout.phdr, elf.base)
    titles = [f"Elf_Shdr {i} {s.name}".rstrip() for i, s in enumerate(elf.readable_sections)]
    yield _table("Section headers", titles, elf.data, elf.e_shoff, layout.shdr, elf.base)


def _table(
    title: str, titles: Sequence[str], data: memoryview, at: int, record: Record, base: int
) -> Group:
    """A table of records with a title each, which the reader has found to lie in the file."""
    blocks = [
        block_of(t, data, at + i * record.size, record, base) for i, t in enumerate(titles[:LIMIT])
    ]
    return Group(title, blocks, max(len(titles) - LIMIT, 0))


# -- Mach-O, PE and COFF ---------------------------------------------------------------------------


def _foreign_groups(image: ForeignFile, bits: int) -> Iterator[Group]:
    """The first headers; their readers have found that the file has them."""
    data, base, order = image.data, image.base, image.byte_order
    if image.format == "mach-o":
        header = Record(MACH_HEADER + (", reserved I" if bits == 64 else ""), order)
        yield Group("Mach-O header", [block_of("mach_header", data, 0, header, base)])
        return
    at = 0
    if image.format == "pe":
        header, signature = Record(DOS_HEADER, order), Record("Signature 4s", order)
        yield Group("DOS header", [block_of("IMAGE_DOS_HEADER", data, 0, header, base)])
        at = header.field_at(data, "e_lfanew: offset")
        yield Group("PE signature", [block_of("Signature", data, at, signature, base)])
        at += signature.size
    header = Record(COFF_HEADER, order)
    yield Group("COFF header", [block_of("IMAGE_FILE_HEADER", data, at, header, base)])


# -- the blob --------------------------------------------------------------------------------------


def _blob_groups(library: Library, data: memoryview) -> Iterator[Group]:
    blob, base = library.blob, library.blob_offset
    assert blob is not None
    tree_first = blob.dialect == "ffi" and blob.symbol.endswith("__library_bin")
    prefix = Block("length prefix and count", base)
    cursor = Cursor(data)
    _number(prefix, cursor, "N: bytes that follow")
    if not tree_first:
        _number(prefix, cursor, "n: items of the stream")
    yield Group("Blob", [prefix])
    if tree_first:
        yield Group(
            "Import tree", [*_numbers(cursor, base, "indptr"), *_numbers(cursor, base, "child")]
        )
    items = [e for e in blob.entries if e.item_offset]
    yield Group(
        "Items",
        [_item(data, base, e, tree_first) for e in items[:LIMIT]],
        max(len(items) - LIMIT, 0),
    )
    if blob.has_tree and not tree_first:
        yield Group("Import tree", list(_tree(data, base, items, blob.stream_size)))
    if blob.index_offset is not None:
        yield from _index_groups(data, base, blob.index_offset, blob.entries)


def _number(block: Block, cursor: Cursor, name: str) -> int:
    at = cursor.pos
    value = cursor.u64(name)
    block.add(
        cursor.data[at : cursor.pos], name, f"{value:#x} ({value})" if value > 9 else str(value)
    )
    return value


def _item(data: memoryview, base: int, entry: Entry, sized: bool) -> Block:
    """Length and text of a key; in the ffi dialect the length of the payload behind it."""
    block, cursor = (
        Block(f"item {entry.index}", base + entry.item_offset),
        Cursor(data, entry.item_offset),
    )
    size = _number(block, cursor, "key: length")
    raw = cursor.take(min(size, KEY_SHOWN, cursor.left), "key")
    block.add(
        raw,
        "key",
        bytes(raw).decode("utf-8", "backslashreplace") + (" ..." if size > KEY_SHOWN else ""),
    )
    if sized and entry.offset is not None and size <= KEY_SHOWN:
        _number(block, cursor, "payload: length")
    return block


def _tree(data: memoryview, base: int, items: Sequence[Entry], end: int) -> Iterator[Block]:
    """The last item of a classic stream; none where the file does not have it after all."""
    at = 16
    if items:
        last = items[-1]
        cursor = Cursor(data, last.item_offset, end)
        cursor.skip_string("key")
        at = cursor.pos if last.offset is None or last.bulk else last.offset + last.size
    cursor = Cursor(data, at, end)
    try:
        block = Block("key", base + at)
        size = _number(block, cursor, "key: length")
        raw = cursor.take(size, "key")
        if bytes(raw) != TREE_KEY.encode():
            return
        block.add(raw, "key", TREE_KEY)
        yield block
        yield from _numbers(cursor, base, "row_ptr")
        yield from _numbers(cursor, base, "child")
    except FormatError:
        return


def _numbers(cursor: Cursor, base: int, name: str) -> Iterator[Block]:
    """A vector<u64>; the cursor ends behind it."""
    block = Block(name, base + cursor.pos)
    count = _number(block, cursor, f"{name}: count")
    end = cursor.pos + 8 * count
    for i in range(min(count, NUMBERS)):
        _number(block, cursor, f"{name}[{i}]")
    if count > NUMBERS:
        block.title += f" (the first {NUMBERS} of {count})"
    cursor.skip(end - cursor.pos, name)
    yield block


def _index_groups(
    data: memoryview, base: int, at: int, entries: Sequence[Entry]
) -> Iterator[Group]:
    count = len(entries)
    yield Group("Index header", [block_of("index header", data, at, index.HEADER, base)])
    records = at + index.HEADER.size
    titles = [f"record {i}: {e.type_key[:KEY_SHOWN]}" for i, e in enumerate(entries)]
    yield _table("Index records", titles, data, records, index.RECORD, base)
    footer = len(data) - index.FOOTER.size
    tree = records + count * index.RECORD.size
    children = sum(len(e.imports) for e in entries)
    blocks = [_plain_numbers(data, base, tree, count + 1, "row_ptr")]
    names = tree + 8 * (count + 1 + children)
    if children:
        blocks.append(_plain_numbers(data, base, tree + 8 * (count + 1), children, "child"))
    pool = Block("strings", base + names)
    raw = data[names : min(footer, names + POOL_SHOWN)]
    pool.add(raw, "strings", bytes(raw[:256]).decode("utf-8", "backslashreplace"))
    yield Group("Index: tree and strings", [*blocks, pool])
    yield Group("Footer", [block_of("footer", data, footer, index.FOOTER, base)])


def _plain_numbers(data: memoryview, base: int, at: int, count: int, name: str) -> Block:
    """`count` u64 without a length in front."""
    title = name if count <= NUMBERS else f"{name} (the first {NUMBERS} of {count})"
    block, cursor = Block(title, base + at), Cursor(data, at)
    for i in range(min(count, NUMBERS)):
        _number(block, cursor, f"{name}[{i}]")
    return block
