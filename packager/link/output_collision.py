"""The files that an export reads. None of them may be its output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from mblob.bytes.payload_source import FilePayload
from mblob.module import Module, Node
from mblob.packager.errors import BuildError
from mblob.packager.modules.nodes import ObjectNode, PayloadNode, SourceNode, node_of


def files_of(root: Module) -> Iterator[tuple[str, Path]]:
    """What each file of a tree is, and its path."""
    return files_in(node_of(module) for module in root.walk())


def files_in(nodes: Iterable[Node]) -> Iterator[tuple[str, Path]]:
    """What each file of these contents of modules is, and its path."""
    for node in nodes:
        if isinstance(node, SourceNode) and isinstance(node.code, Path):
            yield "a source", node.code
        elif isinstance(node, ObjectNode) and isinstance(node.content, Path):
            yield "an object", node.content
        elif isinstance(node, PayloadNode) and isinstance(node.content, FilePayload):
            yield f"the payload of {node.type_key!r}", node.content.path


def check_output(output: Path, inputs: Iterable[tuple[str, Path]]) -> None:
    """Refuse an output that is one of the inputs: by the name it has in the end, or by another link
    to the file.

    Raises:
        BuildError: naming the input.
    """
    if not output.exists():
        return
    for what, path in inputs:
        # a missing input is for those to report who read it
        if path.exists() and path.samefile(output):
            raise BuildError(
                f"{output}: the output is also {what} ({path}), which would be lost; name another output"
            )
