"""Writes the C sources that an installed package has, without their comments: mblob.c, as amalgamation.py
makes it, and mblob-plugins.c, of which the packager compiles plug-ins into libraries that carry them.

A *unit* of mblob-plugins.c is a file of plugins/, or a file of src/ that plug-ins share. A compiler takes
the unit whose macro is defined, such as MBLOB_UNIT_plugins_cuda_code_c. Units of a plug-in also need the
macro of their headers, such as MBLOB_PLUGIN_cuda.

    python3 csrc/installed_sources.py FOLDER
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import amalgamation
from amalgamation import CSRC, INCLUDE, INCLUDED, SRC

# A text or a character, which may hold what looks like a comment; or a comment.
COMMENT = re.compile(
    r"""("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|/\*.*?\*/|//[^\n]*""", re.DOTALL
)
SPACE = re.compile(r"(?<=[,;?:=|)(]) +| +(?=[?:=|)!({])")  # that separates no two words
TO_KEEP = "/* fall through */"  # else compilers warn
ABOUT = (
    "/* {}, of mblob (Apache License 2.0), without the comments of its sources: do not edit. */\n"
)


def without_comments(text: str) -> str:
    """C without comments, indentation, empty lines, and most spaces that stand for nothing: a package is smaller."""
    bare = COMMENT.sub(lambda found: found[0] if found[1] or found[0] == TO_KEEP else " ", text)
    made, directive = [], False  # of the preprocessor, to which spaces may matter
    for line in filter(None, map(str.strip, bare.splitlines())):
        directive = directive or line.startswith("#")
        made.append(line if directive or TO_KEEP in line else _narrow(line))
        directive = directive and line.endswith("\\")
    return "".join(f"{line}\n" for line in made)


def _narrow(line: str) -> str:
    parts = COMMENT.split(line)  # code and literals by turns
    return "".join(SPACE.sub("", part) if i % 2 == 0 else part for i, part in enumerate(parts) if part)


def whole() -> str:
    """The text of mblob.c."""
    return ABOUT.format("mblob.c: libmblob as one C file") + without_comments(amalgamation.whole())


class Bundle:
    """The lines of mblob-plugins.c, with each header at most once."""

    def __init__(self, csrc: Path) -> None:
        self.plugins = csrc / "plugins"
        self.lines = ["#ifndef _GNU_SOURCE", "#define _GNU_SOURCE", "#endif"]
        self._there: set[Path] = set()

    def _find(self, name: str, source: Path) -> Path | None:
        """The own header that a file includes under that name; None: it is the system's."""
        common = self.plugins / "common"
        places = (source.parent, common, SRC, INCLUDE, INCLUDE / "mblob" / "compat")
        return next((p.resolve() for p in (place / name for place in places) if p.is_file()), None)

    def _add(self, path: Path) -> None:
        """Add the lines of a file, and the headers that it includes and that are not there."""
        for line in path.read_text(encoding="utf-8").splitlines():
            included = INCLUDED.match(line)
            target = included and self._find(included[1], path)
            if target:
                self._header(target)
            elif line != "#define _GNU_SOURCE":
                self.lines.append(line)

    def _header(self, path: Path) -> None:
        if path not in self._there:
            self._there.add(path)
            self._add(path)

    def headers(self, source: Path, but: Path | None = None) -> None:
        """Add the headers that a file includes, but not those in the folder `but`."""
        for name in re.findall(INCLUDED.pattern, source.read_text(encoding="utf-8"), re.MULTILINE):
            target = self._find(name, source)
            if target and but not in target.parents:
                self._header(target)

    def unit(self, path: Path, name: str) -> None:
        """Add a C file, for the compilation that defines its macro."""
        self.lines.append(f"#ifdef MBLOB_UNIT_{re.sub('[^a-z0-9]', '_', name)}")
        self._add(path)
        self.lines.append("#endif")


def plugins(csrc: Path = CSRC) -> str:
    """The text of mblob-plugins.c, from the folder `plugins` of `csrc`."""
    bundle = Bundle(csrc.resolve())
    flags = (CSRC / "flags.mk").read_text(encoding="utf-8")
    shared = re.findall(r"^PLUGIN_SHARED := (.*)$", flags, re.MULTILINE)[0].split()
    *names, common = sorted(
        (p for p in bundle.plugins.iterdir() if p.is_dir()), key=lambda p: p.name == "common"
    )
    for folder in (common, *names):
        for path in sorted(folder.rglob("*.[ch]")):
            bundle.headers(path, but=None if folder == common else folder)
    for path in (*sorted(common.glob("*.c")), *(SRC / name for name in shared)):
        bundle.unit(path, f"{path.parent.name}_{path.name}")
    for folder in names:
        sources = sorted(folder.rglob("*.c"))
        bundle.lines.append(f"#ifdef MBLOB_PLUGIN_{folder.name}")
        for path in sources:
            bundle.headers(path)
        for path in sources:
            bundle.unit(path, f"plugins_{path.relative_to(bundle.plugins)}")
        bundle.lines.append("#endif")
    about = ABOUT.format("mblob-plugins.c: the plug-ins of libmblob")
    return about + without_comments("\n".join(bundle.lines))


def write(folder: Path) -> None:
    """Write both files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("mblob.c", whole()), ("mblob-plugins.c", plugins())):
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
