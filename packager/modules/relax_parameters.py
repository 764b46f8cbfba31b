"""The check of parameters that are packed for a program of Relax: does it take them, as far as it says so?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mblob.errors import FormatError, listed
from mblob.format.grammar import FFI_GRAMMARS, GRAMMARS, Grammars, decode_payload
from mblob.format.type_keys import RELAX_EXECUTABLES
from mblob.inspect.relax_program import PACKED, Function, Program
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
        UserWarning: their order is that of their names, and nothing says whether the program has it; or
            the program seems to take each as an input of another name.

    Raises:
        BuildError: naming the tensor, and what the program takes.
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
            f"{place}: {error}; if params= has the right tensors, order= gives their order, a list of names"
        ) from None
    names = {name for name, *_ in rows}
    functions = [f for f in program.functions if f.kind != PACKED and f.params]
    if len(rows) < 2 or any(names.intersection(f.params) for f in functions):
        return  # inputs find them by name
    inputs = next((f.params for f in functions if len(f.params) > len(rows)), None)
    if inputs and not _has_place(program, functions):
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


def _has_place(program: Program, functions: Sequence[Function]) -> bool:
    """True if a function of a program takes a tuple, as far as the program says so, or by its name."""
    if any("params" in name for f in functions for name in f.params):
        return True
    told = (i for f in summarize(program, lambda t: t)["functions"] for i in f.get("inputs", ()))
    return any(i.get("type", "").lower().startswith("tuple") for i in told)
