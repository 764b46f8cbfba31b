"""C source of the table of functions, and of the note that announces it."""

from __future__ import annotations

from collections.abc import Sequence

from mblob.format import note
from mblob.format.functions_table import SYMBOL, Row, checksum, encode
from mblob.texts import quoted


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
