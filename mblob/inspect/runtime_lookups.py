"""Names of functions that compiled code asks its runtime for while it runs, as
`csrc/src/core/link/runtime_lookups.c` finds them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import PF_W, PT_LOAD, SHT_SYMTAB

if TYPE_CHECKING:
    from mblob.inspect.library import Library

_CONSTANT = re.compile(rb"(?<![ -~])((?:vm\.builtin|tvm\.contrib|relax\.run)\.[!-~]+)\0")
# TVM's variables for what was found
_VARIABLE = re.compile(rb"(?<![ -~])\.tvm_func\.([!-~]+)\0")


def looked_up_names(library: Library) -> list[str]:
    """The names, each once; [] for a file that is no shared library of ELF."""
    elf = library.image
    if library.kind != "shared" or not isinstance(elf, ElfFile):
        return []
    found = [m[1] for part in _constants(library, elf) for m in _CONSTANT.finditer(part)]
    found += _VARIABLE.findall(_symbol_names(elf))
    return list(dict.fromkeys(name.decode() for name in found))


def _constants(library: Library, elf: ElfFile) -> Iterator[memoryview]:
    """The loaded parts that are not written, without the blob: modules are no constants of the code."""
    blob = library.blob_offset - elf.base
    behind = blob + len(library.blob_bytes())
    for s in elf.segments:
        if s.p_type == PT_LOAD and not s.p_flags & PF_W:
            start, end = s.p_offset, s.p_offset + s.p_filesz
            if start < behind <= end:
                yield elf.data[start:blob]
                start = behind
            yield elf.data[start:end]


def _symbol_names(elf: ElfFile) -> memoryview:
    sections = elf.readable_sections
    table = next((s for s in sections if s.sh_type == SHT_SYMTAB), None)
    if table is None or table.sh_link >= len(sections):
        return memoryview(b"")
    return elf.contents(sections[table.sh_link])
