"""What an object is a function of: the key under which it is kept, and compilations that have none.

The key is made of the preprocessed text, which has all headers in it; of what the compiler says that it is going to run
(`-###`: its version, its programs, the assembler too, and the options of each, also those from its configuration, its
environment and `-march=native`); and of which files the programs are, and all others that stand in those commands.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import mblob
from mblob.packager.compile.assembler_text import may_read_files
from mblob.packager.compile.processes import Command, Job
from mblob.packager.compile.programs import Run, heeded, identity_of, is_nvcc, what_runs

if TYPE_CHECKING:
    from hashlib import _Hash

_OWN_CACHE = ("ccache", "sccache")  # launchers that keep objects themselves
# Options by which a compilation reads or writes more than its text and its object, or hides it from the preprocessor.
_MORE_FILES = (
    "-M", "-Wp,", "-Xpreprocessor", "-Wa,", "-Xassembler", "-Xclang", "-save-temps", "--save-temps", "-fdump-", "-d",
    "-gsplit-dwarf", "--coverage", "-fprofile", "-ftest-coverage", "-fcoverage", "-fauto-profile", "-fbranch-prob",
    "-fstack-usage", "-fcallgraph-info", "-aux-info", "-fopt-info", "-fsave-optimization-record", "-fcs-profile",
    "-foptimization-record", "-fdirectives-only", "-frewrite-includes", "-fmodule", "-fcxx-modules", "-g3", "-ggdb3",
    "-fdebug-macro", "-ftime", "-Q", "-C", "-P", "-traditional", "-fpch", "-serialize-diagnostics",
    "--serialize-diagnostics", "-fdiagnostics-format=sarif-file", "-fembed-bitcode", "@",
    # Programs that run more, and files with further options.
    "-fplugin", "-fpass-plugin", "-wrapper", "-specs", "--specs", "--config", "-optf", "--options-file",
)  # fmt: skip

# The preprocessor puts this in place of the time: who uses it has no key. Options of the caller come later and win.
_TIME = "__mblob_time_of_compilation__"
_WITHOUT_TIME = tuple(f"-D{name}={_TIME}" for name in ("__TIME__", "__DATE__", "__TIMESTAMP__"))
# What follows the preprocessor. It would be left out anyway, but people look for these words.
_STAGES = ("-c", "-S", "-ptx", "-cubin", "-fatbin", "-emit-llvm")

_LINE_MARKER = re.compile(rb'^# \d+ "((?:[^"\\\n]|\\.)*)"([ \d]*)$', re.MULTILINE)
_SYSTEM = b"3"  # the flag of a system header in such a marker
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
        """Whether surely none of the files changed after a moment, in seconds of `time.time`."""
        try:
            changes = [file.stat() for file in self.files]
        except OSError:
            return False
        return all(s.st_ctime < moment - _blur(s) for s in changes)


def _blur(s: os.stat_result) -> float:
    """Seconds that a file's time of change may be too early by.

    Disks of this machine have its clock, which moves on at least every 10 ms; that a file system notes less than whole
    ticks of FAT shows in the digits. Others may have a server's clock.
    """
    local = os.major(s.st_dev) != 0
    return 0.05 if local and s.st_ctime_ns % 10_000_000 else 2.0


def key_of(job: Job, run: Run, cwd: Path) -> Key | None:
    """The key of what a compilation makes; None if it may depend on more than can be known.

    Args:
        run: runs a command in a folder and returns its exit status and what it printed.

    Raises:
        OSError: files in `cwd` cannot be read.
    """
    runs = what_runs(job, run, cwd)
    text = None if runs is None else _preprocessed(job, run, cwd)
    if runs is None or text is None or _depends_on_more(text):
        return None
    said, used = runs
    identities = "\n".join(sorted(identity_of(file) for file in used - {_source(text, cwd)}))
    here = os.fsencode(cwd)
    key = hashlib.sha256()
    for part in (mblob.__version__, shlex.join(job.command), said, identities, *heeded()):
        _add(key, _TEMPORARY.sub(b"temporary", part.encode(errors="surrogateescape").replace(here, b".")))
    _add(key, text.replace(here, b"."))
    return Key(key.hexdigest(), frozenset(_files_read(text, cwd)))


def _source(text: bytes, cwd: Path) -> Path:
    """The source, which all preprocessors name first. What is in it is in the text, whatever its times are."""
    first = _LINE_MARKER.search(text)
    return _named(first[1], cwd) if first else cwd


def _named(name: bytes, cwd: Path) -> Path:
    return cwd / os.fsdecode(name.replace(b"\\\\", b"\\"))


def _files_read(text: bytes, cwd: Path) -> Iterator[Path]:
    """The files whose text this is, but those in the working folder, which are ours."""
    for name in {marker[1] for marker in _LINE_MARKER.finditer(text)}:
        path = _named(name, cwd)
        if not name.startswith(b"<") and cwd not in (path, *path.parents):
            yield path


def _add(key: _Hash, part: bytes) -> None:
    key.update(len(part).to_bytes(8, "little") + part)


def _preprocessed(job: Job, run: Run, cwd: Path) -> bytes | None:
    """The text that is compiled; None if it cannot be had, which the compilation will say better."""
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
    texts = []
    try:
        for more in job.passes:
            command = (*job.compiler, *_quiet(job.compiler), *_WITHOUT_TIME, "-E", *words, *more)
            if run(command, cwd)[0]:
                return None
            texts.append((given or output).read_bytes())
    except FileNotFoundError:
        return None
    finally:
        output.unlink(missing_ok=True)
    return b"\n".join(texts)


def _quiet(compiler: Command) -> tuple[str, ...]:
    """Options for redefining what only the compiler should define."""
    quiet = "-Wno-builtin-macro-redefined"
    return ("-Xcompiler", quiet) if is_nvcc(compiler) else (quiet,)


def _depends_on_more(text: bytes) -> bool:
    """Whether the text of a source tells that its object depends on more: on the time, or on files read later."""
    if _TIME.encode() in text:
        return True
    if _HIDES.search(b"".join(_own_parts(text))):
        return True
    return may_read_files(_LINE_MARKER.sub(b"", text))


def _own_parts(text: bytes) -> Iterator[bytes]:
    """The parts of a preprocessed text that are not of system headers."""
    at, system = 0, False
    for marker in _LINE_MARKER.finditer(text):
        if not system:
            yield text[at : marker.start()]
        at, system = marker.end(), _SYSTEM in marker[2].split()
    if not system:
        yield text[at:]
