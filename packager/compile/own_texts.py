"""Sources as their compiler reads them, for what an error tells of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mblob.packager.compile.call_attributes import own_text
from mblob.packager.compile.commands import language, preprocess_command
from mblob.packager.compile.host_objects import write_source
from mblob.packager.compile.processes import Job, run_all
from mblob.packager.compile.toolchain import Toolchain
from mblob.packager.modules.nodes import HostNode, SourceNode
from mblob.source_suffixes import OF_C


def own_texts(
    tools: Toolchain, nodes: Sequence[HostNode], options: Sequence[str], work: Path
) -> list[str]:
    """The preprocessed sources in C and C++, without what headers of the system have.

    Raises:
        ToolchainError: one cannot be preprocessed.
    """
    sources = [n for n in nodes if isinstance(n, SourceNode) and language(n) in OF_C]
    jobs = []
    for i, node in enumerate(sources):
        path = (
            node.code.absolute()
            if isinstance(node.code, Path)
            else write_source(node.text(), work / f"own{i}.{node.fmt}")
        )
        command = preprocess_command(tools, node, path, f"own{i}.i", options, work, ())
        jobs.append(Job(node.label, command))
    run_all(jobs, work)
    return [own_text((work / job.output).read_text("utf-8", "surrogateescape")) for job in jobs]
