"""Modules of an opened library: the Python side of `mblob_module`.

Who keeps whom: a Module holds its node, and the functions that it was asked for; the node holds the
Modules of the imports and a counted reference to the C module, and that the library. A function
holds the node it was found on, because its kernel may look up functions of the imports; a payload
view holds the C module only. No cycles: the library goes with the last of them.
"""

from __future__ import annotations

import os
from _collections_abc import Callable, Iterable, Mapping, Sequence
from _thread import RLock, get_ident
from _weakref import ref

from mblob import errors, texts
from mblob.annotations import TYPE_CHECKING, Any
from mblob.loader import _call, node_registry
from mblob.loader.callbacks import made_module
from mblob.loader.loaders import fallback_loader, find_loader, load_entry_point
from mblob.module import FFI_PREFIX, LIBRARY, Module, Node
from mblob.native.runtime import (
    address_of,
    bytes_of_name,
    check,
    ffi,
    last_error,
    lib,
    text,
)

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from mblob.loader.loaded_module import LoadedModule
    from mblob.loader.loaders import Loader
    from mblob.typed import LoadOptions

# Modules without a file that a function of a module makes of devices and names alone.
MADE_AGAIN = ("GraphExecutor", "GraphExecutorDebug", "AotExecutor")


class Origin:
    """Facts that the modules of one open have in common.

    Attributes:
        path: of the file as the user named it, "" for memory.
        loaders: loaders given with this open, asked first.
        status: of the file when it was opened, None if Python did not open a file.
        library: of the library that the runtime opened: the file, or one in memory or linked of it.
        options: arguments of the open that pickles have, too.
        image: the whole file, for modules whose pickles hold it, else None.
        is_extended: whether a module got another import than those of the file.
        warned_of: names of functions that nobody provides, as a warning said.
    """

    __slots__ = (
        "_asked", "_functions", "_read_functions", "image", "is_extended", "library", "loaders", "options",
        "path", "status", "warned_of",
    )  # fmt: skip

    def __init__(
        self,
        path: str,
        loaders: Mapping[str, Loader] | None = None,
        functions: Callable[[], Mapping[str, str]] = dict,
        status: os.stat_result | None = None,
        options: LoadOptions | None = None,
    ) -> None:
        self.path = path
        self.loaders = dict(loaders or {})
        self.status, self.options = status, options or {}
        self.library = status
        self.image: Any = None
        self.is_extended = False
        self._read_functions = functions
        self._functions: Mapping[str, str] = {}
        self._asked: set[str] = set()
        self.warned_of: set[str] = set()

    def functions(self) -> Mapping[str, str]:
        """Functions that the library exports, by name, and how each is called; its file is read
        once."""
        self._functions = self._functions or self._read_functions()
        return self._functions

    def ask_entry_point(self, key: str) -> bool:
        """True if an installed distribution has a loader for `key`, which then opens the modules
        that nothing else opens.

        Asked once for each key: looking through distributions takes milliseconds, and a tree may
        have many modules.
        """
        if key in self._asked:
            return False
        found = load_entry_point(key)
        if not found:
            self._asked.add(key)
        return found


class OpenedNode(Node):
    """One module of an opened library.

    Args:
        handle: its mblob_module; released when the cdata goes, unless it is borrowed.
    """

    is_imported = True  # most are, by another module of the library

    def __init__(self, handle: Any, origin: Origin) -> None:
        self.handle = handle
        self.origin = origin
        self.type_key = text(lib.mblob_module_type_key(handle))
        self._module: ref[Module] | None = None
        self._lock = RLock()
        self._opening = False
        self._loaded_module: LoadedModule | None = None
        # of an installed distribution, where the runtime came to it
        self._fallback: Loader | None = None
        # Of an executor: the module and function that made it, and the arguments.
        self.made_by: tuple[Module | None, str, tuple[Any, ...]] | None = None
        # Of a machine: functions of Python that it was lent (kept_functions.py).
        self.kept: dict[str, Any] = {}

    def pickled(self, protocol: int) -> tuple[Any, ...]:
        from mblob.loader.pickled import reduce_module

        return reduce_module(self, protocol)

    def with_bytes(self) -> Module:
        from mblob.loader.pickled import module_with_bytes

        return module_with_bytes(self)

    @property
    def is_opened(self) -> bool:
        return True

    def opened_file(self) -> AbstractContextManager[str]:
        from mblob.loader.library_sources import path_of_opened

        return path_of_opened(self.origin.path, self.origin.library)

    def attach(self, module: Module) -> None:
        """Tell the node which Module it is the content of."""
        self._module = ref(module)

    @property
    def module(self) -> Module:
        """The Module of the node: a new one where the last is gone and a function is left."""
        module = self._module() if self._module else None
        if module is not None:
            return module
        with self._lock:
            module = self._module() if self._module else None
            if module is None:
                module = Module(node=self)
                self.attach(module)
        return module

    @property
    def data(self) -> bool:
        return bool(lib.mblob_module_is_data(self.handle))

    @property
    def dialect(self) -> str | None:
        return None if self.data else text(lib.mblob_module_dialect(self.handle))

    @property
    def path(self) -> str:
        return self.origin.path

    # -- content -----------------------------------------------------------------------------------

    def payload(self) -> memoryview:
        data, size = ffi.new("const void **"), ffi.new("size_t *")
        check(lib.mblob_module_payload(self.handle, data, size))
        return memoryview(_call.Memory(address_of(data[0]), size[0], self.handle))

    def saved(self) -> memoryview | None:
        if self._loaded_module is not None:
            return self._loaded_module.saved()
        pieces: list[bytes] = []

        def write(_: Any, data: Any, size: int) -> int:
            pieces.append(bytes(ffi.buffer(data, size)))
            return 0

        form = "int(void *, const void *, size_t)"
        status = node_registry.call_back(write, form, lib.mblob_module_save, self.handle)
        if status == lib.MBLOB_E_NOT_FOUND:
            return None
        if status:
            raise _not_saved(last_error())
        return memoryview(b"".join(pieces))

    def saved_by_loader(self) -> memoryview:
        """The bytes that a loader in Python saves for the module; the payload if it saves none."""
        saved = self._loaded_module.saved() if self._loaded_module is not None else None
        return self.payload() if saved is None else saved

    def unsaved(self) -> str | None:
        # Modules of a file, of memory and of a system library have a payload, an empty one, too.
        is_made = not (self.origin.library or lib.mblob_module_index(self.handle))
        if not is_made or self.payload() or text(lib.mblob_module_path(self.handle)):
            return None
        return (
            "it has no bytes; export the library that made it; a kind of your own gives bytes by `save` of its"
            " mblob_loader (C), or by SaveToBinary in a file that includes <dmlc/io.h> (C++)"
        )

    def source(self, fmt: str) -> str | None:
        from mblob.loader import payloads

        return payloads.source(self, fmt)

    def tensors(self) -> Mapping[str, Any] | None:
        from mblob.loader import payloads

        return payloads.tensors(self)

    # -- functions ---------------------------------------------------------------------------------

    def find(self, name: str) -> Callable[..., Any] | None:
        if not isinstance(name, str):
            raise errors.ArgumentTypeError(
                f"expected the name of a function, a str, found {type(name).__name__} {name!r}"
            )
        encoded = bytes_of_name(name)
        if encoded is None:
            return None
        loader = self._loader()
        if loader is not None:
            return self._open_with(loader).find(name)
        out = ffi.new("mblob_function **")
        status = self._ask(encoded, out)
        if not status:
            return _call.PackedFunction(address_of(out[0]), name, self)
        if status == lib.MBLOB_E_NOT_FOUND:
            return (
                self._open_with(self._fallback).find(name) if self._fallback is not None else None
            )
        error = last_error()
        if isinstance(error, errors.LoaderMissingError) and self.origin.ask_entry_point(
            self.type_key
        ):
            return self.find(name)
        raise error

    def _ask(self, name: bytes, out: Any) -> int:
        """The status of asking C for a function of the module itself."""
        if self.type_key == LIBRARY:
            return int(lib.mblob_module_function(self.handle, name, 0, out))
        with _Asking(self):
            return int(lib.mblob_module_function(self.handle, name, 0, out))

    def find_by_fallback(self, name: str) -> Callable[..., Any] | None:
        """C comes to the loader of an installed distribution: a function of the module as that
        opens it.

        None where it is Python that asks, which goes on without C: its own way is shorter, and
        keeps exceptions.
        """
        if self._fallback is None:
            self._fallback = fallback_loader(self.type_key)
        return None if _Asking.now(self) else self._open_with(self._fallback).find(name)

    def explain(self, name: str) -> str | None:
        out = ffi.new("mblob_function **")
        encoded = bytes_of_name(name)
        if self.type_key != LIBRARY or encoded is None:
            from mblob.loader import payloads

            return payloads.program_hint(self, name)
        if lib.mblob_module_function(self.handle, encoded, 0, out):
            if named := _overloads(name, self.functions()):
                return named
            info = lib.mblob_last_error_info()
            code = text(info.code)
            if code not in ("plain_function", "unknown_convention"):
                return text(info.hint) or None
            from mblob.loader import c_functions

            again = (
                f"pack it again with functions=[{name!r}] or, if nothing tells its types, its prototype,"
                f" functions=['void {name}(...)']"
            )
            several = c_functions.overloads_of(self, name)
            choose = (
                f"{several}; pack it again with the prototype of one of them" if several else ""
            )
            why = choose or text(info.hint) or again
            refusal = None if several else c_functions.declared(self, name).refusal
            types = ", restype, argtypes" if several or refusal else ""
            symbol = texts.say(texts.SYMBOL, f"{'SYMBOL' if several else repr(name)}{types}")
            if refusal and not refusal.is_unknown:
                symbol = "" if refusal.instead else f"{symbol}, if ctypes has its types"
            if code == "plain_function":
                return f"{name!r} is a plain C function, without a packed function: {why}{symbol}"
            return (
                f"nothing says how {name!r} is called: {again}{symbol}; if it is a packed function, load the library"
                " with assume='packed'"
            )
        lib.mblob_function_release(out[0])
        return None

    def function_metadata(self, what: str, name: str) -> str | None:
        # A function beside it that takes nothing, in the names that the ffi dialect reserves.
        getter = f"_{what}_{name}"
        found = self.find(getter) if self.symbol_address(FFI_PREFIX + getter) else None
        return None if found is None else str(found())

    def functions(self) -> Mapping[str, str]:
        if self._loaded_module is not None:
            return self._loaded_module.functions()
        if self.type_key == LIBRARY:
            return self.origin.functions()
        found: dict[str, str] = {}

        def visit(_context: Any, name: Any) -> None:
            found.setdefault(text(name), "")

        form = "void(void *, const char *)"
        check(node_registry.call_back(visit, form, lib.mblob_module_names, self.handle))
        if found:
            return found
        from mblob.loader import payloads

        name = payloads.model_name(self)  # of a factory that nobody has opened
        return {} if name is None else {name: ""}

    def has_loader(self) -> bool:
        """True if a loader written in Python opens this module."""
        return self._loader() is not None

    def _loader(self) -> Loader | None:
        if self.type_key == LIBRARY:
            return None
        return find_loader(self.type_key, self.origin.loaders) or self._fallback

    def _open_with(self, loader: Loader) -> LoadedModule:
        if self._loaded_module is None:
            with self._lock:
                if self._loaded_module is None:
                    if self._opening:
                        raise errors.StateError(
                            f"the loader of {self.type_key!r} asked for a function of the module it opens"
                        )
                    from mblob.loader.loaded_module import open_with_loader  # few files need it

                    self._opening = True
                    try:
                        self._loaded_module = open_with_loader(self, loader)
                    finally:
                        self._opening = False
        return self._loaded_module

    def symbol_address(self, name: str) -> int:
        """Address of an exported symbol of a library, else 0."""
        encoded = bytes_of_name(name)
        if self.type_key != LIBRARY or encoded is None:
            return 0
        return address_of(lib.mblob_module_symbol(self.handle, encoded))

    def symbol(self, name: str, restype: Any, argtypes: Sequence[Any] | None) -> Callable[..., Any]:
        from mblob.loader import c_functions  # few programs ask for symbols

        for candidate in self.module.walk():
            node = candidate._node
            if not isinstance(node, OpenedNode) or not (address := node.symbol_address(name)):
                continue
            return c_functions.c_function(node, name, address, restype, argtypes)
        raise _no_symbol(self.module, name)

    def c_handle(self) -> int:
        from mblob.loader.c_functions import handle_of

        return handle_of(self.module)

    def c_names(self) -> Sequence[str]:
        if self.type_key != LIBRARY:
            return ()
        from mblob.loader.c_functions import read_table

        return [row.name for row in read_table(self.handle) if row.abi == "plain"]

    def on_import(self, child: Module) -> None:
        """Let the kernels of this library find the functions of `child`."""
        self.origin.is_extended = True
        if isinstance(child._node, OpenedNode):
            check(lib.mblob_module_import(self.handle, child._node.handle))
            return
        # The Python module holds `child`. If C did too, a child that refers to this module would
        # keep both for ever.
        made = made_module(child, ref(child))
        try:
            check(lib.mblob_module_import(self.handle, made))
        finally:
            lib.mblob_module_release(made)


def _not_saved(error: Exception) -> Exception:
    """The error about a save function in C or C++, of the class that one in Python has."""
    if isinstance(error, (OSError, MemoryError)):
        return error
    return errors.StateError(str(error))


def _overloads(name: str, known: Iterable[str]) -> str:
    """A sentence that lists the functions of C++ whose names begin with a bare one; "" without any."""
    several = sorted({n for n in known if n.startswith((f"{name}(", f"{name}<"))})
    of_these = errors.listed(several, 6)
    return f"it is overloaded: pass the name of one of them: {of_these}" if several else ""


def _no_symbol(module: Module, name: str) -> errors.NotFoundError:
    """The error about a C symbol that neither `module` nor a library it imports exports."""
    nodes = [m._node for m in module.walk()]
    why = next(filter(None, (o.explain(name) for o in nodes if o.type_key == LIBRARY)), None)
    known = [n for o in nodes for n in (*o.functions(), *o.c_names())]
    why = _overloads(name, known) or why
    hint = f"; {why}" if why else errors.did_you_mean(name, known)
    return errors.NotFoundError(
        errors.one_line(f"module {module.type_key!r} exports no C symbol {name!r}{hint}")
    )


_asking: set[tuple[int, int]] = set()  # threads, and nodes of which they ask C for a function


class _Asking:
    """While the thread asks C for a function of a node."""

    def __init__(self, node: OpenedNode) -> None:
        self._key = (get_ident(), id(node))

    def __enter__(self) -> None:
        _asking.add(self._key)

    def __exit__(self, *_: object) -> None:
        _asking.discard(self._key)

    @staticmethod
    def now(node: OpenedNode) -> bool:
        return (get_ident(), id(node)) in _asking


def _in_child() -> None:
    """After a fork: what other threads of the parent were amid, nobody ends here."""
    me = get_ident()
    _asking.difference_update([asking for asking in _asking if asking[0] != me])
    for node in node_registry.nodes.all():
        if isinstance(node, OpenedNode) and not node._lock._is_owned():  # type: ignore[attr-defined]
            node._lock = RLock()
            node._opening = False


os.register_at_fork(after_in_child=_in_child)


# -- trees -----------------------------------------------------------------------------------------


def _tree(
    root: Any,
    origin: Origin,
    hold: Callable[[Any], Any],
    find_known: Callable[[int], Module | None],
) -> Module:
    """Python modules for a C module and everything it imports, one for each however often it is
    imported.

    Args:
        hold: gives what the node of a C module keeps.
        find_known: gives the Module that is already there for the address of a C module.
    """
    made: dict[int, Module] = {}
    pending = [root]
    rows = []
    while pending:
        pointer = pending.pop()
        key = address_of(pointer)
        if key in made:
            continue
        known = find_known(key)
        if known is not None:
            made[key] = known
            continue
        # What a function returns may import modules of a file.
        is_of_file = origin.path or origin.library is not None
        path = "" if is_of_file else text(lib.mblob_module_path(pointer))
        node = OpenedNode(hold(pointer), Origin(path) if path else origin)
        made[key] = module = Module(node=node)
        node.attach(module)
        node_registry.nodes.put(key, node)
        count = lib.mblob_module_import_count(pointer)
        children = [lib.mblob_module_import_at(pointer, i) for i in range(count)]
        rows.append((module, children))
        pending.extend(reversed(children))
    for module, children in rows:
        module._node.imports.extend([made[address_of(child)] for child in children])
    return made[address_of(root)]


def _hold(pointer: Any) -> Any:
    return ffi.gc(lib.mblob_module_retain(pointer), lib.mblob_module_release)


def wrap_tree(root: Any, origin: Origin) -> Module:
    """The tree below an open library; the caller gives back its own reference to `root`."""
    return _tree(root, origin, _hold, node_registry.module_made_of)


def _borrowed(root: Any, path: str) -> Module:
    """The tree below a module that C code holds: valid as long as C holds it."""
    return _tree(root, Origin(path), lambda pointer: pointer, _known)


node_registry.nodes.borrow = _borrowed


def _known(address: int) -> Module | None:
    """The Module of a C module, if Python has one."""
    node = node_registry.nodes.get(address)
    return node.module if node is not None else node_registry.module_made_of(address)


def adopt(pointer: Any) -> Module:
    """The Module of a C module that a function returned; takes over the reference."""
    known = _known(address_of(pointer))
    try:
        if known is not None:
            return known
        return _tree(pointer, Origin(text(lib.mblob_module_path(pointer))), _hold, _known)
    finally:
        lib.mblob_module_release(pointer)


def prototype_of(owner: OpenedNode, name: str) -> str:
    """Of a function of a library, "" if nothing tells it."""
    return owner.functions().get(name, "")


def remember(made: Module, owner: OpenedNode | None, function: str, args: tuple[Any, ...]) -> None:
    """Note which function of `owner`, or which global one, made an executor, for its pickles. Other
    modules keep nobody."""
    node = made._node
    if isinstance(node, OpenedNode) and node.type_key in MADE_AGAIN and node.made_by is None:
        node.made_by = (owner.module if owner else None, function, args)
