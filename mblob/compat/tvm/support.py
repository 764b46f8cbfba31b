"""`tvm.support`: temporary folders. All other names need TVM's compiler."""

from __future__ import annotations

from mblob.compat.handed_on import COMPILER, hand_on
from mblob.compat.tvm.contrib import utils as utils

__all__ = ["utils"]
__path__: list[str] = []  # `import ....support.clang` works: mblob.compat.handed_on
__getattr__, _ = hand_on(__name__, {}, {"*": COMPILER})
