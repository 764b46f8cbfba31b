"""Graphs of TVM's JSON runtimes: what dnnl_json, tensorrt and their like take.

graph = JsonGraph(region)
for operator in region.operators:
    graph.kernel("my.op", operator.inputs, operator.outputs, {"axis": 1})
return graph.module("my_json")
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mblob.arguments import wrong_type
from mblob.module import Module
from mblob.packager.byoc.operators import STAND_IN, Composite, Open, Region, Tensor
from mblob.packager.errors import BuildError, BuildTypeError
from mblob.packager.modules.payload_modules import json_module


class JsonGraph:
    """Builds the JSON of one region.

    It begins with the inputs and constants of the region, in the order of the arguments.

    Args:
        region: region with the tensors of the kernels.
        write_symbol: put the function's name into the JSON, as TVM does from 0.12 on; runtimes
            before that refuse it.
    """

    def __init__(self, region: Region, write_symbol: bool = True) -> None:
        if not isinstance(region, Region):
            raise wrong_type("JsonGraph", "region", "a Region", region, BuildTypeError)
        self._region = region
        self._write_symbol = write_symbol
        self._nodes: list[dict[str, Any]] = []
        self._rows = [0]
        self._entries: dict[int, list[int]] = {}
        for name, tensor in zip(region.input_names, region.inputs):
            self._leaf("input", name, tensor)
        for name, tensor in region.named_constants.items():
            self._leaf("const", name, tensor)

    def _leaf(self, op: str, name: str, tensor: Tensor) -> None:
        self._add({"op": op, "name": name, "attrs": _types([tensor])}, [tensor])

    def _add(self, node: dict[str, Any], outputs: Sequence[Tensor]) -> None:
        for i, tensor in enumerate(outputs):
            self._entries[id(tensor)] = [len(self._nodes), i, 0]
        self._nodes.append(node)
        self._rows.append(self._rows[-1] + len(outputs))

    def kernel(
        self,
        name: str,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a call of a kernel.

        Args:
            inputs: inputs or constants of the region, or outputs of kernels before this one.
            attrs: text, number, flag, or a sequence of these, each by name.

        Raises:
            BuildError: an input that no kernel makes.
        """
        for tensor in inputs:
            if id(tensor) not in self._entries:
                used = getattr(tensor, "name", tensor)
                raise BuildError(
                    f"{self._region.symbol}: {name} uses {used}, which no kernel before it makes"
                )
        made: dict[str, Any] = {
            "num_inputs": str(len(inputs)),
            "num_outputs": str(len(outputs)),
            **_types(outputs),
        }
        for key, value in (attrs or {}).items():
            if key in made:
                raise BuildError(
                    f"{self._region.symbol}: {name}: the attribute {key!r} is the format's own"
                )
            made[key] = [_texts(value)]
        entries = [self._entries[id(tensor)] for tensor in inputs]
        self._add({"op": "kernel", "name": name, "inputs": entries, "attrs": made}, outputs)

    def to_json(self) -> dict[str, Any]:
        """The graph.

        Raises:
            BuildError: a result of the region that no kernel makes.
        """
        region = self._region
        if missing := next((t for t in region.outputs if id(t) not in self._entries), None):
            raise BuildError(f"{region.symbol}: no kernel makes its result {missing.name}")
        made: dict[str, Any] = {"symbol": region.symbol} if self._write_symbol else {}
        made["nodes"] = self._nodes
        made["arg_nodes"] = list(range(len(region.inputs) + len(region.constants)))
        made["heads"] = [self._entries[id(t)] for t in region.outputs]
        made["node_row_ptr"] = self._rows
        return made

    def module(self, type_key: str) -> Module:
        """The region as a module of a JSON runtime, under `type_key`.

        Raises:
            BuildError: as of `to_json`, or a reserved key.
        """
        return json_module(
            type_key, self._region.symbol, self.to_json(), self._region.constant_names
        )


def region_json(region: Region) -> str:
    """A region as text, for code generators that are not written in Python: all operators, one by
    one. An operator of a composite has the attribute `composite`: name and number of the composite.
    An attribute with the name of a field of the format gets a `_` behind its name."""
    graph = JsonGraph(region)
    composites = [call for call in region.calls if isinstance(call, Composite)]
    inside = {id(o): [c.op, i] for i, c in enumerate(composites) for o in c.operators}
    for operator in region.operators:
        attrs: dict[str, Any] = {
            name + "_" * (name in _FIELDS): value for name, value in operator.attrs.items()
        }
        if id(operator) in inside:
            attrs["composite"] = inside[id(operator)]
        graph.kernel(operator.op, operator.inputs, operator.outputs, attrs)
    return json.dumps(graph.to_json())


_FIELDS = ("num_inputs", "num_outputs", "dtype", "shape", "composite")


def _types(tensors: Sequence[Tensor]) -> dict[str, Any]:
    shapes = [[[_extent(t, extent) for extent in t.shape] for t in tensors]]
    return {"dtype": [[t.dtype for t in tensors]], "shape": shapes}


def _extent(tensor: Tensor, extent: int) -> int | str:
    if isinstance(extent, Open):
        return extent.text
    if extent >= STAND_IN:
        raise BuildError(
            f"{tensor.name}: a size depends on an open size in a way that the graph cannot express; give the size"
        )
    return extent


def _texts(value: Any) -> list[str]:
    if isinstance(value, (list, tuple)):
        return [text for item in value for text in _texts(item)]
    return [str(int(value)) if isinstance(value, bool) else str(value)]
