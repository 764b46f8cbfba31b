"""The exported table `__mblob_functions`: docs/format.md, section 7.

It tells plain C functions and packed ones apart, in a library with or without a blob.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from mblob import argument_types
from mblob.errors import FormatError
from mblob.format import note
from mblob.named_tuple import NamedTuple
from mblob.texts import quoted

SYMBOL = "__mblob_functions"
FIRST_LINE = "mblob functions 1"
NOTES = "mblob notes 1"
ALIGNMENT_LIMIT = 1 << 20  # bytes


class Row(NamedTuple):
    """One function.

    Attributes:
        name: what users call it.
        symbol: the ELF symbol.
        abi: "plain" (C calling convention) or "packed" (TVM's); "" of a function that the library does not
            export, which has a note alone.
        alignment: bytes that tensor data must be aligned to; 0 means the element's own size.
        types: C argument types, "?" if unknown. Behind a pointer may stand ":columns": an array in
            column order, ":chars": an array of characters, ":text": texts of Fortran, or ":SIZE" or
            ":SIZE:ALIGNMENT" (bytes): a struct.
        prototype: the C function with the names of its parameters and their dimensions, "" if
            unknown.
        origin: where that comes from: "given" by the caller, the "source", or "debug information"; "" if
            unknown.
        comment: above the function in its source; of a plain function without a packed function the
            reason, and what to do.
        structs: names and layouts of structs that its parameters point at, as of `struct_layouts`.
    """

    name: str
    symbol: str
    abi: str
    alignment: int
    types: str
    prototype: str = ""
    origin: str = ""
    comment: str = ""
    structs: tuple[tuple[str, str], ...] = ()


def encode(rows: Sequence[Row]) -> bytes:
    """The table's bytes, terminating NULs included.

    Raises:
        UnicodeEncodeError: a name that is no UTF-8. In the notes, "?" stands for such characters.
    """
    lines, notes = [FIRST_LINE], {NOTES: ""}
    for r in rows:
        fields = (r.name, r.symbol, r.abi, str(r.alignment), r.types)
        if r.abi:
            lines.append("\t".join((*fields, r.prototype) if r.prototype else fields))
        if r.origin or r.comment:
            comment = r.comment.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", " ")
            notes[f"{r.symbol}\t{r.origin}\t{comment}"] = ""
    layouts = {found for r in rows for found in r.structs}
    count = Counter(name for name, _ in layouts)  # names may be those of several structs
    count.update(name for r in rows if (name := result_type(r.prototype)) not in dict(r.structs))
    notes.update({f"{name}\t{text}": "" for name, text in sorted(layouts) if count[name] == 1})
    table = "\n".join(lines).encode() + b"\n\0"
    return table + (
        "\n".join(notes).encode("utf-8", "replace") + b"\n\0" if len(notes) > 1 else b""
    )


def result_type(prototype: str) -> str:
    """The type in front of the name of a function."""
    return re.sub(r"\s*[\w:]+\s*$", "", prototype.partition("(")[0])


def called(name: str) -> str:
    """The name of a function as its prototype has it: without the types of an overload of C++, and without the
    arguments of a template."""
    return re.split("[<(]", name)[0]


def checksum(data: bytes) -> int:
    """CRC-32 of a table up to and including its terminating NUL; neither the notes behind it nor what the
    linker pads it with count."""
    return zlib.crc32(data[: data.find(b"\0") + 1])


def table(rows: Sequence[Row]) -> str:
    """C source of the function table."""
    lines = encode(rows)[:-1].decode().split("\n")
    text = "\n".join(_c_line(line) for line in lines if line)
    return (
        "/* Which exported functions are plain C and which are packed; docs/format.md, section 7. */\n"
        f'extern __attribute__((visibility("default"))) const char mblob_functions[] __asm__("{SYMBOL}");\n'
        f"__attribute__((used)) const char mblob_functions[] =\n{text};\n"
    )


def _c_line(line: str) -> str:
    """A line of the table as a C string; a NUL begins the notes."""
    is_first = line.startswith("\0")
    return "    " + ('"\\0" ' if is_first else "") + quoted(line[is_first:] + "\n")


def announcement(rows: Sequence[Row]) -> str:
    """C source of the note that announces the function table; docs/format.md, section 6."""
    name = note.NAME.ljust(8, b"\0").decode().replace("\0", "\\\\0")
    descriptor = note.words(note.HAS_TABLE, checksum(encode(rows)))
    numbers = [f"{number:#x}" for number in (len(note.NAME), 4 * len(descriptor), note.TYPE)]
    return (
        "#ifdef __ELF__ /* Says that there is this table, for those who do not find it. */\n"
        f'__asm__(".pushsection {note.SECTION},\\"a\\",%note\\n"\n'
        f'        ".balign 4\\n.4byte {", ".join(numbers)}\\n"\n'
        f'        ".ascii \\"{name}\\"\\n"\n'
        f'        ".4byte {", ".join(f"{word:#x}" for word in descriptor)}\\n"\n'
        '        ".popsection");\n'
        "#endif\n"
    )


def decode(data: bytes, *, unseen: bool = False) -> list[Row]:
    """Rows of a table.

    Args:
        unseen: behind them, also those of functions that the library does not export.

    Raises:
        FormatError: "function_table".
    """

    def fail(what: str) -> FormatError:
        return FormatError(f"{SYMBOL}: {what}", code="function_table")

    body, nul, notes = data.partition(b"\0")
    if not nul:
        raise fail("no terminating NUL")
    try:
        lines = body.decode().split("\n")
    except UnicodeDecodeError:
        raise fail("not UTF-8") from None
    if lines[0] != FIRST_LINE:
        raise fail(f"starts with {lines[0][:40]!r}, expected {FIRST_LINE!r}")
    if lines[-1] == "":
        del lines[-1]  # the last line may or may not end
    noted = _notes(notes)
    rows = (_row(number, line, fail) for number, line in enumerate(lines[1:], 2))
    layouts = _layouts(notes)
    found = [
        Row(
            *r[:6],
            *noted.pop(r.symbol, ("", "")),
            tuple(found for found in layouts if found[0] in r.prototype),
        )
        for r in rows
    ]
    left = noted.items() if unseen else ()
    return [*found, *(Row(name, name, "", 0, "?", "", *note) for name, note in left)]


def _notes(data: bytes) -> dict[str, tuple[str, str]]:
    """Origin and comment by symbol, of what stands behind the table: texts for people, so what is none is
    left out, and characters that cannot be printed are."""
    lines = data.partition(b"\0")[0].decode("utf-8", "replace").split("\n")
    fields = (line.split("\t") for line in (lines[1:] if lines[0] == NOTES else ()))
    return {f[0]: (_printable(f[1]), _printable(_unescaped(f[2]))) for f in fields if len(f) == 3}


def _layouts(data: bytes) -> list[tuple[str, str]]:
    """Names and layouts of structs in the notes: those that several structs have are left out."""
    lines = data.partition(b"\0")[0].decode("utf-8", "replace").split("\n")
    fields = [line.split("\t") for line in (lines[1:] if lines[0] == NOTES else ())]
    return [(f[0], f[1]) for f in fields if len(f) == 2]


def _printable(text: str) -> str:
    return "".join(c for c in text if c.isprintable() or c == "\n")


def _unescaped(text: str) -> str:
    return re.sub(r"\\([n\\])", lambda found: "\n" if found[1] == "n" else "\\", text)


def _row(number: int, line: str, fail: Callable[[str], FormatError]) -> Row:
    fields = line.split("\t")
    if (
        len(fields) not in (5, 6)
        or not fields[0]
        or not fields[1]
        or fields[2] not in ("plain", "packed")
    ):
        raise fail(
            f"line {number} is {line[:80]!r}, expected name, symbol, plain|packed, alignment, types"
            "[, prototype]"
        )
    digits = re.fullmatch("0*([0-9]{1,20})", fields[3])
    alignment = int(digits[1]) if digits else -1
    if alignment < 0 or alignment > ALIGNMENT_LIMIT or alignment & (alignment - 1):
        raise fail(
            f"line {number}: alignment {fields[3][:24]!r} is no power of two up to 2^20, nor 0"
        )
    prototype = fields[5] if len(fields) > 5 else ""
    return Row(fields[0], fields[1], fields[2], alignment, fields[4], prototype)


# -- prototypes ------------------------------------------------------------------------------------

_LONGEST = 4096  # characters of a prototype that is read
_QUALIFIERS = ("const", "restrict", "volatile")
# words of C types
WORDS = frozenset(
    ("bool", "char", "const", "double", "float", "int", "long", "restrict", "short", "signed", "struct",
     "unsigned", "void", "volatile", "_Bool", "_Complex", *argument_types.KINDS, *argument_types.TYPEDEFS)
)  # fmt: skip


_NUMBERS = WORDS - {"struct", "void"}  # of types of numbers
# of a struct, and of what it must be aligned to; loader/_call/signature.c has both
_LARGEST, _LARGEST_ALIGNMENT = 1 << 30, 4096


# The word behind a pointer or a reference to an object of C++, which bytes of a caller's are none of.
OBJECT = ":object"


def memory_of(type_text: str) -> tuple[int, int]:
    """Bytes and alignment of the struct that a type of a row points at, (0, 1) if it does not say."""
    found = re.fullmatch(r".*\*:0*([0-9]{1,10})(?::0*([0-9]{1,4}))? *", type_text)
    size, alignment = (int(found[1]), int(found[2] or 1)) if found else (0, 1)
    is_right = 0 < size <= _LARGEST and 0 < alignment <= _LARGEST_ALIGNMENT
    return (size, alignment) if is_right and not alignment & (alignment - 1) else (0, 1)


def struct_word(size: int, alignment: int) -> str:
    """The text behind a pointer to a struct, for `memory_of`; "" if nothing tells its size."""
    is_told = 0 < size <= _LARGEST
    return f":{size}" + (f":{alignment}" if alignment > 1 else "") if is_told else ""


def shown_types(types: str) -> str:
    """The types of a row without the words that only programs read."""
    return ", ".join(re.sub(r"(?<=[*&]):.*|:[0-9]+$", "", t).strip() for t in split(types)) or types


class Parameter(NamedTuple):
    """One parameter.

    Attributes:
        name: "" if the prototype does not name it.
        words: of its type, without qualifiers.
        pointer: whether it is a pointer or an array.
        dims: texts of the dimensions of an array.
        text: all of it.
        depth: the number of pointers that lead to what it points at.
    """

    name: str
    words: tuple[str, ...]
    pointer: bool
    dims: tuple[str, ...]
    text: str
    depth: int = 0

    @property
    def type_name(self) -> str:
        """The name of what it points at, as layouts of structs have it."""
        return " ".join(self.words)

    @property
    def indirect(self) -> bool:
        """True if it is a pointer to pointers."""
        return self.depth > 1

    @property
    def is_memory(self) -> bool:
        """True if it points at structs, at pointers, or at anything: bytes of any kind do."""
        words = set(self.words) - {"_Complex"}
        return self.pointer and (self.indirect or not words or not words <= _NUMBERS)

    @property
    def type_text(self) -> str:
        """The text without the name."""
        found = re.sub(rf"\b{self.name}\b", "", self.text, count=1) if self.name else self.text
        return re.sub(r" (?=\)|$)", "", found)


def structs_of(parameters: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Names and layouts of the structs that parameters point at, as of `Row`.

    Args:
        parameters: each as C has it, and the layout, "" if it points at none.
    """
    return tuple((parameter(text).type_name, layout) for text, layout in parameters if layout)


def parameters(prototype: str) -> list[Parameter]:
    """The parameters of a prototype; [] where it has none or cannot be read."""
    return [parameter(text) for text in _texts(prototype)]


def _texts(prototype: str) -> list[str]:
    start, end = prototype.find("("), prototype.rfind(")")
    if not 0 < start < end or len(prototype) > _LONGEST:
        return []
    return split(prototype[start + 1 : end])


def split(text: str) -> list[str]:
    """The parts between commas that are in no brackets."""
    parts, depth, start = [], 0, 0
    for at, c in enumerate(text):
        depth += (c in "([<") - (c in ")]>")
        if c == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [part for part in (*parts, text[start:]) if part.strip() not in ("", "void")]


# int (*name)(float), int (**name)(float), int (*name[2])(float): more stars, the name, dimensions
FUNCTION = r"\(\s*\*((?:\s*(?:\*|const\b|restrict\b|volatile\b))*)\s*([A-Za-z_]\w*)?((?:\s*\[[^\]]*\])*)\s*\)\s*\("


def parameter(text: str) -> Parameter:
    """One parameter of a prototype."""
    if (function := re.search(FUNCTION, text)) is not None:
        dims = tuple(d.strip() for d in re.findall(r"\[([^\]]*)\]", function[3]))
        depth = 1 + function[1].count("*") + bool(dims)
        return Parameter(function[2] or "", (), True, dims, " ".join(text.split()), depth)
    head = text.partition("[")[0]
    groups = re.findall(r"\[([^\]]*)\]", text)
    dims = tuple(d.strip() for g in groups for d in split(g) or [""])  # a[m, n]: of columns
    words = re.findall(r"[A-Za-z_]\w*", head)
    named = len(words) > 1 and words[-1] not in WORDS
    types = tuple(w for w in (words[:-1] if named else words) if w not in _QUALIFIERS)
    name = words[-1] if named else ""
    stars = head.count("*") + bool(dims and "(" not in head)  # (*x)[4] is a pointer to rows
    return Parameter(name, types, stars > 0, dims, " ".join(text.split()), stars)


def contradicts(row: Row) -> bool:
    """True if the prototype of a row has parameters of other types than the row says."""
    if not row.prototype or row.types == "?" or len(row.prototype) > _LONGEST:
        return False
    declared, types = _texts(row.prototype), split(row.types)
    return len(declared) != len(types) or any(
        not _is_of_type(p, t) for p, t in zip(declared, types)
    )


def _is_of_type(text: str, type_text: str) -> bool:
    if re.search(FUNCTION, text) or re.search(FUNCTION, type_text):
        return bool(re.search(FUNCTION, text) and re.search(FUNCTION, type_text))
    size, _ = memory_of(type_text)
    type_text = shown_types(type_text)
    declared, words = parameter(text), re.findall(r"[A-Za-z_]\w*", type_text)
    is_value = (size or "_Complex" in words) and words[:1] == ["const"] and "*" in type_text
    if is_value and not declared.pointer:  # a packed function takes its address
        return _plain(words) == _plain(declared.words)
    same_const = ("const" in words) == bool(re.search(r"\bconst\b", text))
    # what is read as a name may be the last word of a type that is not known
    spellings = (_plain(declared.words), _plain((*declared.words, declared.name)))
    return (
        declared.pointer == ("*" in type_text)
        and _plain(words) in spellings
        and (same_const or not declared.pointer)
    )


def _plain(words: Iterable[str]) -> list[str]:
    """Words of a type without qualifiers and without those that `unsigned int` needs not have."""
    return sorted(w for w in words if w not in (*_QUALIFIERS, "int", "signed"))
