"""Modules that are linked when they are first used, and the virtual machines and their values: what
`tvm.runtime` and `tvm.runtime.vm` have."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mblob
from mblob import Module, relax, vm


class Executable:
    """A module to be called or exported.

    Args:
        mod: a loaded module, or one of a constructor, such as `mblob.csource_module`.

    Attributes:
        mod: that module.
    """

    def __init__(self, mod: Module) -> None:
        self.mod = mod
        self._jitted_mod: Module | None = None

    def jit(
        self,
        *,
        fcompile: Any = None,
        addons: Any = None,
        force_recompile: bool = False,
        **kwargs: Any,
    ) -> Module:
        """The module whose functions can be called. Code that is not linked is linked and loaded,
        once; `fcompile`, `addons` and `kwargs` are those of `export_library`.

        Args:
            force_recompile: link it again.
        """
        if self._jitted_mod is None or force_recompile:
            self._jitted_mod = self.mod
            if any(module.is_compilation_exportable() for module in self.mod.walk()):
                with TemporaryDirectory() as folder:
                    path = Path(folder, "lib.so")
                    self.mod.export_library(path, fcompile=fcompile, addons=addons, **kwargs)
                    self._jitted_mod = mblob.load_module(path)
        return self._jitted_mod

    def export_library(self, file_name: Any, **kwargs: Any) -> Any:
        """`Module.export_library`."""
        return self.mod.export_library(file_name, **kwargs)

    def __getitem__(self, name: str) -> Any:
        return self.jit()[name]

    def __call__(self, *args: Any) -> Any:
        return self.jit()["main"](*args)


class VirtualMachine(vm.VirtualMachine):
    """`mblob.vm.VirtualMachine`; of a program of Relax `mblob.relax.VirtualMachine`."""

    def __new__(cls, exe: Any, *args: Any, **kwargs: Any) -> Any:
        program = getattr(exe, "mod", exe)  # `tvm.runtime.Executable` has the module
        if getattr(program, "type_key", "").startswith("relax."):
            return relax.VirtualMachine(program, *args, **kwargs)
        return super().__new__(cls)


class VMInstrumentReturnKind(IntEnum):
    """The values that an instrument of `set_instrument` returns."""

    NO_OP = 0
    SKIP_RUN = 1


def ADT(tag: int, fields: Iterable[Any]) -> vm.ADT:
    """A constructor with fields, arrays and further ADTs: an argument of a Relay program."""
    return _adt("runtime.ADT", tag, *fields)


def tuple_object(fields: Iterable[Any] | None = None) -> vm.ADT:
    """A tuple: an argument of a Relay program."""
    return _adt("runtime.Tuple", *(fields or ()))


def _adt(function: str, *args: Any) -> vm.ADT:
    given = (arg.module if isinstance(arg, vm.ADT) else arg for arg in args)
    return vm.ADT(mblob.get_global_func(function)(*given))
