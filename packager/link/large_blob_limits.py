"""Blobs that a linker lays out itself: past 2 GiB code has to reach across them, and only some
linkers see to that."""

from __future__ import annotations

from pathlib import Path

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import EM_X86_64, PF_X, PT_GNU_EH_FRAME, PT_LOAD
from mblob.bytes.mapping import map_file
from mblob.errors import ToolchainError
from mblob.packager.compile.toolchain import Linker
from mblob.packager.objects.objects import ElfTarget

# bytes of blob; below it everything is within 31 bits, with room for the code
LIMIT = (1 << 31) - (1 << 26)
LLD_SMALL = 16  # the last lld seen to put large sections among the others; 19 is seen not to
_REMEDY = "leave embed='object' out, or link with -fuse-ld=bfd or gold"


def check_linker(size: int, machine: ElfTarget, linker: Linker) -> None:
    """Refuse a blob of more than LIMIT bytes for a linker that is known to get it wrong.

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
