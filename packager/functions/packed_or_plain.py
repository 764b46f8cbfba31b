"""How each function that objects export is called, as far as something tells: the rows of the table
that a loader needs to tell packed functions from others; whether a prototype says the same; which
functions are of the other dialect and need an adapter.

A loader takes a function without a row for a packed one if the library is code that TVM compiled
(`mblob.format.exported.is_tvm_code`), and else for one of which nothing is known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from mblob.argument_types import POINTER_SIZED, SIZES
from mblob.binary.elf import ElfFile
from mblob.binary.function_names import MANGLED
from mblob.bytes.mapping import map_file
from mblob.errors import listed
from mblob.format import classic, functions_table
from mblob.format.exported import FFI_PREFIX, ffi_name, is_helper
from mblob.format.ffi_dialect import CONTEXT_OF_0_21
from mblob.format.functions_table import Row
from mblob.packager.compile.host_objects import HostFile, LinkInput
from mblob.packager.errors import BuildError, warn
from mblob.packager.functions.registration import ALIGNMENT
from mblob.packager.functions.wrappers import Wrapped
from mblob.packager.modules.prototypes import Parameter, Prototype, Scalar
from mblob.packager.objects import object_files
from mblob.packager.objects.object_files import ObjectSymbols
from mblob.packager.write.dialects import CLASSIC, FFI, Dialect

if TYPE_CHECKING:
    from mblob.binary.dwarf_functions import CType, Function

Known = Sequence[LinkInput]


class Undeclared(NamedTuple):
    """Functions without a prototype, each list sorted by name.

    Attributes:
        plain: rows of those that are plain C.
        packed: of packed ones that a loader would not take for packed without a row.
        unknown: of those of which nothing says how they are called.
        is_tvm_code: a loader takes functions without a row for packed ones.
        has_table: an object has the table already: who made it listed the functions.
    """

    plain: list[Row]
    packed: list[Row]
    unknown: list[Row]
    is_tvm_code: bool
    has_table: bool = False

    @property
    def not_packed(self) -> list[Row]:
        return [*self.plain, *self.unknown]

    def rows(self, others: Sequence[Row], *, unannounced_blob: bool) -> list[Row]:
        """What the table needs of them.

        Args:
            others: rows that it has anyway.
            unannounced_blob: there is a blob, and no note tells that mblob wrote it.
        """
        if self.has_table:
            return []
        if self.is_tvm_code:
            return self.not_packed
        found = [*self.plain, *self.packed]
        is_needed = found or others or not unannounced_blob
        return found if is_needed else self.unknown


def classify_undeclared(
    wrapped: Sequence[Wrapped],
    named: Collection[str],
    files: Known,
    table_rows: Sequence[Row] = (),
) -> Undeclared:
    """What is known of the functions without a prototype.

    Args:
        named: functions that the caller calls packed.
        table_rows: rows of a table that came with the files.
    """
    plain = _plain_functions(wrapped, files, table_rows)
    prototypes = {name for w in wrapped for name in (w.prototype.name, w.packed_symbol)}
    rows = {row.symbol for row in (*plain, *table_rows)}
    rows |= {form for row in table_rows for form in forms_of(row.name)}
    packed: set[str] = set()
    unknown: set[str] = set()
    for f, contents in files:
        if f.generated or f.carried:
            continue
        without_row = _exported(contents) - prototypes - rows
        told = {fn.name for fn in f.functions if is_packed(fn, of_tvm=False)}
        here = without_row & (contents.of_tvm | told | set(named))
        packed |= here
        unknown |= without_row - here
    defined = {name for _, c in files for name in c.defined | c.weak}
    if any(functions_table.SYMBOL in c.defined for f, c in files if not f.generated):
        return Undeclared(plain, [], [], is_tvm_code=True, has_table=True)
    # A source that somebody else compiles has names that nobody sees here.
    packed |= {n for n in named if n not in prototypes | rows and FFI_PREFIX + n not in defined}
    return Undeclared(
        plain,
        [Row(name, name, "packed", ALIGNMENT, "?") for name in sorted(packed)],
        [Row(name, name, "plain", 0, "?") for name in sorted(unknown)],
        not defined.isdisjoint((classic.CONTEXT, classic.ENTRY)),
    )


def _exported(contents: ObjectSymbols) -> set[str]:
    """The functions of an object that may be the user's."""
    found = (contents.functions - contents.comdat - contents.hidden) | contents.late
    return {name for name in found if not _is_reserved(name)}


def warn_of_unknown(undeclared: Undeclared, host: Known, files: Known) -> None:
    """Warn of a host module with only functions of which nothing says how they are called, none of
    them used by others.

    Args:
        host: objects of the host modules.
        files: all objects.
    """
    unknown = {row.symbol for row in undeclared.unknown}
    if not unknown:
        return
    used = {name for _, c in files for name in c.undefined}
    for f, contents in host:
        names = set() if f.generated else _exported(contents)
        if names and names <= unknown and used.isdisjoint(names):
            warn(
                f"{f.label}: nothing says how {listed(sorted(names), 6)} {'is' if len(names) == 1 else 'are'} called,"
                " so a call is an error: give its prototype, or, if it is a packed function, its name (functions=)"
            )


def _is_reserved(name: str) -> bool:
    return is_helper(name) or name.startswith((*MANGLED, FFI_PREFIX))


def _plain_functions(
    wrapped: Sequence[Wrapped],
    files: Known,
    table_rows: Sequence[Row],
) -> list[Row]:
    """Rows of the function table for exported C functions without a prototype, sorted by name.

    Without them a loader would have to take such a function for a packed one.

    Args:
        table_rows: rows of a table that came with the files.
    """
    prototypes = {w.prototype.name for w in wrapped}
    hidden = {name for _, c in files for name in c.hidden}
    defined = {name for _, c in files for name in c.defined | c.weak}
    rows = {
        r.name: r
        for r in table_rows
        if r.abi == "plain" and r.symbol in defined and r.name not in prototypes
    }
    packed = {r.symbol for r in table_rows if r.abi == "packed"}
    for f, contents in files:
        for function in f.functions:
            if function.is_guess and function.name in packed:
                continue
            # Of what is compiled with -flto only those are listed that the compiler exports.
            defined_here = (
                not contents.complete or function.name in contents.defined | contents.weak
            )
            if not defined_here or function.name in hidden or function.name in prototypes:
                continue
            row = plain_row(function, of_tvm=function.name in contents.of_tvm)
            if row is not None:
                rows.setdefault(function.name, row)
    return [rows[name] for name in sorted(rows)]


# -- what types tell -------------------------------------------------------------------------------

# Packed functions of TVM and ours under other rules, and tables: never plain functions of a user.
_RESERVED = ("__tvm_", "__TVM", "__mblob_", "TVMBackend")


def is_packed(function: Function, *, of_tvm: bool) -> bool:
    """Whether a function has the shape of TVM's packed ones; in doubt it has.

    `int f(args, int *type_codes, int num_args, result, int *result_code, resource)`, where the
    pointers have types of their own in each release of TVM.

    Args:
        of_tvm: its object has a mark of TVM's. TVM 0.6 and before leave the last arguments out; many
            functions that nothing else says to be packed take as few.
    """
    p = function.parameters
    if (
        function.variadic
        or not function.is_ordinary
        or len(p) not in ((3, 5, 6) if of_tvm else (6,))
        or not _is_int32(function.result)
        or not _is_int32(p[2])
    ):
        return False
    if any(p[i].kind != "pointer" for i in range(len(p)) if i != 2):
        return False
    args, codes = p[0].target, p[1].target
    return args is not None and codes is not None and _may_be_values(args) and _may_be_codes(codes)


def _is_int32(found: CType) -> bool:
    return found.kind == "int" and found.size == 4


def _may_be_values(found: CType) -> bool:
    """Whether the target of a pointer may be TVMValue: void, a union of 8 bytes, or a number as
    wide."""
    return found.kind in ("void", "record", "pointer") or (
        found.kind in ("int", "uint") and found.size == 8
    )


def _may_be_codes(found: CType) -> bool:
    return found.kind == "void" or (found.kind in ("int", "uint", "enum") and found.size == 4)


def plain_row(function: Function, *, of_tvm: bool) -> Row | None:
    """The row of the function table for a function without a prototype, None if it is to be called
    as packed.

    Args:
        of_tvm: as of `is_packed`.
    """
    if function.name.startswith(_RESERVED) or is_packed(function, of_tvm=of_tvm):
        return None
    return Row(function.name, function.name, "plain", 0, function.types)


# -- whether a prototype says what the source does ------------------------------------------------


def contradiction(prototype: Prototype, function: Function) -> str | None:
    """How a prototype differs from the function that the source defines, None if calls through it
    are right.

    `const` may differ, it marks what the packed function takes for an input; `void *` may stand for any
    pointer. Neither changes what is passed.
    """
    found = function.parameters
    if function.is_guess:
        return None
    if len(prototype.parameters) != len(found) or function.variadic:
        types = ", ".join([*map(_text, found), *(["..."] if function.variadic else [])]) or "void"
        return f"has {_counted(len(prototype.parameters))}, the source has {len(found)}: ({types})"
    for i, (p, actual) in enumerate(zip(prototype.parameters, found)):
        where = f"parameter {i}" + (f" ({p.name})" if p.name else "")
        if not _same_parameter(p, actual, function.pointer_size):
            own = p.text if len(p.dims) > 1 else p.c_type
            return f"{where} is {own!r}, the source has {_spelled(actual)}"
    if not _same_result(prototype, function):
        return (
            f"returns {prototype.result_type!r}, the source's returns {_spelled(function.result)}"
        )
    return None


def _counted(parameters: int) -> str:
    return f"{parameters} parameter{'' if parameters == 1 else 's'}"


def _spelled(found: CType) -> str:
    text = _text(found)
    if found.kind == "either":
        return f"{text!r}, unless it has VALUE there (debug information of gfortran -g -O1 -fno-lto tells)"
    return "another type" if text == _NAMELESS else repr(text)


_NAMELESS = "a type without a name"


def _text(found: CType) -> str:
    """A type as C spells it."""
    if "?" not in found.text:
        return found.text
    rows = found.target
    if found.kind == "pointer" and rows is not None and rows.dims and rows.target is not None:
        dims = "".join(f"[{'*' if d is None else d}]" for d in rows.dims)
        return _NAMELESS if "?" in rows.target.text else f"{rows.target.text} (*){dims}"
    return _NAMELESS


def _same_parameter(p: Parameter, actual: CType, pointer_size: int) -> bool:
    if actual.kind == "either":
        actual = actual._replace(kind="pointer")
    if p.kind == "scalar":
        return _same_number(p.element, actual, pointer_size, by_value=True)
    if actual.kind != "pointer" or actual.target is None:
        return False
    target = actual.target
    if not _same_rows(p, target):
        return False
    while target.kind == "other" and target.target is not None:  # rows of an array
        target = target.target
    if p.kind == "pointer" or target.kind in ("void", "record", "other"):
        return True
    if p.kind == "string":
        return target.size == 1
    return _same_number(p.element, target, pointer_size, by_value=False)


def _same_rows(p: Parameter, target: CType) -> bool:
    """Whether the rows of an array are as long in both, as far as both say so. An array of fewer or
    more dimensions is the same memory seen in another way."""
    dims = [int(d.text) if d.text.isdigit() else None for d in p.dims[1:]]
    return len(dims) != len(target.dims) or all(
        None in pair or pair[0] == pair[1] for pair in zip(dims, target.dims)
    )


def _same_result(prototype: Prototype, function: Function) -> bool:
    if prototype.scalar is not None:
        return _same_number(prototype.scalar, function.result, function.pointer_size, by_value=True)
    wanted = "pointer" if prototype.result == "string" else prototype.result
    return function.result.kind == wanted


def _same_number(scalar: Scalar, actual: CType, pointer_size: int, by_value: bool) -> bool:
    """Whether the target sees one type in both: same size, same kind."""
    size = _size(scalar.name, pointer_size)
    if size is not None and size != actual.size:
        return False
    if not by_value and size == 2 and scalar.kind in ("float", "bfloat") and actual.kind == "uint":
        return True  # where compilers have no such type, kernels read its bits
    if scalar.kind in ("float", "bfloat"):
        return actual.kind == "float"
    if "char" in (scalar.kind, actual.kind) or actual.kind == "enum":
        return actual.kind in ("int", "uint", "char", "enum")
    if not by_value and "bool" in (scalar.kind, actual.kind):  # tensors of bool hold bytes
        return actual.kind in ("bool", "int", "uint")
    return scalar.kind == actual.kind


def _size(name: str, pointer_size: int) -> int | None:
    """Bytes of a C type on an ELF target (ILP32 or LP64), None where each C library has its own
    opinion."""
    if name in SIZES:
        return SIZES[name]
    if name in POINTER_SIZED:
        return pointer_size
    if name.endswith("_t"):  # int_fast16_t
        return None
    words = name.split()
    if "char" in words:
        return 1
    if "short" in words:
        return 2
    return {0: 4, 1: pointer_size, 2: 8}[words.count("long")]


# -- functions of the other dialect ----------------------------------------------------------------

OF_0_21 = "compiled by TVM 0.21, whose calling convention no other release has; compile it with another one"


class Adapter(NamedTuple):
    """One function of the other dialect.

    Attributes:
        name: what users call it.
        symbol: of the function that there is.
        made: symbol of the adapter.
        alignment, types, prototype: as of `mblob.format.functions_table.Row`.
    """

    name: str
    symbol: str
    made: str
    alignment: int = ALIGNMENT
    types: str = "?"
    prototype: str = ""

    @property
    def row(self) -> Row:
        """Its row in the table of functions."""
        return Row(self.name, self.made, "packed", self.alignment, self.types, self.prototype)


def needed_adapters(
    dialect: Dialect,
    wrapped: Sequence[Wrapped],
    plain: Sequence[Row],
    files: Known,
    table_rows: Sequence[Row] = (),
) -> list[Adapter]:
    """The adapters that a library of `dialect` needs, sorted by name.

    Args:
        plain: rows of the functions that are known to be plain C.
        table_rows: rows of a table that came with the objects.

    Warns:
        UserWarning: objects whose functions cannot be seen.

    Raises:
        BuildError: objects of TVM 0.21, whose convention is neither.
    """
    for f, contents in files:
        if CONTEXT_OF_0_21 in contents.defined | contents.weak | contents.undefined:
            raise BuildError(f"{f.label}: {OF_0_21}")
    unseen = [f.label for f, c in files if not (c.complete or f.generated)]
    if unseen and dialect.is_ffi and not wrapped:
        warn(
            f"{unseen[0]} is compiled with -flto, so its functions cannot be seen: those of the classic convention get"
            " no adapters, and hosts of the ffi dialect do not find them; compile it without, or give functions=",
        )
    defined = {name for _, c in files for name in c.defined | c.weak}
    packed = {row.symbol: row for row in _found(table_rows, defined)}
    if dialect.is_ffi:
        taken = {w.prototype.name for w in wrapped} | {row.symbol for row in plain}
        found = _to_ffi(files, taken, defined)
    else:
        found = _to_classic(files, defined)
    return [_with_row(a, packed.get(a.symbol), dialect, defined) for a in found]


def _found(table_rows: Iterable[Row], defined: set[str]) -> Iterator[Row]:
    """The packed rows of a table with the symbols that there are: adapters that it listed were left
    behind."""
    for row in table_rows:
        places = (row.symbol, *forms_of(row.name))
        symbol = next((place for place in places if place in defined), None)
        if row.abi == "packed" and symbol is not None:
            yield row._replace(symbol=symbol)


def kept_rows(dialect: Dialect, table_rows: Sequence[Row], files: Known) -> list[Row]:
    """Packed rows of a table that came with the objects, of functions that need no adapter."""
    defined = {name for _, c in files for name in c.defined | c.weak}
    return [
        row
        for row in _found(table_rows, defined)
        if (ffi_name(row.symbol) is not None) == dialect.is_ffi
    ]


def forms_of(name: str) -> tuple[str, str]:
    """The symbols of the packed functions that mblob makes of a plain C function, in either dialect."""
    return CLASSIC.packed_symbol(name), FFI.packed_symbol(name)


def _with_row(adapter: Adapter, row: Row | None, dialect: Dialect, defined: set[str]) -> Adapter:
    """The adapter with what a table says of its function."""
    if row is None:
        return adapter
    made = dialect.function_prefix + row.name
    if made in defined:
        made = dialect.packed_symbol(row.name)
    return Adapter(row.name, adapter.symbol, made, row.alignment, row.types, row.prototype)


def _to_ffi(files: Known, taken: set[str], defined: set[str]) -> list[Adapter]:
    found: dict[str, Adapter] = {}
    for f, contents in files:
        exported = contents.functions - contents.comdat - taken
        if f.generated or any(ffi_name(name) for name in contents.functions):
            continue  # it speaks this dialect; what else it exports is plain C
        for name in exported:
            if not is_helper(name) and not name.startswith("_Z"):
                found[name] = Adapter(name, name, "__tvm_ffi_" + name)
        if CLASSIC.entry in contents.defined | contents.weak:
            symbol = _entry_of(f) if CLASSIC.entry not in contents.functions else CLASSIC.entry
            if symbol is not None:
                found["main"] = Adapter("main", symbol, "__tvm_ffi_main")
    return [found[name] for name in sorted(found) if found[name].made not in defined]


def _to_classic(files: Known, defined: set[str]) -> list[Adapter]:
    found: dict[str, Adapter] = {}
    for _, contents in files:
        for symbol in contents.functions - contents.comdat:
            name = ffi_name(symbol)
            if name is None:
                continue
            made = CLASSIC.entry if name == "main" and CLASSIC.entry not in defined else name
            if made in defined:
                made = CLASSIC.packed_symbol(name)
            if made not in defined:
                found[name] = Adapter(made if made == CLASSIC.entry else name, symbol, made)
    return [found[name] for name in sorted(found)]


def _entry_of(file: HostFile) -> str | None:
    """The function that the text `__tvm_main__` of an object names."""
    for label, data in object_files.objects_in(file.path, file.label):
        elf = ElfFile(map_file(file.path) if label == file.label else data, label)
        for s in elf.symtab:
            if s.name == CLASSIC.entry and s.is_defined and s.st_shndx < len(elf.sections):
                text = bytes(elf.contents(elf.sections[s.st_shndx])[s.st_value :][:4096])
                return text.partition(b"\0")[0].decode(errors="replace") or None
    return None
