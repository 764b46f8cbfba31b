"""The link: its command, and which way the blob comes into the library (`embed=`). Also its inputs as a
tar, for another to link."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path

from mblob.binary.archive import members as members_of
from mblob.binary.elf_records import EM_X86_64
from mblob.bytes.mapping import map_file
from mblob.errors import ToolchainError
from mblob.packager.compile.commands import options_of_folder
from mblob.packager.compile.host_objects import LinkInput, compile_blob
from mblob.packager.errors import BuildError
from mblob.packager.link import embed
from mblob.packager.link.background_copy import BackgroundCopy
from mblob.packager.link.inputs import LinkLine
from mblob.packager.link.request import Request
from mblob.packager.objects import object_files
from mblob.packager.options import asks_for_stack, linker_named
from mblob.packager.write import grow
from mblob.packager.write.blob_stream import write_blob
from mblob.packager.write.elf_writer import BlobSection, large_section, placeholder

# bfd gives code pages of its own, in the file too; others do not, and gold knows no word for it.
_WITHOUT_PAGES = "-Wl,-z,noseparate-code"


def link_command(
    line: LinkLine, output: Path, more: Sequence[str], options: Sequence[str], work: Path
) -> list[str]:
    """The command that links everything into `output`.

    Args:
        more: further inputs and flags, before the caller's options.
        work: the folder in which the command runs.
    """
    tools = line.tools
    cuda = any(f.cuda for f, _ in line.files)
    late_fortran = any(f.fortran and not c.complete for f, c in line.files)
    fortran = late_fortran or object_files.needs_fortran([c for _, c in line.objects], options)
    driver = tools.cxx if cuda or line.needs_cxx else tools.cc
    words = [*driver, "-shared", "-fPIC", "-o", str(output)]
    addons = [str(a) for a in line.addons]
    if any(a.suffix == ".a" for a in line.addons):
        # Addons come first, as in TVM, but what an archive provides is known to be needed only
        # afterwards.
        addons.insert(0, "-Wl,--start-group")
        more = ["-Wl,--end-group", *more]
    words += addons
    for f, contents in line.files:
        if contents.is_archive:
            words += ["-Wl,--whole-archive", str(f.path), "-Wl,--no-whole-archive"]
        else:
            words.append(str(f.path))
    # What joins another library finds its names there, and leaves start-up to it.
    # Its data stays writable, so it needs no page of its own for what is read-only once it is loaded.
    joining = ("-nostartfiles", "-Wl,--build-id=none", "-Wl,-z,norelro")
    bound = [*joining] if line.joins else ["-Wl,-Bsymbolic"]
    bound.append("-Wl,-z,text")  # no code that is changed when it is loaded
    if any(not c.complete for _, c in line.objects):
        more = [*more, *options_of_folder(work, "link")]
    words += [*more, *bound, *_stack_options(line.objects, options), *options]
    if cuda:
        folders = [f"-L{folder}" for folder in tools.cuda_folders]
        words += [*folders, "-lcudart_static", "-lpthread", "-ldl", "-lrt"]
    # Plug-ins open what they run on; code of the ffi dialect looks for the runtime of the process.
    late = ["-lm"] if _may_need_math(line, options) else []
    late += ["-ldl"] if line.plugins or line.looks_up else []
    if line.plugins:
        from mblob.packager.link.linked_engines import libraries

        late += libraries(c.undefined for f, c in line.objects if f.carried)
    if fortran:
        late = [*tools.fortran_libraries, *late]
    return [*words, "-Wl,--as-needed", *late, "-Wl,--no-as-needed"] if late else words


def _may_need_math(line: LinkLine, options: Sequence[str]) -> bool:
    """True unless it is certain that nothing calls the C library's functions of numbers: a linker reads its
    symbols as long as all else of a small library."""
    given = any(o.startswith(("-l", "-u", "-Wl,", "-X")) or not o.startswith("-") for o in options)
    return (
        given
        or bool(line.addons)
        or any(c.undefined or not c.complete for f, c in line.objects if not f.generated)
    )


def link(
    request: Request, line: LinkLine, output: Path, work: Path, copy: BackgroundCopy | None
) -> int | None:
    """Link, with the blob if mblob writes one.

    Args:
        copy: the blob, if that is being written to `output` already.

    Returns:
        The size of the blob, None without one.

    Raises:
        ToolchainError, BuildError, OSError, MblobError: as of `export_library`.
    """
    packed = request.packed_file(work)
    if packed is None and request.plan.is_needed:
        return _embed(request, line, output, work, copy)
    more = [str(packed)] if packed is not None else []
    if not line.joins or linker_named(request.options) == "gold":
        _run(request, line, output, more, work)
        return None
    try:
        _run(request, line, output, [*more, _WITHOUT_PAGES], work)
    except ToolchainError:
        if _linker(request, line, work) != "gold":
            raise
        _run(request, line, output, more, work)
    return None


def _run(request: Request, line: LinkLine, output: Path, more: Sequence[str], work: Path) -> None:
    labels = {str(f.path): f.label for f, _ in line.files}
    command = link_command(line, output, more, request.options, work)
    line.tools.link(command, work, labels, _import_reading)


def _import_reading() -> None:
    """Import what reads the library, while the linker runs."""
    import_module("mblob.packager.link.read_back")
    import_module("mblob.inspect.library")


def _embed(
    request: Request, line: LinkLine, output: Path, work: Path, copy: BackgroundCopy | None
) -> int:
    """Link with the blob, and return its size."""
    symbol = request.dialect.symbol
    write = partial(write_blob, request.plan, old=request.old, lead=request.lead)
    if request.embed == "append":
        if line.refers_to_blob:
            raise BuildError(
                f"embed='append': an object refers to {symbol}, whose address would change after the link;"
                " use embed='grow' or 'object'"
            )
        is_mold = _linker(request, line, work) == "mold"
        section = embed.MOLD_SECTION if is_mold else grow.APPEND_SECTION
        stub = _link_stub(request, line, section, [], work)
        return embed.append(stub, output, symbol, write, request.plan.alignment, request.lead)
    if request.embed == "c":
        _, size = embed.write_c(request, work)
        compile_blob(line.tools, request.options, work, "devc.o")
        _run(request, line, output, ["devc.o"], work)
        return size
    if request.embed == "object":
        return _link_object(request, line, output, work)
    try:
        stub = _growable_stub(request, line, work)
    except _CannotGrow as exc:
        if request.embed == "grow":
            raise ToolchainError(f"embed='grow': {exc}") from None
        if copy is not None:
            copy.cancel()
        return _link_object(request, line, output, work)
    return grow.grow(stub, output, symbol, write, copy)


def _linker(request: Request, line: LinkLine, work: Path) -> str:
    """The linker: as options name it, else as the compiler says. That question costs as much as a
    link."""
    return linker_named(request.options) or line.tools.linker(request.options, work).name


class _CannotGrow(Exception):
    """The linker cannot place a segment that may grow."""


def _link_stub(
    request: Request, line: LinkLine, section: BlobSection, flags: Sequence[str], work: Path
) -> Path:
    """Link with a placeholder in `section`."""
    placeholder(
        work / "devc.o",
        line.machine,
        request.dialect.symbol,
        section,
        announced=request.announced,
    )
    # Its name alone: gold writes it into the file, and the folder has another name each time.
    stub = "stub.so"
    _run(request, line, Path(stub), ["devc.o", *flags], work)
    return work / stub


def _growable_stub(request: Request, line: LinkLine, work: Path) -> Path:
    """A linked library with the placeholder alone in its last segment.

    If options do not name the linker, the compiler is asked for it only when the link fails.
    """
    alignment, lead = request.plan.alignment, request.lead
    linker = linker_named(request.options)
    if linker not in ("gold", "mold"):
        (work / "insert.ld").write_text(grow.linker_script(alignment))
        section = grow.grow_section(alignment, lead)
        try:
            flags = ["-Wl,-T,insert.ld", _WITHOUT_PAGES]
            return _link_stub(request, line, section, flags, work)
        except ToolchainError:
            linker = _linker(request, line, work)
            if linker not in ("gold", "mold"):
                raise
    if linker == "mold":
        raise _CannotGrow(
            "mold knows no linker scripts; use -fuse-ld=bfd, gold or lld, or embed='object'"
        )
    if line.machine.e_machine != EM_X86_64:
        raise _CannotGrow(
            "gold can place the packed modules on x86-64 only; use -fuse-ld=bfd, or embed='object'"
        )
    # gold knows no INSERT, but puts large data behind everything else.
    return _link_stub(request, line, large_section(alignment, lead), [], work)


def _link_object(request: Request, line: LinkLine, output: Path, work: Path) -> int:
    """Link with the whole blob as an object."""

    def check(size: int) -> None:
        if size > embed.OBJECT_LIMIT:
            embed.check_linker(size, line.machine, line.tools.linker(request.options, work))

    check(request.plan.known_size or 0)  # before all of it is written, if it is known
    _, size = embed.write_object(request, work, line.machine)
    check(size)
    _run(request, line, output, ["devc.o"], work)
    if size > embed.OBJECT_LIMIT:
        embed.check_unwinding(output, line.tools.linker(request.options, work))
    return size


def _stack_options(objects: Sequence[LinkInput], options: Sequence[str]) -> list[str]:
    """The linker's options for the stack: none, if an option of the caller sets it, or if the
    library tells what link-time optimization made. Objects for that do not know what they need."""
    late = any(not c.complete for _, c in objects)
    is_known = late and all(c.has_stack_note for _, c in objects)
    return [] if is_known or asks_for_stack(options) else ["-Wl,-z,noexecstack"]


# -- objects that somebody else links --------------------------------------------------------------


def write_objects(request: Request, line: LinkLine, output: Path, work: Path) -> None:
    """Write a tar of everything that the link would get.

    Raises:
        BuildError, OSError, MblobError: as of `export_library`.
    """
    members = list(line.addons)
    for f, contents in line.files:
        members += _unpacked(f.path, work) if contents.is_archive else [f.path]
    packed = request.packed_file(work)
    if packed is not None:
        members.append(packed)
    elif request.plan.is_needed and request.embed == "c":
        members.append(embed.write_c(request, work)[0])
    elif request.plan.is_needed:
        made, size = embed.write_object(request, work, line.machine)
        embed.check_object(request, made, size)
        members.append(made)
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
    import tarfile  # 3 ms, and most exports write none

    with tarfile.open(output, "w", format=tarfile.PAX_FORMAT) as tar:
        for member in members:
            info = tarfile.TarInfo(member.name)
            info.size = member.stat().st_size
            info.mode = 0o644
            with member.open("rb") as file:
                tar.addfile(info, file)
