"""Fixtures of the tests of `mblob.open` and `mblob-pack inspect`: machine code of other systems,
blobs, the schema."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from mblob.inspect.inspect_json import schema

KERNEL = r"""
#ifdef _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif
extern void *TVMBackendAllocWorkspace(int, int, unsigned long long, int, int);
extern float expf(float);
EXPORT int vadd(void *args, int *codes, int n, void *ret, int *code, void *handle) {
  return TVMBackendAllocWorkspace(1, 0, n, 0, 0) != 0 && expf(n) > 1;
}
"""


def u64(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


def string(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return u64(len(raw)) + raw


CUDA = (
    string("ptx") + u64(1) + string("k") + string("") + u64(2) + bytes.fromhex("03400100 00200100")
)
CUDA += u64(1) + string("blockIdx.x") + string("//PTX\n.target sm_80\n")


def classic_blob(*items: bytes, row_ptr: tuple[int, ...], child: tuple[int, ...]) -> bytes:
    """A blob of the classic dialect: `_lib` and payloads, each with its key, then the tree."""
    tree = string("_import_tree") + u64(len(row_ptr), *row_ptr) + u64(len(child), *child)
    body = u64(len(items) + 1) + b"".join(items) + tree
    return u64(len(body)) + body


LIB = string("_lib")
BLOB = classic_blob(LIB, string("cuda") + CUDA, row_ptr=(0, 1, 1), child=(1,))


def blob_source(blob: bytes, symbol: str = "__tvm_dev_mblob", attributes: str = "EXPORT") -> str:
    """C text that defines a blob, as TVM writes it."""
    data = ",".join(map(str, blob))
    declared = f"{attributes} extern const unsigned char {symbol}[];"
    return f"{declared} const unsigned char {symbol}[{len(blob)}] = {{{data}}};"


@pytest.fixture(scope="session")
def clang(require: Callable[[str], str]) -> Callable[..., Path]:
    """`clang(source, output, target)`: an object for any machine and system."""
    compiler = require("clang")

    def compile_object(source: str, output: Path, target: str) -> Path:
        text = output.with_suffix(".c")
        text.write_text(source)
        # For some targets clang calls `as`, which is this machine's.
        command = [
            compiler,
            f"--target={target}",
            "-fintegrated-as",
            "-c",
            "-O1",
            "-fPIC",
            "-ffreestanding",
        ]
        if "windows" in target:
            command.remove("-fPIC")
        done = subprocess.run([*command, "-o", output, text], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return output

    return compile_object


@pytest.fixture(scope="session")
def lld(require: Callable[[str], str]) -> Callable[[str], str]:
    """`lld("ld64.lld")`: one of LLVM's linkers, with or without the number of its release."""

    def find(name: str) -> str:
        numbered = (f"{name}-{release}" for release in range(30, 12, -1))
        return next(filter(None, map(shutil.which, numbered)), None) or require(name)

    return find


@pytest.fixture(scope="session")
def dylib(tmp_path_factory: pytest.TempPathFactory, clang: Any, lld: Any) -> dict[str, Path]:
    """A Mach-O library with a blob, by machine. Do not change them."""
    folder = tmp_path_factory.mktemp("dylib")
    found = {}
    for machine, arch in (("x86_64", "x86_64"), ("aarch64", "arm64")):
        obj = clang(KERNEL + blob_source(BLOB), folder / f"{arch}.o", f"{arch}-apple-macos11")
        path = found[machine] = folder / f"{arch}.dylib"
        command = [
            lld("ld64.lld"),
            "-arch",
            arch,
            "-platform_version",
            "macos",
            "11.0",
            "11.0",
            "-dylib",
        ]
        command += [
            "-install_name",
            "@rpath/model.dylib",
            "-rpath",
            "/opt/models",
            "-undefined",
            "dynamic_lookup",
        ]
        done = subprocess.run([*command, str(obj), "-o", str(path)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return found


@pytest.fixture(scope="session")
def dll(tmp_path_factory: pytest.TempPathFactory, clang: Any, lld: Any) -> Path:
    """A PE library with a blob, which imports from tvm_runtime.dll. Do not change it."""
    folder = tmp_path_factory.mktemp("dll")
    target = "x86_64-pc-windows-msvc"
    runtime = "__declspec(dllexport) void *TVMBackendAllocWorkspace(void) { return 0; }\n"
    runtime += "__declspec(dllexport) float expf(float x) { return x; }\nint _fltused;\n"
    clang(runtime, folder / "tvm_runtime.obj", target)
    clang(KERNEL + "int _fltused;\n" + blob_source(BLOB), folder / "model.obj", target)
    for name, more in (("tvm_runtime", []), ("model", ["tvm_runtime.lib"])):
        command = [
            lld("lld-link"),
            "/dll",
            "/noentry",
            "/nodefaultlib",
            f"{name}.obj",
            *more,
            f"/out:{name}.dll",
        ]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return folder / "model.dll"


@pytest.fixture(scope="session")
def validate() -> Callable[[Any], None]:
    """`validate(report)`: it is what the published schema says."""
    found = schema()
    jsonschema.Draft202012Validator.check_schema(found)
    return jsonschema.Draft202012Validator(found).validate
