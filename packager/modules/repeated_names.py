"""Names by which programs find payloads and tensors, of which several modules have the same. TVM's format
permits that: a program that walks the tree finds all of them. So a tree that is made by hand may have it."""

from __future__ import annotations

from collections.abc import Iterable

from mblob.format.type_keys import SAFETENSORS
from mblob.module import Module
from mblob.named_tuple import NamedTuple
from mblob.node import Node
from mblob.packager.errors import BuildError
from mblob.packager.modules.nodes import PayloadNode, file_of, node_of


class RepeatedName(NamedTuple):
    """A name that several modules have.

    Attributes:
        what: "payload" or "tensor".
        owners: the modules.
    """

    what: str
    name: str
    owners: list[Module]


def is_found_by_key(node: Node) -> bool:
    """True if programs ask a library for the payload of a module by its key. Of others they ask for the
    functions."""
    return node.is_found_by_key if isinstance(node, PayloadNode) else node.data


def repeated_names(modules: Iterable[Module]) -> list[RepeatedName]:
    """Names of payloads that several modules have; and of tensors, if one of the modules is of weights:
    models find their own parameters."""
    keys: dict[str, list[Module]] = {}
    tensors: dict[str, list[Module]] = {}
    for module in dict.fromkeys(modules):
        node = node_of(module)
        names = node.tensor_names if isinstance(node, PayloadNode) else ()
        for name in names:
            tensors.setdefault(name, []).append(module)
        if is_found_by_key(node) and node.type_key != SAFETENSORS:
            keys.setdefault(node.type_key, []).append(module)
    found = [
        RepeatedName("payload", key, owners) for key, owners in keys.items() if len(owners) > 1
    ]
    return found + [
        RepeatedName("tensor", name, owners)
        for name, owners in tensors.items()
        if len(owners) > 1 and any(m.type_key == SAFETENSORS for m in owners)
    ]


def check_names(modules: Iterable[Module]) -> None:
    """Refuse modules of which programs would find only one.

    Raises:
        BuildError: naming both files and the payload or tensor.
    """
    for what, name, owners in repeated_names(modules):
        files = [file_of(m) or (node_of(m).home or ("", ""))[1] for m in owners[:2]]
        if files[0] == files[1] != "" and what == "tensor":
            raise BuildError(f"{files[0]}: given twice, expected each file of weights once")
        who = f"{files[0]} and {files[1]} both" if all(files) else "two modules"
        how = "rename it in one of them" if what == "tensor" else "give each its own key"
        raise BuildError(
            f"{who} have a {what} {name[:80]!r}, of which programs would find only one; {how}"
        )
