"""Constructors of host code: sources in C, C++, CUDA and Fortran, object files, archives."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mblob.binary.elf_records import ET_DYN
from mblob.binary.file_kind import AR_MAGIC, ELF_MAGIC, SNIFF_SIZE, THIN_MAGIC, elf_header
from mblob.bytes.payload_source import as_bytes_view
from mblob.errors import one_of
from mblob.module import Module
from mblob.packager.errors import BuildError, BuildTypeError, warn
from mblob.packager.modules.nodes import (
    DeclaredFunctions,
    HostNode,
    ObjectNode,
    SourceNode,
    node_of,
    suggesting,
)
from mblob.packager.options import as_options, check_options
from mblob.packager.path_arguments import existing_file, path_or_text
from mblob.source_suffixes import ASSEMBLER, FORMAT_OF, LANGUAGE_OF

if TYPE_CHECKING:
    from mblob.typed import SourceFormat

FINISHED = (
    "a finished library, which cannot be linked again; give its sources, its objects (.o, .a), or the .tar that it is"
    " exported to"
)


@suggesting()
def csource_module(
    source: str | os.PathLike[str],
    fmt: SourceFormat | None = None,
    functions: Sequence[str] | str | None = None,
    packed: str | Sequence[str] | None = None,
    options: str | Sequence[str] | None = None,
) -> Module:
    """Host code as source.

    Args:
        source: a path, which is compiled in its folder, so that `#include "x.h"` works; or the
            text. "" is a module without code, to import others into.
        fmt: "c", "cc", "cpp", "cu" (nvcc), or Fortran (gfortran, $FC): "f" in fixed form, "f90" in free
            form, "F" and "F90" with preprocessing. By default from the path's suffix, else "c".
        functions: by default, mblob generates a packed function for each external C function of
            the source. It checks its arguments and calls the C function. Their types come from the
            source. A list selects functions, and no others are callable then: by name ("vadd"), or by
            prototype, such as "void vadd(const float a[n], const float b[n], float c[n], int64_t n)". "*"
            beside prototypes means all others, too; [] means none.
            Pointers to numbers are tensors; `const` marks inputs; `x[n]` checks the number of
            elements, `x[n][k]` the shape; `const char *` is a string, `void *` any tensor or
            handle. Prototypes may have types, enumerators and macros of the source, of C++ also
            namespaces and references.
        packed: for hosts with TVM up to 0.20: names of functions whose packed function gets the
            symbol `<name>`; "name" means all of them. The C function is then hidden. By default
            the C function keeps its symbol, and the packed function is `<name>__packed`.
            `mod["<name>"]` is the packed function in both cases.
        options: compiler options for this source only.

    Raises:
        OSError: no file at the path.
        BuildError: a file that is compiled already, an unknown fmt or suffix, a wrong prototype or
            one that mblob cannot call, an option that stops the compiler early.
    """
    module = source_module(
        source, fmt, DeclaredFunctions(functions, packed, "csource_module"), options
    )
    return _checked(module)


def source_module(
    source: str | os.PathLike[str],
    fmt: str | None,
    declared: DeclaredFunctions,
    options: str | Sequence[str] | None = None,
) -> Module:
    """`csource_module`, but nobody has looked at the prototypes yet."""
    code = path_or_text(source, "csource_module")
    if isinstance(code, Path):
        _check_is_text(code)
    if fmt is None:
        fmt = _format_of(code) if isinstance(code, Path) else "c"
    if fmt not in LANGUAGE_OF:
        raise BuildError(f"csource_module: fmt: {one_of(LANGUAGE_OF, fmt)}")
    if isinstance(code, str) and re.fullmatch(r"[\w./~+-]+", code):  # no program in any language
        existing_file(Path(code), "csource_module")
    own = as_options(options)
    check_options(own)
    return Module(node=SourceNode(code, fmt, declared, own))


def object_module(library: Any, declared: DeclaredFunctions) -> Module:
    """A module of one object or archive. Nobody has looked at the prototypes yet."""
    content: Path | bytes
    if isinstance(library, (str, os.PathLike)):
        content = existing_file(Path(library), "static_library")
        _check_is_no_library(content, declared.who)
    else:
        try:
            content = bytes(as_bytes_view(library))
        except TypeError:
            raise BuildTypeError(
                f"static_library: expected a path or bytes, found {type(library).__name__}"
            ) from None
    return Module(node=ObjectNode(content, declared))


def _check_is_no_library(path: Path, who: str) -> None:
    with path.open("rb") as file:
        head = file.read(SNIFF_SIZE)
    if head.startswith(ELF_MAGIC) and elf_header(head)("e_type") == ET_DYN:
        more = (
            ""
            if who == "add"
            else f"; or add the other files to it (mblob.add({str(path)!r}, ...))"
        )
        raise BuildError(f"{path}: {FINISHED}{more}")


def warn_of_left_out(given: Sequence[str | os.PathLike[str]]) -> None:
    """Warn of an object or a source of a library if its packed modules lie beside it, and are not given."""
    paths = [*map(Path, given)]
    for path in paths:
        is_member = path.stem.startswith("lib") and path.stem[3:].isdigit()
        beside = [path.with_name(name) for name in ("devc.o", "devc.c")] if is_member else []
        for blob in beside if {p.name for p in beside}.isdisjoint(p.name for p in paths) else ():
            if blob.is_file():
                warn(
                    f"{blob}, beside {path}, has the packed modules of its library, such as a model, and is left out:"
                    " give it, too, or the folder"
                )
                return


def _checked(module: Module) -> Module:
    """Errors of prototypes are those of the call that they are given to."""
    node = node_of(module)
    assert isinstance(node, HostNode)
    _ = node.declared.functions
    return module


def refuse_language(path: Path) -> None:
    """Refuse a source that only another compiler compiles.

    Raises:
        BuildError: its suffix says such a language.
    """
    if path.suffix in ASSEMBLER:
        raise BuildError(
            f"{path}: assembler, expected C, C++, CUDA or Fortran; assemble it, and pack the object file"
        )


def _format_of(path: Path) -> str:
    """The format that a file's suffix says; C without a suffix.

    Raises:
        BuildError: it says another language, or nothing that we know.
    """
    refuse_language(path)
    if path.suffix and path.suffix not in FORMAT_OF:
        raise BuildError(
            f"{path}: expected the suffix of a source, one of {', '.join(FORMAT_OF)}, found {path.suffix!r}"
        )
    return FORMAT_OF.get(path.suffix, "c")


def _check_is_text(path: Path) -> None:
    """Refuse what is compiled already.

    Raises:
        BuildError: an object, a library or an archive.
    """
    with path.open("rb") as file:
        head = file.read(8)
    if head.startswith(ELF_MAGIC) or head in (AR_MAGIC, THIN_MAGIC):
        what = "an ELF file" if head.startswith(ELF_MAGIC) else "an archive"
        raise BuildError(
            f"{path}: {what}, expected a source; pack an object or archive with static_library"
        )
