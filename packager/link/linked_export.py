"""Exports that we link ourselves: host modules to objects, checks, the link, the blob. Also their
objects alone, which somebody else links."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from mblob.binary.archive import is_archive
from mblob.binary.archive import members as members_of
from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import EM_X86_64
from mblob.binary.file_kind import ELF_MAGIC
from mblob.bytes.mapping import map_file
from mblob.errors import FormatError, IncompatibleError, ToolchainError
from mblob.format import prefixes
from mblob.format.blob_plan import BlobPlan
from mblob.format.functions_table import Row
from mblob.format.plugin_table import Plugin
from mblob.packager.compile.commands import options_of_folder
from mblob.packager.compile.host_objects import (
    Generated,
    HostFile,
    compile_all,
    compile_blob,
    compile_generated,
    packed_functions,
    probe,
    unshared,
)
from mblob.packager.compile.toolchain import Toolchain
from mblob.packager.errors import BuildError
from mblob.packager.functions import adapters
from mblob.packager.functions.adapters import Adapter
from mblob.packager.functions.packed_or_plain import tell_apart, warn_of_unknown
from mblob.packager.functions.slot_shims import generate as generate_shims
from mblob.packager.functions.slot_shims import generate_defaults, slots_to_fill
from mblob.packager.functions.wrappers import announcement, rows_of, table
from mblob.packager.link import carry, embed, stack
from mblob.packager.link.background_copy import BackgroundCopy
from mblob.packager.link.carry import Carried
from mblob.packager.link.host_checks import (
    check_exports,
    check_functions,
    check_prototypes,
    hide_plain_functions,
    missing_slots,
    warn_of_functions,
    warn_of_undefined,
)
from mblob.packager.link.request import Request
from mblob.packager.modules.nodes import SUFFIXES, SourceNode
from mblob.packager.objects import object_files
from mblob.packager.objects.object_files import ElfTarget, ObjectSymbols, functions_of
from mblob.packager.options import linkers_named
from mblob.packager.write.blob_stream import write_blob
from mblob.packager.write.elf_patch import check_exported
from mblob.packager.write.elf_writer import BlobSection, placeholder


class Inputs(NamedTuple):
    """What goes on the link line, checked.

    Attributes:
        tools: the compiler.
        addons: as the caller gave them, sources compiled.
        files: objects and archives of the host modules and of generated code.
        machine: what all of them are for.
        cxx: the link takes the C++ library.
        refers_to_blob: an object uses the blob's symbol.
        plugins: those that are among the files.
        rows: of the table of functions.
        known: all objects and archives, with what is in them.
        looks_up: an object calls dlsym().
        joins: the library becomes a part of another one, which has code that this one calls.
    """

    tools: Toolchain
    addons: list[Path]
    files: list[HostFile]
    machine: ElfTarget
    cxx: bool
    refers_to_blob: bool
    plugins: list[Plugin]
    rows: list[Row]
    known: list[tuple[HostFile, ObjectSymbols]]
    looks_up: bool = False
    joins: bool = False


class Gathered(NamedTuple):
    """All objects of an export, compiled and checked, as they were given.

    Attributes:
        tools: the compiler.
        addons: as the caller gave them, sources compiled.
        known: host modules and packed functions.
        extra: objects and archives among the addons.
        carried: plug-ins.
        machine: what all of them are for.
    """

    tools: Toolchain
    addons: list[Path]
    known: list[tuple[HostFile, ObjectSymbols]]
    extra: list[tuple[HostFile, ObjectSymbols]]
    carried: Carried
    machine: ElfTarget


def gather(request: Request, work: Path, *, with_table: bool = False) -> Gathered:
    """Compile, look at every object, and refuse what a linker would refuse less clearly.

    Args:
        with_table: the object of the packed functions has the table of functions, as it is if the
            objects add no row.

    Raises:
        ToolchainError, IncompatibleError, BuildError, OSError: as of `export_library`.
    """
    tools = request.tools()

    def forms() -> str:
        return request.packed_forms(with_table=with_table)

    some = any(node.declared.is_given for node in request.host)
    files = compile_all(
        tools, request.host, forms if some else None, request.options, work, _import_readers
    )
    wrapped = request.wrapped()
    addons, addon_files = _addons(request, tools, work)
    known = unshared(files, work / "unshared")
    extra = unshared(addon_files, work / "unshared_addons")
    moved = {f.path: g.path for f, (g, _) in zip(addon_files, extra)}
    addons = [moved.get(addon, addon) for addon in addons]
    plugins = carry.compile_plugins(tools, request.carry, request.options, work)
    everything = [*known, *extra, *(part for plugin in plugins for part in plugin)]
    own = next((c.machine for f, c in everything if f.own and c.machine), None)
    machine = own or probe(tools, request.options, work)
    for f, contents in everything:
        object_files.check_machine(contents, f.label, machine, " ".join(tools.cc))
    stack.check_objects(everything, request.options)
    check_functions(wrapped, request.named(), [*known, *extra])
    check_prototypes(wrapped, [*known, *extra])
    carried = carry.close_plugins(plugins, work, request.type_keys(), [*known, *extra])
    carry.check_needs(carried, [*known, *extra])
    return Gathered(tools, addons, known, extra, carried, machine)


def _import_readers() -> None:
    """Import what looks at the finished library, while compilers run."""
    import_module("mblob.inspect.library")
    import_module("mblob.inspect.elf_judge")
    import_module("mblob.inspect.providers")


def prepare(request: Request, work: Path, *, with_table: bool = True) -> Inputs:
    """The inputs of the link of a shared library.

    Args:
        with_table: the table of functions may be in the object of the packed functions, which saves
            a start of the compiler. In a tar it is apart: who links the tar again leaves it out.

    Raises:
        ToolchainError, IncompatibleError, BuildError, OSError: as of `export_library`.
    """
    gathered = gather(request, work, with_table=with_table)
    wrapped = request.wrapped()
    everything = [*gathered.known, *gathered.extra, *gathered.carried.files]
    table_rows = request.table_rows()
    told = tell_apart(wrapped, request.named(), everything, table_rows)
    warn_of_unknown(told, gathered.known, everything)
    adapted = adapters.needed(request.dialect, wrapped, told.not_packed, everything, table_rows)
    kept = adapters.kept_rows(request.dialect, table_rows, everything)
    rows = request.table_of(told, [*rows_of(wrapped), *kept, *(a.row for a in adapted)])
    known_early = with_table and rows == rows_of(wrapped)
    again = with_table and bool(wrapped) and not known_early
    helpers = _helpers(
        request, gathered.tools, [] if known_early else rows, again, adapted, everything, work
    )
    if again:
        known = [_read_again(f, c) for f, c in gathered.known]
        everything[: len(known)] = known
        gathered = gathered._replace(known=known)
    everything += [(f, object_files.read(f.path, f.label)) for f in helpers]
    hidden = {w.prototype.name: w.plain_symbol for w in wrapped if w.takes_name}
    definitions = [(f.label, _renamed(f, c, hidden)) for f, c in everything]
    if request.plan.is_needed:
        object_files.check_blobs(definitions, request.dialect.symbol)
        definitions.append(("the packed modules", ObjectSymbols(defined={request.dialect.symbol})))
    object_files.check_duplicates(definitions)
    files = hide_plain_functions(wrapped, [*gathered.known, *gathered.carried.files], work)
    files = adapters.hide_adapted(adapted, table_rows, files, work)
    refers_to_blob = any(request.dialect.symbol in c.undefined for _, c in everything)
    linked = [*everything, *gathered.extra]
    cxx = any(f.cxx for f, _ in linked) or object_files.needs_cxx(
        [c for _, c in linked], request.options
    )
    linked_here = [f for f in files if not f.elsewhere]
    return Inputs(
        gathered.tools, gathered.addons, [*linked_here, *helpers], gathered.machine, cxx, refers_to_blob,
        gathered.carried.plugins, rows, linked, any("dlsym" in c.undefined for _, c in everything),
        len(linked_here) < len(files),
    )  # fmt: skip


def _read_again(file: HostFile, contents: ObjectSymbols) -> tuple[HostFile, ObjectSymbols]:
    """A file and what is in it; the packed functions were compiled again."""
    return (file, object_files.read(file.path, file.label) if file.generated else contents)


def _renamed(file: HostFile, contents: ObjectSymbols, names: dict[str, str]) -> ObjectSymbols:
    """Definitions as they will be when plain functions have made room for packed functions of their
    names."""
    if file.generated:
        return contents
    return ObjectSymbols(defined={names.get(name, name) for name in contents.defined})


def _addons(request: Request, tools: Toolchain, work: Path) -> tuple[list[Path], list[HostFile]]:
    """The caller's additional inputs: sources become objects; objects and archives are also looked
    at."""
    line: list[Path] = []
    look: list[HostFile] = []
    sources = [a for a in request.addons if a.suffix in SUFFIXES]
    folder = work / "addons"
    compiled: list[HostFile] = []
    if sources:
        folder.mkdir(exist_ok=True)
        nodes = [SourceNode(source, SUFFIXES[source.suffix]) for source in sources]
        compiled = compile_all(tools, nodes, None, request.options, folder)
    for addon in request.addons:
        if addon.suffix in SUFFIXES:
            made = compiled[sources.index(addon)]
            line.append(made.path)
            look.append(made)
        else:
            addon.stat()  # a missing file is an OSError that names it
            line.append(addon.absolute())
            if addon.suffix in (".o", ".a"):
                functions = functions_of(addon.absolute(), str(addon))
                look.append(HostFile(addon.absolute(), str(addon), own=False, functions=functions))
    return line, look


def _helpers(
    request: Request, tools: Toolchain, rows: Sequence[Row], again: bool, adapted: Sequence[Adapter],
    everything: Sequence[tuple[HostFile, ObjectSymbols]], work: Path,
) -> list[HostFile]:  # fmt: skip
    """What the objects turn out to need: the function table, functions of the other dialect in the
    convention of this one, and the runtime functions that foreign ones call.

    Args:
        rows: of a table of functions that is in no object yet.
        again: compile the packed functions once more, without a table.
    """
    sources = [packed_functions(request.packed_forms())] if again else []
    joins = any(f.elsewhere for f, _ in everything)
    if rows:
        sources.append(
            Generated("mblob_table", "the table of functions", table(rows) + announcement(rows))
        )
    if adapted:
        sources.append(adapters.generate(request.dialect, adapted, joins))
    if missing := missing_slots(everything):
        sources.append(
            Generated("mblob_slots", "the runtime slots of mblob", generate_shims(missing, joins))
        )
    weak = {name for f, c in everything if not f.generated for name in c.weak}
    if request.dialect.is_ffi and (empty := slots_to_fill(weak)):
        sources.append(
            Generated(
                "mblob_defaults", "what slots lead to without a loader", generate_defaults(empty)
            )
        )
    # Atomics out of line come with a constructor.
    inline = ("-mno-outline-atomics",) if joins and tools.triple.startswith("aarch64") else ()
    made = compile_generated(tools, sources, (*request.options, *inline), work)
    return made[1:] if again else made


# -- the link --------------------------------------------------------------------------------------


def link_command(
    inputs: Inputs, output: Path, more: Sequence[str], options: Sequence[str], work: Path
) -> list[str]:
    """The command that links everything into `output`.

    Args:
        more: further inputs and flags, before the caller's options.
        work: the folder in which the command runs.
    """
    tools = inputs.tools
    cuda = any(f.cuda for f in inputs.files)
    driver = tools.cxx if cuda or inputs.cxx else tools.cc
    line = [*driver, "-shared", "-fPIC", "-o", str(output)]
    addons = [str(a) for a in inputs.addons]
    if any(a.suffix == ".a" for a in inputs.addons):
        # Addons come first, as in TVM, but what an archive provides is known to be needed only
        # afterwards.
        addons.insert(0, "-Wl,--start-group")
        more = ["-Wl,--end-group", *more]
    line += addons
    for f in inputs.files:
        if is_archive(f.path):
            line += ["-Wl,--whole-archive", str(f.path), "-Wl,--no-whole-archive"]
        else:
            line.append(str(f.path))
    # What joins another library finds its names there, and leaves start-up to it.
    bound = ["-nostartfiles", "-Wl,--build-id=none"] if inputs.joins else ["-Wl,-Bsymbolic"]
    if any(not c.complete for _, c in inputs.known):
        more = [*more, *options_of_folder(work, "link")]
    line += [*more, *bound, *stack.link_options(inputs.known, options), *options]
    if cuda:
        home = (
            Path(shutil.which(tools.nvcc[0]) or "/usr/local/cuda/bin/nvcc").resolve().parent.parent
        )
        line += [
            f"-L{home / 'lib64'}",
            f"-L{home / 'lib'}",
            "-lcudart_static",
            "-lpthread",
            "-ldl",
            "-lrt",
        ]
    # Plug-ins open what they run on; code of the ffi dialect looks for the runtime of the process.
    late = ["-lm", "-ldl"] if inputs.plugins or inputs.looks_up else ["-lm"]
    return [*line, "-Wl,--as-needed", *late, "-Wl,--no-as-needed"]


def export_shared(
    request: Request, output: Path, work: Path, copy: BackgroundCopy | None = None
) -> None:
    """Write the shared library `output`.

    Args:
        copy: its blob, if that is being written to it already.

    Raises:
        As of `export_library`.
    """
    inputs = prepare(request, work)
    request.triple.tell(inputs.tools.triple)
    size = _link(request, inputs, output, work, copy)
    if size is not None:
        _verify(output, request.plan, size, request.dialect.symbol)
    if not inputs.joins:  # a part of another one is not opened
        _check_loading(output)
    check_exports(request.wrapped(), output, inputs.known)
    stack.check_linked(output, inputs.known, request.options)
    warn_of_functions(request, inputs.rows, inputs.known, None if inputs.joins else output)
    carry.check_exported(inputs.plugins, output)
    if not inputs.joins:
        warn_of_undefined(output)


def _link(
    request: Request, inputs: Inputs, output: Path, work: Path, copy: BackgroundCopy | None
) -> int | None:
    """Link, with the blob if we write one. Returns its size."""
    packed = request.packed_file(work)
    if packed is None and request.plan.is_needed:
        return _embed(request, inputs, output, work, copy)
    more = [str(packed)] if packed is not None else []
    inputs.tools.link(link_command(inputs, output, more, request.options, work), work)
    return None


def _embed(
    request: Request, inputs: Inputs, output: Path, work: Path, copy: BackgroundCopy | None
) -> int:
    """Link with the blob, and return its size."""
    symbol = request.dialect.symbol
    write = partial(write_blob, request.plan, old=request.old, lead=request.lead)
    if request.embed == "append":
        if inputs.refers_to_blob:
            raise BuildError(
                f"embed='append': an object refers to {symbol}, whose address would change after the link;"
                " use embed='grow' or 'object'"
            )
        mold = inputs.tools.linker(request.options, work).name == "mold"
        stub = _link_stub(
            request, inputs, embed.MOLD_SECTION if mold else embed.APPEND_SECTION, [], work
        )
        return embed.append(stub, output, symbol, write, request.plan.alignment, request.lead)
    if request.embed == "c":
        _, size = request.write_c(work)
        compile_blob(inputs.tools, request.options, work, "devc.o")
        inputs.tools.link(link_command(inputs, output, ["devc.o"], request.options, work), work)
        return size
    if request.embed == "object":
        return _link_object(request, inputs, output, work)
    try:
        stub = _growable_stub(request, inputs, work)
    except _CannotGrow as exc:
        if request.embed == "grow":
            raise ToolchainError(f"embed='grow': {exc}") from None
        if copy is not None:
            copy.cancel()
        return _link_object(request, inputs, output, work)
    return embed.grow(stub, output, symbol, write, copy)


class _CannotGrow(Exception):
    """The linker cannot place a segment that may grow."""


def _link_stub(
    request: Request, inputs: Inputs, section: BlobSection, flags: Sequence[str], work: Path
) -> Path:
    """Link with a placeholder in `section`."""
    placeholder(
        work / "devc.o",
        inputs.machine,
        request.dialect.symbol,
        section,
        has_index=request.plan.index,
    )
    # Its name alone: gold writes it into the file, and the folder has another name each time.
    stub = "stub.so"
    inputs.tools.link(
        link_command(inputs, Path(stub), ["devc.o", *flags], request.options, work), work
    )
    return work / stub


def _growable_stub(request: Request, inputs: Inputs, work: Path) -> Path:
    """A linked library with the placeholder alone in its last segment.

    Which linker a compiler uses is asked only when it fails: the question costs as much as a link.
    """
    alignment, lead = request.plan.alignment, request.lead
    named = linkers_named(request.options)
    linker = next((n for n in ("gold", "mold") if named and n in named[-1]), "")
    if not linker:
        (work / "insert.ld").write_text(embed.linker_script(alignment))
        section = embed.grow_section(alignment, lead)
        try:
            # bfd gives code pages of its own, in the file too; others do not, and gold knows no word for it.
            flags = ["-Wl,-T,insert.ld", "-Wl,-z,noseparate-code"]
            return _link_stub(request, inputs, section, flags, work)
        except ToolchainError:
            linker = inputs.tools.linker(request.options, work).name
            if linker not in ("gold", "mold"):
                raise
    if linker == "mold":
        raise _CannotGrow(
            "mold knows no linker scripts; use -fuse-ld=bfd, gold or lld, or embed='object'"
        )
    if inputs.machine.e_machine != EM_X86_64:
        raise _CannotGrow(
            "gold can place the packed modules on x86-64 only; use -fuse-ld=bfd, or embed='object'"
        )
    return _link_stub(request, inputs, embed.gold_section(alignment, lead), [], work)


def _link_object(request: Request, inputs: Inputs, output: Path, work: Path) -> int:
    """Link with the whole blob as an object."""

    def check(size: int) -> None:
        if size > embed.OBJECT_LIMIT:
            embed.check_linker(size, inputs.machine, inputs.tools.linker(request.options, work))

    check(request.plan.known_size or 0)  # before all of it is written, if it is known
    _, size = request.write_object(work, inputs.machine)
    check(size)
    inputs.tools.link(link_command(inputs, output, ["devc.o"], request.options, work), work)
    if size > embed.OBJECT_LIMIT:
        embed.check_unwinding(output, inputs.tools.linker(request.options, work))
    return size


def _verify(path: Path, plan: BlobPlan, size: int, symbol: str) -> None:
    """Read a finished library back, before it takes its place.

    Raises:
        FormatError, DigestError: it cannot be read.
        BuildError: it does not say what was written.
    """
    wanted = [e.type_key for e in plan.entries]
    if plan.unbounded_keys:
        return  # no reader of ours can, and export_library says so
    from mblob.inspect.library import Library

    check_exported(path, symbol)
    with Library(path) as found:
        ours = None if found.blob_symbol is None else found.blob_symbol.name
        for other in prefixes.BLOBS:
            if wanted and other != ours and found.image.find(other):
                raise BuildError(object_files.packed_already("an input", other, str(ours)))
        read = [] if found.blob is None else [e.type_key for e in found.blob.entries]
        if found.blob is None or found.blob.size != size or read != wanted:
            raise BuildError(
                f"{path.name}: reads back as {_listed(read)}, written was {_listed(wanted)}: the linker changed it"
            )


def _check_loading(path: Path) -> None:
    """Have libmblob judge a finished library, if it is for this machine.

    Raises:
        BuildError: the dynamic linker would not open it, or not survive that.
    """
    from mblob.inspect.elf_judge import check_loading

    data = map_file(path)
    if data[:4] != ELF_MAGIC:
        return
    try:
        check_loading(ElfFile(data, path.name))
    except (FormatError, IncompatibleError) as error:
        text = str(error).removeprefix(f"{error.culprit}: ")
        raise BuildError(f"{path.name}: the linked library cannot be opened: {text}") from None


def _listed(keys: Sequence[str]) -> str:
    return ", ".join(keys[:8]) + (f" and {len(keys) - 8} more" if len(keys) > 8 else "")


# -- tars of objects -------------------------------------------------------------------------------


def export_tar(request: Request, output: Path, work: Path) -> None:
    """Write a tar of objects that make the library when they are linked with `-shared`.

    Sources are compiled: whoever links the objects later needs neither our headers nor the options.

    Raises:
        As of `export_library`.
    """
    inputs = prepare(request, work, with_table=False)
    warn_of_functions(request, inputs.rows, inputs.known)
    request.triple.tell(inputs.tools.triple)
    members = list(inputs.addons)
    for f in inputs.files:
        members += _unpacked(f.path, work) if is_archive(f.path) else [f.path]
    packed = request.packed_file(work)
    if packed is not None:
        members.append(packed)
    elif request.plan.is_needed and request.embed == "c":
        members.append(request.write_c(work)[0])
    elif request.plan.is_needed:
        members.append(request.write_object(work, inputs.machine)[0])
    write_tar(members, output)


def _unpacked(archive: Path, work: Path) -> Iterator[Path]:
    """The objects of an archive as files, since nobody looks for archives in a tar."""
    for i, (_, data) in enumerate(members_of(map_file(archive), archive.name)):
        member = work / f"{archive.stem}.{i}.o"
        member.write_bytes(data)
        yield member


def write_tar(members: Sequence[Path], output: Path) -> None:
    """Write a tar of files. Names, times and owners are fixed, so that the same files give the same
    bytes.

    Raises:
        BuildError: two have one name.
    """
    names = [m.name for m in members]
    if twice := next((n for n in names if names.count(n) > 1), None):
        raise BuildError(
            f"two inputs are called {twice}; in a tar each needs a name of its own: rename one"
        )
    import tarfile  # most exports write none

    with tarfile.open(output, "w", format=tarfile.PAX_FORMAT) as tar:
        for member in members:
            info = tarfile.TarInfo(member.name)
            info.size = member.stat().st_size
            info.mode = 0o644
            with member.open("rb") as file:
                tar.addfile(info, file)
