"""The errors that users of mblob see. Each failure names the culprit, the place, what was found and
expected.

Every error is an `MblobError`, and beside it what Python calls such a failure: `also` makes those
classes. docs/errors.md has the table.
"""

from __future__ import annotations

import builtins
from _collections_abc import Iterable, Sequence

from mblob.annotations import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import TypeVar

    E = TypeVar("E", bound="MblobError")


# characters of a word that is shown whole, and what is shown of a longer one
_WORD, _HEAD, _TAIL = 1024, 120, 40
# an attribute of errors that are no failure of the file being written
OF_CALLER = "_mblob_of_caller"


def one_line(text: str) -> str:
    """`text` with everything that does not print as an escape, for names from files may hold
    anything; `a\\nb`.

    Of a word that is longer than any path needs to be, its beginning and its end are kept.
    """
    if not text.isprintable():
        text = "".join(c if c.isprintable() else _escaped(c) for c in text)
    if len(text) > _WORD:
        words = [f"{w[:_HEAD]}...{w[-_TAIL:]}" if len(w) > _WORD else w for w in text.split(" ")]
        text = " ".join(words)
    return text if len(text) <= 8 * _WORD else f"{text[: 4 * _WORD]}...{text[-_WORD:]}"


def _escaped(c: str) -> str:
    """A character as Python writes it; of a byte that is no UTF-8 (surrogateescape) that byte."""
    return (
        f"\\x{ord(c) - 0xDC00:02x}"
        if "\udc80" <= c <= "\udcff"
        else c.encode("unicode_escape").decode("ascii")
    )


def did_you_mean(name: object, names: Iterable[str]) -> str:
    """The end of an error about an unknown name: "; did you mean 'build'?", "" if none is like
    it."""
    import difflib  # only errors need it, and it is slow to import

    if not isinstance(name, str):
        return ""
    names, name = list(names), name[:_WORD]
    close = difflib.get_close_matches(name, names, 1)
    close += [known for known in names if known.casefold() == name.casefold()]
    last = name.casefold().rpartition("::")[2]  # ns::f for f
    close += [known for known in names if known.casefold().rpartition("::")[2] == last]
    return f"; did you mean {close[0]!r}?" if close else ""


def one_of(names: Iterable[str], found: object) -> str:
    """The text of an error for a value that is none of `names`: those, the value, and the name that
    was meant."""
    names = list(names)
    return f"expected one of {', '.join(names)}, found {found!r}{did_you_mean(found, names)}"


def listed(names: Iterable[str], limit: int = 12) -> str:
    """Names for an error or a repr, the first of many; "none" of none."""
    names = list(names)
    return ", ".join(names[:limit]) + (", ..." if len(names) > limit else "") if names else "none"


class MblobError(Exception):
    """Base of all errors of mblob. `exit_code` is the exit code of `mblob-pack`.

    The message is one line. `culprit` is the file, or the part of a file, that the message begins
    with; "" if there is none.
    """

    exit_code = 1
    culprit = ""

    def __init__(self, message: str = "", *more: object) -> None:
        super().__init__(one_line(message), *more)

    def __str__(self) -> str:  # a KeyError shows the repr of its text
        return Exception.__str__(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (_made_of(type(self)), self.args), self.__dict__

    def prefix(self, culprit: str) -> None:
        """Put `culprit` and ": " in front of the message, for callers that know which file it is
        about."""
        self.args = (f"{one_line(culprit)}: {self}", *self.args[1:])
        self.culprit = culprit

    @classmethod
    def about(cls: type[E], culprit: object, message: str, **more: Any) -> E:
        """An error whose message begins with `culprit`."""
        error = cls(message, **more)
        error.prefix(str(culprit))
        return error


class ArgumentError(MblobError):
    """A wrong argument.

    If its type is wrong, the error is also a TypeError. If its value or shape, or the number of
    arguments is wrong, the error is also a ValueError.
    """

    exit_code = 2

    @property
    def kind(self) -> str:
        """The name that TVM has for such an error: "TypeError" or "ValueError"."""
        return kind_in(str(self)) or ("TypeError" if isinstance(self, TypeError) else "ValueError")


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument is of another type than expected."""


class ArgumentValueError(ArgumentError, ValueError):
    """An argument has a wrong value, shape or count."""


class StateError(MblobError, RuntimeError):
    """Something is used when it cannot be: it is gone, or not made yet, or what makes it failed."""


class FormatError(MblobError, ValueError):
    """A file breaks a rule of docs/format.md.

    Attributes:
        code: stable name of the rule ("truncated", "unknown_key", ...), the same in C and Python;
            "" if no rule is broken. The message does not have it.
        offset: offset of the byte that breaks the rule, in the blob (ELF rules: in the file), or
            None.
        entry: index of the module, or None.
        type_key: for "unknown_key", the key, else "".
        partial: for "unknown_key", an `mblob.format.blob_model.Blob` with the modules before that key;
            else None.
    """

    def __init__(
        self, message: str, *, code: str, offset: int | None = None, entry: int | None = None
    ) -> None:
        where = f" (at byte {offset})" if offset is not None else ""
        # What is another kind of file breaks no rule, and no byte of it is wrong.
        super().__init__(message if code in NOT_A_LIBRARY else f"{message}{where}")
        self.code = code
        self.offset = offset
        self.entry = entry
        self.type_key = ""
        self.partial: object = None

    @property
    def plain(self) -> str:
        """The message without the place."""
        return str(self).removesuffix(f" (at byte {self.offset})")

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        """3 if the file is not a model library, else 1."""
        return 3 if self.code in NOT_A_LIBRARY else 1


NOT_A_LIBRARY = frozenset({"not_elf", "no_blob"})


class ChangedError(MblobError):
    """A file changed while it was read."""

    exit_code = 5


class DigestError(MblobError):
    """Bytes differ from the digest recorded for them."""

    exit_code = 7

    def __init__(self, message: str, *, entry: int | None = None) -> None:
        super().__init__(message)
        self.entry = entry


class IncompatibleError(MblobError):
    """The file is intact, but it is for another machine, or the dynamic linker refuses it."""

    exit_code = 6


def needs_package(what: str, package: str, extra: str = "pack") -> IncompatibleError:
    """The error for `what`, which needs a package that is not installed.

    Args:
        extra: the extra of mblob that brings the package.
    """
    return IncompatibleError(f"{what} needs {package}: pip install 'mblob[{extra}]'")


class LoaderMissingError(MblobError):
    """A module's type key has no loader.

    Attributes:
        type_key: the key.
        entry: index of the module in the file, or None.
        available: keys that have a loader.
        hint: the provider of the loader, or what to do without it.
    """

    exit_code = 6

    def __init__(
        self,
        message: str,
        *,
        type_key: str,
        available: Sequence[str] = (),
        hint: str = "",
        entry: int | None = None,
    ) -> None:
        super().__init__(message)
        self.type_key = type_key
        self.available = tuple(available)
        self.hint = hint
        self.entry = entry


class BuildError(MblobError, ValueError):
    """A library cannot be built: a wrong argument, prototype, key or manifest."""

    exit_code = 2


class BuildTypeError(BuildError, TypeError):
    """A BuildError about an argument of another type than expected."""


class ToolchainError(BuildError):
    """A compiler or linker is missing or failed.

    Attributes:
        command: the command line, () when no tool was found.
        output: what the tool printed.
    """

    exit_code = 4

    def __init__(self, message: str, *, command: Sequence[str] = (), output: str = "") -> None:
        super().__init__(message)
        self.command = tuple(command)
        self.output = output


class NotFoundError(MblobError, KeyError, AttributeError):
    """No function, tensor or payload of that name; the text lists what there is.

    It is a KeyError and an AttributeError, however the name was asked for.
    """

    exit_code = 2


class KernelError(MblobError):
    """A function of a library returned an error. The text is the function's own, and may have
    several lines.

    The error is also of the class that its kind names, such as IndexError, or a RuntimeError if
    Python has no such class. If a kernel refused its arguments, the error is also a TypeError or
    ValueError.
    """

    def __init__(self, message: str = "") -> None:
        Exception.__init__(self, message)

    @property
    def kind(self) -> str:
        """The kind of error that the text begins with ("ValueError"), else ""."""
        return kind_in(str(self))


class UnreadableWarning(UserWarning):
    """A library is written that mblob itself cannot open."""


class PortabilityWarning(UserWarning):
    """The packed library has something that TVM's executors cannot run.

    The text says which of three cases it is: mblob runs the library and TVM does not; neither runs
    it; or mblob changed a graph so that TVM can read it.
    """


class HiddenNameWarning(UserWarning):
    """A name of the packed library does not give what it names: two modules have the same, the name
    is an attribute of every module, or a replaced function is still called by machine code."""


# -- classes of Python beside those above ----------------------------------------------------------

# Kinds that TVM has beside the classes of Python, and what each is in its Python face.
_KINDS = {
    "OpNotImplemented": "NotImplementedError",
    "OpAttributeUnImplemented": "NotImplementedError",
    "OpAttributeRequired": "AttributeError",
    "OpAttributeInvalid": "AttributeError",
    # these are not made of a text
    "UnicodeDecodeError": "UnicodeError",
    "UnicodeEncodeError": "UnicodeError",
    "UnicodeTranslateError": "UnicodeError",
}
# Classes that are not raised as errors, or are not made of a text.
_NO_ERRORS = ("StopIteration", "StopAsyncIteration", "ExceptionGroup")

_classes: dict[tuple[type[Any], ...], type[Any]] = {}
_bases: dict[type[Any], tuple[type[Any], ...]] = {}


def kind_in(text: str) -> str:
    """The text before the first ": " of a text if that names an error ("ValueError"), else ""."""
    word, colon, _ = text.partition(": ")
    named = (
        colon
        and word.rpartition(".")[2][:1].isupper()
        and word.replace(".", "").replace("_", "").isalnum()
    )
    return word if named else ""


def class_of_kind(kind: str) -> type[Exception]:
    """The class of Python that a kind of error names; RuntimeError where it names none."""
    name = kind.rpartition(".")[2]
    found = getattr(builtins, _KINDS.get(name, name), None)
    if name in _NO_ERRORS or not (isinstance(found, type) and issubclass(found, Exception)):
        return RuntimeError
    return found


def also(base: type[E], *others: type[Exception]) -> type[E]:
    """`base` that is `others`, too: `also(ArgumentError, TypeError)` is `ArgumentTypeError`.

    There is one class for each combination, and one without a name of its own is called `base`,
    which programs can catch. Its objects can be pickled and copied, as those of all classes here.
    """
    found = _classes.get((base, *others))
    if found is None:
        kinds = {c for c in others if not issubclass(base, c)}
        kinds = {c for c in kinds if not any(c is not d and issubclass(d, c) for d in kinds)}
        key = (base, *sorted(kinds, key=lambda c: c.__name__))
        if key not in _classes:
            _classes[key] = _make(key) if kinds else base
        found = _classes[(base, *others)] = _classes[key]
    return found


def _make(key: tuple[type[Any], ...]) -> type[Any]:
    base = key[0]
    own = {
        "__module__": base.__module__,
        "__doc__": base.__doc__,
        "__qualname__": base.__qualname__,
    }
    made = type(base.__name__, key, own)
    _bases[made] = key
    return made


def _made_of(cls: type[Any]) -> tuple[type[Any], ...]:
    return _bases.get(cls, (cls,))


def _rebuilt(classes: tuple[type[Any], ...], args: tuple[Any, ...]) -> Any:
    """An error as it was, for pickle and copy."""
    cls: Any = also(*classes)
    maker = cls  # `cls.__new__` is that of a class whose objects may have another layout
    while "__new__" not in vars(maker):
        maker = maker.__base__
    error = maker.__new__(cls, *args)
    error.args = args
    return error


_classes[(ArgumentError, TypeError)] = ArgumentTypeError
_classes[(ArgumentError, ValueError)] = ArgumentValueError
_classes[(BuildError, TypeError)] = BuildTypeError


def argument_class(given: type[Exception] | Iterable[type[Exception]]) -> type[Exception]:
    """The class for a wrong argument that Python would report as `given`; MemoryError and errors of
    mblob stay what they are."""
    classes = (given,) if isinstance(given, type) else tuple(given)
    if any(issubclass(c, (MblobError, OSError, MemoryError)) for c in classes):
        return classes[0]
    if RuntimeError in classes:
        return StateError
    if TypeError not in classes:  # a BufferError, an OverflowError
        classes = (*classes, ValueError)
    return also(ArgumentError, *classes)
