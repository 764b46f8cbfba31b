"""The one table of argument types: numbers that C functions take, as C, TVM and `mblob_call` name
them, and how each is passed.

From it come the types of prototypes (`packager/modules/prototype_parser.py`, `packager/functions`), those
of kernels in sources (`packager/device/kernels.py`), and `csrc/src/base/argument_types.h`,
which `make generate` makes, and `mblob_call` and `loader/_call` read. The header has the names of
element types, too (`mblob/dtype.py`).

What cannot be derived: a new way to pass an argument (`take` of `core/library/prepared.c`, `_fetch`
of `packager/functions/wrappers.py` with `checks*.h`, `loader/_call/convert.c`), a new kind of DWARF's
types (`mblob/binary/dwarf_types.py`), and the words in the comment of `mblob_call` in `mblob.h`,
which a test compares.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mblob import texts
from mblob.dtype import (
    E4M3_FLOAT8,
    E5M2_FLOAT8,
    FLOAT8_E3M4,
    LAST_CODE,
    NAMES,
    OF_DLPACK,
    OF_SAFETENSORS,
    SMALL_FLOATS,
    DataType,
)
from mblob.named_tuple import NamedTuple


class ArgumentType(NamedTuple):
    """A row.

    Attributes:
        word: as TVM and `mblob_call` name it.
        kind: "int", "uint", "bool", "float", "bfloat" or "complex".
        bits: of the value; a bool in memory has a byte.
        c: as C spells it.
        passed: how `mblob_call` finds it among its arguments (enum passed of `core/library/call_text.h`);
            "" of what only tensors hold.
        aliases: other names, which are replaced by `c`.
        others: other names of types with these bits, which stay.
        recorded: names in what compilers record, which no prototype has.
        largest: the largest finite number, where a double has larger ones.
    """

    word: str
    kind: str
    bits: int
    c: str
    passed: str = ""
    aliases: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    recorded: tuple[str, ...] = ()
    largest: str = ""


class Value(NamedTuple):
    """A type of C that is passed by value as another one is.

    Attributes:
        text: in C.
        size, alignment: bytes.
        offsets: of the members of a struct, m0, m1, ...
    """

    text: str
    size: int
    alignment: int
    offsets: tuple[int, ...] = ()


def _integer(kind: str, bits: int, passed: str, *others: str) -> ArgumentType:
    """An integer of <stdint.h>. Where there is one of exactly these bits the least of them is it."""
    least = f"{kind}_least{bits}_t"
    return ArgumentType(
        f"{kind}{bits}", kind, bits, f"{kind}{bits}_t", passed, others=(least, *others)
    )


TABLE = (
    _integer("int", 8, "AS_INT"),
    _integer("int", 16, "AS_INT"),
    _integer("int", 32, "AS_INT"),
    _integer("int", 64, "AS_INT64", "intmax_t", "int_fast64_t"),
    _integer("uint", 8, "AS_INT"),
    _integer("uint", 16, "AS_INT"),
    _integer("uint", 32, "AS_UNSIGNED"),
    _integer("uint", 64, "AS_UINT64", "uintmax_t", "uint_fast64_t"),
    ArgumentType("bool", "bool", 1, "bool", "AS_INT", aliases=("_Bool",)),
    ArgumentType(
        "float32",
        "float",
        32,
        "float",
        "AS_DOUBLE",
        aliases=("float32_t",),
        largest="3.4028234663852886e38",
    ),
    ArgumentType("float64", "float", 64, "double", "AS_DOUBLE", aliases=("float64_t",)),
    ArgumentType("float16", "float", 16, "_Float16", recorded=("__fp16",), largest="65504.0"),
    ArgumentType("bfloat16", "bfloat", 16, "__bf16", largest="3.3895313892515355e38"),
    ArgumentType("complex64", "complex", 64, "float _Complex"),
    ArgumentType("complex128", "complex", 128, "double _Complex"),
)
BY_C = {row.c: row for row in TABLE}
ALIASES = {alias: row.c for row in TABLE for alias in row.aliases}
# The DLDataTypeCode of each kind.
CODES = {
    "int": "kDLInt",
    "uint": "kDLUInt",
    "bool": "kDLUInt",
    "float": "kDLFloat",
    "bfloat": "kDLBfloat",
    "complex": "kDLComplex",
}
# Not every compiler that can pass a pointer to them knows them.
HALVES = tuple(row.c for row in TABLE if "float" in row.kind and row.bits == 16)
SIZE = "size_t"
POINTER_SIZED = {
    "intptr_t": "int",
    "uintptr_t": "uint",
    SIZE: "uint",
    "ssize_t": "int",
    "ptrdiff_t": "int",
}
# Wide as each C library likes: the target's compiler says it in packed functions, the runtime's own in
# calls.
OF_LIBRARIES = {f"{kind}_fast{bits}_t": kind for kind in ("int", "uint") for bits in (8, 16, 32)}
# All names of prototypes and their kinds, and those that are no keywords of C.
KINDS = {
    **{name: row.kind for row in TABLE for name in (row.c, *row.aliases, *row.others)},
    **POINTER_SIZED,
    **OF_LIBRARIES,
}
TYPEDEFS = tuple(
    name for name in KINDS if name not in ("float", "double", "_Bool") and " " not in name
)
SIZES = {name: (row.bits + 7) // 8 for row in TABLE for name in (row.c, *row.others)}

# Words behind a pointer in the table of functions (docs/format.md, section 7): to an array in column order, to an
# array of characters, and to texts of Fortran.
COLUMNS, CHARS, TEXT = ":columns", ":chars", ":text"

# -- the C header ----------------------------------------------------------------------------------

_TYPECODES = {
    "int": "kTVMArgInt",
    "uint": "kTVMArgInt",
    "bool": "kTVMArgBool",
    "float": "kTVMArgFloat",
    "bfloat": "kTVMArgFloat",
}
_POINTERS = {
    "str": "Str",
    "handle": "OpaqueHandle",
    "tensor": "DLTensorHandle",
    "object": "ObjectHandle",
    "function": "PackedFuncHandle",
    "module": "ModuleHandle",
}


def _words() -> dict[str, str]:
    """Words of `mblob_call` and the rest of each row of its table: numbers, then pointers."""
    found = {"int": "AS_INT, kTVMArgInt, 8 * sizeof(int)"}
    for row in TABLE:
        if row.passed:
            found[row.word] = f"{row.passed}, {_TYPECODES[row.kind]}, {row.bits}"
    found["double"] = found["float64"]
    for word, code in _POINTERS.items():
        found[word] = f"AS_POINTER, kTVM{code}, 0"
    return found


def _listed(items: Iterable[str]) -> str:
    return " \\\n  " + ", \\\n  ".join(items)


def _quoted(items: Iterable[str]) -> str:
    return ", ".join(texts.quoted(item) for item in items)


def _elements(table: Mapping[str, tuple[int, int]]) -> str:
    """Rows of code, bits and name."""
    return _listed(f'{{{code}, {bits}, "{name}"}}' for name, (code, bits) in table.items())


# Those of the runtime that DLPack has for another type, or not at all.
FLOAT8_CODES = {
    "MB_E4M3_FLOAT8": str(E4M3_FLOAT8),
    "MB_E5M2_FLOAT8": str(E5M2_FLOAT8),
    "MB_FLOAT8_E3M4": str(FLOAT8_E3M4),
}


def macros() -> dict[str, str]:
    """Macros of C by their names."""
    recorded = {
        name: f"{CODES[row.kind]}, {row.bits}"
        for row in TABLE
        for name in (row.c, *row.aliases, *row.others, *row.recorded)
        if " " not in name  # the readers of it take one word at a time
    }
    # loader/_call needs a Python of 64 bits
    recorded |= {name: f"{CODES[kind]}, 64" for name, kind in POINTER_SIZED.items()}
    unsigned = {name: "64" for name, value in recorded.items() if value == "kDLUInt, 64"}
    bits = {name: f"8 * sizeof({name})" for name in OF_LIBRARIES}
    unsigned |= {name: bits[name] for name, kind in OF_LIBRARIES.items() if kind == "uint"}
    return {
        "MB_ARGUMENT_WORDS": _listed(f'{{"{word}", {rest}}}' for word, rest in _words().items()),
        "MB_ARGUMENT_WORD_SIZE": str(max(map(len, _words())) + 1),
        "MB_ARGUMENT_WORDS_TEXT": texts.quoted(
            ", ".join([*_words(), "shape[dimensions], DTYPE[dimensions] or (TYPE, ...)"])
        ),
        "MB_C_TYPES": _listed(f'{{"{name}", {rest}}}' for name, rest in recorded.items()),
        "MB_C_TYPES_OF_LIBRARIES": _listed(
            f'{{"{name}", {CODES[kind]}, {bits[name]}}}' for name, kind in OF_LIBRARIES.items()
        ),
        "MB_C_TYPE_OF_UINT64_SIZE": str(max(map(len, unsigned)) + 1),
        "MB_C_TYPES_OF_UINT64": _listed(f'{{"{name}", {size}}}' for name, size in unsigned.items()),
        **FLOAT8_CODES,
        "MB_WORD_COLUMNS": texts.quoted(COLUMNS),
        "MB_WORD_CHARS": texts.quoted(CHARS),
        "MB_WORD_TEXT": texts.quoted(TEXT),
        "MB_DTYPE_NAMES": _quoted(NAMES.values()),
        "MB_DTYPE_LAST": str(LAST_CODE),
        "MB_SMALL_FLOATS": _elements(SMALL_FLOATS),
        "MB_DTYPES_OF_DLPACK": _elements(OF_DLPACK),
        "MB_DTYPES_OF_SAFETENSORS": _elements(
            {name: DataType.parse(text)[:2] for name, text in OF_SAFETENSORS.items()}
        ),
    }


def header() -> str:
    """The text of `csrc/src/base/argument_types.h`."""
    return texts.header_of(
        "argument_types.h - types of arguments and of elements",
        "mblob/argument_types.py",
        macros(),
    )


if __name__ == "__main__":
    print(header(), end="")
