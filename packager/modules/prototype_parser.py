"""C prototypes of plain functions, parsed by pycparser, as far as a packed function can be made of
them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import combinations
from typing import Any

from pycparser import CParser, c_ast

from mblob import argument_types
from mblob.packager.conventions import without_attributes
from mblob.packager.errors import BuildError, BuildTypeError
from mblob.packager.modules.prototypes import STATIC, Dim, Parameter, Prototype, Scalar

try:
    from pycparser.c_parser import ParseError
except ImportError:  # older releases
    from pycparser.plyparser import ParseError


def parse(declarations: Sequence[str] | str) -> tuple[Prototype, ...]:
    """Parse prototypes, one or more per string.

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
    found: dict[str, Prototype] = {}
    for text in declarations:
        for declaration in _declarations(text):
            prototype = _prototype(declaration, text)
            if found.setdefault(prototype.name, prototype) != prototype:
                raise BuildError(f"functions: {prototype.name} is declared twice, and differently")
    return tuple(found.values())


def _declarations(text: str) -> list[c_ast.Node]:
    if not isinstance(text, str):
        raise BuildTypeError(f"functions: expected prototypes as text, found {type(text).__name__}")
    code = _standard(text)
    if not code:
        raise BuildError("functions: an empty prototype")

    try:
        return _tree(code)
    except ParseError as exc:
        where = re.sub(r"^[^:]*:(\d+:)?", "", str(exc)).strip()
    with suppress(ParseError):  # the name that <complex.h> has for a keyword
        return _tree(re.sub(r"\bcomplex\b", "_Complex", code))
    if ";" in code and "{" not in code:  # the error is about one of them
        parts = filter(str.strip, code.split(";"))
        return [node for part in parts for node in _declarations(part)]
    raise BuildError(f"functions: {_reason(code, where)}")


def _tree(code: str, types: Sequence[str] = ()) -> list[c_ast.Node]:
    """The declarations of a text.

    Args:
        types: names in it that are types.
    """
    named = set(re.findall(r"\w+", code))
    known = (*(name for name in argument_types.TYPEDEFS if name in named), *types)
    prelude = "".join(f"typedef int {name}; " for name in known)
    return list(CParser().parse(f"{prelude}\n{code};").ext[len(known) :])


def _prototype(node: Any, text: str) -> Prototype:
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
    integers = {
        p.name: scalar.kind for p in params
        if isinstance(p, c_ast.Decl) and p.name and (scalar := _integer(p.type))
    }  # fmt: skip
    parameters = tuple(_parameter(p, i, name, integers) for i, p in enumerate(params))
    return Prototype(name, *_result(node.type.type, name), parameters)


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
        scalar = _scalar(node.type.names, "")
    except BuildError:
        return None
    return scalar if scalar.is_integer else None


def _scalar(names: list[str], where: str) -> Scalar:
    """The arithmetic type that a list of specifiers names."""
    if len(names) == 1 and names[0] in argument_types.KINDS:
        return Scalar(argument_types.ALIASES.get(*names, *names), argument_types.KINDS[names[0]])
    words = sorted(names)
    text = " ".join(names)
    if "_Complex" in words:
        raise BuildError(
            f"{where}: {text}: complex numbers are passed in arrays: write void * for a pointer to them"
        )
    if "__int128" in words:
        raise BuildError(f"{where}: {text} does not fit an argument; pass two int64_t")
    if "long" in words and "double" in words:
        raise BuildError(
            f"{where}: long double is not supported: no tensor has that type; use double"
        )
    if not set(words) <= {"char", "int", "long", "short", "signed", "unsigned"}:
        raise BuildError(
            f"{where}: type {text!r} is not known; expected a type of <stdint.h>, a float or a pointer"
        )
    if "char" in words and not {"signed", "unsigned"} & set(words):
        return Scalar("char", "char")
    return Scalar(text, "uint" if "unsigned" in words else "int")


def _parameter(node: Any, index: int, function: str, integers: Mapping[str, str]) -> Parameter:
    if isinstance(node, c_ast.EllipsisParam):
        raise BuildError(
            f"{function}: a variadic function has no packed function; give it a fixed list of parameters"
        )
    name = str(node.name or "")
    where = f"{function}: parameter {index}" + (f" ({name})" if name else "")
    if isinstance(node, c_ast.ID):
        raise BuildError(f"{where} has no type; write it in front of the name")
    kind, dims = _dims(node.type, where, integers)
    if kind is node.type:
        return Parameter(name, "scalar", _scalar(_specifiers(kind, where), where))
    if isinstance(kind, c_ast.FuncDecl):
        raise BuildError(_FUNCTION_POINTER.format(where))
    if isinstance(kind, c_ast.PtrDecl):
        raise BuildError(
            f"{where}: pointers to pointers are not supported; write void *, and pass an array of the addresses"
            " (dtype uintp)"
        )
    names = _specifiers(kind, where, "void *")
    const = "const" in kind.quals
    if names == ["void"]:
        return Parameter(name, "pointer", None, const)
    element = _scalar(names, where)
    if element.kind == "char" and const and not dims:
        return Parameter(name, "string", None, True)
    return Parameter(name, "tensor", element, const, tuple(dims))


def _dims(kind: Any, where: str, integers: Mapping[str, str]) -> tuple[Any, list[Dim]]:
    """What a pointer or an array points at, and its dimensions; another type as it is."""
    dims: list[Dim] = []
    while isinstance(kind, c_ast.ArrayDecl):
        dims.append(_dim(kind, where, integers, outermost=not dims))
        kind = kind.type
    if isinstance(kind, c_ast.PtrDecl) and not dims:
        kind = kind.type
        while isinstance(kind, c_ast.ArrayDecl):  # float (*x)[64]: any number of rows of 64
            dims = dims or [Dim(None, "")]
            dims.append(_dim(kind, where, integers, outermost=False))
            kind = kind.type
    return kind, dims


def function_with_own_types(text: str, source: Callable[[], str]) -> str:
    """The name of the function that a prototype declares with types which only its source knows, ""
    if it has no such types.

    Args:
        source: gives the text of the source.
    """
    try:
        code = _standard(text)
        types = _type_names(code)
        if not types or not set(types) <= set(re.findall(r"\w+", source())):
            return ""
        (node,) = _tree(code, types)
    except (BuildError, ParseError, ValueError):
        return ""
    is_function = isinstance(getattr(node, "type", None), c_ast.FuncDecl)
    return str(node.name) if is_function and not _mixes(node, types) else ""


def with_types(text: str, types: Mapping[str, str]) -> Prototype:
    """The prototype of a text, in which names stand for types.

    Raises:
        BuildError: as of `parse`.
    """
    for name, meant in types.items():
        text = re.sub(rf"\b{re.escape(name)}\b", meant, text)
    return parse(text)[0]


def with_bounds(prototype: Prototype, declaration: str) -> tuple[Prototype, str]:
    """A prototype with the bounds of arrays that the declaration of its function has in the source, and
    why some are missing, "" if none are."""
    try:
        code = _standard(declaration)
        (node,) = _tree(code, _type_names(code))
        found = node.type.args.params
    except (AttributeError, BuildError, ParseError, ValueError):
        return (
            prototype,
            f"{prototype.name}: its declaration in the source is not C that mblob reads",
        )
    integers = {
        p.name: p.scalar.kind
        for p in prototype.parameters
        if p.kind == "scalar" and p.scalar is not None and p.scalar.is_integer
    }
    made = list(prototype.parameters)
    why = ""
    for i, (p, declared) in enumerate(zip(prototype.parameters, found)):
        if p.kind not in ("tensor", "string"):
            continue
        try:
            where = f"{prototype.name}: parameter {i} ({p.name})"
            _, dims = _dims(getattr(declared, "type", None), where, integers)
        except BuildError as exc:
            why = why or str(exc)
            continue
        if dims:
            made[i] = p._replace(
                kind="tensor", scalar=p.scalar or Scalar("char", "char"), dims=tuple(dims)
            )
    return prototype._replace(parameters=tuple(made)), why


_FUNCTION_POINTER = (
    "{}: function pointers are not supported; write void *, and pass the address (ctypes.CFUNCTYPE)"
)


def _specifiers(kind: Any, where: str, pointer: str = "") -> list[str]:
    """Type specifiers of what is left when pointers and arrays are taken off.

    Args:
        pointer: what to write for a pointer to a struct; "" if the type stands alone.
    """
    if isinstance(kind, c_ast.TypeDecl) and isinstance(kind.type, c_ast.IdentifierType):
        return list(kind.type.names)
    inner = kind.type if isinstance(kind, c_ast.TypeDecl) else kind
    what = {c_ast.Struct: "struct", c_ast.Union: "union", c_ast.Enum: "enum"}.get(type(inner))
    if what:
        found = f"{where}: {what} {inner.name or ''}"
        if what == "enum":
            raise BuildError(f"{found} is no type of numbers; write int for it")
        if pointer:
            raise BuildError(f"{found} is not supported; write {pointer} for the pointer to it")
        raise BuildError(
            f"{found} is not supported by value; give a function that takes a pointer to it, and write void *"
        )
    if isinstance(inner, c_ast.FuncDecl):
        raise BuildError(_FUNCTION_POINTER.format(where))
    raise BuildError(
        f"{where}: this type is not supported; expected a number, a pointer to numbers, or void *"
    )


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
        raise BuildError(
            f"{where}: expected void, a number or a pointer to numbers; write void * for other pointers"
        )
    scalar = _scalar(_specifiers(node, where), where)
    return "scalar", scalar, scalar.name


# -- dimensions ------------------------------------------------------------------------------------

_OPERATORS = {"+": "mblob_add", "-": "mblob_sub", "*": "mblob_mul"}


def _dim(node: Any, where: str, integers: Mapping[str, str], outermost: bool) -> Dim:
    quals = node.dim_quals or []
    if node.dim is None or (isinstance(node.dim, c_ast.ID) and node.dim.name == "*"):
        if not outermost and node.dim is None:
            raise BuildError(f"{where}: only the first dimension may be empty")
        return Dim(None, "")
    code, text = _expression(node.dim, where, integers)
    return Dim(f"mblob_size({code}, &bad)", text, "static" in quals)


def _expression(node: Any, where: str, integers: Mapping[str, str]) -> tuple[str, str]:
    """C code (checked arithmetic on int64_t) and text of a dimension.

    Args:
        integers: kinds of the integer parameters, by name.
    """
    if isinstance(node, c_ast.Constant) and "int" in node.type:
        text = node.value.rstrip("uUlL")
        value = int(text, 8) if re.fullmatch("0[0-7]+", text) else int(text, 0)
        if value > 2**63 - 1:
            raise BuildError(f"{where}: dimension {node.value} is too large")
        return f"INT64_C({value})", str(value)
    if isinstance(node, c_ast.ID):
        if node.name not in integers:
            raise BuildError(
                f"{where}: dimension {node.name!r} is no integer parameter of the function; write the number of a"
                f" macro, or a parameter{' (' + ', '.join(sorted(integers)) + ')' if integers else ''}"
            )
        code = f"v_{node.name}"
        # 64 bits without a sign lie in an int64_t: 2^63 and more is negative there
        return f"mblob_size({code}, &bad)" if integers[node.name] == "uint" else code, node.name
    if isinstance(node, c_ast.BinaryOp) and node.op in _OPERATORS:
        left, right = (_expression(side, where, integers) for side in (node.left, node.right))
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
    raise BuildError(
        f"{where}: a dimension is made of numbers, integer parameters, + - and *; write the number instead"
    )


# -- texts -----------------------------------------------------------------------------------------
# What compilers accept beside standard C, and what to write instead of what has no packed function.

# ISO C, 5.1.1.2: comments become a space before anything is parsed. Prototypes have no strings that
# look like one.
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_IN_C = re.compile(r'\bextern\s*"C"\s*(?:\{(.*)\}\s*$)?', re.DOTALL)
# What compilers have for a keyword, and what says nothing about a call.
_SPELLINGS = (
    (r"__restrict(__)?", "restrict"),
    (r"__(inline|const|volatile|signed)(__)?", r"\1"),
    (r"__extension__", " "),
)
_KEYWORDS = frozenset(
    ("auto", "char", "const", "double", "enum", "extern", "float", "inline", "int", "long", "register", "restrict",
     "return", "short", "signed", "sizeof", "static", "struct", "union", "unsigned", "void", "volatile", "_Alignas",
     "_Atomic", "_Bool", "_Complex", "_Noreturn", "__int128")
)  # fmt: skip
_KNOWN = (*argument_types.TYPEDEFS, *_KEYWORDS)
_QUALIFIERS = ("const", "volatile", "extern", "static", "inline")
_OTHERS = (
    (r"#", "leave directives of the preprocessor out, and write what they stand for"),
    (r"\b(asm|__asm__)\b", "call the function by the name in asm(), which is its symbol, and leave asm() out"),
    (r"::|<|&|->|=|\b(template|noexcept|operator)\b",
     "write the function as C declares it: a pointer for a reference, and no namespaces, templates, default"
     " arguments or noexcept"),
)  # fmt: skip
_MACRO = r"\b(?:[A-Z]{2}[A-Z0-9]*|(?!\w*_t\b)\w*_\w*)\b"  # as most are called
_MACROS = 3  # in one text
_WORDS = 8  # of which some may be macros
_EXAMPLE = "'void vadd(const float *a, const float *b, float *c, int64_t n)'"


def _standard(text: str) -> str:
    """A text in the words of standard C, on one line, without attributes.

    Raises:
        BuildError: an attribute that a call depends on.
    """
    code = without_attributes(_COMMENT.sub(" ", text))
    code = _IN_C.sub(lambda found: found[1] or "", code)
    for spelling, word in _SPELLINGS:
        code = re.sub(rf"\b{spelling}(?!\w)", word, code)
    return " ".join(code.split()).rstrip("; ")


def _reason(code: str, where: str) -> str:
    """What is wrong with a text that is no prototype, and what to write.

    Args:
        where: what the parser said.
    """
    for pattern, remedy in _OTHERS:
        if re.search(pattern, code):
            return f"{code!r} is no C prototype (column {where}); {remedy}"
    words = [w for w in dict.fromkeys(re.findall(_MACRO, code)) if not _is_known(w)]
    # The fewest words that are macros, if what is left is C once its unknown types are types.
    for count in range(_MACROS + 1):
        for macros in combinations(words[:_WORDS], count):
            for left in _without(code, macros):
                types = _type_names(left)
                try:
                    nodes = _tree(left, types)
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
                    said.append(_of_type(types[0], behind))
                return f"{code!r}: {'; '.join(said)}"
    return f"{code!r} is no C prototype (column {where}); expected one like {_EXAMPLE}"


def _is_known(word: str) -> bool:
    return word in _KEYWORDS or word in argument_types.TYPEDEFS


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
    """Whether an unknown type stands beside another type, as a macro does."""
    if isinstance(nodes, c_ast.IdentifierType):
        return len(nodes.names) > 1 and not set(unknown).isdisjoint(nodes.names)
    return any(_mixes(node, unknown) for node in nodes)


def _points_to(node: Any, name: str, pointed: bool = False) -> bool:
    """Whether there is a pointer to a type, or an array of it."""
    if isinstance(node, c_ast.IdentifierType):
        return pointed and name in node.names
    pointed = isinstance(node, (c_ast.PtrDecl, c_ast.ArrayDecl)) or (
        pointed and isinstance(node, c_ast.TypeDecl)
    )
    return any(_points_to(child, name, pointed) for child in node)


def _of_type(name: str, pointed: bool) -> str:
    meant = next((known for known in _KNOWN if _letters(known) == _letters(name)), None)
    if meant is not None:
        return f"unknown type {name!r}; did you mean {meant!r}?"
    instead = "void * if it is a struct" if pointed else "int for an enum, void * for a pointer"
    return f"unknown type {name!r}; write {instead}, or the type of the number that it stands for"


def _letters(word: str) -> list[str]:
    return sorted(word.lower().removesuffix("_t"))


def _type_names(code: str) -> list[str]:
    """Unknown identifiers where only a type can stand, in front of a name or a `*`."""
    tokens = ["(", *re.findall(r"[A-Za-z_]\w*|\S", code), ""]
    found: list[str] = []
    for before, token, behind in zip(tokens, tokens[1:], tokens[2:]):
        if not re.match("[A-Za-z_]", token) or _is_known(token) or token in found:
            continue
        starts = before in ("(", ",", ";")
        named = behind == "*" or re.match("[A-Za-z_]", behind)
        if ((starts or before in _QUALIFIERS) and named) or (starts and behind in (",", ")")):
            found.append(token)
    return found
