"""Which programs and files a compilation uses besides its text, and what tells that they are those of last time."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from mblob.binary.file_kind import ELF_MAGIC
from mblob.packager.compile.processes import Command, Job

Answer = TypeVar("Answer")
Run = Callable[[Sequence[str], Path], "tuple[int, str]"]

# Variables that compilers and the dynamic linker heed, by their beginnings.
_HEEDED = ("LD_", "GLIBC_", "GCC_", "COMPILER_PATH", "CCC_", "CLANG_", "LLVM_", "NVCC_", "CUDA_", "CICC_", "PTXAS_")
# What the programs behind a compiler may not be asked for: to run more code, or to read or write more, wherever the
# wish comes from (configuration, environment, a script in front of the compiler).
_MORE = (
    "-fplugin", "-fpass-plugin", "-load", "-iplugindir", "@", "-fprofile", "-fauto-profile", "-fbranch-prob",
    "-coverage", "-ftest-coverage", "-dependency-file", "-M", "--MD", "-debug-info-macro", "-g3", "-ggdb3",
)  # fmt: skip
_SETTING = re.compile(r"(\w+)=(.*)")
_BETWEEN_PATHS = re.compile(r"[=,:;@\s]")


def identity_of(file: Path) -> str:
    """What tells that a program or a file is the same as before; "" if it is not there."""
    try:
        s = file.stat()
    except OSError:
        return ""
    return f"{file} {s.st_dev} {s.st_ino} {s.st_size} {s.st_mtime_ns}"


def programs_of(command: Sequence[str]) -> Iterator[Path]:
    """The programs that a command names: the compiler, what stands in front of it, and what links to it lead to."""
    for word in command:
        if not word.startswith("-") and (found := shutil.which(word)):
            yield Path(os.path.realpath(found))


def heeded() -> list[str]:
    """The variables of the environment that decide what a compiler makes, as `name=value`."""
    return sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith(_HEEDED))


class Answers(Generic[Answer]):
    """What compilers said, kept in this process as long as the compiler and its environment stay the same."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Answer] = {}

    def of(self, command: Sequence[str], ask: Callable[[], Answer]) -> Answer:
        """The answer of a command, asked now if it was not before; what `ask` raises is not kept."""
        programs = map(identity_of, programs_of(command))
        state = (tuple(command), *programs, os.environ.get("PATH"), *heeded())
        if state not in self._known:
            self._known[state] = ask()
        return self._known[state]


def is_nvcc(compiler: Command) -> bool:
    """Whether a compiler is NVIDIA's, which has a command line of its own."""
    return any("nvcc" in Path(word).name for word in compiler)


def what_runs(job: Job, run: Run, cwd: Path) -> tuple[str, set[Path]] | None:
    """What a compilation is going to run, and the files which that names: programs, and others outside of `cwd`.

    The compiler tells without doing it. None if it does not, or if more code may run than it tells: plug-ins, or an
    assembler that is a script.
    """
    nvcc = is_nvcc(job.compiler)
    asked = _ask(job.compiler, "--dryrun" if nvcc else "-###", job.command[len(job.compiler) :], run, cwd)
    if asked is None:
        return None
    said, commands = asked
    if nvcc:
        for words in [words for words in commands if "-c" in words]:  # of the host's compiler
            behind = _ask((words[0],), "-###", words[1:], run, cwd)
            if behind is None:
                return None
            said += behind[0]
            commands += behind[1]
    files: set[Path] = set(programs_of(job.compiler))
    for words in commands:
        program = shutil.which(words[0])
        compiles = nvcc and ("-E" in words or "-c" in words)
        if program is None or any(word.startswith(_MORE) for word in words) or not (compiles or _is_elf(program)):
            return None
        files.add(Path(os.path.realpath(program)))
    for word in (*job.command, *heeded(), *(word for words in commands for word in words)):
        files.update(_files_in(word, cwd))
    return _without_temporary(said, cwd), files


def _ask(
    compiler: Command, question: str, words: Sequence[str], run: Run, cwd: Path
) -> tuple[str, list[list[str]]] | None:
    """What a compiler says that it would run; None if it cannot tell."""
    status, said = run((*compiler, question, *words), cwd)
    try:
        commands = list(_commands(said))
    except ValueError:
        return None
    return None if status or not commands else (said, commands)


def _commands(said: str) -> Iterator[list[str]]:
    """The command lines in what a compiler says: indented those of gcc and clang, behind a mark those of nvcc."""
    settings: dict[str, str] = {}
    for line in said.splitlines():
        if not line.startswith((" ", "#$ ")) or line == " (in-process)":  # which clang says of its own cc1
            continue
        line = line.removeprefix("#$").strip()
        if setting := _SETTING.fullmatch(line):
            settings[setting[1]] = setting[2]
            continue
        words = [_expanded(word, settings) for word in shlex.split(line.removesuffix("|"))]
        if words:
            found = shutil.which(words[0], path=settings.get("PATH"))
            yield [found or words[0], *words[1:]]


def _expanded(word: str, settings: Mapping[str, str]) -> str:
    return re.sub(r"\$(\w+)", lambda name: settings.get(name[1], name[0]), word)


def _is_elf(program: str) -> bool:
    try:
        with Path(program).open("rb") as file:
            return file.read(len(ELF_MAGIC)) == ELF_MAGIC
    except OSError:
        return False


def _files_in(word: str, cwd: Path) -> Iterator[Path]:
    """The files that a word names, outside of the working folder: `-x=/a`, `-x/a`, `/a,/b`, `@/a`."""
    for part in _BETWEEN_PATHS.split(word):
        at = part.find("/")
        path = Path(part[at:])
        if at >= 0 and cwd not in path.parents and path.is_file():
            yield path


def _without_temporary(said: str, cwd: Path) -> str:
    """The same for each run: names of files in the working folder that are not there are made up by the compiler."""
    return re.sub(
        re.escape(str(cwd)) + r"/([\w.-]+)",
        lambda found: found[0] if (cwd / found[1]).exists() else f"{cwd}/temporary",
        said,
    )
