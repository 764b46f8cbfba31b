"""`tvm.relax`: the virtual machine. All other names need TVM's compiler."""

from __future__ import annotations

from mblob import relax
from mblob.compat.handed_on import COMPILER, hand_on

VirtualMachine = relax.VirtualMachine

__all__ = ["VirtualMachine"]
__path__: list[str] = []  # `import ....relax.frontend` works: mblob.compat.handed_on
__getattr__, _ = hand_on(__name__, {}, {"*": COMPILER})
