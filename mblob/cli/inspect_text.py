"""The text of `mblob-pack inspect`: lines about a library, for people. Whatever comes from the file
is escaped."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from mblob.cli.report import human_size, in_options, one_line, printable
from mblob.format.grammar import decode_payload
from mblob.format.type_keys import RELAX_EXECUTABLES
from mblob.inspect.inspect_json import hints_of, linking_json
from mblob.inspect.library_search import shared_elf
from mblob.inspect.plugin_needs import place_of
from mblob.inspect.tensors import relax_program

if TYPE_CHECKING:
    from mblob.format.functions_table import Row
    from mblob.format.plugin_table import Plugin
    from mblob.inspect.graph_summary import GraphNode
    from mblob.inspect.library import EntryView, Library
    from mblob.inspect.models import Model

DEPTH = 64  # levels of the tree that are drawn; each costs four columns on every line below it
LISTED = 12  # names that the summary lists in one line
TREE_LINES = 200  # of the summary; --tree has all
TEXT_BYTES, TEXT_ROWS = 4096, 40  # of a payload that is text


def lines(library: Library, form: str = "") -> Iterator[str]:
    """A library as text: its "tree", its "functions", or a summary."""
    if form == "tree":
        return tree_lines(library)
    return function_lines(library) if form == "functions" else summary_lines(library)


def tree_lines(library: Library) -> Iterator[str]:
    """The tree of modules as text, a line each. What is imported twice is unfolded the first time
    only, and what is deeper than DEPTH levels is only counted."""
    entries = library.entries
    unfolded: set[int] = set()
    # (entry, its level, what stands before it, what stands before its imports); no recursion: a
    # file may nest deep.
    stack = [(0, 0, "", "")]
    end, branch, trunk = ("└── ", "├── ", "│   ") if _draws_lines() else ("`-- ", "|-- ", "|   ")
    while stack:
        index, depth, lead, below = stack.pop()
        entry = entries[index]
        note = ""
        if entry.imports and index in unfolded:
            note = " (imports: see above)"
        elif entry.imports and depth == DEPTH:
            note = f" ({len(entry.imports)} imports deeper than {DEPTH} levels: see --json)"
        yield f"{lead}{describe(entry)}{note}"
        if note:
            continue
        unfolded.add(index)
        for i, child in reversed(list(enumerate(entry.imports))):
            last = i == len(entry.imports) - 1
            stack.append(
                (
                    child,
                    depth + 1,
                    below + (end if last else branch),
                    below + ("    " if last else trunk),
                )
            )


def _draws_lines() -> bool:
    """True if the encoding of the standard output has the characters of a tree."""
    try:
        "└├─│".encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def describe(entry: EntryView) -> str:
    """One entry in one line: index, key, for a payload its size and place, and what is in it."""
    text = f"[{entry.index}] {one_line(entry.type_key)}"
    if entry.offset is None:
        return text
    text += f"  {human_size(entry.size)} at {entry.offset:#x}"
    summary = one_line(", ".join(_in_short(entry)))
    return f"{text}  {summary}" if summary else text


def _in_short(entry: EntryView) -> Iterator[str]:
    content = entry.content
    facts = content.facts
    if content.problem is not None:
        yield "damaged"
    if "symbol" in facts:
        yield str(facts["symbol"])[:40]
    if content.kernels:
        fmt = facts.get("fmt") or facts.get("code", {}).get("kind", "")
        yield _count(len(content.kernels), "kernel") + (f" ({fmt})" if fmt else "")
    if "graph" in facts:
        yield f"graph of {_count(facts['graph']['nodes'], 'node')}"
    if "executable" in facts:
        machine = facts["executable"]
        yield f"{machine['machine']} {machine['version']}, {_count(len(machine['functions']), 'function')}"
    if content.tensors:
        yield f"{_count(len(content.tensors), 'tensor')} of {human_size(sum(t.size for t in content.tensors))}"
    if "parameters" in facts:
        yield f"parameters, {human_size(facts['copied'])} to be copied"
    if facts.get("func_names"):
        yield _count(len(facts["func_names"]), "function")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def function_lines(library: Library) -> Iterator[str]:
    """Packed functions as `NAME  PROTOTYPE`; plain C functions as `plain PROTOTYPE`, with types alone
    where the file has no prototype; `unknown NAME` of which nothing says how they are called. Behind
    `#`: the symbol of a plain function, if the prototype does not name it, where the prototype comes
    from, and why there is no packed function."""
    packed = {f.name: f for f in library.host_functions if f.abi != "plain"}
    for name in library.packed_functions:
        f = packed[name]
        yield _function_line(f"{name}  {f.text}" if f.prototype else name, f.origin)
    for row in _plain_rows(library):
        text = f"plain {row.prototype or f'{row.symbol}({row.types})'}"
        symbol = f"symbol {row.symbol}" if row.prototype and row.symbol != row.name else ""
        is_left_out = row.comment and row.name not in packed
        why = f"not callable: {row.comment}" if is_left_out else ""
        yield _function_line(text, row.origin, symbol, why)
    for f in library.host_functions:
        if f.abi == "plain" and f.types is None:
            yield one_line(f"unknown {f.symbol}")


def _function_line(text: str, origin: str | None, symbol: str = "", why: str = "") -> str:
    words = {"given": "as given to mblob", "source": "from the source"}
    remarks = [symbol, words.get(origin, f"from {origin}") if origin else "", why]
    return one_line("  # ".join(filter(None, [text, ", ".join(filter(None, remarks))])))


def _plain_rows(library: Library) -> list[Row]:
    """Rows of the plain C functions that the library has."""
    there = {(f.name, f.symbol) for f in library.host_functions if f.abi == "plain"}
    return [r for r in library.function_table if r.abi == "plain" and (r.name, r.symbol) in there]


def described_functions(library: Library) -> list[str]:
    """One line for each function, whether it has a packed function, a plain one, or both, and what
    tells of it."""
    plain = {
        row.name: one_line(row.prototype or f"{row.symbol}({row.types})")
        for row in _plain_rows(library)
    }
    packed = {f.name: f for f in library.host_functions if f.abi != "plain"}
    unknown = {f.name for f in library.host_functions} - packed.keys() - plain.keys()
    found = []
    for name in sorted(packed.keys() | plain.keys() | unknown):
        text = one_line(name)
        if name in unknown:
            text = f"{text}  unknown: nothing says how it is called"
        elif name in plain:
            text = (
                f"{text}  and plain C: {plain[name]}"
                if name in packed
                else f"{plain[name]}  plain C only"
            )
        elif packed[name].prototype:
            text = one_line(packed[name].text)
        elif parts := [what for what in ("metadata", "doc") if getattr(packed[name], what)]:
            text = f"{text}  tells its {' and '.join(parts)}"
        if name == library.entry_function:
            text += "  (entry)"
        found.append(text)
    return found


def kernel_lines(entries: Sequence[EntryView]) -> Iterator[str]:
    """One line for each kernel of a device module: its entry, argument types and launch tags."""
    for entry in entries:
        for k in entry.content.kernels:
            launch = f"  launch: {', '.join(k.launch_param_tags)}" if k.launch_param_tags else ""
            yield one_line(f"[{entry.index}] {k.name}({', '.join(map(str, k.arg_types))}){launch}")


def summary_lines(library: Library) -> Iterator[str]:
    """The whole library on one screen."""
    yield one_line(str(library.path))
    yield from _file_lines(library)
    yield f"  modules    {len(library.entries)}"
    for i, line in enumerate(tree_lines(library)):
        if i == TREE_LINES:
            yield f"    ... {len(library.entries) - i} more: see --tree"
            break
        yield f"    {line}"
    yield from _model_lines(library.models)
    yield from _listed("functions", described_functions(library), always=True)
    yield from _listed("plug-ins", [one_line(describe_plugin(p, library)) for p in library.plugins])
    yield from _listed("kernels", list(kernel_lines(library.entries)))
    yield from _undefined_lines(library)
    for remark in library.diagnostics:
        if remark["severity"] == "warning":  # errors are told on stderr, whatever is printed
            yield f"  warning: {one_line(in_options(remark['message']))} [{remark['code']}]"


def _model_lines(models: Sequence[Model]) -> Iterator[str]:
    """The lines about models: the inputs, outputs and contents of each."""
    if models:
        yield f"  models     {len(models)}"
    room = TREE_LINES
    for done, model in enumerate(models):
        if room <= 0:
            yield f"    ... {len(models) - done} more: see --json"
            break
        name = f" {model.name!r}" if model.name else ""
        remark = "" if model.inputs is not None else ", inputs and outputs are known when it runs"
        yield one_line(f"[{model.entry}] {model.kind}{name}{remark}").join(("    ", ""))
        for title, values in (
            ("input", model.inputs), ("output", model.outputs), ("parameter", model.parameters),
        ):  # fmt: skip
            for value in (values or ())[:LISTED]:
                yield f"      {title:<10} {one_line(str(value))}"
            if values and len(values) > LISTED:
                yield f"      {title:<10} ... {len(values) - LISTED} more: see --entry {model.entry}"
            room -= 1 + min(len(values or ()), LISTED)


def _file_lines(library: Library) -> Iterator[str]:
    """The lines about the file: its kind and machine, its parts, its blob, its producer."""
    target, linking = library.target, linking_json(library.image)
    hints = ", ".join(hints_of(library.image))
    yield one_line(
        f"  target     {target['machine']}, {target['bits']} bits, {target['endian']} endian"
        + ("" if library.image.format == "elf" else f", {library.image.format}")
        + (f" ({hints})" if hints else "")
    ).join(("  ", ""))
    if library.members:
        shown = ", ".join(f"{m.name} ({m.kind})" for m in library.members[:LISTED])
        more = ", ..." if len(library.members) > LISTED else ""
        yield f"  {library.kind:<10} {one_line(_count(len(library.members), 'member') + ': ' + shown + more)}"
    if library.prefixes and library.prefixes != [""]:
        yield f"  prefixes   {one_line(', '.join(map(repr, library.prefixes[:LISTED])))}"
    yield f"  blob       {_blob_text(library)}"
    if library.era.range is not None and not (library.blob and library.blob.producer):
        yield f"  releases   TVM {library.era.range}, {library.era.dialect or 'any'} dialect"
    for name, value in (("needs", ", ".join(linking["needed"])), ("soname", linking["soname"]),
                        ("runpath", ":".join(linking["runpath"])), ("build-id", linking["build_id"])):  # fmt: skip
        if value:
            yield f"  {name:<10} {one_line(value)}"


def _listed(
    title: str, found: Sequence[str], always: bool = False, more: str = "--json"
) -> Iterator[str]:
    if found or always:
        yield f"  {title:<10} {len(found)}"
    yield from (f"    {line}" for line in found[:TREE_LINES])
    if len(found) > TREE_LINES:
        yield f"    ... {len(found) - TREE_LINES} more: see {more}"


def _undefined_lines(library: Library) -> Iterator[str]:
    """Undefined symbols by who provides them."""
    by: dict[str, list[str]] = {}
    for u in library.undefined_symbols:
        if not u.weak:
            by.setdefault(u.provider or "unknown", []).append(u.name)
    yield f"  undefined  {sum(map(len, by.values()))}"
    for provider, names in sorted(by.items()):
        shown = ", ".join(names[:LISTED]) + (f", ... ({len(names)})" if len(names) > LISTED else "")
        yield one_line(f"{provider}: {shown}").join(("    ", ""))
    if library.unloading:
        yield one_line(f"unloading  {library.unloading}").join(("  ", ""))


def describe_plugin(plugin: Plugin, library: Library) -> str:
    """A plug-in that the library carries, in one line: name, version, what it is for, what it
    needs, and where that is on this machine."""
    text = f"{plugin.name} {plugin.version}".rstrip()
    if plugin.type_keys:
        text += f"  opens {', '.join(plugin.type_keys)}"
    if plugin.devices:
        text += f"  devices {', '.join(map(str, plugin.devices))}"
    if not plugin.needs:
        return text
    elf = shared_elf(library)
    found = None if elf is None else place_of(elf, str(library.path), plugin)
    here = "" if found is None else f"; here it is {found}" if found else "; it is not here"
    return f"{text}  needs {plugin.needs}{here}"


def _blob_text(library: Library) -> str:
    blob = library.blob
    if blob is None:
        return "none"
    text = f"{blob.dialect}, {human_size(blob.size)} at {library.blob_offset:#x}"
    if blob.index_offset is None:
        return f"{text}, no index"
    return f"{text}, index by {one_line(blob.producer) or 'unknown'} for {one_line(blob.target) or 'any target'}"


def entry_lines(library: Library, entry: EntryView) -> Iterator[str]:
    """Everything of one entry."""
    content, facts = entry.content, entry.content.facts
    yield f"[{entry.index}] {one_line(entry.type_key)}"
    yield f"  imports    {_indices(library, entry.imports)}"
    yield f"  imported   {_indices(library, library.importers[entry.index])}"
    if entry.offset is not None:
        aligned = f", aligned to {entry.alignment}" if entry.alignment > 1 else ""
        yield f"  payload    {entry.size} bytes at {entry.offset:#x}{aligned}"
        digest = f"{entry.digest_algorithm} {entry.digest.hex()}" if entry.digest else "none"
        yield f"  digest     {digest}" + (", plain data" if entry.data else "")
    if content.problem is not None:
        yield f"  problem    {one_line(str(content.problem))}"
    for name, value in facts.items():
        if isinstance(value, (str, int)) or (
            isinstance(value, list) and all(isinstance(v, str) for v in value)
        ):
            yield one_line(
                f"{name:<10} {', '.join(value) if isinstance(value, list) else value}"
            ).join(("  ", ""))
    if code := facts.get("code"):
        yield one_line(
            f"code       {code['size']} bytes, {code['kind']} {code.get('target', '')}"
        ).join(("  ", ""))
    yield from _listed("kernels", list(kernel_lines([entry])))
    if "shaders" in facts:
        yield from _listed(
            "shaders", [one_line(f"{s['name']}  {human_size(s['size'])}") for s in facts["shaders"]]
        )
    if "graph" in facts:
        yield from _graph_lines(entry)
    if "executable" in facts:
        yield from _executable_lines(facts["executable"])
    if "symbols" in facts:
        found = [
            one_line(f"{s}: {', '.join(v) or 'no constants'}") for s, v in facts["symbols"].items()
        ]
        yield from _listed("symbols", found)
    tensors = content.tensors
    yield from _listed(
        "tensors",
        [one_line(f"{t.name}  {t.dtype}{list(t.shape)}  {human_size(t.size)} at {(entry.offset or 0) + t.offset:#x}")
         for t in tensors],
    )  # fmt: skip
    if entry.type_key in RELAX_EXECUTABLES and content.problem is None:
        yield from _bytecode_lines(library, entry)
    yield from _text_lines(entry)


def _text_lines(entry: EntryView) -> Iterator[str]:
    """The text of a payload, as far as people read it."""
    found = entry.text_beginning(TEXT_BYTES)
    if found is None:
        return
    text, left = found
    lines = text.splitlines()
    yield "  text"
    for line in lines[:TEXT_ROWS]:
        yield f"    {printable(line)}"
    more = len(lines) - TEXT_ROWS
    if left or more > 0:
        what = f"{left} bytes" if left else f"{more} lines"
        yield f"    ... {what} more: see mblob-pack extract"


def _indices(library: Library, indices: Sequence[int]) -> str:
    shown = ", ".join(f"{i} ({library.entries[i].type_key})" for i in indices[:LISTED])
    return one_line(shown + (f", ... ({len(indices)})" if len(indices) > LISTED else "")) or "none"


def _graph_lines(entry: EntryView) -> Iterator[str]:
    graph = entry.content.facts["graph"]
    nodes, _ = entry.graph() or ([], [])
    constants = {node.name for node in nodes if node.kind == "constant"}
    inputs = [v for v in graph["inputs"] if v["name"] not in constants]
    held = [v for v in graph["inputs"] if v["name"] in constants]
    yield f"  graph      {_count(graph['nodes'], 'node')}"
    for title, given in (("inputs", inputs), ("constants", held), ("outputs", graph["outputs"])):
        values = [one_line(f"{v['name']}  {v['dtype'] or '?'}{v['shape'] or ''}") for v in given]
        yield from _listed(title, values, always=title != "constants")
    yield from _listed(
        "operators",
        [one_line(f"{n} x {name}") for name, n in graph["operators"].items()],
        always=True,
    )
    yield from _listed("calls", [*_calls(nodes)], more="--html")
    if graph["storage"] is not None:
        yield f"  storage    {_count(graph['storage']['buffers'], 'buffer')}, {human_size(graph['storage']['bytes'])}"


def _calls(nodes: Sequence[GraphNode]) -> Iterator[str]:
    """The operators of a graph in their order, with types and shapes, as far as it tells them."""
    for number, node in enumerate(nodes):
        if node.kind != "operator":
            continue
        taken = []
        for source, at in node.inputs[:LISTED]:
            values = nodes[source].values if 0 <= source < number else ()
            taken.append(values[at] if 0 <= at < len(values) and values[at] else "?")
        more = ", ..." if len(node.inputs) > LISTED else ""
        made = ", ".join(value or "?" for value in node.values)
        yield one_line(f"{number:>4}  {node.operator}({', '.join(taken)}{more}) -> {made}")


def _executable_lines(machine: dict[str, Any]) -> Iterator[str]:
    constants = _count(machine["constants"], "constant")
    yield one_line(f"machine    {machine['machine']} {machine['version']}, {constants}").join(
        ("  ", "")
    )
    functions = [
        one_line(
            f"{f['kind']} {f['name']}({', '.join(f['params'])})  {_count(f['instructions'], 'instruction')}"
        )
        for f in machine["functions"]
    ]
    yield from _listed("functions", functions)
    expected = [
        one_line(f"{f['name']}: {name}  {annotation}")
        for f in machine["functions"]
        for name, annotation in f.get("expects", {}).items()
    ]
    yield from _listed("expected", expected)
    yield from _listed("primitives", [one_line(p) for p in machine.get("primitives", [])])


def _bytecode_lines(library: Library, entry: EntryView) -> Iterator[str]:
    """TVM's own listing of a program of Relax."""
    code = decode_payload(entry.type_key, entry.view(), library.grammars)["code"]
    yield "  bytecode"
    for line in relax_program(code, library.grammars).listing():
        indent = 4 + len(line) - len(line.lstrip())
        yield f"{'':{indent}}{one_line(line.strip())}".rstrip()
