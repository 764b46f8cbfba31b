"""The blob of a module tree: what goes in, and writing it into whatever takes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import mblob
from mblob import classic, order
from mblob.grammar import GRAMMARS
from mblob.library import Library
from mblob.module import LIBRARY, Module
from mblob.sink import Sink
from packager.errors import BuildError
from packager.nodes import HostNode, check_serializable, is_host, node_of, out_entry
from packager.progress import watched
from packager.reuse import OldLibrary


@dataclass(frozen=True)
class Contents:
    """A module tree, ordered.

    Attributes:
        entries: as they are written; the host modules together are one.
        row_ptr, child: imports, as of `mblob.order.Plan`.
        host: the host modules, in the order of the plan.
    """

    entries: list[classic.OutEntry]
    row_ptr: list[int]
    child: list[int]
    host: list[HostNode]

    @property
    def is_library_alone(self) -> bool:
        """Whether there is nothing but host code."""
        return len(self.entries) == 1 and self.entries[0].payload is None


def contents_of(root: Module) -> Contents:
    """Order a tree for writing.

    Raises:
        BuildError: a module that can be neither linked nor serialized, or a circle.
    """
    check_serializable(root)
    try:
        plan = order.plan(root, is_host)
    except ValueError as exc:
        raise BuildError(str(exc)) from None
    entries = [
        classic.OutEntry(LIBRARY, None) if i == plan.library else out_entry(group[0])
        for i, group in enumerate(plan.groups)
    ]
    host = [] if plan.library is None else [node_of(m) for m in plan.groups[plan.library]]
    return Contents(entries, plan.row_ptr, plan.child, [n for n in host if isinstance(n, HostNode)])


@dataclass(frozen=True)
class BlobWriter:
    """Writes the blob of one export.

    Attributes:
        contents: what.
        index, digest, target, hashing: as of `mblob.classic.write`.
        old: the library whose blocks a new one may share.
    """

    contents: Contents
    index: bool
    digest: str
    target: str
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
        keys = [] if self.index else [e.type_key for e in self.contents.entries]
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
        return classic.write(
            watched(sink), c.entries, c.row_ptr, c.child, index=self.index, digest=self.digest,
            target=self.target, producer=f"mblob {mblob.__version__}", hashing=self.hashing,
        )  # fmt: skip


def verify(path: Path, writer: BlobWriter, size: int) -> None:
    """Read a finished library back, before it takes its place.

    Raises:
        FormatError, DigestError: it cannot be read.
        BuildError: it does not say what was written.
    """
    wanted = [e.type_key for e in writer.contents.entries]
    if writer.unbounded_keys:
        return  # no reader of ours can, and export_library says so
    with Library(path) as found:
        read = [] if found.blob is None else [e.type_key for e in found.blob.entries]
        if found.blob is None or found.blob.size != size or read != wanted:
            raise BuildError(
                f"{path.name}: reads back as {_short(read)}, written was {_short(wanted)}: the linker changed it"
            )


def _short(keys: Sequence[str]) -> str:
    return ", ".join(keys[:8]) + (f" and {len(keys) - 8} more" if len(keys) > 8 else "")
