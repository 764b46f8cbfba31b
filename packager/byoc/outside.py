"""Parameters of a Relax module that are a payload of the library, and no constants of its code.

TVM's frontends keep them as inputs of `main` (`keep_params_in_input`), with their values in its attribute
`params`. They become one tuple, the last input.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

from mblob.errors import listed
from mblob.module import Module
from mblob.packager.byoc.relax_operators import type_of
from mblob.packager.byoc.relax_walks import is_constant, tensor_in
from mblob.packager.errors import BuildError
from mblob.packager.modules.weights import safetensors_module

INPUT = "params"  # the tuple
Weights = Mapping[str, Any]  # tensors of TVM by name


def bound(relax: Any, mod: Any) -> tuple[Any, Weights]:
    """The module with constants in place of parameters that `main` has as inputs, and these by name.

    Raises:
        BuildError: two have the same name.
    """
    main = _main(mod)
    values = [*(getattr(main, "attrs", None) or {}).get("params", ())]
    if not values:
        return mod, {}
    variables = [*main.params][-len(values) :]
    names = [getattr(v, "name_hint", None) or v.name for v in variables]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise BuildError(
            f"partition: several parameters have the names {listed(twice, 6)}; each needs its own"
        )
    mod = relax.transform.BindParams("main", dict(zip(variables, values)))(mod)
    mod["main"] = mod["main"].without_attr("params")
    return mod, dict(zip(names, values))


def lifted(relax: Any, mod: Any, weights: Weights) -> tuple[Any, Weights]:
    """The module with a tuple as last input in place of constants that are weights, and the tensors of
    this tuple by name. A number stays a constant, for which TVM makes better code."""
    from tvm.relax.expr_functor import PyExprMutator, mutator

    names = {tensor: name for name, tensor in weights.items() if prod(tensor.shape) != 1}
    inputs: dict[str, Any] = {}

    def variable(constant: Any) -> Any:
        name = names.get(tensor_in(constant))
        if name is None:
            return constant
        return inputs.setdefault(name, relax.Var(name, type_of(constant)))

    class Constants(PyExprMutator):  # type: ignore[misc]
        def visit_constant_(self, constant: Any) -> Any:
            return variable(constant)

        visit_generic_const_ = visit_constant_  # TVM 0.27

    main = _main(mod)
    body = mutator(Constants)(mod).visit_expr(main.body) if names else main.body
    if not inputs:
        return mod, {}
    order = [name for name in weights if name in inputs]
    kind = main.ret_ty if hasattr(main, "ret_ty") else main.ret_struct_info
    params = [*main.params, *(inputs[name] for name in order)]
    made = relax.Function(params, body, kind, main.is_pure, main.attrs)
    mod = type(mod)(dict(mod.functions_items()), attrs=mod.attrs)
    mod["main"] = made.with_attr("num_input", len(main.params))
    mod = relax.transform.BundleModelParams(INPUT)(mod)
    return mod, {name: weights[name] for name in order}


def folded(relax: Any, mod: Any) -> set[Any]:
    """Tensors of which TVM computes others when it packs: these would keep the old values.

    Args:
        mod: before that.
    """
    bindings: list[Any] = []
    found: set[Any] = set()
    known: set[Any] = set()  # variables that follow from constants

    def collect(expression: Any) -> None:
        if type(expression).__name__ == "SeqExpr":
            bindings.extend(binding for block in expression.blocks for binding in block.bindings)

    def is_known(expression: Any) -> bool:
        kind = type(expression).__name__
        if kind in ("Var", "DataflowVar"):
            return expression in known
        return kind not in ("If", "Function", "SeqExpr") and all(map(is_known, _given(expression)))

    for step in (
        relax.transform.DecomposeOpsForInference(),
        relax.transform.CanonicalizeBindings(),
    ):
        mod = step(mod)
    relax.analysis.post_order_visit(_main(mod), collect)
    before = -1
    while before < len(known):  # bindings of a branch come before those in front of it
        before = len(known)
        known.update(b.var for b in bindings if b.var not in known and is_known(b.value))
    for value in (b.value for b in bindings if b.var in known):
        if getattr(getattr(value, "op", None), "name", "") != "relax.shape_of":
            found |= tensors_in(relax, [value])
    return found


def tensors_in(relax: Any, expressions: Iterable[Any]) -> set[Any]:
    """The tensors of all constants in expressions."""
    found: set[Any] = set()

    def look(expression: Any) -> None:
        if is_constant(expression):
            found.add(tensor_in(expression))

    for expression in expressions:
        relax.analysis.post_order_visit(expression, look)
    return found


def module_of(weights: Weights) -> Module:
    """The payload with the tensors of the tuple, in its order."""
    return safetensors_module({name: t.numpy() for name, t in weights.items()}, order=True)


def _main(mod: Any) -> Any:
    return next((f for v, f in mod.functions.items() if v.name_hint == "main"), None)


def _given(expression: Any) -> list[Any]:
    """The expressions that one is made of, as far as they may have tensors."""
    parts = [*getattr(expression, "args", ()), *getattr(expression, "fields", ())]
    return [*parts, *([expression.tuple_value] if hasattr(expression, "tuple_value") else ())]
