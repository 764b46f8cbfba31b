"""The differences between the host code of two libraries: functions, what they need, and the bytes
around the blob."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import SHF_ALLOC, SHT_NOBITS, SHT_NOTE, Section, Symbol
from mblob.bytes.mapping import map_file
from mblob.errors import FormatError
from mblob.format.exported_functions import FFI_PREFIX
from mblob.inspect.library_search import shared_elf

if TYPE_CHECKING:
    from mblob.inspect.library import Library

ChangeFields = tuple[str, Any, Any]
FunctionChange = tuple[str, str, list[ChangeFields]]

# Of the dynamic linker's tables only what they say counts, and that is compared by name.
_TABLES = (
    ".dynsym", ".dynstr", ".hash", ".gnu.hash", ".gnu.version", ".gnu.version_r", ".gnu.version_d", ".dynamic",
    ".eh_frame_hdr",
)  # fmt: skip


def host_differences(a: Library, b: Library) -> tuple[list[ChangeFields], list[FunctionChange]]:
    """Changes of the libraries as a whole, and of their functions: name, "added", "removed" or
    "changed", details."""
    changes: list[ChangeFields] = []
    for what, one, other in (
        ("dialect", a.dialect, b.dialect),
        *((key, a.target[key], b.target[key]) for key in ("machine", "bits", "endian")),
        ("undefined", a.undefined, b.undefined),
        ("needed", _needed(a), _needed(b)),
        ("index", _has_index(a), _has_index(b)),
    ):
        if one != other:
            changes.append((what, one, other))
    functions = _functions(a, b)
    first, second = shared_elf(a), shared_elf(b)
    if first is None or second is None or first.section_problem or second.section_problem:
        one, other = _around(a), _around(b)
        if one != other:
            changes.append(("bytes outside the blob", one[0], other[0]))
    elif a.target == b.target:
        changes += [
            ("section", name, name)
            for name in _sections(first, _blob_symbol(a), second, _blob_symbol(b))
        ]
    return changes, functions


def _needed(library: Library) -> list[str]:
    elf = shared_elf(library)
    return elf.needed if elf is not None else []


def _around(library: Library) -> tuple[int, bytes]:
    """Number and SHA-256 of the bytes of a file that is no shared library, without its blob where
    that lies in it as it is."""
    import hashlib

    data = map_file(library.path)
    start = end = len(data)
    if library.blob is not None and not getattr(library, "compressed", False):
        start, end = library.blob_offset, library.blob_offset + library.blob.size
    digest = hashlib.sha256(data[:start])
    digest.update(data[end:])
    return start + len(data) - end, digest.digest()


def _has_index(library: Library) -> bool:
    return library.blob is not None and library.blob.index_offset is not None


def _functions(a: Library, b: Library) -> list[FunctionChange]:
    old, new = _forms(a), _forms(b)
    comparable = a.target == b.target and shared_elf(a) is not None and shared_elf(b) is not None
    found: list[FunctionChange] = []
    for name in sorted({*old, *new}):
        if name not in new or name not in old:
            found.append((name, "removed" if name in old else "added", []))
            continue
        details: list[ChangeFields] = []
        if old[name] != new[name]:
            details.append(("forms", old[name], new[name]))
        one, other = _code(a, name), _code(b, name)
        if comparable and one != other:
            details.append(("code", len(one), len(other)))
        if details:
            found.append((name, "changed", details))
    return found


def _forms(library: Library) -> dict[str, list[str]]:
    """In which forms a function can be called, by name: `packed`, `plain(float*, long)`."""
    types = {row.name: row.types for row in library.function_table if row.abi == "plain"}
    found: dict[str, list[str]] = {name: ["packed"] for name in library.packed_functions}
    for name in library.plain_functions:
        found.setdefault(name, []).append(f"plain({types.get(name, '?')})")
    return found


def _code(library: Library, name: str) -> bytes:
    """The bytes of a function in all its forms, as far as its symbols say."""
    elf = shared_elf(library)
    if elf is None:
        return b""
    listed = [row.symbol for row in library.function_table if row.name == name]
    found = []
    for symbol in {*listed, name, FFI_PREFIX + name}:
        defined = elf.find(symbol)
        if defined is not None and defined.st_size:
            try:
                found.append((symbol, bytes(elf.bytes_of(defined)[1])))
            except FormatError:
                continue
    return b"".join(code for _, code in sorted(found))


def _sections(
    a: ElfFile, blob_of_a: Symbol | None, b: ElfFile, blob_of_b: Symbol | None
) -> Iterator[str]:
    """Names of loaded sections whose bytes differ outside the blobs."""
    old, new = _loaded(a), _loaded(b)
    blobs = [blob_of_a, blob_of_b]
    for name in [*old, *(name for name in new if name not in old)]:
        if name not in old or name not in new:
            (elf, only, blob) = (
                (a, old[name], blobs[0]) if name in old else (b, new[name], blobs[1])
            )
            if _outside(elf, only, [blob]):
                yield name
        elif not _equal(a, old[name], b, new[name], blobs):
            yield name


def _blob_symbol(library: Library) -> Symbol | None:
    elf = shared_elf(library)
    return elf.find(library.blob.symbol) if elf is not None and library.blob else None


def _loaded(elf: ElfFile) -> dict[str, Section]:
    found: dict[str, Section] = {}
    for s in elf.sections:
        if (
            s.sh_flags & SHF_ALLOC
            and s.sh_type not in (SHT_NOBITS, SHT_NOTE)
            and s.name not in _TABLES
        ):
            found.setdefault(s.name, s)
    return found


def _equal(
    a: ElfFile, one: Section, b: ElfFile, other: Section, blobs: list[Symbol | None]
) -> bool:
    """True if two sections have the same bytes. Where both have the same place, the places of both
    blobs are left out: one that moved away does not count."""
    in_place = (one.sh_addr, one.sh_size) == (other.sh_addr, other.sh_size)
    left = _outside(a, one, blobs if in_place else blobs[:1])
    right = _outside(b, other, blobs if in_place else blobs[1:])
    return left == right


def _outside(elf: ElfFile, section: Section, blobs: list[Symbol | None]) -> bytes:
    """The bytes of a section that lie in no blob; none if they are all zero, as what fills up to a
    blob."""
    data = elf.contents(section)
    at, pieces = 0, []
    for start, size in sorted((s.st_value, s.st_size) for s in blobs if s is not None):
        first = min(max(start - section.sh_addr, at), len(data))
        last = min(max(start + size - section.sh_addr, first), len(data))
        pieces.append(bytes(data[at:first]))
        at = last
    found = b"".join([*pieces, bytes(data[at:])])
    return found if any(found) else b""
