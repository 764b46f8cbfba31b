"""The check of parameters that are packed for a program of Relax: does it take them, as far as it says so?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mblob.dtype import DataType
from mblob.errors import FormatError, did_you_mean, listed
from mblob.format.grammar import FFI_GRAMMARS, GRAMMARS, Grammars, decode_payload, text
from mblob.format.type_keys import RELAX_EXECUTABLES
from mblob.inspect.relax_program import PACKED, Constant, Function, Program
from mblob.inspect.relax_summary import summarize
from mblob.inspect.tensors import relax_program
from mblob.module import Module
from mblob.named_tuple import NamedTuple
from mblob.packager.errors import BuildError, warn
from mblob.packager.modules.nodes import PayloadNode, file_of, files_in, node_of
from mblob.relax_texts import Extents, Parameter, context_of, tensors_in


class _Row(NamedTuple):
    """A parameter."""

    name: str
    dtype: DataType
    shape: Sequence[int]


def is_set(module: Module) -> bool:
    """True if a module has the parameters of a program."""
    node = node_of(module)
    return isinstance(node, PayloadNode) and node.parameters is not None


def check_tree(modules: Sequence[Module], is_ffi: bool) -> None:
    """Check the parameters that programs of a tree import.

    Raises:
        BuildError: as of `check_parameters`.
    """
    grammars = FFI_GRAMMARS if is_ffi else GRAMMARS
    for program in modules:
        if program.type_key in RELAX_EXECUTABLES:
            key, where = program.type_key, file_of(program) or program.type_key
            sets = [*filter(is_set, program.walk())]
            for module in sets:
                check_parameters(where, key, program.payload, grammars, module)
            if not sets:
                warn_of_weights(where, key, program.payload, grammars, modules)


def check_parameters(
    place: str, key: str, payload: bytes | memoryview, grammars: Grammars, module: Module
) -> None:
    """Refuse parameters that the machine of a program would refuse, or each of its calls.

    Args:
        place: of the program, for errors.
        key, payload: of the program; a damaged one takes any parameters.
        module: of the parameters.

    Warns:
        UserWarning: their order is that of their names, and nothing says whether the program has it; the program
            takes each, or one, as an input of another name; or an input behind others gets none.

    Raises:
        BuildError: naming the tensor, and what the program takes; or no function takes so many parameters.
    """
    node = node_of(module)
    assert isinstance(node, PayloadNode)
    rows = [_Row(*row) for row in node.parameters or ()]
    program = _program(key, payload, grammars)
    if program is None:
        return
    functions = [f for f in program.functions if f.kind != PACKED]
    names = [row.name for row in rows]
    is_by_name = any(name in f.params for f in functions for name in names)
    inputs = _inputs(program, functions)
    if rows and not is_by_name and (why := _refusal(functions, inputs, rows)):
        raise BuildError(f"{place}: parameters: {why}; weights= packs tensors for other uses")
    try:
        program.check_parameters(rows)
    except FormatError as error:
        raise BuildError(
            f"{place}: {error}; a list of names, order=, says which tensors the program takes, and in which order"
        ) from None
    if is_by_name:
        _warn_of_names(place, functions, inputs, names)
    elif len(rows) > 1:
        _warn_of_order(place, functions, inputs, names)
        kinds = {(row.dtype, tuple(row.shape)) for row in rows}
        if node.is_order_of_names and (len(kinds) < len(rows) or _takes(program, rows[::-1])):
            warn(
                f"{node.files[0]}: the order of its tensors is that of their names, and the program does not say"
                " whether that is its own; order= gives another one"
            )


def _program(key: str, payload: bytes | memoryview, grammars: Grammars) -> Program | None:
    try:
        fields = decode_payload(key, memoryview(payload), grammars)
        return relax_program(fields["code"], grammars)
    except FormatError:
        return None


def _takes(program: Program, rows: Sequence[_Row]) -> bool:
    try:
        program.check_parameters(rows)
    except FormatError:
        return False
    return True


class _Input(NamedTuple):
    """An input of a function, as far as the program says what it is.

    Attributes:
        kind: "tensor", "tuple", "other" (nothing that holds parameters); "" if it may be anything.
        is_checked: calls check what it is. The compiler leaves that out for parameters.
        dtype, shape: of a tensor.
    """

    name: str
    kind: str
    is_checked: bool
    dtype: str | None
    shape: Extents

    @property
    def text(self) -> str:
        return f"{self.name} {Parameter(self.dtype, self.shape).text}".rstrip()

    def takes(self, row: _Row) -> bool:
        """True of a tensor that may be this parameter."""
        is_small = self.dtype is not None and DataType.parse(self.dtype).bits == row.dtype.bits == 8
        is_type = self.dtype in (None, str(row.dtype)) or is_small  # 8 bits have several names
        found, wanted = row.shape, row.shape if self.shape is None else self.shape
        same = (a == b or not isinstance(b, int) for a, b in zip(found, wanted))
        return is_type and len(found) == len(wanted) and all(same)


# The inputs of functions, by the name of the function.
_Inputs = Mapping[str, Sequence[_Input]]


def _inputs(program: Program, functions: Iterable[Function]) -> _Inputs:
    told = {f["name"]: f.get("inputs", ()) for f in summarize(program, lambda t: t)["functions"]}
    found = {}
    for f in functions:
        row, tensors = [], program.kernel_arguments(f)
        for i, known in enumerate(told.get(f.name, ())):
            type_, dtype, shape = known.get("type", ""), known["dtype"], known["shape"]
            is_checked = bool(type_) or dtype is not None or shape is not None
            kind = "tensor" if (is_checked and not type_) or i in tensors else ""
            kind = "tuple" if type_.lower().startswith("tuple") else kind
            kind = "other" if type_.startswith(("Shape", "Prim")) else kind
            row.append(_Input(known["name"], kind, is_checked, dtype, shape))
        found[f.name] = row
    return found


def _refusal(functions: Sequence[Function], inputs: _Inputs, rows: Sequence[_Row]) -> str:
    """The reason why no function takes the parameters, as a tuple or one by one; "" if one does, or may."""
    why, types = f"no function takes a tuple, or {len(rows)} tensors", dict[str, str]()
    for f in functions:
        known = inputs.get(f.name, ())
        if len(known) < f.num_args or any(i.kind in ("", "tuple") for i in known):
            return ""
        tensors = [i for i in known if i.kind == "tensor"]
        if len(tensors) < len(rows):
            continue
        misfit = next((row for row in rows if not any(i.takes(row) for i in tensors)), None)
        if misfit is None:
            return ""
        found = Parameter(str(misfit.dtype), tuple(misfit.shape)).text
        why = f"no input takes tensor {misfit.name[:80]!r}, {found}"
        types = {i.name: i.text for i in known}
    shown = [f"{f.name}({', '.join(types.get(n, n) for n in f.params)})"[:120] for f in functions]
    return f"{why}: {listed(shown, 6)}" if functions else ""


def _warn_of_order(
    place: str, functions: Sequence[Function], inputs: _Inputs, names: Sequence[str]
) -> None:
    """Warn that no input has the name of a tensor: which inputs get them, or that none does."""
    f = next((f for f in functions if len(f.params) > len(names)), None)
    if f is None or _has_place(functions, inputs):
        return
    *_, checked = inputs[f.name][: -len(names)]
    last = inputs[f.name][-len(names) :]
    what = f"{place}: no input ({listed(f.params, 6)}) has the name of a parameter ({listed(names, 6)})"
    if checked.is_checked and all(i.kind == "tensor" for i in last):
        warn(f"{what}; {f.name!r} gets them in this order, as {listed([i.name for i in last], 6)}")
    else:
        warn(
            f"{what}; inputs that are parameters, one by one, find them by name: give the tensors the names of these"
            " inputs"
        )


def _warn_of_names(
    place: str, functions: Sequence[Function], inputs: _Inputs, names: Sequence[str]
) -> None:
    """Warn if each function that takes tensors of the set by name has an input behind the first of these that gets
    none: calls pass only parameters that are the last inputs. Or if no input has the name of a tensor."""
    taken = list(dict.fromkeys(name for f in functions for name in f.params))
    others = [name for name in names if name not in taken]
    known, missing = set(names), []
    for f in functions:
        first = next((i for i, name in enumerate(f.params) if name in known), None)
        if first is not None:
            missing.append((f, first, [name for name in f.params[first:] if name not in known]))
    is_short = all(rest for *_, rest in missing)
    if not (is_short or others) or _has_place(functions, inputs):
        return
    if is_short:
        f, first, rest = missing[0]
        also = f"; no input has the name of {listed(others, 6)}" if others else ""
        warn(
            f"{place}: parameters: no tensor has the name of {listed(rest, 6)}, which {f.name!r} takes behind"
            f" {f.params[first]!r}{also}; calls pass only parameters that are the last inputs"
        )
    else:
        warn(
            f"{place}: parameters: no input has the name of {listed(others, 6)}"
            f"{did_you_mean(others[0], [name for name in taken if name not in known])}; calls pass what inputs have"
            " the names of"
        )


def _has_place(functions: Iterable[Function], inputs: _Inputs) -> bool:
    """True if a function of a program takes a tuple, as far as the program says so, or by its name."""
    by_name = any("params" in name for f in functions for name in f.params)
    return by_name or any(i.kind == "tuple" for row in inputs.values() for i in row)


# -- weights that may be parameters ----------------------------------------------------------------


def warn_of_weights(
    place: str,
    key: str,
    payload: bytes | memoryview,
    grammars: Grammars,
    modules: Iterable[Module],
) -> None:
    """Warn of weights that are no parameters of a program, though it seems to take them as such: inputs have their
    names, or a tuple has tensors of their types and shapes.

    Args:
        place, key, payload: as of `check_parameters`, of a program that has no parameters.
        modules: new ones, which may be weights.
    """
    nodes = (node for node in map(node_of, modules) if isinstance(node, PayloadNode))
    given = [node for node in nodes if node.weights and node.parameters is None]
    program = _program(key, payload, grammars) if given else None
    if program is None:
        return
    functions = [f for f in program.functions if f.kind != PACKED]
    inputs = {name for f in functions for name in f.params}
    tuples = set(filter(None, map(_items, program.constants)))
    for node in given:
        rows = [_Row(*row) for row in node.weights]
        found = tuple(sorted(Parameter(str(r.dtype), tuple(r.shape)).text for r in rows))
        if any(row.name in inputs for row in rows) or found in tuples:
            where = next((path for _, path in files_in([node])), listed(node.tensor_names, 6))
            warn(
                f"{where}: packed as weights, which {place} does not get, though it takes such parameters; params="
                " packs them as its parameters"
            )


def _items(constant: Constant) -> tuple[str, ...]:
    """The tensors of a tuple that an argument has to be, in any order; () if a constant says none."""
    context = context_of(text(constant.value)) if constant.kind == "string" else None
    if context is None or context.index is None or "Tuple(" not in context.annotation:
        return ()
    return tuple(sorted(tensor.text for tensor in tensors_in(context.annotation)))
