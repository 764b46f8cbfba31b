"""Files that hold several: archives (`.a`), `.tar` and `.tar.gz` as TVM exports them, universal
Mach-O files.

Members are slices of the file; only what is compressed is unpacked (`mblob.binary.tar`). An
archive in an archive is an error that names it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property

from mblob import texts
from mblob.binary import archive, mach_o, pe, tar
from mblob.binary.elf import ElfFile
from mblob.binary.elf_object import ElfObject
from mblob.binary.elf_records import STB_GLOBAL, Symbol
from mblob.binary.file_kind import (
    AR_MAGIC,
    ELF_MAGIC,
    SNIFF_SIZE,
    THIN_MAGIC,
    linkable_kind,
)
from mblob.binary.image import Image
from mblob.binary.machine_names import MachineAlias, fits, known_names, machine_of
from mblob.errors import FormatError
from mblob.named_tuple import NamedTuple
from mblob.source_suffixes import SOURCES

MEMBER_LIMIT = tar.MEMBER_LIMIT


class Member(NamedTuple):
    """One member of a container.

    Attributes:
        kind: "elf object", "mach-o shared", ...; "source", or "other" for what is not looked into.
        offset, size: its bytes in the file (in the unpacked one, for gzip).
        image: what is in it, None if it is no machine code.
    """

    name: str
    kind: str
    offset: int
    size: int
    image: Image | None


class Opened(NamedTuple):
    """A file, told apart.

    Attributes:
        kind: "shared", "object", "archive", "tar", "universal", ...
        image: its machine code.
        members: of a container, else empty.
        compressed: offsets count in the unpacked file, or in what C text stands for.
    """

    kind: str
    image: Image
    members: tuple[Member, ...] = ()
    compressed: bool = False


def open_file(data: memoryview, label: str, machine: str | None = None) -> Opened:
    """Tell what a file is and open what it holds.

    Args:
        machine: by a name of `machine_names`, which part of a universal file (that of this machine,
            or else the first, by default), and what another file must be for.

    Raises:
        FormatError: "no_machine"; "not_elf": nothing of it is machine code; "archive": it is
            damaged, or has an archive in it; what the readers say.
    """
    if not data:
        raise FormatError.about(label, texts.EMPTY, code="not_elf")
    wanted = _machine(label, machine) if machine is not None else None
    if found := mach_o.slices(data, label):
        return _of_universal(data, label, found, wanted)
    opened = _open_one(data, label)
    if wanted is None:
        return opened
    for image in opened.image.images:
        if image.format != "c" and not fits(wanted, image.machine, image.bits, image.endian):
            what = f"{image.machine}, {image.bits} bits, {image.endian} endian"
            raise FormatError.about(image.name, f"for {what}, not {machine}", code="no_machine")
    return opened


def _machine(label: str, name: str) -> MachineAlias:
    found = machine_of(name)
    if found is None:
        raise FormatError.about(
            label, f"no machine is called {name!r}; known are {known_names()}", code="no_machine"
        )
    return found


def _open_one(data: memoryview, label: str) -> Opened:
    """A file that is no universal one."""
    start = bytes(data[:SNIFF_SIZE])
    if start[:8] == THIN_MAGIC:
        raise FormatError.about(
            label,
            "a thin archive, which holds names of files only: look at those",
            code="archive",
        )
    if start[:8] == AR_MAGIC:
        return _of_members("archive", data, label, archive.places(data, label))
    if linkable_kind(start) == "tar":
        content = tar.content(data, label)
        opened = _of_members("tar", content, label, tar.files(content, label))
        return opened._replace(compressed=content is not data)
    image = _image(data, label)
    return Opened(image.kind, image, compressed=image.format == "c")


def _image(data: memoryview, name: str, base: int = 0) -> Image:
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


def _of_universal(
    data: memoryview, label: str, found: list[mach_o.Slice], wanted: MachineAlias | None
) -> Opened:
    members: list[Member] = []
    parts: dict[str, Image] = {}
    for s in found:
        part, name = data[s.offset : s.offset + s.size], f"{label}({s.machine})"
        if part[: len(AR_MAGIC)] == AR_MAGIC:  # a static library for several machines
            image: Image = _of_members(
                "archive", part, name, archive.places(part, name), s.offset
            ).image
            kind = "mach-o archive"
        elif mach_o.is_thin(part):
            image = mach_o.MachO(part, name, s.offset)
            kind = f"mach-o {image.kind}"
        else:
            raise FormatError.about(
                label,
                f"its part for {s.machine} is no Mach-O file",
                code="mach_o",
                offset=s.offset,
            )
        parts[s.machine] = image
        members.append(Member(s.machine, kind, s.offset, s.size, image))
    if wanted is None:
        here = machine_of(os.uname().machine)
        chosen = [
            image
            for image in parts.values()
            if here and fits(here, image.machine, image.bits, image.endian)
        ]
        return Opened("universal", (chosen or list(parts.values()))[0], tuple(members))
    for part_image in parts.values():
        if fits(wanted, part_image.machine, part_image.bits, part_image.endian):
            return Opened("universal", part_image, tuple(members))
    raise FormatError.about(
        label, f"no part for {wanted.name}; there are {', '.join(parts)}", code="no_machine"
    )


def _of_members(
    kind: str, data: memoryview, label: str, places: Iterator[tuple[str, int, int]], base: int = 0
) -> Opened:
    members: list[Member] = []
    for name, start, size in places:
        if len(members) == MEMBER_LIMIT:
            raise FormatError.about(
                label, f"more than {MEMBER_LIMIT} members", code="archive", offset=start
            )
        members.append(_member(data[start : start + size], f"{label}({name})", name, base + start))
    images = [m.image for m in members if m.image is not None]
    images.sort(key=lambda image: image.format == "c")  # the machine is that of code
    if not images:
        count = {0: "no members", 1: "one member, which is no machine code"}.get(len(members))
        what = count or f"{len(members)} members, none of them machine code"
        raise FormatError.about(label, what, code="no_blob")
    image = images[0] if len(images) == 1 else ObjectSet(images, label)
    return Opened(kind, image, tuple(members))


def refuse_archive(content: memoryview, label: str) -> None:
    """Refuse a member that is an archive itself.

    Raises:
        FormatError: "archive".
    """
    head = bytes(content[:SNIFF_SIZE])
    kind = linkable_kind(head)
    if kind in ("archive", "tar") or head[:8] == THIN_MAGIC or mach_o.slices(content, label):
        raise FormatError.about(
            label,
            "an archive in an archive, which is not looked into: unpack it",
            code="archive",
        )


def _member(content: memoryview, label: str, name: str, start: int) -> Member:
    refuse_archive(content, label)
    try:
        image = _image(content, label, start)
    except FormatError as error:
        if error.code != "not_elf" or content[:4] == ELF_MAGIC:
            raise
        kind = "source" if name.endswith(SOURCES) else "other"
        return Member(name, kind, start, len(content), None)
    kind = "source" if image.format == "c" else f"{image.format} {image.kind}"
    return Member(name, kind, start, len(content), image)


class ObjectSet:
    """Objects that are linked together, as one `Image`: what one of them defines, the others need
    not get elsewhere."""

    kind = "object"

    def __init__(self, images: Sequence[Image], name: str) -> None:
        self.images = images
        self.name = name
        first = images[0]
        self.format, self.bits, self.byte_order = first.format, first.bits, first.byte_order
        self.machine, self.endian = first.machine, first.endian
        self.needed: Sequence[str] = ()

    @cached_property
    def _owners(self) -> dict[int, Image]:
        return {id(s): image for image in self.images for s in image.exports}

    @cached_property
    def _first(self) -> dict[str, Symbol]:
        found: dict[str, Symbol] = {}
        for image in self.images:
            for s in image.exports:
                if s.name not in found or (s.binding == STB_GLOBAL != found[s.name].binding):
                    found[s.name] = s
        return found

    @property
    def exports(self) -> Sequence[Symbol]:
        return list(self._first.values())

    @cached_property
    def imports(self) -> Sequence[Symbol]:
        return [s for image in self.images for s in image.imports if s.name not in self._first]

    @cached_property
    def duplicates(self) -> list[str]:
        """Names that two members define for good, which no linker takes."""
        seen: set[str] = set()
        twice: set[str] = set()
        for image in self.images:
            strong = {s.name for s in image.exports if s.binding == STB_GLOBAL}
            twice |= seen & strong
            seen |= strong
        return sorted(twice)

    def find(self, name: str) -> Symbol | None:
        return self._first.get(name)

    def owner(self, symbol: Symbol) -> Image:
        """The member that defines an exported symbol."""
        return self._owners[id(symbol)]

    def bytes_of(self, symbol: Symbol) -> tuple[int, memoryview]:
        return self.owner(symbol).bytes_of(symbol)

    def notes(self) -> Iterator[tuple[bytes, int, bytes, int]]:
        for image in self.images:
            yield from image.notes()
