"""Every exported function as the first call of a process: with arguments that are fine, and with
nothing but NULL."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mblob.binary.elf import ElfFile
from mblob.bytes.mapping import map_file
from mblob.compilers import include_flags
from mblob.inspect import runtime_names
from tests.e2e.programs import ROOT, run

SANITY = ("-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Werror")

# Each in a child of its own. Prints the functions that end it by a signal, and how many return the
# -1 of an error.
NULLS = """
import ctypes, os, signal, sys
library = ctypes.CDLL(sys.argv[1])
refused = 0
for name in sys.argv[2:]:
    child = os.fork()
    if not child:
        signal.alarm(10)
        os._exit(getattr(library, name)(*[ctypes.c_void_p()] * 10) & 0xFF)
    status = os.waitpid(child, 0)[1]
    refused += status == 0xFF00
    if os.WIFSIGNALED(status):
        print(name, os.WTERMSIG(status))
print(refused)
"""


def functions_of(library: Path, require: Callable[[str], str]) -> list[str]:
    rows = [
        row.split()
        for row in run(require("nm"), "-D", "--defined-only", library).stdout.splitlines()
    ]
    return [row[-1].partition("@")[0] for row in rows if row[1] in "TW"]


def answers_to_null(library: Path, names: list[str]) -> str:
    return run(sys.executable, "-c", NULLS, library, *names, timeout=60).stdout


@pytest.mark.parametrize("runtime", ["linked", "beside the plug-in"])
def test_each_function_of_libmblob_ffi_may_be_the_first_call(
    installed: Path, tmp_path: Path, require: Callable[[str], str], runtime: str
) -> None:
    program, lib = tmp_path / "program", installed / "lib"
    linked = ["-Wl,--no-as-needed", "-lmblob"] if runtime == "linked" else []
    source = ROOT / "tests" / "c" / "plugins" / "ffi_first_call.c"
    run("cc", *SANITY, *include_flags(), f"-I{ROOT}/csrc/plugins/ffi", f"-I{ROOT}/csrc/src", source,
        f"-L{lib}", "-lmblob-ffi", *linked, f"-Wl,-rpath,{lib}", "-o", program)  # fmt: skip
    names = functions_of(lib / "libmblob-ffi.so", require)
    assert len(names) >= 51
    failed = {name: subprocess.run([program, name], timeout=30).returncode for name in names}
    assert not any(failed.values()), {name: code for name, code in failed.items() if code}


def test_libmblob_ffi_has_each_function_that_tvm_ffi_declares(
    installed: Path, require: Callable[[str], str], package_of: Callable[[str], Path]
) -> None:
    """And libraries get each, whether they are linked with it or opened."""
    headers = package_of("tvm_ffi") / "include" / "tvm" / "ffi"
    text = "".join((headers / name).read_text() for name in ("c_api.h", "extra/c_env_api.h"))
    declared = set(re.findall(r"^TVM_FFI_DLL [^;(]*?(TVMFFI\w+)\(", text, re.MULTILINE))
    assert len(declared) >= 50
    library = installed / "lib" / "libmblob-ffi.so"
    assert declared <= set(functions_of(library, require))
    names = runtime_names.read(ElfFile(map_file(library), str(library)))
    assert declared <= set(names[runtime_names.FFI])


def test_libmblob_ffi_refuses_what_is_no_error_no_tensor_and_of_another_version(
    installed: Path, tmp_path: Path
) -> None:
    program, lib = tmp_path / "program", installed / "lib"
    run("cc", *SANITY, *include_flags(), f"-I{ROOT}/csrc/plugins/ffi", ROOT / "tests" / "c" / "ffi_refusals.c",
        f"-L{lib}", "-lmblob-ffi", f"-Wl,-rpath,{lib}", "-o", program)  # fmt: skip
    done = subprocess.run([program], capture_output=True, text=True, timeout=30, check=False)
    said = done.stdout.splitlines()
    assert done.returncode == 0, (done.returncode, said)
    assert said[:3] == [
        "raised: TVMFFIErrorSetRaised: expected an error, found an object of type 65",
        *(
            f"opaque: TVMFFIObjectCreateOpaque: objects of type {type_} have a content of their own,"
            " expected 64, 74, or 79 and more"
            for type_ in (70, -1)
        ),
    ]
    assert sorted(set(said[3:])) == sorted(
        [
            "no shape: tensor: shape is NULL, expected 1 extents",
            "-1: tensor: -1 dimensions, expected 0 to 64",
            "INT_MIN: tensor: -2147483648 dimensions, expected 0 to 64",
            "INT_MAX: tensor: 2147483647 dimensions, expected 0 to 64",
            "negative: tensor: shape[1] is -3",
            "huge: tensor: it has more bytes than memory can, or lies outside of it",
            "no data: tensor: data is NULL, expected 24 bytes",
            "far: tensor: it has more bytes than memory can, or lies outside of it",
            "version: TVMFFITensorFromDLPackVersioned: DLPack version 77, expected 1",
            "padded: TVMFFITensorFromDLPackVersioned: each element is padded to whole bytes (flag 4),"
            " expected packed elements",
        ]
    )


@pytest.mark.parametrize("alone", [False, True], ids=["with a runtime", "without one"])
def test_no_function_of_libmblob_ffi_crashes_at_null(
    installed: Path, tmp_path: Path, require: Callable[[str], str], alone: bool
) -> None:
    library = installed / "lib" / "libmblob-ffi.so"
    if alone:
        library = Path(shutil.copy2(library, tmp_path))
    assert answers_to_null(library, functions_of(library, require)) == "33\n"


def test_no_function_of_libmblob_crashes_at_null(
    installed: Path, require: Callable[[str], str]
) -> None:
    library = installed / "lib" / "libmblob.so"
    names = functions_of(library, require)
    assert len(names) >= 100
    assert answers_to_null(library, names).splitlines()[:-1] == []


@pytest.mark.parametrize("plugin", ["cuda", "dnnl", "opencl"])
def test_other_plugins_export_their_table_only(
    installed: Path, require: Callable[[str], str], plugin: str
) -> None:
    assert functions_of(installed / "lib" / f"libmblob-{plugin}.so", require) == []
