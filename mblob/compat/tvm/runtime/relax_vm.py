"""`tvm.runtime.relax_vm`, as TVM 0.18 to 0.20 call the virtual machine of Relax."""

from __future__ import annotations

from enum import IntEnum

from mblob import relax

VirtualMachine = relax.VirtualMachine


class VMInstrumentReturnKind(IntEnum):
    """The values that an instrument of `set_instrument` returns."""

    NO_OP = 0
    SKIP_RUN = 1


__all__ = ["VMInstrumentReturnKind", "VirtualMachine"]
