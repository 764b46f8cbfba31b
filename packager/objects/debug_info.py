"""Facts about the functions of an object: those in its DWARF, and those that DWARF does not name.

Only `mblob.packager.objects.object_files.functions_of` imports this, when there is something to
read: pyelftools takes its time to load.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from mblob.binary.debug_sections import debug_information
from mblob.binary.dwarf_functions import (
    DebugFunctions,
    Function,
    agreed,
    finished_debug_information,
    function_of,
    read_functions,
    units_at,
)
from mblob.binary.dwarf_types import CType, referred, unnamed
from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import STT_FILE, STT_GNU_IFUNC
from mblob.binary.function_names import MANGLED
from mblob.format.exported_functions import is_helper
from mblob.packager.objects.object_files import is_code, lto_functions

# no packed one has no parameters
_UNKNOWN = Function("", CType("other", 0, "?"), (), False, 0, is_guess=True)


def finished_functions(elf: ElfFile, names: Collection[str]) -> list[Function]:
    """The functions of some names that a finished library exports; those of which its debug information
    does not tell the types are left out.

    Args:
        names: symbols, or as sources call them, with namespaces and modules.
    """
    last = {name.rpartition("::")[2].lower() for name in names}
    symbols = {s.name: s.st_value for s in elf.exports if any(_may_be(s.name, n) for n in last)}
    found = functions(elf, places=symbols.values()) if symbols else []
    return [
        f
        for f in found
        if f.name in symbols and not f.is_guess and not {f.name, f.called}.isdisjoint(names)
    ]


def _may_be(symbol: str, name: str) -> bool:
    """True if a symbol may be that of a function whose name, in small letters, is the last part of a qualified one."""
    if symbol.startswith(MANGLED):
        return f"{len(name)}{name}" in symbol.lower()
    own = symbol.lower().rpartition("_mod_")[2] if symbol.startswith("__") else symbol.lower()
    return own.rstrip("_") == name.rstrip("_")


def functions(
    elf: ElfFile,
    whole: bool = False,
    places: Collection[int] | None = None,
    local: list[str] | None = None,
) -> list[Function]:
    """The functions that an object file defines; [] where its debug information is missing or not
    understood.

    An alias has no entry in debug information, and the types of the function at its address. Nor
    has an indirect function (IFUNC): its resolver may tell its type. What else has no entry, such
    as assembler text in a C source, is of unknown types if all units of the object tell the types
    of their functions.

    Args:
        elf: the object.
        whole: all units tell them, also those that have no function.
        places: of a finished library, the addresses of the functions that are looked for: only units
            with code there are read, if one has.
        local: gets the names of functions that nothing outside of their source finds, as of `DebugFunctions`.
    """
    try:
        described = DebugFunctions()  # compilers write nothing where there is no function
        dwarf = (debug_information if places is None else finished_debug_information)(elf)
        if dwarf is not None:
            # gcc 10 lists no place for a function that jumps to another one that does the same
            described = read_functions(dwarf, (places and units_at(dwarf, places)) or None)
            files = sum(s.type == STT_FILE for s in elf.symtab)
            described.whole = described.whole and files <= described.units
        if local is not None:
            local += described.local
        return [*described.exported, *described.cxx, *_without_entry(elf, described, whole)]
    except Exception:  # pyelftools checks little, so damage makes it raise any of Python's errors
        return []  # as if there were none


# -- functions without an entry --------------------------------------------------------------------

_Place = tuple[int, int]  # st_shndx, st_value


def _without_entry(elf: ElfFile, described: DebugFunctions, whole: bool) -> list[Function]:
    """The functions that an object exports under C names, and that its debug information does not
    name."""
    # A function in top-level asm of a C source has no entry. It counts as plain C, even if it is a
    # packed function. Put such a packed function into an assembler file (.s) of its own.
    listed = {f.name for f in described.exported}
    symbols = [
        s
        for s in elf.symtab
        if s.is_exported
        and s.name not in listed
        and is_code(elf, s)
        and not is_helper(s.name)
        and not s.name.startswith(MANGLED)
    ]
    unseen = [
        name
        for name in lto_functions(elf)
        if name not in listed and not is_helper(name) and not name.startswith(MANGLED)
    ]
    unknown = [_UNKNOWN._replace(name=name) for name in unseen if whole or described.whole]
    if not symbols:
        return unknown
    places: dict[_Place, list[str]] = {}
    indirect: set[_Place] = set()
    for s in elf.symtab:
        if s.type == STT_GNU_IFUNC:
            indirect.add((s.st_shndx, s.st_value))
        elif s.name in described.entries and s.is_defined:
            places.setdefault((s.st_shndx, s.st_value), []).append(s.name)
    resolvers = {name for place in indirect for name in places.get(place, ())}
    found: list[Function] = unknown
    for s in symbols:
        here = places.get((s.st_shndx, s.st_value), [])
        if s.type == STT_GNU_IFUNC:
            function = _indirect(s.name, here, resolvers, described)
        else:
            function = agreed([f for name in here for f in described.named(name)])
        if function is None and (whole or described.whole):
            function = _UNKNOWN
        if function is not None:
            found.append(function._replace(name=s.name))
    return found


def _indirect(
    name: str, here: Sequence[str], resolvers: Collection[str], described: DebugFunctions
) -> Function | None:
    """The function that an indirect one leads to, as far as something tells.

    The result of its resolver does. If that is `void *`, the versions that a compiler made do
    (`name.avx2`). If there are none, the other functions of the object tell whether it is a packed
    one, and no more.

    Args:
        here: names of its resolver.
        resolvers: names of all resolvers.
    """
    for chosen in (
        [
            function_of(name, t, t, size)
            for n in here
            for _, declared, size, _ in described.entries[n]
            for t in [_pointed_function(declared)]
            if t is not None
        ],
        [
            f
            for n in described.entries
            if n.startswith(name.removesuffix(".ifunc") + ".")
            for f in described.named(n)
        ],
    ):
        if chosen:
            return agreed(chosen)
    others = [
        f
        for n in described.entries
        if n not in resolvers
        for f in described.named(n)
        if f.parameters
    ]
    exported = {f.name for f in described.exported}
    found = agreed([f for f in others if f.name not in exported] or others)
    return found and found._replace(is_guess=True)


def _pointed_function(declared: Any) -> Any:
    """The entry of the type of function that a resolver returns a pointer to, None if it returns
    something else."""
    die = unnamed(referred(declared))[0]
    if die is not None and die.tag == "DW_TAG_pointer_type":
        die = unnamed(referred(die))[0]
    return die if die is not None and die.tag == "DW_TAG_subroutine_type" else None
