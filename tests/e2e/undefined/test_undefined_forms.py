"""Libraries with undefined runtime functions in the forms that linkers, editors of files and
languages give them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from mblob.compilers import include_flags
from tests.e2e.programs import run
from tests.e2e.undefined.test_undefined_runtime import KERNELS, compile_library, host, undefined

LINKERS = ["bfd", "gold", "lld", "mold"]
Require = Callable[[str], str]


def linker_flag(require: Require, linker: str) -> str:
    require("mold" if linker == "mold" else f"ld.{linker}")
    return f"-fuse-ld={linker}"


FORMS = {
    "large pages": ["-Wl,-z,max-page-size=2097152,-z,common-page-size=2097152"],
    "no combined relocations": ["-Wl,-z,nocombreloc"],
    "relocations kept": ["-Wl,--emit-relocs"],
    "initfirst, interpose": ["-Wl,-z,initfirst,-z,interpose"],
    "link time optimization": ["-flto"],
    "stripped": ["-s"],
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("flags", FORMS.values(), ids=FORMS)
def test_forms_of_a_link(tmp_path: Path, flags: list[str]) -> None:
    host(compile_library(tmp_path / "k.so", *flags))


@pytest.mark.parametrize("linker", LINKERS)
def test_versions_of_symbols(tmp_path: Path, require: Require, linker: str) -> None:
    (tmp_path / "versions.map").write_text("V1 { global: *; };\nV2 { global: two_stages; } V1;\n")
    flag = linker_flag(require, linker)
    host(compile_library(tmp_path / "k.so", flag, f"-Wl,--version-script={tmp_path}/versions.map"))


@pytest.mark.parametrize("linker", ["lld", "mold"])
def test_packed_relocations_of_other_linkers(tmp_path: Path, require: Require, linker: str) -> None:
    packed = "-Wl,--pack-dyn-relocs=relr" if linker == "lld" else "-Wl,-z,pack-relative-relocs"
    host(compile_library(tmp_path / "k.so", linker_flag(require, linker), packed))


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "edit",
    [
        ["--set-rpath", "$ORIGIN/x"],
        ["--add-needed", "libm.so.6"],
        ["--set-soname", "lib" + "long" * 20 + ".so.9"],
    ],
    ids=lambda words: words[0],
)
def test_edited_and_stripped(tmp_path: Path, require: Require, edit: list[str]) -> None:
    library = compile_library(tmp_path / "k.so")
    run(require("patchelf"), *edit, library)
    host(library)
    run(require("strip"), library)
    host(library)


@pytest.mark.parametrize("now", ["-Wl,-z,lazy", "-Wl,-z,now"])
@pytest.mark.parametrize("linker", LINKERS)
def test_indirect_functions_and_thread_storage(
    tmp_path: Path, require: Require, linker: str, now: str
) -> None:
    library = compile_library(
        tmp_path / "k.so",
        linker_flag(require, linker),
        now,
        source=KERNELS / "odd_symbols.c",
        cc=require("gcc"),
    )
    assert "TVMBackendAllocWorkspace" in undefined(library)
    module = mblob.load_module(library)
    assert module["indirect"]() == 70
    assert [module["counts"]() for _ in range(2)] == [20610, 20711]
    elsewhere: list[int] = []
    thread = threading.Thread(target=lambda: elsewhere.append(module["counts"]()))
    thread.start()
    thread.join()
    assert elsewhere == [20610]


@pytest.mark.parametrize("linker", LINKERS)
def test_cxx_with_exceptions_threads_and_early_constructors(
    tmp_path: Path, require: Require, linker: str
) -> None:
    library = tmp_path / "k.so"
    run(
        require("g++"), "-std=c++17", "-O2", "-fPIC", "-shared", "-pthread", "-DMBLOB_HOST",
        linker_flag(require, linker), *include_flags(), KERNELS / "exceptions.cc", "-o", library,
    )  # fmt: skip
    assert {"TVMAPISetLastError", "TVMFuncGetGlobal"} <= undefined(library)
    for _ in range(2):
        module = mblob.load_module(library)
        with pytest.raises(mblob.KernelError, match="thrown here"):
            module["throws"]()
        assert module["early_and_threads"]() == 1
        del module


def test_one_that_refuses_dlopen_is_refused_by_name(tmp_path: Path) -> None:
    """It is a sound file, and the loader and `verify` say the same of it."""
    library = compile_library(tmp_path / "k.so", "-Wl,-z,nodlopen")
    sentence = (
        r"k.so: it says that dlopen may not open it \(DF_1_NOOPEN\); link it without -z nodlopen$"
    )
    for refuse in (mblob.load_module, mblob.verify):
        with pytest.raises(mblob.IncompatibleError, match=sentence) as error:
            refuse(library)
        assert error.value.exit_code == 6
    with library.open("r+b") as file:  # damage counts first
        file.truncate(library.stat().st_size - 100)
    for refuse in (mblob.load_module, mblob.verify):
        with pytest.raises(mblob.FormatError):
            refuse(library)
