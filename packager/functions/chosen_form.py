"""C source of packed functions that choose among overloads of C++."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from mblob.packager.modules.prototypes import Parameter, Prototype, Scalar
from mblob.texts import quoted


def form(
    p: Prototype, number: int, symbols: Sequence[str], convention: str, arguments: Sequence[str],
    elements: Callable[[Scalar], str],
) -> str:  # fmt: skip
    """The packed function that chooses among others by the arguments.

    Args:
        number: of the function in the file.
        symbols: its own, and those of the packed functions of its overloads.
        convention: how a packed function is declared, `@` its name.
        arguments: its parameters that are arguments.
        elements: gives the initializer of a mblob_element.
    """
    own, *others = symbols
    passed = ", ".join(re.findall(r"(\w+)(?=[,)])", convention))
    names = "; ".join(o.name for o in p.overloads)
    lines = [f"\n/* {p.name} */"]
    rows, cases = [], []
    for k, (o, symbol) in enumerate(zip(p.overloads, others)):
        lines.append(
            f'extern {convention.replace("@", f"mblob_over_{number}_{k}")} __asm__("{symbol}");'
        )
        wanted = ", ".join(_wanted(a, elements) for a in o.arguments) or "{MBLOB_NONE, {0}}"
        lines.append(f"static const mblob_wanted mblob_wanted_{number}_{k}[] = {{{wanted}}};")
        rows.append(f"{{{len(o.arguments)}, mblob_wanted_{number}_{k}}}")
        cases.append(f"    case {k}: return mblob_over_{number}_{k}({passed});")
    definition = convention.replace("@", f"mblob_packed_{number}")
    return "\n".join([
        *lines,
        f'extern __attribute__((visibility("default"))) {definition} __asm__("{own}");',
        f"{definition} {{",
        f"  static const mblob_overload list[] = {{{', '.join(rows)}}};",
        f"  const mblob_call_info call = {{{quoted(p.name)}, 0, {', '.join(arguments)}}};",
        f"  switch (mblob_choose(&call, num_args, list, {len(rows)}, {quoted(names)})) {{",
        *cases,
        "    default: return -1;",
        "  }",
        "}",
        "",
    ])  # fmt: skip


def _wanted(p: Parameter, elements: Callable[[Scalar], str]) -> str:
    """Initializer of a mblob_wanted."""
    element = "{0}"
    if p.kind in ("string", "text"):
        kind = "MBLOB_NULL"
    elif (
        p.kind in ("pointer", "texts")
        or p.value is not None
        or p.length is not None
        or p.descriptor
    ):
        kind = "MBLOB_OTHER"
    elif p.kind == "scalar" or (p.kind == "number" and p.const):
        kind = "MBLOB_FLOAT" if p.element.kind in ("float", "bfloat") else "MBLOB_INT"
    else:
        kind, element = "MBLOB_TENSOR", elements(p.element)
    return f"{{{kind}, {element}}}"
