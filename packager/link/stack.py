"""Code that needs an executable stack: a nested function of GNU C whose address is taken.

Libraries are linked without one, unless an option asks for it. Objects say in `.note.GNU-stack` what
they need. Those for link-time optimization do not know, and the linked library tells: then the
linker is not told what to write.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import PF_X, PT_GNU_STACK
from mblob.binary.file_kind import ELF_MAGIC
from mblob.bytes.mapping import map_file
from mblob.errors import PortabilityWarning
from mblob.module import listed
from mblob.packager.compile.host_objects import HostFile
from mblob.packager.errors import BuildError, warn
from mblob.packager.objects.object_files import ObjectSymbols
from mblob.packager.options import NEEDS_STACK, asks_for_stack

Files = Sequence[tuple[HostFile, ObjectSymbols]]


def check_objects(files: Files, options: Sequence[str]) -> None:
    """Refuse objects that need an executable stack, unless an option asks for one.

    Raises:
        BuildError: naming the object.
    """
    found = next((c.executable_stack for _, c in files if c.executable_stack), None)
    if found is not None and not asks_for_stack(options):
        raise BuildError(f"{found}: {NEEDS_STACK}")


def link_options(files: Files, options: Sequence[str]) -> list[str]:
    """What the linker is told: nothing, if an option of the caller does, or if the library tells what
    link-time optimization made."""
    late = any(not c.complete for _, c in files)
    told = late and all(c.has_stack_note for _, c in files)
    return [] if told or asks_for_stack(options) else ["-Wl,-z,noexecstack"]


def check_linked(library: Path, files: Files, options: Sequence[str]) -> None:
    """Refuse a linked library that needs an executable stack; warn of one if an option asks for it.

    Raises:
        BuildError: naming what was compiled for link-time optimization.
    """
    data = map_file(library)
    if data[:4] != ELF_MAGIC:  # the linker of somebody else
        return
    segments = ElfFile(data, str(library)).segments
    if not any(s.p_type == PT_GNU_STACK and s.p_flags & PF_X for s in segments):
        return
    if not asks_for_stack(options):
        late = sorted({f.label for f, c in files if not c.complete})
        raise BuildError(f"{listed(late, 6)}: {NEEDS_STACK}")
    warn(
        "-z execstack: the library asks for an executable stack, which makes the stack of each thread of the"
        " program executable; glibc 2.41 and later, and hardened systems, refuse to load it",
        PortabilityWarning,
    )
