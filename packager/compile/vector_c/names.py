"""The meaning of names at one place of a source: its variables, functions, types and tags, in
nested scopes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mblob.named_tuple import NamedTuple
from mblob.packager.compile.vector_c.tokens import BASE_WORDS, OTHER_TYPES, Token
from mblob.packager.compile.vector_c.types import (
    Function,
    Known,
    Overloads,
    Record,
    Type,
    has_vectors,
    vector_named,
)
from mblob.packager.compile.vector_c.words import SCALARS


class NameMeaning(NamedTuple):
    """The meaning of a name: something of a type, or the type itself."""

    type: Known
    is_type: bool = False


@dataclass
class Scope:
    """A pair of braces, or the header of a loop.

    Attributes:
        kind: "file", "function", "block", "record" (members of a struct), or "loop" (header and
            body of `for`).
        names: by name; of tags by "struct name".
        result: of a function, what it returns.
        record: of a record, what is being declared.
        is_alias: of a record, names behind it are types.
        awaits_body: of a function whose `{` comes after the declarations of its parameters.
    """

    kind: str
    names: dict[str, NameMeaning] = field(default_factory=dict)
    result: Known = None
    record: Record | None = None
    is_alias: bool = False
    awaits_body: bool = False


class Names:
    """The names in force at one place of the source.

    Args:
        own: vector names that mean something else here.
    """

    def __init__(self, own: set[str]) -> None:
        self.own = own
        self.scopes = [Scope("file")]
        self.fields: dict[str, Known] = {}
        self.used: dict[str, Type] = {}
        self._concerned: set[str] = {"half"}  # names of what vectors are part of
        self.templates: set[str] = set()  # functions that are some

    def _find(self, name: str) -> NameMeaning | None:
        return next((s.names[name] for s in reversed(self.scopes) if name in s.names), None)

    def type_named(self, name: str) -> Known:
        """The type that a name means, None if that is no business of ours."""
        named = self._find(name)
        if name in self.own or named is not None:
            return named.type if named is not None and named.is_type else None
        found = Type(name) if name in SCALARS else vector_named(name)
        if found is None:
            tag = self._find(f"struct {name}")
            return tag.type if tag is not None else None
        if found.is_vector or name == "half":
            self.used[name] = found
        return found

    def is_type(self, name: str) -> bool:
        """True if a name is certainly that of a type."""
        named = self._find(name)
        if named is not None or name in self.own:
            return named is not None and named.is_type
        return (
            name in BASE_WORDS or name in OTHER_TYPES or name in SCALARS or vector_named(name) is not None
            or name.endswith("_t") or self._find(f"struct {name}") is not None
        )  # fmt: skip

    def is_variable(self, name: str) -> bool:
        """True if a name is that of a variable or function here."""
        named = self._find(name)
        return named is not None and not named.is_type

    def variable(self, name: str) -> Known:
        """The type of a variable, None if it is none of ours."""
        named = self._find(name)
        return named.type if named is not None and not named.is_type else None

    def record(self, tag: str, defines: bool) -> Record:
        """The record that `struct tag` names, made if new; with a body behind it, in this scope."""
        key = f"struct {tag}"
        named = self.scopes[-1].names.get(key) if defines else self._find(key)
        if named is not None and isinstance(named.type, Record):
            return named.type
        made = Record()
        if tag:
            self.scopes[-1].names[key] = NameMeaning(made)
        return made

    def declare(self, name: str, t: Known, is_type: bool = False) -> None:
        """A variable, function or type of the innermost scope, or a member of a struct."""
        scope = self.scopes[-1]
        if has_vectors(t):
            self._concerned.add(name)
        if is_type:
            # <stdint.h> has words for it that not all targets agree on
            scope.names[name] = NameMeaning(Type(name) if name in SCALARS else t, is_type=True)
            return
        before = scope.names[name].type if name in scope.names else None
        if isinstance(t, Function) and isinstance(before, (Function, Overloads)):
            t = _overloaded(before, t)
        scope.names[name] = NameMeaning(t)
        if scope.record is not None:
            scope.record.fields[name] = t
            # for objects of which we do not know the type: what members of this name are, if they
            # all are the same
            self.fields[name] = t if self.fields.get(name, t) == t else None

    def concern(self, tokens: Sequence[Token]) -> bool:
        """True if vectors are part of anything that tokens name."""
        words = {t.text for t in tokens if t.kind == "name"}
        return not words.isdisjoint(self._concerned) or any(map(vector_named, words))

    @property
    def result(self) -> Known:
        """The result type of the function around this place."""
        return next((s.result for s in reversed(self.scopes) if s.kind == "function"), None)


def _overloaded(before: Function | Overloads, t: Function) -> Function | Overloads:
    """A function declared once more: as it was, or with other parameters, as C++ has them."""
    known = before.functions if isinstance(before, Overloads) else [before]
    others = [f for f in known if f.vectors != t.vectors]
    return Overloads([*others, t]) if others else t
