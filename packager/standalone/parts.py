"""The parts that make a linked library a standalone one, in the order of the steps:

1. `description.py` tells what the library runs, and which inputs and outputs that has.
2. `interface.py` writes the C source of its four functions, and their header.
3. `runtime.py` compiles the runtime that the modules ask for.

`packager/link/export.py` links both objects with the library's own, and the linker leaves out what nothing uses.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mblob.arguments import mapping
from mblob.format.functions_table import Row
from mblob.inspect.library import Library
from mblob.named_tuple import NamedTuple
from mblob.packager.compile.host_objects import (
    Generated,
    HostFile,
    LinkInput,
    compile_generated,
    read_input,
)
from mblob.packager.compile.toolchain import Toolchain
from mblob.packager.errors import BuildError, BuildTypeError
from mblob.packager.path_arguments import check_output, checked_path
from mblob.packager.standalone import interface, runtime
from mblob.packager.standalone.description import describe
from mblob.temporary import replacing

# For the link of all parts. Threads and exit handlers run code of the runtime: it stays in memory.
_LINK_OPTIONS = (
    "-Wl,--gc-sections",
    "-Wl,--discard-all",  # names of static functions, which are a seventh of the file
    "-Wl,-z,nodelete",
    "-Wl,-z,defs",
    "-Wl,--as-needed,-lpthread,-ldl,--no-as-needed",
)
# Code that throws shares the unwinder of the process. On Arm all other code would need its library, too.
_NOT_CATCHING = ("-static-libgcc",)
# What joins a finished library has no constructors, which atomics out of line bring.
JOIN_OPTIONS = {"aarch64": ("-mno-outline-atomics",)}
_HEADER = "mblob_interface.h"


class Standalone(NamedTuple):
    """The wishes of a caller.

    Attributes:
        prefix: of the four functions.
        header: the file of their header, None for none.
        shapes: as of `describe`.
    """

    prefix: str
    header: Path | None = None
    shapes: Mapping[str, str] = {}

    def rows(self) -> list[Row]:
        """Rows of the table of functions: nobody calls these as packed functions."""
        names = (f"{self.prefix}_{name}" for name in interface.FUNCTIONS)
        return [Row(name, name, "plain", 0, "?") for name in names]

    def write_header(self, work: Path) -> None:
        """Write the header that `make_parts` left in the folder `work`."""
        if self.header is not None:
            with replacing(self.header) as temporary:
                shutil.copyfile(work / _HEADER, temporary)


def asked_of(
    standalone: bool,
    output: Path,
    prefix: str,
    header: str | os.PathLike[str] | None,
    shapes: Mapping[str, str] | None,
    others: Mapping[str, Any],
) -> Standalone:
    """The wishes that arguments of `export_library` tell.

    Args:
        others: arguments that a standalone library does not have, those that were given being true.

    Raises:
        BuildError, TypeError: naming the argument.
    """
    if not standalone:
        what = f"header={str(header)!r}: a header is written" if header else "shapes= are told"
        raise BuildError(f"{what} for a standalone library; add standalone=True")
    if given := [name for name, value in others.items() if value]:
        raise BuildError(
            f"standalone: {given[0]}= has no meaning for a standalone library; leave it out"
        )
    if output.suffix == ".tar":
        raise BuildError(f"{output}: a standalone library is a .so, found .tar")
    path = None if header is None else Path(checked_path(header, "export_library: header"))
    if path is not None:
        check_output(path, [("the library", output)])
    told = {} if shapes is None else shapes
    mapping("export_library", "shapes", told, "a dict of texts by name", BuildTypeError)
    return Standalone(interface.checked_prefix(prefix, output), path, dict(told))


def link_options(*, catches: bool) -> tuple[str, ...]:
    """For the link of all parts.

    Args:
        catches: as of `make_parts`.
    """
    return (*_LINK_OPTIONS, *(() if catches else _NOT_CATCHING))


def make_parts(
    library: Path,
    asked: Standalone,
    tools: Toolchain,
    options: Sequence[str],
    work: Path,
    *,
    catches: bool,
) -> list[LinkInput]:
    """Describe a linked library, and compile what makes it a standalone one.

    Args:
        library: what was linked so far, with its blob.
        options: the caller's.
        catches: its code may throw.

    Raises:
        BuildError: it cannot be one, as of `describe`.
        ToolchainError: the compiler fails.
    """
    with Library(library, verify="off") as opened:
        described = describe(opened, asked.shapes)
    text = interface.source(asked.prefix, described)
    files = compile_generated(
        tools, [Generated("mblob_interface", "the C interface", text)], options, work
    )
    path = runtime.compiled(tools, described.macros, options, work, catches=catches)
    files.append(read_input(HostFile(path, "the runtime (mblob.c)", generated=True)))
    (work / _HEADER).write_text(interface.header(asked.prefix, described), encoding="utf-8")
    return files
