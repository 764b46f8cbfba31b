"""Opened libraries in pickles, for workers in other processes and on other machines.

A pickle has the path of the file, and the SHA-256 of the whole file; or the file itself. It has no
code, and no state of an executor: what is unpickled is made again, as it was made first. The names
of `file_module`, `bytes_module`, `made_module`, `function` and `bound` stand in pickles, so they
stay.
"""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pickle import PickleBuffer
from typing import Any

from mblob.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    ChangedError,
    DigestError,
    MblobError,
)
from mblob.loader.global_functions import get_global_func
from mblob.loader.library_sources import identity, memory_file
from mblob.loader.load import load_module
from mblob.loader.opened import OpenedNode, Origin
from mblob.module import Module
from mblob.native.runtime import check, ffi, lib
from mblob.node import has_same_bytes
from mblob.typed import LoadOptions

KEPT = 16  # libraries of pickles that stay open when nothing uses them
_DIGESTS = 1024  # digests that are remembered
_CHUNK = 1 << 20  # bytes hashed at a time
# A file system may give two writes within this time the same time.
_TICK = 20_000_000  # ns
_SHOWN = 16  # digits of a digest in errors
_MACHINES = ("relax.VirtualMachine", "VirtualMachine")  # what an object of Python stands before
_LOADED = 2  # MBLOB_TENSOR_LOADED


class Image:
    """A whole file.

    Attributes:
        name: of the file, for errors.
        digest: SHA-256.
        data: its bytes.
    """

    def __init__(self, name: str, digest: str, data: mmap.mmap) -> None:
        self.name, self.digest, self.data = name, digest, data

    def in_pickle(self, protocol: int) -> Any:
        """The bytes; from protocol 5 on what writes the pickle may take them without a copy."""
        if protocol < 5:
            return bytes(self.data)
        return PickleBuffer(self.data)


# -- into a pickle ---------------------------------------------------------------------------------


def reduce_module(node: OpenedNode, protocol: int) -> tuple[Any, ...]:
    """The value of `__reduce_ex__` for the module of `node`.

    Raises:
        TypeError: it is not of a file, or not only; a module changed since then; or it got
            parameters that the file lacks.
        StateError: the save function of a module failed.
        ChangedError: the file is not what it was when it was opened.
    """
    origin = node.origin
    if origin.status is None and node.made_by is not None:
        _check_nothing_loaded(node)
        return made_module, node.made_by
    _check_is_of_file(node)
    index = int(lib.mblob_module_index(node.handle))
    image: Image | None = origin.image
    if image is not None:
        data = image.in_pickle(protocol)
        return bytes_module, (image.name, image.digest, data, origin.options, index)
    return file_module, (origin.path, _digest_of_opened(origin), origin.options, index)


def module_with_bytes(node: OpenedNode) -> Module:
    """The module of `node`, opened again with the bytes of its file beside it."""
    _check_is_of_file(node)
    origin, index = node.origin, int(lib.mblob_module_index(node.handle))
    if origin.image is not None:
        return node.module
    digest = _digest_of_opened(origin)
    root = load_module(origin.path, **origin.options)
    with _opened(origin.path) as descriptor:
        image = Image(origin.path, digest, mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ))
        _check_same(origin, os.fstat(descriptor))
    _check_same(origin, _origin(root).status)
    _origin(root).image = image
    return _module_at(root, index)


def _check_is_of_file(node: OpenedNode) -> None:
    origin = node.origin
    said = f"a Module {node.type_key!r}"
    if origin.loaders:
        keys = ", ".join(map(repr, origin.loaders))
        raise ArgumentTypeError(
            f"{said} that was opened with loaders={{{keys}: ...}} cannot be pickled: a pickle has no code;"
            " register the loaders in each process (mblob.register_loader), and open the library without them"
        )
    if origin.is_extended:
        raise ArgumentTypeError(
            f"{said} whose library got an import by import_module cannot be pickled; pack the import into the"
            " library, or pickle both and import where they are unpickled"
        )
    changed = [m.type_key for m in node.module.walk() if _has_changed(m)]
    if changed:
        raise ArgumentTypeError(
            f"{said} cannot be pickled or copied: {changed[0]!r} changed since it was loaded, and a pickle has the"
            " payload of the file; export the library (export_library), and pickle what load_module gives"
        )
    if node.type_key in _MACHINES:
        raise ArgumentTypeError(
            f"{said} and its functions cannot be pickled; pickle the Python object VirtualMachine, and get its"
            " functions where it is unpickled"
        )
    if origin.status is None or not (origin.path or origin.image):
        raise ArgumentTypeError(
            f"{said} that is not of a file cannot be pickled; write the library to a file, and load that"
        )


def _has_changed(module: Module) -> bool:
    """True if a module would save other bytes than it was loaded from."""
    saved = module._node.saved()
    return saved is not None and not has_same_bytes(saved, module.payload)


def _check_nothing_loaded(node: OpenedNode) -> None:
    """Refuse an executor with parameters that what is made again lacks."""
    count, info = ffi.new("size_t *"), ffi.new("mblob_tensor_info *")
    check(lib.mblob_executor_count(node.handle, lib.MBLOB_INPUTS, count))
    for i in range(count[0]):
        check(lib.mblob_executor_info(node.handle, lib.MBLOB_INPUTS, i, info))
        if info.flags & _LOADED:
            raise ArgumentTypeError(
                f"a Module {node.type_key!r} with the parameters of load_params or share_params cannot be pickled;"
                " pack them into the library, or pickle the library and call load_params where it is unpickled"
            )


def _digest_of_opened(origin: Origin) -> str:
    with _opened(origin.path) as descriptor:
        _check_same(origin, os.fstat(descriptor))
        digest = _digest_of(origin.path, descriptor)
    if _digests.get((origin.path, identity(origin.status)), digest) != digest:
        raise _changed(origin)
    return digest


def _check_same(origin: Origin, status: os.stat_result | None) -> None:
    """Raise if the file is another one, or was written to. Its mode and its names may be others."""
    if identity(status)[:-1] != identity(origin.status)[:-1]:
        raise _changed(origin)


def _changed(origin: Origin) -> ChangedError:
    return ChangedError(
        f"{origin.path}: the file was changed or replaced after it was loaded; load it again to pickle what is"
        " there now"
    )


# -- out of a pickle -------------------------------------------------------------------------------

_lock = threading.RLock()
# Roots of the libraries last unpickled, the newest at the end.
_roots: dict[tuple[str, ...], Module] = {}


def file_module(path: str, digest: str, options: LoadOptions, index: int) -> Module:
    """Module `index` of the library at `path`, if the file has that digest.

    Raises:
        FileNotFoundError, OSError: the file is not there, or cannot be read.
        DigestError: it is another one.
    """
    key = ("path", path, digest, *map(str, options.values()))
    with _lock:
        with _opened(path) as descriptor:
            _check_digest(f"{path}: the file", _digest_of(path, descriptor), digest)
            status = identity(os.fstat(descriptor))
        root = _kept(key)
        if root is None or identity(_origin(root).status) != status:
            root = _keep(key, load_module(path, **options))
            if identity(_origin(root).status) != status:
                raise ChangedError(f"{path}: the file was replaced while it was unpickled")
    return _module_at(root, index)


def bytes_module(name: str, digest: str, data: Any, options: LoadOptions, index: int) -> Module:
    """Module `index` of the library in `data`, once the file `name`.

    Raises:
        DigestError: the bytes do not have that digest.
    """
    key = ("bytes", digest, *map(str, options.values()))
    with _lock:
        root = _kept(key)
        if root is None:
            view = memoryview(data).cast("B")
            _check_digest(f"{name}: the file in the pickle", _sha256([view]), digest)
            root = _keep(key, _load_bytes(name, digest, view, options))
    return _module_at(root, index)


def made_module(owner: Module | None, function: str, arguments: tuple[Any, ...]) -> Module:
    """The module that a function of `owner`, or a global one, makes."""
    made = get_global_func(function) if owner is None else owner.get_function(function)
    module: Module = made(*arguments)
    return module


def _load_bytes(name: str, digest: str, data: memoryview, options: LoadOptions) -> Module:
    """The library in `data`, from a memory file that its modules and later pickles share."""
    descriptor = memory_file(data)
    try:
        root = load_module(descriptor, **options)
        mapped = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    except MblobError as exc:
        exc.prefix(f"{name}, from a pickle")
        raise
    finally:
        os.close(descriptor)
    _origin(root).image = Image(name, digest, mapped)
    return root


def function(owner: Module, name: str) -> Any:
    """Function `name` of a module."""
    return owner.get_function(name, query_imports=True)


def bound(function: Any, arguments: tuple[Any, ...]) -> Any:
    """A function with its arguments, which are as they were when they were pickled."""
    return function.bind(*arguments)


def _kept(key: tuple[str, ...]) -> Module | None:
    root = _roots.pop(key, None)
    return None if root is None or _origin(root).is_extended else _keep(key, root)


def _keep(key: tuple[str, ...], root: Module) -> Module:
    _roots[key] = root  # the newest now
    while len(_roots) > KEPT:
        del _roots[next(iter(_roots))]
    return root


def _origin(root: Module) -> Origin:
    origin: Origin = root._node.origin  # type: ignore[attr-defined]
    return origin


def _module_at(root: Module, index: int) -> Module:
    for module in root.walk():
        node = module._node
        if isinstance(node, OpenedNode) and lib.mblob_module_index(node.handle) == index:
            return module
    raise ArgumentValueError(f"no module {index} in {root!r}")


# -- digests ---------------------------------------------------------------------------------------

# By path and `identity` of a file. Hashing a large file takes as long as copying it.
_digests: dict[tuple[Any, ...], str] = {}


@contextmanager
def _opened(path: str) -> Iterator[int]:
    """The descriptor of a file.

    Raises:
        FileNotFoundError: says what to do.
        DigestError: it is a folder, or a pipe.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise FileNotFoundError(
            errno.ENOENT,
            "the library of a pickle is not there; copy it to the same path on each machine, or pickle"
            " library.with_bytes()",
            path,
        ) from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise DigestError(
                f"{path}: the library of a pickle was replaced by something that is no file"
            )
        yield descriptor
    finally:
        os.close(descriptor)


def _digest_of(path: str, descriptor: int) -> str:
    status = os.fstat(descriptor)
    key = (path, identity(status))
    found = _digests.get(key)
    if found is not None:
        return found
    started = time.time_ns()
    found = _sha256(_chunks(descriptor))
    if identity(os.fstat(descriptor)) != key[1]:
        raise ChangedError(f"{path}: the file changed while it was read")
    if started - max(status.st_mtime_ns, status.st_ctime_ns) > _TICK:
        if len(_digests) >= _DIGESTS:
            _digests.clear()
        _digests[key] = found
    return found


def _chunks(descriptor: int) -> Iterator[memoryview]:
    buffer = memoryview(bytearray(_CHUNK))
    at = 0
    while size := os.preadv(descriptor, [buffer], at):
        yield buffer[:size]
        at += size


def _sha256(parts: Any) -> str:
    hasher = hashlib.sha256()
    for part in parts:
        hasher.update(part)
    return hasher.hexdigest()


def _check_digest(what: str, found: str, expected: str) -> None:
    if found != expected:
        raise DigestError(
            f"{what} has the SHA-256 {found[:_SHOWN]}..., the pickle was made of one with {expected[:_SHOWN]}...:"
            " the library was replaced or changed; pickle it again"
        )


def _in_child() -> None:
    """After a fork: the thread that held the lock may be none of the child's."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_in_child)
