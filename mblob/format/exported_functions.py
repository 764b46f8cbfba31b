"""Which functions a library exports, and which names it has for the runtime or its compiler: one
list for all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mblob.binary.elf_records import STV_HIDDEN, STV_INTERNAL
from mblob.binary.function_names import function_names
from mblob.binary.image import Image
from mblob.errors import DigestError, FormatError
from mblob.format import classic, ffi_dialect, functions_table, note
from mblob.module import FFI_PREFIX as FFI_PREFIX
from mblob.named_tuple import NamedTuple

# of functions that tell of a function
FFI_METADATA, FFI_DOC = "__tvm_ffi__metadata_", "__tvm_ffi__doc_"
# record of a library of ours for static linking, whose table lists all functions
SYSTEM_LIB = "__mblob_system_lib"
# What only host code of the classic dialect has, and what only TVM 0.21 wrote, which gave functions
# their plain names.
_CLASSIC_MARKS = {classic.SYMBOL, classic.CONTEXT, "__TVMFuncCall", "__TVMAPISetLastError"}
# What only objects of one dialect define or need.
_OF_CLASSIC = {classic.CONTEXT, classic.ENTRY, "TVMFuncCall", "TVMAPISetLastError"}
_OF_CLASSIC |= {f"__{name}" for name in _OF_CLASSIC if name.startswith("TVM")}
_OF_FFI = {ffi_dialect.CONTEXT, ffi_dialect.CONTEXT_OF_0_21}
_FFI_RUNTIME = ("TVMFFI", "__TVMFFI")
# Every module that TVM compiled has its context, or names its entry function, but for C sources.
_OF_MODULE = (classic.CONTEXT, classic.ENTRY)
_SLOT = "__TVM"  # begins the names of slots, which mblob's packed functions have, too
# What only code for TVM's runtime asks for: its C functions, and its classes of C++.
_OF_RUNTIME = ("TVM", "_ZN3tvm", "_ZNK3tvm", "_ZTIN3tvm", "_ZTVN3tvm")
_MARKS_OF_0_21 = {ffi_dialect.SYMBOL_OF_0_21, ffi_dialect.CONTEXT_OF_0_21}
# What compilers, TVM's and mblob, name for the runtime; and C functions of the runtimes themselves.
OUR_PREFIXES = ("__tvm_", "__TVM", "__mblob_")
LIBMBLOB_PREFIX = "mblob_"
RUNTIME_PREFIXES = ("TVM", LIBMBLOB_PREFIX)
NO_MODEL = "not a model library: it has no blob, and exports no name of TVM's or mblob's"

# Exported by compilers and linkers into every library; no function of the user's.
# csrc/src/core/library/lookup.c has them too.
HELPERS = (
    "_init", "_fini", "__extendhfsf2", "__truncsfhf2", "__extendhfdf2", "__truncdfhf2", "__extendhfxf2", "__truncxfhf2",
    "__gnu_h2f_ieee", "__gnu_f2h_ieee",
)  # fmt: skip


def is_helper(name: str) -> bool:
    """True if an exported name is a helper of compilers, TVM or mblob, not a function of the
    user's."""
    return name in HELPERS or name.startswith(OUR_PREFIXES)


def is_mangled(name: str) -> bool:
    """True if a name is one of C++ (Itanium's ABI), whose functions take arguments in a way that
    mblob cannot know."""
    return name.startswith("_Z")


def is_tvm_code(
    defined: Iterable[str], undefined: Iterable[str], *, with_table: bool = False
) -> bool:
    """True if names of an object or a library tell that TVM compiled its code, or that it was
    written for TVM's runtime: its functions are packed ones, if nothing tells otherwise.

    Args:
        with_table: there is a table of functions: mblob's packed functions are listed in it, and
            their slots say nothing of other functions.
    """
    asked = set(undefined)
    names = asked.union(defined)
    return (
        not names.isdisjoint(_OF_MODULE)
        or any(name.startswith(_OF_RUNTIME) for name in asked)
        or (not with_table and any(name.startswith(_SLOT) for name in names))
    )


def code_dialects(defined: Iterable[str], undefined: Iterable[str]) -> set[str]:
    """The dialects that names of an object tell: how its functions are called, or which runtime it asks for
    functions."""
    own = set(defined)
    names = own.union(undefined)
    found = set()
    is_ffi = any(map(ffi_name, own)) or not names.isdisjoint(_OF_FFI)
    if is_ffi or any(name.startswith(_FFI_RUNTIME) for name in names):
        found.add("ffi")
    if not names.isdisjoint(_OF_CLASSIC):
        found.add("classic")
    return found


class HostFunction(NamedTuple):
    """A function that a library exports.

    Attributes:
        name: the name by which programs call it.
        symbol: its symbol in C.
        abi: its calling convention: "packed" (a packed function of the classic dialect), "ffi" (one
            of the ffi dialect), or "plain" (C; without `types` it is one of which nothing says how it
            is called).
        types: C types of the arguments, None if unknown.
        metadata, doc: symbols of the functions of tvm_ffi that return its signature and its
            documentation, or None.
        prototype: the C prototype with the names and dimensions of the parameters, None if unknown.
        origin: where the prototype comes from: "given" by who packed it, the "source", or "debug
            information"; None if unknown.
    """

    name: str
    symbol: str
    abi: str
    types: str | None = None
    metadata: str | None = None
    doc: str | None = None
    prototype: str | None = None
    origin: str | None = None

    @property
    def text(self) -> str:
        """Its prototype. If it is unknown: `NAME(TYPES)`, or `NAME(...)`."""
        known = self.types is not None and self.types != "?"
        shown = functions_table.shown_types(self.types or "") if known else "..."
        return self.prototype or f"{self.name}({shown})"


def read_table(elf: Image, prefix: str = "", *, unseen: bool = False) -> list[functions_table.Row]:
    """Rows of `__mblob_functions`, [] without one.

    Args:
        prefix: of the names of a system library.
        unseen: as of `functions_table.decode`.

    Raises:
        FormatError: "function_table"; "function_table_missing": a note announces it; "elf_dynamic".
        DigestError: it is not the one that the note announces.
    """
    said = note.announced(elf)
    expected = bool(said.flags & note.HAS_TABLE)
    symbol = elf.find(prefix + functions_table.SYMBOL)
    if symbol is None:
        if expected:
            raise FormatError.about(
                elf.name,
                f"its note announces a table of functions, but {functions_table.SYMBOL} is missing: the"
                " library is damaged, or its dynamic symbols were edited",
                code="function_table_missing",
            )
        return []
    data = bytes(elf.bytes_of(symbol)[1])
    if expected and (crc := functions_table.checksum(data)) != said.table_crc:
        raise DigestError.about(
            elf.name,
            f"{functions_table.SYMBOL}: CRC-32 {crc:08x}, its note says {said.table_crc:08x}: the table of functions is"
            " damaged",
        )
    return functions_table.decode(data, unseen=unseen)


def packed_functions(
    elf: Image, table: Sequence[functions_table.Row], prefix: str = ""
) -> list[str]:
    """Names that a module calls through a packed convention, sorted.

    The names that its table lists as packed; and, of code that TVM compiled, every other exported
    function that is no helper and has a C name.
    """
    return sorted({f.name for f in host_functions(elf, table, prefix) if f.abi != "plain"})


def host_functions(
    elf: Image,
    table: Sequence[functions_table.Row],
    prefix: str = "",
    prefixes: Sequence[str] = (),
    *,
    assumed: bool = False,
) -> list[HostFunction]:
    """The functions that a library exports, by name, packed functions before plain ones.

    Args:
        table: as `read_table` gives it.
        prefix: of a system library; a function without it is taken for one of its functions, as TVM
            does,
        prefixes: unless it has another of these, which are all in the file.
        assumed: a function of which nothing tells how it is called is a packed one.
    """
    exported = function_names(elf)
    others = tuple(p for p in prefixes if p and p != prefix)
    if _is_registered(elf, prefix):  # the table names all there are
        return sorted({_of_row(r) for r in table}, key=_order)
    names = {s.name.removeprefix(prefix) for s in elf.exports}
    # In the ffi dialect, names say what is a function.
    assumed = assumed and not any(map(_is_of_ffi, names))
    found = [_of_row(r, assumed=assumed) for r in table if r.symbol in exported]
    listed = {r.symbol for r in table}
    listed_packed = {r.name for r in table if r.abi == "packed"}
    ffi = _ffi_functions(exported, prefix, others)
    # From 0.22 on a function of a module is one whose symbol says so; what else is exported is C or
    # C++ beside it.
    if not ffi or not names.isdisjoint(_CLASSIC_MARKS):
        abi = "packed" if names.isdisjoint(_MARKS_OF_0_21) else "ffi"
        if not (assumed or _is_compiled_by_tvm(elf, abi, prefix)):
            abi = "plain"
        # of objects: what is linked has them no more
        hidden = {s.name for s in elf.exports if s.st_other & 3 in (STV_INTERNAL, STV_HIDDEN)}
        for symbol in exported - listed - hidden:
            name = symbol.removeprefix(prefix)
            of_another = name == symbol and symbol.startswith(others)
            no_function = is_helper(name) or is_helper(symbol) or is_mangled(name)
            if not (of_another or no_function or name in listed_packed):
                found.append(HostFunction(name, symbol, abi))
    by_symbol = {row.symbol: _of_row(row) for row in table}
    symbols = {f.symbol for f in ffi}
    # a table calls both conventions so
    found = [f for f in found if f.abi != "packed" or f.symbol not in symbols]
    known = ((f, by_symbol.get(f.symbol)) for f in ffi)
    ffi = [
        row._replace(symbol=f.symbol, abi=f.abi, metadata=f.metadata, doc=f.doc) if row else f
        for f, row in known
    ]
    return sorted({*found, *ffi}, key=_order)


def _is_of_ffi(name: str) -> bool:
    return name.startswith(FFI_PREFIX) and name not in _MARKS_OF_0_21


def _is_compiled_by_tvm(elf: Image, abi: str, prefix: str) -> bool:
    """True if exported functions that no table lists are packed ones, as
    csrc/src/core/link/ffi_library.c decides it: TVM compiled them, or wrote the blob. mblob lists
    its own, and announces its blob in a note."""
    with_table = elf.find(prefix + functions_table.SYMBOL) is not None
    if abi == "ffi":  # of TVM 0.21, which mblob does not write
        return True
    own = with_table or note.announced(elf).flags & note.HAS_INDEX
    if not own and elf.find(prefix + classic.SYMBOL) is not None:
        return True
    defined = (s.name.removeprefix(prefix) for s in elf.exports)
    return is_tvm_code(defined, (s.name for s in elf.imports), with_table=with_table)


def _is_registered(elf: Image, prefix: str) -> bool:
    """True if it is a library for static linking, whose functions have no symbols of their own."""
    return elf.find(prefix + SYSTEM_LIB) is not None


def without_code(
    elf: Image, table: Sequence[functions_table.Row], prefix: str = ""
) -> list[functions_table.Row]:
    """Rows of a table whose symbol is no function that the library exports."""
    if not table or _is_registered(elf, prefix):
        return []
    exported = function_names(elf)
    return [row for row in table if row.symbol not in exported]


def of_table(rows: Iterable[functions_table.Row]) -> list[HostFunction]:
    """The functions that a table lists, in its order."""
    return [_of_row(row) for row in rows]


def _of_row(row: functions_table.Row, *, assumed: bool = False) -> HostFunction:
    abi = "packed" if assumed and row.types == "?" else row.abi
    prototype, origin = row.prototype or None, row.origin or None
    return HostFunction(row.name, row.symbol, abi, row.types, prototype=prototype, origin=origin)


def _order(f: HostFunction) -> tuple[str, bool, str]:
    return f.name, f.abi == "plain", f.symbol


_RESERVED = ("_library_bin", "_library_ctx", "_metadata_", "_doc_", "_cubin_")


def ffi_name(symbol: str) -> str | None:
    """The function whose symbol of the ffi dialect this is, None if it is none. Of what starts with
    `__tvm_ffi__` some names are reserved; others are functions (`__vmtir__main` of compiled relax
    executables)."""
    name = symbol[len(FFI_PREFIX) :] if symbol.startswith(FFI_PREFIX) else ""
    return name if name and not name.startswith(_RESERVED) else None


def _ffi_functions(
    symbols: Iterable[str], prefix: str, others: tuple[str, ...]
) -> list[HostFunction]:
    """Functions of the ffi dialect, without the prefix of their symbols; those that tell of others
    belong to these."""
    all_symbols = set(symbols)
    found = []
    for symbol in all_symbols:
        rest = ffi_name(symbol)
        if (
            rest is None
            or not (name := rest.removeprefix(prefix))
            or (name == rest and rest.startswith(others))
        ):
            continue
        described = [mark + rest for mark in (FFI_METADATA, FFI_DOC)]
        found.append(
            HostFunction(
                name, symbol, "ffi", None, *(t if t in all_symbols else None for t in described)
            )
        )
    return found
