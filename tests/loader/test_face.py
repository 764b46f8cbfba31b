"""`import mblob`: names handed on when they are used, devices."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import _cffi_backend
import pytest

import mblob
from mblob.native.runtime import ffi, lib, text

pytestmark = pytest.mark.own_process


def test_every_name_of_the_face_is_there() -> None:
    assert [name for name in mblob.__all__ if not hasattr(mblob, name)] == []
    assert set(mblob.__all__) <= set(dir(mblob))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = mblob.nothing


def test_type_checkers_see_the_names_of_the_face(root: Path) -> None:
    text = (root / "mblob" / "__init__.pyi").read_text()
    told = set(re.findall(r"(?: as |^def |^)(?!_F\b)(\w+)(?:$| =|: |\()", text, re.MULTILINE))
    assert told - {"__all__"} == set(mblob.__all__)


def test_loading_and_calling_imports_neither_numpy_nor_a_compiler_driver(kernels: object) -> None:
    code = f"""
import sys, mblob
lib = mblob.load_module({str(kernels)!r})
assert lib["give_int"]() == -7
heavy = ("numpy", "ctypes", "lief", "elftools", "pycparser", "mblob.packager")
print(*(m for m in heavy if m in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_first_call_imports_few_modules_of_the_standard_library(
    kernels: object, root: Path
) -> None:
    """What is imported is what a process waits for before its first result; `typing` or `re` alone
    double that."""
    code = f"""
import sys
before = set(sys.modules)
import mblob
assert mblob.load_module({str(kernels)!r})["describe"](memoryview(b"ab"), 1) == "7:1.8.1[2] 0:1"
print(*(m for m in set(sys.modules) - before if m.partition(".")[0] not in ("mblob", "_cffi_backend")))
"""
    assert _cffi_backend.__file__
    paths = os.pathsep.join([str(root), str(Path(_cffi_backend.__file__).parent)])
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": paths},
    )
    # of site
    startup = {
        "_collections_abc",
        "_stat",
        "genericpath",
        "os",
        "os.path",
        "posixpath",
        "stat",
        "zipimport",
    }
    few = {"__future__", "_operator", "atexit", "errno"}  # two are parts of the interpreter
    assert set(done.stdout.split()) <= startup | few


LATE_USES = {
    "a device": "from mblob.devices import cpu; assert describe(cpu(3)) == '6:1.3'",
    "a tensor": "assert type(mblob.empty((2,), 'float32')).__module__ == 'mblob.loader.tensor'",
    "a tensor that C makes": "assert lib['call_it'](lambda t: type(t).__name__, memoryview(b'ab')) == 'Tensor'",
    "a callback": "assert describe(print)[:1] == '1' and 'mblob.loader.tensor' not in sys.modules",
    "a global function": "mblob.register_func('f', print); assert 'mblob.loader.global_functions' in sys.modules",
    "what plug-ins look for": "assert mblob.get_global_func('mblob.python_prefix')() == sys.prefix",
    "a wrong source": "with raises('source: expected a path'): mblob.load_module(3.5)",
    "a wrong argument": "with raises('found object'): describe(object())",
    "an import of everything again": """
mblob.empty((2,), "int8")
for name in list(sys.modules):
    if name.partition(".")[0] == "mblob" and name not in ("mblob.loader._call", "mblob.native._native"):
        del sys.modules[name]
import mblob
assert isinstance(mblob.empty((2,), "int8"), mblob.Tensor)
assert mblob.load_module(sys.argv[1])["describe"](mblob.cpu(1)) == "6:1.1"
""",
}


@pytest.mark.parametrize("use", LATE_USES)
def test_what_a_first_call_does_not_need_comes_with_its_first_use(kernels: Path, use: str) -> None:
    code = """
import sys, mblob
class raises:
    def __init__(self, text): self.text = text
    def __enter__(self): pass
    def __exit__(self, kind, error, trace):
        return issubclass(kind, TypeError) and issubclass(kind, mblob.MblobError) and self.text in str(error) or 1 / 0
lib = mblob.load_module(sys.argv[1])
describe = lib["describe"]
describe(memoryview(b"ab"), 1, "text", None)
late = {"mblob.loader.tensor", "mblob.devices", "mblob.loader.call_hooks", "mblob.loader.global_functions"}
assert not late & set(sys.modules), late & set(sys.modules)
"""
    words = [sys.executable, "-c", code + LATE_USES[use], kernels]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_devices_compare_hash_print_and_pickle() -> None:
    assert mblob.cpu(0) == mblob.device("cpu", 0) == mblob.device("llvm") == mblob.device(1, 0)
    assert mblob.device("opencl:1") == mblob.opencl(1) != mblob.opencl(0)
    assert len({mblob.cuda(0), mblob.device("cuda"), mblob.device("gpu")}) == 1
    assert (str(mblob.cpu(0)), str(mblob.opencl(2)), str(mblob.device(99, 1))) == (
        "cpu:0",
        "opencl:2",
        "device_type_99:1",
    )
    assert pickle.loads(pickle.dumps(mblob.cuda(3))) == mblob.cuda(3)
    assert mblob.cpu(0) != "cpu:0"
    with pytest.raises(AttributeError, match="cannot be changed"):
        mblob.cpu(0).device_id = 1


@pytest.mark.parametrize("kind", ["toaster", "cpu:x", "opencl:"])
def test_a_device_that_is_not_known_is_an_error(kind: str) -> None:
    with pytest.raises(ValueError, match="device"):
        mblob.device(kind)


def test_python_and_c_list_the_same_functions(cc: Callable[..., Path], tmp_path: Path) -> None:
    """Helpers are told by their whole name, or by a prefix that is TVM's or ours."""
    own = ["_init_model", "_finish", "__extendhfsf2_more", "vadd"]
    helpers = [f"__extendhf{other}f2" for other in "sdx"] + [
        f"__trunc{other}fhf2" for other in "sdx"
    ]
    helpers += ["__gnu_h2f_ieee", "__gnu_f2h_ieee", "__tvm_x", "__TVMx", "__mblob_x"]
    path = cc(
        "".join(f"void {name}(void) {{}}\n" for name in own + helpers), tmp_path / "names.so", "-w"
    )
    module = mblob.load_module(path)
    with mblob.open(path) as looked:
        assert looked.functions == sorted(own)
    found = ffi.new("mblob_function **")
    assert (
        lib.mblob_module_function(module._node.handle, b"nope", 0, found) == lib.MBLOB_E_NOT_FOUND
    )
    listed = text(lib.mblob_last_error()).partition("it has: ")[2]
    assert sorted(listed.split(", ")) == sorted(own)
    with pytest.raises(AttributeError, match="it has: " + ", ".join(sorted(own))):
        module.get_function("nope")
