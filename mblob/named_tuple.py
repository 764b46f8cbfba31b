"""`NamedTuple` of `typing`, whose classes are made in a twentieth of the time.

`typing` compiles the annotation of every field, and `collections.namedtuple` a constructor for every class. A
command imports a hundred such classes, most of which it never makes anything of. Arguments by name take two to four
times as long as theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    from _collections import _tuplegetter  # what `collections.namedtuple` makes of a field

    class _Fields(tuple):
        """The common base of named tuples, with the names of `collections.namedtuple`."""

        __slots__ = ()

        def __new__(cls, /, *values, **named):
            if named or len(values) != len(cls._fields):
                values = (*values, *_others(cls, values, named))
            return tuple.__new__(cls, values)

        @classmethod
        def _make(cls, iterable):
            made = tuple.__new__(cls, iterable)
            if len(made) != len(cls._fields):
                raise TypeError(
                    f"{cls.__name__}: expected {len(cls._fields)} values, found {len(made)}"
                )
            return made

        def _replace(self, /, **named):
            if unknown := named.keys() - set(self._fields):
                raise ValueError(f"Got unexpected field names: {sorted(unknown)!r}")
            return type(self)(*map(named.get, self._fields, self))

        def _asdict(self):
            return dict(zip(self._fields, self))

        def __repr__(self):
            values = ", ".join(f"{field}={value!r}" for field, value in zip(self._fields, self))
            return f"{type(self).__name__}({values})"

        def __getnewargs__(self):
            return tuple(self)

    class _Maker(type):
        def __new__(cls, name, bases, body):
            if not bases:
                return super().__new__(cls, name, bases, body)
            fields = tuple(body.get("__annotations__", {}))
            own = {
                **body,
                **{field: _tuplegetter(i, None) for i, field in enumerate(fields)},
                "__slots__": (),
                "__match_args__": fields,
                "_fields": fields,
                "_field_defaults": {field: body[field] for field in fields if field in body},
            }
            return type(name, (_Fields,), own)

    class NamedTuple(metaclass=_Maker):
        """The base of a class that becomes a named tuple of its annotated names."""


def _others(cls: Any, values: Sequence[Any], named: dict[str, Any]) -> list[Any]:
    """The values of the fields behind those that are given by position.

    Raises:
        TypeError: an argument too many or too few, or one that is no field.
    """
    given = {**cls._field_defaults, **named}
    rest = cls._fields[len(values) :]
    try:
        found = [given[field] for field in rest]
    except KeyError as exc:
        raise TypeError(f"{cls.__name__}: {exc} is missing") from None
    if len(values) > len(cls._fields) or not named.keys() <= set(rest):
        said = [*map(repr, values), *named]
        raise TypeError(
            f"{cls.__name__}: expected {', '.join(cls._fields)}; found {', '.join(said)}"
        )
    return found
