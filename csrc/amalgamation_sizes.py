"""Prints the table of docs/howto/one_c_file.md: what mblob.c weighs, by its macros and by machine.

    python3 csrc/amalgamation_sizes.py

Each machine whose cross compiler is installed has a column: kB of code and data of mblob.o, compiled
with -Os.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import amalgamation

CHOICES = (
    "",
    "-DMBLOB_PROFILE_MINIMAL",
    "-DMBLOB_PROFILE_MINIMAL -fno-asynchronous-unwind-tables",
    "-DMBLOB_PROFILE_CORE",
    "-DMBLOB_WITH_GRAPH",
    "-DMBLOB_WITH_RELAX",
    "-DMBLOB_WITH_RELAY",
    "-DMBLOB_WITH_AOT",
    "-DMBLOB_WITH_CONTRIB",
)
MACHINES = {
    "x86-64": "x86_64-linux-gnu-",
    "aarch64": "aarch64-linux-gnu-",
    "armv7": "arm-linux-gnueabihf-",
    "riscv64": "riscv64-linux-gnu-",
    "i686": "i686-linux-gnu-",
    "s390x": "s390x-linux-gnu-",
}


def weight(tools: str, choice: str, folder: Path) -> int:
    """Bytes of text and data, as `size` tells them."""
    words = ["-std=c11", "-Os", *choice.split(), "-c", "mblob.c", "-o", "mblob.o"]
    subprocess.run([f"{tools}gcc", *words], cwd=folder, check=True)
    command = [f"{tools}size", "mblob.o"]
    told = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    text, data = told.splitlines()[1].split()[:2]
    return int(text) + int(data)


def main() -> None:
    machines = {name: tools for name, tools in MACHINES.items() if shutil.which(f"{tools}gcc")}
    print("|".join(["", " macro ", *(f" {name} " for name in machines), ""]))
    print("|---|" + "---:|" * len(machines))
    with tempfile.TemporaryDirectory() as name:
        amalgamation.main(Path(name))
        for choice in CHOICES:
            found = (weight(tools, choice, Path(name)) for tools in machines.values())
            cells = [
                f" `{choice}` " if choice else " none: all ",
                *(f" {round(n / 1000)} " for n in found),
            ]
            print("|".join(["", *cells, ""]), flush=True)


if __name__ == "__main__":
    main()
