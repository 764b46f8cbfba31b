"""CUDA compilers of this machine, such as those of NVIDIA's wheels: NVRTC in place of nvcc, and what
NVIDIA's own tools read of packed code."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import mblob
from mblob.format.grammar import decode_payload
from mblob.packager.device.compilers import LANGUAGES, _found
from mblob.packager.errors import BuildError
from tests.packager.compile.test_device_code import ALL, CU, PTX, kernels

CUDA = LANGUAGES["cuda"]


@pytest.fixture
def nvrtc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The library of NVRTC, on a machine without nvcc."""
    library = _found(CUDA, "nvrtc")
    if library is None:
        pytest.skip("no GPU toolkit: NVRTC is not installed (pip install nvidia-cuda-nvrtc)")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("NVCC", raising=False)
    places = {"nvrtc": CUDA.places["nvrtc"]}
    monkeypatch.setitem(LANGUAGES, "cuda", CUDA.__class__(**{**vars(CUDA), "places": places}))
    return library


def program_of_nvidia(name: str) -> str:
    """A program of NVIDIA's wheels, or of another toolkit on PATH."""
    of_wheels = (path for folder in sys.path for path in Path(folder).glob(f"nvidia/*/bin/{name}"))
    found = next(map(str, of_wheels), None) or shutil.which(name)
    if found is None:
        pytest.skip(f"no GPU toolkit: {name} is not installed (pip install nvidia-cuda-{name})")
    return found


def code_of(module: mblob.Module) -> bytes:
    return bytes(decode_payload("cuda", module.payload)["data"])


@pytest.mark.sample(2)
@pytest.mark.parametrize("how", [True, "nvrtc"])
@pytest.mark.parametrize(
    ("fmt", "arch", "start"),
    [("ptx", None, b"//"), ("ptx", 90, b"//"), ("cubin", "sm_90", b"\x7fELF")],
)
def test_nvrtc_compiles_where_there_is_no_nvcc(
    nvrtc: str, how: Any, fmt: str, arch: Any, start: bytes
) -> None:
    assert nvrtc
    module = mblob.device_module("cuda", CU, fmt=fmt, compile=how, arch=arch)
    assert kernels(module) == ALL
    assert code_of(module).startswith(start)
    assert fmt == "cubin" or not code_of(module).endswith(b"\0")
    if arch and fmt == "ptx":
        assert b".target sm_90" in code_of(module)


def test_nvrtc_is_named_by_its_file(nvrtc: str) -> None:
    assert kernels(mblob.device_module("cuda", CU, compile=nvrtc)) == ALL


def test_nvrtc_finds_headers_beside_the_source_and_takes_options(
    nvrtc: str, tmp_path: Path
) -> None:
    assert nvrtc
    (tmp_path / "own.h").write_text("#define PLUS +\n")
    source = '#include "own.h"\nextern "C" __global__ void k(float *x) { *x = *x PLUS BY; }'
    (tmp_path / "k.cu").write_text(source)
    module = mblob.device_module("cuda", tmp_path / "k.cu", compile=True, options="-DBY=2")
    assert kernels(module) == {"k": ["handle"]}


MISTAKES: dict[str, tuple[str, dict[str, Any], str]] = {
    "a name": ("nothing();", {}, r'text \(cu\): does not compile: .*"nothing" is undefined'),
    "an option": ("", {"options": "-O9"}, "does not compile: .*unrecognized option -O9"),
    "an architecture": ("", {"arch": "sm_20"}, "does not compile: .*invalid value for --gpu-arch"),
    "another library": ("", {"compile": "libc"}, "does not compile: .* is no NVRTC: "),
    "no library": (
        "",
        {"compile": "/gone/libnvrtc.so.13"},
        "libnvrtc.so.13 is not installed; install",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_nvrtc_says_is_one_error(nvrtc: str, mistake: str, tmp_path: Path) -> None:
    assert nvrtc
    body, arguments, message = MISTAKES[mistake]
    if arguments.get("compile") == "libc":
        (tmp_path / "libnvrtc.so.9").write_bytes(b"no library")
        arguments = {"compile": str(tmp_path / "libnvrtc.so.9")}
    source = CU + f"__device__ void f() {{ {body} }}"
    with pytest.raises(mblob.ToolchainError, match=message):
        mblob.device_module("cuda", source, **{"compile": True, **arguments})


# A library with NVRTC's functions, one of which fails, or gives code of no bytes.
FAKE_NVRTC = r"""
#include <stddef.h>
#include <string.h>
static int status_of(const char *name) { return strcmp(name, FAILING) == 0; }
static size_t size_of(const char *name) { return strcmp(name, EMPTY) ? 5 : 0; }
#define FUNCTION(name, parameters, body) int nvrtc##name parameters { body; return status_of(#name); }
FUNCTION(CreateProgram, (void **made), *made = made)
FUNCTION(CompileProgram, (void *program), (void)program)
FUNCTION(GetProgramLogSize, (void *program, size_t *size), (void)program; *size = 1)
FUNCTION(GetProgramLog, (void *program, char *log), (void)program; *log = 0)
FUNCTION(GetCUBINSize, (void *program, size_t *size), (void)program; *size = size_of("CUBIN"))
FUNCTION(GetCUBIN, (void *program, char *code), (void)program; memcpy(code, "CODE", 5))
FUNCTION(GetPTXSize, (void *program, size_t *size), (void)program; *size = size_of("PTX"))
FUNCTION(GetPTX, (void *program, char *code), (void)program; memcpy(code, "CODE", 5))
const char *nvrtcGetErrorString(int status) { return status ? "NVRTC_ERROR_OUT_OF_MEMORY" : "NVRTC_SUCCESS"; }
"""


def fake_nvrtc(folder: Path, failing: str = "", empty: str = "") -> Path:
    (folder / "fake.c").write_text(FAKE_NVRTC)
    flags = ["-shared", "-fPIC", f'-DFAILING="{failing}"', f'-DEMPTY="{empty}"']
    library = folder / "libnvrtc.so.13"
    subprocess.run(["gcc", *flags, "-o", library, folder / "fake.c"], check=True)
    return library


@pytest.mark.parametrize(
    "failing", ["CreateProgram", "CompileProgram", "GetProgramLog", "GetCUBINSize", "GetCUBIN"]
)
def test_each_function_of_nvrtc_that_fails_is_named(failing: str, tmp_path: Path) -> None:
    library = str(fake_nvrtc(tmp_path, failing))
    message = (
        f"text \\(cu\\): does not compile: NVRTC: error: nvrtc{failing}: NVRTC_ERROR_OUT_OF_MEMORY"
    )
    with pytest.raises(mblob.ToolchainError, match=message):
        mblob.device_module("cuda", CU, ["k"], fmt="cubin", compile=library, arch="sm_90")


@pytest.mark.parametrize(("fmt", "arch"), [("cubin", "sm_90"), ("ptx", None)])
def test_nvrtc_that_makes_no_code_is_an_error(fmt: str, arch: Any, tmp_path: Path) -> None:
    library = str(fake_nvrtc(tmp_path, empty=fmt.upper()))
    with pytest.raises(mblob.ToolchainError, match=f"nvrtcGet{fmt.upper()}Size: no {fmt} was made"):
        mblob.device_module("cuda", CU, ["k"], fmt=fmt, compile=library, arch=arch)


def test_a_library_without_a_function_of_nvrtc_is_none(tmp_path: Path) -> None:
    (tmp_path / "old.c").write_text(
        'const char *nvrtcGetErrorString(int x) { return x ? "" : ""; }'
    )
    library = tmp_path / "libnvrtc.so.9"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, tmp_path / "old.c"], check=True)
    with pytest.raises(mblob.ToolchainError, match=r"is no NVRTC: .*nvrtcCreateProgram"):
        mblob.device_module("cuda", CU, ["k"], compile=str(library))


@pytest.mark.parametrize(
    "names",
    [
        ("cu13/lib/libnvrtc.so.13", "cuda_nvrtc/lib/libnvrtc.so.12"),
        ("x/lib/libnvrtc.so.12", "x/lib/libnvrtc.so.9"),
        ("x/lib/libnvrtc.so.11.8.89", "x/lib/libnvrtc.so.11.2"),
    ],
)
def test_the_newest_nvrtc_is_found(
    names: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in names:
        (tmp_path / "nvidia" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "nvidia" / name).touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    language = dataclasses.replace(CUDA, places={"nvrtc": ("nvidia/*/lib/libnvrtc.so.[0-9]*",)})
    assert _found(language, "nvrtc") == str(tmp_path / "nvidia" / names[0])


def test_nvrtc_makes_no_fatbin(nvrtc: str) -> None:
    assert nvrtc
    with pytest.raises(BuildError, match="NVRTC writes no fatbin; use nvcc, or fmt='cubin'"):
        mblob.device_module("cuda", CU, fmt="fatbin", compile=True, arch=["sm_80", "sm_90"])


@pytest.mark.slow
@pytest.mark.own_process
@pytest.mark.parametrize("script", [False, True], ids=["nvcc", "a script that starts nvcc"])
def test_host_code_of_cuda_links_and_loads(
    script: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("no GPU toolkit: nvcc is not installed")
    if script:
        (tmp_path / "nvcc").write_text(f'#!/bin/sh\nexec {nvcc} "$@"\n')
        (tmp_path / "nvcc").chmod(0o755)
        monkeypatch.setenv("NVCC", str(tmp_path / "nvcc"))
    source = """
__global__ void twice(float *x) { x[threadIdx.x] *= 2; }
extern "C" void launch(float *x) { twice<<<1, 32>>>(x); }
extern "C" int version(int x) { cudaRuntimeGetVersion(&x); return x; }
"""
    module = mblob.csource_module(source, fmt="cu", functions=["int version(int x)"])
    module.export_library(tmp_path / "k.so")
    assert mblob.load_module(tmp_path / "k.so")["version"](0) >= 11000


# -- read back by NVIDIA's own programs ------------------------------------------------------------


def packed_code(module: mblob.Module, folder: Path) -> Path:
    """The code of a module, out of a library that it was packed into."""
    host = mblob.csource_module("int unused;")
    host.import_module(module)
    host.export_library(folder / "k.so")
    (folder / "k.code").write_bytes(code_of(mblob.load_module(folder / "k.so").imported_modules[0]))
    return folder / "k.code"


def said(*words: Any) -> str:
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["nvcc", "nvrtc"])
def test_nvdisasm_reads_a_packed_cubin(compiler: str, tmp_path: Path) -> None:
    if _found(CUDA, compiler) is None:
        pytest.skip(f"no GPU toolkit: {compiler} is not installed")
    module = mblob.device_module("cuda", CU, fmt="cubin", compile=compiler, arch="sm_90")
    listing = said(program_of_nvidia("nvdisasm"), packed_code(module, tmp_path))
    assert ".text.vadd:" in listing and ".text.mixed:" in listing and "FADD" in listing


@pytest.mark.slow
def test_cuobjdump_reads_a_packed_fatbin(tmp_path: Path) -> None:
    if _found(CUDA, "nvcc") is None:
        pytest.skip("no GPU toolkit: nvcc is not installed")
    module = mblob.device_module("cuda", CU, fmt="fatbin", compile="nvcc", arch=["sm_80", "sm_90"])
    cuobjdump, code = program_of_nvidia("cuobjdump"), packed_code(module, tmp_path)
    listed = said(cuobjdump, "-lelf", "-lptx", code)
    assert "sm_80.cubin" in listed and "sm_90.cubin" in listed and ".sm_90.ptx" in listed
    assert {"vadd", "mixed"} <= set(said(cuobjdump, "-symbols", code).split())


@pytest.mark.slow
@pytest.mark.parametrize("made", ["nvcc", "nvrtc", "by hand"])
def test_ptxas_takes_packed_ptx(made: str, tmp_path: Path) -> None:
    ptxas = program_of_nvidia("ptxas")
    if made == "by hand":
        text = PTX.replace(".target sm_50", ".target sm_80").replace(".version 8.0", ".version 7.0")
        text = text.replace("{\n  ld", "{\n  .reg .b64 %rd<3>;\n  ld").replace(
            "sm_80", "sm_80\n.address_size 64"
        )
        module = mblob.device_module("cuda", text, ["k"])
    elif _found(CUDA, made) is None:
        pytest.skip(f"no GPU toolkit: {made} is not installed")
    else:
        module = mblob.device_module("cuda", CU, compile=made, arch="sm_80")
    said(ptxas, "-arch=sm_80", "-o", tmp_path / "k.cubin", packed_code(module, tmp_path))
    assert (tmp_path / "k.cubin").read_bytes().startswith(b"\x7fELF")
