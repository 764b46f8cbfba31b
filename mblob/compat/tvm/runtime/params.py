"""`tvm.runtime.params`: named arrays in files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mblob import Tensor
from mblob import load_param_dict as load_param_dict
from mblob import save_param_dict as save_param_dict
from mblob.temporary import write_whole


def save_param_dict_to_file(params: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write named arrays to a file, as `mblob.save_param_dict` gives them. A failure leaves the file
    that was there.

    Raises:
        OSError: `path` cannot be written.
    """
    write_whole(path, save_param_dict(params))


def load_param_dict_from_file(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Named arrays of a file that `save_param_dict_to_file` wrote.

    Raises:
        FormatError: the file is no parameter dictionary.
    """
    return load_param_dict(Path(path).read_bytes())
