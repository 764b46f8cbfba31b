"""A compiler of CUDA sources as a program: NVRTC, NVIDIA's compiler in a shared library.

    python nvrtc.py LIBRARY ptx|cubin SOURCE OUTPUT [OPTION...]

It runs in a process of its own, as other compilers do: what it says is in the error, Ctrl-C ends it,
and a crash of it is an error. So it imports nothing of mblob.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import Any


def main(library: str, fmt: str, source: str, output: str, *options: str) -> int:
    """Compile, and print what NVRTC says; the exit code."""
    try:
        nvrtc: Any = ctypes.CDLL(library)
        nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
        create, compile = nvrtc.nvrtcCreateProgram, nvrtc.nvrtcCompileProgram
    except (OSError, AttributeError) as exc:
        print(f"{library} is no NVRTC: {exc}", file=sys.stderr)
        return 1
    program = ctypes.c_void_p()
    text, name = Path(source).read_bytes(), os.fsencode(source)
    status = create(ctypes.byref(program), text, name, 0, None, None)
    if status == 0:
        words = (ctypes.c_char_p * len(options))(*map(os.fsencode, options))
        status = compile(program, len(options), words)
        said = _taken(nvrtc, "ProgramLog", program).rstrip(b"\0\n")
        print(said.decode(errors="replace"), end="\n" if said else "", file=sys.stderr)
    if status:
        print(f"NVRTC: {nvrtc.nvrtcGetErrorString(status).decode()}", file=sys.stderr)
        return 1
    code = _taken(nvrtc, fmt.upper(), program)
    Path(output).write_bytes(code.rstrip(b"\0") if fmt == "ptx" else code)
    return 0


def _taken(nvrtc: Any, what: str, program: ctypes.c_void_p) -> bytes:
    """The log of a program, or its code."""
    size = ctypes.c_size_t()
    if nvrtc[f"nvrtcGet{what}Size"](program, ctypes.byref(size)) or not size.value:
        return b""
    data = ctypes.create_string_buffer(size.value)
    return b"" if nvrtc[f"nvrtcGet{what}"](program, data) else data.raw


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
