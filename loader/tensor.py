"""Tensors: n-dimensional arrays in memory that kernels can use as it is."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable, Iterator
from math import prod
from operator import index
from typing import TYPE_CHECKING, Any

from mblob import texts
from mblob.arguments import check_unmasked, is_capsule, no_numbers, whole, wrong_type
from mblob.device_types import HOST
from mblob.devices import Device
from mblob.dtype import DataType, type_text
from mblob.errors import (
    ArgumentError,
    ArgumentTypeError,
    ArgumentValueError,
    IncompatibleError,
    MblobError,
    also,
    did_you_mean,
)
from mblob.loader import _call
from mblob.typed import ElementType
from mblob.typed import Shape as Extents

if TYPE_CHECKING:
    import numpy as np


CPU = Device(1, 0)
# and what DLPack and ml_dtypes call them
_TVM_NAMES = {"e4m3_float8": "float8_e4m3fn", "e5m2_float8": "float8_e5m2"}


def _wrong_extent(extents: Any) -> MblobError:
    """The error for what is no sequence of int."""
    if isinstance(extents, (tuple, list)):
        for i, extent in enumerate(extents):
            if not hasattr(extent, "__index__"):
                return wrong_type("Shape", f"extents[{i}]", "int", extent)
    return wrong_type("Shape", "extents", "a sequence of int", extents)


class Shape(tuple):  # type: ignore[type-arg]
    """A shape, from any sequence of ints. Pass it where a Relax program or a function of the ffi
    dialect expects a shape, which is another type there than a tuple. In Python, a Shape is a
    tuple: `Shape([1, 2]) == (1, 2)`.

    Raises:
        TypeError: an extent is no int.
        OverflowError: an extent has more than 64 bits.
    """

    __slots__ = ()

    def __new__(cls, extents: Iterable[int] = ()) -> Shape:
        try:
            items = tuple(map(index, extents))
        except TypeError:
            raise _wrong_extent(extents) from None
        for extent in items:
            if not -(2**63) <= extent < 2**63:
                message = f"Shape: extents: {extent} has more than 64 bits"
                raise also(ArgumentError, OverflowError, ValueError)(message)
        return super().__new__(cls, items)

    def __repr__(self) -> str:
        return f"mblob.Shape({list(self)})"


class Tensor(_call.TensorBase):
    """A compact array, on the host or on a device.

    A tensor from `mblob.empty` or `mblob.array` owns its memory. Any other tensor is a view, and
    keeps the owner of the memory alive. Only a tensor that a kernel passes to a Python callback
    becomes invalid after the call; a callback that keeps an array over its memory is an error.

    numpy and other libraries read a tensor without a copy, through the buffer protocol or DLPack.

    Attributes:
        shape: elements per dimension.
        ndim, nbytes: number of dimensions, bytes of data.
        dtype: element type as text: "float32", "bool", "int8x4".
        device: where the memory is.
        readonly: whether it is read-only (weights in a mapped file).
        address: of the first element; on some devices (opencl) a handle.
    """

    __slots__ = ()

    def numpy(self) -> np.ndarray[Any, Any]:
        """A numpy array over the same memory, without a copy. For a tensor on a device: a copy.

        Vectors (lanes > 1) get an additional dimension.

        Raises:
            TypeError: numpy has no such element type.
            ImportError: numpy is not installed.
        """
        np = numpy_for("Tensor.numpy()")
        if self.device.device_type not in HOST:
            return self.copyto(CPU).numpy()
        bits = _bits_type(self.dtype)
        if bits:
            try:
                import ml_dtypes

                name = _TVM_NAMES.get(self.dtype, self.dtype)
                return np.asarray(self.view(bits)).view(getattr(ml_dtypes, name))  # type: ignore[no-any-return]
            except (ImportError, AttributeError):
                raise ArgumentTypeError(
                    f'numpy has no {self.dtype}; install ml_dtypes, or look at the bits: t.view("{bits}").numpy()'
                ) from None
        try:
            return np.asarray(memoryview(self))  # type: ignore[no-any-return]
        except BufferError as exc:
            raise ArgumentTypeError(str(exc)) from None

    asnumpy = numpy

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """`numpy()`. `numpy.asarray` calls this for a tensor without the buffer protocol (bfloat16,
        or on a device).

        Raises:
            ValueError: a copy is needed, and `copy` is False. TypeError, ImportError: as of
                `numpy`.
        """
        found = self.numpy()
        same = dtype is None or found.dtype == dtype
        if copy is False and not (same and self.device.device_type in HOST):
            raise ArgumentValueError(
                "Tensor.__array__: cannot be had without a copy, which copy=False forbids"
            )
        return found.astype(dtype or found.dtype, copy=bool(copy))

    def view(self, dtype: ElementType) -> Tensor:
        """The same memory as elements of another type of the same size.

        Args:
            dtype: the element type, such as "int8".

        Raises:
            ValueError: the sizes differ.
        """
        target, own = _parse("view", dtype), _parse("view", self.dtype)
        if (target[1] * target[2] + 7) // 8 != (own[1] * own[2] + 7) // 8:
            raise ArgumentValueError(
                f"view: an element of {self.dtype} is not as large as one of {dtype}"
            )
        return _call.tensor_retype(self, target)

    def _create_view(
        self,
        shape: Extents,
        dtype: ElementType | None = None,
        relative_byte_offset: int = 0,
    ) -> Tensor:
        """Part of the same memory under another shape, as `tvm.runtime.Tensor` has it.

        Args:
            dtype: the element type; by default that of this tensor.
            relative_byte_offset: where the view begins, from the first element of this tensor.

        Raises:
            ValueError: the view is not inside this tensor.
        """
        extents = _extents("_create_view", shape)
        code, bits, lanes = _parse("_create_view", dtype or self.dtype)
        start = whole("_create_view", "relative_byte_offset", relative_byte_offset, 0, 2**63 - 1)
        end = start + prod(extents) * ((bits * lanes + 7) // 8)
        if end > self.nbytes:
            raise ArgumentValueError(
                f"_create_view: a view of shape {extents} would occupy bytes {start} <= i_byte < {end},"
                f" but the Tensor being viewed only contains {self.nbytes} bytes"
            )
        return _call.tensor_part(self, extents, (code, bits, lanes), start)

    def __eq__(self, other: object) -> bool:
        """True if both are the same elements of memory: the same place, shape and type. Elements
        are not compared; `numpy()` does that."""
        if self is other:
            return True
        if not isinstance(other, Tensor):
            return NotImplemented
        return self._place() == other._place()

    def __hash__(self) -> int:
        return hash(self._place())

    def _place(self) -> tuple[Any, ...]:
        return self.address, self.device, self.dtype, self.shape

    def same_as(self, other: object) -> bool:
        """True if `other` is the same elements of memory: `==`, as TVM calls it."""
        return self == other

    @property
    def ctx(self) -> Device:
        """`device`, as TVM 0.7 and before call it."""
        return self.device

    context = ctx

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements from one index to the next, per dimension."""
        shape = self.shape
        return tuple(prod(shape[d + 1 :]) for d in range(len(shape)))

    def numel(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    def size(self, idx: int) -> int:
        """Elements along dimension `idx`; negative numbers count from the last one."""
        return self.shape[idx]

    def is_contiguous(self) -> bool:
        """True: tensors of mblob have no strides."""
        return True

    def data_ptr(self) -> int:
        """`address`."""
        return self.address

    def to_dlpack(self) -> Any:
        """A DLPack capsule over the same memory: `__dlpack__()`."""
        return self.__dlpack__()

    def copyfrom(self, source: Any) -> Tensor:
        """Copy elements into this tensor.

        Args:
            source: an array, a tensor, a DLPack capsule, anything with a buffer or `__dlpack__`, or
                nested lists; of this shape. Elements of another type are converted: to a
                floating-point type they are rounded, any other type must have their values. A
                tensor of an 8-bit float takes bytes (uint8) as they are.

        Returns:
            This tensor.

        Raises:
            ValueError: the shape differs, or this type does not have a value (3.7 for int32), or
                this tensor is read-only.
        """
        other = as_tensor(
            source, lists=isinstance(source, (list, tuple)), what="copyfrom: source: "
        )
        if other.shape != self.shape:
            expected, found = (f"{t.dtype} of shape {t.shape}" for t in (self, other))
            raise ArgumentValueError(f"copyfrom: {texts.say(texts.EXPECTED, expected, found)}")
        if not _takes(self.dtype, other.dtype):
            from mblob.loader.element_conversion import converted

            other = converted(other, self.dtype, "copyfrom")
        self._copy_bytes(other)
        return self

    def copyto(self, target: Tensor | Device) -> Tensor:
        """Copy into `target`, a tensor of the same shape, as `target.copyfrom(self)`; or into a new
        tensor on the device `target`. Returns the copy."""
        if isinstance(target, Device):
            target = _empty("copyto", self.shape, self.dtype, target)
        if not isinstance(target, Tensor):
            raise wrong_type("copyto", "target", "a Tensor or a Device", target)
        return target.copyfrom(self)

    def __setitem__(self, key: Any, value: Any) -> None:
        """`t[:] = array` copies into the whole tensor."""
        if self.readonly:
            raise ArgumentValueError(texts.READ_ONLY)
        if key != slice(None):
            raise ArgumentTypeError("a Tensor takes `t[:] = array`; for parts of it use t.numpy()")
        self.copyfrom(value)

    def __len__(self) -> int:
        if not self.shape:
            raise ArgumentTypeError("a tensor without dimensions has no length")
        return int(self.shape[0])

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """A pickle has the elements, also of a view and of a tensor on a device. What is unpickled
        has memory of its own on the same device, and is not read-only."""
        from mblob.loader.pickled_tensor import reduce_tensor

        return reduce_tensor(self, int(protocol))

    def __copy__(self) -> Tensor:
        """A tensor with the same elements in memory of its own, as numpy's arrays are copied."""
        return self.copyto(self.device)

    def __deepcopy__(self, memo: Any) -> Tensor:
        return self.copyto(self.device)

    def __repr__(self) -> str:
        values = _first_values(self)
        return f"<mblob.Tensor {self.dtype}{list(self.shape)} on {self.device}{values and ': '}{values}>"

    if not TYPE_CHECKING:  # type checkers know what a Tensor has

        def __getattr__(self, name: str) -> Any:
            """Only errors come here: numpy's `t.T`, `t.sum()`, a misspelt name."""
            if name.startswith("_"):  # of protocols, which are asked for all the time
                raise AttributeError(f"'Tensor' object has no attribute {name!r}")
            numpy = sys.modules.get("numpy")
            own = [n for n in dir(Tensor) if not n.startswith("_")]
            of_numpy = numpy is not None and hasattr(numpy.ndarray, name)
            hint = "" if of_numpy else did_you_mean(name, own)
            raise also(MblobError, AttributeError)(
                f"a Tensor has no attribute {name!r}{hint or f'; {_AS_NUMPY}'}"
            )


# Operators that numpy's arrays have and tensors have not, by the names of their methods.
_OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "matmul": "@", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "neg": "-", "abs": "abs()", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "getitem": "[...]",
}  # fmt: skip
_NUMBERS = (bool, int, float, complex)
_AS_NUMPY = "use t.numpy(), an array of numpy"


def _refused(operator: str) -> Any:
    """A method for an operator. With an array of numpy on the other side, numpy does it."""

    def refuse(tensor: Tensor, *others: Any) -> Any:
        for other in others if operator != "[...]" else ():
            if not (isinstance(other, (Tensor, list, tuple)) or type(other) in _NUMBERS):
                return NotImplemented
        raise ArgumentTypeError(f"a Tensor takes no {operator}; {_AS_NUMPY}")

    return refuse


for _name, _operator in _OPERATORS.items():
    setattr(Tensor, f"__{_name}__", _refused(_operator))
    if _operator in ("+", "-", "*", "@", "/", "//", "%", "**") and _name != "neg":
        setattr(Tensor, f"__r{_name}__", _refused(_operator))


_SHOWN = 6  # elements of a row, and of a whole tensor of several rows twice as many


def _first_values(tensor: Tensor) -> str:
    """The first elements of a tensor as nested lists, "" if there are none, or they are not in the
    memory of the processor, or not numbers that `struct` knows."""
    shape = tensor.shape
    if tensor.device.device_type not in HOST or not tensor.nbytes or len(shape) > _SHOWN:
        return ""

    try:
        view = memoryview(tensor)
    except BufferError:
        return ""
    if view.ndim != len(shape):  # vectors
        return ""
    is_small = prod(shape) <= 2 * _SHOWN
    shown = shape if is_small else (*(1 for _ in shape[1:]), min(shape[-1], _SHOWN))
    try:
        values = struct.unpack_from(f"={prod(shown)}{view.format}", view.cast("B"))
    except struct.error:  # complex numbers
        return ""
    return _nested(
        iter([f"{v:.6g}" if isinstance(v, float) else str(v) for v in values]), shape, shown
    )


def _nested(values: Iterator[str], shape: tuple[int, ...], shown: tuple[int, ...]) -> str:
    if not shape:
        return next(values)
    items = [_nested(values, shape[1:], shown[1:]) for _ in range(shown[0])]
    return f"[{', '.join(items + ['...'] * (shape[0] > shown[0]))}]"


def numpy_for(what: str) -> Any:
    """The numpy module, for `what`; it is no dependency of mblob."""
    try:
        import numpy
    except ImportError:
        raise ImportError(f"{what} needs numpy: pip install 'mblob[numpy]'", name="numpy") from None
    return numpy


def _bits_type(dtype: str) -> str | None:
    """The unsigned type whose elements are the bits of one that only ml_dtypes gives numpy, else
    None."""
    if dtype == "bfloat16":
        return "uint16"
    is_float8 = dtype in _TVM_NAMES or (dtype.startswith("float8_") and "x" not in dtype)
    return "uint8" if is_float8 else None


def _takes(expected: str, given: str) -> bool:
    """True if elements of a tensor may come from one of `given`: the same by either name, or bytes
    of a float8."""
    same = _TVM_NAMES.get(expected, expected) == _TVM_NAMES.get(given, given)
    return same or (given == "uint8" and _bits_type(expected) == given)


def _parse(function: str, dtype: Any) -> tuple[int, int, int]:
    """Code, bits and lanes of a data type given as text, or by something that has a name."""
    text = type_text(function, "dtype", dtype)
    try:
        parsed = DataType.parse(text)
    except ValueError as exc:
        raise ArgumentValueError(f"{function}: dtype: {exc}") from None
    return parsed.code, parsed.bits, parsed.lanes


def _extents(function: str, shape: Any) -> tuple[int, ...]:
    """A shape as a tuple: one integer, or a sequence of integers."""
    if hasattr(shape, "__index__") and not hasattr(shape, "__len__"):
        shape = (shape,)
    is_text = isinstance(shape, (str, bytes, bytearray))
    if (
        is_text
        or hasattr(shape, "keys")
        or not (hasattr(shape, "__len__") and hasattr(shape, "__getitem__"))
    ):
        raise wrong_type(function, "shape", "int or a sequence of int", shape)
    return tuple(
        whole(function, f"shape[{i}]", extent, 0, 2**63 - 1) for i, extent in enumerate(shape)
    )


def devices_of(function: str, device: Any) -> list[Device]:
    """A device, or each of several, as a list.

    Raises:
        TypeError: it is something else.
    """
    several = hasattr(device, "__iter__") and not isinstance(device, str)
    devices = list(device) if several else [device]
    for one in devices:
        if not isinstance(one, Device):
            raise wrong_type(function, "device", "a Device such as mblob.cpu(0)", one)
    return devices


def _empty(function: str, shape: Any, dtype: Any, device: Any) -> Tensor:
    if not isinstance(device, Device):
        raise wrong_type(function, "device", "a Device such as mblob.cpu(0)", device)
    extents, parts = _extents(function, shape), _parse(function, dtype)
    try:
        return _call.tensor_empty(extents, parts, device.device_type, device.device_id)
    except ValueError as exc:
        raise ArgumentValueError(f"{function}: shape: {exc}") from None
    except IncompatibleError as exc:  # the function of C that asks for the device
        raise IncompatibleError(str(exc).replace("TVMArrayAlloc", function, 1)) from None


def empty(shape: Extents, dtype: ElementType = "float32", device: Device = CPU) -> Tensor:
    """An uninitialised tensor, on the host aligned to 128 bytes.

    Args:
        shape: elements per dimension.
        device: device of the memory; any but the host needs a plug-in (`mblob-pack doctor` lists
            them).
        dtype: "float32", "int8", "bool", "bfloat16", ...; numpy dtypes are accepted.

    Raises:
        TypeError: an argument of another type.
        ValueError: no such data type, a negative dimension, or a size beyond the address space.
        IncompatibleError: no runtime for the device.
    """
    return _empty("empty", shape, dtype, device)


def array(source: Any, device: Device = CPU) -> Tensor:
    """A new tensor with the elements of a numpy array, a tensor, or nested lists.

    Args:
        source: what to copy. Lists become float64, int64 or bool.
        device: where the tensor lies.

    Returns:
        A compact tensor with memory of its own, on the host aligned to 128 bytes.

    Raises:
        TypeError: elements that are not plain numbers.
        ValueError: nested lists of different lengths.
        IncompatibleError: no runtime for the device.
    """
    view = as_tensor(source, lists=True, what="array: source: ")
    return _empty("array", view.shape, view.dtype, device).copyfrom(view)


def from_dlpack(source: Any) -> Tensor:
    """A view of the array of another library, without a copy.

    Args:
        source: an object with `__dlpack__`, or a DLPack capsule, which cannot be used again.

    Returns:
        The tensor. It keeps the memory of `source` alive.
    """
    return _call.tensor_from_dlpack(source)


def as_tensor(source: Any, lists: bool = False, what: str = "", *, copies: bool = True) -> Tensor:
    """`source` as a tensor: itself, a view of its memory, or a compact copy where it is strided.

    Args:
        lists: take nested lists and numbers too.
        what: begins the text of an error: "FUNCTION: ARGUMENT: ".
        copies: False: what is strided is an error.

    Raises:
        TypeError: it is no array of plain numbers.
        ValueError: nested lists of different lengths; or it is strided.
    """
    if isinstance(source, Tensor):
        return source
    element = getattr(source, "dtype", None)
    name = getattr(element, "name", "")
    bits = _bits_type(name)
    try:
        check_unmasked(source)
    except TypeError as exc:
        raise ArgumentTypeError(f"{what}{exc}") from None
    if bits and hasattr(source, "view"):  # ml_dtypes: no buffer protocol
        return as_tensor(source.view(bits), what=what, copies=copies).view(name)
    try:
        view = memoryview(source)
    except (TypeError, ValueError, BufferError) as exc:
        if is_capsule(source) or (
            hasattr(source, "__dlpack__") and not hasattr(source, "__array_interface__")
        ):
            return _lent_by(source, what, copies)
        if lists and isinstance(source, (list, tuple, int, float)):
            return as_tensor(_of_lists(source, what), what=what)
        # numpy's: the buffer protocol has no letter for it
        if isinstance(exc, ValueError) and element is not None:
            raise no_numbers(element, what=what) from None
        if isinstance(exc, ValueError):  # of a buffer that was released or closed
            found = texts.say(texts.GIVES_NO_NUMBERS, type(source).__name__, exc)
            raise ArgumentTypeError(f"{what}{found}") from None
        raise ArgumentTypeError(f"{what}expected an array, found {type(source).__name__}") from None
    dtype = _call.dtype_of_format(view.format, view.itemsize)
    if dtype is None:
        raise no_numbers(element, view.format, what)
    if not (view.c_contiguous or copies):
        raise ArgumentValueError(
            f"{what}the array is not contiguous, so its memory cannot be used as it is"
        )
    data: Any = view if view.c_contiguous else view.tobytes()
    return _call.tensor_view(data, tuple(view.shape or ()), dtype)


def _lent_by(source: Any, what: str, copies: bool) -> Tensor:
    try:
        return from_dlpack(source)
    except MblobError as exc:
        if copies and texts.DLPACK_GAPS in str(exc) and not is_capsule(source):
            from mblob.format import dlpack  # with ctypes

            dtype, shape, data = dlpack.read(source)
            return _call.tensor_view(data, shape, (*dtype,))
        exc.args = (f"{what}{str(exc).removeprefix('from_dlpack: ')}", *exc.args[1:])
        raise


def in_place(value: Any, what: str) -> Tensor:
    """A tensor over the very memory of `value`; `what` begins errors.

    Raises:
        TypeError: as `as_tensor`.
        ValueError: it is strided.
    """
    return as_tensor(value, what=what, copies=False)


def lent(given: Tensor | None, found: Tensor) -> Tensor:
    """`found`, a view of an executor's input; or the read-only tensor `given` before, if that still
    is the input."""
    return (
        given if given is not None and given.readonly and given.address == found.address else found
    )


def _of_lists(source: Any, what: str) -> Any:
    try:
        return numpy_for("an array of lists").asarray(source)
    except ValueError as exc:
        raise ArgumentValueError(f"{what}{exc}") from None
