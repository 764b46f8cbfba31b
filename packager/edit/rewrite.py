"""A finished library with another blob: some payloads new or added, everything else as it is, in either
dialect, with or without an index.

Keys, tree and order stay byte for byte what they were, whoever wrote them: the grammar of a stream
leaves its writer no choice. `swap`, `add`, `strip_index` and `add_index` plan their blob here
(`rewritten`), and write their library here (`write_library`).
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Union

from mblob.bytes.digest import ALGORITHM_NAMES
from mblob.bytes.native_copy import crc32
from mblob.bytes.payload_source import BytesPayload, FilePart, Payload
from mblob.errors import ChangedError, MblobError
from mblob.format import ffi_dialect, note, safetensors
from mblob.format.blob_model import Blob, Entry
from mblob.format.blob_plan import LARGE_PAYLOAD, TENSOR_ALIGN, BlobPlan, OutEntry, largest_own
from mblob.format.grammar import FFI_GRAMMARS, GRAMMARS
from mblob.format.import_tree import find_cycle, topological_order
from mblob.format.index import FOOTER, check_structure, find_footer
from mblob.format.type_keys import SAFETENSORS
from mblob.inspect.contents import check_stored
from mblob.inspect.elf_judge import check_loading
from mblob.inspect.library import EntryView, Library
from mblob.inspect.library_search import shared_elf
from mblob.inspect.payload_layouts import find, tells_end
from mblob.packager.errors import BuildError
from mblob.packager.join.reembed import place_for, reembed
from mblob.packager.path_arguments import check_output, checked_path
from mblob.packager.write.blob_stream import producer, write_blob
from mblob.packager.write.elf_patch import Patch, Stub, section_of
from mblob.packager.write.file_sink import old_library
from mblob.temporary import check_may_replace, is_temporary, replacing

PathLike = Union[str, "os.PathLike[str]"]


def blob_of(library: Library) -> Blob:
    """The parsed blob of a shared library.

    Raises:
        FormatError: "no_blob": no model library. BuildError: functions alone, or a blob in a file
            that cannot get another.
    """
    if library.blob is not None and shared_elf(library) is None:
        raise BuildError(
            f"{library.path}: no ELF shared library, and only their blobs can be changed; pack it again"
        )
    if library.blob is None:
        library.require_model()
        raise BuildError(
            f"{library.path}: a library of functions, without a blob that could be changed or indexed"
        )
    return library.blob


OF_0_21 = "of TVM 0.21, whose dialect is read without an index only"


def no_index(library: Library) -> str:
    """The reason why a library can have no index, "" if it can."""
    blob = blob_of(library)
    if blob.symbol.endswith(ffi_dialect.SYMBOL_OF_0_21):
        return OF_0_21
    libraries = [str(e.index) for e in blob.entries if e.offset is None]
    if blob.has_tree and len(libraries) > 1:
        return (
            f"entries {' and '.join(libraries)} are both the library itself, as TVM 0.7 wrote them, and an index has"
            " it once"
        )
    return ""


def rewritten(
    library: Library,
    changed: Mapping[int, Payload],
    *,
    index: bool,
    digest: str | None = None,
    added: Sequence[OutEntry] = (),
    importers: Mapping[int, Sequence[int]] = MappingProxyType({}),
) -> BlobPlan:
    """The plan of the new blob. Payloads that stay keep the digest they had, so damage stays
    visible.

    Args:
        library: as of `blob_of`.
        changed: new payloads by index of their entries; their sizes must be known.
        index: whether the new blob has an index.
        digest: as of `BlobPlan`; None: as the old blob has it. Another one is taken of all payloads,
            which must have been checked. A payload that had none is held against what is known of its key:
            a digest says that it is whole.
        added: more modules; their numbers follow those of the old ones.
        importers: what old modules import of them, by number, behind what they import already.

    Raises:
        BuildError: a payload whose size is not known.
        DigestError: keys or tree of the old blob are damaged: they would be written anew, and
            nobody would see it.
        FormatError: a payload that gets its first digest is damaged.
    """
    blob = blob_of(library)
    data = library.blob_bytes()[: blob.size]
    had_index = blob.index_offset is not None
    if had_index and (footer := find_footer(data, expected=True)) is not None:
        check_structure(data, blob, footer)
    is_ffi = blob.dialect == "ffi" and not blob.symbol.endswith(ffi_dialect.SYMBOL_OF_0_21)
    had = ALGORITHM_NAMES[blob.algorithm] if had_index else "crc32"
    digest = had if digest is None else digest
    for e in library.entries if index and digest != "none" else ():
        if e.offset is not None and not e.digest and e.index not in changed:
            check_stored(e.place, e.type_key, e.view(), library.grammars)
    entries = [
        _entry(library, e if digest == had else e._replace(digest=b""), changed.get(e.index))
        for e in blob.entries
    ]
    for i, new in importers.items():
        entries[i] = entries[i]._replace(imports=tuple(dict.fromkeys([*entries[i].imports, *new])))
    return BlobPlan(
        _in_order(entries, added),
        "ffi" if is_ffi else "classic",
        has_tree=blob.has_tree or len(entries) == 1 < len(entries) + len(added),
        tail=b"" if index or had_index else data[blob.stream_size :],
        index=index,
        digest=digest,
        target=blob.target if had_index else f"{library.elf.machine}-linux",
        producer=blob.producer if had_index else producer(),
    )


def _in_order(old: Sequence[OutEntry], added: Sequence[OutEntry]) -> list[OutEntry]:
    """The modules, all numbered anew if one that is added has a higher number than one that it imports.

    Raises:
        BuildError: a circle.
    """
    entries = [*old, *added]
    rows = [e.imports for e in entries]
    if all(min(row) > i for i, row in enumerate(rows) if row and i >= len(old)):
        return entries
    order = topological_order(rows)
    if len(order) < len(entries):
        shown = " -> ".join(entries[i].type_key for i in find_cycle(rows))
        raise BuildError(f"modules would import each other in a circle: {shown}")
    place = {old: new for new, old in enumerate(order)}
    return [
        entries[old]._replace(imports=tuple(sorted(place[c] for c in rows[old]))) for old in order
    ]


def _entry(library: Library, e: Entry, new: Payload | None) -> OutEntry:
    if e.offset is None:
        return OutEntry(e.type_key, None, e.imports, e.data)
    payload = new or _stored(library, e.offset, e.size)
    if payload.size is None:
        raise BuildError(
            f"entry {e.index} ({e.type_key}): its payload does not say how many bytes it has; pass a copy of the file"
        )
    align_at = _data_offset(payload) if e.bulk and e.type_key == SAFETENSORS else 0
    digest = e.digest if new is None else b""
    return OutEntry(
        e.type_key,
        payload,
        imports=e.imports,
        data=e.data,
        alignment=e.alignment if e.bulk else 1,
        align_at=align_at,
        bulk=e.bulk,
        digest=digest,
    )


def _stored(library: Library, offset: int, size: int) -> Payload:
    """A payload that stays. A large one is copied from file to file, or its blocks are shared; one
    in pages that are in memory anyhow is written from them."""
    if size < LARGE_PAYLOAD:
        return BytesPayload(library.blob_bytes()[offset : offset + size])
    return FilePart(library.path, library.blob_offset + offset, size)


def _data_offset(payload: Payload) -> int:
    """The offset in a safetensors payload at which its tensors start."""
    start = b""
    for chunk in payload.chunks():
        start += bytes(chunk[:8])
        if len(start) >= 8:
            break
    return safetensors.data_offset(start[:8], payload.size or 0)


def fingerprint(data: memoryview, blob: Blob) -> bytes:
    """The fingerprint that tells the old blob apart from others, as
    `mblob.packager.write.blob_stream.write_blob` makes it."""
    if blob.index_offset is not None and blob.algorithm:
        return bytes(data[-FOOTER.size :])
    return crc32(data).to_bytes(4, "little") + len(data).to_bytes(8, "little")


# -- the library -----------------------------------------------------------------------------------


def write_library(
    library: Library,
    plan: BlobPlan,
    output: PathLike | None,
    *,
    reuse: bool,
    inputs: Mapping[str, Path],
    source: Library | None = None,
) -> int:
    """Write the library with its new blob, read it back, and give it its name.

    Args:
        plan: of `rewritten`.
        output: the new library; None: it takes the place of the old one.
        reuse: as of `mblob.packager.edit.swap.swap`.
        inputs: files that the output must not be.
        source: the library that the caller named, if `library` is a changed copy of it. It is an error if
            somebody replaced its file meanwhile: what they wrote would be lost.

    Returns:
        Bytes of the place of the old blob that stay behind, where nobody reads them.
    """
    path, blob = library.path, blob_of(library)
    target = Path(checked_path(output, "output")) if output is not None else path
    check_output(target, inputs.items())
    check_may_replace(target, (source or library).path)
    symbol = library.elf.find(blob.symbol)
    assert symbol is not None
    stub = Stub(memoryview(library.elf.data), library.elf, symbol, section_of(library.elf, symbol))
    had_index = blob.index_offset is not None
    edit = _unannounce if had_index and not plan.index else None
    with ExitStack() as held, replacing(target) as temporary, old_library(path, reuse) as old:
        place = place_for(stub, path, plan, is_placed=_is_placed(blob, symbol.st_value))
        measured = place.measured
        same_digest = not had_index or plan.digest == ALGORITHM_NAMES[blob.algorithm]
        same_form = plan.index == had_index and same_digest and measured.size == blob.size
        mark = fingerprint(library.blob_bytes()[: blob.size], blob) if same_form else None
        write = partial(write_blob, plan, old=old, promised=measured, lead=place.lead)
        reembed(stub, path, temporary, write, place, edit, mark)
        _read_back(temporary, library, measured.entries, plan.index)
        held.enter_context(unchanged(source or library))  # until the new file has its name
    left = {"grown": 0, "moved": symbol.st_size, "in place": symbol.st_size - measured.size}
    return left[place.how]


@contextmanager
def unchanged(library: Library) -> Iterator[None]:
    """Have nobody else in this block with the file of a library, if that is the one that was mapped.

    Raises:
        ChangedError: naming it; or another program does not leave such a block.
    """
    path = library.path
    with _locked(Path(os.path.realpath(path))):
        before, after = library.stat, path.stat()
        fields = ("st_ino", "st_size", "st_mtime_ns")
        if any(getattr(after, name) != getattr(before, name) for name in fields):
            raise ChangedError(
                f"{path}: somebody replaced it or wrote to it meanwhile; try again when nobody does"
            )
        yield


_PATIENCE = 10.0  # seconds; a block is as long as a rename


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Have no other mblob in such a block for the folder of a file. The lock is the folder's: that of the file may be
    one of a caller who lets nobody else in (`flock m.so mblob-pack add m.so ...`). Some file systems have none. A
    temporary folder of mblob's has one user, who has locked it.

    Raises:
        ChangedError: another program keeps it.
    """
    folder = path.parent
    if is_temporary(folder):
        yield
        return
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:  # nobody may read the folder
        # O_NONBLOCK: a FIFO would block for ever
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        end = time.monotonic() + _PATIENCE
        while _is_busy(fd):
            if time.monotonic() > end:
                raise ChangedError(
                    f"{folder}: another program has locked this folder for {_PATIENCE:.0f} seconds, and may be about to"
                    " replace a library in it; try again when it has ended"
                )
            time.sleep(0.01)
        yield
    finally:
        os.close(fd)


def _is_busy(fd: int) -> bool:
    """Lock what is open, unless somebody else has locked it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def _is_placed(blob: Blob, address: int) -> bool:
    """True if a blob is where its largest payload of a program's own key is aligned."""
    i = largest_own((e.type_key, 0 if e.bulk else e.size) for e in blob.entries)
    return i is not None and not (address + (blob.entries[i].offset or 0)) % TENSOR_ALIGN


def _unannounce(patch: Patch) -> None:
    """Take the index from the notes that announce it."""
    record = note.descriptor(patch.byte_order)
    for desc, at in note.ours(patch.notes()):
        flags = record.field_at(desc, "flags")
        patch.put(record, at, flags=flags & ~note.HAS_INDEX)


def unbounded(library: Library) -> list[EntryView]:
    """Modules of a classic library of which only an index says where the payload ends: nothing knows
    the key, or its loader takes what is left, and there is a module behind it."""
    if library.dialect != "classic":
        return []
    stored = [e for e in library.entries if e.offset is not None]
    return [
        e
        for e in stored
        if e.type_key not in GRAMMARS
        and not tells_end(e.type_key, is_last=e is stored[-1], carried=library.plugins)
    ]


def unreadable(library: Library) -> list[EntryView]:
    """Modules of a library of the ffi dialect that mblob opens with an index only: no loader knows the key, as
    none does that of weights."""
    if library.dialect != "ffi":
        return []
    stored = [e for e in library.entries if e.offset is not None]
    return [
        e
        for e in stored
        if e.type_key == SAFETENSORS
        or (e.type_key not in FFI_GRAMMARS and find(e.type_key, library.plugins) is None)
    ]


def _read_back(path: Path, before: Library, written: Sequence[Entry], index: bool) -> None:
    """Read the new library before it takes its place.

    Raises:
        BuildError: it does not say what was written.
    """
    if not index and unbounded(before):
        return  # no reader of ours can
    try:
        with Library(path) as found:
            check_loading(found.image)
            read = (
                [(e.type_key, e.size, e.imports) for e in found.blob.entries] if found.blob else []
            )
            has_index = found.blob is not None and found.blob.index_offset is not None
    except MblobError as error:
        raise BuildError(f"{before.path}: the new library does not read back: {error}") from None
    if read != [(e.type_key, e.size, e.imports) for e in written] or has_index != index:
        raise BuildError(f"{before.path}: the new library reads back otherwise than written")
