"""Which bytes of a file belong to what: headers, sections, functions in them, the blob, the parts
of its payloads.

What a file claims about itself may overlap or lie outside of it; here each byte is counted once,
for the first that claims it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import (
    PT_LOAD,
    SHF_ALLOC,
    SHF_EXECINSTR,
    SHT_NOBITS,
    STT_FUNC,
    STT_GNU_IFUNC,
    STT_OBJECT,
    Section,
)
from mblob.binary.file_kind import ELF_MAGIC
from mblob.binary.non_elf import ForeignFile
from mblob.errors import FormatError
from mblob.format.grammar import text
from mblob.named_tuple import NamedTuple

if TYPE_CHECKING:
    from mblob.binary.image import Image
    from mblob.inspect.library import EntryView, Library

# sections that have a name of their own; the smallest of more are counted together
SECTION_LIMIT = 2000
SYMBOL_LIMIT = 4000  # the same for functions and variables, of all sections together
TEXTS = (
    "graph_json",
    "nodes_json",
    "symbol",
    "module_name",
    "fmt",
    "version",
    "runtime",
    "export_path",
)


class Area(NamedTuple):
    """Some bytes of the file.

    Attributes:
        name: what they are.
        offset: in the file, None where it is not known or they are not in one piece.
        size: bytes.
        kind: its colour: "code", "data", "tensor", "text", "header", "debug", "payload", "blob",
            "rest", or "group" for smaller ones together.
        detail: type and shape of a tensor, else "".
        children: what it is made of; together they may have fewer bytes.
    """

    name: str
    offset: int | None
    size: int
    kind: str
    detail: str = ""
    children: tuple[Area, ...] = ()


# -- the file --------------------------------------------------------------------------------------


def file_areas(library: Library) -> list[Area]:
    """The whole file outside the blob, in the order of its bytes; members of an archive with what
    is in each."""
    blob = (
        range(library.blob_offset, library.blob_offset + library.blob.size)
        if library.blob
        else range(0)
    )
    if not library.members:
        return image_areas(library.image, blob)
    if library.compressed and not _in_one_piece(library):
        blob = range(0)  # the file has it as text, and not as these bytes
    claims = [
        Area(
            m.name,
            m.offset,
            m.size,
            "data",
            detail=m.kind,
            children=() if m.image is None else tuple(image_areas(m.image, blob)),
        )
        for m in library.members
    ]
    return list(lay_out(claims, library.size, blob))


def _in_one_piece(library: Library) -> bool:
    """True if the blob's bytes lie in a member as they are; in C source they do not."""
    images = [m.image for m in library.members if m.image is not None]
    symbol = library.blob_symbol
    return symbol is None or all(i.format != "c" or i.find(symbol.name) is None for i in images)


def image_areas(image: Image, left_out: range = range(0)) -> list[Area]:
    """The parts of a file of machine code, with offsets in the file that is shown.

    Args:
        left_out: bytes of that file that belong to something else.
    """
    base: int = getattr(image, "base", 0)
    left = range(max(left_out.start - base, 0), max(left_out.stop - base, 0))
    if isinstance(image, ElfFile):
        found = elf_areas(image, image.data, left)
    elif isinstance(image, ForeignFile):
        found = span_areas(image, left)
    else:
        return []
    return found if base == 0 else [_moved(a, base) for a in found]


def _moved(a: Area, by: int) -> Area:
    offset = None if a.offset is None else a.offset + by
    return a._replace(offset=offset, children=tuple(_moved(c, by) for c in a.children))


def span_areas(image: ForeignFile, left_out: range) -> list[Area]:
    """Sections of a Mach-O, PE or COFF file; their symbols have no sizes."""
    claims = [
        Area(s.name, s.offset, s.size, "code" if s.executable else "data") for s in image.spans
    ]
    first = min((s.offset for s in image.spans if s.size), default=0)
    claims.append(Area("headers", 0, first, "header"))
    return _few(list(lay_out(claims, len(image.data), left_out)), SECTION_LIMIT, "sections")


def elf_areas(elf: ElfFile, data: memoryview, left_out: range = range(0)) -> list[Area]:
    """Headers and sections of an ELF file (segments, where it has no sections)."""
    claims = [Area("ELF header", 0, elf.layout.ehdr.size, "header")]
    if elf.e_phnum:
        claims.append(Area("program headers", elf.e_phoff, elf.e_phnum * elf.e_phentsize, "header"))
    if elf.e_shoff:
        claims.append(Area("section headers", elf.e_shoff, elf.e_shnum * elf.e_shentsize, "header"))
    sections = elf.readable_sections
    if sections:
        inside = _symbols_by_section(elf, sections)
        claims += [
            _section_area(s, inside.get(i, []))
            for i, s in enumerate(sections)
            if s.sh_type != SHT_NOBITS
        ]
    else:
        claims += [
            Area(
                f"segment at {s.p_vaddr:#x}",
                s.p_offset,
                s.p_filesz,
                "code" if s.p_flags & 1 else "data",
            )
            for s in elf.segments
            if s.p_type == PT_LOAD
        ]
    return _few(list(lay_out(claims, len(data), left_out)), SECTION_LIMIT, "sections")


def _section_area(s: Section, children: Sequence[Area]) -> Area:
    if s.sh_flags & SHF_EXECINSTR:
        kind = "code"
    elif s.sh_flags & SHF_ALLOC:
        kind = "data"
    else:
        kind = "debug"
    return Area(
        s.name or "section without a name",
        s.sh_offset,
        s.sh_size,
        kind,
        detail="",
        children=tuple(children),
    )


def _symbols_by_section(elf: ElfFile, sections: Sequence[Section]) -> dict[int, list[Area]]:
    """Functions and variables of each section, without overlap, in the order of their addresses."""
    found: dict[int, list[Area]] = {}
    try:
        symbols = [*elf.dynsym, *elf.symtab]
    except (
        FormatError
    ):  # of the table that only debuggers read; the other one is checked when the file is opened
        symbols = elf.dynsym
    for s in symbols:
        if (
            not s.st_size
            or not 0 < s.st_shndx < len(sections)
            or s.type not in (STT_FUNC, STT_GNU_IFUNC, STT_OBJECT)
        ):
            continue
        section = sections[s.st_shndx]
        if not section.sh_addr <= s.st_value < section.sh_addr + section.sh_size:
            continue
        start = section.sh_offset + s.st_value - section.sh_addr
        kind = "data" if s.type == STT_OBJECT else "code"
        found.setdefault(s.st_shndx, []).append(Area(s.name, start, s.st_size, kind))
    for index, areas in found.items():
        h = sections[index]
        laid = [
            a
            for a in lay_out(areas, h.sh_offset + h.sh_size, range(0), h.sh_offset)
            if a.kind != "rest"
        ]
        found[index] = _few(laid, max(SYMBOL_LIMIT // len(found), 1), "symbols")
    return found


def lay_out(claims: Iterable[Area], end: int, left_out: range, at: int = 0) -> Iterator[Area]:
    """Areas in order, cut where they overlap, with what nobody claims between them."""
    for claim in sorted(claims, key=lambda a: (a.offset or 0, -a.size)):
        assert claim.offset is not None
        start, stop = max(claim.offset, at), min(claim.offset + claim.size, end)
        if start >= stop:
            continue
        yield from _without(left_out, Area("padding between sections", at, start - at, "rest"))
        yield from _without(left_out, claim._replace(offset=start, size=stop - start))
        at = stop
    yield from _without(
        left_out, Area("behind all sections" if at else "file", at, end - at, "rest")
    )


def _without(left_out: range, area: Area) -> Iterator[Area]:
    assert area.offset is not None
    if not area.size or not left_out:
        yield from [area] if area.size else []
        return
    stop = area.offset + area.size
    for first, last in (
        (area.offset, min(stop, left_out.start)),
        (max(area.offset, left_out.stop), stop),
    ):
        if first < last:
            whole = last - first == area.size
            yield area._replace(
                offset=first,
                size=last - first,
                children=tuple(
                    c for c in area.children if whole or first <= (c.offset or 0) <= last - c.size
                ),
            )


def _few(areas: list[Area], limit: int, what: str) -> list[Area]:
    """At most `limit` areas in their order; the smallest of more become one."""
    if len(areas) <= limit:
        return areas
    kept = set(heapq.nlargest(limit, range(len(areas)), key=lambda i: areas[i].size))
    rest = sum(a.size for i, a in enumerate(areas) if i not in kept)
    return [
        *(a for i, a in enumerate(areas) if i in kept),
        Area(f"{len(areas) - limit} smaller {what}", None, rest, "group"),
    ]


# -- payloads --------------------------------------------------------------------------------------


def payload_areas(entry: EntryView) -> list[Area]:
    """The parts of a payload: tensors, texts, device code (down to its sections, if it is ELF); []
    for raw bytes.

    Raises:
        FormatError: the payload breaks the grammar of its key.
    """
    if entry.offset is None:
        return []
    content = entry.content
    if content.problem is not None:
        raise content.problem
    start = entry.offset
    tensors = [
        Area(
            t.name,
            start + t.offset,
            t.size,
            "tensor",
            detail=f"{t.dtype}[{', '.join(map(str, t.shape))}]",
        )
        for t in content.tensors
    ]
    others = list(_other_areas(entry))
    # constants of an executable lie in its code
    if tensors and sum(a.size for a in (*tensors, *others)) > entry.size:
        code = max(others, key=lambda a: a.size)
        others[others.index(code)] = code._replace(children=tuple(tensors))
        tensors = []
    found = [a for a in (*others, *tensors) if a.size]
    left = entry.size - sum(a.size for a in found)
    return (
        [*found, Area("lengths and names", None, left, "header")] if found and left > 0 else found
    )


def _other_areas(entry: EntryView) -> Iterator[Area]:
    """Texts and code of a payload: its fields, and shaders by their kernels."""
    for name, value in entry.fields().items():
        if isinstance(value, memoryview):
            yield _bytes_area(name, value)
        elif isinstance(value, dict):
            yield from (
                Area(key, None, len(v), "code")
                for key, v in value.items()
                if isinstance(v, memoryview)
            )


def _bytes_area(name: str, value: memoryview) -> Area:
    if name in TEXTS:
        return Area(name, None, len(value), "text", text(value[:64]) if len(value) <= 64 else "")
    inside: list[Area] = []
    if bytes(value[:4]) == ELF_MAGIC:  # a cubin, a code object of AMD's, a host object
        try:
            inside = [a._replace(offset=None) for a in elf_areas(ElfFile(value), value)]
        except FormatError:
            inside = []
    return Area(name, None, len(value), "code", "", tuple(inside))
