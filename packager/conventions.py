"""Calling conventions that are not C's of the machine: packed functions, and what calls them, know C's alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mblob.packager.errors import BuildError

# By machine: attributes of functions that compilers heed there, and that debug information of gcc leaves out.
ATTRIBUTES = {
    "x86_64": ("ms_abi",),
    "i386": ("stdcall", "fastcall", "thiscall", "regparm", "sseregparm"),
    "arm": ("pcs",),
}
_ALL = frozenset(
    (*(a for of_machine in ATTRIBUTES.values() for a in of_machine), "vectorcall", "regcall", "preserve_most",
     "preserve_all", "preserve_none", "swiftcall", "swiftasynccall", "intel_ocl_bicc", "aarch64_vector_pcs",
     "aarch64_sve_pcs", "riscv_vector_cc")
)  # fmt: skip
_WORD = re.compile(rf"\b_*({'|'.join(sorted(_ALL))})_*\b")
# Other attributes that a call depends on: they change the type that they stand at.
_OF_TYPES = re.compile(r"\b_*(mode|vector_size|ext_vector_type|address_space)_*\b")
# Options of compilers that choose one for all functions, also for packed ones.
_OPTIONS = ("-mabi=ms", "-mrtd", "-mregparm=", "-msseregparm", "-fcall-used-", "-fcall-saved-")
REFUSED = (
    "has a calling convention of its own{}, expected that of C; remove it there, or give a function without it that"
    " calls this one"
)


def check_options(options: Sequence[str], where: str) -> None:
    """Refuse options that choose a calling convention.

    Args:
        where: what the error calls them.

    Raises:
        BuildError: naming the option.
    """
    for option in options:
        if option.startswith(_OPTIONS):
            raise BuildError(
                f"{where}: {option} changes how functions are called, and mblob calls them as C does; leave it out"
            )


def may_tell(text: str, options: Sequence[str]) -> bool:
    """Whether a source may have such an attribute once it is preprocessed; headers of the system have
    none."""
    return bool(
        re.search(r"^\s*#\s*include\s*[^<\s]", text, re.MULTILINE)
        or _WORD.search(text)
        or "-include" in options
        or any(map(_WORD.search, options))
    )


_GROUP = re.compile(
    r"\b__(?:attribute(?:__)?|declspec)\s*\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\)|\[\[.*?\]\]"
)


def without_attributes(prototype: str) -> str:
    """The text of a prototype without attributes.

    Raises:
        BuildError: a call depends on one.
    """
    for group in _GROUP.findall(prototype):
        if found := _WORD.search(group) or _OF_TYPES.search(group):
            of_type = found.re is _OF_TYPES
            why = (
                "write the type itself"
                if of_type
                else "give a function without it that calls this one"
            )
            raise BuildError(
                f"functions: {prototype.strip()!r}: the attribute {found[1]} changes how the function is called; {why}"
            )
    return _GROUP.sub(" ", prototype)


# -- attributes in C ------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"""^[ \t]*\#[^\n]*          # a line marker, or a directive
    | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'
    | [A-Za-z_$][\w$]* | \[\[ | \]\] | [^\s\w]""",
    re.VERBOSE | re.MULTILINE,
)
_ATTRIBUTE = ("__attribute__", "__attribute", "__declspec")
_WITH_GROUP = (
    "asm",
    "__asm__",
    "__asm",
    "alignas",
    "_Alignas",
    "typeof",
    "__typeof__",
    "__typeof",
    "decltype",
)
_CLOSING = {"(": ")", "{": "}", "[": "]", "[[": "]]"}


def attributes(code: str) -> dict[str, str]:
    """By the names of functions that a text in C or C++ declares, the attribute that says how each is
    called."""
    if not _WORD.search(code):
        return {}
    found: dict[str, str] = {}
    for declaration in _declarations(_TOKEN.findall(code)):
        name, attribute = _told(declaration)
        if name and attribute:
            found[name] = attribute
    return found


def _declarations(tokens: Sequence[str]) -> Iterator[list[str]]:
    """The declarations outside of functions and types, without what braces hold."""
    made: list[str] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        if token == "{":
            if (made[:1] == ["extern"] and len(made) == 2) or "namespace" in made[:2]:
                made = []  # what is in it is declared as outside
            else:
                at = _end(tokens, at)
                if ")" in made:
                    yield made
                    made = []
        elif token in (";", "}"):
            yield made
            made = []
        elif not token.lstrip().startswith("#"):
            made.append(token)
        at += 1
    yield made


def _end(tokens: Sequence[str], at: int) -> int:
    """Where the bracket at a place is closed; the last token if it is not."""
    opened, closed = tokens[at], _CLOSING[tokens[at]]
    depth = 0
    for i in range(at, len(tokens)):
        depth += (tokens[i] == opened) - (tokens[i] == closed)
        if depth == 0:
            return i
    return len(tokens) - 1


def _told(tokens: Sequence[str]) -> tuple[str, str]:
    """The function that a declaration declares, and its attribute; "" without."""
    name = attribute = before = ""
    at = 0
    while at < len(tokens):
        token = tokens[at]
        grouped = tokens[at + 1 : at + 2] == ["("]
        if (token in _ATTRIBUTE and grouped) or token == "[[":
            end = _end(tokens, at + (token != "[["))
            words = [m[1] for t in tokens[at:end] if (m := _WORD.fullmatch(t))]
            attribute = attribute or next(iter(words), "")
            at = end
        elif token in _WITH_GROUP and grouped:
            at = _end(tokens, at + 1)
        elif token == "(":
            end = _end(tokens, at)
            if tokens[end + 1 : end + 2] == ["("]:  # void (f)(int), void (*variable)(int)
                inner = tokens[at + 1 : end]
                if "*" in inner:
                    return "", ""
                before, own = _told([*inner, "(", ")"])
                attribute = attribute or own
            name = name or before
            at = end
        else:
            before = token
        at += 1
    return ("" if tokens[:1] == ["typedef"] else name), attribute
