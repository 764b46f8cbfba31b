"""Libraries that a plug-in of mblob has inside, in place of one that it opens at run time: for oneDNN a
`libdnnl.a`, if there is one for the compiler's target.

Neither Debian nor PyPI has that file. Whoever compiles oneDNN gets it with
`-DONEDNN_LIBRARY_TYPE=STATIC`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from mblob.installed import get_plugin_sources
from mblob.named_tuple import NamedTuple
from mblob.packager.compile.processes import Processes
from mblob.packager.compile.toolchain import Toolchain
from mblob.packager.errors import BuildError
from mblob.packager.modules.nodes import HostNode, ObjectNode, SourceNode
from mblob.packager.objects import object_files


class Engine(NamedTuple):
    """A static library that a plug-in can have inside.

    Attributes:
        archive: its name in the folders of the compiler.
        variable: names the file instead; empty, the plug-in has none inside.
        entry: a function by which it is known.
        functions: pattern of the names in the source of the plug-in that it, or its OpenMP, may have.
        macro: tells the source which of them it has.
    """

    archive: str
    variable: str
    entry: str
    functions: str
    macro: str


ENGINES = {
    "dnnl": Engine(
        "libdnnl.a",
        "MBLOB_DNNL_ARCHIVE",
        "dnnl_version",
        r'"((?:dnnl|omp)_\w+)"',
        "MBLOB_LINKED_DNNL",
    )
}
_OPENMP = ("GOMP_", "__kmpc_")
# Libraries that compiled code calls without being told, by the beginnings of names.
_RUNTIMES = {"GOMP_": "-lgomp", "__kmpc_": "-lomp", "_ZN3tbb": "-ltbb"}


def with_engine(
    name: str, nodes: Sequence[HostNode], tools: Toolchain, options: Sequence[str]
) -> Sequence[HostNode]:
    """The host code of a plug-in of mblob, with the engine that it can have inside.

    Args:
        nodes: of `mblob.packager.link.carried_plugins.shipped_sources`.

    Raises:
        BuildError: the file that a variable names is not there, or is another library.
    """
    engine = ENGINES.get(name)
    path = _archive(engine, tools, options) if engine else None
    if engine is None or path is None:
        return nodes
    has = object_files.read(path, str(path))
    if engine.entry not in has.defined:
        raise BuildError(f"carry: {path}: expected {engine.archive}, found no {engine.entry} in it")
    there = set(has.defined)
    if any(name.startswith(_OPENMP) for name in has.undefined):
        there |= {"omp_get_max_threads", "omp_set_num_threads"}
    source = Path(get_plugin_sources()).read_text("utf-8")
    names = sorted(there.intersection(re.findall(engine.functions, source)))
    define = f"#define {engine.macro}(X) {' '.join(f'X({n})' for n in names)}\n"
    made = [
        SourceNode(define + node.text(), node.fmt, options=node.options)
        for node in nodes
        if isinstance(node, SourceNode)
    ]
    return [*made, ObjectNode(path)]


def _archive(engine: Engine, tools: Toolchain, options: Sequence[str]) -> Path | None:
    given = os.environ.get(engine.variable)
    if given is not None:
        path = Path(given)
        if given and not path.is_file():
            raise BuildError(f"carry: {engine.variable}={given}: no such file")
        return path.absolute() if given else None
    folders = [Path(o[2:]) for o in options if o.startswith("-L") and o != "-L"]
    for path in (folder / engine.archive for folder in folders):
        if path.is_file():
            return path.absolute()
    found = Processes().run((*tools.cc, f"-print-file-name={engine.archive}"))[1].strip()
    return Path(found) if Path(found).is_absolute() else None


def libraries(undefined: Iterable[Iterable[str]]) -> list[str]:
    """Words of a link for the runtimes of compilers that objects call."""
    called = {name for names in undefined for name in names}
    return [word for start, word in _RUNTIMES.items() if any(n.startswith(start) for n in called)]
