"""Types of C as types of ctypes, from a prototype or from debug information.

ctypes takes any object with a `from_param` in `argtypes`. Those of this module check what the
prototype says of one argument: the range of a number; element type, size, layout and `const` of an
array. ctypes itself converts silently, `c_int32` keeps the low 32 bits of any int. A size that
another argument tells is for the caller of all arguments, `Pointer.check_shape`.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from operator import index
from os import uname
from typing import TYPE_CHECKING, Any, NamedTuple

from mblob import argument_types, errors, texts
from mblob.arguments import check_unmasked
from mblob.format import functions_table
from mblob.loader import prototype
from mblob.native.runtime import address_of, ffi

if TYPE_CHECKING:
    from mblob.binary.dwarf_functions import Function
    from mblob.binary.dwarf_types import CType

_Pointer: Any = ctypes._Pointer
FunctionPointer: Any = ctypes._CFuncPtr  # type: ignore[attr-defined]
_Reference: Any = type(ctypes.byref(ctypes.c_int()))
CData: Any = ctypes._SimpleCData.__base__
_WITHOUT_SIZE = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_wchar_p, FunctionPointer)


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


# The ABIs whose `char` has a sign, by the beginnings of the machines' names.
_SIGNED_CHARS = ("x86", "i386", "i486", "i586", "i686", "mips", "sparc", "loongarch", "alpha")
_KIND_OF_CHAR = "int" if uname().machine.startswith(_SIGNED_CHARS) else "uint"
_LONG_DOUBLE = ctypes.sizeof(ctypes.c_longdouble)
_CTYPES: dict[tuple[str, int], Any] = {
    ("int", 1): ctypes.c_int8, ("int", 2): ctypes.c_int16, ("int", 4): ctypes.c_int32, ("int", 8): ctypes.c_int64,
    ("uint", 1): ctypes.c_uint8, ("uint", 2): ctypes.c_uint16, ("uint", 4): ctypes.c_uint32,
    ("uint", 8): ctypes.c_uint64, ("bool", 1): ctypes.c_bool, ("float", _LONG_DOUBLE): ctypes.c_longdouble,
    ("float", 4): ctypes.c_float, ("float", 8): ctypes.c_double,
    # of Python 3.14 and later
    ("complex", 8): getattr(ctypes, "c_float_complex", None),
    ("complex", 16): getattr(ctypes, "c_double_complex", None),
    ("complex", 2 * _LONG_DOUBLE): getattr(ctypes, "c_longdouble_complex", None),
}  # fmt: skip
_LARGEST = float(argument_types.BY_C["float"].largest)


@cache
def _parameter_type(number: Number) -> Any:
    """The type of ctypes for a parameter, made to refuse what does not fit."""
    base = number.ctype
    if number.kind in ("int", "uint", "char", "bool"):
        is_bool = number.kind == "bool"
        bits = 1 if is_bool else 8 * number.size
        low = -(1 << bits - 1) if base(-1).value < 0 else 0
        high = low + (1 << bits) - 1

        def from_param(cls: Any, value: Any) -> Any:
            if is_bool and getattr(value, "dtype", None) == "bool" and value.shape == ():
                value = bool(value)  # numpy's is no int
            try:
                found = index(value.value if isinstance(value, base) else value)
            except TypeError:
                raise unexpected("int", value) from None
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


def no_number(expected: Any, value: Any) -> errors.MblobError:
    """Why ctypes itself does not convert a value to a type of numbers."""
    floats = (ctypes.c_float, ctypes.c_double, ctypes.c_longdouble)
    is_float = isinstance(expected, type) and issubclass(expected, floats)
    if is_float and isinstance(value, int):
        return errors.ArgumentValueError(texts.INT_TOO_LARGE)
    return unexpected("float" if is_float else getattr(expected, "__name__", "another type"), value)


def check_variadic(value: Any) -> None:
    """Refuse an argument for the `...` of a prototype that ctypes would not pass as C does."""
    if isinstance(value, int):
        if not -(1 << 31) <= value < 1 << 31:
            raise errors.ArgumentValueError(
                texts.say(texts.EXPECTED, "int32, or a value of ctypes such as c_int64", value)
            )
        return
    passed = (bytes, CData, _Reference, type(None))
    is_passed = isinstance(value, passed) or hasattr(value, "_as_parameter_")
    if not is_passed or isinstance(value, ctypes.c_float):
        raise unexpected("an int, bytes, or a value of ctypes such as c_double", value)


def unexpected(expected: str, value: Any) -> errors.ArgumentTypeError:
    found = "None" if value is None else type(value).__name__
    return errors.ArgumentTypeError(texts.say(texts.EXPECTED, expected, found))


# -- pointers --------------------------------------------------------------------------------------

_FORMATS = {
    **dict.fromkeys("bhilqn", "int"), **dict.fromkeys("BHILQN", "uint"), **dict.fromkeys("efdg", "float"),
    **dict.fromkeys(("Zf", "Zd", "Zg", "F", "D", "G"), "complex"), "?": "bool", "c": "char",
}  # fmt: skip
_NATIVE = "<@=" if sys.byteorder == "little" else ">!@="


def _element(view: memoryview) -> Number | None:
    """What elements a buffer has; None of structs, and of numbers in another order of bytes."""
    text = view.format
    kind = _FORMATS.get(text[1:] if text[:1] in _NATIVE else text)
    return Number(kind, view.itemsize) if kind else None


class _Address(ctypes.c_void_p):
    """An address, and the buffer that it is of."""

    buffer: Any


def _address(view: memoryview) -> _Address:
    buffer = ffi.from_buffer(view)
    made = _Address(address_of(buffer))
    made.buffer = buffer
    return made


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
        """What ctypes passes for an argument."""
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
        dims = self.dims
        if not dims or isinstance(value, _WITHOUT_SIZE):
            return
        shape: tuple[int, ...] = (0,)
        view = None
        if value is None or isinstance(value, (_Reference, _Pointer)):
            if value is not None:
                there = type(value._obj) if isinstance(value, _Reference) else value._type_
                is_known = isinstance(value, _Reference) or issubclass(there, ctypes.Array)
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
        if isinstance(value, (_Pointer, _Reference, ctypes.c_void_p, ctypes.c_char_p)):
            self._check_pointer(value)
            self.check_shape(value, {})
            return value
        if self.element is None and isinstance(value, (FunctionPointer, ctypes.c_wchar_p)):
            return value
        if self.element is None and isinstance(value, int) and not isinstance(value, bool):
            return ctypes.c_void_p.from_param(value)
        try:
            view = memoryview(value)
        except (TypeError, ValueError, BufferError) as exc:
            if hasattr(value, "_as_parameter_"):
                return self.from_param(value._as_parameter_)
            if isinstance(exc, TypeError):
                raise unexpected(self._expected(value), value) from None
            raise errors.ArgumentTypeError(
                texts.say(texts.GIVES_NO_NUMBERS, type(value).__name__, exc)
            ) from None
        check_unmasked(value)
        self._check_buffer(view)
        self.check_shape(value, {})
        self._last = type(value), view.format, view.itemsize, view.shape, view.readonly
        return _address(view)

    def _expected(self, value: Any = None) -> str:
        if self.element:
            return f"an array of {self.element.name}"
        callback = ", or a function of ctypes.CFUNCTYPE" if callable(value) else ""
        return f"an array or an address{callback}"

    def _text(self, value: str) -> bytes:
        if self.element is None or self.element.kind != "char" or not self.const:
            raise unexpected(self._expected(), value)
        if "\0" in value:
            raise errors.ArgumentValueError(
                "the str has a NUL inside, where its C text would end; pass bytes"
            )
        try:
            return value.encode()
        except UnicodeEncodeError:
            raise errors.ArgumentValueError(texts.say(texts.SURROGATES, "pass bytes")) from None

    def _check_pointer(self, value: Any) -> None:
        """Compare what a pointer of ctypes points at, as far as its type tells."""
        if isinstance(value, _Reference):
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
        try:
            found = _element(memoryview(target()))
        except TypeError:  # a type that is not made yet
            found = None
        if not self._fits(found):
            raise errors.ArgumentTypeError(
                texts.say(texts.EXPECTED, f"a pointer to {self.element.name}", target.__name__)
            )

    def _fits(self, found: Number | None) -> bool:
        expected = self.element
        if expected is None or found == expected:
            return True
        if found is None or found.size != expected.size:
            return False
        kinds = {found.kind, expected.kind}
        if expected.kind == "bfloat":  # buffers have no letter for it: its bits
            return found.kind == "uint"
        return expected.size == 1 and ("char" in kinds or kinds == {"bool", "uint"})

    def _check_buffer(self, view: memoryview) -> None:
        found = _element(view)
        if self.element is not None and not self._fits(found):
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


# -- prototypes ------------------------------------------------------------------------------------


class Refusal(NamedTuple):
    """Why a call cannot be right.

    Attributes:
        text: the reason.
        is_unknown: there is no prototype that says it.
    """

    text: str
    is_unknown: bool = False

    def remedy(self, name: str) -> str:
        """What to do about it."""
        pack = "pack it with its prototype (functions=), or " if self.is_unknown else ""
        return f"{pack}get it with symbol({name!r}, restype, argtypes)"


UNKNOWN_RESULT = Refusal("no prototype says what it returns", True)
UNKNOWN = Refusal("no prototype says what it takes and returns", True)


class Declared(NamedTuple):
    """How a C function is called.

    Attributes:
        text: its prototype, or as much of it as is known.
        restype: of ctypes.
        argtypes: of ctypes, None if they are not known.
        names: of the parameters, "" where one has none.
        variadic: more arguments may follow.
        refusal: why a call cannot be right, None if it can.
        of_result: what is left of `refusal` when the caller gives the types of the arguments.
    """

    text: str
    restype: Any = None
    argtypes: tuple[Any, ...] | None = None
    names: tuple[str, ...] = ()
    variadic: bool = False
    refusal: Refusal | None = None
    of_result: Refusal | None = None


class Sizes(NamedTuple):
    """The parameters `x[n]` of a function, and those that tell their sizes.

    Attributes:
        arrays: positions and types of the arrays.
        numbers: positions and names of the numbers.
    """

    arrays: tuple[tuple[int, Pointer], ...]
    numbers: tuple[tuple[int, str], ...]

    @classmethod
    def of(cls, told: Declared) -> Sizes | None:
        """None if no parameter is one whose size another tells."""
        types = enumerate(told.argtypes or ())
        named = [
            (i, t, re.findall(r"[A-Za-z_]\w*", " ".join(t.dims)))
            for i, t in types
            if isinstance(t, Pointer)
        ]
        numbers = {
            (i, name) for i, name in enumerate(told.names) for _, _, names in named if name in names
        }
        known = {name for _, name in numbers}
        arrays = [(i, t) for i, t, names in named if known.intersection(names)]
        return cls(tuple(arrays), tuple(numbers)) if arrays else None

    def values(self, args: tuple[Any, ...]) -> dict[str, int]:
        """The numbers among arguments."""
        found = {}
        for i, name in self.numbers:
            value = args[i]
            if type(value) is int:
                found[name] = value
                continue
            with suppress(TypeError):  # what is wrong with it is said by itself
                found[name] = index(getattr(value, "value", value))
        return found


def _number(words: Sequence[str]) -> Number | None:
    """The type of numbers that words of C name."""
    if len(words) == 1 and words[0] in argument_types.KINDS:
        word = argument_types.ALIASES.get(*words, *words)
        size = argument_types.SIZES.get(word) or ffi.sizeof(word)
        return Number(argument_types.KINDS[word], size)
    rest = sorted(word for word in words if word not in ("int", "signed", "unsigned"))
    complex_words = {"complex", "_Complex"}
    if complex_words.intersection(rest):
        part = _number([word for word in rest if word not in complex_words] or ["double"])
        return Number("complex", 2 * part.size) if part and part.kind == "float" else None
    if rest == ["double", "long"]:
        return Number("float", _LONG_DOUBLE)
    if rest == ["char"]:
        return Number("char" if words == ["char"] else _sign(words), 1)
    size = {"": "int", "short": "short", "long": "long", "long long": "long long"}.get(
        " ".join(rest)
    )
    return Number(_sign(words), ffi.sizeof(size)) if words and size else None


def _sign(words: Sequence[str]) -> str:
    return "uint" if "unsigned" in words else "int"


def _parameter(text: str) -> tuple[str, Any]:
    """Name and type of a parameter; the type is None if ctypes has none."""
    p = functions_table.parameter(text)
    if not p.pointer:
        number = _number(list(p.words))
        return p.name, _parameter_type(number) if number and number.ctype else None
    head = text.partition("[")[0]
    stars = text.count("*") + ("[" in text)
    const = bool(re.search(r"\bconst\b", head.partition("*")[0]))
    # what pointers to pointers point at is for the function and its caller
    element = _number(list(p.words)) if stars == 1 or p.dims else None
    return p.name, Pointer(p.text, element, const or (stars > 1 and not p.dims), p.dims)


def _result(text: str) -> tuple[bool, Any]:
    """Whether ctypes has the type of a result, and that."""
    stars = text.count("*")
    words = [w for w in re.findall(r"\w+", text) if w not in ("const", "volatile", "restrict")]
    number = _number(words)
    if stars:
        const = bool(re.search(r"\bconst\b", text.partition("*")[0]))
        return True, _pointer_result(number if stars == 1 else None, const)
    if words == ["void"]:
        return True, None
    return number is not None and number.ctype is not None, number and number.ctype


def _pointer_result(target: Number | None, const: bool) -> Any:
    if target is None or target.ctype is None:
        return ctypes.c_void_p
    if target.kind == "char":  # of what is not const the caller needs the address, to free it
        return ctypes.c_char_p if const else ctypes.POINTER(ctypes.c_char)
    return ctypes.POINTER(target.ctype)


def of_texts(name: str, result: str, parameters: str, text: str) -> Declared:
    """A function whose types are told in C.

    Args:
        result: type of the result, "" if it is unknown.
        parameters: in C, separated by commas; "?" if they are unknown.
        text: all of it, for people.
    """
    argtypes: list[Any] | None = None
    names: list[str] = []
    refusal: Refusal | None = None
    variadic = False
    if parameters != "?":
        found = functions_table.split(parameters)
        variadic = bool(found) and found[-1].strip() == "..."
        argtypes = []
        for i, one in enumerate(found[:-1] if variadic else found):
            parameter, ctype = _parameter(one)
            if ctype is None:
                refusal = _no_type(f"parameter {i}", " ".join(one.split()))
                argtypes = None
                break
            argtypes.append(ctype)
            names.append(parameter)
    known, restype = _result(result) if result else (False, None)
    of_result = None
    if not known:
        of_result = _no_type("its result", result) if result else UNKNOWN_RESULT
    if argtypes is None and not refusal:
        refusal = Refusal("no prototype says what it takes", True) if result else UNKNOWN
    return Declared(
        text,
        restype,
        None if argtypes is None else tuple(argtypes),
        tuple(names),
        variadic,
        refusal or of_result,
        of_result,
    )


def _no_type(what: str, text: str) -> Refusal:
    return Refusal(f"ctypes has no type for {what}, {text}")


def of_row(row: functions_table.Row) -> Declared:
    """A function as the table of its library has it."""
    start, end = row.prototype.find("("), row.prototype.rfind(")")
    if not 0 < start < end:
        types = "..." if row.types == "?" else row.types
        return of_texts(row.name, "", row.types, f"{row.name}({types})")
    result = row.prototype[:start].rstrip().removesuffix(row.name)
    return of_texts(row.name, result.strip(), row.prototype[start + 1 : end], row.prototype)


def of_dwarf(name: str, function: Function) -> Declared:
    told = [*(p.spelling for p in function.parameters), *["..."] * function.variadic]
    text = function.result.declaration(f"{name}({', '.join(told) or 'void'})")
    argtypes = [_parameter_of_dwarf(p) for p in function.parameters]
    ok, restype = _result_of_dwarf(function.result)
    refusal = of_result = None if ok else _no_type("its result", function.result.spelling)
    if not function.is_ordinary:
        refusal = of_result = Refusal("it is not called as C functions are")
    elif None in argtypes:
        i = argtypes.index(None)
        refusal = _no_type(f"parameter {i}", function.parameters[i].spelling)
    types = None if refusal else tuple(argtypes)
    return Declared(text, restype, types, (), function.variadic, refusal, of_result)


def _number_of_dwarf(found: CType) -> Number | None:
    if found.kind == "enum":
        return Number("int", found.size)
    if found.kind == "float" and found.size > 8:  # several have one size
        return _number(found.base.split())
    is_number = found.kind in ("int", "uint", "char", "bool", "float", "complex")
    return Number(found.kind, found.size) if is_number else None


def _parameter_of_dwarf(found: CType) -> Any:
    """What `argtypes` has for a parameter; None if ctypes has no type for it."""
    if found.kind == "pointer" and found.target is not None:
        target = found.target
        dims = ("", *("" if d is None else str(d) for d in target.dims)) if target.dims else ()
        const = target.text.startswith("const ") or target.kind == "pointer"
        while target.dims and target.target is not None:
            target = target.target
        return Pointer(found.spelling, _number_of_dwarf(target), const, dims)
    number = _number_of_dwarf(found)
    return _parameter_type(number) if number and number.ctype else None


def _result_of_dwarf(found: CType) -> tuple[bool, Any]:
    if found.kind == "void":
        return True, None
    if found.kind == "pointer" and found.target is not None:
        number = _number_of_dwarf(found.target)
        return True, _pointer_result(number, found.target.text.startswith("const "))
    number = _number_of_dwarf(found)
    return number is not None and number.ctype is not None, number and number.ctype
