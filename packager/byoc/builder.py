"""`GraphBuilder`: a graph said operator by operator, whose storage is planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mblob import arguments
from mblob.devices import Device
from mblob.dtype import NAMES, DataType, type_text
from mblob.format.graph_json import BYTES_LIMIT, COPY, NOP
from mblob.format.ndarray import as_record
from mblob.packager.byoc.graph import Graph, Node, Value, call_attrs, write_graph
from mblob.packager.byoc.storage import plan_storage
from mblob.packager.errors import BuildError, BuildTypeError, refused
from mblob.packager.path_arguments import as_json, checked

if TYPE_CHECKING:
    from mblob.typed import ElementType, Shape

_CPU = 1


class GraphBuilder:
    """A graph for the graph executor, operator by operator.

        g = mblob.GraphBuilder()
        x = g.input("x", (1, 64))
        w = g.param("weight", weight)
        y = g.call("dense", [x, w], (1, 10))
        g.output(y)
        model = mblob.graph_executor_factory(g)

    Operators run in the order in which they are added, or at the same time if they do not depend on
    each other. Values that are never needed at the same time share memory; inputs, parameters and
    outputs have their own.

    Attributes:
        params: the arrays that `param` was given, by name.
    """

    def __init__(self) -> None:
        self.params: dict[str, Any] = {}
        self._nodes: list[Node] = []
        self._heads: list[Value] = []
        self._values: dict[int, Value] = {}
        self._names: set[str] = set()
        self._devices = False  # whether one was given

    # -- values that come from outside -------------------------------------------------------------

    def input(
        self, name: str, shape: Shape, dtype: ElementType = "float32", device: Device | None = None
    ) -> Value:
        """An input, which `set_input` sets before a run.

        Args:
            device: kind of the device with its memory, by default the cpu. The number of the device
                is ignored: the caller of the executor chooses it.

        Raises:
            BuildError: the name is taken, the dtype is unknown, or the shape has too many bytes.
            TypeError, ValueError: an argument of the wrong type, or a negative dimension.
        """
        return self._input("input", name, shape, dtype, device)

    def _input(
        self, who: str, name: str, shape: Shape, dtype: ElementType, device: Device | None
    ) -> Value:
        where = f"{who} {name!r}"
        node = Node(self._name(who, name), True)
        return self._add(node, [(shape, dtype)], where, self._device(where, device))[0]

    def param(self, name: str, array: Any, device: Device | None = None) -> Value:
        """A parameter: an input whose array is packed with the graph.

        Args:
            name: its name in the graph.
            array: anything with the buffer protocol, an array of ml_dtypes, or a tensor; kept, not
                copied, until it is written.
            device: as of `input`.

        Raises:
            BuildError: it is no array; else as of `input`.
        """
        try:
            record = as_record(array)
        except TypeError as exc:
            raise refused(exc, f"param {name!r}") from None
        value = self._input("param", name, record.shape, str(record.dtype), device)
        self.params[name] = array
        return value

    # -- operators ---------------------------------------------------------------------------------

    def call(
        self,
        function: str,
        inputs: Sequence[Value],
        shape: Shape,
        dtype: ElementType = "float32",
        *,
        name: str | None = None,
        attrs: Mapping[str, Any] | None = None,
        device: Device | None = None,
    ) -> Value:
        """A call of a function that takes the inputs, then the output.

        Args:
            function: its name in the library.
            inputs: values of this graph.
            shape, dtype: of the output.
            name: of the operator, by default that of the function, with a number if it is taken.
            attrs: what the operator is, for code generators: `op="nn.conv2d", strides=[2, 2]`.
                Executors do not read them. What is no text becomes one, as JSON.
            device: where the output is; by default where the inputs are.

        Raises:
            BuildError: an input of another graph, inputs on several devices, an attribute that the
                graph has itself; else as of `input`.
        """
        outputs = [(shape, dtype)]
        return self.call_many(function, inputs, outputs, name=name, attrs=attrs, device=device)[0]

    def call_many(
        self,
        function: str,
        inputs: Sequence[Value],
        outputs: Sequence[tuple[Shape, ElementType]],
        *,
        name: str | None = None,
        attrs: Mapping[str, Any] | None = None,
        device: Device | None = None,
    ) -> list[Value]:
        """As `call`, with any number of outputs.

        Args:
            outputs: shape and dtype of each.
            function, inputs, name, attrs, device: as of `call`.
        """
        checked(arguments.name, "call", "function", function)
        node = Node(self._name("call", name, function), False)
        where = f"operator {node.name!r}"
        node.inputs = self._known(where, inputs)
        kind = self._device(where, device, node.inputs)
        pairs = "a list of (shape, dtype)"
        outputs = arguments.items(where, "outputs", outputs, pairs, BuildTypeError)
        node.attrs = call_attrs(function, len(node.inputs), len(outputs))
        if attrs is not None:
            arguments.mapping(where, "attrs", attrs, "a dict of attributes by name", BuildTypeError)
        for key, value in (attrs or {}).items():
            if key in node.attrs:
                raise BuildError(f"{where}: attrs: {key!r} is written by the graph itself")
            if not isinstance(key, str):
                raise arguments.wrong_type(where, "attrs", "names as str", key, BuildTypeError)
            text = value if isinstance(value, str) else as_json(value, f"{where}: attrs[{key!r}]")
            node.attrs[key] = text
        return self._add(node, outputs, where, kind)

    def reshape(self, value: Value, shape: Shape, *, name: str | None = None) -> Value:
        """The elements of `value` in another `shape`: the same memory, and no call. `name`: of the node.

        Raises:
            BuildError: another number of bytes; else as of `call`.
        """
        where = f"operator {name or 'reshape'!r}"
        self._known(where, [value])
        view = Value(value.node, 0, _extents(where, shape), value.dtype)
        if view.size != value.size:
            raise BuildError(
                f"{where}: expected a shape of {value.size} bytes, as {list(value.shape)} has, found"
                f" {list(view.shape)} with {view.size}"
            )
        name = self._name("reshape", name, "reshape")
        made = self.call(NOP, [value], view.shape, view.dtype, name=name)
        made.node.shares[0] = value
        return made

    def copy(self, value: Value, device: Device, *, name: str | None = None) -> Value:
        """A copy of `value` on another `device`. `name`: of the node."""
        self._known("copy", [value])
        name = self._name("copy", name, "copy")
        return self.call(COPY, [value], value.shape, value.dtype, name=name, device=device)

    # -- the graph ---------------------------------------------------------------------------------

    def output(self, *values: Value) -> None:
        """Append `values` to the outputs of the graph.

        Raises:
            BuildError: a value of another graph.
        """
        self._heads += self._known("output", values)

    def graph_json(self) -> str:
        """The graph as the text that executors read.

        Raises:
            BuildError: it has no output.
        """
        if not self._heads:
            raise BuildError("GraphBuilder: no output yet; call g.output(value)")
        graph = Graph(self._nodes, [n for n in self._nodes if n.is_input], self._heads)
        for value in graph.values():
            value.device = (value.device or _CPU) if self._devices else None
        return write_graph(graph, plan_storage(graph))

    def __repr__(self) -> str:
        inputs = sum(n.is_input for n in self._nodes)
        return (
            f"<mblob.GraphBuilder: {inputs - len(self.params)} inputs, {len(self.params)} params,"
            f" {len(self._nodes) - inputs} operators, {len(self._heads)} outputs>"
        )

    # -- checks ------------------------------------------------------------------------------------

    def _name(self, who: str, name: str | None, function: str = "") -> str:
        if name is None:
            name, number = function, 0
            while name in self._names:
                number += 1
                name = f"{function}_{number}"
        checked(arguments.name, who, "name", name)
        if name in self._names:
            raise BuildError(f"{who}: the name {name!r} is taken; names are of one node each")
        return name

    def _known(self, where: str, values: Sequence[Value]) -> list[Value]:
        if isinstance(values, Value):
            raise BuildError(f"{where}: inputs: expected a list of values; write [value]")
        values = arguments.items(where, "inputs", values, "a list of values", BuildTypeError)
        for i, value in enumerate(values):
            if not isinstance(value, Value):
                raise arguments.wrong_type(
                    where, f"value {i}", "a value of this graph", value, BuildTypeError
                )
            if self._values.get(id(value)) is not value:
                raise BuildError(f"{where}: value {i} ({value!r}) is of another graph")
        return values

    def _device(self, where: str, device: Device | None, inputs: Sequence[Value] = ()) -> int:
        """The kind of the device of what a node makes."""
        if device is not None:
            if not isinstance(device, Device):
                raise arguments.wrong_type(
                    where, "device", "a Device such as mblob.cpu(0)", device, BuildTypeError
                )
            self._devices = True
            return device.device_type
        kinds = {value.device or _CPU for value in inputs} or {_CPU}
        if len(kinds) > 1:
            names = " and ".join(Device(kind).name for kind in sorted(kinds))
            raise BuildError(
                f"{where}: inputs on {names}; copy them to one device (g.copy), or say where the"
                " output is (device=)"
            )
        return kinds.pop()

    def _add(
        self, node: Node, outputs: Sequence[tuple[Any, Any]], where: str, device: int
    ) -> list[Value]:
        for i, output in enumerate(outputs):
            if not isinstance(output, (tuple, list)) or len(output) != 2:
                raise BuildTypeError(
                    f"{where}: outputs[{i}]: expected (shape, dtype), found {output!r}"
                )
            shape, dtype = output
            value = Value(node, i, _extents(where, shape), _element(where, dtype), device=device)
            if value.size >= BYTES_LIMIT:
                raise BuildError(f"{where}: shape {list(value.shape)} has more than 2^62 bytes")
            node.outputs.append(value)
        self._nodes.append(node)
        self._names.add(node.name)
        self._values.update((id(value), value) for value in node.outputs)
        return list(node.outputs)


def _extents(where: str, shape: Any) -> tuple[int, ...]:
    if isinstance(shape, (str, bytes)) or not hasattr(shape, "__iter__"):
        shape = (shape,)
    return tuple(
        checked(arguments.whole, where, f"shape[{i}]", n, 0, BYTES_LIMIT)
        for i, n in enumerate(shape)
    )


def _element(where: str, dtype: Any) -> str:
    try:
        element = DataType.parse(type_text(where, "dtype", dtype))
    except (TypeError, ValueError):
        element = None
    if element is None or NAMES.get(element.code) == "handle":
        raise BuildError(f"{where}: dtype: {dtype!r} is no element type, as float32 is")
    return str(element)
