"""Parameters that point at structs, at objects, at functions, or at pointers: what `argtypes` has for them, and the
memory that is made of lists."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

from mblob import errors, texts
from mblob.format.functions_table import FUNCTION, parameter
from mblob.format.struct_layouts import difference
from mblob.loader import prototype
from mblob.loader.c_arguments import (
    ADDRESSES,
    WITHOUT_SIZE,
    FunctionPointer,
    Number,
    Pointer,
    PointerOfCtypes,
    Reference,
    element_of,
    is_buffer,
    number_in,
    number_named,
    unexpected,
)
from mblob.loader.c_callbacks import check_function
from mblob.named_tuple import NamedTuple

POINTER_SIZE = ctypes.sizeof(ctypes.c_void_p)
_ANY_BYTES = 1 << 63
_DEEPEST = 8  # pointers that lists are made for


class Pointed(NamedTuple):
    """The end of a chain of pointers, two or more.

    Attributes:
        of: the type of the elements of arrays, "" for any, "char" for texts; of functions the parameter in C.
        const: it is only read; of functions no matter.
        depth: the number of pointers that lead to it: of `float ***x`, 3.
    """

    of: str
    const: bool
    depth: int

    @property
    def is_function(self) -> bool:
        return "(" in self.of

    def expected(self, declared: str = "") -> str:
        """The values that a pointer to pointers takes, for errors.

        Args:
            declared: the parameter in C, "" for an item of a list.
        """
        return texts.ADDRESSES_OF.replace("%s", self.items(declared))

    def items(self, declared: str = "") -> str:
        """The items of a list of them."""
        items = "functions" if self.is_function else "texts" if self.of == "char" else "arrays"
        return texts.lists_of(items, self.depth, declared)

    def refusal(self, found: str, declared: str = "") -> errors.MblobError:
        """The error for what is given in place of addresses."""
        text = texts.say(texts.EXPECTED, self.expected(declared), found)
        if declared and found.startswith(("c_", "LP_")):  # pointers of ctypes
            text += "; if the function sets the pointer p, pass ctypes.byref(p)"
        return errors.ArgumentTypeError(text)


class Memory(Pointer):
    """A parameter that points at structs, at pointers, or at anything: bytes of any kind do.

    Args:
        declared, const, dims: as of `Pointer`.
        size: bytes of a struct or of a pointer, 0 if nothing tells them.
        alignment: of a struct, 1 if nothing tells it.
        pointed: of a pointer to pointers, what it leads to; else None.
    """

    def __init__(
        self,
        declared: str,
        const: bool,
        dims: tuple[str, ...] = (),
        size: int = 0,
        alignment: int = 1,
        pointed: Pointed | None = None,
    ) -> None:
        super().__init__(declared, None, const, dims)
        self.size, self.alignment, self.pointed = size, alignment, pointed
        self.layouts: Callable[[], Mapping[str, str]] = dict

    def from_param(self, value: Any) -> Any:
        if self.pointed is not None:
            if isinstance(value, (list, tuple)):
                value = addresses(value, self.pointed, "")
            elif found := _no_addresses(value):
                raise self.pointed.refusal(found, self.declared)
        elif self.size:
            check_layout(value, self.declared, self.size, self.layouts)
        value = without_overlaps(value)
        made = super().from_param(value)
        if self.alignment > 1:
            address = _address_in(made)
            if address % self.alignment:
                del made  # its buffer is one of a memoryview, which must not be in a circle with an exception
                raise errors.ArgumentValueError(
                    texts.say(texts.ALIGNED, self.alignment, f"{address:#x}")
                )
        return made

    def check_shape(self, value: Any, numbers: dict[str, int]) -> None:
        """Compare the bytes of an argument with those of as many structs as the dimensions say, or of one.

        Of a pointer of ctypes, only the type is known, and it may point into more of them. Where no
        dimension says how many structs there are, NULL and what is empty may stand for none.
        """
        least = self.size or 1  # a struct has a byte at least
        sizes = [d.removeprefix("static ") for d in self.dims]
        for text in sizes:
            number = 1 if text in prototype.ANY else prototype.value_of(text, numbers)
            if number is None:
                return
            least *= max(number, 0)
        is_bounded = bool(sizes) and sizes[0] not in prototype.ANY
        value = without_overlaps(getattr(value, "_as_parameter_", value))
        found = self._bytes_of(value)
        unit = 1 if self.pointed is None else POINTER_SIZE
        if found is None:
            found, shown = 0, "None" if value is None else "NULL"
        else:
            shown = str(found // unit)
        if found < least and (found or is_bounded):
            text = (
                texts.say(texts.BYTES, least, self.declared, shown)
                if self.pointed is None
                else texts.say(texts.ITEMS, least // unit, self.pointed.items(self.declared), shown)
            )
            is_null = not shown.isdecimal()
            raise (errors.ArgumentTypeError if is_null else errors.ArgumentValueError)(text)

    def _expected(self, value: Any = None) -> str:
        if self.pointed is not None:
            return self.pointed.expected(self.declared)
        if not self.size:
            return super()._expected(value)
        return f"a struct of {self.size} bytes (ctypes.byref(x), a structured array) or an address"

    def _bytes_of(self, value: Any) -> int | None:
        """The number of bytes behind an argument, _ANY_BYTES if it does not tell, None of NULL."""
        if value is None:
            return None
        if isinstance(value, Reference):
            return ctypes.sizeof(value._obj)
        if isinstance(value, (list, tuple)):
            return len(value) * ctypes.sizeof(ctypes.c_void_p)
        if isinstance(value, ADDRESSES):
            whole = pointed(value, self.size) if value else None
            return ctypes.sizeof(whole) if whole is not None else _ANY_BYTES if value else None
        try:
            return memoryview(value).nbytes
        except (TypeError, ValueError, BufferError):
            return _ANY_BYTES


def without_overlaps(value: Any) -> Any:
    """An array or a scalar of numpy whose structs have fields that overlap, which no buffer can describe, as bytes;
    other values as they are."""
    dtype: Any = getattr(value, "dtype", None)
    if getattr(dtype, "names", None) is None:
        return value
    with suppress(ValueError), memoryview(value):
        return value
    return value.view(f"V{dtype.itemsize}")


@lru_cache(256)
def _type_name(declared: str) -> str:
    return parameter(declared).type_name


def check_layout(
    value: Any, declared: str, size: int, layouts: Callable[[], Mapping[str, str]]
) -> None:
    """Compare the fields of structs of numpy or ctypes with those of the structs that a parameter points at.

    Args:
        declared: the parameter in C.
        size: bytes of its struct.
        layouts: of structs, by name.

    Raises:
        As of `check_fields`.
    """
    check_fields(value, declared, size, lambda: layouts().get(_type_name(declared), ""))


def check_fields(value: Any, declared: str, size: int, layout_of: Callable[[], str]) -> None:
    """The same for a struct of a known layout.

    Raises:
        ArgumentTypeError: they lie at other places, or have other types.
    """
    if isinstance(value, Reference):
        value = value._obj
    given: Any = getattr(value, "dtype", None)
    count = getattr(value, "size", 1)
    if getattr(given, "names", None) is None:
        given, count = type(value), 1
        if issubclass(given, PointerOfCtypes):
            given = given._type_
        while issubclass(given, ctypes.Array):
            given, count = given._type_, count * given._length_
        if not issubclass(given, ctypes.Structure):
            return
    item_size = ctypes.sizeof(given) if isinstance(given, type) else given.itemsize
    # others tell of too few bytes, and of objects of Python
    if count * item_size < size or getattr(given, "hasobject", False):
        return
    layout = layout_of()
    if not layout:
        return
    if wrong := difference(layout, size, given, count == 1):
        raise errors.ArgumentTypeError(f"expected {declared} with {wrong}")


class Object(Memory):
    """A parameter that points at an object of C++, of which only the library makes some."""

    def from_param(self, value: Any) -> Any:
        if isinstance(value, (Reference, bytes)) or is_buffer(value):
            raise unexpected(texts.OBJECT, value)
        return super().from_param(value)


class Callback(Memory):
    """A parameter that is a pointer to a function."""

    def __init__(self, declared: str) -> None:
        super().__init__(declared, True)

    def from_param(self, value: Any) -> Any:
        has_address = value is None or isinstance(value, int) or hasattr(value, "_as_parameter_")
        if isinstance(value, FunctionPointer) or not has_address:
            check_function(self.declared, value)
        return super().from_param(value)


def _no_addresses(value: Any) -> str:
    """The kind of elements that an argument has in place of addresses; "" if it has addresses or does not tell."""
    target: Any = None
    if isinstance(value, (Reference, PointerOfCtypes)):
        target = type(value._obj) if isinstance(value, Reference) else value._type_
        while isinstance(target, type) and issubclass(target, ctypes.Array):
            target = target._type_
        if isinstance(target, type) and issubclass(target, ADDRESSES):
            return ""
        return "" if _is_address(number_in(target)) else getattr(target, "__name__", "?")
    if isinstance(value, (str, *WITHOUT_SIZE[1:])):
        return type(value).__name__
    try:
        view = memoryview(value)
    except (TypeError, ValueError, BufferError):
        return ""
    letter = view.format.lstrip("<>@=")
    is_pointer = letter in ("P", "z", "Z", "X{}") or letter.startswith("&")
    is_one = is_pointer or _is_address(element_of(view))
    return "" if is_one else str(getattr(value, "dtype", view.format))


def _is_address(number: Number | None) -> bool:
    """True if numbers of a type may be addresses."""
    return number in (Number("int", POINTER_SIZE), Number("uint", POINTER_SIZE))


def _address_in(value: Any) -> int:
    """The address that ctypes passes for a pointer. A cast would make a circle of references."""
    if isinstance(value, ADDRESSES):
        return ctypes.c_void_p.from_buffer(value).value or 0
    return 0 if value is None else ctypes.cast(value, ctypes.c_void_p).value or 0


def pointed(given: Any, least: int) -> Any:
    """The object that a pointer of ctypes points at, for a pointer to structs of at least `least`
    bytes; None where its type does not say how many bytes there are, or they suffice."""
    there: Any = getattr(type(given), "_type_", None)
    if not given or not isinstance(there, type):
        return None
    is_whole = issubclass(there, (ctypes.Structure, ctypes.Union)) and ctypes.sizeof(there) < least
    return given.contents if is_whole or issubclass(there, ctypes.Array) else None


def addresses(items: Any, pointed: Pointed, place: str) -> Any:
    """The addresses of arrays, texts or functions, or of lists of them, for a pointer to pointers. What it gives
    keeps all of them.

    Args:
        items: arrays for `float **x`, lists of arrays for `float ***x`, and so on; None is NULL.
        place: of the list, for errors; "" if that is told in front of them.

    Raises:
        ArgumentTypeError, ArgumentValueError: an item is no compact array, or of another type; or it is
            read-only, and they are written.
    """
    if pointed.depth > _DEEPEST:
        text = f"lists stand for up to {_DEEPEST} pointers, found {pointed.depth}; pass an array of addresses"
        raise errors.ArgumentTypeError(f"{place}{': ' * bool(place)}{text}")
    found: list[int | None] = []
    kept: list[Any] = []
    for i, item in enumerate(items):
        try:
            address, keeper = (None, None) if item is None else _item(item, pointed)
        except errors.MblobError as exc:
            # buffers of memoryviews, which must not be in a circle with an exception
            kept, keeper = [], None
            exc.prefix(f"{place}: item {i}" if place else f"item {i}")
            raise
        found.append(address)
        kept.append(keeper)
    made: Any = (ctypes.c_void_p * len(found))(*found)
    made.kept = kept
    return made


def _item(item: Any, pointed: Pointed) -> tuple[int, Any]:
    """The address of an item of a list, and what keeps it."""
    if pointed.depth > 2:
        pointed = pointed._replace(depth=pointed.depth - 1)
        if isinstance(item, (list, tuple)):
            made = addresses(item, pointed, "")
            return ctypes.addressof(made), made
        is_memory = isinstance(item, ADDRESSES) or is_buffer(item)
        if found := _no_addresses(item) if is_memory else type(item).__name__:
            raise pointed.refusal(found)
        pointed = Pointed("", True, 2)
    if pointed.is_function:
        check_function(re.sub(FUNCTION, "(*)(", pointed.of, count=1), item)
        pointed = Pointed("", True, 2)
    if isinstance(item, ctypes.c_char_p):  # also of what may be written
        return _address_in(item), item
    item = item if pointed.of else without_overlaps(item)
    made = Pointer("it", number_named(pointed.of), pointed.const).from_param(item)
    return _address_in(made), (made, item)
