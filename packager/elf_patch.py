"""A linked library with a placeholder blob, and the header fields that change when the real one takes its place."""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mblob.elf import ElfFile
from mblob.elf_records import NT_GNU_BUILD_ID, PT_LOAD, Symbol
from mblob.errors import ToolchainError
from packager.blob import BlobWriter
from packager.elf_writer import PLACEHOLDER_SIZE
from packager.file_sink import FileSink
from packager.reuse import SharingSink

COPY = 256 << 10  # bytes per step of a copy
WHOLE = 16 << 20  # bytes of a blob without digests that are all read for the build-id
SAMPLE, SAMPLED, SAMPLES = 4096, 1 << 20, 1 << 14  # bytes read, out of how many at least; how often at most


@dataclass(frozen=True)
class Stub:
    """The linker's output.

    Attributes:
        data: the whole file; it holds code and a placeholder, no payload.
        elf: a reader over it.
        symbol: the placeholder's dynamic symbol.
        section: index of the section it lies in, None in a file without section headers.
    """

    data: bytes
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
    found = [s for s in elf.dynsym if s.name == symbol and s.is_exported]
    if len(found) != 1 or found[0].st_size != PLACEHOLDER_SIZE:
        raise ToolchainError(
            f"the link did not export {symbol}: found {len(found)} of it; a version script or --exclude-libs in"
            " options= hides it: add it to the global symbols there"
        )
    section = found[0].st_shndx if elf.e_shoff and found[0].st_shndx < len(elf.sections) else None
    return Stub(data, elf, found[0], section)


class Patch:
    """Writes single header fields of an ELF file, by the stub's class and byte order."""

    def __init__(self, fd: int, elf: ElfFile) -> None:
        self._fd = fd
        self._elf = elf
        self._wide = elf.bits == 64

    def _put(self, at: int, wide_offset: int, narrow_offset: int, value: int) -> None:
        fmt, offset = ("Q", wide_offset) if self._wide else ("I", narrow_offset)
        os.pwrite(self._fd, struct.pack(self._elf.byte_order + fmt, value), at + offset)

    def section_table(self, offset: int) -> None:
        """e_shoff."""
        self._put(0, 40, 32, offset)

    def section(
        self, index: int, *,
        offset: int | None = None, size: int | None = None, addr: int | None = None, table: int | None = None,
    ) -> None:  # fmt: skip
        """sh_offset, sh_size, sh_addr of a section header; `table`: where the table lies now."""
        at = (self._elf.e_shoff if table is None else table) + index * self._elf.e_shentsize
        if offset is not None:
            self._put(at, 24, 16, offset)
        if size is not None:
            self._put(at, 32, 20, size)
        if addr is not None:
            self._put(at, 16, 12, addr)

    def section_kind(self, index: int, sh_type: int, sh_flags: int) -> None:
        """sh_type and sh_flags of a section header that has not moved."""
        at = self._elf.e_shoff + index * self._elf.e_shentsize
        os.pwrite(self._fd, struct.pack(f"{self._elf.byte_order}I", sh_type), at + 4)
        self._put(at, 8, 8, sh_flags)

    def symbol(self, at: int, *, size: int, value: int | None = None) -> None:
        """st_size, st_value of the symbol table entry at file offset `at`."""
        self._put(at, 16, 8, size)
        if value is not None:
            self._put(at, 8, 4, value)

    def placeholder_symbols(
        self, stub: Stub, *, size: int, value: int | None = None, moved: Callable[[int], int] = lambda at: at
    ) -> None:
        """The blob's dynamic symbol and its entry in `.symtab`; `moved`: where a byte of the stub lies now."""
        old = stub.symbol
        twins = (s for s in stub.elf.symtab if (s.name, s.st_value) == (old.name, old.st_value))
        for s in (old, *twins):
            self.symbol(moved(s.offset), size=size, value=value)

    def segment_place(self, index: int, offset: int, size: int) -> None:
        """p_offset, p_filesz and p_memsz."""
        at = self._elf.e_phoff + index * self._elf.e_phentsize
        self._put(at, 8, 4, offset)
        self._put(at, 32, 16, size)
        self._put(at, 40, 20, size)

    def segment_flags(self, index: int, flags: int) -> None:
        """p_flags."""
        at = self._elf.e_phoff + index * self._elf.e_phentsize
        os.pwrite(self._fd, struct.pack(f"{self._elf.byte_order}I", flags), at + (4 if self._wide else 24))

    def load_segment(self, index: int, offset: int, vaddr: int, size: int, align: int) -> None:
        """Make program header `index` a PT_LOAD, read-only, with the highest address of all.

        It moves behind the last PT_LOAD: the gABI wants these in ascending order of address.
        """
        elf = self._elf
        order = elf.byte_order
        if self._wide:
            raw = struct.pack(f"{order}IIQQQQQQ", PT_LOAD, 4, offset, vaddr, vaddr, size, size, align)
        else:
            raw = struct.pack(f"{order}8I", PT_LOAD, offset, vaddr, vaddr, size, size, 4, align)
        step = elf.e_phentsize
        rows = [
            bytes(elf.data[elf.e_phoff + i * step : elf.e_phoff + (i + 1) * step]) for i in range(len(elf.segments))
        ]
        last = max(i for i, s in enumerate(elf.segments) if s.p_type == PT_LOAD)
        del rows[index]
        rows.insert(last if index < last else last + 1, raw)
        os.pwrite(self._fd, b"".join(rows), elf.e_phoff)

    def build_id(self, fingerprint: bytes) -> None:
        """Make the build-id, which the linker took from the stub, depend on the payload too."""
        for owner, kind, desc, at in self._elf.notes():
            if owner == b"GNU" and kind == NT_GNU_BUILD_ID and desc:
                digest = hashlib.sha512(desc + fingerprint).digest()
                os.pwrite(self._fd, (digest * (len(desc) // 64 + 1))[: len(desc)], at)


@contextmanager
def new_library(output: Path, stub_path: Path, *, has_blob: bool = False) -> Iterator[int]:
    """A descriptor of a new file to write and read, which gets the mode of the linker's output.

    Args:
        has_blob: a blob is being written to it already.
    """
    fd = os.open(output, os.O_RDWR | os.O_CREAT | (0 if has_blob else os.O_TRUNC), 0o666)
    try:
        yield fd
        os.fchmod(fd, stub_path.stat().st_mode & 0o7777)
    finally:
        os.close(fd)


def write_blob(fd: int, blob: BlobWriter, limit: int | None, machine: str) -> tuple[int, bytes]:
    """Stream a blob to the descriptor's position; its size, and bytes that depend on all of it.

    Raises:
        IncompatibleError: it has more than `limit` bytes.
    """
    start = os.lseek(fd, 0, os.SEEK_CUR)
    whole = not blob.has_digests and blob.digest != "none"
    what = f"a 32-bit library ({machine})"
    if blob.old is None:
        sink = FileSink(fd, limit, what, checksum=whole)
    else:
        sink = SharingSink(blob.old, fd, limit, what, checksum=whole)
    size = blob.write(sink)
    sink.finish()
    if blob.has_digests:  # the footer holds a checksum of the digests
        return size, os.pread(fd, 64, start + size - 64)
    crc = sink.crc if whole else _crc_of_samples(fd, start, size)
    return size, crc.to_bytes(4, "little") + size.to_bytes(8, "little")


def _crc_of_samples(fd: int, start: int, size: int) -> int:
    """What tells blobs without digests apart: all of a small one, of a large one a page out of each MiB, and its end.

    Reading all of it would cost what leaving out the digests saved.
    """
    step, width = (COPY, COPY) if size <= WHOLE else (max(SAMPLED, -(-size // SAMPLES)), SAMPLE)
    crc = 0
    for at in range(0, size, step):
        crc = zlib.crc32(os.pread(fd, min(width, size - at), start + at), crc)
    return zlib.crc32(os.pread(fd, min(COPY, size), start + size - min(COPY, size)), crc)


def write_all(fd: int, data: memoryview | bytes) -> None:
    """Write everything at the descriptor's position."""
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left[:COPY]) :]
