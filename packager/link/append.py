"""Embedding by `append`: the blob goes to the end of a finished library, for linkers that `grow`
cannot use.

A placeholder note has a program header of its own (PT_NOTE), which becomes the PT_LOAD of the blob,
above all other segments. The address of the blob changes after the link, so no object may refer to
it.
"""

from __future__ import annotations

import os
from pathlib import Path

from mblob.binary.elf_records import PT_LOAD, PT_NOTE, SHF_ALLOC, SHF_WRITE, SHT_NOTE, SHT_PROGBITS
from mblob.errors import IncompatibleError, ToolchainError
from mblob.packager.write.blob import WriteBlob, write_all
from mblob.packager.write.elf_patch import Patch, Stub, new_library, read_stub
from mblob.packager.write.elf_writer import PAYLOAD_ALIGN, PLACEHOLDER_SIZE, BlobSection

# An alignment that no other note has: bfd, gold and lld give notes of one alignment one common
# program header.
SECTION = BlobSection(".note.tvm_mblob", alignment=32, kind=SHT_NOTE)
# mold gives all notes of one kind of memory a common one; no other note is writable. It becomes
# read-only here.
MOLD_SECTION = BlobSection(".note.tvm_mblob", SHF_ALLOC | SHF_WRITE, 32, SHT_NOTE)


def check(stub: Stub) -> int:
    """Index of the program header that holds the placeholder and nothing else.

    Raises:
        ToolchainError: the linker merged it with another.
    """
    for i, s in enumerate(stub.elf.segments):
        if (
            s.p_type == PT_NOTE
            and s.p_vaddr == stub.symbol.st_value
            and s.p_memsz == PLACEHOLDER_SIZE
        ):
            return i
    raise ToolchainError(
        "the linker left no program header for embed='append'; use embed='grow' with bfd, gold or lld"
    )


def append(stub_path: Path, output: Path, symbol: str, write: WriteBlob) -> int:
    """Write `output`: the stub with the blob behind it. Returns the blob's size. Arguments as of
    `grow`.

    Raises:
        ToolchainError: the stub does not have the shape this needs.
        IncompatibleError: the blob does not fit a 32-bit library.
    """
    stub = read_stub(stub_path, symbol)
    elf = stub.elf
    header = check(stub)
    offset = len(stub.data) + -len(stub.data) % PAYLOAD_ALIGN
    top = max(s.p_vaddr + s.p_memsz for s in elf.segments if s.p_type == PT_LOAD)
    # Congruent to the offset modulo every page size, as the gABI asks.
    vaddr = top + -top % PAYLOAD_ALIGN
    limit = 0xFFFFFFFF - max(vaddr, offset) if elf.bits == 32 else None
    if limit is not None and limit < 0:
        raise IncompatibleError(f"a 32-bit library ({elf.machine}) has no room behind its segments")
    with new_library(output, stub_path) as fd:
        write_all(fd, stub.data)
        os.lseek(fd, offset, os.SEEK_SET)
        size, fingerprint = write(fd, limit, elf.machine)
        patch = Patch(fd, elf)
        patch.load_segment(header, offset, vaddr, size, PAYLOAD_ALIGN)
        patch.placeholder_symbols(stub, st_size=size, st_value=vaddr)
        if stub.section is not None:
            patch.section(
                stub.section, sh_type=SHT_PROGBITS, sh_flags=SHF_ALLOC, sh_offset=offset, sh_size=size, sh_addr=vaddr,
            )  # fmt: skip
        patch.build_id(fingerprint)
    return size
