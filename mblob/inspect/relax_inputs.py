"""What the functions of a Relax program take. Their code checks the arguments first, and the texts for
the errors of these checks contain the annotations of the parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from mblob.dtype import DataType
from mblob.format.grammar import text
from mblob.inspect import relax_code
from mblob.relax_texts import CONTEXT, CONTEXT_START, DIMENSIONS, Extents, Parameter, annotated

_CHECK, _MATCH, _TUPLE = (
    f"vm.builtin.{name}" for name in ("check_tensor_info", "match_shape", "check_tuple_info")
)
_CONTEXT_START = CONTEXT_START.encode()


def annotations_of(constants: Sequence[tuple[str, Any]]) -> Mapping[str, Mapping[str, str]]:
    """The annotations of parameters by name, by function: `R.Tensor((2, 32), dtype="float32")`."""
    found: dict[str, dict[str, str]] = {}
    for kind, value in constants:
        if kind == "string" and bytes(value[: len(_CONTEXT_START)]) == _CONTEXT_START:
            context = CONTEXT.match(text(value))
            if context and context["param"] is not None:
                of_function = found.setdefault(context["function"], {})
                of_function[context["param"]] = context["annotation"]
    return found


class _Checked(NamedTuple):
    """What code demands of an argument."""

    dtype: str | None = None
    shape: Extents = None
    items: int = -1  # of a tuple


def parameters(
    program: relax_code.Program,
    function: relax_code.Function,
    names: Sequence[str],
    constants: Sequence[tuple[str, Any]],
    expected: Mapping[str, str],
    meant: Callable[[DataType], DataType],
) -> list[Parameter]:
    """What each parameter of a function with names has to be.

    Args:
        program: its code need not be checked.
        names: of the parameters.
        constants: kind and value of each.
        expected: annotations of the parameters.
        meant: the element type that a stored one is.
    """
    checked = _checked(program, function, len(names), constants, meant)
    found = []
    for i, name in enumerate(names):
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
    program: relax_code.Program,
    function: relax_code.Function,
    count: int,
    constants: Sequence[tuple[str, Any]],
    meant: Callable[[DataType], DataType],
) -> dict[int, _Checked]:
    """By the number of the argument."""
    found: dict[int, _Checked] = {}
    written: set[int] = set()
    is_code = function.kind == relax_code.CODE
    for at in program.offsets[function.start : function.end] if is_code else ():
        words = program.words[at : at + 4] if at >= 0 else ()
        if len(words) < 4 or words[0] != relax_code.CALL:
            continue
        _, to, target, size = words
        size = min(max(size, 0), 2 * DIMENSIONS + 4)
        operands = [*map(relax_code.operand, program.words[at + 4 : at + 4 + size])]
        name = program.functions[target].name if 0 <= target < len(program.functions) else ""
        kind, argument = operands[0] if operands else (relax_code.IMMEDIATE, 0)
        if kind == relax_code.REGISTER and argument < count and argument not in written:
            before = found.get(argument, _Checked())
            found[argument] = _demanded(before, name, operands[1:], constants, meant)
        written.add(to)
    return found


def _demanded(
    before: _Checked,
    name: str,
    operands: Sequence[tuple[int, int]],
    constants: Sequence[tuple[str, Any]],
    meant: Callable[[DataType], DataType],
) -> _Checked:
    """What is known after a call whose first argument is the one of the function."""
    values = [value for _, value in operands]
    if name == _TUPLE and len(values) > 1:
        return before._replace(items=max(values[0], 0))
    if name == _CHECK and len(values) > 1:
        kind, value = operands[1]
        is_constant = kind == relax_code.CONSTANT and 0 <= value < len(constants)
        kind_of, stored = constants[value] if is_constant else ("", None)
        dtype = str(meant(DataType.from_bytes(stored))) if kind_of == "dtype" else before.dtype
        rank = values[0] if before.shape is None and 0 <= values[0] <= DIMENSIONS else -1
        return before._replace(dtype=dtype, shape=("?",) * rank if rank >= 0 else before.shape)
    if name == _MATCH and len(values) > 1 and 2 * values[1] == len(values) - 3:
        pairs = zip(values[2:-1:2], values[3:-1:2])
        return before._replace(shape=tuple(dim if how == 0 else "?" for how, dim in pairs))
    return before
