"""C prototypes of plain functions, parsed by pycparser, as far as a packed function can be made of
them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import combinations
from typing import Any

from mblob import argument_types
from mblob.errors import needs_package
from mblob.packager.errors import BuildError, BuildTypeError
from mblob.packager.modules.prototypes import (
    STATIC,
    Dim,
    Parameter,
    Prototype,
    Scalar,
    Words,
    distinct,
    likely_macros,
    of_type,
    size_dim,
    standard,
    type_names,
)

try:
    from pycparser import CParser
    from pycparser import c_ast as c_ast
    from pycparser.c_generator import CGenerator
except ModuleNotFoundError:
    raise needs_package("a prototype of a C function", "pycparser") from None
try:
    from pycparser.c_parser import ParseError as ParseError
except ImportError:  # older releases
    from pycparser.plyparser import ParseError as ParseError


_NO_WORDS = Words()


def parse(declarations: Sequence[str] | str, words: Words = _NO_WORDS) -> tuple[Prototype, ...]:
    """Parse prototypes, one or more per string.

    Args:
        words: those of the source.

    Raises:
        BuildError: no C, or nothing that a packed function can be made of; the text names function and
            parameter.
    """
    if isinstance(declarations, str):
        declarations = (declarations,)
    if not isinstance(declarations, Iterable):
        raise BuildTypeError(
            f"functions: expected prototypes as texts, found {type(declarations).__name__}"
        )
    return distinct(
        _prototype(declaration, text, words)
        for text in declarations
        for declaration in _declarations(text, words)
    )


def _declarations(text: str, words: Words) -> list[c_ast.Node]:
    if not isinstance(text, str):
        raise BuildTypeError(f"functions: expected prototypes as text, found {type(text).__name__}")
    code = standard(text)
    if not code:
        raise BuildError("functions: an empty prototype")

    own = [name for name in words.types if name.isidentifier()]
    try:
        return tree(code, own)
    except ParseError as exc:
        said = str(exc)
    with suppress(ParseError):  # the name that <complex.h> has for a keyword
        return tree(re.sub(r"\bcomplex\b", "_Complex", code), own)
    if ";" in code and "{" not in code:  # the error is about one of them
        parts = filter(str.strip, code.split(";"))
        return [node for part in parts for node in _declarations(part, words)]
    try:  # a place behind types that only the source knows
        tree(code, [*own, *type_names(code)])
    except ParseError as exc:
        said = str(exc)
    raise BuildError(f"functions: {reason(code, said, own)}")


def _prototype(node: Any, text: str, words: Words) -> Prototype:
    if not isinstance(node, c_ast.Decl) or not isinstance(node.type, c_ast.FuncDecl):
        what = (
            "a function with a body"
            if isinstance(node, c_ast.FuncDef)
            else "no function declaration"
        )
        raise BuildError(f"functions: {text.strip()!r} is {what}; expected a prototype")
    name = str(node.name)
    if "static" in node.storage:
        raise BuildError(
            f"functions: {name} is static, so a packed function cannot call it; leave static out of the prototype, and"
            f" {STATIC}"
        )
    params = node.type.args.params if node.type.args else []
    if len(params) == 1 and isinstance(params[0], c_ast.Typename) and _is_void(params[0].type):
        params = []
    names = [p.name for p in params if isinstance(p, c_ast.Decl) and p.name]
    if twice := next((n for i, n in enumerate(names) if n in names[:i]), None):
        raise BuildError(f"{name}: two parameters are called {twice!r}; rename one")
    spelled = [_spelled(p) if isinstance(p, (c_ast.Decl, c_ast.Typename)) else "" for p in params]
    given = [words.values.get(value_name(getattr(p, "type", None))) for p in params]
    returned = words.values.get(value_name(node.type.type))
    _resolve(node, words.types)
    integers: dict[str, str | int] = {
        p.name: scalar.kind
        for p in params
        if isinstance(p, c_ast.Decl) and p.name and (scalar := _integer(p.type))
    }
    known = {**words.numbers, **integers}
    parameters = tuple(
        _parameter(p, i, name, known, s) if v is None else v._replace(name=p.name or f"x{i}")
        for i, (p, s, v) in enumerate(zip(params, spelled, given))
    )
    if returned is not None:
        return Prototype(name, "value", None, returned.spelled, parameters, returned=returned)
    return Prototype(name, *_result(node.type.type, name), parameters)


def _spelled(node: Any) -> str:
    """The type of a parameter as C spells it, with a "?" where its name stands."""
    inner = node.type
    while not isinstance(inner, c_ast.TypeDecl):
        inner = inner.type
    name, inner.declname = inner.declname, "?"
    text = str(CGenerator().visit(node))
    inner.declname = name
    return text


def _resolve(node: Any, types: Mapping[str, str]) -> None:
    """Put what types of the source stand for in their places.

    Args:
        types: as of `Words`.
    """
    for at, inner in node.children() if types else ():
        meant = types.get(_own_name(inner))
        if meant is not None and at == "type":
            named = c_ast.IdentifierType(meant.removesuffix("*").split())
            made = c_ast.TypeDecl(inner.declname, inner.quals, inner.align, named)
            if meant.endswith("*"):
                made.quals = []
                made = c_ast.PtrDecl(inner.quals, made)
            node.type = made
        else:
            _resolve(inner, types)


def _own_name(node: Any) -> str:
    """A type as `Words` names it, "" if it is none of a source."""
    inner: Any = node.type if isinstance(node, c_ast.TypeDecl) else None
    if isinstance(inner, c_ast.IdentifierType):
        return inner.names[0] if len(inner.names) == 1 else ""
    tag = _TAGS.get(type(inner))
    return f"{tag} {inner.name}" if tag else ""


def value_name(node: Any) -> str:
    """A type as `Words.values` names it, "" if it is none."""
    names = getattr(getattr(node, "type", None), "names", ())
    if isinstance(node, c_ast.TypeDecl) and "__int128" in names:
        return "__uint128_t" if "unsigned" in names else "__int128_t"
    if isinstance(node, c_ast.TypeDecl) and "_Complex" in names:
        return " ".join([*(w for w in names if w != "_Complex"), "_Complex"])
    return _own_name(node)


_TAGS = {c_ast.Struct: "struct", c_ast.Union: "union", c_ast.Enum: "enum"}


def _is_void(node: Any) -> bool:
    return (
        isinstance(node, c_ast.TypeDecl)
        and isinstance(node.type, c_ast.IdentifierType)
        and node.type.names == ["void"]
    )


def _integer(node: Any) -> Scalar | None:
    if not isinstance(node, c_ast.TypeDecl) or not isinstance(node.type, c_ast.IdentifierType):
        return None
    try:
        scalar = named_scalar(node.type.names, "")
    except BuildError:
        return None
    return scalar if scalar.is_integer else None


def named_scalar(names: list[str], where: str) -> Scalar:
    """The arithmetic type that a list of specifiers names."""
    if len(names) == 1 and names[0] in argument_types.KINDS:
        return Scalar(argument_types.ALIASES.get(*names, *names), argument_types.KINDS[names[0]])
    words = sorted(names)
    text = " ".join(names)
    if "_Complex" in words:
        complex_name = " ".join([*(w for w in names if w != "_Complex"), "_Complex"])
        if complex_name not in argument_types.KINDS:
            raise BuildError(
                f"{where}: {text} is not supported: no tensor has that type; use double _Complex"
            )
        return Scalar(complex_name, "complex")
    if "__int128" in words:
        raise BuildError(f"{where}: {text} does not fit an argument; pass two int64_t")
    if "long" in words and "double" in words:
        raise BuildError(
            f"{where}: long double is not supported: no tensor has that type; use double"
        )
    if words == ["void"]:
        raise BuildError(
            f"{where}: a struct, or void, is not supported by value; give a function that takes a pointer"
        )
    if not set(words) <= {"char", "int", "long", "short", "signed", "unsigned"}:
        raise BuildError(
            f"{where}: type {text!r} is not known; expected a type of <stdint.h>, a float or a pointer"
        )
    if "char" in words and not {"signed", "unsigned"} & set(words):
        return Scalar("char", "char")
    return Scalar(text, "uint" if "unsigned" in words else "int")


def _parameter(
    node: Any, index: int, function: str, known: Mapping[str, str | int], spelled: str
) -> Parameter:
    """A parameter.

    Args:
        known: kinds of the integer parameters, and enumerators, by name.
        spelled: its type in the words of the source, as of `Parameter`.
    """
    if isinstance(node, c_ast.EllipsisParam):
        raise BuildError(
            f"{function}: a variadic function has no packed function; give it a fixed list of parameters"
        )
    name = str(node.name or "")
    where = f"{function}: parameter {index}" + (f" ({name})" if name else "")
    if isinstance(node, c_ast.ID):
        raise BuildError(f"{where} has no type; write it in front of the name")
    kind, dims = array_dims(node.type, where, known)
    if isinstance(kind, c_ast.FuncDecl):
        if kind is node.type:  # C takes it for a pointer
            spelled = spelled.replace("?", "(*?)", 1)
        return Parameter(name, "pointer", None, False, (), spelled)
    if kind is node.type:
        return Parameter(
            name, "scalar", _by_value(named_scalar(_specifiers(kind, where), where), where)
        )
    if isinstance(kind, (c_ast.PtrDecl, c_ast.ArrayDecl)):
        if isinstance(kind.type, c_ast.FuncDecl):  # int (*f[2])(float), int (**f)(float)
            own = re.sub(r"\?(?:\[[^\]]*\])+", "*?", spelled)
            return Parameter(name, "pointer", None, False, tuple(dims), own)
        if "(" in spelled:
            return Parameter(name, "pointer")
        own = spelled.partition("?")[0].rstrip() + "*" * bool(dims)
        return Parameter(name, "pointer", None, False, tuple(dims), own)
    names = _specifiers(kind, where, is_pointer=True)
    const = "const" in kind.quals
    if names == ["void"]:
        own, _, dimensions = spelled.partition("?")
        if own.split()[-2:] in (["void", "*"], ["void"]):
            own = ""
        elif dimensions:
            own = own.removesuffix("(*") + "*"
        return Parameter(name, "pointer", None, const, tuple(dims), own.rstrip())
    element = named_scalar(names, where)
    if element.kind == "char" and const and not dims:
        return Parameter(name, "string", None, True)
    return Parameter(name, "tensor", element, const, tuple(dims))


def array_dims(kind: Any, where: str, known: Mapping[str, str | int]) -> tuple[Any, list[Dim]]:
    """The type that a pointer or an array points at, and its dimensions; another type as it is."""
    dims: list[Dim] = []
    while isinstance(kind, c_ast.ArrayDecl):
        dims.append(_dim(kind, where, known, outermost=not dims))
        kind = kind.type
    if isinstance(kind, c_ast.PtrDecl) and not dims:
        kind = kind.type
        while isinstance(kind, c_ast.ArrayDecl):  # float (*x)[64]: any number of rows of 64
            dims = dims or [Dim(None, "")]
            dims.append(_dim(kind, where, known, outermost=False))
            kind = kind.type
    return kind, dims


def _specifiers(kind: Any, where: str, is_pointer: bool = False) -> list[str]:
    """Type specifiers of what is left when pointers and arrays are taken off.

    Args:
        is_pointer: they were; a struct is then as good as void.
    """
    if isinstance(kind, c_ast.TypeDecl) and isinstance(kind.type, c_ast.IdentifierType):
        return list(kind.type.names)
    inner = kind.type if isinstance(kind, c_ast.TypeDecl) else kind
    what = {c_ast.Struct: "struct", c_ast.Union: "union", c_ast.Enum: "enum"}.get(type(inner))
    if what:
        found = f"{where}: {what} {inner.name or ''}"
        if what == "enum":
            raise BuildError(f"{found} is no type of numbers; write int for it")
        if is_pointer:
            return ["void"]
        raise BuildError(
            f"{found} is not supported by value; give a function that takes a pointer to it, and write void *"
        )
    raise BuildError(
        f"{where}: this type is not supported; expected a number, a pointer to numbers, or void *"
    )


def _by_value(scalar: Scalar, where: str) -> Scalar:
    if scalar.kind == "complex":
        raise BuildError(
            f"{where}: {scalar.name} by value is not supported: complex numbers are passed in arrays; give a function"
            " that takes a pointer to them"
        )
    return scalar


def _result(node: Any, function: str) -> tuple[str, Scalar | None, str]:
    where = f"{function}: its result"
    if _is_void(node):
        return "void", None, "void"
    if isinstance(node, c_ast.PtrDecl):
        inner = node.type
        if isinstance(inner, c_ast.TypeDecl) and isinstance(inner.type, c_ast.IdentifierType):
            const = "const " if "const" in inner.quals else ""
            pointed = " ".join(inner.type.names)
            kind = "string" if const and pointed == "char" else "pointer"
            return kind, None, f"{const}{pointed} *"
        return "pointer", None, "void *"
    scalar = _by_value(named_scalar(_specifiers(node, where), where), where)
    return "scalar", scalar, scalar.name


# -- dimensions ------------------------------------------------------------------------------------

_OPERATORS = {"+": "mblob_add", "-": "mblob_sub", "*": "mblob_mul"}


def _dim(node: Any, where: str, known: Mapping[str, str | int], outermost: bool) -> Dim:
    quals = node.dim_quals or []
    if node.dim is None or (isinstance(node.dim, c_ast.ID) and node.dim.name == "*"):
        if not outermost and node.dim is None:
            raise BuildError(f"{where}: only the first dimension may be empty")
        return Dim(None, "")
    code, text = _expression(node.dim, where, known)
    return size_dim(code, text, "static" in quals)


def _expression(node: Any, where: str, known: Mapping[str, str | int]) -> tuple[str, str]:
    """C code (checked arithmetic on int64_t) and text of a dimension.

    Args:
        known: kinds of the integer parameters, and enumerators, by name.
    """
    if isinstance(node, c_ast.Constant) and "int" in node.type:
        number = folded(node, {})
        if number is None:
            raise BuildError(f"{where}: dimension {node.value} is too large")
        return f"INT64_C({number})", str(number)
    if isinstance(node, c_ast.ID):
        kind = known.get(node.name)
        if isinstance(kind, int) and kind >= 0:
            return f"INT64_C({kind})", str(kind)
        if not isinstance(kind, str):
            integers = sorted(name for name, kind in known.items() if isinstance(kind, str))
            raise BuildError(
                f"{where}: dimension {node.name!r} is no integer parameter of the function; write the number of a"
                f" macro, or a parameter{' (' + ', '.join(integers) + ')' if integers else ''}"
            )
        code = f"v_{node.name}"
        # 64 bits without a sign lie in an int64_t: 2^63 and more is negative there
        return f"mblob_size({code}, &bad)" if kind == "uint" else code, node.name
    if isinstance(node, c_ast.BinaryOp) and node.op in _OPERATORS:
        left, right = (_expression(side, where, known) for side in (node.left, node.right))
        texts = [
            f"({text})"
            if isinstance(side, c_ast.BinaryOp)
            and side.op != "*"
            and (node.op == "*" or side is node.right)
            else text
            for side, (_, text) in ((node.left, left), (node.right, right))
        ]
        code = f"{_OPERATORS[node.op]}({left[0]}, {right[0]}, &bad)"
        return code, f" {node.op} ".join(texts)
    value = folded(node, {name: n for name, n in known.items() if isinstance(n, int)})
    if value is not None and 0 <= value < 2**63:
        return f"INT64_C({value})", str(value)
    raise BuildError(
        f"{where}: a dimension is made of numbers, integer parameters, + - and *; write the number instead"
    )


def folded(node: Any, numbers: Mapping[str, int]) -> int | None:
    """The value of an expression of numbers, None of any other, and of what 64 bits do not hold.

    Args:
        numbers: what names stand for.
    """
    value = _folded(node, numbers)
    return value if value is not None and -(2**63) <= value < 2**63 else None


def _size_of(node: Any) -> int | None:
    """The size of a type of numbers, None of one that each machine has its own of, and of all others."""
    try:
        scalar = named_scalar(node.type.type.names, "sizeof")
    except (AttributeError, BuildError):
        return None
    size = scalar.size(8)
    return size if size == scalar.size(4) else None


def _folded(node: Any, numbers: Mapping[str, int]) -> int | None:
    if isinstance(node, c_ast.Constant) and "int" in node.type:
        text = node.value.rstrip("uUlL")
        if not text[:1].isdigit():  # 'RIFF'
            return None
        return int(text, 8) if text.isdigit() and text.startswith("0") else int(text, 0)
    if isinstance(node, c_ast.Constant) and node.type == "char" and len(node.value) == 3:
        return ord(node.value[1])
    if isinstance(node, c_ast.ID):
        return numbers.get(node.name)
    if isinstance(node, c_ast.Cast):
        value = folded(node.expr, numbers)
        return value if value is not None and 0 <= value < 128 else None  # any type holds these
    if isinstance(node, c_ast.UnaryOp) and node.op == "sizeof":
        return _size_of(node.expr)
    if isinstance(node, c_ast.UnaryOp):
        value = folded(node.expr, numbers)
        return None if value is None else {"-": -value, "+": value, "~": ~value}.get(node.op)
    if not isinstance(node, c_ast.BinaryOp):
        return None
    left, right = folded(node.left, numbers), folded(node.right, numbers)
    if left is None or right is None:
        return None
    is_small = left >= 0 and right > 0  # where C and Python agree
    if node.op in ("/", "%"):
        return (left // right if node.op == "/" else left % right) if is_small else None
    if node.op in ("<<", ">>"):
        return (
            (left << right if node.op == "<<" else left >> right)
            if left >= 0 <= right < 63
            else None
        )
    found = {
        "+": left + right,
        "-": left - right,
        "*": left * right,
        "|": left | right,
        "&": left & right,
    }
    return found.get(node.op)


# -- texts -----------------------------------------------------------------------------------------


def tree(code: str, types: Sequence[str] = ()) -> list[c_ast.Node]:
    """The declarations of a text.

    Args:
        types: names in it that are types.

    Raises:
        ParseError: it is no C.
        BuildError: it is nested more deeply than declarations are; who reads the tree may recurse.
    """
    _check_depth(code)
    named = set(re.findall(r"\w+", code))
    known = dict.fromkeys(name for name in (*argument_types.TYPEDEFS, *types) if name in named)
    prelude = "".join(f"typedef int {name}; " for name in known)
    return list(CParser().parse(f"{prelude}\n{code};").ext[len(known) :])


_DEPTH, _SIGNS = 32, 64  # brackets in each other; stars, brackets and operators between two commas


def _check_depth(code: str) -> None:
    depth = signs = 0
    for c in re.findall(r"[^\w\s]", code):
        depth += (c in "([{") - (c in ")]}")
        signs = 0 if c in ",;" else signs + 1
        if depth > _DEPTH or signs > _SIGNS:
            raise BuildError(f"functions: {code!r} is nested more deeply than prototypes are")


_OTHERS = (
    (r"#", "leave directives of the preprocessor out, and write what they stand for"),
    (r"\b(asm|__asm__)\b", "call the function by the name in asm(), which is its symbol, and leave asm() out"),
    (r"\boperator\b", "give the name of an operator alone: the error has a function that calls it"),
    (r"<|->|=|\b(template|noexcept)\b",
     "templates, default arguments and noexcept are no part of a prototype: leave them out, and write void * for a"
     " pointer to an object"),
    (r"::|&",
     "namespaces and references are those of C++ sources, and of objects with debug information (-g); for others, write"
     " the function as C declares it: a pointer for a reference, no namespaces, and its symbol as the name"),
)  # fmt: skip
_MACROS = 3  # in one text
_WORDS = 8  # of which some may be macros
_EXAMPLE = "'void vadd(const float *a, const float *b, float *c, int64_t n)'"


def reason(code: str, message: str, own: Sequence[str] = ()) -> str:
    """The fault of a text that is no prototype, and what to write.

    Args:
        message: of the parser.
        own: types of the source.
    """
    found = f"{code!r} is no prototype ({_place(code, message)})"
    for pattern, remedy in _OTHERS:
        if re.search(pattern, code):
            return f"{found}; {remedy}"
    words = likely_macros(code)
    # The fewest words that are macros, if what is left is C once its unknown types are types.
    for count in range(_MACROS + 1):
        for macros in combinations(words[:_WORDS], count):
            for left in _without(code, macros):
                types = [name for name in type_names(left) if name not in own]
                try:
                    nodes = tree(left, [*own, *types])
                except Exception:  # its own
                    continue
                functions = [
                    n for n in nodes if isinstance(getattr(n, "type", None), c_ast.FuncDecl)
                ]
                if not functions or len(functions) < len(nodes) or _mixes(nodes, types):
                    continue
                said = [f"{' and '.join(map(repr, macros))}: leave macros out"] if macros else []
                if types:
                    behind = any(_points_to(n, types[0]) for n in functions)
                    said.append(of_type(types[0], behind))
                return f"{code!r}: {'; '.join(said)}"
    return f"{found}; expected one like {_EXAMPLE}"


def _place(code: str, message: str) -> str:
    """The place where a text stops being C, in plain words."""
    place = re.search(r"(\d+): before: (.*)", message)
    if place is None and "end of input" not in message:
        return "it declares nothing that C knows"
    if place is None or int(place[1]) > len(code):
        return "it ends too early"
    return f"column {place[1]}: {place[2]!r} is not expected there"


def _without(code: str, macros: Sequence[str]) -> Iterator[str]:
    """A text without macros; those with arguments stand for them, or for nothing."""
    if not macros:
        yield code
        return
    for pattern, kept in (
        (r"(?!\()", ""),
        (r"\(([^()]*)\)(?=\s*[\w*])", r"\1"),
        (r"\([^()]*\)", ""),
    ):
        made = code
        for macro in macros:
            made = re.sub(rf"\b{macro}\b\s*{pattern}", f"{kept} ", made)
        if made != code:
            yield made


def _mixes(nodes: Any, unknown: Sequence[str]) -> bool:
    """True if an unknown type stands beside another type, as a macro does."""
    if isinstance(nodes, c_ast.IdentifierType):
        return len(nodes.names) > 1 and not set(unknown).isdisjoint(nodes.names)
    return any(_mixes(node, unknown) for node in nodes)


def _points_to(node: Any, name: str, pointed: bool = False) -> bool:
    """True if there is a pointer to a type, or an array of it."""
    if isinstance(node, c_ast.IdentifierType):
        return pointed and name in node.names
    pointed = isinstance(node, (c_ast.PtrDecl, c_ast.ArrayDecl)) or (
        pointed and isinstance(node, c_ast.TypeDecl)
    )
    return any(_points_to(child, name, pointed) for child in node)
