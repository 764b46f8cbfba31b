"""The outputs of a function of a Relax program, which only its code tells: tensors that it allocates and returns."""

from __future__ import annotations

import re

from mblob.format.grammar import decode_payload
from mblob.inspect.entry_view import EntryView
from mblob.inspect.library import Library
from mblob.inspect.models import Model, Value
from mblob.inspect.relax_graph import graphs_of
from mblob.inspect.tensors import dtype_decoder, relax_program

_TENSOR = re.compile(r"(\w+)\[([\d, ]*)\]")
_MAKE_TUPLE = "vm.builtin.make_tuple"


def outputs_of(library: Library, model: Model) -> tuple[Value, ...] | None:
    """The outputs, without names; None if code does not tell each of them as a tensor with a type and a fixed shape."""
    entry = library.entries[model.entry]
    program = relax_program(
        decode_payload(entry.type_key, entry.view(), library.grammars)["code"], library.grammars
    )
    facts = entry.content.facts["executable"]["functions"]
    graphs, _ = graphs_of(program, facts, dtype_decoder(library.grammars))
    graph = next((g for g in graphs if g.name == model.name and not g.left_out), None)
    if graph is None:
        return None
    heads = graph.heads
    if len(heads) == 1 and graph.nodes[heads[0][0]].operator == _MAKE_TUPLE:
        heads = list(graph.nodes[heads[0][0]].inputs)
    texts = [(graph.nodes[node].values or ("",))[at : at + 1] for node, at in heads]
    found = [_TENSOR.fullmatch(text[0]) if text else None for text in texts]
    if not found or not all(found):
        return None
    return tuple(
        Value(None, tuple(int(n) for n in re.findall(r"\d+", m[2])), m[1]) for m in found if m
    )


def given_inputs(library: Library, model: Model) -> tuple[Value, ...]:
    """The inputs of a function that are no parameters packed with the program: these are its last ones."""
    inputs = model.inputs or ()
    stored = _parameters(library, library.entries[model.entry])
    if not stored:
        return inputs
    by_name = [v for v in inputs if v.name not in stored]
    if len(by_name) < len(inputs):
        return tuple(by_name)
    taken = 1 if inputs and inputs[-1].type.lower().startswith("tuple") else len(stored)
    return inputs[: max(len(inputs) - taken, 0)]


def _parameters(library: Library, program: EntryView) -> list[str]:
    """Names of the tensors that were packed as the parameters of a program."""
    below = (library.entries[i] for i in program.imports)
    return next(
        (e.content.facts["parameters"] for e in below if "parameters" in e.content.facts), []
    )
