"""Whether a module lacks a function for certain, seen before anything is compiled or opened."""

from __future__ import annotations

import re

from mblob.binary.file_kind import THIN_MAGIC
from mblob.bytes.mapping import map_file
from mblob.module import Node
from mblob.packager.modules.nodes import HostNode, ObjectNode, PayloadNode, SourceNode

# Names may be made, or come from other files.
_ELSEWHERE = re.compile(r'##|^\s*#\s*include\s*"|^-include', re.MULTILINE)


def lacks(node: Node, symbol: str) -> bool:
    """Whether a module's content cannot have that function. False where only a compiler or runtime
    can tell.

    Raises:
        OSError: the file of a host module cannot be read.
    """
    if isinstance(node, PayloadNode):
        return node.only_function is not None and node.only_function != symbol
    if isinstance(node, HostNode) and symbol in (p.name for p in node.declared.functions):
        return False
    if isinstance(node, SourceNode):
        text = "\n".join((node.text(), *node.options))
        return symbol not in text and not _ELSEWHERE.search(text)
    if isinstance(node, ObjectNode) and node.declared.functions:
        content = node.content if isinstance(node.content, bytes) else map_file(node.content)
        thin_or_lto = bytes(content[: len(THIN_MAGIC)]) == THIN_MAGIC or re.search(
            rb"\.gnu\.lto_", content
        )
        return not thin_or_lto and not re.search(re.escape(symbol.encode()), content)
    return False
