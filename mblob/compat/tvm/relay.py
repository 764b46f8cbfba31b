"""`tvm.relay`: parameters. All other names need TVM's compiler."""

from __future__ import annotations

from mblob import load_param_dict as load_param_dict
from mblob import save_param_dict as save_param_dict
from mblob.compat.lazy_names import COMPILER, offer_lazily

__all__ = ["load_param_dict", "save_param_dict"]
__path__: list[str] = []  # `import ....relay.frontend` works: mblob.compat.lazy_names
__getattr__, _ = offer_lazily(__name__, {}, {"*": COMPILER})
