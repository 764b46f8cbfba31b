"""`mblob.load_module`: from a file to the root of a module tree. `mblob.loader.library_sources` has what is
no path of a library."""

from __future__ import annotations

import errno
import os
import stat
from _collections_abc import Callable, Mapping
from _thread import get_ident

from mblob import arguments, errors
from mblob.annotations import TYPE_CHECKING, Any
from mblob.loader.callbacks import record, stopped
from mblob.loader.loaders import load_entry_point
from mblob.loader.opened import Origin, wrap_tree
from mblob.module import Module
from mblob.native.runtime import ffi, last_error, lib, text

if TYPE_CHECKING:
    from mblob.loader.loaders import Loader
    from mblob.typed import Assume, Level, LoadOptions, Missing, Source

    Open = Callable[[Any, Any], int]


VERIFY = {
    "header": lib.MBLOB_VERIFY_HEADER,
    "full": lib.MBLOB_VERIFY_FULL,
    "off": lib.MBLOB_VERIFY_OFF,
}
ASSUME = ("packed",)
MISSING = {"error": lib.MBLOB_MISSING_ERROR, "stub": lib.MBLOB_MISSING_STUB}
SOURCES = "a path, bytes, an open binary file or a descriptor"


def load_module(
    source: Source,
    fmt: str = "",
    *,
    verify: Level = "header",
    missing: Missing = "error",
    loaders: Mapping[str, Loader] | None = None,
    keep: bool = False,
    unload: bool = False,
    assume: Assume | None = None,
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
            library opens, and calling a function of the module is an error. In a library of TVM up to
            0.20 without an index, only the last module may have a key that nobody knows.
        loaders: type key -> loader, for this library only. They come before the registered ones.
        keep: the code stays mapped after the last reference to the library is gone.
        unload: the code is unmapped then, whatever it calls. If a thread of the library still runs,
            or a handler or a callback of it is called, the process crashes. By default, the code is
            unmapped if it, and the libraries that it brought, call only functions that keep no
            address; an OpenMP kernel, for example, stays (docs/limits.md, "Unloading").
        assume: "packed": a function is a packed one of TVM's if nothing says how it is called:
            neither the library's table of functions, nor its name, nor code that TVM compiled. If it
            is none, a call can crash the process. By default, looking up such a function is an
            error.

    Warns:
        UserWarning: loading the library changed the handler of a signal, or the locale. (Control
            words of floating-point arithmetic, such as subnormal numbers as zero, are put back.)
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
    if keep and unload:
        raise errors.ArgumentValueError("load_module: keep and unload exclude each other")
    if assume is not None and assume not in ASSUME:
        raise errors.ArgumentValueError(
            f"load_module: assume: expected {ASSUME[0]!r}, found {assume!r}"
        )
    options = Options(verify, missing, loaders or {}, keep=keep, unload=unload, assume=assume)
    root = _load(source, options)
    if missing == "error" and root.type_key.startswith("relax."):
        from mblob.loader.relax_missing_functions import warn_after_load

        warn_after_load(root)
    return root


def _load(source: Source, options: Options) -> Module:
    if isinstance(source, bool):
        raise _wrong_type("source", SOURCES, source)
    if isinstance(source, (str, os.PathLike)):
        return _load_path(os.fsdecode(source), options)
    from mblob.loader.library_sources import load_other

    return load_other(source, options)


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
    for key, loader in loaders.items():
        arguments.name("load_module", "a key of loaders", key)
        if not callable(loader):
            raise _wrong_type(f"loaders[{key!r}]", "a callable", loader)


def _wrong_type(argument: str, expected: str, found: Any) -> errors.MblobError:
    return arguments.wrong_type("load_module", argument, expected, found)


class Options:
    """The options that a library is opened with.

    Attributes:
        options: arguments of `load_module` without `loaders`.
        loaders: given with this open, by type key.
        record: the mblob_open_options of all that.
    """

    def __init__(
        self,
        verify: Level,
        missing: Missing,
        loaders: Mapping[str, Loader],
        *,
        keep: bool = False,
        unload: bool = False,
        assume: Assume | None = None,
    ) -> None:
        self.options: LoadOptions = {
            "verify": verify,
            "missing": missing,
            "keep": keep,
            "unload": unload,
            "assume": assume,
        }
        self.loaders = loaders
        self._records: list[list[Any]] = []
        if loaders:
            from mblob.inspect.payload_layouts import layout_of_loader

            self._records = [
                record(key, layout_of_loader(loader, f"load_module: loaders[{key!r}]"))
                for key, loader in loaders.items()
            ]
        self._list = ffi.new("mblob_loader *[]", [made[0] for made in self._records] or [ffi.NULL])
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
                "unload": lib.MBLOB_UNLOAD_NEVER
                if keep
                else lib.MBLOB_UNLOAD_ALWAYS
                if unload
                else 0,
                "assume": lib.MBLOB_ASSUME_PACKED if assume else lib.MBLOB_ASSUME_NOTHING,
            },
        )

    @property
    def is_assumed(self) -> bool:
        """True if functions of which nothing says how they are called are packed ones."""
        return self.options["assume"] == "packed"

    def origin(
        self,
        path: str,
        functions: Callable[[], Mapping[str, str]],
        status: os.stat_result | None = None,
    ) -> Origin:
        """Of the modules of a file, as it was when it was opened; no status of memory."""
        return Origin(path, self.loaders, functions, status, self.options)


def open_by(call: Open, options: Options, origin: Origin) -> Module:
    """Open through `call(options, out)`, with the loaders of installed distributions where keys
    miss one."""
    out = ffi.new("mblob_module **")
    tried: set[str] = set()
    stopped.pop(get_ident(), None)  # of an opening by C code
    while call(options.record, out):
        if stop := stopped.pop(get_ident(), None):
            raise stop
        error = last_error()
        key = getattr(error, "type_key", "")
        if not key or key in tried:
            raise error
        tried.add(key)
        if not load_entry_point(key):  # each round registers a key that had no loader
            raise error
    try:
        changes = lib.mblob_module_changes(out[0])
        if changes[0] != b"\0":
            _warn_of_changes(origin.path, text(changes))
        return wrap_tree(out[0], origin)
    finally:
        lib.mblob_module_release(out[0])


def _warn_of_changes(path: str, changes: str) -> None:
    from mblob.user_warnings import warn

    warn(f"{path or 'a library from memory'}: loading it changed {changes} of this process")


def _load_path(path: str, options: Options) -> Module:
    absolute = os.path.join(os.getcwd(), path)  # noqa: PTH109, PTH118  (pathlib costs milliseconds to import)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except ValueError:
        arguments.path(path, "load_module: source")
        raise
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(status.st_mode):
            raise errors.FormatError(
                f"{path}: not a regular file, expected a library", code="not_elf"
            )
    finally:
        os.close(descriptor)

    def functions() -> Mapping[str, str]:
        from mblob.loader.library_sources import functions_of_file

        return functions_of_file(absolute, status, options.is_assumed)

    origin = options.origin(absolute, functions, status)
    try:
        return open_by(
            lambda o, out: lib.mblob_open(os.fsencode(absolute), o, out), options, origin
        )
    except errors.MblobError:  # of all other files, which are few
        from mblob.loader.library_sources import is_linkable, load_linked

        with open(path, "rb") as file:  # noqa: PTH123
            linkable = is_linkable(file.fileno())
        if not linkable:
            raise
    return load_linked(absolute, path, options, status)
