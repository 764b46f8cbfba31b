"""`NamedTuple` of `typing`, made in a fifth of the time.

`typing` compiles the annotation of every field. A command imports a hundred such classes, whose annotations
nothing reads while it runs.
"""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    _OF_A_CLASS = ("__dict__", "__weakref__", "__module__", "__qualname__", "__classcell__")

    class _Maker(type):
        def __new__(cls, name, bases, body):
            if not bases:
                return super().__new__(cls, name, bases, body)
            fields = body.get("__annotations__", {})
            defaults = [body.pop(field) for field in fields if field in body]
            made = namedtuple(name, fields, defaults=defaults, module=body["__module__"])
            for key, value in body.items():
                if key not in _OF_A_CLASS:
                    setattr(made, key, value)
            return made

    class NamedTuple(metaclass=_Maker):
        """The base of a class that becomes a `collections.namedtuple` of its annotated names."""
