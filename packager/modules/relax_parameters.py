"""The check of parameters that are packed for a program of Relax: does it take them, as far as it says so?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mblob.errors import FormatError, did_you_mean, listed
from mblob.format.grammar import FFI_GRAMMARS, GRAMMARS, Grammars, decode_payload
from mblob.format.type_keys import RELAX_EXECUTABLES
from mblob.inspect.relax_program import PACKED, Function
from mblob.inspect.relax_summary import summarize
from mblob.inspect.tensors import relax_program
from mblob.module import Module
from mblob.packager.errors import BuildError, warn
from mblob.packager.modules.nodes import PayloadNode, file_of, node_of


def is_set(module: Module) -> bool:
    """True if a module has the parameters of a program."""
    node = node_of(module)
    return isinstance(node, PayloadNode) and node.parameters is not None


def check_tree(modules: Iterable[Module], is_ffi: bool) -> None:
    """Check the parameters that programs of a tree import.

    Raises:
        BuildError: as of `check_parameters`.
    """
    for program in modules:
        if program.type_key in RELAX_EXECUTABLES:
            for module in filter(is_set, program.walk()):
                grammars = FFI_GRAMMARS if is_ffi else GRAMMARS
                key, where = program.type_key, file_of(program) or program.type_key
                check_parameters(where, key, program.payload, grammars, module)


def check_parameters(
    place: str, key: str, payload: bytes | memoryview, grammars: Grammars, module: Module
) -> None:
    """Refuse parameters that the machine of a program would refuse.

    Args:
        place: of the program, for errors.
        key, payload: of the program; a damaged one takes any parameters.
        module: of the parameters.

    Warns:
        UserWarning: their order is that of their names, and nothing says whether the program has it; the program
            seems to take each, or one, as an input of another name; or an input behind others gets none.

    Raises:
        BuildError: naming the tensor, and what the program takes; or no function takes so many parameters.
    """
    node = node_of(module)
    assert isinstance(node, PayloadNode)
    rows = list(node.parameters or ())
    try:
        fields = decode_payload(key, memoryview(payload), grammars)
        program = relax_program(fields["code"], grammars)
    except FormatError:
        return
    try:
        program.check_parameters(rows)
    except FormatError as error:
        raise BuildError(
            f"{place}: {error}; params= takes a file of just the tensors that the program takes; if only their order"
            " is wrong, order= gives another one, a list of all their names"
        ) from None
    names = {name for name, *_ in rows}
    functions = [f for f in program.functions if f.kind != PACKED]
    known_inputs = {
        f["name"]: f.get("inputs", ()) for f in summarize(program, lambda t: t)["functions"]
    }
    if any(names.intersection(f.params) for f in functions):  # inputs find them by name
        _warn_of_names(place, functions, known_inputs, [name for name, *_ in rows])
        return
    if rows and not _may_take(functions, known_inputs, len(rows)):
        shown = [f"{f.name}({', '.join(f.params)})"[:120] for f in functions]
        raise BuildError(
            f"{place}: parameters: no function takes a tuple, or {len(rows)} tensors: {listed(shown, 6)}; weights="
            " packs tensors for other uses"
        )
    functions = [f for f in functions if f.params]
    if len(rows) < 2:
        return
    inputs = next((f.params for f in functions if len(f.params) > len(rows)), None)
    if inputs and not _has_place(functions, known_inputs):
        warn(
            f"{place}: no input ({listed(inputs, 6)}) has the name of a parameter ({listed(list(names), 6)}); inputs"
            " that are parameters, one by one, find them by name: give the tensors the names of these inputs"
        )
    if not node.is_order_of_names:
        return
    kinds = {(dtype, tuple(shape)) for _, dtype, shape in rows}
    try:
        program.check_parameters(rows[::-1])
    except FormatError:
        if len(kinds) == len(rows):
            return
    warn(
        f"{node.files[0]}: the order of its tensors is that of their names, and the program does not say whether"
        " that is its own; order= gives another one"
    )


# By function, what a program tells of each of its inputs (`mblob.inspect.relax_summary`).
_KnownInputs = Mapping[str, Sequence[Mapping[str, Any]]]


def _warn_of_names(
    place: str, functions: Sequence[Function], known_inputs: _KnownInputs, names: Sequence[str]
) -> None:
    """Warn if each function that takes tensors of the set by name has an input behind the first of these that gets
    none: calls pass only parameters that are the last inputs. Or if no input has the name of a tensor."""
    inputs = list(dict.fromkeys(name for f in functions for name in f.params))
    others = [name for name in names if name not in inputs]
    known, missing = set(names), []
    for f in functions:
        first = next((i for i, name in enumerate(f.params) if name in known), None)
        if first is not None:
            missing.append((f, first, [name for name in f.params[first:] if name not in known]))
    is_short = all(rest for *_, rest in missing)
    if not (is_short or others) or _has_place(functions, known_inputs):
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
            f"{did_you_mean(others[0], [name for name in inputs if name not in known])}; calls pass what inputs have"
            " the names of"
        )


def _may_take(functions: Sequence[Function], known_inputs: _KnownInputs, count: int) -> bool:
    """True if a function of a program takes as many parameters, or may, as far as the program says so."""
    for f in functions:
        inputs = known_inputs.get(f.name, ())
        if len(inputs) < f.num_args or not all(_is_known(i) for i in inputs):
            return True
        if sum(not i.get("type") for i in inputs) >= count:
            return True
    return not functions


def _is_known(known: Mapping[str, Any]) -> bool:
    """True if an input is a tensor or a shape, as a program tells of it: nothing that holds parameters."""
    kind = known.get("type", "")
    return kind.startswith(("Shape", "Prim")) or (
        not kind and (known["dtype"] is not None or known["shape"] is not None)
    )


def _has_place(functions: Sequence[Function], known_inputs: _KnownInputs) -> bool:
    """True if a function of a program takes a tuple, as far as the program says so, or by its name."""
    if any("params" in name for f in functions for name in f.params):
        return True
    inputs = (i for rows in known_inputs.values() for i in rows)
    return any(i.get("type", "").lower().startswith("tuple") for i in inputs)
