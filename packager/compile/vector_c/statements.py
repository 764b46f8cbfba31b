"""Statements: where names get their types, and where expressions begin and end."""

from __future__ import annotations

from mblob.packager.compile.vector_c.declarators import Declarator
from mblob.packager.compile.vector_c.expressions import Expressions
from mblob.packager.compile.vector_c.operand import Operand
from mblob.packager.compile.vector_c.operations import Operations
from mblob.packager.compile.vector_c.scope import Names, Scope
from mblob.packager.compile.vector_c.specifiers import Specifiers
from mblob.packager.compile.vector_c.tokens import ATTRIBUTES, QUALIFIERS, past_brackets
from mblob.packager.compile.vector_c.types import Function, Known, Pointer, Record, Type

_SKIPPED = (
    "goto",
    "break",
    "continue",
    "using",
    "_Static_assert",
    "static_assert",
    "asm",
    "__asm__",
    "__asm",
)
_ACCESS = ("public", "private", "protected")
_DEEPEST = 50  # statements in expressions within each other


class Statements:
    """Walks a source from its first token to its last, and rewrites what it finds.

    Args:
        operations: does the rewriting.
        names: is kept up to date on the way.
    """

    def __init__(self, operations: Operations, names: Names) -> None:
        self._do = operations
        self._tokens = operations.tokens
        self._names = names
        self._expressions = Expressions(operations, names, self._block)
        self._declarations = self._expressions.declarations
        self._last: Operand | None = None
        self._depth = 0
        self._is_template = False  # what is declared next

    def walk(self) -> None:
        """Rewrite everything."""
        at = 0
        while at < len(self._tokens):
            at = max(self._statement(at), at + 1)

    def _text(self, at: int) -> str:
        return self._tokens[at].text if at < len(self._tokens) else ""

    def _is_name(self, at: int) -> bool:
        return at < len(self._tokens) and self._tokens[at].kind == "name"

    # -- statements --------------------------------------------------------------------------------

    def _block(self, opening: int, scope: Scope) -> tuple[Known, int]:
        """Statements in braces that stand in an expression; the type of the last one, and where
        they end."""
        if self._depth >= _DEEPEST:
            self._do.refuse(opening, f"statements in expressions are nested deeper than {_DEEPEST}")
        depth = len(self._names.scopes)
        self._names.scopes.append(scope)
        self._depth += 1
        at = opening + 1
        while at < len(self._tokens) and len(self._names.scopes) > depth:
            self._last = self._last if self._text(at) in (";", "}") else None
            at = max(self._statement(at), at + 1)
        self._depth -= 1
        return (self._last.type if self._last is not None else None), at

    def _statement(self, at: int) -> int:
        """Read one, or the head of one; where the next begins."""
        text = self._text(at)
        scopes = self._names.scopes
        if text == "{":
            if scopes[-1].awaits_body:
                scopes[-1].awaits_body = False
            else:
                scopes.append(Scope("file" if scopes[-1].kind == "file" else "block"))
            return at + 1
        if text == "}":
            return self._end_of_block(at)
        if text == ";":
            self._end_of_loops()
            return at + 1
        if self._is_name(at):
            after = self._keyword(at, text)
            if after is not None:
                return after
        after = self._declaration(at)
        if after is None:
            self._last, after = self._expressions.read(at, (";", "{"))
        return after

    def _keyword(self, at: int, text: str) -> int | None:
        """Read what begins with a word for it; None if none does."""
        following = self._text(at + 1)
        if text in ("if", "while", "switch"):
            opening = at + 1 + (following == "constexpr")
            return self._condition(opening + 1) if self._text(opening) == "(" else None
        if text == "for" and following == "(":
            return self._for(at + 2)
        if text == "return":
            return self._return(at + 1)
        if text in ("else", "do", "try"):
            return at + 1
        if text in ("case", "default"):
            return self._expressions.read(at + 1, (":",))[1] + 1
        if (
            following == ":"
            and self._text(at + 2) != ":"
            and (text in _ACCESS or self._names.scopes[-1].kind != "record")
        ):
            return at + 2  # a label
        if text in _SKIPPED:
            return self._past(at, ";")
        if text == "template":
            self._is_template = True
            return (
                self._declarations.past_template(at + 1)
                if following == "<"
                else self._past(at, ";")
            )
        if text in ("extern", "namespace"):
            head = at + 1 + (self._is_name(at + 1) if text == "namespace" else following[:1] == '"')
            if self._text(head) == "{" or head > at + 1:
                return head
        return None

    def _end_of_block(self, at: int) -> int:
        scope = self._names.scopes[-1]
        if len(self._names.scopes) > 1:
            self._names.scopes.pop()
        self._end_of_loops()
        if scope.record is not None:
            return self._behind_record(at + 1, scope.record, scope.is_alias)
        return at + 1

    def _behind_record(self, at: int, record: Record, is_alias: bool) -> int:
        """Read the names behind the body of a struct, if there are any."""
        while self._is_name(at) and (self._text(at) in QUALIFIERS or self._text(at) in ATTRIBUTES):
            at = past_brackets(self._tokens, at + 1) if self._text(at) in ATTRIBUTES else at + 1
        outer = self._names.scopes[-1].record
        # members of a struct without name are the outer one's
        if self._text(at) == ";" and outer is not None:
            outer.fields.update(record.fields)
        return self._declarators(Specifiers(record, at, is_alias))

    def _end_of_loops(self) -> None:
        """Loops whose body was the statement that ends here."""
        while self._names.scopes[-1].kind == "loop":
            self._names.scopes.pop()

    def _condition(self, at: int) -> int:
        """Behind `if (`; past the closing parenthesis."""
        value, end = self._expressions.read(at, ())
        if value is not None and value.vector is not None:
            self._do.refuse(
                value.first, f"{value.vector} as a condition; compare its lanes one by one"
            )
        return end + 1

    def _for(self, at: int) -> int:
        self._names.scopes.append(Scope("loop"))
        declared = self._declaration(at)
        at = self._expressions.read(at, (";", ":"))[1] if declared is None else declared
        while self._text(at) in (";", ":"):
            at = self._expressions.read(at + 1, (";",))[1]
        return at + 1

    def _return(self, at: int) -> int:
        value, end = self._expressions.read(at, (";",))
        if value is not None:
            self._do.convert(value, self._names.result)
        return end

    def _past(self, at: int, stop: str) -> int:
        while at < len(self._tokens) and self._text(at) != stop:
            at += 1
        return at + 1

    # -- declarations ------------------------------------------------------------------------------

    def _declaration(self, at: int) -> int | None:
        """Read one up to its `;`, or into a body; None if there is none at `at`."""
        found = self._declarations.specifiers(at)
        outside = self._names.scopes[-1].kind in ("file", "record")
        if found is None:
            if not (outside and (self._text(at) == "~" or self._is_name(at))):
                return None
            # C89's int, or what C++ calls like its class
            found = Specifiers(None, at + (self._text(at) == "~"))
        elif outside and self._text(found.end) == "(" and not self._fits(found):
            found = Specifiers(None, found.end - 1)  # a constructor of C++
        if found.record is not None:
            self._is_template = False
            self._names.scopes.append(Scope("record", record=found.record, is_alias=found.is_alias))
            return found.end + 1
        if found.is_enum:
            return self._enum(found)
        if not outside and self._text(found.end) == "(" and not self._fits(found):
            return None  # an expression that begins with a constructor
        return self._declarators(found)

    def _fits(self, found: Specifiers) -> bool:
        """True if the parentheses behind a type hold a declarator: `(*f)(int)`, not `(1, 2)`."""
        declared = self._declarations.declarator(found.end, found.type)
        return declared is not None and declared.name != "" and (
            self._text(declared.end) in (";", ",", "=", "{", ":", ")", "")
            or self._text(declared.end) in ATTRIBUTES
        )  # fmt: skip

    def _enum(self, found: Specifiers) -> int:
        end = past_brackets(self._tokens, found.end)
        for at in range(found.end + 1, end - 1):
            if self._is_name(at) and self._text(at - 1) in ("{", ","):
                self._names.declare(self._text(at), None)
        return self._declarators(Specifiers(None, end, found.is_alias))

    def _declarators(self, found: Specifiers) -> int:
        """Read `*name[n] = value, ...` to the `;` or into the body behind them."""
        at = found.end
        while at < len(self._tokens):
            declared = self._declarations.declarator(at, found.type)
            if declared is None:
                return at
            for opening in declared.bounds:
                self._expressions.read(opening + 1, ())
            at = self._declared(found, declared)
            if self._text(at) != ",":
                return at
            at += 1
        return at

    def _declared(self, found: Specifiers, declared: Declarator) -> int:
        """Take in one name with what follows it: a value, a body, the width of a field."""
        at, t = declared.end, declared.type
        if found.is_alias:
            if declared.name:
                self._names.name_type(declared.name, t)
            return at
        if isinstance(t, Function) and declared.parameters is not None:
            return self._function(declared, t)
        if self._text(at) == ":" and self._names.scopes[-1].kind == "record":
            at = self._expressions.read(at + 1, (",", ";"))[1]
        if declared.name and not found.is_deduced:
            self._names.declare(declared.name, t)
        if self._text(at) == "=":
            value, at = self._expressions.read_value(at + 1, t, (",", ";"))
            if value is not None and found.is_deduced:
                self._names.declare(declared.name, _deduced(value.type, t))
        elif self._text(at) in ("(", "{") and declared.name and t is not None:  # C++
            at = self._initialized(at, t)
        elif declared.name and found.is_deduced:
            self._names.declare(declared.name, None)
        return at

    def _initialized(self, opening: int, t: Known) -> int:
        """`T v(value)` and `T v{value}`."""
        end = past_brackets(self._tokens, opening)
        at = opening + 1
        while at < end - 1 and self._text(at) != ",":
            at = past_brackets(self._tokens, at)
        if (
            self._text(opening) == "("
            and self._text(at) == ","
            and isinstance(t, Type)
            and t.is_vector
        ):
            self._do.refuse(
                opening, f"{t} is initialized by lanes in parentheses; write = {t}(...)"
            )
        self._expressions.read_value(opening + 1, t if self._text(opening) == "(" else None, ())
        return end

    # -- functions ---------------------------------------------------------------------------------

    def _function(self, declared: Declarator, t: Function) -> int:
        """A prototype, or the head of a definition; stops at what follows it, inside of the
        body."""
        assert declared.parameters is not None
        # a constructor is called like its class
        if declared.name and not self._names.is_type(declared.name):
            self._names.declare(declared.name, None if self._is_template else t)
            if self._is_template:
                self._names.templates.add(declared.name)
        self._is_template = False
        for start, expected in declared.parameters.defaults:
            self._expressions.read_value(start, expected, (",",))
        scope = Scope("function", names=declared.parameters.names, result=t.result)
        at = declared.end
        while self._is_name(at) and self._text(at) in ATTRIBUTES:
            at = past_brackets(self._tokens, at + 1)
        if self._text(at) == ":" and self._text(at + 1) != ":":
            self._names.scopes.append(scope)
            at = self._initializers(at + 1)
            self._names.scopes.pop()
        if self._text(at) == "{":
            self._names.scopes.append(scope)
            return at + 1
        if (
            declared.parameters.plain
            and declared.parameters.types
            and self._declarations.specifiers(at) is not None
        ):
            scope.awaits_body = True  # their types come now, as before C89
            t.parameters.clear()
            self._names.scopes.append(scope)
        return at

    def _initializers(self, at: int) -> int:
        """Behind the `:` of a constructor of C++: members with their values."""
        while self._is_name(at):
            field = self._text(at)
            while self._text(at) not in ("(", "{", ";", ""):
                at += 1
            if self._text(at) not in ("(", "{"):
                break
            t = self._names.variable(field)
            _, end = self._expressions.read_value(at + 1, t, ())
            at = end + 1 + (self._text(end + 1) == "...")
            if self._text(at) != ",":
                break
            at += 1
        return at


def _deduced(value: Known, declarator: Known) -> Known:
    """The type of `auto x = value`, or of `auto *x`."""
    return value if declarator is None or isinstance(value, Pointer) else None
