"""Statements and declarations: where names get their types, and where expressions begin and end."""

from __future__ import annotations

from packager.vector_c.expressions import Expressions
from packager.vector_c.operations import Operations
from packager.vector_c.scope import Known, Names, Scope, Signature, word_type

_STORAGE = {
    "static", "extern", "inline", "register", "const", "volatile", "restrict", "__restrict", "__restrict__", "auto",
    "__inline", "__inline__", "__extension__", "_Noreturn", "_Thread_local", "__thread", "constexpr", "__const",
}  # fmt: skip
_WORDS = {"void", "char", "short", "int", "long", "float", "double", "signed", "unsigned", "_Bool", "bool"}
_ATTRIBUTES = ("__attribute__", "__attribute", "__declspec", "_Alignas", "alignas", "__asm__", "asm", "__asm")
_RECORDS = ("struct", "union", "enum", "class")
_SKIPPED = ("goto", "break", "continue", "using", "template", "_Static_assert", "static_assert", "asm", "__asm__")


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
        self._expressions = Expressions(operations, names)

    def walk(self) -> None:
        """Rewrite everything."""
        at = 0
        while at < len(self._tokens):
            at = max(self._statement(at), at + 1)

    def _text(self, at: int) -> str:
        return self._tokens[at].text if at < len(self._tokens) else ""

    def _is_name(self, at: int) -> bool:
        return at < len(self._tokens) and self._tokens[at].kind == "name"

    # -- statements -------------------------------------------------------------------------------------

    def _statement(self, at: int) -> int:
        """Read one, or the head of one; where the next begins."""
        text = self._text(at)
        scopes = self._names.scopes
        if text == "{":
            scopes.append(Scope("file" if scopes[-1].kind == "file" else "block"))
            return at + 1
        if text == "}":
            return self._end_of_block(at)
        if text == ";":
            self._end_of_loops()
            return at + 1
        if text in ("if", "while", "switch") and self._text(at + 1) == "(":
            return self._expressions.read(at + 2, ())[1] + 1
        if text == "for" and self._text(at + 1) == "(":
            return self._for(at + 2)
        if text == "return":
            return self._return(at + 1)
        if text in ("else", "do", "try") or (self._is_name(at) and self._text(at + 1) == ":" != self._text(at + 2)):
            return at + (1 if text in ("else", "do", "try") else 2)
        if text in ("case", "default"):
            return self._expressions.read(at + 1, (":",))[1] + 1
        if text in _SKIPPED:
            return self._past(at, ";")
        if text in ("extern", "namespace"):
            head = at + 1 + (self._is_name(at + 1) if text == "namespace" else self._text(at + 1)[:1] == '"')
            if self._text(head) == "{" or head > at + 1:
                return head
        after = self._record_body(at)
        if after is None:
            after = self._declaration(at)
        if after is None:
            after = self._expressions.read(at, (";", "{"))[1]
        return after

    def _end_of_block(self, at: int) -> int:
        scope = self._names.scopes[-1]
        if len(self._names.scopes) > 1:
            self._names.scopes.pop()
        self._end_of_loops()
        if scope.kind == "record":
            return self._declarators(at + 1, None, is_alias=scope.is_alias)
        return at + 1

    def _end_of_loops(self) -> None:
        """Loops whose body was the statement that ends here."""
        while self._names.scopes[-1].kind == "loop":
            self._names.scopes.pop()

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

    # -- declarations -----------------------------------------------------------------------------------

    def _declaration(self, at: int) -> int | None:
        """Read one up to its `;`, or to the `{` of a body; None if there is none at `at`."""
        is_alias = self._text(at) == "typedef"
        found = self._specifiers(at + is_alias)
        if found is None:
            return None
        t, at = found
        return self._declarators(at, t, is_alias)

    def _specifiers(self, at: int) -> tuple[Known, int] | None:
        """The type that a declaration begins with, and where its declarators begin."""
        words: list[str] = []
        found: Known = None
        seen = False
        while self._is_name(at):
            text = self._text(at)
            if text in _ATTRIBUTES:
                at = self._skip_brackets(at + 1)
            elif text in _STORAGE:
                at += 1
            elif text in _RECORDS:
                return None, self._record_name(at)
            elif text in _WORDS:
                words.append(text)
                at += 1
            elif not words and found is None and not self._names.variable_known(text) and self._begins_type(at, seen):
                found = self._names.type_named(text)
                seen = True
                at += 1
            else:
                break
        if words:
            return word_type(words), at
        return (found, at) if seen else None

    def _begins_type(self, at: int, seen: bool) -> bool:
        """Whether a name that we need not know is a type: a known one, or one with a declarator behind it."""
        after = at + 1
        if self._text(after) == "(" and self._names.is_type(self._text(at)):
            return False  # a constructor
        if self._names.is_type(self._text(at)):
            return True
        if self._is_name(after):
            return True  # type name; or a macro before a type
        if seen:
            return False
        while self._text(after) in ("*", "const", "&"):
            after += 1
        return after > at + 1 and self._is_name(after) and self._text(after + 1) in ("=", ";", ",", "[", "(", ")")

    def _record_name(self, at: int) -> int:
        """Past `struct name`, its attributes included: where a body or a declarator begins."""
        at += 1
        while self._is_name(at):
            if self._text(at) in _ATTRIBUTES:
                at = self._skip_brackets(at + 1)
            elif self._is_name(at + 1) and self._text(at + 1) not in _ATTRIBUTES and self._text(at) not in _RECORDS:
                return at + 1
            else:
                at += 1
                if self._text(at) not in _ATTRIBUTES:
                    return at
        return at

    def _record_body(self, at: int) -> int | None:
        """Enter the body of a struct, whose members are read like variables, or pass an enum; None if there is none."""
        is_alias = self._text(at) == "typedef"
        at += is_alias
        while self._text(at) in _STORAGE:
            at += 1
        if self._text(at) not in _RECORDS:
            return None
        is_enum = self._text(at) == "enum"
        body = self._record_name(at)
        if not is_enum and self._text(body) == ":":  # C++: base classes
            while body < len(self._tokens) and self._text(body) not in ("{", ";"):
                body += 1
        if is_enum and self._text(body) == ":":
            body += 2
        if self._text(body) != "{":
            return None
        if is_enum:
            return self._declarators(self._skip_brackets(body), None, is_alias)
        self._names.scopes.append(Scope("record", is_alias=is_alias))
        return body + 1

    def _declarators(self, at: int, t: Known, is_alias: bool) -> int:
        """Read `*name[n] = value, ...` to the `;` or `{` behind them."""
        while at < len(self._tokens):
            at, name, stars = self._declarator_head(at)
            if name and self._text(at) == "(" and self._declares_function(at):
                return self._function(name, t.pointer(stars) if t else None, at)
            dimensions = 0
            while self._text(at) in ("[", "(") or self._text(at) in _ATTRIBUTES or self._text(at) == ":":
                if self._text(at) == "[":
                    at = self._expressions.read(at + 1, ())[1] + 1
                    dimensions += 1
                elif self._text(at) == ":":
                    at = self._expressions.read(at + 1, (",", ";"))[1]
                else:
                    at = self._skip_brackets(at + (self._text(at) in _ATTRIBUTES))
            declared = t.pointer(stars + dimensions) if t is not None else None
            if name and is_alias:
                self._names.aliases[name] = declared
            elif name:
                self._names.declare(name, declared)
            if self._text(at) == "=":
                value, at = self._expressions.read(at + 1, (",", ";"))
                if value is not None and self._text(value.first) != "{":
                    self._do.convert(value, declared)
            if self._text(at) != ",":
                return at
            at += 1
        return at

    def _declarator_head(self, at: int) -> tuple[int, str, int]:
        """Where the rest of a declarator begins, its name, and how many stars it has."""
        stars = 0
        while self._text(at) in ("*", "&") or self._text(at) in _STORAGE or self._text(at) in _ATTRIBUTES:
            if self._text(at) in _ATTRIBUTES:
                at = self._skip_brackets(at + 1)
                continue
            stars += self._text(at) == "*"
            at += 1
        if self._text(at) == "(" and self._text(at + 1) == "*" and self._is_name(at + 2):  # pointer to function, array
            self._names.declare(self._text(at + 2), None)
            return self._skip_brackets(at), "", stars
        if self._is_name(at):
            return at + 1, self._text(at), stars
        return at, "", stars

    def _declares_function(self, opening: int) -> bool:
        """Whether the parentheses hold parameters, not the arguments of a C++ initialization."""
        if self._names.scopes[-1].kind in ("file", "record"):
            return True
        return self._text(opening + 1) == ")" or self._specifiers_only(opening + 1)

    def _specifiers_only(self, at: int) -> bool:
        return self._is_name(at) and not self._names.variable_known(self._text(at)) and (
            self._text(at) in _STORAGE or (self._names.is_type(self._text(at)) and self._text(at + 1) != "(")
        )

    def _function(self, name: str, result: Known, opening: int) -> int:
        """A prototype, or the head of a definition; stops at what follows it."""
        scope = Scope("function", result=result)
        parameters: list[Known] = []
        at = opening + 1
        while at < len(self._tokens) and self._text(at) not in (")", ";"):
            found = self._specifiers(at)
            t, at = found if found is not None else (None, at)
            at, parameter, stars = self._declarator_head(at)
            while self._text(at) == "[":
                stars += 1
                at = self._skip_brackets(at)
            declared = t.pointer(stars) if t is not None else None
            parameters.append(declared)
            if parameter:
                scope.names[parameter] = declared
            while at < len(self._tokens) and self._text(at) not in (",", ")", ";"):
                at = self._skip_brackets(at)
            at += self._text(at) == ","
        at += 1
        self._names.functions[name] = Signature(result, parameters)
        while self._is_name(at):
            at = self._skip_brackets(at + 1) if self._text(at) in _ATTRIBUTES else at + 1
        if self._text(at) == "{":
            self._names.scopes.append(scope)
            return at + 1
        return at

    def _skip_brackets(self, at: int) -> int:
        """Past the bracket that opens at `at` and what it holds; past one token if none opens."""
        depth = 0
        while at < len(self._tokens):
            text = self._text(at)
            depth += (text in ("(", "[", "{")) - (text in (")", "]", "}"))
            at += 1
            if depth <= 0:
                return at
        return at
