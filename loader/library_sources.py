"""Sources for `load_module` that are no path of a library: descriptors, files in memory, and
objects, which are linked first; and the functions that a file exports. Most programs need none of
it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from mblob import errors, texts
from mblob.arguments import whole, wrong_type
from mblob.binary.elf import ElfFile
from mblob.binary.file_kind import SNIFF_SIZE, linkable_kind
from mblob.bytes.mapping import advise_random, map_file
from mblob.format.exported_functions import HostFunction, host_functions, read_table
from mblob.loader.load import SOURCES, Options, open_by
from mblob.module import Module
from mblob.native.runtime import lib

PATH_LIMIT = 4096  # bytes of a path, PATH_MAX of Linux
_MFD_EXEC = 0x10  # of memfd_create: the file may be executed


def load_other(source: Any, options: Options) -> Module:
    """The root of what is no path: a descriptor, an open file, or bytes."""
    if isinstance(source, int):
        return _load_descriptor(whole("load_module", "source", source), options)
    if hasattr(source, "fileno"):
        try:
            descriptor = source.fileno()
        except OSError:  # io.BytesIO and the like
            return _load_bytes(getattr(source, "read")(), options)  # noqa: B009
        return _load_descriptor(descriptor, options)
    return _load_bytes(source, options)


def _load_descriptor(descriptor: int, options: Options) -> Module:
    status = os.fstat(descriptor)
    link = f"/proc/self/fd/{descriptor}"
    path = _path_of(link)
    if is_linkable(descriptor):
        return load_linked(link, path, options, status)
    origin = options.origin(
        path, lambda: functions_of_file(path, status, options.is_assumed), status
    )
    return open_by(lambda o, out: lib.mblob_open_fd(descriptor, o, out), options, origin)


def is_linkable(descriptor: int) -> bool:
    """True if a file holds objects to be linked. Its first bytes are read at random: else the
    kernel marks the next page, and reads megabytes from there."""
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
    try:
        return linkable_kind(os.pread(descriptor, SNIFF_SIZE, 0)) is not None
    finally:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_NORMAL)


def _path_of(link: str) -> str:
    """Path of an open descriptor, "" if it has none (a memory file, a deleted one)."""
    try:
        path = os.readlink(link)  # noqa: PTH115
    except OSError:
        return ""
    return (
        path
        if path.startswith("/")
        and not path.startswith("/memfd:")
        and not path.endswith(" (deleted)")
        else ""
    )


def _load_bytes(data: Any, options: Options) -> Module:
    try:
        view = memoryview(data).cast("B") if len(memoryview(data)) else memoryview(b"")
    except TypeError:
        if isinstance(data, memoryview) or hasattr(data, "__array_interface__"):
            raise errors.ArgumentTypeError(
                "load_module: source: expected contiguous bytes, found elements with gaps"
            ) from None
        raise wrong_type("load_module", "source", SOURCES, data) from None
    if not view.nbytes:
        raise errors.FormatError.about("memory", texts.EMPTY, code="not_elf")
    if linkable_kind(bytes(view[:SNIFF_SIZE])):
        from mblob.loader.link_object import temporary_file

        with temporary_file(view) as path:
            return load_linked(path, "", options)
    names = _functions_of_image(view, options.is_assumed)
    origin = options.origin("", lambda: names)
    descriptor = memory_file(view)
    try:
        origin.library = os.fstat(descriptor)
        return open_by(lambda o, out: lib.mblob_open_fd(descriptor, o, out), options, origin)
    except errors.FormatError as exc:
        if exc.code == "not_elf" and _names_a_file(view):
            raise errors.FormatError(
                f"{bytes(view)!r}: bytes are taken as the content of a library, and this is no ELF file; it is the "
                "name of a file: pass it as a str",
                code=exc.code,
            ) from None
        raise
    finally:
        os.close(descriptor)


def memory_file(data: memoryview) -> int:
    """The descriptor of a new file in memory, which nobody can change."""
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        descriptor = os.memfd_create("mblob", flags | _MFD_EXEC)
    except OSError:  # Linux below 6.3
        descriptor = os.memfd_create("mblob", flags)
    written = 0
    try:
        os.fchmod(descriptor, 0o755)  # which a copy of it has, too
        while written < len(data):
            written += os.write(descriptor, data[written:])
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    except OSError:  # no memory
        os.close(descriptor)
        raise
    return descriptor


def _names_a_file(view: memoryview) -> bool:
    return 0 < view.nbytes <= PATH_LIMIT and os.path.exists(bytes(view))  # noqa: PTH110


def load_linked(
    path: str, shown: str, options: Options, status: os.stat_result | None = None
) -> Module:
    """Link objects to a library that exists only while it is opened; the runtime keeps its
    descriptor.

    Args:
        path: of the file.
        shown: how the user named it, "" for memory.
        status: of the file; None for memory.
    """
    from mblob.loader.link_object import linked

    with linked(path, shown) as library:
        with open(library, "rb") as file:  # noqa: PTH123
            names = _functions_of_image(memoryview(file.read()), options.is_assumed)
        absolute = os.path.abspath(shown) if shown else ""  # noqa: PTH100
        origin = options.origin(absolute, lambda: names, status)
        origin.library = os.stat(library)  # noqa: PTH116
        try:
            return open_by(
                lambda o, out: lib.mblob_open(os.fsencode(library), o, out), options, origin
            )
        except errors.MblobError as exc:  # nobody knows the temporary library
            exc.args = tuple(str(a).replace(library, shown or "a file in memory") for a in exc.args)
            raise


# -- the functions that a library exports, and how each is called; nothing here raises -------------


def functions_of_file(path: str, opened: os.stat_result, assumed: bool) -> Mapping[str, str]:
    """Functions in the library that was opened at `path`, or with no path."""
    data = mapped(path, opened)
    return {} if data is None else _functions_of_image(data, assumed)


def mapped(path: str, opened: os.stat_result) -> memoryview | None:
    """The file that was opened, whatever is at its path by now; None if nothing has it open."""
    for name in _names_of(path):
        with suppress(OSError, ValueError):
            if not os.path.samestat(os.stat(name), opened):  # noqa: PTH116
                continue
            data = map_file(Path(name))
            if os.path.samestat(os.stat(name), opened):  # noqa: PTH116  (and still)
                advise_random(data, begin=True)
                return data
    return None


def opened_file(path: str, opened: os.stat_result) -> BinaryIO | None:
    """The file that was opened, as `mapped` finds it, to be read."""
    for name in _names_of(path):
        with suppress(OSError):
            if os.path.samestat(os.stat(name), opened):  # noqa: PTH116
                file = open(name, "rb")  # noqa: PTH123, SIM115
                if os.path.samestat(os.fstat(file.fileno()), opened):
                    return file
                file.close()
    return None


@contextmanager
def path_of_opened(path: str, opened: os.stat_result | None) -> Iterator[str]:
    """A path of the library that was opened, as `Node.opened_file`."""
    if opened is None and not path:
        raise errors.StateError(
            "a system library is a part of this program, and no file has it alone; pack its sources or objects again"
        )
    if opened is None:  # C code opened it
        yield path
        return
    file = opened_file(path, opened)
    if file is None:
        raise errors.ChangedError(
            f"{path}: the file was replaced after it was loaded, and /proc, which leads to the old one, is not"
            " there; load it again"
        )
    with file:
        if identity(os.fstat(file.fileno()))[:-1] != identity(opened)[:-1]:
            raise errors.ChangedError(
                f"{path}: the file was overwritten after it was loaded, so what was loaded is gone; write a new"
                " file and rename it over the old, or load it again"
            )
        yield path if file.name == path else f"/proc/self/fd/{file.fileno()}"


def identity(status: os.stat_result | None) -> tuple[int, ...]:
    """The device, inode, size and times of a file: they differ if it was replaced or written to.
    The last part differs also if it got another mode or name; it tells of a write whose time was
    set back."""
    if status is None:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _names_of(path: str) -> Iterator[str]:
    """Names that an opened file may have: its path, and those of all descriptors, one of which the
    runtime keeps."""
    if path:
        yield path
    with suppress(OSError):  # no /proc
        yield from (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))  # noqa: PTH208


def _functions_of_image(data: memoryview, assumed: bool) -> Mapping[str, str]:
    """Functions in a library in memory, none if it is damaged."""
    try:
        elf = ElfFile(data)
        return signatures(host_functions(elf, read_table(elf), assumed=assumed))
    except (errors.MblobError, ValueError):
        return {}


def signatures(functions: Iterable[HostFunction]) -> dict[str, str]:
    """The signatures of the packed functions, by name."""
    return {f.name: f.text for f in functions if f.abi != "plain"}
