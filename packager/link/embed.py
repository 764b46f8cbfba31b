"""Ways of `embed=`: how a blob comes into what a linker made.

* `grow`: the linker places a 4 KiB placeholder at the end of the last segment, which then grows. The
  linker never sees the payload, so there is no size at which a relocation overflows, and packing
  costs what a copy costs. The address of the placeholder does not move: whatever refers to the blob
  stays right.
* `append`: the blob goes to the end of a finished library, for linkers that `grow` cannot use. A
  placeholder note has a program header of its own (PT_NOTE), which becomes the PT_LOAD of the blob,
  above all other segments. The address of the blob changes after the link, so no object may refer to
  it.
* `object`: the linker lays the blob out itself. Past 2 GiB code has to reach across it, and only some
  linkers see to that.
* `c`: the same as C text, for targets without ELF. The compiler lays the blob out.

`linking.py`, `system_lib.py` and `fcompile_export.py` choose the way.
"""

from __future__ import annotations

import os
from pathlib import Path

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import (
    EM_X86_64,
    PF_X,
    PT_GNU_EH_FRAME,
    PT_LOAD,
    PT_NOTE,
    SHF_ALLOC,
    SHF_WRITE,
    SHT_NOTE,
    SHT_PROGBITS,
)
from mblob.bytes.mapping import map_file
from mblob.bytes.sink import watched
from mblob.errors import IncompatibleError, ToolchainError
from mblob.format.blob_plan import BLOB_ALIGN, SEGMENT_ALIGN
from mblob.packager.compile.toolchain import Linker
from mblob.packager.errors import BuildError
from mblob.packager.link.request import Request
from mblob.packager.objects.object_files import ElfTarget
from mblob.packager.write import devc_c, elf_writer
from mblob.packager.write.blob_stream import WriteBlob, check_written, write_all
from mblob.packager.write.elf_patch import Patch, Stub, new_library, read_stub
from mblob.packager.write.elf_writer import PLACEHOLDER_SIZE, BlobSection, section_for

# -- append ----------------------------------------------------------------------------------------

# mold gives all notes of one kind of memory a common one; no other note is writable. It becomes
# read-only here.
MOLD_SECTION = BlobSection(".note.tvm_mblob", SHF_ALLOC | SHF_WRITE, 32, SHT_NOTE)


def _header_to_load(stub: Stub) -> int:
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


def append(
    stub_path: Path,
    output: Path,
    symbol: str,
    write: WriteBlob,
    alignment: int = BLOB_ALIGN,
    lead: int = 0,
) -> int:
    """Write `output`: the stub with the blob behind it, `lead` bytes behind a multiple of
    `alignment`. Returns the blob's size. Other arguments as of `grow`.

    Raises:
        ToolchainError: the stub does not have the shape this needs.
        IncompatibleError: the blob does not fit a 32-bit library.
    """
    stub = read_stub(stub_path, symbol)
    elf = stub.elf
    header = _header_to_load(stub)
    offset = len(stub.data) + -len(stub.data) % alignment
    top = max(s.p_vaddr + s.p_memsz for s in elf.segments if s.p_type == PT_LOAD)
    # On pages of its own; congruent to the offset modulo every page size, as the gABI asks.
    vaddr = top + -top % SEGMENT_ALIGN + offset % SEGMENT_ALIGN
    limit = 0xFFFFFFFF - max(vaddr, offset) - lead if elf.bits == 32 else None
    if limit is not None and limit < 0:
        raise IncompatibleError(f"a 32-bit library ({elf.machine}) has no room behind its segments")
    with new_library(output, stub_path) as fd:
        write_all(fd, stub.data)
        os.lseek(fd, offset + lead, os.SEEK_SET)
        size, fingerprint = write(fd, limit, elf.machine)
        patch = Patch(fd, elf)
        patch.load_segment(header, offset, vaddr, lead + size, SEGMENT_ALIGN)
        patch.placeholder_symbols(stub, st_size=size, st_value=vaddr + lead)
        if stub.section is not None:
            patch.section(
                stub.section,
                sh_type=SHT_PROGBITS,
                sh_flags=SHF_ALLOC,
                sh_offset=offset,
                sh_size=lead + size,
                sh_addr=vaddr,
            )
        patch.build_id(fingerprint)
    return size


# -- object and c ---------------------------------------------------------------------------------


def write_object(request: Request, folder: Path, machine: ElfTarget) -> tuple[Path, int]:
    """Write the blob as an object for a linker to place. In a system library its symbol is hidden.

    Returns:
        The file, and the size of the blob.
    """
    path = folder / "devc.o"
    size = elf_writer.write_object(
        path,
        machine,
        request.symbol,
        section_for(machine, request.plan.alignment, request.lead),
        lambda sink: request.plan.write(watched(sink), lead=request.lead),
        announced=request.announced,
        hidden=request.system_lib,
    )
    return path, size


def check_object(request: Request, path: Path, size: int) -> None:
    """Read the blob back in an object that somebody else links.

    Args:
        size: bytes of the blob that were written.

    Raises:
        FormatError, DigestError: it cannot be read.
        BuildError: it does not say what was written.
    """
    elf, symbol = ElfFile(map_file(path), path.name), request.symbol
    found = next((s for s in elf.symtab if s.name == symbol and s.is_defined), None)
    if found is None or found.st_size != size:
        raise BuildError(f"{elf.name}: {symbol} has not the {size} bytes that were written")
    data = elf.contents(elf.sections[found.st_shndx])[found.st_value :][:size]
    plan = request.plan
    check_written(plan, request.dialect, data, size, elf.name, index_expected=plan.index)


def write_c(request: Request, folder: Path) -> tuple[Path, int]:
    """The same as C text, whose compiler aligns the blob.

    Raises:
        BuildError: the caller asked for the alignment of a payload.
    """
    if aligned := request.aligned_keys:
        raise BuildError(
            f"embed='c': the compiler places the packed modules, so the payload of {aligned[0]!r} cannot be"
            " aligned; leave out alignment=, or choose another embed="
        )
    path = folder / "devc.c"
    return path, devc_c.write_c(path, request.symbol, lambda s: request.plan.write(watched(s)))


# -- object, past 2 GiB ----------------------------------------------------------------------------

# bytes of blob; below it everything is within 31 bits, with room for the code
OBJECT_LIMIT = (1 << 31) - (1 << 26)
LLD_SMALL = 16  # the last lld seen to put large sections among the others; 19 is seen not to
_REMEDY = "leave embed='object' out, or link with -fuse-ld=bfd or gold"


def check_linker(size: int, machine: ElfTarget, linker: Linker) -> None:
    """Refuse a blob of more than OBJECT_LIMIT bytes for a linker that is known to get it wrong.

    Raises:
        ToolchainError: naming the linker, the reason and the remedy.
    """
    if linker.name == "mold" and linker.major < 2:
        # It ends well and says nothing; an exception that passes through the library ends the
        # program then.
        reason = "writes unwind tables that wrap around at 2 GiB"
        remedy = "link with -fuse-ld=bfd, gold or lld, or give embed='append'"
    elif linker.name == "lld" and machine.e_machine == EM_X86_64 and linker.major <= LLD_SMALL:
        reason, remedy = (
            "puts them between code and data, which do not reach each other past 2 GiB",
            _REMEDY,
        )
    elif machine.e_machine != EM_X86_64:
        reason = f"has no section for them on {machine.name} that code need not reach across"
        remedy = "leave embed='object' out"
    else:
        return
    raise ToolchainError(
        f"{linker} cannot link {size} bytes of packed modules: it {reason}; {remedy}"
    )


def check_unwinding(path: Path, linker: Linker) -> None:
    """Refuse a library whose unwind tables are further from its code than their 32-bit fields can
    say.

    Raises:
        ToolchainError: naming the linker.
    """
    segments = ElfFile(map_file(path), path.name).segments
    tables = [s for s in segments if s.p_type == PT_GNU_EH_FRAME]
    code = [s for s in segments if s.p_type == PT_LOAD and s.p_flags & PF_X]
    places = [(s.p_vaddr, s.p_vaddr + s.p_memsz) for s in (*tables, *code)]
    if (
        tables
        and code
        and max(end for _, end in places) - min(start for start, _ in places) >= 1 << 31
    ):
        raise ToolchainError(
            f"{linker} put the packed modules between code and its unwind tables, which do not reach that far: an"
            f" exception would end the program; {_REMEDY}"
        )
