"""The demands of TVM's own executors on a library (TVM 0.7 - 0.19): a graph that they can read, and
packed functions."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from mblob.errors import FormatError
from mblob.format import graph_json
from mblob.format.grammar import Grammars, decode_payload
from mblob.format.graph_json import OWN_OPERATORS, GraphError, shown
from mblob.format.type_keys import AOT_FACTORY, GRAPHS, RELAY_EXECUTABLE


def read_problem(key: str, payload: memoryview, grammars: Grammars) -> str | None:
    """The part of a payload that TVM's graph executor cannot read, or reads wrongly; None if there
    is none, and for other keys."""
    if key not in GRAPHS or key not in grammars:
        return None
    try:
        text = decode_payload(key, payload, grammars)["graph_json"]
        if len(text) > graph_json.JSON_LIMIT:
            return None
        decoded = bytes(text).decode()
        if (escape := graph_json.unknown_escape(decoded)) is not None:
            return f"the escape {escape} in a text"
        graph = graph_json.parse(decoded)
        graph_json.check_graph(graph)
        graph_json.check_names(graph)
        skipped = graph_json.skipped_id(graph)
    except (FormatError, UnicodeDecodeError):
        return None  # which the content itself tells
    except GraphError as error:
        return str(error)
    return None if skipped is None else f"storage_id skips {skipped}"


# -- functions -------------------------------------------------------------------------------------


def called_functions(key: str, facts: Mapping[str, Any]) -> list[str]:
    """Functions that TVM's executor for a payload looks up by name, and calls as packed functions.

    Args:
        key: the payload's type key.
        facts: of its content (`mblob.inspect.contents`).
    """
    if key in GRAPHS and "graph" in facts:
        return [name for name in facts["graph"]["operators"] if name not in OWN_OPERATORS]
    if key == AOT_FACTORY and "module_name" in facts:
        return [f"{facts['module_name']}___tvm_main__"]
    found = facts.get("executable")
    if found is None:
        return []
    if key == RELAY_EXECUTABLE:
        return list(found["primitives"])
    names = {"packed": "", "tir": "__vmtir__"}  # what stands before a function's name, by its kind
    return [names[f["kind"]] + f["name"] for f in found["functions"] if f["kind"] in names]


def crash(
    called: Sequence[str],
    plain: Collection[str],
    without_form: Collection[str] = (),
    *,
    announced: bool = False,
) -> str | None:
    """The reason why TVM's executor cannot run a library, and what to do; None if it can for what
    is known here.

    Args:
        called: functions that it looks up.
        plain: functions whose symbol is that of a plain C function.
        without_form: those of them that have no packed function, which mblob's executor would call.
        announced: of a system library, which announces packed functions alone.
    """
    names = sorted(set(called) & set(without_form if announced else plain))
    if not names:
        return None
    if len(names) == 1:
        called_as, found = "as a packed function", f"{names[0]!r} is a plain C function"
    else:
        called_as, found = "as packed functions", "they are plain C functions"
    verb = "cannot run" if announced else "crashes on"
    lacking = [name for name in names if name in without_form]
    mblob, cures = "mblob can run the library.", []
    if lacking:
        mblob = f"mblob cannot run it either: no prototype is given for {_few(lacking)}."
        cures.append(f"declare {'it' if len(lacking) == 1 else 'each'} with functions=")
    if not announced and len(lacking) < len(names):
        cures.append('for TVM, add packed="name"')
    cure = "; ".join(cures)
    return (
        f"TVM's executor {verb} this library: it calls {_few(names)} {called_as}, but {found}. {mblob}"
        f" {cure[0].upper()}{cure[1:]}."
    )


def missing(
    called: Sequence[str], known: Collection[str], hidden: Collection[str] = ()
) -> str | None:
    """The message on functions that an executor calls and no module has; None if there are none.

    Args:
        hidden: functions that a module may have, and does not export.
    """
    names = sorted(set(called) - set(known))
    if not names:
        return None
    if there := [name for name in names if name in hidden]:
        return (
            f"no module has {_few(names)}, which it calls: {_few(there)} is defined, but not exported. Leave out what"
            " hides it (-fvisibility=hidden, -fwhole-program, a version script), or mark it __attribute__((visibility("
            '"default")))'
        )
    near = difflib.get_close_matches(
        names[0][:200], [name for name in known if len(name) <= 200], 1
    )
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return (
        f"no module has {_few(names)}, which it calls: it fails until a module with the name is added to its imports"
        f"{hint}"
    )


def _few(names: Sequence[str]) -> str:
    return ", ".join(map(shown, names[:4])) + (", ..." if len(names) > 4 else "")
