"""Declarations as C writes them, read into types: `float4 (*table[2])(float4 *, int)`.

Reading changes nothing, so that it may also be tried: where no declaration stands the answer is
None.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field

from mblob.packager.compile.vector_c.tokens import (
    ATTRIBUTES,
    BASE_WORDS,
    BEFORE_EXPRESSIONS,
    DEDUCED,
    QUALIFIERS,
    RECORDS,
    STRANGERS,
    TYPEOF,
)
from mblob.packager.compile.vector_c.types import Function, Known, Pointer, Record, word_type
from mblob.packager.compile.vector_c.values import Source

_LONGEST = 400  # tokens between < and > of a template's arguments
_DEEPEST = 64  # lists of parameters within each other; C asks compilers for 12 declarators
_BEHIND_FUNCTIONS = ("const", "volatile", "noexcept", "override", "final", "throw", "&", "&&")


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


@dataclass
class Declarator:
    """A name with its type.

    Attributes:
        name: "" where none is declared.
        type: its type.
        end: the token behind.
        bounds: the opening brackets of arrays.
    """

    name: str
    type: Known
    end: int
    bounds: list[int] = field(default_factory=list)


class Declarations(Source):
    """Reads declarations."""

    _depth = 0

    @abstractmethod
    def type_of(self, at: int) -> Known:
        """The type of the expression at a token."""

    # -- specifiers --------------------------------------------------------------------------------

    def specifiers(self, at: int, guess: bool = True) -> Specifiers | None:
        """The type that a declaration begins with.

        Args:
            guess: a name that nothing declares may be a type, by what follows it.
        """
        made = Specifiers(None, at)
        words: list[str] = []
        is_read = is_settled = any_word = False
        while self.is_name(at):
            word, following = self.word(at), self.word(at + 1)
            if word in ATTRIBUTES and following == "(":
                at, made.type = self._past_attribute(at, made.type)
            elif word == "typedef" or word in QUALIFIERS or word in DEDUCED:
                made.is_alias |= word == "typedef"
                made.is_deduced |= word in DEDUCED
                any_word = any_word or word not in ("__extension__", "typename")
                at += 1
            elif word in BASE_WORDS and not is_settled:
                words.append(word)
                at += 1
            elif word in RECORDS and not is_settled and not words:
                at = self._record(at, made)
                is_read = is_settled = True
                if made.record is not None or made.is_enum:
                    break
            elif word in TYPEOF and following == "(" and not is_settled:
                made.type = self._typeof(at + 2)
                at = self.past(at + 1)
                is_read = is_settled = True
            elif not (words or is_settled) and self._begins_type(at, is_read, any_word, guess):
                is_settled = self.names.is_type(word)
                made.type = self.names.type_named(word)
                at = self._past_qualified(at)
                is_read = True
            else:
                break
        made.end = at
        if words:
            made.type = word_type(words)
        made.is_deduced &= not (words or is_read)
        return made if words or is_read or any_word else None

    def _past_attribute(self, at: int, t: Known) -> tuple[int, Known]:
        """Past an attribute; one that makes another type of a type makes it none of ours."""
        end = self.past(at + 1)
        return end, None if any(t.text in STRANGERS for t in self.tokens[at:end]) else t

    def _typeof(self, at: int) -> Known:
        found = self.type_name(at)
        if found is not None and self.word(found[1]) == ")":
            return found[0]
        return self.type_of(at)

    def _begins_type(self, at: int, is_read: bool, is_qualified: bool, guess: bool) -> bool:
        """True if a name is a type: a known one, one with a declarator behind it, or one that must
        be a type behind `const`."""
        word = self.word(at)
        if word in BEFORE_EXPRESSIONS or self.names.is_variable(word):
            return False
        if self.names.is_type(word):
            return True
        if is_qualified and not is_read and self.word(at + 1) in ("*", "&", ")", ","):
            return True
        if not guess:
            return False
        after = self._past_qualified(at)
        if self.is_name(after) and self.word(after) not in ATTRIBUTES:
            return True  # type name; or a macro before a type
        name = after
        while self.word(name) in ("*", "&", "&&") or self.word(name) in QUALIFIERS:
            name += 1
        is_declarator = self.is_name(name) and self.word(name + 1) in ("=", ";", ",", "[", "(", ")")
        return not is_read and name > after and is_declarator

    def _past_qualified(self, at: int) -> int:
        """Past a name of C++ with what belongs to it: `std::vector<float4>::iterator`."""
        while True:
            at += 1
            if self.word(at) == "<":
                at = self.past_template(at)
            if self.word(at) != "::" or not self.is_name(at + 1):
                return at
            at += 1

    def past_template(self, opening: int) -> int:
        """Past the arguments of a template, `opening` if none stand there."""
        depth = 0
        for at in range(opening, min(opening + _LONGEST, len(self.tokens))):
            word = self.word(at)
            depth += (word == "<") - (word == ">") - 2 * (word == ">>")
            if depth <= 0:
                return at + 1 if depth == 0 or word == ">>" else opening
            if word in (";", "{", "}", "||", "?", "=", "+=", "-="):
                break
        return opening

    def _record(self, at: int, made: Specifiers) -> int:
        """Past `struct name`, attributes included; sets the type, and whether a body follows."""
        is_enum = self.word(at) == "enum"
        tag = ""
        at += 1
        while self.is_name(at):
            word, following = self.word(at), self.word(at + 1)
            if word in ATTRIBUTES and following == "(":
                at = self.past(at + 1)
            elif word in ("class", "struct", "final"):
                at += 1
            elif tag:
                break
            elif self.is_name(at + 1) and self.word(at + 2) == "{" and following != "final":
                at += 1  # a macro before the tag
            else:
                tag = word
                at = self._past_qualified(at)
        body = at
        if self.word(at) == ":" and tag:  # base classes, or the type of an enum
            while self.word(body) not in ("{", ";", ")", ""):
                body += 1
        has_body = self.word(body) == "{"
        made.is_enum = is_enum and has_body
        if not is_enum:
            made.type = found = self.names.record(tag, defines=has_body)
            made.record = found if has_body else None
        return body if has_body else at

    # -- declarators -------------------------------------------------------------------------------

    def declarator(self, at: int, t: Known) -> Declarator | None:
        """Read `(*name[2])(float4)` behind specifiers; the name may be missing.

        What stands behind parentheses is nearer to the type than what stands in them.
        """
        made = Declarator("", t, 0)
        groups: list[int] = []  # where the parentheses around this place close
        while True:
            at = self._pointers(at, made)
            if self.word(at) != "(" or not self._groups(at):
                break
            end = self.past(at)
            groups.append(end - 1)
            end = self._suffixes(end, made)
            if len(groups) == 1:
                made.end = end
            elif end != groups[-2]:
                return None
            at += 1
        if self.is_name(at) and self.word(at) not in RECORDS:
            made.name, at = self._declared_name(at)
        at = self._suffixes(at, made)
        if groups and at != groups[-1]:
            return None
        made.end = made.end or at
        return made

    def _declared_name(self, at: int) -> tuple[str, int]:
        """The name, without what a class has before it; `operator` with its marks."""
        while self.word(at + 1) == "::" and self.is_name(at + 2):
            at += 2
        name = self.word(at)
        at += 1
        if name == "operator":
            while self.word(at) not in ("(", ""):
                at += 1
            if self.word(at + 1) == ")" and self.word(at + 2) == "(":
                at += 2
        return name, at

    def _pointers(self, at: int, made: Declarator) -> int:
        """Past stars, references and qualifiers before a name."""
        while True:
            word = self.word(at)
            if word in ATTRIBUTES and self.word(at + 1) == "(":
                at, made.type = self._past_attribute(at, made.type)
                continue
            if word == "*":
                made.type = Pointer(made.type)
            elif self.is_name(at) and self.word(at + 1) == "::" and self.word(at + 2) == "*":
                at += 1  # a pointer to a member
            elif word not in ("&", "&&", "...") and word not in QUALIFIERS:
                return at
            at += 1

    def _groups(self, opening: int) -> bool:
        """True if parentheses before a name hold a declarator, not parameters."""
        word = self.word(opening + 1)
        if self.is_name(opening + 1):
            if self.word(opening + 2) == "::" or word in ATTRIBUTES:
                return True
            return word not in QUALIFIERS and word not in RECORDS and not self.names.is_type(word)
        return word in ("*", "&", "&&", "(", "[", "^")

    def _suffixes(self, at: int, made: Declarator) -> int:
        """Past brackets of arrays, parameters and attributes behind a name."""
        while True:
            word = self.word(at)
            if word == "[":
                made.bounds.append(at)
                made.type = Pointer(made.type)
                at = self.past(at)
            elif word == "(":
                found = self.parameters(at, made.type)
                if found is None:
                    return at
                made.type, at = found
            elif word in ATTRIBUTES and self.word(at + 1) == "(":
                at, made.type = self._past_attribute(at, made.type)
            else:
                return at

    def parameters(self, opening: int, result: Known) -> tuple[Function, int] | None:
        """The function that parameters in parentheses make of its result, and what is behind; None
        if they hold something else."""
        if self._depth >= _DEEPEST:
            return None
        self._depth += 1
        made = Function(result)
        end = self._parameters(opening + 1, made)
        self._depth -= 1
        if end is None:
            return None
        while self.word(end) in _BEHIND_FUNCTIONS:  # C++ writes these
            end = self.past(end + 1) if self.word(end + 1) == "(" else end + 1
        found = self.type_name(end + 1) if self.word(end) == "->" else None
        if found is not None:
            made.result, end = found
        return made, end

    def _parameters(self, at: int, made: Function) -> int | None:
        if self.word(at) == ")":
            made.variadic = True
            return at + 1
        if self.word(at) == "void" and self.word(at + 1) == ")":
            made.plain = False
            return at + 2
        while True:
            if self.word(at) == "...":
                made.variadic = True
                at += 1
            elif (end := self._parameter(at, made)) is None:
                return None
            else:
                at = end
            if self.word(at) != ",":
                break
            at += 1
        made.variadic |= made.plain
        return at + 1 if self.word(at) == ")" else None

    def _parameter(self, at: int, made: Function) -> int | None:
        """Read one; where it ends."""
        found = self.specifiers(at)
        if found is None:
            # outside of functions they hold parameters, whatever names they hold
            is_outside = self.names.scopes[-1].kind in ("file", "record")
            if not (is_outside and self.is_name(at) and self.word(at + 1) in (",", ")")):
                return None
            if self.names.is_variable(self.word(at)):
                return None
            # a type that nothing declares, or a name whose type comes later
            found = Specifiers(None, at + 1)
        else:
            made.plain = False
        declared = self.declarator(*self._past_body(found))
        if declared is None:
            return None
        made.parameters.append(declared.type)
        if declared.name:
            made.names[declared.name] = declared.type
        at = declared.end
        if self.word(at) == "=":
            made.defaults.append((at + 1, declared.type))
            while self.word(at) not in (",", ")", ";", ""):
                at = self.past(at)
        return at

    def _past_body(self, found: Specifiers) -> tuple[int, Known]:
        """The token behind specifiers, and their type. One that is declared in parentheses, with a
        body, is no business of ours."""
        if found.record is not None or found.is_enum:
            return self.past(found.end), None
        return found.end, found.type

    # -- names of types ----------------------------------------------------------------------------

    def type_name(self, at: int) -> tuple[Known, int] | None:
        """The type that stands alone, as in casts and behind sizeof, and the token behind; None if
        none does."""
        found = self.specifiers(at, guess=False)
        declared = self.declarator(*self._past_body(found)) if found is not None else None
        if declared is None or declared.name:
            return None
        return declared.type, declared.end

    def in_parentheses(self, opening: int) -> tuple[Known, int] | None:
        """The type between parentheses, as of a cast, and the closing one; None if they hold
        something else."""
        found = self.type_name(opening + 1)
        if found is not None and self.word(found[1]) == ")" and not isinstance(found[0], Function):
            return found
        # `(name *)`, or `(name)` before an operand: a cast to a type that nothing here declares
        word = self.word(opening + 1)
        if (
            not self.is_name(opening + 1)
            or self.names.is_variable(word)
            or self.names.is_type(word)
            or word in BEFORE_EXPRESSIONS
            or word in QUALIFIERS
        ):
            return None
        made = Declarator("", None, 0)
        at = self._pointers(self._past_qualified(opening + 1), made)
        is_operand = at + 1 < len(self.tokens) and self.tokens[at + 1].kind not in ("mark", "end")
        if self.word(at) == ")" and (made.type is not None or is_operand):
            return made.type, at
        return None
