"""Arrays and numbers on the command line: what words stand for, and the file that outputs go to."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mblob.cli.report import PROGRAM, UsageError
from mblob.devices import device
from mblob.errors import needs_package
from mblob.interrupts import DeferredSignals
from mblob.temporary import folder_beside

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from mblob.devices import Device

_OUTPUT = re.compile(r"([a-z]+[0-9]*(?:_[a-z0-9]+)?)\[([0-9, ]*)\]")  # float32[2,3]
_SMALL_FLOAT = re.compile(r"bfloat16|float8_[a-z0-9]+")
_INPUT = re.compile(r"(.+\.np[yz])(?::(.+))?")  # x.npy, x.npz, x.npz:key, x.npy:bfloat16
_LABEL = re.compile(r"([A-Za-z_][\w.]*)=(.+)", re.DOTALL)  # data=x.npy
_SHOWN, _LINE = 60, 100  # values of an array that are printed, characters of a line
_MAX_DIMENSION = 1 << 48  # of an output; more elements than any machine addresses


def copied(tensor: Any) -> np.ndarray[Any, Any]:
    """A copy of a tensor; the bits of its elements where nothing here gives numpy their type."""
    try:
        return tensor.numpy().copy()  # type: ignore[no-any-return]
    except TypeError:
        bits = {"bfloat16": "uint16"}.get(tensor.dtype, "uint8")
        return tensor.view(bits).numpy().copy()  # type: ignore[no-any-return]


def split_label(word: str) -> tuple[str, str] | None:
    """Name and value of a word such as `data=x.npy`; None for others, and for a file that has such
    a name."""
    match = _LABEL.fullmatch(word)
    found = _INPUT.fullmatch(word)
    if match is None or (found is not None and Path(found[1]).exists()):
        return None
    return match[1], match[2]


def devices_of(texts: Sequence[str]) -> list[Device]:
    """The devices of `--device`. A library may bring plug-ins that name their own: it is opened
    first.

    Raises:
        UsageError: one is not known.
    """
    try:
        return [device(text) for text in texts]
    except ValueError as error:
        raise UsageError(f"--device: {error}") from None


def load_numpy() -> Any:
    """The numpy module: arrays on the command line are its files and its types.

    Raises:
        IncompatibleError: it is not installed.
    """
    try:
        import numpy
    except ImportError:
        raise needs_package("an array on the command line", "numpy", "numpy") from None
    return numpy


def read_arguments(
    words: list[str], texts: Sequence[bool] = ()
) -> tuple[list[Any], dict[str, np.ndarray[Any, Any]]]:
    """The values that `words` stand for, and those among them that are outputs, by name (out0,
    out1, ...).

    Args:
        texts: of each parameter, whether it takes a text: the word as it is.

    A function's arguments are told by their place; names in front of them are for the reader.
    """
    values: list[Any] = []
    outputs: dict[str, np.ndarray[Any, Any]] = {}
    for position, given in enumerate(words):
        value: Any
        if position < len(texts) and texts[position]:
            values.append(given)
            continue
        label = split_label(given)
        word = given if label is None else label[1]
        if (match := _OUTPUT.fullmatch(word)) is not None:
            value = outputs[f"out{len(outputs)}"] = make_output(position, *match.groups())
        elif (match := _INPUT.fullmatch(word)) is not None:
            value = read_array(position, *match.groups())
        else:
            value = read_number(position, word)
        values.append(value)
    return values, outputs


def read_value(position: int, label: str, word: str) -> Any:
    """The array or number of the input `label`. No output can stand there: a type with a shape is
    an array of zeros, which is said."""
    if (match := _OUTPUT.fullmatch(word)) is not None:
        value = make_output(position, *match.groups())
        print(
            f"{PROGRAM}: note: input {label!r} is {word} filled with zeros; {label}=x.npy gives it"
            " values",
            file=sys.stderr,
        )
        return value
    match = _INPUT.fullmatch(word)
    return read_number(position, word) if match is None else read_array(position, *match.groups())


def values_text(array: np.ndarray[Any, Any]) -> str:
    """The values of an array, to stand behind its type: on the same line if they fit, else below it as
    numpy wraps them; of many only the first and last."""
    text = str(load_numpy().array2string(array, threshold=_SHOWN))
    line = " ".join(text.split("\n"))
    below = text.replace("\n", "\n  ")
    return f" {line}" if len(line) <= _LINE else f"\n  {below}"


def make_output(position: int, dtype: str, shape: str) -> np.ndarray[Any, Any]:
    """An array of zeros for an argument such as `float32[2,3]`; `float32[]` has no dimensions."""
    np = load_numpy()
    where = f"argument {position} ({dtype}[{shape}])"
    try:
        sizes = [int(s) for s in shape.split(",")] if shape.strip() else []
        kind = small_float(position, dtype)
        if kind is None:
            kind = np.dtype(dtype)
            if kind.kind not in "biuf":
                raise ValueError
    except (TypeError, ValueError):
        raise UsageError(
            f"{where}: expected a number type of numpy and a shape, such as float32[2,3]"
        ) from None
    try:
        if any(s > _MAX_DIMENSION for s in sizes):
            raise MemoryError
        return np.zeros(sizes, kind)  # type: ignore[no-any-return]
    except (MemoryError, ValueError):  # more bytes than numpy counts
        raise UsageError(
            f"{where}: this machine has no memory for an array of that shape"
        ) from None


def small_float(position: int, name: str) -> np.dtype[Any] | None:
    """The type that ml_dtypes gives numpy, None for a name that is none of these.

    Raises:
        UsageError: ml_dtypes has no such type. IncompatibleError: it is not installed.
    """
    if not _SMALL_FLOAT.fullmatch(name):
        return None
    try:
        import ml_dtypes
    except ImportError:
        raise needs_package(f"argument {position}: {name}", "ml_dtypes", "numpy") from None
    if not hasattr(ml_dtypes, name):
        raise UsageError(f"argument {position}: ml_dtypes has no {name}")
    return load_numpy().dtype(getattr(ml_dtypes, name))  # type: ignore[no-any-return]


def as_type(
    where: str, array: np.ndarray[Any, Any], kind: np.dtype[Any] | None
) -> np.ndarray[Any, Any]:
    """The array of a file, whose bytes are elements of `kind` if one is given."""
    array = with_bits(array)
    if kind is None:
        return array
    if array.dtype.itemsize != kind.itemsize:
        raise UsageError(
            f"{where}: elements of {array.dtype} have {array.dtype.itemsize} bytes, of {kind}"
            f" {kind.itemsize}"
        )
    return array.view(kind)


def read_array(position: int, file: str, key: str | None) -> np.ndarray[Any, Any]:
    """The array in a .npy file, or the one called `key` in a .npz file (no key is needed if it is
    alone). A type of ml_dtypes at the end of `key` is that of the elements, which files do not
    name."""
    import zipfile

    from mblob.packager.path_arguments import existing_file

    np = load_numpy()
    where = f"argument {position} ({file})"
    try:
        found = np.load(existing_file(Path(file), f"argument {position}"), allow_pickle=False)
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UsageError(f"{where}: not a readable numpy file: {error}") from None
    kind = None
    if key is not None and (kind := small_float(position, key.rpartition(":")[2])) is not None:
        key = key.rpartition(":")[0] or None
    if isinstance(found, np.ndarray):
        if key is not None:
            raise UsageError(f"{where}: a single array has no keys, found {key!r}")
        return as_type(where, found, kind)
    with found:
        names = ", ".join(found.files) or "none"
        if key is None:
            if len(found.files) != 1:
                raise UsageError(
                    f"{where}: holds {len(found.files)} arrays ({names}): name one, {file}:NAME",
                    hint=f"parameters that a model takes as a tuple: {PROGRAM} add FILE --params {file} -o OUT.so",
                )
            key = found.files[0]
        if key not in found.files:
            raise UsageError(f"{where}: has no array {key!r}; it has: {names}")
        try:
            return as_type(where, _as_array(found, key), kind)
        except (ValueError, EOFError, zipfile.BadZipFile) as error:
            raise UsageError(f"{where}: array {key!r} is not readable: {error}") from None


def with_bits(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array of a type that numpy files have not as the bits of its elements: of an 8-bit float
    as uint8.

    Files have such types of ml_dtypes as plain bytes, or under names that numpy cannot read.
    """
    plain = array.dtype.kind == "V" and array.dtype.names is None and array.dtype.subdtype is None
    foreign = plain or array.dtype.type.__module__.partition(".")[0] == "ml_dtypes"
    return (
        array.view(f"u{array.dtype.itemsize}")
        if foreign and array.dtype.itemsize in (1, 2)
        else array
    )


def _as_array(archive: Mapping[str, Any], key: str) -> np.ndarray[Any, Any]:
    value = archive[key]
    if not isinstance(value, load_numpy().ndarray):
        raise ValueError("it is no array")
    return value  # type: ignore[no-any-return]


def read_number(position: int, word: str) -> int | float | complex:
    """An integer (also 0x10), a float, or a complex number (1+2j)."""
    for kind in (lambda text: int(text, 0), float, complex):
        try:
            return kind(word)
        except ValueError:
            continue
    raise UsageError(
        f"argument {position}: expected x.npy, x.npz:key, a number, or DTYPE[SHAPE], found {word!r}"
    )


def write_outputs(path: Path, outputs: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Write the arrays beside `path` and rename: an old file there stays whole until the new one
    is.

    Raises:
        OSError: about `path`, whatever name the file had when it failed.
    """
    try:
        _write_beside(path, outputs)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None


def _write_beside(path: Path, outputs: Mapping[str, np.ndarray[Any, Any]]) -> None:
    np = load_numpy()
    arrays: dict[str, Any] = {name: with_bits(array) for name, array in outputs.items()}
    with DeferredSignals(), folder_beside(path) as folder:
        temporary = folder / path.name
        with temporary.open("wb") as file:
            np.savez(file, **arrays)
        temporary.replace(path)
