"""The blob of a module tree: what goes in, and streaming it into a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Optional

import mblob
from mblob.bytes.native_copy import crc32
from mblob.bytes.sink import watched
from mblob.errors import ArgumentError, MblobError
from mblob.format.blob_plan import BlobPlan, Measured, OutEntry, Target, check_ffi
from mblob.format.import_tree import order_of
from mblob.format.index import FOOTER
from mblob.format.plugin_table import Plugin
from mblob.format.type_keys import LIBRARY
from mblob.inspect.payload_layouts import size_of, tells_end
from mblob.module import Module
from mblob.packager.errors import BuildError
from mblob.packager.modules.nodes import (
    HostNode,
    PayloadNode,
    SourceNode,
    check_serializable,
    is_host,
    node_of,
)
from mblob.packager.write.dialects import CLASSIC, Dialect
from mblob.packager.write.file_sink import FileSink, OldLibrary, SharingSink
from mblob.packager.write.graph_names import with_packed_names
from mblob.source_suffixes import LANGUAGE_OF

# `write_blob` of some plan: (descriptor, limit, machine) -> (size, bytes that depend on all of it).
WriteBlob = Callable[[int, Optional[int], str], tuple[int, bytes]]
COPY = 256 << 10  # bytes per step of a copy
WHOLE = 16 << 20  # bytes of a blob without digests that are all read for the build-id
# bytes read, out of how many at least; how often at most
SAMPLE, SAMPLED, SAMPLES = 4096, 1 << 20, 1 << 14


def producer() -> str:
    """The program that wrote a blob, as its index names it."""
    return f"mblob {mblob.__version__}"


def plan_blob(
    root: Module,
    dialect: Dialect = CLASSIC,
    *,
    index: bool = True,
    digest: str = "crc32",
    target: Target = "",
    names: Mapping[str, str] | None = None,
) -> tuple[BlobPlan, list[HostNode]]:
    """Order a tree for writing. The host modules, which are linked, are one entry; they are the
    second result.

    Args:
        index, digest, target: as of `mblob.format.blob_plan.BlobPlan`.
        names: what graphs call instead of functions (`mblob.packager.write.graph_names`).

    Raises:
        BuildError: a module that can be neither linked nor serialized, or a circle; one that the
            dialect has no way to say, or that TVM's loader would refuse.
        FormatError: a payload that has to be written differently breaks its grammar.
    """
    check_serializable(root)
    try:
        groups, imports = order_of(root, is_host)
        entries = [
            OutEntry(LIBRARY, None, row)
            if is_host(group[0])
            else _entry(group[0], dialect, names)._replace(imports=row)
            for group, row in zip(groups, imports)
        ]
        if dialect.is_ffi:
            check_ffi(entries)
    except ValueError as exc:
        if isinstance(exc, MblobError) and not isinstance(exc, ArgumentError):
            raise
        raise BuildError(str(exc)) from None
    host = next(([node_of(m) for m in group] for group in groups if is_host(group[0])), [])
    plan = BlobPlan(
        entries, dialect.name, index=index, digest=digest, target=target, producer=producer()
    )
    # TVM writes count 0 alone in the classic one
    plan.has_tree = dialect.is_ffi or not plan.is_library_alone
    return plan, _with_modules_first(root, [node for node in host if isinstance(node, HostNode)])


def _with_modules_first(root: Module, host: list[HostNode]) -> list[HostNode]:
    """Sources in Fortran in the order of imports: one uses modules of those before it. All others stay."""
    of_fortran = {
        id(n) for n in host if isinstance(n, SourceNode) and LANGUAGE_OF[n.fmt] == "fortran"
    }
    given = (
        n for n in map(node_of, root.walk()) if isinstance(n, SourceNode) and id(n) in of_fortran
    )
    return [next(given) if id(n) in of_fortran else n for n in host]


def _entry(module: Module, dialect: Dialect, names: Mapping[str, str] | None) -> OutEntry:
    entry = out_entry(module, dialect.name)
    return with_packed_names(entry, names) if names else entry


def out_entry(module: Module, dialect: str) -> OutEntry:
    """The blob's entry for a module that is no host code, as a dialect writes it. Modules of opened
    libraries are copied by their payload. What it imports is not said.

    Raises:
        BuildError: the dialect has no such kind, or cannot say what it holds; or the key of a
            module of the caller's is none, or its bytes break the grammar of the key.
        FormatError: a payload that has to be written differently breaks its grammar.
    """
    node = node_of(module)
    if isinstance(node, PayloadNode) and node.dialect in (None, dialect):
        if node.is_unread or node.kernels:
            from mblob.packager.modules.payload_conversion import check_node

            check_node(node, dialect)
        return OutEntry(
            node.type_key,
            node.content,
            imports=(),
            data=node.data,
            alignment=node.alignment,
            align_at=node.align_at,
        )
    from mblob.packager.modules.payload_conversion import converted_entry

    return converted_entry(module, dialect)


def write_blob(
    plan: BlobPlan,
    fd: int,
    limit: int | None,
    machine: str,
    *,
    old: OldLibrary | None = None,
    promised: Measured | None = None,
    lead: int = 0,
) -> tuple[int, bytes]:
    """Stream a blob to the descriptor's position; its size, and bytes that depend on all of it.

    Args:
        limit: bytes that it may have at most.
        machine: that the library is for, for the error.
        old: a library whose blocks may be shared.
        promised, lead: as of `mblob.format.blob_plan.BlobPlan.write`.

    Raises:
        IncompatibleError: it has more than `limit` bytes.
        OSError, MblobError: as of `mblob.format.blob_plan.BlobPlan.write`.
    """
    start = os.lseek(fd, 0, os.SEEK_CUR)
    whole = not plan.has_digests and plan.digest != "none"
    what = f"a 32-bit library ({machine})"
    if old is None:
        sink = FileSink(fd, limit, what, checksum=whole)
    else:
        sink = SharingSink(old, fd, limit, what, checksum=whole)
    size = plan.write(watched(sink), promised, lead=lead)
    sink.finish()
    if plan.has_digests:  # the footer holds a checksum of the digests
        return size, os.pread(fd, FOOTER.size, start + size - FOOTER.size)
    crc = sink.crc if whole else _crc_of_samples(fd, start, size)
    return size, crc.to_bytes(4, "little") + size.to_bytes(8, "little")


def unreadable_keys(plan: BlobPlan, carried: Sequence[Plugin] = ()) -> list[str]:
    """Type keys of which nothing says where their payloads end: neither an index, nor a loader that
    this process knows, nor a carried plug-in."""
    unbounded, last = plan.unbounded_keys, plan.entries[-1]
    return sorted(
        {
            e.type_key
            for e in plan.entries
            if e.type_key in unbounded
            and not tells_end(e.type_key, is_last=e is last, carried=carried)
        }
    )


def check_written(
    plan: BlobPlan,
    dialect: Dialect,
    data: memoryview,
    size: int,
    label: str,
    *,
    index_expected: bool,
) -> None:
    """Refuse a blob that does not say what the plan wrote.

    Args:
        data: the blob.
        size: bytes that were written.
        label: of the file that it is in.
        index_expected: the file says that there is an index.

    Raises:
        FormatError, DigestError: it cannot be read.
        BuildError: it says something else.
    """
    if unreadable_keys(plan):
        return  # no reader of ours can, and export_library says so
    try:
        blob = dialect.format.read(data, index_expected=index_expected, measures=size_of)
    except MblobError as error:
        if not error.culprit:
            error.prefix(label)
        raise
    read, wanted = ([e.type_key for e in entries] for entries in (blob.entries, plan.entries))
    if blob.size != size or read != wanted:
        raise BuildError(
            f"{label}: reads back as {_listed(read)}, written was {_listed(wanted)}: the linker changed it"
        )


def _listed(keys: Sequence[str]) -> str:
    return ", ".join(keys[:8]) + (f" and {len(keys) - 8} more" if len(keys) > 8 else "")


def _crc_of_samples(fd: int, start: int, size: int) -> int:
    """A checksum that tells blobs without digests apart: of all of a small one, of a large one a
    page out of each MiB, and its end.

    Reading all of it would cost what leaving out the digests saved.
    """
    step, width = (COPY, COPY) if size <= WHOLE else (max(SAMPLED, -(-size // SAMPLES)), SAMPLE)
    crc = 0
    for at in range(0, size, step):
        crc = crc32(os.pread(fd, min(width, size - at), start + at), crc)
    return crc32(os.pread(fd, min(COPY, size), start + size - min(COPY, size)), crc)


def write_all(fd: int, data: memoryview | bytes) -> None:
    """Write everything at the descriptor's position."""
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left[:COPY]) :]
