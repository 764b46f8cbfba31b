"""The calls of a Relax program as graphs: one for each function of bytecode.

What only serves the calls is left out: checks of arguments, storage, and shapes that nothing but
storage is made of. A kernel writes the tensors that were allocated for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mblob.dtype import DataType
from mblob.format.grammar import text
from mblob.inspect.graph_summary import GraphNode
from mblob.inspect.relax_program import (
    CALL,
    CODE,
    CONSTANT,
    GOTO,
    IF,
    IMMEDIATE,
    REGISTER,
    RET,
    VOID,
    Constant,
    Function,
    Instruction,
    Program,
    unknown_opcode,
)
from mblob.named_tuple import NamedTuple
from mblob.relax_texts import annotated

NODES = 8000  # of one function
INSTRUCTIONS = 200_000  # of a program whose calls are drawn
BRANCHES = 500  # of one function; of more only the first are followed
SOURCES = 8  # of one value, which branches may give
_LETTERS = 60  # of a constant

_BUILTIN = "vm.builtin."
_CHECKS = (
    "check_func_info check_prim_value_info check_shape_info check_string_info check_tensor_info check_tuple_info "
    "match_prim_value match_shape"
)
_LEFT_OUT = frozenset(
    f"{_BUILTIN}{name}"
    for name in (
        *_CHECKS.split(),
        "alloc_shape_heap",
        "alloc_storage",
        "null_value",
    )
)
_ALLOC_TENSOR, _MAKE_SHAPE, _HEAP = (
    f"{_BUILTIN}{name}" for name in ("alloc_tensor", "make_shape", "alloc_shape_heap")
)
_SAME = (f"{_BUILTIN}copy", f"{_BUILTIN}read_if_cond")  # give what they take
_OF_STORAGE = (f"{_BUILTIN}alloc_storage", _ALLOC_TENSOR)

Sources = tuple[tuple[int, int], ...]


class FunctionGraph(NamedTuple):
    """The calls of one function.

    Attributes:
        name: of the function.
        nodes, heads: as of `graph_summary.nodes_of`.
        left_out: instructions that have no node because there are too many.
    """

    name: str
    nodes: list[GraphNode]
    heads: list[tuple[int, int]]
    left_out: int


def graphs_of(
    program: Program,
    functions: Sequence[Mapping[str, Any]],
    meant: Callable[[DataType], DataType],
) -> tuple[list[FunctionGraph], dict[str, str]]:
    """The calls of each function that has some; and what the constants are, by name.

    Args:
        functions: facts of the functions, for names and types of parameters.
        meant: the element type that a stored one is.
    """
    constants = [_constant_text(c, meant) for c in program.constants]
    graphs = [
        _Graph(program, constants, f).graph(facts)
        for f, facts in zip(program.functions, functions)
        if f.kind == CODE and f.num_args >= 0
    ]
    return graphs, {f"constant {i}": text for i, text in enumerate(constants)}


def _constant_text(constant: Constant, meant: Callable[[DataType], DataType]) -> str:
    """A constant in short."""
    kind, value = constant
    if kind == "tensor":
        return f"{meant(value.dtype)}{_extents(value.shape)}"
    if kind == "dtype":
        return str(meant(value))
    if kind == "shape":
        shown = _extents(value[:_LETTERS])
    elif kind == "string":
        shown = repr(text(value[: 4 * _LETTERS]))
    else:
        shown = str(value)
    return shown if len(shown) <= _LETTERS else f"{shown[: _LETTERS - 4]} ..."


def _extents(shape: Sequence[int]) -> str:
    return f"[{', '.join(map(str, shape))}]"


class _Flow(NamedTuple):
    """The state where code goes on: the nodes that gave the value of each register, and the
    innermost If (-1: none)."""

    given: dict[int, Sources]
    branch: int


class _Graph:
    """A function on its way to a graph. Registers are written once, but for branches."""

    def __init__(self, program: Program, constants: Sequence[str], function: Function) -> None:
        self._program, self._constants, self._function = program, constants, function
        self._code = list(program.instructions(function))
        self._nodes: list[GraphNode] = []
        self._heads: list[tuple[int, int]] = []
        self._flow = _Flow({}, -1)
        self._arriving: dict[int, list[_Flow]] = {}
        self._around: dict[int, int] = {}  # of each If the one that it is inside of
        self._of_constant: dict[int, int] = {}
        self._types: dict[int, str] = {}  # of registers
        self._fresh: set[int] = set()  # registers with tensors that nothing has written yet
        self._used = self._used_shapes()

    def graph(self, facts: Mapping[str, Any]) -> FunctionGraph:
        """The graph."""
        names, expected = facts["params"], facts.get("expects", {})
        for i in range(min(self._function.num_args, NODES)):
            name = names[i] if i < len(names) else f"argument {i}"
            annotation = expected.get(name)
            value = annotated(annotation).text if annotation is not None else ""
            self._flow.given[i] = ((self._add("input", name, "", (), (value,)), 0),)
        runs, left_out = True, 0
        for k, found in enumerate(self._code):
            runs = self._arrive(k, runs)
            if len(self._nodes) >= NODES:
                left_out = len(self._code) - k
                break
            runs = self._take(k, found) and runs
        heads = list(dict.fromkeys(self._heads))
        return FunctionGraph(self._function.name, self._nodes, heads, left_out)

    def _used_shapes(self) -> set[int]:
        """Registers that something else than storage takes."""
        used = set()
        for found in self._code:
            if found.opcode == RET:
                used.add(found.target)
            elif found.opcode == CALL and self._name(found) not in _OF_STORAGE:
                used.update(self._registers(found))
        return used

    def _name(self, call: Instruction) -> str:
        return self._program.functions[call.target].name

    def _add(
        self, kind: str, name: str, operator: str, inputs: Sources, values: tuple[str, ...]
    ) -> int:
        self._nodes.append(GraphNode(kind, name, operator, inputs, values))
        return len(self._nodes) - 1

    # -- the way of the code -----------------------------------------------------------------------

    def _arrive(self, k: int, runs: bool) -> bool:
        """Join the ways that lead to instruction `k`; whether there are any."""
        flows = [*self._arriving.pop(k, ()), *([self._flow] if runs else ())]
        if len(flows) > 1:
            given: dict[int, Sources] = {}
            for register in dict.fromkeys(r for flow in flows for r in flow.given):
                found = dict.fromkeys(s for flow in flows for s in flow.given.get(register, ()))
                given[register] = tuple(found)[:SOURCES]
            branch = min(flow.branch for flow in flows)
            if all(flow.branch == branch for flow in flows):
                branch = self._around.get(branch, -1)
            self._flow = _Flow(given, branch)
        elif flows:
            self._flow = flows[0]
        return bool(flows) or runs

    def _go(self, to: int, branch: int) -> None:
        if to > 0 and len(self._arriving) < BRANCHES:
            self._arriving.setdefault(to, []).append(_Flow(dict(self._flow.given), branch))

    def _take(self, k: int, found: Instruction) -> bool:
        """One instruction; whether the next one follows it."""
        if found.opcode == CALL:
            self._call(k, found)
            return True
        if found.opcode == RET:
            self._heads += self._flow.given.get(found.target, ())
            return False
        if found.opcode == GOTO:
            self._go(k + found.target if found.target > 0 else 0, self._flow.branch)
            return False
        if found.opcode != IF:
            raise unknown_opcode(found)
        condition = self._flow.given.get(found.target, ())
        branch = self._add("operator", self._text(k, found), "If", condition, ())
        self._around[branch] = self._flow.branch
        self._go(k + found.other, branch)
        self._flow = _Flow(self._flow.given, branch)
        return True

    def _text(self, k: int, found: Instruction) -> str:
        return f"{k}: " + " ".join(self._program.line(found).split())

    # -- calls -------------------------------------------------------------------------------------

    @staticmethod
    def _registers(call: Instruction) -> list[int]:
        return [v for kind, v in call.operands if kind == REGISTER and v < VOID]

    def _call(self, k: int, call: Instruction) -> None:
        name, to = self._name(call), call.other
        if name == _ALLOC_TENSOR:
            self._fresh.add(to)
            self._types[to] = self._allocated(call)
        elif name == _MAKE_SHAPE and to not in self._used:
            self._types[to] = self._made_shape(call)
        elif name in _SAME and call.operands:
            self._flow.given[to] = self._sources(*call.operands[0])
        elif name not in _LEFT_OUT and not self._is_of_shapes(call):
            self._draw(k, call, name)
        elif name == _HEAP:
            self._types[to] = _HEAP

    def _is_of_shapes(self, call: Instruction) -> bool:
        """True if it calls a kernel that computes extents: the kernel takes the heap alone."""
        registers = self._registers(call)
        return (
            len(call.operands) == 1
            and registers[:1] != []
            and self._types.get(registers[0]) == _HEAP
        )

    def _draw(self, k: int, call: Instruction, name: str) -> None:
        registers, to = self._registers(call), call.other
        results = [r for r in registers if r in self._fresh]
        inputs: list[tuple[int, int]] = []
        for kind, value in call.operands:
            inputs += self._sources(kind, value)
        if all(source <= self._flow.branch for source, _ in inputs) and self._flow.branch >= 0:
            inputs.append((self._flow.branch, 0))
        values = [self._types.get(r, "") for r in results]
        if name == _MAKE_SHAPE:
            values = [self._made_shape(call)]
        sources = tuple(dict.fromkeys(inputs))
        node = self._add("operator", self._text(k, call), name, sources, tuple(values))
        if to < VOID:
            self._flow.given[to] = ((node, 0),)
            return
        for i, register in enumerate(results or registers):  # without results: in place
            self._flow.given[register] = ((node, i),)
        self._fresh.difference_update(results)

    def _sources(self, kind: int, value: int) -> Sources:
        if kind == REGISTER:
            return self._flow.given.get(value, ())
        if kind != CONSTANT:
            return ()
        if value not in self._of_constant:
            text = self._constants[value]
            self._of_constant[value] = self._add("constant", f"constant {value}", "", (), (text,))
        return ((self._of_constant[value], 0),)

    # -- types -------------------------------------------------------------------------------------

    def _allocated(self, call: Instruction) -> str:
        """Type and shape of a new tensor: `float32[?, 16]`."""
        if len(call.operands) < 4:
            return ""
        (shape_kind, shape), (kind, dtype) = call.operands[2:4]
        extents = "?"
        if shape_kind == CONSTANT:
            extents = self._constants[shape]
        elif shape_kind == REGISTER:
            extents = self._types.get(shape, "[?]")
        return (self._constants[dtype] if kind == CONSTANT else "?") + extents

    def _made_shape(self, call: Instruction) -> str:
        """Extents that stand in the code, and ? for those of the heap."""
        pairs = call.operands[2:]
        extents = (
            str(value) if how == (IMMEDIATE, 0) else "?"
            for how, (_, value) in zip(pairs[::2], pairs[1::2])
        )
        return f"[{', '.join(extents)}]"
