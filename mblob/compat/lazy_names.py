"""Modules whose names are looked up when they are first used, and names that mblob cannot serve."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

from mblob.errors import MblobError, also, did_you_mean

ROOT = "mblob.compat."
COMPILER = (
    "mblob runs models and has no compiler of TVM; compile where TVM is installed, call export_library"
    " there, and load that file here"
)
RPC = "mblob has no RPC; run the program on the machine that has the library and the device"

DOWNLOAD = "mblob downloads nothing; use urllib.request.urlretrieve"


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


def offer_lazily(
    module: str, homes: Mapping[str, str], absent: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module.

    Args:
        module: its name.
        homes: where each of its names is: "MODULE:ATTRIBUTE", or "MODULE".
        absent: the names of TVM's module that mblob does not have, and the reason of each. "*"
            stands for all names.
    """
    name_in_tvm = module.removeprefix(ROOT)

    def get(name: str) -> Any:
        if name in homes:
            home, _, attribute = homes[name].partition(":")
            value: Any = import_module(home)
            if attribute:
                value = getattr(value, attribute)
        elif (reason := absent.get(name) or absent.get("*")) and not name.startswith("__"):
            value = Absent(f"{name_in_tvm}.{name}", reason)
        else:
            hint = did_you_mean(name, [*homes, *absent])
            raise AttributeError(f"module {module!r} has no attribute {name!r}{hint}")
        setattr(sys.modules[module], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[module]), *homes})

    return get, names


class _AbsentModules:
    """Finds modules of TVM that mblob does not have, so that `import mblob.compat.tvm.te` works. It
    is asked last, for modules that nobody else finds.

    Args:
        package: such as "mblob.compat.tvm".
        reasons: by the names of its modules that are not here; with their submodules.
    """

    def __init__(self, package: str, reasons: Mapping[str, str]) -> None:
        self._prefix = f"{package}."
        self._reasons = dict(reasons)

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not name.startswith(self._prefix) or self._reason(name) is None:
            return None
        return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def _reason(self, name: str) -> str | None:
        words = name.removeprefix(self._prefix).split(".")
        starts = (".".join(words[:end]) for end in range(len(words), 0, -1))
        return next((self._reasons[start] for start in starts if start in self._reasons), None)

    def create_module(self, _: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        reason = self._reason(module.__name__) or ""
        get, names = offer_lazily(module.__name__, {}, {"*": reason})
        vars(module).update(__getattr__=get, __dir__=names)


def find_absent(package: str, reasons: Mapping[str, str]) -> None:
    """Let `import PACKAGE.NAME` work for the names in `reasons`, modules that mblob does not have."""
    sys.meta_path.append(_AbsentModules(package, reasons))


def because(reason: str, names: Iterable[str]) -> dict[str, str]:
    """The reason by each of the names."""
    return dict.fromkeys(names, reason)
