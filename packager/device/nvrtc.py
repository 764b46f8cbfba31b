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
    code = fmt.upper()
    steps = (
        "CreateProgram",
        "CompileProgram",
        "GetProgramLogSize",
        "GetProgramLog",
        f"Get{code}Size",
        f"Get{code}",
    )
    try:
        nvrtc: Any = ctypes.CDLL(library)
        nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
        functions = {step: nvrtc[f"nvrtc{step}"] for step in steps}
    except (OSError, AttributeError) as exc:
        print(f"{library} is no NVRTC: {exc}", file=sys.stderr)
        return 1

    def check(step: str, status: int) -> None:
        if status:
            found = nvrtc.nvrtcGetErrorString(status).decode()
            raise _Failed(f"nvrtc{step}: {found}")

    def taken(what: str) -> bytes:
        """The log of the program, or its code."""
        size = ctypes.c_size_t()
        check(f"Get{what}Size", functions[f"Get{what}Size"](program, ctypes.byref(size)))
        data = ctypes.create_string_buffer(size.value)
        check(f"Get{what}", functions[f"Get{what}"](program, data))
        return data.raw

    program = ctypes.c_void_p()
    text, name = Path(source).read_bytes(), os.fsencode(source)
    words = (ctypes.c_char_p * len(options))(*map(os.fsencode, options))
    try:
        status = functions["CreateProgram"](ctypes.byref(program), text, name, 0, None, None)
        check("CreateProgram", status)
        status = functions["CompileProgram"](program, len(options), words)
        said = taken("ProgramLog").rstrip(b"\0\n")
        print(said.decode(errors="replace"), end="\n" if said else "", file=sys.stderr)
        check("CompileProgram", status)
        made = taken(code)
        if not made.rstrip(b"\0"):
            raise _Failed(
                f"nvrtcGet{code}Size: no {fmt} was made; expected a real architecture, as in arch='sm_90'"
            )
    except _Failed as exc:
        print(f"NVRTC: error: {exc}", file=sys.stderr)
        return 1
    Path(output).write_bytes(made.rstrip(b"\0") if fmt == "ptx" else made)
    return 0


class _Failed(Exception):
    """A function of NVRTC reports an error."""


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
