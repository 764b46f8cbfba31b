"""The compilers: found, and asked what they are for."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Generic, TypeVar

from mblob.arguments import wrong_type
from mblob.binary.file_kind import ELF_MAGIC
from mblob.errors import IncompatibleError, ToolchainError
from mblob.named_tuple import NamedTuple
from mblob.packager.compile.processes import Command, Processes, check_space, check_written, failure
from mblob.packager.conventions import check_options
from mblob.packager.errors import BuildError, BuildTypeError
from mblob.packager.options import NEEDS_PIC, NEEDS_STACK, asks_for_stack, split
from mblob.packager.path_arguments import workspace

C_COMPILERS = ("cc", "gcc", "clang")
CXX_COMPILERS = ("c++", "g++", "clang++")
# words that may stand before a compiler
_LAUNCHERS = ("ccache", "distcc", "sccache", "icecc", "env", "nice")


# Variables that compilers and the dynamic linker heed, by their beginnings.
_HEEDED = ("LD_", "GLIBC_", "GCC_", "COMPILER_PATH", "CCC_", "CLANG_", "LLVM_")

Answer = TypeVar("Answer")


class CompilerAnswers(Generic[Answer]):
    """The answers of compilers, kept in this process as long as the compiler and its environment
    stay the same."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Answer] = {}

    def of(self, command: Sequence[str], ask: Callable[[], Answer]) -> Answer:
        """The answer of a command, asked now if it was not before; what `ask` raises is not
        kept."""
        variables = sorted(item for item in os.environ.items() if item[0].startswith(_HEEDED))
        state = (tuple(command), *programs_of(command), os.environ.get("PATH"), *variables)
        if state not in self._known:
            self._known[state] = ask()
        return self._known[state]


def programs_of(command: Sequence[str]) -> Iterator[tuple[object, ...]]:
    """The path, device, inode, size and time of each program of a command: the compiler, and any in
    front of it. These tell programs of one name apart."""
    for word in command:
        if not word.startswith("-") and (found := shutil.which(word)):
            path = Path(found).resolve()
            s = path.stat()
            yield path, s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns


# With these words, compilers link an object (crtfastmath.o, crtprec32.o) whose constructor changes the control words
# of floating-point arithmetic in the whole program that loads the library. Code is compiled with them.
_CHANGE_START_UP = {
    "-ffast-math": "",
    "-funsafe-math-optimizations": "",
    "-Ofast": "-O3",
    "-mdaz-ftz": "",
    "-mpc32": "",
    "-mpc64": "",
    "-mpc80": "",
}


def _without_start_up(command: Sequence[str]) -> list[str]:
    """A link command without words that change what runs when the library is loaded."""
    return [w for word in command if (w := _CHANGE_START_UP.get(word, word))]


class Toolchain:
    """A C compiler and its companions.

    Attributes:
        cc: the command of the C compiler, with the words a caller put behind its name.
    """

    def __init__(self, cc: Command, triple: str | None = None) -> None:
        self.cc = cc
        if triple is not None:
            self.triple = triple

    @cached_property
    def triple(self) -> str:
        """The target it compiles for, as it says itself when it is asked.

        Raises:
            ToolchainError: it says none.
        """
        return _dumpmachine(self.cc)

    @cached_property
    def cxx(self) -> Command:
        """The C++ compiler of the same family, or else of the same target.

        Raises:
            ToolchainError: there is none.
        """
        siblings = cxx_siblings(self.cc)
        for command in siblings:
            if _runs(command):
                return command
        for name in CXX_COMPILERS:
            if shutil.which(name) and same_target(_dumpmachine((name,)), self.triple):
                return (name,)
        tried = ", ".join(dict.fromkeys([*map(" ".join, siblings), *CXX_COMPILERS]))
        raise ToolchainError(
            f"no C++ compiler found beside {' '.join(self.cc)}: tried $CXX, {tried}; for {self.triple} install g++, or"
            " set $CXX"
        )

    @cached_property
    def nvcc(self) -> Command:
        """The CUDA compiler.

        Raises:
            ToolchainError: there is none.
        """
        command = command_words(os.environ.get("NVCC", "")) or ("nvcc",)
        if not shutil.which(command[0]):
            raise ToolchainError(
                f"no CUDA compiler found: {command[0]} is not installed; a .cu source needs nvcc ($NVCC)"
            )
        return command

    @cached_property
    def fc(self) -> Command:
        """The Fortran compiler: $FC, or the gfortran of the same target.

        Raises:
            ToolchainError: there is none.
        """
        own = command_words(os.environ.get("FC", ""))
        if own and not _runs(own):
            raise ToolchainError(
                f"$FC: no Fortran compiler {own[0]!r} found; install it or name another"
            )
        candidates = [*([own] if own else []), *_gfortrans(self.cc), (f"{self.triple}-gfortran",)]
        for command in (*candidates, ("gfortran",)):
            if _runs(command) and same_target(_dumpmachine(command), self.triple):
                return command
        tried = ", ".join(dict.fromkeys([*map(" ".join, candidates), "gfortran"]))
        raise ToolchainError(
            f"no Fortran compiler found beside {' '.join(self.cc)}: tried $FC, {tried}; for {self.triple} install"
            " gfortran, or set $FC"
        )

    @cached_property
    def is_gfortran(self) -> bool:
        """True if the Fortran compiler is gfortran, whatever its name is."""
        name = Path(self.fc[_compiler_word(self.fc)]).name
        if "gfortran" in name:
            return True
        return Processes().run((*self.fc, "--version"))[1].startswith("GNU Fortran")

    @cached_property
    def fortran_libraries(self) -> list[str]:
        """Words of a link for the libraries of gfortran."""
        found = Processes().run((*self.fc, "-print-file-name=libgfortran.so"))[1].strip()
        folder = os.path.dirname(os.path.normpath(found))  # noqa: PTH120
        more = ["-lquadmath"] if folder and Path(folder, "libquadmath.so").exists() else []
        return [*([f"-L{folder}"] if folder else []), "-lgfortran", *more]

    def compiler(self, language: str) -> Command:
        """The compiler of a language.

        Raises:
            ToolchainError: there is none.
        """
        if language == "c++":
            return self.cxx
        return self.fc if language == "fortran" else self.cc

    @property
    def cuda_folders(self) -> list[str]:
        """Folders of the libraries of `nvcc`. It may be a script, so it is asked."""
        _, output = Processes().run((*self.nvcc, "--dryrun", "-x", "cu", os.devnull))
        found = re.search(r"^#\$ LIBRARIES=(.*)$", output, re.MULTILINE)
        home = Path(shutil.which(self.nvcc[0]) or "").resolve().parent.parent
        return re.findall(r'"-L([^"]+)"', found[1]) if found else [f"{home}/lib64", f"{home}/lib"]

    def link(
        self,
        command: Sequence[str],
        cwd: Path,
        labels: Mapping[str, str] = MappingProxyType({}),
        meanwhile: Callable[[], object] = lambda: None,
    ) -> None:
        """Run a link command.

        Args:
            labels: what messages call inputs.
            meanwhile: called while it runs.

        Raises:
            ToolchainError: it failed.
            BuildError: the linker says that the code needs an executable stack.
        """
        command = _without_start_up(command)
        status, output = Processes().run(command, cwd, meanwhile)
        if status:
            check_space(command, output, cwd)
            if culprit := _without_pic(command, output, cwd):
                raise BuildError(f"{labels.get(culprit, culprit)}: {NEEDS_PIC}")
            said = failure(output, status, command)
            raise ToolchainError(f"the link failed: {said}", command=command, output=output)
        if re.search(_NEEDS_STACK, output) and not asks_for_stack(
            command
        ):  # as mold says, which writes none
            raise BuildError(f"what is linked: {NEEDS_STACK}")
        written = check_written(command, output, cwd, "the link failed")
        if written is not None and written.suffix == ".so":
            with written.open("rb") as file:
                if file.read(4) != ELF_MAGIC:
                    raise ToolchainError(
                        "the link failed: its output is no ELF file", command=command, output=output
                    )

    def linker(self, options: Sequence[str], cwd: Path) -> Linker:
        """The linker that the compiler uses with these options."""
        _, output = Processes().run((*self.cc, *options, "-Wl,--version"), cwd)
        for pattern, name in _LINKERS:
            if found := re.search(pattern, output, re.MULTILINE):
                return Linker(name, found[1])
        return Linker("", "")


def _without_pic(command: Sequence[str], output: str, cwd: Path) -> str:
    """The input of a link of which the linker says that its code depends on its address; "" if none."""
    if not re.search(_NEEDS_PIC, output):
        return ""
    inputs = [word for word in command if word.endswith((".o", ".a"))]
    named = [word for word in inputs if word in output]
    if not named:  # gold names none, others only those with symbols
        from mblob.packager.objects.fixed_addresses import has_fixed_addresses

        named = [word for word in inputs if has_fixed_addresses(cwd / word)]
    return named[0] if named else "an input of the link"


_NEEDS_PIC = r"recompile with -fPIC|read-only segment has dynamic relocations"
# "x.o: requires executable stack (because ...)", "x.o: ... it requires an executable stack."
_NEEDS_STACK = r"requires (?:an )?executable stack"
# What linkers answer to --version; compilers print their own command line around it.
_LINKERS = (
    (r"^mold (\d[\d.]*)", "mold"),
    (r"^(?:\w+ )?LLD (\d[\d.]*)", "lld"),
    (r"^GNU gold .*?(\d[\d.]*)$", "gold"),
    (r"^GNU ld .*?(\d[\d.]*)$", "bfd"),
)


class Linker(NamedTuple):
    """A linker, as it says itself.

    Attributes:
        name: "bfd", "gold", "lld", "mold", or "" if it is another.
        version: such as "14.0.6", "" if it does not say.
    """

    name: str
    version: str

    @property
    def major(self) -> int:
        """The first number of the version, 0 if there is none."""
        return int(self.version.split(".")[0] or 0)

    def __str__(self) -> str:
        return f"{self.name or 'the linker'} {self.version}".rstrip()


def cxx_siblings(cc: Command) -> list[Command]:
    """Commands of the C++ side of a C compiler, likeliest first; of a C++ compiler it is the
    compiler itself."""
    found: list[Command] = []
    if cc[0] in C_COMPILERS and os.environ.get("CXX"):
        found.append(command_words(os.environ["CXX"]))
    at = _compiler_word(cc)
    head, slash, base = cc[at].rpartition("/")
    if "++" in base:
        return [cc]
    for c, cxx in (("clang", "clang++"), ("gcc", "g++")):
        if c in base:
            found.append((*cc[:at], head + slash + cxx.join(base.rsplit(c, 1)), *cc[at + 1 :]))
    if base.endswith("cc") and "gcc" not in base:
        found.append((*cc[:at], head + slash + base[:-2] + "c++", *cc[at + 1 :]))
    return found


def _gfortrans(cc: Command) -> list[Command]:
    """Commands of the gfortran beside a gcc."""
    at = _compiler_word(cc)
    head, slash, base = cc[at].rpartition("/")
    if "gcc" not in base:
        return []
    return [(*cc[:at], head + slash + "gfortran".join(base.rsplit("gcc", 1)), *cc[at + 1 :])]


def _compiler_word(command: Command) -> int:
    """Index of the word that names the compiler: launchers and what belongs to them come before
    it."""
    for i, word in enumerate(command):
        if Path(word).name not in _LAUNCHERS and not word.startswith("-") and "=" not in word:
            return i
    return 0


def command_words(text: str | Sequence[str], folder: Path | None = None) -> Command:
    """The words of a command. Programs given by a relative path are the caller's, who stands in
    another folder than the one we compile in.

    Args:
        folder: what paths are relative to; by default the working directory.

    Raises:
        BuildError: a quotation that does not end, or what is no command.
    """
    if not isinstance(text, Sequence) or not all(isinstance(word, str) for word in text):
        raise wrong_type("export_library", "cc", "str, or a list of str", text, BuildTypeError)
    words = split(text, f"the command {text!r}") if isinstance(text, str) else list(text)
    base = Path.cwd() if folder is None else folder.absolute()
    for i in {0, _compiler_word(tuple(words))} if words else ():
        # PATH may have relative folders
        found = words[i] if os.sep in words[i] else shutil.which(words[i])
        if found and not Path(found).is_absolute():
            words[i] = str((base if os.sep in words[i] else Path.cwd()) / found)
    return tuple(words)


def _runs(command: Command) -> bool:
    """True if all programs that a command names are there."""
    return bool(command) and all(
        shutil.which(word) for word in (command[0], command[_compiler_word(command)])
    )


def find(cc: str | Sequence[str] | None = None, target: str | None = None) -> Toolchain:
    """The compiler to use.

    Args:
        cc: a command ("aarch64-linux-gnu-gcc", "ccache gcc", "clang --target=..."); by default $CC,
            then cc, gcc, clang; for a target that is not theirs `<target>-gcc`, `clang
            --target=<target>`.
        target: a triple that the compiler must compile for.

    Raises:
        BuildError: one of them is no text.
        ToolchainError: no compiler.
        IncompatibleError: `cc` compiles for another target.
    """
    if target is not None and not isinstance(target, str):
        raise wrong_type("export_library", "target", "str", target, BuildTypeError)
    if cc is not None:
        return _checked(command_words(cc), target, "cc=")
    own = command_words(os.environ.get("CC", ""))
    if own and not target:
        return _checked(own, None, "$CC")
    tried: list[Command] = [c for c in (own, *((name,) for name in C_COMPILERS)) if c]
    if target:
        tried = [*tried, (f"{target}-gcc",), (f"{target}-cc",), ("clang", f"--target={target}")]
    for command in tried:
        if shutil.which(command[0]):
            if not target:
                return Toolchain(command)
            triple = _dumpmachine(command)
            if same_target(triple, target) and (
                command[0] != "clang" or _compiles(command, triple)
            ):
                return Toolchain(command, triple)
    raise ToolchainError(
        f"no C compiler found{f' for {target}' if target else ''}: tried $CC, {', '.join(map(' '.join, tried))};"
        f" install {_package(target) if target else 'one'}, or pass cc="
    )


def _checked(command: Command, target: str | None, where: str) -> Toolchain:
    if not command or not shutil.which(command[0]):
        name = command[0] if command else "(empty)"
        raise ToolchainError(
            f"{where}: no C compiler {name!r} found; install it or name another", command=command
        )
    check_options(command[1:], where)
    if Path(command[_compiler_word(command)]).name in _LAUNCHERS:
        raise ToolchainError(
            f"{where}: {' '.join(command)}: no compiler behind {command[0]}; add one, such as"
            f" {' '.join(command)} gcc",
            command=command,
        )
    if not target:
        return Toolchain(command)
    triple = _dumpmachine(command)
    is_clang = "clang" in Path(command[_compiler_word(command)]).name
    if not same_target(triple, target):
        if not is_clang:
            raise IncompatibleError(
                f"{' '.join(command)} compiles for {triple}, target= asks for {target}; pass cc= of a compiler for"
                f" {target}"
            )
        command, triple = (*command, f"--target={target}"), target
    if is_clang and not _compiles(command, triple):
        raise ToolchainError(
            f"no C compiler for {target}: {' '.join(command)} finds no C library for it; install {_package(target)}, or"
            " pass --sysroot in cc=",
            command=command,
        )
    return Toolchain(command, triple)


def _package(target: str) -> str:
    """The package of Debian that has a compiler for a target."""
    is_native = target.startswith(f"{os.uname().machine}-")
    return "musl-tools" if is_native and "musl" in target else f"gcc-{target}"


def _compiles(command: Command, target: str) -> bool:
    """True if a compiler has the headers that C sources need: clang takes any target, with or
    without headers for it, and reads those of this machine's C library for musl."""
    other = "defined(__GLIBC__)" if "musl" in target else "0"

    def ask() -> bool:
        with workspace(None) as folder:
            (folder / "probe.c").write_text(
                "#include <stdint.h>\n#include <stdlib.h>\n#include <string.h>\n"
                f"#if {other}\n#error\n#endif\n"
            )
            status, _ = Processes().run((*command, "-c", "probe.c", "-o", "probe.o"), folder)
        return status == 0

    return _complete.of(command, ask)


def _dumpmachine(command: Command) -> str:
    """The target of a compiler. Wrappers for musl, such as musl-gcc, run a compiler that names another C library."""

    def ask() -> str:
        status, output = Processes().run((*command, "-dumpmachine"))
        words = output.split()
        if status or not words:
            raise ToolchainError(
                f"{' '.join(command)}: is no working C compiler: -dumpmachine says {failure(output, status, command)}",
                command=(*command, "-dumpmachine"),
                output=output,
            )
        is_for_musl = "musl" in Path(command[_compiler_word(command)]).name
        return words[-1].replace("-gnu", "-musl") if is_for_musl else words[-1]

    return _machines.of(command, ask)


_complete: CompilerAnswers[bool] = CompilerAnswers()
_machines: CompilerAnswers[str] = CompilerAnswers()


def same_target(a: str, b: str) -> bool:
    """True if two triples mean one target: the vendor is left out, x86's 32-bit generations are
    one."""

    def key(triple: str) -> tuple[str, ...]:
        parts = triple.split("-")
        arch = "i386" if parts[0] in ("i386", "i486", "i586", "i686") else parts[0]
        arch = {"amd64": "x86_64", "arm64": "aarch64"}.get(arch, arch)
        rest = [
            p
            for p in parts[1:]
            if p not in ("pc", "unknown", "none", "redhat", "suse", "w64", "alpine")
        ]
        return (arch, *rest)

    return key(a) == key(b)
