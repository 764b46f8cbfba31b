"""Questions to object files and archives before the linker sees them: machine, symbols,
functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mblob.binary import archive
from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import (
    DEBUG_PREFIXES,
    EM_AARCH64,
    EM_RISCV,
    ET_REL,
    SHF_ALLOC,
    SHF_EXCLUDE,
    SHF_EXECINSTR,
    SHN_COMMON,
    SHT_GROUP,
    STB_GLOBAL,
    STB_GNU_UNIQUE,
    STB_LOCAL,
    STB_WEAK,
    STT_COMMON,
    STT_FUNC,
    STT_GNU_IFUNC,
    STT_NOTYPE,
    STT_OBJECT,
    STT_TLS,
    Symbol,
)
from mblob.binary.file_kind import AR_MAGIC, ELF_MAGIC, THIN_MAGIC
from mblob.binary.function_names import shown_name
from mblob.bytes.mapping import map_file
from mblob.errors import FormatError, IncompatibleError, ToolchainError
from mblob.format import system_library_prefixes
from mblob.format.exported_functions import is_tvm_code
from mblob.named_tuple import NamedTuple
from mblob.packager.errors import BuildError

if TYPE_CHECKING:
    from mblob.binary.dwarf_functions import Function


class ElfTarget(NamedTuple):
    """The target of an object; everything a new object needs to be linked with it.

    Attributes:
        bits, byte_order: 32 or 64; "<" or ">".
        e_machine, e_flags: of its header (the flags hold the ABI on ARM, RISC-V, MIPS, PowerPC).
        os_abi: e_ident[EI_OSABI].
        properties: contents of `.note.gnu.property`, b"" without: an object without the note
            switches the features off that all others have.
        name: "x86_64", ...
    """

    bits: int
    byte_order: str
    e_machine: int
    e_flags: int
    os_abi: int
    properties: bytes
    name: str

    @property
    def identity(self) -> tuple[int, int, str]:
        """The values that must agree for a link."""
        return self.e_machine, self.bits, self.byte_order

    def __str__(self) -> str:
        return f"{self.name} ({self.bits}-bit{', big endian' if self.byte_order == '>' else ''})"


class ObjectSymbols:
    """Symbols of one object file, or of all members of an archive.

    Attributes:
        machine: of the first object; None for an empty archive.
        defined: strong global definitions.
        weak: weak ones, and what linkers merge (COMDAT, common).
        undefined: what it needs from elsewhere.
        hidden: definitions that a library does not export.
        comdat: COMDAT groups and what is defined in them, of which every object of a program may
            have its own.
        functions: definitions that are code and that a library exports.
        late: functions that the compiler will export, which makes them at the link.
        of_tvm: those of objects that TVM compiled, or that are written for TVM's runtime.
        variables: definitions that are data, which no one can call.
        unique: definitions that the dynamic linker joins in all libraries of a process
            (STB_GNU_UNIQUE).
        own_calls: functions that a processor's calling convention allows registers for that C's does not (vectors
            of aarch64 and riscv), as their symbols say.
        executable_stack: what messages call the first object that says that it needs one, "" without.
        has_stack_note: all objects say whether they need one.
        complete: False if the real symbols are known to the compiler only (link-time optimization).
        is_archive: an archive, of which a linker takes what it needs.
    """

    def __init__(self, defined: Iterable[str] = ()) -> None:
        self.machine: ElfTarget | None = None
        self.defined = set(defined)
        self.weak: set[str] = set()
        self.undefined: set[str] = set()
        self.hidden: set[str] = set()
        self.comdat: set[str] = set()
        self.functions: set[str] = set()
        self.late: set[str] = set()
        self.of_tvm: set[str] = set()
        self.variables: set[str] = set()
        self.unique: set[str] = set()
        self.own_calls: set[str] = set()
        self.executable_stack = ""
        self.has_stack_note = True
        self.complete = True
        self.is_archive = False


def read(path: Path, label: str, also: Callable[[ElfFile], object] | None = None) -> ObjectSymbols:
    """Look into an object file or archive.

    Args:
        label: what messages call it.
        also: called with each object, when its symbols are read.

    Raises:
        OSError: it cannot be read.
        BuildError: it is neither.
        FormatError: it is damaged, or a shared library.
        IncompatibleError: members of an archive are for different machines.
    """
    contents = ObjectSymbols()
    file = map_file(path)
    contents.is_archive = file[:8] == AR_MAGIC
    for name, data in objects_of(file, label):
        elf = ElfFile(data, name)
        if elf.e_type != ET_REL:
            raise FormatError(
                f"{name}: ELF type {elf.e_type}, expected an object file (type {ET_REL});"
                " a shared library is linked with options=, not packed",
                code="elf_header",
                offset=16,
            )
        note = elf.section(".note.GNU-stack")
        if note is None:
            contents.has_stack_note = False
        elif note.sh_flags & SHF_EXECINSTR:
            contents.executable_stack = contents.executable_stack or name
        machine = machine_of(elf)
        if contents.machine is None:
            contents.machine = machine
        elif contents.machine.identity != machine.identity:
            raise IncompatibleError(
                f"{name} is for {machine}, other members of the archive for {contents.machine}"
            )
        _add_symbols(elf, contents)
        if also is not None:
            also(elf)
    contents.undefined -= contents.defined | contents.weak
    return contents


def machine_of(elf: ElfFile) -> ElfTarget:
    """The machine of an ELF file."""
    note = elf.section(".note.gnu.property") if elf.e_type == ET_REL else None
    properties = bytes(elf.contents(note)) if note and note.sh_size <= 4096 else b""
    return ElfTarget(
        bits=elf.bits,
        byte_order=elf.byte_order,
        e_machine=elf.e_machine,
        e_flags=elf.e_flags,
        os_abi=elf.os_abi,
        properties=properties,
        name=elf.machine,
    )


def _add_symbols(elf: ElfFile, contents: ObjectSymbols) -> None:
    merged, groups = _comdat_groups(elf)
    functions: set[str] = set()
    names: tuple[list[str], list[str]] = ([], [])  # undefined, defined
    for i, s in enumerate(elf.symtab, 1):
        # target_clones shares the resolver, and the function is the user's
        is_own = s.type == STT_GNU_IFUNC and s.binding == STB_GLOBAL
        if i in groups and s.name and not is_own:
            contents.comdat.add(s.name)
        if s.binding == STB_LOCAL:
            continue
        names[s.is_defined].append(s.name)
        if s.binding == STB_GNU_UNIQUE:
            contents.unique.add(s.name)
        if s.name.startswith("__gnu_lto_") and not s.name.endswith("_v1"):
            contents.complete = False
        if s.is_defined and not s.is_exported:
            contents.hidden.add(s.name)
        elif is_code(elf, s):
            functions.add(s.name)
            if s.st_other & _VARIANT and elf.e_machine in (EM_AARCH64, EM_RISCV):
                contents.own_calls.add(s.name)
        if is_data(elf, s):
            contents.variables.add(s.name)
        if s.st_shndx in merged and not is_own:
            contents.comdat.add(s.name)
        if not s.is_defined:
            contents.undefined.add(s.name)
        elif (
            s.binding in (STB_WEAK, STB_GNU_UNIQUE)
            or s.st_shndx == SHN_COMMON
            or s.st_shndx in merged
        ):
            contents.weak.add(s.name)
        elif s.binding == STB_GLOBAL:
            contents.defined.add(s.name)
    contents.functions |= functions
    if any(s.name.startswith(".gnu.lto_") for s in elf.sections):
        contents.complete = False
        for late in _lto_symbols(elf):
            names[late.kind in _DEFINED].append(late.name)
            if late.is_exported_function:
                contents.late.add(late.name)
                functions.add(late.name)
    undefined, defined = names
    if is_tvm_code(defined, undefined):
        contents.of_tvm |= functions


# STO_AARCH64_VARIANT_PCS, STO_RISCV_VARIANT_CC
_VARIANT = 0x80


def is_code(elf: ElfFile, symbol: Symbol) -> bool:
    """True if an object defines a symbol as a function."""
    if symbol.type == STT_NOTYPE:  # as assemblers leave it
        return bool(_section_flags(elf, symbol) & SHF_EXECINSTR)
    return symbol.is_defined and symbol.type in (STT_FUNC, STT_GNU_IFUNC)


def is_data(elf: ElfFile, symbol: Symbol) -> bool:
    """True if a file defines a symbol as a variable. An absolute address may be either."""
    if symbol.type == STT_NOTYPE:
        return _section_flags(elf, symbol) & (SHF_ALLOC | SHF_EXECINSTR) == SHF_ALLOC
    return symbol.is_defined and symbol.type in (STT_OBJECT, STT_COMMON, STT_TLS)


def _section_flags(elf: ElfFile, symbol: Symbol) -> int:
    """Of the section that a symbol is in; 0 if it is in none."""
    sections = elf.sections
    at = symbol.st_shndx
    return sections[at].sh_flags if 0 < at < len(sections) else 0


_DEFINED, _EXPORTED, _LTO_FUNCTION = (0, 1), (0, 1), 1  # gcc's plugin-api.h: ld_plugin_symbol


class _LtoSymbol(NamedTuple):
    name: str
    kind: int
    visibility: int
    type: int

    @property
    def is_exported_function(self) -> bool:
        return self.kind in _DEFINED and self.visibility in _EXPORTED and self.type == _LTO_FUNCTION


def lto_functions(elf: ElfFile) -> list[str]:
    """The functions that an object for link-time optimization exports."""
    return [s.name for s in _lto_symbols(elf) if s.is_exported_function]


def _lto_symbols(elf: ElfFile) -> Iterator[_LtoSymbol]:
    """The symbols of an object for link-time optimization, as gcc 10 and later list them for
    linkers.

    Two sections have the symbols in one order: name, name of the group, kind, visibility, size,
    number; and behind the version, type and kind of section.
    """
    named = {s.name: s for s in elf.sections if s.name.startswith(_LTO)}
    for title, section in named.items():
        extension = named.get(title.replace(_LTO + "symtab", _LTO + "ext_symtab"))
        if title.startswith(_LTO + "symtab") and extension is not None:
            data, types = bytes(elf.contents(section)), elf.contents(extension)
            at = 0
            for kind in types[1::2]:
                end = data.find(b"\0", at)
                group_end = data.find(b"\0", end + 1)
                if end < 0 or group_end < 0 or len(data) - group_end < 15:
                    break
                name = data[at:end].decode(errors="replace")
                yield _LtoSymbol(name, data[group_end + 1], data[group_end + 2], kind)
                at = group_end + 15


def _comdat_groups(elf: ElfFile) -> tuple[set[int], set[int]]:
    """Of COMDAT groups (gABI: flag GRP_COMDAT, then section indices) their sections, and the
    symbols that name them."""
    members: set[int] = set()
    names: set[int] = set()
    for section in elf.sections:
        if section.sh_type == SHT_GROUP:
            raw = elf.contents(section)
            words = elf.numbers("I", section.sh_offset, len(raw) // 4)
            if words and words[0] & 1:
                members.update(words[1:])
                names.add(section.sh_info)
    return members, names


_LTO = ".gnu.lto_."
_CXX_LIBRARY = ("_ZTVN10__cxxabiv1", "_ZNSt", "_ZNKSt", "_ZSt", "_ZTISt", "_ZTVSt", "_ZTTSt", "_Znwm", "_Znwj", "_Znam",
                "_Znaj", "_ZdlPv", "_ZdaPv", "__gxx_personality_", "__cxa_")  # fmt: skip
_OF_C_LIBRARY = ("__cxa_finalize", "__cxa_atexit", "__cxa_at_quick_exit")


def needs_cxx(contents: Sequence[ObjectSymbols], options: Sequence[str]) -> bool:
    """True if objects need the C++ library, and no option of the link names one."""
    if any(
        o.startswith("-lc++") or ("stdc++" in o and not o.startswith("-static")) for o in options
    ):
        return False
    needed = {name for c in contents for name in c.undefined} - {
        n for c in contents for n in c.defined | c.weak
    }
    return any(name.startswith(_CXX_LIBRARY) and name not in _OF_C_LIBRARY for name in needed)


def needs_fortran(contents: Sequence[ObjectSymbols], options: Sequence[str]) -> bool:
    """True if objects need the library of gfortran, and no option of the link names it."""
    if any("gfortran" in o for o in options):
        return False
    return any(name.startswith("_gfortran_") for c in contents for name in c.undefined)


# -- files -----------------------------------------------------------------------------------------


def objects_in(path: Path, label: str) -> Iterator[tuple[str, memoryview]]:
    """Name and bytes of the object in a file, or of each object in an archive, which is called
    `label(member)`.

    Raises:
        OSError: it cannot be read.
        BuildError: it is neither.
        FormatError: the archive is damaged, or has a member that is no object.
    """
    return objects_of(map_file(path), label)


def objects_of(data: memoryview, label: str) -> Iterator[tuple[str, memoryview]]:
    """As `objects_in`, of a file in memory; what is given are parts of it.

    Raises:
        BuildError, FormatError: as of `objects_in`.
    """
    if not data:
        raise BuildError(f"{label}: an empty file, expected an object file or an archive")
    if data[:8] == THIN_MAGIC:
        raise BuildError(
            f"{label}: a thin archive holds no objects itself; make a full one (ar without T)"
        )
    if data[:8] != AR_MAGIC:
        if data[:4] != ELF_MAGIC:
            start = bytes(data[:8])
            if not bytes(data[:512]).strip(b"\0"):
                raise BuildError(
                    f"{label}: it begins with zeros: a tar archive without files, or a damaged file; expected an ELF"
                    " object file or an archive"
                )
            what = " (LLVM bitcode: compile without -flto)" if start[:4] == b"BC\xc0\xde" else ""
            if all(32 <= c < 127 or c in b"\t\n\r" for c in start):
                what += "; pack a source with csource_module"
            raise BuildError(
                f"{label}: expected an ELF object file or an archive, found a file that starts with {start!r}{what}"
            )
        yield label, data
        return
    is_empty = True
    for found in archive.members(data, label):
        is_empty = False
        yield found
    if is_empty:
        raise BuildError(f"{label}: an archive without members, expected objects in it")


# -- checks before the link ------------------------------------------------------------------------


def check_machine(contents: ObjectSymbols, label: str, expected: ElfTarget, compiler: str) -> None:
    """Refuse an object for another machine than the compiler's.

    Raises:
        IncompatibleError: naming both, and what to do.
    """
    found = contents.machine
    if found is not None and found.identity != expected.identity:
        raise IncompatibleError(
            f"{label} is for {found}, the compiler {compiler} links for {expected};"
            f" pass cc= of a compiler for {found.name}, or an object for {expected.name}"
        )


def check_blobs(files: Sequence[tuple[str, ObjectSymbols]], symbol: str) -> None:
    """Refuse packed modules of another library among the inputs, such as TVM's `devc.o`. They would
    lie in the library beside `symbol`, and no runtime would read them.

    Raises:
        BuildError: naming the file, the symbol, and what to do.
    """
    for label, contents in files:
        defined = contents.defined | contents.weak | contents.hidden
        # behind a prefix, in libraries for static linking
        found = next(
            (n for n in sorted(defined) if n.endswith(system_library_prefixes.BLOBS)), None
        )
        if found is not None:
            raise BuildError(packed_already(label, found, symbol))


def packed_already(label: str, found: str, symbol: str) -> str:
    """The error text for an input that holds packed modules."""
    return (
        f"{label} defines {found}, the packed modules of another library (TVM's devc.o is such an object): no runtime"
        f" would read them beside {symbol} of this one; leave it out, and pack each module in it again:"
        " extract writes their payloads, blob_module packs one"
    )


def check_duplicates(files: Sequence[tuple[str, ObjectSymbols]]) -> None:
    """Refuse two strong definitions of one name.

    Raises:
        ToolchainError: naming the symbol and both files.
    """
    owners: dict[str, str] = {}
    for label, contents in files:
        for name in sorted(contents.defined):
            other = owners.get(name)
            owners[name] = label
            if other is not None:
                raise ToolchainError(
                    f"{shown_name(name)} is defined twice: in {other} and in {label}; rename one of them, or make it"
                    " static"
                )


# -- functions, as far as debug information tells --------------------------------------------------


def functions_of(
    elf: ElfFile, whole: bool = False, local: list[str] | None = None
) -> list[Function]:
    """The functions that an object defines, as far as debug information tells.

    Args:
        whole, local: as of `mblob.packager.objects.debug_info.functions`.
    """
    if not whole and not has_debug_info(elf):
        return []
    from mblob.packager.objects.debug_info import functions  # it imports pyelftools

    return functions(elf, whole, local=local)


def finished_functions(elf: ElfFile, names: Collection[str]) -> list[Function]:
    """The functions of some names that a finished library exports, as far as debug information tells:
    as of `mblob.packager.objects.debug_info`."""
    if not has_debug_info(elf):
        return []
    from mblob.packager.objects.debug_info import finished_functions  # it imports pyelftools

    return finished_functions(elf, names)


def exclude_debug_sections(path: Path, elf: ElfFile) -> None:
    """Mark the debug information of an object file, in place, as what a link leaves out (gABI:
    SHF_EXCLUDE)."""
    record = elf.layout.shdr
    with path.open("r+b") as file:
        for i, section in enumerate(elf.sections):
            if section.name.startswith((".debug_", ".zdebug_", ".rela.debug_", ".rel.debug_")):
                file.seek(elf.e_shoff + i * elf.e_shentsize + record.offset_of("sh_flags"))
                file.write(record.encode("sh_flags", section.sh_flags | SHF_EXCLUDE))


def has_debug_info(elf: ElfFile) -> bool:
    """True if an object describes types, in its own sections or in those that wait for link-time
    optimization."""
    names = {f"{prefix}info" for prefix in DEBUG_PREFIXES}
    return any(section.name in names for section in elf.sections)
