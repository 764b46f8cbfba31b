"""Bring your own codegen: registered code generators make modules of parts of a graph.

`mblob.partition_graph` does everything. These are its single steps: `read_graph`, `annotate` (the
key of each operator, and the composites), `merge` (the regions), `partition` (the remaining graph
and the regions), `build` (the model). `text` shows what a step did.
"""

from mblob.packager.byoc import dnnl, relax
from mblob.packager.byoc.annotate import Annotation, annotate, as_records
from mblob.packager.byoc.build import build, partition_graph
from mblob.packager.byoc.builder import GraphBuilder
from mblob.packager.byoc.codegens import register_codegen
from mblob.packager.byoc.graph import Graph, Value, read_graph
from mblob.packager.byoc.json_graph import JsonGraph
from mblob.packager.byoc.merge import merge, operations
from mblob.packager.byoc.operators import Composite, Operator, Region, Tensor
from mblob.packager.byoc.partition import Partition, partition
from mblob.packager.byoc.patterns import is_constant, is_op, register_pattern_table, wildcard
from mblob.packager.byoc.text import text

__all__ = [
    "Annotation",
    "Composite",
    "Graph",
    "GraphBuilder",
    "JsonGraph",
    "Operator",
    "Partition",
    "Region",
    "Tensor",
    "Value",
    "annotate",
    "as_records",
    "build",
    "dnnl",
    "is_constant",
    "is_op",
    "merge",
    "operations",
    "partition",
    "partition_graph",
    "read_graph",
    "register_codegen",
    "register_pattern_table",
    "relax",
    "text",
    "wildcard",
]
