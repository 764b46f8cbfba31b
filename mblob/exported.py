"""Which functions a library exports, and which names it has for the runtime or its compiler: one list for all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mblob import functions_table, note
from mblob.elf import ElfFile
from mblob.elf_records import STT_FUNC, STT_GNU_IFUNC
from mblob.errors import DigestError, FormatError

FFI_PREFIX = "__tvm_ffi_"  # of a function's symbol from TVM 0.22 on
OUR_PREFIXES = ("__tvm_", "__TVM", "__mblob_")

# Exported by compilers and linkers into every library; no function of the user's. csrc/src/lookup.c has them too.
HELPERS = ("_init", "_fini", "__extendhfsf2", "__truncsfhf2", "__gnu_h2f_ieee", "__gnu_f2h_ieee")


def is_helper(name: str) -> bool:
    """Whether an exported name is a helper of compilers, TVM or mblob, not a function of the user's."""
    return name in HELPERS or name.startswith(OUR_PREFIXES)


def read_table(elf: ElfFile) -> list[functions_table.Row]:
    """Rows of `__mblob_functions`, [] without one.

    Raises:
        FormatError: "function_table"; "function_table_missing": a note announces it; "elf_dynamic".
        DigestError: it is not the one that the note announces.
    """
    said = note.announced(elf)
    expected = bool(said.flags & note.HAS_TABLE)
    symbol = elf.find(functions_table.SYMBOL)
    if symbol is None:
        if expected:
            raise FormatError(
                f"{elf.name}: its note announces a table of functions, but {functions_table.SYMBOL} is missing: the"
                " library is damaged, or its dynamic symbols were edited",
                code="function_table_missing",
            )
        return []
    data = bytes(elf.bytes_of(symbol)[1])
    if expected and (crc := functions_table.checksum(data)) != said.table_crc:
        raise DigestError(
            f"{elf.name}: {functions_table.SYMBOL}: CRC-32 {crc:08x}, its note says {said.table_crc:08x}: the table of"
            " functions is damaged"
        )
    return functions_table.decode(data)


def packed_functions(elf: ElfFile, table: Sequence[functions_table.Row]) -> list[str]:
    """Names that a module calls through the packed convention, sorted.

    With a table the names it lists as packed; beside it, every other exported function that is no helper.
    """
    listed = {row.symbol for row in table}
    exported = {s.name for s in elf.dynsym if s.is_exported and s.type in (STT_FUNC, STT_GNU_IFUNC)}
    others = {name for name in exported - listed if not is_helper(name)}
    return sorted(others.union(_ffi_names(exported), (row.name for row in table if row.abi == "packed")))


def _ffi_names(symbols: Iterable[str]) -> set[str]:
    """Functions of the ffi dialect, without the prefix of their symbols."""
    names = {s[len(FFI_PREFIX) :] for s in symbols if s.startswith(FFI_PREFIX)}
    return {name for name in names if name and not name.startswith("_")}  # "__tvm_ffi__" is reserved
