"""A finished library is read before it takes its place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mblob.format.blob_plan import BlobPlan
from mblob.inspect.library import Library
from mblob.packager.errors import BuildError


def verify(path: Path, plan: BlobPlan, size: int) -> None:
    """Read a finished library back, before it takes its place.

    Raises:
        FormatError, DigestError: it cannot be read.
        BuildError: it does not say what was written.
    """
    wanted = [e.type_key for e in plan.entries]
    if plan.unbounded_keys:
        return  # no reader of ours can, and export_library says so
    with Library(path) as found:
        read = [] if found.blob is None else [e.type_key for e in found.blob.entries]
        if found.blob is None or found.blob.size != size or read != wanted:
            raise BuildError(
                f"{path.name}: reads back as {_short(read)}, written was {_short(wanted)}: the linker changed it"
            )


def _short(keys: Sequence[str]) -> str:
    return ", ".join(keys[:8]) + (f" and {len(keys) - 8} more" if len(keys) > 8 else "")
