"""Object files that hold a blob: our own writer, ELF64 and ELF32, either byte order.

The payload is streamed: it comes last in the file, at an offset that copies fast if it is large
(BLOB_ALIGN: half the time of 4 KiB on file systems with large pages), and the headers are patched
when its size is known.
The layout of the records is the System V gABI's, chapter 4.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from mblob.binary.elf_records import (
    EM_X86_64,
    ET_REL,
    SHF_ALLOC,
    SHF_X86_64_LARGE,
    SHT_NOTE,
    SHT_PROGBITS,
    SHT_STRTAB,
    SHT_SYMTAB,
    STB_GLOBAL,
    STB_LOCAL,
    STT_OBJECT,
    STT_SECTION,
    STV_DEFAULT,
    STV_HIDDEN,
    SectionHeader,
    layout_of,
)
from mblob.binary.file_kind import ELF_MAGIC
from mblob.format import note
from mblob.format.blob_plan import BLOB_ALIGN
from mblob.named_tuple import NamedTuple
from mblob.packager.objects.object_files import ElfTarget
from mblob.packager.write.file_sink import FileSink

PLACEHOLDER_SIZE = 4096

WriteToSink = Callable[[FileSink], int]


class BlobSection(NamedTuple):
    """The place of a blob in an object.

    Attributes:
        name: of the section.
        flags: SHF_*.
        alignment: of the section, in bytes.
        kind: SHT_PROGBITS, or SHT_NOTE for the placeholder that becomes a segment.
        lead: zero bytes in front of the blob.
    """

    name: str
    flags: int = SHF_ALLOC
    alignment: int = BLOB_ALIGN
    kind: int = SHT_PROGBITS
    lead: int = 0


GROW_SECTION = ".tvm_mblob"  # in libraries that mblob linked, or to which it added a blob
LARGE_SECTION = ".lrodata"


def large_section(alignment: int, lead: int) -> BlobSection:
    """The section of large read-only data on x86-64, which linkers put where code does not have to
    reach across."""
    return BlobSection(LARGE_SECTION, SHF_ALLOC | SHF_X86_64_LARGE, alignment, lead=lead)


def section_for(machine: ElfTarget, alignment: int, lead: int = 0) -> BlobSection:
    """The section for a blob that a linker places itself, `lead` bytes behind a multiple of
    `alignment`.

    On x86-64 `.lrodata` with the large flag: bfd, gold and lld put it where code does not have to
    reach across, so that more than 2 GiB link.
    """
    if machine.e_machine == EM_X86_64:
        return large_section(alignment, lead)
    return BlobSection(".rodata.mblob", alignment=alignment, lead=lead)


def write_object(
    path: Path,
    machine: ElfTarget,
    symbol: str,
    section: BlobSection,
    write_blob: WriteToSink,
    *,
    announced: int,
    hidden: bool = False,
) -> int:
    """Write an object file whose `symbol` is the blob, and return the blob's size.

    Args:
        write_blob: streams the blob into a sink and returns its size.
        announced: flags of the note of mblob.
        hidden: for a system library: the symbol stays in the program that it is linked into, which
            gets no note, because it is no packed library.

    Raises:
        IncompatibleError: the blob is larger than ELF32 can say.
        OSError: the file cannot be written.
    """
    layout = _Layout(machine, symbol, section, announced, hidden)
    start = layout.payload_offset + section.lead
    limit = None if machine.bits == 64 else 0xFFFFFFFF - start
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        os.lseek(fd, start, os.SEEK_SET)
        size = write_blob(FileSink(fd, limit, f"{path.name}: a 32-bit ELF file ({machine.name})"))
        os.pwrite(fd, layout.head(size), 0)
        return size
    finally:
        os.close(fd)


def placeholder(
    path: Path, machine: ElfTarget, symbol: str, section: BlobSection, *, announced: int
) -> None:
    """Write an object with a section of PLACEHOLDER_SIZE zero bytes, a blob that ends it, for
    `grow` and `append` to replace."""
    size = PLACEHOLDER_SIZE - section.lead

    def zeros(sink: FileSink) -> int:
        sink.write(bytes(size))
        return size

    write_object(path, machine, symbol, section, zeros, announced=announced)


class _Layout:
    """The file in front of the payload: header, section headers, symbols, names, notes."""

    def __init__(
        self, machine: ElfTarget, symbol: str, section: BlobSection, announced: int, hidden: bool
    ) -> None:
        self.machine = machine
        self.symbol = symbol
        self.layout = layout_of(machine.bits, machine.byte_order)
        notes = [] if hidden else [(note.SECTION, note.encode(announced, machine.byte_order), 4)]
        if machine.properties:
            notes.append((".note.gnu.property", machine.properties, self.layout.word.size))
        self.section = section
        self.notes = notes
        self.visibility = STV_HIDDEN if hidden else STV_DEFAULT
        self.shnum = 6 + len(notes)
        self.shoff = self.layout.ehdr.size
        at = self.shoff + self.shnum * self.layout.shdr.size
        self.symtab_offset = at + -at % self.layout.word.size
        self.symtab_size = 3 * self.layout.sym.size
        self.strings = b"\0" + symbol.encode() + b"\0"
        self.strtab_offset = self.symtab_offset + self.symtab_size
        names = [
            "",
            section.name,
            *(n for n, _, _ in notes),
            ".note.GNU-stack",
            ".symtab",
            ".strtab",
            ".shstrtab",
        ]
        self.names = "\0".join(names).encode() + b"\0"
        self.shstrtab_offset = self.strtab_offset + len(self.strings)
        at = self.shstrtab_offset + len(self.names)
        self.note_offsets = []
        for _, data, align in notes:
            at += -at % align
            self.note_offsets.append(at)
            at += len(data)
        self.payload_offset = at + -at % section.alignment

    def head(self, size: int) -> bytes:
        """All bytes in front of the section of a blob of `size` bytes."""
        out = bytearray(self.payload_offset)
        head = self._ehdr()
        out[: len(head)] = head
        pieces = [
            (self.shoff, self._section_headers(size)),
            (self.symtab_offset, self._symbols(size)),
            (self.strtab_offset, self.strings),
            (self.shstrtab_offset, self.names),
        ]
        pieces += [(at, data) for at, (_, data, _) in zip(self.note_offsets, self.notes)]
        for at, data in pieces:
            out[at : at + len(data)] = data
        return bytes(out)

    def _ehdr(self) -> bytes:
        m, layout = self.machine, self.layout
        ident: dict[str, int | bytes] = {
            "e_ident[EI_MAG]": ELF_MAGIC,
            "e_ident[EI_CLASS]": m.bits // 32,
            "e_ident[EI_DATA]": 1 if m.byte_order == "<" else 2,
            "e_ident[EI_VERSION]": 1,
            "e_ident[EI_OSABI]": m.os_abi,
            "e_ident[EI_PAD]": b"",
        }
        return layout.ehdr.make(
            **ident, e_type=ET_REL, e_machine=m.e_machine, e_version=1, e_shoff=self.shoff, e_flags=m.e_flags,
            e_ehsize=layout.ehdr.size, e_shentsize=layout.shdr.size, e_shnum=self.shnum, e_shstrndx=self.shnum - 1,
        )  # fmt: skip

    def _section_headers(self, size: int) -> bytes:
        layout, symtab = self.layout, self.shnum - 3
        rows = [
            ("", 0, 0, 0, 0, 0, 0, 0, 0),
            (self.section.name, self.section.kind, self.section.flags, self.payload_offset,
             self.section.lead + size, 0, 0, self.section.alignment, 0),
        ]  # fmt: skip
        rows += [
            (name, SHT_NOTE, SHF_ALLOC, at, len(data), 0, 0, align, 0)
            for at, (name, data, align) in zip(self.note_offsets, self.notes)
        ]
        rows += [
            # Present and without SHF_EXECINSTR: the stack of whoever links this need not be
            # executable.
            (".note.GNU-stack", SHT_PROGBITS, 0, self.payload_offset, 0, 0, 0, 1, 0),
            (".symtab", SHT_SYMTAB, 0, self.symtab_offset, self.symtab_size, symtab + 1, 2,
             layout.word.size, layout.sym.size),
            (".strtab", SHT_STRTAB, 0, self.strtab_offset, len(self.strings), 0, 0, 1, 0),
            (".shstrtab", SHT_STRTAB, 0, self.shstrtab_offset, len(self.names), 0, 0, 1, 0),
        ]  # fmt: skip
        out = b""
        at = 0
        for name, kind, flags, offset, length, link, info, align, entry in rows:
            row = SectionHeader(at, kind, flags, 0, offset, length, link, info, align, entry)
            out += layout.shdr.pack(*row)
            at += len(name) + 1
        return out

    def _symbols(self, size: int) -> bytes:
        def symbol(name: int, info: int, length: int, value: int = 0) -> bytes:
            shndx = 1 if info else 0
            other = self.visibility if name else 0
            return self.layout.sym.make(
                st_name=name,
                st_info=info,
                st_other=other,
                st_shndx=shndx,
                st_size=length,
                st_value=value,
            )

        return (
            symbol(0, 0, 0)
            + symbol(0, STB_LOCAL << 4 | STT_SECTION, 0)
            + symbol(1, STB_GLOBAL << 4 | STT_OBJECT, size, self.section.lead)
        )
