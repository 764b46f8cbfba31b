"""`mblob.swap`, `strip_index`, `add_index`: another blob for a finished library, whose code stays
byte for byte."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Union

from mblob.arguments import mapping
from mblob.bytes.payload_source import Payload
from mblob.bytes.whole_file import replacing
from mblob.errors import ArgumentTypeError, MblobError, NotFoundError, also, did_you_mean
from mblob.format import note
from mblob.format.blob_plan import TENSOR_ALIGN, largest_own
from mblob.format.ffi_dialect import SYMBOL_OF_0_21
from mblob.format.grammar import GRAMMARS
from mblob.format.model import Blob, Entry
from mblob.format.type_keys import LIBRARY
from mblob.inspect.elf_judge import check_loading
from mblob.inspect.layouts import tells_end
from mblob.inspect.library import EntryView, Library
from mblob.inspect.library_search import shared_elf
from mblob.packager.edit.new_payloads import (
    check_new,
    names_of_tensors,
    payload_of,
    source_files,
    with_tensors,
)
from mblob.packager.edit.rewrite import fingerprint, rewritten
from mblob.packager.errors import BuildError, BuildTypeError
from mblob.packager.join.reembed import place_for, reembed
from mblob.packager.link.request import check_choices
from mblob.packager.path_arguments import check_output, checked_path
from mblob.packager.write.blob_stream import write_blob
from mblob.packager.write.elf_patch import Patch, Stub, section_of
from mblob.packager.write.file_sink import old_library

if TYPE_CHECKING:
    from mblob.typed import Digest

PathLike = Union[str, "os.PathLike[str]"]


def swap(
    library: PathLike, changes: Mapping[int | str, Any] | None = None, output: PathLike | None = None, *,
    weights: Mapping[str, Any] | PathLike | None = None, digest: Digest | None = None, reuse: bool = True,
    **unknown: NoReturn,
) -> None:  # fmt: skip
    """Replace payloads or weights. Code, tree, order and keys stay unchanged.

    Digests, index and build-id are updated. A blob of the same size stays in its place. Otherwise
    it grows or shrinks in place, or moves to the end of the file, whoever linked the library.

    Args:
        library: its path.
        changes: the new payload by index or type key of its entry: bytes-like, a path (read piece
            by piece), or a Module of that key.
        output: path of the new library; None, or the library's own path, replaces the library by a
            rename.
        weights: new tensors by name, of the same element type and shape. Each is an array (buffer
            protocol, or DLPack through numpy), or the path of a `.npy`, `.npz` or `.safetensors`
            file with one tensor, or with a tensor of that name.
            Instead of a mapping, give the path of a `.npz` or `.safetensors` file. It replaces the
            whole safetensors module, if the file is of this format and the library has exactly one,
            or else the tensors of these names, in whichever module each is.
        digest: the digest of each payload in the index: "crc32", "sha256" or "none"; None: as it is.
        reuse: share unchanged blocks, if the file system can share blocks between files.
        unknown: any other keyword is an error.

    Raises:
        TypeError: an unknown keyword.
        BuildError: no such entry or tensor, or two of them; another element type or shape; a wrong
            argument; or a blob that does not fit and cannot move, because code refers to it.
        FormatError: the library is damaged, is no model library, or a new payload breaks the
            grammar of its key.
        DigestError: the library is damaged.
        OSError: a file cannot be read or written.
    """
    if unknown:
        raise _unknown_keyword(min(unknown))
    path = Path(checked_path(library, "swap: library"))
    if changes is not None:
        mapping("swap", "changes", changes, "a dict of payloads by index or key", BuildTypeError)
    if digest is not None:
        check_choices("swap: ", digest=digest)
    # new digests would hide damage
    with Library(path, verify="header" if digest is None else "full") as opened:
        blob = _blob_of(opened)
        new: dict[int, Payload] = {}
        for wanted, value in (changes or {}).items():
            entry = _entry(opened, wanted, value)
            if entry.index in new:
                raise BuildError(f"{entry.place}: named twice")
            new[entry.index] = payload_of(value, entry, blob.dialect)
        if weights is not None:
            for index, payload in with_tensors(opened, weights).items():
                if index in new:
                    raise BuildError(
                        f"{opened.entries[index].place}: has a new payload and new tensors; give one of both"
                    )
                new[index] = payload
        if not new and digest is None:
            raise BuildError(
                "swap: nothing to change; name an entry and its new payload, or weights"
            )
        for index, payload in new.items():
            check_new(opened.entries[index], payload, opened.grammars, blob.dialect)
        index = blob.index_offset is not None
        _write(
            opened,
            blob,
            new,
            output,
            index=index,
            digest=digest,
            reuse=reuse,
            inputs=source_files(changes or {}, weights),
        )


def _unknown_keyword(name: str) -> ArgumentTypeError:
    meant = {
        "payload": "changes",
        "payloads": "changes",
        "entries": "changes",
        "tensors": "weights",
    }
    known = ("library", "changes", "output", "weights", "digest", "reuse")
    close = f"; did you mean {meant[name]!r}?" if name in meant else did_you_mean(name, known)
    return ArgumentTypeError(
        f"swap: unknown argument {name!r}; expected {', '.join(known)}{close}"
        " (changes={KEY: payload}, weights={NAME: array})"
    )


def strip_index(
    library: PathLike, output: PathLike | None = None, *, force: bool = False, reuse: bool = True
) -> None:
    """Remove the index and the digests, so that the blob has the same bytes as one of TVM.

    Aligned payloads, such as weights, move to their place in TVM's format.

    Args:
        library, output, reuse: as of `swap`.
        force: write the result even if mblob cannot read it. This is so for unknown type keys,
            because only the index says where their payloads end.

    Raises:
        BuildError: the library has no index, or only the index says where a payload is.
        FormatError, DigestError, OSError: as of `swap`.
    """
    # nothing tells damage afterwards
    with Library(Path(checked_path(library, "strip_index: library")), verify="full") as opened:
        blob = _blob_of(opened)
        if blob.index_offset is None:
            raise BuildError(f"{opened.path}: has no index")
        unbounded_entries = _unbounded(opened)
        for e in opened.entries:
            unbounded = e in unbounded_entries
            if unbounded and blob.entries[e.index].bulk:
                raise BuildError(
                    f"{e.place}: only the index says where its payload is; such weights need it"
                )
            if unbounded and not force:
                raise BuildError(
                    f"{e.place}: only the index says where its payload ends, so mblob could not open the library; tell"
                    f" its layout (register_loader({e.type_key!r}, layout=...), --layout {e.type_key}=FORM), or force"
                    " strips it for a TVM that has a loader of this key"
                )
        _write(opened, blob, {}, output, index=False, reuse=reuse)


def add_index(
    library: PathLike,
    output: PathLike | None = None,
    *,
    digest: Digest = "crc32",
    reuse: bool = True,
) -> None:
    """Add an index to a blob that TVM wrote: offsets, sizes and digests of the present payloads.

    It differs from an index that mblob packed in one point: if it is lost, no error says so.

    Args:
        library, output, reuse: as of `swap`.
        digest: of each payload, "crc32", "sha256" or "none".

    Raises:
        BuildError: the library has an index, or its dialect takes none, or its tree has `_lib` in
            several places.
        FormatError, DigestError, OSError: as of `swap`.
    """
    check_choices("add_index: ", digest=digest)
    with Library(Path(checked_path(library, "add_index: library")), verify="full") as opened:
        blob = _blob_of(opened)
        if blob.index_offset is not None:
            raise BuildError(f"{opened.path}: has an index already")
        if blob.symbol.endswith(SYMBOL_OF_0_21):
            raise BuildError(
                f"{opened.path}: of TVM 0.21, whose dialect is read without an index only"
            )
        libraries = [str(e.index) for e in opened.entries if e.offset is None]
        if blob.has_tree and len(libraries) > 1:
            raise BuildError(
                f"{opened.path}: entries {' and '.join(libraries)} are both the library itself, as TVM 0.7 wrote them,"
                " and an index has it once; keep the library without an index"
            )
        _write(opened, blob, {}, output, index=True, digest=digest, reuse=reuse)


def _blob_of(library: Library) -> Blob:
    """What the blob of a shared library says.

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


def _entry(library: Library, wanted: int | str, value: Any) -> EntryView:
    """The one entry of an index or a type key, which is to become `value`.

    Raises:
        BuildError: none, several, or the library itself.
    """
    known = ", ".join(f"{e.index} ({e.type_key:.80})" for e in library.entries[:20])
    matches = [e for e in library.entries if str(wanted) in (str(e.index), e.type_key)]
    by_index = [e for e in matches if str(e.index) == str(wanted)]
    matches = by_index or matches
    if not matches:
        keys = {e.type_key for e in library.entries}
        hint = did_you_mean(wanted, keys)
        tensors = names_of_tensors(library) if isinstance(wanted, str) else ()
        if wanted in tensors or hasattr(value, "shape"):
            near = "" if wanted in tensors else did_you_mean(wanted, tensors)
            hint = f"; tensors are replaced by name: weights={{{str(wanted)!r}: 'NEW'}}{near}"
        raise also(BuildError, NotFoundError)(
            f"no entry {wanted!r} in {library.path}; there are {known}{hint}"
        )
    if len(matches) > 1:
        found = ", ".join(str(e.index) for e in matches[:20])
        raise BuildError(
            f"{library.path}: {len(matches)} entries have the key {wanted!r}; name one by its index: {found}"
        )
    (entry,) = matches
    if entry.offset is None:
        raise BuildError(
            f"entry {wanted!r} of {library.path} is the {LIBRARY} itself, which has no payload"
        )
    return entry


def _write(
    library: Library, blob: Blob, new: Mapping[int, Payload], output: PathLike | None, *, index: bool, reuse: bool,
    digest: Digest | None = None, inputs: Mapping[str, Path] | None = None,
) -> None:  # fmt: skip
    """Write the library with its new blob, read it back, and give it its name."""
    path = library.path
    target = Path(checked_path(output, "output")) if output is not None else path
    check_output(target, (inputs or {}).items())
    symbol = library.elf.find(blob.symbol)
    assert symbol is not None
    start = library.blob_offset
    data = memoryview(library.elf.data)
    stub = Stub(data, library.elf, symbol, section_of(library.elf, symbol))
    old_blob = data[start : start + blob.size]
    edit = None if index or blob.index_offset is None else _unannounce
    with replacing(target) as temporary, old_library(path, reuse) as old:
        target_name = f"{library.elf.machine}-linux"
        plan = rewritten(old_blob, blob, new, index=index, digest=digest, target=target_name)
        place = place_for(stub, path, plan, is_placed=_is_placed(blob, symbol.st_value))
        measured = place.measured
        same_form = index == (blob.index_offset is not None) and digest is None
        mark = fingerprint(old_blob, blob) if same_form and measured.size == blob.size else None
        write = partial(write_blob, plan, old=old, promised=measured, lead=place.lead)
        reembed(stub, path, temporary, write, place, edit, mark)
        _read_back(temporary, library, measured.entries, index)


def _is_placed(blob: Blob, address: int) -> bool:
    """Whether a blob is where its largest payload of a program's own key is aligned."""
    i = largest_own((e.type_key, 0 if e.bulk else e.size) for e in blob.entries)
    return i is not None and not (address + (blob.entries[i].offset or 0)) % TENSOR_ALIGN


def _unannounce(patch: Patch) -> None:
    """Take the index from the notes that announce it."""
    record = note.descriptor(patch.byte_order)
    for desc, at in note.ours(patch.notes()):
        flags = record.field_at(desc, "flags")
        patch.put(record, at, flags=flags & ~note.HAS_INDEX)


def _unbounded(library: Library) -> list[EntryView]:
    """Modules of a classic library of which only an index says where the payload ends: nothing knows
    the key, or its loader takes what is left, and there is a module behind it."""
    if library.dialect != "classic":
        return []
    stored = [e for e in library.entries if e.offset is not None]
    return [
        e
        for e in stored
        if e.type_key not in GRAMMARS and not tells_end(e.type_key, is_last=e is stored[-1])
    ]


def _read_back(path: Path, before: Library, written: Sequence[Entry], index: bool) -> None:
    """Read the new library before it takes its place.

    Raises:
        BuildError: it does not say what was written.
    """
    if not index and _unbounded(before):
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
