"""The object of `mblob-pack inspect --json`, schema mblob/inspect/1 (`inspect-1.schema.json` beside
this file)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mblob.binary import elf_facts, isa
from mblob.binary.container import Member
from mblob.binary.elf import ElfFile
from mblob.binary.image import Image

if TYPE_CHECKING:
    from mblob.format.exported_functions import HostFunction
    from mblob.inspect.entry_view import EntryView
    from mblob.inspect.library import Library

SCHEMA = "mblob/inspect/1"
_SCHEMA_FILE = Path(__file__).with_name("inspect-1.schema.json")


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of `Library.to_json()`."""
    found: dict[str, Any] = json.loads(_SCHEMA_FILE.read_text("utf-8"))
    return found


def library_json(library: Library) -> dict[str, Any]:
    """A library as the schema has it."""
    return {
        "schema": SCHEMA,
        "file": str(library.path),
        "format": library.image.format,
        "kind": library.kind,
        "compressed": library.compressed,
        "dialect": library.dialect,
        "era": library.era.to_json(),
        "target": {**library.target, "hints": hints_of(library.image)},
        **linking_json(library.image),
        "members": [_member_json(m) for m in library.members],
        "prefix": library.prefix,
        "prefixes": library.prefixes,
        "blob": _blob_json(library),
        "entries": [entry_json(e) for e in library.entries],
        "models": [m.to_json() for m in library.models],
        "functions": library.functions,
        "plain_functions": library.plain_functions,
        "host_functions": [_function_json(f) for f in library.host_functions],
        "entry_function": library.entry_function,
        "undefined": library.undefined,
        "undefined_symbols": [u._asdict() for u in library.undefined_symbols],
        "unloading": library.unloading and library.unloading.to_json(),
        "plugins": [plugin.to_json() for plugin in library.plugins],
        "diagnostics": library.diagnostics,
    }


def hints_of(image: Image) -> list[str]:
    """The hints of a file on the processors it needs, each once."""
    found = [
        h
        for i in image.images
        for h in (isa.hints(i) if isinstance(i, ElfFile) else getattr(i, "hints", []))
    ]
    return list(dict.fromkeys(found))


def linking_json(image: Image) -> dict[str, Any]:
    """The facts that the dynamic linker reads: needed libraries, own name, search path, build-id;
    and the compilers."""
    if isinstance(image, ElfFile):
        own: dict[str, Any] = {
            "soname": elf_facts.soname(image),
            "runpath": elf_facts.runpath(image),
            "build_id": elf_facts.build_id(image),
            "compilers": elf_facts.compilers(image),
        }
    else:
        compilers = {
            c for i in image.images if isinstance(i, ElfFile) for c in elf_facts.compilers(i)
        }
        own = {
            "soname": getattr(image, "soname", None),
            "runpath": list(getattr(image, "runpath", ())),
            "build_id": getattr(image, "build_id", None),
            "compilers": sorted(compilers),
        }
    return {"needed": list(image.needed), **own}


def _member_json(m: Member) -> dict[str, Any]:
    return {
        "name": m.name,
        "kind": m.kind,
        "offset": m.offset,
        "size": m.size,
        "machine": m.image.machine if m.image is not None else None,
    }


def _blob_json(library: Library) -> dict[str, Any] | None:
    blob = library.blob
    if blob is None:
        return None
    return {
        "symbol": blob.symbol,
        "offset": library.blob_offset,
        "size": blob.size,
        "stream_size": blob.stream_size,
        "index": blob.index_offset is not None,
        "producer": blob.producer or None,
        "target": blob.target or None,
    }


def entry_json(e: EntryView) -> dict[str, Any]:
    """An entry as the schema has it; what its payload says stands beside, under the names of the
    schema."""
    content = e.content
    found = {
        "index": e.index,
        "type_key": e.type_key,
        "offset": e.offset,
        "size": e.size,
        "imports": list(e.imports),
        "data": e.data,
        "alignment": e.alignment,
        "digest": e.digest.hex() or None,
        **content.facts,
    }
    if e.digest:
        found["digest_algorithm"] = e.digest_algorithm
    if content.tensors:
        start = e.offset or 0
        found["tensors"] = [
            {
                "name": t.name,
                "dtype": t.dtype,
                "shape": list(t.shape),
                "offset": start + t.offset,
                "size": t.size,
            }
            for t in content.tensors
        ]
    if content.problem is not None:
        found["problem"] = str(content.problem)
    return found


def _function_json(f: HostFunction) -> dict[str, Any]:
    return {k: v for k, v in f._asdict().items() if v is not None or k == "types"}
