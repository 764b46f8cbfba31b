"""Functions in DWARF (versions 2 - 5): their parameters and results, read by pyelftools.

pyelftools takes its time to load: modules import this one when there is something to read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from mblob.binary.debug_sections import debug_information
from mblob.binary.dwarf_layouts import layout_of
from mblob.binary.dwarf_library import library_of
from mblob.binary.dwarf_types import (
    DEPTH,
    CType,
    address_of,
    children,
    constant_of,
    in_cxx,
    is_fortran,
    language_of,
    name_of,
    record_behind,
    referred,
    text_of,
    type_of,
    unnamed,
    with_sign,
)
from mblob.binary.dwarf_values import value_of
from mblob.binary.elf import ElfFile
from mblob.binary.function_names import MANGLED
from mblob.named_tuple import NamedTuple

_LANG_ASSEMBLER = 0x8001  # DW_LANG_Mips_Assembler, of any machine
_LANG_C = (0x01, 0x02, 0x0C, 0x1D, 0x2C)  # those of C with old-style definitions: 89, C, 99, 11, 17
# DW_CC_normal, and DW_CC_program, the main program of Fortran.
_ORDINARY_CALLS = (1, 2)
_SCOPES = ("DW_TAG_namespace", "DW_TAG_module")  # of C++ and of Fortran
# Their declarations are many, and none is a kernel.
LIBRARY_NAMESPACES = (b"std", b"__gnu_cxx", b"__gnu_debug", b"__cxxabiv1")
_MANGLED = tuple(prefix.encode() for prefix in MANGLED)
_TVM = b"TVM"  # who compiled: all its functions are packed ones, of whatever types


class Function(NamedTuple):
    """A function that an object defines with external linkage and a name that is not mangled.

    Attributes:
        name: its symbol.
        result: its type.
        parameters: in order.
        variadic: ends with "...".
        pointer_size: bytes of a pointer of the target.
        is_guess: the types are those of other functions, and tell only whether this one is packed.
        is_ordinary: called as the platform's C is. Clang tells of others (ms_abi, vectorcall,
            aarch64_vector_pcs, ...), gcc does not.
        names: of the parameters, "" without.
        qualified: of a C++ function whose name is mangled: its name with its namespaces.
        source_name: of a Fortran function its name in the source, with its module.
        line: of its name in its source, 0 if that is not told.
        is_old_style: defined as `int f(a, b) char a; float b;`. Its parameters are those that a caller
            passes: double for float, int for smaller integers.
    """

    name: str
    result: CType
    parameters: tuple[CType, ...]
    variadic: bool
    pointer_size: int
    is_guess: bool = False
    is_ordinary: bool = True
    names: tuple[str, ...] = ()
    qualified: str = ""
    source_name: str = ""
    is_old_style: bool = False
    line: int = 0

    @property
    def called(self) -> str:
        """The name under which a source calls it. A procedure of Fortran is `f` or `module::f`, unless
        its source gives it a symbol (`bind(C)`)."""
        if not self.source_name:
            return self.qualified or self.name
        *modules, name = self.source_name.split("::")
        mangled = {f"__{modules[-1]}_MOD_{name}"} if modules else {f"{name}_", f"{name}__", name}
        return self.source_name if self.name in mangled else self.name

    @property
    def types(self) -> str:
        """The parameter types as the function table lists them, "?" if unknown, or if one has no
        plain spelling."""
        return self.types_with(lambda _: "")

    def types_with(self, word: Callable[[CType], str]) -> str:
        """The same with a word behind each."""
        texts = [p.text + word(p) for p in self.parameters] + (["..."] if self.variadic else [])
        is_unknown = self.is_guess or any("?" in text for text in texts)
        return "?" if is_unknown else ", ".join(texts) or "void"


class _Place(NamedTuple):
    """The namespaces around a function.

    Attributes:
        names: of all of them.
        short: without the inline ones, whose names C++ leaves out.
    """

    names: tuple[bytes, ...] = ()
    short: tuple[bytes, ...] = ()

    def within(self, die: Any) -> _Place:
        """The place in a namespace that is here."""
        last = name_of(die)
        is_inline = last and "DW_AT_export_symbols" in die.attributes
        short = self.short if is_inline else (*self.short[:DEPTH], last)
        return _Place((*self.names[:DEPTH], last), short)


def _joined(*names: bytes) -> str:
    return b"::".join(names).decode(errors="replace")


# Of a function, of its declaration; bytes of a pointer; its code, if its own entry is abstract.
_Entry = tuple[Any, Any, int, Sequence[Any]]


class DebugFunctions:
    """Facts about functions in debug information.

    Attributes:
        exported: those with external linkage and a name that is not mangled.
        cxx: free functions of C++ with external linkage, and instances of templates of the source itself, with
            their arguments. One in an inline namespace is there twice, first under the name without that.
        local: qualified names of the free functions of a source itself that nothing outside of it finds, with ""
            for an anonymous namespace.
        entries: of all functions whose types it tells, by symbol: an object that was linked of
            several may have more than one of a name.
        units: how many there are. An object that was linked of several has more symbols of files
            (STT_FILE) if some of them had no debug information.
        whole: there are some, and no unit leaves types out.
    """

    def __init__(self, whole: bool = False) -> None:
        self.exported: list[Function] = []
        self.cxx: list[Function] = []
        self.local: list[str] = []
        self.entries: dict[str, list[_Entry]] = {}
        self.units = 0
        self.whole = whole

    def named(self, name: str) -> list[Function]:
        """The functions of a symbol."""
        return [function_of(name, *entry) for entry in self.entries.get(name, ())]


_LARGEST = 1 << 28  # bytes of DWARF, decompressed, that are read of a finished file


def finished_debug_information(elf: ElfFile) -> Any:
    """As `debug_information`, of a finished file: at most 256 MiB are read.

    Raises:
        As of `debug_information`.
    """
    return debug_information(elf, _LARGEST)


def exported_function(elf: ElfFile, name: str) -> Function | None:
    """A function that a shared library exports; None if it has no DWARF of it, or too much, or DWARF
    that is not understood."""
    try:
        dwarf, symbol = finished_debug_information(elf), elf.find(name)
        if dwarf is None or symbol is None:
            return None
        units = units_at(dwarf, [symbol.st_value])
        if units:
            return agreed(read_functions(dwarf, units).named(name))
        # gcc 10 lists no place for a function that jumps to another one that does the same
        return agreed([f for f in read_functions(dwarf).exported if f.name == name])
    except Exception:  # pyelftools checks little, so damage makes it raise any of Python's errors
        return None


def units_at(dwarf: Any, addresses: Collection[int]) -> list[Any]:
    """The units whose code is at one of some addresses."""
    return [u for u in dwarf.iter_CUs() if any(_has_code(dwarf, u, a) for a in addresses)]


def _has_code(dwarf: Any, unit: Any, address: int) -> bool:
    """True if the code of a unit is at an address."""
    top = unit.get_top_DIE()
    found = top.attributes
    low = found["DW_AT_low_pc"].value if "DW_AT_low_pc" in found else 0
    if "DW_AT_ranges" in found:
        for place in dwarf.range_lists().get_range_list_at_offset(
            found["DW_AT_ranges"].value, unit
        ):
            if hasattr(place, "base_address"):
                low = place.base_address
                continue
            base = 0 if getattr(place, "is_absolute", False) else low
            if base + place.begin_offset <= address < base + place.end_offset:
                return True
        return False
    if "DW_AT_high_pc" not in found:
        return False
    high = found["DW_AT_high_pc"]
    end = high.value if high.form == "DW_FORM_addr" else low + high.value
    return bool(low <= address < end)


def agreed(candidates: Sequence[Function]) -> Function | None:
    """The function that all candidates are, but for their names."""
    found = [f._replace(name="", names=(), source_name="", line=0) for f in candidates]
    if not found or any(f != found[0] for f in found):
        return None
    return candidates[0]._replace(name="")


def read_functions(dwarf: Any, units: Iterable[Any] | None = None) -> DebugFunctions:
    """The facts of DWARF about functions.

    Args:
        units: those to read, all by default.
    """
    left = dwarf.debug_info_sec.size  # an entry has a byte at least: more are a circle
    made = DebugFunctions(whole=True)
    for unit in dwarf.iter_CUs() if units is None else units:
        made.units += 1
        top = unit.get_top_DIE()
        producer = text_of(top, "DW_AT_producer")
        if producer == _TVM or _is_assembler(top):
            made.whole = False
            continue
        found = []
        places: dict[int, _Place] = {}
        scopes = [(top, _Place())]
        while scopes:
            scope, place = scopes.pop()
            for die in children(scope):
                left -= 1
                if left < 0:
                    raise ValueError("entries in a circle")
                if die.tag in _SCOPES and name_of(die) not in LIBRARY_NAMESPACES:
                    scopes.append((die, place.within(die)))
                elif die.tag == "DW_TAG_subprogram":
                    places[die.offset] = place
                    if "DW_AT_declaration" not in die.attributes:
                        found.append(die)
        _add(made, found, unit["address_size"], _may_be_terse(producer), places)
    made.whole = made.whole and bool(made.entries)
    return made


def _add(
    made: DebugFunctions,
    found: Sequence[Any],
    pointer_size: int,
    terse: bool,
    places: Mapping[int, _Place],
) -> None:
    """Add the functions that a unit defines, but those whose types it leaves out.

    Args:
        places: by the offsets of entries, the places of functions; methods are not there.
    """
    if found and not any(map(_tells_types, found)):
        made.whole = False
        return
    instances: dict[int, list[Any]] = {}
    for die in found:
        if (origin := _origin(die)) is not None:
            instances.setdefault(origin, []).append(die)
    exported: list[Function] = []
    candidates: list[Function] = []
    merged: set[str] = set()
    for die in found:
        if _origin(die) is not None:
            continue
        declared = (
            die.get_DIE_from_attribute("DW_AT_specification")
            if "DW_AT_specification" in die.attributes
            else die
        )
        name = (
            text_of(die, "DW_AT_linkage_name")
            or text_of(declared, "DW_AT_linkage_name")
            or name_of(declared)
        )
        if not name:
            continue
        symbol = name.decode(errors="replace")
        code = instances.get(die.offset, ())
        entry = (die, declared, pointer_size, code)
        is_exported = not name.startswith(_MANGLED) and "DW_AT_external" in declared.attributes
        of_fortran = is_fortran(die)
        function = function_of(symbol, *entry) if is_exported or terse or of_fortran else None
        if of_fortran and function is not None:
            place = places.get(declared.offset, _Place())
            function = function._replace(source_name=_joined(*place.names, name_of(declared)))
        if terse and function is not None and _is_bare(die, function):
            made.whole = False
            continue
        if function is not None:
            if of_fortran and not code and not _CODE.intersection(die.attributes):
                merged.add(symbol)
            else:
                candidates.append(function)
            if is_exported:
                exported.append(function)
        elif declared.offset in places:
            place, last = places[declared.offset], name_of(declared)
            called = _joined(*place.names, last)
            if "DW_AT_external" not in declared.attributes:
                if _is_of_source(declared):
                    made.local.append(called)
            elif name.startswith(b"_Z") and _is_callable(called, declared):
                free = function_of(symbol, *entry)
                names = dict.fromkeys((_joined(*place.short, last), called))
                made.cxx += [free._replace(qualified=in_cxx(qualified)) for qualified in names]
        made.entries.setdefault(symbol, []).append(entry)
    made.exported += [_as_merged(f, candidates) if f.name in merged else f for f in exported]


def _is_callable(called: str, declared: Any) -> bool:
    """True of a name that a call can have, and of an instance of a template of the source itself."""
    plain, is_template, _ = called.partition("<")
    if is_template and not _is_of_source(declared):
        return False
    names = plain.split("::")
    return all(map(str.isidentifier, names)) and names[-1] != "operator"  # operator<


def _is_of_source(die: Any) -> bool:
    """True if an entry is in the file of its unit, and not in one that it includes."""
    unit = die.cu
    if unit not in _own_files:
        _own_files[unit] = _files_of(unit)
    return constant_of(die.attributes, "DW_AT_decl_file", 0, None) in _own_files[unit]


_own_files: WeakKeyDictionary[Any, frozenset[int]] = WeakKeyDictionary()


def _files_of(unit: Any) -> frozenset[int]:
    """The numbers of the file of a unit."""
    try:
        program = unit.dwarfinfo.line_program_for_CU(unit)
        own = name_of(unit.get_top_DIE()).rpartition(b"/")[2]
        first = 0 if program["version"] >= 5 else 1
        names = [entry.name.rpartition(b"/")[2] for entry in program["file_entry"]]
        return frozenset(i for i, name in enumerate(names, first) if name == own)
    except Exception:  # as of all that is damaged
        return frozenset((0, 1))


def _as_merged(function: Function, candidates: Sequence[Function]) -> Function:
    """A Fortran function without code of its own: gcc calls one that does the same (-fipa-icf), and
    takes its arguments as this one does. All that may be that one tell of the places, if they agree."""
    found = {
        c.parameters for c in candidates
        if c.result == function.result and len(c.parameters) == len(function.parameters)
        and all(a == b or (b.kind == "either" and a in (b.target, address_of(b.target, function.pointer_size)))
            for a, b in zip(c.parameters, function.parameters))
    }  # fmt: skip
    return function._replace(parameters=found.pop()) if len(found) == 1 else function


def _origin(die: Any) -> int | None:
    """The offset of the entry that an entry is an instance of, None if it stands for itself."""
    if "DW_AT_abstract_origin" not in die.attributes:
        return None
    return int(die.get_DIE_from_attribute("DW_AT_abstract_origin").offset)


def _is_assembler(top: Any) -> bool:
    """True if a unit is assembler text, whose functions an assembler names without their types."""
    return language_of(top) == _LANG_ASSEMBLER


_LEVEL = re.compile(rb" -g(?:gdb)?([0-3]?)(?= |$)")


def _may_be_terse(producer: bytes) -> bool:
    """True if a unit may be of `gcc -g1`, which names functions and leaves their types out; the
    last level counts.

    gcc tells its options, unless it is told not to.
    """
    levels = _LEVEL.findall(producer)
    return producer.startswith(b"GNU ") and (
        levels[-1] == b"1" if levels else b" -" not in producer
    )


def _tells_types(die: Any) -> bool:
    """True if an entry has facts that `clang -g1` leaves out, which names functions and says
    nothing else of them."""
    facts = ("DW_AT_external", "DW_AT_type", "DW_AT_prototyped", "DW_AT_specification")
    parameters = (child.tag == "DW_TAG_formal_parameter" for child in children(die))
    return any(attribute in die.attributes for attribute in facts) or any(parameters)


_CODE = frozenset(("DW_AT_low_pc", "DW_AT_ranges"))


def _is_bare(die: Any, found: Function) -> bool:
    """True if a function is described as if it had no parameters and no result, and its source does
    not say so."""
    typed = found.parameters or found.variadic or found.result.kind != "void"
    return not typed and "DW_AT_prototyped" not in die.attributes


def function_of(
    name: str, die: Any, declared: Any, pointer_size: int, code: Sequence[Any] = ()
) -> Function:
    """The function, or type of functions, whose parameters are the children of an entry.

    Args:
        code: its instances, if the entry is abstract.
    """
    parameters: list[CType] = []
    names: list[str] = []
    variadic = False
    of_fortran = is_fortran(die)
    is_old_style = _is_old_style(die, declared)
    machine = die.dwarfinfo.config.machine_arch
    for child in _with_packs(die):
        if child.tag == "DW_TAG_formal_parameter":
            declared_type = referred(child)
            found = with_sign(type_of(declared_type, pointer_size), machine)
            if found.kind == "pointer" and not of_fortran:
                record = record_behind(declared_type)
                layout = "" if record is None else layout_of(record, pointer_size)
                found = found._replace(layout=layout)
            found = _with_library(
                _by_value(found, declared_type, pointer_size), declared_type, pointer_size
            )
            if is_old_style:
                found = _promoted(found)
            if of_fortran:
                from mblob.binary.dwarf_fortran import passed_as

                there = (c for i in code for c in children(i) if _origin(c) == child.offset)
                found = passed_as((child, *there), found, pointer_size)
            parameters.append(found)
            name_here = name_of(child).decode(errors="replace")
            names.append("" if name_here in names else name_here)  # in a pack all have one
        elif child.tag == "DW_TAG_unspecified_parameters":
            variadic = True
    convention = die.attributes.get("DW_AT_calling_convention")
    of_result = referred(declared)
    result = with_sign(type_of(of_result, pointer_size), machine)
    return Function(
        name=name,
        result=_with_library(_by_value(result, of_result, pointer_size), of_result, pointer_size),
        parameters=tuple(parameters),
        variadic=variadic,
        pointer_size=pointer_size,
        is_ordinary=(convention is None or convention.value in _ORDINARY_CALLS)
        and not (of_fortran and _is_of_f2c(die, result)),
        names=tuple(names),
        is_old_style=is_old_style and bool(parameters),
        line=_line(die) or _line(declared),
    )


_PACKS = ("DW_TAG_GNU_formal_parameter_pack", 0x4108)


def _with_packs(die: Any) -> Iterator[Any]:
    """The entries below a function, with those of the parameters that gcc has in a pack."""
    for child in children(die):
        if child.tag in _PACKS:
            yield from children(child)
        else:
            yield child


def _is_of_f2c(die: Any, result: CType) -> bool:
    """True if gfortran returns a number as f2c does: a real number as a double, a complex one in memory."""
    producer = text_of(die.cu.get_top_DIE(), "DW_AT_producer")
    return result.kind in ("float", "complex") and b" -ff2c" in producer


def _by_value(found: CType, declared: Any, pointer_size: int) -> CType:
    """A type with what a call passes, if it is a struct."""
    if found.kind not in ("record", "complex") or found.is_object:
        return found
    value = value_of(declared, pointer_size)
    if value is None:
        return found
    layout = layout_of(unnamed(declared)[0], pointer_size)
    return found._replace(value=value, layout=layout)


def _with_library(found: CType, declared: Any, pointer_size: int) -> CType:
    """A type with what is known of it as a class of the standard library of C++."""
    is_class = found.kind == "record" or (found.is_reference and found.target is not None)
    library = library_of(declared, pointer_size) if is_class else None
    return found if library is None else found._replace(library=library)


def _line(die: Any) -> int:
    return constant_of(die.attributes, "DW_AT_decl_line", 0, 0) or 0


def _is_old_style(die: Any, declared: Any) -> bool:
    """True if C defines a function without a prototype. Other languages may pass for C, so the compiler
    counts, too."""
    if "DW_AT_prototyped" in die.attributes or "DW_AT_prototyped" in declared.attributes:
        return False
    producer = text_of(die.cu.get_top_DIE(), "DW_AT_producer")
    return language_of(die) in _LANG_C and any(name in producer for name in _OF_C)


_OF_C = (b"GNU C", b"clang", b"Intel")
_DOUBLE = CType("float", 8, "double", base="double")
_INT = CType("int", 4, "int", base="int")


def _promoted(found: CType) -> CType:
    """The type that a caller passes where there is no prototype (C17, 6.5.2.2)."""
    if found.kind == "float" and found.size == 4:
        return _DOUBLE
    is_small = found.kind in ("int", "uint", "char", "bool", "enum") and found.size < 4
    return _INT if is_small else found
