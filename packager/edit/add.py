"""`mblob.add`: more modules for a finished library, whose code stays byte for byte."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mblob.arguments import mapping
from mblob.bytes.payload_source import Payload
from mblob.errors import PortabilityWarning, listed
from mblob.format import note
from mblob.format.blob_plan import OutEntry, check_ffi
from mblob.format.ffi_dialect import CONTEXT_OF_0_21
from mblob.format.type_keys import ROWS, SAFETENSORS
from mblob.inspect.library import Library
from mblob.inspect.library_search import shared_elf
from mblob.module import Module
from mblob.packager.edit.new_payloads import check_new, tensors_by_name
from mblob.packager.edit.rewrite import PathLike, no_index, rewritten, write_library
from mblob.packager.errors import BuildError, BuildTypeError, CannotJoin, warn
from mblob.packager.functions.adapters import OF_0_21
from mblob.packager.join.first_blob import with_first_blob
from mblob.packager.modules.nodes import PayloadNode, files_in, node_of, out_entry, suggesting
from mblob.packager.modules.payload_modules import blob_module
from mblob.packager.modules.weights import safetensors_module
from mblob.packager.path_arguments import checked_path, existing_file, workspace
from mblob.packager.write.dialects import DIALECTS


@suggesting()
def add(
    file: PathLike,
    *,
    weights: Any = (),
    blobs: Mapping[str, Any] | None = None,
    output: PathLike | None = None,
    replace: bool = False,
    reuse: bool = True,
) -> int:
    """Add weights and files to a finished library, of mblob, of TVM or of anybody else.

    The root stays the root, and imports what is added. Tree, order, keys and payloads stay, and code
    stays byte for byte. The result has an index. No compiler and no linker is needed.

    Args:
        file: the library.
        weights: what `safetensors_module` takes, such as the path of a `.safetensors` or `.npz` file
            or a dictionary of arrays by name; or a list of these.
        blobs: payloads by type key: what `blob_module` takes, such as the path of a file, or bytes.
        output: path of the new library; None, or the library's own path, replaces the library by a
            rename.
        replace: let a new payload or a new module of weights replace one of the same key, or with the
            same tensors. Without it, names that exist already are an error.
        reuse: share unchanged blocks, if the file system can share blocks between files.

    Returns:
        The number of bytes of the old packed modules that stay behind unused: 0, unless the modules
        had no place to grow, as in libraries that TVM linked.

    Warns:
        PortabilityWarning: TVM could open the library, and cannot open the result.

    Raises:
        BuildError: nothing to add; a name that exists already; a library of TVM 0.21, or one that is
            no ELF shared library; or a blob that does not fit and cannot move, because code refers to
            it.
        FormatError: the library is damaged, or a new payload breaks the grammar of its key.
        DigestError: the library is damaged.
        OSError: a file cannot be read or written.
    """
    path = existing_file(Path(checked_path(file, "add: file")), "add: file")
    modules = _modules(weights, blobs)
    with Library(path) as opened, _with_blob(opened) as library:
        dialect = _dialect_of(library)
        changed: dict[int, Payload] = {}
        added: list[OutEntry] = []
        names = _Names(library, replace)
        for module in modules:
            entry = out_entry(module, dialect)
            index = names.taken_by(module)
            if index is None:
                added.append(entry)
                continue
            assert entry.payload is not None
            if index in changed:
                raise BuildError(f"{library.entries[index].place}: replaced twice")
            check_new(library.entries[index], entry.payload, library.grammars, dialect)
            changed[index] = entry.payload
        plan = rewritten(library, changed, index=True, added=added)
        if plan.dialect == "ffi":
            try:
                check_ffi(plan.entries)
            except ValueError as error:
                raise BuildError(str(error)) from None
        _warn_of_tvm(opened, [e.type_key for e in added])
        inputs = {f"{what} {p}": p for what, p in files_in(map(node_of, modules))}
        target = path if output is None else output
        return write_library(library, plan, target, reuse=reuse, inputs=inputs)


def _modules(weights: Any, blobs: Any) -> list[Module]:
    """The modules that the arguments ask for."""
    if blobs is not None:
        mapping("add", "blobs", blobs, "a dict of payloads by type key", BuildTypeError)
    given = weights if isinstance(weights, (list, tuple)) else [] if weights is None else [weights]
    made = [safetensors_module(w) for w in given]
    made += [blob_module(key, payload) for key, payload in (blobs or {}).items()]
    if not made:
        raise BuildError("add: nothing to add; give weights or blobs")
    return made


@contextmanager
def _with_blob(opened: Library) -> Iterator[Library]:
    """The library, or a copy of it with an empty blob if it has none.

    Raises:
        BuildError: it can have none.
    """
    elf = shared_elf(opened)
    if elf is None:
        raise BuildError(
            f"{opened.path}: no ELF shared library (.so), and only these can be added to; pack it again"
        )
    if opened.blob is not None:
        if why := no_index(opened):
            raise BuildError(f"{opened.path}: {why}; export the model with another release of TVM")
        yield opened
        return
    if CONTEXT_OF_0_21 in {s.name for s in elf.dynsym}:
        raise BuildError(f"{opened.path}: {OF_0_21}")
    with workspace(None) as work:
        copy = work / "with_blob.so"
        try:
            with_first_blob(elf, opened.path, copy, DIALECTS[opened.dialect or "classic"])
        except CannotJoin as error:
            raise BuildError(f"{error}; pack the objects that it was linked from again") from None
        with Library(copy) as library:
            yield library


def _dialect_of(library: Library) -> str:
    assert library.blob is not None
    return library.blob.dialect


class _Names:
    """Names of payloads and tensors that a library has, and that are added to it."""

    def __init__(self, library: Library, replace: bool) -> None:
        self._library = library
        self._replace = replace
        self._tensors = tensors_by_name(library)
        self._added: set[str] = set()

    def taken_by(self, module: Module) -> int | None:
        """The entry that a module takes the place of; None if it is one more.

        Raises:
            BuildError: another module has its names, and stays.
        """
        node = node_of(module)
        assert isinstance(node, PayloadNode)
        if module.type_key == SAFETENSORS:
            return self._by_tensors(node.tensor_names)
        entries = [e for e in self._library.entries if e.type_key == module.type_key]
        if not entries or module.type_key in ROWS:  # of which a tree may have any number
            return None
        if len(entries) == 1 and self._replace:
            return entries[0].index
        how = "replace=True replaces it" if len(entries) == 1 else "swap replaces one of them"
        raise BuildError(
            f"{entries[0].place}: {self._library.path} has a payload of this key already; {how}"
        )

    def _by_tensors(self, names: Sequence[str]) -> int | None:
        twice = next((name for name in names if name in self._added), None)
        if twice is not None:
            raise BuildError(f"two modules of weights have a tensor {twice[:80]!r}")
        self._added.update(names)
        places = {e.index: name for name in names for e, _ in self._tensors.get(name, ())}
        if not places:
            return None
        index, name = min(places.items())
        entry = self._library.entries[index]
        what = f"{entry.place}: has a tensor {name[:80]!r} already"
        missing = {t.name for t in entry.tensors} - set(names)
        if len(places) > 1 or entry.type_key != SAFETENSORS or missing:
            raise BuildError(
                f"{what}, and more than the new weights replace; swap replaces single tensors"
            )
        if not self._replace:
            raise BuildError(f"{what}; replace=True replaces that module")
        return index


def _warn_of_tvm(library: Library, keys: Sequence[str]) -> None:
    """Warn of keys that TVM refuses, if it can open the library without them."""
    refused = sorted({key for key in keys if key not in ROWS})
    is_of_tvm = library.dialect is not None and not note.announced(library.elf).flags
    if not refused or not is_of_tvm:
        return
    if all(e.offset is None or e.type_key in ROWS for e in library.entries):
        warn(
            f"TVM cannot open the result: it refuses a library that has modules of kinds it does not know"
            f" ({listed(refused, 6)}); mblob opens it",
            PortabilityWarning,
        )
