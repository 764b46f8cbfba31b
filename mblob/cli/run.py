"""`mblob-pack run`: call one function of a library on data from files. It executes code of the library."""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mblob.cli.report import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

NAME = "run"

_OUTPUT = re.compile(r"([a-z]+[0-9]*)\[([0-9, ]*)\]")  # float32[2,3]
_INPUT = re.compile(r"(.+\.np[yz])(?::(.+))?")  # x.npy, x.npz, x.npz:key
_GRAPH_INPUT = re.compile(r"[A-Za-z_][\w.]*=.*")
_MAX_DIMENSION = 1 << 48  # of an output; more elements than any machine addresses


def configure(verbs: Any) -> None:
    """Add the verb to the command line."""
    summary = "call a function of a library"
    parser = verbs.add_parser(
        NAME,
        help=summary,
        description=f"{summary}. ARG is x.npy, x.npz:key, an integer, a float, or DTYPE[SHAPE]: an output, "
        "which starts as zeros.",
        epilog="example: mblob-pack run deploy.so vadd a.npy b.npy 'float32[1024]' 1024 -o out.npz",
    )
    parser.add_argument("file", metavar="FILE", help="shared library")
    parser.add_argument("function", metavar="FUNC", help="function to call")
    parser.add_argument("arguments", metavar="ARG", nargs="*", help="its arguments, in order")
    parser.add_argument("-o", "--output", metavar="OUT.npz", type=Path, help="write outputs here, as out0, out1, ...")
    parser.add_argument("--json", action="store_true", help="one JSON object, schema mblob/run/1, on stdout")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Load the library, call the function, print what it returned, write its outputs."""
    import mblob

    if args.output is not None and args.output.suffix != ".npz":
        raise UsageError(f"-o {args.output}: outputs are written as a .npz file", hint="-o out.npz")
    if _GRAPH_INPUT.fullmatch(args.function):
        raise UsageError(f"{args.function}: expected the name of a function, found an input of a graph",
                         hint="mblob-pack inspect FILE --functions lists the functions")  # fmt: skip
    values, outputs = read_arguments(args.arguments)
    module = mblob.load_module(args.file)
    try:
        function = module[args.function]
    except AttributeError as error:
        raise UsageError(f"{args.file}: {error}") from None
    try:
        result = function(*values)
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, mblob.MblobError):
            raise
        raise UsageError(str(error)) from error
    if args.output is not None:
        write_outputs(args.output, outputs)
    print_result(args, result, outputs)
    return 0


def load_numpy() -> Any:
    """The numpy module: arrays on the command line are its files and its types.

    Raises:
        IncompatibleError: it is not installed.
    """
    try:
        import numpy
    except ImportError:
        from mblob.errors import IncompatibleError

        raise IncompatibleError("an array on the command line needs numpy: pip install numpy") from None
    return numpy


def read_arguments(words: list[str]) -> tuple[list[Any], dict[str, np.ndarray[Any, Any]]]:
    """The values that `words` stand for, and those among them that are outputs, by name (out0, out1, ...)."""
    values: list[Any] = []
    outputs: dict[str, np.ndarray[Any, Any]] = {}
    for position, word in enumerate(words):
        value: Any
        if (match := _OUTPUT.fullmatch(word)) is not None:
            value = outputs[f"out{len(outputs)}"] = make_output(position, *match.groups())
        elif (match := _INPUT.fullmatch(word)) is not None:
            value = read_array(position, *match.groups())
        else:
            value = read_number(position, word)
        values.append(value)
    return values, outputs


def make_output(position: int, dtype: str, shape: str) -> np.ndarray[Any, Any]:
    """An array of zeros for an argument such as `float32[2,3]`; `float32[]` has no dimensions."""
    np = load_numpy()
    where = f"argument {position} ({dtype}[{shape}])"
    try:
        sizes = [int(s) for s in shape.split(",")] if shape.strip() else []
        kind = np.dtype(dtype)
        if kind.kind not in "biuf" or any(s > _MAX_DIMENSION for s in sizes):
            raise ValueError
        return np.zeros(sizes, kind)  # type: ignore[no-any-return]
    except (TypeError, ValueError):
        raise UsageError(f"{where}: expected a number type of numpy and a shape, such as float32[2,3]") from None
    except MemoryError:
        raise UsageError(f"{where}: this machine has no memory for an array of that shape") from None


def read_array(position: int, file: str, key: str | None) -> np.ndarray[Any, Any]:
    """The array in a .npy file, or the one called `key` in a .npz file (no key is needed if it is alone)."""
    import zipfile

    np = load_numpy()
    where = f"argument {position} ({file})"
    try:
        found = np.load(file, allow_pickle=False)
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UsageError(f"{where}: not a readable numpy file: {error}") from None
    if isinstance(found, np.ndarray):
        if key is not None:
            raise UsageError(f"{where}: a single array has no keys, found {key!r}")
        return found  # type: ignore[no-any-return]
    with found:
        names = ", ".join(found.files) or "none"
        if key is None:
            if len(found.files) != 1:
                raise UsageError(f"{where}: holds {len(found.files)} arrays ({names}): name one, {file}:NAME")
            key = found.files[0]
        if key not in found.files:
            raise UsageError(f"{where}: has no array {key!r}; it has: {names}")
        try:
            return _as_array(found, key)
        except (ValueError, EOFError, zipfile.BadZipFile) as error:
            raise UsageError(f"{where}: array {key!r} is not readable: {error}") from None


def _as_array(archive: Mapping[str, Any], key: str) -> np.ndarray[Any, Any]:
    value = archive[key]
    if not isinstance(value, load_numpy().ndarray):
        raise ValueError("it is no array")
    return value  # type: ignore[no-any-return]


def read_number(position: int, word: str) -> int | float:
    """An integer (also 0x10) or a float."""
    for kind in (lambda text: int(text, 0), float):
        try:
            return kind(word)
        except ValueError:
            continue
    raise UsageError(f"argument {position}: expected x.npy, x.npz:key, a number, or DTYPE[SHAPE], found {word!r}")


def write_outputs(path: Path, outputs: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Write the arrays beside `path` and rename: an old file there stays whole until the new one is.

    Raises:
        OSError: about `path`, whatever name the file had when it failed.
    """
    try:
        _write_beside(path, outputs)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None


def _write_beside(path: Path, outputs: Mapping[str, np.ndarray[Any, Any]]) -> None:
    np = load_numpy()
    arrays: dict[str, Any] = dict(outputs)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            np.savez(file, **arrays)
        mask = os.umask(0)
        os.umask(mask)
        Path(name).chmod(0o666 & ~mask)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def print_result(args: argparse.Namespace, result: Any, outputs: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Print the returned value, and the outputs unless they went to a file."""
    if args.json:
        rows = [{"name": k, "dtype": str(v.dtype), "shape": list(v.shape)} for k, v in outputs.items()]
        plain = result if isinstance(result, (type(None), bool, int, float, str)) else repr(result)
        report = {
            "schema": "mblob/run/1",
            "file": args.file,
            "function": args.function,
            "result": plain,
            "outputs": rows,
            "output_file": None if args.output is None else str(args.output),
        }
        print(json.dumps(report, indent=2))
        return
    if result is not None:
        print(result)
    if args.output is None:
        for name, value in outputs.items():
            print(f"{name} = {value.dtype}{list(value.shape)} {str(value).replace(chr(10), ' ')}")
