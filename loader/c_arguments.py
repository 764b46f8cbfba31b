"""Arguments of C functions as ctypes passes them: numbers in range, and pointers to memory that is large
enough.

ctypes takes any object with a `from_param` in `argtypes`. Those of this module check what the
prototype says of one argument: the range of a number; element type, size, layout and `const` of an
array; the bytes of structs. ctypes itself converts silently, `c_int32` keeps the low 32 bits of any int. A
size that another argument tells is for the caller of all arguments, `Pointer.check_shape`.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from math import isinf
from operator import index
from os import uname
from typing import Any

from mblob import argument_types, errors, texts
from mblob.arguments import check_unmasked
from mblob.loader import prototype
from mblob.loader.c_characters import as_text, char_view
from mblob.loader.tensor import from_dlpack
from mblob.named_tuple import NamedTuple
from mblob.native.runtime import address_of, ffi

PointerOfCtypes: Any = ctypes._Pointer
FunctionPointer: Any = ctypes._CFuncPtr  # type: ignore[attr-defined]
Reference: Any = type(ctypes.byref(ctypes.c_int()))
CData: Any = ctypes._SimpleCData.__base__
WITHOUT_SIZE = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_wchar_p, FunctionPointer)
ADDRESSES = (PointerOfCtypes, *WITHOUT_SIZE)  # what holds one


class Number(NamedTuple):
    """A type of numbers.

    Attributes:
        kind: "int", "uint", "bool", "float", "bfloat", "complex" or "char", which only says that
            the bytes may be a text.
        size: bytes.
    """

    kind: str
    size: int

    @property
    def name(self) -> str:
        return self.kind if self.kind in ("bool", "char") else f"{self.kind}{8 * self.size}"

    @property
    def ctype(self) -> Any:
        """The type of ctypes; None if this Python's ctypes has none."""
        kind = self.kind if self.kind != "char" else _KIND_OF_CHAR
        return _CTYPES.get((kind, self.size))

    @property
    def passed(self) -> Any:
        """The type of ctypes that a call passes or returns it as; None if there is none."""
        is_struct = self.kind == "complex" and self.size in _PARTS and _COMPLEX_IS_STRUCT
        return complex_type(self.size) if is_struct else self.ctype

    def takes(self, found: Number) -> bool:
        """True if a number of another type has the same meaning in it."""
        kinds = {found.kind, self.kind}
        one = found.size == self.size == 1 and ("char" in kinds or kinds == {"bool", "uint"})
        return found == self or one


def number_named(name: str) -> Number | None:
    """The type of a name, None of ""."""
    kind = name.rstrip("0123456789")
    return Number(kind, int(name[len(kind) :] or 8) // 8) if name else None


# The ABIs whose `char` has a sign, by the beginnings of the machines' names.
_SIGNED_CHARS = ("x86", "i386", "i486", "i586", "i686", "mips", "sparc", "loongarch", "alpha")
_KIND_OF_CHAR = "int" if uname().machine.startswith(_SIGNED_CHARS) else "uint"
LONG_DOUBLE = ctypes.sizeof(ctypes.c_longdouble)
_CTYPES: dict[tuple[str, int], Any] = {
    ("int", 1): ctypes.c_int8, ("int", 2): ctypes.c_int16, ("int", 4): ctypes.c_int32, ("int", 8): ctypes.c_int64,
    ("uint", 1): ctypes.c_uint8, ("uint", 2): ctypes.c_uint16, ("uint", 4): ctypes.c_uint32,
    ("uint", 8): ctypes.c_uint64, ("bool", 1): ctypes.c_bool, ("float", LONG_DOUBLE): ctypes.c_longdouble,
    ("float", 4): ctypes.c_float, ("float", 8): ctypes.c_double,
    # of Python 3.14 and later
    ("complex", 8): getattr(ctypes, "c_float_complex", None),
    ("complex", 16): getattr(ctypes, "c_double_complex", None),
    ("complex", 2 * LONG_DOUBLE): getattr(ctypes, "c_longdouble_complex", None),
}  # fmt: skip
# The ABIs that pass a complex number as the struct of its parts: the psABIs of x86-64 and RISC-V, and AAPCS64.
_COMPLEX_IS_STRUCT = uname().machine in ("x86_64", "aarch64", "riscv64")
_PARTS: dict[int, Any] = {8: ctypes.c_float, 16: ctypes.c_double}
_LARGEST = float(argument_types.BY_C["float"].largest)


@cache
def number_type(number: Number) -> Any:
    """The type of ctypes for a parameter, made to refuse what does not fit; None if there is none."""
    base = number.passed
    if number.kind in ("int", "uint", "char", "bool"):
        is_bool = number.kind == "bool"
        bits = 1 if is_bool else 8 * number.size
        low = -(1 << bits - 1) if base(-1).value < 0 else 0
        high = low + (1 << bits) - 1

        def from_param(cls: Any, value: Any) -> Any:
            try:
                found = index(value.value if isinstance(value, base) else value)
            except TypeError:
                if getattr(value, "dtype", None) != "bool" or value.shape:
                    raise unexpected("int", value) from None
                found = bool(value)  # numpy's is no int
            if not low <= found <= high:
                raise errors.ArgumentValueError(
                    texts.say(texts.EXPECTED, f"{number.name} ({low} to {high})", found)
                )
            return cls(found)

    elif base is ctypes.c_float:

        def from_param(cls: Any, value: Any) -> Any:
            made = cls(value.value if isinstance(value, base) else value)
            if abs(made.value) > _LARGEST and abs(float(value)) != float("inf"):
                raise errors.ArgumentValueError(
                    texts.say(texts.EXPECTED, f"float (up to {_LARGEST:.9g})", f"{value!r}")
                )
            return made

    else:
        return base
    return type(base.__name__, (base,), {"from_param": classmethod(from_param)})


class Complex(ctypes.Structure):
    """A complex number, of which a call passes and returns the parts."""

    real: Any
    imag: Any

    @classmethod
    def from_param(cls, value: Any) -> Any:
        size = ctypes.sizeof(cls)
        native = Number("complex", size).ctype
        if isinstance(value, cls):
            return value
        try:
            given = value.value if native and isinstance(value, native) else value
            if not _is_number(given):
                raise unexpected("complex", value)
            number = complex(given)
            made = cls(number.real, number.imag)
            is_large = any(
                isinf(part) and not isinf(own)
                for part, own in ((made.real, number.real), (made.imag, number.imag))
            )
        except OverflowError:  # of an int
            is_large = True
        if is_large:
            raise errors.ArgumentValueError(f"the number is too large for complex{8 * size}")
        return made


@cache
def complex_type(size: int) -> Any:
    """The `Complex` of so many bytes."""
    fields = [("real", _PARTS[size]), ("imag", _PARTS[size])]
    return type(f"complex{8 * size}", (Complex,), {"_fields_": fields})


def _is_number(value: Any) -> bool:
    """True of a number of Python or numpy, and of what converts itself to one."""
    if isinstance(value, (int, float, complex)):
        return True
    converts = hasattr(value, "__complex__") or hasattr(value, "__float__")
    return converts and getattr(value, "shape", ()) == ()


def no_number(expected: Any, value: Any) -> errors.MblobError:
    """The error for a value that ctypes itself does not convert to a type of numbers."""
    floats = (ctypes.c_float, ctypes.c_double, ctypes.c_longdouble)
    is_float = isinstance(expected, type) and issubclass(expected, floats)
    if is_float and isinstance(value, int):
        return errors.ArgumentValueError(texts.INT_TOO_LARGE)
    return unexpected("float" if is_float else getattr(expected, "__name__", "another type"), value)


def unexpected(expected: str, value: Any, advice: str = "") -> errors.ArgumentTypeError:
    found = "None" if value is None else type(value).__name__
    return errors.ArgumentTypeError(texts.say(texts.EXPECTED, expected, found) + advice)


# -- pointers --------------------------------------------------------------------------------------

_FORMATS = {
    **dict.fromkeys("bhilqn", "int"), **dict.fromkeys("BHILQN", "uint"), **dict.fromkeys("efdg", "float"),
    **dict.fromkeys(("Zf", "Zd", "Zg", "F", "D", "G"), "complex"), "?": "bool", "c": "char",
    "u": "uint" if uname().machine.startswith(("aarch64", "arm")) else "int",  # wchar_t of ctypes
}  # fmt: skip
_NATIVE = "<@=" if sys.byteorder == "little" else ">!@="


def element_of(view: memoryview) -> Number | None:
    """The type of a buffer's elements; None of structs, and of numbers in another byte order."""
    text = view.format
    kind = _FORMATS.get(text[1:] if text[:1] in _NATIVE else text)
    return Number(kind, view.itemsize) if kind else None


def number_in(ctype: Any) -> Number | None:
    """The type of numbers that a type of ctypes holds, None of others."""
    try:
        return element_of(memoryview(ctype()))
    except TypeError:  # a type that is not made yet
        return None


def is_buffer(value: Any) -> bool:
    """True if an argument gives bytes of its own, and no address."""
    if isinstance(value, (PointerOfCtypes, ctypes.c_void_p)):
        return False
    try:
        memoryview(value)
    except (TypeError, ValueError, BufferError):
        return False
    return True


class _Address(ctypes.c_void_p):
    """An address, and the buffer that it is of."""

    buffer: Any


def _address(view: memoryview) -> _Address:
    buffer = ffi.from_buffer(view)
    made = _Address(address_of(buffer))
    made.buffer = buffer
    return made


_CHAR = Number("char", 1)
READ_ONLY = "its memory is read-only, and the function may write to it; pass a writable copy"


class Pointer:
    """A parameter that is a pointer: what `argtypes` has for it.

    Args:
        declared: its text in the prototype, or its type if that is all that is known.
        element: what it points at; None of anything else than numbers.
        const: the function only reads.
        dims: texts of the dimensions of an array parameter.
    """

    def __init__(
        self, declared: str, element: Number | None, const: bool, dims: tuple[str, ...] = ()
    ) -> None:
        self.declared, self.element, self.const, self.dims = declared, element, const, dims
        self._last: tuple[Any, ...] = ()  # what was right of the last buffer
        self._last_sizes: tuple[Any, ...] = ()  # its shape, and the numbers beside it

    def __repr__(self) -> str:
        return f"<pointer, {self.declared}>"

    def from_param(self, value: Any) -> Any:
        """The value that ctypes passes for an argument."""
        try:
            view = memoryview(value)
            found = type(value), view.format, view.itemsize, view.shape, view.readonly
            if found == self._last and view.c_contiguous:
                return _address(view)
        except (TypeError, ValueError, BufferError):
            pass
        return self._converted(value)

    def check_shape(self, value: Any, numbers: dict[str, int]) -> None:
        """Compare the size of an argument with the dimensions.

        Of a pointer of ctypes, only the type is known: its size is compared if that is an array.
        `byref` has the object. Both may point into more memory than the parameter names.

        Args:
            numbers: values of the parameters that dimensions may name.
        """
        try:
            if (memoryview(value).shape, numbers) == self._last_sizes:
                return
        except (TypeError, ValueError, BufferError):
            pass
        value = getattr(value, "_as_parameter_", value)
        value = char_view(value) if self.element == _CHAR else value
        dims = self.dims
        if not dims or isinstance(value, WITHOUT_SIZE):
            return
        shape: tuple[int, ...] = (0,)
        view = None
        if value is None or isinstance(value, (Reference, PointerOfCtypes)):
            if value is not None:
                there = type(value._obj) if isinstance(value, Reference) else value._type_
                is_known = isinstance(value, Reference) or issubclass(there, ctypes.Array)
                if self.element is None or not is_known:
                    return
                shape = (ctypes.sizeof(there) // self.element.size,)
            sizes = [d.removeprefix("static ") for d in dims]
            dims = (f"static {sizes[0] if len(sizes) == 1 else '*'.join(f'({d})' for d in sizes)}",)
        else:
            try:
                view = memoryview(value.encode() if isinstance(value, str) else value)
            except (TypeError, ValueError, BufferError):
                return
            shape = view.shape or (1,)
        if wrong := prototype.wrong_shape(dims, shape, numbers):
            if value is None:
                raise unexpected(self._expected(), value)
            if numbers:
                self.from_param(value)  # raises if its type is wrong, too
            raise errors.ArgumentValueError(wrong)
        if view is not None:
            self._last_sizes = view.shape, numbers

    def _converted(self, value: Any) -> Any:
        if value is None:
            self.check_shape(value, {})
            return None
        if isinstance(value, str):
            value = self._text(value)
        value = char_view(value) if self.element == _CHAR else value
        if isinstance(value, (PointerOfCtypes, Reference, ctypes.c_void_p, ctypes.c_char_p)):
            self._check_pointer(value)
            self.check_shape(value, {})
            return value
        if self.element is None and isinstance(value, (FunctionPointer, ctypes.c_wchar_p)):
            return value
        if self.element is None and isinstance(value, int) and not isinstance(value, bool):
            if not -(1 << 63) <= value < 1 << 64:  # of which ctypes keeps the low 64 bits
                raise errors.ArgumentValueError(texts.ADDRESS_RANGE)
            return ctypes.c_void_p.from_param(value)
        if (one := self._one_complex) is not None and _is_number(value):
            return _address(memoryview(one.from_param(value)))
        try:
            view = memoryview(value)
        except (TypeError, ValueError, BufferError) as exc:
            if hasattr(value, "_as_parameter_"):
                return self.from_param(value._as_parameter_)
            is_bfloat = self.element is not None and self.element.kind == "bfloat"
            if is_bfloat and getattr(value, "dtype", None) == "bfloat16":
                return self.from_param(value.view("uint16"))
            if hasattr(value, "__dlpack__") and not hasattr(value, "__array_interface__"):
                return self.from_param(from_dlpack(value))
            is_text = self.element is not None and self.element.kind == "char"
            if self.element is not None and not is_text and isinstance(value, (int, float)):
                text = texts.say(texts.NUMBER_FOR_ARRAY, self._expected(), repr(value))
                raise errors.ArgumentTypeError(text) from None
            if isinstance(exc, TypeError):
                raise unexpected(self._expected(value), value, _listed(value)) from None
            raise errors.ArgumentTypeError(
                texts.say(texts.GIVES_NO_NUMBERS, type(value).__name__, exc)
            ) from None
        is_scalar = view.readonly and not view.ndim and type(value).__hash__ is not None  # of numpy
        if is_scalar and element_of(view) is not None and not isinstance(value, bytes):
            text = texts.say(texts.NUMBER_FOR_ARRAY, self._expected(), repr(value))
            raise errors.ArgumentTypeError(text)
        check_unmasked(value)
        if self.element is None:
            check_elements(value)
        if isinstance(value, (bytes, bytearray)) and self.element == Number("int", 1):
            view = view.cast("b")
        self._check_buffer(view)
        self.check_shape(value, {})
        self._last = type(value), view.format, view.itemsize, view.shape, view.readonly
        return _address(view)

    @property
    def _one_complex(self) -> Any:
        """The type of the only complex number that the function reads; None if it reads anything else."""
        if self.element is None or not self.const or self.dims != ("static 1",):
            return None
        is_complex = self.element.kind == "complex" and self.element.size in _PARTS
        return complex_type(self.element.size) if is_complex else None

    def _expected(self, value: Any = None) -> str:
        if self.element and self.element.kind == "char" and self.const:
            return "a text (str, bytes) or an array of char"
        if self.element:
            return f"an array of {self.element.name}"
        callback = ", or a function of ctypes.CFUNCTYPE" if callable(value) else ""
        return f"an array or an address{callback}"

    def _text(self, value: str) -> bytes:
        if self.element is None or self.element.kind != "char" or not self.const:
            is_bytes = self.element is None or self.element.size == 1
            how = texts.say(texts.ENCODED if self.const else texts.ENCODED_TO_WRITE, "x")
            if (
                self.element
                and self.element.kind in ("int", "uint")
                and self.element.size == ctypes.sizeof(ctypes.c_wchar)
            ):
                how, is_bytes = texts.say(texts.WIDE, "x"), True
            found = f"str; {how}" if is_bytes else "str"
            raise errors.ArgumentTypeError(texts.say(texts.EXPECTED, self._expected(), found))
        return as_text(value, in_array=bool(self.dims))

    def _check_pointer(self, value: Any) -> None:
        """Compare what a pointer of ctypes points at, as far as its type tells."""
        if isinstance(value, Reference):
            target: Any = type(value._obj)
        elif isinstance(value, ctypes.c_char_p):
            if not self.const:
                raise unexpected("memory that may be written (create_string_buffer)", value)
            target = ctypes.c_char
        else:
            target = getattr(value, "_type_", None)
        while isinstance(target, type) and issubclass(target, ctypes.Array):
            target = target._type_
        if self.element is None or not isinstance(target, type):
            return
        if not self._fits(number_in(target)):
            raise errors.ArgumentTypeError(
                texts.say(texts.EXPECTED, f"a pointer to {self.element.name}", target.__name__)
            )

    def _fits(self, found: Number | None) -> bool:
        expected = self.element
        if expected is None or found is None:
            return expected is None
        if "bool" in (
            expected.kind,
            found.kind,
        ):  # in other bytes C may find more than true and false
            return found == expected
        if expected.kind == "bfloat":  # buffers have no letter for it: its bits
            return found == expected or found == Number("uint", expected.size)
        return expected.takes(found)

    def _check_buffer(self, view: memoryview) -> None:
        found = element_of(view)
        if self.element is not None and not self._fits(found):
            if isinstance(view.obj, (bytes, bytearray)) and found == Number("uint", 1):
                kind, name = self.element.name, type(view.obj).__name__
                raise errors.ArgumentTypeError(
                    texts.say(texts.DTYPE_OF_BYTES, kind, name, "x", kind)
                )
            shown = found.name if found else f"format {view.format!r}"
            if self.element.kind in ("char", "bfloat"):
                raise errors.ArgumentTypeError(
                    texts.say(texts.EXPECTED, self._expected(), f"an array of {shown}")
                )
            raise errors.ArgumentTypeError(
                texts.say(texts.DTYPE_OF_ARRAY, self.element.name, shown, self.element.name)
            )
        if not view.c_contiguous:
            raise errors.ArgumentValueError(texts.COMPACT)
        if view.readonly and not self.const:
            raise errors.ArgumentValueError(
                f"its memory is read-only, and the function may write to {self.declared}; pass a writable copy"
            )


def _listed(value: Any) -> str:
    """The advice for a list of functions; "" for what is none."""
    is_list = isinstance(value, (list, tuple)) and value and callable(value[0])
    return texts.say(texts.LISTED_FUNCTIONS, len(value), "x") if is_list else ""


def check_elements(array: Any) -> None:
    """Refuse an array whose elements are objects of Python, or have some."""
    dtype = getattr(array, "dtype", None)
    if getattr(dtype, "hasobject", False):
        raise errors.ArgumentTypeError(texts.say(texts.OBJECTS, dtype))
