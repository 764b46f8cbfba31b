"""`mblob.swap`, `strip_index`, `add_index`: another blob for a finished library, whose code stays
byte for byte."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from mblob.arguments import mapping
from mblob.bytes.payload_source import Payload
from mblob.errors import ArgumentTypeError, NotFoundError, also, did_you_mean
from mblob.format.type_keys import LIBRARY
from mblob.inspect.library import EntryView, Library
from mblob.packager.edit.new_payloads import (
    check_new,
    names_of_tensors,
    payload_of,
    source_files,
    with_tensors,
)
from mblob.packager.edit.rewrite import (
    PathLike,
    blob_of,
    no_index,
    rewritten,
    unbounded,
    unreadable,
    write_library,
)
from mblob.packager.errors import BuildError, BuildTypeError
from mblob.packager.path_arguments import checked_path
from mblob.packager.write.dialects import check_choices

if TYPE_CHECKING:
    from mblob.typed import Digest


def swap(
    library: PathLike,
    changes: Mapping[int | str, Any] | None = None,
    output: PathLike | None = None,
    *,
    weights: Mapping[str, Any] | PathLike | None = None,
    blobs: Mapping[str, Any] | None = None,
    digest: Digest | None = None,
    reuse: bool = True,
    **unknown: NoReturn,
) -> None:
    """Replace payloads or weights. Code, tree, order and keys stay unchanged.

    Digests, index and build-id are updated. A blob of the same size stays in its place. Otherwise
    it grows or shrinks in place, or moves to the end of the file, whoever linked the library.

    Args:
        library: its path.
        changes: the new payload by index or type key of its entry: bytes-like, a path (read piece
            by piece), or a Module of that key.
        output: path of the new library, as of `add`: without it, it takes the place of the old one.
        weights: new tensors by name, of the same element type and shape. Each is an array (buffer
            protocol, or DLPack through numpy), or the path of a `.npy`, `.npz` or `.safetensors`
            file with one tensor, or with a tensor of that name.
            Instead of a mapping, give the path of a `.npy` file with the name of its tensor, or of a
            `.npz` or `.safetensors` file. It replaces the
            whole safetensors module, if the file is of this format and the library has exactly one
            that is no set of parameters of a program, or else the tensors of these names, in whichever
            module each is.
        blobs: new payloads by type key, as `add` takes them; `changes` says the same.
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
        ChangedError: somebody replaced the library meanwhile.
        OSError: a file cannot be read or written.
    """
    if unknown:
        raise _unknown_keyword(min(unknown))
    path = Path(checked_path(library, "swap: library"))
    given: list[tuple[int | str, Any]] = []
    arguments: dict[str, Any] = {"changes": changes, "blobs": blobs}
    for name, row in arguments.items():
        if row is not None:
            mapping("swap", name, row, "a dict of payloads by index or key", BuildTypeError)
            given += row.items()
    if digest is not None:
        check_choices("swap: ", digest=digest)
    # new digests would hide damage
    with Library(path, verify="header" if digest is None else "full") as opened:
        blob = blob_of(opened)
        new: dict[int, Payload] = {}
        for wanted, value in given:
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
        has_index = blob.index_offset is not None
        for i, payload in new.items():
            entry = opened.entries[i]
            check_new(entry, payload, opened.grammars, blob.dialect)
        plan = rewritten(opened, new, index=has_index, digest=digest)
        inputs = source_files([value for _, value in given], weights)
        write_library(opened, plan, output, reuse=reuse, inputs=inputs)


def _unknown_keyword(name: str) -> ArgumentTypeError:
    meant = {
        "payload": "blobs",
        "payloads": "blobs",
        "entries": "changes",
        "tensors": "weights",
    }
    known = ("library", "changes", "output", "weights", "blobs", "digest", "reuse")
    close = f"; did you mean {meant[name]!r}?" if name in meant else did_you_mean(name, known)
    return ArgumentTypeError(
        f"swap: unknown argument {name!r}; expected {', '.join(known)}{close}"
        " (blobs={KEY: payload}, weights={NAME: array})"
    )


def strip_index(
    library: PathLike, output: PathLike | None = None, *, force: bool = False, reuse: bool = True
) -> None:
    """Remove the index and the digests, so that the blob has the same bytes as one of TVM.

    Aligned payloads, such as weights, move to their place in TVM's format.

    Args:
        library, output, reuse: as of `swap`.
        force: write the result even if mblob cannot open it. This is so for keys that no loader knows: only with
            an index are their modules payloads.

    Raises:
        BuildError: the library has no index, mblob could not open the result, or only the index says where a
            payload is.
        FormatError, DigestError, OSError: as of `swap`.
    """
    # nothing tells damage afterwards
    with Library(Path(checked_path(library, "strip_index: library")), verify="full") as opened:
        blob = blob_of(opened)
        if blob.index_offset is None:
            raise BuildError(f"{opened.path}: has no index")
        if not force and (unknown := unreadable(opened)):
            raise BuildError(
                f"{unknown[0].place}: mblob opens such a module with an index only; keep it, or force strips it for a"
                " TVM that has a loader of this key"
            )
        unbounded_entries = unbounded(opened)
        for e in opened.entries:
            is_unbounded = e in unbounded_entries
            if is_unbounded and blob.entries[e.index].bulk:
                raise BuildError(
                    f"{e.place}: only the index says where its payload is; such weights need it"
                )
            if is_unbounded and not force:
                raise BuildError(
                    f"{e.place}: only the index says where its payload ends, so mblob could not open the library; tell"
                    f" its layout by register_loader({e.type_key!r}, layout=...), or force"
                    " strips it for a TVM that has a loader of this key"
                )
        plan = rewritten(opened, {}, index=False)
        write_library(opened, plan, output, reuse=reuse, inputs={})


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
        blob = blob_of(opened)
        if blob.index_offset is not None:
            raise BuildError(f"{opened.path}: has an index already")
        if why := no_index(opened):
            raise BuildError(f"{opened.path}: {why}; keep the library without an index")
        plan = rewritten(opened, {}, index=True, digest=digest)
        write_library(opened, plan, output, reuse=reuse, inputs={})


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
