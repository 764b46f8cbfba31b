"""Functions that a Relax program names, and that nobody provides."""

from __future__ import annotations

import warnings

from mblob.errors import MblobError, one_line
from mblob.format.type_keys import RELAX_EXECUTABLES
from mblob.module import LIBRARY, Module

NAMED = 8  # functions that a warning names


def of_program(program: Module) -> list[str]:
    """Names that neither the modules that the program imports nor any registry has. A module that is
    not open yet has none."""
    return str(program["get_missing_functions"]()).splitlines()


def warn_after_load(program: Module) -> None:
    """Warn the caller of `load_module`. Damaged bytecode is an error of the machine that runs it."""
    if program.type_key not in RELAX_EXECUTABLES:
        return
    try:
        names = of_program(program)
    except MblobError:
        return
    if any(m is not program and m.type_key != LIBRARY for m in program.walk()):
        names = [name for name in names if "." in name]  # others may be of those modules
    warn(program, names, 4)


def warn(program: Module, names: list[str], stacklevel: int) -> None:
    """A UserWarning of those that no warning has named, for the caller `stacklevel` frames above."""
    warned_of: set[str] = getattr(getattr(program._node, "origin", None), "warned_of", set())
    names = [name for name in names if name not in warned_of]
    warned_of.update(names)
    if not names:
        return

    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    warnings.warn(
        one_line(
            f"the program names functions that nobody provides: {', '.join(names[:NAMED])}{more}; a call of one"
            " fails until mblob.register_func provides it"
        ),
        stacklevel=stacklevel,
    )
