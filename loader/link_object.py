"""Object files, archives and tars of them, linked to a temporary library so that they can be
opened.

The packager has the real linking; this is what `load_module("x.o")` and `load_module("x.tar")`
need.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from mblob.binary import archive, tar
from mblob.binary.container import refuse_archive
from mblob.binary.elf import ElfFile
from mblob.binary.file_kind import AR_MAGIC, ELF_MAGIC, SNIFF_SIZE, linkable_kind
from mblob.bytes.mapping import map_file
from mblob.compilers import ProcessStart, as_by_default, first_error, include_flags
from mblob.errors import FormatError, IncompatibleError, ToolchainError
from mblob.interrupts import DeferredSignals
from mblob.source_suffixes import FORMAT_OF, LANGUAGE_OF, OF_C
from mblob.temporary import temporary_folder

OBJECT_SUFFIXES = (".o", ".obj", ".a")
# C++ first: objects may need its library
_COMPILERS = ("c++", "g++", "clang++", "cc", "gcc", "clang")


@contextmanager
def linked(path: str, shown: str) -> Iterator[str]:
    """A library made of the objects in `path`; it goes with the block.

    Args:
        shown: how errors call the file.

    Raises:
        FormatError: a tar without objects ("tar_empty"), or one whose member names leave it
            ("tar_path"); a damaged tar, archive or object.
        IncompatibleError: an object for another machine.
        ToolchainError: no compiler here, or it failed.
    """
    name = shown or "a file in memory"
    with DeferredSignals(), temporary_folder() as folder:
        inputs = _inputs(Path(path), name, folder)
        library = str(folder / "linked.so")
        _link(inputs, library, name)
        yield library


@contextmanager
def temporary_file(data: memoryview) -> Iterator[str]:
    """The bytes as a file; it goes with the block."""
    with DeferredSignals(), temporary_folder() as folder:
        path = folder / "source"
        path.write_bytes(data)
        yield str(path)


def _inputs(path: Path, name: str, folder: Path) -> list[str]:
    with path.open("rb") as file:
        kind = linkable_kind(file.read(SNIFF_SIZE))
    if kind == "tar":
        return _extract(path, name, folder)
    _check_object(path, name)
    if kind == "archive":
        return ["-Wl,--whole-archive", _placed(path, folder / "input.a"), "-Wl,--no-whole-archive"]
    return [_placed(path, folder / "input.o")]


def _placed(path: Path, target: Path) -> str:
    """The file under a name whose suffix tells the linker what it is."""
    target.symlink_to(path.resolve()) if not str(path).startswith("/proc/") else shutil.copyfile(
        path, target
    )
    return str(target)


def _extract(path: Path, name: str, folder: Path) -> list[str]:
    """Objects and sources of a tar, under names of our own."""
    data = tar.content(map_file(path), name)
    inputs: list[str] = []
    for i, (member, start, size) in enumerate(tar.files(data, name)):
        content = data[start : start + size]
        inputs += _extract_member(
            content, f"{name}({member})", Path(member).suffix, folder / str(i)
        )
    if not inputs:
        raise FormatError(
            f"{name}: no object file in the tar, expected at least one *.o", code="tar_empty"
        )
    return inputs


def _extract_member(content: memoryview, label: str, suffix: str, stem: Path) -> list[str]:
    """One member as words of the link command, [] if it is no object or source. `stem`: of the file
    to write."""
    refuse_archive(content, label)
    # Of sources: TVM puts devc.c into its tars.
    fmt = FORMAT_OF.get(suffix) or FORMAT_OF.get(suffix.lower())
    if content[:4] == ELF_MAGIC or suffix.lower() in OBJECT_SUFFIXES:
        # Whatever its name is: what looks at a tar tells objects by their bytes.
        target = stem.with_suffix(".o")
        words = [str(target)]
        _check_one(content, label)
        if linkable_kind(bytes(content[:SNIFF_SIZE])) != "object":
            raise FormatError(
                f"{label}: a shared library, expected objects; load it by itself", code="archive"
            )
    elif fmt is None or LANGUAGE_OF[fmt] not in OF_C:
        return []
    else:
        target = stem.with_suffix(f".{fmt}")
        # A C++ driver would take a .c file for C++.
        words = ["-x", LANGUAGE_OF[fmt], str(target), "-x", "none"]
    target.write_bytes(content)
    return words


_ELF_HEADER = 64  # bytes that hold the header of any ELF file


def _check_object(path: Path, name: str) -> None:
    """Check one object file, or the object files in an archive.

    Args:
        name: how errors call the file.

    Raises:
        FormatError: it is damaged.
        IncompatibleError: it is for another machine.
    """
    data = map_file(path)
    if not data:
        raise FormatError(
            f"{name}: an empty file, expected an object file", code="not_elf", offset=0
        )
    if data[:8] != AR_MAGIC:
        _check_one(data, name)
        return
    for label, member in archive.members(data, name):
        _check_one(member, label)


def _check_one(data: memoryview, name: str) -> None:
    elf = ElfFile(data, name)
    with Path("/proc/self/exe").open("rb") as file:
        own = ElfFile(memoryview(file.read(_ELF_HEADER)), "/proc/self/exe")
    if (elf.e_machine, elf.bits, elf.byte_order) != (own.e_machine, own.bits, own.byte_order):
        raise IncompatibleError(
            f"{name}: an object file for {_machine(elf)}, this machine is {_machine(own)}; compile it for this one"
        )
    for section in elf.sections:
        elf.contents(section)


def _machine(elf: ElfFile) -> str:
    return f"{elf.machine} ({elf.bits}-bit{', big endian' if elf.endian == 'big' else ''})"


def _compiler() -> list[str]:
    named = os.environ.get("CXX") or os.environ.get("CC")
    if named:
        return shlex.split(named)
    found = next((tool for tool in _COMPILERS if shutil.which(tool)), None)
    if found is None:
        raise ToolchainError(
            f"no compiler to link objects with; looked for {', '.join(_COMPILERS)}; set CC"
        )
    return [found]


def _link(inputs: Sequence[str], library: str, name: str) -> None:
    sources = any(Path(i).suffix in FORMAT_OF for i in inputs)
    command = [
        *_compiler(), "-shared", "-fPIC", *(["-O2", *include_flags(), "-DMBLOB_KERNEL"] if sources else []),
        "-o", library, *inputs, "-Wl,-Bsymbolic", "-Wl,-z,noexecstack", "-Wl,--as-needed", "-lm", "-lpthread",
    ]  # fmt: skip
    try:
        status, output = _run(command)
    except OSError as exc:
        raise ToolchainError(f"{name}: {command[0]} does not run: {exc}", command=command) from None
    # In a process that ignores SIGCHLD the status is lost, and reads as 0.
    if status or not os.path.exists(library):  # noqa: PTH110
        why = first_error(output, command) or f"exit status {status}"
        if "cc1plus" in output:  # gcc without that half of it
            why = f"no C++ compiler found: {why}; install g++, or set CXX"
        raise ToolchainError(
            f"{name}: {command[0]} could not link it: {why}",
            command=command,
            output=output,
        )


def _run(command: Sequence[str]) -> tuple[int, str]:
    """Exit status and everything printed. Whatever interrupts this ends the compiler and all that
    it started."""
    starting = ProcessStart(
        lambda: subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "LC_ALL": "C"},
            preexec_fn=as_by_default(),
        )
    )
    try:
        process = starting.wait()
        assert process is not None
        output, _ = process.communicate()
    except BaseException:
        if begun := starting.begun():
            # else it was waited for: its number may be another's by now
            if begun.returncode is None:
                with suppress(OSError):
                    os.killpg(begun.pid, signal.SIGKILL)
                begun.wait()
            if begun.stdout is not None:
                begun.stdout.close()
        raise
    return process.returncode, output.decode(errors="replace")
