"""The C runtime, as mblob uses it: what it exports, its pointers and texts, and its errors as the
exceptions of mblob.errors."""

from __future__ import annotations

from mblob import errors, texts
from mblob.annotations import Any, NoReturn
from mblob.native import ffi as ffi
from mblob.native import lib as lib


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


def last_error(called: str = "", of: Any = lib) -> Exception:
    """The exception for the last failure on this thread.

    Args:
        called: name of the function that was called, put in front of errors that are not its own
            text.
        of: the cffi module that failed: this one, or that of the readers of programs.
    """
    info = of.mblob_last_error_info()
    message = text(info.message) or "failed without saying why"
    entry = int(info.entry) if info.entry >= 0 else None
    status = info.status
    # A kernel that asked for a function nobody has returns the runtime's own error.
    if status == lib.MBLOB_E_KERNEL or (called and status == lib.MBLOB_E_NOT_FOUND):
        return _kernel_error(message, text(info.code), status, called)
    if status == lib.MBLOB_E_FORMAT:
        offset = int(info.offset) if info.offset >= 0 else None
        error = errors.FormatError(message, code=text(info.code), offset=offset, entry=entry)
        error.type_key = text(info.type_key)
        return error
    if status == lib.MBLOB_E_LOADER:
        available = tuple(key.strip() for key in text(info.available).split(",") if key.strip())
        hint = text(info.hint)
        if hint and hint not in message:
            message = f"{message}; {hint}"
        return errors.LoaderMissingError(
            message, type_key=text(info.type_key), available=available, hint=hint, entry=entry
        )
    if status == lib.MBLOB_E_DIGEST:
        return errors.DigestError(message, entry=entry)
    if status == lib.MBLOB_E_INCOMPATIBLE:
        return errors.IncompatibleError(message)
    prefix = f"{called}: " if called else ""
    if message.startswith(prefix):  # the runtime's own modules say it themselves
        prefix = ""
    if status == lib.MBLOB_E_ARGUMENT:
        return _argument_error(prefix + message, text(info.code), bool(called))
    kinds: dict[int, type[Exception]] = {
        lib.MBLOB_E_NOT_FOUND: errors.NotFoundError,
        lib.MBLOB_E_IO: OSError,
        lib.MBLOB_E_MEMORY: MemoryError,
    }
    return kinds.get(status, errors.StateError)(prefix + message)


def _kernel_error(message: str, code: str, status: int, called: str) -> errors.KernelError:
    """The error of a function of a library, of the classes that its kind and the text name."""
    kind = errors.kind_in(message)
    classes = [errors.class_of_kind(kind)]
    if status == lib.MBLOB_E_NOT_FOUND:
        classes += [KeyError, AttributeError]
    elif code:  # it refused its arguments
        if code == "kernel_arguments":
            code = _code_of_kernel_text(message)
        classes += _CLASSES.get(code, (ValueError,))
    if "ErrorContext(fn=" in message:  # of a check in a program of Relax
        from mblob.relax_texts import in_plain_words

        message = in_plain_words(message)
    if called and message.endswith(texts.NULL_FOR_ARRAY):
        message += texts.say(texts.CALLED_BY_CTYPES, called)
    error = errors.also(errors.KernelError, *classes)(message)
    if status == lib.MBLOB_E_KERNEL and code:
        error.exit_code = errors.ArgumentError.exit_code
    return error


def _argument_error(message: str, code: str, is_call: bool) -> errors.MblobError:
    """A part of the runtime refused an argument; of a call it was an executor, where TVM raises a
    RuntimeError."""
    classes = _CLASSES.get(code, (ValueError,)) + ((RuntimeError,) if is_call else ())
    if KeyError in classes:
        return errors.also(errors.NotFoundError, *classes)(message)
    return errors.also(errors.ArgumentError, *classes)(message)


# The classes of an error about an argument, by what mblob.h says is wrong with it.
_CLASSES: dict[str, tuple[type[Exception], ...]] = {
    "argument_type": (TypeError,),
    "argument_count": (TypeError, ValueError),
    "argument_dtype": (TypeError, ValueError),  # which TVM calls a ValueError
    "argument_index": (IndexError, ValueError),
    "argument_name": (KeyError, AttributeError, ValueError),
    "argument_value": (ValueError,),
}


def _code_of_kernel_text(message: str) -> str:
    """The code of a mistake in an argument, as far as the text of a kernel tells."""
    import re  # slow to import

    return next(
        (code for text, code in texts.KINDS_OF_MISTAKES if re.search(text, message)),
        "argument_value",
    )


def raise_status(status: int, called: str = "") -> NoReturn:
    """Raise what the last failure on this thread was."""
    raise last_error(called)


def check(status: int) -> None:
    """Raise unless `status` is MBLOB_OK."""
    if status:
        raise_status(status)
