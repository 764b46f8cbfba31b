"""The C runtime, as the rest of the loader uses it: what it exports, its pointers and texts, and its
errors as the exceptions of mblob.errors."""

from __future__ import annotations

from mblob.errors import (
    DigestError,
    FormatError,
    IncompatibleError,
    KernelError,
    LoaderMissingError,
)
from mblob.loader import _native

TYPE_CHECKING = False  # importing `typing` takes longer than everything else here
if TYPE_CHECKING:
    from typing import Any, NoReturn


ffi = _native.ffi
lib = _native.lib

_ARGUMENT_EXIT_CODE = 2  # of mblob-pack, for wrong arguments


def address_of(pointer: Any) -> int:
    """The number of a C pointer: what `_call` takes."""
    return int(ffi.cast("uintptr_t", pointer))


def bytes_of_name(value: str) -> bytes | None:
    """The bytes of a name that is looked up, None if no file can have such a name. They need not be
    UTF-8."""
    try:
        encoded = value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return None
    return None if b"\0" in encoded else encoded


def text(pointer: Any) -> str:
    """A C string as str; NULL is ""."""
    return str(ffi.string(pointer).decode("utf-8", "backslashreplace")) if pointer else ""


def last_error_code() -> str:
    """The stable name of what the last failure on this thread was, as mblob.h has them."""
    return text(lib.mblob_last_error_info().code)


def last_error(called: str = "") -> Exception:
    """The exception for the last failure on this thread.

    Args:
        called: name of the function that was called, put in front of errors that are not its own
            text.
    """
    info = lib.mblob_last_error_info()
    message = text(info.message) or "failed without saying why"
    entry = int(info.entry) if info.entry >= 0 else None
    status = info.status
    # A kernel that asked for a function nobody has returns the runtime's own error.
    if status == lib.MBLOB_E_KERNEL or (called and status == lib.MBLOB_E_NOT_FOUND):
        error = KernelError(message)
        if text(info.code) == "kernel_arguments":
            error.exit_code = _ARGUMENT_EXIT_CODE
        return error
    if status == lib.MBLOB_E_FORMAT:
        offset = int(info.offset) if info.offset >= 0 else None
        return FormatError(message, code=text(info.code), offset=offset, entry=entry)
    if status == lib.MBLOB_E_LOADER:
        available = tuple(key.strip() for key in text(info.available).split(",") if key.strip())
        hint = text(info.hint)
        if hint and hint not in message:
            message = f"{message}; {hint}"
        return LoaderMissingError(
            message, type_key=text(info.type_key), available=available, hint=hint, entry=entry
        )
    if status == lib.MBLOB_E_DIGEST:
        return DigestError(message, entry=entry)
    if status == lib.MBLOB_E_INCOMPATIBLE:
        return IncompatibleError(message)
    kinds: dict[int, type[Exception]] = {
        lib.MBLOB_E_ARGUMENT: ValueError,
        lib.MBLOB_E_NOT_FOUND: AttributeError,
        lib.MBLOB_E_IO: OSError,
        lib.MBLOB_E_MEMORY: MemoryError,
    }
    prefix = f"{called}: " if called else ""
    if message.startswith(prefix):  # the runtime's own modules say it themselves
        prefix = ""
    return kinds.get(status, RuntimeError)(prefix + message)


def raise_status(status: int, called: str = "") -> NoReturn:
    """Raise what the last failure on this thread was."""
    raise last_error(called)


def check(status: int) -> None:
    """Raise unless `status` is MBLOB_OK."""
    if status:
        raise_status(status)
