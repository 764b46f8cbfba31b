"""From a graph to a library that runs it in parts: annotate, merge, cut, generate, put together."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mblob.arguments import mapping, wrong_type
from mblob.binary.file_kind import THIN_MAGIC
from mblob.bytes.mapping import map_file
from mblob.errors import MblobError
from mblob.format.graph_json import COPY, NOP
from mblob.module import Module, Node
from mblob.packager.byoc.annotate import Targets, annotate, as_records
from mblob.packager.byoc.codegens import Codegen, codegen_of, generated
from mblob.packager.byoc.graph import read_graph
from mblob.packager.byoc.merge import merge, operations
from mblob.packager.byoc.operators import Operator, Region
from mblob.packager.byoc.partition import Partition, partition
from mblob.packager.byoc.text import text
from mblob.packager.errors import BuildError, BuildTypeError
from mblob.packager.modules.host_modules import csource_module
from mblob.packager.modules.nodes import HostNode, ObjectNode, PayloadNode, SourceNode, node_of
from mblob.packager.modules.payload_modules import (
    const_loader_module,
    graph_executor_factory,
    text_and_params,
)

if TYPE_CHECKING:
    from mblob.typed import GraphJson


def partition_graph(
    graph_json: GraphJson,
    params: Mapping[str, Any] | Any,
    host: Module | None,
    targets: Targets,
    *,
    name: str = "default",
    min_size: int = 1,
    min_cost: float = 0,
    cost: Callable[[Operator], float] = operations,
    codegens: Mapping[str, Codegen] | None = None,
    trace: Callable[[str], object] | None = None,
) -> Module:
    """Split a model between code generators and `host`.

    For each operator, the first of `targets` that takes it decides its key. Operators that none of
    them takes run in `host`. Connected operators of one key become a region, as
    large as possible. The key's code generator makes a module of each region, and the graph calls
    these modules. The result is the tree that TVM makes: a GraphExecutorFactory imports a
    const_loader, which imports `host` and the modules of the regions.

    Args:
        graph_json: of the graph executor: text, parsed, or a `GraphBuilder`.
        params: name -> array, or the bytes of `save_param_dict`; None: those of the
            builder. Parameters that regions use become constants of the regions. They are no longer
            inputs of the model, unless the rest of the graph uses them.
        host: the module with the functions of all operators that stay in the graph; None if there
            are none.
        targets: key -> predicate, called with an `mblob.byoc.Operator`; or key -> pattern table; or
            the keys of registered pattern tables (`mblob.byoc.annotate`).
        name: of the function that makes the model's executor.
        min_size: regions of fewer operators stay in the graph.
        min_cost: regions whose operators cost less in sum stay in the graph.
        cost: of an operator, by default an estimate of its arithmetic operations.
        codegens: generators for this call, before the registered ones.
        trace: called after each pass with a text that shows what it did, such as `print`.

    Raises:
        BuildError: the graph is wrong, or `params` do not fit it; operators need `host`, and it is
            None; a key has no generator; or a generator fails (the cause is kept), or returns no
            module with the region's function.
        MblobError: a predicate or generator raised an error of mblob. The text begins with the key
            and the operator or region.
    """
    if trace is not None and not callable(trace):
        raise wrong_type(
            "partition_graph", "trace", "a function such as print", trace, BuildTypeError
        )
    found, built = text_and_params(graph_json)
    graph = read_graph(found)
    records = as_records(built if params is None else params)

    def show(step: str, *of: Any) -> None:
        if trace is not None:
            trace(f"// {step}\n{text(*of)}\n")

    show("read_graph", graph)
    keys = annotate(graph, targets, records)
    show("annotate", graph, keys)
    regions = merge(graph, keys, min_size, min_cost=min_cost, cost=cost)
    show("merge", graph, keys, regions)
    parts = partition(graph, regions, keys, records, name)
    show("partition", parts)
    return build(parts, host, name=name, codegens=codegens)


def build(
    parts: Partition,
    host: Module | None,
    *,
    name: str = "default",
    codegens: Mapping[str, Codegen] | None = None,
) -> Module:
    """The model of a partition: generates its code and packs its constants.

    Args:
        parts: what `partition` made.
        host, name, codegens: as of `partition_graph`.

    Raises:
        As of `partition_graph`.
    """
    if not isinstance(parts, Partition):
        raise wrong_type("build", "parts", "what partition returns", parts, BuildTypeError)
    if codegens is not None:
        mapping(
            "partition_graph", "codegens", codegens, "a dict of functions by key", BuildTypeError
        )
        for key, codegen in codegens.items():
            if not callable(codegen):
                what = f"codegens: {key!r}"
                raise wrong_type("partition_graph", what, "a function", codegen, BuildTypeError)
    if host is not None and not isinstance(host, Module):
        raise wrong_type("partition_graph", "host", "a Module or None", host, BuildTypeError)
    modules = [_generate(region, codegens or {}) for region in parts.regions]
    if host is None:
        _check_no_host(parts)
    library = host if host is not None else csource_module("", "c")
    if modules:
        constants = {n: t.constant for r in parts.regions for n, t in r.named_constants.items()}
        symbols = {r.symbol: list(r.constant_names) for r in parts.regions}
        loader = const_loader_module(constants, symbols)
        for module in (library, *dict.fromkeys(modules)):
            loader.import_module(module)
        library = loader
    factory = graph_executor_factory(parts.graph_json, parts.params, name)
    factory.import_module(library)
    return factory


def _check_no_host(parts: Partition) -> None:
    """Refuse a model without a host whose graph calls more than its regions.

    Raises:
        BuildError: naming the node and its function.
    """
    regions = {region.symbol for region in parts.regions}
    for node in json.loads(parts.graph_json)["nodes"]:
        function = node.get("attrs", {}).get("func_name", NOP)
        if function not in (NOP, COPY) and function not in regions:
            raise BuildError(
                f"partition_graph: host is None, and node {node['name']!r} stays with the graph: no predicate takes it,"
                f" or nothing uses its result; pass the module that has {function}, or a graph without the node"
            )


def _generate(region: Region, codegens: Mapping[str, Codegen]) -> Module:
    codegen = codegens.get(region.key) or codegen_of(region.key)
    try:
        made = generated(codegen, region)
    except MblobError as error:
        error.prefix(f"the code generator of {region.key!r}, for {region.symbol}")
        raise
    except Exception as error:
        raise BuildError(
            f"the code generator of {region.key!r} failed for {region.symbol}: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(made, Module):
        raise BuildTypeError(
            f"the code generator of {region.key!r} gave {type(made).__name__} for {region.symbol}, expected a Module"
        )
    if all(_lacks(node_of(module), region.symbol) for module in made.walk()):
        raise BuildError(
            f"the code generator of {region.key!r} gave a module ({made.type_key}) without a function {region.symbol}"
        )
    return made


# Names may be made, or come from other files.
_ELSEWHERE = re.compile(r'##|^\s*#\s*include\s*"|^-include', re.MULTILINE)


def _lacks(node: Node, symbol: str) -> bool:
    """True if a module's content cannot have that function. False where only a compiler or runtime
    can tell.

    Raises:
        OSError: the file of a host module cannot be read.
    """
    if isinstance(node, PayloadNode):
        return node.only_function is not None and node.only_function != symbol
    if isinstance(node, HostNode) and symbol in (p.name for p in node.declared.functions):
        return False
    if isinstance(node, SourceNode):
        text = "\n".join((node.text(), *node.options))
        return symbol not in text and not _ELSEWHERE.search(text)
    if isinstance(node, ObjectNode) and node.declared.functions:
        content = node.content if isinstance(node.content, bytes) else map_file(node.content)
        thin_or_lto = bytes(content[: len(THIN_MAGIC)]) == THIN_MAGIC or re.search(
            rb"\.gnu\.lto_", content
        )
        return not thin_or_lto and not re.search(re.escape(symbol.encode()), content)
    return False
