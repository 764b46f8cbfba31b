"""C prototypes of plain functions: `mblob.packager.modules.prototype_parser` reads them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from mblob import argument_types
from mblob.argument_types import CHARS, COLUMNS, POINTER_SIZED, SIZES, TEXT, Value
from mblob.format.functions_table import OBJECT, called, struct_word, structs_of
from mblob.named_tuple import NamedTuple
from mblob.packager.conventions import without_attributes
from mblob.packager.errors import BuildError

STATIC = (
    "remove static in the source, or compile it with options='-Dstatic=' if it has no static"
    " variables"
)


class Scalar(NamedTuple):
    """An arithmetic type.

    Attributes:
        name: as C spells it ("int64_t", "unsigned int", "_Float16").
        kind: "int", "uint", "char" (signedness is the target's), "bool", "float" or "bfloat".
    """

    name: str
    kind: str

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint", "char")

    def size(self, pointer_size: int) -> int | None:
        """Bytes on an ELF target (ILP32 or LP64), None where each C library has its own opinion."""
        if self.name in SIZES:
            return SIZES[self.name]
        if self.name in POINTER_SIZED:
            return pointer_size
        if self.name.endswith("_t"):  # int_fast16_t
            return None
        words = self.name.split()
        if "char" in words:
            return 1
        if "short" in words:
            return 2
        return {0: 4, 1: pointer_size, 2: 8}[words.count("long")]


class Dim(NamedTuple):
    """One array dimension.

    Attributes:
        code: a C expression of type int64_t over `v_<parameter>` variables, None for "any".
        text: as the prototype has it.
        at_least: from `[static N]`: that many elements or more.
    """

    code: str | None
    text: str
    at_least: bool = False


def size_dim(code: str, text: str, at_least: bool = False) -> Dim:
    """A dimension that a call checks to be a size, unless it is a number."""
    return Dim(code if text.isdecimal() else f"mblob_size({code}, &bad)", text, at_least)


def number_dim(size: int) -> Dim:
    return Dim(f"INT64_C({size})", str(size))


class Parameter(NamedTuple):
    """One parameter.

    Attributes:
        name: from the prototype, "" if it gives none.
        kind: "scalar", "tensor", "string" (const char *) or "pointer" (void *); of C++ "texts" (addresses of
            them); of C++ and Fortran also "number" (by its address; of a constant one the packed function takes
            the value) and "text" (the address of characters that a str may stand for); and what is no argument of
            the packed function: "length" (of a text or an array), "left" (where the number of elements goes that a
            function of C++ left in one), "out" (where they go if it was None) and "present" (whether an optional
            number is given).
        scalar: the scalar, or the element; None for strings and pointers.
        const: the function does not write through it.
        dims: of an array parameter, outermost first; () for a plain pointer.
        length: of a text of Fortran, or of each text in an array, how many characters it has; without code,
            the caller decides, and its text is the name of the hidden parameter for it.
        spelled: the type of a pointer as the source has it, with a "?" where a name stands inside of it:
            `int (*?)(float)`; "" if it is `void *`.
        size: bytes of the struct that a pointer points at, 0 of what has none or another number of them.
        alignment: of that struct, if it needs more than its members' sizes say; else 0.
        columns: the array lies in column order, and `dims` are as Fortran has them.
        descriptor: of an array that Fortran takes by its descriptor, the type there (`debug_prototypes.BASES`); else
            0. Without `columns`, it may have any strides.
        of: of a length or "left", the index of its text or array among the parameters; of "present", that of the
            number.
        optional: None leaves it out, as OPTIONAL of Fortran.
        is_object: the pointer points at an object of C++, of which only the library itself makes some.
        layout: the fields of the structs that a pointer points at; "" if they are not known.
        value: the C function takes what the address is of, as this type of C; `spelled` is without a `*`
            then.
    """

    name: str
    kind: str
    scalar: Scalar | None = None
    const: bool = False
    dims: tuple[Dim, ...] = ()
    spelled: str = ""
    size: int = 0
    alignment: int = 0
    columns: bool = False
    of: int = -1
    optional: bool = False
    is_object: bool = False
    length: Dim | None = None
    layout: str = ""
    value: Value | None = None
    descriptor: int = 0

    @property
    def of_fortran(self) -> bool:
        """True if the parameter's check is one of `checks_fortran.h`."""
        return self.has_strides or self.optional or self.length is not None

    @property
    def has_strides(self) -> bool:
        """True if the strides of an array say more than its shape."""
        return self.columns or self.descriptor > 0

    @property
    def is_hidden(self) -> bool:
        """True if the packed function passes it by what it knows of another argument."""
        return self.kind in ("length", "left", "out", "present")

    @property
    def points_at_functions(self) -> bool:
        """True if the parameter is a pointer to pointers to functions: `int (**?)(float)`."""
        return (
            re.search(r"\*\s*(?:(?:const|restrict|volatile)\s*)*\*\s*\?", self.spelled) is not None
        )

    @property
    def is_function(self) -> bool:
        """True if the parameter is a pointer to a function."""
        return "(" in self.spelled and not self.points_at_functions

    @property
    def is_indirect(self) -> bool:
        """True if the parameter is a pointer to pointers."""
        return self.spelled.count("*") > 1 and not self.is_function

    @property
    def points_at_texts(self) -> bool:
        """True if the parameter is a pointer to pointers to `char`."""
        words = set(self.spelled.partition("*")[0].split()) - {"const", "volatile"}
        return self.is_indirect and words == {"char"}

    @property
    def c_type(self) -> str:
        """The C type with arrays as pointers, which is what the call passes."""
        if self.kind in ("out", "texts"):
            return "mblob_made *" if self.kind == "out" else self.spelled
        base = (
            "void"
            if self.kind == "pointer"
            else "char"
            if self.kind == "string"
            else self.element.name
        )
        if self.kind == "scalar" or self.is_hidden:
            return base + " *" * (self.kind == "left")
        return f"{'const ' if self.const else ''}{base} *"

    @property
    def text(self) -> str:
        """The parameter as a prototype has it: `const float a[n]`."""
        if self.descriptor:
            return f"void *{self.name}"
        if self.value is not None:
            return f"{self.spelled} {self.name}".rstrip()
        if "?" in self.spelled and not (self.dims and self.points_at_functions):
            return self.spelled.replace("?", self.name)
        if self.length is not None:
            return self._as_characters(self.length)
        if not self.dims:
            shown = self.spelled or self.c_type
            return f"{shown}{'' if shown.endswith('*') or not self.name else ' '}{self.name}"
        dims = reversed(self.dims) if self.columns else self.dims
        shown = "".join(f"[{'static ' if d.at_least else ''}{d.text}]" for d in dims)
        if "?" in self.spelled:  # int (*f[2])(float)
            return self.spelled.replace("*?", self.name + shown)
        base = (self.spelled or self.c_type).removesuffix("*")
        return f"{base}{'' if base.endswith(('*', ' ')) else ' '}{self.name}{shown}"

    def _as_characters(self, length: Dim) -> str:
        """The parameter as an array of at least as many characters as its texts have."""
        sizes = [d.text for d in (length, *reversed(self.dims))]
        if "" in sizes:
            return f"{self.c_type}{self.name}"
        sizes = sizes[1:] if self.dims and sizes[0] == "1" else sizes
        size = " * ".join(f"({s})" if " " in s and len(sizes) > 1 else s for s in sizes)
        return f"{self.c_type.removesuffix('*')}{self.name}[static {size}]"

    @property
    def plain_type(self) -> str:
        """The type as the function table has it."""
        if self.descriptor:
            return "void *"
        if self.value is not None:
            return self.spelled + struct_word(self.size, self.alignment)
        word = OBJECT if self.is_object else struct_word(self.size, self.alignment)
        return (self.spelled.replace("?", "") or self.c_type) + word

    @property
    def packed_type(self) -> str:
        """The type that the packed function takes, as the function table has it."""
        if self.value is not None:
            return f"const {self.spelled} *{struct_word(self.size, 1)}"
        if self.has_strides:
            return self.c_type + COLUMNS
        if self.length is not None and not (self.dims and self.length.text == "1"):
            # a str may stand for one that nothing says about whether it is written
            return self.c_type + TEXT * (self.const or self.kind != "text")
        if self.kind == "tensor" and self.element.kind == "char":
            return self.c_type + CHARS
        if self.kind == "number" and self.const:
            return self.element.name
        return self.plain_type

    @property
    def packed_text(self) -> str:
        """The parameter as the packed function takes it."""
        if self.value is not None:
            return self.text
        if self.has_strides:
            dims = ", ".join(d.text or "*" for d in self.dims)
            return f"{self.c_type.removesuffix('*')}{self.name}[{dims}]"
        if self.length is not None:
            base = self.c_type.removesuffix("*") + self.name
            if self.kind == "text" and self.const and self.length.code:
                return f"{base}[{self.length.text} or fewer]"
            if self.dims and self.length.code is None:
                return base + "".join(f"[{d.text or '*'}]" for d in self.dims) + "[*]"
            return self._as_characters(self.length if self.length.code else Dim(None, ""))
        if self.kind == "number" and self.const:
            return f"{self.element.name} {self.name}".rstrip()
        return self.text

    @property
    def element(self) -> Scalar:
        assert self.scalar is not None, "strings and pointers have no element"
        return self.scalar


class Words(NamedTuple):
    """Words of a source that prototypes may have beside those of C.

    Attributes:
        types: what stands for a type of its own (`real`, `struct image`, `enum mode`): a number, `void`
            for a struct, or `void *` for a pointer.
        numbers: values of enumerators.
        values: types that are passed by value though they are no numbers, as parameters.
    """

    types: Mapping[str, str] = {}
    numbers: Mapping[str, int] = {}
    values: Mapping[str, Parameter] = {}


def as_const(spelled: str) -> str:
    """The type of a pointer as C spells it, with a `const` for what it points at."""
    return spelled if not spelled or spelled.startswith("const ") else f"const {spelled}"


class Shim(NamedTuple):
    """A function of C++ that takes arrays and texts, makes objects of the standard library of them, and calls another
    one.

    Attributes:
        symbol: of it.
        headers: what its text includes.
        text: of C++.
        types, prototype: of the other one, as the function table has them.
        fmt, options: of the source of that one, as of `SourceNode`.
        label: of that source, for messages.
        notes: for people: parameters with their types in C++.
    """

    symbol: str
    headers: tuple[str, ...]
    text: str
    types: str
    prototype: str
    fmt: str
    options: tuple[str, ...]
    label: str
    notes: tuple[str, ...] = ()


class Prototype(NamedTuple):
    """One function.

    Attributes:
        name: its name; of C its symbol. Of an overload it has the types of the parameters, `ns::f(int)`, and of an
            instance of a template the arguments of that.
        result: "void", "scalar", "string" (a `const char *`), "pointer", "value" (bytes of a type that no number
            is), "made" (bytes of an object of C++, which a shim gives), or "chosen" (that of one of `overloads`).
        scalar: the type of a scalar result.
        result_type: the C type of the result.
        parameters: in order.
        returned: of a result "value" what it is: as a parameter.
        mangled: its symbol, if that is not its name: of C++ and Fortran, whose names have namespaces and
            modules.
        origin, comment: as in the table of functions.
        shim: what is called in its place.
        overloads: those that a call chooses among by its arguments.
    """

    name: str
    result: str
    scalar: Scalar | None
    result_type: str
    parameters: tuple[Parameter, ...]
    mangled: str = ""
    origin: str = "given"
    comment: str = ""
    returned: Parameter | None = None
    shim: Shim | None = None
    overloads: tuple[Prototype, ...] = ()

    @property
    def symbol(self) -> str:
        return self.mangled or self.name

    @property
    def called(self) -> str:
        """The name without types, and without the arguments of a template."""
        return called(self.name)

    @property
    def arguments(self) -> tuple[Parameter, ...]:
        """The parameters that are arguments of the packed function."""
        return tuple(p for p in self.parameters if not p.is_hidden)

    @property
    def of_fortran(self) -> bool:
        """True if the check of a parameter is one of `checks_fortran.h`."""
        return any(p.of_fortran for p in self.parameters)

    @property
    def values(self) -> tuple[Value, ...]:
        """The types of C that are passed and returned by value, and are no numbers."""
        found = (*self.parameters, *([self.returned] if self.returned else ()))
        return tuple(p.value for p in found if p.value is not None)

    @property
    def layouts(self) -> tuple[tuple[str, str], ...]:
        """The names and layouts of the structs that it takes and returns."""
        found = (*self.parameters, *([self.returned] if self.returned else ()))
        return structs_of((p.text, p.layout) for p in found)

    @property
    def has_own_checks(self) -> bool:
        """True if the check of a parameter is none of `checks.h`."""
        return self.of_fortran or bool(self.values or self.overloads) or self.shim is not None

    @property
    def points_at_structs(self) -> bool:
        """True if a parameter points at something that is no number, text or function."""
        return any(p.spelled and not (p.is_function or p.is_indirect) for p in self.parameters)

    @property
    def has_char(self) -> bool:
        """True if a plain char, whose sign the source decides, is passed or returned."""
        passed = (self.scalar, *(p.scalar for p in self.parameters if p.kind == "scalar"))
        return any(scalar is not None and scalar.kind == "char" for scalar in passed)

    @property
    def types(self) -> str:
        """The parameter types as the function table lists them."""
        return ", ".join(p.plain_type for p in self.parameters) or "void"

    @property
    def packed_types(self) -> str:
        """The same of the packed function."""
        return "?" if self.overloads else ", ".join(p.packed_type for p in self.arguments) or "void"

    @property
    def text(self) -> str:
        """The function as C declares it, as the function table has it."""
        return self._declaration([p.text for p in self.parameters])

    @property
    def packed_text(self) -> str:
        """The same of the packed function. `a[m, n]` is an array in column order."""
        return self._declaration([p.packed_text for p in self.arguments])

    def _declaration(self, parameters: list[str]) -> str:
        space = "" if self.result_type.endswith("*") else " "
        shown = "..." if self.overloads else ", ".join(parameters) or "void"
        return f"{self.result_type}{space}{self.called}({shown})"


# Texts as callers write them, before they are parsed.
# ISO C, 5.1.1.2: comments become a space before anything is parsed. Prototypes have no strings that
# look like one.
_COMMENT = r"(?s)/\*.*?\*/|//[^\n]*"
_IN_C = r'(?s)\bextern\s*"C"\s*(?:\{(.*)\}\s*$)?'
# What compilers have for a keyword, and what says nothing about a call.
_SPELLINGS = (
    (r"__restrict(__)?", "restrict"),
    (r"__(inline|const|volatile|signed)(__)?", r"\1"),
    (r"__extension__", " "),
)


def distinct(prototypes: Iterable[Prototype]) -> tuple[Prototype, ...]:
    """Prototypes, each once.

    Raises:
        BuildError: two of a function that differ.
    """
    found: dict[str, Prototype] = {}
    for prototype in prototypes:
        first = found.setdefault(prototype.name, prototype)
        if first != prototype:
            raise declared_twice(
                prototype.name, (first.text, prototype.text), other_name(prototype)
            )
    return tuple(found.values())


def declared_twice(name: str, declarations: tuple[str, str], other: str = "") -> BuildError:
    """The error for two prototypes of a name.

    Args:
        other: a function that calls the second one, if it can be told.
    """
    remedy = (
        f"add {other} to the source, and give its prototype"
        if other
        else ("call the other one by a function of another name")
    )
    shown = ", and ".join(" ".join(text.split()) for text in declarations)
    return BuildError(
        f"functions: {name} is declared twice, and differently: {shown}; leave one out. Of overloads of C++, one is"
        f" called by the name: {remedy}"
    )


def other_name(p: Prototype) -> str:
    """A function of another name that calls a function, in C++."""
    *namespaces, name = p.name.split("::")
    named = [a._replace(name=a.name or f"x{i}") for i, a in enumerate(p.parameters)]
    passed = ", ".join(a.name for a in named)
    returns = "" if p.result == "void" else "return "
    declared = p._replace(name=f"{name}_2", parameters=tuple(named)).text
    text = f"{declared} {{ {returns}{name}({passed}); }}"
    for scope in reversed(namespaces):
        text = f"namespace {scope} {{ {text} }}"
    return text


def standard(text: str) -> str:
    """A text in the words of standard C, on one line, without attributes.

    Raises:
        BuildError: an attribute that a call depends on.
    """
    code = without_attributes(re.sub(_COMMENT, " ", text))
    code = re.sub(_IN_C, lambda found: found[1] or "", code)
    for spelling, word in _SPELLINGS:
        code = re.sub(rf"\b{spelling}(?!\w)", word, code)
    return " ".join(code.split()).rstrip("; ")


# What may be a macro or a type in a text that cannot be parsed, and what to write instead.
_KEYWORDS = frozenset(
    ("auto", "char", "const", "double", "enum", "extern", "float", "inline", "int", "long", "register", "restrict",
     "return", "short", "signed", "sizeof", "static", "struct", "union", "unsigned", "void", "volatile", "_Alignas",
     "_Atomic", "_Bool", "_Complex", "_Noreturn", "__int128")
)  # fmt: skip
_KNOWN = (*argument_types.TYPEDEFS, *_KEYWORDS)
_QUALIFIERS = ("const", "volatile", "extern", "static", "inline")
_MACRO = r"\b(?:[A-Z]{2}[A-Z0-9]*|(?!\w*_t\b)\w*_\w*)\b"  # as most are called


def likely_macros(code: str) -> list[str]:
    """Words of a text that look as macros do, each once."""
    return [w for w in dict.fromkeys(re.findall(_MACRO, code)) if not _is_known(w)]


def _is_known(word: str) -> bool:
    return word in _KEYWORDS or word in argument_types.TYPEDEFS


def of_type(name: str, pointed: bool) -> str:
    meant = next((known for known in _KNOWN if _letters(known) == _letters(name)), None)
    if meant is not None:
        return f"unknown type {name!r}; did you mean {meant!r}?"
    instead = "void * if it is a struct" if pointed else "int for an enum, void * for a pointer"
    return f"unknown type {name!r}; write {instead}, or the type of the number that it stands for"


def _letters(word: str) -> list[str]:
    return sorted(word.lower().removesuffix("_t"))


def type_names(code: str) -> list[str]:
    """Unknown identifiers where only a type can stand: in front of a name or a `*`, and in bounds of arrays
    as a cast that is nothing else, `(size)n`; `(n) + 1` may be a sum."""
    tokens = ["(", *re.findall(r"[A-Za-z_]\w*|\S", code), "", ""]
    found: list[str] = []
    bounds = 0
    for before, token, behind, then in zip(tokens, tokens[1:], tokens[2:], tokens[3:]):
        bounds += (token == "[") - (token == "]")
        if not re.match("[A-Za-z_]", token) or _is_known(token) or token in found:
            continue
        starts = before in ("(", ",", ";")
        if bounds:
            is_cast = (behind == ")" and re.match(r"[\w~]", then)) or (behind, then) == ("*", ")")
            is_type = before == "(" and is_cast
        else:
            named = behind == "*" or re.match("[A-Za-z_]", behind)
            alone = behind == "," or (behind == ")" and then not in ("[", "("))  # float (x)[3]
            is_type = ((starts or before in _QUALIFIERS) and named) or (starts and alone)
        if is_type:
            found.append(token)
    return found
