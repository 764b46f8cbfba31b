"""C with OpenCL-like vectors, as TVM's `target="c"` writes it, to C that compilers take.

`float4(a, b, c, d)`, `(float4)(x, x, x, x)`, `v.s0`, arithmetic, comparisons and `c ? a : b` by
lane, loads and stores through `(float4 *)p`: of these only unions with lanes and calls of inline
functions remain. Every token stays in its line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from mblob.packager.compile.vector_c.cxx_operators import with_operators
from mblob.packager.compile.vector_c.helpers import Helpers
from mblob.packager.compile.vector_c.operations import Operations
from mblob.packager.compile.vector_c.own_names import own_names
from mblob.packager.compile.vector_c.packed_bytes import unpack
from mblob.packager.compile.vector_c.scope import Names
from mblob.packager.compile.vector_c.statements import Statements
from mblob.packager.compile.vector_c.tokens import NO_NAMES, place, tokenize, written
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
        """Whether it needs the 16-bit float."""
        return self.helpers.uses_half

    def definitions(self, cxx: bool) -> str:
        """What must stand before it, for a compiler of C or of C++."""
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
    tokens, tail = tokenize(source)
    names = Names(own_names(source, tokens))
    tokens = unpack(tokens)
    helpers = Helpers()

    def refuse(at: int, why: str) -> NoReturn:
        raise BuildError(f"{place(source, tokens[at].start, file, files)}: {why}")

    Statements(Operations(tokens, helpers, refuse), names).walk()
    if not names.used:
        return None
    for name, t in names.used.items():
        helpers.alias(name, t)
    return Rewritten(written(tokens, tail), helpers)
