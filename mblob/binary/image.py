"""The interface that `mblob.open` needs of a file of machine code, whatever its format; and the
choice of the reader for a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from mblob import texts
from mblob.binary import mach_o, pe
from mblob.binary.elf import ElfFile
from mblob.binary.elf_object import ElfObject
from mblob.binary.elf_records import Symbol
from mblob.binary.file_kind import ELF_MAGIC
from mblob.errors import FormatError


class Image(Protocol):
    """A shared library or an object. All readers give ELF's `Symbol`, so that there is one kind of
    symbol above them.

    Attributes:
        format: "elf", "mach-o", "pe", "coff", or "c" for C text of TVM.
        kind: "shared", "object", "executable", "source", ...
        name: how errors call it.
        bits: 32 or 64.
        byte_order: "<" or ">"; `endian` in words.
        machine: "x86_64", "aarch64", ...
        exports, imports: symbols for others and of others, without what their format puts around a
        C name.
        needed: libraries that the dynamic linker loads with it.
    """

    format: str
    name: str
    bits: int
    byte_order: str

    @property
    def kind(self) -> str: ...

    @property
    def machine(self) -> str: ...

    @property
    def endian(self) -> str: ...

    @property
    def exports(self) -> Sequence[Symbol]: ...

    @property
    def imports(self) -> Sequence[Symbol]: ...

    @property
    def needed(self) -> Sequence[str]: ...

    def find(self, name: str) -> Symbol | None:
        """The exported symbol of that name."""

    def bytes_of(self, symbol: Symbol) -> tuple[int, memoryview]:
        """Offset in the file and bytes of an exported symbol.

        Raises:
            FormatError: they are not in the file.
        """

    def notes(self) -> Iterator[tuple[bytes, int, bytes, int]]:
        """ELF notes: owner, type, descriptor, its offset."""


def open_image(data: memoryview, name: str, base: int = 0) -> Image:
    """The image that `data` is.

    Args:
        name: how errors call it.
        base: where `data` starts in the file.

    Raises:
        FormatError: "not_elf": in none of the formats; what its reader says.
    """
    if data[:4] == ELF_MAGIC:
        elf = ElfFile(data, name, base)
        if elf.kind == "object":
            elf = ElfObject(data, name, base)
        elf.check_tables()
        return elf
    if mach_o.is_thin(data):
        return mach_o.MachO(data, name, base)
    if pe.is_pe(data):
        return pe.PeFile(data, name, base)
    if pe.is_coff(data):
        return pe.CoffObject(data, name, base)
    from mblob.binary import c_text

    if c_text.is_c(data):
        return c_text.CText(data, name)
    raise FormatError.about(
        name,
        f"not a library: neither ELF, Mach-O nor PE{texts.PACKED_FIRST}",
        code="not_elf",
        offset=0,
    )
