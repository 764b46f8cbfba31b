"""The checks that packed functions call: as C text in front of them, or as an object that mblob's own
build compiled from that text.

The object saves two thirds of a small compilation. It is for the machine on which mblob is installed, and
for objects that agree with it in all that a linker compares; all others get the text.

`setup.py` imports this file, before there is anything that it compiles.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from mblob import argument_types, device_types, texts

_HERE = Path(__file__).parent
DIALECTS = ("classic", "ffi")


@cache
def text(
    dialect: str,
    of_fortran: bool = False,
    apart: bool = False,
    has_values: bool = False,
    has_overloads: bool = False,
) -> str:
    """The C text of a dialect's checks.

    Args:
        of_fortran: with those of Fortran's arguments.
        has_values: with those of values that no argument is.
        has_overloads: with those that choose among overloads.
        apart: declarations alone; the code is in the object.
    """
    if apart:
        return "#define MBLOB_CHECKS_APART\n" + _code(dialect, False)
    code = _code(dialect, of_fortran)
    if has_values:
        code += (_HERE / "checks_values.h").read_text(encoding="utf-8")
    if has_overloads:
        code += (_HERE / "checks_overloads.h").read_text(encoding="utf-8")
    return "\n".join([*_macros(code), code])


def source_of_object(dialect: str) -> str:
    """The C text of the object."""
    return '#define MBLOB_CHECK __attribute__((visibility("hidden")))\n' + text(dialect)


# As of all generated code (packager/compile/host_objects.py), for a library of any release of TVM.
OBJECT_OPTIONS = (
    "-O1", "-fPIC", "-ffreestanding", "-fexceptions", "-fasynchronous-unwind-tables", "-g0", "-DMBLOB_KERNEL",
)  # fmt: skip


def object_path(dialect: str) -> Path:
    """The object, where the build of mblob puts it."""
    return _HERE / f"checks_{dialect}.o"


def _code(dialect: str, of_fortran: bool) -> str:
    own = (_HERE / f"checks_{dialect}.h").read_text(encoding="utf-8")
    code = (_HERE / "checks.h").read_text(encoding="utf-8").replace("/* THE DIALECT */\n", own)
    if of_fortran:
        code += (_HERE / "checks_fortran.h").read_text(encoding="utf-8")
    return code


def _macros(code: str) -> list[str]:
    """Definitions of what some C code uses of the tables that it shares with the runtime."""
    used = set(re.findall(r"\bMB_\w+", code))
    known = {**texts.macros(), **argument_types.macros(), **device_types.macros()}
    return texts.defined({name: value for name, value in known.items() if name in used})
