"""Tensors: n-dimensional arrays in memory that kernels can use as it is."""

from __future__ import annotations

from loader import _call
from mblob.devices import Device

TYPE_CHECKING = False  # importing `typing` takes longer than everything else here
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    import numpy as np


CPU = Device(1, 0)
HOST_TYPES = (1, 3, 11)  # cpu, cuda_host, rocm_host: memory that the processor reads at the same addresses


class Tensor(_call.TensorBase):
    """A compact array, on the host or on a device.

    It owns its memory (`mblob.empty`, `mblob.array`) or views another's and keeps that.

    The buffer protocol and DLPack give its memory to numpy and others without a copy. A kernel's argument
    that a Python callback sees is valid during the call only.

    Attributes:
        shape: elements per dimension.
        ndim, nbytes: number of dimensions, bytes of data.
        dtype: element type as text: "float32", "bool", "int8x4".
        device: where the memory is.
        readonly: whether it must not be written (weights in a mapped file).
        address: of the first element; on some devices (opencl) a handle.
    """

    __slots__ = ()

    def numpy(self) -> np.ndarray[Any, Any]:
        """A numpy array over the same memory, no copy; of a tensor on a device, an array with a copy of it.

        Vectors (lanes > 1) get one dimension more.

        Raises:
            TypeError: numpy has no such element type.
            ImportError: numpy is not installed.
        """
        np = _numpy("Tensor.numpy()")
        if self.device.device_type not in HOST_TYPES:
            return self.copyto(CPU).numpy()
        bits = _bits_type(self.dtype)
        if bits:
            try:
                import ml_dtypes

                return np.asarray(self.view(bits)).view(getattr(ml_dtypes, self.dtype))  # type: ignore[no-any-return]
            except (ImportError, AttributeError):
                raise TypeError(
                    f'numpy has no {self.dtype}; install ml_dtypes, or look at the bits: t.view("{bits}").numpy()'
                ) from None
        try:
            return np.asarray(memoryview(self))  # type: ignore[no-any-return]
        except BufferError as exc:
            raise TypeError(str(exc)) from None

    asnumpy = numpy

    def view(self, dtype: str) -> Tensor:
        """The same memory as elements of another type of the same size.

        Raises:
            ValueError: the sizes differ.
        """
        target, own = _parse(dtype), _parse(self.dtype)
        if (target[1] * target[2] + 7) // 8 != (own[1] * own[2] + 7) // 8:
            raise ValueError(f"view: an element of {self.dtype} is not as large as one of {dtype}")
        return _call.tensor_retype(self, target)

    def copyfrom(self, source: Any) -> Tensor:
        """Copy the elements of an array, tensor or anything with a buffer or DLPack into this tensor.

        Raises:
            ValueError: dtype or shape differ, or this tensor is read-only.
        """
        other = as_tensor(source)
        if (other.dtype, other.shape) != (self.dtype, self.shape):
            raise ValueError(
                f"copyfrom: expected {self.dtype} of shape {self.shape}, found {other.dtype} of shape {other.shape}"
            )
        self._copy_bytes(other)
        return self

    def copyto(self, target: Tensor | Device) -> Tensor:
        """Copy into `target`, a tensor of the same dtype and shape, or a new one on a device. Returns it."""
        if isinstance(target, Device):
            target = _empty(self.shape, self.dtype, target)
        return target.copyfrom(self)

    def __setitem__(self, key: Any, value: Any) -> None:
        """`t[:] = array` copies into the whole tensor."""
        if key != slice(None):
            raise TypeError("a Tensor takes `t[:] = array`; for parts of it use t.numpy()")
        self.copyfrom(value)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a tensor without dimensions has no length")
        return int(self.shape[0])

    def __repr__(self) -> str:
        return f"<mblob.Tensor {self.dtype}{list(self.shape)} on {self.device}>"


def _numpy(what: str) -> Any:
    """The numpy module, for `what`; it is no dependency of mblob."""
    try:
        import numpy
    except ImportError:
        raise ImportError(f"{what} needs numpy: pip install numpy", name="numpy") from None
    return numpy


def _bits_type(dtype: str) -> str | None:
    """The unsigned type whose elements are the bits of one that only ml_dtypes gives numpy, else None."""
    if dtype == "bfloat16":
        return "uint16"
    return "uint8" if dtype.startswith("float8_") and "x" not in dtype else None


def _parse(dtype: str) -> tuple[int, int, int]:
    """Code, bits and lanes of a data type given as text."""
    from mblob.dtype import DataType

    parsed = DataType.parse(dtype)
    return parsed.code, parsed.bits, parsed.lanes


def _empty(shape: Sequence[int], dtype: str, device: Device) -> Tensor:
    return _call.tensor_empty(tuple(shape), _parse(dtype), device.device_type, device.device_id)


def empty(shape: int | Sequence[int], dtype: str = "float32", device: Device = CPU) -> Tensor:
    """An uninitialised tensor, on the host aligned to 128 bytes.

    Args:
        shape: elements per dimension.
        device: where; one other than the host needs a plug-in for it (`mblob-pack doctor` lists them).
        dtype: "float32", "int8", "bool", "bfloat16", ...; numpy dtypes are taken by their name.

    Raises:
        ValueError: no such data type, or a negative dimension.
        IncompatibleError: no runtime for the device.
    """
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None) or getattr(dtype, "__name__", str(dtype))
    if isinstance(shape, int):
        shape = (shape,)
    return _empty([int(extent) for extent in shape], name, device)


def array(source: Any, device: Device = CPU) -> Tensor:
    """A new tensor with the elements of a numpy array, a tensor, or nested lists.

    Raises:
        TypeError: elements that are no plain numbers.
        IncompatibleError: no runtime for the device.
    """
    view = as_tensor(source, lists=True)
    return _empty(view.shape, view.dtype, device).copyfrom(view)


def from_dlpack(source: Any) -> Tensor:
    """A tensor over the memory of an object with `__dlpack__` (or of a DLPack capsule), no copy."""
    return _call.tensor_from_dlpack(source)


def as_tensor(source: Any, lists: bool = False) -> Tensor:
    """`source` as a tensor: itself, a view of its memory, or a compact copy where it is strided.

    Raises:
        TypeError: it is no array of plain numbers.
    """
    if isinstance(source, Tensor):
        return source
    name = getattr(getattr(source, "dtype", None), "name", "")
    bits = _bits_type(name)
    if bits:  # ml_dtypes: no buffer protocol
        return as_tensor(source.view(bits)).view(name)
    try:
        view = memoryview(source)
    except (TypeError, ValueError, BufferError) as exc:
        if hasattr(source, "__dlpack__") and not hasattr(source, "__array_interface__"):
            return from_dlpack(source)
        if lists and isinstance(source, (list, tuple, int, float)):
            return as_tensor(_numpy("an array of lists").asarray(source))
        raise TypeError(f"expected an array, found {type(source).__name__}: {exc}") from None
    dtype = _call.dtype_of_format(view.format, view.itemsize)
    if dtype is None:
        raise TypeError(f"elements of format {view.format!r} are no native numbers; convert them with astype")
    data: Any = view if view.c_contiguous else view.tobytes()
    return _call.tensor_view(data, tuple(view.shape or ()), dtype)


def load_param_dict(data: Any) -> dict[str, Tensor]:
    """Named tensors of a serialized parameter dictionary (`save_param_dict`): views into `data`.

    Raises:
        FormatError: it is no parameter dictionary, or a damaged one.
    """
    from mblob.ndarray import read_param_dict

    return records_as_tensors(read_param_dict(data))


def records_as_tensors(records: Mapping[str, Any]) -> dict[str, Tensor]:
    """Tensors over the data of `mblob.ndarray.ArrayRecord`s."""
    return {
        name: _call.tensor_view(r.data, r.shape, (r.dtype.code, r.dtype.bits, r.dtype.lanes))
        for name, r in records.items()
    }
