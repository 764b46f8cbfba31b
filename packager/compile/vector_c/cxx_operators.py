"""Operators for C++, where types are not always known before the compiler runs: in templates and
containers.

What the rewriter understands it makes calls of helpers itself. What is left are operators on
operands of which it cannot tell the type; on vectors C++ finds these. They do nothing but call the
same helpers.
"""

from __future__ import annotations

from collections.abc import Iterator

from mblob.packager.compile.vector_c.helpers import COMPARISONS, Helpers, in_register
from mblob.packager.compile.vector_c.types import Type

_ANY = ("+", "-", "*", "/")
_INTEGERS = ("%", "&", "|", "^", "<<", ">>")
_HEAD = "static inline __attribute__((always_inline, unused)) "


def with_operators(helpers: Helpers) -> str:
    """The definitions for C++: those of the helpers, and the operators on all their types."""
    lines: list[str] = []
    done = 0
    while done < len(helpers.vectors):  # comparing floats needs integers
        lines += _of_type(helpers, helpers.vectors[done])
        done += 1
    return helpers.text() + "".join(f"{_HEAD}{line}\n" for line in lines)


def _of_type(helpers: Helpers, t: Type) -> Iterator[str]:
    v, lane = t.name, helpers.parameter(t)
    reference, every = f"const {v} &", helpers.broadcast(t)
    yield f"{helpers.value(t)} {every}({reference}x) {{ return {_given(t, 'x')}; }}"
    x = f"{v} x; {_kept(t, 'x', f'{every}(s)')}"
    own = (*_ANY, *_INTEGERS) if t.kind != "float" else _ANY
    for op in (*own, *COMPARISONS):
        result = t.as_mask() if op in COMPARISONS else t
        helpers.type(result)
        call = f"{helpers.binary(op, t)}({_given(t, 'a')}, {_given(t, 'b')})"
        yield f"{result.name} operator{op}({reference}a, {reference}b) {{ {_returned(result, call)} }}"
        yield f"{result.name} operator{op}({reference}a, {lane} s) {{ {x} return a {op} x; }}"
        yield f"{result.name} operator{op}({lane} s, {reference}b) {{ {x} return x {op} b; }}"
    for op in own:
        update = helpers.update(op, t)
        yield f"{v} &operator{op}=({v} &a, {reference}b) {{ {update}(&a, {_given(t, 'b')}); return a; }}"
        yield f"{v} &operator{op}=({v} &a, {lane} s) {{ {update}(&a, {every}(s)); return a; }}"
    for op in ("+", "-"):
        yield f"{v} &operator{op}{op}({v} &a) {{ {helpers.update(op, t)}(&a, {every}(1)); return a; }}"
        yield f"{v} operator{op}{op}({v} &a, int) {{ return {helpers.postfix(op, t)}(&a); }}"
    yield f"{v} operator+({reference}a) {{ return a; }}"
    for op in ("-", "!") if t.kind == "float" else ("-", "!", "~"):
        result = t.as_mask() if op == "!" else t
        helpers.type(result)
        call = f"{helpers.unary(op, t)}({_given(t, 'a')})"
        yield f"{result.name} operator{op}({reference}a) {{ {_returned(result, call)} }}"


def _given(t: Type, name: str) -> str:
    """A vector as helpers take it."""
    return f"{name}.simd" if in_register(t) else name


def _kept(t: Type, name: str, call: str) -> str:
    """What a helper gives, in a vector."""
    return f"{_given(t, name)} = {call};"


def _returned(t: Type, call: str) -> str:
    return f"{t.name} r; {_kept(t, 'r', call)} return r;"
