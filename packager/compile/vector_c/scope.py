"""The meaning of names at one place of a source: its variables, functions, types and tags, in
nested scopes."""

from __future__ import annotations

from dataclasses import dataclass, field

from mblob.packager.compile.vector_c.tokens import BASE_WORDS, OTHER_TYPES
from mblob.packager.compile.vector_c.types import (
    Function,
    Known,
    Overloads,
    Record,
    Type,
    vector_named,
)
from mblob.packager.compile.vector_c.words import SCALARS


@dataclass
class Scope:
    """A pair of braces, or the header of a loop.

    Attributes:
        kind: "file", "function", "block", "record" (members of a struct), or "loop" (header and
            body of `for`).
        names: variables and functions.
        aliases: names of types.
        tags: what stands behind `struct`, `union` and `class`.
        result: of a function, what it returns.
        record: of a record, what is being declared.
        is_alias: of a record, names behind it are types.
        awaits_body: of a function whose `{` comes after the declarations of its parameters.
    """

    kind: str
    names: dict[str, Known] = field(default_factory=dict)
    aliases: dict[str, Known] = field(default_factory=dict)
    tags: dict[str, Record] = field(default_factory=dict)
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
        self.templates: set[str] = set()  # functions that are some

    # -- types -------------------------------------------------------------------------------------

    def type_named(self, name: str) -> Known:
        """The type that a name means, None if that is no business of ours."""
        if name in self.own:
            return None
        for scope in reversed(self.scopes):
            if name in scope.aliases:
                return scope.aliases[name]
        found = Type(name) if name in SCALARS else vector_named(name)
        if found is None:
            return self._tag(name)
        if found.is_vector or name == "half":
            self.used[name] = found
        return found

    def is_type(self, name: str) -> bool:
        """True if a name is certainly that of a type."""
        for scope in reversed(self.scopes):
            if name in scope.names:
                return False
            if name in scope.aliases:
                return True
        if name in self.own:
            return False
        return (
            name in BASE_WORDS or name in OTHER_TYPES or name in SCALARS or vector_named(name) is not None
            or name.endswith("_t") or self._tag(name) is not None
        )  # fmt: skip

    def _tag(self, name: str) -> Record | None:
        return next(
            (scope.tags[name] for scope in reversed(self.scopes) if name in scope.tags), None
        )

    def record(self, tag: str, defines: bool) -> Record:
        """The record that `struct tag` names, made if new; with a body behind it, in this scope."""
        found = self.scopes[-1].tags.get(tag) if defines else self._tag(tag)
        if found is None:
            found = Record()
            if tag:
                self.scopes[-1].tags[tag] = found
        return found

    # -- variables ---------------------------------------------------------------------------------

    def variable_known(self, name: str) -> bool:
        """True if a name is that of a variable or function here."""
        for scope in reversed(self.scopes):
            if name in scope.names:
                return True
            if name in scope.aliases:
                return False
        return False

    def variable(self, name: str) -> Known:
        """The type of a variable, None if it is none of ours."""
        return next(
            (scope.names[name] for scope in reversed(self.scopes) if name in scope.names), None
        )

    def declare(self, name: str, t: Known) -> None:
        """A variable or function of the innermost scope, or a member of a struct."""
        scope = self.scopes[-1]
        if isinstance(t, Function) and isinstance(
            before := scope.names.get(name), (Function, Overloads)
        ):
            t = _overloaded(before, t)
        scope.names[name] = t
        scope.aliases.pop(name, None)
        if scope.record is not None:
            scope.record.fields[name] = t
            # for objects of which we do not know the type: what members of this name are, if they
            # all are the same
            self.fields[name] = t if self.fields.get(name, t) == t else None

    def name_type(self, name: str, t: Known) -> None:
        """A name for a type, in the innermost scope."""
        # <stdint.h> has words for it that not all targets agree on
        t = Type(name) if name in SCALARS else t
        self.scopes[-1].aliases[name] = t
        self.scopes[-1].names.pop(name, None)

    @property
    def result(self) -> Known:
        """The result type of the function around this place."""
        return next((s.result for s in reversed(self.scopes) if s.kind == "function"), None)


def _overloaded(before: Function | Overloads, t: Function) -> Function | Overloads:
    """A function declared once more: as it was, or with other parameters, as C++ has them."""
    known = before.functions if isinstance(before, Overloads) else [before]

    def vectors(f: Function) -> list[Type | None]:
        return [p if isinstance(p, Type) and p.is_vector else None for p in f.parameters]

    others = [f for f in known if vectors(f) != vectors(t)]
    return Overloads([*others, t]) if others else t
