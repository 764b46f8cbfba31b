"""The meaning of names at one place of a source: its variables, functions, types and tags, in
nested scopes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
        kind: "file", "namespace", "function", "block", "record" (members of a class), or "loop"
            (header and body of `for`).
        names: by name; of tags by "struct name".
        result: of a function, what it returns.
        record: of a record, what is being declared.
    """

    kind: str
    names: dict[str, NameMeaning] = field(default_factory=dict)
    result: Known = None
    record: Record | None = None


class Names:
    """The names in force at one place of the source.

    Args:
        own: vector names that mean something else here.
        is_cxx: names of classes are types.
        read: reads declarations of the file, by their tokens.
    """

    def __init__(self, own: set[str], is_cxx: bool, read: Callable[[range], object]) -> None:
        self.own = own
        self.is_cxx = is_cxx
        self.scopes = [Scope("file")]
        # by names, the declarations that nobody has asked for: most are of the system's headers
        self.waiting: dict[str, list[range]] = {}
        self._read = read
        self._concerned: set[str] = {"half"}  # names of what vectors are part of

    def _find(self, name: str) -> NameMeaning | None:
        inner = (s.names[name] for s in reversed(self.scopes) if name in s.names)
        found = next(inner, None)
        if found is None and name in self.waiting:
            outer, self.scopes = self.scopes, self.scopes[:1]
            for item in self.waiting.pop(name):
                self._read(item)
            self.scopes = outer
            found = self.scopes[0].names.get(name)
        return found

    def type_named(self, name: str) -> Known:
        """The type that a name means, None if that is no business of ours."""
        named = self._find(name)
        if name in self.own or named is not None:
            return named.type if named is not None and named.is_type else None
        if name in SCALARS:
            return Type(name)
        tag = self._find(f"struct {name}")
        return vector_named(name) or (tag.type if tag is not None else None)

    def is_type(self, name: str) -> bool:
        """True if a name is that of a type."""
        if name in BASE_WORDS:
            return False  # a word of C
        named = self._find(name)
        if named is not None or name in self.own:
            return named is not None and named.is_type
        return (
            name in OTHER_TYPES or name in SCALARS or vector_named(name) is not None or name.endswith("_t")
            or (self.is_cxx and self._find(f"struct {name}") is not None)
        )  # fmt: skip

    def is_declared(self, name: str) -> bool:
        return self._find(name) is not None

    def variable(self, name: str) -> Known:
        """The type of a variable, None if it is none of ours."""
        named = self._find(name)
        if named is None or named.is_type:
            return Record() if self.is_cxx else None
        return named.type

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

    def member(self, record: Record, name: str, t: Known) -> None:
        """Add a member to a record."""
        record.fields[name] = t
        if has_vectors(t):
            self._concerned.add(name)

    def declare(self, name: str, t: Known, is_type: bool = False) -> None:
        """A variable, function or type of the innermost scope."""
        names = self.scopes[-1].names
        if has_vectors(t):
            self._concerned.add(name)
        if is_type:
            # <stdint.h> has words for it that not all targets agree on
            names[name] = NameMeaning(Type(name) if name in SCALARS else t, is_type=True)
            return
        if (record := self.scopes[-1].record) is not None:
            record.fields[name] = t
        before = names[name].type if name in names else None
        if isinstance(t, Function) and isinstance(before, (Function, Overloads)):
            t = _overloaded(before, t)
        names[name] = NameMeaning(t)

    def function(self, t: Function) -> Scope:
        """The scope of the body of a function."""
        self._concerned |= {name for name, known in t.names.items() if has_vectors(known)}
        return Scope("function", {n: NameMeaning(known) for n, known in t.names.items()}, t.result)

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
