"""The specifiers at the beginning of declarations: words, names of types, structs, typeof."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mblob.packager.compile.vector_c.scope import Names
from mblob.packager.compile.vector_c.tokens import (
    ATTRIBUTES,
    BASE_WORDS,
    BEFORE_EXPRESSIONS,
    DEDUCED,
    QUALIFIERS,
    RECORDS,
    STRANGERS,
    TYPEOF,
    Token,
    past_brackets,
)
from mblob.packager.compile.vector_c.types import Known, Record, word_type

_LONGEST = 400  # tokens between < and > of a template's arguments


@dataclass
class Specifiers:
    """The specifiers at the beginning of a declaration.

    Attributes:
        type: the type that the words mean.
        end: the token behind: of a declarator, or the `{` of a body.
        is_alias: a typedef.
        is_deduced: `auto`: the type is that of the initializer.
        record: what the body at `end` declares.
        is_enum: the body is that of an enum.
    """

    type: Known
    end: int
    is_alias: bool = False
    is_deduced: bool = False
    record: Record | None = None
    is_enum: bool = False

    @property
    def has_body(self) -> bool:
        return self.record is not None or self.is_enum


class SpecifierReader:
    """Reads specifiers.

    Args:
        tokens: of the source.
        names: what names mean at the place that is read.
        typeof: the type that stands, or the expression has, between the parentheses that open at a
            token.
    """

    def __init__(self, tokens: list[Token], names: Names, typeof: Callable[[int], Known]) -> None:
        self._tokens = tokens
        self._names = names
        self._typeof = typeof

    def _text(self, at: int) -> str:
        return self._tokens[at].text if at < len(self._tokens) else ""

    def _is_name(self, at: int) -> bool:
        return at < len(self._tokens) and self._tokens[at].kind == "name"

    def read(self, at: int, guess: bool = True) -> Specifiers | None:
        """The type that a declaration begins with.

        Args:
            guess: a name that nothing declares may be a type, by what follows it.
        """
        made = Specifiers(None, at)
        words: list[str] = []
        seen = settled = any_word = False
        while self._is_name(at):
            text = self._text(at)
            if text in ATTRIBUTES and self._text(at + 1) == "(":
                at = self.attribute(at, made)
            elif text == "typedef" or text in QUALIFIERS or text in DEDUCED:
                made.is_alias |= text == "typedef"
                made.is_deduced |= text in DEDUCED
                any_word = any_word or text not in ("__extension__", "typename")
                at += 1
            elif text in BASE_WORDS and not settled:
                words.append(text)
                at += 1
            elif text in RECORDS and not settled and not words:
                at = self._record(at, made)
                seen = settled = True
                if made.has_body:
                    break
            elif text in TYPEOF and self._text(at + 1) == "(" and not settled:
                made.type = self._typeof(at + 1)
                at = past_brackets(self._tokens, at + 1)
                seen = settled = True
            elif not words and not settled and self._begins_type(at, seen, any_word, guess):
                settled = self._names.is_type(text)
                made.type = self._names.type_named(text)
                at = self.past_qualified(at)
                seen = True
            else:
                break
        made.end = at
        if words:
            made.type = word_type(words)
        if words or seen:
            made.is_deduced = False
        return made if words or seen or any_word else None

    def attribute(self, at: int, made: Specifiers | None = None) -> int:
        """Past an attribute; one that makes another type of a type makes it none of ours."""
        end = past_brackets(self._tokens, at + 1)
        if made is not None and any(t.text in STRANGERS for t in self._tokens[at:end]):
            made.type = None
        return end

    def _begins_type(self, at: int, seen: bool, qualified: bool, guess: bool) -> bool:
        """True if a name is a type: a known one, one with a declarator behind it, or one that must
        be a type behind `const`."""
        text = self._text(at)
        if text in BEFORE_EXPRESSIONS or self._names.variable_known(text):
            return False
        if self._names.is_type(text):
            return True
        if qualified and not seen and self._text(at + 1) in ("*", "&", ")", ","):
            return True
        if not guess:
            return False
        after = self.past_qualified(at)
        if self._is_name(after) and self._text(after) not in ATTRIBUTES:
            return True  # type name; or a macro before a type
        if seen:
            return False
        name = after
        while self._text(name) in ("*", "&", "&&") or self._text(name) in QUALIFIERS:
            name += 1
        return (
            name > after
            and self._is_name(name)
            and self._text(name + 1) in ("=", ";", ",", "[", "(", ")")
        )

    def past_qualified(self, at: int) -> int:
        """Past a name of C++ with what belongs to it: `std::vector<float4>::iterator`."""
        while True:
            at += 1
            if self._text(at) == "<":
                at = self.past_template(at)
            if self._text(at) != "::" or not self._is_name(at + 1):
                return at
            at += 1

    def past_template(self, opening: int) -> int:
        """Past the arguments of a template, `opening` if none stand there."""
        depth = 0
        for at in range(opening, min(opening + _LONGEST, len(self._tokens))):
            text = self._text(at)
            depth += (text == "<") - (text == ">") - 2 * (text == ">>")
            if depth <= 0:
                return at + 1 if depth == 0 or text == ">>" else opening
            if text in (";", "{", "}", "||", "?", "=", "+=", "-="):
                break
        return opening

    def _record(self, at: int, made: Specifiers) -> int:
        """Past `struct name`, attributes included; sets the type, and whether a body follows."""
        is_enum = self._text(at) == "enum"
        tag = ""
        at += 1
        while self._is_name(at):
            if self._text(at) in ATTRIBUTES and self._text(at + 1) == "(":
                at = past_brackets(self._tokens, at + 1)
            elif self._text(at) in ("class", "struct", "final"):
                at += 1
            elif (
                not tag
                and self._is_name(at + 1)
                and self._text(at + 2) == "{"
                and self._text(at + 1) != "final"
            ):
                at += 1  # a macro before the tag
            elif tag:
                break
            else:
                tag = self._text(at)
                at = self.past_qualified(at)
        body = at
        if self._text(at) == ":" and tag:  # base classes, or the type of an enum
            while self._text(body) not in ("{", ";", ")", ""):
                body += 1
        if self._text(body) == "{":
            made.is_enum = is_enum
            at = body
        if not is_enum:
            found = self._names.record(tag, defines=self._text(at) == "{")
            made.type = found
            made.record = found if self._text(at) == "{" else None
        return at
