"""The content of the page, as one JSON object of bounded size: names are cut, lists end and say
what they leave out.

Entries are rows, not objects, and names that repeat are written once: 10,000 entries take some
hundred kilobytes.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from mblob.errors import FormatError
from mblob.inspect.html.areas import Area, file_areas, payload_areas
from mblob.inspect.html.graph import NODES, drawing
from mblob.inspect.html.headers import header_groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mblob.inspect.entry_view import EntryView
    from mblob.inspect.library import Library
    from mblob.inspect.models import Model, Value

ENTRIES = 20_000
IMPORTS = 100_000  # edges of the tree
PARTS = 20_000  # tensors, sections of device code and the like, of all entries together
ROWS = 10_000  # kernels, functions, undefined symbols
REMARKS = 500
MODELS, VALUES = 200, 40  # models, and inputs or outputs of each
PARAMETERS = 200  # of each: the page has a table of all tensors
GRAPHS = 2 * NODES  # nodes of all graphs together that are drawn
GRAPH_BYTES = 32 << 20  # of the texts of all graphs together that are drawn
TEXT, TEXTS = 4096, 256 << 10  # bytes of the text of an entry, and of all entries together
NAME = 240  # characters of a name
MESSAGE = 2000  # characters of a remark


def cut(text: str, limit: int = NAME) -> str:
    """`text`, or its beginning."""
    return text if len(text) <= limit else f"{text[: limit - 4]} ..."


def page_data(library: Library) -> dict[str, Any]:
    """The object that the page draws.

    Raises:
        ValueError: the library is closed.
    """
    known = library.to_json()
    entries = library.entries[:ENTRIES]
    parts, problems, parts_left = _parts(library)
    keys = sorted({cut(e.type_key) for e in entries})
    number = {key: i for i, key in enumerate(keys)}
    room = IMPORTS
    rows = []
    for e in entries:
        imports = [i for i in e.imports[:room] if i < ENTRIES]
        room -= len(imports)
        rows.append(
            [
                number[cut(e.type_key)], -1 if e.offset is None else e.offset, e.size, imports, len(e.imports),
                int(e.data), e.alignment, e.digest.hex(), parts.get(e.index, []), problems.get(e.index, ""),
            ]
        )  # fmt: skip
    kernels = [_kernel(e["index"], k) for e in known["entries"] for k in e.get("kernels", [])]
    functions = _functions(library)
    undefined = _undefined(known)
    remarks = [
        [d["severity"], d["code"], cut(d["message"], MESSAGE)]
        for d in known["diagnostics"]
        if d["severity"] != "info"
    ]
    blob = library.blob
    hidden = library.entries[ENTRIES:]
    return {
        "file": cut(str(library.path), MESSAGE),
        "size": library.size,
        "facts": _facts(library, known),
        "areas": [_area(a) for a in file_areas(library)],
        "blob": None if blob is None else {
            "symbol": blob.symbol, "offset": library.blob_offset, "size": blob.size,
            "index": 0 if blob.index_offset is None else blob.size - blob.index_offset,
        },
        "keys": keys,
        "entries": rows,
        "hidden": [len(hidden), sum(e.size for e in hidden)],
        "texts": _texts(entries),
        "parts_left_out": parts_left,
        "models": {
            "rows": [_model(m) for m in library.models[:MODELS]],
            "left_out": max(len(library.models) - MODELS, 0),
        },
        "graphs": _graphs(library),
        "kernels": limited(kernels),
        "functions": limited(functions),
        "undefined": {**limited(undefined), "weak": sum(u.weak for u in library.undefined_symbols)},
        "remarks": limited(remarks, REMARKS),
        "headers": [g.to_json() for g in header_groups(library)],
    }  # fmt: skip


def limited(rows: list[Any], limit: int = ROWS) -> dict[str, Any]:
    """The first rows of a table, and the number of those that are left out."""
    return {"rows": rows[:limit], "left_out": max(len(rows) - limit, 0)}


def _parts(library: Library) -> tuple[dict[int, list[Any]], dict[int, str], int]:
    """Parts of payloads and what is wrong with them, by entry; how many small parts are left
    out."""
    found: dict[int, list[Area]] = {}
    problems = {}
    for e in library.entries[:ENTRIES]:
        try:
            areas = payload_areas(e)
        except FormatError as error:
            problems[e.index] = cut(str(error), MESSAGE)
            continue
        if areas:
            found[e.index] = areas
    everything = [(a.size, -i, -k) for i, areas in found.items() for k, a in enumerate(areas)]
    kept = set(heapq.nlargest(PARTS, everything)) if len(everything) > PARTS else set(everything)
    left_out = len(everything) - len(kept)
    # for what is inside of parts: sections of device code, constants of executables
    room = PARTS - len(kept)
    rows: dict[int, list[Any]] = {}
    for i, areas in found.items():
        rows[i] = []
        for k, a in enumerate(areas):
            if (a.size, -i, -k) not in kept:
                continue
            inside = _count(a.children)
            if inside > room:
                a, left_out = a._replace(children=()), left_out + inside
            else:
                room -= inside
            rows[i].append(_area(a))
    return rows, problems, left_out


def _count(areas: Sequence[Area]) -> int:
    """The number of areas, with all that is in them: two levels at most."""
    return len(areas) + sum(len(a.children) for a in areas)


def _area(a: Area) -> list[Any]:
    """Name, offset (-1: none), size, kind, and where there are any: detail, children."""
    row: list[Any] = [cut(a.name), -1 if a.offset is None else a.offset, a.size, a.kind]
    if a.children or a.detail:
        row.append(cut(a.detail))
    if a.children:
        row.append([_area(c) for c in a.children])
    return row


def _model(m: Model) -> list[Any]:
    """Entry, kind and name of a model; what it takes, gives and holds: rows of name, type and shape,
    and how many more, or None where nothing tells."""
    lists = (_values(m.inputs), _values(m.outputs), _values(m.parameters, PARAMETERS))
    return [m.entry, m.kind, cut(m.name), *lists]


def _values(values: Sequence[Value] | None, limit: int = VALUES) -> list[Any] | None:
    if values is None:
        return None
    rows = [[cut(v.name or ""), cut(v.type_text)] for v in values[:limit]]
    return [rows, len(values) - len(rows)]


def _graphs(library: Library) -> dict[str, Any]:
    """The graphs that are drawn, each with its entry, and how many are not."""
    rows: list[dict[str, Any]] = []
    room, size, left_out = GRAPHS, GRAPH_BYTES, 0
    for e in library.entries[:ENTRIES]:
        raw = e.graph_json()
        if raw is None or not e.content.facts["graph"]["nodes"]:
            continue
        size -= len(raw)
        graph = graph_drawing(e, min(room, NODES)) if room > 0 and size >= 0 else None
        if graph is None:
            left_out += 1
        else:
            room -= len(graph["boxes"])
            rows.append({"entry": e.index, **graph})
    for e in library.entries[:ENTRIES]:
        programs, held = e.program_graphs()
        for f in (f for f in programs if f.nodes):
            if room <= 0:
                left_out += 1
                continue
            graph = drawing(f.nodes, f.heads, held, min(room, NODES))
            graph["left_out"] += f.left_out
            room -= len(graph["boxes"])
            rows.append({"entry": e.index, "name": cut(f.name), **graph})
    return {"rows": rows, "left_out": left_out}


def graph_drawing(entry: EntryView, limit: int = NODES) -> dict[str, Any] | None:
    """The drawing of the graph in a payload, None without one."""
    graph = entry.graph()
    if graph is None:
        return None
    held = {t.name: f"{t.dtype}[{', '.join(map(str, t.shape))}]" for t in entry.content.tensors}
    return drawing(*graph, held, limit)


def _kernel(entry: int, k: dict[str, Any]) -> list[Any]:
    return [
        entry,
        cut(k["name"]),
        cut(", ".join(k["arg_types"])),
        cut(", ".join(k["launch_param_tags"])),
    ]


def _functions(library: Library) -> list[Any]:
    """Name, forms and parameters of each host function."""
    found: dict[str, list[Any]] = {}
    for f in sorted(library.host_functions, key=lambda f: (f.name, f.abi)):
        row = found.setdefault(f.name, [cut(f.name), "", ""])
        row[1] += f"{row[1] and ', '}{f.abi}"
        row[2] = cut(_parameters(f.prototype) or f.types or "", MESSAGE) or row[2]
    return list(found.values())


def _texts(entries: Sequence[EntryView]) -> dict[str, Any]:
    """Text of payloads by the index of the entry, with how many bytes of it are left out."""
    found, room = {}, TEXTS
    for e in entries:
        text = e.text_beginning(min(TEXT, room)) if room > 0 else None
        if text is not None:
            found[str(e.index)] = text
            room -= min(TEXT, room, e.size)
    return found


def _parameters(prototype: str | None) -> str:
    """The parameters of a prototype; all of it where the function returns something."""
    before, _, behind = (prototype or "").partition("(")
    return behind[:-1] if before.startswith("void ") and behind.endswith(")") else prototype or ""


def _undefined(known: dict[str, Any]) -> list[Any]:
    """Name of a symbol, its version, who provides it."""
    return [
        [
            cut(u["name"]),
            cut(u["version"] or ""),
            cut(u["provider"] or "") + (" (weak)" if u["weak"] else ""),
        ]
        for u in known["undefined_symbols"]
    ]


def _facts(library: Library, known: dict[str, Any]) -> list[list[str]]:
    """Label and text of what is said first; what is not known is left out."""
    target, blob, members = known["target"], library.blob, len(library.members)
    found: list[tuple[str, object]] = [
        ("machine", f"{target['machine']}, {target['bits']} bits, {target['endian']} endian"),
        (
            "file",
            f"{known['format']}, {known['kind']}" + (f" of {members} members" if members else ""),
        ),
        ("processor", target["hints"]),
        ("dialect", library.dialect or "not told"),
        ("format", known["era"]["tvm"] and f"of TVM {known['era']['tvm']}"),
        ("prefixes", [p for p in library.prefixes if p]),
        ("blob", blob and f"{blob.symbol}, {blob.size:,} bytes at {library.blob_offset:#x}"),
        (
            "index",
            blob and ("none" if blob.index_offset is None else f"by {blob.producer or 'unknown'}"),
        ),
        ("built for", blob and blob.target),
        ("needed libraries", known["needed"]),
        ("soname", known["soname"]),
        ("search path", known["runpath"]),
        ("build-id", known["build_id"]),
        ("compilers", known["compilers"]),
        ("unloading", library.unloading and str(library.unloading)),
        ("plug-ins", [f"{p['name']} {p.get('version', '')}".strip() for p in known["plugins"]]),
    ]
    return [[label, cut(_words(value), MESSAGE)] for label, value in found if value]


def _words(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
