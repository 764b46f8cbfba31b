"""The plug-ins that come with mblob, by name: sources, for libraries that shall carry them."""

from __future__ import annotations

from pathlib import Path

from mblob.packager.errors import BuildError
from mblob.packager.modules.nodes import SourceNode
from mblob.paths import include_dir

COMMON = "common"  # the folder of what all of them share
# Of the runtime's sources: PLUGIN_SHARED of csrc/flags.mk.
SHARED = (
    "base/bytes.c",
    "base/json.c",
    "base/locks.c",
    "base/map.c",
    "base/sha256.c",
    "base/whole_file.c",
)
# COMPILE of csrc/flags.mk.
OPTIONS = (
    "-std=gnu11",
    "-D_FILE_OFFSET_BITS=64",
    "-fvisibility=hidden",
    "-pthread",
    "-DMBLOB_HOST",
)


def csrc() -> Path:
    """The folder of the C sources that ship with mblob."""
    return include_dir().parent


def names() -> list[str]:
    """The plug-ins that there are."""
    folder = csrc() / "plugins"
    return (
        sorted(p.name for p in folder.iterdir() if p.is_dir() and p.name != COMMON)
        if folder.is_dir()
        else []
    )


def sources(name: str) -> list[SourceNode]:
    """What a plug-in is compiled of, its own files first.

    Raises:
        BuildError: there is none of that name.
    """
    if name not in names():
        known = ", ".join(names()) or "none"
        raise BuildError(
            f"carry: {name!r} is no file, and none of the plug-ins that come with mblob ({known}); a plug-in of your"
            " own is a .c, .cc, .o or .a file"
        )
    root = csrc()
    files = [p for part in (name, COMMON) for p in sorted((root / "plugins" / part).glob("*.c"))]
    files += [root / "src" / shared for shared in SHARED]
    options = (*OPTIONS, f"-I{root / 'src'}", f"-I{root / 'plugins' / COMMON}")
    return [SourceNode(path, "c", options=options) for path in files]
