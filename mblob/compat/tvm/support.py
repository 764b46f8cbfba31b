"""`tvm.support`: temporary folders. All other names need TVM's compiler."""

from __future__ import annotations

from mblob.compat.lazy_names import COMPILER, offer_lazily
from mblob.compat.tvm.contrib import utils as utils

__all__ = ["utils"]
__path__: list[str] = []  # `import ....support.clang` works: mblob.compat.lazy_names
__getattr__, _ = offer_lazily(__name__, {}, {"*": COMPILER})
