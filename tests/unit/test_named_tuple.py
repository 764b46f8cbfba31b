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
    "name",
    ["_fields", "_field_defaults", "__annotations__", "__doc__", "__module__", "__match_args__"],
)
def test_a_class_has_what_that_of_typing_has(name: str) -> None:
    ours, theirs = getattr(Ours, name), getattr(Theirs, name)
    if name == "__annotations__":  # as texts; `typing` makes references of them
        ours, theirs = list(ours), list(theirs)
    assert ours == theirs


def test_values_behave_as_tuples_with_names() -> None:
    value = Ours(1)
    assert value == (1, 2) and value.sum == 3 and repr(value) == "Ours(x=1, y=2)"
    assert value._replace(y=5) == Ours(x=1, y=5)
    assert pickle.loads(pickle.dumps(value)) == value
    assert Below(1).twice() == 6 and isinstance(Below(1), Ours)
    assert Ours._make([3, 4]) == (3, 4) and Ours(3)._asdict() == {"x": 3, "y": 2}
    assert isinstance(value, tuple) and not hasattr(value, "__dict__")


@pytest.mark.parametrize(
    "make", [lambda c: c(), lambda c: c(1, 2, 3), lambda c: c(1, x=1), lambda c: c(1, z=1), lambda c: c._make([1])],
)  # fmt: skip
def test_wrong_arguments_are_refused(make: Any) -> None:
    for of_class in (Ours, Theirs, Below):
        with pytest.raises(TypeError):
            make(of_class)
    with pytest.raises((ValueError, TypeError)):
        Ours(1)._replace(z=1)
