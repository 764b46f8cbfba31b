"""C with OpenCL-like vectors, as TVM's `target="c"` writes it, to C that compilers take, and what
those say about it in words of the source.

`float4(a, b, c, d)`, `(float4)(x, x, x, x)`, `v.s0`, arithmetic, comparisons and `c ? a : b` by
lane, loads and stores through `(float4 *)p`: of these only unions with lanes and calls of inline
functions remain. Every token stays in its line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NoReturn

from mblob.packager.compile.vector_c.helpers import Helpers, with_operators
from mblob.packager.compile.vector_c.names import Names
from mblob.packager.compile.vector_c.own_names import own_names
from mblob.packager.compile.vector_c.packed_bytes import unpack
from mblob.packager.compile.vector_c.statements import Statements
from mblob.packager.compile.vector_c.tokens import NO_NAMES, place, tokenize
from mblob.packager.compile.vector_c.words import SCALARS
from mblob.packager.errors import BuildError


@dataclass
class Rewritten:
    """A source without vector types.

    Attributes:
        source: the source, every token in its line.
        helpers: of the definitions that must stand before it, and behind `scalars.h`.
    """

    source: str
    helpers: Helpers

    @property
    def uses_half(self) -> bool:
        """True if the source needs the 16-bit float."""
        return self.helpers.uses_half

    def definitions(self, cxx: bool) -> str:
        """The definitions that must stand before the source, for a compiler of C or of C++."""
        return with_operators(self.helpers) if cxx else self.helpers.text()


def rewrite(source: str, file: str, files: Mapping[str, str] = NO_NAMES) -> Rewritten | None:
    """Rewrite a source.

    Args:
        source: C or C++, preprocessed or not. What is hidden in directives stays as it is.
        file: what messages call it.
        files: what they call those that line markers name otherwise.

    Returns:
        None if it uses no vector types, or gives all their names a meaning of its own.

    Raises:
        BuildError: vectors that cannot be combined; the text says file and line.
    """
    source = unpack(source)
    tokens, tail = tokenize(source)
    names = Names(own_names(source, tokens))
    helpers = Helpers()

    def refuse(at: int, why: str) -> NoReturn:
        raise BuildError(f"{place(source, tokens[at].start, file, files)}: {why}")

    statements = Statements(tokens, tail, refuse, helpers, names)
    statements.walk()
    if not names.used:
        return None
    for name, t in names.used.items():
        helpers.alias(name, t)
    return Rewritten(statements.written(), helpers)


# -- the text before a rewritten source ------------------------------------------------------------

_LANE_TYPES = Path(__file__).with_name("scalars.h")
_HALF = "MBLOB_VECTOR_HALF"
# our header has classes of these names, for C++ that nobody rewrites
_NO_CLASSES = "MBLOB_NO_VECTOR_TYPES"
_PLACE = "extern int mblob_vector_definitions_here;"
_CXX = "extern int mblob_vectors_in_cxx;"  # is left in C++
_ANY_HALF = re.compile(r"\bhalf")


def preprocessor_options(source: str) -> list[str]:
    """Compiler options that preprocess a source so that `in_preprocessed` takes it."""
    macros = (_NO_CLASSES, _HALF) if _ANY_HALF.search(source) else (_NO_CLASSES,)
    return [*(f"-D{macro}" for macro in macros), "-include", str(_LANE_TYPES)]


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
    return _LANE_TYPES.read_text()


# -- what compilers say about rewritten sources ----------------------------------------------------

_LANES = "|".join(SCALARS)
_OURS = re.compile(rf"\bmblob_((?:{_LANES})(?:[2-9]|1[0-6])?)(?:_simd)?\b")
_TWICE = re.compile(r"'(\w+)' (?:\{aka '\1'\}|\(aka '\1'\))")
_COLUMN = re.compile(r"^(\S.*?:\d+):\d+:(?= )", re.MULTILINE)
_EXCERPT = re.compile(r"^\s(?!\s*from )")
_CARET = re.compile(r"^[ ~]*\^[ ~^]*$")


def translate_diagnostics(output: str) -> str:
    """The output of a compiler without columns and excerpts, which are of the rewritten text, and
    with TVM's names.

    Lines and files are those of the source already.
    """
    lines = output.splitlines(keepends=True)
    # clang shows a line of text as it is, and marks it in the next.
    shown = [_CARET.match(line) is not None for line in [*lines[1:], ""]]
    kept = "".join(
        line for line, is_shown in zip(lines, shown) if not is_shown and not _EXCERPT.match(line)
    )
    return _TWICE.sub(r"'\1'", _OURS.sub(r"\1", _COLUMN.sub(r"\1:", kept)))
