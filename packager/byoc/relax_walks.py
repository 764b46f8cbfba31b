"""The ways in which passes look at Relax modules of apache-tvm 0.25 to 0.27, and change them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def is_constant(expression: Any) -> bool:
    """True of a constant of Relax."""
    return type(expression).__name__ in ("Constant", "GenericConst")


def tensor_in(constant: Any) -> Any:
    """The tensor of TVM in a constant."""
    return constant.value if hasattr(constant, "value") else constant.data


def name_of(call: Any) -> str:
    """The operator of a call; "" of what is no call of one."""
    return str(getattr(getattr(call, "op", None), "name", ""))


def has_shape(expression: Any) -> bool:
    """False of a size of tensors, which calls of loops have behind the tensors."""
    kind = getattr(expression, "ty", None) or getattr(expression, "struct_info", None)
    return any(hasattr(kind, name) for name in ("shape", "fields", "values"))


def visit_calls(relax: Any, mod: Any, visit: Callable[[Any], object]) -> None:
    """Call a function with each call of an operator in the Relax functions of a module."""

    def look(expression: Any) -> None:
        if type(expression).__name__ == "Call" and hasattr(expression.op, "name"):
            visit(expression)

    for function in mod.functions.values():
        if type(function).__name__ == "Function":
            relax.analysis.post_order_visit(function, look)


def with_each_call(
    mod: Any, replace: Callable[[Any, Callable[[Any], Any]], Any], leave: Mapping[str, str] = {}
) -> Any:
    """A module whose calls are what `replace` makes of them, in all Relax functions but `leave`.

    Args:
        replace: gets a call, and a function that tells what a variable in it is bound to.
    """
    from tvm.relax.expr_functor import PyExprMutator, mutator

    class Calls(PyExprMutator):  # type: ignore[misc]
        def visit_call_(self, call: Any) -> Any:
            return replace(self.visit_expr_post_order(call), self.lookup_binding)

    made = mutator(Calls)(mod)
    for variable, function in [*mod.functions.items()]:
        if type(function).__name__ == "Function" and variable.name_hint not in leave:
            made.builder_.update_func(variable, made.visit_expr(function))
    return made.builder_.get()


def mixes_constants() -> bool:
    """True of TVM 0.25, which takes functions for the same whose constants differ in their numbers alone."""
    import tvm

    return [int(part) for part in tvm.__version__.split(".")[:2]] < [0, 26]


def with_own_constants(mod: Any) -> Any:
    """A module in which each call of a region that gets constants has a function of its own, with these inside."""
    import tvm

    made: dict[Any, Any] = {}
    before: set[str] = set()  # functions that got constants
    kept: set[str] = set()

    def replace(call: Any, _: Any) -> Any:
        function: Any = mod[call.op] if type(call.op).__name__ == "GlobalVar" else None
        if not (getattr(function, "attrs", None) or {}).get("Codegen"):
            return call
        pairs = [*zip(function.params, call.args)]
        constants = {param: value for param, value in pairs if is_constant(value)}
        (before if constants else kept).add(call.op.name_hint)
        if not constants:
            return call
        variable = tvm.ir.GlobalVar(f"{call.op.name_hint}_{len(made)}")
        made[variable] = function.bind_params(constants)
        tvm.relax.expr._update_struct_info(variable, made[variable].struct_info)
        return tvm.relax.Call(variable, [value for _, value in pairs if not is_constant(value)])

    found = with_each_call(mod, replace)
    for variable, function in made.items():
        found[variable] = function
    for variable in [v for v in found.functions if v.name_hint in before - kept]:
        del found[variable]
    return found
