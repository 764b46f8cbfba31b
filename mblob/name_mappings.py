"""Functions, tensors and payloads of a module by name, and what can be done with a module."""

from __future__ import annotations

from _collections_abc import Iterable, Mapping

from mblob.annotations import TYPE_CHECKING, Any, NoReturn
from mblob.errors import (
    ArgumentTypeError,
    MblobError,
    NotFoundError,
    did_you_mean,
    listed,
    one_line,
)

if TYPE_CHECKING:
    from mblob.module import Module


def near_name(name: object, names: Iterable[str], others: Iterable[str] = ()) -> str:
    """The end of the error about a name: a function in the namespace that it is, or the name that was
    meant.

    Args:
        names: functions.
        others: other names that may be meant.
    """
    inside = [n for n in sorted(names) if f"::{name}::" in f"::{n}"]
    if inside:
        return f"; {name!r} is a namespace: call lib[{min(inside, key=len)!r}](...)"
    return did_you_mean(name, (*names, *others))


class Flag(int):
    """A truth value of a module. TVM up to 0.19 reads it, `module.is_runnable`; TVM since 0.20 calls
    it, `module.is_runnable()`."""

    def __call__(self) -> bool:
        return bool(self)

    def __repr__(self) -> str:
        return repr(bool(self))


class Signature:
    """The name and the C prototype of a function.

    Attributes:
        name: of the function.
        text: its C prototype with the names and dimensions of its parameters. If the library does
            not have it: `NAME(TYPES)`, or `NAME(...)`.
    """

    __slots__ = ("name", "text")

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = one_line(text or f"{name}(...)")

    @property
    def is_known(self) -> bool:
        return not self.text.endswith("(...)")

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<{self.text}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Signature) and (self.name, self.text) == (other.name, other.text)

    def __hash__(self) -> int:
        return hash((self.name, self.text))

    def __call__(self, *_: object) -> NoReturn:
        raise ArgumentTypeError(
            f"functions[{self.name!r}] says how the function is called; call module[{self.name!r}](...)"
        )


_SHOWN = 16  # bytes of a payload


def _begin(data: memoryview) -> str:
    """A payload for people: its size, and the bytes that it begins with."""
    more = "..." if data.nbytes > _SHOWN else ""
    return f"<{data.nbytes} bytes: {bytes(data[:_SHOWN])!r}{more}>"


class CFunctions:
    """The plain C functions of a module as attributes and items."""

    __iter__ = None  # by items, Python would look for the symbols 0, 1, 2

    def __init__(self, module: Module) -> None:
        self._module = module

    @property
    def _handle(self) -> int:
        """The library for `ctypes.c_int.in_dll(lib.ctypes, "counter")`, which reads a variable."""
        return self._module._node.c_handle()

    def __getattr__(self, name: str) -> Any:
        if name[:2] == name[-2:] == "__":  # of protocols
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self._module.symbol(name)

    def __getitem__(self, name: str) -> Any:
        return self._module.symbol(name)

    def __dir__(self) -> list[str]:
        nodes = (module._node for module in self._module.walk())
        return sorted({*object.__dir__(self), *(name for node in nodes for name in node.c_names())})

    def __repr__(self) -> str:
        return f"<C functions of {self._module!r}>"


class NameMapping(dict[str, "Any"]):
    """The functions, tensors or payloads of a module by name, to be read only. The error about a
    missing name lists those there are. `dict` of it, and a copy, is a dictionary of the caller."""

    def __init__(self, what: str, module: Module, items: Mapping[str, Any]) -> None:
        super().__init__(items)
        self._what = what
        self._owner = f"module {module.type_key!r}"
        self._path = module._node.path
        self._module = module

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def __missing__(self, name: object) -> Any:
        text = f"{self._owner} has no {self._what} {name!r}; it has: {listed(sorted(self))}"
        raise NotFoundError(text + (self._other(name) or near_name(name, self)))

    def _other(self, name: object) -> str:
        """The end of the error about a name: where it is found."""
        if self._what == "tensor" and name in self._module.payloads:
            return f"; a payload has this key: payloads[{name!r}]"
        if self._what == "payload":
            try:
                is_tensor = name in self._module.tensors
            except MblobError:  # a damaged module
                is_tensor = False
            return f"; a tensor has this name: tensors[{name!r}]" if is_tensor else ""
        return ""

    def __repr__(self) -> str:
        if self._what != "payload":
            return super().__repr__()
        return f"{{{', '.join(f'{key!r}: {_begin(data)}' for key, data in self.items())}}}"

    def __reduce__(self) -> tuple[Any, ...]:
        """A dictionary; what is pickled has the bytes of payloads."""
        plain = {k: bytes(v) if isinstance(v, memoryview) else v for k, v in self.items()}
        return dict, (plain,)

    def __copy__(self) -> dict[str, Any]:
        return dict(self)

    if not TYPE_CHECKING:  # who sees a Mapping cannot change it

        def __getattr__(self, name: str) -> NoReturn:
            if name in self:
                raise NotFoundError(f"{self._what}s are read by key: write {self._what}s[{name!r}]")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

        def refuse(self, *args: Any, **_: Any) -> NoReturn:
            name = args[0] if args and isinstance(args[0], str) else None
            many, owner = f"{self._what}s", self._owner
            said = f"{owner}: its {many} cannot be changed" + (f" ({name!r})" if name else "")
            if self._what == "function" or not self._path or not (name is None or name in self):
                close = "" if name in self else did_you_mean(name, self)
                advice = f"pack it again, to add {many} too{close}"
            else:
                new = f"{{{name or 'NAME'!r}: NEW}}"
                change = f"weights={new}" if many == "tensors" else new
                advice = f"mblob.swap({self._path!r}, {change}, output='new.so') writes a new one"
            raise ArgumentTypeError(f"{said}; a library is not changed in place: {advice}")

        __setitem__ = __delitem__ = __ior__ = refuse
        update = setdefault = pop = popitem = clear = refuse
