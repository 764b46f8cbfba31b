"""Weights: the files and objects that people have them in, and the modules and files made of them.

A file is told by its first bytes: `.safetensors`, `.npz`, `.npy`, or what `save_param_dict` wrote.
"""

from __future__ import annotations

import os
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from mmap import ACCESS_READ, mmap
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Union

from mblob import json_text
from mblob.arguments import EMPTY_NAME, mapping
from mblob.bytes.mapping import map_file
from mblob.bytes.native_copy import crc32
from mblob.bytes.payload_source import BytesPayload, FilePayload, Payload
from mblob.dtype import FLOAT, DataType
from mblob.errors import FormatError, MblobError, did_you_mean, listed
from mblob.format import npy, safetensors
from mblob.format.ndarray import PARAMS_MAGIC, ArrayRecord, read_param_dict
from mblob.format.type_keys import SAFETENSORS
from mblob.module import Module
from mblob.packager.errors import BuildError, BuildTypeError, warn
from mblob.packager.modules.nodes import (
    PayloadNode,
    PiecesPayload,
    node_of,
    payload_of,
    record_of,
    suggesting,
)
from mblob.packager.path_arguments import checked_path, existing_file
from mblob.temporary import replacing

if TYPE_CHECKING:
    from zipfile import ZipFile, ZipInfo

# Files that people would read as something else, and what writes such a file.
_OTHER_FORMATS = {
    ".npz": "numpy.savez",
    ".npy": "numpy.save",
    ".params": "save_param_dict and write its bytes",
}
_ZIP = (b"PK\3\4", b"PK\5\6")  # with members, and without any
SHOWN = 20  # names that an error lists
_STEP = 1 << 20  # bytes of a compressed member that are in memory
_STORED = 0  # the method of members that are not compressed
KINDS = ".safetensors, .npz, .npy, or a file of save_param_dict"


@suggesting("; give a dictionary of arrays by name: {'w': array}")
def safetensors_module(weights: Any, *, order: Any = None) -> Module:
    """Named weights (type key safetensors). mblob aligns them in the library. After loading, the
    tensors are views of the mapped file.

    Args:
        weights: a dictionary of arrays by name, such as a `state_dict` of PyTorch; a path to a file
            of weights; or the bytes of a safetensors file. A safetensors file is packed unchanged.
            If you give its path, only its header is read now.
        order: the weights are the parameters of the Relax program that imports the module. They are
            written anew, and `VirtualMachine(...).params` is a tuple of them in this order: a list of
            their names, the path of a JSON file with such a list, or True for the order of `weights`.
            Tensors that the list does not name are left out, with a warning.
            Then `weights` may also be a folder with `tensor-cache.json` or `ndarray-cache.json`, as
            TVM and MLC write it.

    Raises:
        OSError: no file at the path.
        FormatError: the file is no file of weights, or it is damaged.
        BuildError: `weights` is none of these, or safetensors does not have the element type or the
            name of a tensor.
    """
    who = "safetensors_module"
    if order is not None and order is not False:
        return _parameters(who, weights, order)
    if isinstance(weights, Mapping):
        arrays = records(weights)
        pieces = _encoded(who, arrays)
        return _module(PiecesPayload(pieces), pieces[0].nbytes, arrays)
    is_array = (
        str(getattr(weights, "dtype", "uint8")) != "uint8"
    )  # those may be the bytes of a file
    no_names = is_array or isinstance(weights, (list, tuple))
    if no_names or weights is None or isinstance(weights, (int, float)):
        advice = "; give each array a name: {'w': array}" if no_names else ""
        raise BuildTypeError(
            f"{who}: expected a path, bytes, or a dictionary of arrays, found {type(weights).__name__}{advice}"
        )
    payload = payload_of(weights, who)
    if isinstance(payload, FilePayload):
        who, data = str(payload.path), map_file(payload.path)
        if kind_of(data):
            tensors = read_tensors(payload.path)
            pieces = _encoded(who, tensors)
            return _module(PiecesPayload(pieces), pieces[0].nbytes, tensors, [payload.path])
    elif isinstance(payload, BytesPayload):
        data = payload.data
    else:
        raise BuildTypeError(
            f"{who}: expected a path, bytes, or a dictionary of arrays, found an iterable"
        )
    offset, entries = _read(who, data)
    found = {e.name: e for e in entries}
    _check_names(who, found)
    module = _module(payload, offset, found)
    order = safetensors.order_of(data)
    if order is not None:
        _node(module).parameters = _rows(found, [name for name in order if name in found])
    return module


def _module(
    payload: Payload,
    data_at: int,
    tensors: _Tensors,
    files: Sequence[Path] = (),
) -> Module:
    """A module of a safetensors file, of which `data_at` bytes are the header.

    Args:
        files: that were read already.
    """
    node = PayloadNode(
        SAFETENSORS, payload, data=True, alignment=safetensors.ALIGNMENT, align_at=data_at
    )
    node.tensor_names = tuple(tensors)
    node.weights = _rows(tensors, node.tensor_names)
    node.files = files
    return Module(node=node)


_Tensors = Mapping[str, Union[ArrayRecord, safetensors.TensorEntry]]


def _rows(tensors: _Tensors, names: Iterable[str]) -> list[tuple[str, DataType, Sequence[int]]]:
    return [(name, tensors[name].dtype, tensors[name].shape) for name in names]


def _node(module: Module) -> PayloadNode:
    node = node_of(module)
    assert isinstance(node, PayloadNode)
    return node


def _parameters(who: str, weights: Any, order: Any) -> Module:
    """A module of the parameters of a program."""
    tensors, files, known = named_parameters(who, weights)
    names = _order(who, order, known or list(tensors))
    where = f"{order if isinstance(order, (str, os.PathLike)) else who}: order"
    counts = Counter(names)
    if not names or any(n not in tensors or counts[n] > 1 for n in counts):
        wrong = "; ".join(_wrong_names(counts, tensors))
        raise BuildError(f"{where}: expected names of the {len(tensors)} tensors, once; {wrong}")
    if left := [name for name in tensors if name not in counts]:
        text = listed([f"{name:.80}" for name in left], SHOWN)
        warn(f"{where}: has no {text}, so these tensors are left out; weights= packs tensors")
    tensors = {name: tensors[name] for name in names}
    pieces = _encoded(who, tensors, names)
    payload = PiecesPayload(pieces)
    module = _module(payload, pieces[0].nbytes, tensors, files)
    node = _node(module)
    node.parameters = node.weights
    by_size = sorted(names, key=lambda name: (-tensors[name].dtype.bits, name))
    if order is True and len(files) == 1 and names in (by_size, sorted(names)):
        data = map_file(files[0])
        kind = kind_of(data)
        node.is_order_of_names = kind == "params" or (not kind and not safetensors.is_ordered(data))
    return module


def _wrong_names(names: Mapping[str, int], tensors: Mapping[str, Any]) -> list[str]:
    """The differences between an order, as names and how often it has each, and the tensors that it is of."""
    unknown = [name for name in names if name not in tensors]
    near = did_you_mean(unknown[0], tensors)[2:] if unknown else ""
    kinds = {
        "missing": [name for name in tensors if name not in names],
        "unknown": unknown,
        "several times": [name for name, count in names.items() if count > 1],
    }
    shown = [
        f"{what}: {listed([f'{name:.80}' for name in row], SHOWN)}"
        for what, row in kinds.items()
        if row
    ]
    return [*shown, *([near] if near else [])]


def named_parameters(
    who: str, given: Any
) -> tuple[dict[str, ArrayRecord], list[Path], list[str] | None]:
    """As `named_arrays`, of a model that gets them.

    Raises:
        As of `safetensors_module`. BuildError: there are none.
    """
    found = named_arrays(who, given)
    if not found[0]:
        who = str(found[1][0]) if found[1] else who
        raise BuildError(f"{who}: no tensors in it; give the parameters of the model, or none")
    return found


def named_arrays(
    who: str, given: Any
) -> tuple[dict[str, ArrayRecord], list[Path], list[str] | None]:
    """Arrays of a dictionary, of a file of weights, or of a folder that TVM wrote; the files that were
    read; and the order of a program's parameters, if the file says it.

    Raises:
        As of `safetensors_module`.
    """
    if isinstance(given, Mapping):
        return records(given), [], None
    if not isinstance(given, (str, os.PathLike)):
        raise BuildTypeError(
            f"{who}: expected the path of a file or a dictionary of arrays, found {type(given).__name__}"
        )
    path = Path(checked_path(given, who))
    if path.is_dir():
        return *read_tensor_cache(path), None
    tensors, data = read_tensors(existing_file(path, who)), map_file(path)
    return tensors, [path], None if kind_of(data) else safetensors.order_of(data)


def _order(who: str, order: Any, known: list[str]) -> list[str]:
    """The names that a caller gave; `known`: those of the file."""
    if order is True:
        return known
    if isinstance(order, (str, os.PathLike)):
        path = checked_path(order, who)
        try:
            order = json_text.parse(Path(path).read_bytes())
        except json_text.JsonError as exc:
            raise BuildError(f"{path}: not JSON: {exc}") from None
        who = str(path)
    if not isinstance(order, (list, tuple)) or not all(isinstance(name, str) for name in order):
        raise BuildTypeError(f"{who}: order: expected a list of names of tensors")
    return list(order)


_CACHES = ("tensor-cache.json", "ndarray-cache.json")


def read_tensor_cache(folder: Path) -> tuple[dict[str, ArrayRecord], list[Path]]:
    """The arrays of a folder that TVM wrote, in its order, and its files.

    Raises:
        OSError: a file cannot be read.
        FormatError: it is no such folder, or damaged.
    """
    index = next((folder / name for name in _CACHES if (folder / name).is_file()), None)
    if index is None:
        raise FormatError(
            f"{folder}: expected {' or '.join(_CACHES)} in this folder", code="payload"
        )
    found: dict[str, ArrayRecord] = {}
    files = [index]
    try:
        for shard in json_text.parse(index.read_bytes())["records"]:
            if shard.get("format", "raw-shard") != "raw-shard":
                raise ValueError(f"shards of format {shard['format']!r}")
            path = folder / Path(str(shard["dataPath"])).name
            files.append(path)
            data = map_file(path)
            for row in shard["records"]:
                found[check_name(row["name"])] = _of_cache(row, data)
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        if isinstance(exc, MblobError) and exc.culprit:
            raise
        why = f"it has no {exc}" if isinstance(exc, KeyError) else str(exc)
        raise FormatError.about(
            str(index), f"not an index of tensors: {why}", code="payload"
        ) from None
    return found, files


def _of_cache(row: Any, data: memoryview) -> ArrayRecord:
    dtype, shape = DataType.parse(row["dtype"]), tuple(int(n) for n in row["shape"])
    begin, size, form = int(row["byteOffset"]), int(row["nbytes"]), row.get("format", "raw")
    if begin < 0 or size < 0 or begin > data.nbytes or size > data.nbytes - begin:
        raise ValueError(f"{row['name']!r} lies outside of its file")
    if form not in ("raw", "f32-to-bf16"):
        raise ValueError(f"{row['name']!r} has the format {form!r}")
    piece = data[begin : begin + size]
    if form == "f32-to-bf16" and dtype == DataType(FLOAT, 32):
        wide = bytearray(2 * size)  # the upper halves
        wide[2::4], wide[3::4] = piece[0::2], piece[1::2]
        piece = memoryview(wide)
    bits = 8 if dtype.bits == 1 else dtype.bits * dtype.lanes  # a bool is a byte
    if min(shape, default=0) < 0 or prod(shape) * bits != 8 * piece.nbytes:
        raise ValueError(f"{row['name']!r}: {piece.nbytes} bytes are no {dtype} of shape {shape}")
    return ArrayRecord(dtype, shape, piece)


def save_tensors(path: str | os.PathLike[str], tensors: Mapping[str, Any]) -> None:
    """Write a safetensors file.

    Args:
        path: of the file, which appears when it is complete.
        tensors: name -> numpy array, tensor, or anything with the buffer protocol or `__dlpack__`, such as the
            tensors of PyTorch; or a DLPack capsule, which cannot be used again.

    Raises:
        BuildError: a value is not an array, the format does not have its element type or its name,
            or the name of the file is that of another format.
        OSError: it cannot be written.
    """
    other = _OTHER_FORMATS.get(Path(checked_path(path, "save_tensors")).suffix)
    if other:
        raise BuildError(
            f"{path}: save_tensors writes a .safetensors file; name it so, or call {other}"
        )
    mapping("save_tensors", "tensors", tensors)
    pieces = _encoded("save_tensors", records(tensors))
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.writelines(pieces)


def records(arrays: Mapping[str, Any]) -> dict[str, ArrayRecord]:
    """Arrays by name as what is written of them.

    Raises:
        BuildError: a name that is no text, or empty, or a value that is no array.
    """
    mapping("weights", "tensors", arrays)
    found = {}
    for name, array in arrays.items():
        found[check_name(name)] = record_of(array, f"tensor {name!r}")
    return found


def check_name(name: Any) -> str:
    """The name of a tensor.

    Raises:
        BuildError: it is no text, or empty.
    """
    if not isinstance(name, str):
        raise BuildTypeError(
            f"weights: expected names of tensors as text, found {type(name).__name__} {name!r}"
        )
    if not name:
        raise BuildError(f"weights: tensor '': {EMPTY_NAME}")
    return name


def read_tensors(path: Path) -> dict[str, ArrayRecord]:
    """The arrays in a file by name, in its order; where the file has them as they are in memory
    they stay in its mapping.

    Args:
        path: a safetensors file, a `.npz`, a `.npy` (its name is that of the file without the
            suffix), or what `save_param_dict` wrote, TVM's or ours.

    Raises:
        OSError: it cannot be read.
        FormatError: it is none of these, or damaged, or a name is empty.
    """
    found = _read_tensors(path)
    _check_names(str(path), found)
    return found


def _check_names(who: str, names: Iterable[str]) -> None:
    """Refuse an empty name, which no program can mean."""
    if "" in names:
        raise FormatError.about(who, f"tensor '': {EMPTY_NAME}", code="payload")


def _read_tensors(path: Path) -> dict[str, ArrayRecord]:
    data = map_file(path)
    kind = kind_of(data)
    try:
        if kind == "params":
            return read_param_dict(data)
        if kind == "npy":
            return {path.stem: npy.read(data, str(path))}
        if kind == "npz":
            return _arrays_of_npz(path, data)
    except MblobError as exc:
        if exc.culprit:
            raise
        if not isinstance(exc, FormatError) or exc.code != "truncated":
            exc.prefix(str(path))
            raise
        what = f"the file ends too early, write or copy it again: {exc.plain}"
        raise FormatError.about(str(path), what, code=exc.code, offset=exc.offset) from None
    offset, entries = _read(str(path), data)
    return {
        e.name: ArrayRecord(e.dtype, e.shape, data[offset + e.begin : offset + e.end])
        for e in entries
    }


def kind_of(data: memoryview) -> str:
    """Of a file that is no safetensors file; "" if it may be one."""
    start = bytes(data[:8])
    if start == PARAMS_MAGIC.to_bytes(8, "little"):
        return "params"
    return "npz" if start[:4] in _ZIP else "npy" if start[:6] == npy.MAGIC else ""


def _arrays_of_npz(path: Path, data: memoryview) -> dict[str, ArrayRecord]:
    import zipfile

    found: dict[str, ArrayRecord] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            if any(Path(name).name == "data.pkl" for name in archive.namelist()):
                raise _of_torch(str(path))
            for info in archive.infolist():
                name, view = info.filename, _as_it_is(data, info)
                view = _unpacked(archive, info) if view is None else view
                array = npy.read(view, f"{path}:{name}")
                if found.setdefault(name.removesuffix(".npy"), array) is not array:
                    raise FormatError.about(
                        str(path),
                        f"two arrays called {name!r}; expected each name once",
                        code="payload",
                    )
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, zlib.error) as exc:
        raise FormatError.about(str(path), f"not a .npz file: {exc}", code="payload") from None
    return found


def _as_it_is(data: memoryview, info: ZipInfo) -> memoryview | None:
    """The bytes of a member in the mapping of its archive, as `numpy.savez` writes it; None of a member
    that is compressed or damaged."""
    head = bytes(data[info.header_offset : info.header_offset + 30])
    names = sum(int.from_bytes(head[i : i + 2], "little") for i in (26, 28))
    start = info.header_offset + 30 + names
    is_plain = info.compress_type == _STORED and not info.flag_bits & 1
    if not is_plain or head[:4] != _ZIP[0] or info.file_size > len(data) - start:
        return None
    view = data[start : start + info.file_size]
    return view if crc32(view) == info.CRC else None


def _unpacked(archive: ZipFile, info: ZipInfo) -> memoryview:
    """The bytes of a compressed member: in a file without a name, not in memory."""
    with archive.open(info) as member, TemporaryFile() as file:
        copyfileobj(member, file, _STEP)
        size = file.tell()
        file.flush()
        return memoryview(mmap(file.fileno(), size, access=ACCESS_READ) if size else b"")


def _of_torch(who: str) -> FormatError:
    new = str(Path(who).with_suffix(".safetensors"))
    return FormatError.about(
        who,
        f"a file of torch.save, whose pickles run code when they are read; expected {KINDS}. In PyTorch:"
        f" safetensors.torch.save_file(torch.load({who!r}, weights_only=True), {new!r})",
        code="payload",
    )


def _read(who: str, data: memoryview) -> tuple[int, list[safetensors.TensorEntry]]:
    """As `safetensors.read`; an error about what is no such file at all says what is expected."""
    if not data:
        raise FormatError(f"{who}: the file is empty; expected {KINDS}", code="payload")
    try:
        return safetensors.read(data)
    except FormatError as error:
        if (
            bytes(data[:1]) == b"\x80" and bytes(data[-1:]) == b"."
        ):  # a pickle, as torch.save wrote until 1.6
            raise _of_torch(who) from None
        if Path(who).name in _CACHES:
            folder = Path(who).parent
            raise FormatError(
                f"{who}: an index of tensors in the files beside it; give its folder, {folder}, as params",
                code=error.code,
            ) from None
        if bytes(data[8:9]) != b"{":
            kind = Path(who).suffix if Path(who).suffix in _OTHER_FORMATS else "safetensors"
            raise FormatError(
                f"{who}: not a {kind} file; expected {KINDS}", code=error.code
            ) from None
        error.prefix(who)
        raise


def _encoded(
    who: str, arrays: Mapping[str, ArrayRecord], order: Sequence[str] | None = None
) -> tuple[memoryview, ...]:
    """The pieces of a safetensors file of arrays.

    Raises:
        BuildError: a name or a type of elements that the format has not.
    """
    try:
        rows = [(name, a.dtype, a.shape, a.data) for name, a in arrays.items()]
        return safetensors.encode(rows, order)
    except ValueError as exc:
        raise BuildError(f"{who}: {exc}") from None
