"""Names of a finished library that new code, which joins it, takes or must not take: functions that the
library has, and those that it takes from others."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from mblob.binary.elf import ElfFile
from mblob.inspect.providers import undefined_symbols
from mblob.packager.compile.host_objects import LinkInput
from mblob.packager.errors import BuildError, NameTakenError
from mblob.packager.link.request import Request
from mblob.packager.modules.nodes import DeclaredFunctions, HostNode


def with_places(request: Request, host: Sequence[LinkInput]) -> Request:
    """The request without those functions of a finished library whose places functions take whose
    prototypes the source tells. Their names are weak then.

    Raises:
        NameTakenError: the names are not weak.
    """
    nodes = list(zip(request.host, host))
    joined = [(node, item) for node, item in nodes if item.file.elsewhere]
    new = {
        name
        for node, (file, _) in nodes
        for function in file.functions
        for name in (function.called, function.name)
        if node.declared.is_open or name in node.declared.names
    }
    prefix, packed_symbol = request.dialect.function_prefix, request.dialect.packed_symbol
    forms = {form: n for n in new for form in (n, prefix + n, packed_symbol(n))}
    kept: dict[int, HostNode] = {}
    for node, (file, contents) in joined:
        if taken := forms.keys() & contents.defined:
            raise NameTakenError(f"{file.label}: has a function {forms[min(taken)]!r} already")
        gone = {row.symbol for row in node.rows if row.name in new} | forms.keys()
        kept[id(node)] = changed = copy(node)
        changed.rows = tuple(row for row in node.rows if row.symbol not in gone)
        changed.declared = DeclaredFunctions([n for n in node.declared.names if n not in gone])
    return request._replace(host=[kept.get(id(node), node) for node in request.host])


def check_names_are_new(request: Request, objects: Sequence[LinkInput]) -> None:
    """Refuse code that defines what a finished library has, which it joins.

    Raises:
        NameTakenError: naming the function.
    """
    old = {name: f.label for f, c in objects if f.elsewhere for name in c.defined}
    names = (name for f, c in objects if not f.elsewhere for name in c.defined)
    if name := min((name for name in names if name in old), default=""):
        shown = name.removeprefix(request.dialect.function_prefix).removesuffix("__packed")
        raise NameTakenError(f"{old[name]}: has a function {shown!r} already")


def check_names_of_others(finished: ElfFile, joined: ElfFile, shown: str) -> None:
    """Refuse code that defines what a finished library, to which it was joined, takes from other libraries.

    Args:
        shown: the finished library, for the error.

    Raises:
        BuildError: naming the function.
    """
    taken = {
        u.name: u.provider
        for u in undefined_symbols(finished)
        if u.version or u.library or u.provider in _C
    }
    if name := min((s.name for s in joined.dynsym if s.is_defined and s.name in taken), default=""):
        raise BuildError(
            f"the new code defines {name!r}, which {shown} takes from {taken[name] or 'a library'}: its own code would"
            " call the new one; give the function another name, or make it static"
        )


_C = ("libc", "libm")  # whose names are known where the file does not say who has them
