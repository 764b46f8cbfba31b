"""Elements of one type as elements of another: what `Tensor.copyfrom` converts, and what it
refuses."""

from __future__ import annotations

from typing import Any

from mblob import texts
from mblob.dtype import COMPLEX, INT, UINT, DataType
from mblob.errors import ArgumentTypeError, ArgumentValueError
from mblob.loader.tensor import Tensor, as_tensor, empty, numpy_for


def converted(source: Tensor, dtype: str, who: str) -> Tensor:
    """The elements of `source` as `dtype`. A floating-point type takes rounded values. Any other
    type takes only values that it has.

    Raises:
        ValueError: a value that `dtype` does not have, or one of the types is none of numpy.
        ImportError: numpy is not installed.
    """
    numpy = numpy_for(who)
    try:
        own = empty(0, dtype).numpy().dtype
        given = source.numpy()
    except ArgumentTypeError:
        what = texts.say(texts.EXPECTED, dtype, source.dtype)
        raise ArgumentValueError(f"{who}: {what}, which mblob does not convert") from None
    kind = DataType.parse(dtype)
    with numpy.errstate(all="ignore"):
        lost = _lost(numpy, given, (kind.code, kind.bits))
        if lost is not None and lost.any():
            _refuse(numpy, given, lost, dtype, who)
        of_target = given.real if given.dtype.kind == "c" != own.kind else given
        return as_tensor(of_target.astype(own))


def _lost(numpy: Any, given: Any, target: tuple[int, int]) -> Any:
    """Of which elements `target`, a code and bits, does not have the value; None: of none."""
    code, bits = target
    is_complex = given.dtype.kind == "c"
    real = given.real if is_complex else given
    lost = given.imag != 0 if is_complex and code != COMPLEX else None
    if code not in (INT, UINT):  # a bool is a uint of one bit
        return lost
    low, end = (-(1 << (bits - 1)), 1 << (bits - 1)) if code == INT else (0, 1 << bits)
    if real.dtype.kind in "iub":
        outside = (real < low) | (real > end - 1)
    else:
        real = real.astype("float64")  # those of ml_dtypes too
        outside = (numpy.trunc(real) != real) | (real < float(low)) | (real >= float(end))
    return outside if lost is None else outside | lost


def _refuse(numpy: Any, given: Any, lost: Any, dtype: str, who: str) -> None:
    index = tuple(int(i) for i in numpy.argwhere(lost)[0])
    where = f"element [{', '.join(map(str, index))}]" if index else "the element"
    raise ArgumentValueError(
        f"{who}: {where} is {given[index]}, which {dtype} does not have; convert the source first, such as"
        f" numpy.asarray(x).astype({dtype!r})"
    )
