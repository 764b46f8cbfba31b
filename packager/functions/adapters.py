"""Functions of the other dialect in a library: which need an adapter, and the adapters, under the
names that this dialect's runtimes look for.

Code of TVM 0.19 and before is called through TVMValues and type codes, code of 0.22 and later
through values of 16 bytes; what they call in the runtime differs as well. `adapters.h` turns the
one into the other, both ways.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from mblob import texts
from mblob.argument_types import FLOAT8_CODES
from mblob.binary.elf import ElfFile
from mblob.bytes.mapping import map_file
from mblob.format.exported_functions import ffi_name, is_helper
from mblob.format.ffi_dialect import CONTEXT_OF_0_21
from mblob.format.functions_table import Row
from mblob.named_tuple import NamedTuple
from mblob.packager.compile.host_objects import Generated, HostFile, LinkInput, with_names
from mblob.packager.errors import BuildError, warn
from mblob.packager.functions.registration import compiled_row
from mblob.packager.functions.wrappers import Wrapped
from mblob.packager.objects import object_files
from mblob.packager.write.dialects import CLASSIC, FFI, Dialect, as_symbol

MARK = "__mblob_adapters"  # begins a hidden symbol of the object that has them
OF_0_21 = "compiled by TVM 0.21, whose calling convention no other release has; compile it with another one"


class Adapter(NamedTuple):
    """One function of the other dialect.

    Attributes:
        symbol: of the function that there is.
        row: of the adapter in the table of functions.
    """

    symbol: str
    row: Row


def needed_adapters(
    dialect: Dialect,
    wrapped: Sequence[Wrapped],
    plain: Sequence[Row],
    files: Sequence[LinkInput],
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
        taken = {w.prototype.symbol for w in wrapped} | {row.symbol for row in plain}
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


def kept_rows(dialect: Dialect, table_rows: Sequence[Row], files: Sequence[LinkInput]) -> list[Row]:
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
    made = dialect.function_prefix + as_symbol(row.name)
    if made in defined:
        made = dialect.packed_symbol(row.name)
    return Adapter(adapter.symbol, row._replace(symbol=made))


def _to_ffi(files: Sequence[LinkInput], taken: set[str], defined: set[str]) -> list[Adapter]:
    found: dict[str, Adapter] = {}
    for f, contents in files:
        exported = contents.functions - contents.comdat - taken
        if f.generated or any(ffi_name(name) for name in contents.functions):
            continue  # it speaks this dialect; what else it exports is plain C
        for name in exported:
            if not is_helper(name) and not name.startswith("_Z"):
                found[name] = Adapter(name, compiled_row(name, FFI.function_prefix + name))
        if CLASSIC.entry in contents.defined | contents.weak:
            symbol = _entry_of(f) if CLASSIC.entry not in contents.functions else CLASSIC.entry
            if symbol is not None:
                found["main"] = Adapter(symbol, compiled_row("main", FFI.entry))
    return [found[name] for name in sorted(found) if found[name].row.symbol not in defined]


def _to_classic(files: Sequence[LinkInput], defined: set[str]) -> list[Adapter]:
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
                shown = made if made == CLASSIC.entry else name
                found[name] = Adapter(symbol, compiled_row(shown, made))
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


# -- the adapters ----------------------------------------------------------------------------------


def hide_adapted(
    found: Sequence[Adapter], table_rows: Sequence[Row], files: Sequence[LinkInput], work: Path
) -> list[LinkInput]:
    """The files with the packed functions hidden that mblob made for the other dialect: nobody else
    looks for them."""
    forms = {a.symbol: a.symbol for a in found if a.symbol in forms_of(a.row.name)}
    if not table_rows or not forms:
        return list(files)
    return [
        LinkInput(with_names(f, forms, work / f"adapted{i}.o"), contents)
        for i, (f, contents) in enumerate(files)
    ]


def generate(dialect: Dialect, adapters: Iterable[Adapter], joins: bool = False) -> Generated:
    """The source that defines adapters for a library of `dialect`.

    Args:
        joins: the functions are in another library, which hides them when the adapters have joined
            it.
    """
    here = Path(__file__).parent
    arrays = (here / "adapters_array.h").read_text(encoding="utf-8")
    text = (here / "adapters.h").read_text(encoding="utf-8").replace("/* THE ARRAYS */\n", arrays)
    text = text.replace("/* THE CODES */", "\n".join(texts.defined(FLOAT8_CODES)))
    define = ("#define MBLOB_TO_FFI 1\n" if dialect.is_ffi else "") + (
        "#define MBLOB_JOINS 1\n" if joins else ""
    )
    parts = ["/* Functions of the other dialect, generated by mblob. */\n" + define + text]
    mark = f"{MARK}_to_{dialect.name}"
    parts.append(
        f'__attribute__((visibility("hidden"))) extern const char {mark}; const char {mark} = 1;'
    )
    # Code of the other dialect has its own variable for the library's handle, which no loader of
    # this one sets.
    other = CLASSIC if dialect.is_ffi else FFI
    parts.append(f"#define MBLOB_PASS_HANDLE() ({other.context} = {dialect.context})")
    form = _ADAPTER_TO_FFI if dialect.is_ffi else _ADAPTER_TO_CLASSIC
    for i, a in enumerate(adapters):
        parts.append("" if dialect.is_ffi or joins else _HIDDEN.format(symbol=a.symbol))
        parts.append(form.format(i=i, name=a.row.name, symbol=a.symbol, made=a.row.symbol))
    return Generated(
        "mblob_adapters", "adapters to the functions of the other dialect", "\n".join(parts)
    )


_ADAPTER_TO_FFI = """
extern int adapted_{i}(TVMValue *, int *, int, TVMValue *, int *, void *) __asm__("{symbol}");
extern TVM_DLL int adapter_{i}(void *, const TVMFFIAny *, int32_t, TVMFFIAny *) __asm__("{made}");
int adapter_{i}(void *handle, const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result) {{
  (void)handle;
  MBLOB_PASS_HANDLE();
  return mblob_call_classic(adapted_{i}, NULL, "{name}", args, num_args, result);
}}
"""
# Hidden here is hidden in the library: by such names loaders tell libraries of the ffi dialect.
# (gcc drops the attribute of a declaration with an assembler name.)
_HIDDEN = '__asm__(".hidden {symbol}");'
_ADAPTER_TO_CLASSIC = """
extern int adapted_{i}(void *, const TVMFFIAny *, int32_t, TVMFFIAny *) __asm__("{symbol}");
extern TVM_DLL int adapter_{i}(TVMValue *, int *, int, TVMValue *, int *, void *) __asm__("{made}");
int adapter_{i}(TVMValue *args, int *codes, int num_args, TVMValue *ret, int *ret_code, void *resource) {{
  (void)resource;
  MBLOB_PASS_HANDLE();
  return mblob_call_ffi(adapted_{i}, NULL, "{name}", args, codes, num_args, ret, ret_code);
}}
"""
