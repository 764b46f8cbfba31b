"""Checks on the objects of the host modules that need the prototypes: who defines what was
declared."""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mblob.binary.elf_records import ET_DYN
from mblob.errors import HiddenNameWarning, MblobError, PortabilityWarning, did_you_mean
from mblob.format.exported import FFI_PREFIX
from mblob.format.functions_table import Row
from mblob.format.grammar import GRAMMARS
from mblob.format.type_keys import (
    CONST_LOADER,
    EXECUTORS,
    GRAPHS,
    METADATA,
    METADATA_MODULE,
    RELAY_EXECUTABLE,
    SAFETENSORS,
)
from mblob.inspect import tvm_executor
from mblob.module import Module, listed
from mblob.packager.compile.host_objects import HostFile
from mblob.packager.conventions import ATTRIBUTES, REFUSED
from mblob.packager.errors import BuildError, warn
from mblob.packager.functions import signatures
from mblob.packager.functions.slot_shims import SLOTS
from mblob.packager.functions.wrappers import Wrapped
from mblob.packager.modules.nodes import SUFFIXES, HostNode, PayloadNode, node_of
from mblob.packager.modules.prototype_text import STATIC
from mblob.packager.objects.object_files import ObjectSymbols
from mblob.packager.objects.rename import rename_symbols
from mblob.packager.options import may_define
from mblob.packager.write.dialects import Dialect

if TYPE_CHECKING:
    from mblob.packager.link.request import Request


def warn_of_graphs(module: Module, dialect: Dialect) -> None:
    """Warn of graphs of a tree that TVM's graph executor cannot read. Those with a text were read
    when made."""
    for node in _executors(module, dialect):
        if node.text is None and (
            problem := tvm_executor.read_problem(node.type_key, node.payload(), GRAMMARS)
        ):
            warn(
                f"{node.type_key}: TVM's graph executor cannot run its graph: {problem}",
                PortabilityWarning,
            )


def warn_of_functions(
    request: Request, rows: Sequence[Row], files: Sequence[tuple[HostFile, ObjectSymbols]] | None,
    library: Path | None = None,
) -> None:  # fmt: skip
    """Warn of functions that an attribute of modules hides; and of executors of a tree that call
    plain C functions, which crashes TVM's, or functions that no module has.

    Args:
        rows: of the library's table of functions, which executors look up by their symbols.
        files: all that is linked; None if the caller compiles.
        library: what was linked of them; None if that is done elsewhere.
    """
    for row in rows:
        if row.abi == "packed" and hasattr(Module, row.name):
            warn(
                f"the function {row.name!r} has the name of an attribute of modules: call it as lib[{row.name!r}](...)",
                HiddenNameWarning,
            )
    executors = list(_executors(request.module, request.dialect))
    if not executors:
        return
    linked = None if library is None else _linked(library)
    exported = None if linked is None else linked[0]
    rows = [row for row in rows if exported is None or row.symbol in exported]
    plain = {row.name for row in rows if row.abi == "plain"}
    found = {row.name for row in rows if row.abi == "plain" and row.symbol == row.name}
    packed = {name for row in rows if row.abi == "packed" for name in (row.name, row.symbol)}
    known = None if request.fpack_imports else _known_functions(request, files, linked)
    hidden = {
        name
        for f, c in files or ()
        for name in (*c.hidden, *c.defined, *c.weak, *(g.name for g in f.functions))
    }
    for node in executors:
        called = tvm_executor.called_functions(node.type_key, _facts(node))
        if node.text is not None and not request.fpack_imports:
            called = [request.names.get(name, name) for name in called]
        why = tvm_executor.crash(called, found, plain - packed, announced=request.system_lib)
        if why is not None:
            warn(f"{node.type_key}: {why}", PortabilityWarning)
        # Others call functions of the runtime too, or one whose name depends on the release.
        by_name = node.type_key in (*GRAPHS, RELAY_EXECUTABLE)
        if (
            by_name
            and known is not None
            and (why := tvm_executor.missing(called, known | plain | packed, hidden))
        ):
            warn(f"{node.type_key}: {why}", PortabilityWarning)


# Who provides symbols to a library when it is opened, or at any time.
_PRESENT = re.compile(
    r"TVM runtime|tvm_ffi|libmblob|dynamic linker|linker$|compiler$|libgcc|libmvec|Python"
)


def warn_of_undefined(library: Path) -> None:
    """Warn of symbols of a linked library that nothing defines: neither what was linked, nor the
    libraries that it needs, nor the runtime that opens it."""
    from mblob.inspect.library import Library

    try:
        with Library(library, verify="off", partial=True) as found:
            # the linker wrote the version, or the file, of what it found
            unknown = {
                u.name: u.provider
                for u in found.undefined_symbols
                if not (u.weak or u.version or u.library or _PRESENT.match(u.provider or ""))
            }
            if not unknown:  # of nearly all libraries
                return
            from mblob.inspect.library_search import shared_elf
            from mblob.inspect.linkage import resolve

            elf = shared_elf(found)
            if elf is None:
                return
            linkage = resolve(elf, str(library), (), "/")
    except (MblobError, OSError):  # of another machine, or the linker of somebody else
        return
    if linkage.missing_libraries:
        return
    names = [r.name for r in linkage.unresolved if r.name in unknown]
    if names:
        told = [f"{n} (of {unknown[n]})" if unknown[n] else n for n in names[:_NAMED]]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        warn(
            f"nothing that is linked defines {', '.join(told)}{more}: opening the library fails unless the process"
            " has it; add the object or the library (-lNAME as an option of the linker) that defines it",
            PortabilityWarning,
        )


_NAMED = 12  # symbols that one warning names
_Linked = tuple[set[str], list[str]]  # what a library exports, what it needs


def _linked(library: Path) -> _Linked | None:
    """What became of the link; None if it made no shared library that tells."""
    from mblob.inspect.library import Library

    try:
        with Library(library, verify="off", partial=True) as found:
            if found.elf.e_type != ET_DYN:
                return None
            return {s.name for s in found.elf.dynsym if s.is_exported}, found.elf.needed
    except MblobError:  # the linker of somebody else
        return None


# Libraries that compilers link, of which executors call nothing.
_SYSTEM = re.compile(
    r"(lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|c\+\+)|ld-[\w-]+|libc\.musl-\w+)\.so[.\d]*"
)


def _known_functions(
    request: Request, files: Sequence[tuple[HostFile, ObjectSymbols]] | None, linked: _Linked | None
) -> set[str] | None:
    """Names under which modules of a tree may have functions; None if more may come from what
    nobody can look into."""
    known: set[str] = set()
    if linked is not None:
        known, needed = linked
        by_others = files is None or any(o.startswith("-Wl,") for o in request.options)
        unseen = by_others and not all(map(_SYSTEM.fullmatch, needed))
    elif files is None:
        return None
    else:
        unseen = any(not c.complete and not (f.own and f.functions) for f, c in files)
        for f, c in files:
            known |= (
                (c.defined | c.weak) - c.hidden
                if c.complete
                else {function.name for function in f.functions}
            )
    options = [o for o in request.options if linked is None or not o.startswith("-Wl,")]
    if unseen or any(map(may_define, options)):
        return None
    if any(addon.suffix not in (*SUFFIXES, ".o", ".a") for addon in request.addons):
        return None
    for module in request.module.walk():
        node = node_of(module)
        name = node.only_function if isinstance(node, PayloadNode) else None
        if name is not None:
            known.add(name)
        elif not isinstance(node, HostNode) and module.type_key not in _WITHOUT_FUNCTIONS:
            return None  # its runtime knows
    return known


def _executors(module: Module, dialect: Dialect) -> Iterator[PayloadNode]:
    """What TVM's executors of the classic dialect open in a tree."""
    for node in map(node_of, module.walk() if not dialect.is_ffi else ()):
        if isinstance(node, PayloadNode) and node.type_key in EXECUTORS:
            yield node


def _facts(node: PayloadNode) -> Mapping[str, Any]:
    if node.text is not None and node.type_key in GRAPHS:
        from mblob.inspect.graph_summary import summarize

        return {"graph": summarize(memoryview(node.text.encode()))}
    from mblob.inspect.contents import read_content

    return read_content(node.type_key, node.payload(), GRAMMARS).facts


# Kinds whose functions are those of their imports, or their own by fixed names.
_WITHOUT_FUNCTIONS = (*EXECUTORS, CONST_LOADER, METADATA, METADATA_MODULE, SAFETENSORS)


def check_functions(
    wrapped: Sequence[Wrapped],
    named: Sequence[str],
    files: Sequence[tuple[HostFile, ObjectSymbols]],
) -> None:
    """Refuse a function that nobody defines, or that is a variable.

    Args:
        wrapped: plain functions, by their prototypes.
        named: packed functions, by their names.

    Raises:
        BuildError: naming the function, and what may be wrong.
    """
    if not all(c.complete for _, c in files):
        return  # link-time optimization: only the compiler knows the symbols
    defined = {name for f, c in files if not f.generated for name in c.defined | c.weak}
    for name in named:
        symbols = {name, f"{FFI_PREFIX}{name}"} & defined
        _refuse_variables(symbols, files)
        if not symbols:
            raise BuildError(
                f"functions: no object defines the packed function {name}{did_you_mean(name, defined)}"
            )
    for w in wrapped:
        name = w.prototype.name
        if name in defined:
            _refuse_variables({name}, files)
            continue
        scopes = [scope for d in defined if (scope := _cxx_scope(d, name)) is not None]
        if scopes:
            declaration = f'extern "C" {w.prototype.result_type} {name}(...);'
            why = "it is a C++ function; declare"
            if scope := scopes[0]:
                why = f"it is a C++ function of {scope}; if it is a method, call it in another function, else declare"
                declaration = f"namespace {scope} {{ {declaration} }}"
            why += (
                f" {declaration} before it, in the source or in a header that options=['-include','decl.h']"
                " (-- -include decl.h) reads"
            )
        else:
            why = f"check the spelling; if it is static, {STATIC}{did_you_mean(name, defined)}"
        raise BuildError(
            f"functions: {name} is declared, but no kernel or object defines it: {why}"
        )


def _cxx_scope(symbol: str, name: str) -> str | None:
    """The namespaces or classes around a C++ function of a name, "" if there are none; None if a
    symbol is another function (Itanium C++ ABI, 5.1.2: <unscoped-name>, <nested-name>)."""
    found = re.match(r"_Z(N?)", symbol)
    names: list[str] = []
    at = found.end() if found else len(symbol)
    while length := re.match(r"\d{1,4}", symbol[at:]):
        end = at + length.end() + int(length[0])
        names.append(symbol[at + length.end() : end])
        at = end
        if not (found and found[1]):
            break
    return "::".join(names[:-1]) if names and names[-1] == name else None


def _refuse_variables(
    names: Collection[str], files: Sequence[tuple[HostFile, ObjectSymbols]]
) -> None:
    for f, contents in files:
        for name in contents.variables.intersection(names):
            raise BuildError(
                f"functions: {name} is a variable in {f.label}, expected a function; give functions alone, or"
                f" write one that uses {name}"
            )


def check_prototypes(
    wrapped: Sequence[Wrapped], files: Sequence[tuple[HostFile, ObjectSymbols]]
) -> None:
    """Refuse a prototype that says something else than the source does, and a function that is not
    called as C does, as far as the source, debug information or the symbol tells.

    Raises:
        BuildError: naming the function and the difference.
    """
    if not wrapped:
        return
    known = {function.name: function for f, _ in files for function in f.functions}
    for w in wrapped:
        name = w.prototype.name
        function = known.get(name)
        own = _own_call(name, files)
        if own is not None or (function is not None and not function.is_ordinary):
            raise BuildError(f"functions: {name} {REFUSED.format(own or _OWN_CALL)}")
        if function is not None and (difference := signatures.contradiction(w.prototype, function)):
            raise BuildError(
                f"functions: {w.prototype.name}: the prototype {difference}; write it as the source has it"
            )


_OWN_CALL = " in the source (an attribute such as ms_abi or vectorcall)"


def _own_call(name: str, files: Sequence[tuple[HostFile, ObjectSymbols]]) -> str | None:
    """What tells that a function is not called as C does, None if nothing does."""
    for f, contents in files:
        machine = "" if contents.machine is None else contents.machine.name
        attribute = f.own_calls.get(name)
        if attribute in ATTRIBUTES.get(machine, ()):
            return f" in {f.label} ({attribute})"
        if name in contents.own_calls:
            return f" in {f.label} (its symbol says so)"
    return None


def check_exports(
    wrapped: Sequence[Wrapped], library: Path, known: Sequence[tuple[HostFile, ObjectSymbols]]
) -> None:
    """Refuse a library that does not export what its function table lists, or nothing of what was
    compiled for link-time optimization.

    Args:
        known: all objects.

    Raises:
        BuildError: naming the function.
    """
    late = [(f, c.late) for f, c in known if not c.complete]
    if not wrapped and not late:
        return
    from mblob.inspect.library import Library

    with Library(library, verify="off", partial=True) as found:
        exported = {s.name for s in found.elf.dynsym if s.is_exported}
        defined = exported | {s.name for s in found.elf.symtab}
    for f, names in late:
        if names and not names & defined:
            raise BuildError(
                f"{f.label}: the linker left out what was compiled with -flto ({listed(sorted(names), 6)}): it cannot"
                " read this compiler's objects; leave out -fuse-ld=, link with the compiler that made the objects, or"
                " compile without -flto"
            )
    missing = next(
        (row.symbol for w in wrapped for row in w.rows() if row.symbol not in exported), None
    )
    if missing is not None:
        raise BuildError(
            f"functions: {missing} is listed, but the library does not export it: -fvisibility=hidden, a version"
            ' script or an attribute hides it; mark the function __attribute__((visibility("default"))), or leave'
            " that option out"
        )


def hide_plain_functions(
    wrapped: Sequence[Wrapped], files: Sequence[tuple[HostFile, ObjectSymbols]], work: Path
) -> list[HostFile]:
    """Give functions whose packed function takes the bare name another, hidden one; in every object
    that uses them.

    Raises:
        BuildError: such a function is in an archive, or known to the compiler only.
    """
    names = {w.prototype.name: w.plain_symbol for w in wrapped if w.takes_name}
    if not names:
        return [f for f, _ in files]
    renamed: list[HostFile] = []
    for i, (f, contents) in enumerate(files):
        used = names.keys() & (contents.defined | contents.weak | contents.undefined)
        if f.generated or (not used and contents.complete):
            renamed.append(f)
            continue
        if contents.is_archive or not contents.complete:
            what = "an archive" if contents.is_archive else "compiled with -flto"
            raise BuildError(
                f"packed=: {f.label} is {what}, where {sorted(used or names)[0]} cannot be renamed;"
                " pass the object files themselves, compiled without -flto"
            )
        if not f.own:  # the caller's file stays as it is
            copy = work / f"hidden{i}.o"
            shutil.copyfile(f.path, copy)
            f = f._replace(path=copy, own=True)
        rename_symbols(f.path, names, f.label)
        renamed.append(f)
    return renamed


def missing_slots(files: Sequence[tuple[HostFile, ObjectSymbols]]) -> list[str]:
    """Runtime functions that objects call directly and nobody defines."""
    defined = {name for _, c in files for name in c.defined | c.weak}
    undefined = {name for _, c in files for name in c.undefined}
    return [name for name in SLOTS if name in undefined - defined]
