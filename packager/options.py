"""Options for compilers and linkers that a caller gave: taken apart, checked, made independent of
the folder."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from mblob.packager import conventions
from mblob.packager.errors import BuildError, BuildTypeError


def as_options(options: str | Sequence[str] | None, folder: Path | None = None) -> tuple[str, ...]:
    """Options of a caller as a tuple: a string is split as a shell would.

    Compilers do not run in the caller's folder, so relative paths become absolute.

    Args:
        folder: what they are relative to; by default the working directory.
    """
    if options is None:
        return ()
    if not isinstance(options, (str, Iterable)):
        raise BuildTypeError(
            f"options: expected a text or a list of texts, found {type(options).__name__}"
        )
    words = (
        split(options, f"options {options!r}")
        if isinstance(options, str)
        else [str(o) for o in options]
    )
    base = Path.cwd() if folder is None else folder.absolute()
    return tuple(_absolute(_with_files(words, base), base))


def split(text: str, what: str) -> list[str]:
    """The words of a text, as a shell takes it apart.

    Raises:
        BuildError: a quotation that does not end; the text of the error begins with `what`.
    """
    try:
        return shlex.split(text)
    except ValueError as exc:  # "No closing quotation", "No escaped character"
        raise BuildError(f"{what}: {exc}; expected words as a shell reads them") from None


def _with_files(words: Sequence[str], base: Path) -> list[str]:
    """The words, those of `@file` in place of it; what is in a file named by a file stays as it
    is."""
    made: list[str] = []
    for word in words:
        path = base / word[1:]
        is_file = word[:1] == "@" and path.is_file()
        made += split(path.read_text(), str(path)) if is_file else [word]
    return made


# Options that name a file or folder: in the same word, behind "=", or in the next word.
_JOINED = ("-isystem", "-iquote", "-idirafter", "-include", "-imacros", "-isysroot", "-I", "-L", "-B", "-T",
           "-Wl,-L,", "-Wl,-L", "-Wp,-I,", "-Wp,-I")  # fmt: skip
_EQUALS = (
    "--sysroot",
    "-specs",
    "-fplugin",
    "-fprofile-use",
    "-Wl,--version-script",
    "-Wl,--dynamic-list",
    "-Wl,-T",
)
_WRITTEN = ("-Wl,-Map=", "-Wl,-Map,")  # need not be there
_NEXT = (*(o for o in _JOINED if "," not in o), "--sysroot", "-iprefix")
_ANY_WORD = (
    "-o",
    "-x",
    "-Xlinker",
    "-Xassembler",
    "-Xpreprocessor",
    "-z",
    "-u",
    "-D",
    "-U",
    "-MF",
    "-MT",
    "--param",
)


def _absolute(words: Sequence[str], base: Path) -> list[str]:
    made: list[str] = []
    previous = ""
    for word in words:
        made.append(_absolute_word(word, previous, base))
        previous = word
    return made


def _absolute_word(word: str, previous: str, base: Path) -> str:
    if previous in _NEXT:
        return _absolute_path(word, base)
    if previous in _ANY_WORD:
        return word
    for option in _WRITTEN:
        if word.startswith(option):
            path, comma, rest = word[len(option) :].partition(",")
            return option + os.path.normpath(base / path) + comma + rest
    for option in _EQUALS:
        if word.startswith((option + "=", option + ",")):
            at = len(option) + 1
            path, comma, rest = word[at:].partition(",")
            return word[:at] + _absolute_path(path, base) + comma + rest
    for option in _JOINED:
        if word.startswith(option):
            return option + _absolute_path(word[len(option) :], base)
    # an object, an archive, a linker script
    return word if word.startswith("-") else _absolute_path(word, base)


def _absolute_path(path: str, base: Path) -> str:
    """`path` as seen from `base`, if something is there; headers may be elsewhere, and -Ttext=0 is
    no path at all."""
    found = base / path
    return (
        os.path.normpath(found)
        if path and found.exists() and not Path(path).is_absolute()
        else path
    )


# Options after which a compiler driver links nothing.
_STOPS = (
    "-c",
    "-S",
    "-E",
    "-M",
    "-MM",
    "-fsyntax-only",
    "-###",
    "--help",
    "--version",
    "-dumpmachine",
)


# With these a library counts what it does, and writes it where its objects were.
_COUNTING = ("--coverage", "-coverage", "-fprofile-arcs", "-ftest-coverage", "-fprofile-generate")
# With these the compiler writes further files beside the objects.
_FURTHER = (
    "-save-temps", "--save-temps", "-fdump-", "-fstack-usage", "-fcallgraph-info", "-ftime-trace",
)  # fmt: skip


def check_options(options: Sequence[str]) -> None:
    """Refuse options with which no library would come out, or not all that they ask for.

    Raises:
        BuildError: naming the option.
    """
    conventions.check_options(options, "options")
    for option in options:
        if option in _COUNTING:
            raise BuildError(
                f"options: {option} makes the library write counts beside its objects, which are gone by then; compile"
                " the kernels yourself where the counts shall be, and pack the objects with static_library"
            )
        if option.startswith(_FURTHER):
            raise BuildError(
                f"options: {option} writes files beside the objects, in a folder that is removed; compile the kernels"
                " yourself, and pack the objects with static_library"
            )
        if option in _STOPS:
            raise BuildError(
                f"options: {option} makes the compiler stop before it links; leave it out"
            )


# What the linker alone understands: words that take the next one with them, beginnings of words,
# ends of files.
_LINK_PAIRS = ("-Xlinker", "-T", "-z", "-u")
_LINK_ONLY = ("-l", "-L", "-Wl,", "-shared", "-static", "-fuse-ld=", "-rdynamic", "-pie", "-no-pie")
_LINK_INPUTS = (".o", ".a", ".so", ".ld", ".lds")
# What the preprocessor alone understands; clang complains about it when there is nothing to
# preprocess.
_PREPROCESSOR_PAIRS = (
    "-include", "-imacros", "-isystem", "-iquote", "-idirafter", "-iprefix", "-iwithprefix", "-iwithprefixbefore",
    "-I", "-D", "-U", "-MF", "-MT", "-MQ",
)  # fmt: skip
_PREPROCESSOR_ONLY = ("-I", "-D", "-U", "-M", "-Wp,", "-iquote", "-isystem", "-nostdinc")


def compile_options(options: Sequence[str]) -> list[str]:
    """Those of the caller's options that a compilation without link understands."""
    return _without(options, _LINK_PAIRS, _LINK_ONLY, _LINK_INPUTS)


def options_behind_preprocessor(options: Sequence[str]) -> list[str]:
    """Those of the options that a compilation of preprocessed text understands."""
    return _without(options, _PREPROCESSOR_PAIRS, _PREPROCESSOR_ONLY)


def _without(
    options: Sequence[str],
    pairs: Sequence[str],
    only: tuple[str, ...],
    inputs: tuple[str, ...] = (),
) -> list[str]:
    kept: list[str] = []
    skip_next = False
    for option in options:
        if skip_next:
            skip_next = False
        elif option in pairs:
            skip_next = True
        elif not (option.startswith(only) if option.startswith("-") else option.endswith(inputs)):
            kept.append(option)
    return kept


def may_define(option: str) -> bool:
    """True if an option of the link may bring functions that no object tells: libraries, scripts,
    what linkers alone understand."""
    return option.startswith(("-l", "-Wl,", "-T", "-Xlinker", "@")) or not option.startswith("-")


# What is said of code that would be changed when it is loaded.
NEEDS_PIC = (
    "compiled without -fPIC, which a shared library needs; compile it with -fPIC (in assembler, write addresses into"
    ' .section .data.rel.ro,"aw" instead of into code and read-only data)'
)
# What is said of code that needs an executable stack.
NEEDS_STACK = (
    "its code needs an executable stack, and libraries are linked without one: calls of it would crash, and glibc 2.41"
    " and later refuse libraries with one; write each nested function whose address is taken outside of the other"
    ' function (in assembler, write .section .note.GNU-stack with "")'
)


def asks_for_stack(options: Sequence[str]) -> bool:
    """True if options of a link ask for an executable stack; the last one counts."""
    words = ",".join(o.removeprefix("-Wl,") for o in options if o != "-Xlinker")
    asked = re.findall(r"(?<![^,])-z,?(no)?execstack(?![^,])", words)
    return bool(asked) and asked[-1] == ""


LINKERS = ("bfd", "gold", "lld", "mold")


def linker_named(options: Sequence[str]) -> str:
    """The one of `LINKERS` that options name, by its name or by a path; the last one counts. "" if
    they name none of these: then only the compiler can tell."""
    named = [o for o in options if o.startswith(("-fuse-ld=", "--ld-path="))]
    program = named[-1].partition("=")[2].rpartition("/")[2] if named else ""
    return next((linker for linker in LINKERS if linker in program), "")
