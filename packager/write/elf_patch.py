"""A linked library with a placeholder blob, and the header fields that change when the real one
takes its place."""

from __future__ import annotations

import hashlib
import os
import stat
import struct
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import (
    NT_GNU_BUILD_ID,
    PF_R,
    PT_DYNAMIC,
    PT_LOAD,
    SHF_ALLOC,
    SHT_NOBITS,
    Section,
    SectionHeader,
    Symbol,
)
from mblob.bytes.record import Record
from mblob.errors import FormatError, ToolchainError
from mblob.format.blob_plan import TENSOR_ALIGN
from mblob.named_tuple import NamedTuple
from mblob.packager.write.elf_writer import PLACEHOLDER_SIZE


class Stub(NamedTuple):
    """The linker's output, or a finished library whose blob is replaced.

    Attributes:
        data: the whole file.
        elf: a reader over it.
        symbol: the dynamic symbol of the placeholder, or of the old blob; `st_size` bytes will be
            replaced.
        section: index of the section it lies in, None in a file without section headers.
    """

    data: bytes | memoryview
    elf: ElfFile
    symbol: Symbol
    section: int | None


def read_stub(path: Path, symbol: str) -> Stub:
    """Read the linker's output and find the placeholder.

    Raises:
        ToolchainError: the linker did not export it, or changed it.
    """
    data = path.read_bytes()
    elf = ElfFile(memoryview(data), str(path))
    found = _exported(elf, symbol)
    if len(found) != 1 or not 0 <= PLACEHOLDER_SIZE - found[0].st_size < TENSOR_ALIGN:
        raise _not_exported(symbol, len(found))
    return Stub(data, elf, found[0], section_of(elf, found[0]))


def exported_symbol(elf: ElfFile, symbol: str) -> Symbol:
    """The blob of a linked library, which an object of the link defines.

    Raises:
        ToolchainError: the linker did not export it.
    """
    found = _exported(elf, symbol)
    if len(found) != 1:
        raise _not_exported(symbol, len(found))
    return found[0]


def _exported(elf: ElfFile, symbol: str) -> list[Symbol]:
    return [s for s in elf.dynsym if s.name == symbol and s.is_exported]


def _not_exported(symbol: str, count: int) -> ToolchainError:
    return ToolchainError(
        f"the link did not export {symbol}: found {count} of it; a version script or --exclude-libs in"
        " options= hides it: add it to the global symbols there"
    )


def section_of(elf: ElfFile, symbol: Symbol) -> int | None:
    """Index of the section that a symbol lies in, None if none has its address.

    What a dynamic symbol says of it may be old: `objcopy` numbers sections anew, and not there.
    """
    numbers = [symbol.st_shndx, *range(len(elf.sections))]
    return next(
        (i for i in numbers if i < len(elf.sections) and _has(elf.sections[i], symbol)), None
    )


def _has(section: Section, symbol: Symbol) -> bool:
    is_loaded = section.sh_flags & SHF_ALLOC and section.sh_type != SHT_NOBITS
    return bool(is_loaded) and 0 <= symbol.st_value - section.sh_addr < section.sh_size


class Patch:
    """Writes single header fields of an ELF file, by the stub's class and byte order.

    Args:
        moved: where a byte of the stub that is a note or a symbol lies now.
    """

    def __init__(self, fd: int, elf: ElfFile, moved: Callable[[int], int] = lambda at: at) -> None:
        self._fd = fd
        self._elf = elf
        self._moved = moved
        self._layout = elf.layout
        self.byte_order = elf.byte_order

    def put(self, record: Record, at: int, **values: int) -> None:
        """Fields of the record at a file offset."""
        for name, value in values.items():
            with fitting(self._elf):
                self.raw(at + record.offset_of(name), record.encode(name, value))

    def raw(self, at: int, data: bytes) -> None:
        """Bytes at a file offset, whatever stands there."""
        os.pwrite(self._fd, data, at)

    def section_table(self, offset: int) -> None:
        """e_shoff."""
        self.put(self._layout.ehdr, 0, e_shoff=offset)

    def section_headers(self, rows: Sequence[SectionHeader], names: bytes, end: int) -> None:
        """The whole table and the names of sections, behind the offset `end`: e_shoff, e_shnum."""
        elf, at = self._elf, end + -end % 16
        self.raw(at, names)
        table = at + len(names)
        table += -table % 16
        made = list(rows)
        made[elf.e_shstrndx] = made[elf.e_shstrndx]._replace(sh_offset=at, sh_size=len(names))
        with fitting(elf):
            self.raw(table, b"".join(self._layout.shdr.pack(*row) for row in made))
        self.put(self._layout.ehdr, 0, e_shoff=table, e_shnum=len(made))

    def program_headers(self, rows: Sequence[bytes], offset: int) -> None:
        """The whole table, at another place: e_phoff, e_phnum."""
        self.raw(offset, b"".join(rows))
        self.put(self._layout.ehdr, 0, e_phoff=offset, e_phnum=len(rows))

    def section(self, index: int, *, table: int | None = None, **values: int) -> None:
        """Fields of a section header; `table`: where the table lies now."""
        at = (self._elf.e_shoff if table is None else table) + index * self._elf.e_shentsize
        self.put(self._layout.shdr, at, **values)

    def dynamic_addresses(self, moved: Callable[[int], int], tags: Collection[int]) -> None:
        """Addresses of tables in the dynamic section; `moved`: where the one of an address is
        now."""
        elf, record = self._elf, self._layout.dyn
        start = next(s.p_offset for s in elf.segments if s.p_type == PT_DYNAMIC)
        for i in range(sum(map(len, elf.dynamic.values()))):
            at = start + record.size * i
            tag, value = elf.unpack(record, at, "dynamic section")
            if tag in tags:
                self.put(record, at, d_val=moved(value))

    def symbol(self, at: int, **values: int) -> None:
        """Fields of the symbol table entry at file offset `at`."""
        self.put(self._layout.sym, at, **values)

    def placeholder_symbols(self, stub: Stub, **values: int) -> None:
        """Fields of the blob's dynamic symbol and of its entry in `.symtab`."""
        old = stub.symbol
        twins = (s for s in stub.elf.symtab if (s.name, s.st_value) == (old.name, old.st_value))
        for s in (old, *twins):
            self.symbol(self._moved(s.offset), **values)

    def segment(self, index: int, **values: int) -> None:
        """Fields of a program header."""
        self.put(self._layout.phdr, self._elf.e_phoff + index * self._elf.e_phentsize, **values)

    def load_segment(self, index: int, offset: int, vaddr: int, size: int, align: int) -> None:
        """Make program header `index` a PT_LOAD, read-only, with the highest address of all.

        It moves behind the last PT_LOAD: the gABI wants these in ascending order of address.
        """
        elf = self._elf
        raw = segment_row(elf, PT_LOAD, PF_R, offset, vaddr, size, align)
        step = elf.e_phentsize
        rows = [
            bytes(elf.data[elf.e_phoff + i * step : elf.e_phoff + (i + 1) * step])
            for i in range(len(elf.segments))
        ]
        last = max(i for i, s in enumerate(elf.segments) if s.p_type == PT_LOAD)
        del rows[index]
        rows.insert(last if index < last else last + 1, raw)
        os.pwrite(self._fd, b"".join(rows), elf.e_phoff)

    def notes(self) -> Iterator[tuple[bytes, int, bytes, int]]:
        """As of `ElfFile.notes`, with the places that they have now."""
        for owner, kind, desc, at in self._elf.notes():
            yield owner, kind, desc, self._moved(at)

    def build_id(self, fingerprint: bytes) -> None:
        """Make the build-id, which the linker took from the stub, depend on the payload too."""
        for owner, kind, desc, at in self.notes():
            if owner == b"GNU" and kind == NT_GNU_BUILD_ID and desc:
                digest = hashlib.sha512(desc + fingerprint).digest()
                os.pwrite(self._fd, (digest * (len(desc) // 64 + 1))[: len(desc)], at)


@contextmanager
def fitting(elf: ElfFile) -> Iterator[None]:
    """Numbers that are written here follow from others in the file: one that does not fit means
    that these are damaged.

    Raises:
        FormatError: "elf_header".
    """
    try:
        yield
    except struct.error:
        raise FormatError(
            f"{elf.name}: header value out of range while rewriting", code="elf_header"
        ) from None


def segment_row(
    elf: ElfFile,
    p_type: int,
    flags: int,
    offset: int,
    vaddr: int,
    size: int,
    align: int,
    memory: int | None = None,
) -> bytes:
    """A program header of a file's class and byte order; `memory`: its bytes there, those that the
    file fills without."""
    with fitting(elf):
        return elf.layout.phdr.make(
            p_type=p_type,
            p_flags=flags,
            p_offset=offset,
            p_vaddr=vaddr,
            p_paddr=vaddr,
            p_filesz=size,
            p_memsz=size if memory is None else memory,
            p_align=align,
        )


@contextmanager
def new_library(output: Path, stub_path: Path, *, has_blob: bool = False) -> Iterator[int]:
    """A descriptor of a new file to write and read, which gets the mode of the linker's output, and is its owner's to
    write: a copy of a read-only library can be changed again.

    Args:
        has_blob: a blob is being written to it already.
    """
    fd = os.open(output, os.O_RDWR | os.O_CREAT | (0 if has_blob else os.O_TRUNC), 0o666)
    try:
        yield fd
        os.fchmod(fd, stub_path.stat().st_mode & 0o7777 | stat.S_IWUSR)
    finally:
        os.close(fd)
