"""Makes the modules of the table `mblob.compat.names`. A name is looked up when it is first used."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

from mblob.compat import names
from mblob.compat.names import ABSENT, NAMES
from mblob.errors import MblobError, also, did_you_mean

_ROOT = "mblob.compat."


class AbsentError(also(MblobError, NotImplementedError)):  # type: ignore[misc]
    """A call of something that mblob does not have."""


class Absent:
    """A name of TVM that mblob does not have: a function, a class, or a module of those. Importing
    it works, and calling it is an error that says what to do.

    Args:
        name: the name in TVM, such as "tvm.relay.build".
        reason: why it is not here, and what to do.
    """

    def __init__(self, name: str, reason: str) -> None:
        self._name = name
        self._reason = reason

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise AbsentError(f"{self._name}: {self._reason}")

    def __mro_entries__(self, _: Any) -> NoReturn:
        self()

    def __getattr__(self, name: str) -> Absent:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self._name}.{name}", self._reason)

    def __repr__(self) -> str:
        return f"<{self._name}, which mblob does not have>"


class CompatModule(ModuleType):
    """A module of TVM.

    Args:
        name: such as "mblob.compat.tvm.runtime".
        homes: where each of its names is: (module, name in it).
        absent: the reason of each name that mblob does not have. "*" stands for all names.
    """

    def __init__(
        self, name: str, homes: Mapping[str, tuple[str, str]], absent: Mapping[str, str]
    ) -> None:
        name_in_tvm = name.removeprefix(_ROOT)
        super().__init__(
            name,
            f"`{name_in_tvm}`: the names for programs that load and run compiled models, over mblob.\n\n"
            "A name that mblob does not have can be imported; a call of it is an error that says what to do.",
        )
        self.__file__ = names.__file__  # where people look who ask where a name comes from
        self.__all__ = sorted(homes)
        self._name_in_tvm, self._homes, self._absent = name_in_tvm, homes, absent

    def __getattr__(self, name: str) -> Any:
        if name in self._homes:
            home, attribute = self._homes[name]
            module = import_module(home)
            value = getattr(module, attribute) if attribute else module
        elif name.startswith("__"):
            raise AttributeError(name)
        elif reason := self._absent.get(name) or self._absent.get("*"):
            value = Absent(f"{self._name_in_tvm}.{name}", reason)
        else:
            hint = did_you_mean(name, [*self._homes, *self._absent])
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}{hint}")
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted({*vars(self), *self._homes})


class _Finder:
    """Finds the modules of the table, and those that mblob does not have, so that `import
    mblob.compat.tvm.te` works. It is asked first: folders of these names hold stubs alone."""

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.startswith(_ROOT):
            in_tvm = name.removeprefix(_ROOT)
            if in_tvm in NAMES or _absent_module(in_tvm):
                return ModuleSpec(name, self, origin=names.__file__, is_package=True)  # type: ignore[arg-type]
        return None

    def create_module(self, spec: ModuleSpec) -> CompatModule:
        module = spec.name.removeprefix(_ROOT)
        homes = {n: (f"{_ROOT}{module}.{n}", "") for n in _submodules(module)}
        for home, texts in NAMES.get(module, {}).items():
            for name in texts.split():
                in_tvm, _, here = name.partition("=")
                homes[in_tvm] = home, here or in_tvm
        return CompatModule(spec.name, homes, _absent_names(module))

    def exec_module(self, _: ModuleType) -> None:
        pass


def _submodules(module: str) -> list[str]:
    below = (name.rpartition(".") for name in NAMES)
    return [name for package, _, name in below if package == module]


def _absent_names(module: str) -> dict[str, str]:
    """The reasons by the names that a module does not have."""
    if module not in NAMES:
        return {"*": _absent_module(module)}
    rows = ABSENT.get(module, {}).items()
    return {name: reason for reason, texts in rows for name in texts.split()}


def _absent_module(module: str) -> str:
    """The reason why mblob does not have a module; nothing if TVM does not have it, either."""
    package, _, name = module.rpartition(".")
    if not package:
        return ""
    absent = _absent_names(package)
    return absent.get(name) or absent.get("*") or ""


if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
    sys.meta_path.insert(0, _Finder())
