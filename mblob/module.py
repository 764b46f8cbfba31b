"""The one `Module` class: what constructors, `load_module` and loader functions all give.

A module is a node of an import DAG. What it holds is a `Node`: the packager has nodes that hold
sources and payloads, the loader has nodes over an opened library. Everything about the tree lives
here.
"""

from __future__ import annotations

import os

from mblob.errors import FormatError, LoaderMissingError, one_line

TYPE_CHECKING = False  # importing `typing` takes longer than everything else here
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from mblob.benchmark import BenchmarkResult
    from mblob.devices import Device


ENTRY_NAME = "__tvm_main__"
LIBRARY = "library"  # type key of the linked code itself, which a blob writes as "_lib"


class Node:
    """The content of one module. Subclasses override what they have; the defaults hold nothing."""

    type_key = ""

    @property
    def data(self) -> bool:
        """Whether the payload is plain data that opens without a loader."""
        return False

    @property
    def dialect(self) -> str | None:
        """Whose grammar the payload follows, "classic" or "ffi"; None for bytes that stay as they
        are in both."""
        return None

    def payload(self) -> memoryview:
        """The module's bytes, read-only; empty for host code."""
        return memoryview(b"")

    def source(self, fmt: str) -> str | None:
        """Text of the module, or None if it has none in that format."""
        return None

    def find(self, name: str) -> Callable[..., Any] | None:
        """The module's own function `name`, or None. Imports are not asked.

        Raises:
            LoaderMissingError: nobody can tell, because the module's type key has no loader.
        """
        return None

    def explain(self, name: str) -> str | None:
        """Why `find` has no function `name`, if there is more to say than that it is not there."""
        return None

    def function_metadata(self, what: str, name: str) -> str | None:
        """The "metadata" or "doc" that the module has for its function `name`, None if there is
        none."""
        return None

    def names(self) -> Sequence[str]:
        """Names of the module's own functions, as far as they can be listed."""
        return ()

    def symbol(self, name: str, restype: Any, argtypes: Sequence[Any] | None) -> Callable[..., Any]:
        what = "a plain C function needs an opened library, this module is not one"
        raise AttributeError(one_line(f"{self.type_key}: {what}"))

    def on_import(self, child: Module) -> None:
        """Called before `child` joins the imports."""

    def tensors(self) -> Mapping[str, Any] | None:
        """Named tensors the module holds (weights), or None if it is no such module."""
        return None


class FunctionsNode(Node):
    """Functions given as Python callables, for loaders written in Python."""

    def __init__(
        self, type_key: str, functions: Mapping[str, Callable[..., Any]], payload: Any
    ) -> None:
        self.type_key = type_key
        self._functions = dict(functions)
        self._payload = memoryview(payload).toreadonly().cast("B")

    def payload(self) -> memoryview:
        return self._payload

    def find(self, name: str) -> Callable[..., Any] | None:
        return self._functions.get(name)

    def names(self) -> Sequence[str]:
        return tuple(self._functions)


class Module:
    """A runtime module: host code, device code, a graph, weights; and the modules it imports.

    `mblob.load_module` and the constructors (`csource_module`, `blob_module`, ...) make modules. A
    loader written in Python can make one of callables: `Module("my_key", functions={"f": f},
    payload=b"")`.
    """

    __slots__ = ("__weakref__", "_imports", "_is_imported", "_node")

    def __init__(
        self,
        type_key: str | None = None,
        *,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        payload: Any = b"",
        node: Node | None = None,
    ) -> None:
        if node is None:
            if not type_key:
                raise ValueError("Module: a type key is needed")
            node = FunctionsNode(type_key, functions or {}, payload)
        self._node = node
        self._imports: list[Module] = []
        self._is_imported = False  # by any module, ever

    # -- the tree ----------------------------------------------------------------------------------

    @property
    def type_key(self) -> str:
        """Kind of the module: "library", "cuda", "dnnl_json", ..."""
        return self._node.type_key

    @property
    def imported_modules(self) -> list[Module]:
        """The direct imports, in order (a new list; the modules are the same objects each time)."""
        return list(self._imports)

    def import_module(self, other: Module) -> None:
        """Append `other` to the imports.

        Raises:
            ValueError: `other` imports this module, directly or not: a cycle.
        """
        if not isinstance(other, Module):
            raise TypeError(f"import_module: expected a Module, found {type(other).__name__}")
        # A chain is built in linear time: only a module that somebody imports can be below one with
        # imports.
        may_be_below = self is other or (self._is_imported and other._imports)
        if may_be_below and any(m is self for m in other.walk()):
            raise ValueError(
                f"import_module: {other.type_key!r} already imports this {self.type_key!r}: a cycle"
            )
        self._node.on_import(other)
        self._imports.append(other)
        other._is_imported = True

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
            stack.extend(reversed(module._imports))

    # -- content -----------------------------------------------------------------------------------

    @property
    def payload(self) -> memoryview:
        """The module's bytes: a read-only view, no copy; it keeps the mapping alive. Empty for a
        library."""
        return self._node.payload()

    def get_source(self, fmt: str = "") -> str:
        """Text of the module (graph JSON, OpenCL C, PTX, C), "" if it has none."""
        return self._node.source(fmt) or ""

    @property
    def tensors(self) -> Mapping[str, Any]:
        """The named tensors of a weights module (views, no copy).

        Raises:
            AttributeError: the module holds no named tensors.
        """
        found = self._node.tensors()
        if found is None:
            raise AttributeError(f"module {self.type_key!r} holds no named tensors")
        return found

    # -- functions ---------------------------------------------------------------------------------

    def _find(self, name: str, query_imports: bool) -> Callable[..., Any] | None:
        closed: LoaderMissingError | None = None
        for module in self.walk() if query_imports else (self,):
            try:
                function = module._node.find(name)
            except LoaderMissingError as exc:  # another module may still have it
                closed = closed or exc
                continue
            if function is not None:
                return function
        if closed is not None:
            raise closed
        return None

    def get_function(self, name: str, query_imports: bool = False) -> Callable[..., Any]:
        """Function `name` of this module; with `query_imports` also of its imports, depth first.

        Raises:
            AttributeError: no such function; the text names what exists.
            LoaderMissingError: no other module has it, and one that was asked has no loader.
        """
        function = self._find(name, query_imports)
        if function is None:
            raise AttributeError(self._not_found(name, query_imports))
        return function

    def _not_found(self, name: str, query_imports: bool) -> str:
        import difflib  # only errors need it, and it is slow to import

        names: list[str] = []
        for module in self.walk() if query_imports else (self,):
            names.extend(n for n in module._node.names() if n not in names)
        close = difflib.get_close_matches(name, names, 3)
        shown = ", ".join(sorted(names)[:12]) + (", ..." if len(names) > 12 else "")
        text = f"module {self.type_key!r} has no function {name!r}; it has: {shown or 'none'}"
        reasons = (
            module._node.explain(name) for module in (self.walk() if query_imports else (self,))
        )
        reason = next((r for r in reasons if r), None)
        if reason:
            text += f"; {reason}"
        elif close:
            text += f"; did you mean {close[0]!r}?"
        elif not query_imports and self.implements_function(name, True):
            text += "; one of its imports has it: pass query_imports=True"
        return one_line(text)

    def implements_function(self, name: str, query_imports: bool = False) -> bool:
        """Whether `get_function` would find `name`."""
        try:
            return self._find(name, query_imports) is not None
        except LoaderMissingError:
            return False

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return self.get_function(name, query_imports=True)

    def get_function_metadata(
        self, name: str, query_imports: bool = False
    ) -> dict[str, Any] | None:
        """What a library of tvm_ffi tells about its function `name`: {"type_schema": text, ...};
        None if nothing.

        Raises:
            FormatError: what it tells is no JSON object.
        """
        text = self._function_metadata("metadata", name, query_imports)
        if text is None:
            return None
        from mblob import json_text

        try:
            found = json_text.parse(text)
        except json_text.JsonError as exc:
            raise FormatError(
                f"the metadata of function {name!r} is no JSON: {exc}", code="metadata"
            ) from None
        if not isinstance(found, dict):
            raise FormatError(
                f"the metadata of function {name!r}: expected a JSON object", code="metadata"
            )
        return found

    def get_function_doc(self, name: str, query_imports: bool = False) -> str | None:
        """The documentation that a library of tvm_ffi has for its function `name`, or None."""
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
    def entry_func(self) -> Callable[..., Any]:
        """The entry function."""
        return self.get_function(ENTRY_NAME)

    def __call__(self, *args: Any) -> Any:
        """Call the entry function."""
        return self.entry_func(*args)

    def symbol(
        self, name: str, restype: Any = None, argtypes: Sequence[Any] | None = None
    ) -> Callable[..., Any]:
        """A plain C function of the library as a ctypes callable.

        Args:
            name: the C symbol.
            restype, argtypes: ctypes types, as of a ctypes function.
        """
        return self._node.symbol(name, restype, argtypes)

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
    ) -> Callable[..., BenchmarkResult]:
        """What times a function: `mod.time_evaluator("vadd", number=100)(a, b, c).mean`.

        Executors are waited for; kernels for devices are timed until they are launched.

        Args:
            dev, limit_zero_time_iterations: taken for TVM's sake.
            number, repeat: as many calls for each of as many measurements, after one call that is
            not measured.
            min_repeat_ms: more calls per measurement until one takes this long.
            cooldown_interval_ms: a rest after every `repeats_to_cooldown` measurements.

        Raises:
            AttributeError: no such function.
        """
        from mblob.benchmark import measure

        del dev, limit_zero_time_iterations
        function = self.get_function(func_name, query_imports=True)
        wait = self.get_function("synchronize") if self.implements_function("synchronize") else None

        def evaluate(*args: Any) -> BenchmarkResult:
            return measure(
                lambda: function(*args), repeat, number, min_repeat_ms / 1e3, finish=wait,
                cooldown=cooldown_interval_ms / 1e3, cooldown_every=repeats_to_cooldown,
            )  # fmt: skip

        return evaluate

    # -- packing -----------------------------------------------------------------------------------

    def export_library(
        self,
        file_name: str | os.PathLike[str],
        fcompile: Any = None,
        fpack_imports: Any = None,
        addons: Sequence[Any] | None = None,
        workspace_dir: str | os.PathLike[str] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Write this module and its imports as one library: see `mblob.export_library`."""
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
        return f"<mblob.Module {self.type_key!r}, {len(self._imports)} imports>"
