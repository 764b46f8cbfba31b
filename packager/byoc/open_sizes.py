"""Open sizes of a region: its inputs have to tell those of all its tensors."""

from __future__ import annotations

from mblob.packager.byoc.operators import Open, Region


def is_closed(region: Region) -> bool:
    """True if the inputs tell all open sizes.

    Where an input has a computed size, such as half of another one that no input has, this size gets a name of its
    own, in all tensors of the region.
    """
    tensors = {id(t): t for o in region.operators for t in (*o.inputs, *o.outputs)}
    tensors.update((id(t), t) for t in region.inputs)
    given = {e.text for t in region.inputs for e in t.shape if isinstance(e, Open)}
    names = {word for t in tensors.values() for word in _words(t.shape)}
    own: dict[str, str] = {}
    if not names <= given:
        free = (f"size_{i}" for i in range(len(names) + len(given)) if f"size_{i}" not in names)
        # the longest first: others may be parts of them
        computed = sorted((text for text in given if " " in text), key=len, reverse=True)
        own = dict(zip(computed, free))
    shapes = {key: tuple(_renamed(e, own) for e in t.shape) for key, t in tensors.items()}
    found = {word for shape in shapes.values() for word in _words(shape)}
    if not found <= given - own.keys() | {*own.values()}:
        return False
    for key, tensor in tensors.items():
        tensor.shape = shapes[key]
    return True


def _renamed(extent: int, own: dict[str, str]) -> int:
    if not isinstance(extent, Open):
        return extent
    text = f" {extent.text} "
    for (
        computed,
        name,
    ) in own.items():  # in postfix order, a part of a computation stands in one piece
        text = text.replace(f" {computed} ", f" {name} ")
    return Open(extent, text.strip())


def _words(shape: tuple[int, ...]) -> set[str]:
    """The names in the sizes of a shape."""
    words = {word for e in shape if isinstance(e, Open) for word in e.text.split()}
    return {word for word in words if word[0].isalpha() or word[0] == "_"}
