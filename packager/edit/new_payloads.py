"""The replacements of an old payload: bytes, files, modules, or the old payload with some of its
tensors new."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from mblob import texts
from mblob.bytes.mapping import map_file
from mblob.bytes.payload_source import (
    BytesPayload,
    FilePayload,
    Payload,
    PlacedPayload,
)
from mblob.errors import FormatError, NotFoundError, PortabilityWarning, also, did_you_mean
from mblob.format.grammar import Grammars
from mblob.format.ndarray import ArrayRecord
from mblob.format.type_keys import SAFETENSORS
from mblob.inspect import contents, payload_layouts, tvm_executor
from mblob.inspect.library import EntryView, Library
from mblob.inspect.tensors import StoredTensor
from mblob.module import Module
from mblob.packager.errors import BuildError, BuildTypeError, refused, warn
from mblob.packager.modules.nodes import PiecesPayload, bytes_of, is_host, record_of
from mblob.packager.modules.weights import check_name, kind_of, read_tensors
from mblob.packager.path_arguments import existing_file, payload_or_path
from mblob.packager.write.blob_stream import out_entry

LISTED = 20  # names that an error gives


def payload_of(value: Any, entry: EntryView, dialect: str) -> Payload:
    """The payload that a caller gave for an entry.

    Raises:
        OSError: no regular file at the path. BuildError: a module of another key, or nothing that
            has bytes.
    """
    if isinstance(value, (str, os.PathLike)):
        with payload_or_path(value):
            path = existing_file(Path(value), "swap")
        return FilePayload(path) if path.stat().st_size else BytesPayload(b"")
    if isinstance(value, Module):
        if is_host(value) or value.type_key != entry.type_key:
            raise BuildError(
                f"{entry.place}: expected a payload of this key, found a module {value.type_key!r}"
            )
        payload = out_entry(value, dialect).payload
        assert payload is not None
        return payload
    try:
        return BytesPayload(bytes_of(value))
    except (TypeError, ValueError) as exc:
        raise refused(exc, f"{entry.place}: expected bytes, a path or a module") from None


def check_new(entry: EntryView, payload: Payload, grammars: Grammars, dialect: str) -> None:
    """Refuse what could not be read in the place of an entry.

    Raises:
        FormatError: it breaks the grammar of the key, or that of the graph or executable in it, or the
            layout of its loader. BuildError: it is empty, in the dialect whose loader takes that for damage.
    """
    name = f"the new payload of {entry.place}"
    data = _bytes_of(payload)
    if dialect == "ffi" and not len(data):
        raise BuildError(
            f"{name}: empty, which TVM's loader of the ffi dialect takes for a damaged file"
        )
    problem = tvm_executor.read_problem(entry.type_key, data, grammars)
    if problem is not None:
        warn(f"{name}: TVM's graph executor cannot run its graph: {problem}", PortabilityWarning)
    try:
        contents.check(entry.type_key, data, grammars)
        payload_layouts.check_whole(entry.type_key, data)
    except FormatError as error:
        error.prefix(name if not isinstance(payload, FilePayload) else f"{payload.path}: {name}")
        raise


def _bytes_of(payload: Payload) -> memoryview:
    if isinstance(payload, FilePayload):
        return map_file(payload.path)
    if isinstance(payload, BytesPayload):
        return payload.data
    placed = payload.at(0) if isinstance(payload, PlacedPayload) else payload
    return memoryview(b"".join(placed.chunks()))


def source_files(changes: Iterable[Any], weights: Any) -> dict[str, Path]:
    """The files among the arguments of `swap`, which its output must not be."""
    found = {}
    given: Iterable[Any] = [
        *changes,
        *(weights.values() if isinstance(weights, Mapping) else [weights]),
    ]
    for value in given:
        if isinstance(value, (str, os.PathLike)):
            found[f"the new content {value}"] = Path(value)
    return found


# -- tensors ---------------------------------------------------------------------------------------


def with_tensors(
    library: Library, weights: Mapping[str, Any] | str | os.PathLike[str]
) -> dict[int, Payload]:
    """New payloads by index of entry, for tensors by name or a whole file.

    Raises:
        BuildError: a tensor that is not there, or twice, or of another element type or shape.
        FormatError: a file that is none. OSError: one that cannot be read.
    """
    if isinstance(weights, (str, os.PathLike)):
        path = existing_file(Path(weights), "swap: weights")
        entries = [e for e in library.entries if e.type_key == SAFETENSORS]
        kind = kind_of(map_file(path))
        named = path.stem if kind == "npy" else ""
        if named and named not in tensors_by_name(library):
            names = (
                ", ".join(f"{n:.80}" for n in sorted(tensors_by_name(library))[:LISTED])
                or "none at all"
            )
            raise BuildError(
                f"{path}: one array, without a name; say which tensor it is: weights={{'NAME': '{path}'}};"
                f" there are {names}"
            )
        whole = len(entries) == 1 and "parameters" not in entries[0].content.facts
        if whole and not kind:
            read_tensors(path)  # which says what is expected if it is none
            return {entries[0].index: FilePayload(path)}
        weights = read_tensors(path)
    elif not isinstance(weights, Mapping):
        raise BuildTypeError(
            f"weights: expected a path or a mapping of names, found {type(weights).__name__}"
        )
    stored = tensors_by_name(library)
    changed: dict[int, list[tuple[StoredTensor, memoryview]]] = {}
    for name, value in weights.items():
        entry, old = _only(stored, check_name(name), library)
        changed.setdefault(entry.index, []).append(
            (old, _data_for(old, _record_of(value, name), entry))
        )
    return {
        index: _spliced(library.entries[index].view(), tensors)
        for index, tensors in changed.items()
    }


def tensors_by_name(library: Library) -> dict[str, list[tuple[EntryView, StoredTensor]]]:
    """All tensors in a library, and the entries that they are in.

    Raises:
        FormatError: a payload is damaged.
    """
    stored: dict[str, list[tuple[EntryView, StoredTensor]]] = {}
    for entry in library.entries:
        try:
            for tensor in entry.tensors:
                stored.setdefault(tensor.name, []).append((entry, tensor))
        except FormatError as error:
            error.prefix(entry.place)
            raise
    return stored


def names_of_tensors(library: Library) -> Collection[str]:
    """Of all tensors in a library, for errors: none where one of its payloads is damaged."""
    try:
        return tensors_by_name(library).keys()
    except FormatError:
        return ()


def _only(
    stored: Mapping[str, list[tuple[EntryView, StoredTensor]]], name: str, library: Library
) -> tuple[EntryView, StoredTensor]:
    found = stored.get(name, [])
    if len(found) == 1:
        return found[0]
    if not found:
        whole = next(
            (
                e
                for e in library.entries
                if name in (str(e.index), e.type_key) and e.offset is not None
            ),
            None,
        )
        if whole is not None:
            raise also(BuildError, NotFoundError)(
                f"no tensor {name[:80]!r} in {library.path}; to replace entry {name} as a whole:"
                f" changes={{{name!r}: 'NEW'}}"
            )
        known = ", ".join(f"{n:.80}" for n in sorted(stored)[:LISTED]) or "none at all"
        more = f" and {len(stored) - LISTED} more" if len(stored) > LISTED else ""
        raise also(BuildError, NotFoundError)(
            f"no tensor {name[:80]!r} in {library.path}; there are {known}{more}{did_you_mean(name, stored)}"
        )
    places = ", ".join(f"{e.index} ({e.type_key:.80})" for e, _ in found[:LISTED])
    raise BuildError(
        f"{library.path}: tensor {name[:80]!r} is in several entries: {places}; replace one of them as a whole:"
        f" changes={{'{found[0][0].index}': 'NEW'}}"
    )


def _record_of(value: Any, name: str) -> ArrayRecord:
    """The array that a caller gave for a tensor: itself, or a file."""
    if isinstance(value, (str, os.PathLike)):
        path = existing_file(Path(value), f"swap: tensor {name!r}")
        tensors = read_tensors(path)
        if name in tensors:
            return tensors[name]
        if len(tensors) == 1:
            return next(iter(tensors.values()))
        raise BuildError(f"{path}: no tensor {name[:80]!r} among the {len(tensors)} in it")
    return record_of(value, f"swap: tensor {name!r}")


def _data_for(old: StoredTensor, new: ArrayRecord, entry: EntryView) -> memoryview:
    if (new.dtype, new.shape) != (old.dtype, old.shape) or len(new.data) != len(old.data):
        how = "" if new.dtype == old.dtype else texts.say(texts.ASTYPE, old.dtype)
        if entry.type_key == SAFETENSORS and new.shape != old.shape:
            how = "; if no code needs that shape, add replaces the module: replace=True, with a file of all its tensors"
        was = "may be" if entry.type_key == SAFETENSORS else "was"
        raise BuildError(
            f"{entry.place}: tensor {old.name[:80]!r}: expected {old.dtype} of shape {old.shape}, which the code of the"
            f" library {was} compiled for, found {new.dtype} of shape {new.shape}{how}"
        )
    return new.data


def _spliced(payload: memoryview, tensors: list[tuple[StoredTensor, memoryview]]) -> PiecesPayload:
    """A payload with other bytes where some of its tensors are."""
    pieces: list[memoryview] = []
    at = 0
    for old, data in sorted(tensors, key=lambda item: item[0].offset):
        pieces += [payload[at : old.offset], data]
        at = old.offset + len(old.data)
    return PiecesPayload([*pieces, payload[at:]])
