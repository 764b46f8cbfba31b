"""`mblob.diff`: what two libraries have not in common: by entry, by tensor, by function. No code of
them runs."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from mblob import json_text
from mblob.arguments import path as checked_path
from mblob.bytes.sink import advance
from mblob.errors import FormatError
from mblob.inspect.host_difference import host_differences
from mblob.inspect.largest_difference import LargestDifference, largest_difference
from mblob.inspect.library import Library
from mblob.named_tuple import NamedTuple

if TYPE_CHECKING:
    from mblob.inspect.library import EntryView

SCHEMA = "mblob/diff/1"
STEP = 1 << 20  # bytes compared at a time
TEXT_LIMIT = 1 << 18  # characters of a text that is compared line by line
LINES_COMPARED = 1200  # of each text, between what both begin and end with; more could take minutes
CONTEXT = 2  # lines around a change
STEPS_SHOWN = 8  # of a path in the tree


class Change(NamedTuple):
    """One difference.

    Attributes:
        what: "size", "dtype", "machine", ...
        a, b: the values in the two libraries; None if absent.
    """

    what: str
    a: Any
    b: Any

    def to_json(self) -> dict[str, Any]:
        return {"what": self.what, "a": self.a, "b": self.b}


class ItemChange(NamedTuple):
    """A tensor, kernel or host function that differs.

    `change` is "added" (only in b), "removed" or "changed"; `details` has the differences.
    `largest` is the largest difference of two tensors of the same type and shape, None for element
    types that are not compared as numbers.
    """

    name: str
    change: str
    details: tuple[Change, ...] = ()
    largest: LargestDifference | None = None

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "name": self.name,
            "change": self.change,
            "details": [d.to_json() for d in self.details],
        }
        if self.largest is not None:
            found["largest"] = self.largest.to_json()
        return found


class EntryChange(NamedTuple):
    """A module that differs.

    Attributes:
        path: its place in the tree: type keys from the root on, `[1]` for the second import of a
            key.
        change: "added", "removed" or "changed".
        a, b: its index in the libraries.
        details: the differences: size, bytes, imports, alignment, ... Imports are lists of texts such
            as "cuda [2]": the type key and the index in A, or "cuda [2 in B]" if only B has it.
        tensors, kernels: those that differ.
        text: the lines of a unified diff of its text; () if it has no text, or the text is equal.
    """

    path: str
    change: str
    a: int | None
    b: int | None
    details: tuple[Change, ...] = ()
    tensors: tuple[ItemChange, ...] = ()
    kernels: tuple[ItemChange, ...] = ()
    text: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "change": self.change,
            "a": self.a,
            "b": self.b,
            "details": [d.to_json() for d in self.details],
            "tensors": [t.to_json() for t in self.tensors],
            "kernels": [k.to_json() for k in self.kernels],
            "text": list(self.text),
        }


class Difference(NamedTuple):
    """The differences between two libraries; true in a condition if there are any.

    Attributes:
        a, b: their paths.
        library: differences of the whole libraries: dialect, machine, needed libraries, code and
            data outside functions.
        functions: host functions that differ. "code": the bytes differ. They also differ if the
            linker moved the function, or something that it uses.
        entries: modules.
    """

    a: str
    b: str
    library: tuple[Change, ...] = ()
    functions: tuple[ItemChange, ...] = ()
    entries: tuple[EntryChange, ...] = ()

    @property
    def same(self) -> bool:
        return not (self.library or self.functions or self.entries)

    def __bool__(self) -> bool:
        return not self.same

    def to_json(self) -> dict[str, Any]:
        """The JSON object that `mblob-pack diff --json` prints."""
        return {
            "schema": SCHEMA,
            "a": self.a,
            "b": self.b,
            "same": self.same,
            "library": [c.to_json() for c in self.library],
            "functions": [f.to_json() for f in self.functions],
            "entries": [e.to_json() for e in self.entries],
        }


def diff(a: str | os.PathLike[str], b: str | os.PathLike[str], *, lines: int = 40) -> Difference:
    """Compare two libraries of any machines and dialects.

    Modules are equal if they have the same place in the tree and the same bytes. Sizes and digests
    can show that two differ; only bytes show that they are equal. Build-ids, debug information and
    the position of the blob are not compared.

    Args:
        a, b: their paths.
        lines: number of lines to keep of a text's unified diff.

    Raises:
        OSError: a file cannot be read.
        FormatError: one is damaged, or is no library.
        DigestError: one is damaged.
    """
    paths = checked_path(a, "diff: a"), checked_path(b, "diff: b")
    with Library(paths[0]) as first, Library(paths[1]) as second:
        changes, functions = host_differences(first, second)
        return Difference(
            a=str(first.path),
            b=str(second.path),
            library=tuple(Change(*c) for c in changes),
            functions=tuple(
                ItemChange(name, how, tuple(Change(*c) for c in details))
                for name, how, details in functions
            ),
            entries=tuple(_entries(first, second, lines)),
        )


# -- entries ---------------------------------------------------------------------------------------


class _Paths:
    """Places in import trees, as numbers: the same place in two trees has the same one. Depth costs
    nothing."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, str, int], int] = {}
        self._steps: list[tuple[int, str, int]] = []

    def number(self, parent: int, key: str, nth: int) -> int:
        step = (parent, key, nth)
        if step not in self._numbers:
            self._numbers[step] = len(self._steps)
            self._steps.append(step)
        return self._numbers[step]

    def text(self, number: int) -> str:
        """The path, of a deep one its last steps."""
        steps: list[str] = []
        while number >= 0 and len(steps) < STEPS_SHOWN:
            number, key, nth = self._steps[number]
            steps.append(f"{key[:80]}[{nth}]" if nth else key[:80])
        return ("" if number < 0 else ".../") + "/".join(reversed(steps))

    def of(self, entries: Sequence[EntryView]) -> dict[int, int]:
        """The number of the first place of each entry, by its index; what no import leads to stands
        beside the root."""
        found: dict[int, int] = {}
        seen: dict[tuple[int, str], int] = {}
        for start in (*entries[:1], *entries[1:]):
            if start.index in found:
                continue
            nth = seen[-1, start.type_key] = seen.get((-1, start.type_key), -1) + 1
            found[start.index] = self.number(-1, start.type_key, nth)
            queue = deque([start])
            while queue:
                entry = queue.popleft()
                place = found[entry.index]
                for i in entry.imports:
                    key = entries[i].type_key
                    nth = seen[place, key] = seen.get((place, key), -1) + 1
                    if i not in found:
                        found[i] = self.number(place, key, nth)
                        queue.append(entries[i])
        return found


def _entries(a: Library, b: Library, lines: int) -> Iterable[EntryChange]:
    paths = _Paths()
    places_a, places_b = paths.of(a.entries), paths.of(b.entries)
    pairs = _pairs(a, b, places_a, places_b)
    partner = {one.index: other.index for one, other in pairs if one and other}
    for one, other in pairs:
        if one is None or other is None:
            entry = one or other
            assert entry is not None
            place = (places_a if one else places_b)[entry.index]
            details = (Change("size", entry.size if one else None, None if one else entry.size),)
            how = "removed" if one else "added"
            yield EntryChange(
                path=paths.text(place),
                change=how,
                a=one.index if one else None,
                b=other.index if other else None,
                details=details,
            )
            continue
        found = _entry(one, other, partner, (a, b), lines)
        if found is not None:
            yield EntryChange(
                paths.text(places_a[one.index]), "changed", one.index, other.index, *found
            )


def _pairs(
    a: Library, b: Library, places_a: dict[int, int], places_b: dict[int, int]
) -> list[tuple[EntryView | None, EntryView | None]]:
    """Entries that belong together: by their place, then by key in stored order; None for what has
    no counterpart."""
    by_place = {place: b.entries[i] for i, place in places_b.items()}
    pairs: list[tuple[EntryView | None, EntryView | None]] = []
    left = []
    for entry in a.entries:
        other = by_place.pop(places_a[entry.index], None)
        if other is None:
            left.append(entry)
        else:
            pairs.append((entry, other))
    rest: dict[str, deque[EntryView]] = {}
    for other in sorted(by_place.values(), key=lambda e: e.index):
        rest.setdefault(other.type_key, deque()).append(other)
    for entry in left:
        same_key = rest.get(entry.type_key)
        pairs.append((entry, same_key.popleft() if same_key else None))
    pairs.sort(key=lambda pair: pair[0].index if pair[0] else 0)
    pairs += [(None, other) for others in rest.values() for other in others]
    return pairs


Found = tuple[
    "tuple[Change, ...]", "tuple[ItemChange, ...]", "tuple[ItemChange, ...]", "tuple[str, ...]"
]


def _entry(
    a: EntryView, b: EntryView, partner: dict[int, int], of: tuple[Library, Library], lines: int
) -> Found | None:
    """The differences between two modules, None if there are none. `of`: their libraries."""
    details = []
    if [partner.get(i) for i in a.imports] != list(b.imports):
        details.append(Change("imports", *_imports(a, b, partner, of)))
    for what in ("data", "alignment"):
        if getattr(a, what) != getattr(b, what):
            details.append(Change(what, getattr(a, what), getattr(b, what)))
    if a.size != b.size:
        details.append(Change("size", a.size, b.size))
    first = first_difference(a.view(), b.view())
    if first is None:
        return (tuple(details), (), (), ()) if details else None
    details.append(Change("first different byte", first, first))
    return tuple(details), _tensors(a, b), _kernels(a, b), _text(a, b, lines)


def _imports(
    a: EntryView, b: EntryView, partner: dict[int, int], of: tuple[Library, Library]
) -> tuple[list[str], list[str]]:
    """The imports of two modules, each by its type key and its index; a module that is in both has
    the name that it has in the first library."""
    names = {i: f"{of[0].entries[i].type_key:.80} [{i}]" for i in {*a.imports, *partner}}
    same = {theirs: names[ours] for ours, theirs in partner.items()}
    others = [same.get(i) or f"{of[1].entries[i].type_key:.80} [{i} in B]" for i in b.imports]
    return [names[i] for i in a.imports], others


def first_difference(a: memoryview, b: memoryview) -> int | None:
    """The first offset where two buffers differ, None if they do not. A shorter one differs where
    it ends."""
    size = min(len(a), len(b))
    for at in range(0, size, STEP):
        one, other = bytes(a[at : min(at + STEP, size)]), bytes(b[at : min(at + STEP, size)])
        advance(len(one))
        if one != other:
            return at + next(i for i, (x, y) in enumerate(zip(one, other)) if x != y)
    return None if len(a) == len(b) else size


def _tensors(a: EntryView, b: EntryView) -> tuple[ItemChange, ...]:
    try:
        old, new = (
            _numbered((t.name, t) for t in a.tensors),
            _numbered((t.name, t) for t in b.tensors),
        )
    except FormatError:  # an index told where the payload is; its bytes are compared
        return ()
    found = []
    for key in [*old, *(key for key in new if key not in old)]:
        name = key[0] if not key[1] else f"{key[0]}[{key[1]}]"
        if key not in new or key not in old:
            found.append(ItemChange(name, "removed" if key in old else "added"))
            continue
        one, other = old[key], new[key]
        details = [
            Change(what, str(x), str(y))
            for what, x, y in (
                ("dtype", one.dtype, other.dtype),
                ("shape", list(one.shape), list(other.shape)),
            )
            if x != y
        ]
        at = None if details else first_difference(one.data, other.data)
        largest = None
        if at is not None:
            element = at * 8 // max(one.dtype.bits, 8) if one.dtype.bits != 1 else at
            details.append(Change("first different element", element, element))
            largest = largest_difference(one.dtype, one.shape, one.data, other.data)
        if details:
            found.append(ItemChange(name, "changed", tuple(details), largest))
    return tuple(found)


def _numbered(items: Iterable[tuple[str, Any]]) -> dict[tuple[str, int], Any]:
    """Items by name and by how often the name was there before."""
    counts: dict[str, int] = {}
    found = {}
    for name, item in items:
        found[name, counts.get(name, 0)] = item
        counts[name] = counts.get(name, 0) + 1
    return found


def _kernels(a: EntryView, b: EntryView) -> tuple[ItemChange, ...]:
    try:
        old, new = {k.name: k for k in a.kernels}, {k.name: k for k in b.kernels}
    except FormatError:
        return ()
    found = []
    for name in sorted({*old, *new}):
        if name not in new or name not in old:
            found.append(ItemChange(name, "removed" if name in old else "added"))
        elif old[name] != new[name]:
            one, other = old[name], new[name]
            details = [
                Change(what, list(map(str, x)), list(map(str, y)))
                for what, x, y in (
                    ("arg_types", one.arg_types, other.arg_types),
                    ("launch_param_tags", one.launch_param_tags, other.launch_param_tags),
                    ("arg_extra_tags", one.arg_extra_tags, other.arg_extra_tags),
                )
                if x != y
            ]
            found.append(ItemChange(name, "changed", tuple(details)))
    return tuple(found)


def _text(a: EntryView, b: EntryView, lines: int) -> tuple[str, ...]:
    """A unified diff of what can be read in two payloads, at most so many lines of it."""
    one, other = a.source(), b.source()
    if not one or not other or one == other:
        return ()
    if max(len(one), len(other)) > TEXT_LIMIT:
        return ("texts too long to compare line by line",)
    old, new = _lines(one), _lines(other)
    first, last = _common(old, new)
    old, new = old[first : len(old) - last], new[first : len(new) - last]
    if max(len(old), len(new)) > LINES_COMPARED:
        return ("texts with too many different lines to compare them one by one",)
    found = [
        _moved(line, first)
        for line in difflib.unified_diff(old, new, "a", "b", lineterm="", n=CONTEXT)
    ]
    left = len(found) - lines
    return (
        *(line[:400] for line in found[:lines]),
        *([f"... {left} more lines"] if left > 0 else []),
    )


def _common(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """The numbers of lines that both begin and end with, less CONTEXT on either side."""
    shorter = min(len(old), len(new))
    first = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    last = next((i for i in range(shorter - first) if old[-1 - i] != new[-1 - i]), shorter - first)
    return max(first - CONTEXT, 0), max(last - CONTEXT, 0)


def _moved(line: str, by: int) -> str:
    """The head of a hunk with its line numbers `by` higher; any other line as it is."""
    head = re.match(r"@@ -([0-9]+)(,[0-9]+)? \+([0-9]+)(,[0-9]+)? @@$", line) if by else None
    if head is None:
        return line
    return f"@@ -{int(head[1]) + by}{head[2] or ''} +{int(head[3]) + by}{head[4] or ''} @@"


def _lines(text: str) -> list[str]:
    """Lines of a text; of JSON one for each member."""
    if text[:1] in "{[":
        try:
            return json.dumps(json_text.parse(text), indent=1, ensure_ascii=False).splitlines()
        except json_text.JsonError:
            pass
    return text.splitlines()
