"""The manual page, mblob-pack(1), in the language of roff: `python -m mblob.cli.manual > mblob-pack.1`.

It is made when mblob is installed (`make install`, wheels), from the parsers, so that it says what this version does.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from textwrap import wrap

from mblob.cli.described import Argument, Verb, program
from mblob.cli.report import EXIT_CODES, PROGRAM, version

WIDTH = 76  # characters of a line in the source of the page
DATE = "2026-11-21"  # of the page's fixed parts
ENVIRONMENT = (
    ("CC", "The compiler of build, without --cc."),
    ("MBLOB_CACHE", "0: compile everything anew, and keep no objects."),
    ("MBLOB_CACHE_DIR", "Where compiled objects are kept, in place of ~/.cache/mblob."),
    ("MBLOB_CACHE_SIZE", "How many bytes of them are kept, such as 2G."),
    ("MBLOB_PLUGIN_PATH", "Folders and files of plug-ins, separated by colons."),
    ("TVM_NUM_THREADS", "Threads of a parallel loop in run, before OMP_NUM_THREADS."),
)
FILES = (("~/.cache/mblob", "Compiled objects that are used again."),)


def roff(text: str) -> str:
    """Text as it stands in a line of roff."""
    escaped = text.replace("\\", "\\e")
    for sign, name in (("-", "\\-"), ("'", "\\(aq"), ("`", "\\(ga"), ("^", "\\(ha"), ("~", "\\(ti")):
        escaped = escaped.replace(sign, name)
    return f"\\&{escaped}" if escaped.startswith(".") else escaped


def paragraph(text: str) -> Iterator[str]:
    """A text as lines of roff: a sentence that begins with a capital letter and ends with a full stop."""
    text = text.strip().rstrip(".")
    for line in wrap(text[:1].upper() + text[1:] + ".", WIDTH, break_long_words=False, break_on_hyphens=False):
        yield roff(line)


def page() -> str:
    """The whole page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    whole, verbs = program()
    yield f'.TH {PROGRAM.upper()} 1 {DATE} "mblob {version()}" "User Commands"'
    yield ".SH NAME"
    yield f"{roff(PROGRAM)} \\- pack kernels and weights into a library, look into it, run it"
    yield ".SH SYNOPSIS"
    for verb in verbs:
        yield f".B {roff(PROGRAM)}"
        yield roff(verb.usage.removeprefix(PROGRAM).strip())
        yield ".br"
    yield f".B {roff(PROGRAM)}"
    yield "[\\-h | \\-\\-version]"
    yield ".SH DESCRIPTION"
    yield from paragraph(whole.description)
    yield "The libraries are in the module library format of Apache TVM."
    yield "Data goes to the standard output, messages to the standard error."
    yield ".SH VERBS"
    for verb in verbs:
        yield from _verb_lines(verb)
    yield ".SH EXIT STATUS"
    for code, meaning in EXIT_CODES:
        yield from _item(str(code), meaning)
    for title, rows in (("ENVIRONMENT", ENVIRONMENT), ("FILES", FILES)):
        yield f".SH {title}"
        for name, meaning in rows:
            yield from _item(roff(name), meaning)
    yield ".SH SEE ALSO"
    yield ".BR readelf (1),"
    yield ".BR nm (1)"


def _verb_lines(verb: Verb) -> Iterator[str]:
    yield f".SS {roff(verb.name)}"
    yield from paragraph(verb.description)
    group = ""
    for argument in verb.arguments:
        if argument.dest == "help":
            continue
        if argument.group != group:
            group = argument.group
            yield ".PP"
            yield roff(group[:1].upper() + group[1:] + ":")
        listed = argument.choices if argument.metavar != "|".join(argument.choices) else ()
        yield from _item(_heading(argument), argument.help + (f": {', '.join(listed)}" if listed else ""))
    if verb.examples:
        yield ".PP"
        yield "Example:" if len(verb.examples) == 1 else "Examples:"
        yield ".PP"
        yield ".nf"
        yield ".RS"
        for example in verb.examples:
            yield roff(example)
        yield ".RE"
        yield ".fi"


def _heading(argument: Argument) -> str:
    value = f"\\fI{roff(argument.metavar)}\\fR" if argument.metavar else ""
    if not argument.names:
        return value
    names = ", ".join(f"\\fB{roff(name)}\\fR" for name in argument.names)
    return f"{names} {value}".rstrip()


def _item(heading: str, text: str) -> Iterator[str]:
    """A term and what it means."""
    yield ".TP"
    yield heading
    yield from paragraph(text)


if __name__ == "__main__":
    sys.stdout.write(page())
