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
        module = _loaded_for(self)
        self.__dict__.update(vars(module))
        return getattr(module, name)


class _LoadedWhenCalled(ModuleType):
    """A module of which others import functions and classes, and do nothing but call them: a call loads it."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)

        def call(*values: object, **named: object) -> object:
            return getattr(_loaded_for(self), name)(*values, **named)

        return call


def _loaded_for(late: ModuleType) -> ModuleType:
    """The module in whose place another one stands."""
    with _LOADING:
        if sys.modules.get(late.__name__) is late:
            del sys.modules[late.__name__]
        return import_module(late.__name__)


def _no_signature(_of: object) -> str:
    return "(...)"


def load_when_used(*names: str) -> None:
    """Put modules off that others import and seldom use. Only in a process of our own: others may look
    into `sys.modules`."""
    for name in names:
        sys.modules.setdefault(name, _LoadedWhenUsed(name))


def load_when_called(*names: str) -> None:
    """As `load_when_used`, also if others take names from them (`from ... import`), which they only
    call."""
    for name in names:
        sys.modules.setdefault(name, _LoadedWhenCalled(name))


def without_translations() -> None:
    """Put a module in the place of `gettext` which says all as it is. Python's `argparse` asks it, and nobody
    translates that: to look for who does takes as long as a verb's parser."""
    late = ModuleType("gettext")
    vars(late).update(gettext=str, ngettext=lambda one, many, count: one if count == 1 else many)
    sys.modules.setdefault("gettext", late)
