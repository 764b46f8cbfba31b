"""Regions of a Relax module for code generators: what `partition_graph` is for graphs.

lib = mblob.byoc.relax.build(mod, "llvm", "dnnl")  # mod: an IRModule of apache-tvm
lib.export_library("model.so")

TVM finds the regions by its own patterns (FuseOpsByPattern, MergeCompositeFunctions), among the
operators that the code generator takes. Each becomes the call of a packed function, which gets the
inputs and the tensors to write, and which a module of the code generator has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import Any

import mblob
from mblob.arguments import wrong_type
from mblob.errors import MblobError, ToolchainError, needs_package
from mblob.module import Module
from mblob.packager.byoc import dnnl
from mblob.packager.byoc.activations import gelu_in
from mblob.packager.byoc.codegens import codegen_of, generated
from mblob.packager.byoc.composites import agrees, composites
from mblob.packager.byoc.onnx_models import from_onnx, said
from mblob.packager.byoc.open_sizes import is_closed
from mblob.packager.byoc.operators import Composite, Operator, Region, Tensor
from mblob.packager.byoc.outside import bound, folded, lifted, module_of, tensors_in
from mblob.packager.byoc.packed_weights import add_packed
from mblob.packager.byoc.patterns import rows, table_of, target_of
from mblob.packager.byoc.quantized import quantized
from mblob.packager.byoc.relax_operators import RULES, Reader, type_of
from mblob.packager.byoc.relax_rewrites import in_plain_words, with_operators
from mblob.packager.byoc.relax_walks import (
    has_shape,
    is_constant,
    mixes_constants,
    name_of,
    tensor_in,
    visit_calls,
    with_each_call,
    with_own_constants,
)
from mblob.packager.byoc.simplify import simplified, untangled
from mblob.packager.errors import BuildError, BuildTypeError
from mblob.packager.modules.payload_modules import const_loader_module

__all__ = ["build", "from_onnx", "partition"]
Trace = Callable[[str], object]
_LAYERS = ("relax.nn.conv1d", "relax.nn.conv2d", "relax.matmul")  # that are computed in integers
# Engines of mblob that take more of a Relax module than of a graph, for which TVM's runtime has the
# last word: predicate, pattern table, and what is faster there.
_PLUG_INS = {"dnnl": (dnnl.runs, dnnl.plug_in_table, untangled)}


def partition(
    mod: Any,
    engine: str | None = "dnnl",
    *,
    params: Mapping[str, Any] | None = None,
    patterns: Sequence[Any] | None = None,
    trace: Trace | None = None,
    prepack: bool = False,
) -> tuple[Any, list[Module]]:
    """Split a Relax module between an engine and TVM.

    Before it, batch norms are written out, constants are folded, and loops that TVM's frontends write
    for `maximum` and `minimum` become these operators. Tensors of a shape that is not known stay with
    TVM.

    Parameters that a frontend of TVM kept as inputs (`keep_params_in_input`; their values are in the
    attribute `params` of `main`) become a payload of the library. `main` then takes them as one tuple,
    its last input. Numbers stay constants, and so do tensors that the engine uses, or of which constants
    are computed.

    Args:
        mod: an IRModule of apache-tvm 0.25 to 0.27, with a function `main`. It stays as it is.
        engine: key of the code generator: "dnnl", or one of `register_codegen` with what
            `register_pattern_table` has for it. None: TVM compiles all.
        params: name -> array of parameters of `main` that become constants, as in TVM's
            `BindParams`.
        patterns: for TVM's `FuseOpsByPattern`, named `ENGINE.NAME`, in place of one for each operator
            that the predicate of the engine takes.
        trace: called with a text for each region and for what stays with TVM, such as `print`.
        prepack: store the weights of "dnnl" also as oneDNN of this machine wants them: a machine with
            the same oneDNN and the same instructions need not reorder them (docs/byoc.md).

    Returns:
        The module for `tvm.relax.build`, and the modules to import into what it builds: those of the
        engine, and the parameters.

    Raises:
        BuildError: `prepack` with another engine; `mod` is no IRModule; a pattern has an operator that
            code generators have no word for; no engine of that key. As of `partition_graph`, for a
            code generator that fails.
        IncompatibleError: apache-tvm is not installed.
    """
    relax = _relax()
    if prepack and engine != "dnnl":
        raise BuildError(f"partition: prepack= is for the engine 'dnnl', found {engine!r}")
    if type(mod).__name__ != "IRModule":
        raise wrong_type("partition", "mod", "an IRModule of apache-tvm", mod, BuildTypeError)
    if params is not None:
        mod = relax.transform.BindParams("main", dict(params))(mod)
    mod, weights = bound(relax, mod)
    inside = folded(relax, mod) if weights and engine else set()
    regions: dict[str, Region] = {}
    if engine is not None:
        mod = _prepared(relax, mod, engine in _PLUG_INS)
        mod, regions = _regions(relax, mod, engine, patterns, engine in _PLUG_INS)
        inside |= tensors_in(relax, [f for v, f in mod.functions.items() if v.name_hint in regions])
        mod = _with_calls(relax, mod, {name: region.symbol for name, region in regions.items()})
    mod, outside = lifted(relax, mod, {n: t for n, t in weights.items() if t not in inside})
    if engine is None:
        mod = _prepared(relax, mod, False)
    if trace is not None and engine is not None:
        _tell(relax, mod, [*regions.values()], patterns is not None, trace)
    if trace is not None and weights:
        trace(
            f"parameters: {len(outside)} outside of the code, {len(weights) - len(outside)} in it"
        )
    modules = _modules(engine, [*regions.values()], prepack) if engine is not None else []
    return mod, [*modules, *([module_of(outside)] if outside else [])]


def build(
    mod: Any,
    target: Any = "llvm",
    engine: str | None = "dnnl",
    *,
    params: Mapping[str, Any] | None = None,
    patterns: Sequence[Any] | None = None,
    trace: Trace | None = None,
    prepack: bool = False,
) -> Module:
    """A Relax module as a library whose regions run on an engine: `partition`, TVM's `relax.build`,
    and the modules of the engine put in.

    Args:
        target: of TVM, for what stays with it: a text or a `tvm.target.Target`.
        mod, engine, params, patterns, trace, prepack: as of `partition`.

    Returns:
        The library to export: `lib.export_library("model.so")`. With `carry="dnnl"` it has the plug-in
        of mblob inside.

    Raises:
        As of `partition`.
        ToolchainError: TVM cannot compile the module for this target.
    """
    relax = _relax()
    mod, modules = partition(
        mod, engine, params=params, patterns=patterns, trace=trace, prepack=prepack
    )
    with TemporaryDirectory(prefix="mblob-") as folder:
        try:
            relax.build(mod, target).export_library(f"{folder}/model.tar")
        except Exception as error:
            raise ToolchainError(f"TVM cannot compile this module: {said(error)}") from error
        lib: Module = mblob.static_library(f"{folder}/model.tar")
    for module in modules:
        lib.import_module(module)
    return lib


def _relax() -> Any:
    try:
        from tvm import relax
    except ImportError as error:
        raise needs_package("mblob.byoc.relax", "apache-tvm", "onnx") from error
    return relax


def _modules(engine: str, regions: Sequence[Region], prepack: bool) -> list[Module]:
    """The modules of regions, below one with their constants."""
    if not regions:
        return []
    constants = {n: t.constant for r in regions for n, t in r.named_constants.items()}
    symbols = {r.symbol: [*r.constant_names] for r in regions}
    loader = const_loader_module(constants, symbols)
    codegen = codegen_of(engine)
    for region in regions:
        loader.import_module(generated(codegen, region))
    if prepack:
        add_packed(loader, regions)
    return [loader]


def _with_type(call: Operator) -> str:
    """The name of a kernel, with the type of its tensors, unless that is float32 or integers."""
    narrow = {t.dtype for t in (*call.inputs, *call.outputs)} & {"float16", "bfloat16"}
    return " of ".join((call.op, *sorted(narrow)))


def _tell(relax: Any, mod: Any, regions: Sequence[Region], by_pattern: bool, trace: Trace) -> None:
    for region in regions:
        names = Counter(_with_type(call) for call in region.calls)
        what = ", ".join(f"{count} {name}" for name, count in names.most_common())
        trace(f"{region.symbol}: {what}")
    left: dict[str, list[Any]] = {}
    visit_calls(relax, mod, lambda call: left.setdefault(call.op.name, []).append(call))
    left.pop("relax.call_dps_packed", None)
    for name, calls in sorted(left.items(), key=lambda item: -len(item[1])):
        why = "by any pattern" if by_pattern else _why_not(calls[0])
        trace(f"TVM: {len(calls)} {name}, which is not taken {why}")


def _why_not(call: Any) -> str:
    """The reason why engines do not take a call: its operator, or its operands."""
    if name_of(call) not in RULES:
        return "at all"
    given = [
        a
        for arg in call.args[: RULES[name_of(call)].tensors]
        for a in getattr(arg, "fields", (arg,))
    ]
    texts = []
    for kind in map(type_of, given):
        values = getattr(getattr(kind, "shape", None), "values", None)
        extents = "?" if values is None else ", ".join(str(getattr(v, "value", v)) for v in values)
        texts.append(f"{kind.dtype}[{extents}]")
    return f"for {', '.join(texts)}"


def _grouped(relax: Any, mod: Any, patterns: Sequence[Any]) -> Any:
    """The module with a function for each region: of operators that lie together; alone, where TVM
    cannot merge them, in a function that casts shapes or calls functions by name, and where it fails."""
    fuse = relax.transform.FuseOpsByPattern
    single = False

    def look(expression: Any) -> None:
        nonlocal single
        named = type(getattr(expression, "op", None)).__name__ == "ExternFunc"
        given = expression.args[1].fields if name_of(expression) == "relax.call_tir" else ()
        single = single or named or not all(map(has_shape, given))

    for function in mod.functions.values():
        if type(function).__name__ == "Function":
            relax.analysis.post_order_visit(function, look)
            bindings = [b for block in function.body.blocks for b in block.bindings]
            single = single or any(type(b).__name__ == "MatchCast" for b in bindings)
    mixes = mixes_constants()
    if not single:
        fused = _passed(fuse(patterns, bind_constants=not mixes), mod)
        merged = _passed(relax.transform.MergeCompositeFunctions(), fused)
    if single or not _is_whole(relax, merged):
        merged = _passed(fuse(patterns, bind_constants=not mixes, annotate_codegen=True), mod)
    return with_own_constants(merged) if mixes else merged


def _is_whole(relax: Any, mod: Any) -> bool:
    """False where TVM 0.25 lost a variable: of a region with several outputs that `main` returns."""
    try:
        return relax.analysis.well_formed(mod) is not False
    except Exception:
        return False


def _passed(step: Any, mod: Any) -> Any:
    """The module that a pass of TVM makes of one.

    Raises:
        ToolchainError: it fails.
    """
    try:
        return step(mod)
    except MblobError:
        raise
    except Exception as error:
        raise ToolchainError(f"TVM cannot compile this module: {said(error)}") from error


def _regions(
    relax: Any, mod: Any, engine: str, patterns: Sequence[Any] | None, is_open: bool
) -> tuple[Any, dict[str, Region]]:
    """The module with a function for each region, and the regions by these functions. Operators stay with TVM where
    inputs do not tell all extents of a region, if extents may be open (`is_open`)."""
    mod = _grouped(relax, mod, patterns or _patterns(engine, is_open))
    found: dict[str, Region] = {}
    left = []
    for variable, function in mod.functions.items():
        if (getattr(function, "attrs", None) or {}).get("Codegen") == engine:
            symbol = f"tvmgen_{engine}_main_{len(found)}"
            region = _region(engine, symbol, function, Reader({} if is_open else None))
            if is_closed(region):
                found[variable.name_hint] = region
            else:
                left.append(variable)
    if not left:
        return mod, found
    for variable in left:
        mod[variable] = mod[variable].without_attr("Codegen").without_attr("global_symbol")
    for variable in [v for v in mod.functions if v.name_hint in found]:  # what is public stays
        mod[variable] = mod[variable].with_attr("global_symbol", variable.name_hint)
    lifted_out = _passed(relax.transform.LambdaLift(), mod)
    return _passed(relax.transform.InlinePrivateFunctions(), lifted_out), found


# -- before ----------------------------------------------------------------------------------------


def _prepared(relax: Any, mod: Any, keeps_integers: bool) -> Any:
    transform = relax.transform
    mod = with_operators(relax, mod)
    if keeps_integers:
        mod = in_plain_words(relax, mod)
    calls: list[Any] = []
    visit_calls(relax, mod, calls.append)
    training = any(map(_is_training, calls))  # batch norms, of which that step would make others
    weights: dict[str, Any] = {}
    if keeps_integers:
        mod, weights = _with_integers_as_inputs(relax, mod)
    for step in (
        *(() if training else (transform.DecomposeOpsForInference(),)),
        transform.FoldConstant(),
        transform.CanonicalizeBindings(),  # a batch norm is a tuple of three
        transform.FoldConstant(),
        transform.ConvertToDataflow(),
        transform.DeadCodeElimination(),
    ):
        mod = _passed(step, mod)
    return relax.transform.BindParams("main", weights)(mod) if weights else mod


def _with_integers_as_inputs(relax: Any, mod: Any) -> tuple[Any, dict[str, Any]]:
    """The module with inputs of `main` in place of integers that it dequantizes as weights of layers,
    which folding would make float32; these integers by name."""
    found: dict[str, Any] = {}
    inputs: list[Any] = []
    weights = _integer_weights(relax, mod)

    def replace(call: Any, _: Any) -> Any:
        if name_of(call) != "relax.dequantize" or call.args[0] not in weights:
            return call
        value = call.args[0]
        name = f"mblob_integers_{len(found)}"
        found[name] = tensor_in(value)
        inputs.append(relax.Var(name, type_of(value)))
        return relax.op.dequantize(
            inputs[-1], *call.args[1:], axis=call.attrs.axis, out_dtype=call.attrs.out_dtype
        )

    made = with_each_call(mod, replace)
    if not found:
        return mod, {}
    main = made["main"]
    kind = main.ret_ty if hasattr(main, "ret_ty") else main.ret_struct_info
    made["main"] = relax.Function(
        [*main.params, *inputs], main.body, kind, main.is_pure, main.attrs
    )
    return made, found


def _integer_weights(relax: Any, mod: Any) -> set[Any]:
    """Constants that `main` dequantizes as weights of layers that engines take, and for nothing else."""
    bound: list[tuple[Any, Any]] = []  # variables and their values
    users: dict[Any, list[tuple[Any, Any]]] = {}

    def collect(expression: Any) -> None:
        if type(expression).__name__ == "SeqExpr":
            bound.extend((b.var, b.value) for block in expression.blocks for b in block.bindings)
            bound.append((None, expression.body))

    def are_weights(variable: Any) -> bool:
        return variable in users and all(is_use(variable, *user) for user in users[variable])

    def is_use(variable: Any, result: Any, value: Any) -> bool:
        if name_of(value) == "relax.permute_dims":
            return are_weights(result)
        if name_of(value) not in _LAYERS or not variable.same_as(value.args[1]):
            return False
        operator = Reader({}).operator(value)
        return operator is not None and dnnl.runs(operator)

    for variable, function in mod.functions.items():
        if variable.name_hint == "main":
            relax.analysis.post_order_visit(function, collect)
    for user in bound:

        def use(expression: Any, user: tuple[Any, Any] = user) -> None:
            if type(expression).__name__ in ("Var", "DataflowVar"):
                users.setdefault(expression, []).append(user)

        relax.analysis.post_order_visit(user[1], use)
    found: dict[Any, bool] = {}
    for variable, value in bound:
        if name_of(value) == "relax.dequantize" and is_constant(value.args[0]):
            integers = value.args[0]
            found[integers] = found.get(integers, True) and are_weights(variable)
    return {integers for integers, alone in found.items() if alone}


def _is_training(call: Any) -> bool:
    return call.op.name == "relax.nn.batch_norm" and bool(call.attrs.training)


def _patterns(engine: str, is_open: bool) -> list[Any]:
    """One pattern for each operator that code generators have a word for, with the engine's
    predicate as its check."""
    from tvm.relax import dpl

    predicate = _PLUG_INS[engine][0] if engine in _PLUG_INS else target_of(engine)
    if not callable(predicate):
        raise BuildError(
            f"partition: {engine!r} has a pattern table and no predicate; give one to register_pattern_table, or"
            " patterns=[...] of TVM"
        )

    def taken(context: Any) -> bool:
        operator = Reader({} if is_open else None).operator(context.matched_expr)
        return operator is not None and agrees(f"the predicate of {engine!r}", predicate, operator)

    def gelu(context: Any) -> bool:
        """True for one of which nobody outside needs what is between."""
        made = _read_bindings(context.matched_bindings)
        found = gelu_in([*made.values()])
        inside = [variable for variable, operator in made.items() if operator in found]
        return bool(found) and all(
            type(variable).__name__ == "DataflowVar"
            and {*inside}.issuperset(context.var_usages[variable])
            for variable in inside[:-1]
        )

    gelus: list[Any] = [(f"{engine}.gelu", _gelu(dpl), {}, gelu)] if engine in _PLUG_INS else []
    return [
        *gelus,
        *(
            (f"{engine}.{name}", dpl.is_op(name)(*_wildcards(dpl, rule.arguments)), {}, taken)
            for name, rule in RULES.items()
        ),
    ]


def _gelu(dpl: Any) -> Any:
    """A pattern of x * (1 + erf(x * ...)) * ...: engines have no erf outside of it."""

    def both(name: str, a: Any, b: Any) -> Any:
        return dpl.is_op(name)(a, b) | dpl.is_op(name)(b, a)

    def scaled(a: Any) -> Any:
        made: Any = both("relax.multiply", a, dpl.is_const())
        return made | dpl.is_op("relax.divide")(a, dpl.is_const())

    x = dpl.wildcard()
    gate = both("relax.add", dpl.is_op("relax.erf")(scaled(x)), dpl.is_const())
    return (
        scaled(both("relax.multiply", x, gate))
        | both("relax.multiply", scaled(x), gate)
        | both("relax.multiply", x, scaled(gate))
    )


def _read_bindings(bindings: Mapping[Any, Any]) -> dict[Any, Operator]:
    """The operators of bindings by their variables, in an order in which they can run."""
    reader, seen = Reader({}), set()
    made: dict[Any, Operator] = {}

    def read(variable: Any) -> None:
        if variable in bindings and variable not in seen:
            seen.add(variable)
            for argument in bindings[variable].args:
                read(argument)
            operator = reader.operator(bindings[variable], variable)
            made.update({variable: operator} if operator is not None else {})

    for variable in bindings:
        read(variable)
    return made


def _wildcards(dpl: Any, count: int) -> list[Any]:
    return [dpl.wildcard() for _ in range(count)]


# -- a region --------------------------------------------------------------------------------------


def _region(engine: str, symbol: str, function: Any, reader: Reader) -> Region:
    read: list[Operator] = []
    outputs = _read(symbol, function, reader, read)
    inputs = [_known(symbol, p, reader) for p in function.params if not _is_shape(p)]
    operators = simplified(quantized(read, outputs), outputs) if engine in _PLUG_INS else read
    if engine in _PLUG_INS:
        operators = _PLUG_INS[engine][2](operators, outputs)
    constants = {id(t): t for o in operators for t in o.inputs if t.is_constant}
    return Region(
        key=engine,
        symbol=symbol,
        operators=operators,
        inputs=inputs,
        constants=[*constants.values()],
        outputs=outputs,
        constant_names=[f"{symbol}_const_{i}" for i in range(len(constants))],
        calls=_calls(engine, operators, outputs),
    )


def _is_shape(expression: Any) -> bool:
    """True for what gives a reshape its extents, which the result of the reshape has, too."""
    return hasattr(type_of(expression), "values")


def _known(symbol: str, expression: Any, reader: Reader) -> Tensor:
    found = reader.tensor(expression)
    if found is None:
        raise BuildError(
            f"{symbol}: {expression} is no tensor of a known shape: {type_of(expression)}"
        )
    return found


def _read(symbol: str, function: Any, reader: Reader, operators: list[Operator]) -> list[Tensor]:
    """Add the operators of a function, and of those that it calls; the tensors that it returns."""
    inner: dict[Any, Any] = {}
    tuples: dict[Any, list[Tensor]] = {}
    for binding in (b for block in function.body.blocks for b in block.bindings):
        variable, value = binding.var, binding.value
        kind = type(value).__name__
        if kind == "Function":
            inner[variable] = value
        elif kind == "Tuple":
            tuples[variable] = [_known(symbol, field, reader) for field in value.fields]
        elif kind == "TupleGetItem":
            reader.bind(variable, tuples[value.tuple_value][value.index])
        elif kind == "Call" and value.op in inner:
            within = reader.inner()  # one function may be called twice
            for parameter, argument in zip(inner[value.op].params, value.args):
                if _is_shape(argument):
                    extents = [reader.extent(extent) for extent in type_of(argument).values or ()]
                    within.bind_extents(type_of(parameter).values or (), extents)
                else:
                    within.bind(parameter, _known(symbol, argument, reader))
            tuples[variable] = _read(symbol, inner[value.op], within, operators)
            if not hasattr(type_of(variable), "fields"):
                reader.bind(variable, tuples[variable][0])
        elif kind == "Call":
            operator = reader.operator(value, variable)
            if operator is None:
                name = getattr(value.op, "name", value.op)
                raise BuildError(f"{symbol}: code generators have no word for {name} as it is here")
            operators.append(operator)
        else:
            reader.bind(variable, _known(symbol, value, reader))
    body = function.body.body
    fields = getattr(body, "fields", None) or [body]
    return tuples.get(body) or [_known(symbol, field, reader) for field in fields]


def _calls(engine: str, operators: Sequence[Operator], outputs: Sequence[Tensor]) -> list[Operator]:
    """The operators, with composites of the engine's table."""
    own = _PLUG_INS.get(engine)
    table = rows(engine, own[1]()) if own else table_of(engine)
    readers: dict[int, set[int]] = {id(t): {-1} for t in outputs}
    for i, operator in enumerate(operators):
        for tensor in operator.inputs:
            readers.setdefault(id(tensor), set()).add(i)
    needed_by = [set().union(*(readers.get(id(t), ()) for t in o.outputs)) for o in operators]
    free = dict(enumerate(operators))
    found, _ = composites(engine, table, free, needed_by)
    for match in found:
        inside = [operators[i] for i in match.nodes]
        free[match.nodes[-1]] = Composite.of(match.name, inside)
    calls = [free[i] for i in sorted(free)]
    return dnnl.fused_roundings(calls, outputs) if own else calls


# -- after -----------------------------------------------------------------------------------------


def _with_calls(relax: Any, mod: Any, symbols: Mapping[str, str]) -> Any:
    """The module with calls of packed functions in place of its regions."""

    def replace(call: Any, _: Any) -> Any:
        symbol = symbols.get(getattr(call.op, "name_hint", ""))
        if symbol is None:
            return call
        kind = type_of(call)
        results = [*kind.fields] if hasattr(kind, "fields") else kind
        given = [argument for argument in call.args if not _is_shape(argument)]
        return relax.op.call_dps_packed(symbol, relax.Tuple(given), results)

    made = with_each_call(mod, replace, leave=symbols)
    for variable in [v for v in made.functions if v.name_hint in symbols]:
        del made[variable]
    return made
