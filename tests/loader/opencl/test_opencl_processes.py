"""OpenCL over processes: programs that are kept, several devices, machines without it, forks, the
end."""

from __future__ import annotations

from pathlib import Path

import pytest

import mblob
from tests.loader.opencl.opencl_libraries import SCALE, SCALE_TYPES, X, packed, python

pytestmark = pytest.mark.own_process


@pytest.mark.slow
def test_programs_are_kept_between_processes(scale_path: str, tmp_path: Path) -> None:
    script = f"""
    x = mblob.array(np.ones(4, "float32"), mblob.opencl(0))
    mblob.load_module({scale_path!r}).imported_modules[0]["scale"](x, 3.0, 4, 1, 4)
    print(x.numpy().tolist())
    """
    cache = tmp_path / "cache" / "opencl"

    def use() -> Path:
        assert python(script, MBLOB_CACHE_DIR=str(cache.parent)) == "[3.0, 3.0, 3.0, 3.0]\n"
        (file,) = cache.iterdir()
        return file

    file = use()
    size, written = file.stat().st_size, file.stat().st_mtime_ns
    assert use() == file
    assert file.stat().st_mtime_ns == written
    file.write_bytes(file.read_bytes()[: size // 2])  # what a full disk might leave
    assert use() == file
    assert file.stat().st_size > size // 2
    python(script, MBLOB_CACHE_DIR=str(tmp_path / "off"), MBLOB_CACHE="0")
    assert not (tmp_path / "off").exists()


@pytest.mark.slow
def test_several_devices(scale_path: str) -> None:
    """PoCL makes of one processor as many devices as it is asked for."""
    script = f"""
    scale = mblob.load_module({scale_path!r}).imported_modules[0]["scale"]
    x = mblob.array(np.arange(4, dtype="float32"), mblob.opencl(1))
    scale(x, 2.0, 4, 1, 4)
    y = x.copyto(mblob.opencl(0))
    scale(y, 2.0, 4, 1, 4)
    print(x.numpy().tolist(), y.numpy().tolist(), y.device)
    exists = mblob.get_global_func("runtime.GetDeviceAttr")
    print(exists(4, 0, 0), exists(4, 1, 0), exists(4, 2, 0))
    """
    two = {"POCL_DEVICES": "pthread basic", "MBLOB_OPENCL_PLATFORM": "portable"}
    assert python(script, **two) == "[0.0, 2.0, 4.0, 6.0] [0.0, 4.0, 8.0, 12.0] opencl:0\n1 1 0\n"
    count = 'print(mblob.get_global_func("runtime.GetDeviceAttr")(4, 1, 0))'
    assert python(count, **two, MBLOB_OPENCL_DEVICE="1") == "0\n"


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        (
            "MBLOB_OPENCL_LIBRARY",
            "/nowhere/libOpenCL.so",
            "/nowhere/libOpenCL.so: cannot open shared object file",
        ),
        ("OCL_ICD_VENDORS", "/nowhere/", "CL_PLATFORM_NOT_FOUND_KHR"),
        ("MBLOB_OPENCL_PLATFORM", "no such platform", "no device is left"),
    ],
)
def test_without_opencl_a_library_opens_and_says_what_is_missing(
    scale_path: str, variable: str, value: str, expected: str
) -> None:
    script = f"""
    kernels = mblob.load_module({scale_path!r}).imported_modules[0]
    scale = kernels["scale"]  # the declarations are read, without a driver
    for use in (lambda: mblob.empty((1,), "float32", mblob.opencl(0)), lambda: scale(None, 1.0, 1, 1, 1)):
        try:
            use()
        except mblob.IncompatibleError as exc:
            print(exc)
    """
    lines = python(script, **{variable: value}).splitlines()
    assert len(lines) == 2
    assert all(expected in line for line in lines)


def test_a_process_that_forks_is_told(opencl_device: mblob.Device) -> None:
    script = """
    import os
    x = mblob.array(np.ones(4, "float32"), mblob.opencl(0))
    child = os.fork()
    if not child:
        try:
            x.numpy()
        except mblob.IncompatibleError as exc:
            print(exc, flush=True)
        del x
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    print(x.numpy().tolist())
    """
    told, result = python(script).splitlines()
    assert "forked after OpenCL was used" in told
    assert '"spawn"' in told
    assert result == "[1.0, 1.0, 1.0, 1.0]"


@pytest.mark.slow
def test_what_is_alive_at_the_end_does_not_disturb_it(scale_path: str, tmp_path: Path) -> None:
    script = f"""
    import builtins
    scale = mblob.load_module({scale_path!r}).imported_modules[0]["scale"]
    x = mblob.array(np.ones(1 << 20, "float32"), mblob.opencl(0))
    for group in (1 << 8, 1 << 7, 1 << 6):  # PoCL compiles for each, in threads of its own
        scale(x, 2.0, 1 << 20, (1 << 20) // group, group)
    builtins.kept = x, scale  # until the interpreter is gone
    """
    assert python(script, MBLOB_CACHE="0", POCL_CACHE_DIR=str(tmp_path / "pocl")) == ""


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("first", ["carries", "memory", "plain"])
def test_copies_of_the_plugin_work_together(scale_path: str, tmp_path: Path, first: str) -> None:
    carries = tmp_path / "carries.so"
    packed(
        carries, mblob.device_module("opencl", SCALE, [("scale", SCALE_TYPES, X)]), carry=["opencl"]
    )
    script = f"""
    paths = {{"carries": {str(carries)!r}, "plain": {scale_path!r}}}
    order = ["plain", "carries"] if {first!r} == "plain" else ["carries", "plain"]
    ones = lambda: mblob.array(np.ones(4, "float32"), mblob.opencl(0))
    early = ones() if {first!r} == "memory" else None
    for _ in range(2):
        for name in order:
            x = ones() if early is None else early
            mblob.load_module(paths[name]).imported_modules[0]["scale"](x, 2.0, 4, 1, 4)
            print(x.numpy()[0], end=" ")
    """
    assert python(script) == ("2.0 4.0 8.0 16.0 " if first == "memory" else 4 * "2.0 ")
