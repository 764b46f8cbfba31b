"""`tvm.runtime.vm`: programs of the Relay virtual machine, and from TVM 0.21 on those of Relax."""

from __future__ import annotations

from typing import Any

from mblob import relax, vm
from mblob.compat.tvm.runtime.relax_vm import VMInstrumentReturnKind as VMInstrumentReturnKind

Executable = vm.Executable


class VirtualMachine(vm.VirtualMachine):
    """`mblob.vm.VirtualMachine`; of a program of Relax `mblob.relax.VirtualMachine`."""

    def __new__(cls, exe: Any, *args: Any, **kwargs: Any) -> Any:
        program = getattr(exe, "mod", exe)  # `tvm.runtime.Executable` has the module
        if getattr(program, "type_key", "").startswith("relax."):
            return relax.VirtualMachine(program, *args, **kwargs)
        return super().__new__(cls)


__all__ = ["Executable", "VMInstrumentReturnKind", "VirtualMachine"]
