"""What an object says about its functions: their parameters, read from DWARF (versions 2 - 5) by pyelftools.

Only `packager.given_functions` imports this, when there is something to read: pyelftools takes its time to load.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from elftools.elf.elffile import ELFFile

from mblob.elf import ElfFile
from packager.debug_sections import relocated
from packager.given_functions import MANGLED

_DEPTH = 8  # pointers, qualifiers and names in a row; what is deeper is of no kind that we compare

# DWARF 5, table 7.11: encodings of base types.
_ENCODINGS = {0x02: "bool", 0x04: "float", 0x05: "int", 0x06: "int", 0x07: "uint", 0x08: "uint"}
_RECORDS = {"DW_TAG_structure_type": "struct", "DW_TAG_class_type": "struct", "DW_TAG_union_type": "union"}
_LANG_ASSEMBLER = 0x8001  # DW_LANG_Mips_Assembler, of any machine
_QUALIFIERS = ("DW_TAG_volatile_type", "DW_TAG_restrict_type", "DW_TAG_atomic_type")
_POINTERS = ("DW_TAG_pointer_type", "DW_TAG_reference_type", "DW_TAG_rvalue_reference_type")
# Their declarations are many, and none is a kernel.
_LIBRARY_NAMESPACES = (b"std", b"__gnu_cxx", b"__gnu_debug", b"__cxxabiv1")
_MANGLED = tuple(prefix.encode() for prefix in MANGLED)
_TVM = b"TVM"  # who compiled: all its functions are packed ones, of whatever types


@dataclass(frozen=True)
class CType:
    """A type, without its names.

    Attributes:
        kind: "int", "uint", "char" (signedness is the target's), "bool", "float", "enum", "pointer", "void", "record"
            (struct, union, vector) or "other".
        size: bytes; 0 if it has none.
        text: C spelling with the names that the source uses, "?" if it takes more than one line to say.
        target: what a pointer points at; of an array, which only pointers point at, the element.
    """

    kind: str
    size: int
    text: str
    target: CType | None = None


@dataclass(frozen=True)
class Function:
    """A function that an object defines with external linkage and a name that is not mangled.

    Attributes:
        name: its symbol.
        result: its type.
        parameters: in order.
        variadic: ends with "...".
        pointer_size: bytes of a pointer of the target.
    """

    name: str
    result: CType
    parameters: tuple[CType, ...]
    variadic: bool
    pointer_size: int

    @property
    def types(self) -> str:
        """The parameter types as the function table lists them, "?" if one of them has no plain spelling."""
        texts = [p.text for p in self.parameters] + (["..."] if self.variadic else [])
        return "?" if any("?" in text for text in texts) else ", ".join(texts) or "void"


def functions(data: memoryview) -> list[Function]:
    """The functions that an object file defines; [] where its debug information is missing or not understood.

    Args:
        data: the whole object.
    """
    try:
        elf = ElfFile(data)
        if elf.section(".debug_info") is None:
            return []
        read = ELFFile(io.BytesIO(relocated(elf)))
        return list(_all(read.get_dwarf_info(relocate_dwarf_sections=False)))
    except Exception:  # pyelftools checks little, so damage makes it raise any of Python's errors
        return []  # as if there were none


def _all(dwarf: Any) -> Iterator[Function]:
    left = dwarf.debug_info_sec.size  # an entry has a byte at least: more are a circle
    for unit in dwarf.iter_CUs():
        top = unit.get_top_DIE()
        producer = _text(top, "DW_AT_producer")
        if producer == _TVM or _is_assembler(top):
            continue
        terse = _may_be_terse(producer)
        scopes = [top]
        while scopes:
            for die in scopes.pop().iter_children():
                left -= 1
                if left < 0:
                    raise ValueError("entries in a circle")
                if die.tag == "DW_TAG_namespace" and _name(die) not in _LIBRARY_NAMESPACES:
                    scopes.append(die)
                elif die.tag == "DW_TAG_subprogram":
                    found = _function(die, unit["address_size"])
                    if found is not None and not (terse and _is_bare(die, found)):
                        yield found


def _is_assembler(top: Any) -> bool:
    """Whether a unit is assembler text, whose functions an assembler names without their types."""
    found = top.attributes.get("DW_AT_language")
    return found is not None and found.value == _LANG_ASSEMBLER


_LEVEL = re.compile(rb" -g(?:gdb)?([0-3]?)(?= |$)")


def _may_be_terse(producer: bytes) -> bool:
    """Whether a unit may be of `gcc -g1`, which names functions and leaves their types out; the last level counts.

    gcc tells its options, unless it is told not to.
    """
    levels = _LEVEL.findall(producer)
    return producer.startswith(b"GNU ") and (levels[-1] == b"1" if levels else b" -" not in producer)


def _is_bare(die: Any, found: Function) -> bool:
    """Whether a function is described as if it had no parameters and no result, and its source does not say so."""
    typed = found.parameters or found.variadic or found.result.kind != "void"
    return not typed and "DW_AT_prototyped" not in die.attributes


def _function(die: Any, pointer_size: int) -> Function | None:
    if "DW_AT_declaration" in die.attributes:
        return None
    declared = die.get_DIE_from_attribute("DW_AT_specification") if "DW_AT_specification" in die.attributes else die
    name = _text(die, "DW_AT_linkage_name") or _text(declared, "DW_AT_linkage_name") or _name(declared)
    if not name or name.startswith(_MANGLED) or "DW_AT_external" not in declared.attributes:
        return None
    parameters: list[CType] = []
    variadic = False
    for child in die.iter_children():
        if child.tag == "DW_TAG_formal_parameter":
            parameters.append(_type(_referred(child), pointer_size))
        elif child.tag == "DW_TAG_unspecified_parameters":
            variadic = True
    result = _type(_referred(declared), pointer_size)
    return Function(name.decode(errors="replace"), result, tuple(parameters), variadic, pointer_size)


def _text(die: Any, attribute: str) -> bytes:
    found = die.attributes.get(attribute)
    return found.value if found is not None and isinstance(found.value, bytes) else b""


def _name(die: Any) -> bytes:
    return _text(die, "DW_AT_name")


def _referred(die: Any) -> Any:
    """The type that an entry names, None for void."""
    return die.get_DIE_from_attribute("DW_AT_type") if "DW_AT_type" in die.attributes else None


def _type(die: Any, pointer_size: int, depth: int = 0) -> CType:
    """A type, seen through its qualifiers and names."""
    named = ""  # the outermost name, which is how the source spells it
    const = False  # in front of that name
    for _ in range(_DEPTH):
        if die is None:
            break
        if die.tag == "DW_TAG_const_type":
            const = const or not named
        elif die.tag == "DW_TAG_typedef":
            named = named or _name(die).decode(errors="replace")
        elif die.tag not in _QUALIFIERS:
            break
        die = _referred(die)
    kind, size, text, target = _concrete(die, pointer_size, depth)
    text = named or text
    if const and text != "?":
        text = f"{text} const" if kind == "pointer" and not named else f"const {text}"
    return CType(kind, size, text, target)


def _concrete(die: Any, pointer_size: int, depth: int) -> tuple[str, int, str, CType | None]:
    """Kind, size, spelling and target of a type that is neither a qualifier nor a name."""
    if die is None:
        return "void", 0, "void", None
    name = _name(die).decode(errors="replace")
    size = die.attributes["DW_AT_byte_size"].value if "DW_AT_byte_size" in die.attributes else 0
    if die.tag == "DW_TAG_base_type":
        kind = _ENCODINGS.get(die.attributes["DW_AT_encoding"].value, "other")
        return ("char" if name == "char" else kind), size, name or "?", None
    if die.tag in _POINTERS and depth < _DEPTH:
        target = _type(_referred(die), pointer_size, depth + 1)
        star = "*" if die.tag == "DW_TAG_pointer_type" else "&"
        text = f"{target.text}{'' if target.text.endswith('*') else ' '}{star}"
        return "pointer", pointer_size, "?" if "?" in text else text, target
    if die.tag == "DW_TAG_array_type" and depth < _DEPTH:
        element = _type(_referred(die), pointer_size, depth + 1)
        return ("record" if "DW_AT_GNU_vector" in die.attributes else "other"), size, "?", element
    if die.tag in _RECORDS:
        return "record", size, f"{_RECORDS[die.tag]} {name}" if name else "?", None
    if die.tag == "DW_TAG_enumeration_type":
        return "enum", size, f"enum {name}" if name else "?", None
    return "other", size, "?", None
