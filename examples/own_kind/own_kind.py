"""A kind of module of your own in Python, C and C++: load it, change it, and export what it has become.

`python own_kind.py FOLDER` compiles counter.c and counter.cpp to FOLDER, and writes libraries there.
"""

import ctypes
import struct
import subprocess
import sys
from pathlib import Path
from typing import Literal

import mblob

HERE, OUT = Path(__file__).parent, Path(sys.argv[1])


def payload_of(name: str, count: int) -> bytes:
    """A string and a 64-bit number, as TVM's streams have them."""
    return struct.pack("<Q", len(name)) + name.encode() + struct.pack("<Q", count)


@mblob.register_loader("counter_py", layout="string,u64")
def load(payload: memoryview, ctx: object) -> mblob.Module:
    """LoadFromBinary: the module of a payload."""
    size = int.from_bytes(payload[:8], "little")
    state = {"count": int.from_bytes(payload[8 + size :], "little")}
    name = bytes(payload[8 : 8 + size]).decode()

    def count(step: int) -> int:
        state["count"] += step
        return state["count"]

    return mblob.Module(
        "counter_py",
        functions={"py_count": count},  # GetFunction
        save=lambda: payload_of(name, state["count"]),  # SaveToBinary
    )


def compile_host(source: str, *command: str) -> None:
    """A shared library beside mblob's, with a loader that registers itself."""
    include, libraries = mblob.get_include(), mblob.get_library_dir()
    subprocess.run(
        [
            *command, "-shared", "-fPIC", "-DMBLOB_HOST", f"-I{include}", f"-I{include}/mblob/compat",
            HERE / source, "-o", OUT / f"lib{source}.so", f"-L{libraries}", "-lmblob", f"-Wl,-rpath,{libraries}",
        ],
        check=True,
    )  # fmt: skip
    ctypes.CDLL(str(OUT / f"lib{source}.so"))


compile_host("counter.c", "cc")
compile_host("counter.cpp", "c++", "-std=c++17")

host = mblob.csource_module("void nothing(void) {}", functions=["void nothing(void)"])
for kind in ("counter_py", "counter_c", "counter_cpp"):
    host.import_module(mblob.blob_module(kind, payload_of(kind, 1), data=False))
dialects: tuple[Literal["classic", "ffi"], ...] = ("classic", "ffi")
ways = [(dialects[0], False), (dialects[0], True), (dialects[1], True)]
for dialect, index in ways:
    host.export_library(OUT / "first.so", dialect=dialect, index=index)
    lib = mblob.load_module(OUT / "first.so")
    lib["py_count"](2), lib["c_count"](3), lib["cpp_count"](4)
    for written in dialects:
        lib.export_library(OUT / "second.so", dialect=written)
        again = mblob.load_module(OUT / "second.so")
        print(dialect, written, again["py_count"](0), again["c_count"](0), again["cpp_count"](0))
