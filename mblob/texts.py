"""The one table of error texts that several rooms share, and of the limits that they name: Python,
the extension of the hot path, the C runtime, plug-ins, and the packed functions that the packager
generates.

`make generate` makes `csrc/src/base/texts.h` from it. C has a row as the macro
MB_TEXT_<name>; generated C gets the macros that it uses (`packager/functions/wrappers.py`). Rows are
formats of printf, of which `loader/_call` uses what PyUnicode_FromFormat knows; Python fills them
in by `say`.

`tests/unit/test_texts.py` fails on a text of two rooms that is not here.
"""

from __future__ import annotations

# Levels of what is read or converted by recursion, on stacks of any thread: containers in containers,
# objects and arrays of JSON.
NESTING_LIMIT = 64
JSON_DIGITS = 512  # in a row; below what Python may be told to read

# Arguments of calls. What begins such texts is the function's and the argument's name.
ARGUMENT = ": argument "  # in front of its number
WHEN_CALLING = " when calling:\n"  # the ffi dialect: in front of the signature
EXPECTED = "expected %s, found %s"
COUNT = "%s %d argument%s%s, found %d"  # "expected" as the dialect has it, the plural, " (types)"
DTYPE = EXPECTED
ASTYPE = '; convert it with astype("%s")'
DTYPE_OF_ARRAY = DTYPE.replace("%s", "an array of %s", 1) + ASTYPE
DTYPE_OF_BITS = DTYPE.replace("%s", "an array of %s", 1) + '; for its bits pass %s.view("%s")'
DTYPE_OF_BYTES = DTYPE.replace("%s", "an array of %s", 1) + '; pass numpy.frombuffer(%s, "%s")'
NUMBER_FOR_ARRAY = "expected %s, found the number %s; pass an array with one element"
SHAPE = "expected shape %s, found %s"
ELEMENTS = "expected shape (%s%lld,)%s%s%s, found %s"  # (4,) for [n]; of a number, (4,)
DEVICE = "expected data on the cpu, found device type %d; copy it to the cpu"
COMPACT = (
    "expected compact row-major data, found a non-contiguous array; pass a copy"
    " (numpy.ascontiguousarray)"
)
NO_DATA = "expected data, found a NULL pointer"
BYTES = "expected at least %lld bytes for %s, found %s"
ITEMS = "expected at least %lld %s, found %s"  # "texts for const char *x[3]"
ADDRESSES_OF = "a list of %s, or an array of their addresses (uint64)"
ADDRESSES = EXPECTED.replace("%s", ADDRESSES_OF, 1)
NO_FUNCTION = (
    "expected %s, found data (an array, a struct, or a pointer to some), which is no code; pass one"
    " function of ctypes.CFUNCTYPE, or its address as an int or ctypes.c_void_p"
)
ADDRESS_RANGE = "expected an address, an int from -2**63 to 2**64 - 1"
LISTED_FUNCTIONS = (
    "; make it an array with (F * %d)(*%s), where F is the ctypes type of its functions"
)
NULL_FOR_ARRAY = "; to pass NULL, pack it with a prototype that has void * there"
CALLED_BY_CTYPES = ", or call lib.ctypes.%s"  # behind it, in Python
WIDE = "for wchar_t * pass ctypes.create_unicode_buffer(%s)"
ENCODED = "pass %s.encode()"
ENCODED_TO_WRITE = "pass bytearray(%s.encode())"
OBJECT = "the address of an object of C++"
OBJECTS = (
    "the array holds objects of Python (%S), which C code cannot read; pass an array of numbers or"
    " structs"
)
ALIGNED = "expected data aligned to %d bytes, found address %s; pass an aligned copy"
MASKED = "a masked array would lose its mask; pass x.filled(value)"
NO_NUMBERS = (
    "expected an array of bool, int8 to int64, uint8 to uint64, float16 to float64, bfloat16, float8"
    " or complex in native byte order, found %S; convert it with astype"
)
INT_TOO_LARGE = "the int is too large for a float"
SURROGATES = "the str has surrogates, which no Unicode text has; %s"  # what to pass
GIVES_NO_NUMBERS = "%s gives no numbers: %S"
IS_NULL = "%s: an argument is NULL"
NESTED = (
    f"containers are nested more than {NESTING_LIMIT} levels deep, which is the limit; does one"
    " contain itself?"
)
RETURNED = "%s: returned %d and gave no reason"

# Files.
SYMBOL = ", or get a function of ctypes with symbol(%s)"
PACKED_FIRST = (
    "; sources, objects and weights are packed into a shared library first (mblob-pack build)"
)
EMPTY = "an empty file"
CUT_OFF = "; is it an incomplete copy?"

# Tensors that others describe.
READ_ONLY = (
    "the tensor is read-only; to replace a tensor of a library, write a new library with"
    " mblob.swap(path, weights={name: array}, output=new_path)"
)
NDIM = "%d dimensions, expected 0 to %d"
SHAPE_IS_NULL = "shape is NULL, expected %d extents"
DATA_IS_NULL = "data is NULL, expected %zu bytes"
NOT_ALIGNED = "its data is not aligned to %d bytes"
DLPACK_VERSION = "DLPack version %u, expected %d"
DLPACK_GAPS = "the tensor is not contiguous; pass numpy.ascontiguousarray(x)"
DLPACK_PADDED = "each element is padded to whole bytes (flag 4), expected packed elements"

# Devices, and what failed on one.
NO_DEVICE = "%s: no device %d; there are %d, counted from 0"
MAKING_STREAM = "making a stream"
FREEING_STREAM = "freeing a stream"
WAITING_FOR_STREAM = "waiting for a stream"

# All else.
NO_MEMORY = "out of memory"
WRONG_ESCAPE = "a wrong escape in a string"
IN_MEMORY = "a library in memory"
NO_FIELD = "no field %lld; there are %zu"

TABLE: dict[str, str] = {
    name: text
    for name, text in globals().items()
    if name.isupper() and name[0] != "_" and isinstance(text, str)
}

# Advice that only Python can follow: the command line leaves it out.
FOR_PYTHON = (ASTYPE, SYMBOL)

# What kernels say of their arguments: compiled code hands over a text and nothing else. It is TVM's,
# or that of the mblob that packed it: if a text of the table changes, the old one stays here.
#
# Whether a text is about an argument (the runtime), by a part of it:
OF_ARGUMENTS = (
    "num_args should be", "Expect arg[", "is expected to equal", "is expected to be",
    "has an unsatisfied constraint", "expected to be compact array",
    "loc=param[",  # checks of parameters in Relax programs
    ": expected ", ARGUMENT, WHEN_CALLING,
)  # fmt: skip
_DTYPE = r"(bool|u?int\d+|b?float\d+\w*|e\dm\d_float8|complex\d+|handle)(x\d+)?"
_TYPE = (
    r"an? \w+|NULL|int|uint|float|handle|None|dtype|device|tensor|object|module|function|str|bytes|bool|Tensor|error"
    r"|Shape|Array|Map|nothing|object of Python|another object"
)
# And what is wrong with it (Python), by a pattern. The first row that is found counts.
KINDS_OF_MISTAKES = (
    (r"arguments?( \([^)]*\))?, found \d|takes \d+ argument", "argument_count"),
    (r"num_args should be|number of arguments", "argument_count"),
    (rf"expected (an array of )?{_DTYPE}, found {_DTYPE}($|[;, ])", "argument_dtype"),
    (r"\.dtype|dtype is expected|expect Tensor with dtype", "argument_dtype"),
    (r"expect an? \w+ but get|, but received", "argument_type"),
    (r"found (.* )?(\()?type code \d", "argument_type"),
    (rf"expected [^,]*, found ({_TYPE})($|[;, ])", "argument_type"),
    (r"Expect arg\[\d+\] to be|Mismatched type", "argument_type"),
)


def lists_of(items: str, depth: int, declared: str = "") -> str:
    """The items of a list that stands for a pointer to pointers: "lists of arrays for double ***x".

    Args:
        items: "arrays", "texts" or "functions".
        depth: the number of pointers that lead to one.
        declared: the parameter in C.
    """
    of = "lists of " * min(depth - 2, 6)
    return of + items + (f" for {declared}" if declared else "")


def say(text: str, *values: object) -> str:
    """A text with its values."""
    return text.replace("%lld", "%d").replace("%zu", "%d").replace("%S", "%s") % values


def quoted(text: str) -> str:
    """A text as a C string."""
    escaped = (
        text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    )
    return f'"{escaped}"'


def macros() -> dict[str, str]:
    """Macros of C by their names."""
    return {f"MB_TEXT_{name}": quoted(text) for name, text in TABLE.items()}


def defined(found: dict[str, str]) -> list[str]:
    """Lines that define macros."""
    return [f"#define {name} {value}" for name, value in found.items()]


def header_of(title: str, made_by: str, found: dict[str, str]) -> str:
    """A header that defines macros; its file's name is the first word of `title`."""
    guard = f"MB_{title.split('.')[0].upper()}_H"
    head = f"/* {title}. Made by {made_by}. */"
    return "\n".join(
        [head, f"#ifndef {guard}", f"#define {guard}", "", *defined(found), "", "#endif", ""]
    )


def header() -> str:
    """The text of `csrc/src/base/texts.h`."""
    found = {
        "MB_NESTING_LIMIT": str(NESTING_LIMIT),
        "MB_JSON_DIGITS": str(JSON_DIGITS),
        **macros(),
        "MB_TEXTS_OF_ARGUMENTS": " ".join(f'{quoted(t)} "\\0"' for t in OF_ARGUMENTS),
    }
    return header_of("texts.h - error texts that several rooms share", "mblob/texts.py", found)


if __name__ == "__main__":
    print(header(), end="")
