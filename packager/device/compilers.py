"""Compilers of device code: found on the machine, run, their words in the error.

cuda: nvcc, NVRTC, or clang with a CUDA toolkit, to PTX, cubin or fatbin. hip: hipcc, or clang, to a code
object. opencl: clang to SPIR-V, through llvm-spirv where there is one, else by clang alone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mblob.errors import ToolchainError, did_you_mean
from mblob.format.type_keys import CUDA, HIP, OPENCL
from mblob.interrupts import DeferredSignals
from mblob.packager.compile.processes import Command, Job, run_all
from mblob.packager.compile.toolchain import command_words
from mblob.packager.device import nvrtc
from mblob.packager.errors import BuildError
from mblob.packager.options import as_options
from mblob.packager.path_arguments import workspace

Compile = Any  # True, the name or command of a compiler, or its words
Arch = Any  # "sm_90", 90, or a sequence of these


@dataclass(frozen=True)
class Task:
    """A compilation of device code.

    Attributes:
        source: the file.
        label: how messages call it.
        fmt: what is wanted: "ptx", "cubin", "fatbin", "hsaco" or "spv".
        archs: architectures, () for the compiler's own choice.
        options: of the caller.
        output: file to write, in the working folder.
    """

    source: Path
    label: str
    fmt: str
    archs: tuple[str, ...]
    options: tuple[str, ...]
    output: str


# -- command lines: one after the other, the last writes the output --------------------------------


def _nvcc(command: Command, task: Task) -> list[Command]:
    names = [f"sm_{a}" for a in task.archs]
    if task.fmt == "fatbin" and names:
        codes = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in task.archs]
        newest = max(task.archs, key=lambda a: int(re.sub(r"\D", "", a)))
        # for devices to come
        target = [*codes, f"-gencode=arch=compute_{newest},code=compute_{newest}"]
    else:
        target = [f"-arch={n}" for n in names]
    return [
        (
            *command,
            f"-{task.fmt}",
            *target,
            *task.options,
            "-x",
            "cu",
            "-o",
            task.output,
            str(task.source),
        )
    ]


def _nvrtc(command: Command, task: Task) -> list[Command]:
    if task.fmt == "fatbin":
        raise BuildError("device_module: NVRTC writes no fatbin; use nvcc, or fmt='cubin'")
    real = "sm" if task.fmt == "cubin" else "compute"
    target = [f"--gpu-architecture={real}_{a}" for a in task.archs]
    folders = [task.source.parent, Path(command[-1]).parent.parent / "include"]
    headers = [f"-I{folder}" for folder in folders if folder.is_dir()]
    program = (sys.executable, "-I", nvrtc.__file__)
    words = (task.fmt, str(task.source), task.output, *target, *task.options, *headers)
    return [(*program, *command, *words)]


def _clang_cuda(command: Command, task: Task) -> list[Command]:
    if task.fmt == "fatbin":
        raise BuildError("device_module: clang writes no fatbin; use nvcc, or fmt='cubin'")
    target = [f"--cuda-gpu-arch=sm_{a}" for a in task.archs]
    kind = "-S" if task.fmt == "ptx" else "-c"
    flags = ("-x", "cuda", "--cuda-device-only", "-O2", *target, kind, *task.options)
    return [(*command, *flags, "-o", task.output, str(task.source))]


def _hipcc(command: Command, task: Task) -> list[Command]:
    target = [f"--offload-arch={a}" for a in task.archs]
    return [
        (
            *command,
            "--genco",
            "-O2",
            *target,
            *task.options,
            "-o",
            task.output,
            "-x",
            "hip",
            str(task.source),
        )
    ]


def _clang_hip(command: Command, task: Task) -> list[Command]:
    target = [f"--offload-arch={a}" for a in task.archs]
    # A bundle of one would need a tool that Debian has in another package.
    flags = (
        "-x",
        "hip",
        "--cuda-device-only",
        "--no-gpu-bundle-output",
        "-O2",
        *target,
        *task.options,
    )
    return [(*command, *flags, "-o", task.output, str(task.source))]


def _clang_opencl(command: Command, task: Task) -> list[Command]:
    flags = (
        "-x",
        "cl",
        "-O1",
        *([] if _says_standard(task.options) else ["-cl-std=CL1.2"]),
        *task.options,
    )
    translator = _llvm_spirv(command)
    if translator:
        bitcode = ("--target=spir64-unknown-unknown", "-emit-llvm", "-c", *flags)
        return [
            (*command, *bitcode, "-o", "device.bc", str(task.source)),
            (*translator, "device.bc", "-o", task.output),
        ]
    return [
        (
            *command,
            "--target=spirv64-unknown-unknown",
            "-c",
            *flags,
            "-o",
            task.output,
            str(task.source),
        )
    ]


def _says_standard(options: Sequence[str]) -> bool:
    return any(o.startswith("-cl-std=") for o in options)


# releases of the translator that are tried after clang's own: they read its code, older ones do not
_NEWER = 8


def _llvm_spirv(clang: Command) -> Command:
    """The translator to SPIR-V, of clang's own release if it is there (Debian's name has the
    number).

    () where there is none: clang is left to itself.
    """
    names = ["llvm-spirv"]
    release = _release(clang)
    if release:
        own, *newer = (f"llvm-spirv-{release + i}" for i in range(_NEWER))
        names = [own, *names, *newer]
    found = next((path for path in map(shutil.which, names) if path), None)
    return (found,) if found else ()


def _release(clang: Command) -> int:
    """Its number, 0 if it does not tell."""
    try:
        said = subprocess.run(
            [*clang, "-dumpversion"], capture_output=True, text=True, errors="replace", timeout=20
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.match(r"\d+", said.stdout.strip())
    return int(match[0]) if match and not said.returncode else 0


Lines = Callable[[Command, Task], "list[Command]"]


@dataclass(frozen=True)
class Language:
    """One kind of device code, and the compilers for it.

    Attributes:
        suffix: of its sources.
        formats: what it can be compiled to, the default first.
        compilers: known names, the preferred first, each with what makes its command lines.
        variable: of the environment, names a compiler.
        places: where one may be that is not on PATH, patterns by its name: files, or files below
            the folders that Python imports from, where NVIDIA's wheels are installed.
        install: what to install where there is none.
        single: formats for one architecture, which must be named.
        arch: what an architecture looks like; an example; "" where there are none.
    """

    suffix: str
    formats: tuple[str, ...]
    compilers: dict[str, Lines]
    variable: str
    places: dict[str, tuple[str, ...]]
    install: str
    single: tuple[str, ...]
    arch: str
    example: str


_NVRTC = (
    "/usr/local/cuda/lib64/libnvrtc.so.[0-9]*",
    "/usr/lib/*/libnvrtc.so.[0-9]*",
    "nvidia/*/lib/libnvrtc.so.[0-9]*",
)
LANGUAGES = {
    CUDA: Language(
        suffix=".cu",
        formats=("ptx", "cubin", "fatbin"),
        compilers={"nvcc": _nvcc, "nvrtc": _nvrtc, "clang": _clang_cuda},
        variable="NVCC",
        places={"nvcc": ("/usr/local/cuda/bin/nvcc", "nvidia/*/bin/nvcc"), "nvrtc": _NVRTC},
        install="NVIDIA's CUDA toolkit (Debian: nvidia-cuda-toolkit; pip: nvidia-cuda-nvrtc)",
        single=("cubin",),
        arch=r"(?:sm_|compute_)?(\d+[af]?)",
        example="sm_90",
    ),
    HIP: Language(
        suffix=".hip",
        formats=("hsaco",),
        compilers={"hipcc": _hipcc, "clang": _clang_hip},
        variable="HIPCC",
        places={"hipcc": ("/opt/rocm/bin/hipcc",)},
        install="AMD's ROCm (Debian: hipcc)",
        single=("hsaco",),
        arch=r"(gfx[0-9a-f]+(?::[\w+:-]+)?)",
        example="gfx90a",
    ),
    OPENCL: Language(
        suffix=".cl",
        formats=("spv",),
        compilers={"clang": _clang_opencl},
        variable="CLANG",
        places={},
        install="clang and llvm-spirv of the same release (Debian 12: clang, llvm-spirv-14)",
        single=(),
        arch="",
        example="",
    ),
}


# -- running ---------------------------------------------------------------------------------------


def compile_device(
    kind: str,
    source: Path | str,
    how: Compile,
    fmt: str | None,
    arch: Arch,
    options: str | Sequence[str] | None,
) -> tuple[bytes, str]:
    """Compile a source for a device.

    Args:
        kind: "cuda", "hip" or "opencl".
        source: a file, or a text.
        how: True (the first compiler that is there) or a compiler.
        fmt: what to make, None for the kind's usual.
        arch: one architecture, or several where `fmt` takes them.

    Returns:
        The code, and its format.

    Raises:
        BuildError: the kind, format or architecture cannot be had.
        ToolchainError: no compiler, or it failed; `command` and `output` tell.
    """
    language = LANGUAGES.get(kind)
    if language is None:
        raise BuildError(
            f"device_module: compile= is for {', '.join(LANGUAGES)}; {kind} code is taken as it is"
        )
    wanted = fmt or language.formats[0]
    if wanted not in language.formats:
        raise BuildError(
            f"device_module: fmt {wanted!r} cannot be compiled to; for {kind}: {', '.join(language.formats)}"
            f"{did_you_mean(wanted, language.formats)}"
        )
    archs = _archs(language, kind, wanted, arch)
    words = as_options(options)
    command, lines = _compiler(language, kind, how)
    with DeferredSignals(), workspace(None) as work:
        label = (
            str(source)
            if isinstance(source, Path)
            else f"device_module text ({language.suffix[1:]})"
        )
        if isinstance(source, str):
            # in the folder, whose name by chance shall not get into the code
            path = Path(f"device{language.suffix}")
            (work / path).write_text(source, errors="surrogateescape")
        else:
            path = source.absolute()
        task = Task(path, label, wanted, archs, words, f"code.{wanted}")
        for step in lines(command, task):
            run_all([Job(label, step)], work)
        return (work / task.output).read_bytes(), wanted


def _archs(language: Language, kind: str, fmt: str, arch: Arch) -> tuple[str, ...]:
    if arch is None:
        if fmt in language.single:
            raise BuildError(
                f"device_module: a {fmt} is for one architecture: pass arch=, e.g. arch={language.example!r}"
            )
        return ()
    given = [arch] if isinstance(arch, (str, int)) else list(arch)
    if not language.arch:
        raise BuildError(f"device_module: {kind} code has no architectures, arch= is {arch!r}")
    if not given or (len(given) > 1 and fmt != "fatbin"):
        raise BuildError(f"device_module: {fmt} is for one architecture, arch= names {len(given)}")
    found = []
    for one in given:
        match = re.fullmatch(language.arch, str(one))
        if match is None:
            raise BuildError(f"device_module: arch {one!r}: expected one like {language.example!r}")
        found.append(match[1])
    return tuple(found)


def _compiler(language: Language, kind: str, how: Compile) -> tuple[Command, Lines]:
    """The compiler to run and what makes its command lines."""
    if how is not True:
        command = (
            command_words(os.fspath(how))
            if isinstance(how, (str, os.PathLike))
            else tuple(map(str, how))
        )
        return _checked(language, kind, command, "compile=")
    own = command_words(os.environ.get(language.variable, ""))
    if own:
        return _checked(language, kind, own, f"${language.variable}")
    for name, lines in language.compilers.items():
        place = _found(language, name)
        if place:
            return (place,), lines
    places = [place for name in language.compilers for place in language.places.get(name, ())]
    tried = ", ".join((f"${language.variable}", *language.compilers, *places))
    raise ToolchainError(
        f"no compiler for {kind} code found: tried {tried}; install {language.install}, or name one in compile="
    )


def _found(language: Language, name: str) -> str | None:
    """The path of a compiler; None if it is not installed."""
    if name != "nvrtc" and (program := shutil.which(name)):
        return program
    for pattern in language.places.get(name, ()):
        for folder in ["/"] if pattern.startswith("/") else filter(None, sys.path):
            found = max(Path(folder).glob(pattern.lstrip("/")), key=_version, default=None)
            if found:
                return str(found)
    return None


def _version(path: Path) -> tuple[list[int], ...]:
    """The numbers in the name of a compiler and in its path: `cu13/lib/libnvrtc.so.13` is newer than
    `cuda_nvrtc/lib/libnvrtc.so.12`."""
    name, folder = ([int(n) for n in re.findall(r"\d+", t)] for t in (path.name, str(path.parent)))
    return name, folder


def _checked(language: Language, kind: str, command: Command, where: str) -> tuple[Command, Lines]:
    program = next((w for w in command if any(n in Path(w).name for n in language.compilers)), "")
    lines = next((m for n, m in language.compilers.items() if n in Path(program).name), None)
    if lines is None:
        raise BuildError(
            f"device_module: {where} {' '.join(command)!r} is no compiler of {kind} code that is known here; known are"
            f" {', '.join(language.compilers)}"
        )
    if lines is _nvrtc:
        library = _found(language, "nvrtc") if command == ("nvrtc",) else command[-1]
        if len(command) == 1 and library and Path(library).exists():
            return (library,), lines
    elif shutil.which(command[0]):
        return command, lines
    raise ToolchainError(
        f"{where} {command[0]} is not installed; install {language.install}", command=command
    )
