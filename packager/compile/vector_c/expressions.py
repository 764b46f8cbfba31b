"""Expressions and types of pycparser's trees: their meaning, and the C text that takes their place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pycparser import c_ast
from pycparser.c_generator import CGenerator

from mblob.packager.compile.vector_c.names import Names
from mblob.packager.compile.vector_c.operations import Operations
from mblob.packager.compile.vector_c.tokens import BASE_WORDS
from mblob.packager.compile.vector_c.types import Function, Known, Pointer, Record, Type, word_type
from mblob.packager.compile.vector_c.values import Value

Node = Any  # of pycparser, which has no types
_NUMBER = re.compile(r"(0[xX][0-9a-fA-F]+|\d+)[uUlL]*")
# What stands before the parentheses of `float4(a, b, c, d)`, which pycparser reads as a call.
MAKE = "mblob_make_"
ANY_TYPE = "mblob_auto"  # of `auto`: what the initializer has


class UnreadError(Exception):
    """A tree is no expression that we know."""


class Expressions(Operations):
    """Reads trees. `names` says what names mean at the place that is read."""

    names: Names
    placed: dict[str, Known]  # by names that stand for other text, its type

    def line(self, node: Node) -> int:
        return node.coord.line if node.coord is not None else 1

    # -- types -------------------------------------------------------------------------------------

    def known(self, node: Node) -> Known:
        """The type that a tree declares, None if it is no business of ours."""
        if isinstance(node, (c_ast.PtrDecl, c_ast.ArrayDecl)):
            return Pointer(self.known(node.type))
        if isinstance(node, c_ast.FuncDecl):
            return self._function(node)
        if isinstance(node, (c_ast.TypeDecl, c_ast.Typename, c_ast.Decl)):
            return self.known(node.type)
        if isinstance(node, (c_ast.Struct, c_ast.Union)):
            made = self.names.record(node.name or "", defines=node.decls is not None)
            for declared in node.decls or ():
                t = self.known(declared) if isinstance(declared, c_ast.Decl) else None
                if isinstance(t, Record) and declared.name is None:
                    made.fields.update(t.fields)
                elif t is not None or isinstance(declared, c_ast.Decl):
                    self.names.member(made, declared.name, t)
            return made
        if isinstance(node, c_ast.IdentifierType):
            first = node.names[0]
            if first in self.placed:
                return self.placed[first]
            is_name = len(node.names) == 1 and first not in BASE_WORDS
            return self.names.type_named(first) if is_name else word_type(node.names)
        return None

    def _function(self, node: Node) -> Function:
        made = Function(self.known(node.type), variadic=node.args is None)
        for parameter in node.args.params if node.args is not None else ():
            if isinstance(parameter, c_ast.EllipsisParam):
                made.variadic = True
                continue
            t = self.known(parameter) if not isinstance(parameter, c_ast.ID) else None
            name = getattr(parameter, "name", None)
            if name is None and len(node.args.params) == 1 and _is_void(parameter):
                continue
            made.parameters.append(t)
            if name:
                made.names[name] = t
        return made

    # -- expressions -------------------------------------------------------------------------------

    def read(self, node: Node, expected: Known = None) -> Value:
        """The value of an expression.

        Args:
            expected: what an expression in braces initializes.
        """
        line = self.line(node)
        if isinstance(node, c_ast.InitList):
            return Value(self._braces(node, expected), Record(), line)
        read = getattr(self, f"_{type(node).__name__}", None)
        if read is None:
            raise UnreadError(type(node).__name__)
        value: Value = read(node, line)
        self.touched |= value.vector is not None
        return value

    def _ID(self, node: Node, line: int) -> Value:
        t = self.placed[node.name] if node.name in self.placed else self.names.variable(node.name)
        return Value(node.name, t, line, name=node.name)

    def _Constant(self, node: Node, line: int) -> Value:
        return Value(node.value, Pointer(None) if node.type == "string" else None, line)

    def _Typename(self, node: Node, line: int) -> Value:
        return Value(CGenerator().visit(node), None, line)

    def _UnaryOp(self, node: Node, line: int) -> Value:
        a = self.read(node.expr)
        if node.op[0] in "sa_":  # sizeof, alignof
            return Value(f"{node.op}({a.text})", None, line)
        if node.op in ("p++", "p--"):
            return self.step(node.op[1:], a, line, behind=True)
        if node.op in ("++", "--"):
            return self.step(node.op, a, line, behind=False)
        return self.prefix(node.op, a, line)

    def _BinaryOp(self, node: Node, line: int) -> Value:
        chain = []  # of operators to the left, which may be long
        packed = None
        while isinstance(node, c_ast.BinaryOp) and not (packed := _packed(node)):
            chain.append(node)
            node = node.left
        value = self._unpacked(*packed, line) if packed else self.read(node)
        for outer in reversed(chain):
            value = self.binary(outer.op, value, self.read(outer.right), self.line(outer))
        return value

    def _unpacked(self, cast: Node | None, nodes: Sequence[Node], line: int) -> Value:
        """The vector that `_packed` means."""
        values = [self.read(node) for node in nodes]
        t = values[0].type
        lane = t.scalar if isinstance(t, Type) and t.bits == 8 else "int8_t"
        made = self.construct(Type(lane, len(values)), values, line)
        return made if cast is None else self.cast(self.known(cast), "", made, line)

    def _Assignment(self, node: Node, line: int) -> Value:
        return self.assign(node.op, self.read(node.lvalue), self.read(node.rvalue), line)

    def _TernaryOp(self, node: Node, line: int) -> Value:
        c, a, b = (self.read(part) for part in (node.cond, node.iftrue, node.iffalse))
        return self.conditional(c, a, b, line)

    def _Cast(self, node: Node, line: int) -> Value:
        t = self.known(node.to_type)
        if isinstance(node.expr, c_ast.ExprList) and isinstance(t, Type) and t.is_vector:
            return self.construct(t, [self.read(item) for item in node.expr.exprs], line)
        return self.cast(t, CGenerator().visit(node.to_type), self.read(node.expr), line)

    def _ArrayRef(self, node: Node, line: int) -> Value:
        inner = self.read(node.subscript)
        number = _NUMBER.fullmatch(inner.text)
        lane = int(number[1], 8 if re.fullmatch("0[0-7]+", number[1]) else 0) if number else None
        return self.subscript(self.read(node.name), lane, inner.text, line)

    def _StructRef(self, node: Node, line: int) -> Value:
        unknown = Record() if self.names.is_cxx else None
        return self.member(self.read(node.name), node.type, node.field.name, unknown, line)

    def _FuncCall(self, node: Node, line: int) -> Value:
        items = [self.read(item) for item in node.args.exprs] if node.args is not None else []
        name = node.name.name if isinstance(node.name, c_ast.ID) else ""
        if name.startswith(MAKE):
            t = self.names.type_named(name[len(MAKE) :])
            assert isinstance(t, Type)
            return self.construct(t, items, line)
        is_declared = name in self.placed or self.names.is_declared(name)
        callee = self.read(node.name)
        if name and not is_declared:
            callee.type = None  # `min`, or a function that nothing declares
        return self.call(callee, items, is_declared, line)

    def _ExprList(self, node: Node, line: int) -> Value:
        items = [self.read(item) for item in node.exprs]
        return Value(f"({', '.join(item.text for item in items)})", items[-1].type, line)

    def _CompoundLiteral(self, node: Node, line: int) -> Value:
        t = self.known(node.type)
        return Value(f"({CGenerator().visit(node.type)}){self._braces(node.init, t)}", t, line)

    def _braces(self, node: Node, t: Known) -> str:
        """The text in braces that initializes a `t`."""
        parts: list[str] = []
        for i, item in enumerate(node.exprs):
            expected, name = _item(t, i), ""
            is_designated = isinstance(item, c_ast.NamedInitializer)
            if is_designated:
                expected = t
                for part in item.name:
                    is_member = isinstance(part, c_ast.ID)
                    expected = _member(expected, part.name if is_member else "")
                    name += (
                        f".{part.name}"
                        if is_member
                        else f"[{self.read(getattr(part, 'expr', part)).text}]"
                    )
                name += " = "
                item = item.expr
            value = self.read(item, expected)
            # A number in braces is a lane, unless it is said to be a member: braces may be left out.
            if value.vector is not None or is_designated:
                self.convert(value, expected)
            parts.append(name + value.text)
        return f"{{{', '.join(parts)}}}"


def _packed(node: Node) -> tuple[Node | None, list[Node]] | None:
    """The bytes of `((0x000000ff << 0) & (x << 0))|((0x000000ff << 8) & (y << 8))|...`, and the type
    of the cast before them. None if this is something else.

    For lanes of 8 bits TVM prints this without parentheses around it, and means `int8_t4(x, y, ...)`
    (codegen_c.cc, PrintVecElemLoadExpr).
    """
    terms: list[Node] = []
    while isinstance(node, c_ast.BinaryOp) and node.op == "|":
        terms.insert(0, node.right)
        node = node.left
    cast = node.to_type if isinstance(node, c_ast.Cast) else None
    terms.insert(0, node.expr if isinstance(node, c_ast.Cast) else node)
    for i, term in enumerate(terms):
        mask: Node = getattr(term, "left", None)
        value: Node = getattr(term, "right", None)
        if not (getattr(mask, "op", "") == getattr(value, "op", "") == "<<" and term.op == "&"):
            return None
        if getattr(mask.left, "value", "") != "0x000000ff" or getattr(
            value.right, "value", ""
        ) != str(8 * i):
            return None
    return (cast, [term.right.left for term in terms]) if len(terms) > 1 else None


def _is_void(node: Node) -> bool:
    t = getattr(node.type, "type", None)
    return (
        isinstance(t, c_ast.IdentifierType)
        and t.names == ["void"]
        and not isinstance(node.type, c_ast.PtrDecl)
    )


def _item(t: Known, i: int) -> Known:
    """The type of item `i` in braces that initialize a `t`."""
    if isinstance(t, Record):
        return [*t.fields.values(), *([None] * (i + 1))][i]
    return t.to if isinstance(t, Pointer) else None


def _member(t: Known, name: str) -> Known:
    """The type of a member, or of an element if it has no name."""
    if isinstance(t, Record) and name:
        return t.fields.get(name)
    return t.to if isinstance(t, Pointer) and not name else None
