"""`tvm.contrib.util`: `utils`, as TVM 0.7 and before call it."""

from mblob.compat.tvm.contrib.utils import TempDirectory as TempDirectory
from mblob.compat.tvm.contrib.utils import tempdir as tempdir

__all__ = ["TempDirectory", "tempdir"]
