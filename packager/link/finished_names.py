"""Names of a finished library that new code, which joins it, takes or must not take."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from mblob.packager.compile.host_objects import LinkInput
from mblob.packager.errors import NameTaken
from mblob.packager.link.request import Request
from mblob.packager.modules.nodes import Declared, HostNode


def with_places(request: Request, host: Sequence[LinkInput]) -> Request:
    """The request without those functions of a finished library whose places functions take whose
    prototypes the source tells. Their names are weak then.

    Raises:
        NameTaken: the names are not weak.
    """
    joined = [(node, item) for node, item in zip(request.host, host) if item.file.elsewhere]
    new = {
        name
        for node, (file, _) in zip(request.host, host if joined else ())
        for function in file.functions
        for name in (function.called, function.name)
        if node.declared.is_open or name in node.declared.names
    }
    prefix, packed_symbol = request.dialect.function_prefix, request.dialect.packed_symbol
    forms = {form: n for n in new for form in (n, prefix + n, packed_symbol(n))}
    kept: dict[int, HostNode] = {}
    for node, (file, contents) in joined:
        if taken := forms.keys() & contents.defined:
            raise NameTaken(f"{file.label}: has a function {forms[min(taken)]!r} already")
        gone = {row.symbol for row in node.rows if row.name in new} | forms.keys()
        kept[id(node)] = changed = copy(node)
        changed.rows = tuple(row for row in node.rows if row.symbol not in gone)
        changed.declared = Declared([n for n in node.declared.names if n not in gone])
    return request._replace(host=[kept.get(id(node), node) for node in request.host])


def check_names_are_new(request: Request, objects: Sequence[LinkInput]) -> None:
    """Refuse code that defines what a finished library has, which it joins.

    Raises:
        NameTaken: naming the function.
    """
    old = {name: f.label for f, c in objects if f.elsewhere for name in c.defined}
    names = (name for f, c in objects if not f.elsewhere for name in c.defined)
    if name := min((name for name in names if name in old), default=""):
        shown = name.removeprefix(request.dialect.function_prefix).removesuffix("__packed")
        raise NameTaken(f"{old[name]}: has a function {shown!r} already")
