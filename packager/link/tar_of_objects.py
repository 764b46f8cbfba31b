"""A tar of objects, which somebody else links."""

from __future__ import annotations

import tarfile
from collections.abc import Sequence
from pathlib import Path

from mblob.packager.errors import BuildError
from mblob.packager.link.host_checks import warn_of_operators
from mblob.packager.link.link import prepare
from mblob.packager.link.request import Request
from mblob.packager.write.devc_c import write_c
from mblob.packager.write.elf_writer import section_for, write_object


def export_tar(request: Request, output: Path, work: Path) -> None:
    """Write a tar of objects that make the library when they are linked with `-shared`.

    Sources are compiled: whoever links the objects later needs neither our headers nor the options.

    Raises:
        As of `export_library`.
    """
    inputs = prepare(request, work)
    warn_of_operators(request, inputs.rows, inputs.known)
    request.triple.tell(inputs.tools.triple)
    members = [*inputs.addons, *(f.path for f in inputs.files)]
    packed = request.packed_file(work)
    if packed is not None:
        members.append(packed)
    elif request.plan.is_needed and request.embed == "c":
        write_c(work / "devc.c", request.dialect.symbol, request.write)
        members.append(work / "devc.c")
    elif request.plan.is_needed:
        section, symbol = section_for(inputs.machine), request.dialect.symbol
        write_object(
            work / "devc.o",
            inputs.machine,
            symbol,
            section,
            request.write,
            has_index=request.plan.index,
        )
        members.append(work / "devc.o")
    write_tar(members, output)


def write_tar(members: Sequence[Path], output: Path) -> None:
    """Write a tar of files. Names, times and owners are fixed, so that the same files give the same
    bytes.

    Raises:
        BuildError: two have one name.
    """
    names = [m.name for m in members]
    if twice := next((n for n in names if names.count(n) > 1), None):
        raise BuildError(
            f"two inputs are called {twice}; in a tar each needs a name of its own: rename one"
        )
    with tarfile.open(output, "w", format=tarfile.PAX_FORMAT) as tar:
        for member in members:
            info = tarfile.TarInfo(member.name)
            info.size = member.stat().st_size
            info.mode = 0o644
            with member.open("rb") as file:
                tar.addfile(info, file)
