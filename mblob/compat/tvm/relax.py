"""`tvm.relax`: the virtual machine. All other names need TVM's compiler."""

from __future__ import annotations

from mblob import relax
from mblob.compat.lazy_names import COMPILER, offer_lazily

VirtualMachine = relax.VirtualMachine

__all__ = ["VirtualMachine"]
__path__: list[str] = []  # `import ....relax.frontend` works: mblob.compat.lazy_names
__getattr__, _ = offer_lazily(__name__, {}, {"*": COMPILER})
