"""A blob made of another one: some payloads new, everything else as it is, in either dialect, with
or without an index.

Keys, tree and order stay byte for byte what they were, whoever wrote them: the grammar of a stream
leaves its writer no choice.
"""

from __future__ import annotations

from collections.abc import Mapping

from mblob.bytes.digest import ALGORITHM_NAMES
from mblob.bytes.native_copy import crc32
from mblob.bytes.payload_source import BytesPayload, Payload
from mblob.format import ffi_dialect, safetensors
from mblob.format.blob_plan import BlobPlan, OutEntry
from mblob.format.index import FOOTER, check_structure, find_footer
from mblob.format.model import Blob, Entry
from mblob.format.type_keys import SAFETENSORS
from mblob.packager.errors import BuildError
from mblob.packager.write.blob_stream import producer


def rewritten(
    data: memoryview, blob: Blob, changed: Mapping[int, Payload], *, index: bool, target: str,
    digest: str | None = None,
) -> BlobPlan:  # fmt: skip
    """The plan of the new blob. Payloads that stay keep the digest they had, so damage stays
    visible.

    Args:
        data: the old blob, its length prefix included.
        blob: what it says.
        changed: new payloads by index of their entries; their sizes must be known.
        index: whether the new blob has an index.
        target: for an index that the old blob does not have.
        digest: as of `BlobPlan`; None: as the old blob has it. Another one is taken of all payloads,
            which must have been checked.

    Raises:
        BuildError: a payload whose size is not known.
        DigestError: keys or tree of the old blob are damaged: they would be written anew, and
            nobody would see it.
    """
    had_index = blob.index_offset is not None
    if had_index and (footer := find_footer(data, expected=True)) is not None:
        check_structure(data, blob, footer)
    had = ALGORITHM_NAMES[blob.algorithm] if had_index else "crc32"
    digest = had if digest is None else digest
    is_ffi = blob.dialect == "ffi" and not blob.symbol.endswith(ffi_dialect.SYMBOL_OF_0_21)
    return BlobPlan(
        [
            _entry(data, e if digest == had else e._replace(digest=b""), changed.get(e.index))
            for e in blob.entries
        ],
        "ffi" if is_ffi else "classic",
        has_tree=blob.has_tree,
        tail=b"" if index or had_index else data[blob.stream_size :],
        index=index,
        digest=digest,
        target=blob.target if had_index else target,
        producer=blob.producer if had_index else producer(),
    )


def _entry(data: memoryview, e: Entry, new: Payload | None) -> OutEntry:
    if e.offset is None:
        return OutEntry(e.type_key, None, e.imports, e.data)
    if new is None:
        payload: Payload = BytesPayload(data[e.offset : e.offset + e.size])
    elif new.size is None:
        raise BuildError(
            f"entry {e.index} ({e.type_key}): its new payload does not say how many bytes it has"
        )
    else:
        payload = new
    align_at = _data_offset(payload) if e.bulk and e.type_key == SAFETENSORS else 0
    digest = e.digest if new is None else b""
    return OutEntry(
        e.type_key,
        payload,
        e.imports,
        e.data,
        e.alignment if e.bulk else 1,
        align_at,
        e.bulk,
        digest,
    )


def _data_offset(payload: Payload) -> int:
    """Where the tensors of a safetensors payload start."""
    start = b""
    for chunk in payload.chunks():
        start += bytes(chunk[:8])
        if len(start) >= 8:
            break
    return safetensors.data_offset(start[:8], payload.size or 0)


def fingerprint(data: memoryview, blob: Blob) -> bytes:
    """What tells the old blob apart from others, as `mblob.packager.write.blob_stream.write_blob` makes
    it."""
    if blob.index_offset is not None and blob.algorithm:
        return bytes(data[-FOOTER.size :])
    return crc32(data).to_bytes(4, "little") + len(data).to_bytes(8, "little")
