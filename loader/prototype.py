"""Checks of the arguments of a call against the C prototype that a library records, for errors and
for `bind`.

The text comes from a file: what cannot be read is not checked here, and left to the function.
"""

from __future__ import annotations

import re
from operator import index
from typing import Any

from mblob import argument_types, texts
from mblob.errors import ArgumentTypeError, ArgumentValueError
from mblob.format.functions_table import WORDS, Parameter, parameters

ANY = ("", "*")  # dimensions that are not checked


def check(prototype: str, function: str, given: tuple[Any, ...]) -> dict[str, int]:
    """Check arguments that were converted already: what only the function itself would tell.

    Args:
        prototype: of the function, "" if unknown.
        function: its name in errors.
        given: the arguments; of a tensor the tuple of its shape.

    Returns:
        The numbers among the arguments, by the names of their parameters.

    Raises:
        ArgumentTypeError: one is of another type than its parameter.
        ArgumentValueError: a size is not what the other arguments say.
    """
    known = parameters(prototype)
    if len(known) != len(given):
        return {}
    numbers = {p.name: n for p, v in zip(known, given) if (n := _number(v)) is not None}
    for i, (parameter, value) in enumerate(zip(known, given)):
        who = argument(function, i, parameter)
        _check_type(parameter, value, who)
        if isinstance(value, tuple) and parameter.dims and not parameter.is_memory:
            _check_shape(parameter, value, numbers, who)
    return numbers


def check_shape(prototype: str, function: str, i: int, shape: tuple[int, ...]) -> None:
    """Check the shape of one argument, as far as the others do not matter.

    Raises:
        ArgumentValueError: the parameter has another one.
    """
    known = parameters(prototype)
    if i < len(known) and known[i].dims and not known[i].is_memory:
        _check_shape(known[i], shape, {}, argument(function, i, known[i]))


def _check_shape(
    parameter: Parameter, shape: tuple[int, ...], numbers: dict[str, int], who: str
) -> None:
    wrong = wrong_shape(parameter.dims, shape, numbers)
    if wrong:
        raise ArgumentValueError(f"{who}: {wrong}")


def _number(value: Any) -> int | None:
    """An integer, numpy's too; None for anything else."""
    try:
        return index(value)
    except TypeError:
        return None


def argument(function: str, i: int, parameter: Parameter) -> str:
    return f"{function}{texts.ARGUMENT}{i}" + (f" ({parameter.name})" if parameter.name else "")


def _check_type(parameter: Parameter, value: Any, who: str) -> None:
    if parameter.pointer:
        is_data = not parameter.is_memory and parameter.words != ("char",)
        expected = f"an array of {' '.join(parameter.words)}" if is_data else ""
        fits = isinstance(value, tuple)
    else:
        is_number = parameter.words and set(parameter.words) <= WORDS
        kinds = [argument_types.KINDS.get(word, "") for word in parameter.words]
        kind = "float" if {"float", "bfloat"} & set(kinds) else "int"
        if "_Complex" in parameter.words:
            kind = "complex"
        expected = kind if is_number else ""
        fits = not (value is None or isinstance(value, (str, bytes, bytearray)))
    if expected and not fits:
        found = "None" if value is None else type(value).__name__
        if value is None and parameter.pointer:
            function = who.partition(texts.ARGUMENT)[0]
            found += texts.NULL_FOR_ARRAY + texts.say(texts.CALLED_BY_CTYPES, function)
        raise ArgumentTypeError(f"{who}: {texts.say(texts.EXPECTED, expected, found)}")


def wrong_shape(dims: tuple[str, ...], shape: tuple[int, ...], numbers: dict[str, int]) -> str:
    """The fault in the shape of an array for a parameter with these dimensions, "" if there is
    none, as far as the numbers tell."""
    if len(dims) == 1:
        at_least = dims[0].startswith("static ")
        text = dims[0].removeprefix("static ").strip()
        size, found = 1, value_of(text, numbers)
        for extent in shape:
            size *= extent
        if text in ANY or found is None or size == found or (at_least and size >= found >= 0):
            return ""
        least = "at least " if at_least else ""
        of = ("", "", "") if text.isdecimal() else (" for [", text, "]")
        return texts.say(texts.ELEMENTS, least, found, *of, shape)
    wanted = [None if d in ANY else value_of(d.removeprefix("static "), numbers) for d in dims]
    if any(w is None and d not in ANY for w, d in zip(wanted, dims)):
        return ""
    if len(shape) != len(wanted) or any(w not in (None, s) for w, s in zip(wanted, shape)):
        expected = f"({', '.join('*' if w is None else str(w) for w in wanted)})"
        return texts.say(texts.SHAPE, expected, shape)
    return ""


_TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z_]\w*)|([-+*()]))")
_RANK = {"+": 1, "-": 1, "*": 2}


def value_of(text: str, numbers: dict[str, int]) -> int | None:
    """The value of a dimension: numbers, integer parameters, +, - and *; None for anything else."""
    if text in numbers:
        return numbers[text]
    values: list[int] = []
    operators: list[str] = []

    def reduce(rank: int) -> bool:
        while operators and _RANK.get(operators[-1], 0) >= rank:
            if len(values) < 2:
                return False
            right, left, operator = values.pop(), values.pop(), operators.pop()
            values.append(
                left + right
                if operator == "+"
                else left - right
                if operator == "-"
                else left * right
            )
            if abs(values[-1]) >= 2**63:
                return False
        return True

    at, text = 0, text.strip()
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            return None
        at = token.end()
        number, name, sign = token.groups()
        if number or name:
            value = int(number) if number and len(number) < 20 else numbers.get(name or "")
            if value is None:
                return None
            values.append(value)
        elif sign == "(":
            operators.append(sign)
        elif not reduce(1 if sign == ")" else _RANK[sign]):
            return None
        elif sign != ")":
            operators.append(sign)
        elif not operators or operators.pop() != "(":
            return None
    return values[0] if reduce(1) and len(values) == 1 and not operators else None
