"""The error for a function that the caller asks for, and that no object exports: what debug information
says of it, which is read once more, with functions that have no symbol of their own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from mblob.binary.debug_sections import debug_information
from mblob.binary.dwarf_functions import LIBRARY_NAMESPACES
from mblob.binary.dwarf_types import (
    DEPTH,
    RECORDS,
    CType,
    children,
    name_of,
    referred,
    text_of,
    type_of,
    unnamed,
)
from mblob.binary.elf import ElfFile
from mblob.binary.function_names import MANGLED, cxx_names, shown_name
from mblob.bytes.mapping import map_file
from mblob.errors import did_you_mean, listed
from mblob.format.exported_functions import FFI_PREFIX, is_helper
from mblob.packager.compile.call_attributes import own_text, without_code
from mblob.packager.compile.commands import language, preprocess_command
from mblob.packager.compile.host_objects import HostFile, LinkInput, source_file
from mblob.packager.compile.processes import Job, run_all
from mblob.packager.compile.toolchain import Toolchain
from mblob.packager.errors import BuildError
from mblob.packager.functions.callers import caller
from mblob.packager.modules.nodes import OPERATOR, HostNode, SourceNode, without_arguments
from mblob.packager.modules.prototypes import STATIC
from mblob.source_suffixes import OF_C


def undefined(
    name: str,
    result_type: str,
    defined: Collection[str],
    files: Sequence[LinkInput],
    texts: Callable[[], Sequence[str]],
) -> BuildError:
    """The error for a function that nobody defines.

    Args:
        name: as the caller has it, with namespaces and classes or without, with arguments of a template or
            without; or a symbol of C++.
        result_type: of the prototype.
        defined: symbols of all objects.
        files: all that may define it.
        texts: gives the sources, as of `own_texts`.
    """
    asked, name = name, without_arguments(name)
    *_, last = name.split("::")
    functions = [function for f, _ in files for function in f.functions]
    ends = [f for f in functions if f.qualified.endswith(f"::{name}")]
    qualified = sorted({f.name: f.qualified for f in reversed(ends)}.values())  # the shorter one
    if len(qualified) > 1:
        return BuildError(
            f"functions: {name} is in several namespaces: its name is {' or '.join(qualified)}"
        )
    cut: list[str] = []
    if why := next(filter(None, (_reason(asked, f, c, cut) for f, c in files)), ""):
        return BuildError(f"functions: {name} cannot be called: {why}")
    of_fortran = (f for f in functions if f.source_name.rpartition("::")[2] == last.lower())
    if procedures := sorted({f.called for f in of_fortran}):
        of_module = any("::" in procedure for procedure in procedures)
        which = "of a module" if of_module else "that its source gives another name, by bind(C)"
        return BuildError(
            f"functions: {name} is a procedure {which}: its name is {' or '.join(procedures)}"
        )
    library = next((f for f, _ in files if f.elsewhere), None)
    if library is not None and (why := _in_library(name, library)):
        return BuildError(f"functions: {name}: {library.label} has {why}")
    is_cxx = any(f.cxx for f, _ in files)
    if why := next(filter(None, (_without_code(name, text, is_cxx) for text in texts())), ""):
        return BuildError(f"functions: {name} cannot be called: {why}")
    symbols = sorted(d for d in defined if d == name or cxx_names(d)[-1:] == [last])
    if symbols:
        return BuildError(f"functions: {_of_cxx(name, result_type, symbols, files)}")
    of_c = f"if it is static, {STATIC}"
    of_cxx = "if it is static, remove static in the source; if inline or a template, give a function that calls it"
    known = {f.called for f in functions}.union(d for d in defined if not d.startswith(MANGLED))
    if library is not None:
        known.update(n for n in library.exports if not (is_helper(n) or n.startswith(MANGLED)))
    why = f"check the name, or give the source or object that has it; {of_cxx if is_cxx else of_c}"
    why += did_you_mean(name, sorted(known))
    if cut:
        why += f"; of the debug information of {cut[0]}, {_MOST} entries were read, and it has more"
    where = "no kernel or object" if library is None else f"neither {library.label} nor new code"
    return BuildError(f"functions: {where} defines {name!r}: {why}")


def _of_cxx(name: str, result_type: str, symbols: Sequence[str], files: Sequence[LinkInput]) -> str:
    """The end of an error: functions of C++ that have the last part of a name, and what to do.

    Args:
        symbols: these functions.
    """
    described = {function.name for f, _ in files for function in f.functions}
    names = sorted(set(map(shown_name, symbols)))
    if described.issuperset(symbols):
        return f"no function has the name {name}; there is {' and '.join(names)}: write its name so"
    label = next(f.label for f, c in files if not (c.defined | c.weak).isdisjoint(symbols))
    others = f"; or of {listed(symbols[1:], 3)}" if symbols[1:] else ""
    return (
        f"{label} has {' and '.join(names)}, of C++, and no debug information that tells the types: compile it with"
        f" -g, or write the symbol as the name, as {result_type} {symbols[0]}(...){others}, unless it is a method"
    )


def _in_library(name: str, library: HostFile) -> str:
    """The end of an error: the functions of a name in a finished library that are no plain C functions, and what to do;
    "" without any."""
    if not {name, FFI_PREFIX + name}.isdisjoint(library.exports):
        return (
            "a packed function of this name, which programs call as it is: leave the name out, or give a kernel that"
            " defines another function of the name"
        )
    last = name.rpartition("::")[2]
    names = sorted({shown_name(s) for s in library.exports if cxx_names(s)[-1:] == [last]})
    if name in names:
        return (
            "it as a function of C++, and nothing tells its types, as there is no debug information of it: give a"
            ' kernel with an extern "C" function that calls it'
        )
    return f"the function {' or '.join(names)}: write its name so" if names else ""


def _without_code(name: str, text: str, is_cxx: bool) -> str:
    """The reason why a compiler made no code of a function in a source, and what to do; "" if it is none
    of these."""
    found = without_code(text, name)
    if found is None:
        return ""
    if "template" in found.words:
        return f"it is a template: {_CALLER}"
    is_static = found.words == ("static",) and not is_cxx
    remedy = STATIC if is_static else f"remove {' and '.join(found.words)} in the source"
    if "consteval" not in found.words:
        remedy += f", or {_CALLER}{': ' * bool(found.caller)}{found.caller}"
    return f"it is {' '.join(found.words)}, and has no code of its own: {remedy}"


_CALLER = "give a function that calls it"


# -- what sources say ---------------------------------------------------------------------------------


def own_texts(
    tools: Toolchain, nodes: Sequence[HostNode], options: Sequence[str], work: Path
) -> list[str]:
    """The preprocessed sources in C and C++, without what headers of the system have.

    Raises:
        ToolchainError: one cannot be preprocessed.
    """
    jobs = []
    for i, node in enumerate(nodes):
        if isinstance(node, SourceNode) and language(node) in OF_C:
            path, label = source_file(node, i, work)
            command = preprocess_command(tools, node, path, f"own{i}.i", options, work, ())
            jobs.append(Job(label, command))
    run_all(jobs, work)
    return [own_text((work / job.output).read_text("utf-8", "surrogateescape")) for job in jobs]


# -- what debug information says -------------------------------------------------------------------

_SYMBOL = "DW_AT_linkage_name"
_SCOPES = ("DW_TAG_namespace", *RECORDS)
_MOST = 200_000  # entries of one object that are read for an error: some seconds


def _reason(name: str, file: Any, contents: Any, cut: list[str]) -> str:
    """The reason why a function of an object has no symbol that can be called, and what to do; "" if the object
    does not tell.

    Args:
        cut: gets the name of an object that has more entries than are read.
    """
    if file.generated or contents.is_archive:
        return ""
    try:
        elf = ElfFile(map_file(file.path), file.label)
        dwarf = debug_information(elf)
        if dwarf is None:
            return ""
        tops = (unit.get_top_DIE() for unit in dwarf.iter_CUs())
        read_entries = list(islice((entry for top in tops for entry in _entries(top)), _MOST + 1))
        if len(read_entries) > _MOST:
            cut.append(file.label)
        found = [e for e in read_entries if e[1].tag == "DW_TAG_subprogram"]
        found.sort(key=lambda entry: not _is_named(name, entry[1]))
        written = {d.get_DIE_from_attribute("DW_AT_specification").offset: d for _, d in found
                   if "DW_AT_specification" in d.attributes}  # fmt: skip
        for scopes, die in found:
            if _is_called(name, scopes, die):
                definition = written.get(die.offset, die)
                if why := _why(scopes, die, definition, elf.bits // 8, contents.comdat):
                    return why
    except Exception:  # pyelftools checks little, so damage makes it raise any of Python's errors
        pass
    return ""


def _entries(top: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The entries of a unit and of its namespaces and classes, with those around them."""
    left: list[tuple[Any, tuple[Any, ...]]] = [(top, ())]
    while left:
        scope, around = left.pop()
        for die in children(scope):
            yield around, die
            is_scope = die.tag in _SCOPES and name_of(die) not in LIBRARY_NAMESPACES
            if is_scope and len(around) < DEPTH:
                left.append((die, (*around, die)))


def _name(die: Any) -> str:
    """Without the arguments of a template."""
    return without_arguments(name_of(die).decode(errors="replace"))


def _is_inline(definition: Any) -> bool:
    """True if the source says so. Compilers inline others, too, and tell that."""
    found = definition.attributes.get("DW_AT_inline")
    return found is not None and found.value in _DECLARED_INLINE


_DECLARED_INLINE = (2, 3)  # DW_INL_declared_not_inlined, DW_INL_declared_inlined


def _is_named(name: str, die: Any) -> bool:
    """True if a name has the arguments of the template that an entry has, too."""
    return name_of(die).decode(errors="replace").replace(" ", "") == _last(name).replace(" ", "")


def _last(name: str) -> str:
    """A name without namespaces, which arguments of a template may have."""
    bare = without_arguments(name)
    return bare.rpartition("::")[2] + name[len(bare) :]


def _is_called(name: str, scopes: Sequence[Any], die: Any) -> bool:
    names = [n for n in (*map(_name, scopes), _name(die)) if n]
    is_one = f"::{'::'.join(names)}".endswith(f"::{without_arguments(name)}")
    return bool(_name(die)) and (is_one or text_of(die, _SYMBOL).decode() == name)


def _why(
    scopes: Sequence[Any], die: Any, definition: Any, pointer_size: int, shared: Collection[str]
) -> str:
    """The kind of a function, and a function that calls it; "" of one that can be called.

    Args:
        definition: its entry with code, which has the names of its parameters.
        shared: symbols that other objects may have, too (comdat).
    """
    name, attributes = _name(die), die.attributes
    owners = [scope for scope in scopes if scope.tag in RECORDS]
    spaces = [_name(scope) for scope in scopes if scope.tag not in RECORDS]
    is_template = any(name_of(d) != _name(d).encode() for d in (*owners, die))
    first, called, remedy = "", name, _CALLER
    result = type_of(referred(die), pointer_size)
    if owners:
        owner = "::".join(map(_name, owners))
        where = "::".join(filter(None, [*spaces, owner]))
        what, called = f"a static member function of {where}", f"{owner}::{name}"
        if any("DW_AT_artificial" in c.attributes for c in _parameters(die)):  # this
            what, called = f"a method of {where}", f"self->{name}"
            first = f"{'const ' * _is_const(die)}{owner} *self"
        if name == _name(owners[-1]):
            what, first, called = f"a constructor of {where}", "", f"new {owner}"
            result = CType("pointer", pointer_size, f"{owner} *")
        if _is_private(die, owners[-1]):
            remedy = f"make it public, and {remedy}"
    elif is_template:
        what, called = "a template", name_of(die).decode(errors="replace")
    elif "" in spaces:
        what = "in an anonymous namespace, which exports nothing"
    elif "DW_AT_external" not in attributes:
        what = "static"
        is_cxx = _SYMBOL in attributes or bool(spaces)
        remedy = f"{'remove static in the source' if is_cxx else STATIC}; or {remedy}"
    elif _is_inline(definition) or text_of(die, _SYMBOL).decode() in shared:
        what, remedy = "inline", f"remove inline or constexpr in the source, or {remedy}"
    elif name.startswith(OPERATOR):
        what = "an operator"
    else:
        return ""
    line = ""
    if not name.startswith("~") and not (owners and is_template):
        declared, found = _parameters(die), _parameters(definition)
        names = map(_name, found) if len(found) == len(declared) else [""] * len(declared)
        passed = [(c, n) for c, n in zip(declared, names) if "DW_AT_artificial" not in c.attributes]
        if all(_is_known(referred(c), spaces) for c in (*(c for c, _ in passed), die)):
            types = [(type_of(referred(c), pointer_size), n) for c, n in passed]
            around = spaces[: spaces.index("")] if "" in spaces else spaces
            new = OPERATOR if name.startswith(OPERATOR) else name
            line = caller(new, called, result, types, around, first=first)
    return f"it is {what}: {remedy}{': ' * bool(line)}{line}"


def _parameters(die: Any) -> list[Any]:
    return [c for c in children(die) if c.tag == "DW_TAG_formal_parameter"]


def _is_const(die: Any) -> bool:
    """True if a method is one of constant objects."""
    return bool(unnamed(referred(unnamed(referred(_parameters(die)[0]))[0]))[2])


def _is_private(die: Any, owner: Any) -> bool:
    access = die.attributes.get("DW_AT_accessibility")
    return bool(owner.tag == "DW_TAG_class_type" if access is None else access.value != 1)


def _is_known(die: Any, spaces: Sequence[str]) -> bool:
    """True if the name of a type is one in namespaces, and it is no rvalue reference."""
    for _ in range(DEPTH):
        if die is None or "DW_AT_type" not in die.attributes or die.tag == "DW_TAG_typedef":
            break
        if die.tag == "DW_TAG_rvalue_reference_type":
            return False
        die = referred(die)
    names: list[str] = []
    while die is not None and (die := die.get_parent()) is not None and die.tag in _SCOPES:
        names.insert(0, _name(die))
    return list(spaces[: len(names)]) == names
