"""`tvm.runtime.Executable`: a module that is linked when it is first used."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mblob
from mblob import Module


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
