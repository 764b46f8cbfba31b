"""Graphs and partitions as text that people read, in the notation that TVM prints Relay in."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from textwrap import wrap

from mblob.format.graph_json import NOP
from mblob.packager.byoc.annotate import Annotation, Tensors, check_keys, check_regions
from mblob.packager.byoc.composites import Match
from mblob.packager.byoc.graph import Graph, read_graph
from mblob.packager.byoc.operators import Composite, Operator, Region, Tensor
from mblob.packager.byoc.partition import Partition
from mblob.packager.byoc.region_numbers import region_numbers
from mblob.packager.errors import BuildTypeError

_BARE = re.compile(r"-?\d.*|\[.*\]|\(.*\)|true|false", re.IGNORECASE | re.DOTALL)
_NOT_SHOWN = ("hash",)  # attributes that say nothing about the operator
_WIDTH = 100  # of lists of names


def text(
    graph: Graph | Partition,
    keys: Mapping[int, str] | None = None,
    regions: Sequence[Sequence[int]] | None = None,
) -> str:
    """The result of a pass: the functions of a graph or partition in the notation of Relay.

    With `keys`, the line of each operator ends with the name of its node, the key or `host`, and
    the composite; the last lines name the patterns that matched nothing. With `regions`, it has the
    region, too, by the number at the end of its function's name.

    Args:
        graph: of `read_graph`, before `partition` has it, or what `partition` made.
        keys: of `annotate`.
        regions: of `merge`.
    """
    if isinstance(graph, Partition):
        return _partition(graph)
    if not isinstance(graph, Graph):
        raise BuildTypeError(f"text: expected a Graph or a Partition, found {type(graph).__name__}")
    Graph.check("text", graph)
    if keys is None:
        return _main(graph, {}, ())
    check_keys("text", graph, keys)
    check_regions("text", regions or (), keys)
    lines = [_main(graph, _marks(graph, keys, regions), ())]
    unmatched: dict[str, list[str]] = {}
    for key, name in keys.unmatched if isinstance(keys, Annotation) and regions is None else ():
        unmatched.setdefault(key, []).append(name)
    for key, names in unmatched.items():
        lines += wrap(
            f"{key}: nothing matches {', '.join(names)}",
            _WIDTH,
            initial_indent="// ",
            subsequent_indent="//   ",
            break_on_hyphens=False,
        )
    return "\n".join(lines)


def _marks(
    graph: Graph, keys: Mapping[int, str], regions: Sequence[Sequence[int]] | None
) -> dict[int, str]:
    """By node number, the end of the node's line."""
    composites = _numbered(keys.composites if isinstance(keys, Annotation) else ())
    numbers = region_numbers(graph, regions or ())
    region_of = {i: r for r, region in zip(numbers, regions or ()) for i in region}
    marks = {}
    for i, node in enumerate(graph.nodes):
        key = keys.get(i, "host")
        if regions is not None and i in keys:
            reshape = node.function == NOP
            left = (
                "a reshape at the edge of a region"
                if reshape
                else f"its region of {key} is too small"
            )
            key = f"{key}, region {region_of[i]}" if i in region_of else f"host, {left}"
        marks[i] = f"{node.name}: {key}" + (f", {composites[i]}" if i in composites else "")
    return marks


def _numbered(composites: Iterable[Match]) -> dict[int, str]:
    """The composite of each node; a number tells those of one name apart."""
    seen: Counter[str] = Counter()
    found = {}
    for match in composites:
        seen[match.name] += 1
        name = match.name + (f" ({seen[match.name]})" if seen[match.name] > 1 else "")
        found.update(dict.fromkeys(match.nodes, name))
    return found


def _main(graph: Graph, marks: Mapping[int, str], symbols: Iterable[str]) -> str:
    tensors = Tensors(graph, {})
    inputs = [tensors.of(node.outputs[0]) for node in graph.inputs]
    calls = [(i, tensors.operator(n)) for i, n in enumerate(graph.nodes) if not n.is_input]
    return _function(
        "main",
        {id(t): t.name for t in inputs},
        inputs,
        [],
        [o for _, o in calls],
        [tensors.of(v) for v in graph.heads],
        {id(o): marks[i] for i, o in calls if i in marks},
        frozenset(symbols),
    )


def _partition(parts: Partition) -> str:
    symbols = [region.symbol for region in parts.regions]
    return "\n\n".join(
        [_main(read_graph(parts.graph_json), {}, symbols), *map(_region, parts.regions)]
    )


def _region(region: Region) -> str:
    names = {id(t): name for name, t in zip(region.input_names, region.inputs)}
    names.update((id(t), t.name) for t in region.constants)
    composites = [c for c in region.calls if isinstance(c, Composite)]
    number = {id(o): i for i, o in enumerate(region.operators)}
    numbered = _numbered(Match(c.op, tuple(number[id(o)] for o in c.operators)) for c in composites)
    attrs = [
        f'{name}="{value}"'
        for name, value in (("Compiler", region.key), ("global_symbol", region.symbol))
    ]
    made = _function(
        region.symbol,
        names,
        region.inputs,
        ["Inline=1", *attrs, "Primitive=1"],
        region.operators,
        region.outputs,
        {id(o): numbered[i] for i, o in enumerate(region.operators) if i in numbered},
        frozenset(),
    )
    head, _, body = made.partition("\n")
    bound = [f"  // %{t.name} is {n}" for n, t in region.named_constants.items()]
    return "\n".join([head, *bound, body])


def _function(
    name: str,
    names: dict[int, str],
    inputs: Sequence[Tensor],
    attrs: Sequence[str],
    operators: Sequence[Operator],
    results: Sequence[Tensor],
    marks: Mapping[int, str],
    symbols: frozenset[str],
) -> str:
    """One function.

    Args:
        names: of the values from outside, by their ids; those of the operators are added.
        attrs: behind the inputs.
        marks: the end of an operator's line, by the operator's id.
        symbols: operators that are functions of the module.
    """
    parameters = [f"%{names[id(t)]}: {_type([t])}" for t in inputs]
    lines = [f"def @{name}({', '.join([*parameters, *attrs])}) -> {_type(results)} {{"]
    for number, operator in enumerate(operators):
        several = len(operator.outputs) > 1
        for i, tensor in enumerate(operator.outputs):
            names[id(tensor)] = f"{number}.{i}" if several else f"{number}"
        is_result = operator is operators[-1] and [*map(id, operator.outputs)] == [
            *map(id, results)
        ]
        line = f"{_call(operator, names, symbols)} /* ty={_type(operator.outputs)} */"
        line = f"  {line}" if is_result else f"  %{number} = {line};"
        lines.append(line + (f"  // {marks[id(operator)]}" if id(operator) in marks else ""))
    if not operators or not is_result:
        found = ", ".join(f"%{names[id(t)]}" for t in results)
        lines.append(f"  {found}" if len(results) == 1 else f"  ({found})")
    return "\n".join([*lines, "}"])


def _call(operator: Operator, names: Mapping[int, str], symbols: frozenset[str]) -> str:
    given = [f"%{names[id(t)]}" for t in operator.inputs]
    for name, value in operator.attrs.items():
        if value and name not in _NOT_SHOWN:
            given.append(f"{name}={value if _BARE.fullmatch(value) else json.dumps(value)}")
    return f"{'@' if operator.op in symbols else ''}{operator.op}({', '.join(given)})"


def _type(tensors: Sequence[Tensor]) -> str:
    types = [f"Tensor[({', '.join(map(str, t.shape))}), {t.dtype}]" for t in tensors]
    return types[0] if len(types) == 1 else f"({', '.join(types)})"
