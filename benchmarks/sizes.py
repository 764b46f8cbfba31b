"""Sizes of what is shipped: mblob.c by its macros and by machine, standalone libraries, libmblob. No time
counts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import mblob
from benchmarks import inputs
from benchmarks.results import Section, Table, Target
from benchmarks.sampling import Bench
from tests.loader.executors import vm_programs

INTRO = """\
mblob.c, compiled with `-Os` by the gcc of each machine: code and data of mblob.o, with the tables for unwinding. A
standalone library carries its runtime: bytes over the library that needs mblob. It is made of the same sources, or of
that library (joined). The programs of Relax and Relay have the code of no kernel: functions of their names that do
nothing."""
ROOT = Path(__file__).resolve().parents[1]
SMALLEST = "-DMBLOB_PROFILE_MINIMAL"
CHOICES = (
    "",
    SMALLEST,
    f"{SMALLEST} -fno-asynchronous-unwind-tables",
    "-DMBLOB_PROFILE_CORE",
    "-DMBLOB_WITH_GRAPH",
    "-DMBLOB_WITH_RELAX",
    "-DMBLOB_WITH_RELAY",
    "-DMBLOB_WITH_AOT",
    "-DMBLOB_WITH_CONTRIB",
    "-DMBLOB_WITH_FFI",
)
# By what the first word of the compiler's name is on Debian.
MACHINES = {
    "x86-64": "x86_64-linux-gnu-",
    "aarch64": "aarch64-linux-gnu-",
    "armv7": "arm-linux-gnueabihf-",
    "riscv64": "riscv64-linux-gnu-",
    "i686": "i686-linux-gnu-",
    "s390x": "s390x-linux-gnu-",
}
ARRAY = "float32[4]"
# What the Relax example leaves open, and what programs of Relay do not tell.
OF_RELAX = {"image": "uint8[1,1,8,8]", "output": "int32[1]"}
OF_RELAY = {"x": ARRAY, "y": ARRAY}
FUNCTION = (
    "TVM_DLL int {}(TVMValue *a, int *c, int n, TVMValue *r, int *k, void *s) {{ return 0; }}\n"
)


def run(bench: Bench) -> Section:
    section = Section("Sizes", INTRO)
    _profiles(bench, section)
    _standalone(bench, section)
    stripped = bench.path("stripped.so")
    subprocess.run(["strip", "-o", str(stripped), str(inputs.runtime_library())], check=True)
    section.notes.append(f"libmblob, stripped: {stripped.stat().st_size / 1000:.0f} kB.")
    return section


def _profiles(bench: Bench, section: Section) -> None:
    """mblob.c: all macros on all machines that have a compiler here, or the smallest profile on this one."""
    folder = bench.path("amalgamation")
    command = [sys.executable, str(ROOT / "csrc" / "amalgamation.py"), str(folder)]
    subprocess.run(command, check=True)
    machines, choices = {"this machine": ""}, (SMALLEST,)
    if bench.scale.profiles:
        machines = {name: tools for name, tools in MACHINES.items() if shutil.which(f"{tools}gcc")}
        section.notes += [
            f"mblob.c for {name} was not compiled: there is no {tools}gcc."
            for name, tools in MACHINES.items()
            if name not in machines
        ]
        choices = CHOICES
    lines, smallest = [], None
    for choice in choices:
        found = {name: _weight(tools, choice, folder) for name, tools in machines.items()}
        if choice == SMALLEST:
            smallest = found.get("x86-64", found.get("this machine"))
        cells = (f"{weight:.0f}" for weight in found.values())
        lines.append([f"`{choice}`" if choice else "none: all", *cells])
        bench.say(f"mblob.c {choice}")
    section.tables.append(Table(["mblob.c with, kB", *machines], lines))
    text = "mblob.c with MBLOB_PROFILE_MINIMAL: code and data"
    why = "it has more than opening, calling and reading take."
    section.targets.append(Target(text, 130, smallest, "kB", why))


def _weight(tools: str, choice: str, folder: Path) -> float:
    """kB of text and data, as `size` tells them."""
    words = ["-std=c11", "-Os", *choice.split(), "-c", "mblob.c", "-o", "mblob.o"]
    subprocess.run([f"{tools}gcc", *words], cwd=folder, check=True)
    command = [f"{tools}size", "mblob.o"]
    told = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    text, data = told.splitlines()[1].split()[:2]
    return (int(text) + int(data)) / 1000


# -- standalone ------------------------------------------------------------------------------------


def _kernel(bench: Bench) -> mblob.Module:
    made = mblob.csource_module("void twice(float x[2]) { x[0] *= 2; x[1] *= 2; }")
    made.import_module(mblob.blob_module("config", b'{"labels": ["cat"]}'))
    return made


def _graph(bench: Bench) -> mblob.Module:
    """The digits network."""
    objects = bench.path("digits.tar")
    manifest = ROOT / "examples" / "digits" / "digits.toml"
    words = ["-m", "mblob.cli.main", "build", "--quiet", str(manifest), "-o", str(objects)]
    subprocess.run([sys.executable, *words], check=True)
    return mblob.static_library(objects)


def _relax(bench: Bench) -> mblob.Module:
    """The program of the example, in the dialect that standalone libraries have."""
    classic = bench.path("classic.so")
    mblob.convert(ROOT / "examples" / "relax" / "digits_relax.so", classic, dialect="classic")
    with mblob.open(classic) as library:
        program = mblob.blob_module(library.entries[0].type_key, bytes(library.entries[0].view()))
        names = [name for name in library.functions if not name.startswith("__")]
    return _with_names(program, names)


def _relay(bench: Bench) -> mblob.Module:
    program = vm_programs.arithmetic()
    return _with_names(mblob.blob_module("VMExecutable", program.payload()), program.primitives)


def _with_names(program: mblob.Module, names: Sequence[str]) -> mblob.Module:
    header = "#include <tvm/runtime/c_runtime_api.h>\n"
    text = header + "".join(map(FUNCTION.format, names))
    program.import_module(mblob.csource_module(text, functions=[]))
    return program


# What it is, how it is made, shapes that it leaves open, and kB that it grows by at most.
MODELS: dict[str, tuple[Callable[[Bench], mblob.Module], dict[str, str] | None, int]] = {
    "a kernel with a payload": (_kernel, None, 100),
    "a graph model": (_graph, None, 150),
    "a Relax model": (_relax, OF_RELAX, 200),
    "a Relay program": (_relay, OF_RELAY, 150),
}


def _standalone(bench: Bench, section: Section) -> None:
    os.environ["MBLOB_CACHE_DIR"] = str(bench.path("cache"))  # the runtime is compiled
    lines = []
    for name, (make, shapes, most) in MODELS.items():
        plain, whole, joined = (bench.path(f"{n}.so") for n in ("plain", "whole", "joined"))
        module = make(bench)
        module.export_library(plain, dialect="classic")
        module.export_library(whole, dialect="classic", standalone=True, shapes=shapes)
        mblob.standalone(plain, joined, shapes=shapes)
        sizes = [path.stat().st_size / 1000 for path in (plain, whole, joined)]
        grown = [size - sizes[0] for size in sizes[1:]]
        lines.append([name, *(f"{size:.0f}" for size in (*sizes, *grown))])
        why = "the runtime that it carries has more than the model asks for."
        section.targets.append(Target(f"standalone, {name}: growth", most, max(grown), "kB", why))
        bench.say(f"standalone: {name}")
        if not bench.scale.profiles:
            break
    head = ["kB", "needs mblob", "standalone", "joined", "growth", "growth, joined"]
    section.tables.append(Table(head, lines))
