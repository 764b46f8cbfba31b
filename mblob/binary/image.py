"""The interface that `mblob.open` needs of a file of machine code, whatever its format.
`mblob.binary.container` chooses the reader of a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from mblob.binary.elf_records import Symbol


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
        images: the objects of a set; of anything else itself.
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

    @property
    def images(self) -> Sequence[Image]: ...

    def owner(self, symbol: Symbol) -> Image:
        """The one of `images` that defines an exported symbol."""

    def find(self, name: str) -> Symbol | None:
        """The exported symbol of that name."""

    def bytes_of(self, symbol: Symbol) -> tuple[int, memoryview]:
        """Offset in the file and bytes of an exported symbol.

        Raises:
            FormatError: they are not in the file.
        """

    def notes(self) -> Iterator[tuple[bytes, int, bytes, int]]:
        """ELF notes: owner, type, descriptor, its offset."""


class OneImage:
    """The part of an `Image` that is no set of others."""

    @property
    def images(self: Image) -> Sequence[Image]:
        return (self,)

    def owner(self: Image, symbol: Symbol) -> Image:
        return self
