"""The headers of a file byte by byte: where each field lies, its name in the standard, what it
says.

Fields are those of the System V gABI (chapters 4 and 5) and of docs/format.md. Nothing here takes
more than LIMIT records of a kind, whatever a file announces.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mblob.binary import elf_records
from mblob.binary.container import ObjectSet
from mblob.binary.elf import ElfFile
from mblob.binary.non_elf import ForeignFile
from mblob.bytes.wire import Cursor
from mblob.errors import FormatError
from mblob.format import index

if TYPE_CHECKING:
    from mblob.format.model import Entry
    from mblob.inspect.library import Library

LIMIT = 400  # records of one kind: items, records of the index, section headers
NUMBERS = 64  # of a list of numbers
KEY_SHOWN = 96  # bytes of a key
POOL_SHOWN = 1024  # bytes of the names of an index

# names and struct formats; "w" is a word of the class, 4 or 8 bytes
Layout = Sequence[tuple[str, str]]

ELF_HEADER: Layout = (
    ("e_ident[EI_MAG]", "4s"), ("e_ident[EI_CLASS]", "B"), ("e_ident[EI_DATA]", "B"), ("e_ident[EI_VERSION]", "B"),
    ("e_ident[EI_OSABI]", "B"), ("e_ident[EI_ABIVERSION]", "B"), ("e_ident[EI_PAD]", "7s"), ("e_type", "H"),
    ("e_machine", "H"), ("e_version", "I"), ("e_entry", "w"), ("e_phoff", "w"), ("e_shoff", "w"), ("e_flags", "I"),
    ("e_ehsize", "H"), ("e_phentsize", "H"), ("e_phnum", "H"), ("e_shentsize", "H"), ("e_shnum", "H"),
    ("e_shstrndx", "H"),
)  # fmt: skip
PROGRAM_HEADER_64: Layout = (
    ("p_type", "I"), ("p_flags", "I"), ("p_offset", "w"), ("p_vaddr", "w"), ("p_paddr", "w"), ("p_filesz", "w"),
    ("p_memsz", "w"), ("p_align", "w"),
)  # fmt: skip
PROGRAM_HEADER_32: Layout = (
    ("p_type", "I"), ("p_offset", "w"), ("p_vaddr", "w"), ("p_paddr", "w"), ("p_filesz", "w"), ("p_memsz", "w"),
    ("p_flags", "I"), ("p_align", "w"),
)  # fmt: skip
SECTION_HEADER: Layout = (
    ("sh_name", "I"), ("sh_type", "I"), ("sh_flags", "w"), ("sh_addr", "w"), ("sh_offset", "w"), ("sh_size", "w"),
    ("sh_link", "I"), ("sh_info", "I"), ("sh_addralign", "w"), ("sh_entsize", "w"),
)  # fmt: skip
INDEX_HEADER: Layout = (
    ("version", "I"), ("flags", "I"), ("digest algorithm", "I"), ("digest size", "I"), ("stream_size", "Q"),
    ("entry_count", "Q"), ("child_count", "Q"), ("strings_size", "Q"), ("target: offset", "I"), ("target: size", "I"),
    ("producer: offset", "I"), ("producer: size", "I"),
)  # fmt: skip
INDEX_RECORD: Layout = (
    ("payload offset", "Q"), ("payload size", "Q"), ("type key: offset", "I"), ("type key: size", "I"), ("flags", "I"),
    ("alignment", "I"), ("digest", "32s"), ("item offset", "Q"), ("reserved", "Q"),
)  # fmt: skip
FOOTER: Layout = (
    ("index_offset", "Q"), ("index_size", "Q"), ("blob_size", "Q"), ("version", "I"), ("flags", "I"),
    ("CRC-32 of the index", "I"), ("CRC-32 of the structure", "I"), ("reserved", "I"), ("CRC-32 of this footer", "I"),
    ("magic", "16s"),
)  # fmt: skip

MACH_HEADER: Layout = (
    ("magic number", "I"), ("cputype", "I"), ("cpusubtype", "I"), ("filetype", "I"), ("ncmds", "I"),
    ("sizeofcmds", "I"), ("flags", "I"), ("reserved", "I"),
)  # fmt: skip
DOS_HEADER: Layout = (
    ("e_magic", "2s"),
    ("from e_cblp to e_res2", "58s"),
    ("e_lfanew: offset", "I"),
)
COFF_HEADER: Layout = (
    ("Machine", "H"), ("NumberOfSections", "H"), ("TimeDateStamp", "I"), ("PointerToSymbolTable: offset", "I"),
    ("NumberOfSymbols", "I"), ("SizeOfOptionalHeader", "H"), ("Characteristics: flags", "H"),
)  # fmt: skip

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
_CHOICES = {
    "e_ident[EI_CLASS]": {1: "ELFCLASS32", 2: "ELFCLASS64"},
    "e_ident[EI_DATA]": {1: "ELFDATA2LSB, little endian", 2: "ELFDATA2MSB, big endian"},
    "e_type": {1: "ET_REL", 2: "ET_EXEC", 3: "ET_DYN, shared object"},
    "e_machine": elf_records.MACHINES,
    "p_type": {
        1: "PT_LOAD", 2: "PT_DYNAMIC", 3: "PT_INTERP", 4: "PT_NOTE", 6: "PT_PHDR", 7: "PT_TLS",
        0x6474E550: "PT_GNU_EH_FRAME", 0x6474E551: "PT_GNU_STACK", 0x6474E552: "PT_GNU_RELRO",
        0x6474E553: "PT_GNU_PROPERTY",
    },
    "sh_type": {
        0: "SHT_NULL", 1: "SHT_PROGBITS", 2: "SHT_SYMTAB", 3: "SHT_STRTAB", 4: "SHT_RELA", 5: "SHT_HASH",
        6: "SHT_DYNAMIC", 7: "SHT_NOTE", 8: "SHT_NOBITS", 9: "SHT_REL", 11: "SHT_DYNSYM", 14: "SHT_INIT_ARRAY",
        15: "SHT_FINI_ARRAY", 0x6FFFFFF6: "SHT_GNU_HASH", 0x6FFFFFFE: "SHT_GNU_VERNEED", 0x6FFFFFFF: "SHT_GNU_VERSYM",
    },
    "digest algorithm": {0: "none", 1: "CRC-32", 2: "SHA-256"},
}  # fmt: skip
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
    if isinstance(image, ObjectSet):
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


def record(
    title: str, data: memoryview, at: int, layout: Layout, order: str, word: str, base: int = 0
) -> Block:
    """One record as a block.

    Args:
        at: of the record in `data`; the caller has checked that it is there.
        order, word: byte order and format of a word.
        base: offset of `data` in the file.
    """
    block = Block(title, base + at)
    for name, code in layout:
        fmt = order + (word if code == "w" else code)
        size = struct.calcsize(fmt)
        raw = data[at : at + size]
        block.add(raw, name, says(name, struct.unpack(fmt, raw)[0]))
        at += size
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
    order, word = elf.byte_order, "Q" if elf.bits == 64 else "I"
    yield Group("ELF header", [record("Elf_Ehdr", elf.data, 0, ELF_HEADER, order, word, elf.base)])
    layout = PROGRAM_HEADER_64 if elf.bits == 64 else PROGRAM_HEADER_32
    names = [""] * len(elf.segments)
    yield _table("Program headers", "Elf_Phdr", names, elf.e_phoff, layout, elf)
    names = [s.name for s in elf.readable_sections]
    if names:
        yield _table("Section headers", "Elf_Shdr", names, elf.e_shoff, SECTION_HEADER, elf)


def _table(
    title: str, kind: str, names: Sequence[str], at: int, layout: Layout, elf: ElfFile
) -> Group:
    """A table of records, one for each name, which the reader has found to lie in the file."""
    word = "Q" if elf.bits == 64 else "I"
    step = struct.calcsize("=" + "".join(word if code == "w" else code for _, code in layout))
    titles = [f"{kind} {i} {name}".rstrip() for i, name in enumerate(names[:LIMIT])]
    blocks = [
        record(t, elf.data, at + i * step, layout, elf.byte_order, word, elf.base)
        for i, t in enumerate(titles)
    ]
    return Group(title, blocks, max(len(names) - LIMIT, 0))


# -- Mach-O, PE and COFF ---------------------------------------------------------------------------


def _foreign_groups(image: ForeignFile, bits: int) -> Iterator[Group]:
    """The first headers; their readers have found that the file has them."""
    data, base, order = image.data, image.base, image.byte_order
    if image.format == "mach-o":
        layout = MACH_HEADER if bits == 64 else MACH_HEADER[:-1]
        yield Group("Mach-O header", [record("mach_header", data, 0, layout, order, "Q", base)])
        return
    at = 0
    if image.format == "pe":
        yield Group(
            "DOS header", [record("IMAGE_DOS_HEADER", data, 0, DOS_HEADER, order, "Q", base)]
        )
        at = int.from_bytes(data[60:64], "little")
        yield Group(
            "PE signature",
            [record("Signature", data, at, (("Signature", "4s"),), order, "Q", base)],
        )
        at += 4
    yield Group(
        "COFF header", [record("IMAGE_FILE_HEADER", data, at, COFF_HEADER, order, "Q", base)]
    )


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
        if bytes(raw) != b"_import_tree":
            return
        block.add(raw, "key", "_import_tree")
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
    yield Group("Index header", [record("index header", data, at, INDEX_HEADER, "<", "Q", base)])
    records = at + index.HEADER.size
    titles = [f"record {i}: {e.type_key[:KEY_SHOWN]}" for i, e in enumerate(entries[:LIMIT])]
    shown = [
        record(title, data, records + i * index.RECORD.size, INDEX_RECORD, "<", "Q", base)
        for i, title in enumerate(titles)
    ]
    yield Group("Index records", shown, max(count - LIMIT, 0))
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
    yield Group("Footer", [record("footer", data, footer, FOOTER, "<", "Q", base)])


def _plain_numbers(data: memoryview, base: int, at: int, count: int, name: str) -> Block:
    """`count` u64 without a length in front."""
    title = name if count <= NUMBERS else f"{name} (the first {NUMBERS} of {count})"
    block, cursor = Block(title, base + at), Cursor(data, at)
    for i in range(min(count, NUMBERS)):
        _number(block, cursor, f"{name}[{i}]")
    return block
