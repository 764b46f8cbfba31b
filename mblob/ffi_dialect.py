"""The ffi dialect, which TVM writes from 0.21 on: docs/format.md, section 11.

It is read for looking; libraries of it are not run by this version.
"""

from __future__ import annotations

from dataclasses import replace

from mblob import classic
from mblob.errors import FormatError
from mblob.ffi_grammar import GRAMMARS, GRAMMARS_OF_0_21
from mblob.grammar import Grammars, decode_payload
from mblob.model import Blob, Entry, check_tree
from mblob.module import LIBRARY
from mblob.wire import Cursor

SYMBOL = "__tvm_ffi__library_bin"  # of 0.22 and later
SYMBOL_OF_0_21 = "__tvm_ffi_library_bin"
SYMBOLS = (SYMBOL, SYMBOL_OF_0_21)
SMALLEST_MODULE = 8 + 1  # bytes: a kind's length and one letter


def grammars_of(blob: Blob) -> Grammars:
    """The grammars of the payloads of a blob of this dialect."""
    return GRAMMARS_OF_0_21 if blob.symbol == SYMBOL_OF_0_21 else GRAMMARS


def read(data: memoryview, symbol: str = SYMBOL, *, level: str = "header") -> Blob:
    """Read a blob; nothing is copied.

    Args:
        data: the bytes of the symbol (`st_size` of them), its length prefix included.
        symbol: its name, which tells the layout.
        level: "full" also walks each payload of a known kind; there are no digests.

    Raises:
        FormatError: a rule of docs/format.md, section 11, is broken.
    """
    blob = classic.sized(data)
    if symbol == SYMBOL_OF_0_21:
        found = classic.read_stream(blob, GRAMMARS_OF_0_21)
        return replace(found, dialect="ffi", symbol=symbol)
    found = _read_modules(blob)
    if level == "full":
        check_payloads(blob, found)
    return found


def _read_modules(blob: memoryview) -> Blob:
    cursor = Cursor(blob, 8)
    tree_at = cursor.pos
    row_ptr, child = cursor.u64s("import tree: indptr"), cursor.u64s("import tree: child")
    modules = len(row_ptr) - 1
    if modules < 1:
        raise FormatError(
            f"import tree: {len(row_ptr)} row pointers, expected at least 2", code="tree_empty", offset=tree_at
        )
    if modules > cursor.left // SMALLEST_MODULE:
        raise cursor.fail(f"{modules} modules, {cursor.left} bytes are left for them", "truncated", tree_at)
    rows = check_tree(row_ptr, child, modules, tree_at)
    entries = []
    library: int | None = None
    for i in range(modules):
        cursor.entry, item = i, cursor.pos
        key = cursor.key(f"module {i}: kind")
        if key != classic.LIB_KEY:
            size = cursor.count(f"module {i} ({key!r}): payload")
            entries.append(Entry(i, key, cursor.skip(size, "payload"), size, rows[i], item_offset=item))
            continue
        if library is not None:
            raise cursor.fail(
                f"entries {library} and {i} both stand for the library, expected at most one", "two_libraries", item
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
            raise FormatError(f"module {e.index}: {error}", code=error.code, offset=at, entry=e.index) from None
