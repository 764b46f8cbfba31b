"""`mblob-pack doctor --target T`: what packing for another machine needs, and what is missing of it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mblob.cli.findings import Finding, attempt, tool
from mblob.interrupts import DeferredSignals
from mblob.temporary import temporary_folder

if TYPE_CHECKING:
    from mblob.packager.compile.toolchain import Toolchain

KERNEL = "double halves(double x) { return x / 2; }\n"
# Its exit code is 0 if the library in its argument opens, and its function gives what it should.
HOST = """#include <dlfcn.h>
#include <math.h>
int main(int argc, char **argv) {
  void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : 0;
  double (*halves)(double) = library ? (double (*)(double))dlsym(library, "halves") : 0;
  return !halves || fabs(halves(5) - 2.5) > 0;
}
"""
# Debian's names of architectures, by the first part of a triple.
_DEBIAN = {
    "aarch64": "arm64", "arm": "armhf", "i686": "i386", "powerpc64": "ppc64", "powerpc64le": "ppc64el",
    "riscv64": "riscv64", "s390x": "s390x", "x86_64": "amd64",
}  # fmt: skip
_QEMU = {"i686": "i386", "powerpc64": "ppc64", "powerpc64le": "ppc64le"}


def findings(target: str) -> Iterator[Finding]:
    """Look for what a target needs: compilers, its C library, a trial of packing, an emulator.

    Args:
        target: a triple, as `build --target` takes it.
    """
    from mblob.packager.compile.toolchain import find

    section = f"target {target}"
    try:
        chain = find(None, target)
    except Exception as error:  # whatever is wrong with this machine is what the report is about
        advice = f"{error}{_advice(target, 'gcc-{}')}"
        yield Finding(section, "C compiler", ok=False, needed=True, version=advice)
        return
    yield Finding(
        section,
        "C compiler",
        ok=True,
        needed=True,
        version=_version(chain),
        place=shutil.which(chain.cc[0]) or "",
    )
    yield attempt(section, "C library", partial(_links, chain, target), needed=True)
    yield attempt(section, "packing", partial(_packs, chain, target), needed=True)
    for name, of_chain in (("C++ compiler", _cxx), ("Fortran compiler", _fc)):
        yield attempt(section, name, partial(of_chain, chain))
    machine = target.partition("-")[0]
    emulator = f"qemu-{_QEMU.get(machine, machine)}"
    found = tool(section, "emulator", emulator)
    yield attempt(section, "emulator", partial(_runs, chain, target, found)) if found.ok else found


def _advice(target: str, package: str) -> str:
    """The end of an error: how Debian installs a package for a target."""
    machine, _, rest = target.partition("-")
    known = _DEBIAN.get(machine)
    if known is None or not rest.startswith("linux-gnu"):
        return ""
    return f"; on Debian: apt-get install {package.format(target)} libc6-dev-{known}-cross"


def _version(chain: Toolchain) -> str:
    done = subprocess.run(
        [*chain.cc, "--version"], capture_output=True, text=True, errors="replace"
    )
    return (done.stdout.splitlines() or [" ".join(chain.cc)])[0]


def _cxx(chain: Toolchain) -> tuple[str, str]:
    return " ".join(chain.cxx), shutil.which(chain.cxx[0]) or ""


def _fc(chain: Toolchain) -> tuple[str, str]:
    return " ".join(chain.fc), shutil.which(chain.fc[0]) or ""


def _host(chain: Toolchain, target: str, folder: Path) -> Path:
    """A program for the target that opens a library.

    Raises:
        RuntimeError: with the compiler's first line, and the package that is missing.
    """
    (folder / "host.c").write_text(HOST)
    command = [*chain.cc, str(folder / "host.c"), "-o", str(folder / "host"), "-ldl", "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if done.returncode:
        line = next((x for x in done.stderr.splitlines() if "error" in x), "the link failed")
        raise RuntimeError(f"{line.strip()}{_advice(target, 'gcc-{}')}")
    return folder / "host"


def _links(chain: Toolchain, target: str) -> tuple[str, str]:
    with DeferredSignals(), temporary_folder() as folder:
        _host(chain, target, folder)
    return "headers are there, and a program links", ""


def _pack(target: str, path: Path) -> None:
    import mblob

    module = mblob.csource_module(KERNEL)
    module.import_module(mblob.blob_module("mblob.doctor", b"payload"))
    module.export_library(path, target=target)


def _packs(chain: Toolchain, target: str) -> tuple[str, str]:
    import mblob

    with DeferredSignals(), temporary_folder() as folder:
        _pack(target, folder / "trial.so")
        mblob.verify(folder / "trial.so")
        with mblob.open(folder / "trial.so") as library:
            machine = library.to_json()["target"]["machine"]
    return f"compiled, packed and verified a kernel for {machine}, by {' '.join(chain.cc)}", ""


def _runs(chain: Toolchain, target: str, emulator: Finding) -> tuple[str, str]:
    """Open the library of the trial under the emulator, with the cross compiler's C library."""
    with DeferredSignals(), temporary_folder() as folder:
        host = _host(chain, target, folder)
        _pack(target, folder / "trial.so")
        command = [emulator.place, "-L", f"/usr/{target}", str(host), str(folder / "trial.so")]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60)
        if done.returncode:
            said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[0]
            raise RuntimeError(f"the trial does not run: {said}")
    return f"{emulator.version}; the trial runs", emulator.place
