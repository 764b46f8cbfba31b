"""The search of the dynamic linker for a library that another one needs: ld.so(8). Files are looked
at, nothing is loaded."""

from __future__ import annotations

import itertools
import os
import re
import struct
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import DT_RPATH, DT_RUNPATH, DT_SONAME, ET_DYN
from mblob.binary.elf_versions import EXPANDED
from mblob.bytes.mapping import map_file
from mblob.errors import FormatError

if TYPE_CHECKING:
    from mblob.inspect.library import Library

CACHE = "etc/ld.so.cache"
CACHE_LIMIT = 64 << 20  # bytes; a full desktop has 200 KiB
TRIED_LIMIT = 1 << 15  # files that one search opens or misses
_MAGIC = b"glibc-ld.so.cache1.1"
_HEAD = 48  # bytes: magic, u32 entries, u32 bytes of strings, u8 flags, reserved
_ENTRY = 24  # bytes: i32 flags, u32 name, u32 path, u32 OS version, u64 hardware capabilities
_BIG = 3  # of the flags: the cache is big endian

# The folders that glibc and musl fall back to, and those of Debian's multiarch.
_FOLDERS = ("lib64", "usr/lib64", "lib", "usr/lib", "usr/local/lib")
_TRIPLES = {
    "x86_64": ("x86_64-linux-gnu",),
    "i386": ("i386-linux-gnu", "i686-linux-gnu"),
    "aarch64": ("aarch64-linux-gnu",),
    "arm": ("arm-linux-gnueabihf", "arm-linux-gnueabi"),
    "riscv": ("riscv64-linux-gnu",),
    "ppc64": ("powerpc64le-linux-gnu", "powerpc64-linux-gnu"),
    "s390x": ("s390x-linux-gnu",),
}
# What Linux says of processors (AT_PLATFORM), where that is not the machine's name.
_PLATFORMS = {"x86_64": ("x86_64", "haswell", "xeon_phi"), "i386": ("i686",), "arm": ("v7l",)}


class SharedObject:
    """A shared library that the dynamic linker would load.

    Attributes:
        path: of the file.
        elf: a reader over it.
        names: by which others ask for it: its SONAME, and the one it was found by.
    """

    def __init__(
        self, path: str, elf: ElfFile, names: Sequence[str], importer: SharedObject | None = None
    ) -> None:
        self.path = path
        self.elf = elf
        self.names = {*names, *elf.dynamic_strings(DT_SONAME)}
        runpath = elf.dynamic_strings(DT_RUNPATH)
        own = [] if runpath else self._folders(elf.dynamic_strings(DT_RPATH))
        self.runpath = self._folders(runpath)
        # DT_RPATH, unlike DT_RUNPATH, is also that of what is needed further down.
        self.rpath: list[str] = own + (importer.rpath if importer else [])

    def _folders(self, lists: Sequence[str]) -> list[str]:
        return [
            path
            for text in lists
            for folder in text.split(":")
            if folder
            for path in self.expanded(folder)
        ]

    def expanded(self, text: str) -> list[str]:
        """The texts that a name or folder in the file may stand for: distributions differ in $LIB,
        processors in $PLATFORM."""
        if not re.search(EXPANDED, text):
            return [text]
        machine = self.elf.machine
        origin = os.path.realpath(Path(self.path).parent)
        libs = [
            *(f"lib/{t}" for t in _TRIPLES.get(machine, ())),
            "lib64" if self.elf.bits == 64 else "lib",
        ]
        found = dict[str, None]()
        for lib, platform in itertools.product(libs, _PLATFORMS.get(machine, (machine,))):
            values = {"ORIGIN": origin, "LIB": lib, "PLATFORM": platform}
            # text, the name in braces or None, or that without, text, ...
            parts = re.split(EXPANDED, text)
            found[
                "".join(values[p] if i % 3 else p for i, p in enumerate(parts) if p is not None)
            ] = None
        return list(found)


def open_shared(path: str) -> ElfFile:
    """A reader over a shared library.

    Raises:
        OSError: it cannot be read. FormatError: it is none, or damaged.
    """
    data = map_file(Path(path))
    elf = ElfFile(data, path)
    elf.check_tables()
    if elf.e_type != ET_DYN:
        raise FormatError.about(
            path, f"ELF type {elf.e_type}, a shared library has {ET_DYN}", code="elf_header"
        )
    return elf


def shared_elf(library: Library) -> ElfFile | None:
    """The ELF file of an open library, None if it is no shared library."""
    try:
        elf = library.elf
    except ValueError:  # several files in one, or another format
        return None
    return elf if elf.e_type == ET_DYN else None


class Search:
    """The search of one dynamic linker.

    Args:
        target: a library of the machine that is linked for.
        root: the folder that is `/` for that machine.
    """

    def __init__(self, target: ElfFile, root: str = "/") -> None:
        self._target = target
        self._root = root
        self._left = TRIED_LIMIT

    def find(self, name: str, importer: SharedObject) -> SharedObject | None:
        """The file that `importer` gets for a name in its DT_NEEDED; what is for another machine is
        passed over.

        Raises:
            FormatError: this and earlier searches have tried too many places.
        """
        for path in self._candidate_paths(name, importer):
            self._left -= 1
            if self._left < 0:
                raise FormatError(
                    f"{importer.path}: what it needs may be in more than {TRIED_LIMIT} places",
                    code="elf_dynamic",
                )
            try:
                elf = open_shared(path)
            except (OSError, FormatError):
                continue
            if is_for(elf, self._target):
                return SharedObject(path, elf, [name], importer)
        return None

    def _candidate_paths(self, name: str, importer: SharedObject) -> Iterator[str]:
        if "\0" in name or not name:
            return
        for text in importer.expanded(name):
            yield from [text] if "/" in text else self._of_folders(text, importer)

    def _of_folders(self, name: str, importer: SharedObject) -> Iterator[str]:
        folders = [] if importer.runpath else list(importer.rpath)
        if self._root == "/":
            folders += [
                f for f in os.environ.get("LD_LIBRARY_PATH", "").replace(";", ":").split(":") if f
            ]
        for folder in (*folders, *importer.runpath):
            yield f"{folder}/{name}"
        for path in self.cache.get(name, ()):
            yield self._in_root(path)
        triples = _TRIPLES.get(self._target.machine, ())
        for folder in (*(f"{lib}/{t}" for t in triples for lib in ("lib", "usr/lib")), *_FOLDERS):
            yield self._in_root(f"{folder}/{name}")

    def _in_root(self, path: str) -> str:
        return f"{self._root.rstrip('/')}/{path.lstrip('/')}"

    @cached_property
    def cache(self) -> dict[str, list[str]]:
        """Paths by name, from ld.so.cache; {} where there is none or it is of an unknown form."""
        try:
            data = bytes(map_file(Path(self._in_root(CACHE)))[:CACHE_LIMIT])
        except (OSError, FormatError):
            return {}
        return read_cache(data)


def read_cache(data: bytes) -> dict[str, list[str]]:
    """Paths by name of an ld.so.cache; {} if it is of an unknown form. Entries that lie outside it
    are left out."""
    base = data.find(_MAGIC)  # behind the old form, in files that have both
    if base < 0 or len(data) - base < _HEAD:
        return {}
    order = ">" if data[base + 28] == _BIG else "<"
    (count,) = struct.unpack_from(f"{order}I", data, base + 20)
    found: dict[str, list[str]] = {}
    for i in range(min(count, (len(data) - base - _HEAD) // _ENTRY)):
        _, key, value = struct.unpack_from(f"{order}iII", data, base + _HEAD + i * _ENTRY)
        name, path = _text(data, base + key), _text(data, base + value)
        if name and path:
            found.setdefault(name, []).append(path)
    return found


def _text(data: bytes, at: int) -> str:
    end = data.find(b"\0", at, at + 4096)
    return os.fsdecode(data[at:end]) if end > at else ""


def is_for(elf: ElfFile, other: ElfFile) -> bool:
    """True if two files are for one machine."""
    return (elf.bits, elf.byte_order, elf.e_machine) == (
        other.bits,
        other.byte_order,
        other.e_machine,
    )
