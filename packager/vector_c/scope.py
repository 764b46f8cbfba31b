"""What names of a source mean: its variables, functions, fields and types, as far as vectors are concerned."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional

from packager.vector_c.types import SCALARS, Type, vector_named

# Types are also the words of C for them; of those only int, float and double are lanes under a name of their own.
_WORDS = {
    "void", "char", "short", "int", "long", "float", "double", "signed", "unsigned", "_Bool", "bool", "_Complex",
    "_Float16", "__fp16", "__int128", "auto", "wchar_t", "size_t", "ssize_t", "ptrdiff_t", "intptr_t", "uintptr_t",
}  # fmt: skip
Known = Optional[Type]


@dataclass
class Signature:
    """A function that the source declares.

    Attributes:
        result: its result.
        parameters: in order; None for types that are no business of ours.
    """

    result: Known
    parameters: list[Known]


@dataclass
class Scope:
    """A pair of braces, or the header of a loop.

    Attributes:
        kind: "file", "function", "block", "record" (members of a struct), or "loop" (header and body of `for`).
        names: variables.
        result: of a function, what it returns.
        is_alias: of a record, names behind it are types.
    """

    kind: str
    names: dict[str, Known] = field(default_factory=dict)
    result: Known = None
    is_alias: bool = False


class Names:
    """The names in force at one place of the source.

    Args:
        own: vector names that mean something else here.
    """

    def __init__(self, own: set[str]) -> None:
        self.own = own
        self.scopes = [Scope("file")]
        self.functions: dict[str, Signature] = {}
        self.fields: dict[str, Known] = {}
        self.aliases: dict[str, Known] = {}
        self.used: dict[str, Type] = {}

    def type_named(self, name: str) -> Known:
        """The type that a name means, if it is a lane type, a vector, or an alias of one."""
        if name in self.own:
            return None
        if name in self.aliases:
            return self.aliases[name]
        if name in SCALARS:
            if name == "half":
                self.used[name] = Type(name)
            return Type(name)
        found = vector_named(name)
        if found is not None:
            self.used[name] = found
        return found

    def is_type(self, name: str) -> bool:
        """Whether a name is certainly that of a type."""
        if self.variable_known(name):
            return False
        return name in _WORDS or name in self.aliases or self.type_named(name) is not None or name.endswith("_t")

    def variable_known(self, name: str) -> bool:
        return any(name in scope.names for scope in self.scopes)

    def variable(self, name: str) -> Known:
        """The type of a variable, None if it is none of ours."""
        for scope in reversed(self.scopes):
            if name in scope.names:
                return scope.names[name]
        return None

    def declare(self, name: str, t: Known) -> None:
        """A variable of the innermost scope, or a member of a struct."""
        if self.scopes[-1].kind == "record":
            self.fields[name] = t
        else:
            self.scopes[-1].names[name] = t

    @property
    def result(self) -> Known:
        """What the function around this place returns."""
        return next((s.result for s in reversed(self.scopes) if s.kind == "function"), None)


def word_type(words: list[str]) -> Known:
    """The lane type that words of C mean, where its width is the same on all targets we have; else None."""
    if words in (["float"], ["double"]):
        return Type(words[0])
    rest = [w for w in words if w not in ("signed", "int")]
    unsigned = "u" if "unsigned" in rest else ""
    rest = [w for w in rest if w != "unsigned"]
    widths = {(): 32, ("short",): 16, ("long", "long"): 64}
    if tuple(rest) in widths and (words != []):
        return Type(f"{unsigned}int{widths[tuple(rest)]}_t")
    if rest == ["char"] and len(words) > 1:
        return Type(f"{unsigned}int8_t")
    return None
