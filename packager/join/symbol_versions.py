"""The versions that the symbols of a library and of its part need, as one table (`DT_VERNEED`; Linux
Standard Base, "Symbol Versioning").

A symbol without its version is bound to the oldest one: `pthread_cond_wait` of x86-64 then is that of
2002, with another layout of its data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import HIDDEN
from mblob.binary.elf_versions import VER_FLG_WEAK, NeededVersion, Versions
from mblob.packager.errors import CannotJoinError
from mblob.packager.join.c_libraries import is_linker
from mblob.packager.join.dynamic_symbols import VER_GLOBAL, elf_hash
from mblob.packager.write.elf_patch import fitting


def merge_versions(host: ElfFile, part: ElfFile) -> tuple[dict[int, NeededVersion], list[int]]:
    """The versions that both need, by index, and the index of each dynamic symbol of the part. The
    host's versions keep their indices.

    Raises:
        CannotJoinError: there is no index for one more.
        FormatError: a table is damaged.
    """
    ours, theirs = Versions(part), Versions(host)
    needed = dict(theirs.needed)
    known = {(v.file, v.name): index for index, v in needed.items()}
    last = max((VER_GLOBAL, *needed, *theirs.defined, *(v & ~HIDDEN for v in host.versym)))
    indices = []
    for position in range(len(part.dynsym)):
        version = ours.wanted_by(position)
        if version is None or is_linker(version.file):
            indices.append(VER_GLOBAL)
            continue
        index = known.setdefault((version.file, version.name), last + 1)
        if index & HIDDEN:
            raise CannotJoinError(
                f"{host.name}: version indices up to {last}, there is no room for more"
            )
        last = max(last, index)
        needed.setdefault(index, version)
        indices.append(index)
    return needed, indices


def files_of(needed: Mapping[int, NeededVersion]) -> list[str]:
    """The libraries that the versions are of."""
    return list(dict.fromkeys(v.file for v in needed.values()))


def encode(
    elf: ElfFile, needed: Mapping[int, NeededVersion], place: Callable[[bytes], int]
) -> bytes:
    """The table.

    Args:
        elf: whose class and byte order it has.
        place: where a text stands in the new strings.
    """
    head, row, files = elf.layout.verneed, elf.layout.vernaux, files_of(needed)
    out = []
    with fitting(elf):
        for file in files:
            versions = [(index, v) for index, v in needed.items() if v.file == file]
            step = 0 if file == files[-1] else head.size + len(versions) * row.size
            out.append(head.pack(1, len(versions), place(file.encode()), head.size, step))
            for left, (index, v) in zip(reversed(range(len(versions))), versions):
                name = v.name.encode()
                flags = VER_FLG_WEAK if v.weak else 0
                next_row = row.size if left else 0
                out.append(row.pack(elf_hash(name), flags, index, place(name), next_row))
    return b"".join(out)
