"""Writes libmblob as one C file, mblob.c, and its header, mblob.h: `make amalgamation`.

mblob.c has the text of each file of src/ once, layer by layer; of a layer, first its headers, then its
sources. Headers of include/ stand where they are first included. The text of a layer or file with a
condition stands between `#if` and `#endif`. MBLOB_PROFILE_MINIMAL and MBLOB_STANDALONE leave out files, for which files
of stand_ins/ stand, one for each layer.

    python3 csrc/amalgamation.py FOLDER
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

CSRC = Path(__file__).resolve().parent
SRC, INCLUDE, STAND_INS, PLUGINS = CSRC / "src", CSRC / "include", CSRC / "stand_ins", CSRC / "plugins"
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
# The plug-in for TVM 0.21 and later, which stands behind the layers.
PLUGIN = dict.fromkeys(("plugins/common", "plugins/ffi"), "defined(MBLOB_WITH_FFI)")
LEFT_OUT = {
    "entry/profile_core.c",  # the table of libmblob-core.a: the other table has its place
    # Of plug-ins: what the runtime has itself, kernels of devices, names for libmblob-ffi.a.
    "plugins/common/host_errors.c",
    "plugins/common/kernel_call.c",
    "plugins/common/kernel_list.c",
    "plugins/common/kernel_list.h",
    "plugins/common/static_names.h",
    "plugins/ffi/exported.c",
}
# What MBLOB_PROFILE_MINIMAL leaves out: files, and all files of folders.
NOT_MINIMAL = (
    "base/atomic_file.c",
    "base/block_cache.c",
    "base/float16.c",
    "format/stream_ffi.c",
    "core/threads/",
    "core/device/device.c",
    "core/call/aligned.c",
    "core/call/aligned_call.c",
    "core/call/globals.c",
    "core/call/method.c",
    "core/call/object.c",
    "core/link/copy_origin.c",
    "core/link/patched_copy.c",
    "core/link/runtime_lookups.c",
    "core/link/system_symbols.c",
    "core/link/unload.c",
    "core/plugin/",
    "core/library/builtin_class.c",
    "core/library/created.c",
    "core/library/loaders.c",
    "core/library/system_library.c",
    "host_abi/any_list.c",
    "host_abi/capi_object.c",
    "host_abi/global_functions.c",
    "host_abi/plugin_host.c",
    "entry/capi.c",
    "entry/host_symbols.c",
    "entry/open_readonly.c",
    "entry/profile_full.c",
    "entry/registry.c",
)
# What MBLOB_STANDALONE leaves out, whose one library is in memory: packager/standalone/runtime.c comes behind mblob.c.
NOT_STANDALONE = (
    "elf/", "core/link/", "core/plugin/", "core/library/load.c", "entry/host_", "entry/open", "entry/profile_",
    "entry/registry", "plugins/ffi/plugin.c",
)  # fmt: skip
NOT_WITH = {"MBLOB_PROFILE_MINIMAL": NOT_MINIMAL, "MBLOB_STANDALONE": NOT_STANDALONE}
# Folders of stand_ins/, and what their files stand for.
STAND_IN_FOR = {
    "": "defined(MBLOB_PROFILE_MINIMAL) || defined(MBLOB_STANDALONE)",
    "minimal": "defined(MBLOB_PROFILE_MINIMAL)",
    "standalone": "defined(MBLOB_STANDALONE)",
}
INCLUDED = re.compile(r'^#\s*include ["<]([^">]+)[">].*$')
# At the start of a line, which is where clang-format puts what a file declares.
MACRO = re.compile(r"#\s*define (?!_GNU_SOURCE)(\w+)")
TAG = re.compile(r"(?:typedef )?((?:struct|union|enum) \w+) \{")
STATIC = re.compile(r"static [^=;(){]*?\b(\w+)(?:\[[^\]]*\])*(?: =|;|\()")
ATTRIBUTES = re.compile(r"__attribute__\(\(.*?\)\) |MB_HANDLER\(\w+(?:\(\d+\))?\) ")
OPERATORS = re.compile(r"\b(?:ElfW|_Atomic)\(([\w ]+\**)\)")
# A prototype in a header of src/. mblob.c has what it declares, and nothing else needs the name.
PROTOTYPE = re.compile(
    r"^(?:MBLOB_API )?(?=(?!static|extern|typedef)[a-z_][^={}#;]*?\)[^={}#();]*;)", re.MULTILINE
)
NAME = re.compile(r"\b(\w+)\(")
FUNCTION = re.compile(r"^(?!static|extern|typedef)[a-zA-Z_][^={}#;(]*?\b(\w+)\([^={}#;]*\{", re.MULTILINE)
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
/* Of functions that MBLOB_PROFILE_MINIMAL leaves out. */
#ifdef MBLOB_PROFILE_MINIMAL
#define MB_LEFT_OUT extern
#else
#define MB_LEFT_OUT MB_INTERNAL
#endif
"""
# Of the plug-in, as libmblob-ffi.a has them (plugins/common/static_names.h).
OTHER_NAMES = """\
#define mblob_runtime_names mb_ffi_runtime_names
#define __mblob_plugin_ffi __mblob_static_plugin_ffi
"""
# Of all files: stand_ins/tcc.h has the atomics.
AT_THE_START = {"#define _GNU_SOURCE", "#include <stdatomic.h>"}


class Clash(Exception):
    """Two files of src/ have a name that only one file of a program can have."""


class Writer:
    """The lines of one output, with each own header at most once."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._there = {CSRC / name for name in LEFT_OUT}
        self._names: dict[str, tuple[str, Path]] = {}  # with the line of a macro

    def add(self, path: Path) -> None:
        """Add a file, and what it includes and is not there yet."""
        if path in self._there:
            return
        self._there.add(path)
        text = path.read_text(encoding="utf-8")
        if path.is_relative_to(SRC) or path.is_relative_to(PLUGINS):
            self._own(path, text)
            if path.suffix == ".h":
                text = PROTOTYPE.sub(internal, text)
                text = INLINE.sub("static inline __attribute__((unused)) ", text)
                text = VARIABLE.sub(f"extern {HIDDEN} ", text)
        self.lines.append(f"/* ==== csrc/{path.relative_to(CSRC)} ==== */")
        for line in text.splitlines():
            included = INCLUDED.match(line)
            target = included and find(included[1], path)
            if target:
                self.add(target)
            elif line not in AT_THE_START:
                self.lines.append(line)

    def add_included(self, path: Path) -> None:
        """Add the headers that a file includes."""
        for line in path.read_text(encoding="utf-8").splitlines():
            included = INCLUDED.match(line)
            target = included and find(included[1], path)
            if target:
                self.add(target)

    def add_if(self, condition: str, path: Path) -> None:
        """Add a source that is compiled under that condition; its headers are there for others, too."""
        self.add_included(path)
        self.lines.append(condition)
        self.add(path)
        self.lines.append("#endif")

    def _own(self, path: Path, text: str) -> None:
        """Record the names of a file of src/ or of plug-ins."""
        for name, line in names_of(text):
            there, other = self._names.setdefault(name, (line, path))
            if other != path and not there == line != "":
                raise Clash(
                    f"{path.relative_to(CSRC)}: {other.relative_to(CSRC)} has {name}, too: rename it"
                )


def sources() -> Iterator[tuple[Path, bool]]:
    """The sources of src/, and whether MBLOB_PROFILE_MINIMAL leaves each out."""
    for path in sorted(SRC.rglob("*.c")):
        yield path, path.relative_to(SRC).as_posix().startswith(NOT_MINIMAL)


@cache
def left_out() -> set[str]:
    """The functions that MBLOB_PROFILE_MINIMAL does not have."""
    text = "".join(path.read_text(encoding="utf-8") for path, out in sources() if out)
    stand_ins = sorted([*STAND_INS.glob("*.c"), *STAND_INS.glob("minimal/*.c")])
    there = "".join(path.read_text(encoding="utf-8") for path in stand_ins)
    return {*FUNCTION.findall(text)} - {*FUNCTION.findall(there)}


def internal(found: re.Match[str]) -> str:
    """The words that stand before a prototype."""
    name = NAME.search(found.string, found.end())
    return "MB_LEFT_OUT " if name and name[1] in left_out() else "MB_INTERNAL "


def names_of(text: str) -> Iterator[tuple[str, str]]:
    """The names that a file takes for itself: static functions and variables, types, macros. With each its
    line if that may stand there twice: a macro."""
    gone = set(re.findall(r"^#\s*undef (\w+)", text, re.MULTILINE))
    for line in OPERATORS.sub(r"\1", ATTRIBUTES.sub("", text)).splitlines():
        for kind in (MACRO, TAG, STATIC):
            found = kind.match(line)
            if found and found[1] not in gone:
                yield found[1], line.partition("/*")[0].strip() if kind is MACRO and not line.endswith("\\") else ""


def find(name: str, source: Path) -> Path | None:
    """The own header that a file includes under that name; None: it is the system's."""
    places = (source.parent, SRC, INCLUDE, INCLUDE / "mblob" / "compat", STAND_INS, PLUGINS / "common")
    return next((p.resolve() for p in (place / name for place in places) if p.is_file()), None)


def whole() -> str:
    """The text of mblob.c."""
    writer = Writer()
    writer.lines += START.splitlines()
    writer.lines += (STAND_INS / "tcc.h").read_text(encoding="utf-8").splitlines()
    for layer, condition in {**LAYERS, **PLUGIN}.items():
        writer.lines += [f"#if {condition}"] if condition else []
        writer.lines += OTHER_NAMES.splitlines() if layer == "plugins/ffi" else []
        folder = (CSRC if layer in PLUGIN else SRC) / layer
        for kind in ("*.h", "*.c"):
            for path in sorted(folder.glob(kind)):
                name = f"{layer}/{path.name}"
                macros = [m for m, names in NOT_WITH.items() if name.startswith(names)]
                if kind == "*.c" and macros and name not in LEFT_OUT:
                    without = " && ".join(f"!defined({macro})" for macro in macros)
                    writer.add_if(f"#if {without}", path)
                elif name not in LEFT_OUT:
                    writer.add(path)
        for place, macros_of_it in STAND_IN_FOR.items():
            rest = STAND_INS / place / f"{layer.replace('/', '_')}.c"
            if rest.is_file():
                writer.add_if(f"#if {macros_of_it}", rest)
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
