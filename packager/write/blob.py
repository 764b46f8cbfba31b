"""The blob of a module tree: what goes in, and writing it into whatever takes it."""

from __future__ import annotations

from dataclasses import dataclass

import mblob
from mblob.bytes.sink import Sink
from mblob.format import ffi_dialect, order
from mblob.format.grammar import GRAMMARS
from mblob.format.stream_writer import Layout, OutEntry, Target
from mblob.module import LIBRARY, Module
from mblob.packager.errors import BuildError
from mblob.packager.modules.nodes import HostNode, check_serializable, is_host, node_of, out_entry
from mblob.packager.write.dialects import CLASSIC, Dialect
from mblob.packager.write.progress import watched
from mblob.packager.write.reuse import OldLibrary


@dataclass(frozen=True)
class Contents:
    """A module tree, ordered.

    Attributes:
        entries: as they are written; the host modules together are one.
        row_ptr, child: imports, as of `mblob.format.order.Plan`.
        host: the host modules, in the order of the plan.
        dialect: that they are written in.
    """

    entries: list[OutEntry]
    row_ptr: list[int]
    child: list[int]
    host: list[HostNode]
    dialect: Dialect

    @property
    def is_library_alone(self) -> bool:
        """Whether there is nothing but host code."""
        return len(self.entries) == 1 and self.entries[0].payload is None


def contents_of(root: Module, dialect: Dialect = CLASSIC) -> Contents:
    """Order a tree for writing.

    Raises:
        BuildError: a module that can be neither linked nor serialized, or a circle; one that the dialect has no way to
            say, or that TVM's loader would refuse.
        FormatError: a payload that has to be written differently breaks its grammar.
    """
    check_serializable(root)
    try:
        plan = order.plan(root, is_host)
    except ValueError as exc:
        raise BuildError(str(exc)) from None
    entries = [
        OutEntry(LIBRARY, None) if i == plan.library else out_entry(group[0], dialect.name)
        for i, group in enumerate(plan.groups)
    ]
    host = [] if plan.library is None else [node_of(m) for m in plan.groups[plan.library]]
    contents = Contents(entries, plan.row_ptr, plan.child, [n for n in host if isinstance(n, HostNode)], dialect)
    if dialect.is_ffi:
        try:
            ffi_dialect.check_layout(Layout(entries, plan.row_ptr, plan.child))
        except ValueError as exc:
            raise BuildError(str(exc)) from None
    return contents


@dataclass(frozen=True)
class BlobWriter:
    """Writes the blob of one export.

    Attributes:
        contents: what.
        index, digest, target, hashing: as of `mblob.format.classic.write`.
        old: the library whose blocks a new one may share.
    """

    contents: Contents
    index: bool
    digest: str
    target: Target
    hashing: str = "auto"
    old: OldLibrary | None = None

    @property
    def is_needed(self) -> bool:
        """Whether the library gets a blob at all. As TVM, a library alone has none; with an index it has one."""
        return self.index or not self.contents.is_library_alone

    @property
    def known_size(self) -> int | None:
        """Bytes of all payloads; None if one of them does not know, and can perhaps be read only once.

        Raises:
            OSError: a payload's file cannot be looked at.
        """
        sizes = [e.payload.size for e in self.contents.entries if e.payload is not None]
        return None if None in sizes else sum(size or 0 for size in sizes)

    @property
    def unbounded_keys(self) -> list[str]:
        """Type keys of which only an index could tell where their payloads end, and that have none."""
        told = self.index or self.contents.dialect.is_ffi  # where payloads have a length
        keys = [] if told else [e.type_key for e in self.contents.entries]
        return sorted({k for k in keys if k != LIBRARY and k not in GRAMMARS})

    @property
    def has_digests(self) -> bool:
        """Whether the footer of the blob depends on every byte of it."""
        return self.index and self.digest != "none"

    def write(self, sink: Sink) -> int:
        """Stream the blob and return its size in bytes.

        Raises:
            OSError, MblobError: a payload cannot be read, or changed while it was read.
        """
        c = self.contents
        size: int = c.dialect.format.write(
            watched(sink), c.entries, c.row_ptr, c.child, index=self.index, digest=self.digest,
            target=self.target, producer=f"mblob {mblob.__version__}", hashing=self.hashing,
        )  # fmt: skip
        return size
