"""Which exported symbols are functions: what a loader can find by name and call; and the names that C++ gave them."""

from __future__ import annotations

from mblob.binary.elf import ElfFile
from mblob.binary.elf_object import ElfObject
from mblob.binary.elf_records import (
    PF_X,
    PT_LOAD,
    SHF_EXECINSTR,
    SHN_LORESERVE,
    STT_FUNC,
    STT_GNU_IFUNC,
    STT_NOTYPE,
    Symbol,
)
from mblob.binary.image import Image

MANGLED = ("_Z", "_R")  # begins the names of C++ and Rust
# Places in code that linkers and start files name; they have no type either.
_PLACES = (
    "_start", "__start", "_end", "end", "__end__", "_etext", "etext", "__etext", "_ftext", "_edata", "edata", "_fdata",
    "__bss_start", "__bss_start__", "__bss_end__", "_bss_end__", "__data_start", "data_start", "__executable_start",
    "__ehdr_start", "__exidx_start", "__exidx_end", "_GLOBAL_OFFSET_TABLE_", "_PROCEDURE_LINKAGE_TABLE_", "_DYNAMIC",
    "_gp", "_gp_disp", "__gnu_local_gp",
)  # fmt: skip
# mapping symbols, local labels, ends of sections
_PLACES_BEGIN = ("$", ".L", "__start_", "__stop_")
# With which compilers find where code lies: objects have them, with a type, hidden and shared by
# all that are linked.
_THUNKS_BEGIN = (
    "__x86.get_pc_thunk.",
    "__sparc_get_pc_thunk.",
    "__x86_return_thunk",
    "__x86_indirect_thunk",
)


def function_names(image: Image) -> set[str]:
    """Names of exported functions. Assemblers give code no type unless they are told: what lies in
    code and has none counts, too. A symbol of a version that is not the default one of its name
    does not: no `dlsym` finds it by name."""
    if len(image.images) > 1:
        return set().union(*map(function_names, image.images))
    if not isinstance(image, ElfFile):
        return {s.name for s in image.exports if s.type == STT_FUNC}
    typed = [
        s
        for s in image.exports
        if s.type in (STT_FUNC, STT_GNU_IFUNC) and not s.name.startswith(_THUNKS_BEGIN)
    ]
    untyped = [s for s in image.exports if s.type == STT_NOTYPE and not _is_place(s)]
    places = _code(image) if untyped else []
    found = typed + [s for s in untyped if any(_lies_in(s, place) for place in places)]
    return {s.name for s in found if s.offset not in image.hidden}


def _is_place(symbol: Symbol) -> bool:
    return (
        symbol.st_shndx >= SHN_LORESERVE
        or symbol.name in _PLACES
        or symbol.name.startswith(_PLACES_BEGIN)
    )


_Place = tuple[int, int, int]  # index of a section (0 for any), first address, bytes


def _code(elf: ElfFile) -> list[_Place]:
    """The places of code: sections, which tell it from constants beside it, or segments of a file
    without sections."""
    sections = elf.sections if isinstance(elf, ElfObject) else elf.readable_sections
    if sections:
        start = [0 if isinstance(elf, ElfObject) else s.sh_addr for s in sections]
        return [
            (i, start[i], s.sh_size)
            for i, s in enumerate(sections)
            if s.sh_flags & SHF_EXECINSTR and s.sh_size
        ]
    return [
        (0, s.p_vaddr, s.p_memsz) for s in elf.segments if s.p_type == PT_LOAD and s.p_flags & PF_X
    ]


def _lies_in(symbol: Symbol, place: _Place) -> bool:
    section, start, size = place
    return section in (0, symbol.st_shndx) and 0 <= symbol.st_value - start < size


def cxx_names(symbol: str) -> list[str]:
    """The name of a function of C++, behind its namespaces and classes; [] for a symbol that is none, or not of a
    function with such a name (Itanium C++ ABI, 5.1.2: <unscoped-name>, <nested-name>)."""
    if not symbol.startswith("_Z"):
        return []
    is_nested = symbol.startswith("_ZN")
    rest = symbol[2 + is_nested :]
    rest = rest.lstrip("rVKRO") if is_nested else rest
    names: list[str] = []
    while rest[:1].isdigit() and (is_nested or not names):
        digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
        rest = rest[len(digits) :]
        if len(digits) > 4 or len(rest) < int(digits):
            return []
        names.append(rest[: int(digits)])
        rest = rest[int(digits) :]
    # else one that makes objects, or ends them, or an operator
    return names if not is_nested or rest.startswith(("E", "I")) else []


def shown_name(symbol: str) -> str:
    """The name of a symbol in messages: of a function of C++, the one that its source has."""
    return "::".join(cxx_names(symbol)) or symbol
