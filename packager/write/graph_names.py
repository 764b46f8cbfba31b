"""Names under which the graph of a library calls its functions.

TVM's graph executor looks a function up by its symbol and calls it as a packed function. The symbol
of a plain C function is its own name, so the graph of a packed library names the packed functions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import partial

from mblob.format.blob_plan import OutEntry
from mblob.format.graph_json import parse
from mblob.format.type_keys import GRAPH_FACTORY
from mblob.module import Module
from mblob.packager.modules.nodes import HostNode, PayloadNode, node_of
from mblob.packager.modules.payload_modules import FactoryPayload
from mblob.packager.write.dialects import Dialect


def packed_names(root: Module, dialect: Dialect, found: Sequence[str] = ()) -> dict[str, str]:
    """The names that graphs of a tree call instead of plain C functions: the symbols of their
    packed functions. Functions of other modules keep their names.

    Args:
        found: functions that have a packed function, and no prototype in the tree.

    Raises:
        BuildError: a prototype that is none.
    """
    nodes = [node_of(module) for module in root.walk()]
    if dialect.is_ffi:
        return {}
    others = {node.only_function for node in nodes if isinstance(node, PayloadNode)}
    declared = [
        p.name
        for node in nodes
        if isinstance(node, HostNode)
        for p in node.declared.functions
        if p.name not in node.declared.packed
    ]
    names = (name for name in (*declared, *found) if name not in others)
    return {name: dialect.packed_symbol(name) for name in names}


def with_packed_names(entry: OutEntry, names: Mapping[str, str]) -> OutEntry:
    """A module as it is written; if it is the factory of a graph, with other names of functions."""
    if entry.type_key != GRAPH_FACTORY:
        return entry

    if not isinstance(entry.payload, FactoryPayload):
        return entry  # bytes of the caller, which stay as they are
    return entry._replace(payload=entry.payload.with_graph(partial(_renamed, names=names)))


_CALL = r"""("func_name"\s*:\s*)("(?:[^"\\]|\\.)*")"""


def _renamed(text: str, names: Mapping[str, str]) -> str:
    """The JSON text of a sound graph whose operators call other functions, and else as it was
    written."""

    def other(found: re.Match[str]) -> str:
        name = json.loads(found[2])
        return found[1] + json.dumps(names[name], ensure_ascii=False) if name in names else found[0]

    graph = parse(text)
    for node in graph["nodes"]:
        attrs = node.get("attrs", node.get("attr"))
        if attrs is not None:
            attrs["func_name"] = names.get(attrs["func_name"], attrs["func_name"])
    changed = re.sub(_CALL, other, text)
    # metadata may have such a key, too
    return changed if parse(changed) == graph else json.dumps(graph, ensure_ascii=False)
