"""The code part of `mblob.add`: code joins a finished library or is linked with the objects of one.
It is imported with the first code: payloads alone need nothing that compiles or links."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from copy import copy
from pathlib import Path
from typing import Any

from mblob.errors import HiddenNameWarning, MblobError, PortabilityWarning, ToolchainError
from mblob.format.blob_plan import BlobPlan, OutEntry
from mblob.format.functions_table import Row
from mblob.format.type_keys import EXECUTORS, LIBRARY, RELAX_EXECUTABLES
from mblob.inspect.elf_judge import static_tls
from mblob.inspect.library import Library
from mblob.inspect.providers import undefined_symbols
from mblob.module import Module
from mblob.packager.edit.rewrite import unchanged, write_library
from mblob.packager.errors import BuildError, CannotJoinError, NameTakenError, warn
from mblob.packager.functions.slot_shims import SLOTS
from mblob.packager.join.join import check_machine, finished_code, join
from mblob.packager.join.reembed import check_can_move
from mblob.packager.link.export import export_library
from mblob.packager.link.finished_names import check_names_of_others
from mblob.packager.link.inputs import warn_of_own_functions
from mblob.packager.link.read_back import undefined_text
from mblob.packager.link.relink import has_blob, is_tar, parts_in, tree_of
from mblob.packager.link.request import check_dialect, dialect_of, dialects_with_sources
from mblob.packager.modules.host_modules import source_module
from mblob.packager.modules.nodes import DeclaredFunctions, HostNode, files_in, is_host, node_of
from mblob.packager.objects.object_files import machine_of
from mblob.packager.path_arguments import check_output, existing_file
from mblob.packager.write.blob_stream import producer
from mblob.packager.write.dialects import DIALECTS
from mblob.source_suffixes import FORMAT_OF
from mblob.temporary import replacing


def members_of(files: Sequence[Path], others: Sequence[Path]) -> tuple[Path, list[Path] | None]:
    """The file with the packed modules among the members of a library, or the first if none has any; and all members.

    Args:
        files: members and folders of members; or one member, and `others` has the rest.
        others: files that are added. Beside one member its objects are members, too, if one of all has the packed
            modules; and its sources, if that is a source.

    Returns:
        No members for a single file that is none of a library's, or that is a `.tar`.

    Raises:
        BuildError: a folder without members. OSError: no such file.
    """
    members = [existing_file(p, "add") for path in files for p in parts_in(path)]
    if len(members) == 1 and is_tar(members[0]):
        return members[0], None
    is_alone = len(files) == 1 and files == members
    together = [*members, *(p for p in others if is_alone and p.is_file())]
    found = next(filter(has_blob, together), None)
    if is_alone and found is None:
        return members[0], None
    objects = [path for path in members if path.suffix not in FORMAT_OF]
    if found is None and not objects:
        raise BuildError(
            f"{files[0]}: has sources and no packed modules (devc.o or devc.c), so it is no library to add to: pack it"
            " with build"
        )
    if is_alone and found is not None:
        is_of_sources = found.suffix in FORMAT_OF
        members += [p for p in together[1:] if is_of_sources or p.suffix not in FORMAT_OF]
    return found or objects[0], members


def without_code(functions: Sequence[str] | str) -> Module:
    """A host module without code, for functions of the library that it is added to."""
    return source_module("", "c", DeclaredFunctions(functions, None, "add"))


def link_again(
    library: Library,
    members: Sequence[Path],
    functions: Sequence[str] | str | None,
    new_imports: Sequence[Module],
    parameters: Module | None,
    code: Sequence[Module],
    target: Path,
    export_options: Mapping[str, Any],
) -> None:
    """Link the objects of a library with more code, with modules that the root imports, and with the
    parameters of its one Relax program.

    Args:
        library: the file with the packed modules.
        members: the `.tar` of its objects, or these.
        functions: of the objects, as of `static_library`.

    Raises:
        As of `static_library` and `export_library`. ChangedError: somebody replaced the file meanwhile.
    """
    path = library.path
    root = tree_of(members, DeclaredFunctions(functions, None, "add"))
    dialect = dialect_of(root)
    check_dialect([*code, *(m for new in new_imports for m in new.walk())], dialect, path)
    host = next(m for m in root.walk() if is_host(m))
    for module in code:
        host.import_module(module)
    for module in new_imports:
        root.import_module(module)
    if parameters is not None:
        program = next(m for m in root.walk() if m.type_key in RELAX_EXECUTABLES)
        program.import_module(parameters)
    export_options = {**export_options, "dialect": dialect}
    check_output(target, ((f"{what} {p}", p) for what, p in files_in(map(node_of, root.walk()))))
    with ExitStack() as held, replacing(target) as temporary:
        export_library(root, temporary, **export_options)
        held.enter_context(unchanged(library))  # until the new file has its name


def dialect_with(
    library: Library, modules: Sequence[Module], export_options: Mapping[str, Any]
) -> str:
    """The dialect of a library; if it has none, that of modules that are added.

    Raises:
        BuildError: they are of another dialect.
    """
    dialect = library.dialect or next(
        iter(dialects_with_sources(modules, **export_options)), "classic"
    )
    check_dialect(modules, dialect, library.path)
    return dialect


def with_code(
    library: Library,
    dialect: str,
    code: Sequence[Module],
    replace: bool,
    work: Path,
    export_options: Mapping[str, Any],
    *,
    runtime: Sequence[Row] | None = None,
    output: Path | None = None,
) -> tuple[Path, int]:
    """A copy of the library with more code, and with an empty blob at its end; and how many bytes of the
    old blob stay behind in it.

    Args:
        runtime: the new code is the runtime of a standalone library: what the library calls of it by name comes
            with it, and the blob stays where it is. Its rows of the table of functions.
        output: the copy; None: in `work`.

    Raises:
        BuildError: they cannot be joined.
        IncompatibleError, ToolchainError, OSError: as of `export_library`.
    """
    bare, joined, left = library.path, output or work / "joined.so", 0
    check_machine(machine_of(library.elf), str(library.path), work, export_options)
    if library.blob is not None and runtime is None:
        # Old payloads do not go with the code: they come into the blob behind it, from the library.
        check_can_move(library.elf, library.blob.symbol, library.path)
        tree = dialect == "ffi"
        alone = BlobPlan([OutEntry(LIBRARY, None)], dialect, has_tree=tree, producer=producer())
        bare = work / "bare.so"
        left = write_library(library, alone, bare, reuse=False, inputs={})
        left = left and len(library.blob_bytes())
    names = _declared(code)
    try:
        finished = finished_code(
            bare,
            work,
            export_options,
            needs_runtime=runtime is not None,
            asked=names,
            replaces=replace,
        )
        finished.rows = (*finished.rows, *(runtime or ()))
        root = Module(node=finished)
        for module in code:
            node = copy(node_of(module))
            node.imports = []
            root.import_module(Module(node=node))
        join(
            bare, root, joined, DIALECTS[dialect], work, export_options,
            hidden=lambda name: False if runtime is None else name in SLOTS, replaces=replace,
            keeps_blob=runtime is not None and library.blob is not None,
        )  # fmt: skip
    except MblobError as error:
        error.args = tuple(str(a).replace(str(bare), str(library.path)) for a in error.args)
        if isinstance(error, NameTakenError):
            models = [e.type_key for e in library.entries if e.type_key in EXECUTORS]
            called = (
                f", also where the {models[0]} calls it: if the new one is for something else, give it another name"
                if models
                else ""
            )
            raise BuildError(f"{error}; replace=True replaces it{called}") from None
        if isinstance(error, ToolchainError) and "__dso_handle" in error.output:
            place = error.output.partition(": undefined reference to `__dso_handle'")[0]
            place = Path(place.splitlines()[-1]).name if ".c" in place else ""  # as s.cc:2
            where = f" ({place})" if place else ""
            raise BuildError(
                f"the new code has static C++ objects with destructors{where}; {_RELINK}"
            ) from None
        if isinstance(error, CannotJoinError):
            raise BuildError(f"{error}; {_RELINK}") from None
        raise
    return joined, left


def check_joined(library: Library, joined: Library, options: Sequence[str]) -> None:
    """Warn of functions that nobody finds, as the model has one of the name; and of functions that a model may
    call and that are replaced.

    Args:
        options: of the linker; with `-z undefs` also a warning of symbols that nothing defines.

    Raises:
        BuildError: it defines what the library takes from others, or takes a symbol that nothing defines.
    """
    check_names_of_others(library.elf, joined.elf, str(library.path))
    old = {f.name for f in library.host_functions}
    new = (f.name for f in joined.host_functions if f.name not in old and f.abi != "plain")
    warn_of_own_functions(new, [e.type_key for e in library.entries])
    _warn_of_replaced(library, joined)
    if (text := static_tls(joined.elf)) and text != static_tls(library.elf):
        warn(text, PortabilityWarning)
    known = {u.name for u in undefined_symbols(library.elf)}
    if text := undefined_text(joined.elf, Path(library.path), known):
        if not any("undefs" in option.split(",") for option in options):
            raise BuildError(f"{text}, or, if the process has it, the option {_UNDEFINED}")
        warn(text, PortabilityWarning)


def _warn_of_replaced(library: Library, joined: Library) -> None:
    """Say which function a model calls after one of the library was replaced: a graph and bytecode, which
    have names, the new one, and machine code, which has addresses, the old one."""
    models = [e for e in library.entries if e.type_key in EXECUTORS]
    places = {s.name: s.st_value for s in joined.elf.dynsym if s.is_defined}
    moved = {
        s.name for s in library.elf.dynsym if s.is_defined and places.get(s.name) != s.st_value
    }
    replaced = dict.fromkeys(f.name for f in library.host_functions if f.symbol in moved)
    for name in replaced if models else ():
        called = name.encode()
        # as JSON has it, and as a stream has it
        named = re.escape(b'"%b"' % called), re.escape(len(called).to_bytes(8, "little") + called)
        callers = [e.type_key for e in models if re.search(b"|".join(named), e.view())]
        new = f", and so does the {callers[0]}: it must take the same" if callers else ""
        warn(
            f"{name!r} is replaced: programs call the new one{new}; machine code of the library that calls it"
            " keeps the old one",
            HiddenNameWarning,
        )


_UNDEFINED = "-Wl,-z,undefs"  # which linkers have, too, for libraries that may take any symbol
_RELINK = (
    "so it cannot join a finished library; link it with the objects of the library: export the model to a .tar, and"
    " give the .tar to build, with the new code"
)


def _declared(code: Sequence[Module]) -> set[str]:
    """Names of functions that the caller lists."""
    nodes = [node for node in map(node_of, code) if isinstance(node, HostNode)]
    declared = {p.name for node in nodes for p in node.declared.functions}
    return declared.union(*(node.declared.names for node in nodes))
