"""`import mblob`: names handed on when they are used, devices."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mblob


def test_every_name_of_the_face_is_there() -> None:
    assert [name for name in mblob.__all__ if not hasattr(mblob, name)] == []
    assert set(mblob.__all__) <= set(dir(mblob))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = mblob.nothing


def test_type_checkers_see_the_names_of_the_face(root: Path) -> None:
    text = (root / "mblob" / "__init__.pyi").read_text()
    told = set(re.findall(r" as (\w+)$|^(\w+)(?: =|: )", text, re.MULTILINE))
    assert {a or b for a, b in told} - {"__all__"} == set(mblob.__all__)


def test_loading_and_calling_imports_neither_numpy_nor_a_compiler_driver(kernels: object) -> None:
    code = f"""
import sys, mblob
lib = mblob.load_module({str(kernels)!r})
assert lib["give_int"]() == -7
heavy = ("numpy", "ctypes", "lief", "elftools", "pycparser", "packager")
print(*(m for m in heavy if m in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_devices_compare_hash_print_and_pickle() -> None:
    assert mblob.cpu(0) == mblob.device("cpu", 0) == mblob.device("llvm") == mblob.device(1, 0)
    assert mblob.device("opencl:1") == mblob.opencl(1) != mblob.opencl(0)
    assert len({mblob.cuda(0), mblob.device("cuda"), mblob.device("gpu")}) == 1
    assert (str(mblob.cpu(0)), str(mblob.opencl(2)), str(mblob.device(99, 1))) == (
        "cpu(0)", "opencl(2)", "device_type_99(1)",
    )  # fmt: skip
    assert pickle.loads(pickle.dumps(mblob.cuda(3))) == mblob.cuda(3)
    assert mblob.cpu(0) != "cpu(0)"
    with pytest.raises(AttributeError, match="cannot be changed"):
        mblob.cpu(0).device_id = 1


@pytest.mark.parametrize("kind", ["toaster", "cpu:x", "opencl:"])
def test_a_device_that_is_not_known_is_an_error(kind: str) -> None:
    with pytest.raises(ValueError, match="device"):
        mblob.device(kind)
