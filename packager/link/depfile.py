"""The files that a build read, as a make rule: by it ninja, make and CMake know when to repack."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mblob.packager.compile.commands import dependency_command
from mblob.packager.compile.processes import Job, run_all
from mblob.packager.compile.toolchain import find
from mblob.packager.errors import BuildError
from mblob.packager.modules.nodes import SourceNode
from mblob.packager.options import as_options
from mblob.packager.path_arguments import workspace
from mblob.source_suffixes import FORMAT_OF
from mblob.temporary import replacing

if TYPE_CHECKING:
    from mblob.packager.link.build import BuildPlan

_WORD = re.compile(r"(?:\\[ #]|\$\$|[^\s])+")


def check_target(output: Path) -> None:
    """Refuse an output that no rule of make can name.

    Raises:
        BuildError: its name has a character that nothing escapes in a target.
    """
    if bad := next((c for c in "=;%" if c in str(output)), None):
        raise BuildError(
            f"{output}: make cannot have a target with {bad!r} in its name; give the output another name,"
            " or leave the depfile out"
        )


def write_depfile(plan: BuildPlan, path: Path) -> None:
    """Write the rule: the output, and all files that decide what is in it. Headers of the system are
    left out.

    Raises:
        ToolchainError: a source cannot be preprocessed. OSError: the file cannot be written.
    """
    kernels = [Path(kernel) for kernel in plan.kernels]
    plugins = [Path(item) for item in plan.carry if Path(item).is_file()]
    sources = [p for p in (*kernels, *plugins) if p.suffix in FORMAT_OF]
    given = [*kernels, *plan.objects, *plugins, *(file for _, file in plan.blobs), *plan.weights]
    given += [
        file for file in (plan.manifest, plan.graph, plan.params, plan.order) if file is not None
    ]
    found = list(dict.fromkeys([*map(str, given), *_included(plan, sources)]))
    found.sort(key=_reads_as_variable)
    if found and _reads_as_variable(found[0]):
        found.insert(0, __file__)  # packing depends on the packager, too
    rule = " \\\n  ".join([f"{_escaped(str(plan.output))}:", *map(_escaped, found)])
    with replacing(path) as temporary:
        temporary.write_text(rule + "\n", encoding="utf-8", errors="surrogateescape")


def _included(plan: BuildPlan, sources: Sequence[Path]) -> list[str]:
    """The files that sources include, themselves too."""
    tools = find(plan.cc, plan.target)
    options = as_options(list(plan.options))
    with workspace(None) as work:
        jobs, outputs = [], [work / f"{i}.d" for i in range(len(sources))]
        for output, source in zip(outputs, sources):
            node = SourceNode(source, FORMAT_OF[source.suffix])
            command = dependency_command(tools, node, source.absolute(), output.name, options, work)
            jobs.append(Job(str(source), command))
        run_all(jobs, work)
        rules = [output.read_text(encoding="utf-8", errors="surrogateescape") for output in outputs]
    return [name for rule in rules for name in _prerequisites(rule)]


def _prerequisites(rule: str) -> Iterator[str]:
    """The names behind the colon of a rule that a compiler wrote."""
    _, _, names = rule.replace("\\\n", " ").partition(": ")
    for word in _WORD.findall(names):
        yield re.sub(r"\\([ #:])", r"\1", word).replace("$$", "$")


def _reads_as_variable(name: str) -> bool:
    """True if make reads a name that is the first behind the colon as the setting of a variable,
    which nothing escapes."""
    return "=" in name


def _escaped(name: str) -> str:
    """A name as make reads it. Nothing escapes a semicolon: a pattern finds the file."""
    return re.sub(r"([ #:])", r"\\\1", name).replace("$", "$$").replace(";", "?")
