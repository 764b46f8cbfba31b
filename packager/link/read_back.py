"""The finished library is read back, once for all checks, before it takes its place."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import ET_DYN, HIDDEN, PF_X, PT_GNU_STACK, STB_WEAK
from mblob.binary.file_kind import ELF_MAGIC
from mblob.binary.function_names import shown_name
from mblob.bytes.mapping import map_file
from mblob.errors import FormatError, IncompatibleError, MblobError, PortabilityWarning, listed
from mblob.format import exported_functions, note, system_library_prefixes
from mblob.format.plugin_table import Plugin
from mblob.inspect.elf_judge import check_loading, static_tls
from mblob.inspect.linkage import resolve
from mblob.inspect.providers import undefined_symbols
from mblob.packager.compile.host_objects import LinkInput
from mblob.packager.errors import BuildError, warn
from mblob.packager.functions.wrappers import Wrapped
from mblob.packager.link.finished_names import elsewhere
from mblob.packager.link.inputs import LinkLine, warn_of_functions
from mblob.packager.link.request import Request
from mblob.packager.objects.object_files import packed_already
from mblob.packager.options import NEEDS_STACK, asks_for_stack
from mblob.packager.write.blob_stream import check_written
from mblob.packager.write.elf_patch import exported_symbol


def check(request: Request, line: LinkLine, library: Path, blob_size: int | None) -> None:
    """Check what was linked.

    Args:
        line: what it was linked of.
        blob_size: bytes of the blob; None if mblob wrote none.

    Raises:
        As of `export_library`.
    """
    wrapped = request.wrapped()
    late = [item for item in line.objects if not item.contents.complete]
    data = map_file(library)
    is_elf = data[:4] == ELF_MAGIC  # a linker of somebody else may write other files
    must_be_elf = blob_size is not None or wrapped or late or line.plugins
    elf = ElfFile(data, str(library)) if is_elf or must_be_elf else None
    if elf is None:
        warn_of_functions(request, line.rows, line.objects)
        return
    if blob_size is not None:
        _check_blob(request, elf, library, blob_size)
    if not line.joins:  # a part of another library is not opened
        _check_loading(elf, library)
    _check_exports(wrapped, late, elf, elsewhere(line.objects) if line.joins else ())
    _check_stack(elf, late, request.options)
    if elf.has_text_relocations:
        warn(
            "-z notext: code of the library is changed when it is loaded (text relocations), which Android and hardened"
            " systems refuse; compile all objects with -fPIC, and leave -z notext out",
            PortabilityWarning,
        )
    warn_of_functions(request, line.rows, line.objects, None if line.joins else elf)
    _check_plugins(line.plugins, elf)
    for text in () if line.joins else (static_tls(elf), undefined_text(elf, library)):
        if text:
            warn(text, PortabilityWarning)


def opened(library: Path) -> ElfFile | None:
    """A linked file; None if it is no ELF file that can be read."""
    with suppress(MblobError, OSError):
        return ElfFile(map_file(library), str(library))
    return None


def _check_blob(request: Request, elf: ElfFile, library: Path, size: int) -> None:
    """Refuse a library whose blob or table of functions is not what was written.

    Raises:
        ToolchainError: it does not export the blob.
        FormatError, DigestError: it cannot be read.
        BuildError: it does not say what was written.
    """
    plan, dialect = request.plan, request.dialect
    symbol = exported_symbol(elf, dialect.symbol)
    try:
        elf.check_tables()
        elf.check_segments()
        expected = bool(note.announced(elf).flags & note.HAS_INDEX)
        data = elf.bytes_of(symbol)[1]
        check_written(plan, dialect, data, size, library.name, index_expected=expected)
        exported_functions.read_table(elf)
    except MblobError as error:
        if not error.culprit:
            error.prefix(elf.name)
        raise
    for other in system_library_prefixes.BLOBS:
        if plan.entries and other != symbol.name and elf.find(other):
            raise BuildError(packed_already("an input", other, symbol.name))


def _check_loading(elf: ElfFile, library: Path) -> None:
    """Have libmblob judge the library, if it is for this machine.

    Raises:
        BuildError: the dynamic linker would not open it, or not survive that.
    """
    try:
        check_loading(elf)
    except (FormatError, IncompatibleError) as error:
        text = str(error).removeprefix(f"{error.culprit}: ")
        raise BuildError(f"{library.name}: the linked library cannot be opened: {text}") from None


def _check_exports(
    wrapped: Sequence[Wrapped], late: Sequence[LinkInput], elf: ElfFile, others: Collection[str]
) -> None:
    """Refuse a library that does not export what its function table lists, or nothing of what was
    compiled for link-time optimization.

    Args:
        late: the objects for link-time optimization.
        others: functions of a finished library, which it joins.

    Raises:
        BuildError: naming the function.
    """
    names = {s.name for s in elf.dynsym if s.is_exported}
    defined = names | {s.name for s in elf.symtab if s.is_defined} if late else names
    for f, contents in late:
        if contents.late and not contents.late & defined:
            raise BuildError(
                f"{f.label}: the linker left out what was compiled with -flto ({listed(sorted(contents.late), 6)}): it"
                " cannot read this compiler's objects; leave out -fuse-ld=, link with the compiler that made the"
                " objects, or compile without -flto"
            )
    names.update(others)
    missing = next(
        (row.symbol for w in wrapped for row in w.rows() if row.symbol not in names), None
    )
    if missing is not None:
        raise BuildError(
            f"functions: {missing} is listed, but the library does not export it: -fvisibility=hidden, a version"
            ' script or an attribute hides it; mark the function __attribute__((visibility("default"))), or leave'
            " that option out"
        )


def _check_stack(elf: ElfFile, late: Sequence[LinkInput], options: Sequence[str]) -> None:
    """Refuse a library that needs an executable stack; warn of one if an option asks for it.

    Raises:
        BuildError: naming what was compiled for link-time optimization.
    """
    if not any(s.p_type == PT_GNU_STACK and s.p_flags & PF_X for s in elf.segments):
        return
    if not asks_for_stack(options):
        raise BuildError(f"{listed(sorted({f.label for f, _ in late}), 6)}: {NEEDS_STACK}")
    warn(
        "-z execstack: the library asks for an executable stack, which makes the stack of each thread of the"
        " program executable; glibc 2.41 and later, and hardened systems, refuse to load it",
        PortabilityWarning,
    )


def _check_plugins(plugins: Sequence[Plugin], elf: ElfFile) -> None:
    """Refuse a library that does not export the tables of its plug-ins.

    Raises:
        BuildError: naming the plug-in.
    """
    if missing := next((p.symbol for p in plugins if elf.find(p.symbol) is None), None):
        raise BuildError(
            f"carry: {missing} is linked, but the library does not export it: a version script or an option of the"
            " link hides it; add it to the global symbols there"
        )


# Who provides symbols to a library when it is opened, or at any time.
_PRESENT = r"TVM runtime|tvm_ffi|libmblob|dynamic linker|linker$|compiler$|libgcc|libmvec|Python"
_NAMED = 12  # symbols that one warning names


def undefined_text(elf: ElfFile, library: Path, known: Collection[str] = ()) -> str:
    """The text about symbols of the library that nothing defines: neither what was linked, nor the
    libraries that it needs, nor the runtime that opens it; but for those that are `known`. "" without any."""
    try:
        names = [name for name in _unprovided(elf, library) if name.split(" ")[0] not in known]
    except (MblobError, OSError):  # of another machine, or the linker of somebody else
        return ""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    if not names:
        return ""
    return (
        f"nothing that is linked defines {', '.join(map(shown_name, names[:_NAMED]))}{more}: opening the library fails"
        " unless the process has it; add the object or the library (-lNAME as an option of the linker) that defines it"
    )


def _unprovided(elf: ElfFile, library: Path) -> list[str]:
    if elf.e_type != ET_DYN or not _has_undefined_without_version(elf):
        return []
    # the linker wrote the version, or the file, of what it found
    unknown = {
        u.name: f"{u.name} (of {u.provider})" if u.provider else u.name
        for u in undefined_symbols(elf)
        if not (u.weak or u.version or u.library or re.match(_PRESENT, u.provider or ""))
    }
    if not unknown:
        return []
    linkage = resolve(elf, str(library), (), "/")
    if linkage.missing_libraries:
        return []
    return [unknown[r.name] for r in linkage.unresolved if r.name in unknown]


def _has_undefined_without_version(elf: ElfFile) -> bool:
    versions = elf.versym
    return any(
        not s.is_defined
        and s.binding != STB_WEAK
        and s.name
        and not (versions and versions[i] & ~HIDDEN > 1)
        for i, s in enumerate(elf.dynsym, 1)
    )
