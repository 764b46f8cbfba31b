"""Types in DWARF (versions 2 - 5), as C spells them, and the entries that pyelftools reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from mblob.argument_types import TABLE, Value
from mblob.named_tuple import NamedTuple

DEPTH = 8  # pointers, qualifiers and names in a row; what is deeper is of no kind that we compare

# A type of functions lists at most so many parameters, and none that lies deeper or in another one:
# a damaged file could refer to one type from many.
_FUNCTION_DEPTH = 4
_LISTED = 16

# DWARF 5, table 7.11: encodings of base types.
ENCODINGS = {
    0x02: "bool",
    0x03: "complex",
    0x04: "float",
    0x05: "int",
    0x06: "int",
    0x07: "uint",
    0x08: "uint",
    0x10: "uint",  # char16_t and others of C++
}
RECORDS = {
    "DW_TAG_structure_type": "struct",
    "DW_TAG_class_type": "struct",
    "DW_TAG_union_type": "union",
}
# Classes of C++ that have the layout of C's complex types ([complex.numbers.general]), with their sizes.
COMPLEX = {
    f"complex<{row.c.partition(' ')[0]}>": row.bits // 8 for row in TABLE if row.kind == "complex"
}
_QUALIFIERS = ("DW_TAG_volatile_type", "DW_TAG_restrict_type", "DW_TAG_atomic_type")
POINTERS = ("DW_TAG_pointer_type", "DW_TAG_reference_type", "DW_TAG_rvalue_reference_type")
_NULL_TYPE = "DW_TAG_unspecified_type"  # of nullptr, which is passed as a pointer
_LARGEST_ALIGNMENT = 4096
_NUMBERS = ("DW_FORM_data", "DW_FORM_sdata", "DW_FORM_udata", "DW_FORM_implicit_const")


class CType(NamedTuple):
    """A type, without its names.

    Attributes:
        kind: "int", "uint", "char" (signedness is the target's), "bool", "float", "complex", "enum",
            "pointer", "void", "record" (struct, union, vector), "descriptor" (Fortran's, of
            what an address alone does not tell), "shape" (the same, of an array that its source says to be of
            assumed shape, or a result), "either" (Fortran's: the address of `target`, but with
            VALUE there `target`) or "other".
        size: bytes; 0 if it has none.
        text: C spelling with the names that the source uses. It has a "?" where a name would stand
            inside of it, as in `int (*?)(int)`, or if the type has no name of its own; "?" alone is a
            type that is not known.
        target: what a pointer points at; of an array, which only pointers point at, the element; of an
            enum its integer type, "void" if that is not told.
        dims: of an array, outermost first, of Fortran as its source has them, where a pointer to an
            array has them; None for one that is no constant. Of a text its length.
        base: name of a base type or of a record behind typedefs; of a plain char that of the type with its
            sign; of a pointer its spelling without them, and of a function that with the base types of its
            numbers.
        alignment: of a record of which the source says it, or that has vectors; else 0.
        enumerators: of an enum: names and values, the first of them.
        is_reference: a pointer of C++ that is never NULL.
        is_object: a class of C++ whose values its own functions copy or destroy, or that has virtual ones.
        layout: of a parameter that points at structs, their fields, as of `dwarf_layouts.layout_of`; of a
            parameter or result that is a struct its own.
        value: of a struct that is a parameter or result what it is passed as, as of `dwarf_values.value_of`.
        library: of a parameter or result that is a class of the standard library of C++, or a reference to one, which.
    """

    kind: str
    size: int
    text: str
    target: CType | None = None
    dims: tuple[int | None, ...] = ()
    base: str = ""
    alignment: int = 0
    enumerators: tuple[tuple[str, int], ...] = ()
    is_reference: bool = False
    is_object: bool = False
    layout: str = ""
    value: Value | None = None
    library: Library | None = None

    @property
    def spelling(self) -> str:
        """The type for people, without a name."""
        return self.text if self.text == "?" else self.text.replace("?", "").rstrip()

    def declaration(self, declarator: str) -> str:
        """C's spelling of a declaration: this type around, or in front of, what it declares."""
        text = self.text
        if "?" in text:
            return text if text == "?" else text.replace("?", declarator).rstrip()
        return f"{text}{'' if text.endswith('*') else ' '}{declarator}".rstrip()


class Library(NamedTuple):
    """A class of the standard library of C++ that a value of another language can be copied to.

    Attributes:
        name: of its template.
        element: the type of its elements.
        is_const: they are constant, as those of `std::span<const float>`.
        extent: their number, if the type tells it.
        size: bytes of the class itself, 0 if they are not told.
        is_moved: it is passed by a reference to a temporary object, `&&`.
    """

    name: str
    element: CType
    is_const: bool
    extent: int | None
    size: int
    is_moved: bool = False


def in_cxx(text: str) -> str:
    """A type, or types, with the words of numbers in the order that C++ has them in: gcc writes `long unsigned int`."""
    return re.sub(
        r"\b((?:long )+|short )(unsigned )?int\b", lambda m: f"{m[2] or ''}{m[1]}".rstrip(), text
    )


def children(die: Any) -> Iterator[Any]:
    """The entries below an entry, as they lie in the file.

    Raises:
        ValueError: a DW_AT_sibling leads back.
    """
    last = die.offset
    for child in die.iter_children():
        if child.offset <= last:
            raise ValueError("entries in a circle")
        last = child.offset
        yield child
        # Without DW_AT_sibling, pyelftools looks for the end of what is below, without a check.
        if (
            child.has_children
            and child._terminator is None
            and "DW_AT_sibling" not in child.attributes
        ):
            for _ in children(child):
                pass


def text_of(die: Any, attribute: str) -> bytes:
    found = die.attributes.get(attribute)
    return found.value if found is not None and isinstance(found.value, bytes) else b""


def name_of(die: Any) -> bytes:
    return text_of(die, "DW_AT_name")


def referred(die: Any) -> Any:
    """The type that an entry names, None for void."""
    return die.get_DIE_from_attribute("DW_AT_type") if "DW_AT_type" in die.attributes else None


def unnamed(die: Any) -> tuple[Any, str, bool]:
    """A type behind its qualifiers and names, the outermost name, which the source spells, and
    whether it is const."""
    named = ""
    const = False
    for _ in range(DEPTH):
        if die is None:
            break
        if die.tag == "DW_TAG_const_type":
            const = const or not named
        elif die.tag == "DW_TAG_typedef":
            named = named or name_of(die).decode(errors="replace")
        elif die.tag not in _QUALIFIERS:
            break
        die = referred(die)
    return die, named, const


def record_behind(pointer: Any) -> Any:
    """The struct or union that a pointer, or one to rows of them, points at; None for others."""
    die, _, _ = unnamed(pointer)
    target = unnamed(referred(die))[0] if die is not None and die.tag in POINTERS else None
    if target is not None and target.tag == "DW_TAG_array_type":
        target, _, _ = unnamed(referred(target))
    return target if target is not None and target.tag in RECORDS else None


def type_of(die: Any, pointer_size: int, depth: int = 0) -> CType:
    """A type, seen through its qualifiers and names."""
    die, named, const = unnamed(die)
    kind, size, own, target = _concrete(die, pointer_size, depth)
    is_null = kind == "pointer" and die.tag == _NULL_TYPE
    text = own if is_null else named or own
    if const and "?" not in text:
        text = f"{text} const" if kind == "pointer" and not named else f"const {text}"
    if die is not None and die.tag == "DW_TAG_string_type":  # of Fortran
        length = constant_of(die.attributes, "DW_AT_byte_size", 0, None)
        return CType("char", 1, "character", dims=() if length is None else (length,))
    base = own if kind == "pointer" else ""
    if die is not None and die.tag in ("DW_TAG_base_type", *RECORDS):
        base = name_of(die).decode(errors="replace")
    elif die is not None and die.tag == "DW_TAG_subroutine_type":
        base = _function(die, pointer_size, _with_base)
    if kind == "char":
        base = _CHARS.get(die.attributes["DW_AT_encoding"].value, base)
    dims = _dims(die) if kind == "other" else ()
    alignment, is_object = _facts(die) if kind == "record" else (0, False)
    enumerators = tuple(_enumerators(die)) if kind == "enum" else ()
    is_reference = die is not None and die.tag in POINTERS[1:]
    return CType(
        kind, size, text, target, dims, base, alignment, enumerators, is_reference, is_object
    )


_CHARS = {0x06: "signed char", 0x08: "unsigned char"}
# Machines whose ABI has no sign in a plain char.
_UNSIGNED_CHARS = ("aarch64", "arm", "riscv", "ppc", "ppc64", "s390x")


def with_sign(found: CType, machine: str = "") -> CType:
    """A plain char as the type with its sign, and a reference to one; other types as they are.

    Args:
        machine: for it, the sign of its ABI needs no other type.
    """
    if found.is_reference and found.target is not None and found.target.kind == "char":
        return found._replace(target=with_sign(found.target, machine))
    usual = "unsigned char" if machine in _UNSIGNED_CHARS else "signed char"
    if (
        found.kind != "char"
        or found.base not in _CHARS.values()
        or (machine and found.base == usual)
    ):
        return found
    const = "const " if found.text.startswith("const ") else ""
    kind = "uint" if found.base == "unsigned char" else "int"
    return found._replace(kind=kind, text=const + found.base)


def _enumerators(die: Any) -> Iterator[tuple[str, int]]:
    for child in islice(children(die), _LISTED):
        value = child.attributes.get("DW_AT_const_value")
        if child.tag == "DW_TAG_enumerator" and value is not None and isinstance(value.value, int):
            yield name_of(child).decode(errors="replace"), value.value


_MEMBERS = 1024  # of records that are looked at for the facts of one
_IN_CLASS = (
    1  # DW_DEFAULTED_in_class: a function that its own class declares and leaves to the compiler
)
_BY_REFERENCE = 4  # DW_CC_pass_by_reference, of a class
_BEHIND = (
    "DW_TAG_member",
    "DW_TAG_inheritance",
    "DW_TAG_const_type",
    "DW_TAG_typedef",
    *_QUALIFIERS,
)


def _facts(die: Any) -> tuple[int, bool]:
    """The alignment that the source says of a record or of what is in it, or that a vector has; and whether
    it is an object of C++."""
    found = 0
    is_object = _is_of_library(die)
    seen: set[int] = set()
    left = [die]
    while left and len(seen) < _MEMBERS:
        die = left.pop()
        if die is None or die.offset in seen:
            continue
        seen.add(die.offset)
        is_vector = "DW_AT_GNU_vector" in die.attributes
        size = constant_of(
            die.attributes, "DW_AT_byte_size" if is_vector else "DW_AT_alignment", 0, 0
        )
        found = max(found, size or 0)
        if die.tag in RECORDS:
            below = list(islice(children(die), _MEMBERS))
            left += (child for child in below if child.tag in _BEHIND)
            is_object = is_object or _is_object(die, below)
        elif die.tag in (*_BEHIND, "DW_TAG_array_type") and not is_vector:
            left.append(referred(die))
    is_alignment = found <= _LARGEST_ALIGNMENT and not found & (found - 1)
    return found if is_alignment else 0, is_object


# What the standard library promises to be the memory of its elements.
_OF_ELEMENTS = (b"array<", b"pair<", b"complex<")


def _is_of_library(record: Any) -> bool:
    """True if a class is of a template of the standard library, such as std::string_view, whose members are no
    business of a caller's. Compilers leave out what is in some."""
    name = name_of(record)
    if b"<" not in name:
        return False
    if "DW_AT_declaration" in record.attributes:
        return True
    scope = record.get_parent()
    while scope is not None and scope.tag == "DW_TAG_namespace" and name_of(scope) != b"std":
        scope = scope.get_parent()
    is_std = scope is not None and scope.tag == "DW_TAG_namespace"
    return is_std and not name.startswith(_OF_ELEMENTS)


def _is_object(record: Any, below: Iterable[Any]) -> bool:
    """True if a class itself copies or destroys its values, or has virtual functions or bases."""
    if "DW_AT_calling_convention" in record.attributes:  # clang's; gcc tells it of few classes
        return bool(record.attributes["DW_AT_calling_convention"].value == _BY_REFERENCE)
    return any("DW_AT_virtuality" in child.attributes or _is_own(child, record) for child in below)


def _is_own(function: Any, record: Any) -> bool:
    """True if a method is the class's own destructor, or copies or moves one of its objects."""
    name = name_of(function)
    is_made = "DW_AT_artificial" in function.attributes
    in_class = constant_of(function.attributes, "DW_AT_defaulted", 0, 0) == _IN_CLASS
    if function.tag != "DW_TAG_subprogram" or is_made or in_class:
        return False
    if name.startswith(b"~"):
        return True
    if name != name_of(record).partition(b"<")[0]:
        return False
    types = [referred(c) for c in children(function) if c.tag == "DW_TAG_formal_parameter"]
    # more parameters may have default arguments
    if len(types) < 2 or types[1] is None or types[1].tag not in POINTERS[1:]:  # behind `this`
        return False
    target, _, _ = unnamed(referred(types[1]))
    return target is not None and target.offset == record.offset


def _dims(die: Any) -> tuple[int | None, ...]:
    """The dimensions of an array, () for other types."""
    if die is None or die.tag != "DW_TAG_array_type":
        return ()
    return tuple(
        constant_of(r, "DW_AT_count", 0, constant_of(r, "DW_AT_upper_bound", 1, None))
        for r in array_ranges(die)
    )


def array_ranges(die: Any) -> Iterator[Any]:
    found = (c.attributes for c in children(die) if c.tag == "DW_TAG_subrange_type")
    return islice(found, DEPTH)


_FORTRAN = (0x07, 0x08, 0x0E, 0x22, 0x23, 0x2D)  # DWARF 5, table 7.17: 77, 90, 95, 03, 08, 18


def language_of(die: Any) -> int:
    """The language of the unit of an entry, 0 if it does not tell."""
    return constant_of(die.cu.get_top_DIE().attributes, "DW_AT_language", 0, 0) or 0


def is_fortran(die: Any) -> bool:
    """True of an entry of a source in Fortran."""
    return language_of(die) in _FORTRAN


def address_of(target: CType | None, pointer_size: int) -> CType:
    """The type of an address of a type, in C."""
    text = "?" if target is None else f"{target.text} *"
    return CType("pointer", pointer_size, text, target)


def extents(array: Any) -> list[int | None]:
    """The numbers of elements of an array in its dimensions; None where they are not told."""
    first = int(is_fortran(array))
    found: list[int | None] = []
    for r in array_ranges(array):
        low = constant_of(r, "DW_AT_lower_bound", 0, None if "DW_AT_lower_bound" in r else first)
        high = constant_of(r, "DW_AT_upper_bound", 1, None)
        told = None if low is None or high is None else high - low
        found.append(constant_of(r, "DW_AT_count", 0, told))
    return found


def constant_of(attributes: Any, name: str, more: int, default: int | None) -> int | None:
    """A number among the attributes of an entry, and `more`; expressions and references are
    none."""
    found = attributes.get(name)
    if found is None or not found.form.startswith(_NUMBERS) or not 0 <= found.value < 2**48:
        return default
    return int(found.value) + more


def _concrete(die: Any, pointer_size: int, depth: int) -> tuple[str, int, str, CType | None]:
    """Kind, size, spelling and target of a type that is neither a qualifier nor a name."""
    if die is None:
        return "void", 0, "void", None
    name = name_of(die).decode(errors="replace")
    size = die.attributes["DW_AT_byte_size"].value if "DW_AT_byte_size" in die.attributes else 0
    if die.tag == "DW_TAG_base_type":
        kind = ENCODINGS.get(die.attributes["DW_AT_encoding"].value, "other")
        if kind == "bool" and size > 1:  # Fortran's logical, which C has no type for
            kind = "int"
        return ("char" if name == "char" else kind), size, name or "?", None
    if die.tag in POINTERS and depth < DEPTH:
        target = type_of(referred(die), pointer_size, depth + 1)
        star = "*" if die.tag == "DW_TAG_pointer_type" else "&"
        declared = target.declaration(star + "?" * ("?" in target.text))
        return "pointer", pointer_size, declared, target
    if die.tag == _NULL_TYPE and "nullptr" in name:
        return "pointer", pointer_size, "void *", type_of(None, pointer_size)
    if die.tag == "DW_TAG_array_type" and depth < DEPTH:
        element = type_of(referred(die), pointer_size, depth + 1)
        if "DW_AT_GNU_vector" in die.attributes:
            return "record", size, "?", element
        dims = "".join(f"[{'' if d is None else d}]" for d in _dims(die))
        return "other", size, element.declaration(f"(?){dims}"), element
    if die.tag == "DW_TAG_subroutine_type" and depth < _FUNCTION_DEPTH:
        return "other", size, _function(die, pointer_size, lambda t: t), None
    if die.tag in RECORDS and COMPLEX.get(name) == size:
        return "complex", size, f"std::{name}", None
    if die.tag in RECORDS:
        return "record", size, f"{RECORDS[die.tag]} {_record_name(name) or '{...} ?'}", None
    if die.tag == "DW_TAG_enumeration_type":
        return (
            "enum",
            size,
            f"enum {name or '{...} ?'}",
            with_sign(type_of(referred(die), pointer_size, DEPTH)),
        )
    return "other", size, "?", None


def _record_name(name: str) -> str:
    """The name of a struct or class; of an instance of a template with its arguments, but those that are there anyway.
    Only words are shown: who reads types counts stars."""
    template, is_template, arguments = name.partition("<")
    if not is_template:
        return name
    shown = re.sub(r"\b\w+::", "", arguments)
    while (shorter := _DEFAULTS.sub("", shown)) != shown:
        shown = shorter
    shown = shown.replace(" >", ">").replace("basic_string<char>", "string")
    return f"{template}<{shown if re.fullmatch('[A-Za-z_][A-Za-z0-9_<>, ]*', shown) else '>'}"


_DEFAULTS = re.compile(
    r", (?:allocator|char_traits|default_delete|less|hash|equal_to)<[^<>]*(?:<[^<>]*>[^<>]*)*>"
)


def _with_base(found: CType) -> CType:
    is_named = found.base and found.kind not in ("record", "other")
    return found._replace(text=found.base) if is_named else found


def _function(die: Any, pointer_size: int, shown: Callable[[CType], CType]) -> str:
    """A type of functions, with its types as `shown` has them."""

    def type_at(at: Any) -> CType:
        return shown(type_of(referred(at), pointer_size, _FUNCTION_DEPTH))

    found = [
        type_at(c).spelling.replace("?", "{...}") if c.tag == "DW_TAG_formal_parameter" else "..."
        for c in islice(children(die), _LISTED)
    ]
    listed = ", ".join([*found, *["..."] * (len(found) == _LISTED)]) or "void"
    return type_at(die).declaration(f"(?)({listed})")
