"""Statements: where names get their types, and where expressions begin and end.

A source is read statement by statement. pycparser reads those that vectors are part of, each alone,
from a copy with everything replaced that is no plain C. What it cannot read stays as it is: the
compiler's to judge, or C++, which has operators for it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from pycparser import c_ast, c_parser

from mblob.packager.compile.vector_c.expressions import ANY_TYPE, MAKE, Expressions, UnreadError
from mblob.packager.compile.vector_c.helpers import Helpers
from mblob.packager.compile.vector_c.names import Names, Scope
from mblob.packager.compile.vector_c.tokens import (
    ATTRIBUTES,
    BASE_WORDS,
    DEDUCED,
    OPENING,
    QUALIFIERS,
    RECORDS,
    TYPEOF,
    Token,
    ends,
)
from mblob.packager.compile.vector_c.types import (
    Function,
    Known,
    Record,
    has_vectors,
    vector_named,
)
from mblob.packager.compile.vector_c.values import Value

_SKIPPED = (
    "goto", "break", "continue", "using", "_Static_assert", "static_assert", "asm", "__asm__", "__asm",
)  # fmt: skip
_ACCESS = ("public", "private", "protected")
# Words that pycparser does not know, as it knows them; of C++ what declares the same without.
_SPELLINGS = {
    "__extension__": "", "__inline": "inline", "__inline__": "inline", "__const": "const", "__restrict": "restrict",
    "__restrict__": "restrict", "__volatile__": "volatile", "__signed__": "signed", "bool": "_Bool", "friend": "",
    "virtual": "", "explicit": "", "mutable": "", "typename": "", "constexpr": "", "__thread": "", "thread_local": "",
    "_Thread_local": "", "_Noreturn": "",
}  # fmt: skip
# Of these the arguments are no values.
_UNREAD = ("__builtin_offsetof", "offsetof", "__builtin_types_compatible_p", "_Generic")
_THROWN = ("noexcept", "throw")
_CASTS = ("static_cast", "const_cast", "reinterpret_cast", "dynamic_cast")
_VA_ARG = ("__builtin_va_arg", "va_arg")
_BEHIND_FUNCTIONS = ("const", "noexcept", "override", "final", ":", "->", "{", "try", "&", "&&")
_PLACED = re.compile(r"mblob_(?:text|type)(\d+)_|mblob_name((?:x[0-9a-f]+_)+)|\b_Bool\b")
# Frames of Python, for pycparser, which takes up to 20 for a bracket. Before 3.11 they are on the stack.
_FRAMES, _DEEPEST_BRACKET = (20_000, 1000) if sys.version_info >= (3, 11) else (6000, 300)
_BRACKET = re.compile(r"[](){}[]")
_OUTSIDE = ("file", "namespace")
_DEEPEST = 50  # statements in expressions within each other
_LONGEST = 400  # tokens of the arguments of a template


class Statements(Expressions):
    """Walks a source from its first token to its last, and rewrites what it finds.

    Args:
        tokens: of the source.
        tail: the space behind the last.
        refuse: raises an error at a line, counted from a token.
        helpers: where the functions to call come from.
        own: vector names that mean something else here.
        is_cxx: the source may be C++.
    """

    def __init__(
        self, tokens: list[Token], tail: str, refuse: Callable[[int, int, str], NoReturn],
        helpers: Helpers, own: set[str], is_cxx: bool,
    ) -> None:  # fmt: skip
        super().__init__(lambda line, why: refuse(self._first, line, why), helpers)
        self.tokens = [*tokens, Token("end", "", tail, 0, "")]
        for token in self.tokens:
            if token.kind == "name" and not (token.text.isascii() and "$" not in token.text):
                token.text = "mblob_name" + "".join(f"x{ord(letter):x}_" for letter in token.text)
        self._words = [t.text for t in self.tokens]
        self._ends = ends(self.tokens)
        self._space = [t.space for t in self.tokens]
        self._out = [t.out for t in self.tokens]
        self.names = Names(own, is_cxx, lambda item: self._declaration(item.start, item.stop))
        self.placed = {ANY_TYPE: None}
        # by the first token that a name stands for, the name and what is behind
        self._places: dict[int, tuple[str, int]] = {}
        self._first = 0  # token of the statement that is read
        self._parser = c_parser.CParser()
        self._last: Value | None = None
        self._blocks = 0
        self._is_template = False  # what is declared next

    def walk(self) -> None:
        """Rewrite everything."""
        at, limit = 0, sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, _FRAMES))
        try:
            while self.word(at):
                at = max(self._statement(at), at + 1)
        except RecursionError:
            self.refuse(1, "brackets are nested too deeply for a statement with vectors")
        finally:
            sys.setrecursionlimit(limit)

    def written(self) -> str:
        """The text that the tokens now are."""
        return self._text(0, len(self.tokens))

    def _text(self, first: int, end: int) -> str:
        pairs = zip(self._space[first:end], self._out[first:end])
        return "".join(part for pair in pairs for part in pair)

    # -- the tokens --------------------------------------------------------------------------------

    def word(self, at: int) -> str:
        """A token, "" behind the last."""
        return self._words[at] if at < len(self._words) else ""

    def is_name(self, at: int) -> bool:
        return at < len(self.tokens) and self.tokens[at].kind == "name"

    def past(self, at: int) -> int:
        """Past the bracket that opens at `at` and what it holds; past one token if none opens."""
        return self._ends.get(at, len(self.tokens) - 1 if self.word(at) in OPENING else at + 1)

    def _past_template(self, opening: int) -> int:
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

    def _find(self, at: int, end: int, *words: str) -> int:
        """The first of some words outside of brackets, else `end`."""
        while at < end and self.word(at) not in words:
            at = self.past(at)
        return min(at, end)

    # -- statements --------------------------------------------------------------------------------

    def _statement(self, at: int) -> int:
        """Read one, or the head of one; where the next begins."""
        word, scopes = self.word(at), self.names.scopes
        if word == "{":
            kind = scopes[-1].kind
            scopes.append(Scope(kind if kind in _OUTSIDE else "block"))
            return at + 1
        if word in (";", "}"):
            if word == "}" and len(scopes) > 1:
                scopes.pop()
            while scopes[-1].kind == "loop":
                scopes.pop()  # the statement was the body
            return at + 1
        self._first = at
        after = self._keyword(at, word) if self.is_name(at) else None
        return self._simple(at) if after is None else after

    def _keyword(self, at: int, word: str) -> int | None:
        """Read what begins with a word for it; None if none does."""
        following, scope = self.word(at + 1), self.names.scopes[-1]
        if word in ("if", "while", "switch"):
            opening = at + 1 + (following == "constexpr")
            closing = self.past(opening) - 1
            value = self._full(opening + 1, closing) if self.word(opening) == "(" else None
            if value is not None and value.vector is not None:
                why = f"{value.vector} as a condition; compare its lanes one by one"
                self.refuse(value.line, why)
            return closing + 1
        if word == "for" and following == "(":
            self.names.scopes.append(Scope("loop"))
            at, end = at + 2, self.past(at + 1) - 1
            while at < end:
                stop = self._find(at, end, ";", ":")
                self._declaration(at, stop)
                at = stop + 1
            return end + 1
        if word == "return":
            end = self._find(at + 1, len(self.tokens) - 1, ";", "}")
            self._full(at + 1, end, self.names.result)
            return end
        if word in ("else", "do", "try"):
            return at + 1
        if word in ("case", "default"):
            return self._find(at, len(self.tokens) - 1, ":", ";") + 1
        if following == ":" and (word in _ACCESS or scope.kind != "record"):
            return at + 2  # a label
        if word in _SKIPPED:
            return self._find(at, len(self.tokens) - 1, ";")
        if word == "template":
            self._is_template = True
            return self._past_template(at + 1)
        if word == "extern" and following[:1] == '"':
            return at + 2
        end = self._find(at, at + 5, "{", ";", "=")
        if "namespace" in self._words[at : at + 2] and self.word(end) == "{":
            self.names.scopes.append(Scope("namespace"))
            return end + 1
        return None

    def _simple(self, at: int) -> int:
        """Read a declaration or an expression; to its `;`, or into a body."""
        outside = self.names.scopes[-1].kind in (*_OUTSIDE, "record")
        is_given, i, before = False, at, ""
        while (word := self.word(i)) not in (";", "}", ""):
            if word == "{" and not is_given and before != "=":
                words = self._words[at:i]
                if outside and (before in (")", "]", "}", *_BEHIND_FUNCTIONS) or "->" in words):
                    return self._function_body(at, i)
                if not RECORDS.isdisjoint(words) and before != ")":
                    end = self._find(i, len(self.tokens) - 1, ";")
                    if not self._is_template and self._declaration(at, end):
                        return end
                    if not self.names.concern(self.tokens[i:end]):
                        return end
                    record = self.names.record(self.word(i - 1), defines=True)
                    self.names.scopes.append(Scope("record", record=record))
                    return i + 1
            is_given |= word == "="
            i = self.past(i)
            before = self.word(i - 1)
        if self.names.scopes[-1].kind in _OUTSIDE and not self.names.concern(self.tokens[at:i]):
            self._wait(at, i)
        else:
            self._declaration(at, i)
        self._is_template = False
        return i

    def _wait(self, at: int, end: int) -> None:
        """Note what names a declaration declares, if it does."""
        item, i = range(at, end), at
        is_hidden = self._is_template or any(s.kind == "namespace" for s in self.names.scopes)
        while i < end and not is_hidden:
            inner = i + 2 if self.word(i) == "(" and self.word(i + 1) == "*" else i
            name, behind = self.word(inner), self.word(inner + 1)
            is_declared = behind in (";", "=", ",", "[", "(", ")") or behind in ATTRIBUTES
            if is_declared and self.is_name(inner) and name not in ATTRIBUTES:
                self.names.waiting.setdefault(name, []).append(item)
            i = self.past(i)

    def _function_body(self, at: int, brace: int) -> int:
        """The head of a definition; inside of the body, if it has to do with vectors."""
        cut, opening, end = at, at, self.past(brace)
        while opening < brace:
            cut = self.past(opening)
            if self.word(opening) == "(" and self.word(cut) in _BEHIND_FUNCTIONS:
                break
            opening = cut
        if not self.names.concern(self.tokens[at:end]):
            self._wait(at, cut)
            self._is_template = False
            return end
        name, function = self._head(self._copy(at, cut, is_head=True), at, cut)
        if function is None:  # a constructor or operator of C++
            text = "int mblob_f" + self._copy(opening, cut, is_head=True)
            function = self._head(text, at, cut)[1] or Function(None)
            self._declare_unread(at, opening + 1)
        elif not self.names.is_type(name):
            self.names.declare(name, Record() if self._is_template else function)
        self._is_template = False
        self.names.scopes.append(self.names.function(function))
        return brace + 1

    def _head(self, text: str, at: int, end: int) -> tuple[str, Function | None]:
        """The name and type of the function that a copy of tokens declares."""
        found = self._parse(text, at, end)
        is_declared = len(found) == 1 and isinstance(found[0], c_ast.Decl)
        t = self.known(found[0].type) if is_declared else None
        return (found[0].name, t) if isinstance(t, Function) else ("", None)

    def _block(self, at: int, scope: Scope) -> Known:
        """Walk the statements in the braces that open at a token, which stand in an expression; the
        type of the last."""
        if self._blocks >= _DEEPEST:
            self.refuse(1, f"statements in expressions are nested deeper than {_DEEPEST}")
        first, depth, end = self._first, len(self.names.scopes), self.past(at)
        self.names.scopes.append(scope)
        self._blocks += 1
        at += 1
        while at < end - 1:
            self._last = self._last if self.word(at) == ";" else None
            at = max(self._statement(at), at + 1)
        self._blocks -= 1
        del self.names.scopes[depth:]
        self._first = first
        return self._last.type if self._last is not None else None

    # -- what pycparser reads ----------------------------------------------------------------------

    def _full(self, at: int, end: int, expected: Known = None) -> Value | None:
        """Read and rewrite an expression; its value, None if it has nothing to do with vectors."""
        if not has_vectors(expected) and not self.names.concern(self.tokens[at:end]):
            return None
        found = self._parse(self._copy(at, end), at, end)
        if len(found) == 1 and not isinstance(found[0], (c_ast.Decl, c_ast.Typedef)):
            return self._rewritten(at, end, found[0], expected)
        return None

    def _rewritten(self, at: int, end: int, node: Any, expected: Known = None) -> Value:
        """Write an expression for tokens. It stands in the line of the first; the others' follow."""
        self.touched = False
        try:
            value = self.read(node, expected)
        except UnreadError:
            return Value("", Record())
        self.convert(value, expected)
        if self.touched:
            lines = "".join(space for space in self._space[at + 1 : end] if "\n" in space)
            text = _PLACED.sub(self._placed_text, value.text)
            lines = lines if "\n" not in text else "\n" * (lines.count("\n") - text.count("\n"))
            self._out[at:end] = [text + lines] + [""] * (end - at - 1)
            self._space[at + 1 : end] = [""] * (end - at - 1)
        return value

    def _declaration(self, at: int, end: int) -> bool:
        """Read a declaration or an expression; False if that is no plain C."""
        self._last = None
        begins = self.word(at) in QUALIFIERS or self.word(at) in (
            *RECORDS,
            "typedef",
            "enum",
            *DEDUCED,
            *TYPEOF,
        )
        if not (begins or self._is_type(at) or self.names.concern(self.tokens[at:end])):
            return False
        found = self._parse(self._copy(at, end), at, end)
        if len(found) == 1 and not isinstance(
            found[0], (c_ast.Decl, c_ast.Typedef, c_ast.Struct, c_ast.Union)
        ):
            if (
                isinstance(found[0], c_ast.UnaryOp)
                and found[0].op in ("p++", "p--")
                and not self._blocks
            ):
                found[0].op = found[0].op[1:]  # a statement: nobody reads the old value
            self._last = self._rewritten(at, end, found[0])
        is_given = vector_named(self.word(at)) and self.is_name(at + 1) and at + 2 in self._ends
        is_inside = self.names.scopes[-1].kind not in (*_OUTSIDE, "record")
        if not found and is_given and is_inside and self.word(at + 2) == "(":
            t = self.word(at)
            self.refuse(1, f"{t} is initialized by lanes in parentheses; write = {t}(...)")
        if not found:
            self._declare_unread(at, end)
        parts = [*self._declarators(at, end)]
        for i, node in enumerate(found):
            if not isinstance(node, (c_ast.Decl, c_ast.Typedef)):
                break
            name, known, is_type = node.name, self.known(node.type), isinstance(node, c_ast.Typedef)
            if name:
                is_template = self._is_template and isinstance(known, Function)
                self.names.declare(name, Record() if is_template else known, is_type)
            if not is_type and node.init is not None and len(parts) == len(found):
                value = self._rewritten(*parts[i], node.init, known)
                if ANY_TYPE in self._names_of(node.type):
                    self.names.declare(name, value.type)
        return bool(found)

    def _declare_unread(self, at: int, end: int) -> None:
        """Note that a name is declared, in C++ that only the compiler understands."""
        for i in range(at + 1, end if self.names.is_cxx else at):
            is_behind = self.is_name(i - 1) or self.word(i - 1) in (">", "*", "&", "&&")
            if is_behind and self.is_name(i) and self.word(i + 1) in ("=", "(", "{", "[", ";"):
                is_product = self.word(i - 1) in ("*", "&", "&&")
                if not (is_product and self.names.is_declared(self.word(i))):
                    self.names.declare(self.word(i), Record())
                return

    def _declarators(self, at: int, end: int) -> Iterator[tuple[int, int]]:
        """Of each name that a declaration declares the tokens of its initializer."""
        while at < end:
            stop = self._find(at, end, ",")
            given = self._find(at, stop, "=")
            yield given + 1, stop
            at = stop + 1

    def _names_of(self, node: Any) -> list[str]:
        while not isinstance(node, c_ast.IdentifierType):
            node = getattr(node, "type", None)
            if node is None:
                return []
        return list(node.names)

    def _is_type(self, at: int) -> bool:
        return self.is_name(at) and (
            self.word(at) in BASE_WORDS or self.names.is_type(self.word(at))
        )

    def _parse(self, text: str, at: int, end: int) -> list[Any]:
        """The trees that pycparser makes of the copy of a statement; none if it cannot read it."""
        types = {
            w for i in range(at, end) if self.is_name(i) and self.names.is_type(w := self.word(i))
        }
        types |= {
            name for name in self.placed if name in text and not name.startswith("mblob_text")
        }
        depth = 0
        for bracket in _BRACKET.findall(text) if end - at > _DEEPEST_BRACKET else ():
            depth += 1 if bracket in OPENING else -1
            if depth > _DEEPEST_BRACKET:
                raise RecursionError
        aliases = f"typedef int {', '.join(sorted(types))};" if types else ""
        try:
            tree = self._parser.parse(f"{aliases}void f(void){{{text};}}")
        except (c_parser.ParseError, AssertionError):
            return []
        return tree.ext[-1].body.block_items or []

    # -- copies without what is no plain C ---------------------------------------------------------

    def _copy(self, at: int, end: int, is_head: bool = False) -> str:
        """A copy of tokens for pycparser, with their lines.

        Args:
            is_head: of a function.
        """
        parts: list[str] = []
        start = at
        while at < end:
            word, stop = self.word(at), at + 1
            if is_head and word == "=":
                word, stop = "", self._find(at, end, ",", ")")
            elif self.is_name(at) or word in ("[", "(", "&", "&&"):
                word, stop = self._plain(at, start, end, is_head)
            parts += ("\n" * self._space[at].count("\n") or " ", word)
            at = stop
        return "".join(parts)

    def _plain(self, at: int, start: int, end: int, is_head: bool) -> tuple[str, int]:
        """The text that stands for a token and those behind it, and what is behind them."""
        word, after, before = (
            self.word(at),
            self.word(at + 1),
            self.word(at - 1) if at > start else "",
        )
        is_cxx = self.names.is_cxx
        if word == "(" and after == "{":
            return self._stand_in(at, self.past(at), lambda: self._block(at + 1, Scope("block")))
        if word == "[":
            is_lambda = (
                is_cxx and not (self.is_name(at - 1) or before in (")", "]")) and not is_head
            )
            return self._lambda(at) if is_lambda else (word, at + 1)
        if word in ("(", "&", "&&"):
            is_reference = (
                is_cxx and word != "(" and (is_head or self._is_declared_behind(at, start))
            )
            return "" if is_reference else word, at + 1
        if (word in ATTRIBUTES or word in _THROWN) and after == "(":
            return "", self.past(at + 1)
        if word in _SPELLINGS:
            return _SPELLINGS[word], at + 1
        if word in DEDUCED:
            return ANY_TYPE, at + 1
        if word in TYPEOF and after == "(":
            return self._stand_in(at, self.past(at + 1), lambda: self._typeof(at + 2), "type")
        if word in _UNREAD and after == "(":
            if word == "_Generic" and self.names.concern(self.tokens[at : self.past(at + 1)]):
                self.refuse(1, "vectors in _Generic; call a function for each type instead")
            return self._stand_in(at, self.past(at + 1), lambda: None)
        if word in _VA_ARG and after == "(":
            comma = self._find(at + 2, end, ",")
            return self._stand_in(
                at, self.past(at + 1), lambda: self._type_name(comma + 1, self.past(at + 1) - 1)
            )
        if is_cxx and word in _CASTS and after == "<":
            closing = self._past_template(at + 1)
            return f"({self._copy(at + 2, closing - 1)})", closing
        if is_cxx and (after == "::" or (after == "<" and self._past_template(at + 1) > at + 1)):
            stop = at + 1
            while self.word(stop) in ("::", "<"):
                stop = stop + 2 if self.word(stop) == "::" else self._past_template(stop)
            found = (
                Record() if self.word(stop - 1) == ">" else self.names.variable(self.word(stop - 1))
            )
            return self._stand_in(at, stop, lambda: found)
        is_made = after == "(" and vector_named(word) is not None and word not in self.names.own
        is_made = is_made and not is_head and self._is_constructor(at, before)
        return MAKE + word if is_made else word, at + 1

    def _is_constructor(self, at: int, before: str) -> bool:
        """True if `float4 (` does not begin a declarator."""
        following = self.word(at + 2)
        if before == "" or before in QUALIFIERS or before == "typedef" or following == ")":
            return False
        inner = at + 3
        while self.word(inner) in QUALIFIERS or self.word(inner) == "*" or self.is_name(inner):
            inner += 1
        behind = self.past(at + 1)
        is_pointer = following == "*" and (
            self.word(at + 3) == ")" or self.word(behind) in ("(", "[")
        )
        return not (is_pointer or (following == "(" and self.names.scopes[-1].kind in _OUTSIDE))

    def _is_declared_behind(self, at: int, start: int) -> bool:
        """True if a `&` stands behind a type: what follows is a reference."""
        before = at - 1
        while before >= start and (self.word(before) in QUALIFIERS or self.word(before) == "*"):
            before -= 1
        return before >= start and (self._is_type(before) or self.word(before) in DEDUCED)

    def _stand_in(
        self, at: int, stop: int, read: Callable[[], Known], kind: str = "text"
    ) -> tuple[str, int]:
        """A name that stands for tokens, of the type that `read` finds."""
        if at not in self._places:
            name = f"mblob_{kind}{at}_"
            self.placed[name] = read()
            self._places[at] = name, stop
        return self._places[at]

    def _lambda(self, at: int) -> tuple[str, int]:
        """A function of C++ without name: its body is read as statements."""
        behind = self.past(at)
        brace = self._find(behind, len(self.tokens), "{", ";")
        if self.word(brace) != "{":
            return "[", at + 1

        def read() -> Known:
            parameters = self._copy(behind, self.past(behind), is_head=True)
            function = self._head(f"int f{parameters}", behind, brace)[1] or Function(None)
            arrow = self._find(behind, brace, "->")
            function.result = self._type_name(arrow + 1, brace) if arrow < brace else None
            self._block(brace, self.names.function(function))
            return Record()

        return self._stand_in(at, self.past(brace), read)

    def _type_name(self, at: int, end: int) -> Known:
        found = self._parse(f"sizeof({self._copy(at, end)})", at, end)
        return (
            self.known(found[0].expr)
            if found and isinstance(found[0].expr, c_ast.Typename)
            else None
        )

    def _typeof(self, at: int) -> Known:
        end = self.past(at - 1) - 1
        found = self._parse(f"sizeof({self._copy(at, end)})", at, end)
        if not found:
            return None
        node = found[0].expr
        return (
            self.known(node)
            if isinstance(node, c_ast.Typename)
            else self._rewritten(at, end, node).type
        )

    def _placed_text(self, found: re.Match[str]) -> str:
        """The text that a name stands for."""
        if found[2]:
            return "".join(chr(int(letter, 16)) for letter in found[2][1:-1].split("_x"))
        if not found[1]:
            return "bool" if self.names.is_cxx else found[0]
        first = int(found[1])
        _, stop = self._places[first]
        return self._out[first] + self._text(first + 1, stop)
