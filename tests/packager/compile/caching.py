"""What tests of the object cache share: compilers that count, and what a cache has."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import mblob

KERNEL = "#include <stdint.h>\nint f(int x) { return x + 1; }\n"
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]


def cxx_of(compiler: str) -> str:
    return {"gcc": "g++", "clang": "clang++"}.get(compiler, "c++")


class Tool:
    """A compiler that notes what it was asked to compile."""

    def __init__(self, folder: Path, real: str) -> None:
        self.real = real
        self.log = folder / "calls"
        self.path = folder / f"counted-{real}"
        for path, name in ((self.path, real), (folder / f"counted-{cxx_of(real)}", cxx_of(real))):
            path.write_text(
                f'#!/bin/sh\n[ "$1" = -### ] && exec {name} "$@"  # only a question\n'
                f'for a in "$@"; do [ "$a" = -c ] && echo "$*" >> {self.log}; done\nexec {name} "$@"\n'
            )
            path.chmod(0o755)

    def compiles(self, make: Callable[[], object]) -> int:
        """How many files were compiled while make() ran."""
        self.log.write_text("")
        make()
        return len(self.log.read_text().splitlines())


def objects(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file())


def export(tool: Tool, output: Path, text: str | Path = KERNEL, fmt: str = "c", **how: object) -> Callable[[], object]:
    return lambda: mblob.csource_module(text, fmt).export_library(output, cc=str(tool.path), **how)
