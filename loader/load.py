"""`mblob.load_module`: from a file, bytes or a descriptor to the root of a module tree."""

from __future__ import annotations

import os
import stat

from mblob.late import errors
from mblob.loader import bridge
from mblob.loader.opened import Origin, wrap_tree
from mblob.loader.runtime import ffi, last_error, lib
from mblob.module import Module

TYPE_CHECKING = False  # importing `typing` takes longer than everything else here
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from mblob.format.exported import HostFunction
    from mblob.loader.loaders import Loader
    from mblob.typed import Level, Missing, Source

    Open = Callable[[Any, Any], int]


VERIFY = {
    "header": lib.MBLOB_VERIFY_HEADER,
    "full": lib.MBLOB_VERIFY_FULL,
    "off": lib.MBLOB_VERIFY_OFF,
}
MISSING = {"error": lib.MBLOB_MISSING_ERROR, "stub": lib.MBLOB_MISSING_STUB}
SOURCES = "a path, bytes, an open binary file or a descriptor"
PATH_LIMIT = 4096  # bytes of a path, PATH_MAX of Linux


def load_module(
    source: Source,
    fmt: str = "",
    *,
    verify: Level = "header",
    missing: Missing = "error",
    loaders: Mapping[str, Loader] | None = None,
) -> Module:
    """Open a library and return the root of its module tree.

    Loading runs the library's constructors: load only files that you would execute. Before that,
    mblob checks the headers, the blob and the index in the file.

    Args:
        source: a path (relative to the working directory), a bytes-like object, an open binary
            file, or a descriptor. It is a shared library; or an object file, an archive or a tar of
            objects, which mblob links first. The content decides which, not the name.
        fmt: accepted for compatibility with TVM; the content of the file decides.
        verify: "header" (structure and index), "full" (also the digest of every payload), "off"
            (only bounds).
        missing: what happens if a type key has no loader. "error": LoaderMissingError. "stub": the
            library opens, and calling a function of the module is an error.
        loaders: type key -> loader, for this library only. They come before the registered ones.

    Warns:
        UserWarning: the library is a Relax program that names functions which neither the library nor
            a registry has. Register them before (`mblob.register_func`). `missing="stub"` does not
            warn.

    Raises:
        FileNotFoundError, OSError: the file cannot be read.
        FormatError: the file is no library ("not_elf"), or it is damaged.
        DigestError: bytes differ from their digest.
        IncompatibleError: the library is for another machine, or the dynamic linker refuses it.
        LoaderMissingError: a type key has no loader.
        ToolchainError: objects cannot be linked here.
    """
    _check_options(fmt, verify, missing, loaders)
    root = _load(source, _Options(verify, missing, loaders or {}))
    if missing == "error" and root.type_key.startswith("relax."):
        from mblob.loader.missing import warn_after_load

        warn_after_load(root)
    return root


def _load(source: Source, options: _Options) -> Module:
    if isinstance(source, bool):
        raise _wrong_type("source", SOURCES, source)
    if isinstance(source, (str, os.PathLike)):
        return _load_path(os.fsdecode(source), options)
    if isinstance(source, int):
        from mblob.arguments import whole

        return _load_descriptor(whole("load_module", "source", source), options)
    if hasattr(source, "fileno"):
        try:
            descriptor = source.fileno()
        except OSError:  # io.BytesIO and the like
            return _load_bytes(getattr(source, "read")(), options)  # noqa: B009
        return _load_descriptor(descriptor, options)
    return _load_bytes(source, options)


def _check_options(fmt: Any, verify: Any, missing: Any, loaders: Any) -> None:
    if not isinstance(fmt, str):
        raise _wrong_type("fmt", "str", fmt)
    for argument, value, known in (("verify", verify, VERIFY), ("missing", missing, MISSING)):
        if not isinstance(value, str) or value not in known:
            raise errors.ArgumentValueError(
                f"load_module: {argument}: {errors.one_of(known, value)}"
            )
    if loaders is None:
        return
    if not hasattr(loaders, "items"):
        raise _wrong_type("loaders", "a mapping of type keys to loaders", loaders)
    from mblob.arguments import name

    for key, loader in loaders.items():
        name("load_module", "a key of loaders", key)
        if not callable(loader):
            raise _wrong_type(f"loaders[{key!r}]", "a callable", loader)


def _wrong_type(argument: str, expected: str, found: Any) -> errors.ArgumentError:
    from mblob.arguments import wrong_type

    return wrong_type("load_module", argument, expected, found)


class _Options:
    """How a library is opened.

    Attributes:
        verify, missing: as `load_module` takes them.
        loaders: given with this open, by type key.
        record: the mblob_open_options of all that.
    """

    def __init__(self, verify: Level, missing: Missing, loaders: Mapping[str, Loader]) -> None:
        self.verify, self.missing, self.loaders = verify, missing, loaders
        self._records = [bridge.record(key) for key in loaders]
        self._list = ffi.new("mblob_loader *[]", self._records or [ffi.NULL])
        self.record = ffi.new(
            "mblob_open_options *",
            {
                "struct_size": ffi.sizeof("mblob_open_options"),
                "verify": VERIFY[verify],
                "missing": MISSING[missing],
                "loader_count": len(loaders),
                "loaders": ffi.cast("const mblob_loader *const *", self._list)
                if loaders
                else ffi.NULL,
            },
        )

    def origin(
        self,
        path: str,
        functions: Callable[[], Mapping[str, str]],
        status: os.stat_result | None = None,
    ) -> Origin:
        """Of the modules of a file, as it was when it was opened; no status of memory."""
        return Origin(path, self.loaders, functions, status, (self.verify, self.missing))


def _open(call: Open, options: _Options, origin: Origin) -> Module:
    """Open through `call(options, out)`, with the loaders of installed distributions where keys
    miss one."""
    out = ffi.new("mblob_module **")
    while call(options.record, out):
        error = last_error()
        if not isinstance(error, errors.LoaderMissingError):
            raise error
        from mblob.loader.loaders import load_entry_point

        if not load_entry_point(error.type_key):  # each round registers a key that had no loader
            raise error
    try:
        return wrap_tree(out[0], origin)
    finally:
        lib.mblob_module_release(out[0])


# -- one function for each kind of source ----------------------------------------------------------


def _load_path(path: str, options: _Options) -> Module:
    absolute = os.path.join(os.getcwd(), path)  # noqa: PTH109, PTH118  (pathlib costs milliseconds to import)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except ValueError:
        from mblob.arguments import path as checked_path

        checked_path(path, "load_module: source")
        raise
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            import errno

            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(status.st_mode):
            raise errors.FormatError(
                f"{path}: not a regular file, expected a library", code="not_elf"
            )
    finally:
        os.close(descriptor)
    origin = options.origin(absolute, lambda: _functions_of_file(absolute, status), status)
    try:
        return _open(lambda o, out: lib.mblob_open(os.fsencode(absolute), o, out), options, origin)
    except errors.MblobError:  # of all other files, which are few
        with open(path, "rb") as file:  # noqa: PTH123
            linkable = _is_linkable(file.fileno())
        if not linkable:
            raise
    return _load_linked(absolute, path, options, status)


def _load_descriptor(descriptor: int, options: _Options) -> Module:
    status = os.fstat(descriptor)
    link = f"/proc/self/fd/{descriptor}"
    path = _path_of(link)
    if _is_linkable(descriptor):
        return _load_linked(link, path, options, status)
    functions = _functions_of(path, descriptor, status)
    origin = options.origin(path, functions, status)
    return _open(lambda o, out: lib.mblob_open_fd(descriptor, o, out), options, origin)


def _is_linkable(descriptor: int) -> bool:
    """Whether a file holds objects to be linked. Its first bytes are read at random: else the
    kernel marks the next page, and reads megabytes from there."""
    from mblob.binary.file_kind import SNIFF_SIZE, linkable_kind

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


def _load_bytes(data: Any, options: _Options) -> Module:
    try:
        view = memoryview(data).cast("B") if len(memoryview(data)) else memoryview(b"")
    except TypeError:
        if isinstance(data, memoryview) or hasattr(data, "__array_interface__"):
            raise errors.ArgumentTypeError(
                "load_module: source: expected contiguous bytes, found elements with gaps"
            ) from None
        raise _wrong_type("source", SOURCES, data) from None
    from mblob.binary.file_kind import SNIFF_SIZE, linkable_kind

    if linkable_kind(bytes(view[:SNIFF_SIZE])):
        from mblob.loader.link_object import temporary_file

        with temporary_file(view) as path:
            return _load_linked(path, "", options)
    names = _functions_of_image(view)
    buffer = ffi.from_buffer(view)
    try:
        return _open(
            lambda o, out: lib.mblob_open_memory(buffer, view.nbytes, o, out),
            options,
            options.origin("", lambda: names),
        )
    except errors.FormatError as exc:
        if exc.code == "not_elf" and _names_a_file(view):
            raise errors.FormatError(
                f"{bytes(view)!r}: bytes are taken as the content of a library, and this is no ELF file; it is the "
                "name of a file: pass it as a str",
                code=exc.code,
            ) from None
        raise


def _names_a_file(view: memoryview) -> bool:
    return 0 < view.nbytes <= PATH_LIMIT and os.path.exists(bytes(view))  # noqa: PTH110


def _load_linked(
    path: str, shown: str, options: _Options, status: os.stat_result | None = None
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
            names = _functions_of_image(memoryview(file.read()))
        absolute = os.path.abspath(shown) if shown else ""  # noqa: PTH100
        origin = options.origin(absolute, lambda: names, status)
        try:
            return _open(
                lambda o, out: lib.mblob_open(os.fsencode(library), o, out), options, origin
            )
        except errors.MblobError as exc:  # nobody knows the temporary library
            exc.args = tuple(str(a).replace(library, shown or "a file in memory") for a in exc.args)
            raise


# -- the functions that a library exports, and how each is called; nothing here raises -------------


def _functions_of_file(path: str, opened: os.stat_result) -> Mapping[str, str]:
    """Functions in the library at `path`, none if it is not the file (device, inode) that was
    opened."""
    from mblob.inspect.library import Library

    try:
        status = os.stat(path)  # noqa: PTH116
        if (status.st_dev, status.st_ino) != (opened.st_dev, opened.st_ino):
            return {}
        with Library(path, verify="off") as library:
            return signatures(library.host_functions)
    except (OSError, errors.MblobError, ValueError):
        return {}


def _functions_of(
    path: str, descriptor: int, status: os.stat_result
) -> Callable[[], Mapping[str, str]]:
    """Gives the functions in an open file, which may have no path."""
    if path:
        return lambda: _functions_of_file(path, status)
    import mmap

    try:
        mapped = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):  # opening it says why
        return dict
    return lambda: _functions_of_image(memoryview(mapped))


def _functions_of_image(data: memoryview) -> Mapping[str, str]:
    """Functions in a library in memory, none if it is damaged."""
    from mblob.binary.elf import ElfFile
    from mblob.format.exported import host_functions, read_table

    try:
        elf = ElfFile(data)
        return signatures(host_functions(elf, read_table(elf)))
    except (errors.MblobError, ValueError):
        return {}


def signatures(functions: Iterable[HostFunction]) -> dict[str, str]:
    """How the packed ones are called, by name."""
    return {f.name: f.text for f in functions if f.abi != "plain"}
