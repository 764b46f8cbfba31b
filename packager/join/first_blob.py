"""A first blob for a finished library that has none: one symbol and one segment more. No compiler and no
linker is needed, since there is no code to add.

The blob is an empty one, with an index, and ends the last segment. So it can grow there
(`mblob.packager.join.reembed`).
"""

from __future__ import annotations

from pathlib import Path

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import (
    MAX_PAGE,
    PAGES,
    PF_R,
    PT_LOAD,
    PT_NOTE,
    SHF_ALLOC,
    SHT_NOTE,
    SHT_PROGBITS,
    SHT_STRTAB,
    STB_GLOBAL,
    STT_OBJECT,
    SectionHeader,
)
from mblob.bytes.sink import BytesSink
from mblob.format import note
from mblob.format.blob_plan import TENSOR_ALIGN, BlobPlan, OutEntry
from mblob.format.type_keys import LIBRARY
from mblob.packager.join.dynamic_symbols import Entry
from mblob.packager.join.merge import merge_data
from mblob.packager.join.merged_file import write
from mblob.packager.write.blob_stream import producer
from mblob.packager.write.dialects import Dialect
from mblob.packager.write.elf_patch import segment_row
from mblob.packager.write.elf_writer import GROW_SECTION


def with_first_blob(library: ElfFile, path: Path, output: Path, dialect: Dialect) -> None:
    """Write `output`: the library with a blob that says that there is nothing but the library.

    Args:
        library: of which the tables were checked.
        path: of the library.

    Raises:
        CannotJoinError: the relocations of its machine are not known, or there is no room for more program
            headers.
        IncompatibleError: there are no addresses behind its last segment.
        FormatError, OSError: it is damaged, or cannot be read or written.
    """
    plan = BlobPlan(
        [OutEntry(LIBRARY, None)],
        dialect.name,
        has_tree=dialect.is_ffi,
        target=f"{library.machine}-linux",
        producer=producer(),
    )
    sink = BytesSink()
    plan.write(sink)
    part, symbol = _part(library, dialect.symbol, sink.data)
    write(merge_data(library, part, symbol), path, output)


def _part(host: ElfFile, symbol: str, blob: bytearray) -> tuple[ElfFile, Entry]:
    """The blob as a library that joins another one, and the entry of its symbol."""
    layout = host.layout
    announced = note.announced(host)
    # Of a library with a note of mblob the index is announced, too. Any other gets none: functions
    # that nothing describes are called as its compiler made them.
    record = note.descriptor(host.byte_order)
    notes = b""
    if announced.flags:
        words = note.words(announced.flags | note.HAS_INDEX, announced.table_crc)
        notes = note.encode(0, host.byte_order)
        notes = notes[: -record.size] + record.pack(*words)
    names = f"\0{GROW_SECTION}\0{note.SECTION}\0.shstrtab\0".encode()
    headers = layout.ehdr.size + (2 if notes else 1) * layout.phdr.size
    note_at = headers + -headers % 8
    at = note_at + len(notes)
    at += -at % TENSOR_ALIGN
    end = at + len(blob)
    sections = [
        SectionHeader(*[0] * len(SectionHeader._fields)),
        SectionHeader(1, SHT_PROGBITS, SHF_ALLOC, at, at, len(blob), sh_addralign=TENSOR_ALIGN),
    ]
    align = PAGES.get(host.e_machine, MAX_PAGE)
    segments = [segment_row(host, PT_LOAD, PF_R, note_at, note_at, end - note_at, align)]
    if notes:
        name = names.index(note.SECTION.encode())
        sections.append(
            SectionHeader(name, SHT_NOTE, SHF_ALLOC, note_at, note_at, len(notes), sh_addralign=4)
        )
        segments.append(segment_row(host, PT_NOTE, PF_R, note_at, note_at, len(notes), 4))
    sections.append(
        SectionHeader(names.index(b".shstrtab"), SHT_STRTAB, 0, 0, end, len(names), sh_addralign=1)
    )
    data = bytearray(end) + names
    data += bytes(-len(data) % layout.word.size)
    table = len(data)
    data[: layout.ehdr.size] = bytes(host.data[: layout.ehdr.size])
    layout.ehdr.put(
        data, 0, e_phoff=layout.ehdr.size, e_phnum=len(segments), e_shoff=table, e_shnum=len(sections),
        e_shstrndx=len(sections) - 1, e_phentsize=layout.phdr.size, e_shentsize=layout.shdr.size,
    )  # fmt: skip
    data[layout.ehdr.size : headers] = b"".join(segments)
    data[note_at : note_at + len(notes)] = notes
    data[at:end] = blob
    data += b"".join(layout.shdr.pack(*row) for row in sections)
    part = ElfFile(memoryview(bytes(data)), host.name)
    info = STB_GLOBAL << 4 | STT_OBJECT
    return part, Entry(symbol.encode(), at, len(blob), info, 0, 1, joined=True)
