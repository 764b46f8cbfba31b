"""System libraries: a module tree as objects that are linked into a program, and announce
themselves there.

Compile as for a shared library, then give all symbols the prefix and hide them, in the objects; add
an object with the packed modules, and one that announces everything when the program starts.

The steps of `export.py` differ after `gather`: nothing is linked, so there is no `LinkLine`. All
objects, archives as their members, become files of our own before functions are classified, because
all their symbols are renamed. `registration.py` writes the table of functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mblob.format.exported_functions import ffi_name
from mblob.named_tuple import NamedTuple
from mblob.packager.compile.host_objects import (
    Generated,
    HostFile,
    LinkInput,
    compile_all,
    compile_blob,
    compile_generated,
)
from mblob.packager.errors import BuildError
from mblob.packager.functions import adapters
from mblob.packager.functions.registration import Registration, functions_of
from mblob.packager.link import embed
from mblob.packager.link.inputs import (
    ExportObjects,
    classify_functions,
    gather,
    hide_plain_functions,
    refuse_clashes,
    warn_of_functions,
)
from mblob.packager.link.linking import write_tar
from mblob.packager.link.request import Request
from mblob.packager.modules.nodes import SourceNode
from mblob.packager.objects import archive_writer, object_files
from mblob.packager.objects.archive_writer import Member
from mblob.packager.objects.object_files import ObjectSymbols
from mblob.packager.objects.rename import rename_symbols, require_symbols


class _Blob(NamedTuple):
    """The packed modules of a library.

    Attributes:
        files: objects that hold them.
        size: in bytes; 0 if another than us wrote them.
        exists: there is one.
        has_index: as of `Registration`.
    """

    files: Sequence[Path] = ()
    size: int = 0
    exists: bool = False
    has_index: bool = False


def export(request: Request, output: Path, work: Path) -> None:
    """Write a system library: one object, an archive, or a tar of objects, by the suffix of
    `output`.

    Raises:
        As of `export_library`.
    """
    gathered = gather(request, work)
    made = _members(gathered, work)
    if output.suffix == ".a":
        archive_writer.write(output, made)
    elif output.suffix == ".tar":
        write_tar([member.path for member in made], output)
    else:
        _merge(request, gathered, made, output, work)


def members(request: Request, work: Path) -> list[Member]:
    """The objects of a system library, for another to link.

    Raises:
        As of `export_library`.
    """
    return _members(gather(request, work), work)


def _members(gathered: ExportObjects, work: Path) -> list[Member]:
    request = gathered.request
    known = _own_objects(request, gathered, work)
    register = request.dialect.register
    taken = [item for item in known if register in item.contents.undefined]
    known = [item for item in known if register not in item.contents.undefined]
    _check_taken(taken, request)
    refuse_clashes(request, [*known, *taken])
    blob = _blob(request, gathered, work)
    functions = classify_functions(request, known, gathered.host)
    mentioned = {name for _, c in known for name in c.defined | c.weak | c.undefined}
    if functions.adapters:
        source = adapters.generate(request.dialect, functions.adapters)
        made = compile_generated(gathered.tools, [source], request.options, work)
        known += made
        ours = {name for _, c in made for name in c.defined}
        mentioned = {name for _, c in known for name in c.defined | c.weak | c.undefined} - ours
    announced, rows = functions_of(
        functions.wrapped, functions.undeclared.not_packed, [c for _, c in known], request.dialect
    )
    warn_of_functions(request, rows, [*known, *taken])
    registration = Registration(
        functions=announced,
        rows=rows,
        mentioned=frozenset(mentioned),
        anchors=[min(c.defined) for _, c in taken if c.defined],
        has_blob=blob.exists,
        blob_size=blob.size,
        has_index=blob.has_index,
        plugins=[plugin.symbol for plugin in gathered.plugins],
        dialect=request.dialect,
    )
    source = Generated(
        "mblob_system_lib", "what announces the library", registration.source(request.prefix)
    )
    known += compile_generated(gathered.tools, [source], request.options, work)
    # Once more, with what was generated meanwhile.
    object_files.check_duplicates([(f.label, c) for f, c in (*known, *taken)])
    defined = {
        name for f, c in known for name in (c.defined | c.weak) - (set() if f.carried else c.comdat)
    }
    groups = {name for f, c in known if f.carried for name in c.comdat}
    names = _names(request, [*known, *taken], defined | groups)
    for f, _ in known:
        rename_symbols(f.path, names, f.label)
        require_symbols(f.path, lambda name: name.startswith("TVM"), f.label)
    paths = [*(f.path for f, _ in (*known, *taken)), *blob.files]
    return [Member(path, _defined(path)) for path in paths]


# -- the objects -----------------------------------------------------------------------------------


def _own_objects(request: Request, gathered: ExportObjects, work: Path) -> list[LinkInput]:
    """Every object of the library as a file of our own, archives as their members."""
    for addon in gathered.addon_words:
        if addon.suffix not in (".o", ".a"):
            raise BuildError(
                f"addons: {addon} is no object and no archive, which is all that goes into a system library; link it"
                " with the program"
            )
    files: list[HostFile] = []
    for i, (f, contents) in enumerate((*gathered.host, *gathered.addons)):
        if not contents.complete:
            raise BuildError(
                f"system_lib: {f.label} is compiled with -flto, so its symbols cannot be renamed"
            )
        files += (
            [f] if f.own and not contents.is_archive else _copies(f, contents, work / f"given{i}")
        )
    known = [*map(_read, files), *gathered.carried]
    return [_read(f) for f, _ in hide_plain_functions(request.wrapped(), known, work)]


def _read(file: HostFile) -> LinkInput:
    return LinkInput(file, object_files.read(file.path, file.label))


def _copies(file: HostFile, contents: ObjectSymbols, folder: Path) -> list[HostFile]:
    """The object, or the members of the archive, in a folder of ours. Each has a name that no other
    member has."""
    folder.mkdir(exist_ok=True)
    made: list[HostFile] = []
    for i, (label, data) in enumerate(object_files.objects_in(file.path, file.label)):
        name = label.removeprefix(f"{file.label}(") if contents.is_archive else file.path.name
        path = folder / f"{folder.name}_{i}_{Path(name).stem}.o"
        path.write_bytes(data)
        made.append(file._replace(path=path, label=label, own=True))
    return made


def _check_taken(taken: Sequence[LinkInput], request: Request) -> None:
    """Refuse objects that announce themselves under another prefix: TVM compiled them for a system
    library."""
    prefix, context = request.prefix, request.dialect.context
    for f, contents in taken:
        for name in sorted(contents.defined | contents.weak):
            own = name.removesuffix(context) if name.endswith(context) else prefix
            if own != prefix:
                raise BuildError(
                    f"system_lib: {f.label} was compiled for a system library of prefix {own!r}, prefix= says"
                    f" {prefix!r}; give the one that it was compiled for"
                )


def _names(request: Request, files: Sequence[LinkInput], defined: set[str]) -> dict[str, str]:
    """The new name of each symbol that the library defines, and of the blob's.

    Raises:
        BuildError: a new name is one that an object means another thing by.
    """
    prefix = request.prefix
    names = {
        name: _with_prefix(name, request) for name in sorted({*defined, request.dialect.symbol})
    }
    others = {new: old for old, new in names.items() if old != new}
    for f, contents in files:
        if clash := sorted(others.keys() & (contents.undefined | contents.comdat)):
            raise BuildError(
                f"system_lib: prefix={prefix!r} makes {clash[0]} of {others[clash[0]]}, a name that {f.label} uses for"
                " something else; choose another prefix"
            )
    return names


def _with_prefix(symbol: str, request: Request) -> str:
    """The symbol with the library's prefix, which stands behind that of functions in the ffi
    dialect."""
    name = ffi_name(symbol) if request.dialect.is_ffi else None
    return (
        request.prefix + symbol
        if name is None
        else request.dialect.function_prefix + request.prefix + name
    )


def _defined(path: Path) -> list[str]:
    """Symbols for the index of an archive."""
    contents = object_files.read(path, path.name)
    return sorted(contents.defined | contents.weak)


# -- the packed modules ----------------------------------------------------------------------------


def _blob(request: Request, gathered: ExportObjects, work: Path) -> _Blob:
    packed = request.packed_file(work)
    if packed is not None:
        file = _compiled(request, gathered, packed, work)
        return _Blob([file], 0, request.symbol in _defined(file))
    if not request.plan.is_needed:
        return _Blob()
    path = work / "devc.o"
    if request.embed == "c":
        _, size = embed.write_c(request, work)
        compile_blob(gathered.tools, request.options, work, path.name, "-fvisibility=hidden")
    else:
        path, size = embed.write_object(request, work, gathered.machine)
    embed.check_object(request, path, size)
    return _Blob([path], size, True, request.plan.index)


def _compiled(request: Request, gathered: ExportObjects, packed: Path, work: Path) -> Path:
    """The object of what the caller's `fpack_imports` wrote."""
    if packed.suffix == ".o":
        return packed
    # Text that registers itself initializes a variable with a call: TVM's `.c` of a system library
    # is C++.
    cxx = packed.suffix != ".c" or request.dialect.register in packed.read_text(errors="replace")
    folder = work / "packed"
    folder.mkdir(exist_ok=True)
    ((file, _),) = compile_all(
        gathered.tools, [SourceNode(packed, "cc" if cxx else "c")], None, request.options, folder
    )
    return file.path.rename(work / "devc.o")


# -- one object ------------------------------------------------------------------------------------


def _merge(
    request: Request, gathered: ExportObjects, made: Sequence[Member], output: Path, work: Path
) -> None:
    """Link the objects into one, which can be linked again."""
    chosen = [
        o for o in request.options if o.startswith(("-m", "--target=", "--sysroot", "-fuse-ld="))
    ]
    inputs = [str(member.path) for member in made]
    gathered.tools.link(
        [*gathered.tools.cc, "-r", "-nostdlib", "-o", str(output), *chosen, *inputs], work
    )
    defined = set(_defined(output))
    for member in made:
        if lost := sorted(set(member.symbols) - defined):
            raise BuildError(
                f"{output.name}: the linker lost {lost[0]} of {member.path.name}; write an archive (.a)"
            )
