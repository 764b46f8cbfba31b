"""What an object is a function of: the key under which it is kept, and compilations that have none.

The key is made of the preprocessed text, which has all headers in it; of what the compiler says that it runs for the
command line (`-v`: its version, its program and the options of that, also those from its configuration, its environment
and `-march=native`); and of which files the programs are.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import mblob
from packager.processes import Command, Job, Processes

if TYPE_CHECKING:
    from hashlib import _Hash

Run = Callable[[Sequence[str], Path], "tuple[int, str]"]

_OWN_CACHE = ("ccache", "sccache")  # launchers that keep objects themselves
# Options by which a compilation reads or writes more than its text and its object, or hides it from the preprocessor.
_MORE_FILES = (
    "-M", "-Wp,", "-Xpreprocessor", "-Wa,", "-Xassembler", "-Xclang", "-save-temps", "--save-temps", "-fdump-", "-d",
    "-gsplit-dwarf", "--coverage", "-fprofile", "-ftest-coverage", "-fcoverage", "-fauto-profile", "-fbranch-prob",
    "-fstack-usage", "-fcallgraph-info", "-aux-info", "-fopt-info", "-fsave-optimization-record", "-fcs-profile",
    "-foptimization-record", "-fdirectives-only", "-frewrite-includes", "-fmodule", "-fcxx-modules", "-g3", "-ggdb3",
    "-fdebug-macro", "-ftime", "-Q", "-C", "-P", "-traditional", "-fpch", "-serialize-diagnostics",
    "--serialize-diagnostics", "-fdiagnostics-format=sarif-file", "-fembed-bitcode", "@",
)  # fmt: skip

# The preprocessor puts this in place of the time: who uses it has no key. Options of the caller come later and win.
_TIME = "__mblob_time_of_compilation__"
_WITHOUT_TIME = tuple(f"-D{name}={_TIME}" for name in ("__TIME__", "__DATE__", "__TIMESTAMP__"))
# What follows the preprocessor. It would be left out anyway, but people look for these words.
_STAGES = ("-c", "-S", "-ptx", "-cubin", "-fatbin", "-emit-llvm")

_LINE_MARKER = re.compile(rb'^# \d+ "((?:[^"\\\n]|\\.)*)"([ \d]*)$', re.MULTILINE)
_SYSTEM = b"3"  # the flag of a system header in such a marker
_ASM = re.compile(rb"\b(?:__asm__|__asm|asm)\b")
_ASM_TEXT = re.compile(rb'[\sa-z_]*\(\s*((?:"(?:[^"\\\n]|\\.)*"\s*)+)[:)]')
# Of assembler: what reads a file, what could put such a word together, and escapes of C that could spell one.
_ASM_MORE = re.compile(rb"incbin|\.include|macro|\.irp|\\[xuU0-7]", re.IGNORECASE)
_HIDES = re.compile(
    # Behind these gcc before 13 compiles what it did not preprocess (macros like __AVX2__).
    rb"^[ \t]*#[ \t]*pragma[ \t]+(?:GCC|clang)[ \t]+(?:target|optimize|push_options|pop_options|reset_options)\b"
    # Files that are read later.
    rb"|^[ \t]*#[ \t]*(?:include|import|pragma[ \t]+GCC[ \t]+pch_preprocess)\b"
    rb"|^[ \t]*#[ \t]*embed\b(?!.*__gnu__::__base64__)",
    re.MULTILINE,
)
_TEMPORARY = re.compile(rb"tmpxft_[0-9a-f]+_[0-9a-f]+")  # files of nvcc, which have its process in their names


def can_have_key(job: Job) -> bool:
    """Whether a compilation may be a function of its text, as far as its command line tells."""
    if not job.compiler or Path(job.compiler[0]).name in _OWN_CACHE:
        return False
    return not any(word.startswith(_MORE_FILES) for word in job.command[len(job.compiler) :])


@dataclass(frozen=True)
class Key:
    """What an object is a function of.

    Attributes:
        name: in hexadecimal digits.
        files: that the preprocessor read.
    """

    name: str
    files: frozenset[Path]

    def is_older_than(self, moment: float) -> bool:
        """Whether none of the files changed after a moment, in seconds of `time.time`."""
        try:
            return all(file.stat().st_ctime < moment for file in self.files)
        except OSError:
            return False


def key_of(job: Job, run: Run, cwd: Path) -> Key | None:
    """The key of what a compilation makes; None if it may depend on more than can be known.

    Args:
        run: runs a command in a folder and returns its exit status and what it printed.

    Raises:
        OSError: files in `cwd` cannot be read.
    """
    seen = _preprocessed(job, run, cwd)
    if seen is None or _depends_on_more(seen[0]):
        return None
    text, said = seen
    read = frozenset(_files_read(text, cwd))  # what is in them is in the text, whatever their times are
    used = dict.fromkeys((*_programs(job.compiler), *_assembler(job.compiler), *_files_in(said, cwd)))
    identities = "\n".join(filter(None, (_identity(file) for file in used if file not in read)))
    here = os.fsencode(cwd)
    key = hashlib.sha256()
    for part in (mblob.__version__, shlex.join(job.command), said, identities):
        _add(key, _TEMPORARY.sub(b"temporary", part.encode(errors="surrogateescape").replace(here, b".")))
    _add(key, text.replace(here, b"."))
    return Key(key.hexdigest(), read)


def _files_read(text: bytes, cwd: Path) -> Iterator[Path]:
    """The files whose text this is, but those in the working folder, which are ours."""
    for name in {marker[1] for marker in _LINE_MARKER.finditer(text)}:
        path = cwd / os.fsdecode(name.replace(b"\\\\", b"\\"))
        if not name.startswith(b"<") and cwd not in (path, *path.parents):
            yield path


def _add(key: _Hash, part: bytes) -> None:
    key.update(len(part).to_bytes(8, "little") + part)


def _preprocessed(job: Job, run: Run, cwd: Path) -> tuple[bytes, str] | None:
    """The text that is compiled, and what the compiler says that it runs for it (`-v`)."""
    words = list(job.command[len(job.compiler) :])
    name = f"{job.output}.key"
    words[len(words) - words[::-1].index("-o")] = name  # the caller's options come first
    given = None
    if "cpp-output" in job.command or "c++-cpp-output" in job.command:
        at = words.index("-c") + 1
        given = cwd / words[at]
        words[at] = os.devnull
        words[at - 2] = "c++" if words[at - 2].startswith("c++") else "c"
    words = [word for word in words if word not in _STAGES]
    output = cwd / name
    texts, answers = [], []
    try:
        for more in job.passes:
            command = (*job.compiler, *_quiet(job.compiler), *_WITHOUT_TIME, "-v", "-E", *words, *more)
            status, said = run(command, cwd)
            if status:
                return None
            texts.append((given or output).read_bytes())
            answers.append(said)
    except FileNotFoundError:
        return None
    finally:
        output.unlink(missing_ok=True)
    return b"\n".join(texts), "\n".join(answers)


def _quiet(compiler: Command) -> tuple[str, ...]:
    """Options for redefining what only the compiler should define."""
    quiet = "-Wno-builtin-macro-redefined"
    return ("-Xcompiler", quiet) if any("nvcc" in Path(word).name for word in compiler) else (quiet,)


@cache
def _assembler(compiler: Command) -> tuple[Path, ...]:
    """The assembler that a compiler would start. Only compilers that start one of that name have it."""
    status, said = Processes().run((*compiler, "-print-prog-name=as"))
    found = shutil.which(said.strip()) if not status and said.strip() else None
    return (Path(os.path.realpath(found)),) if found else ()


def _identity(file: Path) -> str:
    """What tells that a program or a file is the same as before; "" if it is not there."""
    try:
        s = file.stat()
    except OSError:
        return ""
    return f"{file} {s.st_dev} {s.st_ino} {s.st_size} {s.st_mtime_ns}"


def _programs(command: Command) -> Iterator[Path]:
    """The programs that a command names: the compiler, what stands in front of it, and what links to it lead to."""
    for word in command:
        if not word.startswith("-") and (found := shutil.which(word)):
            yield Path(os.path.realpath(found))


def _files_in(said: str, cwd: Path) -> Iterator[Path]:
    """The files that the compiler says it uses, outside of the working folder: programs, plug-ins, bitcode."""
    for line in said.splitlines():
        if not line.startswith((" ", "#$ ")):
            continue
        try:
            words = shlex.split(line.removeprefix("#$"))
        except ValueError:
            continue
        if words and (found := shutil.which(words[0])):
            yield Path(os.path.realpath(found))
        for word in words[1:]:
            path = Path(word.rpartition("=")[2])
            if path.is_absolute() and cwd not in path.parents and path.is_file():
                yield path


def _depends_on_more(text: bytes) -> bool:
    """Whether the text of a source tells that its object depends on more: on the time, or on files read later."""
    if _TIME.encode() in text:
        return True
    own = b"".join(_own_parts(text))
    if _HIDES.search(own):
        return True
    plain = _LINE_MARKER.sub(b"", text)
    for found in _ASM.finditer(plain):
        strings = _ASM_TEXT.match(plain, found.end())
        if strings is None or _ASM_MORE.search(re.sub(rb'"\s*"', b"", strings[1].replace(rb"\\", b"/"))):
            return True
    return False


def _own_parts(text: bytes) -> Iterator[bytes]:
    """The parts of a preprocessed text that are not of system headers."""
    at, system = 0, False
    for marker in _LINE_MARKER.finditer(text):
        if not system:
            yield text[at : marker.start()]
        at, system = marker.end(), _SYSTEM in marker[2].split()
    if not system:
        yield text[at:]
