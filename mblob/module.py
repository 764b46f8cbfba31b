"""The one `Module` class: what constructors, `load_module` and loader functions all give.

A module is a node of an import DAG. What it holds is a `Node`: the packager has nodes that hold
sources and payloads, the loader has nodes over an opened library. Everything about the tree lives
here.
"""

from __future__ import annotations

import os
from _collections_abc import Callable, Iterable, Iterator, Mapping, Sequence
from _weakref import ref  # `weakref` itself imports three modules more

from mblob import errors
from mblob.annotations import TYPE_CHECKING, Any, NoReturn
from mblob.arguments import mapping, wrong_type
from mblob.name_mappings import CFunctions, Flag, NameMapping, Signature, near_name
from mblob.node import EXPORTABLE, RUNNABLE, SERIALIZABLE, FunctionsNode
from mblob.node import Node as Node

if TYPE_CHECKING:
    from mblob.benchmark import BenchmarkResult
    from mblob.devices import Device
    from mblob.loader.tensor import Tensor
    from mblob.packager.link import export
    from mblob.typed import Function


ENTRY_NAME = "__tvm_main__"
# The type key of the linked code itself. It stands here, and not in format/type_keys.py, whose import
# would take as long as that of all else a load needs.
LIBRARY = "library"
FFI_PREFIX = "__tvm_ffi_"  # of a function's symbol in the ffi dialect, from TVM 0.22 on
# Names of the global function that is the code generator of a key, the first one that is there
# decides: TVM's and mblob's.
CODEGEN_PREFIXES = ("relay.ext.", "mblob.codegen.")
_set = object.__setattr__  # what Module's own asks, which costs time


class Module:
    """A runtime module: host code, device code, a graph, weights; and the modules it imports.

    `mblob.load_module` and the constructors (`csource_module`, `blob_module`, ...) make modules. A
    loader written in Python can make one of callables: `Module("my_key", functions={"f": f},
    payload=b"")`.

    Args:
        type_key: type key of the new module.
        functions: functions of the new module, by name.
        payload: bytes of the new module, which are not copied.
        save: called without arguments when the module is exported. Returns the bytes that are then
            stored as its payload. None: `payload` is stored. Without both, the module cannot be
            exported.
        node: used by mblob itself.
    """

    # __dict__ has the functions that were asked for, by name: `module.f` is as fast as any attribute.
    # A function holds the node of its module, and so the imports, but not the module: no cycle.
    __slots__ = ("__dict__", "__weakref__", "_node")
    _node: Node

    def __init__(
        self,
        type_key: str | None = None,
        *,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        payload: Any = None,
        save: Callable[[], Any] | None = None,
        node: Node | None = None,
    ) -> None:
        if node is None:
            if not type_key:
                raise errors.ArgumentValueError("Module: a type key is needed")
            if not isinstance(type_key, str):
                raise wrong_type("Module", "type_key", "str", type_key)
            functions = {} if functions is None else functions
            mapping("Module", "functions", functions, "a dict of callables by name")
            for name in functions:
                if not isinstance(name, str):
                    raise wrong_type("Module", "a key of functions", "str", name)
            callables = [(f"functions: {name!r}", f) for name, f in functions.items()]
            for what, given in (*callables, ("save", save)):
                if not callable(given) and (given is not None or what != "save"):
                    raise wrong_type("Module", what, "a callable", given)
            node = FunctionsNode(type_key, functions, payload, save)
        _set(self, "_node", node)

    # -- the tree ----------------------------------------------------------------------------------

    @property
    def type_key(self) -> str:
        """Type key of the module: "library", "cuda", "dnnl_json", ..."""
        return self._node.type_key

    kind = type_key

    @property
    def imported_modules(self) -> list[Module]:
        """The direct imports, in order (a new list; the modules are the same objects each time)."""
        return list(self._node.imports)

    imports = imported_modules

    def import_module(self, other: Module) -> None:
        """Append `other` to the imports.

        Raises:
            ValueError: `other` imports this module, directly or indirectly: a cycle.
        """
        checked_module("import_module", "other", other)
        # A chain is built in linear time: only a module that somebody imports can be below one with
        # imports.
        may_be_below = self is other or (self._node.is_imported and other._node.imports)
        if may_be_below and any(m is self for m in other.walk()):
            raise errors.ArgumentValueError(
                f"import_module: {other.type_key!r} already imports this {self.type_key!r}: a cycle"
            )
        self._node.on_import(other)
        self._node.imports.append(other)
        other._node.is_imported = True
        while _keepers:  # another import may have a function of that name first now
            module = _keepers.pop()()
            if module is not None:
                module.__dict__.clear()

    def walk(self) -> Iterator[Module]:
        """This module and everything it imports, depth first in import order, each once."""
        seen: set[int] = set()
        stack = [self]
        while stack:
            module = stack.pop()
            # pushed again by a later importer, visited through an earlier one
            if id(module) in seen:
                continue
            seen.add(id(module))
            yield module
            stack.extend(reversed(module._node.imports))

    # -- content -----------------------------------------------------------------------------------

    @property
    def payload(self) -> memoryview:
        """The module's bytes: a read-only view, no copy; it keeps the mapping alive. Empty for a
        library."""
        return self._node.payload()

    def get_source(self, fmt: str = "") -> str:
        """Text of the module (graph JSON, OpenCL C, PTX, C) in the format `fmt`, by default the one
        it has; "" if it has none.
        """
        return self._node.source(fmt) or ""

    inspect_source = get_source

    def get_property_mask(self) -> int:
        """The properties of the module, as bits: 1 it has bytes that `export_library` writes, 2 it
        has functions that can be called, 4 it is code that `export_library` links."""
        return self._node.properties

    @property
    def is_binary_serializable(self) -> Flag:
        """True if the module has bytes that `export_library` writes."""
        return Flag(bool(self._node.properties & SERIALIZABLE))

    @property
    def is_runnable(self) -> Flag:
        """True if the module has functions that can be called."""
        return Flag(bool(self._node.properties & RUNNABLE))

    @property
    def is_dso_exportable(self) -> Flag:
        """True if the module is code that `export_library` links."""
        return Flag(bool(self._node.properties & EXPORTABLE))

    is_compilation_exportable = is_dso_exportable

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """The tensors (weights) of this module and its imports by name, as views without a copy. If a
        name occurs twice, the first one is given, depth first in import order. The constants of a
        virtual machine's program have no names: they are `constant 3`, as `inspect` lists them.
        Modules that constructors made, such as `safetensors_module`, show theirs when they are
        exported and loaded; until then they have `payload` alone.

        Raises:
            NotFoundError: by `tensors[name]`: there is no such tensor; the text lists the names.
        """
        found: dict[str, Any] = {}
        for module in self.walk():
            for name, tensor in (module._node.tensors() or {}).items():
                found.setdefault(name, tensor)
        return NameMapping("tensor", self, found)

    @property
    def payloads(self) -> Mapping[str, memoryview]:
        """The payloads of this module and its imports by type key, as views without a copy. If a
        key occurs twice, the first one is given, depth first in import order; `walk` gives all. Of
        a loaded library, the address is a multiple of the `alignment` of `blob_module`, 1 by
        default.

        Raises:
            NotFoundError: by `payloads[key]`: no module has that key; the text lists the keys.
        """
        found: dict[str, memoryview] = {}
        for module in self.walk():
            payload = module.payload
            if module.type_key not in found and (payload or module._node.data):
                found[module.type_key] = payload
        return NameMapping("payload", self, found)

    # -- functions ---------------------------------------------------------------------------------

    @property
    def functions(self) -> Mapping[str, Signature]:
        """The functions that `module[name]` finds in this module and its imports, by name.
        `str` of a function is its C prototype. Functions of a module that has a loader are listed
        after the first use of the module.

        Raises:
            NotFoundError: by `functions[name]`: no such function; the text lists the names.
        """
        found: dict[str, Signature] = {}
        for module in self.walk():
            for name, text in module._node.functions().items():
                found.setdefault(name, Signature(name, text))
        return NameMapping("function", self, found)

    def _find(self, name: str, query_imports: bool) -> Callable[..., Any] | None:
        closed: errors.LoaderMissingError | None = None
        for module in self.walk() if query_imports else (self,):
            try:
                function = module._node.find(name)
            except errors.LoaderMissingError as exc:  # another module may still have it
                closed = closed or exc
                continue
            if function is not None:
                return function
        if self._node.runs_linked:
            from mblob.repack import loaded_copy

            return loaded_copy(self)._find(name, query_imports)
        if closed is not None:
            raise closed
        return None

    def get_function(self, name: str, query_imports: bool = False) -> Function:
        """Function `name` of this module; with `query_imports` also of its imports, depth first.

        Raises:
            NotFoundError: no such function; the text names what exists. It is an AttributeError
                and a KeyError.
            LoaderMissingError: no other module has it, and one that was asked has no loader.
        """
        function = self._find(name, query_imports)
        if function is None:
            raise errors.NotFoundError(self._not_found(name, query_imports))
        return function  # type: ignore[return-value]

    def _not_found(self, name: str, query_imports: bool, attributes: Iterable[str] = ()) -> str:
        names: dict[str, str] = {}
        asked = [*self.walk()] if query_imports else [self]
        for module in asked:
            names.update(module._node.functions())
        # code says why, a program what it has
        asked.sort(key=lambda module: module.type_key != LIBRARY)
        reasons = (module._node.explain(name) for module in asked)
        reason = next((r for r in reasons if r), None)
        attributes = [a for a in attributes if a.startswith(f"{name}_")] or attributes
        text = f"module {self.type_key!r} has no function {name!r}"
        if names or not reason:
            text += f"; it has: {errors.listed(sorted(names))}"
        if reason:
            text += f"; {reason}{errors.did_you_mean(name, attributes)}"
        elif close := near_name(name, names, attributes):
            text += close
        elif not query_imports and self.implements_function(name, True):
            text += "; one of its imports has it: pass query_imports=True"
        return errors.one_line(text)

    def implements_function(self, name: str, query_imports: bool = False) -> bool:
        """True if `get_function` would find `name`, with the same `query_imports`. Of code that is
        not linked yet, true if `functions=` of its constructor has the name."""
        modules = self.walk() if query_imports else (self,)
        return self._has(name, query_imports) or any(m._node.declares(name) for m in modules)

    def _has(self, name: str, query_imports: bool) -> bool:
        try:
            return self._find(name, query_imports) is not None
        except errors.LoaderMissingError:
            return False

    def __getitem__(self, name: str) -> Function:
        try:
            return self.__dict__[name]  # type: ignore[no-any-return]
        except (KeyError, TypeError):
            return self._keep(name, self.get_function(name, query_imports=True))

    def _keep(self, name: str, function: Function) -> Function:
        """Keep a function that `module[name]` gives for the next time: one of an opened library.
        Names that Module has itself are attributes, and stay so."""
        node = getattr(function, "_node", None)
        if node is None or hasattr(type(self), name):
            return function
        if node is not self._node:
            if all(module._node is not node for module in self.walk()):
                return function  # a loader's, of any module
            _keepers.add(ref(self, _keepers.discard))
        return self.__dict__.setdefault(name, function)  # type: ignore[no-any-return]

    def __contains__(self, name: object) -> bool:
        """True if `module[name]` gives a function."""
        return isinstance(name, str) and self._has(name, query_imports=True)

    def __iter__(self) -> Iterator[str]:
        """Names of functions: those of `functions`."""
        return iter(self.functions)

    def __getattr__(self, name: str) -> Function:
        """`module.vadd` is `module["vadd"]`, unless Module itself has an attribute `vadd`."""
        if hasattr(type(self), name):  # a property failed with an AttributeError: this one
            return getattr(type(self), name).__get__(self)  # type: ignore[no-any-return]
        is_own = (name[:2] == name[-2:] == "__") or name == "_node"  # of protocols
        if is_own or (name.startswith("_") and name not in self.functions):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        function = self._find(name, True)
        if function is None:
            attributes = [n for n in dir(type(self)) if not n.startswith("_")]
            raise errors.NotFoundError(self._not_found(name, True, attributes))
        return self._keep(name, function)  # type: ignore[arg-type]

    if not TYPE_CHECKING:  # type checkers refuse it themselves

        def __setattr__(self, name: str, value: Any) -> None:
            if name != "_node":  # which unpickling sets
                self._refuse(name)
            _set(self, name, value)

        def __delattr__(self, name: str) -> None:
            self._refuse(name)

        def _refuse(self, name: str) -> NoReturn:
            """The error about a change of what the module has, or of a function."""
            if not hasattr(type(self), name):
                self.functions.refuse(name)
            raise errors.ArgumentTypeError(
                f"module {self.type_key!r}: its attribute {name!r} cannot be changed"
            )

    def __dir__(self) -> list[str]:
        return [*dir(type(self)), *(n for n in self.functions if n.isidentifier())]

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.functions)

    def get_function_metadata(
        self, name: str, query_imports: bool = False
    ) -> dict[str, Any] | None:
        """Metadata that a library of tvm_ffi has for its function `name`, such as
        {"type_schema": text}, or None. With `query_imports` the imports are searched, too.

        Raises:
            FormatError: the metadata is not a JSON object.
        """
        text = self._function_metadata("metadata", name, query_imports)
        if text is None:
            return None
        from mblob import json_text  # imports `typing`

        try:
            found = json_text.parse(text)
        except json_text.JsonError as exc:
            raise errors.FormatError(
                f"the metadata of function {name!r} is no JSON: {exc}", code="metadata"
            ) from None
        if not isinstance(found, dict):
            raise errors.FormatError(
                f"the metadata of function {name!r}: expected a JSON object", code="metadata"
            )
        return found

    def get_function_doc(self, name: str, query_imports: bool = False) -> str | None:
        """The documentation that a library of tvm_ffi has for its function `name`, or None. With
        `query_imports` the imports are searched, too.
        """
        return self._function_metadata("doc", name, query_imports)

    def _function_metadata(self, what: str, name: str, query_imports: bool) -> str | None:
        for module in self.walk() if query_imports else (self,):
            text = module._node.function_metadata(what, name)
            if text is not None:
                return text
        return None

    @property
    def entry_name(self) -> str:
        """Name of the entry function, "__tvm_main__"."""
        return ENTRY_NAME

    @property
    def entry_func(self) -> Function:
        """The entry function."""
        return self.get_function(ENTRY_NAME)

    def __call__(self, *args: Any) -> Any:
        """Call the entry function."""
        if not self.implements_function(ENTRY_NAME):
            has = f"call a function of it, module[NAME](...); it has: {errors.listed(sorted(self._node.functions()))}"
            text = f"module {self.type_key!r} has no entry function ({ENTRY_NAME}), so it cannot be called itself; "
            raise errors.NotFoundError(text + (self._node.explain(ENTRY_NAME) or has))
        return self.entry_func(*args)

    def symbol(
        self, name: str, restype: Any = ..., argtypes: Sequence[Any] | None = None
    ) -> Callable[..., Any]:
        """A plain C function of this library, or of one that it imports, as a function of ctypes. It
        keeps the library open.

        `symbol("half")(3.0)` takes the types of the arguments and of the result from the prototype
        that the library has, or from its debug information. Without both, a call is an error. The
        function is the same object each time. Pointers take what gives a buffer (numpy arrays,
        tensors, bytearray), and arrays and pointers of ctypes. A call checks the number of the
        arguments, the ranges of ints, and of arrays the element type, the layout, sizes (`x[3]`,
        `x[n]`), and whether they can be written to where the parameter is not const. The size of a
        pointer of ctypes is unknown, unless it points to an array.

        Args:
            name: the C symbol.
            restype, argtypes: types of ctypes, which replace those of the prototype. A function with
                `restype` is a new one each time; ctypes converts its arguments by itself.

        Raises:
            NotFoundError: no library exports that symbol.
            TypeError, ValueError: by a call, which names the argument.
        """
        if not isinstance(name, str):
            raise errors.ArgumentTypeError(
                f"symbol: name: expected str, found {type(name).__name__}"
            )
        if restype is not ... or argtypes is not None:
            return self._node.symbol(name, restype, argtypes)
        key = "\0" + name  # which no function has for a name
        kept = self.__dict__.get(key)
        return kept or self._keep(key, self._node.symbol(name, ..., None))  # type: ignore[arg-type]

    @property
    def ctypes(self) -> CFunctions:
        """The plain C functions of the library as attributes, as a `ctypes.CDLL` has them:
        `lib.ctypes.half(3.0)` is `lib.symbol("half")(3.0)`."""
        return CFunctions(self)

    def time_evaluator(
        self,
        func_name: str,
        dev: Device | None = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        cache_flush_bytes: int = 0,
        f_preproc: str = "",
    ) -> Callable[..., BenchmarkResult]:
        """A function that measures: `mod.time_evaluator("vadd", number=100)(a, b, c).mean`.

        The time of an executor includes waiting for its result. The time of a device kernel ends
        with its launch.

        Args:
            func_name: the function to measure, of this module or its imports.
            dev, limit_zero_time_iterations, cache_flush_bytes: accepted for compatibility with TVM and
                ignored.
            number, repeat: calls per measurement, and number of measurements. One more call comes
                first and is not measured.
            min_repeat_ms: repeat the calls of a measurement until it takes this long.
            cooldown_interval_ms: pause after every `repeats_to_cooldown` measurements.
            f_preproc: name of a global function that is called with the arguments before each
                measurement.

        Returns:
            A function that takes the arguments and returns a BenchmarkResult in seconds.

        Raises:
            AttributeError: no such function.
            NotFoundError: no global function `f_preproc`.
            TypeError, ValueError: by the function: a number of calls or measurements is none.
        """
        from mblob.benchmark import measure

        del dev, limit_zero_time_iterations, cache_flush_bytes
        function = self.get_function(func_name, query_imports=True)
        wait = self.get_function("synchronize") if self.implements_function("synchronize") else None
        prepare: Callable[..., Any] | None = None
        if f_preproc:
            from mblob import get_global_func

            prepare = get_global_func(f_preproc)

        def evaluate(*args: Any) -> BenchmarkResult:
            return measure(
                "time_evaluator", lambda: function(*args), repeat, number, min_repeat_ms, finish=wait,
                cooldown_interval_ms=cooldown_interval_ms, repeats_to_cooldown=repeats_to_cooldown,
                begin=(lambda: prepare(*args)) if prepare else None,
            )  # fmt: skip

        return evaluate

    def get_params(self) -> Mapping[str, Tensor]:
        """The parameters of the factory of a graph's executors, by name: copies.

        Raises:
            NotFoundError: the module is no such factory.
        """
        found: Mapping[str, Tensor] = self.get_function("get_graph_params")()
        return found

    # -- other processes ---------------------------------------------------------------------------

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A pickle of an opened module has the path of its file, and the SHA-256 of the file. Where
        it is unpickled, a file with that digest is opened at that path."""
        pickled = self._node.pickled(int(protocol))
        if pickled is not None:
            return pickled
        self.__dict__.clear()  # kept functions are found again
        return super().__reduce_ex__(protocol)

    def with_bytes(self) -> Module:
        """This module of an opened library again. Pickles of the result hold the whole file, so they
        can be unpickled where the file is not; the same is true of executors and virtual machines
        that are made of it.

        Raises:
            TypeError: the module is not of a file that `load_module` opened, or has changed since then.
            ChangedError: the file was changed or replaced since then.
        """
        return self._node.with_bytes()

    # -- packing -----------------------------------------------------------------------------------

    if TYPE_CHECKING:
        export_library = export.export_library
    else:

        def export_library(
            self,
            file_name: str | os.PathLike[str],
            fcompile: Any = None,
            fpack_imports: Any = None,
            addons: Sequence[Any] | None = None,
            workspace_dir: str | os.PathLike[str] | None = None,
            **kwargs: Any,
        ) -> Any:
            """Write this module and its imports as one library: see `mblob.export_library`, which
            has the same arguments: `file_name`, `fcompile`, `fpack_imports`, `addons`,
            `workspace_dir` and those in `kwargs`.
            """
            import mblob

            return mblob.export_library(
                self,
                file_name,
                fcompile=fcompile,
                fpack_imports=fpack_imports,
                addons=addons,
                workspace_dir=workspace_dir,
                **kwargs,
            )

    def __repr__(self) -> str:
        path, own, imports = self._node.path, self._node.functions(), self._node.imports
        functions = dict.fromkeys([n for n, f in self.functions.items() if f.is_known] + [*own])
        said = f" of {path}" if path else ""
        said += f": {errors.listed(functions, 6)}" if functions else ""
        said += f"; imports {errors.listed((m.type_key for m in imports), 6)}" if imports else ""
        return errors.one_line(f"<mblob.Module {self.type_key!r}{said}>")


# Modules whose __dict__ has functions of their imports, by `Module._keep`.
_keepers: set[ref[Module]] = set()


def checked_module(function: str, argument: str, value: Any) -> Module:
    """`value` if it is a Module.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(value, Module):
        text = f"{function}: {argument}: expected a Module, found {type(value).__name__}"
        if isinstance(value, (str, os.PathLike)):
            text += "; load_module opens one; csource_module, static_library, safetensors_module, blob_module make one"
        raise errors.ArgumentTypeError(text)
    return value


def is_linked(module: Module) -> bool:
    """True if a tree is that of a loaded library, with its linked code."""
    nodes = [m._node for m in module.walk()]
    return nodes[0].is_opened and any(n.type_key == LIBRARY and n.is_opened for n in nodes)
