"""Statements: where names get their types, and where expressions begin and end."""

from __future__ import annotations

from mblob.packager.compile.vector_c.declarations import Declarator, Specifiers
from mblob.packager.compile.vector_c.expressions import Expressions
from mblob.packager.compile.vector_c.names import NameMeaning, Scope
from mblob.packager.compile.vector_c.tokens import ATTRIBUTES, QUALIFIERS
from mblob.packager.compile.vector_c.types import Function, Known, Pointer, Type, has_vectors
from mblob.packager.compile.vector_c.values import Value

_SKIPPED = (
    "goto", "break", "continue", "using", "_Static_assert", "static_assert", "asm", "__asm__", "__asm",
)  # fmt: skip
_ACCESS = ("public", "private", "protected")
_DEEPEST = 50  # statements in expressions within each other


class Statements(Expressions):
    """Walks a source from its first token to its last, and rewrites what it finds."""

    _last: Value | None = None
    _blocks = 0
    _is_template = False  # what is declared next

    def walk(self) -> None:
        """Rewrite everything."""
        at = 0
        while self.word(at):
            at = max(self._statement(at), at + 1)

    # -- statements --------------------------------------------------------------------------------

    def block(self, opening: int, scope: Scope) -> tuple[Known, int]:
        if self._blocks >= _DEEPEST:
            self.refuse(opening, f"statements in expressions are nested deeper than {_DEEPEST}")
        depth = len(self.names.scopes)
        self.names.scopes.append(scope)
        self._blocks += 1
        at = opening + 1
        while self.word(at) and len(self.names.scopes) > depth:
            self._last = self._last if self.word(at) in (";", "}") else None
            at = max(self._statement(at), at + 1)
        self._blocks -= 1
        return (self._last.type if self._last is not None else None), at

    def _statement(self, at: int) -> int:
        """Read one, or the head of one; where the next begins."""
        word = self.word(at)
        scopes = self.names.scopes
        if word == "{":
            if scopes[-1].awaits_body:
                scopes[-1].awaits_body = False
            else:
                scopes.append(Scope("file" if scopes[-1].kind == "file" else "block"))
            return at + 1
        if word == "}":
            return self._end_of_block(at)
        if word == ";":
            self._end_of_loops()
            return at + 1
        after = self._keyword(at, word) if self.is_name(at) else None
        if after is None:
            after = self._declaration(at)
        if after is None:
            self._last, after = self.read(at, (";", "{"))
        return after

    def _keyword(self, at: int, word: str) -> int | None:
        """Read what begins with a word for it; None if none does."""
        following, is_record = self.word(at + 1), self.names.scopes[-1].kind == "record"
        if word in ("if", "while", "switch"):
            opening = at + 1 + (following == "constexpr")
            return self._condition(opening + 1) if self.word(opening) == "(" else None
        if word == "for" and following == "(":
            return self._for(at + 2)
        if word == "return":
            value, end = self.read(at + 1, (";",))
            if value is not None:
                self.convert(value, self.names.result)
            return end
        if word in ("else", "do", "try"):
            return at + 1
        if word in ("case", "default"):
            return self.read(at + 1, (":",))[1] + 1
        if following == ":" and self.word(at + 2) != ":" and (word in _ACCESS or not is_record):
            return at + 2  # a label
        if word in _SKIPPED:
            return self._past_word(at, ";")
        if word == "template":
            self._is_template = True
            return self.past_template(at + 1) if following == "<" else self._past_word(at, ";")
        if word in ("extern", "namespace"):
            head = at + 1 + (self.is_name(at + 1) if word == "namespace" else following[:1] == '"')
            if self.word(head) == "{" or head > at + 1:
                return head
        return None

    def _end_of_block(self, at: int) -> int:
        scope = self.names.scopes[-1]
        if len(self.names.scopes) > 1:
            self.names.scopes.pop()
        self._end_of_loops()
        if scope.record is None:
            return at + 1
        at += 1
        while self.word(at) in QUALIFIERS or self.word(at) in ATTRIBUTES:
            at = self.past(at + 1) if self.word(at) in ATTRIBUTES else at + 1
        outer = self.names.scopes[-1].record
        # members of a struct without name are the outer one's
        if self.word(at) == ";" and outer is not None:
            outer.fields.update(scope.record.fields)
        return self._declarators(Specifiers(scope.record, at, scope.is_alias))

    def _end_of_loops(self) -> None:
        """Loops whose body was the statement that ends here."""
        while self.names.scopes[-1].kind == "loop":
            self.names.scopes.pop()

    def _condition(self, at: int) -> int:
        """Behind `if (`; past the closing parenthesis."""
        value, end = self.read(at, ())
        if value is not None and value.vector is not None:
            why = f"{value.vector} as a condition; compare its lanes one by one"
            self.refuse(value.first, why)
        return end + 1

    def _for(self, at: int) -> int:
        self.names.scopes.append(Scope("loop"))
        declared = self._declaration(at)
        at = self.read(at, (";", ":"))[1] if declared is None else declared
        while self.word(at) in (";", ":"):
            at = self.read(at + 1, (";",))[1]
        return at + 1

    def _past_word(self, at: int, stop: str) -> int:
        while self.word(at) not in (stop, ""):
            at += 1
        return at + 1

    # -- declarations ------------------------------------------------------------------------------

    def _declaration(self, at: int) -> int | None:
        """Read one up to its `;`, or into a body; None if there is none at `at`."""
        found = self.specifiers(at)
        is_outside = self.names.scopes[-1].kind in ("file", "record")
        if found is None:
            if not (is_outside and (self.word(at) == "~" or self.is_name(at))):
                return None
            # C89's int, or what C++ calls like its class
            found = Specifiers(None, at + (self.word(at) == "~"))
        elif self.word(found.end) == "(" and not self._fits(found):
            if not is_outside:
                return None  # an expression that begins with a constructor
            found = Specifiers(None, found.end - 1)  # a constructor of C++
        if found.record is not None:
            self._is_template = False
            scope = Scope("record", record=found.record, is_alias=found.is_alias)
            self.names.scopes.append(scope)
            return found.end + 1
        if found.is_enum:
            end = self.past(found.end)
            for i in range(found.end + 1, end - 1):
                if self.is_name(i) and self.word(i - 1) in ("{", ","):
                    self.names.declare(self.word(i), None)
            found = Specifiers(None, end, found.is_alias)
        return self._declarators(found)

    def _fits(self, found: Specifiers) -> bool:
        """True if the parentheses behind a type hold a declarator: `(*f)(int)`, not `(1, 2)`."""
        declared = self.declarator(found.end, found.type)
        return declared is not None and declared.name != "" and (
            self.word(declared.end) in (";", ",", "=", "{", ":", ")", "")
            or self.word(declared.end) in ATTRIBUTES
        )  # fmt: skip

    def _declarators(self, found: Specifiers) -> int:
        """Read `*name[n] = value, ...` to the `;` or into the body behind them."""
        at = found.end
        while self.word(at):
            declared = self.declarator(at, found.type)
            if declared is None:
                return at
            for opening in declared.bounds:
                self.read(opening + 1, ())
            at = self._declared(found, declared)
            if self.word(at) != ",":
                return at
            at += 1
        return at

    def _declared(self, found: Specifiers, declared: Declarator) -> int:
        """Take in one name with what follows it: a value, a body, the width of a field."""
        at, t, name = declared.end, declared.type, declared.name
        if found.is_alias:
            if name:
                self.names.declare(name, t, is_type=True)
            return at
        if isinstance(t, Function) and t is not found.type:
            return self._function(declared, t)
        if self.word(at) == ":" and self.names.scopes[-1].kind == "record":
            at = self.read(at + 1, (",", ";"))[1]
        if name:
            self.names.declare(name, None if found.is_deduced else t)
        if self.word(at) == "=":
            value, at = self.read_value(at + 1, t, (",", ";"))
            if (
                value is not None
                and found.is_deduced
                and (t is None or isinstance(value.type, Pointer))
            ):
                self.names.declare(name, value.type)
        elif self.word(at) in ("(", "{") and name and t is not None:  # C++
            end = self.past(at)
            value, behind = self.read_value(at + 1, t if self.word(at) == "(" else None, (",",))
            if self.word(at) == "(" and behind < end - 1 and isinstance(t, Type) and t.is_vector:
                why = f"{t} is initialized by lanes in parentheses; write = {t}(...)"
                self.refuse(at, why)
            if behind < end - 1:
                self.read(behind + 1, ())
            at = end
        return at

    # -- functions ---------------------------------------------------------------------------------

    def _function(self, declared: Declarator, t: Function) -> int:
        """A prototype, or the head of a definition; stops at what follows it, inside of the
        body."""
        # a constructor is called like its class
        if declared.name and not self.names.is_type(declared.name):
            self.names.declare(declared.name, None if self._is_template else t)
            if self._is_template:
                self.names.templates.add(declared.name)
        self._is_template = False
        for start, expected in t.defaults:
            self.read_value(start, expected, (",",))
        names = {name: NameMeaning(t) for name, t in t.names.items()}
        scope = Scope("function", names, t.result)
        at = declared.end
        while self.word(at) in ATTRIBUTES:
            at = self.past(at + 1)
        if self.word(at) == ":" and self.word(at + 1) != ":":
            self.names.scopes.append(scope)
            at = self._initializers(at + 1)
            self.names.scopes.pop()
        if self.word(at) == "{":
            end = self.past(at)
            if not has_vectors(t) and not self.names.concern(self.tokens[at:end]):
                return end
            self.names.scopes.append(scope)
            return at + 1
        if t.plain and t.parameters and self.specifiers(at) is not None:
            scope.awaits_body = True  # their types come now, as before C89
            t.parameters.clear()
            self.names.scopes.append(scope)
        return at

    def _initializers(self, at: int) -> int:
        """Behind the `:` of a constructor of C++: members with their values."""
        while self.is_name(at):
            field = self.word(at)
            while self.word(at) not in ("(", "{", ";", ""):
                at += 1
            if self.word(at) not in ("(", "{"):
                break
            _, end = self.read_value(at + 1, self.names.variable(field), ())
            at = end + 1 + (self.word(end + 1) == "...")
            if self.word(at) != ",":
                break
            at += 1
        return at
