"""`mblob.named_tuple`, beside that of `typing`."""

from __future__ import annotations

import pickle
from typing import Any, NamedTuple

import pytest

from mblob import named_tuple


class Theirs(NamedTuple):
    """A point."""

    x: Anything  # type: ignore[name-defined]  # noqa: F821
    y: int = 2

    @property
    def sum(self) -> Any:
        return self.x + self.y


class Ours(named_tuple.NamedTuple):
    """A point."""

    x: Anything  # type: ignore[name-defined]  # noqa: F821
    y: int = 2

    @property
    def sum(self) -> Any:
        return self.x + self.y


class Below(Ours):
    __slots__ = ()

    def twice(self) -> Any:
        return 2 * self.sum


@pytest.mark.parametrize(
    "name", ["_fields", "_field_defaults", "__annotations__", "__doc__", "__module__", "__mro__"]
)
def test_a_class_has_what_that_of_typing_has(name: str) -> None:
    ours, theirs = getattr(Ours, name), getattr(Theirs, name)
    if name == "__mro__":
        ours, theirs = ours[1:], theirs[1:]
    elif name == "__annotations__":  # as texts; `typing` makes references of them
        ours, theirs = list(ours), list(theirs)
    assert ours == theirs


def test_values_behave_as_tuples_with_names() -> None:
    value = Ours(1)
    assert value == (1, 2) and value.sum == 3 and repr(value) == "Ours(x=1, y=2)"
    assert value._replace(y=5) == Ours(x=1, y=5)
    assert pickle.loads(pickle.dumps(value)) == value
    assert Below(1).twice() == 6 and isinstance(Below(1), Ours)
    with pytest.raises(TypeError):
        Ours()  # type: ignore[call-arg]
