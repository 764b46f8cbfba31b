"""Modules that are loaded when something of them is used (`LazyLoader` of importlib loads them at the next import)."""

from __future__ import annotations

import sys
from importlib import import_module
from threading import RLock
from types import ModuleType

_LOADING = RLock()  # one import may need another


class _LoadedWhenUsed(ModuleType):
    """A module that is loaded when something of it is used."""

    def __getattr__(self, name: str) -> object:
        caller = sys._getframe(1).f_globals.get("__name__")
        if (caller, self.__name__, name) == ("dataclasses", "inspect", "signature"):
            # for docstrings that it writes into classes without one, and nobody reads those of pycparser
            return _no_signature
        with _LOADING:
            if sys.modules.get(self.__name__) is self:
                del sys.modules[self.__name__]
            module = import_module(self.__name__)
        self.__dict__.update(vars(module))
        return getattr(module, name)


def _no_signature(_of: object) -> str:
    return "(...)"


def load_when_used(*names: str) -> None:
    """Put modules off that others import and seldom use. Only in a process of our own: others may look
    into `sys.modules`."""
    for name in names:
        sys.modules.setdefault(name, _LoadedWhenUsed(name))
