"""Names of a finished library that new code, which joins it, takes or must not take: functions that the
library has, and those that it takes from others."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from copy import copy

from mblob.binary.elf import ElfFile
from mblob.binary.function_names import shown_name
from mblob.errors import listed
from mblob.format.functions_table import Row
from mblob.inspect.providers import undefined_symbols
from mblob.packager.compile.host_objects import LinkInput
from mblob.packager.errors import BuildError, NameTakenError
from mblob.packager.functions.wrappers import Wrapped
from mblob.packager.link.request import Request
from mblob.packager.modules.nodes import DeclaredFunctions, HostNode
from mblob.packager.modules.prototypes import Prototype


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
    ours = _names(host, elsewhere=False)
    kept: dict[int, HostNode] = {}
    for node, (file, contents) in joined:
        if taken := forms.keys() & contents.defined:
            raise NameTakenError(
                f"{file.label}: has a function {shown_name(forms[min(taken)])!r} already"
            )
        gone = {row.symbol for row in node.rows if row.name in new} | forms.keys() | ours
        kept[id(node)] = changed = copy(node)
        changed.rows = tuple(row for row in node.rows if row.symbol not in gone)
        changed.declared = DeclaredFunctions([n for n in node.declared.names if n not in gone])
    return request._replace(host=[kept.get(id(node), node) for node in request.host])


def elsewhere(objects: Sequence[LinkInput]) -> set[str]:
    """The names of a finished library that new code, which joins it, does not define itself."""
    return _names(objects, elsewhere=True) - _names(objects, elsewhere=False)


def _names(objects: Sequence[LinkInput], *, elsewhere: bool) -> set[str]:
    """The names that the finished library defines, or the new code."""
    return {n for f, c in objects if f.elsewhere == elsewhere for n in c.defined | c.weak}


def with_its_functions(request: Request, objects: Sequence[LinkInput]) -> Request:
    """The request with plain functions of a finished library that the caller names alone. Its table of functions
    has their types.

    Args:
        request: with the functions whose types debug information tells.

    Raises:
        BuildError: nothing tells the types of one.
    """
    nodes = zip(request.host, objects)
    joined = [(node, file) for node, (file, _) in nodes if file.elsewhere]
    own = elsewhere(objects) - {w.prototype.symbol for w in request.wrapped()}
    found: list[Wrapped] = []
    for node, file in joined:
        # what debug information tells, and has no prototype, is a packed one
        known = {*node.declared.names, *(function.name for function in file.functions)}
        for name in (name for name in request.named() if name not in known):
            rows = [row for row in node.rows if name in (row.name, row.symbol)]
            if not own.isdisjoint((name, *(row.symbol for row in rows))):
                prototype = _listed(name, rows, file.label)
                found.append(Wrapped(prototype, False, request.dialect))
    return request.with_found([*request.found, *found]) if found else request


def _listed(name: str, rows: Sequence[Row], label: str) -> Prototype:
    """The prototype of a function of a finished library.

    Args:
        rows: of its table that have the name.

    Raises:
        BuildError: they do not tell it.
    """
    if len(rows) > 1:
        texts = [row.prototype or row.symbol for row in rows]
        raise BuildError(
            f"functions: {name} cannot be called: it is overloaded: {listed(texts, 6)}; give a kernel with an"
            ' extern "C" function that calls one'
        )
    for row in rows:
        if row.comment:
            raise BuildError(f"functions: {name} cannot be called: {row.comment}")
        from mblob.packager.modules.prototype_parser import parse  # with pycparser
        from mblob.packager.modules.source_words import as_in_c

        with suppress(BuildError):  # it has own types of its source
            (made,) = parse([as_in_c(row.prototype)])
            mangled = row.symbol if row.symbol != row.name else ""
            return made._replace(name=row.name, mangled=mangled, origin=row.origin or made.origin)
    remedy = f"its prototype, as 'double {name}(const float *x, int n)'"
    if any(row.symbol != row.name for row in rows):
        remedy = 'a kernel with an extern "C" function that calls it'
    raise BuildError(
        f"functions: {label} has a function {name}, and neither its debug information nor its table of functions tells"
        f" its types: give {remedy}"
    )


def check_names_are_new(request: Request, objects: Sequence[LinkInput]) -> None:
    """Refuse code that defines what a finished library has, which it joins.

    Raises:
        NameTakenError: naming the function.
    """
    old = {name: f.label for f, c in objects if f.elsewhere for name in c.defined}
    names = (name for f, c in objects if not f.elsewhere for name in c.defined)
    if name := min((name for name in names if name in old), default=""):
        shown = name.removeprefix(request.dialect.function_prefix).removesuffix("__packed")
        raise NameTakenError(f"{old[name]}: has a function {shown_name(shown)!r} already")


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
            f"the new code defines {shown_name(name)!r}, which {shown} takes from {taken[name] or 'a library'}: its own"
            " code would call the new one; give the function another name, or make it static"
        )


_C = ("libc", "libm")  # whose names are known where the file does not say who has them
