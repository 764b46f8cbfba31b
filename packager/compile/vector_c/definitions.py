"""The text before a rewritten source: lane types, which the compiler decides, and the definitions
that it needs."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from mblob.packager.compile.vector_c.rewrite import Rewritten

SCALARS = Path(__file__).with_name("scalars.h")
_HALF = "MBLOB_VECTOR_HALF"
# our header has classes of these names, for C++ that nobody rewrites
_NO_CLASSES = "MBLOB_NO_VECTOR_TYPES"
_PLACE = "extern int mblob_vector_definitions_here;"
_CXX = "extern int mblob_vectors_in_cxx;"  # is left in C++
_ANY_HALF = re.compile(r"\bhalf")


def preprocessor_options(source: str) -> list[str]:
    """What preprocesses a source so that `in_preprocessed` takes it."""
    macros = (_NO_CLASSES, _HALF) if _ANY_HALF.search(source) else (_NO_CLASSES,)
    return [*(f"-D{macro}" for macro in macros), "-include", str(SCALARS)]


def user_part(preprocessed: str) -> tuple[str, str]:
    """A preprocessed source split behind our lane types."""
    head, _, tail = preprocessed.partition(_PLACE)
    return head, tail


def in_preprocessed(head: str, made: Rewritten) -> str:
    """The whole text for the compiler, preprocessed; `head` is of `user_part`."""
    return head + made.definitions(cxx=_CXX in head) + made.source


def standalone(made: Rewritten, file: str) -> str:
    """The whole text for a compiler that is not ours to ask: not preprocessed."""
    macros = (_NO_CLASSES, _HALF) if made.uses_half else (_NO_CLASSES,)
    defined = "".join(f"#define {macro}\n" for macro in macros)
    name = file.replace("\\", "\\\\").replace('"', '\\"')
    plain = made.definitions(cxx=False)
    definitions = f"#ifdef __cplusplus\n{made.definitions(cxx=True)}#else\n{plain}#endif\n"
    return f'{defined}{_scalars().replace(_PLACE, definitions)}#line 1 "{name}"\n{made.source}'


@cache
def _scalars() -> str:
    return SCALARS.read_text()
