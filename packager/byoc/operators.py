"""The graph as predicates and code generators see it: operators, tensors, attributes.

A graph of kernels says what an operator computes in attributes of its node, which executors do not
read: `"op": "nn.conv2d"` and, beside it, what that operator is told in Relay (`"strides": "[1,
1]"`). Without `op` the name of the function stands for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mblob.errors import ArgumentValueError
from mblob.format.graph_json import CALL
from mblob.format.ndarray import ArrayRecord, as_record
from mblob.packager.errors import BuildError

OP = "op"  # the attribute that names the operator
_CALL = frozenset((*CALL, OP))


STAND_IN = 1 << 40  # extents of tensors that are known are below


class Open(int):
    """An extent that only a call tells, as a number above `STAND_IN` that rules can compute with: two
    extents have the same number if they are the same computation.

    Attributes:
        text: what engines get: a name, or a computation in postfix order, "n 2 *".
    """

    text: str

    def __new__(cls, number: int, text: str) -> Open:
        made = super().__new__(cls, number)
        made.text = text
        return made


@dataclass(eq=False)
class Tensor:
    """A value in a region or outside. All its uses share one object.

    Attributes:
        name: of an input of the graph: its own; else the operator's, with `:i` behind it for
            outputs after the first.
        shape: elements per dimension; an `Open` where only a call tells.
        dtype: "float32", ...
        constant: its elements, if it is a parameter of the graph.
        producer: the operator that makes it, in the region or before it; None for an input of the
            graph.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    constant: ArrayRecord | None = None
    producer: Operator | None = None

    @property
    def is_constant(self) -> bool:
        """True if its elements are known when the model is packed."""
        return self.constant is not None

    def numpy(self) -> Any:
        """A constant as a numpy array: a view of its bytes, read-only.

        Raises:
            ValueError: it is not a constant. TypeError: numpy has no such element type.
        """
        if self.constant is None:
            raise ArgumentValueError(
                f"{self.name} is no constant: its elements are known when the graph runs"
            )
        import numpy as np  # who asks for an array has it

        return np.frombuffer(self.constant.data, np.dtype(self.dtype)).reshape(self.constant.shape)

    def __repr__(self) -> str:
        return f"<Tensor {self.name} {self.dtype}{list(self.shape)}{' constant' if self.is_constant else ''}>"


def constant_tensor(name: str, array: Any) -> Tensor:
    """A constant, of a numpy array."""
    import numpy as np  # who has a frontend's module has it

    kept = np.ascontiguousarray(array)
    return Tensor(name, kept.shape, str(kept.dtype), as_record(kept))


@dataclass(eq=False)
class Operator:
    """One node of a graph that calls a function.

    Attributes:
        name: of the node.
        op: what it computes: the attribute `op`, else the function's name.
        function: what a plain executor calls.
        attrs: its attributes as texts, without those that every node has.
        inputs, outputs: tensors, in the order of the arguments.
    """

    name: str
    op: str
    function: str
    attrs: Mapping[str, str]
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor] = field(default_factory=tuple)

    def text(self, name: str, default: str | None = None) -> str:
        """The attribute `name`, or `default`; spaces and quotes around it are left out.

        Raises:
            BuildError: it is not there, and there is no default.
        """
        found = self.attrs.get(name, default)
        if found is None:
            raise BuildError(f"graph: node {self.name!r} ({self.op}): no attribute {name!r}")
        return found.strip().strip("\"'")

    def ints(
        self, name: str, default: Sequence[int] | None = None, count: int | None = None
    ) -> tuple[int, ...]:
        """The attribute `name`, whole numbers: "2", "2, 2", "[2, 2]" and "(2, 2)" are the same.

        Args:
            name: of the attribute.
            default: what it is where it is not there.
            count: how many are needed; one alone stands for all.

        Raises:
            BuildError: it is not there, or something else.
        """
        if name not in self.attrs and default is not None:
            return tuple(default)
        text = self.text(name)
        body = text[1:-1] if text[:1] + text[-1:] in ("[]", "()") else text
        words = [word for word in re.split(r"[\s,]+", body) if word]
        if not all(re.fullmatch(r"-?[0-9]{1,18}", word) for word in words):
            raise BuildError(
                f"graph: node {self.name!r} ({self.op}): {name}: expected whole numbers, found {text!r}"
            )
        found = tuple(map(int, words))
        if count is not None and len(found) == 1:
            found *= count
        if count is not None and len(found) != count:
            numbers = "one number" if count == 1 else f"{count} numbers"
            raise BuildError(
                f"graph: node {self.name!r} ({self.op}): {name}: expected {numbers}, found {text!r}"
            )
        return found

    def integer(self, name: str, default: int | None = None) -> int:
        """The attribute `name`, one whole number, or `default`.

        Raises:
            BuildError: it is not there, or something else.
        """
        (found,) = self.ints(name, None if default is None else (default,), 1)
        return found

    def flag(self, name: str, default: bool = False) -> bool:
        """The attribute `name`, or `default`: true or false, "1", "0", "true", "False".

        Raises:
            BuildError: it is something else.
        """
        text = self.text(name, str(default))
        if text.lower() not in ("0", "1", "true", "false"):
            raise BuildError(
                f"graph: node {self.name!r} ({self.op}): {name}: expected true or false, found {text!r}"
            )
        return text.lower() in ("1", "true")

    def number(self, name: str, default: float | None = None) -> float:
        """The attribute `name`, a number, or `default`.

        Raises:
            BuildError: it is not there, or no number.
        """
        text = self.text(name, None if default is None else repr(default))
        try:
            return float(text)
        except ValueError:
            what = f"graph: node {self.name!r} ({self.op}): {name}"
            raise BuildError(f"{what}: expected a number, found {text!r}") from None

    def __repr__(self) -> str:
        return f"<Operator {self.name} {self.op}>"


@dataclass(eq=False)
class Composite(Operator):
    """Operators that a pattern made one: what a code generator computes at once.

    `name` is that of the last operator, `op` the name of the pattern, and `outputs` are those of the
    last operator. `inputs` are the values from outside, in the order in which the operators use them.

    Attributes:
        operators: in an order in which they can run. Their attributes say what each computes.
    """

    operators: Sequence[Operator] = ()

    @classmethod
    def of(cls, name: str, operators: Sequence[Operator]) -> Composite:
        """The composite of operators, in an order in which they can run."""
        inside = {id(t) for o in operators for t in o.outputs}
        outer = tuple(t for o in operators for t in o.inputs if id(t) not in inside)
        last = operators[-1]
        return cls(
            last.name,
            name,
            function="",
            attrs={},
            inputs=outer,
            outputs=last.outputs,
            operators=operators,
        )

    def __repr__(self) -> str:
        return f"<Composite {self.op} of {', '.join(o.name for o in self.operators)}>"


@dataclass(eq=False)
class Region:
    """A part of a graph. The code generator makes a module with a function `symbol` of it.

    That function is called with `inputs`, then `outputs`, which it writes. `__init_<symbol>`, if
    the module has it, is called once before, with `constants` in their order (docs/runtime.md,
    const_loader).

    Attributes:
        key: the key of its code generator.
        symbol: name of the function.
        operators: in an order in which they can run; never empty.
        calls: the same, with a `Composite` in place of the operators that it is made of.
        inputs: tensors from outside, without constants.
        constants: parameters of the graph that it uses.
        outputs: tensors that other nodes use or the graph returns; never empty.
        constant_names: names of the stored constants, in their order.
    """

    key: str
    symbol: str
    operators: Sequence[Operator]
    inputs: Sequence[Tensor]
    constants: Sequence[Tensor]
    outputs: Sequence[Tensor]
    constant_names: Sequence[str] = ()
    calls: Sequence[Operator] = ()

    def __post_init__(self) -> None:
        self.calls = self.calls or self.operators

    @property
    def input_names(self) -> list[str]:
        """The names of the inputs in TVM's texts: dnnl_0_i0, ..."""
        number = self.symbol.rpartition("_main_")[2]
        return [f"{self.key}_{number}_i{i}" for i in range(len(self.inputs))]

    @property
    def named_constants(self) -> dict[str, Tensor]:
        """The constants by the names under which const_loader stores them. `Tensor.name` is the name
        of the graph's parameter."""
        return dict(zip(self.constant_names, self.constants))


def own_attrs(attrs: Mapping[str, str]) -> dict[str, str]:
    """Of a node's attributes those that tell about the operator."""
    return {key: text for key, text in attrs.items() if key not in _CALL}
