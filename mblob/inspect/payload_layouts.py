"""The end of each payload of a program's own type keys, in streams that do not say it: classic
blobs without an index.

A loader tells it, by a layout (docs/format.md, section 3.4) or by a function that measures. Loaders
are registered in this process, or offered by installed distributions, whose code is imported only
for a key that nobody else knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from operator import index
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from mblob.arguments import wrong_type
from mblob.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    FormatError,
    MblobError,
    StateError,
    one_line,
)
from mblob.format.classic import REST
from mblob.format.plugin_table import Plugin
from mblob.named_tuple import NamedTuple

Measure = Callable[[memoryview], int]
ENTRY_POINT_GROUP = "mblob.loaders"


class PayloadLayout(NamedTuple):
    """The layout or the measure that a loader has for its payloads. Neither of both: the last
    module has all that is left.

    Attributes:
        layout: the form of a payload, "" if it is not told.
        measure: gives the size of the payload that a view of the stream begins with.
        in_c: the runtime knows it.
    """

    layout: str = ""
    measure: Measure | None = None
    in_c: bool = False


_registered: dict[str, PayloadLayout] = {}
# Loaders of installed distributions, as far as they were looked for; None of keys without one.
_offered: dict[str, tuple[Any, PayloadLayout] | None] = {}


def checked_layout(where: str, layout: object, measure: object) -> PayloadLayout:
    """The arguments `layout` and `measure`, checked.

    Args:
        where: begins errors.

    Raises:
        TypeError, ValueError: they tell nothing that can be followed.
    """
    if layout is not None and measure is not None:
        raise ArgumentValueError(f"{where}: layout and measure exclude each other")
    if measure is not None and not callable(measure):
        raise wrong_type(where, "measure", "a callable", measure)
    if layout is not None and not isinstance(layout, str):
        raise wrong_type(where, "layout", "a str", layout)
    if layout is not None:
        try:
            _measured(layout, memoryview(b""))
        except FormatError:
            pass  # a layout that no bytes follow
        except MblobError as error:
            error.prefix(where)
            raise
    return PayloadLayout(layout or "", measure)


def layout_of_loader(loader: object, where: str) -> PayloadLayout:
    """The attributes `layout` and `measure` of a loader, checked."""
    return checked_layout(where, getattr(loader, "layout", None), getattr(loader, "measure", None))


def register(key: str, said: PayloadLayout) -> None:
    """Note what the loader of a type key tells, in place of what an earlier one told."""
    _registered[key] = said


@contextmanager
def temporary_layouts(layouts: Mapping[str, str], where: str = "layouts") -> Iterator[None]:
    """While these layouts, by type key, take the place of what loaders tell.

    Args:
        where: begins errors.

    Raises:
        ValueError: one is no layout.
    """
    before = dict(_registered)
    _registered.update(
        {key: checked_layout(f"{where}: {key!r}", form, None) for key, form in layouts.items()}
    )
    try:
        yield
    finally:
        _registered.clear()
        _registered.update(before)


def entry_points() -> list[Any]:
    """The loaders that installed distributions offer, not imported yet:
    `importlib.metadata.EntryPoint`s."""
    from importlib import metadata

    found: Any = metadata.entry_points()  # before Python 3.10 a dict
    return list(
        found.select(group=ENTRY_POINT_GROUP)
        if hasattr(found, "select")
        else found.get(ENTRY_POINT_GROUP, ())
    )


def installed_loader(key: str) -> tuple[Any, PayloadLayout] | None:
    """The loader that an installed distribution offers for a key, and what it tells; None if there
    is none. One that was found stays; others are looked for anew.

    Raises:
        StateError: there is one and it cannot be imported.
        TypeError: it is no function, or tells nothing that can be followed.
    """
    if found := _offered.get(key):
        return found
    for point in entry_points():
        if point.name == key:
            try:
                loader = point.load()
            except Exception as exc:
                raise StateError(
                    f"the loader of {key!r} (entry point {point.value!r}) failed to load: {exc}"
                ) from exc
            if not callable(loader):
                raise ArgumentTypeError(
                    f"the loader of {key!r} (entry point {point.value!r}): expected a function, found {loader!r}"
                )
            found = _offered[key] = loader, layout_of_loader(loader, f"the loader of {key!r}")
            return found
    return _offered.setdefault(key, None)


def find(key: str, carried: Iterable[Plugin] = ()) -> PayloadLayout | None:
    """The layout or the measure of the loader of a key; None if nobody has a loader.

    As the runtime does, it looks for loaders that this process registered, for plug-ins that the
    library carries, for what the runtime itself knows (loaders in C, plug-ins in files), and for
    loaders that installed distributions offer.

    Args:
        carried: plug-ins of the library.

    Raises:
        StateError, TypeError: an installed distribution offers one that cannot be used.
    """
    if key in _registered:
        return _registered[key]
    for plugin in carried:
        if key in plugin.type_keys:
            try:
                return checked_layout(plugin.name, plugin.layouts.get(key), None)
            except ArgumentValueError:
                continue  # as the runtime passes by a plug-in whose table is damaged
    from mblob.native import ffi, lib  # 6 ms, and most keys are TVM's

    said = ffi.new("int *")
    lib.mblob_payload_measure(key.encode("utf-8", "replace"), ffi.NULL, 0, ffi.NULL, said)
    if said[0]:
        return PayloadLayout(in_c=said[0] == 1)
    found = _offered[key] if key in _offered else installed_loader(key)
    return found and found[1]


def _measured_in_c(key: str, view: memoryview) -> int:
    from mblob.native.runtime import check, ffi, lib

    size, said = ffi.new("size_t *"), ffi.new("int *")
    encoded, data = key.encode("utf-8", "replace"), ffi.from_buffer(view)
    check(lib.mblob_payload_measure(encoded, data, len(view), size, said))
    return REST if size[0] == 2 ** (8 * ffi.sizeof("size_t")) - 1 else int(size[0])


def tells_end(key: str, *, is_last: bool, carried: Iterable[Plugin] = ()) -> bool:
    """True if a loader of the key tells where a payload ends, or gets the rest of the stream: as
    the last module.

    Args:
        carried: as of `find`.

    Raises:
        StateError, TypeError: as of `find`.
    """
    said = find(key, carried)
    return said is not None and (said != PayloadLayout() or is_last)


def size_of(key: str, view: memoryview, carried: Iterable[Plugin] = ()) -> int | None:
    """The number of bytes at the start of `view` that are a payload of `key`, as
    `mblob.format.classic.read` asks for it: REST for all that is left, None if nobody knows the
    key.

    Args:
        carried: as of `find`.

    Raises:
        FormatError: the layout does not fit, or the function that measures failed.
    """
    said = find(key, carried)
    if said is None:
        return None
    if said.layout:
        return _measured(said.layout, view)
    if said.in_c:
        return _measured_in_c(key, view)
    return run_measure(said.measure, view) if said.measure else REST


def check_whole(key: str, payload: memoryview) -> None:
    """Refuse a payload that the loader of its key would not read to its end, as far as a loader of this
    process tells where payloads end.

    Raises:
        FormatError: "layout".
    """
    _, said = _offered.get(key) or (None, PayloadLayout())
    if _registered.get(key, said) == PayloadLayout():
        return
    try:
        size = size_of(key, payload)
    except FormatError as error:
        raise FormatError(
            f"the payload of {key!r} is none that its loader reads: {error.plain}", code="layout"
        ) from None
    if size not in (None, REST, len(payload)):
        raise FormatError(
            f"the payload of {key!r} has {len(payload)} bytes, and its loader reads {size} of them",
            code="layout",
        )


def run_measure(measure: Measure, view: memoryview) -> int:
    """The size that a function tells.

    Raises:
        FormatError: it raised, or gave something else than a size.
    """
    try:
        size = measure(view)
    except Exception as exc:
        raise FormatError(one_line(f"{type(exc).__name__}: {exc}"), code="layout") from exc
    try:
        number = -1 if isinstance(size, bool) else index(size)
    except TypeError:
        number = -1
    if not 0 <= number <= len(view):
        raise FormatError(
            f"it measured {size!r} bytes, expected an int from 0 to {len(view)}", code="layout"
        )
    return number


class RegisteredMeasure:
    """A function that measures, and the number by which C knows it as long as this is kept."""

    __slots__ = ("__weakref__", "measure", "number")

    def __init__(self, number: int, measure: Measure) -> None:
        self.number = number
        self.measure = measure


_next_number = count(1)
_numbers: WeakKeyDictionary[Any, dict[Any, int]] = WeakKeyDictionary()
_numbered: WeakValueDictionary[int, RegisteredMeasure] = WeakValueDictionary()


def numbered(measure: Measure) -> RegisteredMeasure:
    """A function with its number, which no other ever gets.

    C compares the numbers of two openings. So a function has the same one again, and a method has it
    as long as its object is there.
    """
    method = getattr(measure, "__func__", None)
    try:
        of_owner = _numbers.setdefault(measure.__self__ if method else measure, {})  # type: ignore[attr-defined]
    except TypeError:  # it has no hash, or no weak reference
        of_owner = {}
    number = of_owner.setdefault(method, next(_next_number))
    return _numbered.setdefault(number, RegisteredMeasure(number, measure))


def measure_of(number: int) -> Measure:
    """The function of a number."""
    return _numbered[number].measure


def _measured(layout: str, view: memoryview) -> int:
    from mblob.native.runtime import check, ffi, lib

    size, rest = ffi.new("size_t *"), ffi.new("int *")
    encoded = layout.encode("utf-8", "replace")
    if b"\0" in encoded:
        raise ArgumentValueError(f"layout {layout!r}: has a NUL")
    check(lib.mblob_layout_measure(encoded, ffi.from_buffer(view), len(view), size, rest))
    return REST if rest[0] else int(size[0])
