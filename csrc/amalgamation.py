"""Writes libmblob as one C file, mblob.c, and its header, mblob.h: `make amalgamation`.

mblob.c has the text of each file of src/ once, layer by layer; of a layer, first its headers, then its
sources. Headers of include/ stand where they are first included. The text of a layer or file with a
condition stands between `#if` and `#endif`.

    python3 csrc/amalgamation.py FOLDER
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

CSRC = Path(__file__).resolve().parent
SRC, INCLUDE = CSRC / "src", CSRC / "include"
# In the order of docs/design.md, "Layers of csrc", with the condition for each layer.
LAYERS = {
    "base": "",
    "format": "",
    "elf": "",
    "core/threads": "",
    "core/device": "",
    "core/loaded": "",
    "core/call": "",
    "core/link": "",
    "core/plugin": "",
    "core/library": "",
    "host_abi": "",
    "exec/common": "defined(MB_WITH_EXECUTORS)",
    "exec/graph": "defined(MBLOB_WITH_GRAPH)",
    "exec/aot": "defined(MBLOB_WITH_AOT)",
    "exec/relay": "defined(MBLOB_WITH_RELAY)",
    "exec/relax": "defined(MBLOB_WITH_RELAX)",
    "exec/contrib": "defined(MBLOB_WITH_CONTRIB)",
    "entry": "",
}
# The table of libmblob-core.a: the other table has its place.
LEFT_OUT = {"entry/profile_core.c"}
INCLUDED = re.compile(r'^#\s*include ["<]([^">]+)[">].*$')
# At the start of a line, which is where clang-format puts what a file declares.
MACRO = re.compile(r"#\s*define (?!_GNU_SOURCE)(\w+)")
TAG = re.compile(r"(?:typedef )?((?:struct|union|enum) \w+) \{")
STATIC = re.compile(r"static [^=;(){]*?\b(\w+)(?:\[[^\]]*\])*(?: =|;|\()")
ATTRIBUTES = re.compile(r"__attribute__\(\(.*?\)\) ")
OPERATORS = re.compile(r"\b(?:ElfW|_Atomic)\(([\w ]+\**)\)")
# A prototype in a header of src/. mblob.c has what it declares, and nothing else needs the name.
PROTOTYPE = re.compile(
    r"^(?:MBLOB_API )?(?=(?!static|extern|typedef)[a-z_][^={}#;]*?\)[^={}#();]*;)", re.MULTILINE
)
INLINE = re.compile(r"^static inline ", re.MULTILINE)  # may be used by no layer that is compiled
VARIABLE = re.compile(r"^extern (?!__attribute__)", re.MULTILINE)
HIDDEN = '__attribute__((visibility("hidden")))'
START = """\
#ifndef MBLOB_HOST
#define MBLOB_HOST
#endif
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64
#endif
#ifndef MB_INTERNAL
#define MB_INTERNAL static __attribute__((unused))
#endif
"""


class Clash(Exception):
    """Two files of src/ have a name that only one file of a program can have."""


class Writer:
    """The lines of one output, with each own header at most once."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._there: set[Path] = set()
        self._names: dict[str, Path] = {}

    def add(self, path: Path) -> None:
        """Add a file, and what it includes and is not there yet."""
        if path in self._there:
            return
        self._there.add(path)
        text = path.read_text(encoding="utf-8")
        if path.is_relative_to(SRC):
            self._own(path, text)
            if path.suffix == ".h":
                text = PROTOTYPE.sub("MB_INTERNAL ", text)
                text = INLINE.sub("static inline __attribute__((unused)) ", text)
                text = VARIABLE.sub(f"extern {HIDDEN} ", text)
        self.lines.append(f"/* ==== csrc/{path.relative_to(CSRC)} ==== */")
        for line in text.splitlines():
            included = INCLUDED.match(line)
            target = included and find(included[1], path)
            if target:
                self.add(target)
            elif line != "#define _GNU_SOURCE":
                self.lines.append(line)

    def _own(self, path: Path, text: str) -> None:
        """Record the names of a file of src/."""
        for name in names_of(text):
            other = self._names.setdefault(name, path)
            if other != path:
                raise Clash(
                    f"{path.relative_to(CSRC)}: {other.relative_to(CSRC)} has {name}, too: rename it"
                )


def names_of(text: str) -> Iterator[str]:
    """The names that a file takes for itself: static functions and variables, types, macros."""
    gone = set(re.findall(r"^#\s*undef (\w+)", text, re.MULTILINE))
    for line in OPERATORS.sub(r"\1", ATTRIBUTES.sub("", text)).splitlines():
        for kind in (MACRO, TAG, STATIC):
            found = kind.match(line)
            if found and found[1] not in gone:
                yield found[1]


def find(name: str, source: Path) -> Path | None:
    """The own header that a file includes under that name; None: it is the system's."""
    places = (source.parent, SRC, INCLUDE, INCLUDE / "mblob" / "compat")
    return next((p.resolve() for p in (place / name for place in places) if p.is_file()), None)


def whole() -> str:
    """The text of mblob.c."""
    writer = Writer()
    writer.lines += START.splitlines()
    for layer, condition in LAYERS.items():
        writer.lines += [f"#if {condition}"] if condition else []
        for kind in ("*.h", "*.c"):
            for path in sorted((SRC / layer).glob(kind)):
                if path.relative_to(SRC).as_posix() not in LEFT_OUT:
                    writer.add(path)
        writer.lines += ["#endif"] if condition else []
    return "\n".join(writer.lines) + "\n"


def header() -> str:
    """The text of mblob.h."""
    writer = Writer()
    writer.add(INCLUDE / "mblob.h")
    return "\n".join(writer.lines) + "\n"


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("mblob.c", whole()), ("mblob.h", header())):
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
