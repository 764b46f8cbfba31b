"""Plain C functions of a library as functions of ctypes, whose types are those of a prototype."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from mblob import errors, texts
from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import DEBUG_PREFIXES
from mblob.format import exported_functions, functions_table
from mblob.loader.c_arguments import (
    CData,
    Complex,
    FunctionPointer,
    Reference,
    no_number,
    unexpected,
)
from mblob.loader.c_memory import Memory
from mblob.loader.c_types import (
    UNKNOWN,
    UNKNOWN_RESULT,
    CDeclaration,
    Refusal,
    Sizes,
    has_values,
    of_dwarf,
    of_row,
)
from mblob.loader.library_sources import mapped
from mblob.native.runtime import address_of, ffi, lib

if TYPE_CHECKING:
    from mblob.loader.opened import OpenedNode
    from mblob.module import Module

_DEBUG_INFO = {f"{prefix}info" for prefix in DEBUG_PREFIXES}


def read_table(handle: Any) -> list[functions_table.Row]:
    """Rows of the table of functions of an open library, as it lies in memory; opening checked it."""
    address = lib.mblob_module_symbol(handle, functions_table.SYMBOL.encode())
    if not address:
        return []
    return functions_table.decode(ffi.string(ffi.cast("const char *", address)) + b"\0")


def declared(node: OpenedNode, name: str) -> CDeclaration:
    """The declaration of a C function of a library: by its table, or else by debug information."""
    rows = read_table(node.handle)
    packed = next((row.name for row in rows if row.abi == "packed" and row.symbol == name), None)
    if packed is not None:
        call = Refusal(f"it is the packed function {packed!r}, so call module[{packed!r}]")
        return CDeclaration(f"{name}(...)", refusal=call, of_result=call)
    declaration = CDeclaration(f"{name}(...)", refusal=UNKNOWN, of_result=UNKNOWN_RESULT)
    symbol = name
    for row in rows:
        if row.abi == "plain" and name in (row.name, row.symbol):
            # a function that a packed one calls takes and returns structs that are known
            is_called = any(r.abi == "packed" and r.name == row.name for r in rows)
            has_structs = is_called and has_values(row)
            declaration = of_row(row, layouts_of(node) if has_structs else {})
            symbol = row.symbol
            if has_structs and declaration.refusal is not None:
                instead = f"call module[{row.name!r}], which takes and returns it"
                refusal = declaration.refusal._replace(instead=instead)
                declaration = declaration._replace(refusal=refusal)
            for made in declaration.argtypes or ():
                if isinstance(made, Memory):
                    made.layouts = partial(layouts_of, node)
            break
    return declaration if not declaration.refusal else _of_debug_info(node, symbol) or declaration


def overloads_of(node: OpenedNode, name: str) -> str:
    """A sentence that lists the plain functions of C++ that share a name, with their symbols; "" if one of
    them has it."""
    rows = [row for row in read_table(node.handle) if row.name == name]
    plain = [row for row in rows if row.abi == "plain"]
    if len(plain) < 2 or len(plain) < len(rows):  # a prototype chose one, which stands first
        return ""
    listed = "; ".join(f"{row.prototype or name} ({row.symbol!r})" for row in plain)
    return f"it is overloaded: {listed}"


def comment_of(node: OpenedNode, name: str) -> str:
    """The comment above a function in its source, as the file of its library has it; "" without."""
    elf = _file_of(node)
    try:
        rows = exported_functions.read_table(elf) if elf is not None else ()
    except errors.MblobError:  # written over since
        return ""
    return next((row.comment for row in rows if row.name == name), "")


_layouts: WeakKeyDictionary[OpenedNode, dict[str, str]] = WeakKeyDictionary()


def layouts_of(node: OpenedNode) -> dict[str, str]:
    """The layouts of structs by their names, as the file of a library has them; {} if it has none."""
    if node not in _layouts:
        elf = _file_of(node)
        try:
            rows = exported_functions.read_table(elf) if elf is not None else ()
        except errors.MblobError:  # written over since
            rows = ()
        _layouts[node] = {name: text for row in rows for name, text in row.structs}
    return _layouts[node]


def _file_of(node: OpenedNode) -> ElfFile | None:
    """The file that a library was loaded from; None if another one is there by now, or there was none."""
    status = node.origin.status
    data = mapped(node.path, status) if status is not None else None
    with suppress(errors.MblobError):  # written over since
        return ElfFile(data, node.path) if data is not None else None
    return None


def handle_of(module: Module) -> int:
    """The `dlopen` handle of the first library of a tree. It is valid as long as the module is."""
    nodes: Iterable[Any] = (m._node for m in module.walk() if m._node.is_opened)
    handles = (address_of(lib.mblob_module_dlhandle(node.handle)) for node in nodes)
    handle = next(filter(None, handles), 0)
    if not handle:
        raise errors.StateError("the module has no library of its own, so it has no variables")
    return handle


def _of_debug_info(node: OpenedNode, name: str) -> CDeclaration | None:
    """The declaration of a function by DWARF in the file of its library; None if there is none."""
    elf = _file_of(node)
    if elf is None or not any(section.name in _DEBUG_INFO for section in elf.sections):
        return None
    try:
        from mblob.binary.dwarf_functions import exported_function  # pyelftools takes its time
    except errors.IncompatibleError as exc:  # it is not installed
        call = Refusal(f"its types stand in debug information, and {exc}")
        return CDeclaration(f"{name}(...)", refusal=call, of_result=UNKNOWN_RESULT)

    found = exported_function(elf, name)
    return of_dwarf(name, found) if found else None


# -- functions -------------------------------------------------------------------------------------

_call = FunctionPointer.__call__
_restype, _argtypes = FunctionPointer.restype, FunctionPointer.argtypes


class CFunction(FunctionPointer):  # type: ignore[misc]
    """A C function of a library, for ctypes. It keeps the library open.

    `restype` and `argtypes` are those of the prototype, if one is known. A program may replace them,
    as of any function of ctypes. A call of a function without a prototype is an error until the
    program sets `restype`. Without `argtypes`, ctypes converts the arguments by their own types.
    """

    _flags_ = ctypes._FUNCFLAG_CDECL  # type: ignore[attr-defined]
    _restype_ = ctypes.c_int
    _node: OpenedNode
    _declared: CDeclaration
    _count: int  # arguments of a call that needs no look at them together; -1: every call does
    _sizes: Sizes | None
    _is_own: bool  # whether `argtypes` is the prototype's

    @property
    def restype(self) -> Any:
        return _restype.__get__(self)

    @restype.setter
    def restype(self, value: Any) -> None:
        _restype.__set__(self, value)
        self._declared = self._declared._replace(refusal=None, of_result=None)

    @property
    def argtypes(self) -> Any:
        return _argtypes.__get__(self)

    @argtypes.setter
    def argtypes(self, value: Any) -> None:
        _argtypes.__set__(self, value)
        self._count, self._sizes, self._is_own = -1, None, False
        if value is not None:
            self._declared = self._declared._replace(refusal=self._declared.of_result)

    def __call__(self, *args: Any) -> Any:
        if len(args) != self._count:
            self._check_together(args)
        try:
            return _call(self, *args)
        except ctypes.ArgumentError as exc:
            raise self._mistake(args, exc) from None

    def _check_together(self, args: tuple[Any, ...]) -> None:
        """Refuse a call of which nothing is known, of another number of arguments, or whose arguments
        do not fit each other."""
        declaration = self._declared
        if declaration.refusal:
            raise errors.ArgumentTypeError(
                f"{self.__name__}: {declaration.refusal.text}; {declaration.refusal.remedy(self.__name__)}"
            )
        if not self._is_own:
            return
        count = len(declaration.argtypes or ())
        if len(args) < count or (len(args) > count and not declaration.variadic):
            what = f"argument{'' if count == 1 else 's'}"
            least = "at least " if declaration.variadic else ""
            raise errors.ArgumentValueError(
                f"{self.__name__}: expected {least}{count} {what}, found {len(args)}: {declaration.text}"
            )
        i = 0
        try:
            for i in range(count, len(args)):
                _check_variadic(args[i])
            if self._sizes is not None:
                numbers = self._sizes.values(args)
                for i, array in self._sizes.arrays:
                    array.check_shape(args[i], numbers)
        except errors.MblobError as exc:
            exc.prefix(self._argument(i))
            raise

    def _argument(self, i: int) -> str:
        names = self._declared.names
        name = f" ({names[i]})" if i < len(names) and names[i] else ""
        return f"{self.__name__}{texts.ARGUMENT}{i}{name}"

    def _mistake(self, args: tuple[Any, ...], found: Exception) -> Exception:
        """The error for a bad argument: ctypes gives a text, so it is converted once more."""
        for i, (expected, value) in enumerate(zip(self.argtypes or (), args)):
            try:
                expected.from_param(value)
            except errors.MblobError as exc:
                wrong: errors.MblobError = exc
            except (TypeError, OverflowError):
                wrong = no_number(expected, value)
            else:
                continue
            wrong.prefix(self._argument(i))
            return wrong
        return errors.ArgumentTypeError(f"{self.__name__}: {found}")

    @property
    def mblob_module(self) -> Any:
        """The module of the library."""
        return self._node.module

    def __repr__(self) -> str:
        declaration = self._declared
        path = f" of {self._node.path}" if self._node.path else ""
        why = f"; {declaration.refusal.text}: a call is an error" if declaration.refusal else ""
        return errors.one_line(f"<C function {declaration.text}{path}{why}>")

    def __reduce__(self) -> Any:
        return getattr, (self._node.module.ctypes, self.__name__)

    def __copy__(self) -> CFunction:
        return self

    def __deepcopy__(self, _: Any) -> CFunction:
        return self


def _check_variadic(value: Any) -> None:
    """Refuse an argument for the `...` of a prototype that ctypes would not pass as C does."""
    if isinstance(value, int):
        if not -(1 << 31) <= value < 1 << 31:
            raise errors.ArgumentValueError(
                texts.say(texts.EXPECTED, "int32, or a value of ctypes such as c_int64", value)
            )
        return
    passed = (bytes, CData, Reference, type(None))
    is_passed = isinstance(value, passed) or hasattr(value, "_as_parameter_")
    if not is_passed or isinstance(value, ctypes.c_float):
        raise unexpected("an int, bytes, or a value of ctypes such as c_double", value)


def check_types(restype: Any, argtypes: Any) -> None:
    """Refuse what are no types of ctypes.

    Raises:
        TypeError: says what is in their place. ctypes itself takes a `float` for a function that
            converts an int.
    """
    is_type = isinstance(restype, type) and (restype is int or issubclass(restype, CData))
    if (
        restype not in (None, ...)
        and (isinstance(restype, type) or not callable(restype))
        and not is_type
    ):
        raise _no_type("restype", restype)
    if argtypes is None:
        return
    if not isinstance(argtypes, Sequence) or isinstance(argtypes, str):
        raise _no_type("argtypes", argtypes, "a list of types")
    for i, one in enumerate(argtypes):
        if not hasattr(one, "from_param"):
            raise _no_type(f"argtypes[{i}]", one)


def _no_type(argument: str, value: Any, expected: str = "a type") -> errors.ArgumentTypeError:
    found = value.__name__ if isinstance(value, type) else type(value).__name__
    expected = f"{expected} of ctypes"
    return errors.ArgumentTypeError(
        f"symbol: {argument}: {texts.say(texts.EXPECTED, expected, found)}"
    )


def c_function(
    node: OpenedNode, name: str, address: int, restype: Any, argtypes: Any
) -> Callable[..., Any]:
    """The C function at `address`, of the types that the caller gives; `...`: of its prototype.

    Raises:
        NotFoundError: several functions have the name.
        TypeError: as of `check_types`.
    """
    check_types(restype, argtypes)
    if several := overloads_of(node, name):
        raise errors.NotFoundError(f"symbol: {name!r}: {several}; pass the symbol of one of them")
    if restype is ...:
        return of_prototype(node, name, address, argtypes)
    return of_types(node, address, restype, argtypes)


def of_prototype(node: OpenedNode, name: str, address: int, argtypes: Any = None) -> CFunction:
    """The C function at `address`, of the types that its prototype has.

    Args:
        argtypes: those of the caller; None: of the prototype.
    """
    function: Any = CFunction(address)
    declaration = declared(node, name)
    function.__name__, function._node, function._declared = name, node, declaration
    function._is_own = not declaration.refusal
    function._sizes = Sizes.of(declaration)
    _restype.__set__(function, declaration.restype)
    _argtypes.__set__(function, declaration.argtypes)
    if isinstance(declaration.restype, type) and issubclass(declaration.restype, Complex):
        function.errcheck = _as_number
    is_quick = function._is_own and function._sizes is None
    function._count = len(declaration.argtypes or ()) if is_quick else -1
    if argtypes is not None:
        function.argtypes = argtypes
    return function  # type: ignore[no-any-return]


def _as_number(result: Any, function: Any, args: Any) -> Any:
    """The result of a call, a complex number for one in C."""
    return complex(result.real, result.imag) if isinstance(result, Complex) else result


def of_types(node: OpenedNode, address: int, restype: Any, argtypes: Any) -> Callable[..., Any]:
    """The C function at `address`, of the types that the caller gives."""
    function: Any = ctypes.CFUNCTYPE(restype, *(argtypes or ()))(address)
    if argtypes is None:
        function.argtypes = None  # nothing declared: ctypes converts by what it is given
    function.mblob_module = node.module
    return function  # type: ignore[no-any-return]
