"""The ffi dialect: docs/format.md, section 11. Reads what TVM 0.21 and later write;
`mblob.format.blob_plan` writes what 0.22 and later read."""

from __future__ import annotations

from mblob.bytes.wire import Cursor, encode_u64
from mblob.errors import FormatError
from mblob.format import classic
from mblob.format import index as ix
from mblob.format.blob_model import Blob, Entry
from mblob.format.grammar import FFI_GRAMMARS, FFI_GRAMMARS_OF_0_21, Grammars, decode_payload
from mblob.format.import_tree import check_tree
from mblob.format.type_keys import LIB_KEY, LIBRARY

SYMBOL = "__tvm_ffi__library_bin"  # of 0.22 and later
SYMBOL_OF_0_21 = "__tvm_ffi_library_bin"
SYMBOLS = (SYMBOL, SYMBOL_OF_0_21)
CONTEXT, CONTEXT_OF_0_21 = "__tvm_ffi__library_ctx", "__tvm_ffi_library_ctx"
SMALLEST_MODULE = 8 + 1  # bytes: a kind's length and one letter
# bytes: what stands in the stream for a payload of the bulk region, its offset and its size
PLACE_SIZE = 16


def grammars_of(blob: Blob) -> Grammars:
    """The grammars of the payloads of a blob of this dialect."""
    return FFI_GRAMMARS_OF_0_21 if blob.symbol == SYMBOL_OF_0_21 else FFI_GRAMMARS


def read(
    data: memoryview,
    symbol: str = SYMBOL,
    *,
    level: str = "header",
    index_expected: bool = False,
    measures: classic.Measures = classic.no_measures,
) -> Blob:
    """Read a blob; nothing is copied.

    Args:
        data: the bytes of the symbol (`st_size` of them), its length prefix included.
        symbol: its name, which tells the layout.
        level: as of `mblob.format.classic.read`. Without an index, "full" walks each payload of a
            known kind.
        index_expected: the library's note announces an index.
        measures: as of `mblob.format.classic.read`, for TVM 0.21.

    Raises:
        FormatError: a rule of docs/format.md, sections 4 and 11, is broken.
        DigestError: bytes differ from their digest.
    """
    blob = classic.sized(data)
    if symbol == SYMBOL_OF_0_21:
        found = classic.read_stream(blob, FFI_GRAMMARS_OF_0_21, measures)
        return found._replace(dialect="ffi", symbol=symbol)
    footer = ix.find_footer(blob, index_expected)
    if footer is None:
        found = _read_modules(blob)
        if level == "full":
            check_payloads(blob, found)
    else:
        found = ix.read_index(blob, footer, "ffi", check=level != "off")._replace(symbol=SYMBOL)
        if level == "full" or (level == "header" and ix.is_small(found)):
            ix.check_payloads(blob, found)
            ix.check_structure(blob, found, footer)
            _compare(blob, found)
    return found


def _compare(blob: memoryview, found: Blob) -> None:
    """Check that the stream, which TVM reads, says what the index says.

    Raises:
        FormatError: "index_damaged"; a rule that the stream breaks.
    """

    def differ(what: str, entry: int | None = None, offset: int | None = None) -> FormatError:
        return FormatError(
            f"the stream has {what}, the index says otherwise",
            code="index_damaged",
            offset=offset,
            entry=entry,
        )

    stream = _read_modules(blob[: found.stream_size])
    if len(stream.entries) != len(found.entries) or not found.has_tree:
        raise differ(f"{len(stream.entries)} modules and an import tree")
    for e, listed in zip(stream.entries, found.entries):
        if (e.type_key, e.imports) != (listed.type_key, listed.imports):
            raise differ(
                f"kind {e.type_key!r} that imports {', '.join(map(str, e.imports)) or 'nothing'}",
                e.index,
                e.item_offset,
            )
        if e.item_offset != listed.item_offset:
            raise differ(f"module {e.index} at {e.item_offset}", e.index, e.item_offset)
        if listed.bulk and listed.offset is not None:
            place = blob[e.offset or 0 :][: e.size]
            if listed.offset < found.stream_size or place != _place(listed):
                raise differ("another place of a payload behind it", e.index, e.offset)
        elif (e.offset, e.size) != (listed.offset, listed.size):
            raise differ(f"a payload of {e.size} bytes at {e.offset}", e.index, e.offset)
    if stream.stream_size != found.stream_size:
        raise differ(f"{found.stream_size - stream.stream_size} bytes after its last module")


def _place(e: Entry) -> bytes:
    """The offset and size that stand in the stream for a payload of the bulk region."""
    return encode_u64(e.offset or 0) + encode_u64(e.size)


def _read_modules(blob: memoryview) -> Blob:
    cursor = Cursor(blob, 8)
    tree_at = cursor.pos
    row_ptr, child = cursor.u64s("import tree: indptr"), cursor.u64s("import tree: child")
    modules = len(row_ptr) - 1
    if modules < 1:
        raise FormatError(
            f"import tree: {len(row_ptr)} row pointers, expected at least 2",
            code="tree_empty",
            offset=tree_at,
        )
    if modules > cursor.left // SMALLEST_MODULE:
        raise cursor.fail(
            f"{modules} modules, {cursor.left} bytes are left for them", "truncated", tree_at
        )
    rows = check_tree(row_ptr, child, modules, tree_at)
    entries = []
    library: int | None = None
    for i in range(modules):
        cursor.entry, item = i, cursor.pos
        key = cursor.key(f"module {i}: kind")
        if key != LIB_KEY:
            size = cursor.count(f"module {i} ({key!r}): payload")
            entries.append(
                Entry(i, key, cursor.skip(size, "payload"), size, rows[i], item_offset=item)
            )
            continue
        if library is not None:
            raise cursor.fail(
                f"entries {library} and {i} both stand for the library, expected at most one",
                "two_libraries",
                item,
            )
        library = i
        entries.append(Entry(i, LIBRARY, None, 0, rows[i], item_offset=item))
    return Blob("ffi", len(blob), tuple(entries), cursor.pos, symbol=SYMBOL)


def check_payloads(blob: memoryview, found: Blob) -> None:
    """Walk each payload whose kind has a grammar.

    Raises:
        FormatError: one breaks it; offsets count from the first byte of the blob.
    """
    grammars = grammars_of(found)
    for e in found.entries:
        if e.offset is None:
            continue
        try:
            decode_payload(e.type_key, blob[e.offset : e.offset + e.size], grammars)
        except FormatError as error:
            at = None if error.offset is None else e.offset + error.offset
            raise FormatError(
                f"module {e.index}: {error}", code=error.code, offset=at, entry=e.index
            ) from None
