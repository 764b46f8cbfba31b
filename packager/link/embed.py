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
from collections.abc import Callable
from pathlib import Path

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import (
    EM_X86_64,
    PF_R,
    PF_W,
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
from mblob.bytes.progress import watched
from mblob.errors import IncompatibleError, ToolchainError
from mblob.format.blob_plan import BLOB_ALIGN, SEGMENT_ALIGN, TENSOR_ALIGN
from mblob.packager.compile.toolchain import Linker
from mblob.packager.errors import BuildError
from mblob.packager.link.background_copy import BackgroundCopy
from mblob.packager.link.request import Request
from mblob.packager.objects.object_files import ElfTarget
from mblob.packager.write import devc_c, elf_writer
from mblob.packager.write.blob_stream import WriteBlob, check_written, write_all
from mblob.packager.write.elf_patch import Patch, Stub, new_library, read_stub
from mblob.packager.write.elf_writer import GROW_SECTION, PLACEHOLDER_SIZE, BlobSection, section_for


def grow_section(alignment: int, lead: int) -> BlobSection:
    """Where the placeholder is for linkers that know INSERT."""
    return BlobSection(GROW_SECTION, alignment=alignment, lead=lead)


def linker_script(alignment: int) -> str:
    """Keeps the linker's own script and adds one output section behind all others, on pages of its
    own: in memory. The file has no gap in front of it, as of other segments: the address is the next
    one on a new page that an offset right behind the others' bytes is congruent to.

    The note has its place named, because bfd puts read-only sections that it does not know behind
    the last one it does.
    """
    page = f"MAX({alignment}, CONSTANT(MAXPAGESIZE))"
    address = f"ALIGN(ALIGN({page}) + (. & ({page} - 1)), {alignment})"
    return f"""SECTIONS
{{
  .note.mblob : {{ KEEP(*(.note.mblob)) }}
}}
INSERT BEFORE .dynsym;
SECTIONS
{{
  {GROW_SECTION} {address} : ALIGN({alignment}) {{ KEEP(*({GROW_SECTION})) }}
}}
INSERT AFTER .bss;
"""


def segment_to_grow(stub: Stub) -> int:
    """Index of the segment that ends with the placeholder.

    Raises:
        ToolchainError: the linker placed it elsewhere, or where it would be writable, so it cannot
            grow.
    """
    segments = stub.elf.segments
    start = stub.symbol.st_value
    end = start + stub.symbol.st_size
    last = max((s.p_vaddr + s.p_memsz for s in segments if s.p_type == PT_LOAD), default=0)
    for i, s in enumerate(segments):
        if s.p_type == PT_LOAD and s.p_vaddr <= start < s.p_vaddr + s.p_memsz:
            if end == last == s.p_vaddr + s.p_filesz and not s.p_flags & PF_W:
                return i
            break
    raise ToolchainError(
        "the linker did not place the packed modules at the end of the last read-only segment; use bfd, gold or"
        " lld (options=['-fuse-ld=bfd']), or embed='object'"
    )


def grow(
    stub_path: Path, output: Path, symbol: str, write: WriteBlob, copy: BackgroundCopy | None = None
) -> int:
    """Write `output`: the stub with the blob in place of its placeholder. Returns the blob's size.

    Args:
        stub_path: what the linker made.
        write: writes the blob.
        copy: the blob, if it is being written to `output` already. It stays where it is if the stub
            fits in front of it, and is written anew if not.

    Raises:
        ToolchainError: the stub does not have the shape this needs.
        IncompatibleError: the blob does not fit a 32-bit library.
    """
    return grow_stub(read_stub(stub_path, symbol), stub_path, output, write, copy)


def grow_stub(
    stub: Stub, stub_path: Path, output: Path, write: WriteBlob, copy: BackgroundCopy | None = None,
    edit: Callable[[Patch], None] | None = None, old_fingerprint: bytes | None = None, move: int = 0,
) -> int:  # fmt: skip
    """The same for a stub that was read, or for a finished library whose blob ends its last
    segment.

    Args:
        edit: further changes of bytes that lie before the blob.
        old_fingerprint: of the blob that is replaced; with the same one the build-id stays.
        move: bytes by which the blob starts behind the old one. If it is negative, so many bytes in
            front of the old one are zero and nobody's.
    """
    elf = stub.elf
    segment = segment_to_grow(stub)
    old_size = stub.symbol.st_size
    start = elf.offset_of(stub.symbol.st_value, old_size, stub.symbol.name)
    if copy is not None and not _fits(stub, segment, start, copy.offset):
        copy.cancel()
        copy = None
    old_end = start + old_size
    limit = None
    if elf.bits == 32:
        limit = 0xFFFFFFFF - max(stub.symbol.st_value, len(stub.data)) - SEGMENT_ALIGN
    with new_library(output, stub_path, has_blob=copy is not None) as fd:
        write_all(fd, memoryview(stub.data)[: min(start, start + move)])
        if copy is not None:
            place = copy.offset
            size, fingerprint = copy.result()
        else:
            place = start + move
            os.lseek(fd, place, os.SEEK_SET)
            size, fingerprint = write(fd, limit, elf.machine)
        # What is behind the placeholder is not loaded (.comment, .symtab, names, section headers):
        # it moves by whole cache lines, so that its alignment stays.
        shift = place - start + size - old_size
        shift += -shift % 64
        os.lseek(fd, old_end + shift, os.SEEK_SET)
        write_all(fd, memoryview(stub.data)[old_end:])
        patch = _patch_headers(fd, stub, segment, (start, place), shift, size, move)
        if edit is not None:
            edit(patch)
        if fingerprint != old_fingerprint:
            patch.build_id(fingerprint)
    return size


def _fits(stub: Stub, segment: int, start: int, place: int) -> bool:
    """Whether the blob may lie at the offset `place` of the file, where the linker put `start`."""
    s = stub.elf.segments[segment]
    return (
        stub.elf.bits == 64
        and _is_alone(stub, segment, start)
        and start <= place
        and (place - stub.symbol.st_value) % max(s.p_align, 1) == 0
    )


def _is_alone(stub: Stub, segment: int, start: int) -> bool:
    """Whether there is nothing in front of the blob in its segment, but zeros for its place."""
    lead = stub.symbol.st_value - stub.elf.segments[segment].p_vaddr
    return lead < TENSOR_ALIGN and not any(stub.data[start - lead : start])


def _patch_headers(
    fd: int, stub: Stub, segment: int, places: tuple[int, int], shift: int, size: int, move: int
) -> Patch:
    """Make the headers say what the file is.

    Args:
        places: offsets of the placeholder in the stub, and of the blob in the file.
        move: bytes by which the address of the blob is behind that of the placeholder.
    """
    elf = stub.elf
    start, place = places
    old_end = start + stub.symbol.st_size

    def moved(at: int) -> int:
        return at + shift if at >= old_end else at

    patch = Patch(fd, elf, moved)
    value = stub.symbol.st_value + move
    lead = value - elf.segments[segment].p_vaddr
    patch.segment(segment, p_offset=place - lead, p_filesz=lead + size, p_memsz=lead + size)
    if _is_alone(
        stub, segment, start
    ):  # lld without a read-only segment of its own would leave the blob executable
        patch.segment(segment, p_flags=PF_R)

    patch.placeholder_symbols(stub, st_value=value, st_size=size)
    table = moved(elf.e_shoff)
    patch.section_table(table)
    for i, section in enumerate(elf.sections):
        if section.sh_offset >= old_end and not section.sh_flags & SHF_ALLOC:
            patch.section(i, sh_offset=moved(section.sh_offset), table=table)
    if stub.section is not None:
        # The section may start before the blob, in a script of the caller's; it moves with it.
        section = elf.sections[stub.section]
        patch.section(
            stub.section, sh_offset=section.sh_offset + place - move - start,
            sh_size=section.sh_size + move + size - stub.symbol.st_size, table=table,
        )  # fmt: skip
    return patch


# -- append ----------------------------------------------------------------------------------------

# An alignment that no other note has: bfd, gold and lld give notes of one alignment one common
# program header.
APPEND_SECTION: BlobSection = BlobSection(".note.tvm_mblob", alignment=32, kind=SHT_NOTE)
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
    stub_path: Path, output: Path, symbol: str, write: WriteBlob, alignment: int = BLOB_ALIGN, lead: int = 0
) -> int:  # fmt: skip
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
                stub.section, sh_type=SHT_PROGBITS, sh_flags=SHF_ALLOC, sh_offset=offset, sh_size=lead + size,
                sh_addr=vaddr,
            )  # fmt: skip
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
        has_index=request.plan.index,
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
            " aligned; leave out alignment= (--align), or choose another embed="
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
