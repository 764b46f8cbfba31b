"""What the payload of each type key looks like in the ffi dialect (TVM 0.21 and later):
docs/format.md, section 11.

What the columns of `mblob.format.type_keys` mean here; most fields are those of
`mblob.format.grammar`.
"""

from __future__ import annotations

from mblob.bytes.wire import Cursor
from mblob.format import grammar
from mblob.format.grammar import Grammars, function_info
from mblob.format.type_keys import NONE, RELAX_EXECUTABLE, TABLE


def function_map(c: Cursor, what: str) -> dict[str, grammar.FunctionInfo]:
    """Kernels; behind the launch tags of each a vector<i32>, one number for each parameter (or none
    at all)."""
    functions = {}
    for _ in range(c.count(what, 40)):
        info = function_info(c, what)
        extra = tuple(
            c.i32(f"{what}.arg_extra_tags") for _ in range(c.count(f"{what}.arg_extra_tags", 4))
        )
        types = tuple(t.of_ffi() for t in info.arg_types)
        functions[info.name] = info._replace(arg_types=types, arg_extra_tags=extra)
    return functions


FIELDS = {**grammar.FIELDS, "f": function_map}

# From 0.22 on every payload has its length; 0.21 wrote the executable as one string.
GRAMMARS: Grammars = {
    row.key: grammar.grammar_of(row.ffi, FIELDS) for row in TABLE if row.ffi != NONE
}
GRAMMARS_OF_0_21: Grammars = {**GRAMMARS, RELAX_EXECUTABLE: grammar.GRAMMARS[RELAX_EXECUTABLE]}
