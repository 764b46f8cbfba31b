"""Operators of engines in place of what frontends of TVM write in other words: loops for `maximum` and `minimum`,
splits, stacks, and tensors that are spread before an operator that spreads them itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from mblob.packager.byoc.relax_operators import numbers_of, type_of
from mblob.packager.byoc.relax_walks import has_shape, name_of, with_each_call

_OF_TWO = {"relax.max": "maximum", "relax.min": "minimum", "relax.sum": "add"}
_SPREADING = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power")


def with_operators(relax: Any, mod: Any) -> Any:
    """The module with `maximum` and `minimum` in place of the loops that frontends write for them."""
    from tvm import topi

    names = ("maximum", "minimum")
    if not any(variable.name_hint.startswith(names) for variable in mod.functions):
        return mod

    import tvm_ffi

    def numbers_in(function: Any) -> list[float]:
        """The number of a loop over one tensor, which TVM writes into it."""
        found = {*re.findall(r"T\.b?float(?:16|32)\((-?[0-9.e+-]+)\)", str(function))}
        return [*map(float, found)]

    def is_loop_of(
        function: Any, name: str, arguments: Sequence[Any], numbers: Sequence[float]
    ) -> bool:
        if len(arguments) + len(numbers) != 2:
            return False
        builder = relax.BlockBuilder()
        given = [relax.Var(f"p{i}", type_of(a)) for i, a in enumerate(arguments)]
        with builder.function("main", given):
            builder.emit_func_output(builder.emit_te(getattr(topi, name), *given, *numbers))
        made = builder.get().functions.values()
        return any(tvm_ffi.structural_equal(loop, function) for loop in made)

    def replace(call: Any, bound: Callable[[Any], Any]) -> Any:
        if name_of(call) != "relax.call_tir":
            return call
        loop, arguments = call.args[0], [*filter(has_shape, call.args[1].fields)]
        name = loop.name_hint.rstrip("0123456789_")
        numbers = numbers_in(mod[loop]) if name in names and len(arguments) == 1 else []
        if name in names and is_loop_of(mod[loop], name, arguments, numbers):
            dtype = str(type_of(arguments[0]).dtype)
            constants = [relax.const(number, dtype) for number in numbers]
            return getattr(relax.op, name)(*arguments, *constants)
        return call

    return relax.transform.DeadCodeElimination()(with_each_call(mod, replace))


# -- other words for the same ----------------------------------------------------------------------


def in_plain_words(relax: Any, mod: Any) -> Any:
    """The module without operators that engines have other words for.

    A `split` becomes slices, a `stack` `concat`, and the largest of tensors that are stacked (`Max` of ONNX)
    their `maximum`. Slices and `broadcast_to` of all that there is are left out, and so is a `broadcast_to`
    before an operator that spreads its operands itself.
    """
    op = relax.op

    def split(call: Any, _: Any) -> Any:
        data, shapes = call.args[0], [extents_of(field) for field in type_of(call).fields]
        axis = int(call.attrs.axis) % len(shapes[0])
        all_extents = [shape[axis] for shape in shapes]
        extents = [extent for extent in all_extents if extent is not None]
        if len(extents) < len(all_extents):
            return call
        ends = [sum(extents[: i + 1]) for i in range(len(extents))]
        pairs = zip([0, *ends], ends)
        return relax.Tuple(
            [op.strided_slice(data, [axis], [first], [last], [1]) for first, last in pairs]
        )

    def over_stack(call: Any, bound: Callable[[Any], Any]) -> Any:
        value: Any = bound(call.args[0]) if _is_variable(call.args[0]) else None
        fields = getattr(value.args[0], "fields", None) if name_of(value) == "relax.stack" else None
        if not fields or call.attrs.keepdims or call.attrs.axis is None:
            return call
        rank = len(extents_of(type_of(value)))
        if [int(axis) % rank for axis in call.attrs.axis] != [int(value.attrs.axis or 0) % rank]:
            return call
        return reduce(getattr(op, _OF_TWO[name_of(call)]), fields)

    def stack(call: Any, _: Any) -> Any:
        fields = getattr(call.args[0], "fields", None)
        shape = extents_of(type_of(call))
        if not fields or None in shape:
            return call
        axis = int(call.attrs.axis or 0) % len(shape)
        return op.concat([op.expand_dims(field, axis) for field in fields], axis)

    def strided_slice(call: Any, _: Any) -> Any:
        """A slice tells its strides."""
        steps = numbers_of(call.args[4]) if len(call.args) > 4 else [1]
        if steps is not None and {*steps} == {1} and _keeps_shape(call):
            return call.args[0]
        ones = [1] * len(getattr(call.args[1], "fields", ()))
        if len(call.args) > 4 or not ones:
            return call
        return op.strided_slice(*call.args, ones, call.attrs.assume_inbound)

    def broadcast_to(call: Any, _: Any) -> Any:
        return call.args[0] if _keeps_shape(call) else call

    def binary(call: Any, bound: Callable[[Any], Any]) -> Any:
        wanted, given = extents_of(type_of(call)), [*call.args]
        for i, argument in enumerate(call.args):
            value = bound(argument) if _is_variable(argument) else argument
            if name_of(value) == "relax.broadcast_to" and None not in wanted:
                shapes = [extents_of(type_of(x)) for x in (value.args[0], given[1 - i])]
                given[i] = value.args[0] if _spread(shapes) == wanted else argument
        if all(a.same_as(b) for a, b in zip(given, call.args)):
            return call
        return getattr(op, name_of(call).removeprefix("relax."))(*given)

    rewrites: dict[str, Callable[[Any, Callable[[Any], Any]], Any]] = {
        **dict.fromkeys(_SPREADING, binary),
        **{rewrite.__name__: rewrite for rewrite in (split, stack, strided_slice, broadcast_to)},
    }

    def replace(call: Any, bound: Callable[[Any], Any]) -> Any:
        rewrite = rewrites.get(name_of(call).removeprefix("relax."))
        return call if rewrite is None else rewrite(call, bound)

    def replace_first(call: Any, bound: Callable[[Any], Any]) -> Any:
        return over_stack(call, bound) if name_of(call) in _OF_TWO else call

    return with_each_call(with_each_call(mod, replace_first), replace)


def extents_of(kind: Any) -> list[int | None]:
    """The extents of a tensor by its type; None for one that only a call tells, and for a shape that is not
    known."""
    values = getattr(getattr(kind, "shape", None), "values", None)
    if values is None:
        return [None]
    return [int(v.value) if type(v).__name__ == "IntImm" else None for v in values]


def _is_variable(expression: Any) -> bool:
    return type(expression).__name__ in ("Var", "DataflowVar")


def _keeps_shape(call: Any) -> bool:
    shape = extents_of(type_of(call))
    return None not in shape and shape == extents_of(type_of(call.args[0]))


def _spread(shapes: Sequence[Sequence[int | None]]) -> list[int | None]:
    """The shape to which shapes are spread; None for what is not known."""
    rank = max(map(len, shapes))
    ones: list[int | None] = [1] * rank
    whole = [[*ones[len(shape) :], *shape] for shape in shapes]
    columns = [{extent for extent in column if extent != 1} for column in zip(*whole)]
    return [(column or {1}).pop() if len(column) < 2 else None for column in columns]
