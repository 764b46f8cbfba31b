"""Modules that C and Python know of each other, and global functions of Python.
`mblob.loader.callbacks` has the functions that C calls.

C must not keep Python objects of a library alive (the library would never go), so C holds addresses
and weak references; the Python modules hold the library.
"""

from __future__ import annotations

from _collections_abc import Callable
from _weakref import ref  # `weakref` itself imports three modules more

from mblob.annotations import TYPE_CHECKING, Any
from mblob.loader import _call
from mblob.native.runtime import ffi, lib

if TYPE_CHECKING:
    from mblob.loader.callbacks import PythonModule
    from mblob.loader.opened import OpenedNode
    from mblob.module import Module


class Nodes:
    """Modules of opened libraries by the address of their mblob_module, which are not kept by
    it."""

    def __init__(self) -> None:
        self._refs: dict[int, ref[OpenedNode]] = {}
        # Makes the tree below a module that C code holds; `mblob.loader.opened` sets it.
        self.borrow: Callable[[Any, str], Module] | None = None

    def get(self, address: int) -> OpenedNode | None:
        found = self._refs.get(address)
        return found() if found is not None else None

    def put(self, address: int, node: OpenedNode) -> None:
        def forget(dead: ref[OpenedNode]) -> None:
            if self._refs.get(address) is dead:  # the address may be another module's by now
                del self._refs[address]

        self._refs[address] = ref(node, forget)

    def all(self) -> list[OpenedNode]:
        return [
            node for node in [found() for found in list(self._refs.values())] if node is not None
        ]


nodes: Nodes = Nodes()

# What stands behind the C modules of Modules made in Python, by the address of the C module.
made: dict[int, PythonModule] = {}


def call_back(function: Callable[..., Any], form: str, call: Callable[..., Any], *args: Any) -> int:
    """The status of `call(*args, callback, NULL)`, a call into C that calls `function` back.

    What `function` raises is raised when C has returned, whatever C made of it. C gets 1, a failure,
    of a callback that returns a number.
    """
    raised: list[BaseException] = []

    def failed(_: Any, exception: BaseException, __: Any) -> None:
        raised.append(exception)

    status = call(
        *args,
        ffi.callback(form, function, None if form.startswith("void(") else 1, failed),
        ffi.NULL,
    )
    if raised:
        raise raised[0]
    return int(status)


def register_global(name: str, function: Callable[..., Any], override: bool) -> int:
    """Make a Python function a global one; the status."""
    pointer = ffi.cast("mblob_function *", _call.callback(function))
    try:
        return int(lib.mblob_register_global(name.encode(), pointer, override))
    finally:
        lib.mblob_function_release(pointer)


def module_made_of(address: int) -> Module | None:
    """The Module behind a C module that `made_module` gave."""
    found = made.get(address)
    return found.module() if found is not None else None
