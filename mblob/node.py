"""The content of one module."""

from __future__ import annotations

from _collections_abc import Callable, Mapping, Sequence

from mblob import errors
from mblob.annotations import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from mblob.module import Module

# What can be done with a module, as bits of TVM's property mask.
SERIALIZABLE, RUNNABLE, EXPORTABLE = 1, 2, 4


class Node:
    """The content of one module, and its imports. Subclasses override what they have; the defaults
    hold nothing."""

    imports: list[Module]
    # The dialect of the library that the module was a part of, and the file that says so.
    home: tuple[str, str] | None = None
    opens_in_tvm = False  # TVM wrote that library, and knows all keys in it
    type_key = ""
    is_imported = False  # whether any module imports it, or may

    def __new__(cls, *_: Any, **__: Any) -> Any:
        node = super().__new__(cls)
        node.imports = []
        return node

    @property
    def data(self) -> bool:
        """True if the payload is plain data that opens without a loader."""
        return False

    @property
    def dialect(self) -> str | None:
        """Whose grammar the payload follows, "classic" or "ffi"; None for bytes that stay as they
        are in both."""
        return None

    @property
    def properties(self) -> int:
        """The properties of the module, as bits: SERIALIZABLE, RUNNABLE and EXPORTABLE."""
        return (SERIALIZABLE if self.payload() else 0) | (0 if self.data else RUNNABLE)

    @property
    def runs_linked(self) -> bool:
        """True if the module's functions are those of a linked and loaded copy."""
        return False

    def payload(self) -> memoryview:
        """The module's bytes, read-only; empty for host code."""
        return memoryview(b"")

    def saved(self) -> memoryview | None:
        """The module's bytes as it is now, which its own code saves for an export; None if the
        payload is what an export stores.

        Raises:
            StateError: that code failed. TypeError: it gave no bytes.
        """
        return None

    def unsaved(self) -> str | None:
        """The reason why an export has no bytes to store, and what to do; None if it has some."""
        return None

    def source(self, fmt: str) -> str | None:
        """Text of the module, or None if it has none in that format."""
        return None

    def find(self, name: str) -> Callable[..., Any] | None:
        """The module's own function `name`, or None. Imports are not asked.

        Raises:
            LoaderMissingError: nobody can tell, because the module's type key has no loader.
        """
        return None

    def declares(self, name: str) -> bool:
        """True if the module has a function `name` that `find` gives only once it is linked."""
        return False

    def explain(self, name: str) -> str | None:
        """The reason why `find` has no function `name`; None if it is just not there."""
        return None

    def function_metadata(self, what: str, name: str) -> str | None:
        """The "metadata" or "doc" that the module has for its function `name`, None if there is
        none."""
        return None

    def functions(self) -> Mapping[str, str]:
        """The module's own functions by name, as far as they can be listed without opening it; of
        each the text that says how it is called, "" if unknown."""
        return {}

    @property
    def path(self) -> str:
        """Of the file that the module is in, "" without one."""
        return ""

    @property
    def is_opened(self) -> bool:
        """True if the module is of an opened library."""
        return False

    def opened_file(self) -> AbstractContextManager[str]:
        """A path of the library that the module is of, while the block runs, whatever is at the path of
        its file by now.

        Raises:
            StateError: the library has no file. ChangedError: it is not what it was.
        """
        raise errors.StateError(f"the module {self.type_key!r} is not of an opened library")

    def symbol(self, name: str, restype: Any, argtypes: Sequence[Any] | None) -> Callable[..., Any]:
        what = "a plain C function needs an opened library, this module is not one"
        raise errors.NotFoundError(f"{self.type_key}: {what}")

    def c_names(self) -> Sequence[str]:
        """Names of the plain C functions that the module lists."""
        return ()

    def c_handle(self) -> int:
        """The handle of the library in the module, for `ctypes.c_int.in_dll`.

        Raises:
            StateError: it is no loaded library.
        """
        raise errors.StateError("the module has no library of its own, so it has no variables")

    def on_import(self, child: Module) -> None:
        """Called before `child` joins the imports."""

    def tensors(self) -> Mapping[str, Any] | None:
        """Named tensors the module holds (weights), or None if it is no such module."""
        return None

    def pickled(self, protocol: int) -> tuple[Any, ...] | None:
        """The result of the module's `__reduce_ex__`; None for Python's default."""
        return None

    def with_bytes(self) -> Module:
        """The module again, of which a pickle holds the file."""
        raise errors.ArgumentTypeError(
            f"with_bytes: the module {self.type_key!r} is not of an opened library; export it, and load that"
        )


def to_write(module: Module) -> memoryview:
    """The payload that an export stores of a module.

    Raises:
        BuildError: it has none. StateError, TypeError: as of `Node.saved`.
    """
    saved = module._node.saved()
    if saved is None and (why := module._node.unsaved()):
        raise errors.BuildError(f"a module {module.type_key!r} cannot be exported: {why}")
    return module.payload if saved is None else saved


def has_same_bytes(a: memoryview, b: memoryview) -> bool:
    """True if two views of bytes are equal. (Python compares views byte for byte, in seconds for a
    GiB.)"""
    steps = range(0, a.nbytes, 1 << 20)
    return a.nbytes == b.nbytes and all(
        bytes(a[i : i + steps.step]) == bytes(b[i : i + steps.step]) for i in steps
    )


def _bytes_of(who: str, given: Any) -> memoryview:
    """The bytes of an object that has some.

    Raises:
        TypeError: it has none, or with gaps between them.
    """
    try:
        return memoryview(given).toreadonly().cast("B")
    except TypeError:
        what = "bytes with gaps" if isinstance(given, memoryview) else type(given).__name__
        raise errors.ArgumentTypeError(f"{who}: expected contiguous bytes, found {what}") from None


class FunctionsNode(Node):
    """Functions given as Python callables, for loaders written in Python."""

    def __init__(
        self,
        type_key: str,
        functions: Mapping[str, Callable[..., Any]],
        payload: Any,
        save: Callable[[], Any] | None = None,
    ) -> None:
        self.type_key = type_key
        self._functions = dict(functions)
        self._has_bytes = payload is not None or save is not None
        self._payload = _bytes_of("Module: payload", b"" if payload is None else payload)
        self._save = save

    def __getstate__(self) -> Any:
        raise errors.ArgumentTypeError(
            f"a Module {self.type_key!r} of Python functions cannot be pickled or copied deeply: a pickle has no code;"
            " register a loader of the key in each process, export a library with the module, and pickle what"
            " load_module gives"
        )

    @property
    def properties(self) -> int:
        return RUNNABLE | (SERIALIZABLE if self._has_bytes else 0)

    def unsaved(self) -> str | None:
        if self._has_bytes:
            return None
        return "it has no bytes; give it payload=, or save=, a function that returns them"

    def saved(self) -> memoryview | None:
        if self._save is None:
            return None
        try:
            given = self._save()
        except Exception as exc:
            raise errors.StateError(
                f"the save function of {self.type_key!r} failed: {type(exc).__name__}: {exc}"
            ) from exc
        return _bytes_of(f"the save function of {self.type_key!r} failed", given)

    def payload(self) -> memoryview:
        return self._payload

    def find(self, name: str) -> Callable[..., Any] | None:
        return self._functions.get(name)

    def functions(self) -> Mapping[str, str]:
        return dict.fromkeys(self._functions, "")
