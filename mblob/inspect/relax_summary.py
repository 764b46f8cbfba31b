"""The summaries of programs of Relax, and the parameters of their functions.

Code of a function checks the arguments first, and the texts for the errors of these checks contain
the annotations of the parameters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mblob.dtype import DataType
from mblob.format.grammar import text
from mblob.inspect.relax_program import (
    CALL,
    CONSTANT,
    PACKED,
    REGISTER,
    VERSION,
    Constant,
    Function,
    Program,
)
from mblob.named_tuple import NamedTuple
from mblob.relax_texts import (
    CONTEXT_START,
    DIMENSIONS,
    Extents,
    Parameter,
    annotated,
    context_of,
)

_CHECK, _MATCH, _TUPLE = (
    f"vm.builtin.{name}" for name in ("check_tensor_info", "match_shape", "check_tuple_info")
)
_CHECKS = (_CHECK, _MATCH, _TUPLE)
_CONTEXT_START = CONTEXT_START.encode()


def summarize(program: Program, meant: Callable[[DataType], DataType]) -> dict[str, Any]:
    """The summary of a program, as the schema has it.

    Args:
        meant: the element type that a stored one is.
    """
    expected = _annotations(program.constants)
    checks = {i: f.name for i, f in enumerate(program.functions) if f.name in _CHECKS}
    return {
        "machine": "relax",
        "version": VERSION,
        "layout": 1 if program.scopes is None else 2,
        "functions": [_summarized(program, f, expected, checks, meant) for f in program.functions],
        "constants": len(program.constants),
        "constant_kinds": dict(Counter(c.kind for c in program.constants)),
        "scopes": [{"constant": i, "scope": text(scope)} for i, scope in program.scopes or ()],
        "instructions": program.instruction_count,
    }


def _summarized(
    program: Program,
    f: Function,
    expected: Mapping[str, Mapping[str, str]],
    checks: Mapping[int, str],
    meant: Callable[[DataType], DataType],
) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "name": f.name,
        "kind": f.kind,
        "num_args": max(f.num_args, -1),
        "registers": f.registers,
        "instructions": f.end - f.start,
        "params": f.params,
    }
    if f.kind == PACKED:
        return facts
    annotations = expected.get(f.name, {})
    if annotations:
        facts["expects"] = dict(annotations)
    facts["inputs"] = [
        {
            "name": name,
            "shape": None if p.shape is None else list(p.shape),
            "dtype": p.dtype,
            **({"type": p.type} if p.type else {}),
        }
        for name, p in zip(f.params, _parameters(program, f, annotations, checks, meant))
    ]
    return facts


def _annotations(constants: Sequence[Constant]) -> Mapping[str, Mapping[str, str]]:
    """The annotations of parameters by name, by function: `R.Tensor((2, 32), dtype="float32")`."""
    found: dict[str, dict[str, str]] = {}
    for kind, value in constants:
        if kind == "string" and value.startswith(_CONTEXT_START):
            context = context_of(text(value))
            if context and context.param is not None:
                found.setdefault(context.function, {})[context.param] = context.annotation
    return found


class _Checked(NamedTuple):
    """The type and the shape that code demands of an argument, or the items of a tuple."""

    dtype: str | None = None
    shape: Extents = None
    items: int = -1  # of a tuple


def _parameters(
    program: Program,
    function: Function,
    expected: Mapping[str, str],
    checks: Mapping[int, str],
    meant: Callable[[DataType], DataType],
) -> list[Parameter]:
    """The type and the shape of each parameter of a function that names its parameters.

    Args:
        expected: annotations of the parameters.
        checks: by its number, the name of each function that checks an argument.
        meant: the element type that a stored one is.
    """
    checked = _checked(program, function, checks, meant) if function.params else {}
    found = []
    for i, name in enumerate(function.params):
        said = annotated(expected[name]) if name in expected else Parameter()
        dtype, shape, items = checked.get(i, _Checked())
        if said.type or items >= 0:
            found.append(said if said.type else Parameter(type=f"tuple of {items}"))
            continue
        if shape is None:
            shape = said.shape
        elif said.shape is not None and len(said.shape) == len(shape):  # it has the names
            shape = tuple(b if a == "?" else a for a, b in zip(shape, said.shape))
        found.append(Parameter(dtype or said.dtype, shape))
    return found


def _checked(
    program: Program,
    function: Function,
    checks: Mapping[int, str],
    meant: Callable[[DataType], DataType],
) -> dict[int, _Checked]:
    """By the number of the argument."""
    found: dict[int, _Checked] = {}
    written: set[int] = set()
    numbers, at = program.numbers(function) if checks else [], 0
    while at < len(numbers):
        opcode, target, other, count = numbers[at : at + 4]
        first, at = at + 4, at + 4 + 2 * count
        if opcode != CALL:
            continue
        if target in checks and count and numbers[first] == REGISTER:
            argument = numbers[first + 1]
            if argument < len(function.params) and argument not in written:
                last = first + 2 * min(count, 2 * DIMENSIONS + 4)
                operands = [*zip(numbers[first + 2 : last : 2], numbers[first + 3 : last : 2])]
                before, name = found.get(argument, _Checked()), checks[target]
                found[argument] = _demanded(before, name, operands, program.constants, meant)
        written.add(other)
    return found


def _demanded(
    before: _Checked,
    name: str,
    operands: Sequence[tuple[int, int]],
    constants: Sequence[Constant],
    meant: Callable[[DataType], DataType],
) -> _Checked:
    """The demands on an argument of the function, after a call that takes it first."""
    values = [value for _, value in operands]
    if name == _TUPLE and len(values) > 1:
        return before._replace(items=max(values[0], 0))
    if name == _CHECK and len(values) > 1:
        kind, value = operands[1]
        stored = constants[value] if kind == CONSTANT else None
        is_dtype = stored is not None and stored.kind == "dtype"
        dtype = str(meant(stored.value)) if stored and is_dtype else before.dtype
        rank = values[0] if before.shape is None and 0 <= values[0] <= DIMENSIONS else -1
        return before._replace(dtype=dtype, shape=("?",) * rank if rank >= 0 else before.shape)
    if name == _MATCH and len(values) > 1 and 2 * values[1] == len(values) - 3:
        pairs = zip(values[2:-1:2], values[3:-1:2])
        return before._replace(shape=tuple(dim if how == 0 else "?" for how, dim in pairs))
    return before
