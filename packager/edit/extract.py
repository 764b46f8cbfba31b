"""`mblob.extract`: payloads and single tensors of a library as files. No code of the library runs.

Names of files are made of what the library says, but never lead out of the folder: see
`_file_name`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Union

from mblob import json_text
from mblob.arguments import wrong_type
from mblob.bytes.sink import advance
from mblob.errors import FormatError, NotFoundError, also, did_you_mean, one_of
from mblob.format import npy, safetensors
from mblob.format.type_keys import ROWS, SAFETENSORS, WEBGPU
from mblob.inspect.library import EntryView, Library
from mblob.inspect.tensors import StoredTensor
from mblob.named_tuple import NamedTuple
from mblob.packager.edit.folder_writer import CHUNK, FolderWriter
from mblob.packager.errors import BuildError, BuildTypeError
from mblob.packager.path_arguments import checked_path
from mblob.temporary import replacing

if TYPE_CHECKING:
    from mblob.typed import TensorFormat

LISTED = 20  # names that an error gives
FORMATS = ("npy", "safetensors")
JSON_LIMIT = 16 << 20  # bytes of a text that is read to see whether it is JSON
SUFFIX = re.compile(r"[a-z0-9_]{1,12}")  # formats of payloads that may end a file name
FILE_SUFFIX = re.compile(r"\.[A-Za-z]\w*")  # of what is a file's name rather than a folder's
PAYLOAD_SUFFIXES = (".payload", ".bin")  # of an output that is a file, not a folder

Wanted = Union[int, str]
Found = tuple[EntryView, StoredTensor]


class Output(NamedTuple):
    """A file to write: its name, and pieces of memory whose bytes follow each other in it."""

    name: str
    pieces: tuple[memoryview, ...]


class Plan(NamedTuple):
    """The plan of the files to write.

    Attributes:
        folder: where to; None for one file that the caller named.
        files: describes the files, each when its turn comes: there may be a million.
        problem: the error about what cannot be written, raised when the files are there.
    """

    folder: Path | None
    files: Callable[[], Iterable[Output]]
    problem: BuildError | None = None


def extract(
    library: str | os.PathLike[str] | Library,
    output: str | os.PathLike[str],
    *,
    entries: Sequence[Wanted] | None = None,
    tensors: Sequence[str] | bool = False,
    format: TensorFormat | None = None,
    written: Callable[[Path], None] | None = None,
    force: bool = True,
) -> list[Path]:
    """Write payloads or tensors to files. Each file replaces an existing one by a rename, when it
    is complete. Nothing is written if one of the names is taken by a file that may not be replaced.

    Without `tensors`, each payload becomes INDEX-KEY.payload, byte for byte. Weights get the suffix
    .safetensors; other payloads that begin as JSON or .npy get .json or .npy. The code of a device
    module and the text of a graph become INDEX-KEY.FMT, too. With `tensors`, each tensor becomes
    INDEX-KEY.NAME.npy. Characters that do not belong into file names become `_`. A number is added
    to a name that is taken.

    Args:
        library: a path, or an open library.
        output: a folder, created if needed; or one file: `.npy` for one tensor, `.safetensors` for
            any number of tensors, `.payload` or `.bin` for the payload of one entry, `.safetensors`
            for that of a safetensors module.
        entries: only these: indices, or type keys; all by default.
        tensors: names, or True for all of them.
        format: "npy" or "safetensors" for tensors in a folder; by default the first that can hold
            each.
        written: called with the path of each complete file.
        force: replace existing files; False refuses them, in one error that names them.

    Returns:
        The paths of the files.

    Raises:
        BuildError: no such entry or tensor, an existing file that may not be replaced, a tensor of
            two entries, an element type that the format cannot hold. Without a `format`, all other
            tensors are written before the error names those that no format can hold.
        FormatError: the library is damaged, or has no blob.
        OSError: a file cannot be read or written.
        ValueError: a path is not a valid file name.
    """
    if format is not None and format not in FORMATS:
        raise BuildError(f"format: {one_of(FORMATS, format)}")
    if written is not None and not callable(written):
        raise wrong_type("extract", "written", "a callable", written, BuildTypeError)
    given = checked_path(output, "extract: output")
    with nullcontext(library) if isinstance(library, Library) else Library(library) as opened:
        if opened.blob is None:
            raise FormatError(
                f"{opened.path}: it has no blob, so there is nothing to extract", code="no_blob"
            )
        done = []
        plan = _planned(opened, given, entries, tensors, format)
        for path in _written(plan, opened.path, force):
            done.append(path)
            if written:
                written(path)
        return done


def _planned(
    library: Library,
    given: str,
    wanted: Sequence[Wanted] | None,
    names: Sequence[str] | bool,
    format: str | None,
) -> Plan:
    """The plan of all files to write; everything that can be refused is refused here, before
    anything is written."""
    wanted = [wanted] if isinstance(wanted, str) else wanted
    names = [names] if isinstance(names, str) else names
    for argument, value in (("entries", wanted), ("tensors", names)):
        if not (value is None or isinstance(value, (bool, Iterable))):
            raise wrong_type("extract", argument, "a list", value, BuildTypeError)
    entries = chosen_entries(library, wanted)
    output = Path(given)
    is_folder = output.is_dir() or given.endswith(os.sep)  # which a Path forgets
    if names is not False:
        tensors = chosen_tensors(library, entries, None if names is True else list(names))
        if not is_folder and output.suffix in (".npy", ".safetensors"):
            return _plan_of(None, [_one_file(tensors, output)])
        _check_folder(output, is_folder, ".npy, .safetensors")
        if format:
            return Plan(output, _one_each(tensors, format))
        return _one_file_per_tensor(library, tensors, output)
    if not is_folder and (
        output.suffix in PAYLOAD_SUFFIXES or output.is_file() or output.suffix == ".safetensors"
    ):
        return _plan_of(None, [_payload_file(library, entries, output)])
    _check_folder(output, is_folder, ", ".join(PAYLOAD_SUFFIXES))
    files = _Names()
    plan = []
    for entry in entries:
        stem = f"{entry.index}-{_file_name(entry.type_key)}"
        plan.append(Output(files.new(stem, payload_suffix(entry)), (entry.view(),)))
        content = readable(entry)
        if content is not None:
            plan.append(Output(files.new(stem, content[0]), (content[1],)))
    return _plan_of(output, plan)


def _plan_of(folder: Path | None, files: Sequence[Output]) -> Plan:
    return Plan(folder, lambda: files)


def _check_folder(output: Path, is_folder: bool, files: str) -> None:
    """Refuse to make a folder whose name is that of a file: `t.txt`, which more likely was to be
    one."""
    if not is_folder and FILE_SUFFIX.fullmatch(output.suffix):
        raise BuildError(
            f"{output}: expected a name that ends in {files}; to create a folder of that name, end it with /"
        )


def _written(plan: Plan, library: Path, force: bool) -> Iterator[Path]:
    """Write the files; the path of each when it is done."""
    if plan.folder is None:
        for file in plan.files():
            _write_named(file, library, force)
            yield Path(file.name)
        return
    info = library.stat()
    with FolderWriter(plan.folder, (info.st_dev, info.st_ino), replace=force) as folder:
        folder.check(file.name for file in plan.files())
        for file in plan.files():
            folder.write(file.name, file.pieces)
            yield plan.folder / file.name
    if plan.problem:
        raise plan.problem


def chosen_entries(library: Library, wanted: Sequence[Wanted] | None) -> list[EntryView]:
    """The entries that were asked for, each once; all with a payload if none were.

    Raises:
        BuildError: one that is not there, or has no payload.
    """
    if wanted is None:
        return [e for e in library.entries if e.offset is not None]
    by_word: dict[str, list[EntryView]] = {}
    for entry in library.entries:
        for word in {str(entry.index), entry.type_key}:
            by_word.setdefault(word, []).append(entry)
    found: dict[int, EntryView] = {}
    for wish in wanted:
        matches = by_word.get(str(wish), [])
        if not matches:
            known = ", ".join(f"{e.index} ({e.type_key:.80})" for e in library.entries[:LISTED])
            raise also(BuildError, NotFoundError)(
                f"no entry {wish!r} in {library.path}; there are {known}{did_you_mean(wish, by_word)}"
            )
        with_payload = [e for e in matches if e.offset is not None]
        if not with_payload:
            raise BuildError(
                f"entry {wish!r} of {library.path} is the library itself, which has no payload"
            )
        found.update((e.index, e) for e in with_payload)
    return [found[i] for i in sorted(found)]


def chosen_tensors(
    library: Library, entries: Iterable[EntryView], names: Sequence[str] | None
) -> list[Found]:
    """The tensors of these names, or all.

    Raises:
        BuildError: one that is not there, or there are none. FormatError: a payload breaks its
            grammar.
    """
    found = []
    for entry in entries:
        try:
            found += [(entry, tensor) for tensor in entry.tensors]
        except FormatError as error:
            error.prefix(entry.place)
            raise
    if not found:
        raise BuildError(
            f"{library.path}: these entries have no tensors; leave tensors= out to write payloads"
        )
    if names is None:
        return found
    known = {tensor.name for _, tensor in found}
    for name in names:
        if name not in known:
            listed = ", ".join(f"{n:.80}" for n in sorted(known)[:LISTED])
            more = f" and {len(known) - LISTED} more" if len(known) > LISTED else ""
            raise also(BuildError, NotFoundError)(
                f"no tensor {name[:80]!r} in {library.path}; there are {listed}{more}{did_you_mean(name, known)}"
            )
    chosen = set(names)
    return [(entry, tensor) for entry, tensor in found if tensor.name in chosen]


def _one_file(tensors: Sequence[Found], output: Path) -> Output:
    if output.suffix == ".npy":
        if len(tensors) > 1:
            raise BuildError(
                f"{output}: .npy holds one tensor, {len(tensors)} were asked for ({_where(tensors)}); choose one with"
                " tensors= and entries=, or write .safetensors or to a folder"
            )
        return Output(str(output), _npy(*tensors[0]))
    return Output(str(output), _safetensors(tensors))


def _one_each(tensors: Sequence[Found], format: str) -> Callable[[], Iterator[Output]]:
    """A file for each tensor.

    Raises:
        BuildError: at once, if the format cannot hold one of them.
    """
    make = _npy if format == "npy" else _safetensors_of_one
    can = npy.descr_of if format == "npy" else safetensors.dtype_name
    refused = {tensor.dtype for _, tensor in tensors if can(tensor.dtype) is None}
    if refused:
        make(*next(found for found in tensors if found[1].dtype in refused))

    def files() -> Iterator[Output]:
        names = _Names()
        for entry, tensor in tensors:
            yield Output(names.new(_stem(entry, tensor), format), make(entry, tensor))

    return files


def _one_file_per_tensor(library: Library, tensors: Sequence[Found], output: Path) -> Plan:
    """A file for each tensor: .npy, or .safetensors for element types that numpy has not. What
    neither can hold is left out, and named when the others are written.

    Raises:
        BuildError: at once, if neither can hold any of them.
    """
    kept: list[Found] = []
    left: list[Found] = []
    for found in tensors:
        dtype = found[1].dtype
        (kept if npy.descr_of(dtype) or safetensors.dtype_name(dtype) else left).append(found)
    if not kept:
        _npy(*left[0])
    problem = None
    if left:
        types = ", ".join(sorted({str(tensor.dtype) for _, tensor in left}))
        problem = BuildError(
            f"{library.path}: not written, because neither .npy nor .safetensors can hold {types}: {_where(left)};"
            " write the payload: leave tensors= out"
        )
    return Plan(output, lambda: _named_each(kept), problem)


def _named_each(tensors: Sequence[Found]) -> Iterator[Output]:
    names = _Names()
    for entry, tensor in tensors:
        plain = npy.descr_of(tensor.dtype) is not None
        name = names.new(_stem(entry, tensor), "npy" if plain else "safetensors")
        yield Output(name, _npy(entry, tensor) if plain else _safetensors_of_one(entry, tensor))


def _stem(entry: EntryView, tensor: StoredTensor) -> str:
    return f"{entry.index}-{_file_name(entry.type_key)}.{_file_name(tensor.name)}"


def _safetensors_of_one(entry: EntryView, tensor: StoredTensor) -> tuple[memoryview, ...]:
    return _safetensors([(entry, tensor)])


def _npy(entry: EntryView, tensor: StoredTensor) -> tuple[memoryview, ...]:
    try:
        return memoryview(npy.header(tensor.dtype, tensor.shape)), tensor.data
    except ValueError as exc:
        hint = "write a .safetensors file, or format='safetensors'"
        if safetensors.dtype_name(tensor.dtype) is None:
            hint = "nor can .safetensors: write the payload, without tensors="
        raise BuildError(f"{entry.place}: tensor {tensor.name!r}: {exc}; {hint}") from None


def _safetensors(tensors: Sequence[Found]) -> tuple[memoryview, ...]:
    """A file of tensors, each name once."""
    ordered = sorted(tensors, key=lambda found: (-found[1].dtype.bits, found[1].name))
    names = sorted(tensor.name for _, tensor in ordered)
    for one, other in zip(names, names[1:]):
        if one == other:
            same = [found for found in ordered if found[1].name == one]
            raise BuildError(
                f"tensor {one!r} is there {len(same)} times ({_where(same)}); choose one with entries="
            )
    try:
        return safetensors.encode([(t.name, t.dtype, t.shape, t.data) for _, t in tensors])
    except ValueError as exc:
        raise BuildError(
            f"{ordered[0][0].place}: {exc}; write the payload, without tensors="
        ) from None


def _where(tensors: Sequence[Found]) -> str:
    shown = ", ".join(f"{t.name:.80} of entry {e.index}" for e, t in tensors[:LISTED])
    return shown + (f" and {len(tensors) - LISTED} more" if len(tensors) > LISTED else "")


def _payload_file(library: Library, entries: Sequence[EntryView], output: Path) -> Output:
    if len(entries) != 1:
        raise BuildError(
            f"{output}: a file holds one payload, and {library.path} has {len(entries)}; choose one with entries=, or"
            " name a folder"
        )
    (entry,) = entries
    if output.suffix == ".safetensors" and entry.type_key != SAFETENSORS:
        raise BuildError(
            f"{entry.place} is no safetensors file; tensors=True writes its tensors to one"
        )
    return Output(str(output), (entry.view(),))


def payload_suffix(entry: EntryView) -> str:
    """The suffix of the file of a payload: what it is, if its key or its first bytes tell, else
    "payload"."""
    if entry.type_key == SAFETENSORS:
        return "safetensors"
    if entry.type_key in ROWS:  # a record of TVM's, with fields
        return "payload"
    view = entry.view()
    if bytes(view[:6]) == npy.MAGIC:
        return "npy"
    if bytes(view[:1]) in (b"{", b"[") and len(view) <= JSON_LIMIT:
        try:
            json_text.parse(bytes(view))
        except json_text.JsonError:
            return "payload"
        return "json"
    return "payload"


def readable(entry: EntryView) -> tuple[str, memoryview] | None:
    """The code or text inside a payload, and the suffix of its file; None if there is no more than
    the payload."""
    try:
        fields = entry.fields()
    except FormatError:  # an index told where it is; `verify` says what is wrong with it
        return None
    fmt = bytes(fields.get("fmt", b"")).decode("ascii", "replace")
    suffix = fmt if SUFFIX.fullmatch(fmt) and fmt != "payload" else "txt"
    if "functions" in fields and "data" in fields:
        return suffix if suffix != "txt" else "code", fields["data"]
    source = entry.source()
    if not source:
        return None
    if any(name.endswith("json") for name in fields):
        suffix = "json"
    elif entry.type_key == WEBGPU:
        suffix = "wgsl"
    return suffix, memoryview(source.encode())


def _file_name(text: str) -> str:
    """A part of a file name made of a name from a file: no separators, no NUL, no more than 80
    characters."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", text[:80])


class _Names:
    """File names in a folder, each once, also where upper and lower case are the same."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def new(self, stem: str, suffix: str) -> str:
        wish = f"{stem}.{suffix}".casefold()
        name = f"{stem}.{suffix}"
        while name.casefold() in self._taken:
            self._next[wish] = self._next.get(wish, 1) + 1
            name = f"{stem}~{self._next[wish]}.{suffix}"
        self._taken.add(name.casefold())
        return name


def _write_named(file: Output, library: Path, force: bool) -> None:
    """Write a file that the caller named under another name and rename it; a link is followed."""
    path = Path(file.name)
    if path.exists() and path.samefile(library):
        raise BuildError(
            f"{path}: the output is also the library, which would be lost; name another output"
        )
    if not force and path.exists():
        raise BuildError(f"{path} exists; force=True replaces it")
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary, temporary.open("wb") as out:
        for piece in file.pieces:
            for start in range(0, len(piece), CHUNK):
                step = piece[start : start + CHUNK]
                out.write(step)
                advance(len(step))
