"""Functions that C calls for loaders and modules written in Python. Most programs have none: all of
them need `mblob.loader.node_registry`."""

from __future__ import annotations

from _collections_abc import Callable
from _thread import get_ident

from mblob.annotations import TYPE_CHECKING, Any
from mblob.errors import FormatError, LoaderMissingError, MblobError, StateError
from mblob.loader import _call
from mblob.loader.node_registry import made, nodes
from mblob.module import Module
from mblob.native.runtime import address_of, check, ffi, lib, text
from mblob.node import to_write

if TYPE_CHECKING:
    from mblob.inspect.payload_layouts import PayloadLayout
    from mblob.loader.opened import OpenedNode

_announced: set[Any] = set()  # what measures for registered loaders
_handles: dict[int, Any] = {}  # what keeps the handle that C has valid

# Trees that C code opened, by the module that Python was asked for.
_borrowed: dict[int, Module] = {}


def record(key: str, said: PayloadLayout) -> list[Any]:
    """The mblob_loader of a type key whose loader is written in Python, and what keeps its members."""
    return _record(key, said, lib.mblob_py_open, lib.mblob_py_function)


def _record(key: str, said: PayloadLayout, open_: Any, function: Any) -> list[Any]:
    from mblob.inspect.payload_layouts import numbered

    name = ffi.new("char[]", key.encode())
    layout = ffi.new("char[]", said.layout.encode()) if said.layout else ffi.NULL
    measure = numbered(said.measure) if said.measure else None
    made = ffi.new(
        "mblob_loader *",
        {
            "struct_size": ffi.sizeof("mblob_loader"),
            "type_key": name,
            "context": ffi.cast("void *", measure.number) if measure else ffi.NULL,
            "open": open_,
            "function": function,
            "close": lib.mblob_py_close,
            "save": lib.mblob_py_save,
            "layout": layout,
            "measure": lib.mblob_py_measure if measure else ffi.NULL,
        },
    )
    return [made, name, layout, measure]


def announce(key: str, said: PayloadLayout) -> None:
    """Tell C that modules of this type key are opened by Python."""
    _announce(lib.mblob_register_loader, record(key, said))


def announce_fallback(key: str, said: PayloadLayout) -> None:
    """Tell C that Python opens modules of this type key for which there is nothing else."""
    made = _record(key, said, lib.mblob_py_open, lib.mblob_py_fallback_function)
    _announce(lib.mblob_register_last_loader, made)


def announce_layout(key: str, said: PayloadLayout) -> None:
    """Tell C where payloads of this type key end, whoever opens them."""
    _announce(lib.mblob_register_loader, _record(key, said, ffi.NULL, ffi.NULL))


def _announce(register: Any, made: list[Any]) -> None:
    _announced.add(made[-1])  # for good: another thread may be measuring
    check(register(made[0]))


# Ctrl-C and the like in what measures, by thread: `load_module` raises it when C has returned.
stopped: dict[int, BaseException] = {}


def _not_measured(_: Any, exception: BaseException, __: Any) -> int:
    if not isinstance(exception, Exception):
        stopped[get_ident()] = exception
    return int(lib.MBLOB_E_LOADER)


@ffi.def_extern(onerror=_not_measured)  # type: ignore[untyped-decorator]
def mblob_py_measure(context: Any, data: Any, size: Any, out: Any) -> int:
    """Write the end of the payload that a view begins with to `out`."""
    from mblob.inspect.payload_layouts import measure_of, run_measure

    view = memoryview(ffi.buffer(data, size)).toreadonly()
    try:
        out[0] = run_measure(measure_of(address_of(context)), view)
    except FormatError as error:
        return int(lib.mblob_set_error(lib.MBLOB_E_LOADER, error.plain.encode("utf-8", "replace")))
    finally:
        view.release()
    return 0


class _LookedUpAtEachCall:
    """A function of a module, found again at each call: it keeps nothing alive.

    C keeps it as long as the module, and a later opening of the file may take the module over.

    Args:
        find: gives the function of that name, None when it or the module is gone.
        origin: what the module is called in an error.
    """

    def __init__(
        self, find: Callable[[str], Callable[..., Any] | None], name: str, origin: str
    ) -> None:
        self._find = find
        self._name = name
        self._origin = origin

    def __call__(self, *args: Any) -> Any:
        function = self._find(self._name)
        if function is None:
            raise StateError(f"{self._name}: {self._origin} it came from is gone")
        return function(*args)


def _found(find: Callable[[str], Callable[..., Any] | None], name: str, origin: str) -> Any:
    """The mblob_function that C gets for a function of a module; NULL if there is none of that
    name."""
    if find(name) is None:
        return ffi.NULL
    return ffi.cast("mblob_function *", _call.callback(_LookedUpAtEachCall(find, name, origin)))


def _failed(_: Any, exception: BaseException, __: Any) -> int:
    """Make an exception of a callback the error of the runtime."""
    _call.keep_exception(exception)
    return int(lib.MBLOB_E_KERNEL)


@ffi.def_extern(onerror=_failed)  # type: ignore[untyped-decorator]
def mblob_py_open(_: Any, info: Any, out: Any) -> int:
    """A module is used for the first time. Its Python node does the rest, at the first function
    asked for."""
    _node(info.module)
    out[0] = info.module
    return 0


def _node(module: Any) -> OpenedNode:
    """The Python node of a C module. One is made if C code opened the tree, or Python let go of
    it."""
    key = address_of(module)
    node = nodes.get(key)
    if node is None:
        # mblob_py_close lets it go
        assert nodes.borrow is not None
        _borrowed[key] = nodes.borrow(module, text(lib.mblob_module_path(module)))
        node = nodes.get(key)
        assert node is not None  # `borrow` puts it there
    return node


def _find(module: Any, name: str) -> Callable[..., Any] | None:
    """A function that the Python loader of a C module gives.

    No loader: it was given with an open whose modules are gone; asking the node would end here
    again.
    """
    node = _node(module)
    return node.find(name) if node.has_loader() else None


@ffi.def_extern(onerror=_failed)  # type: ignore[untyped-decorator]
def mblob_py_function(self: Any, name: Any, out: Any) -> int:
    """Find a function of a module that a Python loader opened."""
    out[0] = ffi.NULL
    module = ffi.cast("mblob_module *", self)
    out[0] = _found(lambda wanted: _find(module, wanted), text(name), "the module")
    return 0


@ffi.def_extern(onerror=_failed)  # type: ignore[untyped-decorator]
def mblob_py_fallback_function(self: Any, name: Any, out: Any) -> int:
    """Find a function of a module that the loader of an installed distribution opens."""
    out[0] = ffi.NULL
    module = ffi.cast("mblob_module *", self)
    out[0] = _found(lambda wanted: _node(module).find_by_fallback(wanted), text(name), "the module")
    return 0


def _not_saved(_: Any, exception: BaseException, __: Any) -> int:
    if not isinstance(exception, MblobError):
        return _failed(_, exception, __)
    return int(lib.mblob_set_error(lib.MBLOB_E_KERNEL, str(exception).encode("utf-8", "replace")))


@ffi.def_extern(onerror=_not_saved)  # type: ignore[untyped-decorator]
def mblob_py_save(self: Any, write: Any, to: Any) -> int:
    """C code asks for the bytes of a module that a Python loader opened."""
    view = _node(ffi.cast("mblob_module *", self)).saved_by_loader()
    return int(write(to, ffi.from_buffer(view), view.nbytes))


@ffi.def_extern(onerror=lambda *_: None)  # type: ignore[untyped-decorator]
def mblob_py_close(self: Any) -> None:
    """The library goes."""
    _borrowed.pop(address_of(self), None)


# -- modules made in Python ------------------------------------------------------------------------


class PythonModule:
    """A Module that was made in Python, as C sees it: its functions are also those of its imports.

    Args:
        module: gives the Module, or None when it is gone.
    """

    def __init__(self, type_key: str, module: Callable[[], Module | None]) -> None:
        self.type_key = type_key
        self.module = module
        self.address = 0  # of the C module

    def find(self, name: str) -> Callable[..., Any] | None:
        module = self.module()
        return module._find(name, True) if module is not None else None


def made_module(module: Module, hold: Callable[[], Module | None]) -> Any:
    """A mblob_module for a Module that was made in Python; the caller releases it.

    Args:
        hold: gives the Module; a function that refers to it keeps it as long as C keeps the C
            module.
    """
    new = PythonModule(module.type_key, hold)
    handle = ffi.new_handle(new)
    key = ffi.new("char[]", new.type_key.encode())
    loader = ffi.new(
        "mblob_loader *",
        {
            "struct_size": ffi.sizeof("mblob_loader"),
            "type_key": key,
            "function": lib.mblob_py_made_function,
            "close": lib.mblob_py_made_close,
            "save": lib.mblob_py_made_save,
        },
    )
    out = ffi.new("mblob_module **")
    check(lib.mblob_module_create(loader, handle, out))
    new.address = address_of(out[0])
    made[new.address] = new
    _handles[new.address] = handle
    return out[0]


def _not_found(_: Any, exception: BaseException, __: Any) -> int:
    """A missing loader does not hide the functions of other modules."""
    if isinstance(exception, LoaderMissingError):
        return int(
            lib.mblob_set_error(lib.MBLOB_E_LOADER, str(exception).encode("utf-8", "replace"))
        )
    return _failed(_, exception, __)


@ffi.def_extern(onerror=_not_found)  # type: ignore[untyped-decorator]
def mblob_py_made_function(self: Any, name: Any, out: Any) -> int:
    """A kernel, or C code, asks a module that was made in Python for a function."""
    out[0] = ffi.NULL
    asked: PythonModule = ffi.from_handle(self)
    out[0] = _found(asked.find, text(name), f"the module {asked.type_key!r}")
    return 0


@ffi.def_extern(onerror=_not_saved)  # type: ignore[untyped-decorator]
def mblob_py_made_save(self: Any, write: Any, to: Any) -> int:
    """C code asks for the bytes of a module that was made in Python."""
    asked: PythonModule = ffi.from_handle(self)
    module = asked.module()
    if module is None:
        raise StateError(f"the module {asked.type_key!r} is gone")
    view = to_write(module)
    return int(write(to, ffi.from_buffer(view), view.nbytes))


@ffi.def_extern(onerror=lambda *_: None)  # type: ignore[untyped-decorator]
def mblob_py_made_close(self: Any) -> None:
    """Nobody in C holds the module any more."""
    address = ffi.from_handle(self).address
    made.pop(address, None)
    _handles.pop(address, None)
