"""Warnings of executors in a tree: what TVM's cannot read or run, and functions that they do not
find."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import ET_DYN
from mblob.errors import MblobError, PortabilityWarning
from mblob.format.functions_table import Row
from mblob.format.grammar import GRAMMARS
from mblob.format.type_keys import (
    CONST_LOADER,
    EXECUTORS,
    GRAPHS,
    METADATA,
    METADATA_MODULE,
    RELAY_EXECUTABLE,
    SAFETENSORS,
)
from mblob.inspect import tvm_executor
from mblob.inspect.contents import read_content
from mblob.inspect.graph_summary import summarize
from mblob.module import Module
from mblob.packager.errors import warn
from mblob.packager.modules.nodes import HostNode, PayloadNode, node_of
from mblob.packager.options import may_define
from mblob.packager.write.dialects import Dialect
from mblob.source_suffixes import FORMAT_OF

if TYPE_CHECKING:
    from mblob.packager.compile.host_objects import LinkInput
    from mblob.packager.link.request import Request


def warn_of_graphs(module: Module, dialect: Dialect) -> None:
    """Warn of graphs of a tree that TVM's graph executor cannot read. Those with a text were read
    when made."""
    for node in _executors(module, dialect):
        if node.text is None and (
            problem := tvm_executor.read_problem(node.type_key, node.payload(), GRAMMARS)
        ):
            warn(
                f"{node.type_key}: TVM's graph executor cannot run its graph: {problem}",
                PortabilityWarning,
            )


def warn_of_calls(
    request: Request,
    rows: Sequence[Row],
    files: Sequence[LinkInput] | None,
    library: ElfFile | None,
) -> None:
    """Warn of executors of a tree that call plain C functions, which crashes TVM's, or functions that
    no module has. Arguments as of `mblob.packager.link.inputs.warn_of_functions`."""
    executors = list(_executors(request.module, request.dialect))
    if not executors:
        return
    linked = None if library is None else _linked(library)
    exported = None if linked is None else linked[0]
    rows = [row for row in rows if exported is None or row.symbol in exported]
    plain = {row.name for row in rows if row.abi == "plain"}
    found = {row.name for row in rows if row.abi == "plain" and row.symbol == row.name}
    packed = {name for row in rows if row.abi == "packed" for name in (row.name, row.symbol)}
    known = None if request.fpack_imports else _known_functions(request, files, linked)
    hidden = {
        name
        for f, c in files or ()
        for name in (*c.hidden, *c.defined, *c.weak, *(g.name for g in f.functions))
    }
    for node in executors:
        called = tvm_executor.called_functions(node.type_key, _facts(node))
        if node.text is not None and not request.fpack_imports:
            called = [request.names.get(name, name) for name in called]
        why = tvm_executor.crash(called, found, plain - packed, announced=request.system_lib)
        if why is not None:
            warn(f"{node.type_key}: {why}", PortabilityWarning)
        # Others call functions of the runtime too, or one whose name depends on the release.
        by_name = node.type_key in (*GRAPHS, RELAY_EXECUTABLE)
        if (
            by_name
            and known is not None
            and (why := tvm_executor.missing(called, known | plain | packed, hidden))
        ):
            warn(f"{node.type_key}: {why}", PortabilityWarning)


_Linked = tuple[set[str], list[str]]  # what a library exports, what it needs


def _linked(elf: ElfFile) -> _Linked | None:
    """The exports and needed libraries of the linked file; None if it is no readable shared
    library."""
    try:
        if elf.e_type != ET_DYN:
            return None
        return {s.name for s in elf.dynsym if s.is_exported}, elf.needed
    except MblobError:  # the linker of somebody else
        return None


# Libraries that compilers link, of which executors call nothing.
_SYSTEM = re.compile(
    r"(lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|c\+\+)|ld-[\w-]+|libc\.musl-\w+)\.so[.\d]*"
)


def _known_functions(
    request: Request, files: Sequence[LinkInput] | None, linked: _Linked | None
) -> set[str] | None:
    """Names under which modules of a tree may have functions; None if more may come from what
    nobody can look into."""
    known: set[str] = set()
    if linked is not None:
        known, needed = linked
        by_others = files is None or any(o.startswith("-Wl,") for o in request.options)
        unseen = by_others and not all(map(_SYSTEM.fullmatch, needed))
    elif files is None:
        return None
    else:
        unseen = any(not c.complete and not (f.own and f.functions) for f, c in files)
        for f, c in files:
            known |= (
                (c.defined | c.weak) - c.hidden
                if c.complete
                else {function.name for function in f.functions}
            )
    options = [o for o in request.options if linked is None or not o.startswith("-Wl,")]
    if unseen or any(map(may_define, options)):
        return None
    if any(addon.suffix not in (*FORMAT_OF, ".o", ".a") for addon in request.addons):
        return None
    for module in request.module.walk():
        node = node_of(module)
        name = node.only_function if isinstance(node, PayloadNode) else None
        if name is not None:
            known.add(name)
        elif not isinstance(node, HostNode) and module.type_key not in _WITHOUT_FUNCTIONS:
            return None  # its runtime knows
    return known


def _executors(module: Module, dialect: Dialect) -> Iterator[PayloadNode]:
    """The modules of a tree that TVM's executors of the classic dialect open."""
    for node in map(node_of, module.walk() if not dialect.is_ffi else ()):
        if isinstance(node, PayloadNode) and node.type_key in EXECUTORS:
            yield node


def _facts(node: PayloadNode) -> Mapping[str, Any]:
    if node.text is not None and node.type_key in GRAPHS:
        return {"graph": summarize(memoryview(node.text.encode()))}
    return read_content(node.type_key, node.payload(), GRAMMARS).facts


# Kinds whose functions are those of their imports, or their own by fixed names.
_WITHOUT_FUNCTIONS = (*EXECUTORS, CONST_LOADER, METADATA, METADATA_MODULE, SAFETENSORS)
