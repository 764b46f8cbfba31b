"""The dialect that the inputs of a library tell, if its caller names none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from mblob.binary.elf import ElfFile
from mblob.bytes.mapping import map_file
from mblob.format.exported_functions import code_dialects
from mblob.format.type_keys import (
    NONE,
    RELAX_EXECUTABLE,
    RELAX_EXECUTABLE_OF_0_16,
    ROWS,
)
from mblob.module import Module
from mblob.packager.compile.host_objects import compile_all
from mblob.packager.compile.toolchain import find
from mblob.packager.errors import BuildError
from mblob.packager.functions.adapters import MARK
from mblob.packager.modules.nodes import HostNode, ObjectNode, SourceNode, file_of, node_of
from mblob.packager.objects.object_files import objects_of
from mblob.packager.options import as_options
from mblob.packager.path_arguments import workspace
from mblob.source_suffixes import LANGUAGE_OF

# Programs of Relax begin so, but for one byte. In the classic dialect, their length stands in front.
_PROGRAM = 0xD225DE2F421415.to_bytes(7, "little")
# In sources with functions of the ffi dialect, or with a macro that defines one.
_OF_FFI = re.compile(r"TVM_?FFI|tvm[/_]ffi")


def dialect_of(
    root: Module,
    cc: str | Sequence[str] | None = None,
    target: str | None = None,
    options: str | Sequence[str] | None = None,
) -> str:
    """The dialect of the inputs in a tree: objects and packed modules of a library, objects that TVM
    compiled or that are written for its runtime, sources of such objects, graphs, programs of Relax.
    Others can be of either; if all are, it is classic.

    Args:
        cc, target, options: as of `export_library`, for sources.

    Raises:
        BuildError: inputs of both dialects; one of each is named.
        FormatError: a damaged object. OSError: one that cannot be read.
        ToolchainError: a compiler is missing or refuses a source.
    """
    found = dialects_with_sources(list(root.walk()), cc, target, options)
    if len(found) > 1:
        raise BuildError(f"{both_dialects(found)}: dialect= says which one the library is for")
    return next(iter(found), "classic")


def dialects_of(modules: Iterable[Module]) -> dict[str, str]:
    """The dialects of modules, as `dialect_of` tells them, and an input that is of each."""
    found: dict[str, str] = {}
    for module in modules:
        home = node_of(module).home
        name, file = home or (_name_of(module), file_of(module))
        if name is not None:
            found.setdefault(name, file or f"the module {module.type_key!r}")
    return found


def dialects_with_sources(
    modules: Sequence[Module],
    cc: str | Sequence[str] | None = None,
    target: str | None = None,
    options: str | Sequence[str] | None = None,
) -> dict[str, str]:
    """The same as `dialects_of`, with what the objects of sources will tell. A source with words of the
    ffi dialect is compiled to know that: macros may make its functions."""
    found = dialects_of(modules)
    nodes = [n for n in map(node_of, modules) if isinstance(n, SourceNode)]
    texts = {n: _text(n) for n in nodes}
    if not any(map(_OF_FFI.search, texts.values())):
        return found
    marked = [n for n, text in texts.items() if "tvm" in text.lower()]
    with workspace(None) as work:
        plain = [SourceNode(n.code, n.fmt, options=n.options) for n in marked]
        made = compile_all(find(cc, target), plain, None, as_options(options), work)
        for node, (_, contents) in zip(marked, made):
            defined = contents.defined | contents.weak
            for name in code_dialects(defined, contents.undefined):
                found.setdefault(name, node.label)
    return found


def _text(node: SourceNode) -> str:
    try:
        return "" if LANGUAGE_OF[node.fmt] == "fortran" else node.text()
    except OSError:
        return ""  # which the compiler tells


def both_dialects(found: Mapping[str, str]) -> str:
    """The beginning of an error about inputs of two dialects."""
    return (
        f"{found['classic']} is of the classic dialect (TVM up to 0.20), {found['ffi']} of the ffi dialect (TVM"
        " 0.22 and later)"
    )


def check_dialect(modules: Iterable[Module], dialect: str, path: Path) -> None:
    """Refuse modules of another dialect than that of the library that they are added to.

    Raises:
        BuildError: naming both.
    """
    other = {name: file for name, file in dialects_of(modules).items() if name != dialect}
    if other:
        raise BuildError(
            f"{both_dialects({**other, dialect: str(path)})}, and a library is of one; convert writes a"
            " library or a .tar in the other dialect"
        )


def _name_of(module: Module) -> str | None:
    """The dialect that a module tells, None if it may be in a library of either."""
    node = node_of(module)
    if isinstance(node, ObjectNode):
        return None if node.elsewhere else _of_object(node)
    row = None if isinstance(node, HostNode) else ROWS.get(node.type_key)
    if row is None or row.key == RELAX_EXECUTABLE_OF_0_16:  # which convert writes in both
        return None
    if row.key == RELAX_EXECUTABLE:
        return "ffi" if bytes(module.payload[1:8]) == _PROGRAM else None
    return "classic" if row.ffi == NONE else "ffi" if row.classic == NONE else None


def _of_object(node: ObjectNode) -> str | None:
    """The dialect that the names in an object or archive tell, if it is one."""
    data = node.content if isinstance(node.content, bytes) else map_file(node.content)
    found: set[str] = set()
    # All of these names have one of these texts. Few objects have one: the others are not parsed.
    if any(re.search(text, data) for text in (rb"__tvm_", rb"TVM")):
        for label, part in objects_of(memoryview(data), node.label):
            symbols = ElfFile(part, label).symtab
            if not any(s.name.startswith(MARK) for s in symbols):  # adapters know both dialects
                defined = {s.name for s in symbols if s.is_defined}
                found |= code_dialects(defined, (s.name for s in symbols))
    return found.pop() if len(found) == 1 else None
