"""The plug-ins that run the modules of a library, and whether files that they open at run time are on this machine."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mblob.errors import MblobError
from mblob.format.plugin_table import Plugin
from mblob.inspect.library_search import Search, SharedObject, is_for, open_shared, shared_elf
from mblob.installed import library_dir

if TYPE_CHECKING:
    from mblob.binary.elf import ElfFile
    from mblob.inspect.library import Library

_FILE = re.compile(r"\blib[\w+-]+\.so(?:\.\d+)*")
_VARIABLE = re.compile(r"\bMBLOB_\w+_LIBRARY\b")
# By plug-in. csrc/plugins/dnnl/onednn.c says the same where a program opens a module.
_INSTALL = {
    "dnnl": "install it (Debian, Ubuntu: apt install libdnnl2; Fedora: dnf install onednn; anywhere: pip install"
    " onednn-cpu-gomp), or pack with a libdnnl.a"
}


def remarks(library: Library, root: str = "/") -> Iterator[tuple[str, str]]:
    """A remark on each type key that a plug-in runs: "plugin_needs", or "plugin_lacks" if a file is not here.

    Args:
        library: an open one; no code of it runs.
        root: the folder that is `/` for its machine.
    """
    elf = shared_elf(library)
    keys = dict.fromkeys(e.type_key for e in library.entries)
    if elf is None or not keys:
        return
    rows = [(plugin, "this library") for plugin in library.plugins]
    rows += [(plugin, "mblob") for plugin in _shipped(elf)]
    for key in keys:
        plugin, where = next((row for row in rows if key in row[0].type_keys), (None, ""))
        if plugin is None:
            continue
        found = place_of(elf, str(library.path), plugin, root)
        text = f"{key}: run by the plug-in {plugin.name} of {where}, which"
        if found is None:
            yield "plugin_needs", f"{text} opens no other file"
        elif found:
            yield "plugin_needs", f"{text} needs {plugin.needs}; here it is {found}"
        else:
            advice = f"; {_INSTALL[plugin.name]}" if plugin.name in _INSTALL else ""
            yield "plugin_lacks", f"{text} needs {plugin.needs}; it is not here{advice}"


def place_of(elf: ElfFile, path: str, plugin: Plugin, root: str = "/") -> str | None:
    """The file on this machine that a plug-in opens, "" if there is none; None if it needs no file."""
    names = sorted({*_FILE.findall(plugin.needs)}, reverse=True)  # the newest first
    if not names:
        return None
    for variable in _VARIABLE.findall(plugin.needs) if root == "/" else ():
        if chosen := os.environ.get(variable):
            return chosen if Path(chosen).is_file() else ""
    search, importer = Search(elf, root), SharedObject(path, elf, [])
    for name in names:
        if found := search.find(name, importer):
            return found.path
    own = (Path(sys.prefix, "lib", name) for name in names) if root == "/" else ()
    return next((str(file) for file in own if file.is_file()), "")


def _shipped(elf: ElfFile) -> Iterator[Plugin]:
    """The plug-ins that are installed with mblob, if they are for the machine of a library."""
    from mblob.inspect.library import Library

    for path in sorted(library_dir().glob("libmblob-*.so")):
        try:
            if is_for(open_shared(str(path)), elf):
                with Library(path, verify="off") as library:
                    yield from library.plugins
        except (MblobError, OSError):
            continue
