"""The C side of loaders written in Python: kernels that look for a function reach Python modules here.

C must not keep Python objects of a library alive (the library would never go), so what it holds are addresses
and weak references; the Python modules hold the library.
"""

from __future__ import annotations

import weakref

from loader import _call
from loader.runtime import address_of, ffi, lib
from loader.status import check, text

TYPE_CHECKING = False  # importing `typing` takes longer than everything else here
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from mblob.module import Module

    class BridgedNode(Protocol):
        """What `loader.opened` puts into `nodes`."""

        @property
        def module(self) -> Module: ...
        def find(self, name: str) -> Callable[..., Any] | None: ...
        def has_loader(self) -> bool: ...


# Modules of opened libraries by the address of their mblob_module.
nodes: weakref.WeakValueDictionary[int, BridgedNode] = weakref.WeakValueDictionary()


def _nobody(_: Any, __: str) -> Module:
    raise RuntimeError("loader.opened is not imported")


# Makes the Python tree of a module that C code opened, from (mblob_module, path). `loader.opened` sets it.
borrow: Callable[[Any, str], Module] = _nobody

# One C record per type key ever announced, kept for the life of the process: libraries point at them.
_records: dict[str, Any] = {}
_names: list[Any] = []

# Trees that C code opened, by the module that Python was asked for.
_borrowed: dict[int, Module] = {}


def record(key: str) -> Any:
    """The mblob_loader of a type key whose loader is written in Python."""
    found = _records.get(key)
    if found is None:
        name = ffi.new("char[]", key.encode())
        _names.append(name)
        found = ffi.new(
            "mblob_loader *",
            {
                "struct_size": ffi.sizeof("mblob_loader"),
                "type_key": name,
                "open": lib.mblob_py_open,
                "function": lib.mblob_py_function,
                "close": lib.mblob_py_close,
            },
        )
        _records[key] = found
    return found


def announce(key: str) -> None:
    """Tell C that modules of this type key are opened by Python."""
    check(lib.mblob_register_loader(record(key)))


class _Late:
    """A function of a module, found again at each call: it keeps nothing alive."""

    def __init__(self, node: BridgedNode, name: str) -> None:
        self._node = weakref.ref(node)
        self._name = name

    def __call__(self, *args: Any) -> Any:
        node = self._node()
        function: Callable[..., Any] | None = node.find(self._name) if node else None
        if function is None:
            raise RuntimeError(f"{self._name}: the module it came from is gone")
        return function(*args)


def _failed(_: Any, exception: BaseException, __: Any) -> int:
    """Make an exception of a callback the error of the runtime."""
    _call.keep_exception(exception)
    return int(lib.MBLOB_E_KERNEL)


@ffi.def_extern(onerror=_failed)  # type: ignore[untyped-decorator]
def mblob_py_open(_: Any, info: Any, out: Any) -> int:
    """A module is used for the first time. Its Python node does the rest, at the first function asked for."""
    key = address_of(info.module)
    if nodes.get(key) is None:
        # Opened by C code: nothing in Python holds the tree yet. mblob_py_close lets it go.
        _borrowed[key] = borrow(info.module, text(info.path))
    out[0] = info.module
    return 0


@ffi.def_extern(onerror=_failed)  # type: ignore[untyped-decorator]
def mblob_py_function(self: Any, name: Any, out: Any) -> int:
    """Find a function of a module that a Python loader opened."""
    out[0] = ffi.NULL
    node = nodes.get(address_of(self))
    wanted = text(name)
    # No node: an earlier open of the file, whose Python modules are gone. No loader: it was given with such an
    # open; asking the node would end here again.
    if node is not None and node.has_loader() and node.find(wanted) is not None:
        out[0] = ffi.cast("mblob_function *", _call.callback(_Late(node, wanted)))
    return 0


@ffi.def_extern(onerror=lambda *_: None)  # type: ignore[untyped-decorator]
def mblob_py_close(self: Any) -> None:
    """The library goes."""
    _borrowed.pop(address_of(self), None)
