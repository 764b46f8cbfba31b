"""A finished library becomes a standalone one: the runtime and the C interface join its code."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from mblob.inspect.elf_judge import check_loading
from mblob.inspect.library import Library
from mblob.packager.compile.toolchain import find
from mblob.packager.edit.add_code import check_joined, dialect_with, with_code
from mblob.packager.edit.rewrite import unchanged
from mblob.packager.join.join import check_machine
from mblob.packager.objects.object_files import machine_of
from mblob.packager.options import as_options
from mblob.packager.path_arguments import checked_path, existing_file, workspace
from mblob.packager.standalone.parts import JOIN_OPTIONS, asked_of, link_options, make_parts
from mblob.temporary import check_may_replace, replacing


def standalone(
    file: str | os.PathLike[str],
    file_name: str | os.PathLike[str],
    *,
    prefix: str = "",
    header: str | os.PathLike[str] | None = None,
    shapes: Mapping[str, str] | None = None,
    cc: str | Sequence[str] | None = None,
    target: str | None = None,
    options: str | Sequence[str] | None = None,
) -> None:
    """Write a finished library with the runtime that its model needs, and a C interface.

    The code and the packed modules of the library stay where they are; what is compiled joins them. Sources,
    objects and the `.tar` of a library become a standalone library by `export_library(..., standalone=True)`.

    Args:
        file: the library.
        file_name: the library to write.
        prefix, header, shapes, cc, target, options: as of `export_library`.

    Raises:
        BuildError: the library has no model or function that a runtime in it can run, or nothing can join its code.
        FormatError, DigestError: it is damaged.
        IncompatibleError: it is for another machine than the compiler.
        ToolchainError: no compiler, or it fails.
        ChangedError: somebody replaced `file` meanwhile.
        OSError: a file cannot be read or written.
    """
    path = existing_file(Path(checked_path(file, "standalone: file")), "standalone: file")
    output = Path(checked_path(file_name, "standalone: file_name"))
    asked = asked_of(True, output, prefix, header, shapes, {})
    given = as_options(options)
    export_options: dict[str, Any] = {"cc": cc, "target": target}
    with Library(path) as opened, workspace(None) as work:
        check_loading(opened.image)  # its segments get company
        check_machine(machine_of(opened.elf), str(path), work, export_options)
        tools = find(cc, target)
        own = (*given, *JOIN_OPTIONS.get(opened.target["machine"], ()))
        catches = any(name.startswith("libstdc++") for name in opened.elf.needed)
        parts = make_parts(path, asked, tools, own, work, catches=catches)
        export_options["options"] = [*given, *link_options(catches=catches)]
        export_options["addons"] = [file.path for file, _ in parts]
        dialect = dialect_with(opened, (), {})
        check_may_replace(output, path)
        with ExitStack() as held, replacing(output) as temporary:
            with_code(
                opened, dialect, code=(), replace=False, work=work, export_options=export_options,
                runtime=asked.rows(), output=temporary,
            )  # fmt: skip
            with Library(temporary) as library:
                check_joined(opened, library, given)
            held.enter_context(unchanged(opened))  # until the new file has its name
        asked.write_header(work)
